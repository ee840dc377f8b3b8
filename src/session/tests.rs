//! The session's transitions, with a worker that the test plays.

mod branches;
mod chain;
mod iterations;
mod redraws;

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
