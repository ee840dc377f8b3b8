//! The drawn number and the selection function.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::distribution::Distribution;
use super::settings::SamplingSettings;

/// A chosen token and what it was chosen with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    pub id: u32,
    /// The drawn number in [0, 1); `None` when greedy.
    pub u: Option<f64>,
    /// How often this position had been drawn again before.
    pub redraw: u32,
}

/// The drawn number for one position of a sequence: a multiple of 2^-53 in [0, 1).
///
/// It depends on its arguments alone, so Step, Run, Stop, resume and rewind draw the same numbers.
/// Exactly: `ChaCha8Rng::seed_from_u64(seed)` of rand_chacha 0.9, stream number `position`, word
/// position `redraw` (in 32-bit words), then the upper 53 bits of the next 64 (the word at `redraw`
/// is the lower half, the one after it the upper). Redraw r + 1 therefore has the word that was
/// the upper half of redraw r in its own lower half: of 53 bits the last 21, a part in 2^32.
pub fn uniform(seed: u64, position: u64, redraw: u32) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(position);
    rng.set_word_pos(u128::from(redraw));
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Chooses the token at `position`, the one selection function of window and command line.
///
/// `context` is the whole sequence before it (for the repetition penalty), `position` the index the
/// new token gets, `redraw` how often the user asked for another draw there. An empty row gives
/// id 0.
pub fn select(
    logits: &[f32],
    context: &[u32],
    settings: &SamplingSettings,
    position: u64,
    redraw: u32,
) -> Choice {
    let distribution = Distribution::new(logits, context, settings);
    let u = (!settings.is_greedy()).then(|| uniform(settings.seed, position, redraw));
    Choice {
        id: distribution.choose(u.unwrap_or(0.0)),
        u,
        redraw,
    }
}
