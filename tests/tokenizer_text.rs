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
        for t in [&*STORY, &*TINY] {
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
fn ids() -> impl Strategy<Value = Vec<u32>> {
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
        for t in [&*STORY, &*TINY] {
            let back: Vec<u8> = t.encode_bytes(&bytes).iter().flat_map(|&id| t.bytes(id)).copied().collect();
            prop_assert_eq!(&back, &bytes);
        }
    }

    #[test]
    fn every_text_round_trips(text in prop_oneof![any::<String>(), typed()]) {
        for t in [&*STORY, &*TINY] {
            prop_assert_eq!(&t.decode(&t.encode(&text)), &text);
        }
    }

    #[test]
    fn every_sequence_has_a_layout(ids in ids()) {
        let layout = STORY.layout(&ids);
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
            .split(|&id| STORY.bytes(id).is_empty())
            .flat_map(|ids| {
                let bytes: Vec<u8> = ids.iter().flat_map(|&id| STORY.bytes(id)).copied().collect();
                bytes.utf8_chunks().map(|chunk| chunk.valid().to_owned()).collect::<Vec<_>>()
            })
            .collect();
        prop_assert_eq!(text, valid);
        // Every token is seen, or part of a character that is.
        for (i, &id) in ids.iter().enumerate() {
            if layout.range(i).is_empty() {
                prop_assert!(std::str::from_utf8(STORY.bytes(id)).is_err());
            }
        }
    }

    #[test]
    fn a_stream_is_the_settled_text_and_in_the_end_all_of_it(ids in ids(), at: prop::sample::Index) {
        let mut stream = StreamDecoder::new();
        let mut text = String::new();
        for (i, &id) in ids.iter().enumerate() {
            text += &stream.push(&STORY, id);
            let layout = STORY.layout(&ids[..=i]);
            prop_assert_eq!(&text, layout.settled());
            prop_assert_eq!(stream.is_pending(), layout.pending_tail > 0);
        }
        text += &stream.finish();
        prop_assert_eq!(&text, &STORY.decode(&ids));

        // A decoder that begins in the middle gives the rest.
        let (before, after) = ids.split_at(at.index(ids.len() + 1));
        let mut stream = StreamDecoder::after(&STORY, before);
        let mut text = STORY.layout(before).settled().to_owned();
        after.iter().for_each(|&id| text += &stream.push(&STORY, id));
        text += &stream.finish();
        prop_assert_eq!(text, STORY.decode(&ids));
    }

    #[test]
    fn every_edit_gives_the_edited_text(
        old in ids(), a: prop::sample::Index, b: prop::sample::Index, with in typed(),
    ) {
        let layout = STORY.layout(&old);
        let (a, b) = (offset(&layout.text, a), offset(&layout.text, b));
        let (start, end) = (a.min(b), a.max(b));
        let new_text = [&layout.text[..start], &with, &layout.text[end..]].concat();
        for edit in [STORY.retokenise_from(&old, &new_text), STORY.replace(&old, start..end, &with)] {
            prop_assert!(edit.exact);
            prop_assert_eq!(&STORY.decode(&edit.ids), &new_text);
            prop_assert_eq!(&edit.ids[..edit.kept], &old[..edit.kept]);
            // Kept tokens draw the same as before.
            let new = STORY.layout(&edit.ids);
            prop_assert_eq!(&new.ends[..edit.kept], &layout.ends[..edit.kept]);
        }
    }

    #[test]
    fn inserting_between_tokens_keeps_every_placeholder(
        old in ids(), at: prop::sample::Index, with in "[a-z .]{1,4}",
    ) {
        let layout = STORY.layout(&old);
        let at = at.index(old.len() + 1);
        let place = if at == 0 { 0 } else { layout.ends[at - 1] };
        let edit = STORY.replace(&old, place..place, &with);
        let stand_for = |ids: &[u32]| -> Vec<u32> {
            STORY.layout(ids).placeholders.iter().map(|p| ids[p.token]).collect()
        };
        prop_assert_eq!(stand_for(&edit.ids), stand_for(&old));
    }

    #[test]
    fn a_text_typed_bit_by_bit_is_tokenised_as_if_typed_at_once(parts in prop::collection::vec(typed(), 0..8)) {
        for t in [&*STORY, &*TINY] {
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
