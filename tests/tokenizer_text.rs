//! Ids ↔ text on whole tokenizers: transformers' ids, round trips, random tokens, random edits.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use logitscope::tokenizer::{StreamDecoder, Tokenizer};
use proptest::prelude::*;
use serde::Deserialize;

static STORY: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(include_bytes!("../assets/storyteller/tokenizer.json")).unwrap()
});
static TINY: LazyLock<Tokenizer> = LazyLock::new(|| {
    let json = include_bytes!("fixtures/gpt2-tiny/safetensors/tokenizer.json");
    Tokenizer::from_json(json).unwrap()
});

/// Ids 0-255 are the bytes, then these: tokens that end and begin in the middle of characters, in
/// more ways than a trained vocabulary has.
const PARTS: [&[u8]; 14] = [
    b"\xe2\x96",
    b"\x96\x81",
    b"\x81\xe2",
    b"\x96\x81\xff",
    b" \xf0\x9f",
    b"\x99\x82a",
    b"\x80a\xff\xfe",
    b"a\xf0",
    b"\xff\xe2\x96\x81\xe2",
    b"\xcc",
    b"\x81e",
    b"e\xcc",
    b"\x82\xf0\x9f\x99",
    b"\xef\xbf",
];
static PIECES: LazyLock<Tokenizer> = LazyLock::new(|| {
    // GPT-2's spelling of bytes, by its rule: what is not printable Latin-1 comes after 255 in order.
    let printable = |b: u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..);
    let spell = |b: u8| match printable(b) {
        true => char::from(b),
        false => char::from_u32(256 + (0..b).filter(|&b| !printable(b)).count() as u32).unwrap(),
    };
    let bytes: Vec<[u8; 1]> = (0..=255).map(|b| [b]).collect();
    let tokens = bytes.iter().map(|b| &b[..]).chain(PARTS);
    let vocab: serde_json::Map<String, serde_json::Value> = tokens
        .zip(0..)
        .map(|(t, id): (&[u8], u32)| (t.iter().map(|&b| spell(b)).collect(), id.into()))
        .collect();
    let level =
        serde_json::json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
    let json = serde_json::json!({"version": "1.0", "pre_tokenizer": level, "decoder": level,
        "model": {"type": "BPE", "vocab": vocab, "merges": []}});
    Tokenizer::from_json(json.to_string().as_bytes()).unwrap()
});

#[derive(Deserialize)]
struct Expected {
    prompts: Vec<Prompt>,
}

#[derive(Deserialize)]
struct Prompt {
    text: String,
    ids: Vec<u32>,
    greedy: Vec<u32>,
}

#[test]
fn the_reference_prompts_have_transformers_ids() {
    let json = include_str!("fixtures/gpt2-tiny/expected.json");
    let expected: Expected = serde_json::from_str(json).unwrap();
    assert_eq!(expected.prompts.len(), 6);
    for prompt in expected.prompts {
        assert_eq!(TINY.encode(&prompt.text), prompt.ids, "{}", prompt.text);
        assert_eq!(TINY.decode(&prompt.ids), prompt.text);
        // What a model with random weights says: odd bytes.
        let layout = TINY.layout(&prompt.greedy);
        assert!(layout.text.starts_with(&prompt.text));
        assert_eq!(layout.ends.len(), prompt.greedy.len());
    }
}

#[test]
fn awkward_texts_round_trip() {
    for text in [
        "",
        " ",
        "\r\n",
        "a\r\n\r\nb",
        "\0\x01\x7f\u{85}\u{ad}\u{200b}\u{feff}",
        "🙂👩\u{200d}👩\u{200d}👧🇦🇹",
        "e\u{301}\u{302}\u{327} \u{301}",
        "naïve 東京 Москва עברית العربية",
        "\u{FFFD}",
        "<|endoftext|><|endoftext|> <|endoftext|",
        "tabs\tand  many   spaces    \n\n\n",
        "\u{10ffff}\u{e000}\u{fdd0}",
    ] {
        for t in [&*STORY, &*TINY, &*PIECES] {
            assert_eq!(t.decode(&t.encode(text)), text);
            let edit = t.retokenise_from(&[], text);
            assert_eq!((edit.ids, edit.exact), (t.encode(text), true));
        }
    }
}

