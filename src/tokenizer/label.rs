//! Labels: a token as something one can read on a chip.

use std::sync::LazyLock;

use tokenizers::utils::SysRegex;

use super::Tokenizer;

/// Combining marks, which need something to stand on.
static MARK: LazyLock<Option<SysRegex>> = LazyLock::new(|| SysRegex::new(r"\p{M}").ok());
/// Characters that draw nothing, or change how others are drawn: controls, format characters,
/// separators, private use, unassigned. Tags (U+E0000) are format characters.
static UNSEEN: LazyLock<Option<SysRegex>> = LazyLock::new(|| SysRegex::new(r"[\p{C}\p{Z}]").ok());

impl Tokenizer {
    /// A legible label: `·` for a space, `↵` newline, `⇥` tab, pictures for other ASCII controls
    /// (`␀`), code points for what cannot be seen (`U+00AD`), combining marks on `◌`, byte values
    /// for part-characters (`E2 96`), special tokens as they are, `#50300` outside the vocabulary.
    ///
    /// Three characters that would be mistaken for the first three are given as code points.
    pub fn label(&self, id: u32) -> String {
        let Some(bytes) = self.piece(id).filter(|bytes| !bytes.is_empty()) else {
            return format!("#{id}");
        };
        if self.is_special(id) {
            return String::from_utf8_lossy(bytes).into_owned();
        }
        let bytes = match bytes.strip_prefix(b" ") {
            Some(word) if self.inner.word_labels => word,
            _ => bytes,
        };
        let mut parts = Vec::new();
        for chunk in bytes.utf8_chunks() {
            if !chunk.valid().is_empty() {
                parts.push(legible(chunk.valid()));
            }
            parts.extend(chunk.invalid().iter().map(|byte| format!("{byte:02X}")));
        }
        parts.join(" ")
    }
}

/// A text with everything invisible made visible.
fn legible(text: &str) -> String {
    let mut label = String::new();
    // Whether the character before is one that a combining mark can stand on.
    let mut base = false;
    for c in text.chars() {
        let stands = base;
        base = false;
        match c {
            ' ' => label.push('·'),
            '\n' => label.push('↵'),
            '\t' => label.push('⇥'),
            '\0'..='\x1f' => label.push(picture(0x2400 + u32::from(c))),
            '\x7f' => label.push('␡'),
            '·' | '↵' | '⇥' => label.push_str(&code_point(c)),
            _ if is(&UNSEEN, c) => label.push_str(&code_point(c)),
            _ if is(&MARK, c) => {
                if !stands {
                    label.push('◌');
                }
                label.push(c);
                base = true;
            }
            _ => {
                label.push(c);
                base = true;
            }
        }
    }
    label
}

fn picture(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn code_point(c: char) -> String {
    format!("U+{:04X}", u32::from(c))
}

fn is(class: &Option<SysRegex>, c: char) -> bool {
    // ASCII that reaches here is visible and no mark; the common case must not run a regex.
    if c.is_ascii() {
        return false;
    }
    let mut buffer = [0; 4];
    class
        .as_ref()
        .is_some_and(|r| r.find_iter(c.encode_utf8(&mut buffer)).next().is_some())
}
