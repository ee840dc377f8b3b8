//! Taking in what the worker reports.

use std::sync::Arc;

use super::{
    Activity, Change, Draw, Origin, Prefill, Session,
    tree::{NewNode, NodeId, RunMark},
};
use crate::{
    model::LoadRequest,
    prediction::{Phase, Prediction},
    sampling::{Choice, SamplingSettings},
    worker::{Command, Event, ModelInfo, StopReason},
};

impl Session {
    /// Takes in one report at `now` (seconds), and returns what to ask of the worker next.
    pub fn on_event(&mut self, event: Event, now: f64) -> Vec<Command> {
        match event {
            Event::Loading {
                name,
                done_bytes,
                total_bytes,
            } => {
                // Reports of a load that was given up for another may still come.
                if let Some(loading) = &mut self.loading
                    && loading.name == name
                {
                    (loading.done_bytes, loading.total_bytes) = (done_bytes, total_bytes);
                }
                Vec::new()
            }
            Event::Loaded(model) => self.on_loaded(model, now),
            Event::LoadFailed {
                name,
                message,
                instead,
            } => {
                self.say(format!("{name} could not be loaded. {message}"));
                self.offer = instead
                    .zip(self.loading.as_ref())
                    .map(|(weights, loading)| LoadRequest {
                        weights,
                        ..loading.request.clone()
                    });
                self.after_load(now)
            }
            Event::LoadCancelled { name } => {
                self.say(format!("Loading {name} was cancelled."));
                self.after_load(now)
            }
            Event::Predicted {
                epoch,
                first,
                predictions,
            } if epoch == self.epoch => {
                self.on_predicted(first, predictions);
                Vec::new()
            }
            Event::Chosen {
                epoch,
                choice,
                settings,
            } if epoch == self.epoch => {
                self.on_chosen(choice, settings);
                Vec::new()
            }
            Event::Stopped { epoch, reason } if epoch == self.epoch => self.on_stopped(reason),
            Event::Failed { epoch, message } if epoch == self.epoch => {
                self.activity = Activity::Idle;
                self.say(message);
                Vec::new()
            }
            Event::SelfCheck(summary) => {
                self.self_check = Some(summary);
                Vec::new()
            }
            Event::Measured {
                id,
                tokens,
                model_ms,
            } => {
                self.on_measured(id, tokens, model_ms);
                Vec::new()
            }
            Event::MeasurementFailed { id, message } => {
                self.on_measurement_failed(id, message);
                Vec::new()
            }
            Event::Explained { ticket, answer } => {
                self.on_explained(ticket, answer);
                Vec::new()
            }
            Event::Predicted { .. }
            | Event::Chosen { .. }
            | Event::Stopped { .. }
            | Event::Failed { .. } => Vec::new(),
        }
    }

    fn on_loaded(&mut self, model: Arc<ModelInfo>, now: f64) -> Vec<Command> {
        let text = self.unread.take();
        if self.model.is_some() {
            self.history.end_burst();
            self.record(Change::Model, now);
        }
        // What the model before may still report is about its own tokens.
        self.epoch += 1;
        self.models.push(model);
        self.model = Some(self.models.len() - 1);
        if let Some(old) = self.empty_prediction.take() {
            self.recorded_bytes -= old.bytes();
        }
        self.self_check = None;
        self.measurement = None;
        self.last_timing = None;
        self.prefill = None;
        match text {
            Some(text) => {
                let ids = self
                    .tokenizer()
                    .map(|tokenizer| self.read(tokenizer, &text))
                    .unwrap_or_default();
                self.rewrite(0, &ids);
            }
            None => self.adopt_path_of_another_model(),
        }
        self.activity = Activity::Idle;
        self.stop_reason = None;
        self.selected = self.path.len();
        self.follow = true;
        self.after_load(now)
    }

    fn after_load(&mut self, now: f64) -> Vec<Command> {
        let queued = self
            .loading
            .take()
            .is_some_and(|loading| loading.run_queued);
        if queued && self.model.is_some() {
            self.apply(super::Action::RunOrPause, now)
        } else {
            self.predict()
        }
    }

    fn on_predicted(&mut self, first: usize, predictions: Vec<Prediction>) {
        self.predictions_received += predictions.len();
        let last = predictions
            .last()
            .and_then(|prediction| prediction.logits.as_ref());
        if let Some((row, bad)) = last
            .map(|row| (row, row.not_numbers()))
            .filter(|(_, bad)| *bad > 0)
        {
            self.say(format!(
                "{bad} of the {} logits are not numbers: what is shown of them means nothing, and nothing can be drawn from them. Load the model again, or choose another.",
                row.values.len()
            ));
        }
        if let Some(prediction) = predictions.last() {
            let timing = prediction.timing.clone();
            if timing.phase == Phase::Prefill {
                let prefill = self.prefill.get_or_insert_default();
                *prefill = Prefill {
                    tokens: prefill.tokens + timing.rows,
                    chunks: prefill.chunks + 1,
                    model_ms: prefill.model_ms + timing.model_ms,
                    record_ms: prefill.record_ms + timing.record_ms,
                };
            }
            self.last_timing = Some(timing).filter(|timing| timing.phase != Phase::Typed);
        }
        let start = self.context_start();
        for (offset, prediction) in predictions.into_iter().enumerate() {
            match self.path.get(start + first + offset) {
                Some(&node) => self.attach(node, prediction),
                None if self.path.is_empty() => {
                    self.recorded_bytes += prediction.bytes();
                    self.empty_prediction = Some(prediction);
                }
                None => {}
            }
        }
        self.enforce_budget();
    }

    /// Puts a prediction on record.
    pub(super) fn attach(&mut self, node: NodeId, prediction: Prediction) {
        self.recorded_bytes += prediction.bytes();
        self.recorded_bytes -= self.tree.set_prediction(node, prediction);
    }

    fn on_chosen(&mut self, choice: Choice, settings: Arc<SamplingSettings>) {
        let Some(model) = self.model else { return };
        let origin = if choice.u.is_some() {
            Origin::Sampled
        } else {
            Origin::Greedy
        };
        let draw = Some(Draw {
            settings,
            u: choice.u,
            redraw: choice.redraw,
        });
        let head = self.tree.child(
            self.head,
            NewNode {
                token: choice.id,
                model,
                origin,
                draw,
                outside: false,
            },
        );
        self.head = head;
        self.path.push(head);
        self.read_path();
        self.run.appended += 1;
        self.tree.node_mut(head).mark = Some(RunMark {
            appended: self.run.appended,
            budget: self.run.budget,
        });
        if self.follow {
            self.selected = self.newest_step();
        }
    }

    fn on_stopped(&mut self, reason: Option<StopReason>) -> Vec<Command> {
        let left = self.run.budget.saturating_sub(self.run.appended);
        match (self.activity, reason) {
            (Activity::Predicting, _) => self.activity = Activity::Idle,
            (Activity::Ending { pause: true }, Some(StopReason::Stopped)) if left > 0 => {
                self.activity = Activity::Paused
            }
            // A step's own budget is one token; the run it belongs to has more.
            (
                Activity::Running | Activity::Ending { pause: true },
                Some(StopReason::MaxNewTokens),
            ) if left > 0 => {
                self.activity = Activity::Paused;
            }
            _ => {
                self.activity = Activity::Idle;
                self.stop_reason = reason;
            }
        }
        self.predict()
    }
}
