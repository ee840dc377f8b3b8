//! The LM head panel: dot products, nearest rows, logit lens; whose numbers it shows, and when it asks for them.

use egui::{Key, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    ui::Panel,
    worker::{Event, Question},
};

use crate::{loop_panels::open, player, window::Window};

fn opened() -> Window {
    let mut window = Window::new();
    open(&mut window, Panel::LmHead);
    window
}

/// A prompt, six generated tokens, the panel.
fn generated() -> Window {
    let mut window = opened();
    window.click("Run");
    window.append(6);
    window.click("Stop");
    window
}

fn find(window: &mut Window, text: &str) {
    let field = "Find a row of the LM head by text or id";
    let node = window.harness.get_by_role_and_label(Role::TextInput, field);
    node.focus();
    window.settle();
    let node = window.harness.get_by_role_and_label(Role::TextInput, field);
    node.type_text(text);
    window.settle();
}

fn contexts(window: &Window) -> Vec<Vec<u32>> {
    let questions = window.player.questions().into_iter();
    questions
        .filter_map(|request| match request.question {
            Question::Step(context) => Some(context),
            Question::Nearest(_) => None,
        })
        .collect()
}

#[test]
fn each_logit_is_shown_as_lengths_and_a_cosine_beside_the_one_on_record() {
    let window = opened();
    let top = &window.session().view().expect("the step").top;
    let explanation = window.session().explanation().expect("asked");
    let explanation = explanation.expect("answered");
    for row in &top[..3] {
        let label = window.session().tokenizer().expect("one").label(row.id);
        let product = explanation.product(row.id).expect("a token");
        let name = format!(
            "{label}, length {:.2}, cosine {}{:.3}, product ",
            product.norm,
            if product.cos < 0.0 { '−' } else { '+' },
            product.cos.abs()
        );
        assert!(window.says(&name), "{name}");
        let z = f64::from(row.logit);
        assert!((explanation.hidden_norm * product.norm * product.cos - z).abs() < 1e-6);
    }
    assert!(window.says("products agree with the logits on record: max |Δ| 0 over 4,096"));
    assert!(window.says("Each row w at its true angle to h"));
}

#[test]
fn products_of_other_logits_are_said_to_disagree() {
    let mut window = Window::new();
    window.player.mind = |context, vocab_size| {
        let mut logits = player::mind(context, vocab_size);
        logits[4000] += 1.0;
        logits
    };
    open(&mut window, Panel::LmHead);
    assert!(window.says("products DISAGREE with the logits on record: max |Δ| 1.0e0"));
    window.click("logit lens");
    assert!(window.says("the last row IS NOT the output"));
}

#[test]
fn nothing_is_asked_while_the_panel_is_not_on_screen() {
    let mut window = Window::new();
    window.click("Run");
    window.append(3);
    window.click("Stop");
    assert!(window.player.questions().is_empty());
    open(&mut window, Panel::LmHead);
    assert_eq!(contexts(&window).len(), 1, "of the shown step, once");
    window.wait(0.5);
    assert_eq!(contexts(&window).len(), 1);
    // Behind another tab of the same place.
    open(&mut window, Panel::Loop);
    window.press(Key::F7);
    window.press(Key::F7);
    assert_eq!(contexts(&window).len(), 1);
}

#[test]
fn an_answer_is_shown_of_its_own_step_and_of_no_other() {
    let mut window = generated();
    window.player.holds_answers = true;
    window.press(Key::F7);
    let ids = window.session().ids().to_vec();
    let first = window.session().selected();
    window.press(Key::F7);
    assert!(window.says("not worked out yet"));
    assert!(window.says("Working it out…"));
    let asked = window.player.questions();
    let [.., earlier, newest] = &asked[..] else {
        panic!("two questions");
    };
    assert_eq!(earlier.question, Question::Step(ids[..first].to_vec()));
    assert_eq!(newest.question, Question::Step(ids[..first - 1].to_vec()));
    window.player.answer(earlier);
    window.settle();
    assert!(
        window.says("not worked out yet"),
        "an answer to another step"
    );
    window.player.answer(newest);
    window.settle();
    assert!(!window.says("not worked out yet"));
    assert!(window.says("products agree with"));
    window.press(Key::F8);
    assert!(window.says("not worked out yet"), "back at the other step");
}

