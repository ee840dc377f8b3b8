//! Attention panel: one head as a triangle of queries and keys, beside the wall of all heads.
//!
//! [`Scene`] is what is shown, read from the session once a frame; [`layout`] says where; [`square`] and [`side`]
//! draw it and take the pointer and the keyboard; [`drawer`] brings the record to the device. Colours of cells come
//! from [`crate::heatmap`]. Runs on the window's thread.

mod drawer;
mod layout;
mod scene;
mod side;
mod square;
#[cfg(test)]
mod tests;

use egui::{Response, RichText, Ui};

use self::{drawer::Drawer, layout::Zoom, scene::Scene};
use super::{PanelContext, card::Card, chart};
use crate::{
    heatmap::{Quantity, Shape},
    session::Action,
};

/// What is chosen to be shown; remembered over a restart.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Options {
    /// Counted from zero, like `head`. May lie beyond what the model has: [`Options::clamped`] cuts it, so that a
    /// larger model finds its choice again.
    layer: usize,
    head: usize,
    /// The mean over the layer's heads instead of one of them.
    mean: bool,
    quantity: Quantity,
    logarithmic: bool,
    wall: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layer: 2,
            head: 7,
            mean: false,
            quantity: Quantity::Weights,
            logarithmic: false,
            wall: true,
        }
    }
}

impl Options {
    fn clamped(self, shape: Shape) -> Self {
        Self {
            layer: self.layer.min(shape.n_layer.saturating_sub(1)),
            head: self.head.min(shape.n_head.saturating_sub(1)),
            ..self
        }
    }

    /// Shows one head.
    fn open(&mut self, layer: usize, head: usize) {
        self.layer = layer;
        self.head = head;
        self.mean = false;
    }
}

/// What the panel remembers.
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct AttentionState {
    options: Options,
    #[serde(skip)]
    zoom: Zoom,
    /// Query and key, counted from the start of the context.
    #[serde(skip)]
    pinned: Option<(usize, usize)>,
    /// How many cells along either axis shared a pixel in the last frame.
    #[serde(skip)]
    cells_a_pixel: usize,
    /// The pointer is on a token here, and the other panels were told so.
    #[serde(skip)]
    reports_hover: bool,
    /// The layer that the session was last told to keep longest.
    #[serde(skip)]
    focus_layer: Option<usize>,
    #[serde(skip)]
    drawer: Drawer,
}

impl AttentionState {
    /// Esc: the pinned cell is let go.
    pub fn release_pins(&mut self) {
        self.pinned = None;
    }

    /// Memory that the heatmap takes on the window's device, which counts towards the budget.
    pub fn gpu_bytes(&self) -> usize {
        self.drawer.gpu_bytes()
    }
}

/// Shows the panel over all available space; returns the title's response.
pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let mut state = std::mem::take(&mut ctx.panels.attention);
    let scene = Scene::read(ctx.session, state.options);
    state.pinned = state
        .pinned
        .filter(|&(query, key)| query < scene.rows && key < scene.rows);
    if scene.shape.n_layer > 0 && state.focus_layer != Some(scene.options.layer) {
        state.focus_layer = Some(scene.options.layer);
        ctx.act(Action::FocusLayer(scene.options.layer));
    }
    let before = state.options;
    let mut in_menu = state.options;
    let mut reset_zoom = false;
    let title = Card {
        title: "Attention",
        subtitle: scene.subtitle(state.pinned, state.cells_a_pixel),
    }
    .show(
        ui,
        ctx.theme,
        |ui| menu(ui, &scene, &mut in_menu, &mut reset_zoom),
        |ui| content(ui, ctx, &mut state, &scene),
    );
    if in_menu != before {
        state.options = in_menu;
    }
    if reset_zoom {
        state.zoom = Zoom::default();
    }
    ctx.panels.attention = state;
    title
}

fn menu(ui: &mut Ui, scene: &Scene, options: &mut Options, reset_zoom: &mut bool) {
    for (quantity, name, what) in side::QUANTITIES {
        ui.radio_value(&mut options.quantity, quantity, name)
            .on_hover_text(what);
    }
    ui.separator();
    ui.checkbox(&mut options.logarithmic, "Logarithmic colours");
    ui.checkbox(&mut options.mean, "Mean over the layer's heads");
    ui.checkbox(&mut options.wall, "Wall of all heads");
    ui.separator();
    *reset_zoom |= ui.button("Show the whole square").clicked();
    chart::copy_table_item(ui, || Some(scene.table()));
}

fn content(ui: &mut Ui, ctx: &mut PanelContext, state: &mut AttentionState, scene: &Scene) {
    if scene.rows == 0 {
        let why = if ctx.session.is_empty() {
            "No tokens yet: attention is drawn from the first one on."
        } else {
            "Nothing of the context lies before this step, so there is no attention to draw."
        };
        ui.add(egui::Label::new(RichText::new(why).color(ctx.theme.dim)).wrap());
        return;
    }
    if scene.let_go > 0 {
        let_go_notice(ui, ctx, scene);
    }
    state.drawer.sync(ui, ctx.gpu, scene);
    let area = ui.available_rect_before_wrap();
    let parts = layout::parts(area, ctx.scale);
    side::show(ui, ctx, state, scene, &parts);
    square::show(ui, ctx, state, scene, parts.chart);
}

/// Says which numbers are gone, and offers them again.
fn let_go_notice(ui: &mut Ui, ctx: &mut PanelContext, scene: &Scene) {
    ui.horizontal(|ui| {
        let layer = scene.options.layer + 1;
        let text = if scene.let_go == scene.rows {
            format!("Layer {layer} was let go for memory.")
        } else {
            format!(
                "{} rows of layer {layer} were let go for memory.",
                scene.let_go
            )
        };
        let can = !ctx.session.is_running();
        let button = ui.add_enabled(can, egui::Button::new(RichText::new("Recompute").small()));
        if button.clicked() {
            ctx.act(Action::Recompute);
        }
        ui.add(egui::Label::new(RichText::new(text).small().color(ctx.theme.dim)).truncate());
    });
}
