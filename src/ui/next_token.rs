//! Next token panel: the most likely tokens of the shown step as rank slots, model P beside drawn-from P, what the
//! filters cut, the mass of all other tokens, and any token of the vocabulary by text or id.
//!
//! Reads the session's [`StepView`]; a click on a row asks for [`Action::Pick`]. Runs on the window's thread.

mod layout;
mod redraw;
mod words;

use std::sync::{Arc, Weak};

use egui::{Id, Rect, Response, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};

use layout::{Columns, Regions, Widths};

use super::{
    Panel, PanelContext, Theme,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    prediction::LogitsRow,
    sampling::SamplingSettings,
    session::{Action, Redraw, Session, StepView, TOP_ROWS, TokenRow},
};

/// Most matches that the find field lists.
const MATCHES: usize = 40;

/// What the panel remembers.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct NextTokenState {
    /// What is typed in the find field.
    #[serde(skip)]
    query: String,
    #[serde(skip)]
    found: Option<Found>,
}

/// The matches of a query as rows of one step, kept while both stay the same: a search reads the whole vocabulary.
#[derive(Clone)]
struct Found {
    query: String,
    row: Weak<LogitsRow>,
    settings: Arc<SamplingSettings>,
    rows: Vec<TokenRow>,
}

impl NextTokenState {
    fn matches(&mut self, session: &Session, view: &StepView) -> &[TokenRow] {
        let same = self.found.as_ref().is_some_and(|found| {
            found.query == self.query
                && std::ptr::eq(found.row.as_ptr(), Arc::as_ptr(&view.logits))
                && Arc::ptr_eq(&found.settings, &view.settings)
        });
        if !same {
            let ids = session
                .tokenizer()
                .map(|tokenizer| tokenizer.find(&self.query, MATCHES))
                .unwrap_or_default();
            let in_row = |id: &u32| (*id as usize) < view.logits.values.len();
            self.found = Some(Found {
                query: self.query.clone(),
                row: Arc::downgrade(&view.logits),
                settings: view.settings.clone(),
                rows: ids
                    .into_iter()
                    .filter(in_row)
                    .map(|id| view.row(id))
                    .collect(),
            });
        }
        self.found.as_ref().map_or(&[], |found| &found.rows)
    }
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    let subtitle = session
        .view()
        .map_or_else(String::new, |view| words::subtitle(session, view));
    let mut asked = Vec::new();
    let title = Card::new(Panel::NextToken, subtitle).show(
        ui,
        ctx,
        |ui| redraw::menu(ui, session, &mut asked),
        content,
    );
    ctx.actions.extend(asked);
    title
}

/// Tab-separated, one row a token.
pub fn table(session: &Session) -> Option<String> {
    session.view().map(|view| words::table(session, view))
}

fn content(ui: &mut Ui, ctx: &mut PanelContext) {
    let mut state = std::mem::take(&mut ctx.panels.next_token);
    let entered = find_field(ui, ctx, &mut state);
    match ctx.session.view() {
        Some(view) => distribution(ui, ctx, view, &mut state, entered),
        None => chart::no_view(ui, ctx),
    }
    ctx.panels.next_token = state;
}

/// The find field beside the title; true when Enter was pressed in it.
fn find_field(ui: &mut Ui, ctx: &PanelContext, state: &mut NextTokenState) -> bool {
    let mut entered = false;
    if ctx.panels.on_paper && state.query.is_empty() {
        return false;
    }
    chart::header_slot(ui, Panel::NextToken.title(), ctx.theme, |ui| {
        let hint = "Any token of the vocabulary: text (· or a blank for a space) or id";
        let name = "Find a token by text or id";
        entered = chart::find_field(ui, ctx, &mut state.query, name, hint);
    });
    entered
}

// ---- drawing -----------------------------------------------------------------------------------------------------

/// What all rows of one frame share.
struct Rows<'a> {
    view: &'a StepView,
    faces: Faces,
    columns: Columns,
    /// Model P at the right end of the bars.
    full: f64,
    /// Another draw of the step, not taken.
    redraw: Option<Redraw>,
}

