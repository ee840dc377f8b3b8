//! What a frame costs.

use super::*;

/// The panel's share of a frame. Prints only: shared machines are too uneven for a limit here.
#[test]
#[ignore = "a measurement; run with --ignored --nocapture"]
fn cost_of_a_frame() {
    for gpu in [gpu(), None] {
        let path = if gpu.is_some() {
            "device"
        } else {
            "CPU texture"
        };
        let mut window = window(stage(session(&long_text(500), STORYTELLER), gpu), SIZE);
        window.run_steps(10);
        let rect = heatmap_rect(&window);
        window.state_mut().times.clear();
        for i in 0..60 {
            window.hover_at(rect.min + vec2(2.0 + i as f32, 3.0 * i as f32));
            window.step();
        }
        let mut times = std::mem::take(&mut window.state_mut().times);
        times.sort();
        let rows = window.state().session.len();
        println!(
            "{path}, {rows} tokens, 48 heads: median {:.3} ms, 95th percentile {:.3} ms",
            times[times.len() / 2].as_secs_f64() * 1e3,
            times[times.len() * 95 / 100].as_secs_f64() * 1e3
        );
    }
}
