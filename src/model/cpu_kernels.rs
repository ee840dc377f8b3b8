//! Matrix-vector product and attention for few rows, on plain slices with all threads.
//!
//! Decoding reads every weight once for a single row, so it runs at the speed of memory or not at
//! all. burn-flex 0.22.1 hands such products to `gemm` on one thread (it counts multiplications,
//! and one row has few); these loops stream the weights with every thread instead. They hold no
//! state and know no tensors; `ops` decides when they are used.

use half::{f16, slice::HalfFloatSliceExt};
use rayon::prelude::*;

use super::config::Activation;

/// Running sums of a dot product: four vector registers of SSE2 or NEON, so that no addition waits
/// for the one before it.
const LANES: usize = 16;

/// Dot product of two rows of one length.
///
/// One row at a time on purpose: with several, LLVM (of rustc 1.95) packs a register across rows
/// and shuffles more than it multiplies.
#[inline(always)]
fn dot(x: &[f32], y: &[f32]) -> f32 {
    let (x, x_tail) = x.as_chunks::<LANES>();
    let (y, y_tail) = y.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0] + x_tail.iter().zip(y_tail).map(|(x, y)| x * y).sum::<f32>()
}

/// Dot products of `x` with every row of `matrix`, which has rows as long as `x`.
#[inline(never)]
fn dot_rows(x: &[f32], matrix: &[f32], out: &mut [f32]) {
    for (out, row) in out.iter_mut().zip(matrix.chunks_exact(x.len())) {
        *out = dot(x, row);
    }
}

/// Apply `activation` to one value. The erf variant is not served here.
#[inline(always)]
pub(crate) fn activate(activation: Activation, x: f32) -> f32 {
    match activation {
        // 0.5 x (1 + tanh u) = x / (1 + e^(-2u)), one exponential instead of a tanh.
        Activation::GeluTanh => {
            let u = std::f32::consts::FRAC_2_SQRT_PI
                * std::f32::consts::FRAC_1_SQRT_2
                * (x + 0.044_715 * x * x * x);
            x / (1.0 + (-2.0 * u).exp())
        }
        Activation::Relu => x.max(0.0),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
        // `ops` leaves it to burn and never asks for it here.
        Activation::GeluErf => x,
    }
}

/// A number that weights are kept in.
pub(crate) trait Weight: Copy + Send + Sync {
    /// These weights in f32: themselves, or widened into `buffer`.
    fn widen<'a>(weights: &'a [Self], buffer: &'a mut Vec<f32>) -> &'a [f32];
}

impl Weight for f32 {
    #[inline(always)]
    fn widen<'a>(weights: &'a [Self], _: &'a mut Vec<f32>) -> &'a [f32] {
        weights
    }
}

impl Weight for f16 {
    #[inline(always)]
    fn widen<'a>(weights: &'a [Self], buffer: &'a mut Vec<f32>) -> &'a [f32] {
        buffer.resize(weights.len(), 0.0);
        weights.convert_to_f32_slice(buffer);
        buffer
    }
}

/// f16 numbers as f32, by all threads.
pub(crate) fn widened(values: &[f16]) -> Vec<f32> {
    const CHUNK: usize = 1 << 16;
    let mut out = vec![0.0; values.len()];
    out.par_chunks_mut(CHUNK)
        .zip(values.par_chunks(CHUNK))
        .for_each(|(out, values)| values.convert_to_f32_slice(out));
    out
}

/// How many rows go in and how many numbers of each come out.
#[derive(Clone, Copy)]
pub(crate) struct LinearShape {
    pub rows: usize,
    pub outputs: usize,
}

/// Weight rows that stay in the cache while all rows of `x` pass over them.
const GROUP: usize = 4;

/// `x · weightᵀ + bias`, then `activation`.
///
/// # Shapes
/// - `x`: `[rows, inputs]`
/// - `weight`: `[outputs, inputs]`
/// - `bias`: `[outputs]`
/// - output: `[rows, outputs]`
pub(crate) fn linear<W: Weight>(
    x: &[f32],
    weight: &[W],
    LinearShape { rows, outputs }: LinearShape,
    bias: Option<&[f32]>,
    activation: Option<Activation>,
) -> Vec<f32> {
    let inputs = x.len() / rows;
    // A few pieces a thread: even when another program takes a core for a while, none waits long.
    let piece = outputs
        .div_ceil(4 * rayon::current_num_threads())
        .next_multiple_of(GROUP)
        .max(16);
    // [outputs / piece][rows][piece]: every thread writes its own stretch.
    let mut pieces = vec![0.0; rows * outputs];
    pieces
        .par_chunks_mut(rows * piece)
        .zip(weight.par_chunks(piece * inputs))
        .enumerate()
        .for_each_init(Vec::new, |buffer, (index, (out, weight))| {
            let width = out.len() / rows;
            for (group, weight) in weight.chunks(GROUP * inputs).enumerate() {
                let weight = W::widen(weight, buffer);
                let columns = GROUP * group..width.min(GROUP * (group + 1));
                for (x, out) in x.chunks_exact(inputs).zip(out.chunks_exact_mut(width)) {
                    dot_rows(x, weight, &mut out[columns.clone()]);
                }
            }
            for out in out.chunks_exact_mut(width) {
                if let Some(bias) = bias {
                    let bias = &bias[index * piece..][..width];
                    out.iter_mut().zip(bias).for_each(|(y, b)| *y += b);
                }
                if let Some(activation) = activation {
                    out.iter_mut().for_each(|y| *y = activate(activation, *y));
                }
            }
        });
    if rows == 1 {
        return pieces;
    }
    let mut out = vec![0.0; rows * outputs];
    for (index, block) in pieces.chunks(rows * piece).enumerate() {
        let width = block.len() / rows;
        for (row, values) in block.chunks_exact(width).enumerate() {
            out[row * outputs + index * piece..][..width].copy_from_slice(values);
        }
    }
    out
}

