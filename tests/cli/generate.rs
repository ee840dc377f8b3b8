//! `generate`: the ids of transformers, the lines of `--json`, and how a token is chosen.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::{
    process::{Ended, run, run_model, run_with_input},
    reference::{PROMPTS, VOCAB_SIZE, model},
};

#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Prefill {
        model: String,
        device: String,
        precision: String,
        settings: Value,
        seed: u64,
        ids: Vec<u32>,
        tokens: Vec<String>,
        ms: f64,
    },
    Step(Step),
    Stop {
        reason: String,
        new_ids: Vec<u32>,
        text: String,
    },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub position: usize,
    pub id: u32,
    pub token: String,
    pub bytes: Vec<u8>,
    pub logit: f64,
    pub prob: f64,
    pub rank: usize,
    pub entropy_nats: f64,
    pub u: Option<f64>,
    pub top: Vec<Row>,
    pub ms: f64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub id: u32,
    pub token: String,
    pub logit: f64,
    pub prob: f64,
    pub kept: bool,
    pub filtered_prob: f64,
}

/// What `generate --json` printed.
#[derive(Debug)]
pub struct Generation {
    pub prompt_ids: Vec<u32>,
    pub prompt_tokens: Vec<String>,
    pub settings: Value,
    pub steps: Vec<Step>,
    pub reason: String,
    pub new_ids: Vec<u32>,
    pub text: String,
}

impl Generation {
    /// Reads the lines: a prefill, steps, a stop.
    #[track_caller]
    pub fn of(ended: &Ended) -> Self {
        let mut lines = ended.stdout.lines().map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        });
        let Some(Line::Prefill {
            model,
            device,
            precision,
            settings,
            seed,
            ids,
            tokens,
            ms,
        }) = lines.next()
        else {
            panic!("a prefill first: {}", ended.stdout);
        };
        assert!(
            !model.is_empty() && device.starts_with("CPU (flex, "),
            "{model}, {device}"
        );
        assert_eq!(precision, "f32");
        assert_eq!(settings["seed"], seed);
        assert_eq!(ids.len(), tokens.len());
        assert!(ms > 0.0);
        let mut steps = Vec::new();
        for line in lines.by_ref() {
            match line {
                Line::Step(step) => steps.push(step),
                Line::Stop {
                    reason,
                    new_ids,
                    text,
                } => {
                    assert!(lines.next().is_none(), "nothing after the stop");
                    return Self {
                        prompt_ids: ids,
                        prompt_tokens: tokens,
                        settings,
                        steps,
                        reason,
                        new_ids,
                        text,
                    };
                }
                Line::Prefill { .. } => panic!("a second prefill: {}", ended.stdout),
            }
        }
        panic!("no stop: {}", ended.stdout);
    }
}

/// `generate --json` with the reference model, which has to succeed.
#[track_caller]
pub fn tiny(prompt: &str, more: &[&str]) -> Generation {
    let asked = [&["generate", "--prompt", prompt, "--json"], more].concat();
    Generation::of(&run_model(&model(), &asked).succeeded())
}

/// Greedy runs of all reference prompts, as transformers made them.
static GREEDY: LazyLock<Vec<Generation>> = LazyLock::new(|| {
    PROMPTS
        .iter()
        .map(|prompt| tiny(&prompt.text, &["--greedy", "--max-new-tokens", "16"]))
        .collect()
});

/// Draws from at most 20 tokens, all of them printed.
const DRAW: [&str; 10] = [
    "--max-new-tokens",
    "24",
    "--temperature",
    "1.5",
    "--top-k",
    "20",
    "--top-p",
    "0.9",
    "--seed",
    "7",
];

static DRAWN: LazyLock<Generation> = LazyLock::new(|| tiny("The cat sat on the", &DRAW));

/// The built-in model with everything at its default but the length.
static BUILT_IN: LazyLock<Generation> = LazyLock::new(|| {
    let asked = [
        "generate",
        "--prompt",
        "Once upon a time",
        "--json",
        "--max-new-tokens",
        "30",
    ];
    Generation::of(&run(&asked).succeeded())
});

fn all() -> impl Iterator<Item = &'static Generation> {
    GREEDY.iter().chain([&*DRAWN, &*BUILT_IN])
}

#[test]
fn greedy_ids_are_those_of_transformers() {
    for (generation, prompt) in GREEDY.iter().zip(PROMPTS.iter()) {
        assert_eq!(generation.prompt_ids, prompt.ids, "{}", prompt.text);
        let ids = [&generation.prompt_ids[..], &generation.new_ids].concat();
        assert_eq!(ids, prompt.greedy, "{}", prompt.text);
        assert_eq!(generation.settings["mode"], "greedy");
        for step in &generation.steps {
            assert_eq!((step.rank, step.u), (1, None), "{}", prompt.text);
        }
    }
}

