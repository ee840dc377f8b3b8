//! The list of branches: going to one, names, deleting with undo.

use super::*;

/// Six generated tokens, and two branches that leave them by picked tokens.
fn branched() -> Bench {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    for (step, token) in [(7, 77), (5, 55)] {
        let full = bench.session.branches()[0].head;
        bench.act(Action::SwitchBranch(full));
        bench.act(Action::Select(step));
        bench.act(Action::Pick(token));
    }
    bench
}

#[test]
fn branches_are_listed_as_a_tree_with_their_log_probabilities() {
    let bench = branched();
    let branches = bench.session.branches();
    let shape: Vec<_> = branches
        .iter()
        .map(|branch| (branch.len, branch.fork, branch.depth, branch.is_current))
        .collect();
    assert_eq!(
        shape,
        [(10, 0, 0, false), (8, 7, 1, false), (6, 5, 1, true)]
    );
    for branch in &branches {
        assert_eq!(branch.chain.factors, branch.len - 1);
        let difference = branch.apart.sum_nats - branch.current_apart.sum_nats;
        let whole = branch.chain.sum_nats - branches[2].chain.sum_nats;
        assert!((difference - whole).abs() < 1e-9);
    }
}

#[test]
fn a_branch_is_switched_to_named_and_undone() {
    let mut bench = branched();
    let first = bench.session.branches()[0].head;
    bench.forwarded = 0;
    bench.act(Action::SwitchBranch(first));
    assert_eq!(bench.session.len(), 10);
    assert_eq!(bench.forwarded, 0, "everything is still on record");
    bench.act(Action::NameBranch(first, "  the long one ".into()));
    let name = |bench: &Bench, at: usize| bench.session.branches()[at].name.clone();
    assert_eq!(name(&bench, 0).as_deref(), Some("the long one"));
    bench.act(Action::Step);
    bench.generate(1);
    assert_eq!(
        name(&bench, 0).as_deref(),
        Some("the long one"),
        "it has grown"
    );
    assert_eq!(name(&bench, 1), None);
    let grown = bench.session.head();
    bench.act(Action::NameBranch(grown, "longer".into()));
    assert_eq!(name(&bench, 0).as_deref(), Some("longer"));
    bench.act(Action::NameBranch(grown, " ".into()));
    assert_eq!(name(&bench, 0), None);
    for expected in [Some("longer"), Some("the long one")] {
        bench.act(Action::Undo);
        assert_eq!(name(&bench, 0).as_deref(), expected);
    }
    bench.act(Action::Undo);
    bench.act(Action::Undo);
    assert_eq!(name(&bench, 0), None);
    bench.act(Action::Undo);
    assert_eq!(bench.session.len(), 6, "the switch is undone");
}

#[test]
fn a_deleted_branch_comes_back_with_undo() {
    let mut bench = branched();
    let before = bench.session.branches();
    bench.act(Action::DeleteBranch(before[1].head));
    assert_eq!(bench.session.branches().len(), 2);
    assert_eq!(bench.session.len(), 6, "the text is another branch");
    bench.act(Action::Undo);
    assert_eq!(bench.session.branches(), before);
    bench.act(Action::Redo);
    assert_eq!(bench.session.branches().len(), 2);
}

#[test]
fn deleting_the_current_branch_goes_to_the_nearest_other_one() {
    let mut bench = branched();
    let before = bench.session.branches();
    bench.act(Action::SwitchBranch(before[1].head));
    bench.act(Action::DeleteBranch(before[1].head));
    assert_eq!(bench.session.head(), before[0].head);
    bench.act(Action::DeleteBranch(before[2].head));
    bench.act(Action::DeleteBranch(before[0].head));
    assert_eq!(bench.session.head(), before[0].head, "the last one stays");
    assert!(bench.session.notice().is_some());
    bench.act(Action::Undo);
    bench.act(Action::Undo);
    assert_eq!(bench.session.head(), before[1].head);
    assert_eq!(bench.session.branches().len(), 3);
}

#[test]
fn branching_and_deleting_during_a_run_stop_it_and_keep_its_tokens() {
    let mut bench = branched();
    let first = bench.session.branches()[0].head;
    bench.act(Action::RunOrPause);
    let running = bench.session.head();
    bench.generate(2);
    bench.act(Action::SwitchBranch(first));
    assert!(!bench.session.is_running());
    assert_eq!(bench.session.head(), first);
    assert!(
        bench
            .session
            .branches()
            .iter()
            .any(|branch| branch.len == 8 && branch.fork == 5),
        "the run's tokens are kept"
    );
    bench.act(Action::Undo);
    bench.act(Action::RunOrPause);
    bench.generate(1);
    // Pointed at before the run had grown it.
    bench.act(Action::DeleteBranch(running));
    assert!(!bench.session.is_running());
    assert_eq!(bench.session.len(), 10);
    bench.act(Action::Undo);
    assert_eq!(bench.session.len(), 9);
}

#[test]
fn branches_of_another_model_stay_readable_and_labelled() {
    let mut bench = branched();
    bench.event(Event::Loaded(model("second", N_CTX, Some(0))));
    let branches = bench.session.branches();
    assert_eq!(
        branches.len(),
        4,
        "the text is read again, by the new model"
    );
    let of_first: Vec<_> = branches
        .iter()
        .filter(|branch| branch.other_model.as_deref() == Some("first"))
        .collect();
    assert_eq!(of_first.len(), 3);
    assert!(of_first.iter().all(|branch| !branch.own_text.is_empty()));
    let (old, text) = (of_first[0].head, of_first[0].own_text.clone());
    bench.act(Action::SwitchBranch(old));
    assert_eq!(bench.text(), text);
    let model = bench.session.model().map(|model| model.name.clone());
    assert_eq!(model.as_deref(), Some("second"));
    assert!(bench.session.path_nodes().all(|node| node.model == 1));
}
