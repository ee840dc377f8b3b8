//! GPT-2's way of writing bytes as printable characters in its vocabulary.
//!
//! The rule: a byte whose Latin-1 character is printable and no space stands for itself; the others
//! (0-32, 127-160, 173), in order, are written as U+0100, U+0101, … So a space is `Ġ`.

/// The character that stands for a byte.
pub(super) fn byte_to_char(byte: u8) -> char {
    let shifted = match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u32::from(byte),
        0x00..=0x20 => 0x100 + u32::from(byte),
        0x7f..=0xa0 => 0x121 + u32::from(byte - 0x7f),
        0xad => 0x143,
    };
    // All of 0x21..=0x143 are characters.
    char::from_u32(shifted).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for, `None` for characters outside the table.
pub(super) fn char_to_byte(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// Bytes as the vocabulary writes them.
pub(super) fn spell(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| byte_to_char(b)).collect()
}

/// The bytes of a token as the vocabulary writes it; its UTF-8 if a character is outside the table.
pub(super) fn unspell(token: &str) -> Vec<u8> {
    let bytes: Option<Vec<u8>> = token.chars().map(char_to_byte).collect();
    bytes.unwrap_or_else(|| token.as_bytes().to_vec())
}
