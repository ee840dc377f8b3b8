//! Text that comes one token at a time.

use super::Tokenizer;
use super::layout::{Assembler, Event, PLACEHOLDER};

/// Decodes a growing sequence: whole characters only, each as soon as its last byte is there.
///
/// Bytes that can no longer become a character come out as U+FFFD, in the same places as in
/// [`Tokenizer::decode`]: all pushes and [`finish`](Self::finish) put together are the text that
/// it gives for the same ids.
#[derive(Clone, Debug, Default)]
pub struct StreamDecoder {
    assembler: Assembler,
}

impl StreamDecoder {
    /// A decoder at the beginning of a text.
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder for what follows `ids`: a character that they begin is completed by the first
    /// pushes and comes out whole.
    pub fn after(tokenizer: &Tokenizer, ids: &[u32]) -> Self {
        let mut decoder = Self::new();
        for &id in ids {
            decoder.advance(tokenizer, id, |_| ());
        }
        decoder
    }

    /// Adds a token; the text that is certain now, often empty for part-characters.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        let mut text = String::new();
        self.advance(tokenizer, id, |event| append(&mut text, &event));
        text
    }

    /// Whether an unfinished character is being held back.
    pub fn is_pending(&self) -> bool {
        self.assembler.pending_tokens() > 0
    }

    /// Ends the text: an unfinished character comes out as one U+FFFD for each of its tokens.
    pub fn finish(&mut self) -> String {
        let mut text = String::new();
        self.assembler.finish(|event| append(&mut text, &event));
        text
    }

    fn advance(&mut self, tokenizer: &Tokenizer, id: u32, emit: impl FnMut(Event<'_>)) {
        let first = self.assembler.tokens() == 0;
        self.assembler
            .push(tokenizer.piece_in_text(id, first), emit);
    }
}

fn append(text: &mut String, event: &Event<'_>) {
    text.push_str(match event {
        Event::Text { text, .. } => text,
        Event::Stray { .. } => PLACEHOLDER,
    });
}
