//! What edits keep.

use super::*;

const F: &str = "\u{FFFD}";

fn edit(t: &Tokenizer, old: &[u32], new_text: &str) -> Edit {
    let edit = t.retokenise_from(old, new_text);
    assert!(edit.exact);
    assert_eq!(t.decode(&edit.ids), new_text);
    assert_eq!(edit.ids[..edit.kept], old[..edit.kept]);
    edit
}

#[test]
fn word_starts() {
    let t = story();
    let text = "Hello world  it's<|endoftext|>é1";
    for (at, start) in [
        (0, 0),
        (3, 0),
        (5, 5),
        (6, 5),
        (10, 5),
        // Two spaces before a word: one alone, one with the word.
        (11, 11),
        (12, 12),
        (14, 12),
        (15, 15),
        (16, 15),
        (17, 17),
        (20, 17),
        (30, 30),
        (31, 30),
        (32, 32),
        (33, 33),
        (99, 33),
    ] {
        assert_eq!(t.word_start(text, at), start, "{at}");
    }
    assert_eq!(t.word_start("", 0), 0);
}

#[test]
fn without_a_pre_tokenizer_a_text_is_one_word() {
    let mut json = byte_level_json(&[]);
    json["pre_tokenizer"] = Value::Null;
    let t = load(&json);
    assert_eq!(
        (t.word_start("two words", 6), t.word_start("two words", 9)),
        (0, 9)
    );
}

#[test]
fn tokens_before_the_edited_word_keep_their_ids() {
    let t = story();
    // "king" spelled in letters, as a model might have chosen it.
    let spelled: Vec<u32> = ["Ġ", "k", "i", "n", "g"]
        .iter()
        .map(|c| t.id_of(c).unwrap())
        .collect();
    let mut old = t.encode("The old");
    old.extend(&spelled);
    let before = old.len();
    old.extend(t.encode(" was"));
    let e = edit(&t, &old, "The old king is");
    assert_eq!(e.kept, before);
    assert_eq!(e.ids, [&old[..before], &t.encode(" is")].concat());
    // An edit inside the word spells it afresh, and only from there.
    let e = edit(&t, &old, "The old kings was");
    assert_eq!(e.kept, t.encode("The old").len());
    assert_eq!(e.ids, t.encode("The old kings was"));
    // Appending to the end of a word is an edit of that word.
    let e = edit(&t, &old[..before], "The old kings");
    assert_eq!(e.kept, t.encode("The old").len());
    // Appending a new word is not.
    assert_eq!(edit(&t, &old[..before], "The old king.").kept, before);
}

#[test]
fn an_edit_that_changes_nothing_keeps_everything() {
    let t = story();
    let old = [t.encode("ab"), vec![0xff, 9999]].concat();
    let text = t.decode(&old);
    assert_eq!(
        t.retokenise_from(&old, &text),
        Edit {
            kept: old.len(),
            ids: old,
            exact: true
        }
    );
    let nothing = Edit {
        kept: 0,
        ids: vec![],
        exact: true,
    };
    assert_eq!(t.retokenise_from(&[], ""), nothing);
    assert_eq!(t.retokenise_from(&[5, 6, 7], ""), nothing);
}

#[test]
fn words_that_join_or_split_are_both_edited() {
    let t = story();
    let old = t.encode("one two three");
    let one = t.encode("one").len();
    assert_eq!(edit(&t, &old, "onetwo three").kept, 0);
    assert_eq!(edit(&t, &old, "one t wo three").kept, one);
    assert_eq!(edit(&t, &old, "one three").kept, one);
}

#[test]
fn a_word_that_depends_on_what_follows_is_edited_too() {
    let t = story();
    // Two spaces at the end are one word, before a letter they are two.
    let old = t.encode("a  ");
    let e = edit(&t, &old, "a  b");
    assert_eq!((e.kept, e.ids), (1, t.encode("a  b")));
    let old = t.encode("a \n");
    assert_eq!(edit(&t, &old, "a \nb").ids, t.encode("a \nb"));
}

#[test]
fn typed_end_of_text_is_the_control_token() {
    let t = story();
    let old = t.encode("a<|endoftext|");
    assert!(!old.contains(&0));
    assert_eq!(
        edit(&t, &old, "a<|endoftext|>").ids,
        t.encode("a<|endoftext|>")
    );
    assert!(t.encode("a<|endoftext|>").contains(&0));
    // Deleting into it takes it apart again.
    let e = edit(&t, &t.encode("a<|endoftext|>b"), "a<|endoftext>b");
    assert!(!e.ids.contains(&0));
}

