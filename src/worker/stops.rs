//! Stop strings: matched on the decoded continuation, across tokens. Shared by the loop and by what the window says
//! of it.

use crate::tokenizer::{StreamDecoder, Tokenizer};

/// Finds stop strings in the decoded continuation, across tokens.
pub(crate) struct StopMatcher {
    tokenizer: Option<Tokenizer>,
    decoder: StreamDecoder,
    text: String,
}

impl StopMatcher {
    /// Takes in the sequence so far, of which the last `continuation` tokens may hold the beginning of a stop string.
    pub(crate) fn new(tokenizer: Option<Tokenizer>, ids: &[u32], continuation: usize) -> Self {
        let (prompt, continuation) = ids.split_at(ids.len() - continuation.min(ids.len()));
        let decoder = match &tokenizer {
            Some(tokenizer) => StreamDecoder::after(tokenizer, prompt),
            None => StreamDecoder::new(),
        };
        let mut matcher = Self {
            tokenizer,
            decoder,
            text: String::new(),
        };
        for &id in continuation {
            matcher.push(id, &[]);
        }
        matcher
    }

    /// Adds a token; true when the text that it completes holds a stop string that ends in this token.
    pub(crate) fn push(&mut self, id: u32, stop: &[String]) -> bool {
        let Some(tokenizer) = &self.tokenizer else {
            return false;
        };
        let before = self.text.len();
        self.text.push_str(&self.decoder.push(tokenizer, id));
        stop.iter().filter(|stop| !stop.is_empty()).any(|stop| {
            let mut start = before.saturating_sub(stop.len());
            while !self.text.is_char_boundary(start) {
                start -= 1;
            }
            self.text[start..]
                .match_indices(stop.as_str())
                .any(|(at, found)| start + at + found.len() > before)
        })
    }
}
