//! Typing, running, pausing, stepping.

use super::*;

#[test]
fn a_start_predicts_the_first_text() {
    let bench = Bench::new("Once upon a time");
    assert_eq!(bench.text(), "Once upon a time");
    assert_eq!(bench.forwarded, bench.session.len());
    assert!(bench.session.is_open_step());
    assert_eq!(
        bench.session.node(0).expect("a token").score,
        None,
        "nothing conditions the first token"
    );
    assert!(bench.session.node(1).expect("a token").score.is_some());
}

#[test]
fn typing_predicts_after_a_pause_and_only_what_changed() {
    let mut bench = Bench::new("Once upon a time");
    let before = bench.session.len();
    bench.forwarded = 0;
    bench.act(Action::EditText("Once upon a time there".into()));
    assert_eq!(bench.forwarded, 0, "not before the pause");
    assert!(bench.session.next_tick().is_some());
    bench.tick();
    assert_eq!(bench.forwarded, bench.session.len() - before);
    assert!(bench.session.is_open_step());
}

#[test]
fn typing_the_same_text_again_finds_its_predictions() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::EditText("Once upon a time there".into()));
    bench.tick();
    bench.act(Action::EditText("Once upon a".into()));
    bench.tick();
    bench.forwarded = 0;
    bench.act(Action::EditText("Once upon a time there".into()));
    bench.tick();
    assert_eq!(bench.forwarded, 0);
}

#[test]
fn a_run_appends_until_its_budget() {
    let mut bench = Bench::new("Once upon a time");
    let prompt = bench.session.len();
    bench.act(Action::RunOrPause);
    assert!(bench.session.is_running());
    bench.generate(6);
    assert_eq!(bench.session.activity(), Activity::Idle);
    assert_eq!(bench.session.stop_reason(), Some(StopReason::MaxNewTokens));
    assert_eq!(bench.session.len(), prompt + 6);
    assert_eq!(
        bench.session.counts(),
        Counts {
            typed: prompt,
            generated: 6,
            retokenised: 0
        }
    );
    assert_eq!(
        bench.session.selected(),
        prompt + 5,
        "the newest choice is shown"
    );
    bench.session.refresh_view();
    let view = bench.session.view().expect("a step");
    let chosen = view.chosen.as_ref().expect("a choice");
    assert_eq!(chosen.row.id, bench.session.ids()[prompt + 5]);
    assert!(chosen.u.is_some());
    assert_eq!(
        view.distribution.choose(chosen.u.expect("drawn")),
        chosen.row.id,
        "the drawn number leads to the token"
    );
}

#[test]
fn a_pause_keeps_the_remaining_budget() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(2);
    bench.act(Action::RunOrPause);
    assert_eq!(bench.session.activity(), Activity::Paused);
    bench.act(Action::RunOrPause);
    assert_eq!(
        bench.run.as_ref().map(|run| (run.budget, run.continuation)),
        Some((4, 2))
    );
    bench.generate(4);
    assert_eq!(bench.session.stop_reason(), Some(StopReason::MaxNewTokens));
}

#[test]
fn a_step_is_one_token_of_a_paused_run() {
    let mut bench = Bench::new("Once upon a time");
    let prompt = bench.session.len();
    for count in 1..=6 {
        bench.act(Action::Step);
        bench.generate(1);
        assert_eq!(bench.session.len(), prompt + count);
        let expected = if count < 6 {
            Activity::Paused
        } else {
            Activity::Idle
        };
        assert_eq!(bench.session.activity(), expected);
    }
    assert_eq!(bench.session.stop_reason(), Some(StopReason::MaxNewTokens));
}

#[test]
fn steps_and_a_run_give_the_same_tokens() {
    let mut run = Bench::new("Once upon a time");
    run.act(Action::RunOrPause);
    run.generate(6);
    let mut steps = Bench::new("Once upon a time");
    for _ in 0..6 {
        steps.act(Action::Step);
        steps.generate(1);
    }
    assert_eq!(run.session.ids(), steps.session.ids());
}

#[test]
fn stop_keeps_the_text_and_a_second_run_begins_anew() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(3);
    let text = bench.text().to_owned();
    bench.act(Action::Stop);
    assert_eq!(bench.session.stop_reason(), Some(StopReason::Stopped));
    assert_eq!(bench.text(), text);
    bench.act(Action::RunOrPause);
    assert_eq!(
        bench.run.as_ref().map(|run| (run.budget, run.continuation)),
        Some((6, 0))
    );
}
