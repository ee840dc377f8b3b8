//! Dragging a setting reshapes the stored step; the model does not run.

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    sampling::{Mode, SamplingSettings},
    session::StepView,
};

use crate::window::Window;

fn view(window: &Window) -> &StepView {
    window.session().view().expect("a recorded step")
}

#[test]
fn a_temperature_drag_reshapes_the_open_step() {
    let mut window = Window::new();
    let heard = window.player.heard.len();
    let before = view(&window).top[0].clone();
    window.drag_slider("temperature", 0.95);
    let settings = window.session().settings();
    assert!(settings.temperature > 1.7, "{settings:?}");
    let after = view(&window).top[0].clone();
    assert_eq!(after.prob, before.prob, "model P stays");
    assert!(after.drawn_from < before.drawn_from);
    assert!(!view(&window).is_what_if(), "nothing has been drawn yet");
    assert_eq!(window.player.heard.len(), heard, "the model did not run");
}

#[test]
fn on_a_past_step_it_is_a_what_if_and_escape_ends_it() {
    let mut window = Window::new();
    window.click("Run");
    window.append(6);
    window.click("Stop");
    window.named("Token 7, ").click();
    window.settle();
    let heard = window.player.heard.len();
    let as_drawn = view(&window).top[0].clone();
    window.drag_slider("temperature", 0.9);
    assert!(view(&window).is_what_if());
    assert!(window.says("; drawn at 0.8"));
    assert!(view(&window).top[0].drawn_from < as_drawn.drawn_from);
    assert_eq!(window.player.heard.len(), heard, "the model did not run");

    window.press(Key::Escape);
    assert!(!view(&window).is_what_if());
    assert!(!window.says("; drawn at 0.8"));
    assert_eq!(view(&window).top[0], as_drawn);
    assert!(
        window.session().settings().temperature > 1.7,
        "the settings themselves stay"
    );
}

#[test]
fn the_slider_beside_the_softmax_is_the_same_temperature() {
    let mut window = Window::new();
    let heard = window.player.heard.len();
    window.drag_slider("Temperature of the softmax", 0.35);
    let temperature = window.session().settings().temperature;
    assert!((0.1..0.8).contains(&temperature), "{temperature}");
    assert!(window.says(&format!("at T {temperature:.2}")));
    let shown = window
        .harness
        .get_by_role_and_label(Role::SpinButton, "temperature")
        .value();
    assert_eq!(shown.as_deref(), Some(&*format!("{temperature:.2}")));
    assert_eq!(window.player.heard.len(), heard);
}

#[test]
fn a_drag_is_one_step_of_undo() {
    let mut window = Window::new();
    window.drag_slider("temperature", 0.9);
    window.wait(2.0);
    window.drag_slider("top-p", 0.3);
    let both = window.session().settings().clone();
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.session().settings().top_p, 0.95);
    assert_eq!(window.session().settings().temperature, both.temperature);
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.session().settings().temperature, 0.8);
    window.press_with(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    window.press_with(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    assert_eq!(*window.session().settings(), both);
}

#[test]
fn greedy_and_back() {
    let mut window = Window::new();
    let greedy = window
        .harness
        .get_by_role_and_label(Role::RadioButton, "Greedy");
    greedy.click();
    window.settle();
    assert_eq!(window.session().settings().mode, Mode::Greedy);
    assert_eq!(view(&window).top[0].drawn_from, Some(1.0));
    assert!(window.says("greedy: always the most likely token"));
    window
        .harness
        .get_by_role_and_label(Role::RadioButton, "Sample")
        .click();
    window.settle();
    assert!(view(&window).top[1].drawn_from.is_some());
}

#[test]
fn numbers_out_of_range_are_clamped() {
    type Read = fn(&SamplingSettings) -> f64;
    let temperature: Read = |settings| settings.temperature.into();
    let top_k: Read = |settings| settings.top_k.into();
    let top_p: Read = |settings| settings.top_p.into();
    let min_p: Read = |settings| settings.min_p.into();
    let penalty: Read = |settings| settings.repetition_penalty.into();
    let max_new: Read = |settings| settings.max_new_tokens as f64;
    let seed: Read = |settings| settings.seed as f64;
    let mut window = Window::new();
    for (name, typed, read, expected) in [
        ("temperature", "1e-6", temperature, 1e-6),
        ("temperature", "-3", temperature, 0.0),
        ("temperature", "1e30", temperature, 100.0),
        ("temperature", "inf", temperature, 100.0),
        ("top-p", "7", top_p, 1.0),
        ("top-p", "0", top_p, 0.0),
        ("min-p", "-1", min_p, 0.0),
        ("min-p", "1", min_p, 1.0),
        ("repetition", "0", penalty, 0.01),
        ("top-k", "-5", top_k, 0.0),
        ("top-k", "1000000", top_k, 1e6),
        ("max new", "1e12", max_new, 100_000.0),
        ("max new", "0", max_new, 0.0),
        ("seed", "words", seed, 42.0),
        ("seed", "-1", seed, 0.0),
    ] {
        window
            .harness
            .get_by_role_and_label(Role::SpinButton, name)
            .focus();
        window.settle();
        window.press_with(Modifiers::COMMAND, Key::A);
        window.paste(typed);
        window.press(Key::Enter);
        let settings = window.session().settings();
        settings
            .validate()
            .unwrap_or_else(|error| panic!("{name} {typed}: {error}"));
        let value = read(settings);
        assert!(
            (value - expected).abs() <= 1e-6 * expected.abs(),
            "{name} {typed}: {value}"
        );
        assert!(window.session().view().is_some(), "{name} {typed}");
    }
}

#[test]
fn not_a_number_changes_nothing() {
    let mut window = Window::new();
    for name in ["temperature", "top-p", "min-p", "repetition"] {
        window
            .harness
            .get_by_role_and_label(Role::SpinButton, name)
            .focus();
        window.settle();
        window.press_with(Modifiers::COMMAND, Key::A);
        window.paste("NaN");
        window.press(Key::Enter);
        let settings = window.session().settings();
        assert_eq!(**settings, SamplingSettings::default(), "{name}");
    }
}
