//! How a model's weights are kept in memory, and what else the user decides before they are read.
//!
//! Arithmetic is f32 in either precision: f16 halves the memory, and rounds
//! every weight once, when it is loaded. Nothing else is rounded.

use std::{fmt, str::FromStr};

use burn::tensor::DType;

use super::config::Gpt2Config;

/// In how many bits matrices and embedding tables are kept. Biases and norms are f32 always.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    #[default]
    F32,
    F16,
}

impl Precision {
    pub const ALL: [Self; 2] = [Self::F32, Self::F16];

    /// Bytes of one weight.
    pub fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }

    pub(super) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
        }
    }

    /// What it means, in one line.
    pub fn describe(self) -> &'static str {
        match self {
            Self::F32 => "weights and arithmetic in f32",
            Self::F16 => "weights in f16, arithmetic in f32",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        })
    }
}

impl FromStr for Precision {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|precision| precision.to_string() == text)
            .ok_or_else(|| format!("unknown precision \"{text}\"; use f32 or f16"))
    }
}

/// What a model's weights take in memory, in each precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WeightBytes {
    pub f32: u64,
    pub f16: u64,
}

impl WeightBytes {
    pub fn of(config: &Gpt2Config) -> Self {
        Self {
            f32: config.weight_bytes(Precision::F32),
            f16: config.weight_bytes(Precision::F16),
        }
    }

    pub fn in_precision(self, precision: Precision) -> u64 {
        match precision {
            Precision::F32 => self.f32,
            Precision::F16 => self.f16,
        }
    }
}

/// What the user decides about the weights before they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct WeightOptions {
    pub precision: Precision,
    /// Leave out tensors that a GPT-2 does not have, and say so, instead of refusing the file.
    pub allow_unknown_tensors: bool,
}
