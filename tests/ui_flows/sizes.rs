//! Window sizes and type sizes: nothing panics, and what matters stays in reach.

use egui::vec2;
use logitscope::store::Remembered;

use crate::window::{Opening, Window, store_with};

/// Everything that a frame can show: a run, a past step, a what-if, an empty text.
fn exercise(window: &mut Window) {
    window.player.pump();
    window.harness.key_press(egui::Key::F5);
    window.settle();
    window.append(3);
    window.harness.key_press(egui::Key::F7);
    window.harness.key_press(egui::Key::F7);
    window.settle();
    window.append(3);
    window
        .harness
        .key_press_modifiers(egui::Modifiers::SHIFT, egui::Key::F5);
    window.settle();
    assert_eq!(window.session().counts().generated, 6);
}

#[test]
fn every_size_runs() {
    for (width, height) in [
        (1440.0, 900.0),
        (900.0, 600.0),
        (480.0, 320.0),
        (320.0, 200.0),
        (2560.0, 1440.0),
        (3000.0, 60.0),
        (60.0, 3000.0),
        (17.0, 17.0),
        (1.0, 1.0),
    ] {
        exercise(&mut Window::sized(width, height));
    }
}

#[test]
fn every_type_size_runs_in_every_window() {
    let folder = tempfile::tempdir().expect("a folder");
    for scale in [1.0, 1.5, 2.5] {
        for size in [vec2(1440.0, 900.0), vec2(900.0, 600.0), vec2(480.0, 320.0)] {
            let remembered = Remembered {
                scale,
                dark: Some(scale > 1.0),
                ..Default::default()
            };
            exercise(&mut Window::open(Opening {
                size,
                store: store_with(&folder.path().join("window.json"), &remembered),
                ..Default::default()
            }));
        }
    }
}

#[test]
fn a_window_resized_to_nothing_and_back_while_it_runs() {
    let mut window = Window::new();
    window.click("Run");
    for size in [
        vec2(1440.0, 900.0),
        vec2(0.0, 0.0),
        vec2(1.0, 900.0),
        vec2(1440.0, 1.0),
        vec2(600.0, 400.0),
        vec2(1440.0, 900.0),
    ] {
        window.harness.set_size(size);
        window.append(3);
    }
    assert_eq!(window.session().len(), 4 + 18);
    assert!(window.says("Prompt") && window.says(", rank 1, model P "));
}

#[test]
fn a_small_window_shows_tabs_and_keeps_the_transport_in_reach() {
    for (width, height) in [(900.0, 600.0), (480.0, 320.0)] {
        let window = Window::sized(width, height);
        let screen = egui::Rect::from_min_size(egui::Pos2::ZERO, vec2(width, height));
        for name in ["Run", "Step", "Stop", "Back", "Forward", "Live"] {
            let rect = window.button(name).rect();
            assert!(
                screen.contains_rect(rect),
                "{name} at {rect:?} in {width} × {height}"
            );
        }
        assert!(window.says("Prompt"));
        assert!(window.says(", rank 1, model P "), "{width} × {height}");
    }
}
