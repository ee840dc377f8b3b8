//! A loaded GPT-2 and its forward pass.
//!
//! Owns the network, the order of the computation and the reading back of results as plain
//! numbers. Loading is in `load`, single operations in `ops`. Everything here runs on the thread
//! that owns the compute device.

use std::time::Instant;

use burn::tensor::{Bool, Device, Tensor, TensorData, Transaction, s};

use super::{
    config::Gpt2Config,
    error::ModelError,
    kv_cache::KvCache,
    layers::{BlockContext, Network},
    ops::{self, Attended},
    precision::Precision,
};

/// Which rows of logits a pass returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Logits {
    All,
    /// The row that predicts the next token.
    #[default]
    Last,
    None,
}

/// What a pass returns beside its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Record {
    pub logits: Logits,
    /// Attention weights and log-sum-exp of the new rows.
    pub attention: bool,
    /// Attention scores too; implies `attention`.
    pub scores: bool,
    /// The residual stream after each block, and `residual_final`.
    pub hidden: bool,
}

/// What one forward pass computed for `rows` new tokens after `past` cached ones.
#[derive(Debug, Clone, Default)]
pub struct Pass {
    pub past: usize,
    pub rows: usize,
    /// `[rows, vocab_size]`, `[1, vocab_size]` or empty, as asked. Row *i* predicts token *i + 1*.
    pub logits: Vec<f32>,
    /// One entry a layer; empty unless asked for.
    pub attention: Vec<LayerAttention>,
    /// `[n_layer + 1, rows, n_embd]`: the embeddings, then the stream after each block, the last one
    /// after `ln_f`, which is transformers' convention. Empty unless asked for.
    pub hidden: Vec<f32>,
    /// `[rows, n_embd]`, the last stream before `ln_f`. Empty unless hidden states are asked for.
    pub residual_final: Vec<f32>,
    /// From the call until the logits lay in memory: embeddings, all blocks, head and a blocking
    /// read-back of the logits. Attention weights are computed in it whether recorded or not.
    pub model_ms: f64,
    /// What recording took after that: reading attention and hidden states back and putting them
    /// in order. 0 when nothing beside logits is asked for.
    pub record_ms: f64,
}

/// Attention of one layer's new rows.
#[derive(Debug, Clone, Default)]
pub struct LayerAttention {
    /// `[n_head, rows, past + rows]`, 0 above the diagonal.
    pub weights: Vec<f32>,
    /// `[n_head, rows]`, natural logarithm of the summed exponentials of the scaled, masked scores.
    pub log_sum_exp: Vec<f32>,
    /// Shape of `weights`, scaled, -inf where masked. Empty unless asked for.
    pub scores: Vec<f32>,
}

/// A GPT-2 on one compute device.
#[derive(Debug)]
pub struct Gpt2 {
    pub config: Gpt2Config,
    /// What was done to make the files fit, one sentence each; empty for most models.
    pub notes: Vec<String>,
    pub precision: Precision,
    pub(crate) network: Network,
    pub(crate) device: Device,
    /// Largest tensor a kernel of the device may bind.
    pub(crate) binding_limit: u64,
}

