//! Typing, predicting, running, pausing and stopping.

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    session::{Activity, FIRST_TEXT, Origin},
    worker::{Command, StopReason},
};

use crate::{player, window::Window};

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

#[test]
fn run_and_pause_are_one_toggle_on_f5_and_on_ctrl_enter_in_the_editor() {
    let mut window = Window::new();
    window.press(Key::F5);
    assert_eq!(window.session().activity(), Activity::Running);
    window.append(2);
    window.press(Key::F5);
    assert_eq!(window.session().activity(), Activity::Paused);
    assert!(window.says("PAUSED"));

    let mut window = Window::new();
    window.focus_end();
    window.press_with(Modifiers::COMMAND, Key::Enter);
    assert_eq!(window.session().activity(), Activity::Running);
    assert_eq!(window.text(), FIRST_TEXT, "the key itself types nothing");
}

#[test]
fn a_pause_keeps_the_budget_that_is_left() {
    let mut window = Window::new();
    window.click("Run");
    window.append(5);
    window.click("Pause");
    assert_eq!(window.session().len(), 4 + 5);
    window.click("Run");
    let Some(Command::Run(request)) = window.player.heard.last() else {
        panic!("{:?}", window.player.heard.last());
    };
    assert_eq!(request.budget, 120 - 5);
    assert_eq!(request.continuation, 5, "stop strings may span the pause");
    assert!(
        request.open.is_some(),
        "what is shown is what is drawn from"
    );
    window.append(200);
    assert_eq!(window.session().len(), 4 + 120);
}

#[test]
fn a_step_is_one_token() {
    let mut window = Window::new();
    window.click("Step");
    window.append(10);
    assert_eq!(window.session().len(), 4 + 1);
    window.press(Key::F10);
    window.append(10);
    assert_eq!(window.session().len(), 4 + 2);
    assert_eq!(window.session().selected(), 5, "the newest choice is shown");
}

#[test]
fn stop_keeps_the_text_and_says_so() {
    let mut window = Window::new();
    for by_key in [false, true] {
        window.click("Run");
        window.append(2);
        if by_key {
            window.press_with(Modifiers::SHIFT, Key::F5);
        } else {
            window.click("Stop");
        }
        assert_eq!(window.session().activity(), Activity::Idle);
        assert_eq!(window.session().stop_reason(), Some(StopReason::Stopped));
    }
    assert_eq!(window.session().len(), 4 + 4);
    assert!(window.says("stopped by you"));
}

#[test]
fn an_edit_during_a_run_ends_it_and_keeps_its_tokens() {
    let mut window = Window::new();
    window.click("Run");
    window.append(4);
    let generated = window.text().to_owned();
    window.type_text(" Zebra");
    assert_eq!(window.text(), format!("{generated} Zebra"));
    assert!(!window.session().is_running() && !window.player.is_running());
    assert!(window.session().counts().generated >= 3);
    let requests = window.player.model_requests();
    window.wait(0.3);
    assert_eq!(window.player.model_requests(), requests + 1);
    assert!(window.session().view().is_some());
}

#[test]
fn settings_changed_during_a_run_reach_the_next_token() {
    let mut window = Window::new();
    window.click("Run");
    window.append(2);
    window
        .harness
        .get_by_role_and_label(Role::RadioButton, "Greedy")
        .click();
    window.settle();
    assert!(matches!(
        window.player.heard.last(),
        Some(Command::Settings(_))
    ));
    window.append(2);
    let origins: Vec<_> = window
        .session()
        .path_nodes()
        .skip(4)
        .map(|node| node.origin)
        .collect();
    assert_eq!(
        origins,
        [
            Origin::Sampled,
            Origin::Sampled,
            Origin::Greedy,
            Origin::Greedy
        ]
    );
}

#[test]
fn end_of_text_stops_and_a_run_goes_on_past_it() {
    let mut window = Window::new();
    window.player.mind = |context, vocab_size| {
        let mut logits = player::mind(context, vocab_size);
        if context.len() == 6 {
            logits[0] = 100.0;
        }
        logits
    };
    window.click("Run");
    window.append(50);
    assert_eq!(window.session().len(), 7);
    assert_eq!(window.session().stop_reason(), Some(StopReason::EndOfText));
    assert!(window.says("Token 6, <|endoftext|>"));
    window.click("Run");
    window.append(3);
    assert_eq!(window.session().len(), 10);
}

#[test]
fn the_cursor_stays_at_the_end_while_a_run_appends() {
    let mut window = Window::new();
    window.focus_end();
    window.click("Run");
    window.append(5);
    window.click("Stop");
    let generated = window.text().to_owned();
    window.prompt().focus();
    window.settle();
    window.prompt().type_text("!");
    window.settle();
    assert_eq!(window.text(), format!("{generated}!"));

    // Anywhere else it stays where it was put.
    window.press_with(Modifiers::COMMAND, Key::Home);
    window.click("Run");
    window.append(2);
    window.click("Stop");
    let generated = window.text().to_owned();
    window.prompt().focus();
    window.settle();
    window.prompt().type_text("?");
    window.settle();
    assert_eq!(window.text(), format!("?{generated}"));
}
