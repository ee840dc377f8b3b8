//! Answering where a distribution comes from, beside whatever the KV cache is in use for.

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Answer, Engine, Event, ExplainRequest, PREFILL_CHUNK, Question, engine::EngineError};
use crate::{
    explanation::{Explanation, HeadRows, LENS_TOP, LensRow, Nearest},
    model::{Gpt2, KvCache, Logits, ModelError, Record, Streams},
    prediction::LogitsRow,
    sampling::top,
};

/// What the engine keeps for explanations.
#[derive(Default)]
pub(super) struct Explaining {
    /// The rows of the head, once they have been asked for.
    head: Option<Arc<HeadRows>>,
    /// How long the last step took, without any prefill.
    pub takes: Option<Duration>,
}

impl Engine {
    /// Answers a question. `go_on` is asked first, and between prefill chunks; it may break.
    ///
    /// # Errors
    /// As [`Engine::predict`].
    pub fn explain(
        &mut self,
        question: &Question,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Answer, EngineError> {
        if go_on().is_break() {
            return Ok(Answer::Interrupted);
        }
        match question {
            Question::Step(context) => self.explain_step(context, go_on),
            Question::Nearest(token) => {
                let row = self.gpt2.head_row(*token)?;
                let dots = self.gpt2.head_dots(&row)?;
                let nearest = Nearest::new(self.head_rows()?, *token, &dots);
                Ok(Answer::Nearest(Arc::new(nearest)))
            }
        }
    }

    /// [`Self::explain`] between two tokens of a run.
    pub(super) fn answer(&mut self, request: &ExplainRequest) -> Event {
        let answer = self.explain(&request.question, &mut || ControlFlow::Continue(()));
        Event::Explained {
            ticket: request.ticket,
            answer: answer.map_err(|error| error.to_string()),
        }
    }

    fn explain_step(
        &mut self,
        context: &[u32],
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Answer, EngineError> {
        let head = self.head_rows()?;
        let Some((streams, started)) = self.streams(context, go_on)? else {
            return Ok(Answer::Interrupted);
        };
        let dots = self.gpt2.head_dots(&streams.hidden)?;
        let square = |&h: &f32| f64::from(h) * f64::from(h);
        let hidden_norm = streams.hidden.iter().map(square).sum::<f64>().sqrt();
        let lens = self
            .gpt2
            .logit_lens(&streams.residual)?
            .chunks_exact(self.gpt2.config.vocab_size)
            .map(|values| LensRow {
                top: top(values, LENS_TOP),
                logits: LogitsRow::new(values.to_vec()),
            })
            .collect();
        let takes = started.elapsed();
        self.explaining.takes = Some(takes);
        Ok(Answer::Step(Arc::new(Explanation {
            head,
            hidden_norm,
            dots,
            lens,
            ms: takes.as_secs_f64() * 1e3,
        })))
    }

    /// What the last token of a context went through, and when its own pass began. Computed beside the KV cache, which
    /// stays bit for bit as it was.
    fn streams(
        &mut self,
        context: &[u32],
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Option<(Streams, Instant)>, EngineError> {
        let (&last, before) = context.split_last().ok_or(ModelError::NoTokens)?;
        let shared = self.cached_prefix(before);
        if shared == before.len() {
            let started = Instant::now();
            let gpt2 = &self.gpt2;
            let streams = self
                .cache
                .lend(shared, |cache| last_streams(gpt2, last, cache))?;
            return Ok(Some((streams, started)));
        }
        let mut cache = self.cache.fork(shared);
        for chunk in before[shared..].chunks(PREFILL_CHUNK) {
            let record = Record {
                logits: Logits::None,
                ..Record::default()
            };
            self.gpt2.forward(chunk, &mut cache, &record)?;
            if go_on().is_break() {
                return Ok(None);
            }
        }
        let started = Instant::now();
        let streams = last_streams(&self.gpt2, last, &mut cache)?;
        Ok(Some((streams, started)))
    }

    /// The rows of the head, measured once.
    fn head_rows(&mut self) -> Result<Arc<HeadRows>, EngineError> {
        if let Some(head) = &self.explaining.head {
            return Ok(head.clone());
        }
        let head = Arc::new(HeadRows {
            norms: self.gpt2.head_norms()?,
            bias: self.gpt2.head_bias().map(<[f32]>::to_vec),
            is_tied: self.gpt2.is_head_tied(),
            n_embd: self.gpt2.config.n_embd,
        });
        Ok(self.explaining.head.insert(head).clone())
    }
}

/// The streams of one token behind those in a cache.
fn last_streams(gpt2: &Gpt2, token: u32, cache: &mut KvCache) -> Result<Streams, ModelError> {
    let record = Record {
        logits: Logits::None,
        hidden: true,
        ..Record::default()
    };
    gpt2.forward(&[token], cache, &record)?
        .last_streams()
        .ok_or_else(|| ModelError::Device("no hidden states came back".to_owned()))
}
