//! Means, rollout, and the colour scale without the first token.

use super::*;
use crate::heatmap::Cell;

fn options(over: Over) -> Options {
    Options {
        layer: 1,
        head: 2,
        over,
        ..Default::default()
    }
}

/// The panel's own scene, with the rollout worked out.
fn scene(session: &Session, options: Options) -> Scene<'_> {
    let mut scene = Scene::read(session, options);
    if options.over == Over::Rollout {
        let mut rollout = Rollout::default();
        while rollout.sync(scene.shape, scene.record.iter().copied()) {}
        scene.rollout = Some(rollout.rows().to_vec());
    }
    scene
}

#[test]
fn every_choice_of_heads_is_named_for_what_it_is_and_is_the_mean_it_says() {
    let session = session("Once upon a time", TINY);
    let shown = |over| match scene(&session, options(over)).cell(Quantity::Weights, 3, 1) {
        Cell::Value(value) => value,
        other => panic!("{other:?}"),
    };
    let name = |over| scene(&session, options(over)).heads_name();
    let weight = |layer: usize, head: usize| weights(layer * TINY.n_head + head, 3)[1];
    let mean = |heads: &[(usize, usize)]| {
        let sum: f32 = heads.iter().map(|&(layer, head)| weight(layer, head)).sum();
        sum / heads.len() as f32
    };
    let all: Vec<_> = (0..3)
        .flat_map(|layer| (0..4).map(move |head| (layer, head)))
        .collect();
    for (over, said, expected) in [
        (Over::One, "layer 2, head 3", weight(1, 2)),
        (
            Over::Layer,
            "layer 2, mean over its 4 heads",
            mean(&[(1, 0), (1, 1), (1, 2), (1, 3)]),
        ),
        (
            Over::Head,
            "head 3, mean over the 3 layers",
            mean(&[(0, 2), (1, 2), (2, 2)]),
        ),
        (Over::All, "mean over all 12 heads of 3 layers", mean(&all)),
    ] {
        assert_eq!(name(over), said);
        assert!((shown(over) - expected).abs() < 1e-3, "{said}");
    }
    assert_eq!(
        name(Over::Rollout),
        "attention rollout (not a weight of any one head)"
    );
    // Three layers of ½ A + ½ I, multiplied out.
    let mixed = |layer: usize| -> Vec<Vec<f32>> {
        (0..4)
            .map(|query| {
                (0..4)
                    .map(|key| {
                        let heads = (0..4).map(|head| {
                            let row = weights(layer * 4 + head, query);
                            row.get(key).copied().unwrap_or(0.0)
                        });
                        0.125 * heads.sum::<f32>() + if key == query { 0.5 } else { 0.0 }
                    })
                    .collect()
            })
            .collect()
    };
    let times = |a: &[Vec<f32>], b: &[Vec<f32>]| -> Vec<Vec<f32>> {
        (0..4)
            .map(|i| {
                (0..4)
                    .map(|j| (0..4).map(|k| a[i][k] * b[k][j]).sum())
                    .collect()
            })
            .collect()
    };
    let product = times(&mixed(2), &times(&mixed(1), &mixed(0)));
    assert!((shown(Over::Rollout) - product[3][1]).abs() < 1e-3);
}

#[test]
fn a_rollout_has_no_scores_and_lacks_rows_after_one_that_was_let_go() {
    let mut session = session(&long_text(20), TINY);
    let wanted = Options {
        quantity: Quantity::Scores,
        ..options(Over::Rollout)
    };
    let shown = scene(&session, wanted);
    assert_eq!(shown.options.quantity, Quantity::Weights);
    assert!(
        shown
            .subtitle(None, 1)
            .contains("rollout (not a weight of any one head) · shares")
    );
    assert_eq!(shown.let_go, 0);
    session.set_budget_bytes(session.len() * 8 * 4);
    let shown = scene(&session, wanted);
    assert!(shown.let_go > 0);
    let last = shown.rows - 1;
    assert_eq!(
        shown.value_text(Quantity::Weights, last, 0),
        "let go for memory"
    );
}

#[test]
fn the_heads_are_chosen_beside_the_square_and_the_rollout_is_drawn() {
    for gpu in [None, gpu()] {
        let mut window = window(stage(session(&long_text(20), STORYTELLER), gpu), SIZE);
        window.run_steps(2);
        for over in [Over::Rollout, Over::All, Over::Head, Over::Layer, Over::One] {
            let combo = "Heads shown: ";
            window.get_by_label_contains(combo).click();
            window.run_steps(3);
            window.get_by_label(over.describe()).click();
            window.run_steps(3);
            assert_eq!(window.state().panels.attention.options.over, over);
            assert!(has(&window, &format!("{combo}{}", over.describe())));
        }
        assert!(window.state().panels.attention.rollout.bytes() > 0);
    }
}

#[test]
fn the_scale_without_the_first_token_ends_at_the_largest_other_weight() {
    let session = session(&long_text(20), TINY);
    let wanted = Options {
        without_first: true,
        ..options(Over::One)
    };
    let shown = scene(&session, wanted);
    let mut largest = 0.0f32;
    for query in 1..shown.rows {
        for weight in weights(TINY.n_head + 2, query).into_iter().skip(1) {
            largest = largest.max(weight);
        }
    }
    let mut drawer = Drawer::without_device();
    let end = drawer.scale_max(&shown);
    assert!(
        largest < 1.0 && end >= largest && end <= 1.5 * largest,
        "{end}, {largest}"
    );
    assert!(
        shown
            .subtitle(None, 1)
            .contains("weights, first token left out of the scale")
    );
    assert_eq!(drawer.scale_max(&scene(&session, options(Over::One))), 1.0);
    let mut stage = stage(session, None);
    stage.panels.attention.options = wanted;
    let mut window = window(stage, SIZE);
    window.run_steps(2);
    assert!(has(
        &window,
        "Legend: weight, first token left out of the scale, 0, "
    ));
}

#[test]
fn a_score_whose_weight_underflowed_is_below_a_number() {
    let mut held = session("Once upon a time", TINY);
    let mut row = prediction(TINY, 3);
    let part = |words: Vec<u32>| {
        Some(Arc::new(LayerRow {
            words,
            log_sum_exp: vec![3.5; 4],
        }))
    };
    let words: Vec<u32> = (0..4)
        .flat_map(|_| pack_weights(&[1e-9, 0.25, 0.25, 0.5]))
        .collect();
    row.attention = Some(Arc::new(AttentionRow {
        n_head: 4,
        keys: 4,
        layers: (0..3).map(|_| part(words.clone())).collect(),
    }));
    put_on_record(&mut held, 3, row);
    // ln 2^-24 is -16.64.
    for over in [Over::One, Over::Layer, Over::All] {
        let shown = scene(&held, options(over));
        assert_eq!(shown.value_text(Quantity::Scores, 3, 0), "below −13.14");
        assert_eq!(shown.value_text(Quantity::Weights, 3, 0), "<6e-8");
        assert_eq!(shown.below(3, 1), None);
        let scores = Options {
            quantity: Quantity::Scores,
            ..options(over)
        };
        let table = scene(&held, scores).table();
        assert!(table.contains("·time\tbelow -13.1"), "{table}");
    }
}
