//! What a frame of the whole window costs its thread, with 500 tokens on record and all panels open, while tokens
//! come: thread CPU time of layout, tessellation and uploads, without drawing pixels. The worker is played.
//!
//! ```text
//! cargo bench --bench frame
//! ```

#[path = "../support/frames.rs"]
mod frames;
#[path = "../support/player.rs"]
mod player;

use std::{process::ExitCode, time::Duration};

use egui::{Event as InputEvent, Key, Modifiers, pos2, vec2};
use frames::{FrameTime, Frames, is_measuring, quantile_ms};
use logitscope::{
    store::Remembered,
    worker::{ModelInfo, Pace},
};
use player::Player;

/// Most CPU time that a frame may take in the median.
const LIMIT_MS: f64 = 8.0;

const TOKENS: usize = 500;

struct Bench {
    frames: Frames,
    player: Player,
}

impl Bench {
    fn open(model: ModelInfo) -> Self {
        let mut remembered = Remembered {
            pace: Pace::Unlimited,
            dark: Some(false),
            ..Default::default()
        };
        remembered.settings.max_new_tokens = 100_000;
        let (worker, player) = Player::new(ModelInfo {
            end_of_text: None,
            ..model
        });
        let frames = Frames::open(vec2(1440.0, 900.0), worker, &remembered);
        let mut bench = Self { frames, player };
        bench.settle();
        bench.key(Key::F5);
        bench.settle();
        while bench.frames.session().len() < TOKENS {
            bench.player.append(20);
            bench.frames.show(Vec::new());
        }
        // Every row is on the graphics device, every glyph in the atlas.
        for _ in 0..60 {
            bench.frames.show(Vec::new());
            bench.frames.let_device_finish();
        }
        bench
    }

    fn settle(&mut self) {
        loop {
            self.frames.show(Vec::new());
            if !self.player.pump() {
                return;
            }
        }
    }

    fn key(&mut self, key: Key) -> FrameTime {
        let event = |pressed| InputEvent::Key {
            key,
            physical_key: None,
            pressed,
            repeat: false,
            modifiers: Modifiers::NONE,
        };
        self.frames.show(vec![event(true), event(false)])
    }
}

/// Prints one line and returns the median of the whole frame.
fn report(name: &str, times: &[FrameTime]) -> f64 {
    let part = |part: fn(&FrameTime) -> Duration, share: f64| {
        let values: Vec<_> = times.iter().map(part).collect();
        quantile_ms(&values, share)
    };
    let median = part(FrameTime::total, 0.5);
    let mut sizes: Vec<_> = times.iter().map(|time| time.mesh_bytes).collect();
    sizes.sort_unstable();
    println!(
        "  {name:<28} median {median:6.2} ms, p95 {:6.2} ms   layout {:5.2}, tessellation {:5.2}, upload {:5.2}   {} KiB of mesh",
        part(FrameTime::total, 0.95),
        part(|time| time.layout, 0.5),
        part(|time| time.tessellation, 0.5),
        part(|time| time.upload, 0.5),
        sizes[sizes.len() / 2] / 1024,
    );
    median
}

fn main() -> ExitCode {
    let rounds = if is_measuring() { 120 } else { 3 };
    let mut worst: f64 = 0.0;
    for (name, model) in [
        (
            "6 layers × 8 heads, 4,096 tokens",
            player::model("storyteller", 1024),
        ),
        (
            "6 layers × 8 heads, 50,257 tokens",
            player::model_with_large_vocabulary(1024),
        ),
    ] {
        let mut bench = Bench::open(model);
        println!(
            "{name}; {} tokens on record, 1440 × 900, {}",
            bench.frames.session().len(),
            bench.frames.device()
        );
        let mut live = Vec::new();
        let mut between = Vec::new();
        let mut hovering = Vec::new();
        let mut back = Vec::new();
        for round in 0..rounds {
            bench.player.append(1);
            live.push(bench.frames.show(Vec::new()));
            bench.frames.let_device_finish();
            between.push(bench.frames.show(Vec::new()));
            let step = round as f32;
            let at = pos2(40.0 + 11.3 * step, 90.0 + 6.1 * step);
            hovering.push(bench.frames.show(vec![InputEvent::PointerMoved(at)]));
            bench.frames.let_device_finish();
        }
        bench.frames.show(vec![InputEvent::PointerGone]);
        for _ in 0..rounds {
            back.push(bench.key(Key::F7));
            back.push(bench.frames.show(Vec::new()));
            bench.frames.let_device_finish();
        }
        worst = worst.max(report("a token has come", &live));
        report("nothing has changed", &between);
        report("the pointer moves", &hovering);
        report("another step is selected", &back);
    }
    println!(
        "a frame in which a token has come: {worst:.2} ms in the median, at most {LIMIT_MS} are wanted"
    );
    if is_measuring() && worst > LIMIT_MS {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
