//! `config.json`: the sizes and switches of a GPT-2, checked before anything is allocated.
//!
//! Owns parsing, validation and the named shapes. It does not read files and does not know
//! tensors; any thread may use it.

use std::fmt;

use serde_json::{Map, Value};

use super::{error::ModelError, precision::Precision};

/// The nonlinearity between `c_fc` and `c_proj`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `gelu_new`, `gelu_pytorch_tanh`, `gelu_fast`: the tanh approximation GPT-2 was trained with.
    GeluTanh,
    /// `gelu`: with the error function.
    GeluErf,
    Relu,
    /// `silu`, `swish`.
    Silu,
    Tanh,
}

impl Activation {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Self::GeluTanh,
            "gelu" => Self::GeluErf,
            "relu" => Self::Relu,
            "silu" | "swish" => Self::Silu,
            "tanh" => Self::Tanh,
            _ => return None,
        })
    }
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GeluTanh => "gelu_new",
            Self::GeluErf => "gelu",
            Self::Relu => "relu",
            Self::Silu => "silu",
            Self::Tanh => "tanh",
        })
    }
}

/// Sizes and switches of one GPT-2.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpt2Config {
    pub vocab_size: usize,
    /// Longest sequence, `n_positions` in `config.json`.
    pub n_ctx: usize,
    pub n_embd: usize,
    pub n_layer: usize,
    pub n_head: usize,
    /// Width of the MLP, `4 * n_embd` unless given.
    pub n_inner: usize,
    pub layer_norm_epsilon: f64,
    pub activation_function: Activation,
    /// Divide scores by the square root of `head_dim`.
    pub scale_attn_weights: bool,
    /// Also divide the scores of layer *i* by *i + 1*.
    pub scale_attn_by_inverse_layer_idx: bool,
    pub tie_word_embeddings: bool,
    pub bos_token_id: Option<u32>,
    pub eos_token_id: Option<u32>,
}

/// Upper bounds per key. They are far above any GPT-2 and exist so that products of sizes from an
/// untrusted file cannot overflow and a typo is named instead of exhausting memory.
const MAX_VOCAB: u64 = 1 << 24;
const MAX_CTX: u64 = 1 << 20;
const MAX_EMBD: u64 = 1 << 16;
const MAX_LAYER: u64 = 1 << 10;
const MAX_INNER: u64 = 1 << 20;
const MAX_PARAMETERS: u64 = 1 << 34;

impl Gpt2Config {
    /// Parse `config.json`.
    ///
    /// Keys that change the numbers are honoured or refused by name; keys about training
    /// (dropout, initialisation) and about other heads are ignored.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let json: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map_err(|e| ModelError::Config(format!("not valid JSON ({e})")))?;
        let Value::Object(json) = json else {
            return Err(ModelError::Config("not a JSON object".into()));
        };
        let keys = Keys(&json);

        match keys.text("model_type")? {
            None | Some("gpt2") => {}
            Some(other) => {
                return Err(ModelError::Config(format!(
                    "model_type is \"{other}\"; only \"gpt2\" can be run"
                )));
            }
        }
        for feature in ["add_cross_attention", "quantization_config"] {
            if keys
                .present(feature)
                .is_some_and(|v| *v != Value::Bool(false))
            {
                return Err(ModelError::Config(format!(
                    "{feature} is set, which is not supported"
                )));
            }
        }
        let activation_name = keys.text("activation_function")?.unwrap_or("gelu_new");
        let activation_function = Activation::from_name(activation_name).ok_or_else(|| {
            ModelError::Config(format!(
                "activation_function is \"{activation_name}\"; supported are gelu_new, gelu, relu, silu and tanh"
            ))
        })?;

