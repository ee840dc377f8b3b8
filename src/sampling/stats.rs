//! Softmax at one temperature, and the statistics of a logits row.

/// Softmax of a row at a temperature, ready to be asked about single logits.
///
/// Sums in f64 of f32 logits, shifted by the largest, so no temperature overflows. At temperature
/// 0 the limit is taken: the largest logit, or its ties in equal parts, has all probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softmax {
    max: f32,
    temperature: f64,
    sum: f64,
}

impl Softmax {
    /// One pass over `logits`. A negative or NaN `temperature` counts as 0.
    pub fn new(logits: &[f32], temperature: f32) -> Self {
        Self::with_weights(logits, temperature, |_| ())
    }

    /// [`new`](Self::new), handing out the weight of every token in turn: the exponentials are
    /// most of the work.
    pub(super) fn with_weights(
        logits: &[f32],
        temperature: f32,
        mut each: impl FnMut(f64),
    ) -> Self {
        let mut softmax = Self {
            max: max(logits),
            temperature: f64::from(temperature).max(0.0),
            sum: 0.0,
        };
        for &z in logits {
            let weight = softmax.weight(z);
            softmax.sum += weight;
            each(weight);
        }
        softmax
    }

    /// Probability of a token with this logit; 0 for NaN, and where no distribution exists.
    pub fn prob(&self, logit: f32) -> f64 {
        if self.sum > 0.0 {
            self.weight(logit) / self.sum
        } else {
            0.0
        }
    }

    /// e^((z - max) / T): 1 for the largest logit, at most 1 for all others.
    pub(super) fn weight(&self, logit: f32) -> f64 {
        if logit == f32::NEG_INFINITY || logit.is_nan() {
            0.0
        } else if logit >= self.max {
            // Also +∞, where the difference would be NaN.
            1.0
        } else if self.temperature == 0.0 {
            0.0
        } else {
            ((f64::from(logit) - f64::from(self.max)) / self.temperature).exp()
        }
    }

    /// Sum of all weights; 0 where no distribution exists.
    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

/// Softmax probabilities of `ids` among all of `logits` at `temperature`; 0 for ids outside the row.
pub fn softmax_at(logits: &[f32], temperature: f32, ids: &[u32]) -> Vec<f64> {
    let softmax = Softmax::new(logits, temperature);
    ids.iter()
        .map(|&id| logits.get(id as usize).map_or(0.0, |&z| softmax.prob(z)))
        .collect()
}

/// The largest logit; -∞ if there is none. NaN is passed over.
fn max(logits: &[f32]) -> f32 {
    logits.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Statistics of a logits row under model P: softmax at temperature 1, no penalty, all tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowStats {
    /// The largest logit, NaN passed over; -∞ if there is none.
    pub max: f32,
    /// Mean of the finite logits; NaN if there is none.
    pub mean: f32,
    /// ln Σ e^z, so that ln P = z - `log_sum_exp`.
    pub log_sum_exp: f64,
    /// Entropy of model P in nats; NaN where no distribution exists.
    pub entropy_nats: f64,
    /// How many logits are NaN or infinite.
    pub non_finite: usize,
    softmax: Softmax,
}

impl RowStats {
    /// Two passes over `logits`, sums in f64.
    pub fn of(logits: &[f32]) -> Self {
        let mut softmax = Softmax {
            max: max(logits),
            temperature: 1.0,
            sum: 0.0,
        };
        let (mut total, mut finite, mut weighted) = (0.0f64, 0usize, 0.0f64);
        for &z in logits {
            if z.is_finite() {
                total += f64::from(z);
                finite += 1;
            }
            let weight = softmax.weight(z);
            softmax.sum += weight;
            if weight > 0.0 && weight < 1.0 {
                weighted += weight * (f64::from(z) - f64::from(softmax.max));
            }
        }
        // H = -Σ p ln p with ln p = (z - max) - ln Σ; the largest logits add nothing to `weighted`.
        let (log_sum_exp, entropy_nats) = if softmax.sum > 0.0 {
            // -0 and a last-bit negative are both certainty.
            let entropy = (softmax.sum.ln() - weighted / softmax.sum).max(0.0);
            (f64::from(softmax.max) + softmax.sum.ln(), entropy)
        } else {
            (f64::NEG_INFINITY, f64::NAN)
        };
        Self {
            max: softmax.max,
            mean: if finite > 0 {
                (total / finite as f64) as f32
            } else {
                f32::NAN
            },
            log_sum_exp,
            entropy_nats,
            non_finite: logits.len() - finite,
            softmax,
        }
    }

    /// ln P in nats of a token with this logit; -∞ for NaN, and where no distribution exists.
    pub fn log_prob(&self, logit: f32) -> f64 {
        if self.log_sum_exp.is_finite() && logit.is_finite() {
            f64::from(logit) - self.log_sum_exp
        } else {
            self.softmax.prob(logit).ln()
        }
    }

    /// P of a token with this logit; 0 for NaN, and where no distribution exists.
    pub fn prob(&self, logit: f32) -> f64 {
        self.softmax.prob(logit)
    }
}
