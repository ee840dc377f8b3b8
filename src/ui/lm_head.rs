//! LM head panel: where the shown step's logits come from. The final hidden state against rows of the head, the rows
//! nearest to one row, and the logit lens.
//!
//! Asks the session for an explanation of the shown step while it is on screen, and only then; what it shows is of
//! that step or blank. Runs on the window's thread; what needs the whole vocabulary is worked out once an answer.

mod fan;
mod lens;
mod nearest;
mod products;
mod words;

use std::sync::{Arc, Weak};

use egui::{Id, Rect, Response, Ui, UiBuilder};

use super::{
    Panel, PanelContext,
    card::Card,
    chart::{self, Faces},
    logits::{layout::Token, pair, shown_temperature},
    theme::GUTTER,
};
use crate::{
    explanation::{Explanation, agreement_limit},
    prediction::LogitsRow,
    sampling::{Softmax, rank},
    session::{Action, Session, StepView},
};

/// Most matches that the find field lists.
const MATCHES: usize = 12;

/// Which of the three charts is on show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Chart {
    #[default]
    Products,
    Nearest,
    Lens,
}

impl Chart {
    const ALL: [Self; 3] = [Self::Products, Self::Nearest, Self::Lens];

    fn name(self) -> &'static str {
        match self {
            Self::Products => "dot products",
            Self::Nearest => "nearest rows",
            Self::Lens => "logit lens",
        }
    }
}

/// What the panel remembers.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LmHeadState {
    chart: Chart,
    /// The token that is looked at, in a vocabulary of this size; `None` follows the step.
    #[serde(skip)]
    token: Option<(u32, usize)>,
    #[serde(skip)]
    query: String,
    /// The matches of a query.
    #[serde(skip)]
    found: Option<(String, Vec<u32>)>,
    #[serde(skip)]
    derived: Option<Derived>,
    /// The row that the pointer or the keyboard was on in the last frame.
    #[serde(skip)]
    pointed: Option<u32>,
}

impl LmHeadState {
    /// Looks at the chosen token of whatever step is shown.
    pub fn follow_step(&mut self) {
        self.token = None;
    }

    fn look_at(&mut self, id: u32, vocab_size: usize) {
        let same = self.token == Some((id, vocab_size));
        self.token = (!same).then_some((id, vocab_size));
    }

    fn matches(&mut self, session: &Session, vocab_size: usize) -> &[u32] {
        let same = self
            .found
            .as_ref()
            .is_some_and(|(query, _)| *query == self.query);
        if !same {
            let found = session.tokenizer().map(|tokenizer| {
                let mut found = tokenizer.find(&self.query, MATCHES);
                found.retain(|&id| (id as usize) < vocab_size);
                found
            });
            self.found = Some((self.query.clone(), found.unwrap_or_default()));
        }
        self.found.as_ref().map_or(&[], |(_, found)| found)
    }

    fn derive(
        &mut self,
        view: &StepView,
        explanation: &Arc<Explanation>,
        token: u32,
    ) -> &mut Derived {
        let old = self.derived.take().filter(|derived| {
            std::ptr::eq(derived.explanation.as_ptr(), Arc::as_ptr(explanation))
                && std::ptr::eq(derived.logits.as_ptr(), Arc::as_ptr(&view.logits))
        });
        let mut derived = old.unwrap_or_else(|| Derived {
            explanation: Arc::downgrade(explanation),
            logits: Arc::downgrade(&view.logits),
            limit: agreement_limit(&view.logits.values),
            difference: explanation.difference(&view.logits.values),
            lens_difference: explanation.lens_difference(&view.logits.values),
            ranks: None,
            pair: None,
        });
        if derived.ranks.as_ref().is_none_or(|(of, _)| *of != token) {
            let ranks = explanation.lens.iter();
            let ranks = ranks.map(|row| rank(&row.logits.values, token)).collect();
            derived.ranks = Some((token, ranks));
        }
        self.derived.insert(derived)
    }
}

