//! The model against what Hugging Face transformers computes on the same weights, and the ways of
//! computing the same numbers against each other. See `fixtures/make_reference.py`.

use std::{ops::ControlFlow, path::PathBuf};

use logitscope::model::{
    Activation, ComputeDevice, Gpt2, Gpt2Config, Logits, ModelSource, Pass, Precision, Record,
    WeightOptions,
};
use serde::Deserialize;

#[path = "support/adapter.rs"]
mod adapter;

const EVERYTHING: Record = Record {
    logits: Logits::All,
    attention: true,
    scores: true,
    hidden: true,
};
const LAST: Record = Record {
    logits: Logits::Last,
    attention: false,
    scores: false,
    hidden: false,
};
const ALL_LOGITS: Record = Record {
    logits: Logits::All,
    ..LAST
};

#[derive(Deserialize)]
struct Expected {
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    text: String,
    ids: Vec<u32>,
    logits: Vec<f32>,
    attention: Vec<f32>,
    hidden: Vec<f32>,
    token_log_probs: Vec<f32>,
    loss: Option<f64>,
    greedy: Vec<u32>,
}

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpt2-tiny")
}

fn expected() -> Vec<Prompt> {
    let text = std::fs::read_to_string(fixtures().join("expected.json")).unwrap();
    serde_json::from_str::<Expected>(&text).unwrap().prompts
}

fn load(layout: &str, device: &ComputeDevice) -> Gpt2 {
    let source = ModelSource::Folder(fixtures().join(layout));
    Gpt2::load(&source, device, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn whole(model: &Gpt2, ids: &[u32]) -> Pass {
    model
        .forward(ids, &mut model.new_cache(), &EVERYTHING)
        .unwrap()
}

/// Largest difference, which must stay within `limit` times the largest magnitude (at least 1).
#[track_caller]
fn assert_close(found: &[f32], expected: &[f32], limit: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: number of values");
    let scale = expected.iter().fold(1.0f32, |m, x| m.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= limit * scale,
            "{what}: value {i} is {a}, expected {b} (limit {})",
            limit * scale
        );
    }
}

fn log_prob(row: &[f32], id: u32) -> f64 {
    let max = row.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x)) as f64;
    let sum: f64 = row.iter().map(|&z| (z as f64 - max).exp()).sum();
    row[id as usize] as f64 - max - sum.ln()
}

fn argmax(row: &[f32]) -> u32 {
    let mut best = 0;
    for (i, &z) in row.iter().enumerate() {
        if z > row[best] {
            best = i;
        }
    }
    best as u32
}

/// How far from the reference numbers may be, relative to the largest (at least 1).
struct Limits {
    values: f32,
    attention: f32,
}

/// Weights rounded to f16.
const HALF: Limits = Limits {
    values: 2e-3,
    attention: 2e-3,
};

const EXACT: Limits = Limits {
    values: 1e-4,
    attention: 1e-5,
};

/// Every stage of every prompt.
fn check_reference(model: &Gpt2, limits: &Limits, greedy: bool) {
    for prompt in expected() {
        let pass = whole(model, &prompt.ids);
        let name = |what: &str| format!("{:?} {what}", prompt.text);
        let (rows, vocab) = (prompt.ids.len(), model.config.vocab_size);
        assert_eq!((pass.past, pass.rows), (0, rows));
        assert_close(&pass.logits, &prompt.logits, limits.values, &name("logits"));

        let stages = model.config.n_layer + 1;
        let width = rows * model.config.n_embd;
        assert_eq!(pass.hidden.len(), stages * width);
        for stage in 0..stages {
            let range = stage * width..(stage + 1) * width;
            let what = name(&format!("hidden state {stage}"));
            assert_close(
                &pass.hidden[range.clone()],
                &prompt.hidden[range],
                limits.values,
                &what,
            );
        }
        let weights: Vec<f32> = pass
            .attention
            .iter()
            .flat_map(|l| l.weights.clone())
            .collect();
        assert_close(
            &weights,
            &prompt.attention,
            limits.attention,
            &name("attention"),
        );
        check_attention(&pass);

        let log_probs: Vec<f32> = (1..rows)
            .map(|i| log_prob(&pass.logits[(i - 1) * vocab..i * vocab], prompt.ids[i]) as f32)
            .collect();
        assert_close(
            &log_probs,
            &prompt.token_log_probs,
            limits.values,
            &name("log-probs"),
        );
        if let Some(loss) = prompt.loss {
            let found = -log_probs.iter().map(|&p| p as f64).sum::<f64>() / log_probs.len() as f64;
            assert!(
                (found - loss).abs() <= limits.values as f64,
                "{} {found} {loss}",
                name("loss")
            );
        }
        if greedy {
            assert_eq!(
                greedy_ids(model, &prompt.ids, prompt.greedy.len()),
                prompt.greedy
            );
        }
    }
}

