//! The whole run as one JSON object: what it was made from, every token with how it was chosen, and after each token
//! the most likely next ones; the recorded attention where it is asked for.
//!
//! Numbers that are not finite are null. Weights are as recorded, in f16.

use std::sync::Arc;

use serde::{Serialize, Serializer, ser::SerializeSeq};

use crate::{
    model::Precision,
    prediction::{AttentionRow, LogitsRow, Phase},
    sampling::{SamplingSettings, rank, top},
    session::{Node, Session, TOP_ROWS},
    tokenizer::Tokenizer,
    worker::ModelInfo,
};

/// Everything that the file says, taken over from the session without copying a number; written on any thread.
pub struct RunRecord {
    model: Option<Arc<ModelInfo>>,
    settings: Arc<SamplingSettings>,
    prompt: String,
    text: String,
    selected: usize,
    stop_reason: Option<&'static str>,
    /// Index of the context's first token.
    context_start: usize,
    tokens: Vec<TokenRecord>,
}

struct TokenRecord {
    id: u32,
    origin: &'static str,
    u: Option<f64>,
    settings: Option<Arc<SamplingSettings>>,
    log_prob: Option<f64>,
    rank: Option<usize>,
    logits: Option<Arc<LogitsRow>>,
    attention: Option<Arc<AttentionRow>>,
    /// Phase and milliseconds of the pass that predicted after this token.
    timing: Option<(Phase, f64)>,
}

impl RunRecord {
    pub fn of(session: &Session) -> Self {
        let token = |node: &Node| {
            let prediction = node.prediction.as_ref();
            TokenRecord {
                id: node.token,
                origin: node.origin.name(),
                u: node.draw.as_ref().and_then(|draw| draw.u),
                settings: node.draw.as_ref().map(|draw| draw.settings.clone()),
                log_prob: node.score.map(|score| score.log_prob),
                rank: node.score.map(|score| score.rank),
                logits: prediction.and_then(|prediction| prediction.logits.clone()),
                attention: prediction.and_then(|prediction| prediction.attention.clone()),
                timing: prediction
                    .map(|prediction| (prediction.timing.phase, prediction.timing.model_ms)),
            }
        };
        Self {
            model: session.model().cloned(),
            settings: session.settings().clone(),
            prompt: super::facts::prompt(session).to_owned(),
            text: session.layout().text.clone(),
            selected: session.selected(),
            stop_reason: session.stop_reason().map(|reason| reason.describe()),
            context_start: session.context_start(),
            tokens: session.path_nodes().map(token).collect(),
        }
    }

    /// The JSON text, with or without every recorded attention weight.
    ///
    /// # Errors
    /// None is known of.
    pub fn to_json(&self, with_attention: bool) -> Result<Vec<u8>, serde_json::Error> {
        let tokenizer = self.model.as_ref().map(|model| &model.tokenizer);
        let model = self.model.as_ref().map(|model| ModelOut {
            name: &model.name,
            n_layer: model.n_layer,
            n_head: model.n_head,
            n_embd: model.n_embd,
            n_ctx: model.n_ctx,
            vocab_size: model.vocab_size,
            parameters: model.parameters,
            device: &model.device,
            precision: model.precision(),
        });
        // A token's own settings are written where they differ from those of the token before.
        let mut held: Option<&Arc<SamplingSettings>> = None;
        let tokens = self
            .tokens
            .iter()
            .enumerate()
            .map(|(position, token)| {
                let changed = token.settings.as_ref().filter(|&now| held != Some(now));
                held = token.settings.as_ref().or(held);
                TokenOut {
                    position,
                    in_context: position >= self.context_start,
                    id: token.id,
                    token: text(tokenizer, token.id),
                    origin: token.origin,
                    u: token.u,
                    settings: changed.map(AsRef::as_ref),
                    log_prob_nats: token.log_prob,
                    rank: token.rank,
                }
            })
            .collect();
        let steps = self
            .tokens
            .iter()
            .enumerate()
            .filter(|(_, token)| token.timing.is_some())
            .map(|(position, token)| {
                let stats = token.logits.as_ref().map(|row| &row.stats);
                StepOut {
                    step: position + 1,
                    phase: token.timing.map(|(phase, _)| phase.name()),
                    pass_model_ms: token.timing.map(|(_, ms)| ms),
                    entropy_nats: stats.map(|stats| stats.entropy_nats),
                    top: token.logits.as_ref().map(|row| top_rows(row, tokenizer)),
                    attention: token
                        .attention
                        .as_deref()
                        .filter(|_| with_attention)
                        .map(Weights),
                }
            })
            .collect();
        serde_json::to_vec(&RunOut {
            software: concat!("logitscope ", env!("CARGO_PKG_VERSION")),
            model,
            settings: &self.settings,
            prompt: &self.prompt,
            text: &self.text,
            selected_step: self.selected,
            stop_reason: self.stop_reason,
            tokens,
            steps,
        })
    }
}

