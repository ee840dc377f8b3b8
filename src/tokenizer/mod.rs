//! Ids ↔ text: loading, encoding, exact bytes, legible labels, editing, incremental decoding.
//!
//! Owns everything between a text and token ids, for any tokenizer.json that the `tokenizers`
//! crate loads; it knows no model and no window. All of it is immutable after loading and may be
//! used from any thread; clones share one table.
//!
//! # How ids become text
//!
//! A byte-level token (GPT-2's) is a string of bytes that need not be valid UTF-8 by itself: a
//! character may span several tokens, and a sequence of tokens may never become valid. The rules,
//! kept by [`Tokenizer::layout`], [`Tokenizer::decode`] and [`StreamDecoder`] alike:
//!
//! - The bytes of all ids are put together. A character belongs to the token that completes it.
//! - Bytes that are part of no character are drawn as one U+FFFD for each run of them within a
//!   token: a token that completes no character is exactly one U+FFFD, and no byte is invisible.
//! - So is an id outside the vocabulary, which has no bytes; no character reaches across it.
//!
//! A U+FFFD that was typed is a character with bytes of its own (EF BF BD), not a placeholder.
//!
//! # Other tokenizers
//!
//! Where tokens are not byte strings (WordPiece, SentencePiece-like), the bytes of a token are its
//! text with the spaces that its decoder would put in: `▁the` is ` the`, `##ing` is `ing`. Such
//! tokenizers may change a text (lower case, unknown words); [`Edit::exact`] says when.

mod byte_level;
mod edit;
mod find;
mod label;
mod layout;
mod load;
mod stream;
mod vocab_and_merges;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use edit::Edit;
pub use layout::{Placeholder, TextLayout};
pub use load::TokenizerError;
pub use stream::StreamDecoder;
pub use vocab_and_merges::VocabAndMerges;

/// A loaded tokenizer. Cloning is cheap.
#[derive(Clone)]
pub struct Tokenizer {
    inner: Arc<Inner>,
}

struct Inner {
    encoder: tokenizers::Tokenizer,
    /// For text that does not begin the sequence, where that differs (`add_prefix_space`).
    continuation: Option<tokenizers::Tokenizer>,
    /// Exact bytes by id; `None` for ids between others that no token has.
    pieces: Vec<Option<Box<[u8]>>>,
    special: HashSet<u32>,
    /// The token that is exactly this byte, in byte-level and byte-fallback vocabularies.
    byte_ids: [Option<u32>; 256],
    end_of_text: Option<u32>,
    /// Ids that the files name; more than `pieces` where the model's table has fewer rows.
    named: usize,
    byte_level: bool,
    /// The space before the first token is the tokenizer's own and not shown.
    strip_first: bool,
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .finish_non_exhaustive()
    }
}

