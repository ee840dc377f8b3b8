//! The shown step: one prediction under one set of sampling settings, with the token that was chosen from it.
//!
//! Worked out once for each step and settings, on the window's thread, and read by every panel.

use std::sync::Arc;

use super::{
    Session,
    tree::{NodeId, Origin},
};
use crate::{
    prediction::{AttentionRow, LogitsRow},
    sampling::{Distribution, Filter, SamplingSettings, rank, top},
};

/// Rows of the Next token panel.
pub const TOP_ROWS: usize = 20;

/// One token of the shown distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenRow {
    pub id: u32,
    pub logit: f32,
    /// Model P: softmax at temperature 1 over the whole vocabulary.
    pub prob: f64,
    /// 1 for the largest logit.
    pub rank: usize,
    /// Probability under *drawn from*; `None` where a filter cut the token.
    pub drawn_from: Option<f64>,
    /// The filter that cut the token.
    pub cut_by: Option<Filter>,
}

/// The token that follows the shown prediction in the text.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub row: TokenRow,
    pub origin: Origin,
    /// The drawn number, for sampled tokens.
    pub u: Option<f64>,
    pub redraw: u32,
}

/// Everything the panels show of one step.
#[derive(Debug)]
pub struct StepView {
    /// Number of tokens that the prediction was made from, counted from the start of the text.
    pub step: usize,
    pub logits: Arc<LogitsRow>,
    pub attention: Option<Arc<AttentionRow>>,
    /// The settings that `distribution` shows.
    pub settings: Arc<SamplingSettings>,
    /// The settings that the token was drawn with, where they differ from the shown ones.
    pub drawn_with: Option<Arc<SamplingSettings>>,
    pub distribution: Distribution,
    pub chosen: Option<Chosen>,
    /// The [`TOP_ROWS`] most likely tokens, most likely first.
    pub top: Vec<TokenRow>,
}

/// What a [`StepView`] was made from; while it stays the same, so does the view.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ViewKey {
    pub node: Option<NodeId>,
    pub step: usize,
    pub chosen: Option<NodeId>,
    pub settings: Arc<SamplingSettings>,
    pub has_attention: bool,
    pub epoch_of_prediction: usize,
}

impl StepView {
    pub(super) fn row_of(logits: &LogitsRow, distribution: &Distribution, id: u32) -> TokenRow {
        Self::ranked_row(logits, distribution, id, rank(&logits.values, id))
    }

    /// The same where the rank is known: finding it takes a pass over the vocabulary.
    fn ranked_row(
        logits: &LogitsRow,
        distribution: &Distribution,
        id: u32,
        rank: usize,
    ) -> TokenRow {
        TokenRow {
            id,
            logit: logits.values.get(id as usize).copied().unwrap_or(f32::NAN),
            prob: logits.prob(id),
            rank,
            drawn_from: distribution.prob(id),
            cut_by: distribution.cut_by(id),
        }
    }

    /// Any token's row.
    pub fn row(&self, id: u32) -> TokenRow {
        Self::row_of(&self.logits, &self.distribution, id)
    }

    pub(super) fn top_rows(logits: &LogitsRow, distribution: &Distribution) -> Vec<TokenRow> {
        top(&logits.values, TOP_ROWS)
            .into_iter()
            .zip(1..)
            .map(|(id, rank)| Self::ranked_row(logits, distribution, id, rank))
            .collect()
    }

    /// Share of model P that the [`Self::top`] rows hold together.
    pub fn top_mass(&self) -> f64 {
        self.top.iter().map(|row| row.prob).sum()
    }

    pub fn is_what_if(&self) -> bool {
        self.drawn_with.is_some()
    }
}

impl Session {
    /// Works the shown step out again if anything it depends on has changed. Called once a frame.
    pub fn refresh_view(&mut self) {
        let step = self.selected;
        let Some(prediction) = self.prediction(step) else {
            self.view = None;
            return;
        };
        let Some(logits) = prediction.logits.clone() else {
            self.view = None;
            return;
        };
        let chosen_id = self.path.get(step).copied();
        let draw = chosen_id.and_then(|id| self.tree.node(id).draw.as_ref());
        let drawn_with = draw
            .filter(|draw| self.what_if && draw.settings != self.settings)
            .map(|draw| draw.settings.clone());
        let settings = match draw {
            Some(draw) if !self.what_if => draw.settings.clone(),
            _ => self.settings.clone(),
        };
        let key = ViewKey {
            node: step.checked_sub(1).map(|index| self.path[index]),
            step,
            chosen: chosen_id,
            settings: settings.clone(),
            has_attention: prediction.attention.is_some(),
            epoch_of_prediction: Arc::as_ptr(&logits) as usize,
        };
        if self.view.as_ref().is_some_and(|(old, _)| *old == key) {
            return;
        }
        let context = &self.ids[self.context_start().min(step)..step];
        let distribution = Distribution::new(&logits.values, context, &settings);
        let chosen = chosen_id.map(|id| {
            let node = self.tree.node(id);
            Chosen {
                row: StepView::row_of(&logits, &distribution, node.token),
                origin: node.origin,
                u: node.draw.as_ref().and_then(|draw| draw.u),
                redraw: node.draw.as_ref().map_or(0, |draw| draw.redraw),
            }
        });
        let top = StepView::top_rows(&logits, &distribution);
        let attention = prediction.attention.clone();
        self.view = Some((
            key,
            StepView {
                step,
                logits,
                attention,
                settings,
                drawn_with,
                distribution,
                chosen,
                top,
            },
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_in_the_list_is_the_rank() {
        let mut values: Vec<f32> = (0..200).map(|id| ((id * 37) % 50) as f32).collect();
        values[7] = f32::NAN;
        values[9] = f32::INFINITY;
        values[11] = f32::NEG_INFINITY;
        for values in [values, vec![f32::NAN; 30], vec![0.0; 30]] {
            let logits = LogitsRow::new(values);
            let distribution = Distribution::new(&logits.values, &[], &SamplingSettings::default());
            for row in StepView::top_rows(&logits, &distribution) {
                assert_eq!(row.rank, rank(&logits.values, row.id));
            }
        }
    }
}