impl Gpt2 {
    /// A cache for one sequence of this model.
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(&self.config, &self.device)
    }

    /// Bytes of weights that a decode step reads: every block, the final norm, the head, and one
    /// row of each embedding table.
    pub fn weight_bytes_per_step(&self) -> u64 {
        let [v, d, i, l] = [
            self.config.vocab_size,
            self.config.n_embd,
            self.config.n_inner,
            self.config.n_layer,
        ]
        .map(|n| n as u64);
        let norm = 2 * d;
        let matrices = l * (4 * d * d + 2 * d * i) + v * d + 2 * d;
        let biases = l * (3 * d + d + i + d);
        let head_bias = self.network.lm_head_bias.as_ref().map_or(0, |_| v);
        self.precision.bytes() * matrices + 4 * (l * 2 * norm + norm + biases + head_bias)
    }

    /// Append `ids` to the sequence in `cache` and compute what `record` asks for.
    ///
    /// Refused, with the cache unchanged: no ids, an id outside the vocabulary, a sequence longer
    /// than `n_ctx`, a cache of another model.
    pub fn forward(
        &self,
        ids: &[u32],
        cache: &mut KvCache,
        record: &Record,
    ) -> Result<Pass, ModelError> {
        self.check(ids, cache)?;
        let started = Instant::now();
        let (past, rows) = (cache.len(), ids.len());
        let record_attention = record.attention || record.scores;
        cache.reserve(past + rows);

        let mask = self.mask(past, rows);
        let positions = self.network.wpe.val().slice(s![past..past + rows, ..]);
        let positions = ops::widened(positions);
        let mut x = self.network.wte.rows(ids) + positions; // [rows, n_embd]
        let mut streams = Vec::new();
        let mut attended = Vec::new();
        let context = BlockContext {
            past,
            mask: mask.as_ref(),
            keep_scores: record.scores,
        };
        for (block, layer) in self.network.h.iter().zip(&mut cache.layers) {
            if record.hidden {
                streams.push(x.clone());
            }
            let (next, attention) = block.forward(x, layer, &context);
            x = next;
            if record_attention {
                attended.push(attention);
            }
        }
        let residual = record.hidden.then(|| x.clone());
        // Only the rows that are asked for go through the head, the most expensive matrix.
        let wants_all_rows = record.hidden || record.logits == Logits::All;
        let normed = match (wants_all_rows, record.logits) {
            (false, Logits::None) => None,
            (true, _) => Some(self.network.ln_f.forward(x)),
            (false, _) => Some(self.network.ln_f.forward(x.slice(s![rows - 1..rows, ..]))),
        };
        let logits = match (record.logits, &normed) {
            (Logits::All, Some(x)) => self.read_logits(x.clone())?,
            (Logits::Last, Some(x)) => {
                let last = x.dims()[0];
                self.read_logits(x.clone().slice(s![last - 1..last, ..]))?
            }
            _ => {
                self.device.sync().map_err(device_error)?;
                Vec::new()
            }
        };
        let model_ms = milliseconds(started);

        let started = Instant::now();
        if let (Some(residual), Some(normed)) = (residual, normed) {
            streams.push(normed);
            streams.push(residual);
        }
        let recorded = record_attention || record.hidden;
        let Recorded {
            attention,
            hidden,
            residual_final,
        } = read_record(attended, streams, past)?;
        cache.advance(rows);
        Ok(Pass {
            past,
            rows,
            logits,
            attention,
            hidden,
            residual_final,
            model_ms,
            record_ms: if recorded { milliseconds(started) } else { 0.0 },
        })
    }

    fn check(&self, ids: &[u32], cache: &KvCache) -> Result<(), ModelError> {
        if !cache.fits(&self.config) {
            return Err(ModelError::ForeignCache);
        }
        if ids.is_empty() {
            return Err(ModelError::NoTokens);
        }
        let (past, rows, n_ctx) = (cache.len(), ids.len(), self.config.n_ctx);
        if rows > n_ctx - past {
            return Err(ModelError::ContextFull { past, rows, n_ctx });
        }
        let vocab_size = self.config.vocab_size;
        if let Some(&id) = ids.iter().find(|&&id| id as usize >= vocab_size) {
            return Err(ModelError::TokenOutOfRange { id, vocab_size });
        }
        let total = past + rows;
        let scores = (self.config.n_head * rows) as u64 * total as u64 * 4;
        if scores > self.binding_limit {
            return Err(ModelError::TooLargeForDevice {
                name: format!("attention scores of {rows} tokens"),
                bytes: scores,
                limit: self.binding_limit,
                device: "the device".into(),
            });
        }
        Ok(())
    }

    /// True where a query may not look; a single row looks at everything before it.
    ///
    /// # Shapes
    /// - output: `[rows, past + rows]`
    fn mask(&self, past: usize, rows: usize) -> Option<Tensor<2, Bool>> {
        (rows > 1).then(|| Tensor::tril_mask([rows, past + rows], past as i64, &self.device))
    }

    /// Logits of normalised rows, piece by piece so that none exceeds the binding limit, read back
    /// in one go.
    ///
    /// # Shapes
    /// - `x`: `[rows, n_embd]`
    /// - output: `[rows, vocab_size]`
    fn read_logits(&self, x: Tensor<2>) -> Result<Vec<f32>, ModelError> {
        let [rows, _] = x.dims();
        let vocab_size = self.config.vocab_size;
        let head = self.network.lm_head.as_ref().unwrap_or(&self.network.wte);
        let mut transaction = Transaction::default();
        let mut places = Vec::new();
        let mut first_column = 0;
        for shard in &head.weight {
            let shard = shard.val();
            let columns = shard.dims()[0];
            let fitting = (self.binding_limit / (4 * columns as u64)).max(1);
            let step = usize::try_from(fitting).unwrap_or(usize::MAX).min(rows);
            for first_row in (0..rows).step_by(step) {
                let last_row = rows.min(first_row + step);
                let part = x.clone().slice(s![first_row..last_row, ..]);
                let part = ops::linear(part, shard.clone().transpose(), None, None);
                transaction = transaction.register(part);
                places.push((first_row, first_column, columns));
            }
            first_column += columns;
        }
        let mut parts = execute(transaction)?;
        let mut logits = if parts.len() == 1 {
            parts.swap_remove(0)
        } else {
            let mut logits = vec![0.0; rows * vocab_size];
            for (part, (first_row, first_column, columns)) in parts.iter().zip(places) {
                for (row, values) in part.chunks_exact(columns).enumerate() {
                    let start = (first_row + row) * vocab_size + first_column;
                    logits[start..start + columns].copy_from_slice(values);
                }
            }
            logits
        };
        if let Some(bias) = &self.network.lm_head_bias {
            for row in logits.chunks_exact_mut(vocab_size) {
                row.iter_mut().zip(bias).for_each(|(z, b)| *z += b);
            }
        }
        Ok(logits)
    }
}

