//! What a long session leaves behind: the real window and worker with the built-in model on the CPU.
//!
//! Memory is that of the process, so a test crate has one test that uses this.

use std::time::{Duration, Instant};

use crate::window::{builder, open_app, store_with};
use egui::{Key, Modifiers, vec2};
use egui_kittest::Harness;
use logitscope::{
    app::App,
    model::DeviceChoice,
    session::{Activity, Session},
    store::Remembered,
    ui::transport::Place,
    worker::{Pace, WorkerHandle},
};

pub const TOKENS: usize = 200;

/// How far the rest may be from where it was after the second run.
const SHARE: f64 = 0.05;

pub fn session<'a>(harness: &'a Harness<'static, App>) -> &'a Session {
    harness.state().session()
}

pub fn until(harness: &mut Harness<'static, App>, what: &str, holds: impl Fn(&Session) -> bool) {
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

#[track_caller]
pub fn assert_steady(since: f64, now: f64) {
    let change = 100.0 * (now / since - 1.0);
    println!("since the second: {change:+.1} %");
    assert!(change.abs() <= 100.0 * SHARE, "{change:+.1} %");
}

pub fn idle(session: &Session) -> bool {
    session.activity() == Activity::Idle
}

/// The window with its model loaded and the first text predicted; `None` where memory cannot be told.
pub fn open(remembered: Remembered) -> Option<Harness<'static, App>> {
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
pub fn run_to(harness: &mut Harness<'static, App>, tokens: usize) {
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

/// Prints how much of `bytes` is beyond the record, and returns it.
pub fn report(harness: &Harness<'static, App>, what: &str, bytes: usize) -> f64 {
    let recorded = session(harness).recorded_bytes() as f64;
    let rest = bytes as f64 - recorded;
    let mib = |bytes: f64| bytes / 1_048_576.0;
    println!(
        "{what}: {:.1} MiB beyond {:.1} MiB on record",
        mib(rest),
        mib(recorded)
    );
    rest
}
