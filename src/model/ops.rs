//! The two operations in which decoding spends its time, as functions on tensors.
//!
//! On any device they are burn operations. On the `flex` CPU backend, for few rows, they run the
//! loops of `cpu_kernels` on the same buffers instead. Both ways give the same numbers to
//! rounding, which the parity tests check against each other.

use burn::{
    backend::{Flex, flex::FlexTensor},
    tensor::{Bool, DType, FloatDType, Tensor, TensorData, activation, s},
};
use half::f16;

use super::{
    config::Activation,
    cpu_kernels::{self, AttendInput, LinearShape},
};

/// More rows than this are a prefill, where `gemm` is faster than streaming the weights per row.
const FEW_ROWS: usize = 6;

/// Stands for -inf in masked scores: finite, because shader compilers may assume that there are
/// no infinities; e^(this - m) is 0 in f32 for every score a model can have.
const MASKED: f32 = -1e30;

/// `x · weight + bias`, then `activation`.
///
/// # Shapes
/// - `x`: `[rows, inputs]`
/// - `weight`: `[inputs, outputs]`, f32 or f16; fast on the CPU when it is a transposed view
/// - `bias`: `[outputs]`
/// - output: `[rows, outputs]`
pub(crate) fn linear(
    x: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    activation: Option<Activation>,
) -> Tensor<2> {
    let [rows, _] = x.dims();
    let mut flex = None;
    if rows <= FEW_ROWS {
        flex = flex_linear(&x, &weight, bias.as_ref(), activation);
    }
    let (y, activation) = match flex {
        // The erf variant is left to burn.
        Some(y) => (y, activation.filter(|a| *a == Activation::GeluErf)),
        None => {
            let y = x.matmul(widened(weight));
            let y = match bias {
                Some(bias) => y + bias.unsqueeze(),
                None => y,
            };
            (y, activation)
        }
    };
    match activation {
        Some(activation) => activate(y, activation),
        None => y,
    }
}

fn flex_linear(
    x: &Tensor<2>,
    weight: &Tensor<2>,
    bias: Option<&Tensor<1>>,
    activation: Option<Activation>,
) -> Option<Tensor<2>> {
    let [rows, _] = x.dims();
    let [inputs, outputs] = weight.dims();
    let weight = flex_tensor(weight.clone())?;
    // Only [outputs, inputs] in memory can be streamed row by row.
    if weight.layout().strides() != [1, inputs as isize] {
        return None;
    }
    let start = weight.layout().start_offset();
    let range = start..start + inputs * outputs;
    let x = flex_tensor(x.clone())?.to_contiguous();
    let bias = match bias {
        Some(bias) => Some(flex_tensor(bias.clone())?.to_contiguous()),
        None => None,
    };
    let shape = LinearShape { rows, outputs };
    let (x, bias) = (x.as_slice()?, bias.as_ref().and_then(FlexTensor::as_slice));
    let activation = activation.filter(|a| *a != Activation::GeluErf);
    let out = match weight.dtype() {
        DType::F16 => {
            let weight = weight.storage::<f16>().get(range)?;
            cpu_kernels::linear(x, weight, shape, bias, activation)
        }
        _ => {
            let weight = weight.storage::<f32>().get(range)?;
            cpu_kernels::linear(x, weight, shape, bias, activation)
        }
    };
    Some(from_vec(out, [rows, outputs]))
}

/// The same numbers in f32.
///
/// A transposed view is widened in the order of memory, and stays one.
pub(crate) fn widened(x: Tensor<2>) -> Tensor<2> {
    if x.dtype() == DType::F32 {
        return x;
    }
    match flex_widened(&x) {
        Some(x) => x,
        None => x.cast(FloatDType::F32),
    }
}

/// burn-flex 0.22.1 casts on one thread, and makes a view contiguous first.
fn flex_widened(x: &Tensor<2>) -> Option<Tensor<2>> {
    let [rows, columns] = x.dims();
    let flex = flex_tensor(x.clone())?;
    let is_view = flex.layout().strides() == [1, rows as isize] && rows > 1;
    let flex = if is_view { flex } else { flex.to_contiguous() };
    let start = flex.layout().start_offset();
    let halves = flex.storage::<f16>().get(start..start + rows * columns)?;
    let values = cpu_kernels::widened(halves);
    Some(if is_view {
        from_vec(values, [columns, rows]).transpose()
    } else {
        from_vec(values, [rows, columns])
    })
}

/// # Shapes
/// - `x`, output: `[rows, width]`
fn activate(x: Tensor<2>, activation: Activation) -> Tensor<2> {
    match activation {
        Activation::GeluTanh => {
            // As `activation::gelu_approximate`, without its power of a negative number.
            let cube = x.clone() * x.clone() * x.clone();
            let inner = (x.clone() + cube * 0.044_715) * (2.0 / std::f64::consts::PI).sqrt();
            x * (inner.tanh() + 1.0) * 0.5
        }
        Activation::GeluErf => activation::gelu(x),
        Activation::Relu => activation::relu(x),
        Activation::Silu => activation::silu(x),
        Activation::Tanh => x.tanh(),
    }
}

