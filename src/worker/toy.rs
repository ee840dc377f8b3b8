//! A toy behind the worker's commands: predictions are looked up among the typed rows.

use std::{ops::ControlFlow, sync::Arc};

use super::{engine::EngineError, generation::Predictor};
use crate::{model::ModelError, prediction::Prediction, tokenizer::Tokenizer, toy::Toy};

pub(super) struct ToyRows(pub Arc<Toy>);

impl Predictor for ToyRows {
    fn n_ctx(&self) -> usize {
        self.0.n_ctx()
    }

    fn end_of_text(&self) -> Option<u32> {
        self.0.tokenizer().end_of_text()
    }

    fn tokenizer(&self) -> Option<&Tokenizer> {
        Some(self.0.tokenizer())
    }

    fn predict(
        &mut self,
        context: &[u32],
        from: usize,
        on_chunk: &mut dyn FnMut(usize, Vec<Prediction>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, EngineError> {
        let (n_ctx, vocab_size) = (self.0.n_ctx(), self.0.vocab_size());
        if context.is_empty() {
            return Err(ModelError::NoTokens.into());
        }
        if context.len() > n_ctx {
            let rows = context.len();
            return Err(ModelError::ContextFull {
                past: 0,
                rows,
                n_ctx,
            }
            .into());
        }
        if let Some(&id) = context.iter().find(|&&id| id as usize >= vocab_size) {
            return Err(ModelError::TokenOutOfRange { id, vocab_size }.into());
        }
        let predictions = (from..context.len()).filter_map(|at| self.0.prediction(at));
        Ok(on_chunk(from, predictions.collect()))
    }
}