/// What [`attend`] reads and how it is laid out.
pub(crate) struct AttendInput<'a> {
    /// `[rows, row_stride]`, the queries first in each row.
    pub query: &'a [f32],
    pub row_stride: usize,
    /// `[n_head, capacity, head_dim]`
    pub key: &'a [f32],
    pub value: &'a [f32],
    pub n_head: usize,
    pub head_dim: usize,
    pub rows: usize,
    pub past: usize,
    pub scale: f32,
    pub keep_scores: bool,
}

/// What [`attend`] computes.
pub(crate) struct AttendOutput {
    /// `[rows, n_head * head_dim]`
    pub context: Vec<f32>,
    /// `[n_head, rows, past + rows]`, 0 above the diagonal.
    pub weights: Vec<f32>,
    /// `[n_head, rows]`: largest score of the row and the sum of e^(score - largest).
    pub max: Vec<f32>,
    pub sum: Vec<f32>,
    /// Shape of `weights`; empty unless asked for. Masked scores are -inf.
    pub scores: Vec<f32>,
}

/// The stretch of the output that one head writes.
struct HeadTask<'a> {
    context: &'a mut [f32],
    weights: &'a mut [f32],
    max: &'a mut [f32],
    sum: &'a mut [f32],
    scores: Option<&'a mut [f32]>,
}

/// Causal attention of a few rows over the cache, one head a task.
pub(crate) fn attend(input: &AttendInput) -> AttendOutput {
    let &AttendInput {
        n_head,
        head_dim,
        rows,
        past,
        ..
    } = input;
    let total = past + rows;
    let mut by_head = vec![0.0; n_head * rows * head_dim];
    let mut weights = vec![0.0; n_head * rows * total];
    let mut max = vec![0.0; n_head * rows];
    let mut sum = vec![0.0; n_head * rows];
    let kept = if input.keep_scores { weights.len() } else { 0 };
    let mut scores = vec![f32::NEG_INFINITY; kept];

    let mut score_chunks = scores.chunks_exact_mut(rows * total);
    let tasks: Vec<HeadTask> = by_head
        .chunks_exact_mut(rows * head_dim)
        .zip(weights.chunks_exact_mut(rows * total))
        .zip(max.chunks_exact_mut(rows).zip(sum.chunks_exact_mut(rows)))
        .map(|((context, weights), (max, sum))| HeadTask {
            context,
            weights,
            max,
            sum,
            scores: score_chunks.next(),
        })
        .collect();
    tasks
        .into_par_iter()
        .enumerate()
        .for_each(|(head, task)| attend_head(input, head, task));

    let context = if rows == 1 {
        by_head
    } else {
        let n_embd = n_head * head_dim;
        let mut context = vec![0.0; rows * n_embd];
        for (head, block) in by_head.chunks_exact(rows * head_dim).enumerate() {
            for (row, values) in block.chunks_exact(head_dim).enumerate() {
                context[row * n_embd + head * head_dim..][..head_dim].copy_from_slice(values);
            }
        }
        context
    };
    AttendOutput {
        context,
        weights,
        max,
        sum,
        scores,
    }
}

fn attend_head(input: &AttendInput, head: usize, mut task: HeadTask) {
    let &AttendInput {
        head_dim,
        rows,
        past,
        ..
    } = input;
    let total = past + rows;
    let head_len = input.key.len() / input.n_head;
    let key = &input.key[head * head_len..][..total * head_dim];
    let value = &input.value[head * head_len..][..total * head_dim];
    for row in 0..rows {
        let seen = past + row + 1;
        let query = &input.query[row * input.row_stride + head * head_dim..][..head_dim];
        let weights = &mut task.weights[row * total..][..seen];
        dot_rows(query, &key[..seen * head_dim], weights);
        let mut largest = f32::NEG_INFINITY;
        for score in weights.iter_mut() {
            *score *= input.scale;
            largest = largest.max(*score);
        }
        if let Some(scores) = &mut task.scores {
            scores[row * total..][..seen].copy_from_slice(weights);
        }
        let mut sum = 0.0;
        for weight in weights.iter_mut() {
            *weight = (*weight - largest).exp();
            sum += *weight;
        }
        let inverse = 1.0 / sum;
        weights.iter_mut().for_each(|w| *w *= inverse);
        add_weighted_rows(
            weights,
            &value[..seen * head_dim],
            &mut task.context[row * head_dim..][..head_dim],
        );
        task.max[row] = largest;
        task.sum[row] = sum;
    }
}

/// Add `weights[t] * rows[t]` over all t to `out`, four rows at once.
fn add_weighted_rows(weights: &[f32], rows: &[f32], out: &mut [f32]) {
    let width = out.len();
    let (weights4, weights_rest) = weights.as_chunks::<4>();
    let (block, rest) = rows.split_at(4 * weights4.len() * width);
    for (w, rows) in weights4.iter().zip(block.chunks_exact(4 * width)) {
        let (ab, cd) = rows.split_at(2 * width);
        let (a, b) = ab.split_at(width);
        let (c, d) = cd.split_at(width);
        for ((((o, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *o += (w[0] * a + w[1] * b) + (w[2] * c + w[3] * d);
        }
    }
    for (w, row) in weights_rest.iter().zip(rest.chunks_exact(width)) {
        out.iter_mut().zip(row).for_each(|(o, r)| *o += w * r);
    }
}
