//! What a decode step's attention costs the window's thread: uploading its rows and drawing the wall of all heads.
//!
//! `cargo bench --bench attention` prints CPU time of this thread a step, rasterisation excluded: that is the
//! device's, or a software rasteriser's own threads'. Exit status 1 where it is over the limit. Without an adapter it
//! says so.

#[path = "../heatmap/stage.rs"]
#[expect(dead_code, reason = "the pixel tests use the rest")]
mod stage;

use std::time::Instant;

use logitscope::heatmap::{Rollout, Shape, WallTexture};

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
    if a_step >= LIMIT_MS {
        eprintln!("over the limit of {LIMIT_MS} ms");
        std::process::exit(1);
    }
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
