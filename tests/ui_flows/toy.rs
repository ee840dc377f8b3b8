//! Typed numbers in a model's place, through the real window.

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{store::Remembered, toy::Sheet, ui::Panel, worker::Command};

use crate::{
    loop_panels::open,
    window::{Opening, Window, store_with},
};

/// A window with the Toy panel open and an example in use.
fn with_example(name: &str) -> Window {
    let mut window = Window::new();
    open(&mut window, Panel::Toy);
    window.click(name);
    window
}

/// A window that shows one panel.
fn alone(folder: &tempfile::TempDir, panel: Panel, mut remembered: Remembered) -> Window {
    remembered.dock.alone = Some(panel);
    Window::open(Opening {
        store: store_with(&folder.path().join("window.json"), &remembered),
        ..Default::default()
    })
}

fn focus(window: &mut Window, field: &str) {
    window
        .harness
        .get_by_role_and_label(Role::TextInput, field)
        .focus();
    window.settle();
}

/// Types a number over a cell.
fn type_cell(window: &mut Window, field: &str, text: &str) {
    focus(window, field);
    window.press_with(Modifiers::COMMAND, Key::A);
    window
        .harness
        .get_by_role_and_label(Role::TextInput, field)
        .type_text(text);
    window.settle();
}

fn shown_prob(window: &Window, id: u32) -> f64 {
    let view = window.session().view().expect("a step");
    view.logits.prob(id)
}

#[test]
fn the_logits_example_shows_0_62_everywhere_and_says_that_it_is_typed() {
    let window = with_example("Example: logits");
    assert_eq!(window.text(), "the cat sat");
    assert_eq!(format!("{:.2}", shown_prob(&window, 3)), "0.62");
    assert!(window.says("→ down 62.0 %"));
    assert!(window.says("down, rank 1, model P 62.0 %"));
    assert!(window.says("typed numbers, no model"));
    for title in [
        "TOY · TYPED",
        "TEXT · TYPED",
        "NEXT TOKEN · TYPED",
        "TIMELINE · TYPED",
    ] {
        assert!(window.says(title), "{title}");
    }
    assert!(window.says("A toy has no attention"));
    assert!(!window.says(" ms + "), "no time was taken");
}

#[test]
fn a_typed_number_reshapes_the_step_at_once_and_undo_takes_it_back() {
    let mut window = with_example("Example: logits");
    let before = shown_prob(&window, 3);
    type_cell(&mut window, "Row 3, down, logit", "-2.1");
    assert!(shown_prob(&window, 3) < 0.03);
    assert!(window.says("→ the "));
    assert_eq!(window.text(), "the cat sat");
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(shown_prob(&window, 3), before);
    assert!(
        window.says("→ down 62.0 %"),
        "the cell shows the old number"
    );
    window.press_with(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    assert!(shown_prob(&window, 3) < 0.03);
}

#[test]
fn bad_numbers_are_said_and_the_ones_from_before_stay_in_use() {
    let mut window = with_example("Example: logits");
    let before = shown_prob(&window, 3);
    type_cell(&mut window, "Row 3, down, logit", "2,1");
    assert!(window.says("Row 3, down: “2,1” is not a number; decimals take a point."));
    assert!(window.says("Until then the numbers from before stay in use."));
    assert_eq!(shown_prob(&window, 3), before);
    type_cell(&mut window, "Row 3, down, logit", "2.1");
    assert!(!window.says("Until then"));
    assert_eq!(shown_prob(&window, 3), before);
}

#[test]
fn a_row_of_numbers_is_pasted_and_enter_goes_down() {
    let mut window = with_example("Example: logits");
    focus(&mut window, "Row 3, the, logit");
    window.paste("0 0; 0, 0");
    assert_eq!(shown_prob(&window, 0), shown_prob(&window, 1));
    window.paste("1 2 3 4");
    let toy = window.session().toy().expect("in use");
    assert_eq!(toy.sheet().rows[2], ["1", "2", "3", "4"]);
    window.press(Key::Enter);
    window.paste("5 6");
    let toy = window.session().toy().expect("in use");
    assert_eq!(toy.sheet().rows[3][..2], ["5", "6"], "the row below");
}

#[test]
fn the_conditionals_multiply_in_the_toy_and_in_the_sequence_panel() {
    let mut window = with_example("Example: conditionals");
    assert!(window.says("P(text | <|endoftext|>) = 0.08 × 0.15 × 0.25 = 0.00300 (typed)"));
    open(&mut window, Panel::Sequence);
    assert!(window.says("P 0.00300"));
    assert!(window.says("over 3 factors"));
    assert!(window.says("given end-of-text"));
}

#[test]
fn the_loop_runs_on_typed_rows_until_there_are_no_more() {
    let mut window = with_example("Example: logits");
    open(&mut window, Panel::Loop);
    window.click("Step");
    window.append(1);
    assert_eq!(window.session().len(), 4);
    assert!(window.says("length 4. Stop? No, go on"));
    window.click("Run");
    window.append(10);
    assert_eq!(window.session().len(), 6, "one row after each token");
    assert!(window.says("context full"));
    window.press_with(Modifiers::COMMAND, Key::Z);
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.text(), "the cat sat");
}

