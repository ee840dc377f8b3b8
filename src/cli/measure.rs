//! `check` and `bench`: whether this machine computes what it should, and how fast.

use std::{io::Write, ops::ControlFlow};

use clap::{Args, ValueEnum};

use super::{CliError, Global, input};
use crate::model::{
    BenchRecord, ComputeDevice, Gpt2, ModelSource, Outcome, run_bench, self_check, source_config,
};

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Random weights of this size instead of a model: gpt2, distilgpt2, gpt2-medium, gpt2-large, gpt2-xl
    #[arg(long)]
    shape: Option<String>,
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Random weights of this size instead of a model: gpt2, distilgpt2, gpt2-medium, gpt2-large, gpt2-xl
    #[arg(long)]
    shape: Option<String>,
    /// Tokens put through the model at once before decoding
    #[arg(
        long,
        value_name = "N",
        default_value_t = 64,
        allow_hyphen_values = true
    )]
    prompt_tokens: usize,
    /// Tokens decoded one by one
    #[arg(
        long,
        value_name = "N",
        default_value_t = 32,
        allow_hyphen_values = true
    )]
    new_tokens: usize,
    /// What is read back and kept at each step
    #[arg(long, value_enum, default_value_t = RecordChoice::All)]
    record: RecordChoice,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum RecordChoice {
    /// Logits and the attention of all layers and heads
    All,
    /// Logits only
    Logits,
    /// Nothing is kept
    None,
}

fn source(shape: Option<&str>, global: &Global) -> Result<ModelSource, CliError> {
    match shape {
        // Not clap's conflicts_with: that misses a --model before the command.
        Some(_) if global.model.is_some() => Err(CliError::Input(
            "--shape measures random weights, so it cannot go with --model; give one of the two"
                .to_owned(),
        )),
        Some(shape) => input::random_model(shape),
        None => global.source(),
    }
}

/// Runs the self-check.
///
/// # Errors
/// [`CliError::CheckFailed`] where a comparison disagrees; a closed output.
pub fn check(args: &CheckArgs, global: &Global, out: &mut dyn Write) -> Result<(), CliError> {
    let source = source(args.shape.as_deref(), global)?;
    if let ModelSource::Folder(_) = source {
        // A folder that cannot be read is bad input, not a difference.
        let flex = ComputeDevice::flex();
        Gpt2::load_with(&source, &flex, global.weights(), &mut |_, _| {
            ControlFlow::Continue(())
        })?;
    }
    let rows = self_check(&global.request(source));
    for row in &rows {
        let outcome = match row.outcome {
            Outcome::Passed => "passed  ",
            Outcome::Failed => "FAILED  ",
            Outcome::Skipped => "skipped ",
        };
        writeln!(out, "{outcome}{}: {}", row.name, row.detail)?;
    }
    out.flush()?;
    if rows.iter().any(|row| row.outcome == Outcome::Failed) {
        Err(CliError::CheckFailed)
    } else {
        Ok(())
    }
}

/// Measures prefill and decode.
///
/// # Errors
/// Where the tokens do not fit the context, or the model cannot be loaded; a closed output.
pub fn bench(args: &BenchArgs, global: &Global, out: &mut dyn Write) -> Result<(), CliError> {
    if args.prompt_tokens == 0 || args.new_tokens == 0 {
        return Err(CliError::Input(
            "there is nothing to measure; give at least one prompt token and one new token"
                .to_owned(),
        ));
    }
    let source = source(args.shape.as_deref(), global)?;
    let n_ctx = source_config(&source)?.n_ctx;
    if args.prompt_tokens.saturating_add(args.new_tokens) > n_ctx {
        return Err(CliError::Input(format!(
            "{} prompt tokens and {} new ones exceed the context of {n_ctx}; lower --prompt-tokens or --new-tokens",
            args.prompt_tokens, args.new_tokens
        )));
    }
    let device = ComputeDevice::open(global.device())?;
    let model = Gpt2::load_with(&source, &device, global.weights(), &mut |_, _| {
        ControlFlow::Continue(())
    })?;
    let record = match args.record {
        RecordChoice::All => BenchRecord::All,
        RecordChoice::Logits => BenchRecord::Logits,
        RecordChoice::None => BenchRecord::None,
    };
    let result = run_bench(&model, &device, args.prompt_tokens, args.new_tokens, record)?;
    if args.json {
        serde_json::to_writer(&mut *out, &result)?;
        out.write_all(b"\n")?;
        return Ok(out.flush()?);
    }
    writeln!(
        out,
        "device        {} · {}",
        result.device, result.precision
    )?;
    writeln!(
        out,
        "weights       {} bytes read a step",
        result.weight_bytes_per_step
    )?;
    writeln!(
        out,
        "bare read     {:.2} ms (an f32 sum over as many bytes)",
        result.bare_read_ms
    )?;
    writeln!(
        out,
        "prefill       {:.2} ms for {} tokens",
        result.prefill_ms, args.prompt_tokens
    )?;
    writeln!(
        out,
        "decode        {:.2} ms a token, median of {}",
        result.decode_ms_median, args.new_tokens
    )?;
    writeln!(out, "decode ratio  {:.2} bare reads", result.decode_ratio)?;
    Ok(out.flush()?)
}
