//! Where the logits come from: dot products with the rows of the LM head and the logit lens, against the reference's
//! hidden states and weights in f64, for every kind of head; and explaining beside a KV cache in use.

use std::{ops::ControlFlow, path::Path};

use logitscope::{
    explanation::{NEAREST_ROWS, agreement_limit},
    model::{
        ComputeDevice, DeviceChoice, Gpt2, Gpt2Config, LoadRequest, Logits, ModelSource, Precision,
        Record, Streams, WeightOptions,
    },
    prediction::Prediction,
    worker::{Answer, Engine, Question},
};
use serde::Deserialize;

#[path = "support/adapter.rs"]
mod adapter;
#[path = "support/checkpoint.rs"]
mod checkpoint;

use checkpoint::{Tensors, change_config, copy, f32s, fixture, tensors, values, write_safetensors};

const N_EMBD: usize = 48;

#[derive(Deserialize)]
struct Expected {
    prompts: Vec<Prompt>,
}

/// One prompt as the reference computed it: `hidden` is `[n_layer + 1, tokens, n_embd]`, the last stage after `ln_f`.
#[derive(Deserialize)]
struct Prompt {
    ids: Vec<u32>,
    logits: Vec<f32>,
    hidden: Vec<f32>,
}

fn expected() -> Vec<Prompt> {
    let path = fixture("").join("expected.json");
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str::<Expected>(&text).unwrap().prompts
}

/// `ln_f` and the head in f64, from the file's weights.
struct Reference {
    gamma: Vec<f32>,
    beta: Vec<f32>,
    head: Vec<f32>,
    bias: Vec<f32>,
}

impl Reference {
    fn of(tensors: &Tensors) -> Self {
        let head = tensors.get("lm_head.weight");
        let head = values(head.unwrap_or(&tensors["wte.weight"]));
        let bias = tensors.get("lm_head.bias").map(values);
        Self {
            gamma: values(&tensors["ln_f.weight"]),
            beta: values(&tensors["ln_f.bias"]),
            bias: bias.unwrap_or_else(|| vec![0.0; head.len() / N_EMBD]),
            head,
        }
    }

    fn logits(&self, residual: &[f32]) -> Vec<f64> {
        let x: Vec<f64> = residual.iter().map(|&x| f64::from(x)).collect();
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        let normed = x.iter().zip(&self.gamma).zip(&self.beta);
        let normed: Vec<f64> = normed
            .map(|((x, &g), &b)| {
                (x - mean) / (variance + 1e-5).sqrt() * f64::from(g) + f64::from(b)
            })
            .collect();
        self.head
            .chunks_exact(N_EMBD)
            .zip(&self.bias)
            .map(|(row, &bias)| {
                let products = row.iter().zip(&normed).map(|(&w, h)| f64::from(w) * h);
                products.sum::<f64>() + f64::from(bias)
            })
            .collect()
    }
}

#[track_caller]
fn assert_close(found: &[f32], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    for (id, (&a, b)) in found.iter().zip(expected).enumerate() {
        let apart = (f64::from(a) - b).abs();
        assert!(
            apart <= 1e-4 * scale,
            "{what}: token {id} is {a}, expected {b}"
        );
    }
}

/// The streams of the last of a few tokens, and the logits after it.
fn last(model: &Gpt2, ids: &[u32]) -> (Streams, Vec<f32>) {
    let record = Record {
        logits: Logits::Last,
        hidden: true,
        ..Record::default()
    };
    let pass = model.forward(ids, &mut model.new_cache(), &record).unwrap();
    (pass.last_streams().expect("recorded"), pass.logits)
}

