//! Where a model can come from, and the small files that come with it.
//!
//! Owns the built-in model's bytes, the choice of files in a folder and the sentence for each kind
//! of folder that is none. Weights are read by `load`. Any thread may use it.

use std::path::{Path, PathBuf};

use super::{config::Gpt2Config, error::ModelError};

const BUILT_IN_CONFIG: &str = include_str!("../../assets/storyteller/config.json");
pub(super) const BUILT_IN_WEIGHTS: &[u8] =
    include_bytes!("../../assets/storyteller/model.safetensors");
const BUILT_IN_TOKENIZER: &[u8] = include_bytes!("../../assets/storyteller/tokenizer.json");

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelSource {
    /// The model that is part of the program.
    BuiltIn,
    /// A folder in Hugging Face layout.
    Folder(PathBuf),
    /// Random weights of a given size and seed, for measuring.
    Random(Gpt2Config, u64),
}

/// The tokenizer of the built-in model.
pub fn built_in_tokenizer_json() -> &'static [u8] {
    BUILT_IN_TOKENIZER
}

/// The tokenizer file of a model folder.
pub fn folder_tokenizer_json(folder: &Path) -> Result<Vec<u8>, ModelError> {
    let path = folder.join("tokenizer.json");
    if !path.exists() {
        let both = ["vocab.json", "merges.txt"].map(|name| folder.join(name).exists());
        return Err(if both == [true, true] {
            ModelError::OnlyVocabAndMerges(folder.into())
        } else {
            ModelError::NoTokenizer(folder.into())
        });
    }
    std::fs::read(&path).map_err(|source| ModelError::Io { path, source })
}

/// The sizes of a source, without its weights.
pub fn source_config(source: &ModelSource) -> Result<Gpt2Config, ModelError> {
    match source {
        ModelSource::BuiltIn => Gpt2Config::from_json(BUILT_IN_CONFIG),
        ModelSource::Folder(folder) => folder_config(folder),
        ModelSource::Random(config, _) => config.validate().map(|()| config.clone()),
    }
}

fn folder_config(folder: &Path) -> Result<Gpt2Config, ModelError> {
    if !folder.exists() {
        return Err(ModelError::NoFolder(folder.into()));
    }
    if !folder.is_dir() {
        return Err(ModelError::NotAFolder(folder.into()));
    }
    let path = folder.join("config.json");
    if !path.exists() {
        let weights = [
            "model.safetensors",
            "model.safetensors.index.json",
            "pytorch_model.bin",
        ];
        return Err(if weights.iter().any(|name| folder.join(name).exists()) {
            ModelError::NoConfig(folder.into())
        } else {
            ModelError::NoModel(folder.into())
        });
    }
    let text = read_small_text(&path)?;
    Gpt2Config::from_json(&text)
}

/// Read a JSON file of a model folder whole, unless it is far larger than any such file.
pub(super) fn read_small_text(path: &Path) -> Result<String, ModelError> {
    const LIMIT: u64 = 32 << 20;
    let io = |source| ModelError::Io {
        path: path.into(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    if bytes > LIMIT {
        return Err(ModelError::TooLarge {
            path: path.into(),
            bytes,
            limit: LIMIT,
        });
    }
    let bytes = std::fs::read(path).map_err(io)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
