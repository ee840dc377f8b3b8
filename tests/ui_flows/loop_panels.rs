//! The panels that take the generation loop apart: Sequence, Loop, Branches.

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    session::{Condition, LoopPhase, Why},
    ui::Panel,
};

use crate::window::Window;

/// Opens a panel that the first layout has not got.
pub fn open(window: &mut Window, panel: Panel) {
    window.click("Panels");
    window
        .harness
        .get_by_role_and_label(Role::CheckBox, panel.title())
        .click();
    window.settle();
    let corner = egui::pos2(2.0, 880.0);
    window.drag(corner, corner);
}

// ---- Sequence ----------------------------------------------------------------------------------------------------

#[test]
fn the_sequence_panel_multiplies_the_factors_of_the_text() {
    let mut window = Window::new();
    open(&mut window, Panel::Sequence);
    assert!(window.says("perplexity "));
    assert!(window.says("over 3 factors"));
    assert!(window.says("token 0 has no factor: nothing conditions it"));
    window.click("Run");
    window.append(5);
    assert!(window.says("over 8 factors"));
    let sum: f64 = window
        .session()
        .path_nodes()
        .filter_map(|node| node.score)
        .map(|score| score.log_prob)
        .sum();
    assert!(window.says(&format!("Σ log P −{:.3} nats", -sum)));
    assert!(window.says(&format!("= −{:.3} bits", -sum / std::f64::consts::LN_2)));
}

#[test]
fn a_row_of_the_sequence_selects_its_step() {
    let mut window = Window::new();
    open(&mut window, Panel::Sequence);
    window.named("Factor 2, ").click();
    window.settle();
    assert_eq!(window.session().selected(), 2);
    window.named("Factor 3, ").focus();
    window.settle();
    window.press(Key::Enter);
    assert_eq!(window.session().selected(), 3);
}

#[test]
fn a_range_of_the_sequence_is_picked() {
    let mut window = Window::new();
    open(&mut window, Panel::Sequence);
    window.click("Run");
    window.append(4);
    window.click("Stop");
    window.click("Continuation");
    assert!(window.says("over 4 factors"));
    assert!(window.says("given tokens 0 to 3"));
    assert!(window.says("outside the range"));
    window.click("Prompt");
    assert!(window.says("over 3 factors"));
    window.click("Whole text");
    assert!(window.says("over 7 factors"));
}

#[test]
fn the_condition_of_the_first_factor_is_chosen_and_undone() {
    let mut window = Window::new();
    open(&mut window, Panel::Sequence);
    let choice = |window: &mut Window, words: &str| {
        window.named("Condition: first factor given").click();
        window.settle();
        window.named(words).click();
        window.settle();
        window.wait(0.3);
    };
    choice(&mut window, "end-of-text: one stands before the text");
    assert_eq!(window.session().condition(), Condition::EndOfText);
    assert_eq!(window.session().len(), 5);
    assert!(window.says("over 4 factors"));
    assert!(window.says("every position is one later than without"));
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.session().condition(), Condition::None);
    assert_eq!(window.text(), "Once upon a time");
}

// ---- Loop --------------------------------------------------------------------------------------------------------

fn shows_phase(window: &Window, phase: LoopPhase) -> bool {
    window.says(&format!("Phase of the loop: {}", phase.name()))
}

#[test]
fn next_phase_walks_the_loop_and_the_third_press_is_a_step() {
    let mut window = Window::new();
    open(&mut window, Panel::Loop);
    for round in 0..3 {
        let len = window.session().len();
        assert!(shows_phase(&window, LoopPhase::Predict));
        assert!(!window.says(&format!(
            "Iteration of token {len}, given {len} tokens. Predict: , Select"
        )));
        window.click("Next phase");
        assert!(shows_phase(&window, LoopPhase::Select));
        assert_eq!(window.session().len(), len, "nothing is appended yet");
        let foretold = window
            .session()
            .open_iteration()
            .and_then(|open| open.selection)
            .expect("a choice");
        assert!(matches!(foretold.why, Why::Drawn { .. }));
        window.click("Next phase");
        window.append(1);
        assert_eq!(window.session().len(), len + 1, "round {round}");
        assert_eq!(window.session().ids()[len], foretold.row.id);
        assert!(shows_phase(&window, LoopPhase::Append));
        assert!(!window.says(&format!("length {}. Stop?", len + 1)));
        window.click("Next phase");
        assert!(shows_phase(&window, LoopPhase::Stop));
        assert!(window.says(&format!("length {}. Stop? No, go on", len + 1)));
        window.click("Next phase");
    }
}

