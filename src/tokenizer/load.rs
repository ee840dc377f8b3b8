//! From the bytes of a tokenizer.json to the tables of a [`Tokenizer`](super::Tokenizer).

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::{AddedToken, Tokenizer as Encoder};

use super::{Inner, byte_level};

/// Ids from here on are refused: tables are indexed by id, and a file of a few bytes must not be
/// able to ask for gigabytes. Four times the largest vocabulary in use.
const MAX_VOCAB: u32 = 1 << 20;

/// Names of the token that ends a text, the likeliest first.
const END_OF_TEXT: [&str; 8] = [
    "<|endoftext|>",
    "</s>",
    "<eos>",
    "<|end_of_text|>",
    "[EOS]",
    "<|eos|>",
    "<EOS>",
    "[SEP]",
];

/// Why a tokenizer.json was refused.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The crate's own words.
    #[error(
        "the tokenizer cannot be read: {0}; download tokenizer.json, or vocab.json and merges.txt, again"
    )]
    Unreadable(String),
    /// The crate panicked.
    #[error("the tokenizer cannot be used: the tokenizers library failed on it ({0})")]
    Failed(String),
    /// A file beside tokenizer.json or in place of it.
    #[error("the tokenizer cannot be read: {file}: {problem}")]
    File { file: &'static str, problem: String },
    #[error("the tokenizer cannot be used: its vocabulary is empty")]
    Empty,
    #[error("the tokenizer cannot be used: token {token:?} has id {id}, and ids above {} are not supported", MAX_VOCAB - 1)]
    IdTooLarge { token: String, id: u32 },
}

pub(super) fn load(bytes: &[u8]) -> Result<Inner, TokenizerError> {
    guarded(|| build(bytes))
}

/// `whole` for a table of `rows` rows, fewer than it has tokens.
pub(super) fn without_tokens_past(whole: &Inner, rows: usize) -> Result<Inner, TokenizerError> {
    guarded(|| {
        let unreadable = |e: &dyn std::fmt::Display| TokenizerError::Unreadable(e.to_string());
        let mut json = serde_json::to_value(&whole.encoder).map_err(|e| unreadable(&e))?;
        if let Some(added) = json["added_tokens"].as_array_mut() {
            added.retain(|token| token["id"].as_u64().is_none_or(|id| id < rows as u64));
        }
        let mut inner = build(json.to_string().as_bytes())?;
        inner.named = whole.named;
        inner.pieces.truncate(rows);
        let inside = |id: &u32| (*id as usize) < rows;
        inner.special.retain(inside);
        inner.byte_ids = inner.byte_ids.map(|id| id.filter(inside));
        inner.end_of_text = inner.end_of_text.filter(inside);
        if inner.pieces.iter().all(Option::is_none) {
            return Err(TokenizerError::Empty);
        }
        Ok(inner)
    })
}

/// The crate has `expect`s in its deserialisation. Nothing of it outlives a panic here.
fn guarded(make: impl FnOnce() -> Result<Inner, TokenizerError>) -> Result<Inner, TokenizerError> {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(TokenizerError::Failed(message.to_owned()))
    })
}

fn build(bytes: &[u8]) -> Result<Inner, TokenizerError> {
    let unreadable = |e: tokenizers::Error| TokenizerError::Unreadable(e.to_string());
    let mut encoder = Encoder::from_bytes(bytes).map_err(unreadable)?;
    encoder.with_truncation(None).map_err(unreadable)?;
    encoder.with_padding(None);
    if let ModelWrapper::BPE(bpe) = encoder.get_model()
        && bpe.dropout.is_some()
    {
        let mut bpe = bpe.clone();
        bpe.dropout = None;
        encoder.with_model(bpe);
    }

    let vocab = encoder.get_vocab(true);
    let Some((token, &id)) = vocab.iter().max_by_key(|&(_, &id)| id) else {
        return Err(TokenizerError::Empty);
    };
    if id >= MAX_VOCAB {
        return Err(TokenizerError::IdTooLarge {
            token: token.clone(),
            id,
        });
    }

    let name = END_OF_TEXT[0];
    if vocab.contains_key(name) && !encoder.get_added_vocabulary().is_special_token(name) {
        encoder
            .add_special_tokens([AddedToken::from(name, true)])
            .map_err(unreadable)?;
    }

    let style = Style::of(&encoder);
    let added = encoder.get_added_tokens_decoder();
    let pieces: Vec<Option<Box<[u8]>>> = (0..=id)
        .map(|id| {
            let bytes = match added.get(&id) {
                Some(token) => token.content.as_bytes().to_vec(),
                None => style.bytes(&encoder.id_to_token(id)?),
            };
            Some(bytes.into_boxed_slice())
        })
        .collect();
    let special: HashSet<u32> = added
        .iter()
        .filter(|(_, t)| t.special)
        .map(|(&id, _)| id)
        .collect();
    let end_of_text = END_OF_TEXT.iter().find_map(|name| {
        let id = encoder.token_to_id(name)?;
        special.contains(&id).then_some(id)
    });
    let byte_ids = std::array::from_fn(|byte| {
        let byte = byte as u8;
        let token = if style.byte_level {
            byte_level::byte_to_char(byte).to_string()
        } else {
            format!("<0x{byte:02X}>")
        };
        let id = encoder.token_to_id(&token)?;
        (pieces[id as usize].as_deref() == Some(&[byte])).then_some(id)
    });
    Ok(Inner {
        named: pieces.len(),
        continuation: without_prefix_space(&encoder),
        encoder,
        pieces,
        special,
        byte_ids,
        end_of_text,
        byte_level: style.byte_level,
        strip_first: style.strip_first,
        word_labels: false,
    })
}

