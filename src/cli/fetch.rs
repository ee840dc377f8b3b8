//! `fetch`: download a model by name. The only command that opens a connection.

use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use clap::Args;

use super::CliError;
use crate::hub::{Hub, Meter, Progress, RepoId, Revision};

/// Least time between two lines of progress, on a terminal and elsewhere.
const LINE_INTERVAL: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];

#[derive(Debug, Args)]
pub struct FetchArgs {
    /// gpt2, distilgpt2, gpt2-medium, gpt2-large, gpt2-xl, or owner/name
    name: String,
    /// A branch, a tag or a commit
    #[arg(long, default_value = "main")]
    revision: String,
}

/// Runs the command: progress to standard error, the model's folder to `out`.
///
/// # Errors
/// As the sentences of [`crate::hub::HubError`] say; a closed output.
pub fn run(args: &FetchArgs, out: &mut dyn Write) -> Result<(), CliError> {
    let repo = RepoId::parse(&args.name)?;
    let revision = Revision::parse(&args.revision)?;
    let hub = Hub::from_env()?;
    let mut lines = Lines::new(io::stderr().is_terminal());
    let fetched = hub.fetch(&repo, &revision, &mut |progress| {
        lines.show(&progress);
        ControlFlow::Continue(())
    });
    lines.end();
    match fetched {
        Ok(folder) => {
            writeln!(out, "{}", folder.display())?;
            out.flush()?;
            Ok(())
        }
        Err(error) => {
            if error.is_of_the_network() && hub.find(&repo, &revision).is_some() {
                let name = repo.label();
                eprintln!(
                    "logitscope: {name} is on this computer from earlier and can be used: --model {name}"
                );
            }
            Err(error.into())
        }
    }
}

/// Progress on standard error: one line that is written over on a terminal, a few lines elsewhere.
struct Lines {
    terminal: bool,
    meter: Meter,
    shown_at: Option<Instant>,
    width: usize,
}

impl Lines {
    fn new(terminal: bool) -> Self {
        Self {
            terminal,
            meter: Meter::default(),
            shown_at: None,
            width: 0,
        }
    }

    fn show(&mut self, progress: &Progress) {
        let now = Instant::now();
        self.meter.note(progress, now);
        let interval = LINE_INTERVAL[usize::from(!self.terminal)];
        let is_last = progress.total_bytes > 0 && progress.done_bytes == progress.total_bytes;
        if !is_last && self.shown_at.is_some_and(|at| now - at < interval) {
            return;
        }
        self.shown_at = Some(now);
        let line = self.meter.describe(progress);
        // Progress that cannot be shown is no reason to end a download.
        let mut err = io::stderr().lock();
        let _ = if self.terminal {
            let width = self.width;
            write!(err, "\r{line:width$}").and_then(|()| err.flush())
        } else {
            writeln!(err, "{line}")
        };
        self.width = line.chars().count();
    }

    fn end(&mut self) {
        if self.terminal && self.width > 0 {
            let _ = writeln!(io::stderr());
        }
    }
}
