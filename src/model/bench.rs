//! How long a decode step takes, beside the time of merely reading as many bytes.
//!
//! Owns the measuring, not the printing. Runs on the calling thread and, for the bare read, on
//! rayon's.

use std::{hint::black_box, time::Instant};

use burn::tensor::Tensor;
use rayon::prelude::*;
use serde::Serialize;

use super::{
    device::{ComputeDevice, DeviceKind},
    error::ModelError,
    gpt2::{Gpt2, Logits, Record},
    precision::Precision,
};

/// Longest piece of a prompt that goes through the model at once.
const PREFILL_CHUNK: usize = 256;

/// What is kept of every step. Logits are computed in any case: without them there is no next
/// token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BenchRecord {
    /// Logits and the attention rows of all layers and heads.
    All,
    Logits,
    None,
}

#[derive(Debug, Clone, Serialize)]
pub struct BenchResult {
    pub device: String,
    pub precision: Precision,
    pub record: BenchRecord,
    pub weight_bytes_per_step: u64,
    pub bare_read_ms: f64,
    pub prefill_ms: f64,
    /// Median over the steps, each from call to recorded numbers.
    pub decode_ms_median: f64,
    /// `decode_ms_median / bare_read_ms`
    pub decode_ratio: f64,
}

/// Run `prompt_tokens` through the model, then decode `new_tokens` one by one.
pub fn run_bench(
    model: &Gpt2,
    device: &ComputeDevice,
    prompt_tokens: usize,
    new_tokens: usize,
    record: BenchRecord,
) -> Result<BenchResult, ModelError> {
    let n_ctx = model.config.n_ctx;
    if prompt_tokens.saturating_add(new_tokens) > n_ctx {
        return Err(ModelError::ContextFull {
            past: prompt_tokens,
            rows: new_tokens,
            n_ctx,
        });
    }
    let asked = Record {
        logits: Logits::Last,
        attention: record == BenchRecord::All,
        scores: false,
        hidden: false,
    };
    let ids = bench_ids(model.config.vocab_size, prompt_tokens + new_tokens);
    let (prompt, new) = ids.split_at(prompt_tokens);
    let mut cache = model.new_cache();
    // Kernels are compiled and memory is found on the first passes; none of that is decoding.
    for _ in 0..2 {
        model.forward(&ids[..ids.len().min(1)], &mut cache, &asked)?;
        cache.truncate(0);
    }

    let mut kept = Vec::new();
    let started = Instant::now();
    for chunk in prompt.chunks(PREFILL_CHUNK) {
        kept.push(model.forward(chunk, &mut cache, &asked)?);
    }
    let prefill_ms = milliseconds(started);
    kept.clear();

    let mut steps = Vec::with_capacity(new.len());
    for id in new {
        let started = Instant::now();
        let pass = model.forward(&[*id], &mut cache, &asked)?;
        match record {
            BenchRecord::All | BenchRecord::Logits => kept.push(pass),
            BenchRecord::None => drop(black_box(pass)),
        }
        steps.push(milliseconds(started));
    }
    let decode_ms_median = median(&mut steps);
    let bytes = model.weight_bytes_per_step();
    let bare_read_ms = match device.kind {
        DeviceKind::Cpu => bare_read_ms(bytes),
        DeviceKind::Gpu => gpu_read_ms(device, bytes, model.binding_limit)?,
    };
    Ok(BenchResult {
        device: device.name.clone(),
        precision: model.precision,
        record,
        weight_bytes_per_step: bytes,
        bare_read_ms,
        prefill_ms,
        decode_ms_median,
        decode_ratio: decode_ms_median / bare_read_ms,
    })
}

/// Ids spread over the vocabulary; which ones does not matter to the time.
fn bench_ids(vocab_size: usize, count: usize) -> Vec<u32> {
    (0..count)
        .map(|i| ((i * 7919 + 13) % vocab_size.max(1)) as u32)
        .collect()
}

/// Milliseconds to sum `bytes` of f32 with all threads, the fastest of five.
///
/// This is the floor under a decode step on the CPU, which reads every weight once.
pub fn bare_read_ms(bytes: u64) -> f64 {
    let count = usize::try_from(bytes / 4).unwrap_or(usize::MAX / 4);
    let values = vec![1.0f32; count];
    let piece = count.div_ceil(4 * rayon::current_num_threads()).max(1);
    fastest_of_five(|| {
        let sum: f32 = values.par_chunks(piece).map(sum).sum();
        black_box(sum);
    })
}

/// Sum with 32 accumulators, enough for the processor to have all loads in flight.
fn sum(values: &[f32]) -> f32 {
    let mut sums = [0.0f32; 32];
    let (body, tail) = values.as_chunks::<32>();
    for chunk in body {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    sums.iter().sum::<f32>() + tail.iter().sum::<f32>()
}

/// The same on a GPU: sums of tensors of as many bytes together, until one number is read back.
fn gpu_read_ms(device: &ComputeDevice, bytes: u64, limit: u64) -> Result<f64, ModelError> {
    let piece = limit.clamp(4, 64 << 20);
    let pieces = bytes.div_ceil(piece).max(1);
    let values = Tensor::<1>::ones([(piece / 4) as usize], &device.burn);
    let sync = || {
        device
            .burn
            .sync()
            .map_err(|e| ModelError::Device(e.to_string()))
    };
    sync()?;
    let mut result = Ok(());
    let ms = fastest_of_five(|| {
        for _ in 0..pieces {
            black_box(values.clone().sum());
        }
        if let Err(error) = sync() {
            result = Err(error);
        }
    });
    result.map(|()| ms)
}

fn fastest_of_five(mut run: impl FnMut()) -> f64 {
    (0..5)
        .map(|_| {
            let started = Instant::now();
            run();
            milliseconds(started)
        })
        .fold(f64::INFINITY, f64::min)
}

fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
