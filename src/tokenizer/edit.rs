//! What an edit of the text does to the ids.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokenizers::{OffsetReferential, OffsetType, PreTokenizer};

use super::{TextLayout, Tokenizer};

/// The ids after an edit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// How many ids at the beginning are the old tokens as they were chosen. Those after them count
    /// as typed. (More may be equal by value: what a KV cache can keep is the common prefix.)
    pub kept: usize,
    /// All ids of the new text.
    pub ids: Vec<u32>,
    /// Whether [`Tokenizer::layout`] of `ids` gives exactly the new text. Always so for byte-level
    /// tokenizers with a whole byte alphabet, no normaliser and no prefix space; where it is not,
    /// the layout's text is what the model gets to see.
    pub exact: bool,
}

/// Old tokens that draw placeholders and go on standing for them.
struct Group {
    tokens: Range<usize>,
    /// Where their text is in the new text.
    text: Range<usize>,
    after_edit: bool,
}

impl Tokenizer {
    /// The byte offset at which the pre-token word begins that contains the byte at `at`; `at`
    /// itself between two words and at the end of the text. Special tokens are words. Without a
    /// pre-tokenizer a text is one word.
    pub fn word_start(&self, text: &str, at: usize) -> usize {
        let at = at.min(text.len());
        let boundaries = self.boundaries(text);
        boundaries[boundaries.partition_point(|&b| b <= at).saturating_sub(1)]
    }

    /// The ids after the text of `old` was changed to `new_text`: [`replace`](Self::replace) with
    /// the range in which the two differ. Where that is ambiguous (one of several equal characters
    /// was deleted) the last possible place is taken.
    pub fn retokenise_from(&self, old: &[u32], new_text: &str) -> Edit {
        let layout = self.layout(old);
        let (start, suffix) = difference(&layout.text, new_text);
        self.edit(old, &layout, start..layout.text.len() - suffix, new_text)
    }

    /// The ids after the bytes `range` of the text of `old` were replaced by `with`.
    ///
    /// Tokens wholly before the word that contains the edit keep their ids as they were chosen, even
    /// where the tokenizer would have chosen others; the word is looked for in the old and the new
    /// text, and begins where the two are cut into the same words for the last time. From there the
    /// text is tokenised afresh, except that U+FFFD placeholders outside `range` go on standing for
    /// their old ids. Where bytes of two placeholders would become a character, because what stood
    /// between them is gone, the one after the edit (if need be, all of them) becomes the character
    /// U+FFFD, so that the text is what the user sees.
    ///
    /// A range that is outside the text or cuts a character is widened to whole characters.
    pub fn replace(&self, old: &[u32], range: Range<usize>, with: &str) -> Edit {
        let layout = self.layout(old);
        let text = &layout.text;
        let mut start = range.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let mut end = range.end.clamp(start, text.len());
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let new_text = [&text[..start], with, &text[end..]].concat();
        self.edit(old, &layout, start..end, &new_text)
    }

    fn edit(&self, old: &[u32], layout: &TextLayout, range: Range<usize>, new_text: &str) -> Edit {
        if layout.text == new_text {
            return Edit {
                kept: old.len(),
                ids: old.to_vec(),
                exact: true,
            };
        }
        let kept = self.kept_tokens(layout, range.start, new_text);
        let from = if kept == 0 { 0 } else { layout.ends[kept - 1] };
        let groups = placeholder_groups(layout, kept, &range, new_text.len());

        // From keeping all placeholders to keeping none. Nearly always the first is exact.
        let seam = groups.iter().position(|g| g.after_edit);
        let attempts: [&dyn Fn(usize) -> bool; 4] = [
            &|_| true,
            &|i| Some(i) != seam,
            &|i| !groups[i].after_edit,
            &|_| false,
        ];
        for keep in attempts {
            let mut ids = old[..kept].to_vec();
            let mut at = from;
            for (_, group) in groups.iter().enumerate().filter(|&(i, _)| keep(i)) {
                ids.extend(self.encode_part(new_text, at..group.text.start));
                ids.extend(&old[group.tokens.clone()]);
                at = group.text.end;
            }
            ids.extend(self.encode_part(new_text, at..new_text.len()));
            if self.layout(&ids).text == new_text {
                return Edit {
                    kept,
                    ids,
                    exact: true,
                };
            }
            if groups.is_empty() {
                break;
            }
        }
        let ids = self.encode(new_text);
        let exact = self.layout(&ids).text == new_text;
        Edit {
            kept: 0,
            ids,
            exact,
        }
    }