impl Tokenizer {
    /// Loads the contents of a tokenizer.json.
    ///
    /// Truncation, padding and BPE dropout that the file asks for are turned off: a playground
    /// shows all of a text and the same ids every time. `<|endoftext|>` becomes a control token if
    /// the vocabulary has it, whether the file lists it as one or not.
    ///
    /// # Errors
    /// [`TokenizerError`], one sentence, for anything the crate refuses or panics on.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TokenizerError> {
        load::load(bytes).map(|inner| Self {
            inner: Arc::new(inner),
        })
    }

    /// Loads `vocab.json` with `merges.txt` and what may lie beside them.
    ///
    /// # Errors
    /// As [`Self::from_json`]; the sentence names the file.
    pub fn from_vocab_and_merges(files: &VocabAndMerges<'_>) -> Result<Self, TokenizerError> {
        Self::from_json(&vocab_and_merges::to_json(files)?)
    }

    /// The same tokenizer for a model whose table has `rows` rows: tokens past them, which such a
    /// model cannot read, are neither recognised nor found. Text that contains them is spelled in
    /// other tokens.
    ///
    /// # Errors
    /// Where the rest is no tokenizer.
    pub fn for_table(&self, rows: usize) -> Result<Self, TokenizerError> {
        if self.vocab_size() <= rows {
            return Ok(self.clone());
        }
        load::without_tokens_past(&self.inner, rows).map(|inner| Self {
            inner: Arc::new(inner),
        })
    }

    /// How many ids the files name, whether the model has rows for them or not.
    pub fn named_tokens(&self) -> usize {
        self.inner.named
    }

    /// The largest id plus 1.
    pub fn vocab_size(&self) -> usize {
        self.inner.pieces.len()
    }

    /// Whether tokens are exact byte strings, so that every byte string has ids.
    pub fn is_byte_level(&self) -> bool {
        self.inner.byte_level
    }

    /// The ids of a text. Special tokens written in it are recognised; nothing is added.
    ///
    /// Where the crate fails on a text, a byte-level vocabulary spells it in single bytes, and any
    /// other leaves out the characters that it cannot spell.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        self.encode_with(&self.inner.encoder, text)
    }

    /// [`encode`](Self::encode) for text that other tokens stand before.
    pub(crate) fn encode_continuation(&self, text: &str) -> Vec<u32> {
        self.encode_with(
            self.inner
                .continuation
                .as_ref()
                .unwrap_or(&self.inner.encoder),
            text,
        )
    }

    fn encode_with(&self, encoder: &tokenizers::Tokenizer, text: &str) -> Vec<u32> {
        if text.is_empty() {
            return Vec::new();
        }
        if let Some(ids) = try_encode(encoder, text) {
            return self.within_table(encoder, ids);
        }
        if self.inner.byte_level {
            return text
                .bytes()
                .filter_map(|b| self.inner.byte_ids[usize::from(b)])
                .collect();
        }
        let mut buffer = [0; 4];
        text.chars()
            .filter_map(|c| try_encode(encoder, c.encode_utf8(&mut buffer)))
            .flatten()
            .filter(|&id| (id as usize) < self.vocab_size())
            .collect()
    }

    /// Spells tokens past the model's table in single bytes; what has none is left out.
    fn within_table(&self, encoder: &tokenizers::Tokenizer, ids: Vec<u32>) -> Vec<u32> {
        let rows = self.vocab_size();
        if ids.iter().all(|&id| (id as usize) < rows) {
            return ids;
        }
        let spelled = |id: u32| {
            let bytes = encoder.id_to_token(id).map(|t| byte_level::unspell(&t));
            let bytes = bytes.filter(|_| self.inner.byte_level).unwrap_or_default();
            bytes
                .into_iter()
                .filter_map(|byte| self.inner.byte_ids[usize::from(byte)])
                .collect()
        };
        ids.into_iter()
            .flat_map(|id| {
                if (id as usize) < rows {
                    vec![id]
                } else {
                    spelled(id)
                }
            })
            .collect()
    }

    /// The ids of a byte string: its valid UTF-8 as [`encode`](Self::encode) gives them, every other
    /// byte as a single-byte token. Bytes that have none are left out; GPT-2's vocabulary has all.
    pub fn encode_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        let mut ids = Vec::new();
        for chunk in bytes.utf8_chunks() {
            ids.extend(if ids.is_empty() {
                self.encode(chunk.valid())
            } else {
                self.encode_continuation(chunk.valid())
            });
            ids.extend(
                chunk
                    .invalid()
                    .iter()
                    .filter_map(|&b| self.inner.byte_ids[usize::from(b)]),
            );
        }
        ids
    }

    /// The exact bytes of a token; empty for an id outside the vocabulary.
    pub fn bytes(&self, id: u32) -> &[u8] {
        self.piece(id).unwrap_or_default()
    }

    /// The bytes of a token, `None` outside the vocabulary.
    fn piece(&self, id: u32) -> Option<&[u8]> {
        self.inner.pieces.get(id as usize)?.as_deref()
    }

    /// The bytes that a token adds to a text in which it is the first, or not.
    fn piece_in_text(&self, id: u32, first: bool) -> Option<&[u8]> {
        let piece = self.piece(id)?;
        let stripped = if first && self.inner.strip_first {
            piece.strip_prefix(b" ")
        } else {
            None
        };
        Some(stripped.unwrap_or(piece))
    }

    /// Whether a token is a control token, such as end-of-text.
    pub fn is_special(&self, id: u32) -> bool {
        self.inner.special.contains(&id)
    }

    /// The id of a token, written as the vocabulary does (`Ġthe`) or as its text (` the`).
    pub fn id_of(&self, token: &str) -> Option<u32> {
        let id = self.inner.encoder.token_to_id(token).or_else(|| {
            let spelled = self
                .inner
                .byte_level
                .then(|| byte_level::spell(token.as_bytes()))?;
            self.inner.encoder.token_to_id(&spelled)
        });
        id.filter(|&id| (id as usize) < self.vocab_size())
    }

    /// The token that ends a text: `<|endoftext|>`, else `</s>`, `<eos>` or another usual name.
    /// `None` if the vocabulary has none of them.
    pub fn end_of_text(&self) -> Option<u32> {
        self.inner.end_of_text
    }

    /// The text of a token where that is valid UTF-8, else its label.
    pub fn text_or_label(&self, id: u32) -> String {
        match self.piece(id).map(std::str::from_utf8) {
            Some(Ok(text)) if !text.is_empty() => text.to_owned(),
            _ => self.label(id),
        }
    }

    /// A token in a line of output: its text in quotes, escaped, or `bytes F0 9F` where it is no text of its own.
    pub fn quoted(&self, id: u32) -> String {
        let Some(bytes) = self.piece(id).filter(|bytes| !bytes.is_empty()) else {
            return format!("#{id}");
        };
        match std::str::from_utf8(bytes) {
            Ok(text) => format!("{text:?}"),
            Err(_) => bytes.iter().fold("bytes".to_owned(), |line, byte| {
                format!("{line} {byte:02X}")
            }),
        }
    }
}

/// `None` where the crate returns an error or panics; it does both on some odd vocabularies.
fn try_encode(encoder: &tokenizers::Tokenizer, text: &str) -> Option<Vec<u32>> {
    // Unwind safety: the encoder is only read; its word cache is tried, never waited for.
    let encoded = catch_unwind(AssertUnwindSafe(|| encoder.encode_fast(text, false)));
    Some(encoded.ok()?.ok()?.get_ids().to_vec())
}