fn load(folder: &Path, device: &ComputeDevice) -> Gpt2 {
    let source = ModelSource::Folder(folder.to_owned());
    Gpt2::load(&source, device, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

/// Dot products, norms and lens of a model against the reference made from its own file.
fn check(model: &Gpt2, reference: &Reference, name: &str) {
    for prompt in expected() {
        let rows = prompt.ids.len();
        let (streams, logits) = last(model, &prompt.ids);
        let lens = model.logit_lens(&streams.residual).unwrap();
        let vocab_size = model.config.vocab_size;
        assert_eq!(lens.len(), (model.config.n_layer + 1) * vocab_size);
        let stages = lens.chunks_exact(vocab_size).enumerate();
        for (stage, found) in stages {
            let what = format!("{name}, stage {stage} of {rows} tokens");
            if stage < model.config.n_layer {
                let at = (stage * rows + rows - 1) * N_EMBD;
                let expected = reference.logits(&prompt.hidden[at..at + N_EMBD]);
                assert_close(found, &expected, &what);
            } else {
                // Never the reference's own last stage, which is normalised already.
                let output: Vec<f64> = logits.iter().map(|&z| z.into()).collect();
                assert_close(found, &output, &what);
            }
        }
        let dots = model.head_dots(&streams.hidden).unwrap();
        let sums = dots.iter().zip(&reference.bias);
        let sums: Vec<f64> = sums.map(|(dot, &bias)| dot + f64::from(bias)).collect();
        assert_close(&logits, &sums, &format!("{name}, dot products"));
        for (stage, at) in [(0, 0), (1, N_EMBD)] {
            let row = (stage * rows + rows - 1) * N_EMBD;
            let expected: Vec<f64> = prompt.hidden[row..row + N_EMBD]
                .iter()
                .map(|&x| x.into())
                .collect();
            assert_close(&streams.residual[at..at + N_EMBD], &expected, "a stream");
        }
    }
    let norms = model.head_norms().unwrap();
    for (norm, row) in norms.iter().zip(reference.head.chunks_exact(N_EMBD)) {
        let expected = row.iter().map(|&w| f64::from(w).powi(2)).sum::<f64>();
        assert!((norm - expected.sqrt()).abs() < 1e-9);
    }
    for id in [0, 90, 399] {
        let at = id as usize * N_EMBD;
        assert_eq!(
            model.head_row(id).unwrap(),
            &reference.head[at..at + N_EMBD]
        );
    }
    let outside = model.head_row(model.config.vocab_size as u32);
    assert!(
        outside
            .unwrap_err()
            .to_string()
            .contains("outside the vocabulary")
    );
}

#[test]
fn a_tied_head_agrees_with_the_reference() {
    let model = load(&fixture("safetensors"), &ComputeDevice::flex());
    assert!(model.is_head_tied() && model.head_bias().is_none());
    check(&model, &Reference::of(&tensors()), "tied");
    // The reference's logits are what its own last stage gives without another norm.
    for prompt in expected() {
        let (_, logits) = last(&model, &prompt.ids);
        let vocab_size = model.config.vocab_size;
        let output = prompt.logits[(prompt.ids.len() - 1) * vocab_size..].iter();
        assert_close(
            &logits,
            &output.map(|&z| z.into()).collect::<Vec<_>>(),
            "output",
        );
    }
}

/// A copy of the fixture with a head of its own and a bias, both unlike the token table.
fn own_head() -> (tempfile::TempDir, Reference) {
    let folder = copy("vocab-and-merges");
    let mut all = tensors();
    let wte = values(&all["wte.weight"]);
    let turned = wte.iter().rev().map(|w| 0.5 * w + 0.01);
    all.insert("lm_head.weight".into(), f32s(&[400, N_EMBD], turned));
    let bias = (0..400).map(|id| ((id * 37) % 19) as f32 * 0.1 - 0.9);
    all.insert("lm_head.bias".into(), f32s(&[400], bias));
    write_safetensors(&folder.path().join("model.safetensors"), &all);
    change_config(folder.path(), |config| {
        config.insert("tie_word_embeddings".into(), false.into());
    });
    let reference = Reference::of(&all);
    (folder, reference)
}

#[test]
fn an_own_head_with_a_bias_agrees_with_the_reference() {
    let (folder, reference) = own_head();
    let model = load(folder.path(), &ComputeDevice::flex());
    assert!(!model.is_head_tied());
    assert_eq!(model.head_bias(), Some(&reference.bias[..]));
    check(&model, &reference, "own head");
}

#[test]
fn a_sharded_head_is_read_in_its_order() {
    let mut narrow = ComputeDevice::flex();
    narrow.max_storage_binding_bytes = (N_EMBD * 192 * 4) as u64;
    let model = load(&fixture("safetensors"), &narrow);
    check(&model, &Reference::of(&tensors()), "sharded");
}

#[test]
fn a_head_kept_in_f16_is_explained_by_the_numbers_it_has() {
    let options = WeightOptions {
        precision: Precision::F16,
        ..WeightOptions::default()
    };
    let source = ModelSource::Folder(fixture("safetensors"));
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let model = Gpt2::load_with(&source, &ComputeDevice::flex(), options, go_on).unwrap();
    let (streams, logits) = last(&model, &[3, 99, 250]);
    let dots = model.head_dots(&streams.hidden).unwrap();
    assert_close(&logits, &dots, "dot products");
    let row = model.head_row(7).unwrap();
    let halves = row.iter().map(|&w| half::f16::from_f32(w).to_f32());
    assert!(halves.eq(row.iter().copied()), "as they are kept");
}

#[test]
fn the_gpu_agrees_with_the_reference() {
    let Some(mut gpu) = adapter::gpu("the_gpu_agrees_with_the_reference") else {
        return;
    };
    gpu.max_storage_binding_bytes = (N_EMBD * 192 * 4) as u64;
    let (folder, reference) = own_head();
    check(&load(folder.path(), &gpu), &reference, "GPU");
}

// ---- beside a cache in use ---------------------------------------------------------------------------------------

fn built_in() -> Engine {
    let request = LoadRequest::new(ModelSource::BuiltIn, DeviceChoice::Cpu);
    Engine::load_for_ids(&request).expect("the built-in model")
}

fn ids(count: u32) -> Vec<u32> {
    (0..count).map(|i| (i * 37 + 5) % 4096).collect()
}

fn predict(engine: &mut Engine, context: &[u32], from: usize) -> Vec<Prediction> {
    let mut all = Vec::new();
    let _ = engine
        .predict(context, from, true, &mut |_, predictions| {
            all.extend(predictions);
            ControlFlow::Continue(())
        })
        .expect("predictions");
    all
}

fn bits(predictions: &[Prediction]) -> Vec<u32> {
    let rows = predictions.iter().map(|p| p.logits.as_ref().unwrap());
    let values = rows.flat_map(|row| row.values.iter().map(|z| z.to_bits()));
    let attention = predictions.iter().map(|p| p.attention.as_ref().unwrap());
    let words = attention.flat_map(|row| {
        let layers = row.layers.iter().flatten();
        layers
            .flat_map(|layer| layer.words.clone())
            .collect::<Vec<_>>()
    });
    values.chain(words).collect()
}

fn explain(engine: &mut Engine, question: Question) -> Answer {
    let go_on = &mut || ControlFlow::Continue(());
    engine.explain(&question, go_on).expect("an answer")
}

#[test]
fn explaining_leaves_the_cache_bit_for_bit_as_it_was() {
    let text = ids(40);
    let run = |explains: bool| {
        let mut engine = built_in();
        let mut all = predict(&mut engine, &text[..30], 0);
        for end in 31..=40 {
            if explains {
                // The last step, one before it, one of another text, and a row.
                for context in [&text[..end - 1], &text[..12], &ids(70)[50..]] {
                    explain(&mut engine, Question::Step(context.to_vec()));
                }
                explain(&mut engine, Question::Nearest(7));
            }
            all.extend(predict(&mut engine, &text[..end], end - 1));
        }
        assert!(
            all[30..].iter().all(|p| p.timing.rows == 1),
            "one token a step"
        );
        bits(&all)
    };
    assert!(run(false) == run(true));
}

#[test]
fn every_step_is_explained_by_the_logits_on_record() {
    let text = ids(24);
    let mut engine = built_in();
    let recorded = predict(&mut engine, &text, 0);
    for step in [1, 2, 13, 24] {
        let Answer::Step(found) = explain(&mut engine, Question::Step(text[..step].to_vec()))
        else {
            panic!("a step");
        };
        let logits = &recorded[step - 1].logits.as_ref().unwrap().values;
        let limit = agreement_limit(logits);
        assert!(found.difference(logits) <= limit, "step {step}");
        assert!(found.lens_difference(logits) <= limit, "step {step}");
        assert_eq!(found.lens.len(), 7);
        assert!(found.head.is_tied);
        for row in &found.lens {
            let best = row.logits.values[row.top[0] as usize];
            assert!(row.logits.values.iter().all(|&z| z <= best));
        }
        let product = found.product(9).expect("in the vocabulary");
        let composed = found.hidden_norm * product.norm * product.cos;
        assert!((composed - product.dot).abs() < 1e-9 * (1.0 + product.dot.abs()));
        // Another step is not explained by these logits.
        let other = &recorded[(step + 3) % 24].logits.as_ref().unwrap().values;
        assert!(found.difference(other) > limit);
    }
}

#[test]
fn nearest_rows_are_the_nearest_of_all_rows() {
    let mut engine = built_in();
    let Answer::Nearest(found) = explain(&mut engine, Question::Nearest(300)) else {
        panic!("rows");
    };
    let own = engine.gpt2.head_row(300).unwrap();
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
        products.sum()
    };
    let mut all: Vec<(u32, f64)> = (0..4096)
        .filter(|&id| id != 300)
        .map(|id| {
            let row = engine.gpt2.head_row(id).unwrap();
            (
                id,
                dot(&own, &row) / (dot(&own, &own) * dot(&row, &row)).sqrt(),
            )
        })
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    assert_eq!(found.rows.len(), NEAREST_ROWS);
    for ((id, cos), (expected_id, expected)) in found.rows.iter().zip(&all) {
        assert!((cos - expected).abs() < 1e-9);
        assert_eq!(id, expected_id);
    }
}

#[test]
fn what_cannot_be_explained_is_refused_and_the_engine_goes_on() {
    let mut engine = built_in();
    let go_on = &mut || ControlFlow::Continue(());
    for (question, words) in [
        (Question::Step(Vec::new()), "there are no tokens"),
        (Question::Step(vec![4096]), "outside the vocabulary"),
        (Question::Step(vec![5, 4096, 5]), "outside the vocabulary"),
        (Question::Step(ids(513)), "exceed the context"),
        (Question::Nearest(u32::MAX), "outside the vocabulary"),
    ] {
        let error = engine.explain(&question, go_on).unwrap_err().to_string();
        assert!(error.contains(words), "{question:?}: {error}");
    }
    for patience in [0, 1] {
        let mut asked = 0;
        let answer = engine.explain(&Question::Step(ids(300)), &mut || {
            asked += 1;
            match asked > patience {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        assert!(matches!(answer, Ok(Answer::Interrupted)));
        assert_eq!(asked, patience + 1, "first, and between chunks");
    }
    assert_eq!(predict(&mut engine, &ids(3), 0).len(), 3);
}

#[test]
fn random_heads_of_odd_sizes_agree() {
    for tie_word_embeddings in [true, false] {
        let config = Gpt2Config {
            vocab_size: 61,
            n_ctx: 40,
            n_embd: 33,
            n_layer: 2,
            n_head: 3,
            n_inner: 71,
            tie_word_embeddings,
            bos_token_id: None,
            eos_token_id: None,
            ..Gpt2Config::shape("gpt2").unwrap()
        };
        let source = ModelSource::Random(config, 3);
        let model = Gpt2::load(&source, &ComputeDevice::flex(), &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap();
        assert_eq!(model.is_head_tied(), tie_word_embeddings);
        let (streams, logits) = last(&model, &[1, 60, 7]);
        let dots = model.head_dots(&streams.hidden).unwrap();
        assert_close(&logits, &dots, "dot products");
        let lens = model.logit_lens(&streams.residual).unwrap();
        let output: Vec<f64> = logits.iter().map(|&z| z.into()).collect();
        assert_close(&lens[2 * 61..], &output, "the last stage");
    }
}
