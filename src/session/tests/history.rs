//! Edits during and after runs, selection, undo, branches, what-if.

use super::*;

#[test]
fn an_edit_during_a_run_stops_it_and_keeps_its_tokens() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(3);
    let late = bench.run.clone().expect("a run").epoch;
    let text = format!("{} and then", bench.text());
    bench.act(Action::EditText(text.clone()));
    assert!(!bench.session.is_running());
    assert_eq!(bench.text(), text);
    assert_eq!(bench.session.counts().generated, 3);
    // A token that was on its way belongs to a text that no longer stands.
    let choice = Choice {
        id: 5,
        u: None,
        redraw: 0,
    };
    bench.event(Event::Chosen {
        epoch: late,
        choice,
        settings: bench.session.settings().clone(),
    });
    assert_eq!(bench.text(), text);
}

#[test]
fn an_edit_retokenises_generated_text_behind_it() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(4);
    let text = bench.text().replacen("Once", "Twice", 1);
    bench.act(Action::EditText(text.clone()));
    assert_eq!(bench.text(), text);
    let counts = bench.session.counts();
    assert_eq!(counts.generated, 0);
    assert!(counts.retokenised > 0);
}

#[test]
fn the_selection_moves_to_the_last_step_still_valid() {
    let mut bench = Bench::new("Once upon a time there was a king");
    bench.act(Action::Select(2));
    bench.act(Action::EditText(
        "Once upon a time there was a queen".into(),
    ));
    assert_eq!(
        bench.session.selected(),
        2,
        "an edit behind the selected step leaves it"
    );
    bench.act(Action::Select(6));
    bench.act(Action::EditText(
        "Once below a time there was a queen".into(),
    ));
    assert_eq!(bench.session.selected(), 1);
}

#[test]
fn undo_and_redo_walk_over_everything() {
    let mut bench = Bench::new("Once upon a time");
    let mut texts = vec![bench.text().to_owned()];
    bench.act(Action::EditText("Once upon a time there".into()));
    bench.tick();
    texts.push(bench.text().to_owned());
    bench.act(Action::RunOrPause);
    bench.generate(6);
    texts.push(bench.text().to_owned());
    bench.act(Action::Step);
    bench.generate(1);
    texts.push(bench.text().to_owned());
    bench.session.refresh_view();
    bench.act(Action::Pick(42));
    texts.push(bench.text().to_owned());
    let hot = SamplingSettings {
        temperature: 1.5,
        ..(**bench.session.settings()).clone()
    };
    bench.act(Action::SetSettings(Arc::new(hot)));

    bench.act(Action::Undo);
    assert_eq!(bench.session.settings().temperature, 0.8);
    for expected in texts.iter().rev().skip(1) {
        bench.act(Action::Undo);
        assert_eq!(bench.text(), expected);
    }
    assert!(!bench.session.can_undo());
    for expected in texts.iter().skip(1) {
        bench.act(Action::Redo);
        assert_eq!(bench.text(), expected);
    }
    bench.act(Action::Redo);
    assert_eq!(bench.session.settings().temperature, 1.5);
    assert!(!bench.session.can_redo());
}

#[test]
fn a_typing_burst_is_one_entry() {
    let mut bench = Bench::new("");
    bench.now = 100.0;
    for text in ["O", "On", "Onc", "Once"] {
        bench.act_now(Action::EditText(text.into()));
        bench.now += 0.1;
    }
    bench.act(Action::Undo);
    assert_eq!(bench.text(), "");
}

#[test]
fn undo_during_a_run_stops_it_first() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(3);
    bench.act(Action::Undo);
    assert!(!bench.session.is_running());
    assert_eq!(bench.text(), "Once upon a time");
    bench.act(Action::Redo);
    assert_eq!(bench.session.counts().generated, 3, "its tokens are kept");
}

#[test]
fn a_picked_row_is_a_branch_and_nothing_before_it_is_computed_again() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    let step = bench.session.len() - 3;
    bench.act(Action::Select(step));
    bench.forwarded = 0;
    bench.act(Action::Pick(77));
    assert_eq!(bench.forwarded, 1);
    assert_eq!(bench.session.len(), step + 1);
    assert_eq!(bench.session.ids()[step], 77);
    assert_eq!(
        bench.session.node(step).expect("the token").origin,
        Origin::Picked
    );
    assert!(
        bench.session.is_open_step(),
        "the next distribution is shown"
    );
    assert!(!bench.session.is_running(), "nothing runs until asked");
    bench.act(Action::Undo);
    assert_eq!(bench.session.len(), step + 3);
}

#[test]
fn continue_from_here_cuts_to_the_shown_step() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    bench.forwarded = 0;
    bench.act(Action::Select(6));
    bench.act(Action::ContinueFromHere);
    assert_eq!(bench.session.len(), 6);
    assert!(bench.session.is_open_step());
    assert_eq!(bench.forwarded, 0);
}

#[test]
fn a_temperature_drag_reshapes_the_stored_step() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    bench.forwarded = 0;
    bench.act(Action::Select(6));
    bench.session.refresh_view();
    let drawn = bench.session.view().expect("a step").top[0].drawn_from;
    let hot = SamplingSettings {
        temperature: 1.9,
        ..(**bench.session.settings()).clone()
    };
    bench.act(Action::SetSettings(Arc::new(hot)));
    bench.session.refresh_view();
    let view = bench.session.view().expect("a step");
    assert!(view.is_what_if());
    assert_eq!(
        view.drawn_with
            .as_ref()
            .expect("what it was drawn with")
            .temperature,
        0.8
    );
    assert_ne!(view.top[0].drawn_from, drawn);
    assert_eq!(bench.forwarded, 0, "the model does not run");
    bench.act(Action::ReleaseWhatIf);
    bench.session.refresh_view();
    assert_eq!(
        bench.session.view().expect("a step").top[0].drawn_from,
        drawn
    );
}

#[test]
fn no_run_is_counted_for_a_text_that_it_did_not_write() {
    for action in [Action::Undo, Action::Pick(9), Action::ContinueFromHere] {
        let mut bench = Bench::new("Once upon a time");
        bench.act(Action::RunOrPause);
        bench.generate(3);
        bench.act(Action::RunOrPause);
        assert_eq!(bench.session.run_progress().0, 3);
        bench.act(Action::Select(5));
        bench.act(action);
        assert_eq!(bench.session.run_progress(), (0, 0));
    }
}

#[test]
fn retyping_everything_while_a_past_step_is_shown_shows_the_new_text() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::Select(2));
    assert!(!bench.session.follows());
    bench.act(Action::EditText("The king".into()));
    bench.tick();
    bench.session.refresh_view();
    assert!(bench.session.is_open_step() && bench.session.follows());
    assert!(bench.session.view().is_some());
    // An edit behind the shown step leaves it alone, one before it moves to the last step that is still so.
    bench.act(Action::EditText("The king said to the queen".into()));
    bench.tick();
    bench.act(Action::Select(3));
    bench.act(Action::EditText("The king said to the fox".into()));
    assert_eq!(bench.session.selected(), 3);
    bench.act(Action::EditText("The kings said to the fox".into()));
    assert_eq!(bench.session.selected(), 1);
}
