//! The panel with a session that the test fills.

mod arcs;
mod files;
mod heads;
mod panel;

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use eframe::egui_wgpu::{RenderState, RendererOptions};
use egui::{Key, Modifiers, Pos2, Rect, Vec2, pos2, vec2};
use egui_kittest::{
    Harness,
    kittest::Queryable as _,
    wgpu::{WgpuTestRenderer, create_render_state, default_wgpu_setup},
};

use super::*;
use crate::{
    prediction::{AttentionRow, LayerRow, LogitsRow, PassTiming, Phase, Prediction, pack_weights},
    sampling::SamplingSettings,
    session::Session,
    ui::{PanelState, Theme, theme},
    worker::{Command, Event, ModelInfo, Pace},
};

// ---- a session with attention on record ------------------------------------------------------------------------

/// Attention that falls off with distance, sharper for higher heads.
fn weights(flat: usize, query: usize) -> Vec<f32> {
    let raw: Vec<f32> = (0..=query)
        .map(|key| (-0.3 * ((query - key) % (flat + 2)) as f32).exp())
        .collect();
    let sum: f32 = raw.iter().sum();
    raw.into_iter().map(|w| w / sum).collect()
}

fn prediction(shape: Shape, query: usize) -> Prediction {
    let layer = |layer: usize| {
        let mut part = LayerRow {
            words: Vec::new(),
            log_sum_exp: vec![1.0; shape.n_head],
        };
        for head in 0..shape.n_head {
            part.words
                .extend(pack_weights(&weights(layer * shape.n_head + head, query)));
        }
        Some(Arc::new(part))
    };
    Prediction {
        logits: Some(Arc::new(LogitsRow::new(vec![0.0; 8]))),
        attention: Some(Arc::new(AttentionRow {
            n_head: shape.n_head,
            keys: query + 1,
            layers: (0..shape.n_layer).map(layer).collect(),
        })),
        timing: Arc::new(PassTiming {
            phase: Phase::Prefill,
            first: 0,
            rows: query + 1,
            model_ms: 1.0,
            record_ms: 0.1,
        }),
    }
}

fn model(shape: Shape) -> Arc<ModelInfo> {
    Arc::new(ModelInfo {
        n_layer: shape.n_layer,
        n_head: shape.n_head,
        ..ModelInfo::of_test("test", 1024)
    })
}

fn answer(session: &mut Session, shape: Shape, commands: Vec<Command>) {
    for command in commands {
        let Command::Predict {
            epoch,
            context,
            from,
        } = command
        else {
            continue;
        };
        let predictions = (from..context.len())
            .map(|query| prediction(shape, query))
            .collect();
        let first = from;
        session.on_event(
            Event::Predicted {
                epoch,
                first,
                predictions,
            },
            0.0,
        );
        session.on_event(
            Event::Stopped {
                epoch,
                reason: None,
            },
            0.0,
        );
    }
}

fn session(text: &str, shape: Shape) -> Session {
    let mut session = Session::new(text, SamplingSettings::default(), Pace::Unlimited);
    let commands = session.on_event(Event::Loaded(model(shape)), 0.0);
    answer(&mut session, shape, commands);
    session.refresh_view();
    session
}

/// Replaces what is predicted after one context position.
fn put_on_record(session: &mut Session, position: usize, prediction: Prediction) {
    // Only the session's own epoch is listened to.
    for epoch in 0..8 {
        let event = Event::Predicted {
            epoch,
            first: position,
            predictions: vec![prediction.clone()],
        };
        session.on_event(event, 0.0);
    }
}

/// A text of about this many tokens.
fn long_text(tokens: usize) -> String {
    "Once upon a time there was a little boy, and he went on. ".repeat(tokens / 14 + 1)
}

// ---- the window ------------------------------------------------------------------------------------------------

/// One test at a time draws.
static DRAWING: Mutex<()> = Mutex::new(());

struct Stage {
    session: Session,
    panels: PanelState,
    actions: Vec<Action>,
    gpu: Option<RenderState>,
    theme: &'static Theme,
    scale: f32,
    /// UI-thread time of the panel, one entry a frame.
    times: Vec<Duration>,
    _drawing: MutexGuard<'static, ()>,
}

fn stage(session: Session, gpu: Option<RenderState>) -> Stage {
    Stage {
        session,
        panels: PanelState::default(),
        actions: Vec::new(),
        gpu,
        theme: &Theme::LIGHT,
        scale: 1.0,
        times: Vec::new(),
        _drawing: DRAWING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner()),
    }
}

fn window(stage: Stage, size: Vec2) -> Harness<'static, Stage> {
    let mut builder = Harness::builder()
        .with_size(size)
        .with_step_dt(1.0 / 60.0)
        .allow_missing_glyphs();
    if let Some(gpu) = &stage.gpu {
        builder = builder.renderer(WgpuTestRenderer::from_render_state(gpu.clone()));
    }
    let (theme, scale) = (stage.theme, stage.scale);
    let appearance = if theme.dark {
        egui::Theme::Dark
    } else {
        egui::Theme::Light
    };
    let builder = builder
        .with_theme(appearance)
        .with_context_setup(move |ctx| {
            ctx.set_fonts(theme::fonts());
            ctx.add_font(egui_material_icons::font_insert());
            theme.apply(ctx, scale);
        });
    builder.build_ui_state(
        |ui, stage: &mut Stage| {
            let start = Instant::now();
            let mut ctx = PanelContext {
                session: &stage.session,
                theme: stage.theme,
                scale: stage.scale,
                actions: &mut stage.actions,
                panels: &mut stage.panels,
                gpu: stage.gpu.as_ref(),
                now: 0.0,
            };
            show(ui, &mut ctx);
            stage.times.push(start.elapsed());
        },
        stage,
    )
}

fn gpu() -> Option<RenderState> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    if adapters.is_empty() {
        let required = std::env::var("LOGITSCOPE_REQUIRE_ADAPTER").is_ok_and(|value| value == "1");
        assert!(
            !required,
            "LOGITSCOPE_REQUIRE_ADAPTER=1, and there is no adapter"
        );
        println!("no adapter: the CPU path alone is tested");
        return None;
    }
    Some(create_render_state(
        default_wgpu_setup(),
        RendererOptions::PREDICTABLE,
    ))
}

const SIZE: Vec2 = vec2(560.0, 380.0);
const TINY: Shape = Shape {
    n_layer: 3,
    n_head: 4,
};

/// Six layers and eight heads as the built-in model has.
const STORYTELLER: Shape = Shape {
    n_layer: 6,
    n_head: 8,
};

fn heatmap_rect(window: &Harness<'static, Stage>) -> Rect {
    let node = window.get_by_label_contains("Attention heatmap");
    node.rect()
}

fn has(window: &Harness<'static, Stage>, part: &str) -> bool {
    window.query_all_by_label_contains(part).next().is_some()
}

fn button(at: Pos2, pressed: bool) -> egui::Event {
    egui::Event::PointerButton {
        pos: at,
        button: egui::PointerButton::Primary,
        pressed,
        modifiers: Modifiers::NONE,
    }
}

fn click(window: &mut Harness<'static, Stage>, at: Pos2) {
    for pressed in [true, false] {
        window.event(egui::Event::PointerMoved(at));
        window.event(button(at, pressed));
        window.step();
    }
    window.run_steps(2);
}
