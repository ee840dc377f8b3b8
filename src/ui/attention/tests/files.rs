//! Files from the panel's menu, read back.

use super::*;
use crate::{
    export::{csv, png::tests::read as read_png},
    heatmap::cividis,
    ui::attention::save::{self, Wish},
};

/// The bytes of a file that the menu would ask a place for.
fn bytes(session: Session, options: Options, wish: Wish) -> (String, Vec<u8>) {
    let mut stage = stage(session, None);
    let mut state = AttentionState {
        options,
        pinned: Some((2, 0)),
        ..Default::default()
    };
    let mut scene = Scene::read(&stage.session, options);
    if options.over == Over::Rollout {
        while state
            .rollout
            .sync(scene.shape, scene.record.iter().copied())
        {}
        scene.rollout = Some(state.rollout.rows().to_vec());
    }
    let mut ctx = PanelContext {
        session: &stage.session,
        theme: stage.theme,
        scale: 1.0,
        actions: &mut stage.actions,
        panels: &mut stage.panels,
        gpu: None,
        now: 0.0,
    };
    let job = save::job(&mut ctx, &mut state, &scene, wish, SIZE);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(&job.name);
    let name = job.name.clone();
    job.write(&path).unwrap();
    (name, std::fs::read(&path).unwrap())
}

fn head(over: Over) -> Options {
    Options {
        layer: 1,
        head: 2,
        over,
        ..Default::default()
    }
}

#[test]
fn a_picture_says_what_it_is_of_and_shows_the_cells() {
    let mut sizes = Vec::new();
    for scale in [1, 2] {
        let held = session("Once upon a time", TINY);
        let (name, bytes) = bytes(held, head(Over::One), Wish::Picture { scale });
        assert_eq!(name, "attention.png");
        let (size, pixels, texts) = read_png(&bytes);
        sizes.push(size);
        let text = |key: &str| {
            let found = texts.iter().find(|(held, _)| held == key);
            found.unwrap_or_else(|| panic!("no {key}")).1.as_str()
        };
        assert_eq!(text("Model"), "test");
        assert_eq!(text("Prompt"), "Once upon a time");
        assert_eq!(text("Step"), "4");
        assert_eq!(text("Heads"), "layer 2, head 3");
        assert_eq!(text("Shown"), "attention weights after softmax");
        assert!(text("Software").starts_with("logitscope "));
        assert!(text("Settings").contains("\"temperature\":0.8"));
        // The colour of every weight is there, the large areas of cells many times over.
        let count = |[r, g, b]: [u8; 3]| {
            pixels
                .chunks_exact(4)
                .filter(|pixel| pixel[..3] == [r, g, b])
                .count()
        };
        let square = 8 * usize::from(scale);
        for query in 0..4 {
            for weight in weights(TINY.n_head + 2, query) {
                let color = cividis(half::f16::from_f32(weight).to_f32());
                let found = count(color);
                assert!(found > square * square, "{weight} at {scale} ×: {found}");
            }
        }
        // Letters.
        assert!(count(Theme::LIGHT.ink.to_array()[..3].try_into().unwrap()) > 5);
    }
    assert_eq!(sizes[0].map(|side| 2 * side), sizes[1]);
}

#[test]
fn numbers_are_the_record_and_say_what_they_are_of() {
    let held = session("Once upon a time", TINY);
    let (name, bytes) = bytes(held, head(Over::One), Wish::Numbers);
    assert_eq!(name, "attention.csv");
    let (facts, cells) = csv::parse(std::str::from_utf8(&bytes).unwrap());
    let fact = |key: &str| {
        facts
            .iter()
            .find(|(held, _)| held == key)
            .unwrap()
            .1
            .clone()
    };
    assert_eq!(fact("model"), "test");
    assert_eq!(fact("prompt"), "Once upon a time");
    assert_eq!(fact("heads"), "layer 2, head 3");
    assert_eq!(cells[0], ["query \\ key", "Once", "·upon", "·a", "·time"]);
    for query in 0..4 {
        let row = weights(TINY.n_head + 2, query);
        for key in 0..4 {
            let text = &cells[query + 1][key + 1];
            match row.get(key) {
                None => assert_eq!(text, "", "masked"),
                Some(&weight) => {
                    let kept = half::f16::from_f32(weight).to_f32();
                    assert_eq!(text.parse::<f32>().unwrap(), kept);
                }
            }
        }
    }
    let held = session("Once upon a time", TINY);
    let (_, bytes) = self::bytes(held, head(Over::Rollout), Wish::Numbers);
    let (facts, cells) = csv::parse(std::str::from_utf8(&bytes).unwrap());
    assert!(facts.contains(&(
        "heads".to_owned(),
        "attention rollout (not a weight of any one head)".to_owned()
    )));
    let sum: f32 = cells[4][1..]
        .iter()
        .map(|cell| cell.parse::<f32>().unwrap())
        .sum();
    assert!((sum - 1.0).abs() < 1e-3);
}

#[test]
fn a_run_holds_tokens_predictions_and_attention_where_asked_for() {
    for attention in [false, true] {
        let held = session("Once upon a time", TINY);
        let ids = held.ids().to_vec();
        let wish = Wish::Run { attention };
        let (name, bytes) = bytes(held, head(Over::One), wish);
        assert_eq!(name, "run.json");
        let run: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(run["model"]["name"], "test");
        assert_eq!(run["prompt"], "Once upon a time");
        assert_eq!(run["settings"]["seed"], 42);
        assert_eq!(run["selected_step"], 4);
        for (position, id) in ids.iter().enumerate() {
            let token = &run["tokens"][position];
            assert_eq!(
                (&token["id"], &token["origin"]),
                (&(*id).into(), &"typed".into())
            );
        }
        let step = &run["steps"][3];
        assert_eq!(
            (&step["step"], &step["phase"]),
            (&4.into(), &"prefill".into())
        );
        // Eight logits of zero.
        assert_eq!(step["top"].as_array().unwrap().len(), 8);
        assert!((step["top"][0]["prob"].as_f64().unwrap() - 0.125).abs() < 1e-9);
        let weight = &step["attention"][1][2][1];
        if attention {
            let kept = half::f16::from_f32(weights(TINY.n_head + 2, 3)[1]).to_f32();
            assert_eq!(weight.as_f64().unwrap() as f32, kept);
        } else {
            assert!(step.get("attention").is_none());
        }
    }
}

#[test]
fn pictures_of_every_view_at_full_length() {
    let held = session(&long_text(60), TINY);
    let mut stage = stage(held, None);
    for over in [Over::One, Over::Rollout] {
        for quantity in [Quantity::Weights, Quantity::Scores, Quantity::Mask] {
            let options = Options {
                quantity,
                arcs: true,
                without_first: true,
                ..head(over)
            };
            let mut ctx = PanelContext {
                session: &stage.session,
                theme: &Theme::DARK,
                scale: 2.0,
                actions: &mut stage.actions,
                panels: &mut stage.panels,
                gpu: None,
                now: 0.0,
            };
            let mut state = AttentionState {
                options,
                ..Default::default()
            };
            let scene = Scene::read(ctx.session, options);
            let wish = Wish::Picture { scale: 1 };
            let job = save::job(&mut ctx, &mut state, &scene, wish, Vec2::ZERO);
            let folder = tempfile::tempdir().unwrap();
            job.write(&folder.path().join("a.png")).unwrap();
        }
    }
}
