//! Next token panel: the most likely tokens of the shown step as rank slots, model P beside drawn-from P, what the
//! filters cut, the mass of all other tokens, and any token of the vocabulary by text or id.
//!
//! Reads the session's [`StepView`]; a click on a row asks for [`Action::Pick`]. Runs on the window's thread.

use std::sync::{Arc, Weak};

use egui::{Id, Key, Rect, Response, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};

use super::{
    PanelContext, Theme,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    prediction::LogitsRow,
    sampling::{Filter, SamplingSettings},
    session::{Action, Origin, Session, StepView, TOP_ROWS, TokenRow},
};

const TITLE: &str = "Next token";

/// Most matches that the find field lists.
const MATCHES: usize = 40;

const FILTERS: [Filter; 3] = [Filter::TopK, Filter::TopP, Filter::MinP];

/// What the panel remembers.
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct NextTokenState {
    /// What is typed in the find field.
    #[serde(skip)]
    query: String,
    #[serde(skip)]
    found: Option<Found>,
}

/// The matches of a query as rows of one step, kept while both stay the same: a search reads the whole vocabulary.
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
        .map_or_else(String::new, |view| subtitle(session, view));
    Card {
        title: TITLE,
        subtitle,
    }
    .show(
        ui,
        ctx.theme,
        |ui| chart::copy_table_item(ui, || session.view().map(|view| table(session, view))),
        |ui| content(ui, ctx),
    )
}

fn subtitle(session: &Session, view: &StepView) -> String {
    let after = if view.step == 0 {
        "at the start".to_owned()
    } else {
        format!("after {}", chart::text_before(session, view.step))
    };
    if let Some(what_if) = view
        .drawn_with
        .as_ref()
        .and_then(|drawn| chart::what_if(&view.settings, drawn))
    {
        return format!("{what_if} · Esc shows it as drawn · {after}");
    }
    let how = match &view.chosen {
        None => "open step".to_owned(),
        Some(chosen) => match (chosen.origin, chosen.u) {
            (Origin::Sampled, Some(u)) if chosen.redraw > 0 => {
                format!("drawn u = {u:.3}, draw {}", chosen.redraw + 1)
            }
            (Origin::Sampled, Some(u)) => format!("drawn u = {u:.3}"),
            (origin, _) => origin.name().to_owned(),
        },
    };
    format!(
        "{after} · entropy {:.2} nats · {how}",
        view.logits.stats.entropy_nats
    )
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
    chart::header_slot(ui, TITLE, ctx.theme, |ui| {
        let width = ui.available_width().min(170.0 * ctx.scale);
        let field = egui::TextEdit::singleline(&mut state.query)
            .hint_text("Find by text or id")
            .font(egui::TextStyle::Small)
            .desired_width(width - 8.0);
        let enabled = ctx.session.tokenizer().is_some();
        let field = ui
            .add_enabled(enabled, field)
            .accessible_name("Find a token by text or id")
            .on_hover_text("Any token of the vocabulary: text (· or a blank for a space) or id");
        if field.lost_focus() {
            entered = ui.input(|input| input.key_pressed(Key::Enter));
            if ui.input(|input| input.key_pressed(Key::Escape)) {
                state.query.clear();
            }
        }
    });
    entered && !state.query.is_empty()
}

// ---- layout ------------------------------------------------------------------------------------------------------

/// Where the parts of the panel are. What does not fit is left out from the bottom up, never squeezed.
#[derive(Debug, PartialEq)]
struct Regions {
    header: Rect,
    rows: Rect,
    /// The slot for a chosen token that is not among the rows.
    extra: Option<Rect>,
    strip: Option<Rect>,
    filters: Option<Rect>,
    hint: Option<Rect>,
    row_height: f32,
}

