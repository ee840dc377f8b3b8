//! End to end: the real worker with the built-in model on the CPU behind the real window.

use std::time::{Duration, Instant};

use egui::{Key, Modifiers, Role, vec2};
use egui_kittest::{Harness, kittest::Queryable as _};
use logitscope::{
    app::App,
    model::DeviceChoice,
    session::{Activity, RATIO_PASSES, Ratio, Session},
    store::Remembered,
    ui::transport::Place,
    worker::{Pace, StopReason, WorkerHandle},
};

use crate::window::{builder, open_app, store_with};

/// Far longer than anything takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Live {
    harness: Harness<'static, App>,
    _folder: tempfile::TempDir,
}

impl Live {
    fn open(text: &str, max_new_tokens: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut remembered = Remembered {
            text: text.to_owned(),
            pace: Pace::Unlimited,
            place: Place::on(DeviceChoice::Cpu),
            ..Default::default()
        };
        remembered.settings.max_new_tokens = max_new_tokens;
        let store = store_with(&folder.path().join("window.json"), &remembered);
        let worker = WorkerHandle::spawn(|| {}).expect("a thread");
        let mut live = Self {
            harness: open_app(builder(vec2(1440.0, 900.0)), worker, store),
            _folder: folder,
        };
        live.until("the model is loaded and the text predicted", |session| {
            session.view().is_some() && session.activity() == Activity::Idle
        });
        live
    }

    fn session(&self) -> &Session {
        self.harness.state().session()
    }

