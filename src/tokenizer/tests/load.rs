//! What loads, what is refused, and what a file may not turn on.

use proptest::prelude::*;

use super::*;

fn refusal(bytes: &[u8]) -> String {
    Tokenizer::from_json(bytes).unwrap_err().to_string()
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "special": special, "normalized": false,
           "single_word": false, "lstrip": false, "rstrip": false})
}

#[test]
fn the_byte_table_is_gpt2s() {
    for (byte, c) in [
        (0, 'Ā'),
        (b' ', 'Ġ'),
        (b'\n', 'Ċ'),
        (b'\t', 'ĉ'),
        (b'!', '!'),
        (b'~', '~'),
        (0x7f, 'ġ'),
        (0xa0, 'ł'),
        (0xa1, '¡'),
        (0xac, '¬'),
        (0xad, 'Ń'),
        (0xae, '®'),
        (0xff, 'ÿ'),
    ] {
        assert_eq!(byte_level::byte_to_char(byte), c);
    }
    let chars: HashSet<char> = (0..=255).map(byte_level::byte_to_char).collect();
    assert_eq!(chars.len(), 256);
    for byte in 0..=255 {
        let c = byte_level::byte_to_char(byte);
        assert_eq!(byte_level::char_to_byte(c), Some(byte));
    }
    for c in [' ', '\u{ad}', '\u{7f}', '\u{144}', '東'] {
        assert_eq!(byte_level::char_to_byte(c), None);
    }
}

#[test]
fn the_built_in_tokenizer_loads() {
    let t = story();
    assert_eq!((t.vocab_size(), t.is_byte_level()), (4096, true));
    assert_eq!(t.end_of_text(), Some(0));
    assert!(t.is_special(0) && !t.is_special(1) && !t.is_special(9999));
    assert!(t.inner.byte_ids.iter().all(Option::is_some));
    let the = t.id_of("Ġthe").unwrap();
    assert_eq!((t.bytes(the), t.id_of(" the")), (&b" the"[..], Some(the)));
    assert_eq!(
        (t.id_of("no such token"), t.bytes(4096), t.bytes(u32::MAX)),
        (None, &[][..], &[][..])
    );
}

#[test]
fn clones_share_their_tables_and_cross_threads() {
    fn crosses<T: Send + Sync + Clone>(_: &T) {}
    let t = story();
    crosses(&t);
    assert!(Arc::ptr_eq(&t.inner, &t.clone().inner));
}

#[test]
fn a_lone_surrogate_is_an_error_sentence() {
    for lone in [r"\ud83d", r"\ude42", r"\ud83dx", r"\ud83d\ud83d"] {
        let json = byte_level_json(&[])
            .to_string()
            .replacen("\"a\":", &format!("\"{lone}\":"), 1);
        let message = refusal(json.as_bytes());
        assert!(
            message.starts_with("the tokenizer cannot be read: "),
            "{message}"
        );
        assert!(
            message.contains("surrogate") || message.contains("hex escape"),
            "{message}"
        );
    }
}

#[test]
fn files_that_are_no_tokenizer_are_refused() {
    let whole = byte_level_json(&[]).to_string();
    for bytes in [
        &b""[..],
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe{}",
        b"version https://git-lfs.github.com/spec/v1",
        &whole.as_bytes()[..whole.len() / 2],
        br#"{"version":"2.0"}"#,
        br#"{"version":"1.0","model":{"type":"Nonsense"}}"#,
    ] {
        let message = refusal(bytes);
        assert!(message.starts_with("the tokenizer cannot be "), "{message}");
        assert!(!message.contains('\n'), "{message}");
    }
    // Arrays deep enough to end the stack of a reader that recurses without a limit.
    refusal("[".repeat(1_000_000).as_bytes());
}

