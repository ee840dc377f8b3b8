//! `inspect`: one forward pass over a prompt or ids, with everything that it computed.

use std::io::Write;

use clap::Args;
use serde::{Serialize, Serializer, ser::SerializeSeq};

use super::{CliError, Global, input};
use crate::{
    model::{Gpt2, Gpt2Config, Logits, ModelError, Pass, Record},
    sampling::RowStats,
    tokenizer::Tokenizer,
    worker::{Engine, PREFILL_CHUNK},
};

#[derive(Debug, Args)]
pub struct InspectArgs {
    /// The text to run the model on; - reads standard input
    #[arg(
        long,
        value_name = "TEXT|-",
        required_unless_present = "ids",
        allow_hyphen_values = true
    )]
    prompt: Option<String>,
    /// Token ids, which win over a prompt and need no tokenizer
    #[arg(long, value_name = "I,J,…", allow_hyphen_values = true)]
    ids: Option<String>,
    /// Logits, [T][V]
    #[arg(long, requires = "json")]
    logits: bool,
    /// Attention weights, [L][H][T][T]
    #[arg(long, requires = "json")]
    attention: bool,
    /// Attention scores before softmax, [L][H][T][T], null above the diagonal
    #[arg(long, requires = "json")]
    scores: bool,
    /// Hidden states, [L+1][T][D], and residual_final, [T][D]
    #[arg(long, requires = "json")]
    hidden: bool,
    /// One JSON object; without it, a line for each token
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Inspection<'a> {
    ids: &'a [u32],
    tokens: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<Nested<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attention: Option<Nested<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Nested<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<Nested<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    residual_final: Option<Nested<'a>>,
}

/// A row-major array as nested JSON arrays; numbers that are not finite are null.
struct Nested<'a> {
    values: &'a [f32],
    shape: Vec<usize>,
}

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some((&len, inner)) = self.shape.split_first() else {
            return self.values.first().serialize(serializer);
        };
        if inner.is_empty() {
            return self.values.serialize(serializer);
        }
        let size: usize = inner.iter().product();
        let mut seq = serializer.serialize_seq(Some(len))?;
        for values in self.values.chunks(size.max(1)) {
            seq.serialize_element(&Nested {
                values,
                shape: inner.to_vec(),
            })?;
        }
        seq.end()
    }
}