/// What takes a pass over the vocabulary, for one answer beside one row of recorded logits.
#[derive(Clone)]
struct Derived {
    explanation: Weak<Explanation>,
    logits: Weak<LogitsRow>,
    limit: f64,
    difference: f64,
    lens_difference: f64,
    /// The looked-at token's rank at every stage of the lens.
    ranks: Option<(u32, Vec<usize>)>,
    /// What is said of two pinned tokens at a temperature.
    pair: Option<((Vec<u32>, f32), String)>,
}

/// What the charts of one frame share.
struct Scene<'a> {
    view: &'a StepView,
    explanation: Option<&'a Arc<Explanation>>,
    /// The token that is looked at.
    token: u32,
    faces: Faces,
}

impl Scene<'_> {
    fn is_chosen(&self, id: u32) -> bool {
        self.view
            .chosen
            .as_ref()
            .is_some_and(|chosen| chosen.row.id == id)
    }

    fn vocab_size(&self) -> usize {
        self.view.logits.values.len()
    }
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    if session.toy().is_some() {
        return without_a_head(ui, ctx);
    }
    let all = has_room_for_all(ui.available_size(), ctx.scale);
    let mut state = std::mem::take(&mut ctx.panels.lm_head);
    let view = session.view();
    let token = view.and_then(|view| looked_at(session, view, &mut state));
    let subtitle = match (view, token) {
        (Some(_), Some(_)) if all => words::subtitle_of_all(session),
        (Some(view), Some(token)) => words::subtitle(session, view, state.chart, token),
        _ => String::new(),
    };
    let items = Menu {
        follows: state.token.is_none(),
        token: token.map(|id| (ctx.label(id), is_pinned(ctx, id))),
    };
    let mut wish = None;
    let title = Card::new(Panel::LmHead, subtitle).show(
        ui,
        ctx,
        |ui| wish = items.show(ui),
        |ui, ctx| {
            if !ctx.panels.on_paper {
                chart::header_slot(ui, Panel::LmHead.title(), ctx.theme, |ui| {
                    controls(ui, ctx, &mut state, token, all)
                });
            }
            match (session.view(), token) {
                (Some(view), Some(token)) => content(ui, ctx, view, token, &mut state, all),
                _ => chart::no_view(ui, ctx),
            }
        },
    );
    if let (Some(wish), Some(view), Some(token)) = (wish, view, token) {
        match wish {
            Wish::Follow => state.follow_step(),
            Wish::Pin => ctx
                .panels
                .logits
                .toggle_pin_in(view.logits.values.len(), token),
        }
    }
    ctx.panels.lm_head = state;
    title
}

/// The chart that is chosen, as numbers: tab-separated.
pub fn table(ctx: &mut PanelContext) -> Option<String> {
    let session = ctx.session;
    let view = session.view().filter(|_| session.toy().is_none())?;
    let state = &mut ctx.panels.lm_head;
    let token = looked_at(session, view, state)?;
    Some(words::table(session, view, state.chart, token))
}

fn without_a_head(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    Card::new(Panel::LmHead, "").show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            chart::say(ui, ctx.theme, words::TOY_HAS_NO_HEAD);
        },
    )
}

/// The first match of what is being searched, the token picked here, the chosen one, or the most likely.
fn looked_at(session: &Session, view: &StepView, state: &mut LmHeadState) -> Option<u32> {
    let vocab_size = view.logits.values.len();
    if !state.query.trim().is_empty()
        && let Some(&first) = state.matches(session, vocab_size).first()
    {
        return Some(first);
    }
    let picked = state.token.filter(|&(_, size)| size == vocab_size);
    let chosen = view.chosen.as_ref().map(|chosen| chosen.row.id);
    let top = view.top.first().map(|row| row.id);
    picked.map(|(id, _)| id).or(chosen).or(top)
}

fn is_pinned(ctx: &PanelContext, id: u32) -> bool {
    let view = ctx.session.view();
    view.is_some_and(|view| {
        let pins = ctx.panels.logits.pins(view.logits.values.len());
        pins.contains(&id)
    })
}

