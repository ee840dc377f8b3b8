//! Attention panel: one head as a triangle of queries and keys, beside the wall of all heads.
//!
//! Beside or below it, or in its place where there is no room for both, [`arcs`] over the text from one token to those
//! that it looks at.
//!
//! [`Scene`] is what is shown, read from the session once a frame; [`layout`] says where; [`square`] and [`side`]
//! draw it and take the pointer and the keyboard; [`drawer`] brings the record to the device. Colours of cells come
//! from [`crate::heatmap`]. Runs on the window's thread.

mod arcs;
mod drawer;
mod layout;
mod scene;
mod side;
mod square;
#[cfg(test)]
mod tests;

use egui::{Response, RichText, Ui};

use self::{drawer::Drawer, layout::Zoom, scene::Scene};
use super::{Panel, PanelContext, card::Card, status::bytes};
use crate::{
    export::Facts,
    heatmap::{Heads, Means, Quantity, Rollout, Shape},
    session::{Action, Session},
};

/// What is chosen to be shown; remembered over a restart.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Options {
    /// Counted from zero, like `head`. May lie beyond what the model has: [`Options::clamped`] cuts it, so that a
    /// larger model finds its choice again.
    layer: usize,
    head: usize,
    over: Over,
    /// The colour scale of weights ends at the largest one that is not given to the first token.
    without_first: bool,
    quantity: Quantity,
    logarithmic: bool,
    wall: bool,
    /// Arcs over the text.
    arcs: bool,
}

/// Which heads the large picture is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum Over {
    #[default]
    One,
    /// Mean over a layer's heads.
    Layer,
    /// Mean over all layers, of the head of one number in each.
    Head,
    /// Mean over all heads of all layers.
    All,
    Rollout,
}

impl Over {
    const ALL: [Self; 5] = [Self::One, Self::Layer, Self::Head, Self::All, Self::Rollout];

    /// For the choice in the panel.
    fn short(self) -> &'static str {
        match self {
            Self::One => "one head",
            Self::Layer => "layer's mean",
            Self::Head => "head's mean",
            Self::All => "mean of all",
            Self::Rollout => "rollout",
        }
    }

    /// What it is.
    fn describe(self) -> &'static str {
        match self {
            Self::One => "One head of one layer",
            Self::Layer => "Mean over the heads of one layer",
            Self::Head => "Mean over all layers, for one head number",
            Self::All => "Mean over all layers and heads",
            Self::Rollout => "Attention rollout (not a weight of any one head)",
        }
    }

    fn has_layer(self) -> bool {
        matches!(self, Self::One | Self::Layer)
    }

    fn has_head(self) -> bool {
        matches!(self, Self::One | Self::Head)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layer: 2,
            head: 7,
            over: Over::One,
            without_first: false,
            quantity: Quantity::Weights,
            logarithmic: false,
            wall: true,
            arcs: false,
        }
    }
}

impl Options {
    fn clamped(self, shape: Shape) -> Self {
        Self {
            quantity: match (self.over, self.quantity) {
                // A rollout is a product of weights: there is nothing before its softmax.
                (Over::Rollout, Quantity::Scores) => Quantity::Weights,
                (_, quantity) => quantity,
            },
            layer: self.layer.min(shape.n_layer.saturating_sub(1)),
            head: self.head.min(shape.n_head.saturating_sub(1)),
            ..self
        }
    }

    /// The heads that are shown, of a record of this shape; of a rollout, that of one head.
    fn heads(self, shape: Shape) -> Heads {
        match self.over {
            Over::One | Over::Rollout => Heads::one(shape, self.layer, self.head),
            Over::Layer => Heads::layer(shape, self.layer),
            Over::Head => Heads::across_layers(shape, self.head),
            Over::All => Heads::all(shape),
        }
    }

    /// Shows one head.
    fn open(&mut self, layer: usize, head: usize) {
        self.layer = layer;
        self.head = head;
        self.over = Over::One;
    }
}

/// What the panel remembers.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
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
    #[serde(skip)]
    rollout: Rollout,
    #[serde(skip)]
    means: Means,
    #[serde(skip)]
    arcs_text: arcs::Text,
    /// Query and rows that the arcs were last scrolled to.
    #[serde(skip)]
    arcs_at: Option<(usize, usize)>,
    /// As `reports_hover`, for the arcs.
    #[serde(skip)]
    arcs_report_hover: bool,
}

impl AttentionState {
    /// Esc: the pinned cell is let go.
    pub fn release_pins(&mut self) {
        self.pinned = None;
    }

