//! Tables on the built-in tokenizer and on small ones made for one question each.

mod edit;
mod labels;
mod layout;
mod load;

use serde_json::{Value, json};

use super::*;

/// The built-in tokenizer: byte-level, all 256 bytes, knows ASCII words only.
pub fn story() -> Tokenizer {
    let json = include_bytes!("../../../assets/storyteller/tokenizer.json");
    Tokenizer::from_json(json).unwrap()
}

/// A byte-level tokenizer.json: ids 0-255 are the bytes, then come `extra` tokens that no merge
/// makes, so that only a model can choose them.
pub fn byte_level_json(extra: &[&[u8]]) -> Value {
    let bytes: Vec<Vec<u8>> = (0..=255).map(|b| vec![b]).collect();
    let vocab: serde_json::Map<String, Value> = bytes
        .iter()
        .map(Vec::as_slice)
        .chain(extra.iter().copied())
        .zip(0..)
        .map(|(token, id): (&[u8], u32)| (byte_level::spell(token), json!(id)))
        .collect();
    json!({
        "version": "1.0",
        "added_tokens": [],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    })
}

pub fn load(json: &Value) -> Tokenizer {
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
}

pub fn bytes_and(extra: &[&[u8]]) -> Tokenizer {
    load(&byte_level_json(extra))
}
