//! How long a user waits: from opening the window to its first frame and its first distribution, and from Run to the
//! first token, with the built-in model on the CPU. Wall time; the system's own window is not part of it.
//!
//! ```text
//! cargo bench --bench start
//! ```

#[path = "../support/frames.rs"]
mod frames;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use egui::{Event as InputEvent, Key, Modifiers, vec2};
use frames::{Frames, is_measuring};
use logitscope::{
    model::DeviceChoice,
    session::Session,
    store::Remembered,
    ui::transport::Place,
    worker::{Pace, WorkerHandle},
};

/// Longest wait for each.
const LIMIT: Duration = Duration::from_secs(1);

/// Shows frames until something holds.
fn until(frames: &mut Frames, holds: impl Fn(&Session) -> bool) -> Instant {
    let started = Instant::now();
    while !holds(frames.session()) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "waited in vain"
        );
        frames.show(Vec::new());
        std::thread::sleep(Duration::from_millis(1));
    }
    Instant::now()
}

fn main() -> ExitCode {
    let mut remembered = Remembered {
        pace: Pace::Unlimited,
        place: Place::on(DeviceChoice::Cpu),
        ..Default::default()
    };
    remembered.settings.max_new_tokens = 50;
    let rounds = if is_measuring() { 5 } else { 1 };
    let mut worst = Duration::ZERO;
    for _ in 0..rounds {
        let opened = Instant::now();
        let worker = WorkerHandle::spawn(|| {}).expect("a thread");
        let mut frames = Frames::open(vec2(1440.0, 900.0), worker, &remembered);
        frames.show(Vec::new());
        let first_frame = opened.elapsed();
        let first_view = until(&mut frames, |session| session.view().is_some()) - opened;
        let run = Instant::now();
        frames.show(vec![InputEvent::Key {
            key: Key::F5,
            physical_key: None,
            pressed: true,
            repeat: false,
            modifiers: Modifiers::NONE,
        }]);
        let first_token = until(&mut frames, |session| session.counts().generated > 0) - run;
        println!(
            "first frame {:.0} ms, first distribution {:.0} ms after opening; first token {:.0} ms after Run; {}",
            first_frame.as_secs_f64() * 1e3,
            first_view.as_secs_f64() * 1e3,
            first_token.as_secs_f64() * 1e3,
            frames.device(),
        );
        worst = worst.max(first_frame).max(first_token);
    }
    if is_measuring() && worst > LIMIT {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
