//! Where a model can come from, and the small files that come with it.
//!
//! Owns the built-in model's bytes, the choice of files in a folder and the sentence for each kind
//! of folder that is none. Weights are read by `load`. Any thread may use it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    config::Gpt2Config, device::DeviceChoice, error::ModelError, infer_config::infer_config,
    precision::WeightOptions, tensor_files::TensorFiles,
};

const BUILT_IN_CONFIG: &str = include_str!("../../assets/storyteller/config.json");
pub(super) const BUILT_IN_WEIGHTS: &[u8] =
    include_bytes!("../../assets/storyteller/model.safetensors");
const BUILT_IN_TOKENIZER: &[u8] = include_bytes!("../../assets/storyteller/tokenizer.json");

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelSource {
    /// The model that is part of the program.
    BuiltIn,
    /// A folder in Hugging Face layout, a file inside it, or a repository of the Hugging Face cache.
    Folder(PathBuf),
    /// Random weights of a given size and seed, for measuring.
    Random(Gpt2Config, u64),
}

/// A model to load, where to compute with it, and how its weights are kept.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadRequest {
    pub source: ModelSource,
    pub device: DeviceChoice,
    pub weights: WeightOptions,
}

impl LoadRequest {
    /// In f32, and with no unknown tensor allowed.
    pub fn new(source: ModelSource, device: DeviceChoice) -> Self {
        Self {
            source,
            device,
            weights: WeightOptions::default(),
        }
    }
}

/// The tokenizer of the built-in model.
pub fn built_in_tokenizer_json() -> &'static [u8] {
    BUILT_IN_TOKENIZER
}

/// The files that a folder's tokenizer is made of.
#[derive(Debug, Clone)]
pub enum TokenizerFiles {
    /// `tokenizer.json`.
    Json(Vec<u8>),
    /// `vocab.json` and `merges.txt` with `added_tokens.json` and `special_tokens_map.json`.
    VocabAndMerges {
        vocab: Vec<u8>,
        merges: Vec<u8>,
        added_tokens: Option<Vec<u8>>,
        special_tokens_map: Option<Vec<u8>>,
    },
}

/// The tokenizer files of a model folder, or of the folder that a picked file lies in.
///
/// # Errors
/// Where there are none, or one cannot be read.
pub fn folder_tokenizer_files(folder: &Path) -> Result<TokenizerFiles, ModelError> {
    let folder = model_folder(folder);
    let read = |name: &str| {
        let path = folder.join(name);
        path.exists().then(|| read_small(&path)).transpose()
    };
    if let Some(json) = read("tokenizer.json")? {
        return Ok(TokenizerFiles::Json(json));
    }
    match (read("vocab.json")?, read("merges.txt")?) {
        (Some(vocab), Some(merges)) => Ok(TokenizerFiles::VocabAndMerges {
            vocab,
            merges,
            added_tokens: read("added_tokens.json")?,
            special_tokens_map: read("special_tokens_map.json")?,
        }),
        (Some(_), None) => Err(ModelError::HalfTokenizer {
            folder,
            has: "vocab.json",
            lacks: "merges.txt",
        }),
        (None, Some(_)) => Err(ModelError::HalfTokenizer {
            folder,
            has: "merges.txt",
            lacks: "vocab.json",
        }),
        (None, None) => Err(ModelError::NoTokenizer(folder)),
    }
}

/// How many ids the folder's tokenizer names; `None` if that cannot be told.
pub(super) fn named_tokens(folder: &Path) -> Option<usize> {
    let ids = |table: &Value| {
        let ids = table.as_object()?.values().filter_map(Value::as_u64);
        ids.max()
    };
    let parse = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    let largest = match folder_tokenizer_files(folder).ok()? {
        TokenizerFiles::Json(json) => {
            let json = parse(&json)?;
            let added = json["added_tokens"].as_array();
            let added = added.into_iter().flatten();
            let added = added.filter_map(|token| token["id"].as_u64()).max();
            ids(&json["model"]["vocab"]).max(added)
        }
        TokenizerFiles::VocabAndMerges {
            vocab,
            added_tokens,
            ..
        } => {
            let added = added_tokens.and_then(|bytes| ids(&parse(&bytes)?));
            ids(&parse(&vocab)?).max(added)
        }
    };
    usize::try_from(largest?.checked_add(1)?).ok()
}

/// Refuse a picked file that no model consists of: whatever lies beside it was not meant.
pub(super) fn check_picked(path: &Path) -> Result<(), ModelError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let belongs = name == "merges.txt"
        || [".safetensors", ".bin", ".json"]
            .iter()
            .any(|end| name.ends_with(end));
    if path.is_file() && !belongs {
        return Err(ModelError::NoModelFile(path.into()));
    }
    Ok(())
}

/// The folder that is meant by a path: itself, the one that a picked file lies in, or the
/// snapshot of a repository in the Hugging Face cache.
pub(crate) fn model_folder(path: &Path) -> PathBuf {
    if path.is_file() {
        // Not through links: in the cache they lead out of the folder.
        let parent = path.parent().map(Path::to_owned).unwrap_or_default();
        return if parent.as_os_str().is_empty() {
            PathBuf::from(".")
        } else {
            parent
        };
    }
    let snapshots = path.join("snapshots");
    if !snapshots.is_dir() || path.join("config.json").exists() {
        return path.to_owned();
    }
    if let Ok(revision) = std::fs::read_to_string(path.join("refs").join("main")) {
        let snapshot = snapshots.join(revision.trim());
        if !revision.trim().is_empty() && snapshot.is_dir() {
            return snapshot;
        }
    }
    let folders = std::fs::read_dir(&snapshots).into_iter().flatten();
    let mut folders = folders.filter_map(|entry| Some(entry.ok()?.path()));
    match (folders.next(), folders.next()) {
        (Some(only), None) => only,
        _ => path.to_owned(),
    }
}

/// The sizes of a source, without its weights.
///
/// # Errors
/// Where the folder holds no GPT-2, or its sizes are refused.
pub fn source_config(source: &ModelSource) -> Result<Gpt2Config, ModelError> {
    match source {
        ModelSource::BuiltIn => Gpt2Config::from_json(BUILT_IN_CONFIG),
        ModelSource::Folder(path) => {
            check_picked(path)?;
            Ok(folder_config(&model_folder(path))?.0)
        }
        ModelSource::Random(config, _) => config.validate().map(|()| config.clone()),
    }
}

/// The sizes of the model in a folder; without a config.json, what its tensors tell and a note.
pub(super) fn folder_config(folder: &Path) -> Result<(Gpt2Config, Option<String>), ModelError> {
    if !folder.exists() {
        return Err(ModelError::NoFolder(folder.into()));
    }
    let path = folder.join("config.json");
    if path.exists() {
        return Ok((Gpt2Config::from_json(&read_small_text(&path)?)?, None));
    }
    match TensorFiles::open_folder(folder) {
        Ok(files) => infer_config(folder, &files).map(|(config, note)| (config, Some(note))),
        Err(ModelError::NoWeights(folder)) => Err(ModelError::NoModel(folder)),
        Err(error) => Err(error),
    }
}

/// Read a JSON file of a model folder whole, unless it is far larger than any such file.
pub(super) fn read_small_text(path: &Path) -> Result<String, ModelError> {
    Ok(String::from_utf8_lossy(&read_small(path)?).into_owned())
}

fn read_small(path: &Path) -> Result<Vec<u8>, ModelError> {
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
    std::fs::read(path).map_err(io)
}
