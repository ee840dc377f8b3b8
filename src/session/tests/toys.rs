//! Typed numbers in a model's place: edited, undone, and exchanged for a model and back.

use super::*;
use crate::toy::{Sheet, Toy};

fn read(sheet: &Sheet) -> Arc<Toy> {
    Arc::new(sheet.read().expect("a sheet that makes sense"))
}

/// A session on a toy, its rows answered as the worker does.
struct Desk {
    bench: Bench,
    sheet: Sheet,
}

impl Desk {
    fn new(sheet: Sheet) -> Self {
        Self::beside(Bench::new("Once upon a time"), sheet)
    }

    fn beside(mut bench: Bench, sheet: Sheet) -> Self {
        bench.event(Event::Loaded(Arc::new(ModelInfo::of_toy(read(&sheet)))));
        Self { bench, sheet }
    }

    fn session(&self) -> &Session {
        &self.bench.session
    }

    fn type_cell(&mut self, row: usize, column: usize, text: &str) {
        self.sheet.set_cell(row, column, text.to_owned());
        self.bench.act(Action::EditToy(read(&self.sheet)));
    }

    fn shown_probs(&mut self) -> Vec<f64> {
        self.bench.session.refresh_view();
        let view = self.session().view().expect("a step");
        let ids = 0..view.logits.values.len() as u32;
        ids.map(|id| view.logits.prob(id)).collect()
    }

    fn branches(&self) -> Vec<(String, bool)> {
        let branches = self.session().branches().into_iter();
        branches
            .map(|branch| (branch.own_text, branch.other_model.is_some()))
            .collect()
    }
}

#[test]
fn a_toy_opens_with_its_prompt_and_its_row() {
    let mut desk = Desk::new(Sheet::logits_example());
    assert_eq!(desk.session().text(), "the cat sat");
    assert_eq!(format!("{:.2}", desk.shown_probs()[3]), "0.62");
    let model = desk.session().model().expect("in a model's place");
    assert_eq!(
        (&*model.name, &*model.device, &*model.precision_name()),
        ("toy", "typed numbers", "typed")
    );
    assert_eq!(
        desk.session().cannot_measure(),
        Some("A toy computes nothing: its numbers are typed.")
    );
}

#[test]
fn the_typed_conditionals_multiply_to_0_003() {
    let desk = Desk::new(Sheet::conditionals_example());
    let chain = desk.session().chain(0..usize::MAX);
    assert_eq!((chain.factors, chain.without), (3, 1));
    assert_eq!(power_of_ten(chain.sum_nats), "0.00300");
    assert_eq!(desk.session().condition(), Condition::EndOfText);
}

#[test]
fn a_typed_number_reshapes_the_step_at_once_and_undo_brings_the_old_one_back() {
    let mut desk = Desk::new(Sheet::logits_example());
    let before = desk.shown_probs();
    desk.type_cell(2, 3, "-3");
    assert!(desk.shown_probs()[3] < 0.01);
    assert_eq!(desk.session().text(), "the cat sat");
    let commands = desk.bench.session.apply(Action::Undo, 100.0);
    assert!(
        matches!(&commands[0], Command::UseToy(toy) if *toy.sheet() == Sheet::logits_example())
    );
    assert_eq!(desk.shown_probs(), before);
    desk.bench.act(Action::Redo);
    assert!(desk.shown_probs()[3] < 0.01);
    assert_eq!(desk.session().toy().expect("in use").sheet(), &desk.sheet);
}

#[test]
fn a_burst_of_typing_is_one_undo() {
    let mut desk = Desk::new(Sheet::logits_example());
    let before = desk.session().toy().cloned();
    for (at, text) in ["-", "-3", "-3.", "-3.5"].into_iter().enumerate() {
        desk.sheet.set_cell(2, 3, text.to_owned());
        if let Ok(toy) = desk.sheet.read() {
            let action = Action::EditToy(Arc::new(toy));
            desk.bench.session.apply(action, 50.0 + 0.2 * at as f64);
        }
    }
    desk.bench.act(Action::Undo);
    assert_eq!(desk.session().toy().cloned(), before);
}

#[test]
fn what_was_drawn_from_a_row_that_is_another_now_counts_as_text() {
    let mut desk = Desk::new(Sheet::logits_example());
    desk.bench.act(Action::RunOrPause);
    desk.bench.generate(3);
    let text = desk.session().text().to_owned();
    assert_eq!(desk.session().len(), 6);
    // The row after four tokens: the fifth was drawn from it, the fourth and sixth were not.
    desk.type_cell(3, 0, "-0.25");
    assert_eq!(desk.session().text(), text, "the text stands");
    let origins: Vec<_> = desk
        .session()
        .path_nodes()
        .skip(3)
        .map(|node| node.origin)
        .collect();
    assert_eq!(
        origins,
        [Origin::Sampled, Origin::Retokenised, Origin::Sampled]
    );
    assert!(
        desk.session()
            .path_nodes()
            .skip(1)
            .all(|n| n.score.is_some())
    );
    desk.bench.act(Action::Undo);
    assert_eq!(desk.session().counts().generated, 3);
}

