//! Keys and values of the tokens already read, so that a decode step computes one row only.
//!
//! Owns the memory and its growth. New rows are written in place; cutting back is a change of one
//! number. Lives on the worker's thread with the model.

use burn::tensor::{Device, Tensor, TensorData, Transaction, s};

use super::{config::Gpt2Config, error::ModelError, gpt2::execute};

/// Rows a fresh cache has room for.
const FIRST_CAPACITY: usize = 64;

/// Keys and values of one layer.
#[derive(Debug, Clone)]
pub(crate) struct LayerCache {
    /// `[n_head, capacity, head_dim]`. Taken out while rows are written: burn writes in place only
    /// when it holds the one handle.
    key: Option<Tensor<3>>,
    value: Option<Tensor<3>>,
}

impl LayerCache {
    /// Write `key` and `value` behind the first `past` rows and return the whole buffers.
    ///
    /// The returned handles must be dropped before the next call, or that call copies the cache.
    ///
    /// # Shapes
    /// - `key`, `value`: `[n_head, rows, head_dim]`
    /// - output: twice `[n_head, capacity, head_dim]`, valid up to `past + rows`
    pub fn append(&mut self, past: usize, key: Tensor<3>, value: Tensor<3>) -> [Tensor<3>; 2] {
        [(&mut self.key, key), (&mut self.value, value)].map(|(buffer, new)| {
            let [heads, rows, head_dim] = new.dims();
            let written = match buffer.take() {
                Some(old) => old.slice_assign(s![0..heads, past..past + rows, 0..head_dim], new),
                // Unreachable after `reserve`; still the right answer for an empty cache.
                None => new,
            };
            buffer.insert(written).clone()
        })
    }

    fn grow(&mut self, shape: [usize; 3], len: usize, device: &Device) {
        for buffer in [&mut self.key, &mut self.value] {
            let empty = Tensor::zeros(shape, device);
            *buffer = Some(match buffer.take() {
                Some(old) if len > 0 => {
                    let [heads, _, head_dim] = shape;
                    let ranges = s![0..heads, 0..len, 0..head_dim];
                    let kept = old.slice(ranges);
                    empty.slice_assign(ranges, kept)
                }
                _ => empty,
            });
        }
    }
}

/// Keys and values of every layer for one sequence.
#[derive(Debug, Clone)]
pub struct KvCache {
    pub(crate) layers: Vec<LayerCache>,
    len: usize,
    capacity: usize,
    n_ctx: usize,
    n_head: usize,
    head_dim: usize,
    device: Device,
}

impl KvCache {
    pub(crate) fn new(config: &Gpt2Config, device: &Device) -> Self {
        let empty = || LayerCache {
            key: None,
            value: None,
        };
        Self {
            layers: (0..config.n_layer).map(|_| empty()).collect(),
            len: 0,
            capacity: 0,
            n_ctx: config.n_ctx,
            n_head: config.n_head,
            head_dim: config.head_dim(),
            device: device.clone(),
        }
    }

    /// Tokens held.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forget all tokens from `len` on. Nothing is copied; more than there are changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// A cache of its own for a sequence that begins with the first `len` tokens of this one, which stays as it is.
    /// What both hold is copied when the fork is first written to.
    pub fn fork(&self, len: usize) -> Self {
        let mut fork = self.clone();
        fork.truncate(len);
        fork
    }

    /// Lends this cache, cut back to its first `len` tokens, to work that appends one token, and puts everything back
    /// bit for bit: cheaper than a [`Self::fork`], which copies all rows.
    ///
    /// # Errors
    /// Those of the work, after which the cache is as it was; and where the device fails.
    pub fn lend<R>(
        &mut self,
        len: usize,
        work: impl FnOnce(&mut Self) -> Result<R, ModelError>,
    ) -> Result<R, ModelError> {
        let before = self.len;
        let overwritten = if len < before {
            self.read_row(len)?
        } else {
            Vec::new()
        };
        self.truncate(len);
        let done = work(self);
        self.write_row(len, overwritten);
        self.len = before;
        done
    }

    /// Keys and values of one token, `[n_head, 1, head_dim]` of each layer.
    fn read_row(&self, at: usize) -> Result<Vec<Vec<f32>>, ModelError> {
        let row = s![0..self.n_head, at..at + 1, 0..self.head_dim];
        let buffers = self.layers.iter().flat_map(|l| [&l.key, &l.value]);
        let rows = buffers.flatten().map(|buffer| buffer.clone().slice(row));
        execute(rows.fold(Transaction::default(), Transaction::register))
    }

    fn write_row(&mut self, at: usize, rows: Vec<Vec<f32>>) {
        let row = s![0..self.n_head, at..at + 1, 0..self.head_dim];
        let buffers = self
            .layers
            .iter_mut()
            .flat_map(|l| [&mut l.key, &mut l.value]);
        for (buffer, values) in buffers.zip(rows) {
            let data = TensorData::new(values, [self.n_head, 1, self.head_dim]);
            let values = Tensor::from_data(data, &self.device);
            *buffer = buffer.take().map(|old| old.slice_assign(row, values));
        }
    }

    /// Bytes that keys and values take on the device.
    pub fn bytes(&self) -> u64 {
        let row = (self.n_head * self.head_dim * size_of::<f32>()) as u64;
        2 * self.layers.len() as u64 * self.capacity as u64 * row
    }

    pub(crate) fn fits(&self, config: &Gpt2Config) -> bool {
        self.layers.len() == config.n_layer
            && self.n_ctx == config.n_ctx
            && self.n_head == config.n_head
            && self.head_dim == config.head_dim()
    }

    /// Make room for `len` tokens.
    ///
    /// Doubling keeps the copying below two copies of a row over its life, and a short text in a
    /// model of long context cheap.
    pub(crate) fn reserve(&mut self, len: usize) {
        if len <= self.capacity {
            return;
        }
        self.capacity = len
            .max(2 * self.capacity)
            .max(FIRST_CAPACITY)
            .min(self.n_ctx);
        let shape = [self.n_head, self.capacity, self.head_dim];
        for layer in &mut self.layers {
            layer.grow(shape, self.len, &self.device);
        }
    }

    pub(crate) fn advance(&mut self, rows: usize) {
        self.len += rows;
    }
}