#[test]
fn words_that_are_no_tokens_wait_in_the_text_until_they_are() {
    let mut window = with_example("Example: logits");
    window.type_text(" do");
    assert_eq!(window.text(), "the cat sat do");
    assert!(window.says("not read yet: the toy's tokens are the, cat, sat, down"));
    assert_eq!(window.session().len(), 3);
    window.type_text("wn");
    window.wait(0.3);
    assert_eq!(window.session().len(), 4);
    assert!(!window.says("not read yet"));
    window.type_text(" nonsense");
    window.click("Step");
    window.append(1);
    assert!(window.text().starts_with("the cat sat down "));
    assert!(!window.text().contains("nonsense"));
}

#[test]
fn an_example_for_a_model_is_refused_in_words() {
    let mut window = with_example("Example: logits");
    window.click("Examples");
    window.click("A rhyme");
    assert_eq!(window.text(), "the cat sat");
    assert!(window.says("This example is for a model"));
}

#[test]
fn tokens_and_rows_are_added_and_renamed_by_keyboard() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = alone(&folder, Panel::Toy, Remembered::default());
    window.click("Example: logits");
    window.click("Add token");
    let toy = window.session().toy().expect("in use");
    assert_eq!(toy.vocab_size(), 5);
    type_cell(&mut window, "Label of token 4", "up");
    window.click("Add row");
    let toy = window.session().toy().expect("in use");
    assert_eq!((toy.n_ctx(), &*toy.sheet().labels[3]), (7, "up"));
    window.click("Remove last token");
    type_cell(&mut window, "Toy prompt", "sat the");
    assert_eq!(window.text(), "sat the");
    window.click("Start again");
    assert_eq!(window.text(), "sat the");
    window.named("Row 1, what follows sat").click();
    window.settle();
    assert_eq!(window.session().selected(), 1);
}

#[test]
fn a_model_and_a_toy_take_turns() {
    let mut window = with_example("Example: logits");
    open(&mut window, Panel::Cost);
    assert!(window.says("A toy costs nothing"));
    window.named("Model: toy").click();
    window.settle();
    window.click("storyteller (built in)");
    assert_eq!(window.text(), "the cat sat", "the text is read again");
    assert!(window.session().toy().is_none());
    assert!(!window.says("· TYPED"));
    assert!(!window.says("A toy costs nothing"));
    window.named("Model: storyteller").click();
    window.settle();
    window.click("Typed numbers (toy)");
    assert_eq!(window.text(), "the cat sat");
    assert!(window.says("TEXT · TYPED"));
}

#[test]
fn typed_numbers_are_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("window.json");
    let mut remembered = Remembered::default();
    remembered.dock.alone = Some(Panel::Toy);
    let mut window = Window::open(Opening {
        store: store_with(&file, &remembered),
        ..Default::default()
    });
    window.click("Example: logits");
    type_cell(&mut window, "Row 3, down, logit", "-7.25");
    window.wait(1.5);
    drop(window);
    let window = Window::open(Opening {
        store: logitscope::store::Store::at(file),
        ..Default::default()
    });
    let toy = window.session().toy().expect("in use again");
    assert_eq!(toy.sheet().cell(2, 3), "-7.25");
    assert_eq!(window.text(), "the cat sat");
    assert!(window.player.heard.iter().any(|command| {
        matches!(command, Command::Load(request) if request.source.name() == "toy")
    }));
}

#[test]
fn every_panel_shows_a_toy_at_every_step_and_size() {
    for sheet in [Sheet::logits_example(), Sheet::conditionals_example()] {
        let prompt = sheet.prompt.split(' ').count();
        for panel in Panel::ALL {
            let folder = tempfile::tempdir().expect("a folder");
            let mut remembered = Remembered {
                scale: if panel == Panel::Toy { 2.5 } else { 1.0 },
                toy_in_use: true,
                ..Default::default()
            };
            remembered.panels.toy = logitscope::ui::toy::ToyState::of(sheet.clone());
            remembered.dock.alone = Some(panel);
            let mut window = Window::open(Opening {
                size: egui::vec2(500.0, 360.0),
                store: store_with(&folder.path().join("window.json"), &remembered),
                ..Default::default()
            });
            assert_eq!(window.session().len(), prompt);
            window.press(Key::F10);
            window.append(1);
            for _ in 0..window.session().len() {
                window.press(Key::F7);
            }
        }
    }
}
