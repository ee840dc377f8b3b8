//! The distribution a token is drawn from: penalty, temperature, top-k, top-p, min-p.

use super::order::{first, id_of, keep_smallest, key};
use super::settings::SamplingSettings;
use super::stats::Softmax;

/// A filter that can remove tokens, in the order in which they work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    TopK,
    TopP,
    MinP,
}

/// A token that survived all filters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Kept {
    pub id: u32,
    /// Probability of being drawn.
    pub prob: f64,
    /// Sum of `prob` up to and including this token; exactly 1 for the last.
    pub cumulative: f64,
}

/// What a token is drawn from, in f64.
///
/// Tokens are ordered by penalised logit, descending, ties lowest id. Every filter keeps a
/// beginning of that order:
///
/// 1. the repetition penalty (transformers' `RepetitionPenaltyLogitsProcessor`, in f32 as there)
///    on every distinct id of the context,
/// 2. division by the temperature,
/// 3. top-k keeps exactly k,
/// 4. after renormalising, top-p keeps tokens until their sum reaches p, the one that crosses p
///    included, and never none,
/// 5. min-p removes tokens below that fraction of the largest probability.
///
/// If nothing is left the first token is. In greedy mode, and at temperature 0, the first token
/// has probability 1 and no filter works. A token whose logit is NaN or -∞ is never a candidate.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// Logits after the penalty.
    penalised: Vec<f32>,
    tempered: Softmax,
    kept: Vec<Kept>,
    /// The key of the last token each filter let through; `None` where it removed nothing.
    last: [Option<u64>; 3],
    removed_mass: [f64; 3],
    greedy: bool,
}

impl Distribution {
    /// Builds the distribution from a row of logits and the ids of the whole sequence so far.
    ///
    /// Linear in the vocabulary, plus a sort of what top-k lets through. Never panics: ids outside
    /// the row are passed over; values that [`SamplingSettings::validate`] would refuse are clamped.
    pub fn new(logits: &[f32], context: &[u32], settings: &SamplingSettings) -> Self {
        let greedy = settings.is_greedy();
        let settings = settings.clamped();
        let penalised = penalised(logits, context, settings.repetition_penalty);
        let temperature = if greedy { 0.0 } else { settings.temperature };
        let mut weights = Vec::with_capacity(penalised.len());
        let tempered = Softmax::with_weights(&penalised, temperature, |w| weights.push(w));
        let mut this = Self {
            penalised,
            tempered,
            kept: Vec::new(),
            last: [None; 3],
            removed_mass: [0.0; 3],
            greedy,
        };
        if greedy || tempered.sum() <= 0.0 {
            this.kept.extend(first(&this.penalised).map(|id| Kept {
                id,
                prob: 1.0,
                cumulative: 1.0,
            }));
        } else {
            this.filter(&settings, &weights);
        }
        this
    }

    fn filter(&mut self, settings: &SamplingSettings, weights: &[f64]) {
        let mut keys: Vec<u64> = Vec::with_capacity(self.penalised.len());
        keys.extend(
            self.penalised
                .iter()
                .zip(0u32..)
                .filter(|&(&z, _)| z > f32::NEG_INFINITY)
                .map(|(&z, id)| key(z, id)),
        );

        let weight = |k: &u64| weights[id_of(*k) as usize];
        let candidates = keys.len();
        let mut sum = self.tempered.sum();
        if settings.top_k > 0 {
            keep_smallest(&mut keys, settings.top_k as usize);
        }
        if keys.len() < candidates {
            keys.sort_unstable();
            let before: f64 = keys.iter().map(weight).sum();
            self.last[0] = keys.last().copied();
            // The two sums run in different orders, so a last-bit difference may be negative.
            self.removed_mass[0] = (1.0 - before / sum).max(0.0);
            sum = before;
        }

        let mut len = keys.len();
        let mass = (settings.top_p < 1.0).then(|| f64::from(settings.top_p) * sum);
        if let Some(mass) = mass {
            keep_mass(&mut keys, mass, weight);
        }
        keys.sort_unstable();
        let weights: Vec<f64> = keys.iter().map(weight).collect();
        if let Some(mass) = mass {
            let (kept, before) = nucleus(&weights, mass);
            if kept < len {
                self.last[1] = Some(keys[kept - 1]);
                self.removed_mass[1] = (1.0 - before / sum).max(0.0);
                len = kept;
            }
        }
        // From here on in this very order, so that the last cumulative is exactly 1.
        sum = weights[..len].iter().sum();
        if settings.min_p > 0.0 {
            // The first weight is e^0 = 1.
            let kept = weights[..len]
                .partition_point(|&w| w >= f64::from(settings.min_p))
                .max(1);
            if kept < len {
                let before: f64 = weights[..kept].iter().sum();
                self.last[2] = Some(keys[kept - 1]);
                self.removed_mass[2] = (1.0 - before / sum).max(0.0);
                (len, sum) = (kept, before);
            }
        }

        let mut running = 0.0;
        self.kept = keys[..len]
            .iter()
            .zip(&weights)
            .map(|(&k, &w)| {
                running += w;
                Kept {
                    id: id_of(k),
                    prob: w / sum,
                    cumulative: running / sum,
                }
            })
            .collect();
    }

