//! Loading models, failing to, and what is asked for meanwhile.

use std::sync::Arc;

use egui::Role;
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    model::{DeviceChoice, LoadRequest, ModelSource},
    session::{Activity, FIRST_TEXT},
    store::Remembered,
    worker::{Command, Event},
};

use crate::{
    player::{self, Load, N_CTX},
    window::{Opening, Window, store_with},
};

fn fails() -> Load {
    Load::Fails {
        name: "my-gpt2".to_owned(),
        message: "config.json is not there. Choose a folder in Hugging Face layout.".to_owned(),
        instead: None,
    }
}

fn load_built_in(window: &mut Window) {
    window.click("Model: storyteller");
    window.click("storyteller (built in)");
}

fn loads(window: &Window) -> Vec<&ModelSource> {
    window
        .player
        .heard
        .iter()
        .filter_map(|command| match command {
            Command::Load(request) => Some(&request.source),
            _ => None,
        })
        .collect()
}

#[test]
fn a_failed_load_says_why_and_changes_nothing() {
    let mut window = Window::new();
    window.click("Run");
    window.append(3);
    let (text, name) = (
        window.text().to_owned(),
        window.session().model().map(|model| model.name.clone()),
    );
    window.player.loads.push_back(fails());
    load_built_in(&mut window);
    assert!(window.says("my-gpt2 could not be loaded. config.json is not there."));
    assert_eq!(window.text(), text);
    assert_eq!(
        window.session().model().map(|model| model.name.clone()),
        name
    );
    assert_eq!(window.session().counts().generated, 3);
    window.click("Run");
    window.append(2);
    assert_eq!(
        window.session().len(),
        4 + 5,
        "the previous model still runs"
    );
    window.click("Dismiss");
    assert!(
        !window.says("could not be loaded"),
        "the notice appears once"
    );
}

#[test]
fn a_run_asked_for_while_a_model_loads_is_queued_and_carried_out() {
    let mut window = Window::new();
    window.player.loads.push_back(Load::Hangs);
    load_built_in(&mut window);
    assert!(window.says("LOADING"));
    window.click("Run");
    assert!(window.says("run queued"));
    assert_eq!(window.session().activity(), Activity::Idle);
    let model = window.player.model.clone();
    window.player.say(Event::Loaded(model));
    window.settle();
    assert_eq!(window.session().activity(), Activity::Running);
    window.append(2);
    assert_eq!(window.session().len(), 4 + 2);
}

#[test]
fn a_queued_run_is_cancelled_by_its_own_button_and_by_stop() {
    for by_stop in [false, true] {
        let mut window = Window::new();
        window.player.loads.push_back(Load::Hangs);
        load_built_in(&mut window);
        window.click("Run");
        if by_stop {
            window.press_with(egui::Modifiers::SHIFT, egui::Key::F5);
        } else {
            window.click("Queued");
        }
        assert!(!window.says("run queued"));
        let model = window.player.model.clone();
        window.player.say(Event::Loaded(model));
        window.settle();
        assert_eq!(window.session().activity(), Activity::Idle);
    }
}

#[test]
fn a_load_is_cancelled_and_the_old_model_stays() {
    let mut window = Window::new();
    window.player.loads.push_back(Load::Hangs);
    load_built_in(&mut window);
    window.player.say(Event::Loading {
        name: "storyteller".to_owned(),
        done_bytes: 3 << 20,
        total_bytes: 12 << 20,
    });
    window.settle();
    assert!(window.says("storyteller: 3 MiB of 12 MiB"));
    window.click("Cancel");
    assert!(matches!(
        window.player.heard.last(),
        Some(Command::CancelLoad)
    ));
    assert!(window.says("was cancelled"));
    assert!(window.session().loading().is_none() && window.session().model().is_some());
    assert_eq!(window.text(), FIRST_TEXT);
}

#[test]
fn a_model_switch_keeps_the_text_and_reads_it_again() {
    let mut window = Window::new();
    window.click("Run");
    window.append(6);
    let text = window.text().to_owned();
    let other = Arc::new(player::model_with_large_vocabulary(N_CTX));
    window.player.loads.push_back(Load::Succeeds(other));
    load_built_in(&mut window);
    assert!(window.says("Model: large vocabulary"));
    assert_eq!(window.text(), text);
    assert_eq!(window.session().counts().generated, 0, "read as typed");
    let view = window.session().view().expect("predicted by the new model");
    assert_eq!(view.logits.values.len(), 50_257);
    assert!(window.says("50,237 others"));
}

#[test]
fn the_device_is_chosen_in_the_model_menu() {
    let mut window = Window::new();
    window.click("Model: storyteller");
    window
        .harness
        .get_by_role_and_label(Role::RadioButton, "CPU")
        .click();
    window.settle();
    assert!(matches!(
        window
            .player
            .heard
            .iter()
            .rfind(|command| matches!(command, Command::Load(_))),
        Some(Command::Load(LoadRequest {
            device: DeviceChoice::Cpu,
            ..
        }))
    ));
    assert_eq!(
        window.harness.state().remembered().place.device,
        DeviceChoice::Cpu
    );
}

#[test]
fn a_remembered_folder_that_is_gone_gives_way_to_the_built_in_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let remembered = Remembered {
        model: Some(folder.path().join("gone")),
        ..Default::default()
    };
    let opening = Opening {
        store: store_with(&folder.path().join("window.json"), &remembered),
        ..Default::default()
    };
    let mut window = Window::open_unanswered(opening);
    window.player.loads.push_back(fails());
    window.settle();
    assert!(matches!(
        loads(&window)[..],
        [ModelSource::Folder(_), ModelSource::BuiltIn]
    ));
    assert!(window.says("could not be loaded"));
    assert!(window.session().model().is_some());
    assert!(window.session().view().is_some());
}

#[test]
fn a_failing_compute_device_is_a_notice_and_the_window_goes_on() {
    let mut window = Window::new();
    window.click("Run");
    window.append(2);
    let Some(Command::Run(request)) = window
        .player
        .heard
        .iter()
        .rfind(|command| matches!(command, Command::Run(_)))
        .cloned()
    else {
        panic!("no run")
    };
    window.player.say(Event::Failed {
        epoch: request.epoch,
        message: "The compute device failed: out of memory.".to_owned(),
    });
    window.settle();
    assert!(window.says("The compute device failed: out of memory."));
    assert_eq!(window.session().activity(), Activity::Idle);
    assert_eq!(window.session().len(), 4 + 2);
    window.click("Dismiss");
    window.click("Run");
    assert_eq!(window.session().activity(), Activity::Running);
}

#[test]
fn at_the_start_the_built_in_model_takes_the_place_of_one_that_fails() {
    let mut window = Window::open_unanswered(Opening::default());
    window.player.loads.push_back(fails());
    window.settle();
    assert!(window.says("my-gpt2 could not be loaded. config.json is not there."));
    assert_eq!(loads(&window).last(), Some(&&ModelSource::BuiltIn));
    assert!(window.session().view().is_some());
}

#[test]
fn without_any_model_the_window_says_so() {
    let mut window = Window::open_unanswered(Opening::default());
    // Neither what was asked for nor the built-in model.
    window.player.loads.extend([fails(), fails()]);
    window.settle();
    assert!(window.says("NO MODEL"));
    assert!(window.says("No model is loaded. Choose one from the model menu."));
    assert_eq!(window.text(), FIRST_TEXT);
    window.click("Run");
    assert!(window.session().activity() == Activity::Idle);
    window.type_text(" typed");
    assert_eq!(
        window.text(),
        "Once upon a time typed",
        "the text is there to edit"
    );
}
