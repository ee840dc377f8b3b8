//! The checksum that a file's ETag states, if it states one.
//!
//! The Hub names large files by the SHA-256 of their content and small ones by their git blob hash, the SHA-1 of
//! `blob LENGTH\0` and the content. Mirrors that name files by the SHA-1 of the content alone exist, so that is right
//! as well. Pure.

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// A file being summed, and what the sum should be.
pub(super) enum Checksum {
    Sha256 {
        sum: Sha256,
        stated: String,
    },
    Sha1 {
        as_git_blob: Sha1,
        plain: Sha1,
        stated: String,
    },
    /// The server states none: the length alone decides.
    None,
}

impl Checksum {
    /// For a file of `size` bytes with this ETag, before its first byte.
    pub fn new(etag: &str, size: u64) -> Self {
        let stated = etag.to_ascii_lowercase();
        match (stated.len(), stated.bytes().all(|b| b.is_ascii_hexdigit())) {
            (64, true) => Self::Sha256 {
                sum: Sha256::new(),
                stated,
            },
            (40, true) => Self::Sha1 {
                as_git_blob: Sha1::new_with_prefix(format!("blob {size}\0")),
                plain: Sha1::new(),
                stated,
            },
            _ => Self::None,
        }
    }

    pub fn is_stated(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256 { sum, .. } => sum.update(bytes),
            Self::Sha1 {
                as_git_blob, plain, ..
            } => {
                as_git_blob.update(bytes);
                plain.update(bytes);
            }
            Self::None => {}
        }
    }

    /// Whether the bytes so far are the whole file as the server has it.
    pub fn matches(self) -> bool {
        match self {
            Self::Sha256 { sum, stated } => hex(&sum.finalize()) == stated,
            Self::Sha1 {
                as_git_blob,
                plain,
                stated,
            } => hex(&as_git_blob.finalize()) == stated || hex(&plain.finalize()) == stated,
            Self::None => true,
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(etag: &str, content: &[u8]) -> bool {
        let mut sum = Checksum::new(etag, content.len() as u64);
        let (first, rest) = content.split_at(content.len() / 2);
        sum.update(first);
        sum.update(rest);
        sum.matches()
    }

    #[test]
    fn each_kind_of_etag_is_recognised() {
        // `printf 'hello\n' | git hash-object --stdin`, `sha1sum` and `sha256sum` of the same.
        for etag in [
            "ce013625030ba8dba906f756967f9e9ca394464a",
            "CE013625030BA8DBA906F756967F9E9CA394464A",
            "f572d396fae9206628714fb2ce00f72e94f2258f",
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        ] {
            assert!(is_right(etag, b"hello\n"), "{etag}");
            assert!(!is_right(etag, b"hellO\n"), "{etag}");
        }
        // Anything else says nothing about the content.
        for etag in ["", "5d41402abc4b2a76b9719d911017c592", "W/abc"] {
            assert!(!Checksum::new(etag, 6).is_stated());
            assert!(is_right(etag, b"hello\n"));
        }
    }
}
