//! Texts and settings that no one should give: documented behaviour or one sentence, never a panic.

use std::io::Read;

use serde_json::Value;

use crate::{
    generate::Generation,
    process::{Ended, logitscope, run, run_model, run_with_input},
    reference::{N_CTX, model},
};

/// Tokens that the built-in model can take in.
const BUILT_IN_CTX: usize = 512;

#[test]
fn a_hundred_thousand_characters_are_refused_or_cut() {
    let text = "word ".repeat(20_000);
    let asked = [
        "generate",
        "--prompt",
        "-",
        "--json",
        "--max-new-tokens",
        "2",
    ];
    let refused = run_with_input(&asked, text.as_bytes());
    let words = refused.refused();
    assert!(
        words.contains("512") && words.contains("--truncate"),
        "{words}"
    );

    let cut = run_with_input(&[&asked[..], &["--truncate"]].concat(), text.as_bytes());
    let cut = Generation::of(&cut.succeeded());
    assert_eq!(cut.prompt_ids.len(), BUILT_IN_CTX - 2);
    assert_eq!((cut.steps.len(), &*cut.reason), (2, "max_new_tokens"));

    for command in [&["score", "--text", "-"], &["inspect", "--prompt", "-"]] {
        let refused = run_with_input(&[&command[..], &["--json"]].concat(), text.as_bytes());
        assert!(refused.refused().contains("512"), "{}", refused.stderr);
    }
}

#[test]
fn odd_texts_go_through_unchanged() {
    let folder = model();
    let folder = folder.to_str().expect("a name that is text");
    for (name, text) in [
        ("line ends", "one\r\ntwo\rthree\n\n"),
        (
            "emoji",
            "\u{1F642}\u{1F469}\u{200D}\u{1F469}\u{200D}\u{1F467}\u{1F1E9}\u{1F1EA}",
        ),
        ("combining marks", "e\u{301}a\u{308}\u{20DD}\u{301}\u{301}"),
        ("controls", "\u{0}\u{1}\u{7}\u{8}\u{1b}[31m\u{7f}\u{85}"),
        ("directions", "\u{202E}abc\u{202C}\u{5D0}\u{FEFF}"),
        ("not characters", "\u{FFFD}\u{FFFE}\u{10FFFF}"),
        ("spaces", "   \t \u{A0}\u{3000} "),
    ] {
        let asked = ["--model", folder, "generate", "--prompt", "-", "--json"];
        let more = ["--max-new-tokens", "2"];
        let ended = run_with_input(&[&asked[..], &more].concat(), text.as_bytes()).succeeded();
        assert_eq!(Generation::of(&ended).steps.len(), 2, "{name}");
        // Each token is shown as something, and as the text itself where it is whole characters.
        let scored = run_with_input(
            &["--model", folder, "score", "--text", "-", "--json"],
            text.as_bytes(),
        );
        let scored: Value = scored.succeeded().json();
        let tokens: Vec<_> = scored["tokens"]
            .as_array()
            .expect("tokens")
            .iter()
            .map(|token| token.as_str().expect("a token"))
            .collect();
        assert!(
            tokens.iter().all(|token| !token.is_empty()),
            "{name}: {tokens:?}"
        );
        if text.is_ascii() {
            assert_eq!(tokens.concat(), text, "{name}");
        }
    }
}

#[test]
fn standard_input_that_is_not_utf_8_is_refused() {
    for command in [
        &["generate", "--prompt", "-"][..],
        &["score", "--text", "-"],
        &["inspect", "--prompt", "-", "--json"],
    ] {
        for (input, at) in [
            (&b"caf\xe9"[..], "byte 3"),
            (b"\xff\xfeO\0n\0", "byte 0"),
            (b"ab\xed\xa0\x80", "byte 2"),
            (b"cut \xf0\x9f\x99", "byte 4"),
        ] {
            let refused = run_with_input(command, input);
            let words = refused.refused();
            assert!(words.contains("not UTF-8") && words.contains(at), "{words}");
        }
    }
}

#[test]
#[cfg(unix)]
fn arguments_that_are_not_utf_8_are_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let output = logitscope()
        .args(["generate", "--prompt"])
        .arg(OsStr::from_bytes(b"caf\xe9"))
        .output();
    let ended = Ended::new("not UTF-8".to_owned(), output.expect("the program starts"));
    assert!(ended.refused_usage().contains("UTF-8"), "{}", ended.stderr);
}

#[test]
fn settings_out_of_range_are_refused_by_name() {
    for (option, values, name) in [
        (
            "--temperature",
            &[
                "-1", "-0.001", "100.5", "nan", "-nan", "inf", "-inf", "1e39",
            ][..],
            "temperature",
        ),
        ("--top-p", &["-0.1", "1.001", "2", "nan", "inf"], "top-p"),
        ("--min-p", &["-0.1", "2", "nan", "-inf"], "min-p"),
        (
            "--repetition-penalty",
            &["0", "-1", "nan", "inf"],
            "repetition penalty",
        ),
        ("--stop", &[""], "stop string 1 is empty"),
    ] {
        for value in values {
            let asked = ["generate", "--prompt", "a", option, value];
            let refused = run_model(&model(), &asked);
            assert!(
                refused.refused().starts_with(name),
                "{option} {value}: {}",
                refused.stderr
            );
        }
    }
}

