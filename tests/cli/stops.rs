//! When `generate` stops, and how long a prompt may be.

use serde_json::json;

use crate::{
    generate::{Generation, tiny},
    process::{run, run_model},
    reference::{Copy, N_CTX, PROMPTS, model},
};

/// A prompt of so many tokens.
fn prompt(tokens: usize) -> String {
    " the".repeat(tokens)
}

#[test]
fn no_new_tokens_are_no_steps() {
    let generation = tiny("The cat sat on the", &["--max-new-tokens", "0"]);
    assert_eq!(generation.prompt_ids, PROMPTS[0].ids);
    assert_eq!(generation.reason, "max_new_tokens");
    assert!(generation.steps.is_empty() && generation.new_ids.is_empty());
    assert_eq!(generation.text, "");
    let text = ["generate", "--prompt", "a", "--max-new-tokens", "0"];
    assert_eq!(run_model(&model(), &text).succeeded().stdout, "\n");
}

#[test]
fn a_sequence_ends_at_the_context() {
    for (length, max_new, new, reason) in [
        (1, "100", N_CTX - 1, "context_full"),
        (N_CTX - 2, "1", 1, "max_new_tokens"),
        (N_CTX - 1, "1", 1, "max_new_tokens"),
        (N_CTX - 1, "2", 1, "context_full"),
        (N_CTX, "5", 0, "context_full"),
        (N_CTX, "0", 0, "max_new_tokens"),
    ] {
        let generation = tiny(&prompt(length), &["--greedy", "--max-new-tokens", max_new]);
        let got = (
            generation.prompt_ids.len(),
            generation.new_ids.len(),
            &*generation.reason,
        );
        assert_eq!(got, (length, new, reason), "at most {max_new}");
        assert_eq!(generation.steps.len(), new);
    }
}

#[test]
fn a_prompt_beyond_the_context_is_refused_or_cut_when_told() {
    let long = prompt(N_CTX + 1);
    let asked = ["generate", "--prompt", &long, "--json"];
    let refused = run_model(&model(), &asked);
    let refused = refused.refused();
    for words in ["65 tokens", "64", "--truncate"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    // Room is made for the new tokens, but for no more than half of the context.
    for (max_new, kept, new, reason) in [
        ("10", N_CTX - 10, 10, "max_new_tokens"),
        ("100", N_CTX / 2, N_CTX / 2, "context_full"),
        ("0", N_CTX, 0, "max_new_tokens"),
    ] {
        let more = ["--truncate", "--greedy", "--max-new-tokens", max_new];
        let generation = tiny(&long, &more);
        let got = (
            generation.prompt_ids.len(),
            generation.new_ids.len(),
            &*generation.reason,
        );
        assert_eq!(got, (kept, new, reason), "at most {max_new}");
    }
    // A prompt that fits is left alone.
    let fits = tiny(
        &prompt(N_CTX),
        &["--truncate", "--greedy", "--max-new-tokens", "10"],
    );
    assert_eq!(
        (fits.prompt_ids.len(), &*fits.reason),
        (N_CTX, "context_full")
    );
}

#[test]
fn what_is_cut_is_the_beginning() {
    let text = format!("The cat sat on{}", prompt(N_CTX));
    let generation = tiny(&text, &["--truncate", "--max-new-tokens", "4"]);
    assert_eq!(generation.prompt_ids, [259; N_CTX - 4]);
}

#[test]
fn an_empty_prompt_is_end_of_text() {
    let generation = tiny("", &["--max-new-tokens", "2"]);
    assert_eq!(generation.prompt_ids, [0]);
    assert_eq!(generation.steps.len(), 2);
    let none = Copy::new().without_end_of_text();
    let refused = run_model(none.path(), &["generate", "--prompt", ""]);
    assert!(
        refused.refused().contains("no end-of-text"),
        "{}",
        refused.stderr
    );
    run_model(
        none.path(),
        &["generate", "--prompt", "a", "--max-new-tokens", "2"],
    )
    .succeeded();
}

#[test]
fn end_of_text_ends_a_run_and_is_kept() {
    // Greedy from the first prompt: eleven times 15, then 3. The config says that 3 ends a text.
    let copy = Copy::new().config("eos_token_id", json!(3));
    let asked = [
        "generate",
        "--prompt",
        "The cat sat on the",
        "--greedy",
        "--json",
    ];
    let generation = Generation::of(&run_model(copy.path(), &asked).succeeded());
    assert_eq!(generation.reason, "end_of_text");
    let expected = &PROMPTS[0].greedy[PROMPTS[0].ids.len()..][..12];
    assert_eq!(generation.new_ids, expected);
    assert_eq!(generation.steps.len(), 12);
}

/// A greedy run of the built-in model.
fn story(more: &[&str]) -> Generation {
    let asked = [
        "generate",
        "--prompt",
        "Once upon a time",
        "--json",
        "--greedy",
    ];
    let length = ["--max-new-tokens", "24"];
    Generation::of(&run(&[&asked[..], &length, more].concat()).succeeded())
}

#[test]
fn a_stop_string_is_found_across_tokens_and_its_token_is_kept() {
    let whole = story(&[]);
    // The last character of one token and the first of the next.
    let pair = whole.steps[5..].windows(2).find_map(|pair| {
        let stop = format!(
            "{}{}",
            pair[0].token.chars().last()?,
            pair[1].token.chars().next()?
        );
        pair.iter().all(|step| step.token.len() > 1).then_some(stop)
    });
    let stop = pair.expect("two tokens of several characters");
    let mut text = String::new();
    let found = whole.steps.iter().position(|step| {
        text.push_str(&step.token);
        text.contains(&stop)
    });
    let length = found.expect("it is in the text") + 1;

    for more in [
        &["--stop", &*stop][..],
        // Any of several; the ones that never come do not matter.
        &["--stop", "zzzz", "--stop", &*stop],
    ] {
        let stopped = story(more);
        assert_eq!(stopped.reason, "stop_string", "{more:?}");
        assert_eq!(stopped.new_ids, whole.new_ids[..length], "{more:?}");
        assert_eq!(
            stopped.text, text,
            "the token that completes it is kept whole"
        );
    }
    let never = story(&["--stop", "zzzz"]);
    assert_eq!(never.reason, "max_new_tokens");
    assert_eq!(never.new_ids, whole.new_ids);
}

#[test]
fn a_stop_string_in_the_prompt_stops_nothing() {
    let stopped = story(&["--stop", "Once upon"]);
    assert_ne!(stopped.new_ids.len(), 0);
    assert_eq!(stopped.reason, "max_new_tokens");
}

#[test]
fn end_of_text_and_a_stop_string_come_before_the_budget() {
    let whole = story(&[]);
    let last = whole.steps.last().expect("a step");
    let stop = whole.text.clone();
    assert!(stop.ends_with(&last.token));
    // Complete exactly at the last token that is allowed.
    assert_eq!(story(&["--stop", &stop]).reason, "stop_string");
    let copy = Copy::new().config("eos_token_id", json!(3));
    let asked = [
        "generate",
        "--prompt",
        "The cat sat on the",
        "--greedy",
        "--json",
    ];
    let length = ["--max-new-tokens", "12"];
    let ended = run_model(copy.path(), &[&asked[..], &length].concat()).succeeded();
    assert_eq!(Generation::of(&ended).reason, "end_of_text");
}