    /// What is to be shown; true where rows of a rollout are still to be worked out.
    fn scene<'a>(&mut self, session: &'a Session) -> (Scene<'a>, bool) {
        let mut scene = Scene::read(session, self.options);
        let mut is_behind = false;
        let record = scene.record.iter().copied();
        match (scene.options.over, scene.options.quantity) {
            (Over::Rollout, _) => {
                is_behind = self.rollout.sync(scene.shape, record);
                scene.rollout = Some(self.rollout.rows().to_vec());
            }
            // A mean of scores is drawn head by head: its differences are larger than an f16 tells apart.
            (Over::One, _) | (_, Quantity::Scores) => {}
            (Over::Layer | Over::Head | Over::All, _) => {
                is_behind = self.means.sync(scene.shape, scene.heads(), record);
                scene.means = Some(self.means.rows().to_vec());
            }
        }
        (scene, is_behind)
    }

    /// Memory that the panel takes, on the window's device and for a rollout or means, which counts towards the budget.
    pub fn gpu_bytes(&self) -> usize {
        self.drawer.gpu_bytes() + self.rollout.bytes() + self.means.bytes()
    }
}

/// Shows the panel over all available space; returns the title's response.
pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    if ctx.session.toy().is_some() {
        return no_attention(ui, ctx);
    }
    let mut state = std::mem::take(&mut ctx.panels.attention);
    let (scene, is_behind) = state.scene(ctx.session);
    if is_behind {
        // The rest comes with the next frames.
        ui.ctx().request_repaint();
    }
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
    let subtitle = scene.subtitle(state.pinned, state.cells_a_pixel);
    let title = Card::new(Panel::Attention, subtitle).show(
        ui,
        ctx,
        |ui| menu(ui, &mut in_menu, &mut reset_zoom),
        |ui, ctx| content(ui, ctx, &mut state, &scene),
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

/// Typed numbers come from nowhere: there is nothing to attend.
fn no_attention(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    Card::new(Panel::Attention, "").show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            super::chart::say(
                ui,
                ctx.theme,
                "A toy has no attention: its numbers are typed, no layers and heads lead to them.",
            );
        },
    )
}

/// The shown triangle, tab separated, one row a query.
pub fn table(ctx: &mut PanelContext) -> Option<String> {
    let (scene, _) = ctx.panels.attention.scene(ctx.session);
    (scene.rows > 0).then(|| scene.table())
}

/// Which heads, and what of them.
pub fn add_facts(ctx: &mut PanelContext, facts: &mut Facts) {
    let (scene, is_behind) = ctx.panels.attention.scene(ctx.session);
    scene.add_facts(facts);
    if is_behind {
        facts.add("missing", "rows that were still being worked out");
    }
}

fn menu(ui: &mut Ui, options: &mut Options, reset_zoom: &mut bool) {
    for (quantity, name, what) in side::QUANTITIES {
        ui.radio_value(&mut options.quantity, quantity, name)
            .on_hover_text(what);
    }
    ui.separator();
    for over in Over::ALL {
        ui.radio_value(&mut options.over, over, over.describe());
    }
    ui.separator();
    ui.checkbox(&mut options.logarithmic, "Logarithmic colours");
    ui.checkbox(
        &mut options.without_first,
        "Leave the first token out of the colour scale",
    )
    .on_hover_text("The scale ends at the largest weight that any other token gets");
    ui.checkbox(&mut options.wall, "Wall of all heads");
    ui.checkbox(&mut options.arcs, "Arcs over the text");
    ui.separator();
    *reset_zoom |= ui.button("Show the whole square").clicked();
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
    let parts = layout::parts(area, scene.options.arcs, ctx.scale);
    side::show(ui, ctx, state, scene, &parts);
    if let Some(chart) = parts.chart {
        square::show(ui, ctx, state, scene, chart);
    }
    if let Some(text) = parts.arcs {
        arcs::show(ui, ctx, state, scene, text);
    }
}

/// Says which numbers are gone, and offers them again where there would be room for them.
fn let_go_notice(ui: &mut Ui, ctx: &mut PanelContext, scene: &Scene) {
    let over_layers = !scene.options.over.has_layer();
    let text = let_go_text(scene, ctx.session.budget_bytes());
    ui.horizontal(|ui| {
        if !over_layers || scene.all_layers_bytes() <= ctx.session.budget_bytes() {
            let can = !ctx.session.is_running();
            let button = egui::Button::new(RichText::new("Recompute").small());
            if ui.add_enabled(can, button).clicked() {
                ctx.act(Action::Recompute);
            }
        }
        let label = egui::Label::new(RichText::new(&text).small().color(ctx.theme.dim));
        ui.add(label.truncate()).on_hover_text(&text);
    });
}

fn let_go_text(scene: &Scene, budget_bytes: usize) -> String {
    let over_layers = !scene.options.over.has_layer();
    let what = if over_layers {
        "at least one layer".to_owned()
    } else {
        format!("layer {}", scene.options.layer + 1)
    };
    let mut text = if scene.let_go == scene.rows {
        format!("{what} was let go for memory.")
    } else {
        format!("{} rows of {what} were let go for memory.", scene.let_go)
    };
    text[..1].make_ascii_uppercase();
    let needed = scene.all_layers_bytes();
    if over_layers && needed > budget_bytes {
        text += &format!(
            " All layers take {}, more than the budget of {}: choose one head or a layer's mean.",
            bytes(needed),
            bytes(budget_bytes)
        );
    }
    text
}
