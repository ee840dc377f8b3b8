//! Starting the program, and reading what it said.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
    sync::LazyLock,
};

use serde::de::DeserializeOwned;

/// Names under which the program would find a display.
const DISPLAYS: [&str; 3] = ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"];

/// Stands in for the user's own folders: some drivers complain when there is none, and nothing of a test may be kept.
static HOME: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

/// The program without a display, without the user's files, with nothing on standard input.
pub fn logitscope() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_logitscope"));
    for name in DISPLAYS {
        command.env_remove(name);
    }
    for name in ["XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        command.env(name, HOME.path());
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// How a process ended.
pub struct Ended {
    /// What was asked, for the messages of failing tests.
    pub asked: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn new(asked: String, output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        let ended = Self {
            asked,
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        };
        assert!(
            !ended.stderr.contains("panicked"),
            "{}: {}",
            ended.asked,
            ended.stderr
        );
        ended
    }

    /// It did what it was asked, and said nothing besides.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(
            (self.code, self.stderr.as_str()),
            (Some(0), ""),
            "{}",
            self.asked
        );
        self
    }

    /// The one sentence it refused with.
    #[track_caller]
    pub fn refused(&self) -> &str {
        let Self { asked, stderr, .. } = self;
        assert_eq!(self.code, Some(2), "{asked}: {stderr}");
        assert_eq!(self.stdout, "", "{asked}");
        let lines: Vec<_> = stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{asked}: {stderr}");
        lines[0]
            .strip_prefix("logitscope: ")
            .unwrap_or_else(|| panic!("{asked}: {stderr}"))
    }

    /// It was refused by the parser of arguments, which adds how the command is used.
    #[track_caller]
    pub fn refused_usage(&self) -> &str {
        let Self { asked, stderr, .. } = self;
        assert_eq!(self.code, Some(2), "{asked}: {stderr}");
        assert_eq!(self.stdout, "", "{asked}");
        assert!(stderr.starts_with("error: "), "{asked}: {stderr}");
        stderr
    }

    /// What it said in its own name; drivers may have written lines of theirs.
    pub fn said(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter_map(|line| line.strip_prefix("logitscope: "))
            .collect()
    }

    /// The one JSON object it printed.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        match serde_json::from_str(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("{}: {error}: {}", self.asked, self.stdout),
        }
    }
}

/// Runs a command on the CPU.
pub fn run(arguments: &[&str]) -> Ended {
    let output = logitscope()
        .args(["--device", "cpu"])
        .args(arguments)
        .output();
    Ended::new(shown(arguments), output.expect("the program starts"))
}

/// Runs a command on the CPU with something on standard input.
pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Ended {
    let mut child = logitscope()
        .args(["--device", "cpu"])
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // A command that refuses its arguments never reads.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    Ended::new(
        shown(arguments),
        child.wait_with_output().expect("the program ends"),
    )
}

/// Runs a command on the CPU with a model folder.
pub fn run_model(folder: &Path, arguments: &[&str]) -> Ended {
    let folder = folder.to_str().expect("a name that is text");
    run(&[&["--model", folder], arguments].concat())
}

fn shown(arguments: &[&str]) -> String {
    let mut shown = arguments.join(" ");
    if let Some((at, _)) = shown.char_indices().nth(200) {
        shown.truncate(at);
        shown.push('…');
    }
    shown
}
