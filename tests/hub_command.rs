//! `fetch` and `--model NAME` as a shell sees them, against a Hub on the loopback address.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

#[path = "support/hub_server.rs"]
#[allow(dead_code)]
mod server;

use server::{COMMIT, FakeHub, Reply, Repo};
use tempfile::TempDir;

fn logitscope(home: &Path, endpoint: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logitscope"));
    for (name, _) in std::env::vars() {
        if name.starts_with("HF_") || name.starts_with("HUGGING") || name.starts_with("XDG_") {
            command.env_remove(name);
        }
    }
    command
        .env("HF_HOME", home)
        .env("HF_ENDPOINT", endpoint)
        .args(args)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The reference model of these tests as a repository.
fn tiny() -> Repo {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/storyteller");
    let mut repo = Repo::gpt2("openai-community/gpt2", 1);
    for (name, large) in [
        ("config.json", false),
        ("tokenizer.json", false),
        ("model.safetensors", true),
    ] {
        repo.put(name, &fs::read(folder.join(name)).unwrap(), large);
    }
    repo
}

#[test]
fn a_name_is_fetched_once_and_used_from_then_on() {
    let home = TempDir::new().unwrap();
    let server = FakeHub::sound(tiny());
    let url = server.url();

    let score = ["score", "--text", "Once upon a time", "--model", "gpt2"];
    let before = logitscope(home.path(), &url, &score);
    assert_eq!(before.status.code(), Some(2));
    assert_eq!(
        text(&before.stderr),
        "logitscope: gpt2 is not on this computer; run: logitscope fetch gpt2\n"
    );
    assert!(server.seen().is_empty(), "a name never downloads");

    let fetched = logitscope(home.path(), &url, &["fetch", "gpt2"]);
    let progress = text(&fetched.stderr);
    assert!(fetched.status.success(), "{progress}");
    let snapshot = home
        .path()
        .join("hub/models--openai-community--gpt2/snapshots")
        .join(COMMIT);
    assert_eq!(text(&fetched.stdout), format!("{}\n", snapshot.display()));
    assert!(progress.contains("100 %"), "{progress}");
    assert!(!progress.contains('\r'), "not a terminal: {progress}");

    let asked = server.seen().len();
    let after = logitscope(
        home.path(),
        &url,
        &[&score[..], &["--device", "cpu"]].concat(),
    );
    assert!(after.status.success(), "{}", text(&after.stderr));
    assert_eq!(server.seen().len(), asked, "what is there needs no network");
}

#[test]
fn how_a_fetch_that_fails_ends() {
    let home = TempDir::new().unwrap();
    let server = FakeHub::start(tiny(), |seen, reply| {
        if seen.path.contains("/gone/") {
            return Reply::status(404).with("X-Error-Code", "RepoNotFound");
        }
        if seen.path.contains("/full/") {
            return Reply::status(403);
        }
        reply
    });
    for (name, code, sentence) in [
        ("gpt3", 2, "“gpt3” is no model name"),
        ("gone/model", 2, "gone/model was not found on 127.0.0.1"),
        ("full/model", 1, "does not let you read full/model"),
    ] {
        let output = logitscope(home.path(), &server.url(), &["fetch", name]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{error}");
        assert!(error.contains(&format!("logitscope: {sentence}")) || error.contains(sentence));
        assert!(output.stdout.is_empty());
        assert!(!error.contains("panicked"), "{error}");
    }
}

#[test]
fn a_model_from_earlier_is_offered_where_the_hub_cannot_be_reached() {
    let home = TempDir::new().unwrap();
    let server = FakeHub::sound(tiny());
    let url = server.url();
    assert!(
        logitscope(home.path(), &url, &["fetch", "gpt2"])
            .status
            .success()
    );
    drop(server);
    let output = logitscope(home.path(), &url, &["fetch", "gpt2"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(
        error.contains("gpt2 is on this computer from earlier"),
        "{error}"
    );
    assert!(error.contains("no connection to 127.0.0.1"), "{error}");
}
