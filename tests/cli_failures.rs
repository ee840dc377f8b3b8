//! How commands end when something is in their way: exit codes, one sentence, never a panic.

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Command, Output, Stdio},
};

const TINY: &str = "tests/fixtures/gpt2-tiny/safetensors";

fn logitscope() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logitscope"));
    command.stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    logitscope().args(arguments).output().expect("it starts")
}

/// The exit code, and what a person reads; drivers may write lines of their own before it.
fn ended(output: &Output) -> (Option<i32>, String) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!stderr.contains("panicked"), "{stderr}");
    let said = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("logitscope: "))
        .collect::<Vec<_>>()
        .join("\n");
    (output.status.code(), said)
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let mut child = logitscope()
        .args(["--device", "cpu", "generate", "--prompt", "Once"])
        .args(["--max-new-tokens", "400", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0; 16]).expect("a first line");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(ended(&output), (Some(0), String::new()));
}

#[test]
fn a_folder_that_holds_no_whole_model_is_bad_input_to_every_command() {
    let cut = tempfile::tempdir().expect("a folder");
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        fs::copy(Path::new(TINY).join(name), cut.path().join(name)).expect("copied");
    }
    let weights = cut.path().join("model.safetensors");
    let bytes = fs::read(&weights).expect("weights");
    fs::write(&weights, &bytes[..bytes.len() / 2]).expect("written");
    let empty = tempfile::tempdir().expect("a folder");
    for (folder, reason) in [
        (cut.path(), "model.safetensors is cut short"),
        (empty.path(), "holds no GPT-2"),
    ] {
        let folder = folder.to_str().expect("a name");
        for command in [
            &["generate", "--prompt", "a"][..],
            &["inspect", "--ids", "1", "--json"],
            &["score", "--text", "a"],
            &["check"],
            &["bench", "--prompt-tokens", "4", "--new-tokens", "2"],
        ] {
            let output = run(&[&["--model", folder, "--device", "cpu"], command].concat());
            let (code, said) = ended(&output);
            assert_eq!(code, Some(2), "{command:?}: {said}");
            assert!(said.contains(reason), "{command:?}: {said}");
            assert!(output.stdout.is_empty(), "{command:?}");
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    for (arguments, reason) in [
        (
            &["--model", TINY, "bench", "--shape", "gpt2"][..],
            "--shape",
        ),
        (&["bench", "--prompt-tokens", "600"], "--prompt-tokens"),
        (&["bench", "--new-tokens", "0"], "at least one"),
        (&["check", "--shape", "gpt3"], "gpt2-xl"),
    ] {
        let (code, said) = ended(&run(arguments));
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    // Numbers that only --json prints.
    let output = run(&["inspect", "--prompt", "a", "--logits"]);
    assert_eq!(output.status.code(), Some(2));
}

/// No Vulkan driver can be found under these names.
#[cfg(target_os = "linux")]
fn without_vulkan(command: &mut Command) -> &mut Command {
    command
        .env("VK_DRIVER_FILES", "/nowhere")
        .env("VK_ICD_FILENAMES", "/nowhere")
}

#[test]
#[cfg(target_os = "linux")]
fn without_an_adapter_the_cpu_is_checked_and_the_gpu_rows_are_skipped() {
    let output = without_vulkan(logitscope().args(["--model", TINY, "check"]))
        .output()
        .expect("it starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(ended(&output).0, Some(0), "{printed}");
    assert!(printed.contains("CPU: cached equals uncached"), "{printed}");
    assert_eq!(
        printed.matches("skipped: no adapter").count(),
        2,
        "{printed}"
    );

    let output = without_vulkan(logitscope().args(["--device", "gpu", "score", "--text", "a b"]))
        .output()
        .expect("it starts");
    let (code, said) = ended(&output);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("no GPU found"), "{said}");
}

#[test]
#[cfg(target_os = "linux")]
fn without_a_display_the_window_says_so() {
    for display in [None, Some(":4711")] {
        let mut command = logitscope();
        for name in ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"] {
            command.env_remove(name);
        }
        if let Some(display) = display {
            command.env("DISPLAY", display);
        }
        let (code, said) = ended(&command.output().expect("it starts"));
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("the window cannot be opened"), "{said}");
        assert!(!said.contains(".rs:"), "a place in the source: {said}");
    }
}

#[test]
fn without_the_cache_the_tokens_are_the_same_and_take_longer() {
    let steps = |extra: &[&str]| {
        let mut arguments = vec!["--device", "cpu", "generate", "--prompt", "Once"];
        arguments.extend(["--max-new-tokens", "100", "--json"]);
        arguments.extend(extra);
        let output = run(&arguments);
        assert_eq!(ended(&output).0, Some(0));
        let lines: Vec<serde_json::Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let ids = lines.last().map(|stop| stop["new_ids"].clone());
        // The fastest of the last steps: other programs only ever make one slower.
        let ms = lines[60..100]
            .iter()
            .map(|step| step["ms"].as_f64().expect("a time"))
            .fold(f64::INFINITY, f64::min);
        (ids, ms)
    };
    let (cached, uncached) = (steps(&[]), steps(&["--no-cache"]));
    assert_eq!(cached.0, uncached.0);
    assert!(
        uncached.1 > 3.0 * cached.1,
        "{} ms with, {} ms without",
        cached.1,
        uncached.1
    );
}
