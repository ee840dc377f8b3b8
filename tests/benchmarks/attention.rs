//! What a decode step's attention costs the window's thread: uploading its rows and drawing the wall of all heads; and
//! the panel with each of its views.
//!
//! `cargo bench --bench attention` prints CPU time of this thread a step, rasterisation excluded: that is the
//! device's, or a software rasteriser's own threads'. Exit status 1 where it is over the limit. Without an adapter it
//! says so.

#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/player.rs"]
mod player;
#[path = "../heatmap/stage.rs"]
#[expect(dead_code, reason = "the pixel tests use the rest")]
mod stage;

use std::time::{Duration, Instant};

use egui::{Event as InputEvent, Key, Modifiers, vec2};
use frames::{FrameTime, Frames, quantile_ms};
use logitscope::{
    heatmap::{Rollout, Shape, WallTexture},
    store::Remembered,
    worker::{ModelInfo, Pace},
};
use player::Player;

/// GPT-2 small's layers and heads, and the length of text after the last step.
const SHAPE: Shape = Shape {
    n_layer: 12,
    n_head: 12,
};
const TOKENS: usize = 512;
const STEPS: usize = 100;

const LIMIT_MS: f64 = 2.0;

fn main() {
    // `cargo test --benches` only asks whether it starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let record = stage::rows_of(SHAPE, TOKENS);
    rollout(&record);
    let Some(gpu) = stage::gpu() else { return };
    let mut heatmap = gpu.heatmap();
    let first = TOKENS - STEPS;
    stage::sync_all(&mut heatmap, SHAPE, &record[..first]);
    let mut wall = WallTexture::new(&heatmap);
    wall.refresh(&heatmap, &stage::wall(SHAPE, first, 26));
    let wait = || gpu.device.poll(wgpu::PollType::wait_indefinitely());
    wait().expect("the device is there");

    let clock = Clock::start();
    let mut uploaded_bytes = 0;
    for rows in first + 1..=TOKENS {
        let synced = stage::sync(&mut heatmap, SHAPE, 0, &record[..rows]);
        assert_eq!(synced.uploaded_rows, 1);
        uploaded_bytes += synced.uploaded_bytes;
        wall.refresh(&heatmap, &stage::wall(SHAPE, rows, 26));
    }
    let (ms, unit) = clock.stop();
    wait().expect("the device is there");
    let a_step = ms / STEPS as f64;
    println!(
        "upload and wall, {} heads, T = {first} to {TOKENS}: {a_step:.3} ms of {unit} a step, {} KiB uploaded a step",
        SHAPE.heads(),
        uploaded_bytes / STEPS / 1024
    );
    drop((wall, heatmap, gpu));
    let worst = views(TOKENS).max(a_step);
    // A full context is looked at, and has no limit of its own.
    views(2 * TOKENS);
    if worst >= LIMIT_MS {
        eprintln!("over the limit of {LIMIT_MS} ms");
        std::process::exit(1);
    }
}

/// Frames in which a token has come, and frames in which nothing has, with the panel alone in the window in each of its
/// views. Returns the most milliseconds that a token takes more than with the Sampling panel in its place.
fn views(tokens: usize) -> f64 {
    println!(
        "the panel alone at 1440 × 900, {} heads, T = {tokens}, milliseconds of thread CPU time, median",
        SHAPE.heads()
    );
    let without = view(tokens, "Sampling", "One", "Weights");
    println!(
        "  {:<28} a token has come {:5.2}, nothing has {:5.2}",
        "Sampling", without[0], without[1]
    );
    let mut worst = 0.0;
    for (over, quantity, name) in [
        ("One", "Weights", "one head"),
        ("Layer", "Weights", "layer's mean"),
        ("Head", "Weights", "head's mean"),
        ("All", "Weights", "mean of all"),
        ("All", "Scores", "mean of all, scores"),
        ("Rollout", "Weights", "rollout"),
    ] {
        let with = view(tokens, "Attention", over, quantity);
        println!(
            "  {name:<28} a token has come {:5.2}, nothing has {:5.2}; for the panel {:5.2}",
            with[0],
            with[1],
            with[0] - without[0]
        );
        worst = f64::max(worst, with[0] - without[0]);
    }
    worst
}