    /// The tokens that can be drawn, in descending probability, ties lowest id.
    /// Empty only for an empty row.
    pub fn kept(&self) -> &[Kept] {
        &self.kept
    }

    /// The kept entry of a token, `None` if it was cut.
    pub fn get(&self, id: u32) -> Option<&Kept> {
        let own = key(*self.penalised.get(id as usize)?, id);
        let at = self
            .kept
            .partition_point(|k| key(self.penalised[k.id as usize], k.id) < own);
        self.kept.get(at).filter(|k| k.id == id)
    }

    /// Probability of being drawn, `None` if the token was cut.
    pub fn prob(&self, id: u32) -> Option<f64> {
        self.get(id).map(|kept| kept.prob)
    }

    /// The filter that removed this token. `None` for a kept one, and for one that cannot be drawn
    /// although no filter removed it: in greedy mode, with a logit of NaN or -∞, outside the row.
    pub fn cut_by(&self, id: u32) -> Option<Filter> {
        let logit = *self.penalised.get(id as usize)?;
        if logit.is_nan() || logit == f32::NEG_INFINITY {
            return None;
        }
        let own = key(logit, id);
        [Filter::TopK, Filter::TopP, Filter::MinP]
            .into_iter()
            .zip(self.last)
            .find_map(|(filter, last)| (own > last?).then_some(filter))
    }

    /// Probability mass the filter removed, of the distribution that it saw: top-k of the tempered
    /// one, top-p of what top-k left, min-p of what top-p left.
    pub fn removed_mass(&self, filter: Filter) -> f64 {
        self.removed_mass[filter as usize]
    }

    /// Probability after penalty and temperature, before any filter. In greedy mode the limit
    /// T → 0: ties share. 0 for ids outside the row.
    pub fn tempered_prob(&self, id: u32) -> f64 {
        self.penalised
            .get(id as usize)
            .map_or(0.0, |&z| self.tempered.prob(z))
    }

    /// The logit after the repetition penalty, `None` outside the row.
    pub fn penalised_logit(&self, id: u32) -> Option<f32> {
        self.penalised.get(id as usize).copied()
    }

    /// Softmax over all tokens after penalty and temperature, before any filter.
    pub fn tempered(&self) -> Softmax {
        self.tempered
    }

    /// Whether the first token is taken without a draw.
    pub fn is_greedy(&self) -> bool {
        self.greedy
    }

    /// The token for a drawn number: the first kept one whose cumulative is above `u`.
    ///
    /// `u` is in [0, 1); anything above gives the last token that has any probability. 0 for an
    /// empty row.
    pub fn choose(&self, u: f64) -> u32 {
        let at = self.kept.partition_point(|k| k.cumulative <= u);
        let chosen = self
            .kept
            .get(at)
            .or_else(|| self.kept.iter().rfind(|k| k.prob > 0.0));
        chosen.map_or(0, |k| k.id)
    }
}

/// Cuts `keys` to smallest ones that are sure to hold `mass`, in no particular order: a nucleus
/// is mostly a few hundred tokens, and sorting a whole vocabulary for it costs milliseconds.
fn keep_mass(keys: &mut Vec<u64>, mass: f64, weight: impl Fn(&u64) -> f64) {
    let mut n = 512;
    while n < keys.len() {
        keys.select_nth_unstable(n - 1);
        let held: f64 = keys[..n].iter().map(&weight).sum();
        // More than rounding in another order of summation could make up.
        if held > mass * (1.0 + 1e-9) {
            keys.truncate(n);
        }
        n *= 4;
    }
}

/// How many of the descending `weights` top-p keeps, and their sum. A token stays while the sum
/// before it is below `mass`: the one that crosses stays, the first always does.
fn nucleus(weights: &[f64], mass: f64) -> (usize, f64) {
    let mut sum = 0.0;
    for (at, weight) in weights.iter().enumerate() {
        if at > 0 && sum >= mass {
            return (at, sum);
        }
        sum += weight;
    }
    (weights.len(), sum)
}

/// Logits after the repetition penalty on the distinct ids of `context`: positive ones divided,
/// negative ones multiplied.
fn penalised(logits: &[f32], context: &[u32], penalty: f32) -> Vec<f32> {
    let mut row = logits.to_vec();
    if penalty != 1.0 {
        for &id in context {
            // From the untouched row, so that an id that occurs twice is penalised once.
            if let Some(&z) = logits.get(id as usize) {
                row[id as usize] = if z < 0.0 { z * penalty } else { z / penalty };
            }
        }
    }
    row
}