#[test]
fn an_empty_vocabulary_and_an_enormous_id_are_refused() {
    let mut json = byte_level_json(&[]);
    json["model"]["vocab"] = json!({});
    assert!(refusal(json.to_string().as_bytes()).contains("its vocabulary is empty"));
    json["model"]["vocab"] = json!({"a": 0, "b": u32::MAX});
    let message = refusal(json.to_string().as_bytes());
    assert_eq!(
        message,
        "the tokenizer cannot be used: token \"b\" has id 4294967295, and ids above 1048575 are not supported"
    );
}

#[test]
fn ids_with_gaps_load() {
    let mut json = byte_level_json(&[]);
    json["model"]["vocab"] = json!({"a": 3, "b": 1000});
    let t = load(&json);
    assert_eq!(t.vocab_size(), 1001);
    assert_eq!(
        (t.encode("ab"), t.label(500)),
        (vec![3, 1000], "#500".into())
    );
    assert_eq!(t.decode(&[3, 500, 1000]), "a\u{FFFD}b");
}

#[test]
fn truncation_padding_and_dropout_are_turned_off() {
    let mut json: Value =
        serde_json::from_slice(include_bytes!("../../../assets/storyteller/tokenizer.json"))
            .unwrap();
    json["truncation"] =
        json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 40}, "direction": "Left", "pad_to_multiple_of": null,
                             "pad_id": 0, "pad_type_id": 0, "pad_token": "!"});
    json["model"]["dropout"] = json!(0.9);
    let t = load(&json);
    let text = "Once upon a time there was a king";
    assert_eq!(t.encode(text), story().encode(text));
    assert_eq!(t.encode(text).len(), 8);
}

#[test]
fn post_processors_add_nothing() {
    let mut json = byte_level_json(&[b"<s>"]);
    json["added_tokens"] = json!([added(256, "<s>", true)]);
    json["post_processor"] = json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}});
    assert_eq!(load(&json).encode("a"), [u32::from(b'a')]);
}

#[test]
fn end_of_text_is_the_likeliest_control_token() {
    let with = |tokens: &[(&str, bool)]| {
        let mut json = byte_level_json(&[]);
        let tokens = tokens
            .iter()
            .zip(256..)
            .map(|(&(t, special), id)| added(id, t, special));
        json["added_tokens"] = tokens.collect();
        load(&json).end_of_text()
    };
    assert_eq!(with(&[]), None);
    assert_eq!(with(&[("</s>", true)]), Some(256));
    assert_eq!(with(&[("</s>", true), ("<|endoftext|>", true)]), Some(257));
    assert_eq!(with(&[("<pad>", true), ("<eos>", true)]), Some(257));
    // An ordinary added word of that name ends nothing.
    assert_eq!(with(&[("</s>", false)]), None);
}

#[test]
fn end_of_text_is_a_control_token_even_where_the_file_does_not_list_it() {
    let t = bytes_and(&[b"<|endoftext|>"]);
    assert_eq!((t.end_of_text(), t.is_special(256)), (Some(256), true));
    assert_eq!(t.encode("a<|endoftext|>"), [u32::from(b'a'), 256]);
}

#[test]
fn added_tokens_are_their_text_and_not_spelled_bytes() {
    let mut json = byte_level_json(&[]);
    json["added_tokens"] = json!([added(256, "é ü", false), added(257, "Ġx", true)]);
    let t = load(&json);
    assert_eq!(
        (t.bytes(256), t.bytes(257)),
        ("é ü".as_bytes(), "Ġx".as_bytes())
    );
    assert_eq!(t.encode("é ü"), [256]);
    assert_eq!(t.decode(&[256, 257]), "é üĠx");
}

#[test]
fn a_text_the_crate_fails_on_is_spelled_in_bytes() {
    // Pieces of length 0 make the crate panic when it encodes.
    let mut json = byte_level_json(&[]);
    json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers":
        [{"type": "FixedLength", "length": 0}, json["pre_tokenizer"]]});
    let t = load(&json);
    let ids: Vec<u32> = "aé".bytes().map(u32::from).collect();
    assert_eq!(t.encode("aé"), ids);
    assert_eq!(t.word_start("aé", 1), 0);
    assert!(t.retokenise_from(&ids, "aéb").exact);
}

