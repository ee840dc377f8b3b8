//! The session's transitions, with a worker that the test plays.

mod branches;
mod chain;
mod cost;
mod explain;
mod iterations;
mod redraws;
mod toys;

mod history;
mod limits;
mod running;

use std::sync::Arc;

use super::*;
use crate::{
    model::{DeviceChoice, LoadRequest, ModelSource},
    prediction::{AttentionRow, LayerRow, LogitsRow, PassTiming, Phase, Prediction, words_per_row},
    sampling::{Choice, Mode, SamplingSettings, select},
    worker::{Event, ExplainRequest, RunRequest},
};

const N_CTX: usize = 32;
const N_LAYER: usize = 2;
const N_HEAD: usize = 2;

fn model(name: &str, n_ctx: usize, end_of_text: Option<u32>) -> Arc<ModelInfo> {
    Arc::new(ModelInfo {
        n_layer: N_LAYER,
        n_head: N_HEAD,
        end_of_text,
        ..ModelInfo::of_test(name, n_ctx)
    })
}

/// A prediction that depends on the last token only: the next id is the most likely.
fn prediction(context: &[u32], vocab_size: usize, phase: Phase) -> Prediction {
    let last = context.last().copied().unwrap_or(0) as usize;
    let logits = (0..vocab_size)
        .map(|id| -(((id + vocab_size - last - 1) % vocab_size) as f32) * 0.01)
        .collect();
    let keys = context.len();
    let layer = || {
        Some(Arc::new(LayerRow {
            words: vec![0; N_HEAD * words_per_row(keys)],
            log_sum_exp: vec![0.0; N_HEAD],
        }))
    };
    Prediction {
        logits: Some(Arc::new(LogitsRow::new(logits))),
        attention: Some(Arc::new(AttentionRow {
            n_head: N_HEAD,
            keys,
            layers: (0..N_LAYER).map(|_| layer()).collect(),
        })),
        timing: Arc::new(PassTiming {
            phase,
            first: keys - 1,
            rows: 1,
            model_ms: 1.0,
            record_ms: 0.1,
        }),
    }
}

/// A session with its loaded model, and a worker that answers at once.
struct Bench {
    session: Session,
    now: f64,
    /// Tokens that the played worker appends before it waits to be told to go on.
    run: Option<RunRequest>,
    forwarded: usize,
    /// Questions that wait for an answer.
    questions: Vec<ExplainRequest>,
}

impl Bench {
    fn new(text: &str) -> Self {
        Self::with(text, model("first", N_CTX, Some(0)))
    }

    fn with(text: &str, model: Arc<ModelInfo>) -> Self {
        let settings = SamplingSettings {
            max_new_tokens: 6,
            ..Default::default()
        };
        let mut bench = Self {
            session: Session::new(text, settings, Pace::Unlimited),
            now: 0.0,
            run: None,
            forwarded: 0,
            questions: Vec::new(),
        };
        bench.event(Event::Loaded(model));
        bench
    }

    fn event(&mut self, event: Event) {
        let commands = self.session.on_event(event, self.now);
        self.obey(commands);
    }

    fn act(&mut self, action: Action) {
        self.now += 10.0;
        self.act_now(action);
    }

    /// Without time passing since the last action.
    fn act_now(&mut self, action: Action) {
        let commands = self.session.apply(action, self.now);
        self.obey(commands);
    }

    fn tick(&mut self) {
        self.now += 1.0;
        let commands = self.session.tick(self.now);
        self.obey(commands);
    }

    fn obey(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Predict {
                    epoch,
                    context,
                    from,
                } => {
                    self.predict(epoch, &context, from);
                    self.event(Event::Stopped {
                        epoch,
                        reason: None,
                    });
                }
                Command::Run(request) => {
                    self.predict(request.epoch, &request.context.clone(), request.from);
                    self.run = Some(request);
                }
                Command::Stop => {
                    if let Some(run) = self.run.take() {
                        self.event(Event::Stopped {
                            epoch: run.epoch,
                            reason: Some(StopReason::Stopped),
                        });
                    }
                }
                Command::Explain(request) => self.questions.push(request),
                _ => {}
            }
        }
    }

    fn predict(&mut self, epoch: u64, context: &[u32], from: usize) {
        let vocab_size = self.session.model().map_or(0, |model| model.vocab_size);
        let toy = self.session.toy().cloned();
        let predictions: Vec<_> = (from..context.len())
            .map(|at| match &toy {
                Some(toy) => toy.prediction(at).expect("a row"),
                None => prediction(&context[..=at], vocab_size, Phase::Prefill),
            })
            .collect();
        self.forwarded += predictions.len();
        if !predictions.is_empty() {
            self.event(Event::Predicted {
                epoch,
                first: from,
                predictions,
            });
        }
    }

    /// Lets the run in progress append `count` tokens.
    fn generate(&mut self, count: usize) {
        for _ in 0..count {
            let Some(mut run) = self.run.take() else {
                panic!("nothing runs")
            };
            let vocab_size = self.session.model().map_or(0, |model| model.vocab_size);
            let toy = self.session.toy().cloned();
            let predict = |context: &[u32]| match &toy {
                Some(toy) => toy.prediction(context.len() - 1).expect("a row"),
                None => prediction(context, vocab_size, Phase::Decode),
            };
            let row = predict(&run.context).logits.expect("logits");
            let choice = select(
                &row.values,
                &run.context,
                &run.settings,
                run.context.len() as u64,
                0,
            );
            run.context.push(choice.id);
            run.budget -= 1;
            let (epoch, settings) = (run.epoch, run.settings.clone());
            self.event(Event::Chosen {
                epoch,
                choice,
                settings,
            });
            let next = predict(&run.context);
            self.event(Event::Predicted {
                epoch,
                first: run.context.len() - 1,
                predictions: vec![next],
            });
            if run.budget == 0 {
                self.event(Event::Stopped {
                    epoch,
                    reason: Some(StopReason::MaxNewTokens),
                });
            } else {
                self.run = Some(run);
            }
        }
    }

    fn text(&self) -> &str {
        self.session.text()
    }
}
