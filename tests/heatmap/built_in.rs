//! The built-in model's own attention, pixel by pixel.

use std::{ops::ControlFlow, sync::Arc};

use logitscope::{
    heatmap::{Heads, Shape, cividis, paint_cpu},
    model::{DeviceChoice, LoadRequest, ModelSource},
    prediction::AttentionRow,
    tokenizer::Tokenizer,
    worker::Engine,
};

use crate::stage::*;

/// The rows of the first `tokens` tokens of a text.
fn record(tokens: usize) -> (Shape, Vec<Option<Arc<AttentionRow>>>) {
    let source = ModelSource::BuiltIn;
    let mut engine = Engine::load_for_ids(&LoadRequest::new(source.clone(), DeviceChoice::Cpu))
        .expect("the built-in model");
    let tokenizer: Tokenizer = Engine::tokenizer_of(&source).expect("its tokenizer");
    let mut ids = tokenizer.encode(&"Once upon a time there was a little girl. ".repeat(tokens));
    ids.truncate(tokens);
    let mut rows = Vec::new();
    let flow = engine.predict(&ids, 0, true, &mut |_, predictions| {
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

#[test]
fn cells_of_a_head_of_the_built_in_model_are_its_numbers_at_6_and_64_tokens() {
    let gpu = gpu();
    for (tokens, cell_px) in [(6, 12), (64, 3)] {
        let (shape, rows) = record(tokens);
        assert_eq!(rows.len(), tokens);
        for (layer, head) in [(0, 0), (2, 7), (5, 3)] {
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
