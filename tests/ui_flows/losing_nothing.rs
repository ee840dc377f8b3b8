//! Branching, undo and edits in the middle of things, and numbers that were let go for memory: each has a defined
//! outcome, and nothing of what was there is lost.

use egui::{Key, Modifiers};
use logitscope::{prediction::Prediction, session::DEFAULT_BUDGET_BYTES, ui::Panel};

use crate::{loop_panels::open, window::Window};

/// Eight generated tokens; the run has stopped.
fn generated() -> Window {
    let mut window = Window::new();
    window.click("Run");
    window.append(8);
    window.click("Stop");
    window
}

fn set_budget(window: &mut Window, bytes: usize) {
    window.harness.state_mut().set_budget_bytes(bytes);
    window.settle();
}

fn is_complete(window: &Window) -> bool {
    let session = window.session();
    let complete = |step| {
        session
            .prediction(step)
            .is_some_and(Prediction::is_complete)
    };
    (1..=session.len()).all(complete)
}

/// A token of the shown step that was not chosen there, by its row.
fn pick_another(window: &mut Window, step: usize) {
    let chosen = window.session().ids().get(step).copied();
    let top = &window.session().view().expect("the step").top;
    let other = top.iter().find(|row| Some(row.id) != chosen);
    let rank = other.expect("another token").rank;
    window.next_token_row(rank).click();
    window.settle();
}

#[test]
fn a_token_picked_at_a_past_step_during_a_run_ends_the_run_and_keeps_its_tokens() {
    let mut window = Window::new();
    open(&mut window, Panel::Branches);
    window.click("Run");
    window.append(6);
    let ids = window.session().ids().to_vec();
    for _ in 0..3 {
        window.press(Key::F7);
    }
    let step = window.session().selected();
    pick_another(&mut window, step);
    assert!(!window.player.is_running() && !window.session().is_running());
    assert_eq!(window.session().len(), step + 1);
    assert_eq!(window.session().ids()[..step], ids[..step]);
    assert!(
        window.says(&format!("{} tokens, log P ", ids.len())),
        "the run's branch"
    );
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.session().ids(), ids, "all tokens of the run");
    assert!(is_complete(&window));
}

#[test]
fn undo_during_a_run_gives_its_tokens_back_with_redo_and_keeps_branches() {
    let mut window = generated();
    open(&mut window, Panel::Branches);
    window.named("Token 6, ").click();
    window.settle();
    pick_another(&mut window, 6);
    window.click("Run");
    window.append(3);
    let ids = window.session().ids().to_vec();
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert!(!window.session().is_running());
    assert_eq!(window.session().len(), 7, "the branch without its run");
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.session().len(), 12, "the first run's text");
    for _ in 0..2 {
        window.press_with(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    }
    assert_eq!(window.session().ids(), ids);
    assert!(is_complete(&window));
    assert!(window.says("Branch 1, Once upon a time"));
}

#[test]
fn an_edit_before_the_selected_step_moves_the_selection_and_undo_brings_both_back() {
    for panel in [Panel::Sequence, Panel::Loop, Panel::LmHead, Panel::Branches] {
        let mut window = generated();
        open(&mut window, panel);
        for _ in 0..2 {
            window.press(Key::F7);
        }
        let (text, selected) = (window.text().to_owned(), window.session().selected());
        window.prompt().focus();
        window.settle();
        window.press_with(Modifiers::COMMAND | Modifiers::CTRL, Key::Home);
        for _ in 0.."Once upon".len() {
            window.press(Key::ArrowRight);
        }
        window.prompt().type_text("!");
        window.settle();
        assert!(window.text().starts_with("Once upon! a time"), "{panel:?}");
        let shown = window.session().selected();
        assert!(
            (1..=2).contains(&shown),
            "the last step still valid: {shown}"
        );
        window.wait(0.3);
        assert!(is_complete(&window), "{panel:?}");
        assert!(
            window.session().branches().len() > 1,
            "the old text is a branch"
        );
        window.press_with(Modifiers::COMMAND, Key::Z);
        assert_eq!(window.text(), text);
        assert_eq!(window.session().selected(), selected, "{panel:?}");
        assert!(is_complete(&window));
    }
}

