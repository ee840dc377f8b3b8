//! Loop panel: the last three iterations of predict → select → append → stop? with this run's numbers, and a button
//! that walks the phases one at a time.
//!
//! What is shown comes from the session's [`Iteration`]s, worked out once for each token. Runs on the window's thread.

mod paint;
mod words;

use std::{sync::Arc, time::Duration};

use egui::{Id, Rect, Response, RichText, ScrollArea, Sense, Ui, pos2, vec2};

use super::{
    Panel, PanelContext,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    sampling::SamplingSettings,
    session::{Action, Iteration, LoopPhase, NodeId, Session, Walk},
    worker::StopReason,
};
use paint::{Painting, Regions};

const SUBTITLE: &str = "last three iterations · bar model P, on one scale, % drawn from after the filters · u against the cumulative sum of drawn from · stop tests in their order";

/// Iterations on show.
const ITERATIONS: usize = 3;

/// What the panel remembers.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LoopState {
    #[serde(skip)]
    walk: Walk,
    /// Iterations of recorded tokens that were shown in the last frame.
    #[serde(skip)]
    done: Vec<(DoneKey, Arc<Iteration>)>,
    #[serde(skip)]
    open: Option<(OpenKey, Arc<Iteration>)>,
}

/// What a recorded iteration depends on.
#[derive(Clone, Copy, PartialEq)]
struct DoneKey {
    node: NodeId,
    /// Moves when the text before the context is cut.
    index: usize,
    has_logits: bool,
    /// The user ended the run after it.
    is_stopped: bool,
}

/// What the open iteration depends on.
#[derive(Clone, PartialEq)]
struct OpenKey {
    head: NodeId,
    len: usize,
    settings: Arc<SamplingSettings>,
    /// Address of the logits row.
    row: usize,
}

impl LoopState {
    fn done(&mut self, session: &Session, index: usize) -> Option<Arc<Iteration>> {
        let key = DoneKey {
            node: *session.path().get(index)?,
            index,
            has_logits: session
                .prediction(index)
                .is_some_and(|prediction| prediction.logits.is_some()),
            is_stopped: index + 1 == session.len()
                && session.stop_reason() == Some(StopReason::Stopped),
        };
        if let Some((_, found)) = self.done.iter().find(|(old, _)| *old == key) {
            return Some(found.clone());
        }
        let found = Arc::new(session.iteration(index)?);
        self.done.push((key, found.clone()));
        let spare = self.done.len().saturating_sub(2 * ITERATIONS);
        self.done.drain(..spare);
        Some(found)
    }

    fn open(&mut self, session: &Session) -> Option<Arc<Iteration>> {
        let row = session.prediction(session.len())?.logits.as_ref()?;
        let key = OpenKey {
            head: session.head(),
            len: session.len(),
            settings: session.settings().clone(),
            row: Arc::as_ptr(row) as usize,
        };
        if let Some((old, found)) = &self.open
            && *old == key
        {
            return Some(found.clone());
        }
        let found = Arc::new(session.open_iteration()?);
        self.open = Some((key, found.clone()));
        Some(found)
    }

    /// The iterations on show in a phase, oldest first, each with the phase that it has reached.
    fn shown(&mut self, session: &Session, phase: LoopPhase) -> Vec<(Arc<Iteration>, LoopPhase)> {
        let done = ITERATIONS - usize::from(phase.is_open());
        let mut shown = Vec::new();
        for index in session.last_choices(done) {
            let newest = index + 1 == session.len() && !phase.is_open();
            if let Some(iteration) = self.done(session, index) {
                shown.push((iteration, if newest { phase } else { LoopPhase::Stop }));
            }
        }
        if phase.is_open()
            && let Some(open) = self.open(session)
        {
            shown.push((open, phase));
        }
        shown
    }
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    let mut state = std::mem::take(&mut ctx.panels.generation_loop);
    let phase = state.walk.phase(session, ctx.now);
    if let Some(seconds) = state.walk.next_change(session, ctx.now) {
        ui.ctx()
            .request_repaint_after(Duration::from_secs_f64(seconds));
    }
    let shown = state.shown(session, phase);
    let title = Card::new(Panel::Loop, SUBTITLE).show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            if !ctx.panels.on_paper {
                chart::header_slot(ui, Panel::Loop.title(), ctx.theme, |ui| {
                    next_phase(ui, ctx, &mut state.walk, phase);
                });
            }
            if shown.is_empty() {
                chart::no_view(ui, ctx);
            } else {
                content(ui, ctx, &shown, phase);
            }
        },
    );
    ctx.panels.generation_loop = state;
    title
}

