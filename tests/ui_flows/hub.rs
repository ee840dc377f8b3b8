//! Models by name: the menu, a download in the bar, cancel, failures; the Hub is a server on the loopback address.

use std::time::{Duration, Instant};

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::{
    hub::{Hub, Patience},
    model::ModelSource,
    worker::Command,
};
use tempfile::TempDir;

use crate::{
    hub_server::{COMMIT, FakeHub, Reply, Repo},
    window::Window,
};

const GPT2: &str = "openai-community/gpt2";

/// A window, its Hub's cache, and the Hub.
struct Place {
    window: Window,
    cache: TempDir,
    server: FakeHub,
}

impl Place {
    fn new(server: FakeHub) -> Self {
        let cache = TempDir::new().expect("a folder");
        let mut hub = Hub::at(&server.url(), cache.path()).expect("an address");
        hub.patience = Patience {
            tries: 1,
            ..Patience::default()
        };
        let mut window = Window::new();
        window.harness.state_mut().set_hub(hub);
        Self {
            window,
            cache,
            server,
        }
    }

    fn snapshot(&self, folder: &str) -> ModelSource {
        let snapshots = self.cache.path().join(folder).join("snapshots");
        ModelSource::Folder(snapshots.join(COMMIT))
    }

    /// Shows frames until something holds; the download has a thread of its own.
    #[track_caller]
    fn until(&mut self, what: &str, holds: impl Fn(&Window) -> bool) {
        let end = Instant::now() + Duration::from_secs(30);
        while !holds(&self.window) {
            assert!(Instant::now() < end, "never: {what}");
            std::thread::sleep(Duration::from_millis(5));
            self.window.harness.step();
            self.window.player.pump();
        }
    }

    fn type_name(&mut self, name: &str) {
        self.window.click("Model: storyteller");
        let field = "Name of a model on the Hub";
        self.window
            .harness
            .get_by_role_and_label(Role::TextInput, field)
            .focus();
        self.window.settle();
        self.window
            .harness
            .key_press_modifiers(Modifiers::COMMAND, Key::A);
        self.window.settle();
        self.window.paste(name);
        self.window.press(Key::Enter);
    }

    fn choose(&mut self, name: &str) {
        self.window.click("Model: storyteller");
        self.window.click(name);
    }
}

fn last_load(window: &Window) -> Option<&ModelSource> {
    let mut loads = window
        .player
        .heard
        .iter()
        .filter_map(|command| match command {
            Command::Load(request) => Some(&request.source),
            _ => None,
        });
    loads.next_back()
}

fn sound(id: &str) -> FakeHub {
    FakeHub::sound(Repo::gpt2(id, 1000))
}

/// Weights that come slowly enough to be cancelled.
fn slow() -> FakeHub {
    FakeHub::start(Repo::gpt2(GPT2, 1_000_000), |seen, mut reply| {
        if seen.is_weights() {
            reply.slow = Duration::from_millis(200);
        }
        reply
    })
}

#[test]
fn nothing_is_asked_before_a_name_is_chosen_and_what_arrives_is_loaded() {
    let mut place = Place::new(sound(GPT2));
    place.window.click("Model: storyteller");
    place.window.wait(0.5);
    assert!(place.server.seen().is_empty());
    place.window.click("gpt2 from the Hub");
    let wanted = place.snapshot("models--openai-community--gpt2");
    place.until("loaded", |window| last_load(window) == Some(&wanted));
    assert_eq!(wanted.name(), "gpt2");
    assert!(!place.window.says("Cancel download"));

    // The second time it is simply there.
    let asked = place.server.seen().len();
    let loads = place.window.player.heard.len();
    place.window.settle();
    place.window.named("Model: ").click();
    place.window.settle();
    place.window.click("gpt2 from the Hub");
    place.until("loaded again", |window| {
        window.player.heard.len() > loads && last_load(window) == Some(&wanted)
    });
    assert_eq!(place.server.seen().len(), asked);
}

#[test]
fn the_current_model_runs_while_another_downloads_and_cancel_keeps_it() {
    let mut place = Place::new(slow());
    place.choose("gpt2 from the Hub");
    place.until("the bar shows it", |window| window.says("Cancel download"));
    let before = last_load(&place.window).cloned();
    place.window.click("Run");
    place.window.append(3);
    assert_eq!(place.window.session().counts().generated, 3);
    place.window.click("Cancel download");
    assert!(!place.window.says("Cancel download"));
    assert!(
        !place.window.says("could not be downloaded"),
        "it was wanted"
    );
    place.window.append(1);
    assert_eq!(last_load(&place.window).cloned(), before);
}

#[test]
fn any_name_can_be_typed_and_a_wrong_one_is_explained() {
    let mut place = Place::new(sound("some/model"));
    for (name, said) in [
        ("no name", "“no name” is no model name"),
        ("some/other", "some/other was not found on 127.0.0.1"),
    ] {
        place.type_name(name);
        place.until("a notice", |window| window.says(said));
        place.window.click("Dismiss");
        place.window.press(Key::Escape);
    }
    place.type_name("some/model");
    let wanted = place.snapshot("models--some--model");
    place.until("loaded", |window| last_load(window) == Some(&wanted));
    assert_eq!(wanted.name(), "some/model");
}

#[test]
fn a_download_that_fails_says_why_and_changes_nothing() {
    let server = FakeHub::start(Repo::gpt2(GPT2, 1000), |seen, reply| {
        if seen.is_weights() {
            Reply::status(503)
        } else {
            reply
        }
    });
    let mut place = Place::new(server);
    let before = last_load(&place.window).cloned();
    place.choose("gpt2 from the Hub");
    place.until("a notice", |window| {
        window.says("gpt2 could not be downloaded: 127.0.0.1 has a fault (status 503)")
    });
    assert!(!place.window.says("Cancel download"));
    assert_eq!(last_load(&place.window).cloned(), before);
}
