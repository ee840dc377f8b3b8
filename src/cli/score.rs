//! `score`: the chain rule for a text, log P of each token given those before it.

use std::io::Write;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::{CliError, Global, input};
use crate::{session::Chain, tokenizer::Tokenizer, worker::EngineError};

#[derive(Debug, Args)]
pub struct ScoreArgs {
    /// The text to score; - reads standard input
    #[arg(long, value_name = "TEXT|-", allow_hyphen_values = true)]
    text: String,
    /// What the first token is conditioned on
    #[arg(long, value_enum, default_value_t = Condition::None)]
    condition: Condition,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Where the chain of factors starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Condition {
    /// At the second token: nothing conditions the first
    None,
    /// At the first token, given an end-of-text before it
    EndOfText,
}

#[derive(Serialize)]
struct Score {
    ids: Vec<u32>,
    tokens: Vec<String>,
    log_probs_nats: Vec<Option<f64>>,
    sum_nats: f64,
    perplexity: Option<f64>,
}

/// Runs the command, writing to `out`.
///
/// # Errors
/// Bad input, a model that cannot be loaded, a closed output.
pub fn run(args: &ScoreArgs, global: &Global, out: &mut dyn Write) -> Result<(), CliError> {
    let text = input::text(&args.text)?;
    if text.is_empty() {
        return Err(CliError::Input(
            "the text is empty: there is nothing to score; give a text".to_owned(),
        ));
    }
    let (mut engine, model) = input::engine(&global.request(global.source()?))?;
    let ids = model.tokenizer.encode(&text);
    let condition = match (args.condition, model.end_of_text) {
        (Condition::None, _) => None,
        (Condition::EndOfText, Some(id)) => Some(id),
        (Condition::EndOfText, None) => {
            return Err(CliError::Input(
                "this model has no end-of-text token to condition on; use --condition none"
                    .to_owned(),
            ));
        }
    };
    let context: Vec<_> = condition.into_iter().chain(ids.iter().copied()).collect();
    let way_out = match condition {
        Some(_) => "use --condition none, which leaves room for one more",
        None => "score it in parts",
    };
    let what = match condition {
        Some(_) => "text with its condition",
        None => "text",
    };
    input::fits(what, context.len(), model.n_ctx, way_out)?;
    let mut log_probs = vec![None; context.len()];
    let mut sound = Ok(());
    let _ = engine.predict(&context, 0, false, &mut |first, predictions| {
        for (offset, prediction) in predictions.iter().enumerate() {
            let next = first + offset + 1;
            if let (Some(&id), Some(row)) = (context.get(next), &prediction.logits) {
                log_probs[next] = Some(row.log_prob(id));
                if sound.is_ok() {
                    sound = EngineError::check(row, next);
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    })?;
    // In JSON a number that is none is null.
    if !args.json {
        sound?;
    }
    // The condition itself is not scored.
    let log_probs_nats = log_probs.split_off(usize::from(condition.is_some()));
    let chain = Chain::of(log_probs_nats.iter().copied());
    let score = Score {
        tokens: ids
            .iter()
            .map(|&id| model.tokenizer.text_or_label(id))
            .collect(),
        perplexity: chain.perplexity(),
        ids,
        log_probs_nats,
        sum_nats: chain.sum_nats,
    };
    if args.json {
        serde_json::to_writer(&mut *out, &score)?;
        out.write_all(b"\n")?;
        return Ok(out.flush()?);
    }
    readable(&score, chain.factors, &model.tokenizer, out)
}

fn readable(
    score: &Score,
    factors: usize,
    tokenizer: &Tokenizer,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    writeln!(out, "log P (nats)\tP (%)\ttoken")?;
    for (log_prob, &id) in score.log_probs_nats.iter().zip(&score.ids) {
        let token = tokenizer.quoted(id);
        match log_prob {
            Some(log_prob) => {
                let percent = percent(100.0 * log_prob.exp());
                writeln!(out, "{log_prob:.4}\t{percent}\t{token}")?;
            }
            None => writeln!(out, "-\t-\t{token}")?,
        }
    }
    writeln!(out, "sum {:.4} nats over {factors} factors", score.sum_nats)?;
    if let Some(perplexity) = score.perplexity {
        writeln!(out, "perplexity {perplexity:.4}")?;
    }
    Ok(out.flush()?)
}

/// Four decimals, or three digits where those would all be zero.
fn percent(value: f64) -> String {
    if value < 0.001 {
        format!("{value:.2e}")
    } else {
        format!("{value:.4}")
    }
}
