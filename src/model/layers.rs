//! GPT-2's layers as burn modules, fields named as in the checkpoints.
//!
//! Owns the arithmetic of one block on tensors. It reads nothing back and does not know where
//! weights come from.

use burn::{
    module::{Module, Param},
    tensor::{Bool, Int, Tensor, TensorData, module::layer_norm, s},
};

use super::{
    config::Activation,
    kv_cache::LayerCache,
    ops::{self, AttendShape, Attended},
};

/// Token or position table, in row shards no larger than the device can bind.
#[derive(Module, Debug)]
pub(crate) struct ShardedTable {
    /// Each `[shard_rows, n_embd]`; all but the last have as many rows as the first.
    pub weight: Vec<Param<Tensor<2>>>,
}

impl ShardedTable {
    /// The rows `ids` in f32, in order. Ids must be inside the table.
    ///
    /// # Shapes
    /// - output: `[ids.len(), n_embd]`
    pub fn rows(&self, ids: &[u32]) -> Tensor<2> {
        let shard_rows = self.weight.first().map_or(1, |w| w.dims()[0]).max(1);
        let gather = |shard: usize, local: Vec<i32>| {
            let table = self.weight[shard].val();
            let count = local.len();
            let indices =
                Tensor::<1, Int>::from_data(TensorData::new(local, [count]), &table.device());
            ops::widened(table.select(0, indices))
        };
        // Which ids each shard holds, and where they go in the output.
        let mut found: Vec<(usize, Vec<i32>, Vec<usize>)> = Vec::new();
        for (position, &id) in ids.iter().enumerate() {
            let shard = id as usize / shard_rows;
            let local = (id as usize % shard_rows) as i32;
            match found.iter_mut().find(|(s, ..)| *s == shard) {
                Some((_, locals, positions)) => {
                    locals.push(local);
                    positions.push(position);
                }
                None => found.push((shard, vec![local], vec![position])),
            }
        }
        if let [(shard, locals, _)] = &mut found[..] {
            return gather(*shard, std::mem::take(locals));
        }
        let mut order = vec![0i32; ids.len()];
        let mut parts = Vec::new();
        let mut next = 0;
        for (shard, locals, positions) in found {
            parts.push(gather(shard, locals));
            for position in positions {
                order[position] = next;
                next += 1;
            }
        }
        let stacked = Tensor::cat(parts, 0); // [rows, n_embd], grouped by shard
        let count = order.len();
        let order = Tensor::from_data(TensorData::new(order, [count]), &stacked.device());
        stacked.select(0, order)
    }
}

#[derive(Module, Debug)]
pub(crate) struct LayerNorm {
    pub weight: Param<Tensor<1>>,
    pub bias: Param<Tensor<1>>,
    #[module(skip)]
    pub epsilon: f64,
}

impl LayerNorm {
    /// # Shapes
    /// - `x`, output: `[rows, n_embd]`
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        layer_norm(x, self.weight.val(), Some(self.bias.val()), self.epsilon)
    }
}

/// A linear layer whose weight is stored `[inputs, outputs]`, as GPT-2 checkpoints have it.
#[derive(Module, Debug)]
pub(crate) struct Conv1d {
    /// `[inputs, outputs]`. On the CPU a transposed view of `[outputs, inputs]` in memory.
    pub weight: Param<Tensor<2>>,
    pub bias: Param<Tensor<1>>,
}

impl Conv1d {
    /// # Shapes
    /// - `x`: `[rows, inputs]`
    /// - output: `[rows, outputs]`
    pub fn forward(&self, x: Tensor<2>, activation: Option<Activation>) -> Tensor<2> {
        ops::linear(x, self.weight.val(), Some(self.bias.val()), activation)
    }
}

#[derive(Module, Debug)]
pub(crate) struct Attention {
    pub c_attn: Conv1d,
    pub c_proj: Conv1d,
    #[module(skip)]
    pub n_head: usize,
    #[module(skip)]
    pub scale: f32,
}

#[derive(Module, Debug)]
pub(crate) struct Mlp {
    pub c_fc: Conv1d,
    pub c_proj: Conv1d,
    #[module(skip)]
    pub activation: Activation,
}

/// One transformer block, normalising before each half.
#[derive(Module, Debug)]
pub(crate) struct Block {
    pub ln_1: LayerNorm,
    pub attn: Attention,
    pub ln_2: LayerNorm,
    pub mlp: Mlp,
}

/// What a block needs to know about the pass.
pub(crate) struct BlockContext<'a> {
    pub past: usize,
    pub mask: Option<&'a Tensor<2, Bool>>,
    pub keep_scores: bool,
}

impl Block {
    /// # Shapes
    /// - `x`: `[rows, n_embd]`, the residual stream
    /// - output: `[rows, n_embd]` and what attention computed on the way
    pub fn forward(
        &self,
        x: Tensor<2>,
        cache: &mut LayerCache,
        context: &BlockContext,
    ) -> (Tensor<2>, Attended) {
        let attended = self
            .attn
            .forward(self.ln_1.forward(x.clone()), cache, context);
        let x = x + self.attn.c_proj.forward(attended.context.clone(), None);
        let inner = self
            .mlp
            .c_fc
            .forward(self.ln_2.forward(x.clone()), Some(self.mlp.activation));
        (x + self.mlp.c_proj.forward(inner, None), attended)
    }
}

impl Attention {
    /// Attention before `c_proj`.
    ///
    /// # Shapes
    /// - `x`: `[rows, n_embd]`, normalised
    fn forward(&self, x: Tensor<2>, cache: &mut LayerCache, context: &BlockContext) -> Attended {
        let [rows, n_embd] = x.dims();
        let qkv = self.c_attn.forward(x, None); // [rows, 3 * n_embd]
        let part = |index: usize| {
            let columns = index * n_embd..(index + 1) * n_embd;
            ops::split_heads(qkv.clone().slice(s![0..rows, columns]), self.n_head)
        };
        let [key, value] = cache.append(context.past, part(1), part(2));
        let shape = AttendShape {
            n_head: self.n_head,
            head_dim: n_embd / self.n_head,
            past: context.past,
            scale: self.scale,
            keep_scores: context.keep_scores,
        };
        ops::attend(qkv, key, value, context.mask, shape)
    }
}

/// The whole network. `lm_head` is absent where the head is the token table itself.
#[derive(Module, Debug)]
pub(crate) struct Network {
    pub wte: ShardedTable,
    pub wpe: Param<Tensor<2>>,
    pub h: Vec<Block>,
    pub ln_f: LayerNorm,
    pub lm_head: Option<ShardedTable>,
    /// Added to the logits after they are read back.
    #[module(skip)]
    pub lm_head_bias: Option<Vec<f32>>,
}