impl Regions {
    /// `line` is the height of a line of small type, `slots` how many rows there are to show.
    fn fit(area: Rect, line: f32, row_height: f32, slots: usize) -> Self {
        let gap = (0.35 * line).round();
        let header_height = line + gap;
        let strip_height = line + (0.6 * line).round();
        // A panel too low for a few rows shows rows and nothing else.
        let mut room = area.height() - header_height;
        let least = 3.0 * row_height;
        let mut take = |height: f32| {
            let fits = room - height >= least;
            if fits {
                room -= height;
            }
            fits
        };
        let has_extra = take(row_height + gap);
        let has_strip = take(strip_height + gap);
        let has_filters = take(line + 1.0);
        let has_hint = take(line + 1.0);
        let row_height = chart::fitting_row_height(
            row_height,
            room + if has_extra { row_height } else { 0.0 },
            slots + usize::from(has_extra),
        );
        let mut top = area.top();
        let mut next = |height: f32| {
            let rect =
                Rect::from_min_size(pos2(area.left(), top), vec2(area.width(), height.max(0.0)));
            top += height;
            rect
        };
        let header = next(header_height);
        let below = |shown: bool, height: f32| if shown { height } else { 0.0 };
        let fixed = below(has_extra, row_height + gap)
            + below(has_strip, strip_height + gap)
            + below(has_filters, line + 1.0)
            + below(has_hint, line + 1.0);
        let rows_height = (area.height() - header_height - fixed).min(slots as f32 * row_height);
        let rows = next(rows_height);
        let extra = has_extra.then(|| {
            next(gap);
            next(row_height)
        });
        let strip = has_strip.then(|| {
            next(gap);
            next(strip_height)
        });
        // The two notes stand at the bottom of the panel, like the sketch's.
        let bottom = |lines: f32| {
            Rect::from_min_size(
                pos2(area.left(), area.bottom() - lines * (line + 1.0)),
                vec2(area.width(), line),
            )
        };
        let filters = has_filters.then(|| bottom(if has_hint { 2.0 } else { 1.0 }));
        let hint = has_hint.then(|| bottom(1.0));
        Self {
            header,
            rows,
            extra,
            strip,
            filters,
            hint,
            row_height,
        }
    }

    fn whole_rows(&self) -> usize {
        ((self.rows.height() + 0.5) / self.row_height).max(0.0) as usize
    }
}

/// Widths that the columns are made from, in points.
#[derive(Clone, Copy)]
struct Widths {
    digit: f32,
    /// Headings in small type.
    model_p: f32,
    drawn_from: f32,
    gap: f32,
}

/// Where the columns are: right ends of the numbers, both ends of the bars. Depends on the type and the panel's
/// width alone, so that nothing moves while numbers change.
#[derive(Clone, Debug, PartialEq)]
struct Columns {
    label_chars: usize,
    label: f32,
    bar: std::ops::Range<f32>,
    prob: f32,
    drawn: Option<f32>,
    logit: Option<f32>,
    rank: Option<f32>,
    mark: f32,
}

impl Columns {
    fn fit(left: f32, width: f32, widths: Widths, wants_rank: bool) -> Self {
        let Widths { digit, gap, .. } = widths;
        let prob = widths.model_p.max(7.0 * digit);
        let drawn = widths.drawn_from.max(7.0 * digit);
        let (logit, rank, mark) = (7.0 * digit, 6.0 * digit, 1.6 * digit);
        let least_bar = 5.0 * digit;
        let label_chars = |spare: f32| (10 + (0.25 * spare / digit).max(0.0) as usize).min(20);
        let mut spare = width - (10.0 * digit + 2.0 * gap + prob + mark) - least_bar;
        let mut take = |column: f32, beyond: f32| {
            let fits = spare - column - gap >= beyond;
            if fits {
                spare -= column + gap;
            }
            fits
        };
        let has_drawn = take(drawn, 0.0);
        // Where there is no room for both, a rank that was asked for matters more than the logit.
        let has_rank_first = wants_rank && take(rank, 0.0);
        let has_logit = take(logit, 0.0);
        let has_rank = has_rank_first || take(rank, 12.0 * digit);
        let label_chars = if spare < 0.0 { 6 } else { label_chars(spare) };
        let label = left + label_chars as f32 * digit;
        let mut right = left + width - mark;
        let mut from_right = |shown: bool, column: f32| {
            let at = right;
            if shown {
                right -= column + gap;
            }
            shown.then_some(at)
        };
        let rank = from_right(has_rank, rank);
        let logit = from_right(has_logit, logit);
        let drawn = from_right(has_drawn, drawn);
        let at = right;
        let bar = label + gap..(at - prob - gap).max(label + gap);
        Self {
            label_chars,
            label,
            bar,
            prob: at,
            drawn,
            logit,
            rank,
            mark: left + width - 0.5 * mark,
        }
    }
}

