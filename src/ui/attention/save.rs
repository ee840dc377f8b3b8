//! The panel's files: a picture of the square, its numbers, the whole run.
//!
//! Gathers on the window's thread; [`crate::export`] encodes and writes on another.

use egui::{RichText, Ui, Vec2, vec2};

use super::{AttentionState, Options, arcs, drawer::Drawer, layout, scene::Scene, side, square};
use crate::{
    export::{Facts, Figure, Job, RunRecord, Saving, csv::csv, png},
    heatmap::Quantity,
    ui::{PanelContext, PanelState, card::small_capitals},
};

/// Smallest picture in points at 100 % type.
const LEAST: Vec2 = vec2(420.0, 420.0);

/// Pixels a point that a picture can be saved at.
pub const SCALES: [u8; 3] = [1, 2, 4];

/// A file that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Picture { scale: u8 },
    Numbers,
    Run { attention: bool },
}

/// What is being saved, and what became of the last file.
#[derive(Default)]
pub struct Files {
    saving: Option<Saving>,
    said: Option<String>,
}

/// The menu's entries.
pub fn menu(ui: &mut Ui, can: bool, wish: &mut Option<Wish>) {
    ui.add_enabled_ui(can, |ui| {
        ui.menu_button("Save the picture", |ui| {
            for scale in SCALES {
                if ui.button(format!("PNG at {scale} ×…")).clicked() {
                    *wish = Some(Wish::Picture { scale });
                }
            }
        });
        for (name, wanted) in [
            ("Save the numbers as CSV…", Wish::Numbers),
            ("Save the run as JSON…", Wish::Run { attention: false }),
            (
                "Save the run with all attention as JSON…",
                Wish::Run { attention: true },
            ),
        ] {
            if ui.button(name).clicked() {
                *wish = Some(wanted);
            }
        }
    });
}

impl Files {
    pub fn can_save(&self) -> bool {
        self.saving.is_none()
    }

    /// Opens the dialog for a file.
    pub fn start(&mut self, ui: &Ui, job: Job) {
        self.said = None;
        self.saving = Some(job.ask(ui.ctx().clone()));
    }

    /// Says what became of the last file until it is dismissed.
    pub fn show(&mut self, ui: &mut Ui, ctx: &PanelContext) {
        if let Some(outcome) = self.saving.as_ref().and_then(Saving::outcome) {
            self.saving = None;
            self.said = outcome;
        }
        let Some(said) = &self.said else { return };
        let dismissed = ui
            .horizontal(|ui| {
                let dismissed = ui.button(RichText::new("Dismiss").small()).clicked();
                let text = RichText::new(said).small().color(ctx.theme.dim);
                ui.add(egui::Label::new(text).truncate())
                    .on_hover_text(said);
                dismissed
            })
            .inner;
        if dismissed {
            self.said = None;
        }
    }
}

/// Model, prompt and step, and which heads and what of them.
pub fn facts(ctx: &PanelContext, scene: &Scene) -> Facts {
    let Options {
        quantity,
        logarithmic,
        without_first,
        ..
    } = scene.options;
    let shown = match quantity {
        _ if scene.rollout.is_some() => "attention rollout shares",
        Quantity::Weights => "attention weights after softmax",
        Quantity::Scores => "attention scores before softmax",
        Quantity::Mask => "causal mask",
    };
    let scale = match (quantity, logarithmic, without_first) {
        (Quantity::Scores | Quantity::Mask, ..) => "linear",
        (_, false, false) => "linear",
        (_, true, false) => "logarithmic",
        (_, false, true) => "linear, first token left out of the scale",
        (_, true, true) => "logarithmic, first token left out of the scale",
    };
    Facts::of(ctx.session)
        .with("heads", scene.heads_name())
        .with("shown", shown)
        .with("colour_scale", scale)
        .with("rows", scene.rows.to_string())
}

/// The file that was asked for. `size`: of the panel's content in points.
pub fn job(
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    wish: Wish,
    size: Vec2,
) -> Job {
    let facts = facts(ctx, scene);
    match wish {
        Wish::Picture { scale } => {
            let figure = figure(ctx, state, scene, &facts, size, f32::from(scale));
            Job::new("attention.png", move || {
                png::encode(&figure.rasterise(), &facts)
                    .map_err(|error| format!("The picture could not be encoded: {error}."))
            })
        }
        Wish::Numbers => {
            let table = scene.table();
            Job::new(
                "attention.csv",
                move || Ok(csv(&facts, &table).into_bytes()),
            )
        }
        Wish::Run { attention } => {
            let run = RunRecord::of(ctx.session);
            Job::new("run.json", move || {
                run.to_json(attention)
                    .map_err(|error| format!("The run could not be written as JSON: {error}."))
            })
        }
    }
}

/// The square with its labels, legend and arcs under a caption that says what it was made from.
fn figure(
    ctx: &PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    facts: &Facts,
    size: Vec2,
    pixels_per_point: f32,
) -> Figure {
    let size = size.max(LEAST * ctx.scale) + vec2(0.0, 90.0 * ctx.scale);
    let (session, theme, scale, now) = (ctx.session, ctx.theme, ctx.scale, ctx.now);
    let mut alone = AttentionState {
        options: state.options,
        zoom: state.zoom,
        pinned: state.pinned,
        drawer: Drawer::without_device(),
        ..AttentionState::default()
    };
    let (mut actions, mut panels) = (Vec::new(), PanelState::default());
    let caption = caption(facts, scene, state);
    Figure::draw(theme, scale, size, pixels_per_point, |ui| {
        let mut ctx = PanelContext {
            session,
            theme,
            scale,
            actions: &mut actions,
            panels: &mut panels,
            gpu: None,
            now,
        };
        let area = ui.max_rect().shrink(14.0);
        let builder = egui::UiBuilder::new().max_rect(area);
        let mut ui = ui.new_child(builder);
        ui.label(small_capitals("Attention", theme));
        for line in &caption {
            let text = RichText::new(line).small().color(theme.dim);
            ui.add(egui::Label::new(text).wrap());
        }
        side::legend(&mut ui, &ctx, &mut alone, scene);
        ui.add_space(4.0);
        let rest = ui.available_rect_before_wrap();
        let (chart, line) = layout::with_line(rest, scene.options.arcs, scale);
        square::show(&mut ui, &mut ctx, &mut alone, scene, chart);
        if let Some(line) = line {
            arcs::show(&mut ui, &mut ctx, &mut alone, scene, line);
        }
    })
}

/// What is shown, and of what: the lines above a picture.
fn caption(facts: &Facts, scene: &Scene, state: &AttentionState) -> Vec<String> {
    let model = facts.get("model").unwrap_or("no model");
    let step = facts.get("step").unwrap_or_default();
    let mut prompt: String = facts.get("prompt").unwrap_or_default().replace('\n', " ↵ ");
    if prompt.chars().count() > 80 {
        prompt = prompt.chars().take(79).chain(['…']).collect();
    }
    let software = facts.get("software").unwrap_or_default();
    vec![
        scene.subtitle(state.pinned, state.cells_a_pixel),
        format!("{model} · step {step} · prompt “{prompt}” · {software}"),
    ]
}
