//! Speed of decoding on the CPU at GPT-2's size, as limits on ratios. Takes a quiet machine and
//! 1 GB of memory, so it runs on request only:
//!
//! ```text
//! cargo test --release --test model_speed -- --ignored --nocapture
//! ```

use std::{ops::ControlFlow, time::Instant};

use logitscope::model::{
    BenchRecord, ComputeDevice, Gpt2, Gpt2Config, Logits, ModelSource, Record, run_bench,
};

const RECORDING: Record = Record {
    logits: Logits::Last,
    attention: true,
    scores: false,
    hidden: false,
};

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn decoding_runs_at_the_speed_of_memory() {
    let flex = ComputeDevice::flex();
    let source = ModelSource::Random(Gpt2Config::shape("gpt2").unwrap(), 1);
    let started = Instant::now();
    let model = Gpt2::load(&source, &flex, &mut |_, _| ControlFlow::Continue(())).unwrap();
    println!(
        "made random weights in {:.2} s",
        started.elapsed().as_secs_f64()
    );

    let all = run_bench(&model, &flex, 16, 48, BenchRecord::All).unwrap();
    let none = run_bench(&model, &flex, 16, 48, BenchRecord::None).unwrap();
    for result in [&all, &none] {
        println!("{}", serde_json::to_string(result).unwrap());
    }

    let ids: Vec<u32> = (0..1008).map(|i| (i * 37 % 50_257) as u32).collect();
    let mut cache = model.new_cache();
    let mut step_at = |target: usize| {
        while cache.len() < target {
            let end = target.min(cache.len() + 256);
            model
                .forward(&ids[cache.len()..end], &mut cache, &RECORDING)
                .unwrap();
        }
        median(
            (0..17)
                .map(|_| {
                    let started = Instant::now();
                    let pass = model.forward(&ids[..1], &mut cache, &RECORDING).unwrap();
                    let ms = started.elapsed().as_secs_f64() * 1e3;
                    assert_eq!(pass.attention.len(), 12);
                    cache.truncate(target);
                    ms
                })
                .collect(),
        )
    };
    let short = step_at(10);
    let started = Instant::now();
    let long = step_at(1000);
    println!(
        "prefill of 990 and 17 steps in {:.2} s",
        started.elapsed().as_secs_f64()
    );
    println!(
        "a step at context 10: {short:.1} ms, at 1,000: {long:.1} ms, ratio {:.2}",
        long / short
    );
    println!(
        "recording costs {:.1} %",
        100.0 * (all.decode_ms_median / none.decode_ms_median - 1.0)
    );

    assert!(all.decode_ratio <= 2.2, "{} bare reads", all.decode_ratio);
    assert!(long <= 1.6 * short, "{short} ms at 10, {long} ms at 1,000");
    assert!(all.decode_ms_median <= 1.1 * none.decode_ms_median);
}
