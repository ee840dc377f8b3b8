//! Memory over a long session: the real window and worker with the built-in model on the CPU; ten runs of 200 tokens,
//! and ten branches of a text of 500. What is resident beyond the record that the status line shows must not grow.

#[path = "support/layout.rs"]
mod layout;
#[path = "support/player.rs"]
mod player;
#[path = "support/window.rs"]
mod window;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use egui::{Key, Modifiers, Role, vec2};
use egui_kittest::{Harness, kittest::Queryable as _};
use layout::{APART, remembered_with_panels};
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

const BRANCHES: usize = 10;
const LENGTH: usize = 500;

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

/// Memory is that of the process: one test at a time.
static MEASURING: Mutex<()> = Mutex::new(());

fn idle(session: &Session) -> bool {
    session.activity() == Activity::Idle
}

/// The window with its model loaded and the first text predicted; `None` where memory cannot be told.
fn open(remembered: Remembered) -> Option<Harness<'static, App>> {
    if memory_stats::memory_stats().is_none() {
        println!("this system does not say how much memory is resident: nothing tested");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut remembered = Remembered {
        pace: Pace::Unlimited,
        place: Place::on(DeviceChoice::Cpu),
        ..remembered
    };
    remembered.settings.max_new_tokens = TOKENS;
    let store = store_with(&folder.path().join("window.json"), &remembered);
    let worker = WorkerHandle::spawn(|| {}).expect("a thread");
    let mut harness = open_app(builder(vec2(1440.0, 900.0)), worker, store);
    until(&mut harness, "the model is loaded", |session| {
        idle(session) && session.view().is_some()
    });
    Some(harness)
}

/// Runs until the text has this many tokens, then stops.
fn run_to(harness: &mut Harness<'static, App>, tokens: usize) {
    // The model may well end its text early: then it is made to go on.
    while session(harness).len() < tokens {
        harness.key_press(Key::F5);
        let before = session(harness).len();
        until(harness, "the run has its tokens", |session| {
            session.len() >= tokens || (idle(session) && session.len() > before)
        });
    }
    harness.key_press_modifiers(Modifiers::SHIFT, Key::F5);
    until(harness, "the run has ended", idle);
}

/// Prints what is resident beyond the record, and returns it.
fn report(harness: &Harness<'static, App>, what: &str) -> f64 {
    let now = rest(harness);
    println!(
        "{what}: {:.1} MiB beyond {:.1} MiB on record",
        now / 1_048_576.0,
        session(harness).recorded_bytes() as f64 / 1_048_576.0
    );
    now
}

#[track_caller]
fn assert_steady(harness: &Harness<'static, App>, early: f64) {
    let change = rest(harness) / early - 1.0;
    println!("since the second: {:+.1} %", 100.0 * change);
    assert!(change.abs() <= SHARE, "{:+.1} %", 100.0 * change);
}

#[test]
fn ten_branches_of_500_tokens_leave_nothing_behind_but_their_record() {
    let _measuring = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut harness) = open(remembered_with_panels(&APART)) else {
        return;
    };
    run_to(&mut harness, LENGTH);
    let mut after_second = f64::NAN;
    for branch in 2..=BRANCHES {
        let step = LENGTH - 25 * branch;
        for _ in step..=LENGTH {
            harness.key_press(Key::F7);
            harness.step();
        }
        let chosen = session(&harness).ids()[session(&harness).selected()];
        let top = &session(&harness).view().expect("a step").top;
        let rank = 1 + usize::from(top[0].id == chosen);
        let name = format!(", rank {rank}, model P ");
        harness.get_by_label_contains(&name).click();
        until(&mut harness, "the branch is predicted", |session| {
            idle(session) && session.len() < LENGTH && session.view().is_some()
        });
        run_to(&mut harness, LENGTH);
        let now = report(&harness, &format!("branch {branch}"));
        if branch == 3 {
            after_second = now;
        }
    }
    assert_eq!(session(&harness).branches().len(), BRANCHES);
    assert_steady(&harness, after_second);
}

#[test]
fn two_thousand_tokens_over_ten_runs_leave_nothing_behind_but_their_record() {
    let _measuring = MEASURING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut harness) = open(Remembered::default()) else {
        return;
    };
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
        run_to(&mut harness, typed + TOKENS);
        let now = report(&harness, &format!("run {run}"));
        if run == 2 {
            after_second = now;
        }
    }
    assert_steady(&harness, after_second);
}
