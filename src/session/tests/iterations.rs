//! The generation loop, taken apart into iterations and phases.

use super::*;

#[test]
fn the_shown_choice_of_the_open_step_is_what_the_step_appends() {
    for settings in [
        SamplingSettings::default(),
        SamplingSettings {
            mode: Mode::Greedy,
            ..Default::default()
        },
        SamplingSettings {
            temperature: 3.0,
            top_k: 0,
            top_p: 1.0,
            repetition_penalty: 1.4,
            seed: 9,
            ..Default::default()
        },
    ] {
        let mut bench = Bench::new("Once upon a time");
        bench.act(Action::SetSettings(Arc::new(settings)));
        for _ in 0..4 {
            let open = bench.session.open_iteration().expect("predicted");
            let foretold = open.selection.expect("a choice");
            bench.act(Action::Step);
            bench.generate(1);
            let index = bench.session.len() - 1;
            assert_eq!(bench.session.ids()[index], foretold.row.id);
            let done = bench.session.iteration(index).expect("on record");
            assert_eq!(done.selection, Some(foretold), "and for the same reason");
            assert_eq!(done.top, open.top);
        }
    }
}

#[test]
fn the_drawn_number_lies_in_the_tokens_part_of_the_cumulative_sum() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    let choices = bench.session.last_choices(3);
    assert_eq!(choices.len(), 3);
    for index in choices {
        let iteration = bench.session.iteration(index).expect("on record");
        let selection = iteration.selection.expect("a choice");
        let Why::Drawn { u, from, to, .. } = selection.why else {
            panic!("{:?}", selection.why);
        };
        assert!(from <= u && u < to, "{from} ≤ {u} < {to}");
        assert!((to - from - selection.row.drawn_from.expect("kept")).abs() < 1e-12);
    }
}

#[test]
fn the_stop_test_answers_in_the_documented_order() {
    let order = [
        StopReason::EndOfText,
        StopReason::StopString,
        StopReason::MaxNewTokens,
        StopReason::ContextFull,
        StopReason::Stopped,
    ];
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    let last = bench.session.len() - 1;
    for index in last - 5..=last {
        let test = bench.session.stop_test(index).expect("a run asked");
        let asked: Vec<_> = test.answers.iter().map(|answer| answer.reason).collect();
        assert_eq!(asked, order);
        let expected = (index == last).then_some(StopReason::MaxNewTokens);
        assert_eq!(test.reason(), expected);
    }
    assert_eq!(bench.session.stop_test(0), None, "typed");
    bench.act(Action::RunOrPause);
    bench.generate(1);
    bench.act(Action::Stop);
    let test = bench.session.stop_test(bench.session.len() - 1);
    assert_eq!(test.expect("asked").reason(), Some(StopReason::Stopped));
}

#[test]
fn a_stop_string_is_found_across_tokens_by_the_stop_test() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(3);
    let layout = bench.session.layout();
    let (from, to) = (
        layout.ends[layout.ends.len() - 2] - 1,
        layout.ends[layout.ends.len() - 1],
    );
    let Some(stop) = layout.text.get(from..to).map(str::to_owned) else {
        return;
    };
    bench.act(Action::Undo);
    bench.act(Action::SetSettings(Arc::new(SamplingSettings {
        stop: vec![stop],
        ..SamplingSettings::default()
    })));
    bench.act(Action::RunOrPause);
    bench.generate(3);
    let test = bench
        .session
        .stop_test(bench.session.len() - 1)
        .expect("asked");
    assert_eq!(test.reason(), Some(StopReason::StopString));
}

#[test]
fn four_phases_are_one_step() {
    let mut bench = Bench::new("Once upon a time");
    let mut walk = Walk::default();
    let prompt = bench.session.len();
    for round in 0..3 {
        assert_eq!(walk.phase(&bench.session, 0.0), LoopPhase::Predict);
        assert!(walk.advance(&bench.session).is_none());
        assert_eq!(walk.phase(&bench.session, 0.0), LoopPhase::Select);
        assert_eq!(
            bench.session.len(),
            prompt + round,
            "nothing is appended yet"
        );
        let action = walk.advance(&bench.session).expect("a step");
        bench.act(action);
        assert!(
            walk.is_held(&bench.session).is_some(),
            "the step is on its way"
        );
        bench.generate(1);
        assert_eq!(bench.session.len(), prompt + round + 1);
        assert_eq!(walk.phase(&bench.session, 0.0), LoopPhase::Append);
        walk.advance(&bench.session);
        assert_eq!(walk.phase(&bench.session, 0.0), LoopPhase::Stop);
        walk.advance(&bench.session);
    }
    // Typing begins a new iteration, a run ends in the answer of its last one.
    bench.act(Action::EditText("Twice".into()));
    bench.tick();
    assert_eq!(walk.phase(&bench.session, 0.0), LoopPhase::Predict);
    bench.act(Action::RunOrPause);
    bench.generate(6);
    assert_eq!(walk.phase(&bench.session, 0.0), LoopPhase::Stop);
}

#[test]
fn a_slow_run_shows_its_phases_and_a_fast_one_does_not() {
    let mut bench = Bench::new("Once upon a time");
    let mut walk = Walk::default();
    bench.act(Action::SetPace(Pace::TokensPerSecond(1)));
    bench.act(Action::RunOrPause);
    bench.generate(1);
    let shown: Vec<_> = [10.0, 10.3, 10.6, 10.8, 19.0]
        .map(|now| walk.phase(&bench.session, now))
        .into();
    use LoopPhase::{Append, Predict, Select};
    assert_eq!(shown, [Append, LoopPhase::Stop, Predict, Select, Select]);
    assert!((walk.next_change(&bench.session, 10.1).expect("soon") - 0.15).abs() < 1e-9);
    assert_eq!(walk.next_change(&bench.session, 19.0), None);
    bench.act(Action::SetPace(Pace::TokensPerSecond(20)));
    assert_eq!(walk.phase(&bench.session, 10.6), LoopPhase::Stop);
}