/// The recorded part of a [`Pass`].
#[derive(Default)]
struct Recorded {
    attention: Vec<LayerAttention>,
    hidden: Vec<f32>,
    residual_final: Vec<f32>,
}

/// Read attention and hidden states back in one go.
///
/// `streams` are the embeddings, the stream after each block but the last, the normed one, and the
/// last one before the norm; or nothing.
fn read_record(
    attended: Vec<Attended>,
    streams: Vec<Tensor<2>>,
    past: usize,
) -> Result<Recorded, ModelError> {
    if attended.is_empty() && streams.is_empty() {
        return Ok(Recorded::default());
    }
    let mut transaction = Transaction::default();
    let mut has_scores = Vec::new();
    for layer in attended {
        transaction = transaction
            .register(layer.weights)
            .register(layer.max)
            .register(layer.sum);
        has_scores.push(layer.scores.is_some());
        if let Some(scores) = layer.scores {
            transaction = transaction.register(scores);
        }
    }
    for stream in streams {
        transaction = transaction.register(stream);
    }
    let mut parts = execute(transaction)?.into_iter();
    let mut next = || parts.next().unwrap_or_default();

    let mut attention = Vec::new();
    for has_scores in has_scores {
        let (weights, max, sum) = (next(), next(), next());
        let mut scores = if has_scores { next() } else { Vec::new() };
        let rows = row_count(&weights, max.len(), past);
        mask_scores(&mut scores, rows, past);
        let log_sum_exp = max.iter().zip(&sum).map(|(m, s)| m + s.ln()).collect();
        attention.push(LayerAttention {
            weights,
            log_sum_exp,
            scores,
        });
    }
    let mut streams: Vec<Vec<f32>> = parts.collect();
    let residual_final = streams.pop().unwrap_or_default();
    Ok(Recorded {
        attention,
        hidden: streams.concat(),
        residual_final,
    })
}

/// Rows of `[n_head, rows, past + rows]` weights, given that there are `n_head * rows` row sums.
fn row_count(weights: &[f32], sums: usize, past: usize) -> usize {
    (weights.len() / sums.max(1)).saturating_sub(past)
}

/// On the device masked scores are a large negative number; here they become what they mean.
fn mask_scores(scores: &mut [f32], rows: usize, past: usize) {
    let total = past + rows;
    if total == 0 {
        return;
    }
    for (index, row) in scores.chunks_exact_mut(total).enumerate() {
        row[past + index % rows + 1..].fill(f32::NEG_INFINITY);
    }
}

/// Wait for all registered tensors and take their numbers, without copying where the CPU made them.
fn execute(transaction: Transaction) -> Result<Vec<Vec<f32>>, ModelError> {
    let data: Vec<TensorData> = transaction.try_execute().map_err(device_error)?;
    data.into_iter()
        .map(|d| {
            d.try_into_vec::<f32>()
                .map_err(|e| ModelError::Device(e.to_string()))
        })
        .collect()
}

fn device_error(error: impl std::fmt::Display) -> ModelError {
    ModelError::Device(error.to_string())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
