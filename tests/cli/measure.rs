//! `bench` and `check`: what they print, and when a check fails.

use serde_json::Value;

use crate::{
    process::{Ended, logitscope, run, run_model},
    reference::{Copy, model},
};

const KEYS: [&str; 8] = [
    "bare_read_ms",
    "decode_ms_median",
    "decode_ratio",
    "device",
    "precision",
    "prefill_ms",
    "record",
    "weight_bytes_per_step",
];

#[test]
fn a_benchmark_is_one_object() {
    // Every weight of the built-in model but its positions is read in a step.
    let parameters = 5_900_000.0 * 4.0;
    for record in ["all", "logits", "none"] {
        let tokens = ["--prompt-tokens", "8", "--new-tokens", "5"];
        let asked = [&["bench", "--json", "--record", record], &tokens[..]].concat();
        let bench: Value = run(&asked).succeeded().json();
        let keys: Vec<_> = bench.as_object().expect("an object").keys().collect();
        assert_eq!(keys, KEYS);
        assert_eq!(
            (&bench["record"], &bench["precision"]),
            (&record.into(), &"f32".into())
        );
        let device = bench["device"].as_str().expect("a device");
        assert!(device.starts_with("CPU (flex, "), "{device}");
        let number = |key: &str| bench[key].as_f64().expect("a number");
        for key in ["bare_read_ms", "prefill_ms", "decode_ms_median"] {
            assert!(
                number(key) > 0.0 && number(key) < 60_000.0,
                "{key}: {bench}"
            );
        }
        let ratio = number("decode_ms_median") / number("bare_read_ms");
        assert!(
            (number("decode_ratio") / ratio - 1.0).abs() < 1e-9,
            "{bench}"
        );
        let share = number("weight_bytes_per_step") / parameters;
        assert!((0.9..1.1).contains(&share), "{bench}");
    }
}

#[test]
fn a_benchmark_can_be_read() {
    let tokens = ["--prompt-tokens", "4", "--new-tokens", "2"];
    let ended = run_model(&model(), &[&["bench"], &tokens[..]].concat()).succeeded();
    for words in [
        "device",
        "CPU (flex",
        "bare read",
        "prefill",
        "for 4 tokens",
        "median of 2",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refused = |arguments: &[&str]| run_model(&model(), arguments).refused().to_owned();
    let nothing = refused(&["bench", "--new-tokens", "0"]);
    assert!(nothing.contains("at least one"), "{nothing}");
    let nothing = refused(&["bench", "--prompt-tokens", "0"]);
    assert!(nothing.contains("at least one"), "{nothing}");
    let long = refused(&["bench", "--prompt-tokens", "60", "--new-tokens", "5"]);
    assert!(long.contains("64"), "{long}");
    let endless = refused(&["bench", "--prompt-tokens", &usize::MAX.to_string()]);
    assert!(endless.contains("64"), "{endless}");
    for command in ["bench", "check"] {
        let shape = run(&[command, "--shape", "gpt3"]);
        let shape = shape.refused();
        assert!(
            shape.contains("'gpt3'") && shape.contains("gpt2-xl"),
            "{shape}"
        );
    }
    run(&["bench", "--record", "some"]).refused_usage();
}

/// What a check printed: the outcome of each row, and the row.
fn rows(check: &Ended) -> Vec<(&str, &str)> {
    check
        .stdout
        .lines()
        .map(|line| line.split_once(' ').expect("an outcome and a row"))
        .collect()
}

#[test]
fn a_check_passes_on_the_adapter_that_there_is() {
    let folder = model();
    let folder = folder.to_str().expect("a name that is text");
    let output = logitscope().args(["--model", folder, "check"]).output();
    let check = Ended::new("check".to_owned(), output.expect("the program starts"));
    assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
    assert!(check.said().is_empty(), "{}", check.stderr);
    let rows = rows(&check);
    assert_eq!(rows.len(), 3, "{}", check.stdout);
    if check.stdout.contains("skipped: no adapter") {
        let required = std::env::var("LOGITSCOPE_REQUIRE_ADAPTER").is_ok_and(|v| v == "1");
        assert!(!required, "an adapter is required: {}", check.stdout);
        println!("check: no adapter, the GPU rows were not tested");
        return;
    }
    for (outcome, row) in rows {
        assert_eq!(outcome, "passed", "{row}");
        assert!(
            row.contains("|Δlogit|") && row.contains("|Δattention|"),
            "{row}"
        );
    }
}

/// The Vulkan loader of Linux can be told to find no driver.
#[test]
#[cfg(target_os = "linux")]
fn without_an_adapter_the_gpu_rows_are_skipped() {
    let mut command = logitscope();
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env(name, "/nonexistent");
    }
    let output = command.arg("check").output().expect("the program starts");
    let check = Ended::new("check without drivers".to_owned(), output);
    assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
    let rows = rows(&check);
    let outcomes: Vec<_> = rows.iter().map(|(outcome, _)| *outcome).collect();
    assert_eq!(
        outcomes,
        ["passed", "skipped", "skipped"],
        "{}",
        check.stdout
    );
    for (_, row) in &rows[1..] {
        assert!(row.ends_with(": skipped: no adapter"), "{row}");
    }
}

#[test]
fn a_check_that_finds_a_difference_fails() {
    let broken = Copy::new().set_weight("transformer.ln_f.bias", 3, f32::NAN);
    let check = run_model(broken.path(), &["check"]);
    assert_eq!(check.code, Some(1), "{}{}", check.stdout, check.stderr);
    assert_eq!(rows(&check)[0].0, "FAILED", "{}", check.stdout);
    assert_eq!(check.said(), ["the self-check found a difference"]);
}