#[test]
fn a_hundred_thousand_characters_are_quick() {
    let words = "Once upon a time there was a king, it's said. ".repeat(2200);
    let unbroken = ["a", " ", "\n", "🙂", "'", "1"].map(|c| c.repeat(100_000));
    for text in std::iter::once(&words).chain(&unbroken) {
        assert!(text.chars().count() >= 100_000);
        let start = Instant::now();
        let ids = STORY.encode(text);
        assert_eq!(STORY.decode(&ids), *text);
        let edit = STORY.replace(&ids, text.len() / 2..text.len() / 2, "x");
        assert!(edit.exact);
        // 30 to 250 ms on one slow core; a quadratic step anywhere takes minutes.
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }
}

// ---- random tokens, random edits

/// Ids of which many are part-characters, some spell one, and some are outside the vocabulary.
fn ids() -> impl Strategy<Value = (&'static Tokenizer, Vec<u32>)> {
    prop_oneof![
        story_ids().prop_map(|ids| (&*STORY, ids)),
        prop::collection::vec(prop_oneof![256u32..272, 0u32..272, Just(0xff)], 0..12)
            .prop_map(|ids| (&*PIECES, ids)),
    ]
}

fn story_ids() -> impl Strategy<Value = Vec<u32>> {
    let bytes = |bytes: &'static [u8]| {
        Just(
            bytes
                .iter()
                .map(|&b| STORY.encode_bytes(&[b])[0])
                .collect::<Vec<u32>>(),
        )
    };
    let some = prop_oneof![
        4 => (0u32..4096).prop_map(|id| vec![id]),
        4 => any::<u8>().prop_map(|b| STORY.encode_bytes(&[b])),
        2 => (0x80u8..).prop_map(|b| STORY.encode_bytes(&[b])),
        1 => bytes("🙂".as_bytes()),
        1 => bytes("▁".as_bytes()),
        1 => bytes(b"\xf0\x9f"),
        1 => bytes(b"\xe2\x96"),
        1 => bytes(b"\x96\x81"),
        1 => bytes("e\u{301}".as_bytes()),
        1 => Just(STORY.encode("\u{FFFD}")),
        1 => Just(vec![0]),
        1 => (4090u32..60_000).prop_map(|id| vec![id]),
    ];
    prop::collection::vec(some, 0..25).prop_map(|parts| parts.concat())
}

fn typed() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just(String::new()),
        Just(" ".into()),
        Just("  ".into()),
        Just("\r\n".into()),
        Just("the".into()),
        Just(" king".into()),
        Just("'s".into()),
        Just("🙂".into()),
        Just("👩\u{200d}👧".into()),
        Just("\u{301}".into()),
        Just("\u{FFFD}".into()),
        Just("<|endoftext|>".into()),
        Just("<|end".into()),
        "\\PC{0,3}",
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|parts| parts.concat())
}