#[test]
fn each_step_is_the_next_position_and_the_stop_sums_them_up() {
    for generation in all() {
        let first = generation.prompt_ids.len();
        let positions = generation.steps.iter().map(|step| step.position);
        assert!(positions.eq(first..first + generation.new_ids.len()));
        let ids: Vec<_> = generation.steps.iter().map(|step| step.id).collect();
        assert_eq!(ids, generation.new_ids);
        assert_eq!(generation.reason, "max_new_tokens");
        assert!(generation.steps.iter().all(|step| step.ms > 0.0));
    }
}

#[test]
fn a_token_is_its_text_where_its_bytes_are_text() {
    for step in all().flat_map(|generation| &generation.steps) {
        match std::str::from_utf8(&step.bytes) {
            Ok(text) => assert_eq!(step.token, text),
            Err(_) => assert!(!step.token.is_empty() && !step.token.contains('\u{fffd}')),
        }
    }
    for generation in all() {
        let bytes: Vec<u8> = generation
            .steps
            .iter()
            .flat_map(|step| step.bytes.clone())
            .collect();
        // The parts of the text that are whole characters are in both.
        if let Ok(text) = String::from_utf8(bytes) {
            assert_eq!(generation.text, text);
        }
    }
    assert!(!BUILT_IN.text.is_empty());
    assert_eq!(BUILT_IN.prompt_tokens.concat(), "Once upon a time");
}

#[test]
fn probabilities_are_model_p_over_the_whole_vocabulary() {
    for generation in all() {
        for step in &generation.steps {
            assert_eq!(step.top.len(), 20);
            for row in &step.top {
                assert!(row.prob > 0.0 && row.prob <= 1.0, "{row:?}");
            }
            let mass: f64 = step.top.iter().map(|row| row.prob).sum();
            assert!(mass <= 1.0 + 1e-9, "{mass}");
            assert!(step.prob > 0.0 && step.prob <= 1.0);
            // One log-sum-exp for all: ln P falls with the logit, one for one.
            let log_sum_exp = step.logit - step.prob.ln();
            for row in &step.top {
                assert!(
                    (row.logit - row.prob.ln() - log_sum_exp).abs() < 1e-6,
                    "{row:?}"
                );
            }
            assert!(step.entropy_nats >= 0.0);
        }
    }
    let largest = (VOCAB_SIZE as f64).ln();
    for step in GREEDY.iter().flat_map(|generation| &generation.steps) {
        assert!(step.entropy_nats <= largest);
    }
}

#[test]
fn rows_are_in_the_order_of_their_logits() {
    for step in all().flat_map(|generation| &generation.steps) {
        for pair in step.top.windows(2) {
            let in_order = pair[0].logit > pair[1].logit
                || (pair[0].logit == pair[1].logit && pair[0].id < pair[1].id);
            assert!(in_order, "{pair:?}");
        }
        // The rank counts from 1 in the same order.
        match step.top.iter().position(|row| row.id == step.id) {
            Some(at) => {
                let row = &step.top[at];
                assert_eq!(step.rank, at + 1);
                assert_eq!((step.logit, step.prob), (row.logit, row.prob));
                assert_eq!(step.token, row.token);
            }
            None => assert!(step.rank > 20, "rank {}", step.rank),
        }
    }
}

#[test]
fn filtered_probabilities_are_of_the_kept_rows_alone() {
    for step in all().flat_map(|generation| &generation.steps) {
        let kept: Vec<_> = step.top.iter().take_while(|row| row.kept).collect();
        assert!(!kept.is_empty(), "nothing is kept");
        // Without a penalty, filters keep a beginning of the rows.
        for cut in &step.top[kept.len()..] {
            assert!(!cut.kept && cut.filtered_prob == 0.0, "{cut:?}");
        }
        for row in &kept {
            assert!(
                row.filtered_prob > 0.0 && row.filtered_prob <= 1.0,
                "{row:?}"
            );
        }
        assert!(
            kept.windows(2)
                .all(|pair| pair[0].filtered_prob >= pair[1].filtered_prob)
        );
        let mass: f64 = kept.iter().map(|row| row.filtered_prob).sum();
        assert!(mass <= 1.0 + 1e-9, "{mass}");
        if kept.len() < step.top.len() {
            assert!((mass - 1.0).abs() < 1e-9, "{mass}");
        }
    }
    for step in GREEDY.iter().flat_map(|generation| &generation.steps) {
        let certain = |row: &Row| row.filtered_prob == if row.kept { 1.0 } else { 0.0 };
        assert!(step.top.iter().all(certain));
    }
}

