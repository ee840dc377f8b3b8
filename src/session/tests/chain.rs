//! The chain rule over the text, and the condition of its first factor.

use super::*;

#[test]
fn conditioning_moves_every_position_and_undo_brings_the_text_back() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    let (ids, text) = (bench.session.ids().to_vec(), bench.text().to_owned());
    let unconditioned = bench.session.chain(0..usize::MAX);
    assert_eq!(
        (unconditioned.factors, unconditioned.without),
        (ids.len() - 1, 1)
    );
    bench.act(Action::Select(3));
    bench.act(Action::Condition(Condition::EndOfText));
    assert_eq!(bench.session.condition(), Condition::EndOfText);
    assert_eq!(bench.session.ids(), [&[0], &ids[..]].concat());
    assert_eq!(bench.session.selected(), 4, "the same token is shown");
    let conditioned = bench.session.chain(0..usize::MAX);
    assert_eq!((conditioned.factors, conditioned.without), (ids.len(), 1));
    assert_eq!(
        bench.session.counts().generated,
        0,
        "drawn from other distributions"
    );
    assert_eq!(bench.session.counts().retokenised, 6);
    bench.act(Action::Condition(Condition::None));
    assert_eq!(bench.session.ids(), ids);
    bench.act(Action::Undo);
    bench.act(Action::Undo);
    assert_eq!(bench.text(), text);
    assert_eq!(bench.session.counts().generated, 6);
}

#[test]
fn a_condition_that_cannot_be_is_not_offered() {
    let mut bench = Bench::with("Once upon", model("no end", N_CTX, None));
    assert!(bench.session.condition_is_fixed().is_some());
    bench.act(Action::Condition(Condition::EndOfText));
    assert_eq!(bench.session.condition(), Condition::None);
    assert!(!bench.session.can_undo());
    let mut empty = Bench::new("");
    empty.act(Action::Condition(Condition::EndOfText));
    assert_eq!(empty.session.condition(), Condition::EndOfText);
    assert_eq!(empty.session.len(), 1);
}

#[test]
fn conditioning_during_a_run_stops_it_and_keeps_its_tokens() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(3);
    bench.act(Action::Condition(Condition::EndOfText));
    assert!(!bench.session.is_running());
    assert_eq!(bench.session.counts().retokenised, 3);
}