/// The byte offset of a character, or of the end.
fn offset(text: &str, at: prop::sample::Index) -> usize {
    let mut offsets: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
    offsets.push(text.len());
    offsets[at.index(offsets.len())]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_byte_string_has_ids(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for t in [&*STORY, &*TINY, &*PIECES] {
            let back: Vec<u8> = t.encode_bytes(&bytes).iter().flat_map(|&id| t.bytes(id)).copied().collect();
            prop_assert_eq!(&back, &bytes);
        }
    }

    #[test]
    fn every_text_round_trips(text in prop_oneof![any::<String>(), typed()]) {
        for t in [&*STORY, &*TINY, &*PIECES] {
            prop_assert_eq!(&t.decode(&t.encode(&text)), &text);
        }
    }

    #[test]
    fn every_sequence_has_a_layout((t, ids) in ids()) {
        let layout = t.layout(&ids);
        prop_assert_eq!(layout.ends.len(), ids.len());
        prop_assert!(layout.ends.is_sorted());
        prop_assert_eq!(layout.ends.last().copied().unwrap_or(0), layout.text.len());
        prop_assert!(layout.ends.iter().all(|&end| layout.text.is_char_boundary(end)));
        prop_assert!(layout.text.starts_with(layout.settled()));
        // Taking the placeholders away leaves exactly the characters that the bytes spell.
        let mut text = layout.text.clone();
        for p in layout.placeholders.iter().rev() {
            prop_assert!(layout.range(p.token).contains(&p.at));
            text.replace_range(p.at..p.at + 3, "");
        }
        let valid: String = ids
            // An id outside the vocabulary has no bytes, but no character reaches across it.
            .split(|&id| t.bytes(id).is_empty())
            .flat_map(|ids| {
                let bytes: Vec<u8> = ids.iter().flat_map(|&id| t.bytes(id)).copied().collect();
                bytes.utf8_chunks().map(|chunk| chunk.valid().to_owned()).collect::<Vec<_>>()
            })
            .collect();
        prop_assert_eq!(text, valid);
        // Every token is seen, or part of a character that is.
        for (i, &id) in ids.iter().enumerate() {
            if layout.range(i).is_empty() {
                prop_assert!(std::str::from_utf8(t.bytes(id)).is_err());
            }
        }
    }

    #[test]
    fn a_stream_is_the_settled_text_and_in_the_end_all_of_it((t, ids) in ids(), at: prop::sample::Index) {
        let mut stream = StreamDecoder::new();
        let mut text = String::new();
        for (i, &id) in ids.iter().enumerate() {
            text += &stream.push(t, id);
            let layout = t.layout(&ids[..=i]);
            prop_assert_eq!(&text, layout.settled());
            prop_assert_eq!(stream.is_pending(), layout.pending_tail > 0);
        }
        text += &stream.finish();
        prop_assert_eq!(&text, &t.decode(&ids));

        // A decoder that begins in the middle gives the rest.
        let (before, after) = ids.split_at(at.index(ids.len() + 1));
        let mut stream = StreamDecoder::after(t, before);
        let mut text = t.layout(before).settled().to_owned();
        after.iter().for_each(|&id| text += &stream.push(t, id));
        text += &stream.finish();
        prop_assert_eq!(text, t.decode(&ids));
    }

    #[test]
    fn every_edit_gives_the_edited_text(
        (t, old) in ids(), a: prop::sample::Index, b: prop::sample::Index, with in typed(),
    ) {
        let layout = t.layout(&old);
        let (a, b) = (offset(&layout.text, a), offset(&layout.text, b));
        let (start, end) = (a.min(b), a.max(b));
        let new_text = [&layout.text[..start], &with, &layout.text[end..]].concat();
        for edit in [t.retokenise_from(&old, &new_text), t.replace(&old, start..end, &with)] {
            prop_assert!(edit.exact);
            prop_assert_eq!(&t.decode(&edit.ids), &new_text);
            prop_assert_eq!(&edit.ids[..edit.kept], &old[..edit.kept]);
            // Kept tokens draw the same as before.
            let new = t.layout(&edit.ids);
            prop_assert_eq!(&new.ends[..edit.kept], &layout.ends[..edit.kept]);
        }
    }

    #[test]
    fn inserting_between_tokens_keeps_every_placeholder(
        (t, old) in ids(), at: prop::sample::Index, with in "[a-z .]{1,4}",
    ) {
        let layout = t.layout(&old);
        let at = at.index(old.len() + 1);
        let place = if at == 0 { 0 } else { layout.ends[at - 1] };
        // A character that reaches across the place would be cut, and its tokens with it.
        let continues = old.get(at).and_then(|&id| t.bytes(id).first()).is_some_and(|b| b & 0xc0 == 0x80);
        if continues && t.layout(&old[..at]).pending_tail > 0 {
            return Ok(());
        }
        let edit = t.replace(&old, place..place, &with);
        let stand_for = |ids: &[u32]| -> Vec<u32> {
            t.layout(ids).placeholders.iter().map(|p| ids[p.token]).collect()
        };
        prop_assert_eq!(stand_for(&edit.ids), stand_for(&old));
    }

    #[test]
    fn a_text_typed_bit_by_bit_is_tokenised_as_if_typed_at_once(parts in prop::collection::vec(typed(), 0..8)) {
        for t in [&*STORY, &*TINY, &*PIECES] {
            let (mut text, mut ids) = (String::new(), Vec::new());
            for part in &parts {
                text += part;
                let edit = t.retokenise_from(&ids, &text);
                prop_assert!(edit.kept <= ids.len());
                ids = edit.ids;
            }
            prop_assert_eq!(ids, t.encode(&text));
        }
    }

    #[test]
    fn labels_and_find_take_anything(id: u32, query in typed()) {
        for id in [id, id % 4200] {
            prop_assert!(!STORY.label(id).is_empty());
            prop_assert!(!STORY.text_or_label(id).is_empty());
        }
        let found = STORY.find(&query, 7);
        prop_assert!(found.len() <= 7 && found.iter().all(|&id| id < 4096));
    }
}