// ---- drawing -----------------------------------------------------------------------------------------------------

/// What all rows of one frame share.
struct Rows<'a> {
    view: &'a StepView,
    faces: Faces,
    columns: Columns,
    /// Model P at the right end of the bars.
    full: f64,
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
    };
    let what = if searching {
        matches_label(found.len())
    } else {
        top_label(regions.whole_rows(), listed.len())
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
        chart::note(ui, rect, &filters_note(view), ctx.theme);
    }
    if let Some(rect) = regions.hint {
        chart::note(ui, rect, &hint(view), ctx.theme);
    }
    ui.advance_cursor_after_rect(ui.max_rect());
}

/// Rows are rank slots: the keyboard stays on a slot while its token changes.
fn row_id(slot: usize) -> Id {
    Id::unique("next token row").with(slot)
}

fn top_label(shown: usize, all: usize) -> String {
    if shown < all {
        format!("top {shown} of {all}")
    } else {
        format!("top {all}")
    }
}

fn matches_label(found: usize) -> String {
    match found {
        0 => "no match".to_owned(),
        1 => "1 match".to_owned(),
        MATCHES => format!("first {MATCHES}"),
        _ => format!("{found} matches"),
    }
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

    fn show(&self, ui: &Ui, ctx: &mut PanelContext, rect: Rect, id: Id, token: &TokenRow) {
        let chosen = self.is_chosen(token.id);
        let label = ctx.label(token.id);
        let response = ui.interact(rect, id, Sense::click());
        response.widget_info(|| {
            egui::WidgetInfo::labeled(
                egui::Role::Button,
                true,
                name(&label, token, self.view, chosen),
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
            .on_hover_ui(|ui| details(ui, session, self.view, &label, token));
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
            write(x, drawn_from(token, self.view), faces.token(chosen), color);
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
        }
    }
}

/// The drawn-from column: "cut" only where a filter did it.
fn drawn_from(token: &TokenRow, view: &StepView) -> String {
    match (token.drawn_from, token.cut_by) {
        (Some(p), _) => chart::percent(p),
        (None, Some(_)) => "cut".to_owned(),
        (None, None) if view.distribution.is_greedy() => chart::percent(0.0),
        (None, None) => "–".to_owned(),
    }
}

/// What a screen reader says of a row.
fn name(label: &str, token: &TokenRow, view: &StepView, chosen: bool) -> String {
    let drawn = match token.cut_by {
        Some(filter) => format!("cut by {}", chart::filter_name(filter, &view.settings)),
        None => format!("drawn from {}", drawn_from(token, view)),
    };
    format!(
        "{label}, rank {}, model P {}, {drawn}, logit {}{}",
        token.rank,
        chart::percent(token.prob),
        chart::number(token.logit.into()),
        if chosen { ", chosen" } else { "" }
    )
}

fn details(ui: &mut Ui, session: &Session, view: &StepView, label: &str, token: &TokenRow) {
    ui.label(egui::RichText::new(format!("{label}  ·  id {}", token.id)).monospace());
    ui.label(format!(
        "rank {} of {}",
        chart::count(token.rank),
        chart::count(view.logits.values.len())
    ));
    ui.label(format!(
        "model P {:.5} %  ·  surprisal {:.4} nats",
        100.0 * token.prob,
        -view.logits.log_prob(token.id)
    ));
    ui.label(match (token.drawn_from, token.cut_by) {
        (Some(p), _) => format!("drawn from {:.5} %", 100.0 * p),
        (None, Some(filter)) => format!(
            "cut by {}; {:.5} % before the filters",
            chart::filter_name(filter, &view.settings),
            100.0 * view.distribution.tempered_prob(token.id)
        ),
        (None, None) => "not drawn".to_owned(),
    });
    ui.label(match view.distribution.penalised_logit(token.id) {
        Some(z) if z != token.logit => format!(
            "logit {:.5}, {z:.5} after the repetition penalty",
            token.logit
        ),
        _ => format!("logit {:.5}", token.logit),
    });
    if let Some(tokenizer) = session.tokenizer() {
        let bytes: Vec<_> = tokenizer
            .bytes(token.id)
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        ui.label(egui::RichText::new(format!("bytes {}", bytes.join(" "))).monospace());
    }
    ui.label("Click to continue with it");
}

/// All probability as one line from 0 to 100 %: the listed tokens and the rest.
fn strip(ui: &mut Ui, theme: &Theme, rows: &Rows, rect: Rect) {
    let view = rows.view;
    let (left, right) = strip_labels(view.top_mass(), view.top.len(), view.logits.values.len());
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

fn strip_labels(mass: f64, shown: usize, vocab_size: usize) -> (String, String) {
    let others = vocab_size.saturating_sub(shown);
    let rest = if others == 0 {
        0.0
    } else {
        (1.0 - mass).max(0.0)
    };
    (
        format!("these {shown} {}", chart::percent(mass)),
        format!("{} others {}", chart::count(others), chart::percent(rest)),
    )
}

/// How much each filter removed, of the distribution that it saw.
fn filters_note(view: &StepView) -> String {
    if view.distribution.is_greedy() {
        return "greedy, no filter applies".to_owned();
    }
    let removed = FILTERS.map(|filter| (filter, view.distribution.removed_mass(filter)));
    removed_note(
        &removed,
        view.settings.temperature,
        view.distribution.kept().len(),
        view.logits.values.len(),
    )
}

fn removed_note(
    removed: &[(Filter, f64)],
    temperature: f32,
    kept: usize,
    vocab_size: usize,
) -> String {
    let mut parts = Vec::new();
    for &(filter, mass) in removed.iter().filter(|(_, mass)| *mass > 0.0) {
        let name = match filter {
            Filter::TopK => "top-k",
            Filter::TopP => "top-p",
            Filter::MinP => "min-p",
        };
        let of = if parts.is_empty() {
            format!("after T {}", chart::short(temperature))
        } else {
            "of what was left".to_owned()
        };
        parts.push(format!("{name} cut {} {of}", chart::percent(mass)));
    }
    if parts.is_empty() {
        return format!(
            "no filter cut anything, drawn from {} tokens",
            chart::count(kept)
        );
    }
    format!(
        "{} · {} of {} left",
        parts.join(", "),
        chart::count(kept),
        chart::count(vocab_size)
    )
}

fn hint(view: &StepView) -> String {
    let on: Vec<_> = FILTERS
        .into_iter()
        .filter(|&filter| view.distribution.removed_mass(filter) > 0.0)
        .map(|filter| chart::filter_name(filter, &view.settings))
        .collect();
    let click = "click a row to continue with it";
    if on.is_empty() {
        click.to_owned()
    } else {
        format!("hollow: cut by {} · {click}", on.join(" or "))
    }
}

/// Tab-separated, one row a token.
fn table(session: &Session, view: &StepView) -> String {
    let mut out =
        String::from("rank\tid\ttoken\tmodel P (%)\tdrawn from (%)\tcut by\tlogit\tchosen\n");
    let elsewhere = view
        .chosen
        .iter()
        .map(|chosen| &chosen.row)
        .filter(|row| view.top.iter().all(|other| other.id != row.id));
    for row in view.top.iter().chain(elsewhere) {
        let label = session
            .tokenizer()
            .map(|tokenizer| tokenizer.label(row.id))
            .unwrap_or_default();
        let drawn = row
            .drawn_from
            .map(|p| format!("{:.6}", 100.0 * p))
            .unwrap_or_default();
        let cut = row
            .cut_by
            .map(|filter| chart::filter_name(filter, &view.settings))
            .unwrap_or_default();
        let chosen = if view
            .chosen
            .as_ref()
            .is_some_and(|chosen| chosen.row.id == row.id)
        {
            "yes"
        } else {
            ""
        };
        out.push_str(&format!(
            "{}\t{}\t{label}\t{:.6}\t{drawn}\t{cut}\t{:.6}\t{chosen}\n",
            row.rank,
            row.id,
            100.0 * row.prob,
            row.logit
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: Widths = Widths {
        digit: 7.8,
        model_p: 46.0,
        drawn_from: 64.0,
        gap: 9.0,
    };

    #[test]
    fn columns_never_overlap_and_leave_room_for_a_bar() {
        for scale in [1.0, 1.5, 2.5] {
            let widths = Widths {
                digit: 7.8 * scale,
                model_p: 46.0 * scale,
                drawn_from: 64.0 * scale,
                gap: 9.0 * scale,
            };
            for width in (60..1600).step_by(7) {
                for wants_rank in [false, true] {
                    let columns = Columns::fit(10.0, width as f32, widths, wants_rank);
                    let ends: Vec<_> = [
                        Some(columns.label),
                        Some(columns.bar.start),
                        Some(columns.bar.end),
                        Some(columns.prob),
                        columns.drawn,
                        columns.logit,
                        columns.rank,
                    ]
                    .into_iter()
                    .flatten()
                    .collect();
                    if columns.drawn.is_some() {
                        assert!(ends.is_sorted(), "{width} {columns:?}");
                        assert!(
                            columns.bar.end - columns.bar.start >= 4.0 * widths.digit,
                            "{width} {columns:?}"
                        );
                    }
                    assert!(columns.bar.end >= columns.bar.start);
                }
            }
        }
    }

    #[test]
    fn the_sketched_width_shows_both_probabilities_and_the_logit() {
        let columns = Columns::fit(0.0, 396.0, WIDTHS, false);
        assert!(
            columns.drawn.is_some() && columns.logit.is_some(),
            "{columns:?}"
        );
        assert!(columns.bar.end - columns.bar.start > 70.0, "{columns:?}");
        assert!(Columns::fit(0.0, 396.0, WIDTHS, true).rank.is_some());
        assert!(Columns::fit(0.0, 700.0, WIDTHS, false).rank.is_some());
    }

    #[test]
    fn regions_stay_inside_and_drop_notes_before_rows() {
        for height in (0..1200).step_by(13) {
            let area = Rect::from_min_size(pos2(5.0, 7.0), vec2(400.0, height as f32));
            let regions = Regions::fit(area, 15.0, 24.0, 20);
            for rect in [regions.extra, regions.strip, regions.filters, regions.hint]
                .into_iter()
                .flatten()
            {
                assert!(area.expand(0.5).contains_rect(rect), "{height} {regions:?}");
                assert!(
                    rect.top() >= regions.rows.bottom() - 0.5,
                    "{height} {regions:?}"
                );
            }
            assert!(regions.whole_rows() <= 20);
        }
        let tall = Regions::fit(
            Rect::from_min_size(pos2(0.0, 0.0), vec2(400.0, 549.0)),
            15.0,
            24.0,
            20,
        );
        assert_eq!(
            tall.whole_rows(),
            20,
            "the default window shows all twenty: {tall:?}"
        );
        assert!(tall.hint.is_some() && tall.filters.is_some() && tall.extra.is_some());
        let low = Regions::fit(
            Rect::from_min_size(pos2(0.0, 0.0), vec2(400.0, 120.0)),
            15.0,
            24.0,
            20,
        );
        assert!(low.hint.is_none() && low.whole_rows() >= 3, "{low:?}");
    }

    #[test]
    fn notes_name_the_distribution_that_each_filter_saw() {
        let removed = [
            (Filter::TopK, 0.123),
            (Filter::TopP, 0.031),
            (Filter::MinP, 0.0),
        ];
        assert_eq!(
            removed_note(&removed, 0.8, 9, 4096),
            "top-k cut 12.3 % after T 0.8, top-p cut 3.1 % of what was left · 9 of 4,096 left"
        );
        assert_eq!(
            removed_note(&[], 0.8, 4096, 4096),
            "no filter cut anything, drawn from 4,096 tokens"
        );
    }

    #[test]
    fn labels_count_what_they_name() {
        assert_eq!(top_label(14, 20), "top 14 of 20");
        assert_eq!(top_label(20, 20), "top 20");
        assert_eq!(matches_label(0), "no match");
        assert_eq!(matches_label(MATCHES), "first 40");
        assert_eq!(
            strip_labels(0.483, 20, 4096),
            (
                "these 20 48.3 %".to_owned(),
                "4,076 others 51.7 %".to_owned()
            )
        );
        assert_eq!(
            strip_labels(1.0, 5, 5),
            ("these 5 100.0 %".to_owned(), "0 others 0.0 %".to_owned())
        );
    }
}