#[test]
fn branches_come_along_and_old_numbers_leave_none_behind() {
    let mut desk = Desk::new(Sheet::logits_example());
    desk.bench.act(Action::Pick(3));
    desk.bench.act(Action::Select(3));
    desk.bench.act(Action::Pick(0));
    let head = desk.session().head();
    desk.bench.act(Action::NameBranch(head, "again".to_owned()));
    let toy_branches = |desk: &Desk| {
        let all = desk.branches().into_iter();
        all.filter(|(_, other)| !other)
            .map(|(text, _)| text)
            .collect::<Vec<_>>()
    };
    let before = toy_branches(&desk);
    assert_eq!(before.len(), 2);
    for number in ["0.1", "0.2", "0.3"] {
        desk.type_cell(1, 0, number);
    }
    assert_eq!(toy_branches(&desk), before);
    assert_eq!(
        desk.session().branch_name(desk.session().head()),
        Some("again")
    );
    let others = desk.branches().len() - before.len();
    assert_eq!(
        others, 1,
        "the model's own text, and nothing of old numbers"
    );
}

#[test]
fn another_prompt_is_the_text_and_a_token_that_is_gone_ends_it() {
    let mut desk = Desk::new(Sheet::logits_example());
    desk.bench.act(Action::Pick(3));
    assert_eq!(desk.session().text(), "the cat sat down");
    desk.sheet.remove_last_label();
    desk.bench.act(Action::EditToy(read(&desk.sheet)));
    assert_eq!(desk.session().text(), "the cat sat");
    desk.bench.act(Action::Undo);
    assert_eq!(desk.session().text(), "the cat sat down");
    let renamed = {
        let base = Sheet::logits_example();
        let mut sheet = base.clone();
        sheet.rename(&base, 3, "still");
        sheet
    };
    desk.bench.act(Action::EditToy(read(&renamed)));
    assert_eq!(desk.session().text(), "the cat sat still");
    let other = Sheet {
        prompt: "sat the".to_owned(),
        ..renamed
    };
    desk.bench.act(Action::EditToy(read(&other)));
    assert_eq!(desk.session().text(), "sat the");
    assert!(desk.session().is_open_step());
}

#[test]
fn fewer_rows_than_tokens_leave_a_text_that_is_too_long() {
    let mut desk = Desk::new(Sheet::logits_example());
    desk.bench.act(Action::RunOrPause);
    desk.bench.generate(3);
    desk.sheet.remove_last_row();
    desk.sheet.remove_last_row();
    desk.bench.act(Action::EditToy(read(&desk.sheet)));
    assert!(desk.session().is_too_long());
    assert_eq!(desk.session().len(), 6, "nothing is lost");
    desk.bench.act(Action::Undo);
    assert!(!desk.session().is_too_long());
}

#[test]
fn a_model_and_a_toy_take_turns_with_the_text() {
    let mut desk = Desk::new(Sheet::logits_example());
    desk.type_cell(2, 3, "0.5");
    desk.bench
        .event(Event::Loaded(model("first", N_CTX, Some(0))));
    assert!(desk.session().toy().is_none());
    assert_eq!(
        desk.session().text(),
        "the cat sat",
        "read again by the model"
    );
    desk.bench
        .act(Action::EditToy(read(&Sheet::logits_example())));
    assert!(desk.session().toy().is_none(), "there is no toy to edit");
    // Back to before: the model that is loaded stays, as after any model switch.
    desk.bench.act(Action::Undo);
    desk.bench.act(Action::Undo);
    assert!(desk.session().toy().is_none());
    assert_eq!(desk.session().text(), "the cat sat");
    let desk = Desk::beside(desk.bench, desk.sheet);
    assert_eq!(desk.session().text(), "the cat sat");
    let mut desk = desk;
    assert!(desk.shown_probs().len() == 4);
    desk.bench.act(Action::EditText("the cat".to_owned()));
    desk.bench.tick();
    assert_eq!(desk.session().len(), 2);
}

#[test]
fn nothing_is_asked_about_where_typed_numbers_come_from() {
    let mut desk = Desk::new(Sheet::logits_example());
    desk.bench.act(Action::Explain);
    desk.bench.act(Action::Nearest(0));
    assert!(desk.bench.questions.is_empty() && !desk.bench.session.wants_explanation());
}