    /// Shows frames until something holds.
    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&Session) -> bool) {
        let started = Instant::now();
        loop {
            self.harness.step();
            if holds(self.session()) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "waited in vain until {what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[track_caller]
    fn click(&mut self, name: &str) {
        self.harness
            .get_by_role_and_label(Role::Button, name)
            .click();
        self.harness.step();
    }
}

fn idle(session: &Session) -> bool {
    session.activity() == Activity::Idle
}

#[test]
fn the_built_in_model_continues_a_prompt_and_every_step_is_on_record() {
    let mut live = Live::open("Once upon a time", 12);
    assert_eq!(
        live.session().model().expect("loaded").device_why,
        "asked for"
    );
    live.click("Run");
    live.until("the run ends", idle);
    assert_eq!(live.session().stop_reason(), Some(StopReason::MaxNewTokens));
    let session = live.session();
    assert_eq!(session.counts().generated, 12);
    for step in 1..=session.len() {
        let prediction = session.prediction(step).expect("recorded");
        assert!(prediction.is_complete(), "step {step}");
        let row = prediction.attention.as_ref().expect("recorded");
        assert_eq!(row.keys, step);
        for head in 0..8 {
            let sum: f32 = (0..step).filter_map(|key| row.weight(5, head, key)).sum();
            assert!((sum - 1.0).abs() < 0.01, "step {step}, head {head}: {sum}");
        }
    }
    let model_p: f64 = session
        .view()
        .expect("shown")
        .top
        .iter()
        .map(|row| row.prob)
        .sum();
    assert!(model_p > 0.05 && model_p <= 1.0 + 1e-9);
}

#[test]
fn the_same_seed_gives_the_same_text_by_run_by_steps_and_after_an_undo() {
    let mut live = Live::open("The king said", 6);
    live.click("Run");
    live.until("the run ends", idle);
    let text = live.session().text().to_owned();
    live.harness.key_press_modifiers(Modifiers::COMMAND, Key::Z);
    live.until("the run is undone", |session| {
        session.text() == "The king said"
    });
    for step in 1..=6 {
        live.harness.key_press(Key::F10);
        live.until("a step is done", |session| {
            session.counts().generated == step && !session.is_running()
        });
    }
    assert_eq!(live.session().text(), text);
}

#[test]
fn stop_ends_a_long_run_within_a_token_and_keeps_its_text() {
    let mut live = Live::open("Once upon a time", 400);
    live.click("Run");
    live.until("some tokens are there", |session| {
        session.counts().generated > 5
    });
    live.harness.key_press_modifiers(Modifiers::SHIFT, Key::F5);
    live.until("the run has ended", idle);
    let generated = live.session().counts().generated;
    assert!((5..400).contains(&generated));
    assert_eq!(live.session().stop_reason(), Some(StopReason::Stopped));
    for _ in 0..20 {
        live.harness.step();
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(live.session().counts().generated, generated);
}

#[test]
fn an_edit_during_a_run_wins_and_is_predicted() {
    let mut live = Live::open("Once upon a time", 400);
    live.click("Run");
    live.until("some tokens are there", |session| {
        session.counts().generated > 3
    });
    let prompt = live
        .harness
        .get_by_role_and_label(Role::MultilineTextInput, "Prompt");
    prompt.focus();
    live.harness.step();
    live.harness
        .key_press_modifiers(Modifiers::COMMAND, Key::End);
    live.harness.step();
    live.harness
        .get_by_role_and_label(Role::MultilineTextInput, "Prompt")
        .type_text(" ZEBRA");
    live.until("the edited text is predicted", |session| {
        idle(session)
            && session.text().contains(" ZEBRA")
            && session.prediction(session.len()).is_some()
    });
    let counts = live.session().counts();
    assert!(counts.generated + counts.retokenised >= 3, "{counts:?}");
}

#[test]
fn a_full_context_is_reached_and_shown() {
    let words = "one two three four five six seven eight nine ten. ".repeat(40);
    let mut live = Live::open(words.trim_end(), 1000);
    live.click("Run");
    live.until("the context is full", |session| {
        idle(session) && session.stop_reason() == Some(StopReason::ContextFull)
    });
    assert_eq!(live.session().context_len(), 512);
    assert!(live.session().view().is_some());
}

/// `score --json` of the command line.
fn score(text: &str, condition: &str) -> serde_json::Value {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_logitscope"))
        .args(["--device", "cpu", "score", "--json", "--text", text])
        .args(["--condition", condition])
        .output()
        .expect("the command runs");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn the_chain_rule_agrees_with_score() {
    const TEXT: &str = "Once upon a time there was a king who had three daughters.";
    let mut live = Live::open(TEXT, 4);
    let agrees = |live: &Live, condition: &str| {
        let expected = score(TEXT, condition);
        let chain = live.session().chain(0..usize::MAX);
        let (sum, perplexity) = (
            expected["sum_nats"].as_f64().expect("a sum"),
            expected["perplexity"].as_f64().expect("a perplexity"),
        );
        // The window predicts with a KV cache and in other chunks.
        assert!((chain.sum_nats - sum).abs() < 1e-3, "{condition}: {sum}");
        let own = chain.perplexity().expect("factors");
        assert!((own / perplexity - 1.0).abs() < 1e-3, "{condition}");
    };
    agrees(&live, "none");
    live.click("Panels");
    for _ in 0..3 {
        live.harness.step();
    }
    live.harness
        .get_by_role_and_label(Role::CheckBox, "Sequence")
        .click();
    for _ in 0..3 {
        live.harness.step();
    }
    live.harness
        .get_by_label_contains("Condition: first factor given")
        .click();
    for _ in 0..3 {
        live.harness.step();
    }
    live.harness
        .get_by_label_contains("end-of-text: one stands before")
        .click();
    live.until("the conditioned text is predicted", |session| {
        session.condition() == logitscope::session::Condition::EndOfText
            && idle(session)
            && session.prediction(session.len()).is_some()
    });
    agrees(&live, "end-of-text");
}

#[test]
fn every_length_of_a_run_is_measured_without_the_cache_and_the_text_stands() {
    let mut live = Live::open("Once upon a time", 96);
    live.click("Run");
    live.until("the run ends", idle);
    let ids = live.session().ids().to_vec();
    live.click("Panels");
    for _ in 0..3 {
        live.harness.step();
    }
    live.harness
        .get_by_role_and_label(Role::CheckBox, "Cost")
        .click();
    for _ in 0..3 {
        live.harness.step();
    }
    live.click("Measure without cache");
    live.until("every length is measured", |session| {
        session.cost().is_measured()
    });
    let session = live.session();
    assert_eq!(session.ids(), ids, "the text is untouched");
    let cost = session.cost();
    assert_eq!(cost.uncached_tokens(), (4..=100).sum::<usize>());
    // How the times grow is a matter of the machine and of what else it does: no test of it.
    assert!(
        cost.generating()
            .iter()
            .all(|step| step.uncached_ms() > Some(0.0))
    );
    let Ratio::Measured { ms, passes } = cost.ratio else {
        panic!("{:?}", cost.ratio)
    };
    assert!(passes == RATIO_PASSES && ms.iter().all(|&ms| ms > 0.0));
}