#[test]
fn placeholders_outside_the_edit_go_on_standing_for_their_ids() {
    let t = bytes_and(&[b"\xe2\x96", b"xyz"]);
    let text = |s: &str| t.encode(s);
    // Before the edit, in its word, and behind it.
    let old = [
        text("a "),
        vec![256],
        text("b"),
        vec![0xff, 9999],
        text("c d "),
        vec![256],
    ]
    .concat();
    assert_eq!(t.decode(&old), format!("a {F}b{F}{F}c d {F}"));
    let e = edit(&t, &old, &format!("a {F}b{F}{F}cc d {F}"));
    let new = [
        text("a "),
        vec![256],
        text("b"),
        vec![0xff, 9999],
        text("cc d "),
        vec![256],
    ]
    .concat();
    assert_eq!(e.ids, new);
    // One is deleted as one character.
    let e = edit(&t, &old, &format!("a {F}b{F}c d {F}"));
    assert_eq!(
        e.ids,
        [
            text("a "),
            vec![256],
            text("b"),
            vec![0xff],
            text("c d "),
            vec![256]
        ]
        .concat()
    );
    // Where it was is known better to who saw the edit.
    let e = t.replace(&old, 6..9, "");
    assert_eq!(
        e.ids,
        [
            text("a "),
            vec![256],
            text("b"),
            vec![9999],
            text("c d "),
            vec![256]
        ]
        .concat()
    );
    // From the word on, tokens that were chosen are spelled afresh.
    let e = edit(&t, &[257, 0xff], &format!("wxyz{F}"));
    assert_eq!(e.ids, [text("wxyz"), vec![0xff]].concat());
}

#[test]
fn a_placeholder_beside_a_character_of_the_same_token_stays_with_it() {
    let t = bytes_and(&[b" \xf0\x9f"]);
    let old = [t.encode("a"), vec![256], t.encode("b")].concat();
    let e = edit(&t, &old, &format!("aa {F}b"));
    assert_eq!(e.ids, [t.encode("aa"), vec![256], t.encode("b")].concat());
    // Without its space, the rest is typed.
    let e = edit(&t, &old, &format!("a{F}b"));
    assert_eq!(e.ids, t.encode(&format!("a{F}b")));
}

#[test]
fn a_placeholder_stays_with_the_character_its_token_completes() {
    let t = bytes_and(&[b"\x96\x81\xff"]);
    let old = [b'a'.into(), 0xe2, 256];
    let e = edit(&t, &old, &format!("ab▁{F}"));
    assert_eq!(e.ids, [b'a'.into(), b'b'.into(), 0xe2, 256]);
}

#[test]
fn placeholders_that_would_join_to_a_character_become_typed() {
    let t = bytes_and(&[b"\xe2\x96"]);
    // Deleting the "a" between E2 96 and 81 must not turn two placeholders into "▁".
    let old = [256, b'a'.into(), 0x81, 0xff];
    let e = edit(&t, &old, &F.repeat(3));
    assert_eq!(e.ids, [vec![256], t.encode(F), vec![0xff]].concat());
}

#[test]
fn a_typed_replacement_character_is_text() {
    let t = bytes_and(&[]);
    let e = edit(&t, &[0xff], &format!("{F}{F}"));
    assert_eq!(e.ids, [vec![0xff], t.encode(F)].concat());
}

#[test]
fn a_character_over_several_tokens_is_not_cut() {
    let t = story();
    let old = t.encode("x 🙂");
    let e = edit(&t, &old, "x 🙂🙂");
    assert_eq!((e.kept, e.ids), (1, t.encode("x 🙂🙂")));
    assert_eq!(edit(&t, &old, "x 🙁").ids, t.encode("x 🙁"));
    assert_eq!(edit(&t, &old, "x ").ids, t.encode("x "));
}

#[test]
fn replace_widens_ranges_to_whole_characters() {
    let t = story();
    let old = t.encode("a🙂b");
    for range in [2..3, 1..2, 4..5, 3..3] {
        assert_eq!(t.decode(&t.replace(&old, range, "-").ids), "a-b");
    }
    assert_eq!(t.decode(&t.replace(&old, 99..100, "-").ids), "a🙂b-");
    let end = 2;
    assert_eq!(t.decode(&t.replace(&old, 6..end, "-").ids), "a🙂b-");
}

#[test]
fn a_normaliser_that_changes_the_text_is_said() {
    let mut json = byte_level_json(&[]);
    json["normalizer"] = json!({"type": "NFC"});
    let t = load(&json);
    let e = t.retokenise_from(&[], "e\u{301}");
    assert_eq!((t.decode(&e.ids).as_str(), e.exact), ("é", false));
}
