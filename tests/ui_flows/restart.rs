//! What survives a restart and a crash.

use std::{fs, path::Path};

use egui::{Key, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    session::FIRST_TEXT,
    store::{Remembered, Store},
    ui::Panel,
    worker::Pace,
};

use crate::window::{Opening, Window};

fn open(file: &Path) -> Window {
    Window::open(Opening {
        store: Store::at(file.to_owned()),
        ..Default::default()
    })
}

#[test]
fn text_settings_and_layout_survive() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("window.json");
    let mut window = open(&file);
    window.type_text(" there was naïve 東京 🦊");
    window.drag_slider("temperature", 0.9);
    window.click("Dark appearance");
    window.click("Panels");
    window
        .harness
        .get_by_role_and_label(Role::CheckBox, Panel::Logits.title())
        .click();
    window.settle();
    window.press(Key::Escape);
    window
        .harness
        .get_by_role_and_label(Role::ComboBox, "Pace")
        .click();
    window.settle();
    window.click("2 tokens/s");
    window.click("Run");
    window.append(3);
    let (text, settings) = (
        window.text().to_owned(),
        window.session().settings().clone(),
    );
    // Nothing is said to the window: it is as good as killed a moment after the last change.
    window.wait(1.2);
    drop(window);

    let again = open(&file);
    assert_eq!(again.text(), text);
    assert_eq!(*again.session().settings(), settings);
    assert_eq!(again.session().pace(), Pace::TokensPerSecond(2));
    assert!(again.harness.ctx.global_style().visuals.dark_mode);
    assert!(!again.says("Temperature of the softmax"));
    assert!(again.says("Prompt"));
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("window.json");
    let mut window = open(&file);
    while !file.exists() {
        window.wait(1.1);
    }
    window.wait(2.0);
    fs::remove_file(&file).expect("it was written");
    window.wait(3.0);
    assert!(!file.exists());
}

#[test]
fn a_torn_file_is_put_aside_and_the_window_opens() {
    for torn in [
        "",
        "{",
        "{\"text\": \"half",
        "null",
        "[1]",
        "{\"scale\": \"large\"}",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("window.json");
        fs::write(&file, torn).expect("written");
        let mut window = open(&file);
        assert_eq!(window.text(), FIRST_TEXT, "{torn}");
        assert!(window.session().view().is_some(), "{torn}");
        window.wait(1.5);
        drop(window);
        let aside = folder.path().join("window.unreadable.json");
        assert_eq!(fs::read_to_string(aside).ok().as_deref(), Some(torn));
        assert!(
            serde_json::from_str::<Remembered>(&fs::read_to_string(&file).expect("written"))
                .is_ok()
        );
    }
}

#[test]
fn wild_values_in_the_file_do_no_harm() {
    for json in [
        r#"{"scale": 1e30}"#,
        r#"{"scale": -5}"#,
        r#"{"scale": null}"#,
        r#"{"settings": {"temperature": -1.0, "top_p": 99.0, "repetition_penalty": 0.0, "stop": [""]}}"#,
        r#"{"pace": {"TokensPerSecond": 0}}"#,
        r#"{"text": ""}"#,
        r#"{"text": "\r\n\u0000\ufffd"}"#,
        r#"{"dock": {"wide": {}}}"#,
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("window.json");
        fs::write(&file, json).expect("written");
        let mut window = open(&file);
        window.session().settings().validate().expect(json);
        window.click("Run");
        window.append(2);
        assert!(window.session().counts().generated == 2, "{json}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_said_once_and_nothing_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a file, not a folder");
    fs::write(&file, "").expect("written");
    let mut window = open(&file.join("window.json"));
    window.type_text("!");
    window.wait(1.5);
    assert!(window.says("The text and settings could not be saved"));
    window.click("Run");
    window.append(2);
    assert_eq!(window.session().counts().generated, 2);
}
