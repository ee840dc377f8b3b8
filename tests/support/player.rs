//! A worker that the test plays: it answers the window's commands with predictions made up from the token ids alone,
//! so that every run of a test sees the same numbers. No model, no thread, no clock.

// Each test crate uses a part of it.
#![allow(dead_code)]

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
};

use logitscope::{
    explanation::{Explanation, HeadRows, LENS_TOP, LensRow, Nearest},
    model::{LoadRequest, ModelSource, WeightBytes, WeightOptions, built_in_tokenizer_json},
    prediction::{AttentionRow, LayerRow, LogitsRow, PassTiming, Phase, Prediction, pack_weights},
    sampling::{select, top},
    tokenizer::Tokenizer,
    toy::Toy,
    worker::{
        Answer, Command, Event, ExplainRequest, MeasureRequest, ModelInfo, PREFILL_CHUNK, Question,
        RunRequest, StopReason, WorkerHandle,
    },
};

/// Sizes of the built-in model.
pub const N_LAYER: usize = 6;
pub const N_HEAD: usize = 8;
pub const N_CTX: usize = 512;

/// What the worker says of its model: the built-in one's tokenizer and sizes.
pub fn model(name: &str, n_ctx: usize) -> ModelInfo {
    let tokenizer =
        Tokenizer::from_json(built_in_tokenizer_json()).expect("the built-in tokenizer");
    ModelInfo {
        name: name.to_owned(),
        source: ModelSource::BuiltIn,
        vocab_size: tokenizer.vocab_size(),
        end_of_text: tokenizer.end_of_text(),
        tokenizer,
        n_layer: N_LAYER,
        n_head: N_HEAD,
        n_embd: 256,
        n_ctx,
        parameters: 5_900_000,
        device: "played".to_owned(),
        device_why: String::new(),
        weights: WeightOptions::default(),
        weight_bytes: WeightBytes::default(),
        notes: Vec::new(),
        load_ms: 1.0,
    }
}

/// The same with a vocabulary as large as GPT-2's: tokens beyond the built-in ones are never read from a text.
pub fn model_with_large_vocabulary(n_ctx: usize) -> ModelInfo {
    const VOCAB_SIZE: usize = 50_257;
    let mut json: serde_json::Value =
        serde_json::from_slice(built_in_tokenizer_json()).expect("JSON");
    let vocab = json["model"]["vocab"]
        .as_object_mut()
        .expect("a vocabulary");
    for id in vocab.len()..VOCAB_SIZE {
        vocab.insert(format!("Ġword{id}"), id.into());
    }
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes()).expect("a tokenizer");
    ModelInfo {
        vocab_size: tokenizer.vocab_size(),
        tokenizer,
        ..model("large vocabulary", n_ctx)
    }
}

/// Logits over the vocabulary after a context.
pub type Mind = fn(&[u32], usize) -> Vec<f32>;

/// A number in [0, 1) for each pair.
fn noise(a: u64, b: u64) -> f32 {
    // SplitMix64's finaliser.
    let mut x = a
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(b.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 24) as f32
}

/// A distribution with a head and a long tail, of both signs, that depends on the last two tokens.
pub fn mind(context: &[u32], vocab_size: usize) -> Vec<f32> {
    let last = |n: usize| {
        context
            .iter()
            .rev()
            .nth(n)
            .map_or(0, |&id| u64::from(id) + 1)
    };
    let key = last(0) * 65_537 + last(1);
    (0..vocab_size)
        .map(|id| {
            let u = noise(key, id as u64).max(1e-7);
            // Whole words that are frequent: the ids before them are single bytes, those after them rare.
            let frequent = if (258..1500).contains(&id) { 1.5 } else { -1.5 };
            // Gumbel noise has the head and the tail.
            frequent - 1.3 * (-u.ln()).ln() - 4.0
        })
        .collect()
}

