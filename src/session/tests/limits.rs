//! Context, models, memory, settings, streaming.

use super::*;

#[test]
fn the_context_is_never_exceeded() {
    for (tokens, appended) in [(0, 6), (1, 6), (N_CTX - 1, 1), (N_CTX, 0)] {
        let text = " the".repeat(tokens);
        let mut bench = Bench::new(&text);
        assert_eq!(bench.session.len(), tokens);
        bench.act(Action::RunOrPause);
        if appended == 0 {
            assert_eq!(bench.session.stop_reason(), Some(StopReason::ContextFull));
            assert!(
                bench.session.prediction(tokens).is_some(),
                "the last distribution is shown"
            );
        } else {
            assert!(bench.session.is_running(), "{tokens}");
        }
    }
    let mut bench = Bench::new(&" the".repeat(N_CTX + 1));
    assert!(bench.session.is_too_long());
    assert_eq!(bench.forwarded, 0);
    bench.act(Action::RunOrPause);
    assert!(!bench.session.is_running());
    assert!(
        bench
            .session
            .notice()
            .is_some_and(|notice| notice.contains("33 tokens")),
        "{:?}",
        bench.session.notice()
    );
    bench.act(Action::AcceptTruncation);
    assert_eq!(bench.session.context_len(), N_CTX - 6);
    assert_eq!(bench.session.len(), N_CTX + 1, "the head stays in the text");
    assert_eq!(bench.forwarded, N_CTX - 6);
    assert_eq!(
        bench
            .session
            .node(bench.session.context_start())
            .expect("a token")
            .score,
        None
    );
    bench.act(Action::RunOrPause);
    bench.generate(6);
    assert_eq!(bench.session.context_len(), N_CTX);
}

#[test]
fn an_empty_text_is_a_lone_end_of_text() {
    let mut bench = Bench::new("");
    assert!(bench.session.prediction(0).is_some());
    bench.act(Action::RunOrPause);
    assert_eq!(
        bench.run.as_ref().map(|run| run.context.clone()),
        Some(vec![0])
    );
    bench.generate(1);
    assert_eq!(bench.session.ids().len(), 2);

    let mut without = Bench::with("", model("bare", N_CTX, None));
    without.act(Action::RunOrPause);
    assert!(!without.session.is_running());
    assert!(
        without
            .session
            .notice()
            .is_some_and(|notice| notice.contains("end-of-text"))
    );
}

#[test]
fn a_model_switch_keeps_the_text_and_can_be_undone() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(3);
    let text = bench.text().to_owned();
    bench.act(Action::LoadModel(LoadRequest::new(
        ModelSource::BuiltIn,
        DeviceChoice::Cpu,
    )));
    assert!(!bench.session.is_running());
    bench.event(Event::Loaded(model("second", 64, Some(0))));
    assert_eq!(bench.text(), text);
    assert_eq!(
        bench.session.model().map(|model| model.name.as_str()),
        Some("second")
    );
    assert!(
        bench
            .session
            .path_nodes()
            .all(|node| node.model == 1 && !node.origin.is_generated())
    );
    bench.act(Action::Undo);
    assert_eq!(
        bench.text(),
        text,
        "the text is still there, read by the model in use"
    );
}

#[test]
fn a_failed_load_keeps_model_and_text() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::LoadModel(LoadRequest::new(
        ModelSource::BuiltIn,
        DeviceChoice::Cpu,
    )));
    bench.event(Event::LoadFailed {
        name: "broken".into(),
        message: "Its config.json is missing.".into(),
        instead: None,
    });
    assert_eq!(
        bench.session.model().map(|model| model.name.as_str()),
        Some("first")
    );
    assert_eq!(bench.text(), "Once upon a time");
    assert!(
        bench
            .session
            .notice()
            .is_some_and(|notice| notice.contains("broken") && notice.contains("config.json"))
    );
}

#[test]
fn a_run_asked_for_while_a_model_loads_waits_and_can_be_cancelled() {
    for cancel in [false, true] {
        let mut bench = Bench::new("Once upon a time");
        bench.act(Action::LoadModel(LoadRequest::new(
            ModelSource::BuiltIn,
            DeviceChoice::Cpu,
        )));
        bench.act(Action::RunOrPause);
        assert!(
            bench
                .session
                .loading()
                .is_some_and(|loading| loading.run_queued)
        );
        if cancel {
            bench.act(Action::Stop);
        }
        bench.event(Event::Loaded(model("second", 64, Some(0))));
        assert_eq!(bench.session.is_running(), !cancel);
    }
}

#[test]
fn typing_before_the_model_is_there_is_not_lost() {
    let mut session = Session::new("Once", SamplingSettings::default(), Pace::Unlimited);
    session.apply(Action::EditText("Once more".into()), 0.0);
    assert_eq!(session.text(), "Once more");
    session.on_event(Event::Loaded(model("first", N_CTX, Some(0))), 1.0);
    assert_eq!(session.text(), "Once more");
}

