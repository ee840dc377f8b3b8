//! `inspect`: what one forward pass computed, against transformers and against itself.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::{
    process::{Ended, run, run_model},
    reference::{
        Copy, N_EMBD, N_HEAD, N_LAYER, PROMPTS, Prompt, VOCAB_SIZE, assert_close, assert_within,
        model, weights,
    },
};

/// `[L][H][T][T]`
type Heads<T> = Vec<Vec<Vec<Vec<T>>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Inspection {
    ids: Vec<u32>,
    tokens: Vec<String>,
    /// `[T][V]`
    logits: Option<Vec<Vec<f32>>>,
    attention: Option<Heads<f32>>,
    scores: Option<Heads<Option<f32>>>,
    /// `[L + 1][T][D]`
    hidden: Option<Vec<Vec<Vec<f32>>>>,
    /// `[T][D]`
    residual_final: Option<Vec<Vec<f32>>>,
}

const EVERYTHING: [&str; 5] = ["--logits", "--attention", "--scores", "--hidden", "--json"];

fn listed(ids: &[u32]) -> String {
    let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
    ids.join(",")
}

/// Each reference prompt, given as ids beside a prompt that must not count, with all that is known of it.
static INSPECTIONS: LazyLock<Vec<(&'static Prompt, Inspection)>> = LazyLock::new(|| {
    PROMPTS
        .iter()
        .map(|prompt| {
            let ids = listed(&prompt.ids);
            let asked = ["inspect", "--ids", &ids, "--prompt", "zebra"];
            let ended = run_model(&model(), &[&asked[..], &EVERYTHING].concat());
            (prompt, ended.succeeded().json())
        })
        .collect()
});

#[test]
fn ids_win_over_a_prompt() {
    for (prompt, inspection) in INSPECTIONS.iter() {
        assert_eq!(inspection.ids, prompt.ids, "{}", prompt.text);
        assert_eq!(inspection.tokens.len(), prompt.ids.len(), "{}", prompt.text);
    }
}

#[test]
fn logits_are_those_of_transformers() {
    for (prompt, inspection) in INSPECTIONS.iter() {
        let logits = inspection.logits.as_ref().expect("logits");
        assert!(logits.iter().all(|row| row.len() == VOCAB_SIZE));
        assert_close(&prompt.text, &logits.concat(), &prompt.logits);
    }
}

#[test]
fn attention_is_that_of_transformers() {
    for (prompt, inspection) in INSPECTIONS.iter() {
        let attention = inspection.attention.as_ref().expect("attention");
        assert_eq!(attention.len(), N_LAYER);
        assert!(attention.iter().all(|layer| layer.len() == N_HEAD));
        let flat = attention.concat().concat().concat();
        assert_within(&prompt.text, &flat, &prompt.attention, 1e-5);
    }
}

#[test]
fn hidden_states_are_those_of_transformers() {
    for (prompt, inspection) in INSPECTIONS.iter() {
        let hidden = inspection.hidden.as_ref().expect("hidden states");
        assert_eq!(hidden.len(), N_LAYER + 1);
        assert_close(&prompt.text, &hidden.concat().concat(), &prompt.hidden);
    }
}

#[test]
fn the_last_hidden_state_is_the_final_residual_after_ln_f() {
    let (weight, bias) = (
        weights("transformer.ln_f.weight"),
        weights("transformer.ln_f.bias"),
    );
    for (prompt, inspection) in INSPECTIONS.iter() {
        let residual = inspection.residual_final.as_ref().expect("residuals");
        let last = inspection.hidden.as_ref().and_then(|hidden| hidden.last());
        for (residual, expected) in residual.iter().zip(last.expect("hidden states")) {
            assert_close(
                &prompt.text,
                &layer_norm(residual, &weight, &bias),
                expected,
            );
        }
    }
}

fn layer_norm(values: &[f32], weight: &[f32], bias: &[f32]) -> Vec<f32> {
    let n = N_EMBD as f64;
    assert_eq!(values.len(), N_EMBD);
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    let variance = values
        .iter()
        .map(|&x| (f64::from(x) - mean).powi(2))
        .sum::<f64>()
        / n;
    let scaled = values
        .iter()
        .zip(weight)
        .zip(bias)
        .map(|((&x, &weight), &bias)| {
            let normal = (f64::from(x) - mean) / (variance + 1e-5).sqrt();
            (normal * f64::from(weight) + f64::from(bias)) as f32
        });
    scaled.collect()
}