        let n_embd = keys.size(&["n_embd", "hidden_size"], MAX_EMBD)?;
        let config = Self {
            vocab_size: keys.size(&["vocab_size"], MAX_VOCAB)?,
            n_ctx: keys.size(
                &["n_positions", "n_ctx", "max_position_embeddings"],
                MAX_CTX,
            )?,
            n_embd,
            n_layer: keys.size(&["n_layer", "num_hidden_layers"], MAX_LAYER)?,
            n_head: keys.size(&["n_head", "num_attention_heads"], MAX_EMBD)?,
            n_inner: match keys.present("n_inner") {
                Some(_) => keys.size(&["n_inner"], MAX_INNER)?,
                None => 4 * n_embd,
            },
            layer_norm_epsilon: keys.number("layer_norm_epsilon")?.unwrap_or(1e-5),
            activation_function,
            scale_attn_weights: keys.switch("scale_attn_weights")?.unwrap_or(true),
            scale_attn_by_inverse_layer_idx: keys
                .switch("scale_attn_by_inverse_layer_idx")?
                .unwrap_or(false),
            tie_word_embeddings: keys.switch("tie_word_embeddings")?.unwrap_or(true),
            bos_token_id: keys.token("bos_token_id")?,
            eos_token_id: keys.token("eos_token_id")?,
        };
        config.validate()?;
        Ok(config)
    }

    /// The published sizes by name: gpt2, distilgpt2, gpt2-medium, gpt2-large, gpt2-xl.
    pub fn shape(name: &str) -> Option<Self> {
        let (n_embd, n_layer, n_head) = match name {
            "gpt2" => (768, 12, 12),
            "distilgpt2" => (768, 6, 12),
            "gpt2-medium" => (1024, 24, 16),
            "gpt2-large" => (1280, 36, 20),
            "gpt2-xl" => (1600, 48, 25),
            _ => return None,
        };
        Some(Self {
            vocab_size: 50_257,
            n_ctx: 1024,
            n_embd,
            n_layer,
            n_head,
            n_inner: 4 * n_embd,
            layer_norm_epsilon: 1e-5,
            activation_function: Activation::GeluTanh,
            scale_attn_weights: true,
            scale_attn_by_inverse_layer_idx: false,
            tie_word_embeddings: true,
            bos_token_id: Some(50_256),
            eos_token_id: Some(50_256),
        })
    }

    /// Width of one attention head.
    pub fn head_dim(&self) -> usize {
        self.n_embd / self.n_head.max(1)
    }

    /// Number of weights, the tied head counted once. Saturates instead of overflowing.
    pub fn parameters(&self) -> u64 {
        let [v, c, d, l, i] = [
            self.vocab_size,
            self.n_ctx,
            self.n_embd,
            self.n_layer,
            self.n_inner,
        ]
        .map(|n| n as u128);
        let block = 4 * d * d + 4 * d + 2 * d * i + i + d + 4 * d;
        let head = if self.tie_word_embeddings { 0 } else { v * d };
        u64::try_from(v * d + c * d + l * block + 2 * d + head).unwrap_or(u64::MAX)
    }

    /// Bytes that the weights take in memory: matrices and tables in `precision`, biases and norms in f32.
    pub fn weight_bytes(&self, precision: Precision) -> u64 {
        let [d, l, i] = [self.n_embd, self.n_layer, self.n_inner].map(|n| n as u64);
        // Per block four norm vectors and four biases, `3d + d + i + d` long.
        let vectors = l.saturating_mul(4 * d + 5 * d + i).saturating_add(2 * d);
        let rest = self.parameters().saturating_sub(vectors);
        rest.saturating_mul(precision.bytes())
            .saturating_add(4 * vectors)
    }

    /// Refuse sizes that are zero, too large or do not fit each other, naming the key.
    pub fn validate(&self) -> Result<(), ModelError> {
        let sizes = [
            ("vocab_size", self.vocab_size, MAX_VOCAB),
            ("n_positions", self.n_ctx, MAX_CTX),
            ("n_embd", self.n_embd, MAX_EMBD),
            ("n_layer", self.n_layer, MAX_LAYER),
            ("n_head", self.n_head, MAX_EMBD),
            ("n_inner", self.n_inner, MAX_INNER),
        ];
        for (key, value, max) in sizes {
            check_size(key, value as u64, max)?;
        }
        if !self.n_embd.is_multiple_of(self.n_head) {
            return Err(ModelError::Config(format!(
                "n_embd {} is not a multiple of n_head {}",
                self.n_embd, self.n_head
            )));
        }
        if !(self.layer_norm_epsilon > 0.0 && self.layer_norm_epsilon < 1.0) {
            return Err(ModelError::Config(format!(
                "layer_norm_epsilon is {}; it must lie between 0 and 1",
                self.layer_norm_epsilon
            )));
        }
        for (key, id) in [
            ("bos_token_id", self.bos_token_id),
            ("eos_token_id", self.eos_token_id),
        ] {
            if let Some(id) = id.filter(|&id| id as usize >= self.vocab_size) {
                return Err(ModelError::Config(format!(
                    "{key} is {id}, outside the vocabulary of {} tokens",
                    self.vocab_size
                )));
            }
        }
        if self.parameters() > MAX_PARAMETERS {
            return Err(ModelError::Config(format!(
                "the sizes make {} weights; at most {MAX_PARAMETERS} can be loaded",
                self.parameters()
            )));
        }
        Ok(())
    }

    /// What the scores of `layer` are multiplied by before softmax.
    pub(crate) fn score_scale(&self, layer: usize) -> f32 {
        let mut scale = 1.0;
        if self.scale_attn_weights {
            scale /= (self.head_dim() as f64).sqrt();
        }
        if self.scale_attn_by_inverse_layer_idx {
            scale /= (layer + 1) as f64;
        }
        scale as f32
    }
}

