//! GPT-2 on burn: sizes, weights, compute devices, KV cache and the forward pass.
//!
//! Owns everything that touches tensors. What leaves it are plain numbers ([`Pass`]) and sentences
//! ([`ModelError`]). It does not know text, sampling or windows, prints nothing, and runs on the
//! one thread that owns the compute device.

mod bench;
mod config;
mod cpu_kernels;
mod device;
mod error;
mod gpt2;
mod infer_config;
mod known_answer;
mod kv_cache;
mod layers;
mod lm_head;
mod load;
mod ops;
mod pickle;
mod precision;
mod pytorch_file;
mod random_weights;
mod safetensors_header;
mod self_check;
mod source;
mod survey;
mod tensor_files;

pub use bench::{BenchRecord, BenchResult, bare_read_ms, run_bench};
pub use config::{Activation, Gpt2Config};
pub use device::{ComputeDevice, DeviceChoice, DeviceKind, leave_the_window_a_core};
pub use error::ModelError;
pub use gpt2::{Gpt2, LayerAttention, Logits, Pass, Record};
pub use kv_cache::KvCache;
pub use lm_head::Streams;
pub use precision::{Precision, WeightBytes, WeightOptions};
pub use self_check::{CheckRow, Outcome, self_check, self_check_loaded};
pub(crate) use source::model_folder;
pub use source::{
    LoadRequest, ModelSource, TokenizerFiles, built_in_tokenizer_json, folder_tokenizer_files,
    source_config,
};
