//! The Cost panel: measuring the text again without the KV cache, beside a window that goes on working.

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{session::MeasurementState, ui::Panel, worker::Command};

use crate::{loop_panels::open, window::Window};

/// A window with the panel open and `new_tokens` generated behind four typed ones.
fn generated(new_tokens: usize) -> Window {
    let mut window = Window::new();
    open(&mut window, Panel::Cost);
    window.click("Run");
    window.append(new_tokens);
    window.click("Stop");
    window
}

fn measure(window: &mut Window, passes: usize) {
    window.player.measure(passes);
    window.settle();
}

#[test]
fn the_same_tokens_are_measured_without_the_cache_and_summed() {
    let mut window = generated(16);
    assert!(window.says("4 + 16 × 1 = 20"), "with the cache");
    assert!(window.says("4 + 5 + … + 20 = 204"), "without it");
    assert!(window.says("From a single token on 1 + 2 + … + 20 = 210 beside 20."));
    assert!(window.says("not measured"));
    assert!(window.says("storyteller on played, f32. Recording attention took 0.20 ms"));
    window.click("Measure without cache");
    assert!(window.says("measuring without cache, pass 0 of 17"));
    measure(&mut window, 5);
    assert!(window.says("5 of 17 steps timed"));
    measure(&mut window, usize::MAX);
    assert!(!window.says("measuring without cache"));
    let (cached, uncached) = {
        let cost = window.session().cost();
        (cost.cached().expect("on record"), cost.uncached())
    };
    assert_eq!((cached.tokens, uncached.tokens), (20, 204));
    assert!(window.says(&format!("({:.1} ×)", uncached.ms / cached.ms)));
    assert!(window.says("median step, first → last 3"));
    window.button("Measure again without cache");
}

#[test]
fn a_measurement_is_cancelled_and_taken_up_again() {
    let mut window = generated(10);
    window.click("Measure without cache");
    measure(&mut window, 4);
    window.click("Cancel measurement");
    assert!(!window.player.is_measuring());
    assert!(window.says("4 of 11 steps timed"));
    window.click("Measure without cache");
    let Some(Command::MeasureUncached(request)) = window.player.heard.last() else {
        panic!("{:?}", window.player.heard.last())
    };
    assert_eq!(request.lengths.len(), 7, "only what is left");
    measure(&mut window, usize::MAX);
    window.button("Measure again without cache");
}

#[test]
fn the_main_run_is_untouched_by_a_measurement() {
    let mut window = generated(6);
    window.click("Measure without cache");
    let before = window.player.model_requests();
    let ids = window.session().ids().to_vec();
    measure(&mut window, usize::MAX);
    assert_eq!(window.player.model_requests(), before);
    assert_eq!(window.session().ids(), ids);
    window.click("Measure again without cache");
    window.click("Run");
    assert!(window.says("waits while the model runs"));
    window.append(3);
    window.click("Stop");
    assert!(window.player.is_measuring(), "the text was only continued");
    measure(&mut window, usize::MAX);
    assert!(window.says("7 of 10 steps timed"));
}

#[test]
fn an_edit_ends_the_measurement_and_undo_brings_its_numbers_back() {
    let mut window = generated(8);
    window.click("Measure without cache");
    measure(&mut window, 6);
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert!(!window.player.is_measuring(), "another text is there now");
    let state = &window.session().measurement().expect("kept").state;
    assert_eq!(*state, MeasurementState::Cancelled);
    window.press_with(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    assert!(window.says("6 of 9 steps timed"));
}

#[test]
fn a_lost_device_is_said_in_the_panel() {
    let mut window = generated(4);
    window.click("Measure without cache");
    let Some(Command::MeasureUncached(request)) = window.player.heard.last() else {
        panic!("a measurement")
    };
    let id = request.id;
    window
        .player
        .say(logitscope::worker::Event::MeasurementFailed {
            id,
            message: "The compute device failed.".to_owned(),
        });
    window.settle();
    assert!(window.says("The measurement ended. The compute device failed."));
    window.button("Measure without cache");
}

#[test]
fn sixty_against_ten_is_stated_or_why_not() {
    let mut window = generated(20);
    assert!(window.says("60 tokens against 10: not yet, the text has only 24 in the context."));
    window.click("Run");
    window.append(50);
    window.click("Stop");
    assert!(window.says("not measured yet"));
    window.click("Measure without cache");
    measure(&mut window, 10);
    assert!(window.says("60 tokens against 10 in one pass without cache:"));
    assert!(window.says("(medians of 5 passes)"));
}

#[test]
fn a_typed_text_says_that_nothing_was_generated() {
    let mut window = Window::new();
    open(&mut window, Panel::Cost);
    assert!(window.says("Nothing was generated: one prefill took the text."));
    window.click("Measure without cache");
    measure(&mut window, usize::MAX);
    assert!(window.says("2 + 3 + 4 = 9"));
}

#[test]
fn the_chart_selects_steps_by_keyboard_and_says_their_numbers() {
    let mut window = generated(12);
    window.click("Measure without cache");
    measure(&mut window, usize::MAX);
    let chart = |window: &Window, words: &str| {
        let words = words.to_owned();
        window
            .harness
            .get_by(|node| {
                node.role() == Role::Slider
                    && node.label().is_some_and(|name| name.contains(&words))
            })
            .focus();
    };
    chart(&window, "Cost, ");
    window.settle();
    window.press(Key::End);
    assert_eq!(window.session().selected(), 16);
    assert!(window.says("Cost, 16 tokens in the sequence, with KV cache decode of 1 token"));
    assert!(window.says("without it 16 tokens"));
    window.press(Key::Home);
    window.press(Key::ArrowRight);
    window.press(Key::ArrowRight);
    assert!(window.says("Cost, 2 tokens in the sequence, with KV cache prefill of 4 tokens"));
}
