//! Tables, golden numbers, and every filter against a plain restatement of its rule.

mod bad_input;
mod draws;
mod filters;
mod restated;
mod settings;
mod stats;

use super::*;

pub const INF: f32 = f32::INFINITY;
pub const NAN: f32 = f32::NAN;

/// Settings with every filter off.
pub fn off() -> SamplingSettings {
    SamplingSettings {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        ..SamplingSettings::default()
    }
}

pub fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a - b).abs() <= tolerance
}

pub fn ids(distribution: &Distribution) -> Vec<u32> {
    distribution.kept().iter().map(|k| k.id).collect()
}

/// Logits whose probabilities at temperature 1 are the given ones.
pub fn logits_of(probs: &[f64]) -> Vec<f32> {
    probs.iter().map(|p| p.ln() as f32).collect()
}