/// Milliseconds of a frame in which a token has come, and of one in which nothing has.
fn view(tokens: usize, panel: &str, over: &str, quantity: &str) -> [f64; 2] {
    let mut remembered = serde_json::to_value(Remembered::default()).expect("JSON");
    remembered["dock"]["alone"] = panel.into();
    remembered["panels"]["attention"]["options"]["over"] = over.into();
    remembered["panels"]["attention"]["options"]["quantity"] = quantity.into();
    remembered["panels"]["attention"]["options"]["arcs"] = true.into();
    let mut remembered: Remembered = serde_json::from_value(remembered).expect("what was written");
    remembered.pace = Pace::Unlimited;
    remembered.settings.max_new_tokens = 100_000;
    let (worker, mut player) = Player::new(ModelInfo {
        n_layer: SHAPE.n_layer,
        n_head: SHAPE.n_head,
        end_of_text: None,
        ..player::model("GPT-2 small's heads", 2048)
    });
    let mut frames = Frames::open(vec2(1440.0, 900.0), worker, &remembered);
    let settle = |frames: &mut Frames, player: &mut Player| {
        frames.show(Vec::new());
        while player.pump() {
            frames.show(Vec::new());
        }
    };
    settle(&mut frames, &mut player);
    let event = |pressed| InputEvent::Key {
        key: Key::F5,
        physical_key: None,
        pressed,
        repeat: false,
        modifiers: Modifiers::NONE,
    };
    frames.show(vec![event(true), event(false)]);
    settle(&mut frames, &mut player);
    player.append(tokens - STEPS - frames.session().len());
    for _ in 0..120 {
        frames.show(Vec::new());
        frames.let_device_finish();
    }
    let (mut live, mut still) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        player.append(1);
        live.push(frames.show(Vec::new()));
        frames.let_device_finish();
        still.push(frames.show(Vec::new()));
        frames.let_device_finish();
    }
    assert_eq!(frames.session().len(), tokens);
    [live, still].map(|times| {
        let totals: Vec<Duration> = times.iter().map(FrameTime::total).collect();
        quantile_ms(&totals, 0.5)
    })
}

/// A step of the attention rollout, which is worked out on the window's thread while it is shown.
fn rollout(record: &[Option<std::sync::Arc<logitscope::prediction::AttentionRow>>]) {
    let mut rollout = Rollout::default();
    let first = TOKENS - STEPS;
    let sync = |rollout: &mut Rollout, rows: usize| {
        rollout.sync(SHAPE, record[..rows].iter().map(Option::as_ref))
    };
    let mut frames = 1;
    while sync(&mut rollout, first) {
        frames += 1;
    }
    let clock = Clock::start();
    for rows in first + 1..=TOKENS {
        sync(&mut rollout, rows);
    }
    let (ms, unit) = clock.stop();
    println!(
        "rollout, {} heads, T = {first} to {TOKENS}: {:.3} ms of {unit} a step; {first} rows at once take {frames} frames",
        SHAPE.heads(),
        ms / STEPS as f64
    );
}

/// CPU time of this thread where the system tells (Linux), else wall-clock time.
struct Clock {
    cpu_ns: Option<u64>,
    started: Instant,
}

impl Clock {
    fn start() -> Self {
        Self {
            cpu_ns: thread_cpu_ns(),
            started: Instant::now(),
        }
    }

    /// Milliseconds, and of what.
    fn stop(self) -> (f64, &'static str) {
        match (self.cpu_ns, thread_cpu_ns()) {
            (Some(from), Some(to)) => (to.saturating_sub(from) as f64 / 1e6, "thread CPU time"),
            _ => (
                self.started.elapsed().as_secs_f64() * 1e3,
                "wall-clock time",
            ),
        }
    }
}

/// The kernel counts it by scheduler ticks, a few milliseconds: measure many steps at once.
fn thread_cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
