//! A toy to reason with: numbers that a person typed, in place of a model's.
//!
//! A [`Sheet`] is what was typed: a handful of tokens and, for each position, one row of logits or of conditional
//! probabilities. A [`Toy`] is a sheet that makes sense; it has a tokenizer of one token a label and a prediction
//! after each position, so that the generation loop and every panel work on it as on a model. A row belongs to its
//! position: it is the same whatever tokens come before. Plain data, any thread.

mod examples;
mod sheet;

use std::sync::Arc;

pub use sheet::{Kind, MAX_LABELS, MAX_ROWS, Place, Problem, Sheet};

use crate::{
    prediction::{LogitsRow, PassTiming, Phase, Prediction},
    tokenizer::Tokenizer,
};

/// What stands where a model's name and a device's do.
pub const NAME: &str = "toy";
pub const DEVICE: &str = "typed numbers";
pub const PRECISION: &str = "typed";

/// The label of the token that ends a text, and that a text can begin with as its condition.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// A sheet of typed numbers, read.
#[derive(Debug)]
pub struct Toy {
    sheet: Sheet,
    tokenizer: Tokenizer,
    prompt: Vec<u32>,
    /// Row *i* follows *i + 1* tokens.
    rows: Vec<Arc<LogitsRow>>,
}

impl PartialEq for Toy {
    fn eq(&self, other: &Self) -> bool {
        self.sheet == other.sheet
    }
}

impl Toy {
    /// What was typed.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The tokens that it opens with, at least one.
    pub fn prompt(&self) -> &[u32] {
        &self.prompt
    }

    pub fn vocab_size(&self) -> usize {
        self.sheet.labels.len()
    }

    /// Tokens that a text can have: as many as there are rows.
    pub fn n_ctx(&self) -> usize {
        self.rows.len()
    }

    /// The logits after the token at a position.
    pub fn row(&self, position: usize) -> Option<&Arc<LogitsRow>> {
        self.rows.get(position)
    }

    /// The prediction after the token at a position: nothing was computed, so it has no attention and no time.
    pub fn prediction(&self, position: usize) -> Option<Prediction> {
        Some(Prediction {
            logits: Some(self.row(position)?.clone()),
            attention: None,
            timing: Arc::new(PassTiming {
                phase: Phase::Typed,
                first: position,
                rows: 1,
                model_ms: 0.0,
                record_ms: 0.0,
            }),
        })
    }

    /// Whether two toys say the same after the token at a position.
    pub fn same_row(&self, other: &Self, position: usize) -> bool {
        match (self.row(position), other.row(position)) {
            (Some(a), Some(b)) => a.values == b.values,
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    /// Whether a text is made of labels only.
    pub fn can_read(&self, text: &str) -> bool {
        self.ids(text).is_some()
    }

    /// The ids of a text where it is made of labels only, else the prompt.
    pub fn ids_or_prompt(&self, text: &str) -> Vec<u32> {
        self.ids(text).unwrap_or_else(|| self.prompt.clone())
    }

    fn ids(&self, text: &str) -> Option<Vec<u32>> {
        let ids = self.tokenizer.encode(text);
        (!ids.is_empty() && self.tokenizer.decode(&ids) == text).then_some(ids)
    }
}