/// Weights, scores and log-sum-exp of one pass describe the same thing.
fn check_attention(pass: &Pass) {
    let total = pass.past + pass.rows;
    for layer in &pass.attention {
        for (row, (weights, scores)) in layer
            .weights
            .chunks(total)
            .zip(layer.scores.chunks(total))
            .enumerate()
        {
            let seen = pass.past + row % pass.rows + 1;
            let lse = layer.log_sum_exp[row];
            assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            for t in 0..total {
                if t < seen {
                    assert!((weights[t] - (scores[t] - lse).exp()).abs() < 1e-5);
                } else {
                    assert_eq!((weights[t], scores[t]), (0.0, f32::NEG_INFINITY));
                }
            }
        }
    }
}

fn greedy_ids(model: &Gpt2, prompt: &[u32], length: usize) -> Vec<u32> {
    let mut ids = prompt.to_vec();
    let mut cache = model.new_cache();
    let mut pass = model.forward(prompt, &mut cache, &LAST).unwrap();
    while ids.len() < length {
        ids.push(argmax(&pass.logits));
        if ids.len() < length {
            pass = model
                .forward(&ids[ids.len() - 1..], &mut cache, &LAST)
                .unwrap();
        }
    }
    ids
}

/// Decode up to the full context; every step equals the same row of a recompute from nothing.
fn check_cached(model: &Gpt2) {
    let n_ctx = model.config.n_ctx;
    let ids = test_ids(model, n_ctx);
    let mut cache = model.new_cache();
    for length in 1..=n_ctx {
        let step = model
            .forward(&ids[length - 1..length], &mut cache, &EVERYTHING)
            .unwrap();
        assert_eq!((step.past, step.rows, cache.len()), (length - 1, 1, length));
        check_attention(&step);
        let full = whole(model, &ids[..length]);
        let vocab = model.config.vocab_size;
        let what = |part: &str| format!("{part} at length {length}");
        assert_close(
            &step.logits,
            &full.logits[(length - 1) * vocab..],
            1e-4,
            &what("logits"),
        );
        for (step, full) in step.attention.iter().zip(&full.attention) {
            for head in 0..model.config.n_head {
                let found = &step.weights[head * length..][..length];
                let expected = &full.weights[(head * length + length - 1) * length..][..length];
                assert_close(found, expected, 1e-5, &what("attention"));
            }
        }
        assert_close(
            &step.residual_final,
            &full.residual_final[(length - 1) * model.config.n_embd..],
            1e-4,
            &what("last residual"),
        );
    }
}

fn test_ids(model: &Gpt2, count: usize) -> Vec<u32> {
    (0..count)
        .map(|i| ((i * i * 31 + i * 7 + 3) % model.config.vocab_size) as u32)
        .collect()
}

#[test]
fn every_layout_agrees_with_transformers() {
    let flex = ComputeDevice::flex();
    for layout in [
        "safetensors",
        "bare-with-masks",
        "with-lm-head",
        "sharded",
        "vocab-and-merges",
        "pytorch-bin",
    ] {
        check_reference(&load(layout, &flex), &EXACT, true);
    }
}

#[test]
fn rounded_layouts_agree_within_their_rounding() {
    let flex = ComputeDevice::flex();
    // The weights have 11 and 8 significant bits: relative errors of up to 5e-4 and 4e-3.
    let bf16 = Limits {
        values: 1.6e-2,
        attention: 1.6e-2,
    };
    check_reference(&load("f16", &flex), &HALF, false);
    check_reference(&load("bf16", &flex), &bf16, false);
    // What can be exact: a greedy step agrees wherever the best two logits are clearly apart.
    for (layout, margin) in [("f16", 0.05), ("bf16", 0.5)] {
        let model = load(layout, &flex);
        for prompt in expected() {
            let vocab = model.config.vocab_size;
            let pass = whole(&model, &prompt.ids);
            for (found, row) in pass.logits.chunks(vocab).zip(prompt.logits.chunks(vocab)) {
                let best = argmax(row);
                let next = row
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| *i != best as usize)
                    .fold(f32::NEG_INFINITY, |m, (_, &z)| m.max(z));
                if row[best as usize] - next > margin {
                    assert_eq!(argmax(found), best, "{layout} {:?}", prompt.text);
                }
            }
        }
    }
}