/// Tab-separated, one row a candidate of each iteration on show.
pub fn table(ctx: &mut PanelContext) -> String {
    let state = &mut ctx.panels.generation_loop;
    let phase = state.walk.phase(ctx.session, ctx.now);
    words::table(ctx.session, &state.shown(ctx.session, phase))
}

fn next_phase(ui: &mut Ui, ctx: &mut PanelContext, walk: &mut Walk, phase: LoopPhase) {
    let held = walk.is_held(ctx.session);
    let button = ui
        .add_enabled(held.is_none(), egui::Button::new("Next phase"))
        .on_hover_text(words::what_comes_next(phase))
        .on_disabled_hover_text(held.unwrap_or_default());
    if button.clicked()
        && let Some(action) = walk.advance(ctx.session)
    {
        ctx.act(action);
    }
}

fn content(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    shown: &[(Arc<Iteration>, LoopPhase)],
    phase: LoopPhase,
) {
    let usual = Faces::of(ui);
    let room = ui.available_size() - vec2(0.0, 2.0 * usual.line);
    let faces = paint::zoomed(usual, room, ctx.scale);
    let head = ui
        .allocate_exact_size(vec2(ui.available_width(), faces.line + 6.0), Sense::hover())
        .0;
    let regions = Regions::fit(head.x_range());
    heading(ui, ctx, &faces, head, &regions, phase);
    let height = paint::row_height(&faces);
    let full = paint::full_bar(shown.iter().map(|(iteration, _)| &**iteration));
    // A newest iteration of another shape is scrolled to; otherwise the reader's place is kept.
    ScrollArea::vertical()
        .auto_shrink(false)
        .stick_to_bottom(true)
        .show(ui, |ui| {
            for (iteration, reached) in shown {
                let (rect, _) =
                    ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
                row(ui, ctx, &faces, rect, iteration, *reached, full);
            }
        });
}

/// The four phases as headings over their columns; the one on show is bold and underlined.
fn heading(
    ui: &Ui,
    ctx: &PanelContext,
    faces: &Faces,
    rect: Rect,
    regions: &Regions,
    phase: LoopPhase,
) {
    let theme = ctx.theme;
    for (column, one) in regions.columns().into_iter().zip(LoopPhase::ALL) {
        let current = one == phase;
        let mut text = RichText::new(one.name()).small().color(theme.dim);
        if current {
            text = text.color(theme.ink).family(super::theme::semibold());
        }
        let text = text.size(faces.small.size);
        let galley = egui::WidgetText::from(text).into_galley(
            ui,
            Some(egui::TextWrapMode::Extend),
            f32::INFINITY,
            egui::TextStyle::Small,
        );
        let at = pos2(column.min, rect.top());
        let size = galley.size();
        ui.painter().galley(at, galley, theme.ink);
        if current {
            let line = egui::Stroke::new(2.0, theme.ink);
            ui.painter()
                .hline(at.x..=at.x + size.x, at.y + size.y + 1.0, line);
        }
        if one != LoopPhase::Stop && column.max - column.min > size.x + 4.0 * faces.digit {
            let at = pos2(column.max - 1.4 * faces.digit, rect.top() + 0.5 * size.y);
            chart::text_right(ui.painter(), at, "→", &faces.small, theme.dim);
        }
    }
    let response = ui.interact(rect, Id::unique("loop phase"), Sense::hover());
    response.widget_info(|| {
        egui::WidgetInfo::labeled(
            egui::Role::Label,
            true,
            format!("Phase of the loop: {}", phase.name()),
        )
    });
}

fn row(
    ui: &Ui,
    ctx: &mut PanelContext,
    faces: &Faces,
    rect: Rect,
    iteration: &Iteration,
    reached: LoopPhase,
    full: f64,
) {
    let session = ctx.session;
    let id = Id::unique("loop iteration").with(iteration.index);
    let response = ui.interact(rect, id, Sense::click());
    let name = words::row_name(session, iteration, reached);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    if response.gained_focus() {
        ui.scroll_to_rect(rect, None);
    }
    chart::row_ground(
        ui.painter(),
        rect.shrink2(vec2(0.0, 2.0)),
        &response,
        ctx.theme,
    );
    Painting {
        ui,
        session,
        theme: ctx.theme,
        faces,
        iteration,
        reached,
        full,
    }
    .paint(rect);
    if response.clicked() {
        ctx.act(Action::Select(iteration.index));
    }
    response.on_hover_ui(|ui| {
        ui.set_max_width(360.0 * ctx.scale);
        ui.label(name);
    });
}