#[test]
fn a_prefix_space_is_added_once_and_said() {
    let mut json = byte_level_json(&[]);
    json["pre_tokenizer"]["add_prefix_space"] = json!(true);
    let t = load(&json);
    let edit = t.retokenise_from(&[], "ab");
    assert_eq!((t.decode(&edit.ids).as_str(), edit.exact), (" ab", false));
    // Later edits do not bring in more of them.
    let edit = t.retokenise_from(&edit.ids, " ab\nc");
    assert_eq!((t.decode(&edit.ids).as_str(), edit.exact), (" ab\nc", true));
}

#[test]
fn word_pieces_are_joined_with_spaces() {
    let vocab: Value = ["[UNK]", "the", "king", "##s", "."]
        .iter()
        .zip(0..)
        .map(|(&t, id)| (t.to_owned(), json!(id)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let t = load(&json!({
        "version": "1.0", "added_tokens": [added(0, "[UNK]", true)],
        "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": false},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab},
    }));
    assert_eq!(t.encode("the kings"), [1, 2, 3]);
    assert_eq!(
        (t.decode(&[1, 2, 3]), t.decode(&[3, 1])),
        ("the kings".into(), "s the".into())
    );
    assert_eq!(
        (t.label(2), t.label(3), t.is_byte_level()),
        ("·king".into(), "s".into(), false)
    );
    assert_eq!(
        t.retokenise_from(&[1], "the king"),
        Edit {
            kept: 1,
            ids: vec![1, 2],
            exact: true
        }
    );
    let edit = t.retokenise_from(&[1], "The queen");
    assert_eq!((edit.ids, edit.exact), (vec![1, 0], false));
    // Its streamed text is the decoded one, too.
    let mut stream = StreamDecoder::new();
    let text: String = [1, 2, 3].iter().map(|&id| stream.push(&t, id)).collect();
    assert_eq!(text, "the kings");
    assert_eq!(StreamDecoder::after(&t, &[1]).push(&t, 2), " king");
}

#[test]
fn metaspace_and_byte_fallback_become_spaces_and_bytes() {
    let mut vocab: serde_json::Map<String, Value> = (0..=255u8)
        .map(|b| (format!("<0x{b:02X}>"), json!(b)))
        .collect();
    for (token, id) in ["▁", "a", "▁a"].iter().zip(256..) {
        vocab.insert((*token).into(), json!(id));
    }
    let t = load(&json!({
        "version": "1.0", "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "vocab": vocab, "merges": [["▁", "a"]], "byte_fallback": true,
                  "unk_token": null, "fuse_unk": false},
    }));
    let ids = t.encode("a aé");
    assert_eq!(ids, [258, 258, 0xc3, 0xa9]);
    assert_eq!(t.decode(&ids), "a aé");
    assert_eq!(t.label(0xc3), "C3");
    assert_eq!(t.encode_bytes(b"a\xff"), [258, 0xff]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is done to a file, loading gives a tokenizer that can be used or a sentence.
    #[test]
    fn damaged_files_never_panic(
        cuts in prop::collection::vec((0usize..20_000, prop::collection::vec(any::<u8>(), 0..4), 0usize..9), 1..4),
    ) {
        let json = include_bytes!("../../../tests/fixtures/gpt2-tiny/safetensors/tokenizer.json");
        let mut bytes = json.to_vec();
        for (at, with, len) in cuts {
            let at = at % bytes.len();
            let end = (at + len).min(bytes.len());
            bytes.splice(at..end, with);
        }
        match Tokenizer::from_json(&bytes) {
            Ok(t) => {
                let text = "The cat sat on the 🙂\n<|endoftext|> mat";
                let ids = t.encode(text);
                t.layout(&ids);
                t.retokenise_from(&ids, "The cat");
                t.find("the", 5);
            }
            Err(e) => prop_assert!(e.to_string().starts_with("the tokenizer cannot be ")),
        }
    }
}
