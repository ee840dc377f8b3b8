//! Logits → distribution → token, on plain slices.
//!
//! Owns the sampling settings, the statistics of a logits row (*model P*), the distribution a
//! token is *drawn from*, the drawn number `u`, and the one function, [`select`], that chooses a
//! token for the window and for the command line alike. It knows no model, no tokenizer and no
//! window, keeps no state and no random generator: every draw is a function of seed, position and
//! redraw count. Any thread may call it; the worker does once a decode step, the window for what
//! it shows.
//!
//! Two distributions, never to be mixed up:
//!
//! - **model P**: softmax of the logits at temperature 1 over the whole vocabulary, in
//!   [`RowStats`]. Probability, rank, entropy and surprisal mean this one.
//! - **drawn from**: after repetition penalty, temperature, top-k, renormalise, top-p, min-p, in
//!   that order, in [`Distribution`].
//!
//! # Rows that are not numbers
//!
//! A NaN logit and a logit of -∞ have probability 0. If some logits are +∞ they share all
//! probability equally, which is the limit. If no logit is finite or +∞ no distribution exists:
//! [`RowStats`] gives probability 0 for every token and NaN for the entropy, and [`Distribution`]
//! keeps the first token in rank order with probability 1, so that a broken model still steps.

mod distribution;
mod draw;
mod order;
mod settings;
mod stats;

#[cfg(test)]
mod tests;

pub use distribution::{Distribution, Filter, Kept};
pub use draw::{Choice, select, uniform};
pub use order::{at_ranks, rank, top};
pub use settings::{Mode, SamplingSettings, SettingsError, limits};
pub use stats::{RowStats, Softmax, softmax_at};