#[test]
fn a_step_without_its_attention_is_read_in_sequence_and_loop_and_offered_again_in_attention() {
    let mut window = generated();
    window.named("Token 9, ").click();
    window.settle();
    set_budget(&mut window, 0);
    assert!(!is_complete(&window));
    assert!(window.says("was let go for memory."));
    assert!(window.session().view().is_some(), "its logits stay");
    open(&mut window, Panel::Sequence);
    assert!(window.says("over 11 factors"));
    assert!(!window.says("not predicted"));
    open(&mut window, Panel::Loop);
    assert!(window.says("Iteration of token 11, "));
    assert!(!window.says("the logits were let go for memory"));
    open(&mut window, Panel::LmHead);
    assert!(window.says("products agree with"));
    set_budget(&mut window, DEFAULT_BUDGET_BYTES);
    window.click("Recompute");
    assert!(is_complete(&window));
    assert!(!window.says("was let go for memory."));
}

#[test]
fn a_step_whose_logits_were_let_go_says_so_until_they_are_back() {
    let mut window = generated();
    let text = window.text().to_owned();
    let sum = |window: &Window| window.session().chain(0..12).sum_nats;
    let before = sum(&window);
    window.named("Token 6, ").click();
    window.settle();
    pick_another(&mut window, 6);
    // The first branch is another one now: attention and logits of its own tokens go.
    set_budget(&mut window, 0);
    set_budget(&mut window, DEFAULT_BUDGET_BYTES);
    window.player.holds_predictions = true;
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.text(), text);
    window.named("Token 9, ").click();
    window.settle();
    assert!(window.session().view().is_none());
    assert!(window.says("The logits of this step were let go for memory."));
    open(&mut window, Panel::Sequence);
    assert!(window.says("over 11 factors"), "scores outlive logits");
    assert_eq!(sum(&window), before);
    open(&mut window, Panel::Loop);
    assert!(window.says("the logits were let go for memory"));
    open(&mut window, Panel::LmHead);
    assert!(window.says("LM head menu"));
    assert!(
        window.player.questions().is_empty(),
        "there is nothing to compare with"
    );
    window.player.holds_predictions = false;
    window.player.release();
    window.settle();
    assert!(window.session().view().is_some(), "asked for by itself");
    assert!(window.says("products agree with"));
    assert_eq!(sum(&window), before);
    open(&mut window, Panel::Loop);
    assert!(!window.says("the logits were let go for memory"));
}

#[test]
fn a_model_switch_keeps_every_branch_readable_and_undo_brings_the_text_back() {
    let mut window = generated();
    open(&mut window, Panel::Branches);
    window.named("Token 6, ").click();
    window.settle();
    pick_another(&mut window, 6);
    let texts: Vec<_> = window
        .session()
        .branches()
        .iter()
        .map(|b| b.own_text.clone())
        .collect();
    let text = window.text().to_owned();
    let other = crate::player::model("another", 512);
    window
        .player
        .loads
        .push_back(crate::player::Load::Succeeds(other.into()));
    window.named("Model: storyteller").click();
    window.settle();
    window.click("storyteller (built in)");
    window.wait(0.3);
    assert_eq!(window.text(), text);
    let branches = window.session().branches();
    for text in &texts {
        let kept = branches.iter().find(|branch| branch.own_text == *text);
        let kept = kept.unwrap_or_else(|| panic!("{text:?} is still there"));
        assert_eq!(kept.other_model.as_deref(), Some("storyteller"));
        assert!(kept.chain.factors > 0, "with its numbers");
    }
    assert!(is_complete(&window), "the text is read by the other model");
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.text(), text);
    assert!(window.session().view().is_some());
}