#[test]
fn attention_is_the_softmax_of_the_scores() {
    for (_, inspection) in INSPECTIONS.iter() {
        assert_scores_make_attention(inspection);
    }
}

/// Scores are null exactly where attention is forbidden, and their softmax is the attention.
#[track_caller]
fn assert_scores_make_attention(inspection: &Inspection) {
    let rows = inspection.ids.len();
    let attention = inspection.attention.as_ref().expect("attention").concat();
    let scores = inspection.scores.as_ref().expect("scores").concat();
    assert_eq!(attention.len(), scores.len());
    for (weights, scores) in attention.iter().zip(&scores) {
        assert_eq!((weights.len(), scores.len()), (rows, rows));
        for (query, (weights, scores)) in weights.iter().zip(scores).enumerate() {
            assert_eq!((weights.len(), scores.len()), (rows, rows));
            let (allowed, masked) = scores.split_at(query + 1);
            assert!(
                masked.iter().all(Option::is_none),
                "query {query}: {masked:?}"
            );
            assert!(
                weights[query + 1..].iter().all(|&w| w == 0.0),
                "query {query}"
            );
            let allowed: Vec<f64> = allowed
                .iter()
                .map(|score| f64::from(score.expect("a score")))
                .collect();
            let max = allowed.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let log_sum_exp = max + allowed.iter().map(|s| (s - max).exp()).sum::<f64>().ln();
            for (key, (&weight, score)) in weights.iter().zip(&allowed).enumerate() {
                let expected = (score - log_sum_exp).exp();
                assert!(
                    (f64::from(weight) - expected).abs() <= 1e-5,
                    "query {query}, key {key}: {weight}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn a_prompt_is_tokenised_and_only_what_was_asked_for_is_printed() {
    for prompt in PROMPTS.iter() {
        let asked = ["inspect", "--prompt", &prompt.text, "--json"];
        let inspection: Inspection = run_model(&model(), &asked).succeeded().json();
        assert_eq!(inspection.ids, prompt.ids, "{}", prompt.text);
        assert!(inspection.logits.is_none() && inspection.attention.is_none());
        assert!(inspection.scores.is_none());
        assert!(inspection.hidden.is_none() && inspection.residual_final.is_none());
    }
}

#[test]
fn tokens_are_their_text_where_that_is_text() {
    let tokens = |text: &str| {
        let (_, inspection) = INSPECTIONS
            .iter()
            .find(|(prompt, _)| prompt.text == text)
            .expect("a reference prompt");
        &inspection.tokens
    };
    assert_eq!(tokens("The cat sat on the").concat(), "The cat sat on the");
    // Parts of characters have labels: the prompt's own text cannot be put together from them.
    let parts = tokens("東京 🙂");
    assert!(parts.iter().all(|token| !token.is_empty()), "{parts:?}");
    assert!(!parts.concat().contains('\u{fffd}'), "{parts:?}");
}

#[test]
fn ids_need_no_tokenizer() {
    let without = Copy::new().remove("tokenizer.json");
    let asked = ["inspect", "--ids", "273, 389,294", "--logits", "--json"];
    let inspection: Inspection = run_model(without.path(), &asked).succeeded().json();
    assert_eq!(inspection.ids, [273, 389, 294]);
    let logits = inspection.logits.expect("logits").concat();
    // Causal: what follows in the reference prompt does not matter.
    assert_close("three ids", &logits, &PROMPTS[0].logits[..3 * VOCAB_SIZE]);
    let prompt = run_model(without.path(), &["inspect", "--prompt", "a", "--json"]);
    assert!(
        prompt.refused().contains("tokenizer.json"),
        "{}",
        prompt.stderr
    );
}

#[test]
fn an_empty_prompt_is_end_of_text() {
    let asked = ["inspect", "--prompt", "", "--json"];
    let inspection: Inspection = run_model(&model(), &asked).succeeded().json();
    assert_eq!(inspection.ids, [0]);
}

/// 300 tokens go through the model in two passes; what they computed has to be put together as one.
#[test]
fn the_chunks_of_a_long_prefill_are_put_together() {
    const LONG: usize = 300;
    const SHORT: usize = 100;
    let folder = Copy::new().with_context(LONG);
    let ids: Vec<u32> = (0..LONG as u32).map(|i| (i * 37 + 5) % 400).collect();
    let inspect = |ids: &[u32]| -> Inspection {
        let ids = listed(ids);
        let asked = [&["inspect", "--ids", &ids][..], &EVERYTHING].concat();
        run_model(folder.path(), &asked).succeeded().json()
    };
    let (long, short) = (inspect(&ids), inspect(&ids[..SHORT]));
    assert_eq!(long.ids, ids);
    assert_scores_make_attention(&long);

    // What a shorter pass computes for its positions stands at the same places.
    let (a, b) = (long.logits.expect("logits"), short.logits.expect("logits"));
    assert_eq!(a.len(), LONG);
    assert_close("logits", &a[..SHORT].concat(), &b.concat());
    let (a, b) = (long.hidden.expect("hidden"), short.hidden.expect("hidden"));
    for (stage, (a, b)) in a.iter().zip(&b).enumerate() {
        assert_eq!(a.len(), LONG);
        assert_close(&format!("stage {stage}"), &a[..SHORT].concat(), &b.concat());
    }
    // The last position is computed by the second pass; the last hidden state belongs to its residual.
    let (weight, bias) = (
        weights("transformer.ln_f.weight"),
        weights("transformer.ln_f.bias"),
    );
    let residual = &long.residual_final.expect("residuals")[LONG - 1];
    let last = &a.last().expect("hidden")[LONG - 1];
    assert_close(
        "the last position",
        &layer_norm(residual, &weight, &bias),
        last,
    );
}

#[test]
fn numbers_that_are_none_are_null() {
    let broken = Copy::new().set_weight("transformer.ln_f.bias", 3, f32::NAN);
    let ended = run_model(
        broken.path(),
        &["inspect", "--ids", "1", "--logits", "--json"],
    );
    let json: serde_json::Value = ended.succeeded().json();
    let row = json["logits"][0].as_array().expect("a row");
    assert_eq!(row.len(), VOCAB_SIZE);
    assert!(row.iter().all(serde_json::Value::is_null), "{row:?}");
}

#[test]
fn without_json_each_token_has_a_line() {
    let ended = run_model(&model(), &["inspect", "--prompt", "The cat sat on the"]).succeeded();
    let lines: Vec<Vec<&str>> = ended
        .stdout
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    assert_eq!(lines.len(), 1 + 5, "{}", ended.stdout);
    for (line, id) in lines[1..].iter().zip(&PROMPTS[0].ids) {
        assert_eq!((line.len(), line[1]), (6, id.to_string().as_str()));
    }
    // The greedy continuation begins with the last row's most likely id.
    assert_eq!(lines[5][4], PROMPTS[0].greedy[5].to_string());
}

#[test]
fn ids_that_are_none_are_refused() {
    for (ids, words) in [
        (
            "400",
            "token id 400 is outside the vocabulary of 400 tokens",
        ),
        ("1,2,4294967295", "outside the vocabulary"),
        ("4294967296", "'4294967296' is not a token id"),
        ("-1", "'-1' is not a token id"),
        ("1,,2", "'' is not a token id"),
        ("", "'' is not a token id"),
        ("1.5", "'1.5' is not a token id"),
        ("NaN", "'NaN' is not a token id"),
        ("the", "'the' is not a token id"),
        ("1,2\u{1F642}", "is not a token id"),
    ] {
        let ended = run_model(&model(), &["inspect", "--ids", ids, "--json"]);
        assert!(ended.refused().contains(words), "{ids}: {}", ended.stderr);
    }
    let long = run_model(&model(), &["inspect", "--ids", &listed(&[1; 65]), "--json"]);
    assert!(
        long.refused()
            .contains("has 65 tokens and the model's context holds 64"),
        "{}",
        long.stderr
    );
    let nothing: Ended = run(&["inspect", "--json"]);
    nothing.refused_usage();
}