#[test]
fn the_phases_are_walked_by_keyboard() {
    let mut window = Window::new();
    open(&mut window, Panel::Loop);
    window.button("Next phase").focus();
    window.settle();
    window.press(Key::Enter);
    assert!(shows_phase(&window, LoopPhase::Select));
    window.press(Key::Space);
    window.append(1);
    assert!(shows_phase(&window, LoopPhase::Append));
}

#[test]
fn the_last_three_iterations_are_shown_with_the_end_of_the_run() {
    let mut window = Window::new();
    open(&mut window, Panel::Loop);
    window.player.runs_through = true;
    window.drag_slider("temperature", 0.3);
    window.click("Run");
    assert!(shows_phase(&window, LoopPhase::Stop));
    let len = window.session().len();
    for index in len - 3..len {
        assert!(
            window.says(&format!("Iteration of token {index}, ")),
            "{index}"
        );
    }
    assert!(!window.says(&format!("Iteration of token {}, ", len - 4)));
    let reason = window.session().stop_reason().expect("it has ended");
    assert!(window.says(&format!("Stop? Yes: {}", reason.describe())));
}

#[test]
fn a_picked_token_was_not_asked_about_and_a_run_holds_the_button() {
    let mut window = Window::new();
    open(&mut window, Panel::Loop);
    window.next_token_row(2).click();
    window.settle();
    assert!(window.says("picked by hand"));
    assert!(window.says("Stop? Not asked"));
    window.click("Run");
    window.append(2);
    window.button("Next phase").click();
    window.settle();
    assert_eq!(window.session().counts().generated, 3);
    assert!(window.player.is_running(), "the press did nothing");
}

#[test]
fn undo_during_a_run_with_the_loop_open_begins_the_walk_anew() {
    let mut window = Window::new();
    open(&mut window, Panel::Loop);
    open(&mut window, Panel::Sequence);
    open(&mut window, Panel::Loop);
    window.click("Run");
    window.append(3);
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.text(), "Once upon a time");
    open(&mut window, Panel::Loop);
    assert!(shows_phase(&window, LoopPhase::Predict));
    window.click("Next phase");
    assert!(shows_phase(&window, LoopPhase::Select));
}

// ---- Branches ----------------------------------------------------------------------------------------------------

/// Four generated tokens and a branch that leaves them after two; the branch is the text.
fn branched() -> Window {
    let mut window = Window::new();
    open(&mut window, Panel::Branches);
    window.click("Run");
    window.append(4);
    window.click("Stop");
    let ids = window.session().ids().to_vec();
    window.named("Token 6, ").click();
    window.settle();
    let other = window.session().view().expect("the step").top.clone();
    let rank = other.iter().find(|row| row.id != ids[6]).expect("another");
    let rank = rank.rank;
    window.next_token_row(rank).click();
    window.settle();
    window
}

#[test]
fn branches_are_listed_compared_and_gone_to() {
    let mut window = branched();
    assert!(window.says("Branch 1, Once upon a time"));
    assert!(window.says("Branch 2, current, …"));
    assert!(window.says("after 6 shared tokens: "));
    assert!(window.says(" times as probable"));
    window.named("Branch 1, ").click();
    window.settle();
    assert_eq!(window.session().len(), 8);
    assert!(window.says("Branch 1, current, "));
    window.named("Branch 2, ").focus();
    window.settle();
    window.press(Key::Enter);
    assert_eq!(window.session().len(), 7, "by keyboard");
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.session().len(), 8);
}

