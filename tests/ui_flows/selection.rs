//! Looking at past steps, and continuing from them.

use egui::{Key, Pos2, Role};
use logitscope::{session::Origin, worker::Command};

use crate::window::Window;

/// A window with eight generated tokens after the four of the first text.
fn generated() -> Window {
    let mut window = Window::new();
    window.click("Run");
    window.append(8);
    window.click("Stop");
    window
}

fn timeline(window: &Window) -> egui::Rect {
    window.named("Timeline, step ").rect()
}

/// The middle of a token's column: columns are 27 points wide while all of them fit.
fn column(window: &Window, index: usize) -> Pos2 {
    let chart = timeline(window);
    Pos2::new(chart.left() + 27.0 * (index as f32 + 0.5), chart.center().y)
}

#[test]
fn a_chip_shows_the_step_that_chose_its_token() {
    let mut window = generated();
    let (requests, label) = (window.player.model_requests(), "Token 6, ");
    window.named(label).click();
    window.settle();
    assert_eq!(window.session().selected(), 6);
    let view = window.session().view().expect("a recorded step");
    assert_eq!(view.step, 6);
    let chosen = view.chosen.as_ref().expect("the token that followed");
    assert_eq!(chosen.row.id, window.session().ids()[6]);
    assert_eq!(chosen.origin, Origin::Sampled);
    assert!(window.says(", chosen"));
    assert!(window.says("drawn u = "));
    assert_eq!(
        window.player.model_requests(),
        requests,
        "nothing is computed for it"
    );
    window.button("Open step").click();
    window.settle();
    assert!(window.session().is_open_step());
}

#[test]
fn back_forward_and_live_move_the_selection_only() {
    let mut window = generated();
    let newest = window.session().selected();
    assert_eq!(newest, 11);
    let heard = window.player.heard.len();
    for expected in [10, 9, 8] {
        window.press(Key::F7);
        assert_eq!(window.session().selected(), expected);
    }
    window.press(Key::F8);
    assert_eq!(window.session().selected(), 9);
    window.press(Key::F9);
    assert_eq!(window.session().selected(), newest);
    window.click("Back");
    assert_eq!(window.session().selected(), 10);
    window.click("Live");
    assert_eq!(window.session().selected(), newest);
    window.click("Forward");
    assert!(window.session().is_open_step());
    assert_eq!(window.session().len(), 12);
    assert_eq!(window.player.heard.len(), heard);
}

#[test]
fn back_stops_at_the_first_token() {
    let mut window = Window::new();
    for _ in 0..10 {
        window.press(Key::F7);
    }
    assert_eq!(window.session().selected(), 0);
    assert!(window.session().view().is_none());
    assert!(window.says("Nothing comes before the first token"));
    for _ in 0..10 {
        window.press(Key::F8);
    }
    assert!(window.session().is_open_step());
}

#[test]
fn the_timeline_is_scrubbed_by_dragging_and_by_keys() {
    let mut window = generated();
    let (from, to) = (column(&window, 10), column(&window, 3));
    window.drag(from, to);
    assert_eq!(window.session().selected(), 3);
    assert!(window.says("Timeline, step 3 of 12"));
    // The chart has the keyboard now.
    window.press(Key::ArrowRight);
    assert_eq!(window.session().selected(), 4);
    window.press(Key::ArrowLeft);
    window.press(Key::ArrowLeft);
    assert_eq!(window.session().selected(), 2);
    window.press(Key::Home);
    assert_eq!(window.session().selected(), 0);
    window.press(Key::End);
    assert!(window.session().is_open_step());
    let outside = timeline(&window).left_top() - egui::vec2(400.0, 0.0);
    window.drag(column(&window, 5), outside);
    assert_eq!(window.session().selected(), 0, "past the end is the end");
}

#[test]
fn a_selected_past_step_stays_while_the_run_goes_on() {
    let mut window = Window::new();
    window.click("Run");
    window.append(4);
    window.named("Token 5, ").click();
    window.settle();
    window.append(4);
    assert_eq!(window.session().selected(), 5);
    window.press(Key::F9);
    assert_eq!(window.session().selected(), 11);
    window.append(1);
    assert_eq!(window.session().selected(), 12, "live follows again");
}

#[test]
fn a_clicked_row_continues_the_open_step() {
    let mut window = Window::new();
    let view = window.session().view().expect("the open step");
    let third = view.top[2].id;
    window.next_token_row(3).click();
    window.settle();
    assert_eq!(window.session().ids().last(), Some(&third));
    let node = window.session().node(4).expect("the picked token");
    assert_eq!(node.origin, Origin::Picked);
    assert_eq!(node.score.expect("it was predicted").rank, 3);
    assert!(
        matches!(
            window.player.heard.last(),
            Some(Command::Predict { from: 4, .. })
        ),
        "the next distribution is predicted and nothing runs"
    );
    assert!(window.session().is_open_step());
}

#[test]
fn a_clicked_row_of_a_past_step_makes_a_branch() {
    let mut window = generated();
    let before = window.session().ids().to_vec();
    window.named("Token 6, ").click();
    window.settle();
    let view = window.session().view().expect("the step");
    let other = view
        .top
        .iter()
        .find(|row| row.id != before[6])
        .expect("another token");
    let (rank, id) = (other.rank, other.id);
    window.next_token_row(rank).click();
    window.settle();
    assert_eq!(window.session().len(), 7);
    assert_eq!(window.session().ids()[..6], before[..6]);
    assert_eq!(window.session().ids()[6], id);
    let Some(Command::Predict { context, from, .. }) = window.player.heard.last() else {
        panic!("{:?}", window.player.heard.last());
    };
    assert_eq!(
        (context.len(), *from),
        (7, 6),
        "the shared part is not computed again"
    );
    window.press_with(egui::Modifiers::COMMAND, Key::Z);
    assert_eq!(
        window.session().ids(),
        before,
        "the old branch is still there"
    );
}

#[test]
fn rows_are_picked_by_keyboard_too() {
    let mut window = Window::new();
    let second = window.session().view().expect("the open step").top[1].id;
    window.next_token_row(2).focus();
    window.settle();
    window.press(Key::Enter);
    assert_eq!(window.session().ids().last(), Some(&second));
}

#[test]
fn any_token_is_found_by_text_and_by_id() {
    let mut window = Window::new();
    let find = |window: &Window| {
        use egui_kittest::kittest::Queryable as _;
        window
            .harness
            .get_by_role_and_label(Role::TextInput, "Find a token by text or id")
            .rect()
            .center()
    };
    let at = find(&window);
    window.drag(at, at);
    window.prompt().type_text("4000");
    window.settle();
    let label = {
        let tokenizer = window.session().tokenizer().expect("loaded");
        tokenizer.label(4000)
    };
    let name = format!("{label}, rank ");
    window.named(&name).click();
    window.settle();
    assert_eq!(window.session().ids().last(), Some(&4000));
    assert_eq!(
        window.session().node(4).map(|node| node.origin),
        Some(Origin::Picked)
    );
}

#[test]
fn text_and_tokens_bring_the_selected_step_into_view() {
    let mut window = Window::new();
    window.click("Run");
    window.append(120);
    let shown = |window: &Window, index: usize| window.says(&format!("Token {index}, "));
    assert!(!shown(&window, 2), "the end is in view");
    for _ in 0..110 {
        window.press(Key::F7);
    }
    let selected = window.session().selected();
    assert!(shown(&window, selected), "the chip of step {selected}");
    window.press(Key::F9);
    assert!(shown(&window, window.session().len() - 1));
}
