//! The real window without a screen: egui_kittest around [`App`], found and driven by accessible names only.
//!
//! No renderer is made, so `Frame::wgpu_render_state` is `None` and panels take their CPU paths.

// Each test crate uses a part of it.
#![allow(dead_code)]

use std::path::Path;

use egui::{Event as InputEvent, Key, Modifiers, Pos2, Rect, Role, Vec2};
use egui_kittest::{Harness, HarnessBuilder, Node, kittest::Queryable as _};
use logitscope::{
    app::App,
    session::Session,
    store::{Remembered, Store},
    worker::{ModelInfo, WorkerHandle},
};

use crate::player::{self, Player};

/// Seconds between two frames of a test; the window has no other clock.
pub const FRAME_SECONDS: f32 = 1.0 / 60.0;

/// Most frames in a row that may ask for another one at once: more, and the window never comes to rest.
const FRAMES_TO_REST: u64 = 30;

/// What a test window is opened with.
pub struct Opening {
    pub size: Vec2,
    pub model: ModelInfo,
    pub store: Store,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            size: egui::vec2(1440.0, 900.0),
            model: player::model("storyteller", player::N_CTX),
            store: Store::default(),
        }
    }
}

/// A store that holds `remembered` and is written to.
pub fn store_with(file: &Path, remembered: &Remembered) -> Store {
    let text = serde_json::to_string(remembered).expect("what is remembered can be written");
    std::fs::write(file, text).expect("a file in a temporary folder");
    Store::at(file.to_owned())
}

pub fn builder(size: Vec2) -> HarnessBuilder<App> {
    Harness::builder()
        .with_size(size)
        .with_theme(egui::Theme::Light)
        .with_step_dt(FRAME_SECONDS)
        .with_max_steps(FRAMES_TO_REST)
        .allow_missing_glyphs()
}

/// A window whose worker the test plays.
pub struct Window {
    pub harness: Harness<'static, App>,
    pub player: Player,
}

impl Window {
    /// Opened at its first start: the model is loaded and the first text predicted.
    pub fn new() -> Self {
        Self::open(Opening::default())
    }

    pub fn sized(width: f32, height: f32) -> Self {
        Self::open(Opening {
            size: egui::vec2(width, height),
            ..Default::default()
        })
    }

    pub fn open(opening: Opening) -> Self {
        let mut window = Self::open_unanswered(opening);
        window.settle();
        window
    }

    /// Opened, but the worker has not answered yet.
    pub fn open_unanswered(opening: Opening) -> Self {
        let (worker, player) = Player::new(opening.model);
        let harness = open_app(builder(opening.size), worker, opening.store);
        Self { harness, player }
    }

    // ---- time --------------------------------------------------------------------------------------------------

    /// Shows frames and lets the worker answer until neither has anything left to do.
    #[track_caller]
    pub fn settle(&mut self) {
        for _ in 0..50 {
            self.harness.run();
            if !self.player.pump() {
                return;
            }
        }
        panic!("window and worker never come to rest");
    }

    /// Lets time pass, then settles.
    #[track_caller]
    pub fn wait(&mut self, seconds: f32) {
        for _ in 0..(seconds / FRAME_SECONDS).ceil() as usize {
            self.harness.step();
        }
        self.settle();
    }

    /// Lets the run in progress append tokens.
    #[track_caller]
    pub fn append(&mut self, count: usize) {
        assert!(self.player.is_running(), "nothing runs");
        self.player.append(count);
        self.settle();
    }

    // ---- looking -----------------------------------------------------------------------------------------------

    pub fn session(&self) -> &Session {
        self.harness.state().session()
    }

    pub fn text(&self) -> &str {
        self.session().text()
    }

    #[track_caller]
    pub fn button<'a>(&'a self, name: &'a str) -> Node<'a> {
        self.harness.get_by_role_and_label(Role::Button, name)
    }

    #[track_caller]
    pub fn prompt(&self) -> Node<'_> {
        self.harness
            .get_by_role_and_label(Role::MultilineTextInput, "Prompt")
    }

    pub fn says(&self, words: &str) -> bool {
        self.harness
            .query_all_by_label_contains(words)
            .next()
            .is_some()
    }

    /// The first thing whose name holds these words.
    #[track_caller]
    pub fn named(&self, words: &str) -> Node<'_> {
        let words = words.to_owned();
        let found = self
            .harness
            .query_all_by(move |node| node.label().is_some_and(|name| name.contains(&words)))
            .next();
        found.expect("something of this name")
    }

    /// A row of the Next token panel.
    #[track_caller]
    pub fn next_token_row(&self, rank: usize) -> Node<'_> {
        self.named(&format!(", rank {rank}, model P "))
    }

    // ---- acting ------------------------------------------------------------------------------------------------

    #[track_caller]
    pub fn click(&mut self, name: &str) {
        self.button(name).click();
        self.settle();
    }

    #[track_caller]
    pub fn press(&mut self, key: Key) {
        self.harness.key_press(key);
        self.settle();
    }

    #[track_caller]
    pub fn press_with(&mut self, modifiers: Modifiers, key: Key) {
        self.harness.key_press_modifiers(modifiers, key);
        self.settle();
    }

    /// Types at the end of the text.
    #[track_caller]
    pub fn type_text(&mut self, text: &str) {
        self.focus_end();
        self.prompt().type_text(text);
        self.settle();
    }

    #[track_caller]
    pub fn paste(&mut self, text: &str) {
        self.harness.event(InputEvent::Paste(text.to_owned()));
        self.settle();
    }

    /// Puts the cursor at the end of the text.
    #[track_caller]
    pub fn focus_end(&mut self) {
        self.prompt().focus();
        self.settle();
        self.harness
            .key_press_modifiers(Modifiers::COMMAND, Key::End);
        self.settle();
    }

    #[track_caller]
    pub fn select_all(&mut self) {
        self.prompt().focus();
        self.settle();
        self.harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
        self.settle();
    }

    /// Presses at one point, moves to another in a few steps, and lets go.
    #[track_caller]
    pub fn drag(&mut self, from: Pos2, to: Pos2) {
        self.harness.hover_at(from);
        self.harness.drag_at(from);
        for step in 1..=4 {
            self.harness
                .hover_at(from + (to - from) * (step as f32 / 4.0));
        }
        self.harness.drop_at(to);
        self.settle();
    }

    /// Drags a slider to a share of its rail.
    #[track_caller]
    pub fn drag_slider(&mut self, name: &str, share: f32) {
        let rect = self.slider(name);
        let at = |share: f32| Pos2::new(rect.left() + share * rect.width(), rect.center().y);
        self.drag(at(0.5), at(share));
    }

    #[track_caller]
    fn slider(&self, name: &str) -> Rect {
        self.harness
            .get_by_role_and_label(Role::Slider, name)
            .rect()
    }
}

/// The app in a harness, whatever its worker.
pub fn open_app(
    builder: HarnessBuilder<App>,
    worker: WorkerHandle,
    store: Store,
) -> Harness<'static, App> {
    builder.build_eframe(move |cc| App::new(cc, worker, store, None))
}