/// What the panel's menu is asked for.
enum Wish {
    Follow,
    Pin,
}

struct Menu {
    /// No token was picked here.
    follows: bool,
    /// The looked-at token, and whether it is pinned.
    token: Option<(String, bool)>,
}

impl Menu {
    fn show(&self, ui: &mut Ui) -> Option<Wish> {
        let mut wish = None;
        let mut item = |name: &str, enabled: bool, what: Wish| {
            if ui.add_enabled(enabled, egui::Button::new(name)).clicked() {
                wish = Some(what);
            }
        };
        item(
            "Look at the chosen token again",
            !self.follows,
            Wish::Follow,
        );
        if let Some((label, pinned)) = &self.token {
            let verb = if *pinned { "Let go of" } else { "Pin" };
            item(&format!("{verb} {label}"), true, Wish::Pin);
        }
        wish
    }
}

/// Beside the title: which chart, and the find field.
fn controls(
    ui: &mut Ui,
    ctx: &PanelContext,
    state: &mut LmHeadState,
    token: Option<u32>,
    all: bool,
) {
    ui.spacing_mut().button_padding.x = 6.0;
    ui.spacing_mut().item_spacing.x = 4.0;
    let choices = if all { &[][..] } else { &Chart::ALL };
    for &chart in choices.iter().rev() {
        if chart::choice_button(ui, ctx.theme, chart.name(), state.chart == chart).clicked() {
            state.chart = chart;
        }
    }
    if ui.available_width() < 60.0 * ctx.scale {
        return;
    }
    let hint = "Any token of the vocabulary: text (· or a blank for a space) or id; Enter keeps it";
    let name = "Find a row of the LM head by text or id";
    let entered = chart::find_field(ui, ctx, &mut state.query, name, hint);
    if entered && let (Some(id), Some(view)) = (token, ctx.session.view()) {
        state.token = Some((id, view.logits.values.len()));
        state.query.clear();
    }
}

fn content(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    view: &StepView,
    token: u32,
    state: &mut LmHeadState,
    all: bool,
) {
    let scene = Scene {
        view,
        explanation: ctx.session.explanation().and_then(Result::ok),
        token,
        faces: Faces::of(ui),
    };
    let area = ui.available_rect_before_wrap();
    let charts: Vec<(Chart, Rect)> = if all {
        let (left, right) = area.split_left_right_at_fraction(0.5);
        let (above, below) = right.split_top_bottom_at_fraction(0.5);
        let gap = GUTTER * ctx.scale;
        let right = |rect: Rect| rect.with_min_x(rect.left() + gap);
        vec![
            (Chart::Products, left.with_max_x(left.right() - gap)),
            (Chart::Lens, right(above)),
            (Chart::Nearest, right(below).with_min_y(below.top() + gap)),
        ]
    } else {
        vec![(state.chart, area)]
    };
    let mut pointed = None;
    for (chart, mut area) in charts {
        if all {
            let line = area.with_max_y(area.top() + scene.faces.line);
            let what = words::subtitle(ctx.session, view, chart, token);
            chart::note(ui, line, &format!("{}: {what}", chart.name()), ctx.theme);
            area.min.y = line.bottom() + 6.0;
        }
        pointed = pointed.or(one_chart(ui, ctx, &scene, state, chart, area));
    }
    state.pointed = pointed;
    ui.advance_cursor_after_rect(ui.max_rect());
}

/// Whether all three charts can be read side by side, as on a projector.
fn has_room_for_all(size: egui::Vec2, scale: f32) -> bool {
    size.x >= 1020.0 * scale && size.y >= 540.0 * scale
}

