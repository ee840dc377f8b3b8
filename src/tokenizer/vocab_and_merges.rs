//! A tokenizer from `vocab.json` and `merges.txt`, as GPT-2 was first published.
//!
//! Owns the reading of these files and of the two small ones that may lie beside them. The result
//! is a tokenizer.json in memory, so that there is one way of loading.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Value, json};

use super::TokenizerError;

/// The contents of the files of a byte-level BPE tokenizer.
#[derive(Debug, Clone, Copy)]
pub struct VocabAndMerges<'a> {
    /// `vocab.json`: token → id.
    pub vocab: &'a [u8],
    /// `merges.txt`: two tokens a line, the first merge first; perhaps a `#version` line.
    pub merges: &'a [u8],
    /// `added_tokens.json`: token → id.
    pub added_tokens: Option<&'a [u8]>,
    /// `special_tokens_map.json`: which tokens are control tokens.
    pub special_tokens_map: Option<&'a [u8]>,
}

/// The same tokenizer as a tokenizer.json.
pub(super) fn to_json(files: &VocabAndMerges<'_>) -> Result<Vec<u8>, TokenizerError> {
    let vocab = ids("vocab.json", files.vocab)?;
    let mut added = match files.added_tokens {
        Some(bytes) => ids("added_tokens.json", bytes)?,
        None => HashMap::new(),
    };
    added.retain(|token, _| !vocab.contains_key(token));
    let special = match files.special_tokens_map {
        Some(bytes) => special_tokens(bytes)?,
        None => BTreeSet::new(),
    };

    // The library numbers added tokens on from the vocabulary, whatever the file says.
    let next = vocab.values().max().map_or(0, |id| u64::from(*id) + 1);
    let by_id: BTreeMap<u32, String> = added.iter().map(|(t, id)| (*id, t.clone())).collect();
    for (expected, (&id, token)) in (next..).zip(&by_id) {
        if u64::from(id) != expected || by_id.len() != added.len() {
            return Err(file_error(
                "added_tokens.json",
                format!(
                    "the token {token:?} has id {id} where {expected} comes next; copy the file \
                     that belongs to vocab.json"
                ),
            ));
        }
    }
    let in_vocab = special
        .iter()
        .filter_map(|token| Some((*vocab.get(token)?, token.clone())));
    let added_tokens: Vec<Value> = in_vocab
        .chain(by_id)
        .map(|(id, token)| {
            json!({
                "id": id, "special": special.contains(&token), "content": token,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            })
        })
        .collect();
    let byte_level = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    let json = json!({
        "version": "1.0",
        "added_tokens": added_tokens,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": { "type": "BPE", "vocab": vocab, "merges": merges(files.merges)? },
    });
    Ok(json.to_string().into_bytes())
}

fn file_error(file: &'static str, problem: String) -> TokenizerError {
    TokenizerError::File { file, problem }
}

fn text<'a>(file: &'static str, bytes: &'a [u8]) -> Result<&'a str, TokenizerError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|e| file_error(file, format!("not UTF-8 text ({e}); download it again")))?;
    Ok(text.trim_start_matches('\u{feff}'))
}

fn ids(file: &'static str, bytes: &[u8]) -> Result<HashMap<String, u32>, TokenizerError> {
    serde_json::from_str(text(file, bytes)?)
        .map_err(|e| file_error(file, format!("not a table of ids ({e}); download it again")))
}

/// Each value is a token, an object with a `content`, or a list of them.
fn special_tokens(bytes: &[u8]) -> Result<BTreeSet<String>, TokenizerError> {
    let file = "special_tokens_map.json";
    let map: HashMap<String, Value> = serde_json::from_str(text(file, bytes)?).map_err(|e| {
        file_error(
            file,
            format!("not a table of tokens ({e}); download it again"),
        )
    })?;
    let mut tokens = BTreeSet::new();
    for value in map.into_values() {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        for value in values {
            let content = value.get("content").unwrap_or(&value);
            tokens.extend(content.as_str().map(str::to_owned));
        }
    }
    Ok(tokens)
}

fn merges(bytes: &[u8]) -> Result<Vec<[&str; 2]>, TokenizerError> {
    let file = "merges.txt";
    let mut merges = Vec::new();
    for (number, line) in text(file, bytes)?.lines().enumerate() {
        // A merge may begin with `#` too.
        if line.is_empty() || line.starts_with("#version") {
            continue;
        }
        match line.split(' ').collect::<Vec<_>>()[..] {
            [a, b] if !a.is_empty() && !b.is_empty() => merges.push([a, b]),
            _ => {
                return Err(file_error(
                    file,
                    format!(
                        "line {} is not two tokens with a space between them; download it again",
                        number + 1
                    ),
                ));
            }
        }
    }
    Ok(merges)
}
