//! The model of random weights that transformers was run on, and what it computed.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use safetensors::SafeTensors;
use serde::Deserialize;
use serde_json::Value;

/// Its sizes.
pub const N_LAYER: usize = 3;
pub const N_HEAD: usize = 4;
pub const N_EMBD: usize = 48;
pub const N_CTX: usize = 64;
pub const VOCAB_SIZE: usize = 400;

/// One prompt of expected.json, arrays flattened.
#[derive(Deserialize)]
pub struct Prompt {
    pub text: String,
    pub ids: Vec<u32>,
    /// `[T, V]`
    pub logits: Vec<f32>,
    /// `[L, H, T, T]`
    pub attention: Vec<f32>,
    /// `[L + 1, T, D]`
    pub hidden: Vec<f32>,
    pub token_log_probs: Vec<f64>,
    pub loss: Option<f64>,
    /// Prompt and continuation.
    pub greedy: Vec<u32>,
}

pub static PROMPTS: LazyLock<Vec<Prompt>> = LazyLock::new(|| {
    #[derive(Deserialize)]
    struct Expected {
        prompts: Vec<Prompt>,
    }
    let file = fixtures().join("expected.json");
    let text = fs::read_to_string(file).expect("expected.json");
    let expected: Expected = serde_json::from_str(&text).expect("what make_reference.py writes");
    expected.prompts
});

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpt2-tiny")
}

/// The model folder.
pub fn model() -> PathBuf {
    fixtures().join("safetensors")
}

/// A copy of the model folder that can be changed.
pub struct Copy(tempfile::TempDir);

impl Copy {
    pub fn new() -> Self {
        let copy = Self(tempfile::tempdir().expect("a temporary folder"));
        for name in ["config.json", "tokenizer.json", "model.safetensors"] {
            fs::copy(model().join(name), copy.0.path().join(name)).expect("a copy");
        }
        copy
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn remove(self, name: &str) -> Self {
        fs::remove_file(self.path().join(name)).expect("it was there");
        self
    }

    pub fn write(self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        fs::write(self.path().join(name), bytes).expect("it can be written");
        self
    }

    /// Changes a file's text.
    pub fn edit(self, name: &str, edit: impl FnOnce(&str) -> String) -> Self {
        let text = fs::read_to_string(self.path().join(name)).expect("a text");
        let edited = edit(&text);
        assert_ne!(edited, text, "nothing was changed in {name}");
        self.write(name, edited)
    }

    /// Changes a key of config.json.
    pub fn config(self, key: &str, value: Value) -> Self {
        self.edit("config.json", |text| {
            let mut config: Value = serde_json::from_str(text).expect("JSON");
            config[key] = value;
            config.to_string()
        })
    }

    /// Sets one number of a tensor.
    pub fn set_weight(self, tensor: &str, index: usize, value: f32) -> Self {
        let mut bytes = fs::read(self.path().join("model.safetensors")).expect("weights");
        let at = {
            let file = SafeTensors::deserialize(&bytes).expect("safetensors");
            let data = file.tensor(tensor).expect("the tensor").data();
            data.as_ptr() as usize - bytes.as_ptr() as usize + 4 * index
        };
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self.write("model.safetensors", bytes)
    }

    /// Gives the model a longer context: its positions over and over again.
    pub fn with_context(self, n_ctx: usize) -> Self {
        let bytes = fs::read(self.path().join("model.safetensors")).expect("weights");
        let file = SafeTensors::deserialize(&bytes).expect("safetensors");
        let positions: Vec<u8> = file
            .tensor("transformer.wpe.weight")
            .expect("positions")
            .data()
            .iter()
            .copied()
            .cycle()
            .take(n_ctx * N_EMBD * 4)
            .collect();
        let longer = file.tensors().into_iter().map(|(name, tensor)| {
            let view = if name == "transformer.wpe.weight" {
                let shape = vec![n_ctx, N_EMBD];
                safetensors::tensor::TensorView::new(tensor.dtype(), shape, &positions)
            } else {
                Ok(tensor)
            };
            (name, view.expect("a tensor"))
        });
        let file = safetensors::serialize(longer.collect::<Vec<_>>(), None).expect("weights");
        self.write("model.safetensors", file)
            .config("n_positions", n_ctx.into())
    }

    /// Takes the end-of-text away: the token becomes one like any other.
    pub fn without_end_of_text(self) -> Self {
        self.config("eos_token_id", Value::Null)
            .config("bos_token_id", Value::Null)
            .edit("tokenizer.json", |text| {
                text.replace("<|endoftext|>", "<|other|>")
            })
    }
}

/// The numbers of a tensor.
pub fn weights(tensor: &str) -> Vec<f32> {
    let bytes = fs::read(model().join("model.safetensors")).expect("weights");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let data = file.tensor(tensor).expect("the tensor").data();
    let (numbers, _) = data.as_chunks();
    numbers.iter().copied().map(f32::from_le_bytes).collect()
}

/// All pairs are within 1e-4, or that share of the largest magnitude where it is above 1.
#[track_caller]
pub fn assert_close(what: &str, actual: &[f32], expected: &[f32]) {
    let largest = expected
        .iter()
        .fold(1.0, |largest: f32, x| largest.max(x.abs()));
    assert_within(what, actual, expected, 1e-4 * largest);
}

#[track_caller]
pub fn assert_within(what: &str, actual: &[f32], expected: &[f32], limit: f32) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (index, (a, b)) in actual.iter().zip(expected).enumerate() {
        assert!(
            (a - b).abs() <= limit,
            "{what}, number {index}: {a}, not {b}"
        );
    }
}
