//! The session's transitions, with a worker that the test plays.

use std::sync::Arc;

use super::*;
use crate::{
    model::{DeviceChoice, ModelSource, built_in_tokenizer_json},
    prediction::{AttentionRow, LayerRow, LogitsRow, PassTiming, Phase, Prediction, words_per_row},
    sampling::{Choice, Mode, SamplingSettings, select},
    worker::{Event, RunRequest},
};

const N_CTX: usize = 32;
const N_LAYER: usize = 2;
const N_HEAD: usize = 2;

fn model(name: &str, n_ctx: usize, end_of_text: Option<u32>) -> Arc<ModelInfo> {
    let tokenizer =
        Tokenizer::from_json(built_in_tokenizer_json()).expect("the built-in tokenizer");
    Arc::new(ModelInfo {
        name: name.to_owned(),
        source: ModelSource::BuiltIn,
        vocab_size: tokenizer.vocab_size(),
        tokenizer,
        n_layer: N_LAYER,
        n_head: N_HEAD,
        n_embd: 8,
        n_ctx,
        end_of_text,
        parameters: 1000,
        device: "test".to_owned(),
        device_why: String::new(),
        precision: "f32",
        load_ms: 0.0,
    })
}

/// A prediction that depends on the last token only: the next id is the most likely.
fn prediction(context: &[u32], vocab_size: usize, phase: Phase) -> Prediction {
    let last = context.last().copied().unwrap_or(0) as usize;
    let logits = (0..vocab_size)
        .map(|id| -(((id + vocab_size - last - 1) % vocab_size) as f32) * 0.01)
        .collect();
    let keys = context.len();
    let layer = || {
        Some(Arc::new(LayerRow {
            words: vec![0; N_HEAD * words_per_row(keys)],
            log_sum_exp: vec![0.0; N_HEAD],
        }))
    };
    Prediction {
        logits: Some(Arc::new(LogitsRow::new(logits))),
        attention: Some(Arc::new(AttentionRow {
            n_head: N_HEAD,
            keys,
            layers: (0..N_LAYER).map(|_| layer()).collect(),
        })),
        timing: Arc::new(PassTiming {
            phase,
            first: keys - 1,
            rows: 1,
            model_ms: 1.0,
            record_ms: 0.1,
        }),
    }
}

/// A session with its loaded model, and a worker that answers at once.
struct Bench {
    session: Session,
    now: f64,
    /// Tokens that the played worker appends before it waits to be told to go on.
    run: Option<RunRequest>,
    forwarded: usize,
}

impl Bench {
    fn new(text: &str) -> Self {
        Self::with(text, model("first", N_CTX, Some(0)))
    }

    fn with(text: &str, model: Arc<ModelInfo>) -> Self {
        let settings = SamplingSettings {
            max_new_tokens: 6,
            ..Default::default()
        };
        let mut bench = Self {
            session: Session::new(text, settings, Pace::Unlimited),
            now: 0.0,
            run: None,
            forwarded: 0,
        };
        bench.event(Event::Loaded(model));
        bench
    }

    fn event(&mut self, event: Event) {
        let commands = self.session.on_event(event, self.now);
        self.obey(commands);
    }

    fn act(&mut self, action: Action) {
        self.now += 10.0;
        self.act_now(action);
    }

    /// Without time passing since the last action.
    fn act_now(&mut self, action: Action) {
        let commands = self.session.apply(action, self.now);
        self.obey(commands);
    }

    fn tick(&mut self) {
        self.now += 1.0;
        let commands = self.session.tick(self.now);
        self.obey(commands);
    }

    fn obey(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Predict {
                    epoch,
                    context,
                    from,
                } => {
                    self.predict(epoch, &context, from);
                    self.event(Event::Stopped {
                        epoch,
                        reason: None,
                    });
                }
                Command::Run(request) => {
                    self.predict(request.epoch, &request.context.clone(), request.from);
                    self.run = Some(request);
                }
                Command::Stop => {
                    if let Some(run) = self.run.take() {
                        self.event(Event::Stopped {
                            epoch: run.epoch,
                            reason: Some(StopReason::Stopped),
                        });
                    }
                }
                _ => {}
            }
        }
    }

    fn predict(&mut self, epoch: u64, context: &[u32], from: usize) {
        let vocab_size = self.session.model().map_or(0, |model| model.vocab_size);
        let predictions: Vec<_> = (from..context.len())
            .map(|at| prediction(&context[..=at], vocab_size, Phase::Prefill))
            .collect();
        self.forwarded += predictions.len();
        if !predictions.is_empty() {
            self.event(Event::Predicted {
                epoch,
                first: from,
                predictions,
            });
        }
    }

    /// Lets the run in progress append `count` tokens.
    fn generate(&mut self, count: usize) {
        for _ in 0..count {
            let Some(mut run) = self.run.take() else {
                panic!("nothing runs")
            };
            let vocab_size = self.session.model().map_or(0, |model| model.vocab_size);
            let row = prediction(&run.context, vocab_size, Phase::Decode)
                .logits
                .expect("logits");
            let choice = select(
                &row.values,
                &run.context,
                &run.settings,
                run.context.len() as u64,
                0,
            );
            run.context.push(choice.id);
            run.budget -= 1;
            let (epoch, settings) = (run.epoch, run.settings.clone());
            self.event(Event::Chosen {
                epoch,
                choice,
                settings,
            });
            let next = prediction(&run.context, vocab_size, Phase::Decode);
            self.event(Event::Predicted {
                epoch,
                first: run.context.len() - 1,
                predictions: vec![next],
            });
            if run.budget == 0 {
                self.event(Event::Stopped {
                    epoch,
                    reason: Some(StopReason::MaxNewTokens),
                });
            } else {
                self.run = Some(run);
            }
        }
    }

    fn text(&self) -> &str {
        self.session.text()
    }
}

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
        "Twice upon a time there was a queen".into(),
    ));
    assert!(
        bench.session.selected() < 2,
        "was {}",
        bench.session.selected()
    );
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
    bench.act(Action::LoadModel {
        source: ModelSource::BuiltIn,
        device: DeviceChoice::Cpu,
    });
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
    bench.act(Action::LoadModel {
        source: ModelSource::BuiltIn,
        device: DeviceChoice::Cpu,
    });
    bench.event(Event::LoadFailed {
        name: "broken".into(),
        message: "Its config.json is missing.".into(),
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
        bench.act(Action::LoadModel {
            source: ModelSource::BuiltIn,
            device: DeviceChoice::Cpu,
        });
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

// ---- the chain rule ----------------------------------------------------------------------------------------------

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

// ---- the loop, taken apart ---------------------------------------------------------------------------------------

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

// ---- branches ----------------------------------------------------------------------------------------------------

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

// ---- drawing again -----------------------------------------------------------------------------------------------

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