#[test]
fn over_budget_attention_of_other_branches_goes_first_and_comes_back_on_demand() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    let old_branch = bench.session.path().to_vec();
    bench.act(Action::Select(4));
    bench.act(Action::Pick(9));
    let counted = |session: &Session| {
        session
            .tree()
            .ids()
            .filter_map(|id| session.tree().node(id).prediction.as_ref())
            .map(Prediction::bytes)
            .sum::<usize>()
    };
    assert_eq!(bench.session.recorded_bytes(), counted(&bench.session));

    bench
        .session
        .set_budget_bytes(bench.session.recorded_bytes() - 1);
    assert_eq!(bench.session.recorded_bytes(), counted(&bench.session));
    assert!(bench.session.recorded_bytes() <= bench.session.budget_bytes());
    assert!(bench.session.path_nodes().all(|node| {
        node.prediction
            .as_ref()
            .is_some_and(Prediction::is_complete)
    }));
    let gone = old_branch
        .iter()
        .filter(|&&id| {
            bench
                .session
                .tree()
                .node(id)
                .prediction
                .as_ref()
                .is_some_and(|p| p.attention.is_none())
        })
        .count();
    assert!(gone > 0);

    bench.session.set_budget_bytes(0);
    assert!(
        bench
            .session
            .path_nodes()
            .all(|node| node.prediction.as_ref().is_some_and(|p| p.logits.is_some())),
        "never the current logits"
    );
    assert!(
        bench
            .session
            .path_nodes()
            .all(|node| node.prediction.as_ref().is_some_and(|p| !p.is_complete()))
    );
    assert!(
        old_branch[5..]
            .iter()
            .all(|&id| bench.session.tree().node(id).score.is_some()),
        "scores stay"
    );

    bench.session.set_budget_bytes(DEFAULT_BUDGET_BYTES);
    bench.act(Action::Recompute);
    assert!(bench.session.path_nodes().all(|node| {
        node.prediction
            .as_ref()
            .is_some_and(Prediction::is_complete)
    }));
    assert_eq!(bench.session.recorded_bytes(), counted(&bench.session));
}

#[test]
fn logits_that_were_let_go_are_asked_for_again_when_their_branch_is_current() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    let step = bench.session.len();
    bench.act(Action::Select(4));
    bench.act(Action::Pick(9));
    bench.session.set_budget_bytes(0);
    bench.session.set_budget_bytes(DEFAULT_BUDGET_BYTES);
    bench.act(Action::Undo);
    assert!(
        bench
            .session
            .prediction(step)
            .is_some_and(|p| p.logits.is_some()),
        "shown steps have their numbers"
    );
}

#[test]
fn settings_are_clamped_in_the_window() {
    let mut bench = Bench::new("Once");
    let wild = SamplingSettings {
        temperature: -3.0,
        top_p: 7.0,
        min_p: f32::NAN,
        mode: Mode::Sample,
        ..Default::default()
    };
    bench.act(Action::SetSettings(Arc::new(wild)));
    assert!(bench.session.settings().validate().is_ok());
}

#[test]
fn streaming_hides_an_unfinished_character_and_shows_it_once_whole() {
    let mut bench = Bench::new("Once");
    bench.act(Action::RunOrPause);
    let ids = bench
        .session
        .tokenizer()
        .expect("a tokenizer")
        .encode("\u{4e1c}");
    assert!(ids.len() > 1, "the character has to span tokens");
    let epoch = bench.run.as_ref().expect("a run").epoch;
    for (count, &id) in ids.iter().enumerate() {
        bench.event(Event::Chosen {
            epoch,
            choice: Choice {
                id,
                u: None,
                redraw: 0,
            },
            settings: bench.session.settings().clone(),
        });
        let expected = if count + 1 == ids.len() {
            "Once\u{4e1c}"
        } else {
            "Once"
        };
        assert_eq!(bench.text(), expected);
    }
}

#[test]
fn max_new_0_only_predicts() {
    let mut bench = Bench::new("Once");
    let none = SamplingSettings {
        max_new_tokens: 0,
        ..Default::default()
    };
    bench.act(Action::SetSettings(Arc::new(none)));
    bench.act(Action::RunOrPause);
    assert!(!bench.session.is_running());
    assert_eq!(bench.session.stop_reason(), Some(StopReason::MaxNewTokens));
}

#[test]
fn another_text_is_typed_whatever_stood_there_and_no_run_is_counted_for_it() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(3);
    bench.act(Action::Example("The cat sat on the".into()));
    let counts = bench.session.counts();
    assert_eq!((counts.generated, counts.retokenised), (0, 0));
    assert_eq!(bench.session.run_progress(), (0, 0));
}

#[test]
fn the_model_in_use_answers_while_another_loads() {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::LoadModel(LoadRequest::new(
        ModelSource::BuiltIn,
        DeviceChoice::Cpu,
    )));
    bench.act(Action::EditText("Once upon a time there".into()));
    bench.tick();
    bench.session.refresh_view();
    assert!(bench.session.loading().is_some());
    assert!(bench.session.view().is_some(), "it was predicted meanwhile");
    let before = bench.session.node(0).map(|node| node.model);
    bench.event(Event::Loaded(model("second", 64, Some(0))));
    assert_ne!(bench.session.node(0).map(|node| node.model), before);
    bench.session.refresh_view();
    assert!(bench.session.view().is_some(), "and by the new one");
}
