//! `generate`: continues a prompt, as text or as one JSON object a line.

use std::{
    cell::Cell,
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
    sync::Arc,
    time::Instant,
};

use clap::Args;
use serde::Serialize;

use super::{CliError, Global, input};
use crate::{
    model::Precision,
    prediction::LogitsRow,
    sampling::{Distribution, Mode, SamplingSettings, rank, top},
    session::TOP_ROWS,
    tokenizer::{StreamDecoder, Tokenizer},
    worker::{Control, Event, Live, ModelInfo, Pace, RunRequest, StopReason},
};

#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The text to continue; - reads standard input
    #[arg(long, value_name = "TEXT|-", allow_hyphen_values = true)]
    prompt: String,
    /// Tokens to append at most
    #[arg(long, value_name = "N", default_value_t = SamplingSettings::default().max_new_tokens, allow_hyphen_values = true)]
    max_new_tokens: usize,
    /// Always take the most likely token
    #[arg(long, conflicts_with_all = ["temperature", "top_k", "top_p", "min_p", "seed"])]
    greedy: bool,
    /// Divides the logits; 0 is greedy
    #[arg(long, value_name = "T", default_value_t = SamplingSettings::default().temperature, allow_hyphen_values = true)]
    temperature: f32,
    /// Keeps the K most likely tokens; 0 keeps all
    #[arg(long, value_name = "K", default_value_t = SamplingSettings::default().top_k, allow_hyphen_values = true)]
    top_k: u32,
    /// Keeps the fewest tokens that hold this much probability; 1 keeps all
    #[arg(long, value_name = "P", default_value_t = SamplingSettings::default().top_p, allow_hyphen_values = true)]
    top_p: f32,
    /// Cuts tokens below this share of the most likely one's probability
    #[arg(long, value_name = "P", default_value_t = SamplingSettings::default().min_p, allow_hyphen_values = true)]
    min_p: f32,
    /// The same seed draws the same tokens
    #[arg(long, value_name = "S", default_value_t = SamplingSettings::default().seed, allow_hyphen_values = true)]
    seed: u64,
    /// Makes tokens that are already in the text less likely; 1 changes nothing
    #[arg(long, value_name = "R", default_value_t = SamplingSettings::default().repetition_penalty, allow_hyphen_values = true)]
    repetition_penalty: f32,
    /// Stops once the continuation contains this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    stop: Vec<String>,
    /// Uses the last tokens of a prompt that is longer than the context
    #[arg(long)]
    truncate: bool,
    /// Recomputes the whole sequence at every step
    #[arg(long)]
    no_cache: bool,
    /// One JSON object a line: prefill, each step, stop
    #[arg(long)]
    json: bool,
}

impl GenerateArgs {
    fn settings(&self) -> Result<SamplingSettings, CliError> {
        let settings = SamplingSettings {
            mode: if self.greedy {
                Mode::Greedy
            } else {
                Mode::Sample
            },
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            max_new_tokens: self.max_new_tokens,
            stop: self.stop.clone(),
        };
        settings.validate()?;
        Ok(settings)
    }
}

/// Runs the command, writing to `out`.
///
/// # Errors
/// Bad settings or input, a model that cannot be loaded, a closed output.
pub fn run(args: &GenerateArgs, global: &Global, out: &mut dyn Write) -> Result<(), CliError> {
    let settings = Arc::new(args.settings()?);
    let prompt = input::text(&args.prompt)?;
    let (mut engine, model) = input::engine(&global.request(global.source()?))?;
    if args.no_cache {
        engine = engine.without_cache();
    }
    let mut ids = input::prompt_ids(&model, &prompt)?;
    let keep = model.n_ctx - settings.max_new_tokens.min(model.n_ctx / 2);
    if args.truncate && ids.len() > model.n_ctx {
        ids = ids.split_off(ids.len() - keep);
    }
    input::fits(
        "prompt",
        ids.len(),
        model.n_ctx,
        &format!("use its last {keep} with --truncate"),
    )?;
    let request = RunRequest {
        epoch: 0,
        context: ids.clone(),
        from: if args.json { 0 } else { ids.len() - 1 },
        open: None,
        continuation: 0,
        budget: settings.max_new_tokens,
        settings: settings.clone(),
        pace: Pace::Unlimited,
    };
    let mut report = Report::new(&model, &settings, ids, args.json, out);
    let failed = Cell::new(false);
    let mut failure = None;
    let reason = engine.generate(request, &mut UntilFailure(&failed), &mut |event| {
        if failure.is_none()
            && let Err(error) = report.take(event)
        {
            failure = Some(error);
            failed.set(true);
        }
    })?;
    match failure {
        Some(error) => Err(error),
        None => report.stop(reason),
    }
}

/// Ends the run once nobody can read its output.
struct UntilFailure<'a>(&'a Cell<bool>);

