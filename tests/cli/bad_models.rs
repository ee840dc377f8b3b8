//! Folders that hold no model, or one that does not fit together.

use std::fs;

use serde_json::json;

use crate::{
    process::{run, run_model},
    reference::{Copy, model},
};

/// The commands that load a model.
const COMMANDS: [&[&str]; 4] = [
    &["generate", "--prompt", "a"],
    &["score", "--text", "a"],
    &["inspect", "--ids", "1", "--json"],
    &["bench", "--prompt-tokens", "4", "--new-tokens", "2"],
];

#[test]
fn a_folder_that_is_not_there_is_named() {
    for command in COMMANDS.iter().chain([&&["check"][..]]) {
        let refused = run(&[&["--model", "no/such/folder"], *command].concat());
        assert!(
            refused.refused().contains("no/such/folder"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn every_command_says_what_is_wrong_with_a_folder() {
    let empty = tempfile::tempdir().expect("a folder");
    let foreign = tempfile::tempdir().expect("a folder");
    fs::write(foreign.path().join("holiday.txt"), "sun").expect("a file");
    let weights = fs::read(model().join("model.safetensors")).expect("weights");
    let half = &weights[..weights.len() / 2];
    let cut = Copy::new().write("model.safetensors", half);
    let sizes = Copy::new().config("n_embd", json!(64));
    for (folder, words) in [
        (empty.path(), "holds no GPT-2"),
        (foreign.path(), "holds no GPT-2"),
        (cut.path(), "model.safetensors is cut short"),
        (sizes.path(), "wte.weight has shape [400, 48]"),
    ] {
        for command in COMMANDS {
            let refused = run_model(folder, command);
            assert!(
                refused.refused().contains(words),
                "{words}: {}",
                refused.stderr
            );
        }
    }
}

#[test]
fn files_that_are_broken_are_named() {
    let unlike = |name: &str, text: &str| Copy::new().write(name, text);
    for (folder, words) in [
        (unlike("config.json", ""), "config.json"),
        (unlike("config.json", "[]"), "config.json"),
        (unlike("config.json", "{\"n_layer\": 1e999}"), "config.json"),
        (unlike("model.safetensors", ""), "model.safetensors"),
        (
            unlike("model.safetensors", "no tensors at all"),
            "model.safetensors",
        ),
        (Copy::new().remove("config.json"), "config.json"),
        (Copy::new().remove("model.safetensors"), "model.safetensors"),
        (Copy::new().config("model_type", json!("bert")), "bert"),
        (Copy::new().config("n_layer", json!(4)), "h.3."),
        (Copy::new().config("n_head", json!(5)), "n_head"),
        (Copy::new().config("n_positions", json!(0)), "n_positions"),
        (Copy::new().config("n_positions", json!(-1)), "n_positions"),
        (
            Copy::new().config("vocab_size", json!(u64::MAX)),
            "vocab_size",
        ),
    ] {
        let refused = run_model(folder.path(), &["generate", "--prompt", "a"]);
        assert!(
            refused.refused().contains(words),
            "{words}: {}",
            refused.stderr
        );
    }
}

#[test]
fn a_tokenizer_that_cannot_be_read_is_said_to_be_the_tokenizer() {
    let vocabulary = |entry: &str| {
        let entry = format!("\"vocab\": {{{entry}, ");
        Copy::new().edit("tokenizer.json", |text| {
            text.replacen("\"vocab\": {", &entry, 1)
        })
    };
    for folder in [
        Copy::new().write("tokenizer.json", ""),
        Copy::new().write("tokenizer.json", "{\"model\": "),
        Copy::new().write("tokenizer.json", b"\xff\xfe"),
        Copy::new().write("tokenizer.json", "null"),
        vocabulary(r#""\ud800": 5"#),
        vocabulary(r#""a\udc00": 5"#),
        vocabulary(r#""far": 4000000000"#),
        vocabulary(r#""negative": -1"#),
    ] {
        let refused = run_model(folder.path(), &["generate", "--prompt", "a"]);
        assert!(
            refused.refused().contains("tokenizer"),
            "{}",
            refused.stderr
        );
        // The rest of the folder is whole: ids need no tokenizer.
        let ids = ["inspect", "--ids", "1,2", "--json"];
        run_model(folder.path(), &ids).succeeded();
    }
}

#[test]
fn a_file_of_a_model_stands_for_its_folder() {
    let [file, folder] = [model().join("config.json"), model()].map(|path| {
        let command = [
            "generate",
            "--prompt",
            "a",
            "--max-new-tokens",
            "3",
            "--greedy",
        ];
        run_model(&path, &command).succeeded().stdout
    });
    assert_eq!(file, folder);
}

#[test]
fn a_sharded_folder_lacking_a_shard_names_it() {
    let sharded = tempfile::tempdir().expect("a folder");
    let from = model().with_file_name("sharded");
    for entry in fs::read_dir(from).expect("the fixture") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), sharded.path().join(entry.file_name())).expect("a copy");
    }
    let asked = ["generate", "--prompt", "a", "--max-new-tokens", "1"];
    run_model(sharded.path(), &asked).succeeded();
    let shard = "model-00003-of-00006.safetensors";
    fs::remove_file(sharded.path().join(shard)).expect("it was there");
    let refused = run_model(sharded.path(), &asked);
    assert!(refused.refused().contains(shard), "{}", refused.stderr);
}