fn check_size(key: &str, value: u64, max: u64) -> Result<(), ModelError> {
    if value == 0 || value > max {
        return Err(ModelError::Config(format!(
            "{key} is {value}; it must be between 1 and {max}"
        )));
    }
    Ok(())
}

/// Typed look-ups that name the key when its value has the wrong type. `null` counts as absent.
struct Keys<'a>(&'a Map<String, Value>);

impl<'a> Keys<'a> {
    fn present(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }

    fn wrong(key: &str, value: &Value, wanted: &str) -> ModelError {
        // A hostile value may be megabytes long; the message shows its beginning.
        let mut shown: String = value.to_string().chars().take(40).collect();
        if shown.len() < value.to_string().len() {
            shown.push('…');
        }
        ModelError::Config(format!("{key} is {shown}; it must be {wanted}"))
    }

    /// The first of `names` that is present; they are aliases of one size.
    fn size(&self, names: &[&str], max: u64) -> Result<usize, ModelError> {
        for &key in names {
            let Some(value) = self.present(key) else {
                continue;
            };
            let size = value.as_u64().ok_or_else(|| {
                Self::wrong(key, value, &format!("a whole number between 1 and {max}"))
            })?;
            check_size(key, size, max)?;
            return usize::try_from(size)
                .map_err(|_| Self::wrong(key, value, "smaller on this machine"));
        }
        Err(ModelError::Config(format!(
            "{} is missing",
            names.first().unwrap_or(&"a size")
        )))
    }

    fn number(&self, key: &str) -> Result<Option<f64>, ModelError> {
        self.present(key)
            .map(|v| v.as_f64().ok_or_else(|| Self::wrong(key, v, "a number")))
            .transpose()
    }

    fn switch(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.present(key)
            .map(|v| {
                v.as_bool()
                    .ok_or_else(|| Self::wrong(key, v, "true or false"))
            })
            .transpose()
    }

    fn text(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        self.present(key)
            .map(|v| v.as_str().ok_or_else(|| Self::wrong(key, v, "a text")))
            .transpose()
    }

    /// A token id. Newer configs may hold a list of ids; the first one is taken.
    fn token(&self, key: &str) -> Result<Option<u32>, ModelError> {
        let Some(value) = self.present(key) else {
            return Ok(None);
        };
        let id = match value {
            Value::Array(ids) => match ids.first() {
                Some(first) => first,
                None => return Ok(None),
            },
            id => id,
        };
        // transformers writes -1 for "none" in some old files.
        if id.as_i64() == Some(-1) {
            return Ok(None);
        }
        id.as_u64()
            .and_then(|id| u32::try_from(id).ok())
            .map(Some)
            .ok_or_else(|| Self::wrong(key, value, "a token id"))
    }
}
