//! Which token draws what, at once and streamed.

use super::*;

/// "▁" is E2 96 81.
const BAR: [u32; 3] = [0xe2, 0x96, 0x81];
const A: u32 = b'a' as u32;

fn tokenizer() -> Tokenizer {
    // 256 … 260
    bytes_and(&[
        b"\xe2\x96",
        b" \xf0\x9f",
        b"\x81\xe2",
        b"\x96\x81",
        b"\x80a\xff\xfe",
    ])
}

fn drawn(ids: &[u32]) -> (String, Vec<usize>, usize) {
    let layout = tokenizer().layout(ids);
    (layout.text, layout.ends, layout.pending_tail)
}

#[test]
fn a_character_belongs_to_the_token_that_completes_it() {
    assert_eq!(drawn(&BAR), ("▁".into(), vec![0, 0, 3], 0));
    // The space of the first token is there before the rest of the emoji is.
    assert_eq!(
        drawn(&[A, 257, 0x99, 0x82]),
        ("a 🙂".into(), vec![1, 2, 2, 6], 0)
    );
    // One token completes a character and begins the next.
    assert_eq!(drawn(&[256, 258, 259]), ("▁▁".into(), vec![0, 3, 6], 0));
}

#[test]
fn a_token_that_completes_no_character_is_one_placeholder() {
    assert_eq!(drawn(&[256, A]), ("\u{FFFD}a".into(), vec![3, 4], 0));
    assert_eq!(
        drawn(&[0xe2, 0x96, A]),
        ("\u{FFFD}\u{FFFD}a".into(), vec![3, 6, 7], 0)
    );
    assert_eq!(
        drawn(&[0xff, 0xff]),
        ("\u{FFFD}\u{FFFD}".into(), vec![3, 6], 0)
    );
    // Encoded surrogates, overlong forms and values past U+10FFFF are no characters.
    for bytes in [[0xed, 0xa0, 0xbd], [0xe0, 0x80, 0x80], [0xf4, 0x90, 0x80]] {
        assert_eq!(drawn(&bytes).1, [3, 6, 9]);
    }
}

#[test]
fn no_byte_is_invisible() {
    // Beside a character of its own, a token's stray bytes are one placeholder for each run.
    assert_eq!(drawn(&[260]), ("\u{FFFD}a\u{FFFD}".into(), vec![7], 0));
    assert_eq!(drawn(&[257, A]), (" \u{FFFD}a".into(), vec![4, 5], 0));
    let layout = tokenizer().layout(&[260, 257, A]);
    let places: Vec<_> = layout
        .placeholders
        .iter()
        .map(|p| (p.at, p.token))
        .collect();
    assert_eq!(places, [(0, 0), (4, 0), (8, 1)]);
}

#[test]
fn an_unfinished_tail_is_pending() {
    assert_eq!(
        drawn(&[A, 0xe2, 0x96]),
        ("a\u{FFFD}\u{FFFD}".into(), vec![1, 4, 7], 2)
    );
    assert_eq!(drawn(&[A, 257]), ("a \u{FFFD}".into(), vec![1, 5], 1));
    let layout = tokenizer().layout(&[A, 257, 0x99]);
    assert_eq!((layout.settled(), layout.pending_tail), ("a ", 2));
    // A stray byte before the unfinished character in the same token is certain already.
    let layout = bytes_and(&[b"\x80\xe2"]).layout(&[256]);
    assert_eq!((layout.settled(), layout.pending_tail), ("\u{FFFD}", 1));
    assert_eq!(layout.text, "\u{FFFD}");
    // What can no longer become a character is not pending.
    assert_eq!(drawn(&[0xff]).2, 0);
    assert_eq!(drawn(&[0xe2, A]).2, 0);
}

#[test]
fn an_id_outside_the_vocabulary_is_drawn_and_ends_a_character() {
    assert_eq!(drawn(&[9999]), ("\u{FFFD}".into(), vec![3], 0));
    assert_eq!(
        drawn(&[256, 9999, 0x81]),
        ("\u{FFFD}".repeat(3), vec![3, 6, 9], 0)
    );
}

#[test]
fn a_typed_replacement_character_is_a_character() {
    let layout = tokenizer().layout(&[0xef, 0xbf, 0xbd, 0xff]);
    assert_eq!(
        (layout.text.as_str(), layout.ends.as_slice()),
        ("\u{FFFD}\u{FFFD}", &[0, 0, 3, 6][..])
    );
    assert_eq!(layout.placeholders, [Placeholder { at: 3, token: 3 }]);
}

#[test]
fn ranges_and_token_at_agree() {
    let layout = tokenizer().layout(&[A, 257, 0x99, 0x82, A]);
    let ranges: Vec<_> = (0..6).map(|i| layout.range(i)).collect();
    assert_eq!(ranges, [0..1, 1..2, 2..2, 2..6, 6..7, 7..7]);
    let tokens: Vec<_> = (0..8).map(|at| layout.token_at(at)).collect();
    assert_eq!(tokens, [0, 1, 3, 3, 3, 3, 4, 5]);
    let empty = tokenizer().layout(&[]);
    assert_eq!(
        (empty.range(0), empty.token_at(0), empty.settled()),
        (0..0, 0, "")
    );
}

#[test]
fn streaming_shows_whole_characters() {
    let t = tokenizer();
    let mut stream = StreamDecoder::new();
    let pushed = [A, 257, 0x99, 0x82, 256, A, 0xff, 256, 9999].map(|id| stream.push(&t, id));
    let f = "\u{FFFD}";
    assert_eq!(
        pushed,
        [
            "a",
            " ",
            "",
            "🙂",
            "",
            "\u{FFFD}a",
            f,
            "",
            "\u{FFFD}\u{FFFD}"
        ]
    );
    assert!(!stream.is_pending());
    assert_eq!(
        (stream.push(&t, 256), stream.is_pending()),
        (String::new(), true)
    );
    assert_eq!((stream.finish().as_str(), stream.is_pending()), (f, false));
    assert_eq!(stream.finish(), "");
}

#[test]
fn a_continuation_completes_the_prompts_last_character() {
    let t = tokenizer();
    let mut stream = StreamDecoder::after(&t, &[A, 0xe2, 0x96]);
    assert_eq!(
        (stream.push(&t, 0x81), stream.push(&t, A)),
        ("▁".into(), "a".into())
    );
}