fn text(tokenizer: Option<&Tokenizer>, id: u32) -> String {
    tokenizer.map_or_else(|| format!("#{id}"), |tokenizer| tokenizer.text_or_label(id))
}

fn top_rows(row: &LogitsRow, tokenizer: Option<&Tokenizer>) -> Vec<TopOut> {
    let ids = top(&row.values, TOP_ROWS).into_iter();
    ids.map(|id| TopOut {
        id,
        token: text(tokenizer, id),
        logit: row.values.get(id as usize).copied(),
        prob: row.prob(id),
        rank: rank(&row.values, id),
    })
    .collect()
}

#[derive(Serialize)]
struct RunOut<'a> {
    software: &'static str,
    model: Option<ModelOut<'a>>,
    /// Those of the window when the file was written; tokens drawn under others say so.
    settings: &'a SamplingSettings,
    prompt: &'a str,
    text: &'a str,
    selected_step: usize,
    stop_reason: Option<&'static str>,
    tokens: Vec<TokenOut<'a>>,
    steps: Vec<StepOut<'a>>,
}

#[derive(Serialize)]
struct ModelOut<'a> {
    name: &'a str,
    n_layer: usize,
    n_head: usize,
    n_embd: usize,
    n_ctx: usize,
    vocab_size: usize,
    parameters: u64,
    device: &'a str,
    precision: Precision,
}

#[derive(Serialize)]
struct TokenOut<'a> {
    position: usize,
    in_context: bool,
    id: u32,
    token: String,
    origin: &'static str,
    u: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    settings: Option<&'a SamplingSettings>,
    /// Under the model P of the prediction before it.
    log_prob_nats: Option<f64>,
    rank: Option<usize>,
}

#[derive(Serialize)]
struct StepOut<'a> {
    /// The prediction made from this many tokens.
    step: usize,
    phase: Option<&'static str>,
    /// Of the whole pass, which a prefill shares among its tokens.
    pass_model_ms: Option<f64>,
    entropy_nats: Option<f64>,
    /// Null where the logits were let go for memory.
    top: Option<Vec<TopOut>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<Weights<'a>>,
}

#[derive(Serialize)]
struct TopOut {
    id: u32,
    token: String,
    logit: Option<f32>,
    prob: f64,
    rank: usize,
}

/// `[n_layer][n_head][keys]`; null for a layer that was let go.
struct Weights<'a>(&'a AttentionRow);

impl Serialize for Weights<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = self.0;
        let mut layers = serializer.serialize_seq(Some(row.layers.len()))?;
        for layer in 0..row.layers.len() {
            let heads: Option<Vec<Vec<Option<f32>>>> = row.layer(layer).map(|_| {
                let head = |head| {
                    (0..row.keys)
                        .map(|key| row.weight(layer, head, key))
                        .collect()
                };
                (0..row.n_head).map(head).collect()
            });
            layers.serialize_element(&heads)?;
        }
        layers.end()
    }
}
