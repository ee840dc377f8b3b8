//! Memory over a long session: the real window and worker with the built-in model on the CPU, ten runs of 200 tokens.
//! What is resident beyond the record that the status line shows must not grow.

#[path = "support/player.rs"]
mod player;
#[path = "support/window.rs"]
mod window;

use std::time::{Duration, Instant};

use egui::{Key, Modifiers, Role, vec2};
use egui_kittest::{Harness, kittest::Queryable as _};
use logitscope::{
    app::App,
    model::DeviceChoice,
    session::{Activity, Session},
    store::Remembered,
    ui::transport::Place,
    worker::{Pace, WorkerHandle},
};
use window::{builder, open_app, store_with};

const RUNS: usize = 10;
const TOKENS: usize = 200;

/// How far the rest may be from where it was after the second run.
const SHARE: f64 = 0.05;

fn session<'a>(harness: &'a Harness<'static, App>) -> &'a Session {
    harness.state().session()
}

fn until(harness: &mut Harness<'static, App>, what: &str, holds: impl Fn(&Session) -> bool) {
    let started = Instant::now();
    loop {
        harness.step();
        if holds(session(harness)) {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Resident bytes of the process beyond the record.
fn rest(harness: &Harness<'static, App>) -> f64 {
    let resident = memory_stats::memory_stats().map_or(0, |stats| stats.physical_mem);
    resident as f64 - session(harness).recorded_bytes() as f64
}

#[test]
fn two_thousand_tokens_over_ten_runs_leave_nothing_behind_but_their_record() {
    if memory_stats::memory_stats().is_none() {
        println!("this system does not say how much memory is resident: nothing tested");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut remembered = Remembered {
        pace: Pace::Unlimited,
        place: Place::on(DeviceChoice::Cpu),
        ..Default::default()
    };
    remembered.settings.max_new_tokens = TOKENS;
    let store = store_with(&folder.path().join("window.json"), &remembered);
    let worker = WorkerHandle::spawn(|| {}).expect("a thread");
    let mut harness = open_app(builder(vec2(1440.0, 900.0)), worker, store);
    let idle = |session: &Session| session.activity() == Activity::Idle;
    until(&mut harness, "the model is loaded", |session| {
        idle(session) && session.view().is_some()
    });
    let mut after_second = f64::NAN;
    for run in 1..=RUNS {
        let prompt = format!("Once upon a time, {run}");
        harness
            .get_by_role_and_label(Role::MultilineTextInput, "Prompt")
            .focus();
        harness.step();
        harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
        harness.step();
        harness.event(egui::Event::Paste(prompt.clone()));
        until(&mut harness, "the prompt is predicted", |session| {
            idle(session) && session.text() == prompt && session.prediction(session.len()).is_some()
        });
        let typed = session(&harness).len();
        harness.key_press(Key::F5);
        // The model may well end its text early: then it is made to go on.
        until(&mut harness, "the run has its tokens", |session| {
            session.len() >= typed + TOKENS || (idle(session) && session.len() > typed)
        });
        while session(&harness).len() < typed + TOKENS {
            harness.key_press(Key::F5);
            let before = session(&harness).len();
            until(&mut harness, "the run has its tokens", |session| {
                session.len() >= typed + TOKENS || (idle(session) && session.len() > before)
            });
        }
        harness.key_press_modifiers(Modifiers::SHIFT, Key::F5);
        until(&mut harness, "the run has ended", idle);
        let now = rest(&harness);
        println!(
            "run {run}: {:.1} MiB beyond {:.1} MiB on record",
            now / 1_048_576.0,
            session(&harness).recorded_bytes() as f64 / 1_048_576.0
        );
        if run == 2 {
            after_second = now;
        }
    }
    let change = rest(&harness) / after_second - 1.0;
    println!("since the second run: {:+.1} %", 100.0 * change);
    assert!(change.abs() <= SHARE, "{:+.1} %", 100.0 * change);
}
