//! Drawing the shown step again.

use super::*;

#[test]
fn a_redraw_shows_another_draw_and_changes_nothing_until_it_is_taken() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    let (ids, step) = (bench.session.ids().to_vec(), 6);
    bench.act(Action::Select(step));
    bench.session.refresh_view();
    assert_eq!(bench.session.redraw(), None);
    let mut drawn = Vec::new();
    for redraw in 1..=5 {
        bench.act(Action::Redraw);
        let shown = bench.session.redraw().expect("a draw");
        assert_eq!(shown.redraw, redraw);
        let context = &ids[..step];
        let row = prediction(
            context,
            bench.session.model().expect("loaded").vocab_size,
            Phase::Decode,
        );
        let choice = select(
            &row.logits.expect("logits").values,
            context,
            bench.session.settings(),
            step as u64,
            redraw,
        );
        assert_eq!((choice.id, choice.u), (shown.row.id, Some(shown.u)));
        drawn.push(shown.u);
    }
    drawn.dedup();
    assert_eq!(drawn.len(), 5);
    assert_eq!(bench.session.ids(), ids);
    let undo = bench.session.branches().len();
    let taken = bench.session.redraw().expect("a draw");
    bench.forwarded = 0;
    bench.act(Action::TakeRedraw);
    assert_eq!(bench.session.len(), step + 1);
    assert_eq!(bench.forwarded, 1, "the shared part is not computed again");
    let node = bench.session.node(step).expect("taken");
    assert_eq!((node.token, node.origin), (taken.row.id, Origin::Sampled));
    assert_eq!(node.draw.as_ref().map(|draw| draw.redraw), Some(5));
    assert_eq!(bench.session.branches().len(), undo + 1);
    bench.session.refresh_view();
    let chosen = bench.session.view().expect("shown").chosen.clone();
    assert_eq!(chosen.map(|chosen| chosen.redraw), Some(5));
    bench.act(Action::Undo);
    assert_eq!(bench.session.ids(), ids);
}

#[test]
fn the_first_draw_of_an_open_step_is_what_the_step_appends() {
    let mut bench = Bench::new("Once upon a time");
    bench.session.refresh_view();
    bench.act(Action::Redraw);
    let first = bench.session.redraw().expect("a draw");
    assert_eq!(first.redraw, 0);
    bench.act(Action::Step);
    bench.generate(1);
    assert_eq!(bench.session.ids().last(), Some(&first.row.id));
    bench.session.refresh_view();
    assert_eq!(bench.session.redraw(), None, "it was of another step");
}

#[test]
fn greedy_has_no_other_draw() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::SetSettings(Arc::new(SamplingSettings {
        mode: Mode::Greedy,
        ..Default::default()
    })));
    bench.session.refresh_view();
    bench.act(Action::Redraw);
    assert_eq!(bench.session.redraw(), None);
    bench.act(Action::TakeRedraw);
    assert!(bench.session.is_open_step());
    assert_eq!(bench.session.counts().generated, 0);
}
