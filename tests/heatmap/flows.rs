//! The panel in the whole window, its worker played: what happens around it while a run goes on.

use std::sync::Arc;

use egui::{Key, Role, vec2};
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    store::Remembered,
    worker::{Event, ModelInfo},
};

use crate::{
    player::{self, Load, N_CTX},
    window::{Opening, Window, store_with},
};

/// Attention alone, as for a projector.
fn alone(model: ModelInfo) -> Window {
    let mut window = Window::open(Opening {
        model,
        ..Default::default()
    });
    window.click("Panels");
    window.button("Show one alone").hover();
    window.settle();
    window
        .harness
        .get_by_role_and_label(Role::RadioButton, "Attention")
        .click();
    window.settle();
    window
}

fn small(n_layer: usize, n_head: usize) -> ModelInfo {
    ModelInfo {
        n_layer,
        n_head,
        ..player::model("other", N_CTX)
    }
}

fn choose(window: &mut Window, name: &str) {
    window
        .harness
        .query_all_by_label_contains("Heads shown: ")
        .next()
        .expect("the choice of heads")
        .click();
    window.settle();
    window
        .harness
        .query_all_by_label(name)
        .last()
        .expect("a choice of this name")
        .click();
    window.settle();
}

/// Whether the newest step of a text of so many tokens is drawn, which is made from all but the last.
fn shows_rows(window: &Window, tokens: usize) -> bool {
    assert_eq!(window.session().len(), tokens);
    let rows = tokens - 1;
    window.says(&format!(
        "Attention heatmap, layer 3, head 8, {rows} tokens"
    ))
}

#[test]
fn every_view_follows_a_run() {
    let mut window = alone(player::model("storyteller", N_CTX));
    window.harness.get_by_label("show arcs").click();
    window.settle();
    window.harness.key_press(Key::F5);
    window.settle();
    for (name, said) in [
        (
            "Attention rollout (not a weight of any one head)",
            "Attention heatmap, attention rollout (not a weight of any one head), ",
        ),
        (
            "Mean over all layers and heads",
            "Attention heatmap, mean over all 48 heads of 6 layers, ",
        ),
        (
            "Mean over all layers, for one head number",
            "Attention heatmap, head 8, mean over the 6 layers, ",
        ),
        (
            "Mean over the heads of one layer",
            "Attention heatmap, layer 3, mean over its 8 heads, ",
        ),
    ] {
        choose(&mut window, name);
        window.append(3);
        let said = format!("{said}{} tokens", window.session().selected());
        assert!(window.says(&said), "{said}");
        assert!(window.says("Attention arcs, "));
    }
}

#[test]
fn the_panel_is_closed_and_opened_again_while_a_run_goes_on() {
    let mut window = Window::new();
    window.click("Run");
    window.append(3);
    let toggle = |window: &mut Window| {
        window.click("Panels");
        window
            .harness
            .get_by_role_and_label(Role::CheckBox, "Attention")
            .click();
        window.settle();
        let corner = egui::pos2(2.0, 880.0);
        window.drag(corner, corner);
    };
    toggle(&mut window);
    assert!(!window.says("Attention heatmap"));
    window.append(5);
    toggle(&mut window);
    assert!(shows_rows(&window, 12));
    window.append(2);
    assert!(shows_rows(&window, 14));
    assert!(window.player.is_running());
}

#[test]
fn a_window_shrunk_to_nothing_while_a_run_goes_on_shows_every_row_again() {
    let mut window = alone(player::model("storyteller", N_CTX));
    window.harness.get_by_label("show arcs").click();
    window.settle();
    window.harness.key_press(Key::F5);
    window.settle();
    for size in [
        vec2(300.0, 200.0),
        vec2(0.0, 0.0),
        vec2(2.0, 2.0),
        vec2(1200.0, 3.0),
        vec2(1000.0, 800.0),
    ] {
        window.harness.set_size(size);
        window.append(2);
    }
    assert!(shows_rows(&window, 14));
}

#[test]
fn a_model_without_the_selected_head_shows_one_that_it_has() {
    let mut window = alone(player::model("storyteller", N_CTX));
    assert!(window.says("Attention heatmap, layer 3, head 8, 4 tokens"));
    for (n_layer, n_head, said) in [
        (1, 1, "layer 1, head 1"),
        (2, 4, "layer 2, head 4"),
        (48, 25, "layer 3, head 8"),
    ] {
        let other = Arc::new(small(n_layer, n_head));
        window.player.loads.push_back(Load::Succeeds(other.clone()));
        window.player.model = other.clone();
        window.player.say(Event::Loaded(other));
        window.settle();
        window.wait(0.4);
        assert!(
            window.says(&format!("Attention heatmap, {said}, 4 tokens")),
            "{said}"
        );
    }
}

#[test]
fn one_token_and_very_many_heads() {
    let folder = tempfile::tempdir().expect("a folder");
    let remembered = Remembered {
        text: "a".to_owned(),
        ..Default::default()
    };
    let store = store_with(&folder.path().join("window.json"), &remembered);
    let mut window = Window::open(Opening {
        model: small(48, 25),
        store,
        ..Default::default()
    });
    assert!(window.says("Attention heatmap, layer 3, head 8, 1 tokens"));
    window.click("Run");
    window.append(2);
    assert!(shows_rows(&window, 3));
}
