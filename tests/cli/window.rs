//! The window, where there is no display to open it on.

use crate::process::{Ended, logitscope};

/// Linux says where a display is by variables of the environment.
#[test]
#[cfg(all(unix, not(target_os = "macos")))]
fn without_a_display_there_is_a_sentence() {
    for display in [None, Some(":4711")] {
        let mut command = logitscope();
        if let Some(display) = display {
            command.env("DISPLAY", display);
        }
        let output = command.output().expect("the program starts");
        let ended = Ended::new(format!("the window on {display:?}"), output);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
        let [said] = ended.said()[..] else {
            panic!("one sentence: {}", ended.stderr);
        };
        assert!(said.contains("the window cannot be opened"), "{said}");
        assert!(
            said.contains("logitscope --help"),
            "what to do instead: {said}"
        );
        for place in [".rs", "/src/", ".cargo", env!("CARGO_MANIFEST_DIR")] {
            assert!(!said.contains(place), "a place in the source: {said}");
        }
    }
}

#[test]
fn a_model_that_is_not_there_opens_no_window() {
    let output = logitscope().args(["--model", "no/such/folder"]).output();
    let ended = Ended::new("the window".to_owned(), output.expect("the program starts"));
    assert!(
        ended.refused().contains("no/such/folder"),
        "{}",
        ended.stderr
    );
}

#[test]
fn help_lists_every_command() {
    let output = logitscope().arg("--help").output();
    let help = Ended::new("--help".to_owned(), output.expect("the program starts")).succeeded();
    for command in ["generate", "inspect", "score", "check", "bench"] {
        let listed = help
            .stdout
            .lines()
            .any(|line| line.trim_start().starts_with(command));
        assert!(listed, "{command}: {}", help.stdout);
    }
}
