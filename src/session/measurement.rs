//! The same tokens again without the KV cache: which passes are timed, and how long they took.
//!
//! A pass belongs to the ids, the model and the device that it was made with. What is measured stays while the text
//! is edited, and counts for as many tokens as the text still shares with it; another model, or the same one on
//! another device, begins anew.

use std::collections::BTreeMap;

use super::Session;
use crate::worker::{Command, MeasureRequest};

/// The lengths whose times are set against each other, and how many passes each of them gets.
pub const RATIO_LENGTHS: [usize; 2] = [10, 60];
pub const RATIO_PASSES: usize = 5;

/// Where a measurement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MeasurementState {
    /// Passes are being made, whenever the worker has nothing else to do.
    Running {
        done: usize,
        planned: usize,
    },
    Done,
    /// By the user, or because the text became another.
    Cancelled,
    /// The device's own words.
    Failed(String),
}

/// Timed passes without the KV cache over the beginnings of one sequence.
#[derive(Clone, Debug)]
pub struct Measurement {
    id: u64,
    ids: Vec<u32>,
    /// Milliseconds of every pass, by the number of tokens it took.
    passes: BTreeMap<usize, Vec<f64>>,
    pub state: MeasurementState,
}

impl Measurement {
    /// The median of the passes over this many tokens, in milliseconds, and how many passes there were.
    pub fn median_ms(&self, tokens: usize) -> Option<(f64, usize)> {
        let passes = self.passes.get(&tokens)?;
        Some((median(passes)?, passes.len()))
    }

    /// How many passes over this many tokens have been made.
    fn made(&self, tokens: usize) -> usize {
        self.passes.get(&tokens).map_or(0, Vec::len)
    }

    /// How many of its first tokens a context shares with the measured one.
    fn shared(&self, context: &[u32]) -> usize {
        let same = |(a, b): &(&u32, &u32)| a == b;
        self.ids.iter().zip(context).take_while(same).count()
    }

    /// The passes that are still to be made over the first `first` to `len` tokens: those that are set against each
    /// other in turns, then one a length, from coarse to fine. Where none is left, one more of each.
    fn plan(&self, first: usize, len: usize) -> Vec<usize> {
        let ratio = RATIO_LENGTHS
            .into_iter()
            .filter(|_| RATIO_LENGTHS.iter().all(|&length| length <= len));
        let mut plan = Vec::new();
        for round in 0..RATIO_PASSES {
            plan.extend(ratio.clone().filter(|&tokens| self.made(tokens) <= round));
        }
        let curve = coarse_to_fine(first..len + 1);
        let missing = |tokens: &usize| self.made(*tokens) == 0 && !plan.contains(tokens);
        let missing: Vec<_> = curve.iter().copied().filter(missing).collect();
        plan.extend(missing);
        if plan.is_empty() { curve } else { plan }
    }
}

/// The value in the middle; of an even number, the mean of the two there. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
    }
}

/// All of a range, its ends first and then always what halves the gaps: any beginning of it covers the whole.
fn coarse_to_fine(range: std::ops::Range<usize>) -> Vec<usize> {
    let len = range.len();
    let mut order: Vec<_> = range.clone().last().into_iter().collect();
    let mut taken = vec![false; len];
    if let Some(last) = taken.last_mut() {
        *last = true;
    }
    let mut stride = len.next_power_of_two();
    while stride > 0 {
        for at in (0..len).step_by(stride) {
            if !std::mem::replace(&mut taken[at], true) {
                order.push(range.start + at);
            }
        }
        stride /= 2;
    }
    order
}

impl Session {
    /// What has been measured without the KV cache with this model, if anything.
    pub fn measurement(&self) -> Option<&Measurement> {
        self.measurement.as_ref()
    }

    /// How many first tokens of the context what was measured speaks of.
    pub(super) fn measured_len(&self) -> usize {
        let shared = |measurement: &Measurement| measurement.shared(self.context_ids());
        self.measurement.as_ref().map_or(0, shared)
    }

    /// Why nothing can be measured now, if so.
    pub fn cannot_measure(&self) -> Option<&'static str> {
        match () {
            () if self.loading.is_some() => Some("A model is being loaded."),
            () if self.model.is_none() => Some("No model is loaded."),
            () if self.toy().is_some() => Some("A toy computes nothing: its numbers are typed."),
            () if self.path.is_empty() => Some("The text is empty."),
            () if self.is_too_long() => Some("The text is longer than the context."),
            () => None,
        }
    }

    /// The token ids in the context; none of an empty text.
    pub(super) fn context_ids(&self) -> &[u32] {
        &self.ids[self.context_start()..]
    }

    /// Asks for the passes that the text lacks.
    pub(super) fn measure_uncached(&mut self) -> Vec<Command> {
        if self.cannot_measure().is_some() {
            return Vec::new();
        }
        let context = self.context_ids().to_vec();
        let mut passes = BTreeMap::new();
        self.measurement_id += 1;
        let id = self.measurement_id;
        if let Some(old) = self.measurement.take() {
            let shared = old.shared(&context);
            passes = old.passes;
            passes.retain(|&tokens, _| tokens <= shared);
        }
        let mut measurement = Measurement {
            id,
            ids: context.clone(),
            passes,
            state: MeasurementState::Done,
        };
        let lengths = measurement.plan(self.first_step(), context.len());
        measurement.state = MeasurementState::Running {
            done: 0,
            planned: lengths.len(),
        };
        self.measurement = Some(measurement);
        vec![Command::MeasureUncached(MeasureRequest {
            id,
            context,
            lengths,
        })]
    }

    pub(super) fn cancel_measurement(&mut self) -> Vec<Command> {
        match &mut self.measurement {
            Some(Measurement { state, .. })
                if matches!(state, MeasurementState::Running { .. }) =>
            {
                *state = MeasurementState::Cancelled;
                vec![Command::CancelMeasurement]
            }
            _ => Vec::new(),
        }
    }

    /// Ends the measurement of a text that is there no longer. One that is only continued goes on.
    pub(super) fn check_measurement(&mut self) -> Vec<Command> {
        let context = self.context_ids();
        match &self.measurement {
            Some(measurement) if measurement.shared(context) < measurement.ids.len() => {
                self.cancel_measurement()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn on_measured(&mut self, id: u64, tokens: usize, model_ms: f64) {
        let Some(measurement) = self.measurement.as_mut().filter(|found| found.id == id) else {
            return;
        };
        measurement.passes.entry(tokens).or_default().push(model_ms);
        if let MeasurementState::Running { done, planned } = &mut measurement.state {
            *done += 1;
            if done >= planned {
                measurement.state = MeasurementState::Done;
            }
        }
    }

    pub(super) fn on_measurement_failed(&mut self, id: u64, message: String) {
        if let Some(measurement) = self.measurement.as_mut().filter(|found| found.id == id) {
            measurement.state = MeasurementState::Failed(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_beginning_of_the_plan_covers_the_whole_range() {
        let order = coarse_to_fine(4..201);
        assert_eq!(order[..6], [200, 4, 132, 68, 196, 36]);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (4..201).collect::<Vec<_>>());
        assert_eq!(coarse_to_fine(7..8), [7]);
        assert_eq!(coarse_to_fine(7..7), Vec::<usize>::new());
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), Some(3.0));
    }
}