#[test]
fn cached_decoding_equals_a_full_recompute_on_the_cpu() {
    check_cached(&load("safetensors", &ComputeDevice::flex()));
}

#[test]
fn any_split_of_a_text_gives_the_same_logits() {
    // Crosses the border between few rows and a prefill, on either side of a cache.
    let model = load("safetensors", &ComputeDevice::flex());
    let ids = test_ids(&model, 60);
    let full = whole(&model, &ids);
    for sizes in [
        [1, 59, 0],
        [17, 16, 27],
        [2, 40, 18],
        [30, 1, 29],
        [59, 1, 0],
    ] {
        let mut cache = model.new_cache();
        let mut logits = Vec::new();
        for size in sizes.into_iter().filter(|&s| s > 0) {
            let start = cache.len();
            let pass = model
                .forward(&ids[start..start + size], &mut cache, &EVERYTHING)
                .unwrap();
            check_attention(&pass);
            logits.extend(pass.logits);
        }
        assert_close(&logits, &full.logits, 1e-4, &format!("split {sizes:?}"));
    }
}

/// The CPU runs few rows and many by different code; sizes that fill no register and every
/// activation must come out the same.
#[test]
fn odd_sizes_and_every_activation_agree_for_few_and_many_rows() {
    let mut config = Gpt2Config {
        vocab_size: 61,
        n_ctx: 40,
        n_embd: 33,
        n_layer: 2,
        n_head: 3,
        n_inner: 71,
        scale_attn_by_inverse_layer_idx: true,
        tie_word_embeddings: false,
        bos_token_id: None,
        eos_token_id: None,
        ..Gpt2Config::shape("gpt2").unwrap()
    };
    for activation in [
        Activation::GeluTanh,
        Activation::GeluErf,
        Activation::Relu,
        Activation::Silu,
        Activation::Tanh,
    ] {
        config.activation_function = activation;
        let source = ModelSource::Random(config.clone(), 3);
        let flex = ComputeDevice::flex();
        let model = Gpt2::load(&source, &flex, &mut |_, _| ControlFlow::Continue(())).unwrap();
        check_cached(&model);
    }
}

#[test]
fn truncating_forgets_and_decodes_again() {
    let model = load("safetensors", &ComputeDevice::flex());
    let ids = test_ids(&model, 40);
    let mut cache = model.new_cache();
    model.forward(&ids, &mut cache, &LAST).unwrap();
    for length in [33, 33, 7, 1, 0, 5] {
        cache.truncate(length);
        let kept = cache.len();
        assert_eq!(kept, length.min(kept));
        let mut other = ids[..kept].to_vec();
        other.extend(ids[kept..].iter().rev().take(3));
        let again = model
            .forward(&other[kept..], &mut cache, &ALL_LOGITS)
            .unwrap();
        let full = whole(&model, &other);
        let vocab = model.config.vocab_size;
        assert_close(
            &again.logits,
            &full.logits[kept * vocab..],
            1e-4,
            "after truncation",
        );
        cache.truncate(kept);
    }
    cache.truncate(1000);
    assert!(
        cache.len() <= 40,
        "truncating to more than there is adds nothing"
    );
}

#[test]
fn logits_can_be_all_last_or_none() {
    let model = load("safetensors", &ComputeDevice::flex());
    let ids = test_ids(&model, 9);
    let vocab = model.config.vocab_size;
    let all = whole(&model, &ids);
    let last = model.forward(&ids, &mut model.new_cache(), &LAST).unwrap();
    assert_close(&last.logits, &all.logits[8 * vocab..], 1e-5, "last row");
    assert!(last.attention.is_empty() && last.hidden.is_empty());
    assert_eq!(last.record_ms, 0.0);
    let none = Record {
        logits: Logits::None,
        ..LAST
    };
    let mut cache = model.new_cache();
    let pass = model.forward(&ids, &mut cache, &none).unwrap();
    assert!(pass.logits.is_empty());
    assert_eq!(cache.len(), 9);
}

