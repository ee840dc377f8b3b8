//! What the commands read: texts, ids, models.

use std::{
    io::{self, Read},
    ops::ControlFlow,
    path::PathBuf,
};

use super::CliError;
use crate::{
    hub::{Hub, RepoId, Revision},
    model::{Gpt2Config, LoadRequest, ModelSource},
    worker::{Engine, ModelInfo},
};

/// Shapes that `--shape` knows, the sizes in which GPT-2 was published.
const SHAPES: &str = "gpt2, distilgpt2, gpt2-medium, gpt2-large, gpt2-xl";

/// Far more text than any context holds; an endless input ends here instead of in a full memory.
const MAX_STDIN_BYTES: u64 = 64 << 20;

/// A text argument; `-` reads all of standard input, as it is.
///
/// # Errors
/// Where standard input is not UTF-8 or cannot be read.
pub fn text(argument: &str) -> Result<String, CliError> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut bytes = Vec::new();
    io::stdin()
        .take(MAX_STDIN_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CliError::Input(format!("cannot read standard input: {error}")))?;
    if bytes.len() as u64 > MAX_STDIN_BYTES {
        return Err(CliError::Input(format!(
            "standard input holds more than {} MiB; give a shorter text",
            MAX_STDIN_BYTES >> 20
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        CliError::Input(format!(
            "standard input is not UTF-8: byte {at} begins no character; convert the text to UTF-8"
        ))
    })
}

/// A model folder, or a model that was fetched by name; without either, the built-in model.
///
/// # Errors
/// Where there is neither on this computer: a name never downloads.
pub fn model(argument: Option<&str>) -> Result<ModelSource, CliError> {
    let Some(argument) = argument else {
        return Ok(ModelSource::BuiltIn);
    };
    let folder = PathBuf::from(argument);
    if folder.exists() {
        return Ok(ModelSource::Folder(folder));
    }
    if let Ok(repo) = RepoId::parse(argument) {
        return match Hub::from_env()?.find(&repo, &Revision::default()) {
            Some(folder) => Ok(ModelSource::Folder(folder)),
            None => Err(CliError::Input(format!(
                "{argument} is not on this computer; run: logitscope fetch {argument}"
            ))),
        };
    }
    Err(CliError::Input(format!(
        "there is no model folder '{argument}' here; give a folder that holds config.json, model.safetensors and tokenizer.json"
    )))
}

/// A model of random weights.
///
/// # Errors
/// Where the shape is not one that GPT-2 was published in.
pub fn random_model(shape: &str) -> Result<ModelSource, CliError> {
    match Gpt2Config::shape(shape) {
        Some(config) => Ok(ModelSource::Random(config, 0)),
        None => Err(CliError::Input(format!(
            "unknown shape '{shape}'; use one of {SHAPES}"
        ))),
    }
}

/// Comma-separated token ids.
///
/// # Errors
/// Where one of them is no number that an id can be.
pub fn ids(argument: &str) -> Result<Vec<u32>, CliError> {
    argument
        .split(',')
        .map(|id| {
            let id = id.trim();
            id.parse().map_err(|_| {
                CliError::Input(format!(
                    "'{id}' is not a token id; give whole numbers from 0, separated by commas"
                ))
            })
        })
        .collect()
}

/// Loads a model with its tokenizer.
///
/// # Errors
/// As [`Engine::load`].
pub fn engine(request: &LoadRequest) -> Result<(Engine, ModelInfo), CliError> {
    let (engine, info) = Engine::load(request, &mut |_, _| ControlFlow::Continue(()))?;
    for note in &info.notes {
        eprintln!("note: {note}");
    }
    Ok((engine, info))
}

/// Refuses a `what` of more tokens than the context holds, with one more way out than to shorten it.
///
/// # Errors
/// Where there are more.
pub fn fits(what: &str, tokens: usize, n_ctx: usize, way_out: &str) -> Result<(), CliError> {
    if tokens <= n_ctx {
        return Ok(());
    }
    Err(CliError::Input(format!(
        "the {what} has {tokens} tokens and the model's context holds {n_ctx}; shorten it, or {way_out}"
    )))
}

/// The prompt's ids; an empty prompt is a lone end-of-text.
///
/// # Errors
/// Where the prompt is empty and the model has no end-of-text.
pub fn prompt_ids(model: &ModelInfo, prompt: &str) -> Result<Vec<u32>, CliError> {
    let ids = model.tokenizer.encode(prompt);
    match (ids.is_empty(), model.end_of_text) {
        (false, _) => Ok(ids),
        (true, Some(end_of_text)) => Ok(vec![end_of_text]),
        (true, None) => Err(CliError::Input(
            "the prompt is empty and this model has no end-of-text token to start from; give a prompt".to_owned(),
        )),
    }
}