impl Control for UntilFailure<'_> {
    fn wait(&mut self, _since: Option<Instant>, _live: &mut Live) -> ControlFlow<()> {
        self.check()
    }

    fn check(&mut self) -> ControlFlow<()> {
        if self.0.get() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// Writes what happens.
struct Report<'a> {
    model: &'a ModelInfo,
    settings: &'a Arc<SamplingSettings>,
    ids: Vec<u32>,
    prompt_len: usize,
    json: bool,
    out: &'a mut dyn Write,
    decoder: StreamDecoder,
    text: String,
    /// The logits that the next token is chosen from.
    open: Option<Arc<LogitsRow>>,
    prefill_ms: f64,
    pending: Option<StepLine>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line<'a> {
    Prefill {
        model: &'a str,
        device: &'a str,
        precision: Precision,
        settings: &'a SamplingSettings,
        seed: u64,
        ids: &'a [u32],
        tokens: Vec<String>,
        ms: f64,
    },
    Step(&'a StepLine),
    Stop {
        reason: StopReason,
        new_ids: &'a [u32],
        text: &'a str,
    },
}

#[derive(Serialize)]
struct StepLine {
    position: usize,
    id: u32,
    token: String,
    bytes: Vec<u8>,
    logit: f32,
    prob: f64,
    rank: usize,
    entropy_nats: f64,
    u: Option<f64>,
    top: Vec<TopRow>,
    ms: f64,
}

#[derive(Serialize)]
struct TopRow {
    id: u32,
    token: String,
    logit: f32,
    prob: f64,
    kept: bool,
    filtered_prob: f64,
}

impl<'a> Report<'a> {
    fn new(
        model: &'a ModelInfo,
        settings: &'a Arc<SamplingSettings>,
        ids: Vec<u32>,
        json: bool,
        out: &'a mut dyn Write,
    ) -> Self {
        Self {
            decoder: StreamDecoder::after(&model.tokenizer, &ids),
            prompt_len: ids.len(),
            model,
            settings,
            ids,
            json,
            out,
            text: String::new(),
            open: None,
            prefill_ms: 0.0,
            pending: None,
        }
    }

    fn tokenizer(&self) -> &'a Tokenizer {
        &self.model.tokenizer
    }

    fn take(&mut self, event: Event) -> Result<(), CliError> {
        match event {
            Event::Predicted {
                first, predictions, ..
            } => {
                let Some(last) = predictions.last() else {
                    return Ok(());
                };
                let end = first + predictions.len();
                self.open = last.logits.clone();
                if end <= self.prompt_len {
                    self.prefill_ms += last.timing.model_ms;
                    return if end == self.prompt_len {
                        self.prefill()
                    } else {
                        Ok(())
                    };
                }
                if let Some(mut step) = self.pending.take() {
                    step.ms = last.timing.model_ms;
                    self.line(&Line::Step(&step))?;
                }
                Ok(())
            }
            Event::Chosen { choice, .. } => self.chosen(choice.id, choice.u),
            _ => Ok(()),
        }
    }

    fn prefill(&mut self) -> Result<(), CliError> {
        if !self.json {
            return Ok(());
        }
        let tokens = self
            .ids
            .iter()
            .map(|&id| self.tokenizer().text_or_label(id))
            .collect();
        let (ids, ms) = (self.ids.clone(), self.prefill_ms);
        let (model, settings) = (self.model, self.settings);
        self.line(&Line::Prefill {
            model: &model.name,
            device: &model.device,
            precision: model.precision(),
            settings,
            seed: settings.seed,
            ids: &ids,
            tokens,
            ms,
        })
    }

    fn chosen(&mut self, id: u32, u: Option<f64>) -> Result<(), CliError> {
        if self.json
            && let Some(row) = self.open.take()
        {
            self.pending = Some(self.step(&row, id, u));
        }
        self.ids.push(id);
        let text = self.decoder.push(self.tokenizer(), id);
        self.text.push_str(&text);
        if !self.json {
            self.out.write_all(text.as_bytes())?;
            self.out.flush()?;
        }
        Ok(())
    }

    fn step(&self, row: &LogitsRow, id: u32, u: Option<f64>) -> StepLine {
        let tokenizer = self.tokenizer();
        let distribution = Distribution::new(&row.values, &self.ids, self.settings);
        let top = top(&row.values, TOP_ROWS)
            .into_iter()
            .map(|id| {
                let filtered = distribution.prob(id);
                TopRow {
                    id,
                    token: tokenizer.text_or_label(id),
                    logit: row.values[id as usize],
                    prob: row.prob(id),
                    kept: filtered.is_some(),
                    filtered_prob: filtered.unwrap_or(0.0),
                }
            })
            .collect();
        StepLine {
            position: self.ids.len(),
            id,
            token: tokenizer.text_or_label(id),
            bytes: tokenizer.bytes(id).to_vec(),
            logit: row.values.get(id as usize).copied().unwrap_or(f32::NAN),
            prob: row.prob(id),
            rank: rank(&row.values, id),
            entropy_nats: row.stats.entropy_nats,
            u,
            top,
            ms: 0.0,
        }
    }

    fn stop(mut self, reason: StopReason) -> Result<(), CliError> {
        let new_ids = self.ids.split_off(self.prompt_len);
        if !self.json {
            // A character that never became whole is not printed; its bytes are in the JSON steps.
            self.out.write_all(b"\n")?;
            self.out.flush()?;
            if io::stderr().is_terminal() || reason == StopReason::ContextFull {
                // Shown to a person; a script asks for --json, but should hear of a stop that it did not ask for.
                // A closed standard error tells nobody.
                let _ = writeln!(
                    io::stderr(),
                    "[{}; {} new tokens after {}; {}]",
                    reason.describe(),
                    new_ids.len(),
                    self.prompt_len,
                    self.model.device
                );
            }
            return Ok(());
        }
        self.text.push_str(&self.decoder.finish());
        let text = std::mem::take(&mut self.text);
        self.line(&Line::Stop {
            reason,
            new_ids: &new_ids,
            text: &text,
        })
    }

    fn line(&mut self, line: &Line) -> Result<(), CliError> {
        serde_json::to_writer(&mut *self.out, line)?;
        self.out.write_all(b"\n")?;
        Ok(self.out.flush()?)
    }
}