/// Asks for what a chart needs, and shows it; the token whose row or cell the pointer or the keyboard is on.
fn one_chart(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    scene: &Scene,
    state: &mut LmHeadState,
    chart: Chart,
    mut area: Rect,
) -> Option<u32> {
    let (session, token) = (ctx.session, scene.token);
    let answer = if chart == Chart::Nearest {
        if session.wants_nearest(token) {
            ctx.act(Action::Nearest(token));
        }
        session.nearest(token).map(|answer| answer.map(|_| ()))
    } else {
        if session.wants_explanation() {
            ctx.act(Action::Explain);
        }
        session.explanation().map(|answer| answer.map(|_| ()))
    };
    if let Some(Err(message)) = answer {
        let mut ui = ui.new_child(UiBuilder::new().max_rect(area));
        ui.add(egui::Label::new(message).wrap());
        return None;
    }
    let notes = match answer {
        Some(_) => foot(ctx, scene, state, chart),
        None => vec![words::pending(session).to_owned()],
    };
    for note in notes.into_iter().rev() {
        let line = area.with_min_y(area.bottom() - scene.faces.line);
        chart::note(ui, line, &note, ctx.theme);
        area.max.y = line.top() - 3.0;
    }
    match chart {
        Chart::Products => products::show(ui, ctx, scene, state, area),
        Chart::Nearest => nearest::show(ui, ctx, scene, state, area),
        Chart::Lens => lens::show(ui, ctx, scene, state, area),
    }
}

/// The lines below a chart: two pinned tokens side by side; whether the numbers agree with those on record.
fn foot(ctx: &PanelContext, scene: &Scene, state: &mut LmHeadState, chart: Chart) -> Vec<String> {
    let Some(explanation) = scene.explanation.filter(|_| chart != Chart::Nearest) else {
        return vec![words::nearest_note(scene)];
    };
    let derived = state.derive(scene.view, explanation, scene.token);
    if chart == Chart::Lens {
        let (difference, limit) = (derived.lens_difference, derived.limit);
        return vec![words::lens_agreement(difference, limit, scene.vocab_size())];
    }
    let agreement = format!(
        "‖h‖ {:.2} · {}",
        explanation.hidden_norm,
        words::agreement(derived.difference, derived.limit, scene.vocab_size())
    );
    let pins = ctx.panels.logits.pins(scene.vocab_size());
    let logits = &scene.view.logits.values;
    let temperature = shown_temperature(&scene.view.settings);
    if pins.len() != 2 {
        return vec![agreement];
    }
    let key = (pins.to_vec(), temperature);
    let pair = derived.pair.take().filter(|(old, _)| *old == key);
    let (_, words) = derived.pair.insert(pair.unwrap_or_else(|| {
        let tokens = pins.iter().map(|&id| Token::of(logits, id));
        let softmax = Softmax::new(logits, temperature);
        let tokens: Vec<_> = tokens.collect();
        let words = pair::words(&tokens, |id| ctx.label(id), &softmax, temperature);
        (key, words.unwrap_or_default())
    }));
    vec![words.clone(), agreement]
}

// ---- rows --------------------------------------------------------------------------------------------------------

/// Shows one row's ground and takes what is asked of it: a click looks at its token, a second button pins it. True
/// where the pointer or the keyboard is on it.
fn row(
    ui: &Ui,
    ctx: &mut PanelContext,
    scene: &Scene,
    state: &mut LmHeadState,
    (rect, place, id): (Rect, Id, u32),
    name: &str,
) -> Response {
    let response = ui.interact(rect, place, egui::Sense::click());
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name));
    if response.gained_focus() {
        ui.scroll_to_rect(rect, None);
    }
    chart::row_ground(ui.painter(), rect, &response, ctx.theme);
    if scene.token == id {
        // As the current branch has it.
        let bar = Rect::from_min_size(rect.left_top(), egui::vec2(3.0, rect.height()));
        let bar = bar
            .shrink2(egui::vec2(0.0, 3.0))
            .translate(egui::vec2(-4.0, 0.0));
        ui.painter().rect_filled(bar, 1, ctx.theme.ink);
    }
    if response.clicked() {
        state.look_at(id, scene.vocab_size());
    }
    if response.secondary_clicked() {
        ctx.panels.logits.toggle_pin_in(scene.vocab_size(), id);
    }
    response
}