/// A copy that puts no space before a text, `None` if the tokenizer puts none anyway.
fn without_prefix_space(encoder: &Encoder) -> Option<Encoder> {
    let mut pre = encoder.get_pre_tokenizer()?.clone();
    if !clear_prefix_space(&mut pre) {
        return None;
    }
    let mut copy = encoder.clone();
    copy.with_pre_tokenizer(Some(pre));
    Some(copy)
}

fn clear_prefix_space(pre: &mut PreTokenizerWrapper) -> bool {
    match pre {
        PreTokenizerWrapper::ByteLevel(level) => {
            std::mem::replace(&mut level.add_prefix_space, false)
        }
        PreTokenizerWrapper::Sequence(sequence) => sequence
            .as_mut()
            .iter_mut()
            .fold(false, |any, part| clear_prefix_space(part) | any),
        _ => false,
    }
}

/// How tokens of this vocabulary become text, read from the parts of the tokenizer.
///
/// The crate's decoders only work on whole sequences and only give text; these are their rules for
/// a single token.
#[derive(Default)]
struct Style {
    byte_level: bool,
    byte_fallback: bool,
    /// Done in this order to a token's text.
    replace: Vec<(String, String)>,
    /// Tokens without this prefix begin a word: they get a space.
    continues_word: Option<String>,
    strip_first: bool,
}

impl Style {
    fn of(encoder: &Encoder) -> Self {
        let decoders = parts(serde_json::to_value(encoder.get_decoder()), "decoders");
        let pre = parts(
            serde_json::to_value(encoder.get_pre_tokenizer()),
            "pretokenizers",
        );
        let normalizers = parts(
            serde_json::to_value(encoder.get_normalizer()),
            "normalizers",
        );

        let mut all = decoders.iter().chain(&pre).chain(&normalizers);
        let mut style = Self {
            byte_level: all.any(|p| kind(p) == "ByteLevel"),
            ..Self::default()
        };
        if style.byte_level {
            return style;
        }
        for part in if decoders.is_empty() { &pre } else { &decoders } {
            match kind(part) {
                "Metaspace" => {
                    style.replace.push((text(part, "replacement"), " ".into()));
                    style.strip_first |= text(part, "prepend_scheme") != "never";
                }
                "Replace" => {
                    let pattern = text(&part["pattern"], "String");
                    style.replace.push((pattern, text(part, "content")));
                }
                "BPEDecoder" => style.replace.push((text(part, "suffix"), " ".into())),
                "Strip" => style.strip_first |= text(part, "content") == " " && part["start"] != 0,
                "ByteFallback" => style.byte_fallback = true,
                "WordPiece" => {
                    style.continues_word = Some(text(part, "prefix"));
                    style.strip_first = true;
                }
                // Without a decoder the crate joins tokens with spaces; that is right where the
                // pre-tokenizer has dropped them.
                "Whitespace" | "WhitespaceSplit" | "BertPreTokenizer" => {
                    style.continues_word = Some("##".into());
                    style.strip_first = true;
                }
                _ => {}
            }
        }
        style.replace.retain(|(from, _)| !from.is_empty());
        style
    }

    fn bytes(&self, token: &str) -> Vec<u8> {
        if self.byte_level {
            return byte_level::unspell(token);
        }
        let hex = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>'));
        if self.byte_fallback
            && let Some(Ok(byte)) = hex.map(|hex| u8::from_str_radix(hex, 16))
        {
            return vec![byte];
        }
        let mut text = token.to_owned();
        for (from, to) in &self.replace {
            text = text.replace(from, to);
        }
        match &self.continues_word {
            Some(prefix) => match text.strip_prefix(prefix.as_str()) {
                Some(rest) if !prefix.is_empty() => rest.into(),
                _ => format!(" {text}").into_bytes(),
            },
            None => text.into_bytes(),
        }
    }
}

/// The parts of a normalizer, pre-tokenizer or decoder, sequences taken apart.
fn parts(value: Result<Value, serde_json::Error>, list: &str) -> Vec<Value> {
    match value {
        Ok(Value::Object(mut part)) => match part.remove(list) {
            Some(Value::Array(inner)) => {
                inner.into_iter().flat_map(|p| parts(Ok(p), list)).collect()
            }
            _ => vec![Value::Object(part)],
        },
        _ => Vec::new(),
    }
}

fn kind(part: &Value) -> &str {
    part["type"].as_str().unwrap_or_default()
}

fn text(part: &Value, field: &str) -> String {
    part[field].as_str().unwrap_or_default().to_owned()
}