#[test]
fn a_branch_is_named_in_its_row() {
    let mut window = branched();
    window.click("Name branch 1");
    window
        .harness
        .get_by_role_and_label(Role::TextInput, "Name of branch 1")
        .type_text("the first");
    window.settle();
    window.press(Key::Enter);
    assert!(window.says("Branch 1, the first: Once upon"));
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert!(!window.says("the first"));
}

#[test]
fn a_branch_is_deleted_with_undo_and_the_only_one_is_not() {
    let mut window = branched();
    window.click("Delete branch 2");
    assert_eq!(
        window.session().len(),
        8,
        "the current one went: the nearest is shown"
    );
    assert!(!window.says("Branch 2, "));
    window.button("Delete branch 1").click();
    window.settle();
    assert!(window.says("Branch 1, current, "));
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert!(window.says("Branch 2, current, "));
    assert_eq!(window.session().len(), 7);
}

#[test]
fn branching_during_a_run_stops_it_and_keeps_both() {
    let mut window = branched();
    window.click("Run");
    window.append(3);
    window.named("Branch 1, ").click();
    window.settle();
    assert!(!window.session().is_running());
    assert_eq!(window.session().len(), 8);
    assert!(
        window
            .session()
            .branches()
            .iter()
            .any(|branch| branch.len == 10)
    );
    window.click("Run");
    window.append(2);
    window.named("Delete branch 1").click();
    window.settle();
    assert!(!window.session().is_running());
    assert_eq!(window.session().len(), 10);
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(
        window.session().len(),
        10,
        "the run's branch with its two tokens"
    );
    assert!(window.says("Branch 1, current, Once upon"));
}

#[test]
fn branches_of_an_unloaded_model_are_labelled() {
    let mut window = branched();
    window.player.loads.push_back(crate::player::Load::Succeeds(
        crate::player::model("another", 512).into(),
    ));
    window.named("Model: storyteller").click();
    window.settle();
    window.click("storyteller (built in)");
    window.wait(0.3);
    assert!(window.says(", of storyteller, [storyteller] "));
    let text = window.text().to_owned();
    window.named("Branch 1, of storyteller").click();
    window.settle();
    window.wait(0.3);
    assert_ne!(window.text(), text);
    assert!(window.text().starts_with("Once upon a time"));
    assert!(
        window.session().view().is_some(),
        "read again and predicted"
    );
}

// ---- drawing again -----------------------------------------------------------------------------------------------

#[test]
fn a_step_is_drawn_again_and_the_draw_taken() {
    let mut window = Window::new();
    window.click("Run");
    window.append(4);
    window.click("Stop");
    window.named("Token 6, ").click();
    window.settle();
    let text = window.text().to_owned();
    window.click("Draw again");
    assert!(window.says("draw 2: u "));
    window.click("Draw again");
    assert!(window.says("draw 3: u "));
    assert_eq!(window.text(), text);
    let shown = window.session().redraw().expect("a draw");
    window.click("Take");
    assert_eq!(window.session().len(), 7);
    assert_eq!(window.session().ids()[6], shown.row.id);
    assert!(!window.says(", not taken"));
    assert!(window.says(", draw 3"));
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.text(), text);
}

#[test]
fn escape_lets_go_of_another_draw() {
    let mut window = Window::new();
    window.click("Draw again");
    assert!(window.says("draw 1: u "));
    window.press(Key::Escape);
    assert!(!window.says(", not taken"));
    assert_eq!(window.text(), "Once upon a time");
}

// ---- two pinned tokens -------------------------------------------------------------------------------------------

#[test]
fn two_pinned_tokens_show_the_ratio_that_their_logits_make() {
    let mut window = Window::new();
    let rows: Vec<_> = window
        .harness
        .query_all_by(|node| node.label().is_some_and(|name| name.contains(", softmax ")))
        .take(2)
        .map(|node| node.rect().center())
        .collect();
    assert_eq!(rows.len(), 2);
    assert!(!window.says("e^(Δz/T) "));
    for at in rows {
        window.drag(at, at);
    }
    assert!(window.says("Δz ") && window.says("ratio of softmax "));
    window.press(Key::Escape);
    assert!(!window.says("ratio of softmax "));
}