    fn encode_part(&self, text: &str, range: Range<usize>) -> Vec<u32> {
        match range.start {
            0 => self.encode(&text[range]),
            _ => self.encode_continuation(&text[range]),
        }
    }

    /// How many tokens lie wholly before the word that contains the edit at `at`.
    fn kept_tokens(&self, layout: &TextLayout, at: usize, new_text: &str) -> usize {
        let common = self.common_boundaries(&layout.text, new_text, at);
        let mut kept = layout.ends.partition_point(|&end| end <= at);
        // Not into a character that spans tokens, and only where both texts begin a word.
        while kept > 0
            && !(layout.clean[kept] && common.binary_search(&layout.ends[kept - 1]).is_ok())
        {
            kept -= 1;
        }
        kept
    }

    /// The word boundaries up to `at` that old and new text have in common, as far as they are the
    /// same from the beginning on.
    ///
    /// More than the words around the edit, because a word can depend on what follows: GPT-2 cuts
    /// two spaces into one word at the end of a text and into two before a letter.
    fn common_boundaries(&self, old: &str, new: &str, at: usize) -> Vec<usize> {
        let (old, new) = (self.boundaries(old), self.boundaries(new));
        old.iter()
            .zip(&new)
            .take_while(|(a, b)| a == b && **a <= at)
            .map(|(&a, _)| a)
            .collect()
    }

    /// Where words begin and end: 0, the length of `text`, and offsets in between, ascending.
    pub(super) fn boundaries(&self, text: &str) -> Vec<usize> {
        let encoder = &self.inner.encoder;
        // The crate has `expect`s on the way; a text that it cannot cut is one word.
        let cut = catch_unwind(AssertUnwindSafe(|| {
            let mut split = encoder
                .get_added_vocabulary()
                .extract_and_normalize(encoder.get_normalizer(), text);
            if let Some(pre) = encoder.get_pre_tokenizer() {
                pre.pre_tokenize(&mut split).ok()?;
            }
            let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
            Some(
                splits
                    .iter()
                    .flat_map(|(_, (start, end), _)| [*start, *end])
                    .collect::<Vec<_>>(),
            )
        }));
        let mut boundaries = cut.ok().flatten().unwrap_or_default();
        boundaries.extend([0, text.len()]);
        boundaries.retain(|&b| text.is_char_boundary(b));
        boundaries.sort_unstable();
        boundaries.dedup();
        boundaries
    }
}

/// The old tokens from `kept` on that draw placeholders outside the edited range, each with the
/// tokens that share a character with it.
fn placeholder_groups(
    layout: &TextLayout,
    kept: usize,
    edited: &Range<usize>,
    new_len: usize,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for placeholder in layout.placeholders.iter().filter(|p| p.token >= kept) {
        let (mut first, mut end) = (placeholder.token, placeholder.token + 1);
        while !layout.clean[first] {
            first -= 1;
        }
        while !layout.clean[end] {
            end += 1;
        }
        if groups.last().is_some_and(|g| g.tokens.end > first) {
            continue;
        }
        let (start, stop) = (layout.range(first).start, layout.range(end - 1).end);
        if stop <= edited.start {
            groups.push(Group {
                tokens: first..end,
                text: start..stop,
                after_edit: false,
            });
        } else if start >= edited.end {
            // Behind the edit, offsets from the end of the text stay.
            let shift = |at: usize| new_len - (layout.text.len() - at);
            let text = shift(start)..shift(stop);
            groups.push(Group {
                tokens: first..end,
                text,
                after_edit: true,
            });
        }
    }
    groups
}

/// Length in bytes of the common beginning, and of the common end behind it, in whole characters.
fn difference(old: &str, new: &str) -> (usize, usize) {
    let shorter = old.len().min(new.len());
    let mut start = old
        .bytes()
        .zip(new.bytes())
        .take_while(|(a, b)| a == b)
        .count();
    while !(old.is_char_boundary(start) && new.is_char_boundary(start)) {
        start -= 1;
    }
    let mut suffix = old
        .bytes()
        .rev()
        .zip(new.bytes().rev())
        .take(shorter - start)
        .take_while(|(a, b)| a == b)
        .count();
    while !(old.is_char_boundary(old.len() - suffix) && new.is_char_boundary(new.len() - suffix)) {
        suffix -= 1;
    }
    (start, suffix)
}
