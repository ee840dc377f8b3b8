//! `score`: log-probabilities of transformers, and what conditions the first one.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{
    process::{Ended, run_model, run_with_input},
    reference::{Copy, PROMPTS, Prompt, model},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Score {
    ids: Vec<u32>,
    tokens: Vec<String>,
    log_probs_nats: Vec<Option<f64>>,
    sum_nats: f64,
    perplexity: Option<f64>,
}

fn score(text: &str, more: &[&str]) -> Ended {
    run_model(&model(), &[&["score", "--text", text], more].concat())
}

/// Each reference prompt with its score.
static SCORES: LazyLock<Vec<(&'static Prompt, Score)>> = LazyLock::new(|| {
    PROMPTS
        .iter()
        .map(|prompt| {
            let scored = score(&prompt.text, &["--json"]).succeeded();
            (prompt, scored.json())
        })
        .collect()
});

#[test]
fn log_probabilities_are_those_of_transformers() {
    for (prompt, score) in SCORES.iter() {
        let text = &prompt.text;
        assert_eq!(score.ids, prompt.ids, "{text}");
        assert_eq!(score.tokens.len(), prompt.ids.len(), "{text}");
        assert_eq!(score.log_probs_nats[0], None, "{text}");
        assert_eq!(
            score.log_probs_nats.len() - 1,
            prompt.token_log_probs.len(),
            "{text}"
        );
        let scored = score.log_probs_nats[1..]
            .iter()
            .map(|p| p.expect("a number"));
        for (actual, expected) in scored.zip(&prompt.token_log_probs) {
            let limit = 1e-4 * expected.abs().max(1.0);
            assert!(
                (actual - expected).abs() <= limit,
                "{text}: {actual}, not {expected}"
            );
        }
    }
}

#[test]
fn sum_loss_and_perplexity_belong_together() {
    for (prompt, score) in SCORES.iter() {
        let text = &prompt.text;
        let factors: Vec<f64> = score.log_probs_nats.iter().flatten().copied().collect();
        let sum: f64 = factors.iter().sum();
        assert!((score.sum_nats - sum).abs() < 1e-9, "{text}");
        let Some(loss) = prompt.loss else {
            assert_eq!(score.perplexity, None, "{text}");
            continue;
        };
        let mean = -sum / factors.len() as f64;
        assert!((mean - loss).abs() <= 1e-4, "{text}: {mean}, not {loss}");
        let perplexity = score.perplexity.expect("a perplexity");
        assert!((perplexity / mean.exp() - 1.0).abs() < 1e-9, "{text}");
    }
}

#[test]
fn one_token_has_no_factor_and_no_perplexity() {
    let (_, score) = SCORES
        .iter()
        .find(|(prompt, _)| prompt.ids.len() == 1)
        .expect("a prompt of one token");
    assert_eq!(score.log_probs_nats, [None]);
    assert_eq!((score.sum_nats, score.perplexity), (0.0, None));
}

#[test]
fn end_of_text_conditions_the_first_token() {
    let end = score("a", &["--condition", "end-of-text", "--json"]).succeeded();
    let end: Score = end.json();
    assert_eq!(end.ids, [65], "the condition is not part of the text");
    let [Some(log_prob)] = end.log_probs_nats[..] else {
        panic!("one factor: {:?}", end.log_probs_nats);
    };
    assert!(log_prob < 0.0);
    // The same chain written out: the second factor of end-of-text and the text.
    let written = score("<|endoftext|>a", &["--json"]).succeeded();
    let written: Score = written.json();
    assert_eq!(written.ids, [0, 65]);
    let [None, Some(second)] = written.log_probs_nats[..] else {
        panic!("one factor: {:?}", written.log_probs_nats);
    };
    assert!((log_prob - second).abs() < 1e-6);
    assert!((end.perplexity.expect("a perplexity") - (-log_prob).exp()).abs() < 1e-9);
}

#[test]
fn standard_input_is_scored_as_it_is() {
    let folder = model();
    let folder = folder.to_str().expect("a name that is text");
    let arguments = ["--model", folder, "score", "--text", "-", "--json"];
    let scored: Score = run_with_input(&arguments, b"a\r\n\n").succeeded().json();
    assert_eq!(scored.tokens.concat(), "a\r\n\n");
}

#[test]
fn without_json_each_token_has_a_line() {
    let ended = score("The cat sat on the", &[]).succeeded();
    let lines: Vec<_> = ended.stdout.lines().collect();
    let [header, first, .., sum, perplexity] = lines[..] else {
        panic!("{}", ended.stdout);
    };
    assert_eq!(lines.len(), 1 + 5 + 2, "{}", ended.stdout);
    assert!(header.contains("nats"), "{header}");
    assert!(first.starts_with('-'), "{first}");
    // transformers: 4 · 6.17503 nats, and e^6.17503.
    assert!(
        sum.starts_with("sum -24.70") && sum.ends_with(" nats over 4 factors"),
        "{sum}"
    );
    let perplexity = perplexity
        .strip_prefix("perplexity ")
        .expect("a perplexity");
    let perplexity: f64 = perplexity.parse().expect("a number");
    assert!((perplexity - 480.5987).abs() < 0.05, "{perplexity}");
}

#[test]
fn what_cannot_be_scored_is_refused() {
    let empty = score("", &[]);
    assert!(empty.refused().contains("empty"));
    let long = score(&" the".repeat(65), &["--json"]);
    assert!(
        long.refused()
            .contains("has 65 tokens and the model's context holds 64"),
        "{}",
        long.stderr
    );
    // The condition takes a place of its own.
    let fits = score(&" the".repeat(64), &["--json"]).succeeded();
    assert_eq!(fits.json::<Score>().ids.len(), 64);
    let conditioned = score(&" the".repeat(64), &["--condition", "end-of-text"]);
    assert!(
        conditioned
            .refused()
            .contains("the text with its condition has 65 tokens")
    );
    let other = Copy::new().without_end_of_text();
    let other = run_model(
        other.path(),
        &["score", "--text", "a", "--condition", "end-of-text"],
    );
    assert!(
        other.refused().contains("no end-of-text"),
        "{}",
        other.stderr
    );
    let unknown = score("a", &["--condition", "start-of-text"]);
    assert!(unknown.refused_usage().contains("end-of-text"));
}
