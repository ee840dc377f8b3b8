//! The command line: the same engine without a window, for scripts and for checking. No command needs a display.

mod error;
mod fetch;
mod generate;
mod input;
mod inspect;
mod measure;
mod score;
mod window;

use std::{
    io::{self, BufWriter},
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};
pub use error::CliError;

use crate::model::{DeviceChoice, LoadRequest, ModelSource, Precision, WeightOptions};

/// A desktop playground for watching GPT-2 choose its next token.
///
/// Without a command, the window opens.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What every command takes.
#[derive(Debug, Args)]
pub struct Global {
    /// A model folder in Hugging Face layout, or the name of a fetched model; the built-in model if absent
    #[arg(long, global = true, value_name = "DIR|NAME")]
    model: Option<String>,
    /// Where to compute: auto takes a real GPU, else the CPU
    #[arg(long, global = true, value_name = "auto|cpu|gpu")]
    device: Option<DeviceChoice>,
    /// How weights are kept: f16 takes half the memory and rounds each weight; arithmetic is f32 in both
    #[arg(long, global = true, value_name = "f32|f16")]
    precision: Option<Precision>,
    /// Leave out tensors that a GPT-2 does not have, instead of refusing the file
    #[arg(long, global = true)]
    allow_unknown_tensors: bool,
}

impl Global {
    fn source(&self) -> Result<ModelSource, CliError> {
        input::model(self.model.as_deref())
    }

    fn device(&self) -> DeviceChoice {
        self.device.unwrap_or_default()
    }

    fn weights(&self) -> WeightOptions {
        WeightOptions {
            precision: self.precision.unwrap_or_default(),
            allow_unknown_tensors: self.allow_unknown_tensors,
        }
    }

    /// The model that is asked for, or `source` in its place.
    fn request(&self, source: ModelSource) -> LoadRequest {
        LoadRequest {
            source,
            device: self.device(),
            weights: self.weights(),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Continue a prompt
    Generate(generate::GenerateArgs),
    /// Run the model once and print what it computed
    Inspect(inspect::InspectArgs),
    /// Print the log-probability of each token of a text
    Score(score::ScoreArgs),
    /// Compare CPU with GPU, and cached with uncached decoding
    Check(measure::CheckArgs),
    /// Measure prefill and decode
    Bench(measure::BenchArgs),
    /// Download a model, so that --model takes its name
    Fetch(fetch::FetchArgs),
}

impl Cli {
    /// Runs the command, or the window; errors go to standard error.
    pub fn run(self) -> ExitCode {
        let Self { global, command } = self;
        let mut out = BufWriter::new(io::stdout().lock());
        let outcome = match &command {
            None => {
                drop(out);
                return window::open(&global);
            }
            Some(Command::Generate(args)) => generate::run(args, &global, &mut out),
            Some(Command::Inspect(args)) => inspect::run(args, &global, &mut out),
            Some(Command::Score(args)) => score::run(args, &global, &mut out),
            Some(Command::Check(args)) => measure::check(args, &global, &mut out),
            Some(Command::Bench(args)) => measure::bench(args, &global, &mut out),
            Some(Command::Fetch(args)) => fetch::run(args, &mut out),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                if !matches!(error, CliError::OutputClosed) {
                    eprintln!("logitscope: {error}");
                }
                error.exit_code()
            }
        }
    }
}
