//! A few small pictures, one panel each, drawn by wgpu on whatever adapter there is, a software one first, and compared
//! with `tests/snapshots`. `UPDATE_SNAPSHOTS=1 cargo test --release --test pictures` rewrites them.
//!
//! Size, scale, theme, seed and predictions are fixed and no clock is in view. Without an adapter these tests say so
//! and pass, unless `LOGITSCOPE_REQUIRE_ADAPTER=1`.

#[path = "support/player.rs"]
mod player;

use std::sync::{Mutex, MutexGuard, PoisonError};

use egui::{Ui, Vec2, vec2};
use egui_kittest::{
    Harness, SnapshotOptions,
    wgpu::{WgpuTestRenderer, create_render_state, default_wgpu_setup},
};
use logitscope::{
    model::{DeviceChoice, Gpt2Config, LoadRequest, ModelSource, WeightOptions},
    sampling::SamplingSettings,
    session::{Action, Session},
    ui::{
        PanelContext, PanelState, Theme, logits, next_token, open_model::OpenModel, sampling,
        theme, timeline, tokens,
    },
    worker::{Command, Pace, WorkerHandle},
};
use player::Player;

/// How far a pixel may be off, and how many may be further: rasterisers differ a little by CPU and by driver.
const PIXEL_THRESHOLD: f32 = 1.0;
const FAILED_PIXELS: usize = 20;

/// Pictures are drawn one at a time: a software rasteriser has no cores to spare.
static DRAWING: Mutex<()> = Mutex::new(());

/// The turn to draw, if there is anything to draw with.
fn adapter(test: &str) -> Option<MutexGuard<'static, ()>> {
    let drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    if !adapters.is_empty() {
        return Some(drawing);
    }
    let required = std::env::var("LOGITSCOPE_REQUIRE_ADAPTER").is_ok_and(|value| value == "1");
    assert!(!required, "{test} needs an adapter");
    println!("{test}: no adapter, nothing tested");
    None
}

type Panel = fn(&mut Ui, &mut PanelContext) -> egui::Response;

/// A session with its played worker, and one panel that shows it.
struct Stage {
    session: Session,
    worker: WorkerHandle,
    player: Player,
    panels: PanelState,
}

impl Stage {
    /// A prompt with some generated tokens, one of them picked from below the top.
    fn new() -> Self {
        let (worker, player) = Player::new(player::model("storyteller", player::N_CTX));
        let settings = SamplingSettings {
            max_new_tokens: 11,
            ..Default::default()
        };
        let session = Session::new("The fox said to the", settings, Pace::Unlimited);
        let mut stage = Self {
            session,
            worker,
            player,
            panels: PanelState::default(),
        };
        stage.player.runs_through = true;
        let load = Action::LoadModel(LoadRequest::new(ModelSource::BuiltIn, DeviceChoice::Cpu));
        stage.act(load);
        let fifth = stage.session.view().expect("the open step").top[4].id;
        stage.act(Action::Pick(fifth));
        stage.act(Action::RunOrPause);
        stage
    }

    fn act(&mut self, action: Action) {
        let commands = self.session.apply(action, 0.0);
        self.send(commands);
        while self.player.pump() {
            while let Some(event) = self.worker.try_event() {
                let commands = self.session.on_event(event, 0.0);
                self.send(commands);
            }
        }
        self.session.refresh_view();
    }

    fn send(&self, commands: Vec<Command>) {
        for command in commands {
            self.worker.send(command);
        }
    }
}

/// Draws a panel at a selected step and compares it with its snapshot.
fn picture(name: &str, panel: Panel, size: Vec2, dark: bool, step: Option<usize>) {
    let Some(_drawing) = adapter(name) else {
        return;
    };
    let mut stage = Stage::new();
    if let Some(step) = step {
        stage.act(Action::Select(step));
    }
    let gpu = create_render_state(
        default_wgpu_setup(),
        eframe::egui_wgpu::RendererOptions::PREDICTABLE,
    );
    let theme = Theme::of(dark);
    let shown = gpu.clone();
    let mut harness = Harness::builder()
        .with_size(size)
        .with_theme(if dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        })
        .with_context_setup(move |ctx| {
            ctx.set_fonts(theme::fonts());
            ctx.add_font(egui_material_icons::font_insert());
            theme.apply(ctx, 1.0);
        })
        .with_max_steps(30)
        .with_options(
            SnapshotOptions::new()
                .threshold(PIXEL_THRESHOLD)
                .max_failed_pixels(FAILED_PIXELS),
        )
        .renderer(WgpuTestRenderer::from_render_state(gpu))
        .build_eframe(move |_| Canvas {
            stage,
            theme,
            panel,
            gpu: shown,
        });
    harness.run();
    harness.snapshot(name);
}

/// Nothing but the panel.
struct Canvas {
    stage: Stage,
    theme: &'static Theme,
    panel: Panel,
    gpu: eframe::egui_wgpu::RenderState,
}

impl eframe::App for Canvas {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        let mut actions = Vec::new();
        let mut ctx = PanelContext {
            session: &self.stage.session,
            theme: self.theme,
            scale: 1.0,
            actions: &mut actions,
            panels: &mut self.stage.panels,
            gpu: Some(&self.gpu),
            now: 0.0,
        };
        let ground = egui::Frame::new().fill(self.theme.window).inner_margin(6);
        egui::CentralPanel::default()
            .frame(ground)
            .show(ui, |ui| (self.panel)(ui, &mut ctx));
        for action in actions {
            self.stage.act(action);
        }
    }
}

#[test]
fn next_token_light() {
    picture(
        "next_token_light",
        next_token::show,
        vec2(420.0, 640.0),
        false,
        Some(9),
    );
}

#[test]
fn next_token_dark() {
    picture(
        "next_token_dark",
        next_token::show,
        vec2(420.0, 640.0),
        true,
        Some(9),
    );
}

#[test]
fn logits_light() {
    picture(
        "logits_light",
        logits::show,
        vec2(560.0, 360.0),
        false,
        Some(9),
    );
}

#[test]
fn logits_dark() {
    picture(
        "logits_dark",
        logits::show,
        vec2(560.0, 360.0),
        true,
        Some(9),
    );
}

#[test]
fn timeline_light() {
    picture(
        "timeline_light",
        timeline::show,
        vec2(640.0, 150.0),
        false,
        Some(9),
    );
}

#[test]
fn tokens_light() {
    picture(
        "tokens_light",
        tokens::show,
        vec2(420.0, 190.0),
        false,
        Some(9),
    );
}

#[test]
fn sampling_light() {
    picture(
        "sampling_light",
        sampling::show,
        vec2(420.0, 290.0),
        false,
        None,
    );
}

#[test]
fn open_model_light() {
    picture(
        "open_model_light",
        |ui, ctx| {
            let source = ModelSource::Random(Gpt2Config::shape("gpt2").expect("a shape"), 0);
            let model = OpenModel::read(source).expect("its sizes");
            model.show(ui, ctx.theme, ctx.scale, &mut WeightOptions::default());
            ui.response()
        },
        vec2(560.0, 320.0),
        false,
        None,
    );
}
