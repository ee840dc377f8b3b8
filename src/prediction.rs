//! What one forward pass yields, as plain numbers: the logits row, one new attention row per layer and
//! head, and times. Made by the worker, read by the window and the command line; immutable and shared.
//!
//! Row *i* of a causal attention triangle never changes once it is computed, so a step records only its own row.

use std::{sync::Arc, time::Instant};

use half::f16;

use crate::{
    model::{LayerAttention, Pass},
    sampling::RowStats,
};

/// What the allocator and an `Arc`'s counters take beside a block itself, about: it is part of what the record takes.
const BLOCK_BYTES: usize = 24;

/// The next-token prediction made from all tokens up to and including one position.
///
/// Each part can be let go on its own when memory is short; a part that is gone is computed again on demand.
#[derive(Clone, Debug)]
pub struct Prediction {
    pub logits: Option<Arc<LogitsRow>>,
    pub attention: Option<Arc<AttentionRow>>,
    pub timing: Arc<PassTiming>,
}

/// One row of raw logits over the whole vocabulary, with what every panel derives from it.
#[derive(Debug)]
pub struct LogitsRow {
    /// `[vocab_size]`
    pub values: Vec<f32>,
    pub stats: RowStats,
}

impl LogitsRow {
    /// How many logits make a distribution impossible: NaN and +∞. A logit of -∞ is a probability of 0.
    pub fn not_numbers(&self) -> usize {
        let bad = |z: &&f32| z.is_nan() || **z == f32::INFINITY;
        self.values.iter().filter(bad).count()
    }

    pub fn new(values: Vec<f32>) -> Self {
        let stats = RowStats::of(&values);
        Self { values, stats }
    }

    /// Model P of one token: softmax at temperature 1 over the whole vocabulary; 0 outside it.
    pub fn prob(&self, id: u32) -> f64 {
        self.log_prob(id).exp()
    }

    /// Natural logarithm of [`Self::prob`], in nats.
    pub fn log_prob(&self, id: u32) -> f64 {
        self.values
            .get(id as usize)
            .map_or(f64::NEG_INFINITY, |&z| self.stats.log_prob(z))
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&self.values[..]) + 2 * BLOCK_BYTES
    }
}

/// How long the pass took that a prediction came from. A prefill pass is shared by all its positions.
#[derive(Clone, Debug, PartialEq)]
pub struct PassTiming {
    pub phase: Phase,
    /// Context position of the first token that the pass put through the model.
    pub first: usize,
    /// Tokens put through the model.
    pub rows: usize,
    /// Milliseconds until the logits had been read back.
    pub model_ms: f64,
    /// Further milliseconds for reading and packing the attention rows.
    pub record_ms: f64,
}

/// The two phases of autoregressive generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Many tokens at once.
    Prefill,
    /// One token, reading the others from the KV cache.
    Decode,
    /// Neither: the numbers were typed, and nothing was computed.
    Typed,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Typed => "typed",
        }
    }
}

/// One query's attention over all keys up to itself, for every layer and head.
#[derive(Clone, Debug)]
pub struct AttentionRow {
    pub n_head: usize,
    /// Number of keys: the query's context position + 1.
    pub keys: usize,
    /// `[n_layer]`; a layer that was let go for memory is `None`.
    pub layers: Vec<Option<Arc<LayerRow>>>,
}

/// One layer's part of an [`AttentionRow`], f16 weights packed two to a word as `shaders/heatmap.wgsl` reads them.
#[derive(Debug)]
pub struct LayerRow {
    /// `[n_head, words_per_row(keys)]`: key 2j in the low half of word j, key 2j + 1 in the high half.
    pub words: Vec<u32>,
    /// `[n_head]`: natural logarithm of the sum of exponentials of the scores, so that score = ln weight + lse.
    pub log_sum_exp: Vec<f32>,
}

/// Words that a row of `keys` f16 weights takes, padded to even length.
pub const fn words_per_row(keys: usize) -> usize {
    keys.div_ceil(2)
}

/// Packs f16 weights two to a word, the first in the low half; an odd tail is padded with zero.
pub fn pack_weights(weights: &[f32]) -> impl Iterator<Item = u32> {
    let bits = |w: f32| u32::from(f16::from_f32(w).to_bits());
    weights
        .chunks(2)
        .map(move |pair| bits(pair[0]) | pair.get(1).map_or(0, |&w| bits(w) << 16))
}

/// The weight of key `key` in a packed row.
pub fn unpack_weight(words: &[u32], key: usize) -> Option<f32> {
    let word = words.get(key / 2)?;
    let bits = if key.is_multiple_of(2) {
        word & 0xffff
    } else {
        word >> 16
    };
    Some(f16::from_bits(bits as u16).to_f32())
}

