//! Files from the panel's menu, read back.

use super::*;
use crate::{
    export::{csv, png::tests::read as read_png},
    heatmap::cividis,
    ui::files::{self, What, Wish},
};

type Pairs = Vec<(String, String)>;

/// The file that the menu would ask a place for.
fn bytes(session: Session, options: Options, what: What) -> (String, Vec<u8>) {
    let mut stage = stage(session, None);
    stage.panels.attention = AttentionState {
        options,
        pinned: Some((2, 0)),
        ..Default::default()
    };
    stage.panels.wish = Some(Wish {
        panel: Panel::Attention,
        what,
        shown: "a line".to_owned(),
        size: SIZE,
    });
    let mut file = None;
    egui::__run_test_ui(|ui| {
        stage.theme.apply(ui.ctx(), 1.0);
        let mut ctx = PanelContext {
            session: &stage.session,
            theme: stage.theme,
            scale: 1.0,
            actions: &mut stage.actions,
            panels: &mut stage.panels,
            gpu: None,
            now: 0.0,
        };
        file = file.take().or(files::carry_out(ui, &mut ctx));
    });
    let job = file.unwrap().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let name = job.name.clone();
    let path = job.write(&folder.path().join(&name)).unwrap();
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

#[track_caller]
fn text<'a>(facts: &'a Pairs, key: &str) -> &'a str {
    let found = facts.iter().find(|(held, _)| held == key);
    &found.unwrap_or_else(|| panic!("no {key}")).1
}

/// Pixels of exactly this colour.
fn count(pixels: &[u8], [r, g, b]: [u8; 3]) -> usize {
    let is = |pixel: &&[u8]| pixel[..3] == [r, g, b];
    pixels.chunks_exact(4).filter(is).count()
}

#[test]
fn a_picture_says_what_it_is_of_and_shows_the_cells_and_the_wall() {
    let mut sizes = Vec::new();
    for scale in [1, 2] {
        let held = session("Once upon a time", TINY);
        let (name, bytes) = bytes(held, head(Over::One), What::Picture { scale });
        assert_eq!(name, "attention-step-4.png");
        let (size, pixels, texts) = read_png(&bytes);
        sizes.push(size);
        for (key, value) in [
            ("Model", "test"),
            ("Prompt", "Once upon a time"),
            ("Step", "4"),
            ("Panel", "Attention"),
            ("Shown", "a line"),
            ("Heads", "layer 2, head 3"),
            ("Numbers", "attention weights after softmax"),
        ] {
            assert_eq!(text(&texts, key), value);
        }
        assert!(text(&texts, "Software").starts_with("logitscope "));
        assert!(text(&texts, "Settings").contains("\"temperature\":0.8"));
        // The colour of every weight is there, the large areas of cells many times over.
        let square = 8 * usize::from(scale);
        for query in 0..4 {
            for weight in weights(TINY.n_head + 2, query) {
                let color = cividis(half::f16::from_f32(weight).to_f32());
                let found = count(&pixels, color);
                assert!(found > square * square, "{weight} at {scale} ×: {found}");
            }
        }
        // And every other head's, in the wall.
        for flat in 0..TINY.heads() {
            for weight in weights(flat, 3) {
                let found = count(&pixels, cividis(half::f16::from_f32(weight).to_f32()));
                assert!(found >= usize::from(scale * scale), "head {flat}: {weight}");
            }
        }
        // Letters.
        let ink = Theme::LIGHT.ink.to_array()[..3].try_into().unwrap();
        assert!(count(&pixels, ink) > 5);
    }
    for (one, two) in sizes[0].iter().zip(sizes[1]) {
        // Cells are whole pixels, so that the square is not to the pixel as large.
        assert!(two.abs_diff(2 * one) <= two / 20, "{sizes:?}");
    }
}

#[test]
fn a_mean_and_a_rollout_are_drawn_as_their_numbers_say() {
    for over in [Over::Layer, Over::Head, Over::All, Over::Rollout] {
        let of = |what| bytes(session("Once upon a time", TINY), head(over), what).1;
        let (_, pixels, texts) = read_png(&of(What::Picture { scale: 1 }));
        let csv_text = of(What::Numbers);
        let (facts, cells) = csv::parse(std::str::from_utf8(&csv_text).unwrap());
        assert_eq!(text(&texts, "Heads"), text(&facts, "heads"));
        for (query, row) in cells[1..].iter().enumerate() {
            for cell in &row[1..=query + 1] {
                let found = count(&pixels, cividis(cell.parse().unwrap()));
                assert!(found > 64, "{over:?}, query {query}, {cell}: {found}");
            }
        }
    }
}

#[test]
fn numbers_are_the_record_and_say_what_they_are_of() {
    let held = session("Once upon a time", TINY);
    let (name, bytes) = bytes(held, head(Over::One), What::Numbers);
    assert_eq!(name, "attention-step-4.csv");
    let (facts, cells) = csv::parse(std::str::from_utf8(&bytes).unwrap());
    assert_eq!(text(&facts, "model"), "test");
    assert_eq!(text(&facts, "prompt"), "Once upon a time");
    assert_eq!(text(&facts, "heads"), "layer 2, head 3");
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
    let (_, bytes) = self::bytes(held, head(Over::Rollout), What::Numbers);
    let (facts, cells) = csv::parse(std::str::from_utf8(&bytes).unwrap());
    assert_eq!(
        text(&facts, "heads"),
        "attention rollout (not a weight of any one head)"
    );
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
        let (name, bytes) = bytes(held, head(Over::One), What::Run { attention });
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
    for over in [Over::One, Over::Rollout] {
        for quantity in [Quantity::Weights, Quantity::Scores, Quantity::Mask] {
            let options = Options {
                quantity,
                arcs: true,
                without_first: true,
                ..head(over)
            };
            let held = session(&long_text(60), TINY);
            let (_, bytes) = bytes(held, options, What::Picture { scale: 1 });
            assert!(read_png(&bytes).1.len() > 1000);
        }
    }
}
