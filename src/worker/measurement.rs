//! What the same tokens cost without the KV cache: one timed pass after another, while nobody asks for anything else.
//!
//! The passes have a cache of their own, so that the sequence in the engine stands untouched. Runs on the worker's
//! thread.

use std::{collections::VecDeque, ops::ControlFlow};

use super::{Engine, MeasureRequest, engine::EngineError};
use crate::model::KvCache;

/// A measurement in progress.
pub(super) struct Measurement {
    pub id: u64,
    context: Vec<u32>,
    lengths: VecDeque<usize>,
    /// Holds one pass at a time; `None` until the device is warm.
    scratch: Option<KvCache>,
}

/// One timed pass.
pub(super) struct TimedPass {
    pub tokens: usize,
    pub model_ms: f64,
}

impl Measurement {
    pub fn new(request: MeasureRequest) -> Self {
        let longest = request.context.len();
        let possible = |length: &usize| (1..=longest).contains(length);
        Self {
            id: request.id,
            lengths: request.lengths.into_iter().filter(possible).collect(),
            context: request.context,
            scratch: None,
        }
    }

    pub fn is_over(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Makes the next pass. `None` where `check` broke it off between two chunks, to be made again, and for the one
    /// pass in front of all others that warms the device up and makes room for the longest.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn next_pass(
        &mut self,
        engine: &Engine,
        check: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<TimedPass>, EngineError> {
        let Some(&tokens) = self.lengths.front() else {
            return Ok(None);
        };
        let warm = self.scratch.is_some();
        let longest = self.lengths.iter().copied().max().unwrap_or(tokens);
        let taken = if warm { tokens } else { longest };
        let mut scratch = self
            .scratch
            .take()
            .unwrap_or_else(|| engine.gpt2.new_cache());
        let pass = engine.uncached_pass(&self.context[..taken], &mut scratch, check)?;
        if warm || pass.is_some() {
            self.scratch = Some(scratch);
        }
        Ok(pass.filter(|_| warm).map(|prediction| {
            self.lengths.pop_front();
            TimedPass {
                tokens,
                model_ms: prediction.timing.model_ms,
            }
        }))
    }
}