impl LayerRow {
    /// Takes query `row` of a pass.
    fn from_pass(
        layer: &LayerAttention,
        n_head: usize,
        past: usize,
        rows: usize,
        row: usize,
    ) -> Self {
        let keys_in_pass = past + rows;
        let keys = past + row + 1;
        let mut words = Vec::with_capacity(n_head * words_per_row(keys));
        for head in 0..n_head {
            let start = (head * rows + row) * keys_in_pass;
            words.extend(pack_weights(&layer.weights[start..start + keys]));
        }
        let log_sum_exp = (0..n_head)
            .map(|head| layer.log_sum_exp[head * rows + row])
            .collect();
        Self { words, log_sum_exp }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&self.words[..])
            + size_of_val(&self.log_sum_exp[..])
            + 3 * BLOCK_BYTES
    }
}

impl AttentionRow {
    /// Query `row` of a pass that recorded attention; `None` where it did not.
    pub fn from_pass(pass: &Pass, n_head: usize, row: usize) -> Option<Self> {
        if pass.attention.is_empty() {
            return None;
        }
        let layers = pass
            .attention
            .iter()
            .map(|layer| {
                Some(Arc::new(LayerRow::from_pass(
                    layer, n_head, pass.past, pass.rows, row,
                )))
            })
            .collect();
        Some(Self {
            n_head,
            keys: pass.past + row + 1,
            layers,
        })
    }

    pub fn layer(&self, layer: usize) -> Option<&Arc<LayerRow>> {
        self.layers.get(layer)?.as_ref()
    }

    /// The packed weights of one head, [`words_per_row`]`(keys)` words.
    pub fn head_words(&self, layer: usize, head: usize) -> Option<&[u32]> {
        let width = words_per_row(self.keys);
        self.layer(layer)?
            .words
            .get(head * width..(head + 1) * width)
    }

    /// The weight that this query gives to `key`, as kept in f16.
    pub fn weight(&self, layer: usize, head: usize, key: usize) -> Option<f32> {
        (key < self.keys).then_some(())?;
        unpack_weight(self.head_words(layer, head)?, key)
    }

    /// The scaled score before softmax, ln w + lse; `None` also where the weight underflowed f16.
    pub fn score(&self, layer: usize, head: usize, key: usize) -> Option<f32> {
        let weight = self.weight(layer, head, key)?;
        let lse = *self.layer(layer)?.log_sum_exp.get(head)?;
        (weight > 0.0).then(|| weight.ln() + lse)
    }

    /// The same row without one layer.
    pub fn without_layer(&self, layer: usize) -> Self {
        let mut row = self.clone();
        if let Some(slot) = row.layers.get_mut(layer) {
            *slot = None;
        }
        row
    }

    pub fn is_complete(&self) -> bool {
        self.layers.iter().all(Option::is_some)
    }

    pub fn bytes(&self) -> usize {
        let layers: usize = self
            .layers
            .iter()
            .flatten()
            .map(|layer| layer.bytes())
            .sum();
        size_of::<Self>() + size_of_val(&self.layers[..]) + 2 * BLOCK_BYTES + layers
    }
}

impl Prediction {
    /// The predictions of every row of a pass, in order. With only the last row's logits read back, the others have none.
    pub fn from_pass(pass: Pass, n_head: usize, vocab_size: usize, phase: Phase) -> Vec<Self> {
        let packing = Instant::now();
        let attention: Vec<_> = (0..pass.rows)
            .map(|row| AttentionRow::from_pass(&pass, n_head, row).map(Arc::new))
            .collect();
        let timing = Arc::new(PassTiming {
            phase,
            first: pass.past,
            rows: pass.rows,
            model_ms: pass.model_ms,
            record_ms: pass.record_ms + packing.elapsed().as_secs_f64() * 1e3,
        });
        let without_logits = pass.rows - (pass.logits.len() / vocab_size.max(1)).min(pass.rows);
        let mut logits = pass
            .logits
            .chunks_exact(vocab_size.max(1))
            .map(|row| Arc::new(LogitsRow::new(row.to_vec())));
        attention
            .into_iter()
            .enumerate()
            .map(|(row, attention)| Self {
                logits: if row < without_logits {
                    None
                } else {
                    logits.next()
                },
                attention,
                timing: timing.clone(),
            })
            .collect()
    }

    pub fn bytes(&self) -> usize {
        self.logits.as_ref().map_or(0, |row| row.bytes())
            + self.attention.as_ref().map_or(0, |row| row.bytes())
    }

    /// Whether nothing of what a recording pass yields has been let go.
    pub fn is_complete(&self) -> bool {
        self.logits.is_some() && self.attention.as_ref().is_some_and(|row| row.is_complete())
    }
}