/// What [`attend`] needs beside the tensors.
#[derive(Clone, Copy)]
pub(crate) struct AttendShape {
    pub n_head: usize,
    pub head_dim: usize,
    pub past: usize,
    pub scale: f32,
    pub keep_scores: bool,
}

/// What [`attend`] yields.
pub(crate) struct Attended {
    /// `[rows, n_embd]`, the weighted values of all heads side by side.
    pub context: Tensor<2>,
    /// `[n_head, rows, past + rows]`, 0 above the diagonal.
    pub weights: Tensor<3>,
    /// `[n_head, rows, 1]`: the largest score of a row, and the sum of e^(score - largest). Their
    /// log-sum-exp is `max + ln(sum)`, left to the reader because few want it.
    pub max: Tensor<3>,
    pub sum: Tensor<3>,
    /// Shape of `weights`; large negative where masked.
    pub scores: Option<Tensor<3>>,
}

/// Causal self-attention of the newest rows over all cached ones.
///
/// # Shapes
/// - `qkv`: `[rows, 3 * n_embd]`, of which the queries are read
/// - `key`, `value`: `[n_head, capacity, head_dim]`, valid up to `past + rows`
/// - `mask`: `[rows, past + rows]`, true where a query must not look; none for a single row
pub(crate) fn attend(
    qkv: Tensor<2>,
    key: Tensor<3>,
    value: Tensor<3>,
    mask: Option<&Tensor<2, Bool>>,
    shape: AttendShape,
) -> Attended {
    let [rows, _] = qkv.dims();
    if rows <= FEW_ROWS
        && let Some(attended) = flex_attend(&qkv, &key, &value, shape)
    {
        return attended;
    }
    let AttendShape {
        n_head,
        head_dim,
        past,
        scale,
        keep_scores,
    } = shape;
    let total = past + rows;
    let seen = s![0..n_head, 0..total, 0..head_dim];
    let query = split_heads(qkv.slice(s![0..rows, 0..n_head * head_dim]), n_head);
    let key = key.slice(seen).swap_dims(1, 2); // [n_head, head_dim, total]
    let mut scores = query.matmul(key) * scale; // [n_head, rows, total]
    if let Some(mask) = mask {
        let mask = mask.clone().unsqueeze::<3>().expand([n_head, rows, total]);
        scores = scores.mask_fill(mask, MASKED);
    }
    let max = scores.clone().max_dim(2);
    let kept = keep_scores.then(|| scores.clone());
    let powers = (scores - max.clone()).exp();
    let sum = powers.clone().sum_dim(2);
    let weights = powers / sum.clone();
    let context = weights.clone().matmul(value.slice(seen)); // [n_head, rows, head_dim]
    Attended {
        context: context.swap_dims(0, 1).reshape([rows, n_head * head_dim]),
        weights,
        max,
        sum,
        scores: kept,
    }
}

/// `[rows, n_embd]` to `[n_head, rows, head_dim]`
pub(crate) fn split_heads(x: Tensor<2>, n_head: usize) -> Tensor<3> {
    let [rows, n_embd] = x.dims();
    x.reshape([rows, n_head, n_embd / n_head]).swap_dims(0, 1)
}

fn flex_attend(
    qkv: &Tensor<2>,
    key: &Tensor<3>,
    value: &Tensor<3>,
    shape: AttendShape,
) -> Option<Attended> {
    let [rows, row_stride] = qkv.dims();
    let qkv = flex_tensor(qkv.clone())?;
    let key = flex_tensor(key.clone())?;
    let value = flex_tensor(value.clone())?;
    let out = cpu_kernels::attend(&AttendInput {
        query: qkv.as_slice()?,
        row_stride,
        key: key.as_slice()?,
        value: value.as_slice()?,
        n_head: shape.n_head,
        head_dim: shape.head_dim,
        rows,
        past: shape.past,
        scale: shape.scale,
        keep_scores: shape.keep_scores,
    });
    let heads = [shape.n_head, rows, 1];
    let square = [shape.n_head, rows, shape.past + rows];
    Some(Attended {
        context: from_vec(out.context, [rows, shape.n_head * shape.head_dim]),
        weights: from_vec(out.weights, square),
        max: from_vec(out.max, heads),
        sum: from_vec(out.sum, heads),
        scores: shape.keep_scores.then(|| from_vec(out.scores, square)),
    })
}

/// The tensor's CPU buffer, or none where it lives elsewhere.
fn flex_tensor<const D: usize>(tensor: Tensor<D>) -> Option<FlexTensor> {
    tensor.try_into_primitive::<Flex>().ok()
}

/// A CPU tensor that takes over `values`.
fn from_vec<const D: usize>(values: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    let data = TensorData::new(values, shape);
    Tensor::from_primitive::<Flex>(FlexTensor::from_data(data))
}
