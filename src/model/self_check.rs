//! Whether this machine computes what it should: CPU against GPU, cached against uncached.
//!
//! Owns the comparison and its limits; who shows the rows is not known here. Runs on the calling
//! thread and takes a few passes of two dozen tokens on each device.

use std::{fmt, ops::ControlFlow};

use super::{
    device::{ComputeDevice, DeviceChoice, DeviceKind},
    error::ModelError,
    gpt2::{Gpt2, Logits, Pass, Record},
    known_answer::known_answer,
    precision::WeightOptions,
    source::{LoadRequest, ModelSource},
};

/// Tokens compared: more than the CPU treats as a few rows, so that its two ways of multiplying are
/// compared too, and few enough for a slow device.
const TOKENS: usize = 24;
/// Of these, how many go in at once before decoding one by one.
const PREFILL: usize = 4;
const LOGIT_LIMIT: f32 = 1e-4;
const ATTENTION_LIMIT: f32 = 1e-5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    Skipped,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        })
    }
}

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckRow {
    pub name: String,
    /// The measured differences with their limits, or why there are none.
    pub detail: String,
    pub outcome: Outcome,
}

/// Compare what the devices of this machine compute for `source`.
///
/// Where the CPU is asked for, that is all that is compared. Without an adapter, or without f16 on it where the
/// weights are in f16, the GPU rows are skipped, which is not a failure.
pub fn self_check(request: &LoadRequest) -> Vec<CheckRow> {
    let LoadRequest {
        source,
        device,
        weights,
    } = request;
    let cached = |device: &str| format!("{device}: cached equals uncached");
    let mut rows = Vec::new();
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let computed = Gpt2::load_with(source, &ComputeDevice::flex(), *weights, go_on)
        .and_then(|model| Ok((Numbers::of(&model)?, known_row(&model, source))));
    let (cpu, known) = match computed {
        Ok(computed) => computed,
        Err(error) => {
            rows.push(failed(cached("CPU"), &error));
            return rows;
        }
    };
    rows.extend(known);
    rows.push(cpu.compare_cached(cached("CPU")));

    if *device == DeviceChoice::Cpu {
        return rows;
    }
    let equal = "GPU equals CPU".to_owned();
    let skipped = |why: &str| {
        [equal.clone(), cached("GPU")].map(|name| CheckRow {
            name,
            detail: format!("skipped: {why}"),
            outcome: Outcome::Skipped,
        })
    };
    let gpu = match ComputeDevice::gpu(true) {
        Ok(device) if device.has(weights.precision) => device,
        Ok(device) => {
            rows.extend(skipped(&format!("{} has no f16", device.name)));
            return rows;
        }
        Err(ModelError::NoAdapter(_)) => {
            rows.extend(skipped("no adapter"));
            return rows;
        }
        Err(error) => {
            rows.push(failed(equal, &error));
            return rows;
        }
    };
    match Numbers::compute(source, &gpu, *weights) {
        Ok(numbers) => {
            let difference = Difference::between(&cpu.uncached, &numbers.uncached, 0);
            let mut row = difference.row(equal);
            row.detail = format!("{} ({})", row.detail, gpu.name);
            rows.push(row);
            rows.push(numbers.compare_cached(cached("GPU")));
        }
        Err(error) => rows.push(failed(equal, &error)),
    }
    rows
}

/// Check a model as it is loaded: cached against uncached, and on a GPU also against the CPU.
///
/// Opens no device that is not in use, so it is quick enough to run by itself.
pub fn self_check_loaded(
    model: &Gpt2,
    device: &ComputeDevice,
    source: &ModelSource,
    weights: WeightOptions,
) -> Vec<CheckRow> {
    let name = match device.kind {
        DeviceKind::Cpu => "CPU",
        DeviceKind::Gpu => "GPU",
    };
    let cached = format!("{name}: cached equals uncached");
    let numbers = match Numbers::of(model) {
        Ok(numbers) => numbers,
        Err(error) => return vec![failed(cached, &error)],
    };
    let mut rows = vec![numbers.compare_cached(cached)];
    if device.kind == DeviceKind::Gpu {
        let equal = "GPU equals CPU".to_owned();
        rows.push(
            match Numbers::compute(source, &ComputeDevice::flex(), weights) {
                Ok(cpu) => Difference::between(&cpu.uncached, &numbers.uncached, 0).row(equal),
                Err(error) => failed(equal, &error),
            },
        );
    }
    rows
}

/// Random weights have no answer to know.
fn known_row(model: &Gpt2, source: &ModelSource) -> Option<CheckRow> {
    match source {
        ModelSource::Folder(_) => known_answer(model, &source.name()),
        _ => None,
    }
}

fn failed(name: String, error: &ModelError) -> CheckRow {
    CheckRow {
        name,
        detail: error.to_string(),
        outcome: Outcome::Failed,
    }
}

