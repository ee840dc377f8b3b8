//! What the window and the worker thread say to each other: plain numbers, never a compute handle.
//!
//! Every request carries the `epoch` of the session that made it; events of an older epoch are about a
//! sequence that no longer stands and are ignored.

use std::sync::Arc;

use crate::{
    explanation::{Explanation, Nearest},
    model::{LoadRequest, ModelSource, Precision, WeightBytes, WeightOptions},
    prediction::{LogitsRow, Prediction},
    sampling::{Choice, SamplingSettings},
    tokenizer::Tokenizer,
    toy::{self, Toy},
};

/// What the window asks of the worker.
#[derive(Clone, Debug)]
pub enum Command {
    /// Load a model; the previous one stays until the new one is ready, and for good when loading fails. Meanwhile it
    /// answers [`Self::Predict`].
    Load(LoadRequest),
    /// Other typed numbers for the toy in use.
    UseToy(Arc<Toy>),
    /// Give up the load in progress.
    CancelLoad,
    /// Predict after every context position from `from` on.
    Predict {
        epoch: u64,
        context: Vec<u32>,
        from: usize,
    },
    /// Predict → select → append → repeat until a stop.
    Run(RunRequest),
    /// New settings for the run in progress, from its next token on.
    Settings(Arc<SamplingSettings>),
    /// New pace for the run in progress.
    Pace(Pace),
    /// End the run or the prefill in progress at the next token or chunk.
    Stop,
    /// Compare devices, and cached with uncached decoding, on the loaded model.
    SelfCheck,
    /// Time passes without the KV cache, each whenever nothing else is asked for; an earlier measurement ends.
    MeasureUncached(MeasureRequest),
    /// Give up the measurement in progress.
    CancelMeasurement,
    /// Where probabilities come from. Only the newest question of a kind is answered.
    Explain(ExplainRequest),
}

/// A question beside the main work, which it neither changes nor holds up.
#[derive(Clone, Debug)]
pub struct ExplainRequest {
    /// Comes back with the answer.
    pub ticket: u64,
    pub question: Question,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The distribution after a context.
    Step(Vec<u32>),
    /// The rows of the LM head nearest in direction to this token's.
    Nearest(u32),
}

/// The answer to a [`Question`] of the same kind.
#[derive(Debug)]
pub enum Answer {
    Step(Arc<Explanation>),
    Nearest(Arc<Nearest>),
    /// Other work came first; the question may be asked again.
    Interrupted,
}

/// One call of the generation loop.
#[derive(Clone, Debug)]
pub struct RunRequest {
    pub epoch: u64,
    /// The sequence so far, at least one token and at most `n_ctx`.
    pub context: Vec<u32>,
    /// First context position whose prediction is not on record.
    pub from: usize,
    /// The recorded logits after the last token, if any: what is shown is what is drawn from.
    pub open: Option<Arc<LogitsRow>>,
    /// How many of the last context tokens belong to the continuation that stop strings are matched in.
    pub continuation: usize,
    /// Tokens to append at most.
    pub budget: usize,
    pub settings: Arc<SamplingSettings>,
    pub pace: Pace,
}

/// Passes without the KV cache that are to be timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureRequest {
    /// Tells the reports of this measurement from those of an earlier one.
    pub id: u64,
    pub context: Vec<u32>,
    /// How many of the first context tokens each pass takes, in the order in which they are made.
    pub lengths: Vec<usize>,
}

/// What the worker reports.
#[derive(Debug)]
pub enum Event {
    /// Bytes of weights read so far.
    Loading {
        name: String,
        done_bytes: u64,
        total_bytes: u64,
    },
    Loaded(Arc<ModelInfo>),
    LoadFailed {
        name: String,
        message: String,
        /// Options under which the same files may load.
        instead: Option<WeightOptions>,
    },
    LoadCancelled {
        name: String,
    },
    /// Predictions after the context positions `first`, `first + 1`, ….
    Predicted {
        epoch: u64,
        first: usize,
        predictions: Vec<Prediction>,
    },
    /// The loop appended a token; the prediction after it follows.
    Chosen {
        epoch: u64,
        choice: Choice,
        settings: Arc<SamplingSettings>,
    },
    /// A prediction or a run ended; `None` after a plain prediction.
    Stopped {
        epoch: u64,
        reason: Option<StopReason>,
    },
    /// A request could not be carried out.
    Failed {
        epoch: u64,
        message: String,
    },
    SelfCheck(SelfCheckSummary),
    /// A pass without the KV cache over the first `tokens` tokens took so long until its logits had been read back.
    Measured {
        id: u64,
        tokens: usize,
        model_ms: f64,
    },
    /// The measurement ended early: the passes that are left will not be made.
    MeasurementFailed {
        id: u64,
        message: String,
    },
    Explained {
        ticket: u64,
        answer: Result<Answer, String>,
    },
}

