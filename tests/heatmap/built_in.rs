//! A model's own attention, pixel by pixel: the built-in one's, and one with GPT-2's full context.

use std::{ops::ControlFlow, sync::Arc};

use logitscope::{
    heatmap::{Heads, Shape, cividis, paint_cpu},
    model::{DeviceChoice, Gpt2Config, LoadRequest, ModelSource},
    prediction::AttentionRow,
    tokenizer::Tokenizer,
    worker::Engine,
};

use crate::stage::*;

/// The rows of a text that a model reads.
fn record(source: &ModelSource, ids: &[u32]) -> (Shape, Vec<Option<Arc<AttentionRow>>>) {
    let request = LoadRequest::new(source.clone(), DeviceChoice::Cpu);
    let mut engine = Engine::load_for_ids(&request).expect("the model");
    let mut rows = Vec::new();
    let flow = engine.predict(ids, 0, true, &mut |_, predictions| {
        rows.extend(
            predictions
                .into_iter()
                .map(|prediction| prediction.attention),
        );
        ControlFlow::Continue(())
    });
    assert!(flow.expect("predicted").is_continue());
    let config = &engine.gpt2.config;
    let shape = Shape {
        n_layer: config.n_layer,
        n_head: config.n_head,
    };
    (shape, rows)
}

fn story(tokens: usize) -> Vec<u32> {
    let tokenizer: Tokenizer = Engine::tokenizer_of(&ModelSource::BuiltIn).expect("its tokenizer");
    let mut ids = tokenizer.encode(&"Once upon a time there was a little girl. ".repeat(tokens));
    ids.truncate(tokens);
    ids
}

/// Small, but with GPT-2's full context.
fn full_context() -> ModelSource {
    let config = Gpt2Config::from_json(
        r#"{"model_type": "gpt2", "vocab_size": 50, "n_positions": 1024, "n_embd": 24, "n_layer": 2, "n_head": 3}"#,
    );
    ModelSource::Random(config.expect("a configuration"), 7)
}

#[test]
fn cells_of_a_models_heads_are_its_numbers_at_6_64_512_and_1024_tokens() {
    let gpu = gpu();
    let scrambled = (0..1024).map(|at| (at * at + 7 * at) % 50).collect();
    for (source, ids, cell_px) in [
        (ModelSource::BuiltIn, story(6), 12),
        (ModelSource::BuiltIn, story(64), 3),
        (ModelSource::BuiltIn, story(512), 1),
        (full_context(), scrambled, 1),
    ] {
        let tokens = ids.len();
        let (shape, rows) = record(&source, &ids);
        assert_eq!(rows.len(), tokens);
        let heads_shown = match shape.n_layer {
            2 => [(0, 0), (0, 2), (1, 1)],
            _ => [(0, 0), (2, 7), (5, 3)],
        };
        for (layer, head) in heads_shown {
            let heads = Heads::one(shape, layer, head);
            let picture = one(shape, heads, tokens, cell_px);
            let cpu = paint_cpu(&picture, &triangle(&picture, &rows));
            let mut images = vec![("CPU", cpu)];
            if let Some(gpu) = &gpu {
                let mut heatmap = gpu.heatmap();
                sync_all(&mut heatmap, shape, &rows);
                images.push(("GPU", gpu.draw(&heatmap, &picture)));
            }
            for (query, row) in rows.iter().enumerate() {
                let row = row.as_ref().expect("recorded");
                let weight = |key| row.weight(layer, head, key).expect("a weight");
                let sum: f32 = (0..=query).map(weight).sum();
                assert!((sum - 1.0).abs() < 0.01, "row {query} sums to {sum}");
                for key in 0..tokens {
                    for (name, image) in &images {
                        let px = cell_px as usize;
                        let at = (key * px + px / 2, query * px + px / 2);
                        let found = image[at];
                        if key > query {
                            assert!(
                                found == PALETTE.masked || found == PALETTE.hatch,
                                "{name}: {key} is masked for {query}"
                            );
                            continue;
                        }
                        let expected = rgb(cividis(weight(key)));
                        assert!(
                            close(found, expected),
                            "{name}, T = {tokens}, layer {layer}, head {head}, query {query}, key {key}: \
                             {found:?}, not {expected:?}"
                        );
                    }
                }
            }
        }
    }
}
