//! What can go wrong between a model folder and its numbers, each as one sentence.
//!
//! Every message names the file, the tensor or the key and says what to do. Nothing here prints;
//! the caller shows the message once.

use std::path::PathBuf;

/// Why a model could not be opened or run.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("{} does not exist; choose a folder that holds config.json and model.safetensors", .0.display())]
    NoFolder(PathBuf),
    #[error("{} is no file of a model; choose the folder that holds config.json and the weights, or one of these", .0.display())]
    NoModelFile(PathBuf),
    #[error("{} holds no GPT-2: config.json and the weights (model.safetensors or pytorch_model.bin) are both missing; choose a folder in Hugging Face layout", .0.display())]
    NoModel(PathBuf),
    #[error(
        "{} has weights but no config.json, and the tensors do not tell {key}; copy the config.json \
         that belongs to them into the folder", folder.display()
    )]
    NoConfig { folder: PathBuf, key: &'static str },
    #[error("{} has a config.json but neither model.safetensors nor pytorch_model.bin; copy the weights into the folder", .0.display())]
    NoWeights(PathBuf),
    #[error("{} has the shard {shard} but no {index}; download that file too", folder.display())]
    NoIndex {
        folder: PathBuf,
        index: &'static str,
        shard: String,
    },
    #[error(
        "{} has no tokenizer.json, nor vocab.json with merges.txt; copy the tokenizer that belongs to \
         the model into the folder", .0.display()
    )]
    NoTokenizer(PathBuf),
    #[error("{} has {has} but no {lacks}; copy the {lacks} that belongs to the model into the folder", folder.display())]
    HalfTokenizer {
        folder: PathBuf,
        has: &'static str,
        lacks: &'static str,
    },
    #[error("cannot read {}: {source}", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },

    #[error("{} has {bytes} bytes, but such a file has at most {limit}; choose another folder", path.display())]
    TooLarge {
        path: PathBuf,
        bytes: u64,
        limit: u64,
    },

    #[error("config.json: {0}")]
    Config(String),

    #[error("{file} is not a safetensors file: {problem}; download it again")]
    Header { file: String, problem: String },
    #[error(
        "{file} is cut short: its header promises {expected} bytes, the file has {found}; download it again"
    )]
    Truncated {
        file: String,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file} has {found} bytes, but its header accounts for only {expected}; download it again"
    )]
    Overlong {
        file: String,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file} cannot be read as PyTorch weights: {problem}; download it again or save the model as safetensors"
    )]
    Pytorch { file: String, problem: String },
    #[error(
        "{file}: the tensor {name} is a view whose values are neither row after row nor column after \
         column; make it contiguous and save the model again"
    )]
    Scattered { file: String, name: String },
    #[error(
        "{file}: the tensor {name} is transposed against {other}; a model has all its matrices as \
         [in, out] or all as [out, in]: save it again with one tool"
    )]
    MixedLayout {
        file: String,
        name: String,
        other: String,
    },
    #[error(
        "{file} holds the tensor {name}, which a GPT-2 with this config.json does not have; \
         allow unknown tensors (--allow-unknown-tensors) to load the model without it"
    )]
    UnknownTensor { file: String, name: String },
    #[error("{file} holds the tensor {name} twice, with and without the transformer. prefix")]
    DuplicateTensor { file: String, name: String },
    #[error("{file} lacks the tensor {name}, which config.json calls for")]
    MissingTensor { file: String, name: String },
    #[error(
        "{file}: the tensor {name} has shape {found:?}, but config.json asks for {expected:?}; \
         the two do not belong together"
    )]
    Shape {
        file: String,
        name: String,
        expected: Vec<usize>,
        found: Vec<usize>,
    },
    #[error("{file}: the tensor {name} has type {dtype}; only F32, F16 and BF16 can be read")]
    Dtype {
        file: String,
        name: String,
        dtype: String,
    },

    #[error(
        "{file}: the tensor {name} holds {value}, which is beyond the range of f16 (65,504); load the model in f32"
    )]
    BeyondF16 {
        file: String,
        name: String,
        value: f32,
    },

    #[error("{index}: {problem}")]
    Index {
        index: &'static str,
        problem: String,
    },
    #[error("{index} names the shard {shard}, which is missing from the folder; download it")]
    MissingShard { index: &'static str, shard: String },
    #[error(
        "{index} says that {shard} holds {name}, but it does not; \
         the index is stale: download it and the shards again"
    )]
    StaleIndex {
        index: &'static str,
        shard: String,
        name: String,
    },

    #[error("no GPU found: {0}; choose the CPU")]
    NoAdapter(String),
    #[error("{device} does not compute with f16; load the model in f32")]
    NoF16 { device: String },
    #[error("the GPU {name} cannot be used: {problem}; choose the CPU")]
    Adapter { name: String, problem: String },
    #[error(
        "the tensor {name} needs {bytes} bytes in one piece, but {device} allows {limit}; choose the CPU"
    )]
    TooLargeForDevice {
        name: String,
        bytes: u64,
        limit: u64,
        device: String,
    },
    #[error("the compute device failed: {0}; open the model again or choose the CPU")]
    Device(String),

    #[error("there are no tokens to run the model on")]
    NoTokens,
    #[error("token id {id} is outside the vocabulary of {vocab_size} tokens")]
    TokenOutOfRange { id: u32, vocab_size: usize },
    #[error(
        "{rows} more tokens after {past} exceed the context of {n_ctx} tokens; shorten the text"
    )]
    ContextFull {
        past: usize,
        rows: usize,
        n_ctx: usize,
    },
    #[error("the key/value cache belongs to another model; make a new one")]
    ForeignCache,
    #[error("loading was cancelled")]
    Cancelled,
}