/// Weights over all keys up to the query: most on the first token and on the last ones, as in a trained model.
fn attention(context: &[u32], n_layer: usize, n_head: usize) -> AttentionRow {
    let keys = context.len();
    let layer = |layer: usize| {
        let mut words = Vec::new();
        let mut log_sum_exp = Vec::new();
        for head in 0..n_head {
            let scores: Vec<f32> = (0..keys)
                .map(|key| {
                    let near = -((keys - 1 - key) as f32) / (2.0 + 3.0 * head as f32);
                    let sink = if key == 0 { 2.0 } else { 0.0 };
                    near + sink + noise((layer * n_head + head) as u64, key as u64)
                })
                .collect();
            let sum: f32 = scores.iter().map(|score| score.exp()).sum();
            let weights: Vec<f32> = scores.iter().map(|score| score.exp() / sum).collect();
            words.extend(pack_weights(&weights));
            log_sum_exp.push(sum.ln());
        }
        Some(Arc::new(LayerRow { words, log_sum_exp }))
    };
    AttentionRow {
        n_head,
        keys,
        layers: (0..n_layer).map(layer).collect(),
    }
}

/// The prediction after `context`, made in a pass that began at position `first`.
fn prediction(
    context: &[u32],
    logits: Vec<f32>,
    model: &ModelInfo,
    timing: &Arc<PassTiming>,
) -> Prediction {
    Prediction {
        logits: Some(Arc::new(LogitsRow::new(logits))),
        attention: Some(Arc::new(attention(context, model.n_layer, model.n_head))),
        timing: timing.clone(),
    }
}

/// Rows of a head whose dot products are the logits of `mind`, as if it had them.
fn head_rows(model: &ModelInfo) -> HeadRows {
    HeadRows {
        norms: (0..model.vocab_size as u64)
            .map(|id| 1.5 + f64::from(noise(id, 11)))
            .collect(),
        bias: None,
        is_tied: true,
        n_embd: model.n_embd,
    }
}

/// Each stage of the lens is nearer to the logits than the one before.
fn explanation(context: &[u32], logits: &[f32], model: &ModelInfo) -> Explanation {
    let stage = |stage: usize| {
        let share = stage as f32 / model.n_layer as f32;
        let early = mind(&[stage as u32, context[0]], model.vocab_size);
        let mixed = logits.iter().zip(&early);
        let values: Vec<f32> = mixed
            .map(|(late, early)| share * late + (1.0 - share) * early)
            .collect();
        let values = if stage == model.n_layer {
            logits.to_vec()
        } else {
            values
        };
        LensRow {
            top: top(&values, LENS_TOP),
            logits: LogitsRow::new(values),
        }
    };
    Explanation {
        head: Arc::new(head_rows(model)),
        hidden_norm: 12.5,
        dots: logits.iter().map(|&z| f64::from(z)).collect(),
        lens: (0..=model.n_layer).map(stage).collect(),
        ms: 3.0,
    }
}

/// Plays the worker's part.
pub struct Player {
    commands: Receiver<Command>,
    events: Sender<Event>,
    pub model: Arc<ModelInfo>,
    pub mind: Mind,
    /// Everything that the window has asked for, in order.
    pub heard: Vec<Command>,
    /// Answers to model loads that are to come, first one first; without any, loads succeed.
    pub loads: VecDeque<Load>,
    /// The run in progress: it appends tokens when it is told to.
    run: Option<RunRequest>,
    appended: usize,
    /// The passes without the KV cache that are still to be made: when the test says so.
    measurement: Option<MeasureRequest>,
    /// Typed numbers in the model's place.
    toy: Option<Arc<Toy>>,
    /// Runs are carried out to their end as soon as they are asked for.
    pub runs_through: bool,
    /// Questions are left for the test to [`Player::answer`].
    pub holds_answers: bool,
    /// Predictions wait for [`Player::release`].
    pub holds_predictions: bool,
    held: Vec<Command>,
}

/// What happens to a model load.
pub enum Load {
    Succeeds(Arc<ModelInfo>),
    Fails {
        name: String,
        message: String,
        instead: Option<WeightOptions>,
    },
    /// Nothing is reported until the test does.
    Hangs,
}

