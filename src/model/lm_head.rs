//! The LM head taken apart: its rows against a vector, in f64 sums, and the logit lens.
//!
//! Owns the reading of the head's rows, wherever they lie and in however many shards: on the CPU in place, from a GPU
//! shard by shard. What the numbers mean to a reader is not known here. Runs on the worker's thread.

use burn::tensor::{Tensor, TensorData, Transaction};
use rayon::prelude::*;

use super::{
    cpu_kernels::dot_f64,
    error::ModelError,
    gpt2::{Gpt2, Pass, execute},
    ops,
};

/// What the last position of a pass went through.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Streams {
    /// `[n_layer + 1, n_embd]`, the residual stream before `ln_f`: the embeddings, then after each block.
    pub residual: Vec<f32>,
    /// `[n_embd]`, the last of them after `ln_f`: what the head reads.
    pub hidden: Vec<f32>,
}

impl Pass {
    /// The streams of the last position; `None` where hidden states were not recorded.
    pub fn last_streams(&self) -> Option<Streams> {
        if self.rows == 0 || self.hidden.is_empty() {
            return None;
        }
        let n_embd = self.residual_final.len() / self.rows;
        let last = |stage: &[f32]| stage[(self.rows - 1) * n_embd..].to_vec();
        let mut stages = self.hidden.chunks_exact(self.rows * n_embd).map(last);
        // The recorded last stage is normalised already: the lens must not normalise it once more.
        let hidden = stages.next_back()?;
        let residual = stages.chain([last(&self.residual_final)]).flatten();
        Some(Streams {
            residual: residual.collect(),
            hidden,
        })
    }
}

impl Gpt2 {
    /// Whether the head is the token table itself.
    pub fn is_head_tied(&self) -> bool {
        self.network.lm_head.is_none()
    }

    /// `[vocab_size]`, added to the dot products; most models have none.
    pub fn head_bias(&self) -> Option<&[f32]> {
        self.network.lm_head_bias.as_deref()
    }

    /// The head's row of one token, `[n_embd]`.
    ///
    /// # Errors
    /// Where the id lies outside the vocabulary, or the device fails.
    pub fn head_row(&self, id: u32) -> Result<Vec<f32>, ModelError> {
        let vocab_size = self.config.vocab_size;
        if id as usize >= vocab_size {
            return Err(ModelError::TokenOutOfRange { id, vocab_size });
        }
        let row = Transaction::default().register(self.head().rows(&[id]));
        Ok(execute(row)?.into_iter().flatten().collect())
    }

    /// `[vocab_size]`: the dot product of `vector` (`[n_embd]`) with every row of the head, without its bias.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn head_dots(&self, vector: &[f32]) -> Result<Vec<f64>, ModelError> {
        self.each_head_row(|row| dot_f64(vector, row))
    }

    /// `[vocab_size]`: the length of every row of the head.
    ///
    /// # Errors
    /// Where the device fails.
    pub fn head_norms(&self) -> Result<Vec<f64>, ModelError> {
        self.each_head_row(|row| dot_f64(row, row).sqrt())
    }

    /// Logits of residual streams: `ln_f` and the head applied to each as if no block followed.
    ///
    /// # Shapes
    /// - `residual`: `[streams, n_embd]`, before `ln_f`
    /// - output: `[streams, vocab_size]`
    ///
    /// # Errors
    /// Where the device fails.
    pub fn logit_lens(&self, residual: &[f32]) -> Result<Vec<f32>, ModelError> {
        let n_embd = self.config.n_embd;
        let mut logits = Vec::new();
        // A few rows at a time, which the CPU multiplies faster than many.
        for rows in residual.chunks(ops::FEW_ROWS * n_embd) {
            let data = TensorData::new(rows.to_vec(), [rows.len() / n_embd, n_embd]);
            let rows = Tensor::<2>::from_data(data, &self.device);
            logits.extend(self.read_logits(self.network.ln_f.forward(rows))?);
        }
        Ok(logits)
    }

    /// One number for each row of the head, by all threads.
    fn each_head_row(&self, f: impl Fn(&[f32]) -> f64 + Sync) -> Result<Vec<f64>, ModelError> {
        let mut out = Vec::with_capacity(self.config.vocab_size);
        for shard in &self.head().weight {
            ops::with_values(shard.val(), |values| {
                out.par_extend(values.par_chunks_exact(self.config.n_embd).map(&f));
            })?;
        }
        Ok(out)
    }
}
