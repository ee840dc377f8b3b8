//! Typing, predicting, running, pausing and stopping.

use logitscope::{
    session::{Activity, FIRST_TEXT},
    worker::{Command, StopReason},
};

use crate::window::Window;

#[test]
fn the_first_start_shows_a_text_with_its_distribution() {
    let window = Window::new();
    assert_eq!(window.text(), FIRST_TEXT);
    assert!(window.session().is_open_step());
    assert!(window.session().view().is_some());
    assert!(window.says(", rank 1, model P "));
    assert!(window.says("storyteller"));
    assert!(window.says("READY"));
}

#[test]
fn typing_predicts_after_the_pause_and_not_before() {
    let mut window = Window::new();
    window.focus_end();
    let before = window.player.model_requests();
    for text in [" there", " lived", " a"] {
        window.prompt().type_text(text);
        window.settle();
    }
    assert_eq!(window.text(), "Once upon a time there lived a");
    assert_eq!(window.player.model_requests(), before);
    window.wait(0.3);
    assert_eq!(window.player.model_requests(), before + 1);
    let Some(Command::Predict { context, from, .. }) = window.player.heard.last() else {
        panic!("{:?}", window.player.heard.last());
    };
    assert_eq!(context, window.session().ids());
    assert_eq!(*from, 4, "only what is new is predicted");
    assert!(window.session().is_open_step() && window.session().view().is_some());
}

#[test]
fn what_is_typed_into_nothing_lands_at_the_end_of_the_text() {
    let mut window = Window::new();
    for character in [" ", "x", "!"] {
        window.prompt().type_text(character);
        window.settle();
    }
    assert!(window.prompt().is_focused());
    assert_eq!(window.text(), "Once upon a time x!");
}

#[test]
fn run_by_button_streams_into_the_text_and_stops_at_the_budget() {
    let mut window = Window::new();
    window.click("Run");
    assert_eq!(window.session().activity(), Activity::Running);
    window.append(3);
    assert_eq!(window.session().len(), 4 + 3);
    assert!(window.text().starts_with(FIRST_TEXT) && window.text().len() > FIRST_TEXT.len());
    assert_eq!(window.session().selected(), 6, "the newest choice is shown");
    assert!(window.says("DECODE") && window.says("token 3 of 120"));
    window.append(200);
    assert_eq!(window.session().len(), 4 + 120);
    assert_eq!(
        window.session().stop_reason(),
        Some(StopReason::MaxNewTokens)
    );
    assert!(window.says("stopped: max new tokens"));
    assert!(window.says("Run"));
}