impl Player {
    pub fn new(model: ModelInfo) -> (WorkerHandle, Self) {
        let (handle, commands, events) = WorkerHandle::scripted();
        let player = Self {
            commands,
            events,
            model: Arc::new(model),
            mind,
            heard: Vec::new(),
            loads: VecDeque::new(),
            run: None,
            appended: 0,
            measurement: None,
            toy: None,
            runs_through: false,
            holds_answers: false,
            holds_predictions: false,
            held: Vec::new(),
        };
        (handle, player)
    }

    /// Reports something to the window.
    pub fn say(&self, event: Event) {
        self.events.send(event).expect("the window is there");
    }

    pub fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Carries out what the window has asked for since the last call; false if that was nothing.
    pub fn pump(&mut self) -> bool {
        let mut any = false;
        while let Ok(command) = self.commands.try_recv() {
            any = true;
            self.heard.push(command.clone());
            self.obey(command);
        }
        any
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Load(LoadRequest {
                source: ModelSource::Toy(toy),
                ..
            }) => {
                self.toy = Some(toy.clone());
                self.say(Event::Loaded(Arc::new(ModelInfo::of_toy(toy))));
            }
            Command::UseToy(toy) => self.toy = Some(toy),
            Command::Load(_) => match self.loads.pop_front() {
                None => {
                    self.toy = None;
                    self.say(Event::Loaded(self.model.clone()));
                }
                Some(Load::Succeeds(model)) => {
                    self.toy = None;
                    self.model = model.clone();
                    self.say(Event::Loaded(model));
                }
                Some(Load::Fails {
                    name,
                    message,
                    instead,
                }) => self.say(Event::LoadFailed {
                    name,
                    message,
                    instead,
                }),
                Some(Load::Hangs) => {}
            },
            Command::CancelLoad => self.say(Event::LoadCancelled {
                name: "the model".to_owned(),
            }),
            Command::Predict { .. } if self.holds_predictions => self.held.push(command),
            Command::Predict {
                epoch,
                context,
                from,
            } => {
                self.predict(epoch, &context, from);
                self.say(Event::Stopped {
                    epoch,
                    reason: None,
                });
            }
            Command::Run(request) => {
                self.predict(request.epoch, &request.context, request.from);
                self.run = Some(request);
                self.appended = 0;
                if self.runs_through {
                    self.append(usize::MAX);
                }
            }
            Command::Settings(settings) => {
                if let Some(run) = &mut self.run {
                    run.settings = settings;
                }
            }
            Command::Stop => self.end(StopReason::Stopped),
            Command::MeasureUncached(request) => self.measurement = Some(request),
            Command::CancelMeasurement => self.measurement = None,
            Command::Explain(request) => {
                if !self.holds_answers {
                    self.answer(&request);
                }
            }
            Command::Pace(_) | Command::SelfCheck => {}
        }
    }

    /// Answers a question at once.
    pub fn answer(&self, request: &ExplainRequest) {
        let answer = match &request.question {
            Question::Step(context) => {
                let logits = (self.mind)(context, self.model.vocab_size);
                Answer::Step(Arc::new(explanation(context, &logits, &self.model)))
            }
            &Question::Nearest(token) => {
                let head = Arc::new(head_rows(&self.model));
                let own = head.norms[token as usize];
                let dot = |(id, norm): (u64, &f64)| match id == u64::from(token) {
                    true => own * own,
                    false => own * norm * f64::from(noise(u64::from(token) + 3, id)) * 0.7,
                };
                let dots: Vec<f64> = (0..).zip(&head.norms).map(dot).collect();
                Answer::Nearest(Arc::new(Nearest::new(head, token, &dots)))
            }
        };
        self.say(Event::Explained {
            ticket: request.ticket,
            answer: Ok(answer),
        });
    }

    /// Makes the predictions that were held back.
    pub fn release(&mut self) {
        for command in std::mem::take(&mut self.held) {
            self.obey(command);
        }
    }

    /// The questions that were asked, in order.
    pub fn questions(&self) -> Vec<ExplainRequest> {
        let question = |command: &Command| match command {
            Command::Explain(request) => Some(request.clone()),
            _ => None,
        };
        self.heard.iter().filter_map(question).collect()
    }

    fn end(&mut self, reason: StopReason) {
        if let Some(run) = self.run.take() {
            self.say(Event::Stopped {
                epoch: run.epoch,
                reason: Some(reason),
            });
        }
    }

    fn predict(&self, epoch: u64, context: &[u32], from: usize) {
        if let Some(toy) = &self.toy {
            let predictions = (from..context.len()).filter_map(|at| toy.prediction(at));
            return self.say(Event::Predicted {
                epoch,
                first: from,
                predictions: predictions.collect(),
            });
        }
        for first in (from..context.len()).step_by(PREFILL_CHUNK) {
            let rows = PREFILL_CHUNK.min(context.len() - first);
            let timing = Arc::new(PassTiming {
                phase: if rows == 1 && first > 0 {
                    Phase::Decode
                } else {
                    Phase::Prefill
                },
                first,
                rows,
                model_ms: 2.5 + 0.3 * rows as f64 + 0.6 * f64::from(noise(first as u64, 7)),
                record_ms: 0.2,
            });
            let predictions = (first..first + rows)
                .map(|at| {
                    let context = &context[..=at];
                    let logits = (self.mind)(context, self.model.vocab_size);
                    prediction(context, logits, &self.model, &timing)
                })
                .collect();
            self.say(Event::Predicted {
                epoch,
                first,
                predictions,
            });
        }
    }

    /// Lets the run in progress append up to `count` tokens, each with its prediction.
    pub fn append(&mut self, count: usize) {
        for _ in 0..count {
            let Some(run) = &mut self.run else { return };
            let logits = match &self.toy {
                Some(toy) => toy
                    .row(run.context.len() - 1)
                    .expect("a row")
                    .values
                    .clone(),
                None => (self.mind)(&run.context, self.model.vocab_size),
            };
            let position = run.context.len() as u64;
            let choice = select(&logits, &run.context, &run.settings, position, 0);
            run.context.push(choice.id);
            let (epoch, settings, context) = (run.epoch, run.settings.clone(), run.context.clone());
            let (budget, ended) = (run.budget, Some(choice.id) == self.model.end_of_text);
            self.appended += 1;
            self.say(Event::Chosen {
                epoch,
                choice,
                settings,
            });
            self.predict(epoch, &context, context.len() - 1);
            match () {
                () if ended => self.end(StopReason::EndOfText),
                () if self.appended >= budget => self.end(StopReason::MaxNewTokens),
                () if context.len()
                    >= self
                        .toy
                        .as_ref()
                        .map_or(self.model.n_ctx, |toy| toy.n_ctx()) =>
                {
                    self.end(StopReason::ContextFull)
                }
                () => {}
            }
        }
    }

    /// Makes up to `count` passes of the measurement in progress.
    pub fn measure(&mut self, count: usize) {
        let Some(request) = &mut self.measurement else {
            return;
        };
        let count = count.min(request.lengths.len());
        let made: Vec<_> = request.lengths.drain(..count).collect();
        let id = request.id;
        for tokens in made {
            let model_ms = 2.5 + 0.3 * tokens as f64 + 0.6 * f64::from(noise(tokens as u64, 11));
            self.say(Event::Measured {
                id,
                tokens,
                model_ms,
            });
        }
    }

    pub fn is_measuring(&self) -> bool {
        let request = self.measurement.as_ref();
        request.is_some_and(|request| !request.lengths.is_empty())
    }

    /// How many requests to run the model the window has made so far.
    pub fn model_requests(&self) -> usize {
        self.heard
            .iter()
            .filter(|command| matches!(command, Command::Predict { .. } | Command::Run(_)))
            .count()
    }
}
