//! Which token draws which part of a text.

use super::Tokenizer;

/// Bytes that become no character are drawn as this.
pub(super) const PLACEHOLDER: &str = "\u{FFFD}";

/// A sequence of ids as text, with the place of every token in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TextLayout {
    pub text: String,
    /// Byte end in `text` of each token's piece, non-decreasing; a piece begins where the one
    /// before ends. The piece of a token whose bytes a later one completes may be empty.
    pub ends: Vec<usize>,
    /// How many of the last tokens hold bytes of a character that could still be completed. In
    /// `text` they are drawn like bytes that cannot.
    pub pending_tail: usize,
    /// Length in bytes of `text` without what the pending bytes are drawn as: see
    /// [`settled`](Self::settled).
    pub settled_bytes: usize,
    /// Every U+FFFD in `text` that stands for bytes instead of being a typed character.
    pub placeholders: Vec<Placeholder>,
    /// Whether no character reaches from the token before into token i, for 0 ..= ids.len().
    pub(super) clean: Vec<bool>,
}

/// A U+FFFD that stands for bytes of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placeholder {
    /// Byte offset in the text.
    pub at: usize,
    /// Index of the token in the sequence.
    pub token: usize,
}

impl TextLayout {
    /// The text without an unfinished character at its end: what to show while tokens stream.
    pub fn settled(&self) -> &str {
        &self.text[..self.settled_bytes]
    }

    /// The byte range in `text` of a token's piece; empty at the end for an index past the last.
    pub fn range(&self, token: usize) -> std::ops::Range<usize> {
        let end = |i: usize| self.ends.get(i).copied().unwrap_or(self.text.len());
        if token == 0 {
            0..end(0)
        } else {
            end(token - 1)..end(token)
        }
    }

    /// The token that draws the byte at `at`; the number of tokens for the end of the text.
    pub fn token_at(&self, at: usize) -> usize {
        self.ends.partition_point(|&end| end <= at)
    }

    fn draw(&mut self, event: Event<'_>) {
        let (first, last) = match event {
            Event::Text { first, last, .. } => (first, last),
            Event::Stray { token } => (token, token),
        };
        // All tokens before the one that draws end here.
        while self.ends.len() < last {
            self.ends.push(self.text.len());
        }
        match event {
            Event::Text { text, .. } => {
                self.text.push_str(text);
                for inside in first + 1..=last {
                    self.clean[inside] = false;
                }
            }
            Event::Stray { token } => {
                self.placeholders.push(Placeholder {
                    at: self.text.len(),
                    token,
                });
                self.text.push_str(PLACEHOLDER);
            }
        }
    }
}

impl Tokenizer {
    /// The text of a sequence of ids and the place of each of them in it. See the
    /// [module](super) for how bytes become characters. Every sequence has a layout.
    pub fn layout(&self, ids: &[u32]) -> TextLayout {
        let mut layout = TextLayout {
            clean: vec![true; ids.len() + 1],
            ..TextLayout::default()
        };
        let mut assembler = Assembler::default();
        for (at, &id) in ids.iter().enumerate() {
            assembler.push(self.piece_in_text(id, at == 0), |event| layout.draw(event));
        }
        layout.settled_bytes = layout.text.len();
        layout.pending_tail = assembler.pending_tokens();
        assembler.finish(|event| layout.draw(event));
        layout.ends.resize(ids.len(), layout.text.len());
        layout
    }

    /// The text of a sequence of ids; bytes that become no character are U+FFFD as in
    /// [`layout`](Self::layout).
    pub fn decode(&self, ids: &[u32]) -> String {
        self.layout(ids).text
    }
}

/// What the bytes so far have become.
pub(super) enum Event<'a> {
    /// Whole characters; the first of their bytes is of token `first`, the last of `last`.
    Text {
        text: &'a str,
        first: usize,
        last: usize,
    },
    /// One or more bytes of `token` that are part of no character.
    Stray { token: usize },
}

/// Puts the bytes of one token after another together to characters.
#[derive(Clone, Debug, Default)]
pub(super) struct Assembler {
    /// Bytes that begin a character, with the token of each; at most three between pushes.
    pending: Vec<(u8, usize)>,
    /// The token whose stray bytes came last, so that more of them directly after are not drawn.
    stray: Option<usize>,
    tokens: usize,
}

impl Assembler {
    /// How many tokens hold bytes of an unfinished character.
    pub(super) fn pending_tokens(&self) -> usize {
        match (self.pending.first(), self.pending.last()) {
            // Every token in between has bytes: one without would have ended the character.
            (Some((_, first)), Some((_, last))) => last - first + 1,
            _ => 0,
        }
    }

    /// How many tokens have been pushed.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Adds the next token. One without bytes (outside the vocabulary) is drawn as stray.
    pub(super) fn push(&mut self, bytes: Option<&[u8]>, mut emit: impl FnMut(Event<'_>)) {
        let token = self.tokens;
        self.tokens += 1;
        let mut rest = bytes.unwrap_or_default();
        if rest.is_empty() {
            self.finish(&mut emit);
            self.emit_stray(token, &mut emit);
            return;
        }
        while let Some((&byte, after)) = rest.split_first() {
            if self.pending.is_empty() {
                // The fast path: as much valid text as there is, at once.
                let valid = match std::str::from_utf8(rest) {
                    Ok(text) => text,
                    Err(e) => std::str::from_utf8(&rest[..e.valid_up_to()]).unwrap_or_default(),
                };
                if !valid.is_empty() {
                    self.stray = None;
                    emit(Event::Text {
                        text: valid,
                        first: token,
                        last: token,
                    });
                    rest = &rest[valid.len()..];
                    continue;
                }
            }
            self.pending.push((byte, token));
            self.resolve(&mut emit);
            rest = after;
        }
    }

    /// Gives up on an unfinished character: its bytes are stray.
    pub(super) fn finish(&mut self, mut emit: impl FnMut(Event<'_>)) {
        for (_, token) in std::mem::take(&mut self.pending) {
            self.emit_stray(token, &mut emit);
        }
    }

    /// Takes out of the pending bytes what is a whole character, or can no longer become one.
    fn resolve(&mut self, emit: &mut impl FnMut(Event<'_>)) {
        while let (Some(&(_, first)), Some(&(_, last))) =
            (self.pending.first(), self.pending.last())
        {
            let bytes: Vec<u8> = self.pending.iter().map(|&(b, _)| b).collect();
            match std::str::from_utf8(&bytes) {
                Ok(text) => {
                    self.stray = None;
                    emit(Event::Text { text, first, last });
                    self.pending.clear();
                }
                Err(e) => {
                    // `None`: the bytes are the beginning of a character.
                    let Some(bad) = e.error_len() else { return };
                    for (_, token) in self.pending.drain(..bad).collect::<Vec<_>>() {
                        self.emit_stray(token, emit);
                    }
                }
            }
        }
    }

    fn emit_stray(&mut self, token: usize, emit: &mut impl FnMut(Event<'_>)) {
        if self.stray != Some(token) {
            self.stray = Some(token);
            emit(Event::Stray { token });
        }
    }
}