fn distribution(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    view: &StepView,
    state: &mut NextTokenState,
    entered: bool,
) {
    let session = ctx.session;
    let searching = !state.query.trim().is_empty();
    let found: Vec<TokenRow> = if searching {
        state.matches(session, view).to_vec()
    } else {
        Vec::new()
    };
    let listed: &[TokenRow] = if searching { &found } else { &view.top };
    let slots = TOP_ROWS.min(view.logits.values.len());
    let faces = Faces::of(ui);
    let regions = Regions::fit(
        ui.available_rect_before_wrap(),
        faces.line,
        ctx.row_height(),
        slots,
    );
    let widths = Widths {
        digit: faces.digit,
        model_p: faces.small_width(ui, "model P"),
        drawn_from: faces.small_width(ui, "drawn from"),
        gap: 9.0 * ctx.scale,
    };
    let columns = Columns::fit(regions.rows.left(), regions.rows.width(), widths, searching);
    let largest = listed
        .iter()
        .chain(view.chosen.as_ref().map(|chosen| &chosen.row))
        .map(|row| row.prob)
        .fold(0.0, f64::max);
    let rows = Rows {
        view,
        faces,
        columns,
        full: chart::nice_ceil(largest).min(1.0),
        redraw: session.redraw(),
    };
    let what = if searching {
        words::matches_label(found.len())
    } else {
        words::top_label(regions.whole_rows(), listed.len())
    };
    header(ui, ctx.theme, &rows, regions.header, &what);

    let mut list = ui.new_child(UiBuilder::new().id_salt("rows").max_rect(regions.rows));
    list.set_clip_rect(
        regions
            .rows
            .expand2(vec2(5.0, 0.0))
            .intersect(ui.clip_rect()),
    );
    ScrollArea::vertical()
        .auto_shrink(false)
        .show(&mut list, |ui| {
            let size = vec2(
                regions.rows.width(),
                listed.len() as f32 * regions.row_height,
            );
            let (area, _) = ui.allocate_exact_size(size, Sense::hover());
            for (slot, token) in listed.iter().enumerate() {
                let top = area.top() + slot as f32 * regions.row_height;
                let rect = Rect::from_min_size(
                    pos2(regions.rows.left(), top),
                    vec2(regions.rows.width(), regions.row_height),
                );
                rows.show(ui, ctx, rect, row_id(slot), token);
            }
        });
    if entered && !found.is_empty() {
        ui.memory_mut(|memory| memory.request_focus(row_id(0)));
    }
    let elsewhere = view
        .chosen
        .as_ref()
        .filter(|chosen| !listed.iter().any(|row| row.id == chosen.row.id));
    if let (Some(rect), Some(chosen)) = (regions.extra, elsewhere) {
        rows.show(ui, ctx, rect, row_id(usize::MAX), &chosen.row);
    }
    if let Some(rect) = regions.strip {
        strip(ui, ctx.theme, &rows, rect);
    }
    if let Some(rect) = regions.filters {
        chart::note(ui, rect, &words::filters_note(view), ctx.theme);
    }
    if let Some(rect) = regions.hint {
        redraw::foot(
            ui,
            ctx,
            rect,
            rows.redraw.as_ref(),
            &words::hints(view, ctx.panels.on_paper),
        );
    }
    ui.advance_cursor_after_rect(ui.max_rect());
}

/// Rows are rank slots: the keyboard stays on a slot while its token changes.
fn row_id(slot: usize) -> Id {
    Id::unique("next token row").with(slot)
}

fn header(ui: &Ui, theme: &Theme, rows: &Rows, rect: Rect, what: &str) {
    let painter = ui.painter();
    let columns = &rows.columns;
    let y = rect.top() + 0.5 * rows.faces.line;
    let write = |x: f32, text: &str| {
        chart::text_right(painter, pos2(x, y), text, &rows.faces.small, theme.dim)
    };
    write(
        columns
            .label
            .max(rect.left() + rows.faces.small_width(ui, what)),
        what,
    );
    write(columns.prob, "model P");
    for (x, text) in [
        (columns.drawn, "drawn from"),
        (columns.logit, "logit"),
        (columns.rank, "rank"),
    ] {
        if let Some(x) = x {
            write(x, text);
        }
    }
    // The end of the bars' axis, where it does not run into a heading.
    let end = format!("{} %", chart::short((100.0 * rows.full) as f32));
    if columns.bar.end - columns.bar.start > 1.5 * rows.faces.small_width(ui, &end) {
        write(columns.bar.end, &end);
    }
}

