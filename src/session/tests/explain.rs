//! Where a step comes from: questions, answers, and whose they are.

use super::*;
use crate::{
    explanation::{Explanation, HeadRows, Nearest},
    worker::{Answer, Question},
};

fn head() -> Arc<HeadRows> {
    Arc::new(HeadRows {
        norms: vec![1.0; 4],
        bias: None,
        is_tied: true,
        n_embd: 2,
    })
}

/// Told from others by its length.
fn explanation(hidden_norm: f64) -> Answer {
    Answer::Step(Arc::new(Explanation {
        head: head(),
        hidden_norm,
        dots: vec![0.0; 4],
        lens: Vec::new(),
        ms: 1.0,
    }))
}

fn contexts(bench: &Bench) -> Vec<Question> {
    let questions = bench.questions.iter();
    questions.map(|request| request.question.clone()).collect()
}

impl Bench {
    fn answer(&mut self, at: usize, answer: Result<Answer, String>) {
        let ticket = self.questions[at].ticket;
        self.event(Event::Explained { ticket, answer });
    }

    /// What is shown of the step: its answer's length.
    fn shown(&self) -> Option<f64> {
        let answer = self.session.explanation()?.ok()?;
        Some(answer.hidden_norm)
    }
}

#[test]
fn a_step_is_asked_about_once_and_its_answer_is_shown_of_it_alone() {
    let mut bench = Bench::new("Once upon a time");
    assert!(bench.session.wants_explanation());
    bench.act(Action::Explain);
    bench.act(Action::Explain);
    let ids = bench.session.ids().to_vec();
    assert_eq!(contexts(&bench), [Question::Step(ids.clone())]);
    assert!(!bench.session.wants_explanation());
    assert_eq!(bench.shown(), None);
    bench.answer(0, Ok(explanation(4.0)));
    assert_eq!(bench.shown(), Some(4.0));
    bench.act(Action::Select(2));
    assert_eq!(bench.shown(), None, "another step");
    bench.act(Action::Explain);
    assert_eq!(bench.questions.len(), 2);
    assert_eq!(contexts(&bench)[1], Question::Step(ids[..2].to_vec()));
    bench.answer(0, Ok(explanation(4.0)));
    assert_eq!(bench.shown(), None, "an answer to an older question");
    bench.answer(1, Ok(explanation(2.0)));
    assert_eq!(bench.shown(), Some(2.0));
    bench.act(Action::Live);
    assert_eq!(bench.shown(), None);
    // Nothing comes before the first token.
    bench.act(Action::Select(0));
    assert!(!bench.session.wants_explanation());
    bench.act(Action::Explain);
    assert_eq!(bench.questions.len(), 2);
}

#[test]
fn an_edit_or_a_branch_is_another_step_and_the_same_text_again_is_not() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::Explain);
    bench.answer(0, Ok(explanation(1.0)));
    bench.act(Action::Pick(9));
    assert_eq!(bench.shown(), None);
    bench.act(Action::Undo);
    assert_eq!(bench.shown(), Some(1.0), "the same node");
    bench.act(Action::EditText("Once upon a dime".into()));
    bench.tick();
    assert_eq!(bench.shown(), None);
}

#[test]
fn a_run_asks_about_its_newest_step() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(1);
    bench.act(Action::Explain);
    bench.generate(1);
    assert!(bench.session.wants_explanation());
    bench.act(Action::Explain);
    let selected = bench.session.selected();
    let ids = bench.session.ids()[..selected].to_vec();
    assert_eq!(contexts(&bench).last(), Some(&Question::Step(ids)));
    bench.answer(0, Ok(explanation(1.0)));
    assert_eq!(bench.shown(), None);
    bench.answer(1, Ok(explanation(2.0)));
    assert_eq!(bench.shown(), Some(2.0));
}

#[test]
fn an_interrupted_question_is_asked_again_and_a_failed_one_says_why() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::Explain);
    bench.answer(0, Ok(Answer::Interrupted));
    assert!(bench.session.wants_explanation());
    bench.act(Action::Explain);
    bench.answer(1, Err("The compute device failed.".into()));
    assert!(!bench.session.wants_explanation());
    let answer = bench.session.explanation();
    assert!(matches!(answer, Some(Err("The compute device failed."))));
    assert_eq!(bench.session.notice(), None, "said where it was asked");
}

#[test]
fn answers_of_another_model_are_not_shown_and_none_is_asked_while_one_loads() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::Explain);
    bench.act(Action::Nearest(3));
    bench.act(Action::LoadModel(LoadRequest::new(
        ModelSource::BuiltIn,
        DeviceChoice::Cpu,
    )));
    assert!(!bench.session.wants_explanation() && !bench.session.wants_nearest(3));
    bench.event(Event::Loaded(model("second", N_CTX, Some(0))));
    bench.answer(0, Ok(explanation(1.0)));
    let rows = Nearest::new(head(), 3, &[0.0; 4]);
    bench.answer(1, Ok(Answer::Nearest(Arc::new(rows))));
    assert_eq!(bench.shown(), None);
    assert!(bench.session.nearest(3).is_none());
    assert!(bench.session.wants_explanation() && bench.session.wants_nearest(3));
}

#[test]
fn the_rows_nearest_to_a_token_belong_to_it() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::Nearest(3));
    bench.act(Action::Nearest(3));
    bench.act(Action::Nearest(5));
    let asked = contexts(&bench);
    assert_eq!(asked, [Question::Nearest(3), Question::Nearest(5)]);
    let rows = |token| {
        Ok(Answer::Nearest(Arc::new(Nearest::new(
            head(),
            token,
            &[0.0; 4],
        ))))
    };
    bench.answer(0, rows(3));
    assert!(bench.session.nearest(3).is_none() && bench.session.nearest(5).is_none());
    bench.answer(1, rows(5));
    assert!(bench.session.nearest(5).is_some());
    bench.act(Action::Select(2));
    assert!(bench.session.nearest(5).is_some(), "of every step");
    assert!(!bench.session.wants_nearest(u32::MAX));
}

#[test]
fn the_question_holds_what_the_model_is_given_and_nothing_else() {
    let mut bench = Bench::new("");
    bench.act(Action::Explain);
    assert_eq!(
        contexts(&bench),
        [Question::Step(vec![0])],
        "a lone end-of-text"
    );
    let mut bench = Bench::new(&" the".repeat(N_CTX + 1));
    bench.act(Action::Explain);
    assert!(bench.questions.is_empty(), "nothing is predicted");
    bench.act(Action::AcceptTruncation);
    bench.act(Action::Explain);
    let start = bench.session.context_start();
    let ids = bench.session.ids()[start..].to_vec();
    assert!(start > 0);
    assert_eq!(contexts(&bench), [Question::Step(ids)]);
}