#[test]
fn what_is_no_number_is_refused_with_the_option_and_the_value() {
    let generate = ["generate", "--prompt", "a"];
    for (command, option, value) in [
        (&generate[..], "--temperature", "warm"),
        (&generate, "--temperature", ""),
        (&generate, "--temperature", "--json"),
        (&generate, "--top-k", "-1"),
        (&generate, "--top-k", "4294967296"),
        (&generate, "--top-k", "1.5"),
        (&generate, "--max-new-tokens", "-1"),
        (&generate, "--max-new-tokens", "99999999999999999999"),
        (&generate, "--seed", "-1"),
        (&generate, "--seed", "18446744073709551616"),
        (&["bench"], "--new-tokens", "many"),
        (&["bench"], "--prompt-tokens", "-1"),
    ] {
        let refused = run(&[command, &[option, value]].concat());
        let words = refused.refused_usage();
        assert!(
            words.contains(&format!("'{option} <")),
            "{option} {value}: {words}"
        );
        // "a value is required for …" where there is none.
        let named = words.contains(&format!("'{value}'")) || value.is_empty();
        assert!(named, "{option} {value}: {words}");
    }
}

#[test]
fn what_does_not_go_together_is_refused_with_the_usage() {
    for asked in [
        &["generate"][..],
        &[
            "generate",
            "--prompt",
            "a",
            "--greedy",
            "--temperature",
            "1",
        ],
        &["generate", "--prompt", "a", "--greedy", "--top-k", "5"],
        &["generate", "--prompt", "a", "--greedy", "--seed", "1"],
        &["generate", "--prompt", "a", "--prompt", "b"],
        &["generate", "--prompt", "a", "--unknown"],
        &["generate", "--prompt", "a", "b"],
        &["score"],
        &["dance"],
    ] {
        run(asked).refused_usage();
    }
    let output = logitscope().args(["--device", "tpu", "check"]).output();
    let device = Ended::new("tpu".to_owned(), output.expect("the program starts"));
    assert!(
        device.refused_usage().contains("use auto, cpu or gpu"),
        "{}",
        device.stderr
    );
}

#[test]
fn a_large_budget_ends_at_the_context() {
    let largest = usize::MAX.to_string();
    let asked = [
        "generate",
        "--prompt",
        "a",
        "--json",
        "--max-new-tokens",
        &largest,
    ];
    let generation = Generation::of(&run_model(&model(), &asked).succeeded());
    assert!(generation.new_ids.len() < N_CTX);
    assert!(["context_full", "end_of_text"].contains(&&*generation.reason));
}

#[test]
fn a_prompt_may_look_like_an_option() {
    for prompt in ["--json", "-1", "--", "-a"] {
        let asked = [
            "generate",
            "--prompt",
            prompt,
            "--max-new-tokens",
            "1",
            "--json",
        ];
        let generation = Generation::of(&run_model(&model(), &asked).succeeded());
        assert_eq!(generation.prompt_tokens.concat(), prompt);
    }
}

#[test]
fn logits_that_are_no_numbers_panic_nowhere() {
    let broken = crate::reference::Copy::new().set_weight("transformer.ln_f.bias", 3, f32::NAN);
    for asked in [
        &["generate", "--prompt", "a", "--max-new-tokens", "3"][..],
        &[
            "generate",
            "--prompt",
            "a",
            "--max-new-tokens",
            "3",
            "--json",
        ],
        &[
            "generate",
            "--prompt",
            "a",
            "--max-new-tokens",
            "3",
            "--greedy",
        ],
        &["score", "--text", "a cat"],
    ] {
        let ended = run_model(broken.path(), asked);
        assert_eq!(ended.code, Some(2), "{asked:?}");
        let said = "400 of the 400 logits after 1 tokens are not numbers, so nothing can be drawn";
        assert!(ended.stderr.contains(said), "{asked:?}: {}", ended.stderr);
        assert!(!ended.stdout.contains("\"step\""), "{}", ended.stdout);
    }
    // What only prints numbers prints null for those that are none.
    for asked in [
        &["score", "--text", "a cat", "--json"][..],
        &["inspect", "--prompt", "a cat"],
    ] {
        run_model(broken.path(), asked).succeeded();
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = logitscope()
        .args(["--device", "cpu", "generate", "--prompt", "Once", "--json"])
        .args(["--max-new-tokens", "300"])
        .spawn()
        .expect("the program starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout
        .read_exact(&mut [0; 16])
        .expect("the beginning of a line");
    drop(stdout);
    let ended = Ended::new(
        "head".to_owned(),
        child.wait_with_output().expect("it ends"),
    );
    ended.succeeded();
}
