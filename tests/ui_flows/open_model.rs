//! A folder that is dropped on the window: what it holds and takes is shown before it is loaded.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use egui::Key;
use logitscope::{
    model::{LoadRequest, ModelSource, Precision, WeightOptions},
    picker::{Pick, Picker},
    worker::{Command, Event},
};

use crate::{
    player::{self, Load, N_CTX},
    window::Window,
};

#[derive(Debug)]
struct Dropped(PathBuf);

impl egui::DroppedFile for Dropped {
    fn path(&self) -> &Path {
        &self.0
    }

    fn bytes(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.0).map_err(|error| error.to_string())
    }
}

fn drop_on(window: &mut Window, path: &Path) {
    let file = Arc::new(Dropped(path.to_owned()));
    window.harness.input_mut().dropped_files.push(file);
    window.settle();
}

fn loads(window: &Window) -> Vec<LoadRequest> {
    let heard = window.player.heard.iter();
    heard
        .filter_map(|command| match command {
            Command::Load(request) => Some(request.clone()),
            _ => None,
        })
        .collect()
}

/// A folder of the fixture's sizes.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/gpt2-tiny/safetensors");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(fixture.join(file), folder.path().join(file)).expect("a copy");
    }
    folder
}

#[test]
fn memory_is_shown_before_loading_and_the_precision_can_be_chosen() {
    let folder = folder();
    let mut window = Window::new();
    let before = loads(&window).len();
    // A file inside the folder stands for it.
    drop_on(&mut window, &folder.path().join("model.safetensors"));
    assert_eq!(loads(&window).len(), before, "nothing is loaded yet");
    assert!(window.says("3 layers × 4 heads\ncontext 64 · 400 tokens"));
    assert!(window.says("f32: 419 KiB"));
    window.named("f16: ").click();
    window.settle();
    window.press(Key::Escape);
    assert_eq!(loads(&window).len(), before, "it was left");

    drop_on(&mut window, folder.path());
    window.click("Load");
    let request = loads(&window).pop().expect("a load");
    assert_eq!(request.source, ModelSource::Folder(folder.path().into()));
    assert_eq!(request.weights.precision, Precision::F16);
    assert!(!window.says("Memory that the weights take"));
}

#[test]
fn a_folder_or_a_file_is_picked_from_the_menu() {
    let folder = folder();
    for (entry, what, picked) in [
        (
            "Open a folder…",
            Pick::Folder,
            Some(folder.path().to_owned()),
        ),
        (
            "Open a file…",
            Pick::File,
            Some(folder.path().join("config.json")),
        ),
        ("Open a file…", Pick::File, None),
    ] {
        let mut window = Window::new();
        let answer = picked.clone();
        let picker = Picker::asking(Box::new(move |asked| {
            assert_eq!(asked, what);
            let answer = answer.clone();
            Box::pin(async move { Ok(answer) })
        }));
        window.harness.state_mut().set_picker(picker);
        window.click("Model: storyteller");
        window.click(entry);
        let waited = std::time::Instant::now();
        while picked.is_some() && !window.says("Memory that the weights take") {
            assert!(waited.elapsed().as_secs() < 30, "{entry} opens nothing");
            window.harness.step();
        }
        if picked.is_some() {
            window.click("Load");
            let request = loads(&window).pop().expect("a load");
            assert_eq!(request.source, ModelSource::Folder(folder.path().into()));
        } else {
            window.wait(0.2);
            assert_eq!(loads(&window).len(), 1, "cancelled");
        }
    }
}

#[test]
fn the_keyboard_alone_loads_it() {
    let folder = folder();
    let mut window = Window::new();
    let before = loads(&window).len();
    drop_on(&mut window, folder.path());
    window.press(Key::Enter);
    assert_eq!(loads(&window).len(), before + 1);
}

#[test]
fn what_is_no_model_is_explained_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut window = Window::new();
    let before = loads(&window).len();
    drop_on(&mut window, folder.path());
    assert!(window.says("config.json and the weights"));
    assert_eq!(loads(&window).len(), before);
    window.click("Dismiss");

    fs::write(
        folder.path().join("config.json"),
        r#"{"model_type":"llama"}"#,
    )
    .expect("written");
    drop_on(&mut window, folder.path());
    assert!(window.says("llama"));
    assert_eq!(loads(&window).len(), before);
}

#[test]
fn a_refused_file_is_loaded_otherwise_at_one_click() {
    let mut window = Window::new();
    let allowed = WeightOptions {
        allow_unknown_tensors: true,
        ..Default::default()
    };
    window.player.loads.push_back(Load::Fails {
        name: "storyteller".to_owned(),
        message: "model.safetensors holds the tensor score.weight".to_owned(),
        instead: Some(allowed),
    });
    window.click("Model: storyteller");
    window.click("storyteller (built in)");
    assert!(window.says("holds the tensor score.weight"));
    window.click("Load without them");
    assert!(!window.says("holds the tensor score.weight"));
    assert_eq!(loads(&window).pop().expect("a load").weights, allowed);
    assert_eq!(window.harness.state().remembered().place.weights, allowed);
}

#[test]
fn what_was_done_to_make_the_files_fit_is_said_beside_the_name() {
    let mut window = Window::new();
    let mut model = player::model("padded", N_CTX);
    model.notes = vec!["the token table has 448 rows: 400 are used".to_owned()];
    window.player.say(Event::Loaded(Arc::new(model)));
    window.settle();
    window.click("About this model: the token table has 448 rows: 400 are used");
    assert!(window.says("The token table has 448 rows: 400 are used."));
}

#[test]
fn every_entry_of_a_menu_can_be_reached_in_a_low_window() {
    let mut window = Window::sized(900.0, 600.0);
    window.click("Model: storyteller");
    window.harness.hover_at(egui::pos2(100.0, 300.0));
    for _ in 0..20 {
        window.harness.event(egui::Event::MouseWheel {
            unit: egui::MouseWheelUnit::Line,
            delta: egui::vec2(0.0, -3.0),
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers: egui::Modifiers::NONE,
        });
        window.harness.step();
    }
    window.settle();
    let last = window.named("f16: ").rect();
    assert!(last.bottom() <= 600.0, "{last}");
    window.named("f16: ").click();
    window.settle();
    let request = loads(&window).pop().expect("a load");
    assert_eq!(request.weights.precision, Precision::F16);
}
