//! Arguments, and the start of either the window or a command.

use std::process::ExitCode;

use clap::Parser;
use logitscope::cli::Cli;

fn main() -> ExitCode {
    Cli::parse().run()
}
