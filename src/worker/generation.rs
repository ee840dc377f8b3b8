//! The generation loop: predict → select → append → repeat until a stop, whatever makes the predictions.

use std::{
    ops::ControlFlow,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Control, Event, ExplainRequest, Live, RunRequest, StopReason, Turn, Uncontrolled,
    engine::EngineError, stops::StopMatcher,
};
use crate::{
    prediction::{LogitsRow, Prediction},
    sampling::select,
    tokenizer::Tokenizer,
};

/// What makes the predictions that tokens are chosen from: a model, or a toy's typed rows.
pub(super) trait Predictor {
    /// Most tokens in a sequence.
    fn n_ctx(&self) -> usize;

    fn end_of_text(&self) -> Option<u32>;

    fn tokenizer(&self) -> Option<&Tokenizer>;

    /// Predicts after every context position from `from` on. `on_chunk` gets first positions and predictions, and
    /// may break.
    ///
    /// # Errors
    /// Where the context is none that can be predicted from, or the device fails.
    fn predict(
        &mut self,
        context: &[u32],
        from: usize,
        on_chunk: &mut dyn FnMut(usize, Vec<Prediction>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, EngineError>;

    /// How long a question takes to answer, where one may be answered between two tokens.
    fn explaining_takes(&self) -> Option<Duration> {
        None
    }

    /// The answer to such a question, to be reported.
    fn answer(&mut self, _request: &ExplainRequest) -> Option<Event> {
        None
    }
}

/// Runs the generation loop until a stop, and says why it stopped.
///
/// Each token is reported as [`Event::Chosen`] as soon as it is chosen, and the prediction after it, made
/// even for the last one, as [`Event::Predicted`].
///
/// # Errors
/// As [`Predictor::predict`].
pub(super) fn generate(
    predictor: &mut dyn Predictor,
    request: RunRequest,
    control: &mut dyn Control,
    emit: &mut dyn FnMut(Event),
) -> Result<StopReason, EngineError> {
    let RunRequest {
        epoch,
        context: mut ids,
        from,
        open,
        continuation,
        budget,
        settings,
        pace,
    } = request;
    let mut live = Live { settings, pace };
    let mut row = open;
    let from = if row.is_none() {
        from.min(ids.len().saturating_sub(1))
    } else {
        from
    };
    if predict_reporting(predictor, epoch, &ids, from, control, emit, &mut row)?.is_break() {
        return Ok(StopReason::Stopped);
    }
    let mut stops = StopMatcher::new(predictor.tokenizer().cloned(), &ids, continuation);
    let mut appended = 0;
    let mut last_token_at: Option<Instant> = None;
    loop {
        if appended >= budget {
            return Ok(StopReason::MaxNewTokens);
        }
        if ids.len() >= predictor.n_ctx() {
            return Ok(StopReason::ContextFull);
        }
        loop {
            match control.wait(last_token_at, &mut live, predictor.explaining_takes()) {
                Turn::Token => break,
                Turn::Explain(request) => {
                    if let Some(answer) = predictor.answer(&request) {
                        emit(answer);
                    }
                }
                Turn::End => return Ok(StopReason::Stopped),
            }
        }
        last_token_at = Some(Instant::now());
        let Some(logits) = row.take() else {
            return Ok(StopReason::Stopped);
        };
        EngineError::check(&logits, ids.len())?;

        let choice = select(&logits.values, &ids, &live.settings, ids.len() as u64, 0);
        ids.push(choice.id);
        appended += 1;
        let id = choice.id;
        emit(Event::Chosen {
            epoch,
            choice,
            settings: live.settings.clone(),
        });

        let last = ids.len() - 1;
        // A decode step is one pass: it is not interrupted.
        let _ = predict_reporting(
            predictor,
            epoch,
            &ids,
            last,
            &mut Uncontrolled,
            emit,
            &mut row,
        )?;
        if Some(id) == predictor.end_of_text() {
            return Ok(StopReason::EndOfText);
        }
        if stops.push(id, &live.settings.stop) {
            return Ok(StopReason::StopString);
        }
    }
}

/// [`Predictor::predict`] that reports each chunk and leaves the last logits in `row`.
fn predict_reporting(
    predictor: &mut dyn Predictor,
    epoch: u64,
    ids: &[u32],
    from: usize,
    control: &mut dyn Control,
    emit: &mut dyn FnMut(Event),
    row: &mut Option<Arc<LogitsRow>>,
) -> Result<ControlFlow<()>, EngineError> {
    predictor.predict(ids, from, &mut |first, predictions| {
        if let Some(logits) = predictions
            .last()
            .and_then(|prediction| prediction.logits.clone())
        {
            *row = Some(logits);
        }
        if !predictions.is_empty() {
            emit(Event::Predicted {
                epoch,
                first,
                predictions,
            });
        }
        control.check()
    })
}