/// Runs the command, writing to `out`.
///
/// # Errors
/// Bad input, a model that cannot be loaded, a closed output.
pub fn run(args: &InspectArgs, global: &Global, out: &mut dyn Write) -> Result<(), CliError> {
    let request = global.request(global.source()?);
    let (ids, gpt2, tokenizer) = match &args.ids {
        Some(ids) => {
            let ids = input::ids(ids)?;
            (
                ids,
                Engine::load_for_ids(&request)?.gpt2,
                Engine::tokenizer_of(&request.source).ok(),
            )
        }
        None => {
            let prompt = input::text(args.prompt.as_deref().unwrap_or_default())?;
            let (engine, model) = input::engine(&request)?;
            (
                input::prompt_ids(&model, &prompt)?,
                engine.gpt2,
                Some(model.tokenizer),
            )
        }
    };
    let record = Record {
        // The readable summary is made from logits.
        logits: if args.logits || !args.json {
            Logits::All
        } else {
            Logits::None
        },
        attention: args.attention || args.scores,
        scores: args.scores,
        hidden: args.hidden,
    };
    input::fits(
        "prompt",
        ids.len(),
        gpt2.config.n_ctx,
        "inspect it in parts",
    )?;
    let whole = Whole::compute(&gpt2, &ids, &record)?;
    let tokens: Vec<_> = ids
        .iter()
        .map(|&id| token(tokenizer.as_ref(), id))
        .collect();
    if !args.json {
        return summary(&whole, &ids, tokenizer.as_ref(), out);
    }
    let config = &gpt2.config;
    let (rows, square) = (
        ids.len(),
        vec![config.n_layer, config.n_head, ids.len(), ids.len()],
    );
    let nested = |wanted: bool, values, shape| wanted.then_some(Nested { values, shape });
    let inspection = Inspection {
        logits: nested(args.logits, &whole.logits, vec![rows, config.vocab_size]),
        attention: nested(args.attention, &whole.attention, square.clone()),
        scores: nested(args.scores, &whole.scores, square),
        hidden: nested(
            args.hidden,
            &whole.hidden,
            vec![config.n_layer + 1, rows, config.n_embd],
        ),
        residual_final: nested(
            args.hidden,
            &whole.residual_final,
            vec![rows, config.n_embd],
        ),
        ids: &ids,
        tokens,
    };
    serde_json::to_writer(&mut *out, &inspection)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

fn token(tokenizer: Option<&Tokenizer>, id: u32) -> String {
    tokenizer.map_or_else(|| format!("#{id}"), |tokenizer| tokenizer.text_or_label(id))
}

/// For each token, what the model expects next.
fn summary(
    whole: &Whole,
    ids: &[u32],
    tokenizer: Option<&Tokenizer>,
    out: &mut dyn Write,
) -> Result<(), CliError> {
    writeln!(
        out,
        "position\tid\ttoken\tentropy (nats)\tmost likely next id\ttoken"
    )?;
    let rows = whole.logits.chunks_exact(whole.vocab_size);
    let quoted = |id| tokenizer.map_or_else(|| "-".to_owned(), |tokenizer| tokenizer.quoted(id));
    for ((position, &id), row) in ids.iter().enumerate().zip(rows) {
        let next = match crate::sampling::top(row, 1)[..] {
            [next] => format!("{next}\t{}", quoted(next)),
            _ => "-\t-".to_owned(),
        };
        writeln!(
            out,
            "{position}\t{id}\t{}\t{:.4}\t{next}",
            quoted(id),
            RowStats::of(row).entropy_nats
        )?;
    }
    Ok(out.flush()?)
}

/// The chunks of a prefill put together.
struct Whole {
    vocab_size: usize,
    /// `[T, V]`
    logits: Vec<f32>,
    /// `[L, H, T, T]`, zero above the diagonal
    attention: Vec<f32>,
    /// `[L, H, T, T]`, negative infinity above the diagonal
    scores: Vec<f32>,
    /// `[L + 1, T, D]`
    hidden: Vec<f32>,
    /// `[T, D]`
    residual_final: Vec<f32>,
}

impl Whole {
    fn compute(gpt2: &Gpt2, ids: &[u32], record: &Record) -> Result<Self, ModelError> {
        let Gpt2Config {
            n_layer,
            n_head,
            n_embd,
            vocab_size,
            ..
        } = gpt2.config;
        let rows = ids.len();
        if rows == 0 {
            return Err(ModelError::NoTokens);
        }
        let square = n_layer * n_head * rows * rows;
        let mut whole = Self {
            vocab_size,
            logits: Vec::new(),
            attention: vec![0.0; if record.attention { square } else { 0 }],
            scores: vec![f32::NEG_INFINITY; if record.scores { square } else { 0 }],
            hidden: vec![
                0.0;
                if record.hidden {
                    (n_layer + 1) * rows * n_embd
                } else {
                    0
                }
            ],
            residual_final: Vec::new(),
        };
        let mut cache = gpt2.new_cache();
        for chunk in ids.chunks(PREFILL_CHUNK) {
            let pass = gpt2.forward(chunk, &mut cache, record)?;
            whole.take(&pass, rows, n_head, n_embd);
        }
        Ok(whole)
    }

    fn take(&mut self, pass: &Pass, rows: usize, n_head: usize, n_embd: usize) {
        self.logits.extend_from_slice(&pass.logits);
        self.residual_final.extend_from_slice(&pass.residual_final);
        let keys = pass.past + pass.rows;
        for (layer, attention) in pass.attention.iter().enumerate() {
            for head in 0..n_head {
                for row in 0..pass.rows {
                    let from = (head * pass.rows + row) * keys;
                    let to = ((layer * n_head + head) * rows + pass.past + row) * rows;
                    self.attention[to..to + keys]
                        .copy_from_slice(&attention.weights[from..from + keys]);
                    if !attention.scores.is_empty() {
                        self.scores[to..to + keys]
                            .copy_from_slice(&attention.scores[from..from + keys]);
                    }
                }
            }
        }
        let chunk = pass.rows * n_embd;
        for (stage, values) in pass.hidden.chunks_exact(chunk.max(1)).enumerate() {
            let to = (stage * rows + pass.past) * n_embd;
            self.hidden[to..to + chunk].copy_from_slice(values);
        }
    }
}
