//! One undo and redo over typing, runs, branches and settings, taken before the text field's own.

use egui::{Key, Modifiers};
use logitscope::session::FIRST_TEXT;

use crate::window::Window;

fn undo(window: &mut Window) {
    window.press_with(Modifiers::COMMAND, Key::Z);
}

fn redo(window: &mut Window) {
    window.press_with(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
}

#[test]
fn a_burst_of_typing_is_one_step() {
    let mut window = Window::new();
    window.focus_end();
    for character in [" ", "t", "h", "e", "r", "e"] {
        window.prompt().type_text(character);
        window.settle();
    }
    window.wait(0.3);
    assert!(window.prompt().is_focused());
    undo(&mut window);
    assert_eq!(window.text(), FIRST_TEXT);
    assert!(
        window.session().view().is_some(),
        "its distribution is still on record"
    );
    redo(&mut window);
    assert_eq!(window.text(), "Once upon a time there");
    undo(&mut window);
    undo(&mut window);
    assert_eq!(
        window.text(),
        FIRST_TEXT,
        "there is nothing before the first text"
    );
}

#[test]
fn runs_picks_and_typing_are_undone_in_turn_while_the_editor_has_the_keyboard() {
    let mut window = Window::new();
    window.focus_end();
    let mut texts = vec![window.text().to_owned()];
    window.press(Key::F5);
    window.append(5);
    window.press_with(Modifiers::SHIFT, Key::F5);
    texts.push(window.text().to_owned());
    window.wait(2.0);
    window.type_text(" and so");
    window.wait(2.0);
    texts.push(window.text().to_owned());
    window.next_token_row(2).click();
    window.settle();
    texts.push(window.text().to_owned());
    window.focus_end();
    for expected in texts.iter().rev().skip(1) {
        undo(&mut window);
        assert_eq!(window.text(), expected);
    }
    for expected in &texts[1..] {
        redo(&mut window);
        assert_eq!(window.text(), expected);
    }
    assert_eq!(window.session().counts().generated, 6);
}

#[test]
fn undo_during_a_run_ends_the_run_and_redo_brings_its_tokens_back() {
    let mut window = Window::new();
    window.click("Run");
    window.append(5);
    let text = window.text().to_owned();
    undo(&mut window);
    assert_eq!(window.text(), FIRST_TEXT);
    assert!(!window.session().is_running() && !window.player.is_running());
    redo(&mut window);
    assert_eq!(window.text(), text);
    assert_eq!(window.session().counts().generated, 5);
}

#[test]
fn text_typed_after_an_undo_starts_a_new_future() {
    let mut window = Window::new();
    window.type_text(" there");
    window.wait(2.0);
    undo(&mut window);
    window.type_text(" here");
    window.wait(2.0);
    redo(&mut window);
    assert_eq!(window.text(), "Once upon a time here");
    undo(&mut window);
    assert_eq!(window.text(), FIRST_TEXT);
}

#[test]
fn clearing_the_text_can_be_undone() {
    let mut window = Window::new();
    window.select_all();
    window.press(Key::Delete);
    assert_eq!(window.text(), "");
    window.wait(0.3);
    assert!(
        window.session().view().is_some(),
        "an empty text is a lone end-of-text"
    );
    undo(&mut window);
    assert_eq!(window.text(), FIRST_TEXT);
    window.click("Text menu");
    window.click("Clear");
    assert_eq!(window.text(), "");
}