#[test]
fn a_sharded_table_equals_a_whole_one() {
    let flex = ComputeDevice::flex();
    let model = load("safetensors", &flex);
    // 48 numbers a row: shards of 90 rows, of which the last has 40.
    let mut narrow = flex.clone();
    narrow.max_storage_binding_bytes = 90 * 48 * 4;
    let sharded = Gpt2::load(
        &ModelSource::Folder(fixtures().join("safetensors")),
        &narrow,
        &mut |_, _| ControlFlow::Continue(()),
    );
    // 17,280 bytes are too few for wpe and the projections, which cannot be split.
    assert!(sharded.is_err());
    narrow.max_storage_binding_bytes = 48 * 192 * 4;
    let sharded = Gpt2::load(
        &ModelSource::Folder(fixtures().join("safetensors")),
        &narrow,
        &mut |_, _| ControlFlow::Continue(()),
    )
    .unwrap();
    let ids = test_ids(&model, 40);
    let (a, b) = (
        model
            .forward(&ids, &mut model.new_cache(), &EVERYTHING)
            .unwrap(),
        sharded
            .forward(&ids, &mut sharded.new_cache(), &EVERYTHING)
            .unwrap(),
    );
    assert_close(&b.logits, &a.logits, 1e-5, "sharded logits");
    assert_close(&b.hidden, &a.hidden, 1e-5, "sharded hidden states");
}

#[test]
fn the_context_limit_is_exact() {
    let model = load("safetensors", &ComputeDevice::flex());
    let n_ctx = model.config.n_ctx;
    let ids = test_ids(&model, n_ctx + 1);
    let run = |count: usize| {
        let mut cache = model.new_cache();
        let result = model.forward(&ids[..count], &mut cache, &LAST);
        (result.map(|p| p.logits.len()), cache)
    };
    assert_eq!(
        run(0).0.unwrap_err().to_string(),
        "there are no tokens to run the model on"
    );
    assert_eq!(run(1).0.unwrap(), model.config.vocab_size);
    let (_, mut cache) = run(n_ctx - 1);
    assert_eq!(cache.len(), n_ctx - 1);
    model.forward(&ids[..1], &mut cache, &LAST).unwrap();
    let (_, mut cache) = run(n_ctx);
    let full = model.forward(&ids[..1], &mut cache, &LAST).unwrap_err();
    assert_eq!(
        full.to_string(),
        "1 more tokens after 64 exceed the context of 64 tokens; shorten the text"
    );
    assert_eq!(cache.len(), n_ctx, "a refused pass leaves the cache alone");
    let (result, cache) = run(n_ctx + 1);
    assert!(result.is_err() && cache.is_empty());
}

#[test]
fn ids_outside_the_vocabulary_are_refused() {
    let model = load("safetensors", &ComputeDevice::flex());
    for id in [400, u32::MAX] {
        let mut cache = model.new_cache();
        let error = model.forward(&[1, id], &mut cache, &LAST).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("token id {id} is outside the vocabulary of 400 tokens")
        );
        assert!(cache.is_empty());
    }
}