impl Rows<'_> {
    fn is_chosen(&self, id: u32) -> bool {
        self.view
            .chosen
            .as_ref()
            .is_some_and(|chosen| chosen.row.id == id)
    }

    fn is_redrawn(&self, id: u32) -> bool {
        self.redraw
            .as_ref()
            .is_some_and(|redraw| redraw.row.id == id)
    }

    fn show(&self, ui: &Ui, ctx: &mut PanelContext, rect: Rect, id: Id, token: &TokenRow) {
        let chosen = self.is_chosen(token.id);
        let label = ctx.label(token.id);
        let response = ui.interact(rect, id, Sense::click());
        response.widget_info(|| {
            egui::WidgetInfo::labeled(
                egui::Role::Button,
                true,
                words::name(&label, token, self.view, chosen),
            )
        });
        if response.gained_focus() {
            ui.scroll_to_rect(rect, None);
        }
        if ui.is_rect_visible(rect) {
            chart::row_ground(ui.painter(), rect, &response, ctx.theme);
            self.paint(ui, ctx.theme, rect, &label, token, chosen);
        }
        if response.clicked() {
            ctx.act(Action::Pick(token.id));
        }
        let session = ctx.session;
        response
            .on_hover_cursor(egui::CursorIcon::PointingHand)
            .on_hover_ui(|ui| words::details(ui, session, self.view, &label, token));
    }

    fn paint(
        &self,
        ui: &Ui,
        theme: &Theme,
        rect: Rect,
        label: &str,
        token: &TokenRow,
        chosen: bool,
    ) {
        let painter = ui.painter();
        let Self { columns, faces, .. } = self;
        let cut = token.cut_by.is_some();
        let y = rect.center().y;
        let label_color = if cut && !chosen { theme.dim } else { theme.ink };
        chart::text_right(
            painter,
            pos2(columns.label, y),
            chart::fit(label, columns.label_chars),
            faces.token(chosen),
            label_color,
        );
        let mut bar_end = columns.bar.start;
        if token.prob > 0.0 {
            let length =
                ((token.prob / self.full) as f32).min(1.0) * (columns.bar.end - columns.bar.start);
            // A sliver that is there must be seen.
            bar_end += length.max(1.5);
            let half = 0.5 * chart::bar_height(rect.height());
            let bar = Rect::from_x_y_ranges(columns.bar.start..=bar_end, y - half..=y + half);
            let color = if chosen {
                theme.chosen
            } else {
                theme.probability
            };
            if cut {
                chart::hollow_bar(painter, bar, if chosen { color } else { theme.dim });
            } else {
                chart::bar(painter, bar, color);
            }
        }
        // Without a column of their own, ranks that the position does not tell are written beside the bar.
        if token.rank > TOP_ROWS && columns.rank.is_none() {
            let text = format!("rank {}", chart::count(token.rank));
            if bar_end + 6.0 + faces.small_width(ui, &text) <= columns.bar.end {
                chart::text_left(
                    painter,
                    pos2(bar_end + 6.0, y),
                    text,
                    &faces.small,
                    theme.dim,
                );
            }
        }
        let write = |x: f32, text: String, font: &egui::FontId, color| {
            chart::text_right(painter, pos2(x, y), text, font, color)
        };
        write(
            columns.prob,
            chart::percent(token.prob),
            faces.token(chosen),
            theme.ink,
        );
        if let Some(x) = columns.drawn {
            let color = if token.drawn_from.is_some() {
                theme.ink
            } else {
                theme.dim
            };
            write(
                x,
                words::drawn_from(token, self.view),
                faces.token(chosen),
                color,
            );
        }
        if let Some(x) = columns.logit {
            write(x, chart::number(token.logit.into()), &faces.mono, theme.dim);
        }
        if let Some(x) = columns.rank {
            write(x, chart::count(token.rank), &faces.mono, theme.dim);
        }
        if chosen {
            chart::mark(
                painter,
                pos2(columns.mark, y),
                0.35 * rect.height(),
                theme.chosen,
            );
        } else if self.is_redrawn(token.id) {
            // Hollow: it is not in the text.
            chart::hollow_mark(
                painter,
                pos2(columns.mark, y),
                0.35 * rect.height(),
                theme.ink,
            );
        }
    }
}

/// All probability as one line from 0 to 100 %: the listed tokens and the rest.
fn strip(ui: &mut Ui, theme: &Theme, rows: &Rows, rect: Rect) {
    let view = rows.view;
    let (left, right) =
        words::strip_labels(view.top_mass(), view.top.len(), view.logits.values.len());
    let painter = ui.painter();
    let y = rect.top() + 0.5 * rows.faces.line;
    chart::text_left(
        painter,
        pos2(rect.left(), y),
        &left,
        &rows.faces.small,
        theme.dim,
    );
    chart::text_right(
        painter,
        pos2(rect.right(), y),
        &right,
        &rows.faces.small,
        theme.dim,
    );
    let track = Rect::from_min_max(
        pos2(rect.left(), rect.top() + rows.faces.line + 2.0),
        rect.max,
    );
    painter.rect_filled(track, 3, theme.field);
    let mut filled = track;
    filled.set_width((view.top_mass().clamp(0.0, 1.0) as f32) * track.width());
    painter.rect_filled(filled, 3, theme.probability);
    let response = ui.interact(rect, Id::unique("next token mass"), Sense::hover());
    response.widget_info(|| {
        egui::WidgetInfo::labeled(
            egui::Role::Meter,
            true,
            format!("Model P on a strip from 0 to 100 %, {left}, {right}"),
        )
    });
    response.on_hover_text("Model P over the whole vocabulary, 0 to 100 %");
}