/// The outcome of a self-check, as the status line shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfCheckSummary {
    pub passed: bool,
    /// One line for each comparison.
    pub lines: Vec<String>,
}

/// Why a run ended, in the order in which the reasons are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    EndOfText,
    StopString,
    MaxNewTokens,
    ContextFull,
    Stopped,
}

impl StopReason {
    /// For the status line.
    pub fn describe(self) -> &'static str {
        match self {
            Self::EndOfText => "end of text",
            Self::StopString => "stop string",
            Self::MaxNewTokens => "max new tokens",
            Self::ContextFull => "context full",
            Self::Stopped => "stopped",
        }
    }
}

/// How fast a run appends tokens; never part of a reported time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Pace {
    TokensPerSecond(u32),
    #[default]
    Unlimited,
}

impl Pace {
    pub const CHOICES: [Self; 6] = [
        Self::TokensPerSecond(1),
        Self::TokensPerSecond(2),
        Self::TokensPerSecond(5),
        Self::TokensPerSecond(10),
        Self::TokensPerSecond(20),
        Self::Unlimited,
    ];

    pub fn label(self) -> String {
        match self {
            Self::TokensPerSecond(1) => "1 token/s".to_owned(),
            Self::TokensPerSecond(n) => format!("{n} tokens/s"),
            Self::Unlimited => "as fast as it goes".to_owned(),
        }
    }

    /// Least time between two tokens.
    pub fn interval(self) -> std::time::Duration {
        match self {
            Self::TokensPerSecond(n) => {
                std::time::Duration::from_secs_f64(1.0 / f64::from(n.max(1)))
            }
            Self::Unlimited => std::time::Duration::ZERO,
        }
    }
}

/// A loaded model, as everything outside the worker knows it.
#[derive(Clone, Debug)]
pub struct ModelInfo {
    /// "storyteller", or the folder's name.
    pub name: String,
    pub source: ModelSource,
    pub tokenizer: Tokenizer,
    pub n_layer: usize,
    pub n_head: usize,
    pub n_embd: usize,
    pub n_ctx: usize,
    pub vocab_size: usize,
    pub end_of_text: Option<u32>,
    pub parameters: u64,
    /// The compute device's name, and why it was taken.
    pub device: String,
    pub device_why: String,
    pub weights: WeightOptions,
    pub weight_bytes: WeightBytes,
    /// What was done to make the files fit, one sentence each.
    pub notes: Vec<String>,
    pub load_ms: f64,
}

impl ModelInfo {
    /// What stands in a model's place where numbers are typed.
    pub fn of_toy(toy: Arc<Toy>) -> Self {
        Self {
            name: toy::NAME.to_owned(),
            tokenizer: toy.tokenizer().clone(),
            n_layer: 0,
            n_head: 0,
            n_embd: 0,
            n_ctx: toy.n_ctx(),
            vocab_size: toy.vocab_size(),
            end_of_text: toy.tokenizer().end_of_text(),
            parameters: 0,
            device: toy::DEVICE.to_owned(),
            device_why: String::new(),
            weights: WeightOptions::default(),
            weight_bytes: WeightBytes::default(),
            notes: Vec::new(),
            load_ms: 0.0,
            source: ModelSource::Toy(toy),
        }
    }

    /// The typed numbers, where they stand in a model's place.
    pub fn toy(&self) -> Option<&Arc<Toy>> {
        match &self.source {
            ModelSource::Toy(toy) => Some(toy),
            _ => None,
        }
    }

    /// The precision as it is written beside a device; typed numbers have none.
    pub fn precision_name(&self) -> String {
        match self.toy() {
            Some(_) => toy::PRECISION.to_owned(),
            None => self.precision().to_string(),
        }
    }

    pub fn precision(&self) -> Precision {
        self.weights.precision
    }
}

#[cfg(test)]
impl ModelInfo {
    /// One small layer over the built-in model's tokens, for tests of what only reads this.
    pub(crate) fn of_test(name: &str, n_ctx: usize) -> Self {
        let tokenizer = Tokenizer::from_json(crate::model::built_in_tokenizer_json())
            .expect("the built-in tokenizer");
        Self {
            name: name.to_owned(),
            source: ModelSource::BuiltIn,
            vocab_size: tokenizer.vocab_size(),
            end_of_text: tokenizer.end_of_text(),
            tokenizer,
            n_layer: 1,
            n_head: 1,
            n_embd: 8,
            n_ctx,
            parameters: 1000,
            device: "test".to_owned(),
            device_why: String::new(),
            weights: WeightOptions::default(),
            weight_bytes: WeightBytes::default(),
            notes: Vec::new(),
            load_ms: 0.0,
        }
    }
}
