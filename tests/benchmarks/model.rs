//! Speed of decoding on the CPU at GPT-2's size, as limits on ratios. Takes a quiet machine and
//! 1 GB of memory: `cargo bench --bench model`

use std::{ops::ControlFlow, time::Instant};

use logitscope::{
    model::{
        BenchRecord, ComputeDevice, DeviceChoice, Gpt2, Gpt2Config, LoadRequest, Logits,
        ModelSource, Record, bare_read_ms, run_bench,
    },
    worker::{Engine, Question},
};

const RECORDING: Record = Record {
    logits: Logits::Last,
    attention: true,
    scores: false,
    hidden: false,
};

const NOT_RECORDING: Record = Record {
    attention: false,
    ..RECORDING
};

/// The fastest of many interleaved steps: other programs can only add to a time.
fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn main() {
    let flex = ComputeDevice::flex();
    let source = ModelSource::Random(Gpt2Config::shape("gpt2").unwrap(), 1);
    let model = Gpt2::load(&source, &flex, &mut |_, _| ControlFlow::Continue(())).unwrap();

    let ids: Vec<u32> = (0..1000).map(|i| (i * 37 % 50_257) as u32).collect();
    let cache_of = |length: usize| {
        let mut cache = model.new_cache();
        for chunk in ids[..length].chunks(256) {
            model.forward(chunk, &mut cache, &NOT_RECORDING).unwrap();
        }
        cache
    };
    let mut cases = [
        ("10 tokens, recording", cache_of(10), RECORDING, Vec::new()),
        (
            "10 tokens, not recording",
            cache_of(10),
            NOT_RECORDING,
            Vec::new(),
        ),
        (
            "1,000 tokens, recording",
            cache_of(1000),
            RECORDING,
            Vec::new(),
        ),
        (
            "1,000 tokens, not recording",
            cache_of(1000),
            NOT_RECORDING,
            Vec::new(),
        ),
    ];
    let mut bare = f64::INFINITY;
    for round in 0..40 {
        for (_, cache, record, times) in &mut cases {
            let length = cache.len();
            let started = Instant::now();
            let pass = model.forward(&ids[..1], cache, record).unwrap();
            times.push(started.elapsed().as_secs_f64() * 1e3);
            assert_eq!(pass.logits.len(), 50_257);
            cache.truncate(length);
        }
        if round % 10 == 0 {
            bare = bare.min(bare_read_ms(model.weight_bytes_per_step()));
        }
    }
    println!("bare read: {bare:.1} ms");
    for (name, _, _, times) in &mut cases {
        times.sort_by(f64::total_cmp);
        println!(
            "{name}: fastest {:.1} ms, median {:.1} ms",
            times[0], times[20]
        );
    }
    let [short, short_bare, long, long_bare] = cases.map(|(.., times)| fastest(&times));
    println!(
        "{:.2} bare reads; context 1,000 to 10: {:.2}; recording: {:+.1} % and {:+.1} %",
        short / bare,
        long / short,
        100.0 * (short / short_bare - 1.0),
        100.0 * (long / long_bare - 1.0)
    );
    assert!(short <= 2.2 * bare);
    assert!(long <= 1.6 * short);
    assert!(short <= 1.1 * short_bare && long <= 1.1 * long_bare);

    let result = run_bench(&model, &flex, 16, 32, BenchRecord::All).unwrap();
    println!("{}", serde_json::to_string(&result).unwrap());
    let too_long = run_bench(&model, &flex, 1000, 25, BenchRecord::All).unwrap_err();
    assert!(
        too_long
            .to_string()
            .contains("exceed the context of 1024 tokens")
    );
    drop(model);
    explaining(&source, &ids, short);
}

/// Where a distribution comes from, asked beside a cache of 1,000 tokens: a few decode steps each.
fn explaining(source: &ModelSource, ids: &[u32], step_ms: f64) {
    let mut engine =
        Engine::load_for_ids(&LoadRequest::new(source.clone(), DeviceChoice::Cpu)).unwrap();
    let mut go_on = || ControlFlow::Continue(());
    let _ = engine
        .predict(ids, ids.len() - 1, false, &mut |_, _| {
            ControlFlow::Continue(())
        })
        .unwrap();
    let step = Question::Step(ids.to_vec());
    for (name, question, limit) in [
        ("a step", &step, 8.0),
        ("nearest rows", &Question::Nearest(7), 3.0),
    ] {
        let times: Vec<f64> = (0..12)
            .map(|_| {
                let started = Instant::now();
                engine.explain(question, &mut go_on).unwrap();
                started.elapsed().as_secs_f64() * 1e3
            })
            .collect();
        let best = fastest(&times);
        println!(
            "explaining, {name}: {best:.1} ms, {:.1} decode steps",
            best / step_ms
        );
        assert!(best <= limit * step_ms);
    }
}
