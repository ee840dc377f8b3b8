//! The window's panels, one file each. They read the session and collect actions; they change nothing themselves.

pub mod attention;
pub mod branches;
pub mod card;
pub mod chart;
pub mod cost;
pub mod dock;
pub mod files;
pub mod generation_loop;
mod hub_menu;
pub mod lm_head;
pub mod logits;
pub mod next_token;
pub mod notice;
pub mod open_model;
pub mod sampling;
pub mod sequence;
pub mod status;
pub mod text;
pub mod theme;
pub mod timeline;
pub mod tokens;
pub mod toy;
pub mod transport;

use eframe::egui_wgpu::RenderState;
pub use theme::Theme;

use crate::{
    export::Facts,
    session::{Action, Session},
};

/// The panels that can be docked.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub enum Panel {
    Text,
    Tokens,
    Sampling,
    NextToken,
    Logits,
    Attention,
    Timeline,
    Sequence,
    Loop,
    Branches,
    LmHead,
    Cost,
    Toy,
}

impl Panel {
    pub const ALL: [Self; 13] = [
        Self::Text,
        Self::Tokens,
        Self::Sampling,
        Self::NextToken,
        Self::Logits,
        Self::Attention,
        Self::Timeline,
        Self::Sequence,
        Self::Loop,
        Self::Branches,
        Self::LmHead,
        Self::Cost,
        Self::Toy,
    ];

    /// Those that a fresh layout shows; the others are opened from the Panels menu.
    pub const FIRST: [Self; 7] = [
        Self::Text,
        Self::Tokens,
        Self::Sampling,
        Self::NextToken,
        Self::Logits,
        Self::Attention,
        Self::Timeline,
    ];

    pub fn title(self) -> &'static str {
        match self {
            Self::Text => "Text",
            Self::Tokens => "Tokens",
            Self::Sampling => "Sampling",
            Self::NextToken => "Next token",
            Self::Logits => "Logits → softmax",
            Self::Attention => "Attention",
            Self::Timeline => "Timeline",
            Self::Sequence => "Sequence",
            Self::Loop => "Loop",
            Self::Branches => "Branches",
            Self::LmHead => "LM head",
            Self::Cost => "Cost",
            Self::Toy => "Toy",
        }
    }

    /// The panel's numbers as its menu copies and saves them: cells separated by tabs, a row a line, the first one
    /// the headings. `None` where there are none yet.
    fn table(self, ctx: &mut PanelContext) -> Option<String> {
        let session = ctx.session;
        match self {
            Self::Sampling => Some(sampling::table(session.settings())),
            Self::NextToken => next_token::table(session),
            Self::Logits => logits::table(session, &ctx.panels.logits),
            _ if session.is_empty() => None,
            Self::Text | Self::Tokens => Some(tokens::table(session)),
            Self::Attention => attention::table(ctx),
            Self::Timeline => Some(timeline::table(session)),
            Self::Sequence => Some(sequence::table(session)),
            Self::Loop => Some(generation_loop::table(ctx)),
            Self::Branches => Some(branches::table(ctx)),
            Self::LmHead => lm_head::table(ctx),
            Self::Cost => Some(cost::table(session)),
            Self::Toy => session.toy().map(|toy| toy::table(toy)),
        }
    }

    /// What of the panel's choices its files say, beside what every file says.
    fn add_facts(self, ctx: &mut PanelContext, facts: &mut Facts) {
        match self {
            Self::Attention => attention::add_facts(ctx, facts),
            Self::Sequence => sequence::add_facts(ctx, facts),
            _ => {}
        }
    }
}

/// What a panel may read, and where it leaves what the user asked for.
pub struct PanelContext<'a> {
    pub session: &'a Session,
    pub theme: &'a Theme,
    /// Type scale, 1.0 at 100 %.
    pub scale: f32,
    /// Carried out after the frame, in order.
    pub actions: &'a mut Vec<Action>,
    /// What panels remember among themselves: pins, modes, what the pointer is on.
    pub panels: &'a mut PanelState,
    /// The window's own wgpu device; `None` in a test without one.
    pub gpu: Option<&'a RenderState>,
    /// Seconds since the window opened.
    pub now: f64,
}

impl PanelContext<'_> {
    pub fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// A token's label; a number where no tokenizer is loaded.
    pub fn label(&self, id: u32) -> String {
        self.session
            .tokenizer()
            .map_or_else(|| format!("#{id}"), |tokenizer| tokenizer.label(id))
    }

    /// Height of a chart row at the current type scale.
    pub fn row_height(&self) -> f32 {
        theme::ROW_HEIGHT * self.scale
    }
}

/// View state of the panels; what is worth keeping survives a restart.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct PanelState {
    pub attention: attention::AttentionState,
    pub branches: branches::BranchesState,
    pub generation_loop: generation_loop::LoopState,
    pub lm_head: lm_head::LmHeadState,
    pub logits: logits::LogitsState,
    pub next_token: next_token::NextTokenState,
    pub sequence: sequence::SequenceState,
    pub toy: toy::ToyState,
    /// Index of the token that the pointer is on, in any panel: highlighted in all others next frame.
    #[serde(skip)]
    pub hovered_token: Option<usize>,
    /// What a panel's menu was asked to copy or save: carried out once all panels are drawn.
    #[serde(skip)]
    pub wish: Option<files::Wish>,
    /// The panel is drawn into a file: without what only a pointer or a keyboard is for.
    #[serde(skip)]
    pub on_paper: bool,
}

impl PanelState {
    /// Esc: whatever is pinned is let go.
    pub fn release_pins(&mut self) {
        self.attention.release_pins();
        self.logits.release_pins();
        self.lm_head.follow_step();
    }
}
