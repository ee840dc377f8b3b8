//! Labels, and finding tokens.

use super::*;

#[test]
fn labels_are_legible() {
    for (token, label) in [
        (&b" the"[..], "·the"),
        (b"a b ", "a·b·"),
        (b"\n\n", "↵↵"),
        (b"\t", "⇥"),
        (b"\r\n", "␍↵"),
        (b"\0\x1b", "␀␛"),
        (b"\x7f", "␡"),
        ("\u{85}".as_bytes(), "U+0085"),
        ("\u{a0}x".as_bytes(), "U+00A0x"),
        ("\u{ad}".as_bytes(), "U+00AD"),
        ("\u{200b}".as_bytes(), "U+200B"),
        ("\u{202e}".as_bytes(), "U+202E"),
        ("\u{2028}".as_bytes(), "U+2028"),
        ("\u{feff}".as_bytes(), "U+FEFF"),
        ("\u{e000}".as_bytes(), "U+E000"),
        ("\u{301}".as_bytes(), "◌\u{301}"),
        (" \u{301}".as_bytes(), "·◌\u{301}"),
        ("e\u{301}\u{302}".as_bytes(), "e\u{301}\u{302}"),
        // A spacing mark, which is not a grapheme extender.
        ("\u{93e}".as_bytes(), "◌\u{93e}"),
        ("\u{200d}👩".as_bytes(), "U+200D👩"),
        ("東京".as_bytes(), "東京"),
        // What labels mean something by is told apart where it is in the text itself.
        ("·".as_bytes(), "U+00B7"),
        ("↵⇥".as_bytes(), "U+21B5U+21E5"),
        ("\u{fffd}".as_bytes(), "\u{fffd}"),
        (b"\xe2\x96", "E2 96"),
        (b" \xf0\x9f", "· F0 9F"),
        (b"\x96a\xe2", "96 a E2"),
        (b"\xed\xa0\xbd", "ED A0 BD"),
    ] {
        // A single byte is a token already, and its id is its value.
        let single = token.len() == 1;
        let t = bytes_and(if single {
            &[]
        } else {
            std::slice::from_ref(&token)
        });
        let id = if single { token[0].into() } else { 256 };
        assert_eq!(t.label(id), label, "{token:02x?}");
    }
}

#[test]
fn labels_of_ids_that_have_no_text() {
    let t = story();
    assert_eq!(
        (t.label(0), t.text_or_label(0)),
        ("<|endoftext|>".into(), "<|endoftext|>".into())
    );
    assert_eq!(
        (t.label(50300), t.text_or_label(4096)),
        ("#50300".into(), "#4096".into())
    );
    assert_eq!(t.label(u32::MAX), "#4294967295");
}

#[test]
fn text_or_label_is_the_text_where_there_is_one() {
    let t = bytes_and(&[b" a\n", b"\xe2\x96"]);
    assert_eq!(
        (t.text_or_label(256), t.text_or_label(257)),
        (" a\n".into(), "E2 96".into())
    );
}

#[test]
fn in_a_line_of_output_bytes_are_not_taken_for_text() {
    let t = bytes_and(&[b" a\n\"", b"\xe2\x96", b"E2"]);
    let quoted = [256, 257, 258, 9999].map(|id| t.quoted(id));
    assert_eq!(quoted, ["\" a\\n\\\"\"", "bytes E2 96", "\"E2\"", "#9999"]);
}

#[test]
fn every_token_has_a_label_that_shows() {
    let t = story();
    for id in 0..4096 {
        let label = t.label(id);
        assert!(!label.is_empty());
        assert!(
            !label.chars().any(|c| c.is_control() || c == '\u{FFFD}'),
            "{id} {label:?}"
        );
        // One space at most, between text and byte values.
        assert!(!label.starts_with(' ') && !label.ends_with(' '));
    }
}

#[test]
fn find_puts_the_likeliest_meant_first() {
    let t = bytes_and(&[
        b" the", b"the", b"THE", b" them", b"other", b"lathe", b" 257", b"\n\n",
    ]);
    let [the_, the, upper, them, other, lathe, number, lines] =
        std::array::from_fn(|i| 256 + i as u32);
    assert_eq!(t.find("the", 9), [the, the_, upper, them, other, lathe]);
    assert_eq!(t.find(" the", 9), [the_, them]);
    assert_eq!(t.find("·the", 9), [the_, them]);
    assert_eq!(t.find("the", 2), [the, the_]);
    // The token that is this text, then the one with this id.
    assert_eq!(t.find("257", 9), [number, the]);
    assert_eq!(t.find("#257", 9), [the]);
    assert_eq!(t.find("↵↵", 9), [lines]);
    assert_eq!(t.find("", 9), [0u32; 0]);
    assert_eq!(t.find("no such", 9), [0u32; 0]);
    assert_eq!(t.find("99999999999999999999", 9), [0u32; 0]);
}
