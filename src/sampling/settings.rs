//! The one settings object: defaults, limits, refusal (command line) and clamping (window).

use serde::{Deserialize, Serialize};

/// How the next token is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The largest logit after the repetition penalty; ties go to the lowest id.
    Greedy,
    /// A draw from [`Distribution`](super::Distribution).
    #[default]
    Sample,
}

/// The range of each number, both ends allowed.
pub mod limits {
    use std::ops::RangeInclusive;

    /// 0 is greedy.
    pub const TEMPERATURE: RangeInclusive<f32> = 0.0..=100.0;
    /// 0 keeps one token, 1 is off.
    pub const TOP_P: RangeInclusive<f32> = 0.0..=1.0;
    /// 0 is off, 1 keeps the most likely token and its ties.
    pub const MIN_P: RangeInclusive<f32> = 0.0..=1.0;
    /// 1 is off, below 1 repetition is encouraged. 0 would divide by zero.
    pub const REPETITION_PENALTY: RangeInclusive<f32> = 0.01..=100.0;
}

/// Everything that decides which token a logits row leads to, and when a run ends.
///
/// The filters work in the order of the fields: repetition penalty, temperature, top-k,
/// renormalise, top-p, min-p.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplingSettings {
    pub mode: Mode,
    /// Logits are divided by it; 0 is greedy.
    pub temperature: f32,
    /// Exactly this many tokens are kept; 0 is off.
    pub top_k: u32,
    /// Nucleus mass; 1 is off, 0 keeps one token. Holtzman et al. 2019, "The Curious Case of
    /// Neural Text Degeneration".
    pub top_p: f32,
    /// Tokens below this fraction of the largest probability are removed; 0 is off.
    pub min_p: f32,
    /// Positive logits of tokens that occur in the sequence are divided by it, negative ones
    /// multiplied; 1 is off. Keskar et al. 2019, "CTRL". Applies in both modes.
    pub repetition_penalty: f32,
    /// Same seed, same text: see [`uniform`](super::uniform).
    pub seed: u64,
    /// Token budget of one run.
    pub max_new_tokens: usize,
    /// A run ends when the decoded continuation contains one of these.
    pub stop: Vec<String>,
}

impl Default for SamplingSettings {
    fn default() -> Self {
        Self {
            mode: Mode::Sample,
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.0,
            repetition_penalty: 1.0,
            seed: 42,
            max_new_tokens: 120,
            stop: Vec::new(),
        }
    }
}

/// Why [`SamplingSettings::validate`] refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// A number outside its range, NaN or infinite.
    #[error("{name} is {value}; it must be a number from {min} to {max} ({meaning})")]
    OutOfRange {
        name: &'static str,
        value: f32,
        min: f32,
        max: f32,
        meaning: &'static str,
    },
    /// An empty stop string would end every run before its first token.
    #[error(
        "stop string {number} is empty; an empty text is found everywhere, so no run could start"
    )]
    EmptyStop {
        /// Counted from 1.
        number: usize,
    },
}

impl SamplingSettings {
    /// What decides which token is drawn, in a line; filters that are off are not named.
    pub fn summary(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |is_on: bool, part: String| parts.extend(is_on.then_some(part));
        let sampled = !self.is_greedy();
        add(!sampled, "greedy".to_owned());
        add(sampled, format!("T {}", self.temperature));
        add(sampled && self.top_k > 0, format!("top-k {}", self.top_k));
        add(sampled && self.top_p < 1.0, format!("top-p {}", self.top_p));
        add(sampled && self.min_p > 0.0, format!("min-p {}", self.min_p));
        let penalty = self.repetition_penalty;
        add(penalty != 1.0, format!("repetition penalty {penalty}"));
        add(sampled, format!("seed {}", self.seed));
        parts.join(", ")
    }

    /// Refuses the first value that is negative, NaN, infinite or out of range, by name.
    ///
    /// # Errors
    /// [`SettingsError`], whose text names the value and its range.
    pub fn validate(&self) -> Result<(), SettingsError> {
        for (name, value, range, meaning) in [
            (
                "temperature",
                self.temperature,
                limits::TEMPERATURE,
                "0 is greedy",
            ),
            (
                "top-p",
                self.top_p,
                limits::TOP_P,
                "1 is off, 0 keeps one token",
            ),
            ("min-p", self.min_p, limits::MIN_P, "0 is off"),
            (
                "repetition penalty",
                self.repetition_penalty,
                limits::REPETITION_PENALTY,
                "1 is off",
            ),
        ] {
            // `contains` is false for NaN.
            if !range.contains(&value) {
                let (min, max) = range.into_inner();
                return Err(SettingsError::OutOfRange {
                    name,
                    value,
                    min,
                    max,
                    meaning,
                });
            }
        }
        match self.stop.iter().position(String::is_empty) {
            Some(at) => Err(SettingsError::EmptyStop { number: at + 1 }),
            None => Ok(()),
        }
    }

    /// The same with nothing that makes what is drawn from differ from softmax of the logits.
    pub fn without_reshaping(&self) -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            ..self.clone()
        }
    }

    /// The nearest settings that [`validate`](Self::validate) accepts. NaN becomes the default of
    /// its field, empty stop strings are dropped.
    pub fn clamped(&self) -> Self {
        let default = Self::default();
        let clamp = |value: f32, range: std::ops::RangeInclusive<f32>, default: f32| {
            if value.is_nan() {
                default
            } else {
                value.clamp(*range.start(), *range.end())
            }
        };
        Self {
            temperature: clamp(self.temperature, limits::TEMPERATURE, default.temperature),
            top_p: clamp(self.top_p, limits::TOP_P, default.top_p),
            min_p: clamp(self.min_p, limits::MIN_P, default.min_p),
            repetition_penalty: clamp(
                self.repetition_penalty,
                limits::REPETITION_PENALTY,
                default.repetition_penalty,
            ),
            stop: self
                .stop
                .iter()
                .filter(|s| !s.is_empty())
                .cloned()
                .collect(),
            ..self.clone()
        }
    }

    /// Whether the maximum is taken and nothing is drawn: greedy mode, or temperature 0.
    pub fn is_greedy(&self) -> bool {
        // Not `== 0.0`: settings that were never validated must not divide by a negative number.
        self.mode == Mode::Greedy || self.temperature <= 0.0 || self.temperature.is_nan()
    }
}