/// The same tokens in one pass, and as a prefill with decode steps.
struct Numbers {
    uncached: Pass,
    steps: Vec<Pass>,
}

impl Numbers {
    fn compute(
        source: &ModelSource,
        device: &ComputeDevice,
        weights: WeightOptions,
    ) -> Result<Self, ModelError> {
        Self::of(&Gpt2::load_with(source, device, weights, &mut |_, _| {
            ControlFlow::Continue(())
        })?)
    }

    fn of(model: &Gpt2) -> Result<Self, ModelError> {
        let tokens = TOKENS.min(model.config.n_ctx);
        let ids: Vec<u32> = (0..tokens)
            .map(|i| ((i * 131 + 7) % model.config.vocab_size) as u32)
            .collect();
        let record = Record {
            logits: Logits::All,
            attention: true,
            scores: false,
            hidden: false,
        };
        let uncached = model.forward(&ids, &mut model.new_cache(), &record)?;
        let mut cache = model.new_cache();
        let (prompt, rest) = ids.split_at(PREFILL.min(tokens));
        let mut steps = vec![model.forward(prompt, &mut cache, &record)?];
        for id in rest {
            steps.push(model.forward(&[*id], &mut cache, &record)?);
        }
        Ok(Self { uncached, steps })
    }

    fn compare_cached(&self, name: String) -> CheckRow {
        self.steps
            .iter()
            .map(|step| Difference::between(&self.uncached, step, step.past))
            .fold(Difference::default(), Difference::worst)
            .row(name)
    }
}

/// How far two passes are apart.
#[derive(Debug, Clone, Copy, Default)]
struct Difference {
    logit: f32,
    largest_logit: f32,
    attention: f32,
    /// Rows whose best tokens differ although they are further apart than rounding.
    greedy: usize,
}

impl Difference {
    /// Compare `part`, whose first row is row `first` of `whole`.
    fn between(whole: &Pass, part: &Pass, first: usize) -> Self {
        let mut difference = Self::default();
        let vocab = whole.logits.len() / whole.rows.max(1);
        let rows_of_whole = whole.logits.chunks_exact(vocab.max(1)).skip(first);
        for (a, b) in rows_of_whole.zip(part.logits.chunks_exact(vocab.max(1))) {
            let mut apart = 0.0;
            for (&a, &b) in a.iter().zip(b) {
                apart = worse(apart, (a - b).abs());
                difference.largest_logit = difference.largest_logit.max(a.abs());
            }
            difference.logit = worse(difference.logit, apart);
            let ((best_a, margin), (best_b, _)) = (best(a), best(b));
            if best_a != best_b && margin > LOGIT_LIMIT * difference.largest_logit.max(1.0) {
                difference.greedy += 1;
            }
        }
        for (a, b) in whole.attention.iter().zip(&part.attention) {
            let heads = a.log_sum_exp.len() / whole.rows.max(1);
            let seen = part.past + part.rows;
            for head in 0..heads {
                for row in 0..part.rows {
                    let a_row =
                        &a.weights[(head * whole.rows + first + row) * whole.rows..][..seen];
                    let b_row = &b.weights[(head * part.rows + row) * seen..][..seen];
                    for (a, b) in a_row.iter().zip(b_row) {
                        difference.attention = worse(difference.attention, (a - b).abs());
                    }
                }
            }
        }
        difference
    }

    fn worst(self, other: Self) -> Self {
        Self {
            logit: worse(self.logit, other.logit),
            largest_logit: self.largest_logit.max(other.largest_logit),
            attention: worse(self.attention, other.attention),
            greedy: self.greedy + other.greedy,
        }
    }

    fn row(self, name: String) -> CheckRow {
        let limit = LOGIT_LIMIT * self.largest_logit.max(1.0);
        let passed = self.logit <= limit && self.attention <= ATTENTION_LIMIT && self.greedy == 0;
        let greedy = match self.greedy {
            0 => "greedy ids equal".to_owned(),
            n => format!("{n} greedy ids differ"),
        };
        CheckRow {
            name,
            detail: format!(
                "max |Δlogit| {:.1e} (limit {limit:.1e}), max |Δattention| {:.1e} (limit {ATTENTION_LIMIT:.0e}), {greedy}",
                self.logit, self.attention
            ),
            outcome: if passed {
                Outcome::Passed
            } else {
                Outcome::Failed
            },
        }
    }
}

/// The larger one, where not-a-number is the largest of all.
fn worse(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        f32::NAN
    } else {
        a.max(b)
    }
}

/// Index of the largest value (the lowest on a tie) and how far it is ahead of the next.
fn best(row: &[f32]) -> (usize, f32) {
    let (mut index, mut first, mut second) = (0, f32::NEG_INFINITY, f32::NEG_INFINITY);
    for (i, &z) in row.iter().enumerate() {
        if z > first {
            (index, second, first) = (i, first, z);
        } else if z > second {
            second = z;
        }
    }
    (index, first - second)
}