#[test]
fn the_drawn_number_looked_up_gives_the_id() {
    let mut ranks = Vec::new();
    for step in &DRAWN.steps {
        let u = step.u.expect("a drawn number");
        assert!((0.0..1.0).contains(&u), "{u}");
        // Top-k is 20: the rows are all that could be drawn.
        let mut cumulative = 0.0;
        let found = step.top.iter().filter(|row| row.kept).find(|row| {
            cumulative += row.filtered_prob;
            u < cumulative
        });
        assert_eq!(found.expect("a token").id, step.id, "u {u}");
        ranks.push(step.rank);
    }
    ranks.sort_unstable();
    ranks.dedup();
    assert!(
        ranks.len() > 2,
        "no more than the most likely was ever drawn"
    );
}

/// Everything but the times, which differ from run to run.
fn without_times(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        line.as_object_mut().expect("an object").remove("ms");
        line
    });
    lines.collect()
}

#[test]
fn the_same_seed_draws_the_same_and_another_one_differs() {
    let drawn = |seed: &str| {
        let asked = [
            "generate",
            "--prompt",
            "The cat",
            "--max-new-tokens",
            "12",
            "--json",
            "--seed",
        ];
        without_times(&run_model(&model(), &[&asked[..], &[seed]].concat()).succeeded())
    };
    let (one, again, other) = (drawn("1"), drawn("1"), drawn("18446744073709551615"));
    assert_eq!(one, again);
    assert_ne!(
        one.last().expect("a stop")["new_ids"],
        other.last().expect("a stop")["new_ids"]
    );
}

#[test]
fn without_the_cache_the_ids_are_the_same() {
    let uncached = tiny("The cat sat on the", &[&DRAW[..], &["--no-cache"]].concat());
    assert_eq!(uncached.new_ids, DRAWN.new_ids);
    for (a, b) in uncached.steps.iter().zip(&DRAWN.steps) {
        assert_eq!((a.position, a.u), (b.position, b.u));
        assert!((a.logit - b.logit).abs() <= 1e-4 * b.logit.abs().max(1.0));
    }
}

#[test]
fn without_json_the_text_is_printed() {
    let asked = [
        "generate",
        "--prompt",
        "Once upon a time",
        "--max-new-tokens",
        "30",
    ];
    let ended = run(&asked).succeeded();
    assert_eq!(ended.stdout, format!("{}\n", BUILT_IN.text));
}

#[test]
fn defaults_are_those_of_the_window() {
    let settings = &BUILT_IN.settings;
    for (key, value) in [
        ("mode", "sample".into()),
        ("top_k", 40.into()),
        ("min_p", 0.0.into()),
        ("repetition_penalty", 1.0.into()),
        ("seed", 42.into()),
        ("stop", Value::Array(Vec::new())),
    ] {
        assert_eq!(settings[key], value, "{key}");
    }
    for (key, value) in [("temperature", 0.8), ("top_p", 0.95)] {
        let actual = settings[key].as_f64().expect("a number");
        assert!((actual - value).abs() < 1e-6, "{key}: {actual}");
    }
}

#[test]
fn settings_at_their_ends_are_greedy_or_off() {
    let ids = |more: &[&str]| {
        let length = ["--max-new-tokens", "8"];
        tiny("The cat sat on the", &[&length[..], more].concat()).new_ids
    };
    let greedy = &GREEDY[0].new_ids[..8];
    for more in [
        &["--temperature", "0"][..],
        &["--temperature", "1e-6"],
        &["--top-k", "1"],
        &["--top-p", "0"],
        &["--min-p", "1"],
        &["--greedy", "--repetition-penalty", "1"],
    ] {
        assert_eq!(ids(more), greedy, "{more:?}");
    }
    let off = ids(&["--temperature", "2", "--top-k", "0", "--top-p", "1"]);
    let more_than_there_are = ["--temperature", "2", "--top-k", "1000000", "--top-p", "1"];
    assert_eq!(ids(&more_than_there_are), off);
    assert_ne!(off, greedy);
}

#[test]
fn the_penalty_works_in_greedy_mode_too() {
    // Greedy alone says 15 eleven times in a row.
    let more = [
        "--greedy",
        "--max-new-tokens",
        "8",
        "--repetition-penalty",
        "100",
    ];
    let generation = tiny("The cat sat on the", &more);
    let mut ids = generation.new_ids.clone();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 8, "a token came twice: {:?}", generation.new_ids);
}

#[test]
fn a_prompt_comes_from_standard_input_as_it_is() {
    let folder = model();
    let folder = folder.to_str().expect("a name that is text");
    let asked = [
        "--model",
        folder,
        "generate",
        "--prompt",
        "-",
        "--json",
        "--max-new-tokens",
        "1",
    ];
    for (input, ids) in [("The cat sat on the", &PROMPTS[0].ids[..]), ("", &[0])] {
        let generation = Generation::of(&run_with_input(&asked, input.as_bytes()).succeeded());
        assert_eq!(generation.prompt_ids, ids, "{input:?}");
    }
}