#[test]
fn a_run_is_followed_token_by_token() {
    let mut window = opened();
    window.click("Run");
    for _ in 0..4 {
        window.append(1);
        assert!(window.player.is_running());
        let step = window.session().selected();
        let context = window.session().ids()[..step].to_vec();
        assert_eq!(contexts(&window).last(), Some(&context));
        assert!(window.says(", chosen"));
        assert!(window.says("products agree with"));
    }
    window.player.holds_answers = true;
    window.append(1);
    assert!(window.says("Worked out in the pauses of a slow run, else after it"));
}

#[test]
fn the_lens_ends_in_the_output_and_follows_a_token() {
    let mut window = generated();
    window.press(Key::F7);
    window.click("logit lens");
    let view = window.session().view().expect("the step");
    let chosen = view.chosen.as_ref().expect("a choice").row.clone();
    let label = window.session().tokenizer().expect("one").label(chosen.id);
    assert!(window.says("embedding: "));
    let output = format!("block 6 = out: {label} rank {}, model P ", chosen.rank);
    assert!(window.says(&output), "{output}");
    assert!(window.says("the last row is the output: max |Δ| 0 "));
    // A cell is followed by keyboard, and let go with Esc.
    let explanation = window.session().explanation().expect("asked");
    let other = explanation.expect("answered").lens[0].top[0];
    let label = window.session().tokenizer().expect("one").label(other);
    let cell = format!("{label} ");
    let cell = window
        .harness
        .query_all_by(|node| {
            node.label()
                .is_some_and(|name| name.starts_with(&cell) && name.ends_with(" after embedding"))
        })
        .next();
    cell.expect("its cell").focus();
    window.settle();
    window.press(Key::Enter);
    assert!(window.says(&format!("block 6 = out: {label} rank ")));
    window.press(Key::Escape);
    assert!(window.says(&output));
}

#[test]
fn the_nearest_rows_are_walked_from_row_to_row() {
    let mut window = opened();
    window.click("nearest rows");
    let top = window.session().view().expect("the step").top[0].id;
    let nearest = |window: &Window, id| {
        let found = window.session().nearest(id).expect("asked");
        found.expect("answered").clone()
    };
    let first = nearest(&window, top).rows[0].0;
    window.named(", place 1, cosine ").click();
    window.settle();
    assert_eq!(nearest(&window, first).token, first);
    window.named(", place 2, cosine ").focus();
    window.settle();
    let second = nearest(&window, first).rows[1].0;
    window.press(Key::Enter);
    assert_eq!(nearest(&window, second).rows.len(), 40);
    assert!(contexts(&window).len() <= 1, "no step is needed for it");
}

#[test]
fn any_token_is_found_and_kept() {
    let mut window = opened();
    let tokenizer = window.session().tokenizer().expect("one").clone();
    let king = tokenizer.find("king", 1)[0];
    let label = tokenizer.label(king);
    find(&mut window, "king");
    assert!(window.says(&format!("{label}, length ")));
    window.press(Key::Enter);
    let row = format!("{label}, length ");
    let kept = |window: &Window| {
        window
            .harness
            .query_by(|node| {
                node.label()
                    .is_some_and(|name| name.starts_with(&row) && name.ends_with(", looked at"))
            })
            .is_some()
    };
    assert!(kept(&window));
    window.click("nearest rows");
    assert!(window.session().nearest(king).is_some());
    window.click("dot products");
    window.press(Key::Escape);
    assert!(!kept(&window));
}

#[test]
fn two_pins_show_their_difference_and_ratio_here_too() {
    let mut window = opened();
    for text in ["king", "queen"] {
        find(&mut window, text);
        window.press(Key::Enter);
        window.click("LM head menu");
        window.named("Pin ").click();
        window.settle();
    }
    assert!(window.says("Δz ") && window.says("ratio of softmax "));
    assert!(window.says(", pinned"));
    window.press(Key::Escape);
    assert!(!window.says("ratio of softmax "));
}

#[test]
fn what_cannot_be_worked_out_says_why() {
    let mut window = Window::new();
    window.player.holds_answers = true;
    open(&mut window, Panel::LmHead);
    let ticket = window.player.questions()[0].ticket;
    let message = "The compute device failed: out of memory.".to_owned();
    window.player.say(Event::Explained {
        ticket,
        answer: Err(message.clone()),
    });
    window.settle();
    assert!(window.says(&message));
    assert_eq!(window.session().notice(), None);
    // Another step is asked anew.
    window.player.holds_answers = false;
    window.click("Run");
    window.append(2);
    assert!(window.says("products agree with"));
}