#[test]
fn the_built_in_model_loads_and_predicts() {
    let flex = ComputeDevice::flex();
    let mut seen = (0, 0);
    let model = Gpt2::load(&ModelSource::BuiltIn, &flex, &mut |done, total| {
        seen = (done, total);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen.0, seen.1, "progress ends at the end");
    let pass = model
        .forward(&[1, 2, 3], &mut model.new_cache(), &LAST)
        .unwrap();
    assert!(pass.logits.iter().all(|z| z.is_finite()));
}

#[test]
fn loading_can_be_cancelled() {
    let source = ModelSource::BuiltIn;
    let error = Gpt2::load(&source, &ComputeDevice::flex(), &mut |_, _| {
        ControlFlow::Break(())
    })
    .unwrap_err();
    assert_eq!(error.to_string(), "loading was cancelled");
}

#[test]
fn the_gpu_agrees_with_transformers() {
    let Some(gpu) = adapter::gpu("the_gpu_agrees_with_transformers") else {
        return;
    };
    check_reference(&load("safetensors", &gpu), &EXACT, true);
}

#[test]
fn cached_decoding_equals_a_full_recompute_on_the_gpu() {
    let Some(gpu) = adapter::gpu("cached_decoding_equals_a_full_recompute_on_the_gpu") else {
        return;
    };
    check_cached(&load("safetensors", &gpu));
}

#[test]
fn the_gpu_equals_the_cpu() {
    let Some(gpu) = adapter::gpu("the_gpu_equals_the_cpu") else {
        return;
    };
    let flex = ComputeDevice::flex();
    let mut narrow = gpu.clone();
    narrow.max_storage_binding_bytes = 48 * 192 * 4;
    let cpu = load("safetensors", &flex);
    for (device, what) in [(gpu, "whole table"), (narrow, "sharded table")] {
        let gpu = load("safetensors", &device);
        let ids = test_ids(&cpu, 30);
        let (a, b) = (whole(&cpu, &ids), whole(&gpu, &ids));
        assert_close(&b.logits, &a.logits, 1e-4, what);
        assert_close(&b.hidden, &a.hidden, 1e-4, what);
        for (a, b) in a.attention.iter().zip(&b.attention) {
            assert_close(&b.weights, &a.weights, 1e-5, what);
            assert_close(&b.log_sum_exp, &a.log_sum_exp, 1e-4, what);
        }
    }
}

const IN_F16: WeightOptions = WeightOptions {
    precision: Precision::F16,
    allow_unknown_tensors: false,
};

fn load_in_f16(layout: &str, device: &ComputeDevice) -> Gpt2 {
    let source = ModelSource::Folder(fixtures().join(layout));
    let go_on = &mut |_, _| ControlFlow::Continue(());
    Gpt2::load_with(&source, device, IN_F16, go_on).unwrap()
}

/// Weights that are f16 numbers already lose nothing: kept as f16 they give what they give in f32, for many rows and
/// for few.
fn check_f16(device: &ComputeDevice) {
    let wide = load("f16", &ComputeDevice::flex());
    let half = load_in_f16("f16", device);
    assert_eq!(
        (wide.precision, half.precision),
        (Precision::F32, Precision::F16)
    );
    let ids = test_ids(&wide, 30);
    let (a, b) = (whole(&wide, &ids), whole(&half, &ids));
    assert_close(&b.logits, &a.logits, 1e-4, "logits");
    assert_close(&b.hidden, &a.hidden, 1e-4, "hidden states");
    for (a, b) in a.attention.iter().zip(&b.attention) {
        assert_close(&b.weights, &a.weights, 1e-5, "attention");
    }
    let mut cache = half.new_cache();
    let vocab = half.config.vocab_size;
    for (&id, expected) in ids.iter().zip(a.logits.chunks(vocab)) {
        let pass = half.forward(&[id], &mut cache, &LAST).unwrap();
        assert_close(&pass.logits, expected, 1e-4, "decoded logits");
    }
    check_cached(&half);
}

#[test]
fn f16_weights_give_the_numbers_of_the_same_weights_in_f32() {
    check_f16(&ComputeDevice::flex());
    // Rounded from f32 they are off by their rounding, and by no more.
    let rounded = load_in_f16("safetensors", &ComputeDevice::flex());
    check_reference(&rounded, &HALF, false);
}

#[test]
fn f16_weights_give_the_numbers_of_the_same_weights_in_f32_on_the_gpu() {
    let Some(gpu) =
        adapter::gpu("f16_weights_give_the_numbers_of_the_same_weights_in_f32_on_the_gpu")
    else {
        return;
    };
    if gpu.has(Precision::F16) {
        check_f16(&gpu);
    } else {
        let source = ModelSource::BuiltIn;
        let error = Gpt2::load_with(&source, &gpu, IN_F16, &mut |_, _| ControlFlow::Continue(()));
        let message = format!(
            "{} does not compute with f16; load the model in f32",
            gpu.name
        );
        assert_eq!(error.unwrap_err().to_string(), message);
    }
}

#[test]
fn f16_takes_half_the_memory_and_half_the_reading() {
    let flex = ComputeDevice::flex();
    let (wide, half) = (
        load("safetensors", &flex),
        load_in_f16("safetensors", &flex),
    );
    let config = &wide.config;
    assert_eq!(config.weight_bytes(Precision::F32), 4 * config.parameters());
    let vectors = config.n_layer * (4 * config.n_embd + 5 * config.n_embd + config.n_inner)
        + 2 * config.n_embd;
    assert_eq!(
        config.weight_bytes(Precision::F16),
        2 * (config.parameters() + vectors as u64)
    );
    let read = half.weight_bytes_per_step() as f64 / wide.weight_bytes_per_step() as f64;
    assert!((0.5..0.52).contains(&read), "{read}");
    // The published sizes of GPT-2 small: 124,439,808 weights.
    let gpt2 = Gpt2Config::shape("gpt2").unwrap();
    assert_eq!(gpt2.weight_bytes(Precision::F32), 497_759_232);
    assert_eq!(gpt2.weight_bytes(Precision::F16), 249_122_304);
}
