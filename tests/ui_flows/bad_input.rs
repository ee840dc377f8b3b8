//! Input that no one should give, and numbers that no model should: the window shows what it can and never panics.

use egui::{Key, Modifiers};
use logitscope::{session::FIRST_TEXT, ui::Panel};

use crate::{
    player::{self, Mind},
    window::{Opening, Window},
};

fn replace_all(window: &mut Window, text: &str) {
    window.select_all();
    window.press(Key::Delete);
    window.paste(text);
    window.wait(0.3);
}

#[test]
fn texts_of_every_kind_are_shown_predicted_and_continued() {
    for text in [
        "🦊👩‍👩‍👧‍👦🏳️‍🌈",
        "e\u{301}e\u{301}\u{301}\u{301} Z̸̡a̵l̷g̶o̴",
        "\u{1}\u{7f}\u{0}\t\u{1b}[31m",
        "one\r\ntwo\r\rthree\n\n",
        "\u{fffd}\u{fffd} \u{fffd}",
        "\u{feff}\u{200b}\u{202e}drawkcab",
        "東京 Москва עברית العربية",
        "<|endoftext|>Once<|endoftext|>",
        "   \n\n\n   ",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    ] {
        let mut window = Window::new();
        replace_all(&mut window, text);
        let read = window.text().to_owned();
        let tokenizer = window.session().tokenizer().expect("loaded").clone();
        assert_eq!(tokenizer.encode(&read), window.session().ids(), "{text:?}");
        assert!(window.session().view().is_some(), "{text:?}");
        window.click("Run");
        window.append(3);
        window.click("Stop");
        assert_eq!(window.session().counts().generated, 3, "{text:?}");
        for _ in 0..4 {
            window.press(Key::F7);
        }
        window.type_text("x");
        window.wait(0.3);
        window.press_with(Modifiers::COMMAND, Key::Z);
        window.press_with(Modifiers::COMMAND, Key::Z);
        window.press_with(Modifiers::COMMAND, Key::Z);
        assert_eq!(window.text(), FIRST_TEXT, "{text:?}");
    }
}

#[test]
fn a_hundred_thousand_characters_are_too_long_and_the_last_ones_can_be_used() {
    let mut window = Window::new();
    let long = "Once upon a time there was. ".repeat(100_000 / 28 + 1);
    replace_all(&mut window, &long);
    assert_eq!(window.text(), long);
    assert!(window.session().is_too_long());
    assert!(window.says(" tokens; the context holds 512, of which 120 are left for new ones."));
    let requests = window.player.model_requests();
    window.click("Run");
    assert!(window.says("shorten it, or use its last 392 tokens."));
    assert_eq!(window.player.model_requests(), requests, "nothing is run");
    // What the notice says is no longer so once the text is another.
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert!(!window.session().is_too_long() && !window.says("shorten it"));
    window.press_with(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    window.click("Run");
    window.click("Dismiss");
    window.click("Use the last 392");
    assert_eq!(window.text(), long, "the head stays in the text");
    assert_eq!(window.session().context_len(), 392);
    assert!(window.session().view().is_some());
    assert!(window.says("392 of 512 context"));
    window.click("Run");
    window.append(200);
    assert_eq!(window.session().counts().generated, 120);
    assert!(window.says("512 of 512 context"));
}

#[test]
fn a_full_context_stops_the_run_and_a_further_one() {
    let mut window = Window::open(Opening {
        model: player::model("small", 10),
        ..Default::default()
    });
    window.click("Run");
    window.append(50);
    assert_eq!(window.session().len(), 10);
    assert!(window.says("stopped: context full"));
    assert!(window.session().view().is_some());
    window.click("Run");
    assert!(!window.player.is_running());
    assert_eq!(window.session().len(), 10);
    window.click("Step");
    assert_eq!(window.session().len(), 10);
}

#[test]
fn an_empty_text_is_a_lone_end_of_text_and_without_one_the_window_says_why_not() {
    let mut window = Window::new();
    replace_all(&mut window, "");
    assert_eq!(window.text(), "");
    assert!(window.session().view().is_some());
    window.click("Run");
    window.append(2);
    assert_eq!(window.session().ids()[0], 0);
    assert_eq!(window.session().len(), 3);

    let mut model = player::model("no end", 32);
    model.end_of_text = None;
    let mut window = Window::open(Opening {
        model,
        ..Default::default()
    });
    replace_all(&mut window, "");
    assert!(window.session().view().is_none());
    window.click("Run");
    assert!(window.says("this model has no end-of-text token to start from"));
    assert!(!window.player.is_running());
}

/// Runs three tokens under a mind, looking at each step in every panel alone and at two type sizes.
fn survives(mind: Mind) {
    let mut window = Window::new();
    window.player.mind = mind;
    window.type_text(" x");
    window.wait(0.3);
    window.click("Run");
    window.append(3);
    window.click("Stop");
    window.press(Key::F7);
    window.drag_slider("temperature", 0.1);
    window.press_with(Modifiers::COMMAND, Key::Plus);
    for panel in Panel::ALL {
        window.click("Panels");
        window.button("Show one alone").hover();
        window.settle();
        use egui_kittest::kittest::Queryable as _;
        window
            .harness
            .get_by_role_and_label(egui::Role::RadioButton, panel.title())
            .click();
        window.settle();
        for _ in 0..3 {
            window.press(Key::F7);
        }
        window.press(Key::F9);
        window.press(Key::Escape);
    }
    assert!(window.session().counts().generated >= 1);
}

#[test]
fn logits_that_are_not_numbers_are_shown_as_what_they_are() {
    for mind in [
        (|_, vocab_size| vec![f32::NAN; vocab_size]) as Mind,
        |_, vocab_size| vec![f32::NEG_INFINITY; vocab_size],
        |_, vocab_size| vec![f32::INFINITY; vocab_size],
        |_, vocab_size| vec![0.0; vocab_size],
        |_, vocab_size| vec![f32::MAX; vocab_size],
        |_, vocab_size| vec![f32::MIN; vocab_size],
        |context, vocab_size| {
            let mut logits = player::mind(context, vocab_size);
            logits[10] = f32::NAN;
            logits[20] = f32::INFINITY;
            logits[30] = f32::NEG_INFINITY;
            logits[40] = -f32::MAX;
            logits
        },
    ] {
        survives(mind);
    }
}

#[test]
fn a_model_of_one_token_and_one_head() {
    let mut model = player::model("tiny", 8);
    model.n_layer = 1;
    model.n_head = 1;
    let mut window = Window::open(Opening {
        model,
        ..Default::default()
    });
    replace_all(&mut window, "a");
    assert_eq!(window.session().len(), 1);
    window.click("Run");
    window.append(20);
    assert_eq!(window.session().len(), 8);
}
