//! Timeline panel: surprisal and entropy of every token above, time below, one column a token, and the playhead.
//!
//! One response covers the whole chart. Scores and entropies outlive logits that were let go for memory. Runs on
//! the window's thread.

use std::sync::Arc;

use egui::{
    EventFilter, Id, Key, Mesh, Pos2, Rect, Response, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2,
};

use super::{
    PanelContext, Theme,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    prediction::{PassTiming, Phase},
    session::{Action, Node, Session},
};

const TITLE: &str = "Timeline";
const SUBTITLE: &str = "bar: surprisal of the chosen token · line: entropy · nats, model P · prompt grey · below: time in ms";

/// Widths that a column may have, in points at 100 % type: as tokens come, columns narrow in these steps only.
const COLUMN_WIDTHS: [f32; 10] = [27.0, 22.0, 18.0, 14.0, 11.0, 9.0, 7.0, 6.0, 5.0, 4.0];

/// No bar is narrower: beyond that the chart scrolls.
const LEAST_COLUMN_POINTS: f32 = 4.0;

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    // The panel is low: what it shows is said beside its title.
    Card {
        title: TITLE,
        subtitle: String::new(),
    }
    .show(
        ui,
        ctx.theme,
        |ui| chart::copy_table_item(ui, || Some(table(session))),
        |ui| {
            let theme = ctx.theme;
            chart::header_slot(ui, TITLE, theme, |ui| {
                ui.with_layout(egui::Layout::left_to_right(egui::Align::Center), |ui| {
                    let text = egui::RichText::new(SUBTITLE).small().color(theme.dim);
                    ui.add(egui::Label::new(text).truncate())
                        .on_hover_text(SUBTITLE);
                });
            });
            if session.is_empty() {
                chart::no_view(ui, ctx);
            } else {
                content(ui, ctx);
            }
        },
    )
}

// ---- layout ------------------------------------------------------------------------------------------------------

/// Width of a column so that `columns` of them fit into `room`, and whether they do.
fn column_width(room: f32, columns: usize, scale: f32) -> (f32, bool) {
    let fits = COLUMN_WIDTHS
        .iter()
        .map(|width| (width * scale).round())
        .find(|width| width * columns as f32 <= room);
    match fits {
        Some(width) => (width, true),
        None => (
            (COLUMN_WIDTHS[COLUMN_WIDTHS.len() - 1] * scale)
                .round()
                .max(LEAST_COLUMN_POINTS),
            false,
        ),
    }
}

/// The column under a point, counted from the first.
fn column_at(x: f32, left: f32, width: f32, columns: usize) -> usize {
    (((x - left) / width).max(0.0) as usize).min(columns.saturating_sub(1))
}

/// The two charts, one above the other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bands {
    nats: Rect,
    /// Left out where the panel is too low for both.
    ms: Option<Rect>,
}

impl Bands {
    fn fit(area: Rect, line: f32) -> Self {
        // Room above each band for the number at the top of its axis.
        let head = 0.5 * line;
        let gap = 0.7 * line;
        let room = area.height() - head - gap;
        if room < 3.5 * line {
            return Self {
                nats: Rect::from_min_max(
                    pos2(area.left(), (area.top() + head).min(area.bottom())),
                    area.max,
                ),
                ms: None,
            };
        }
        let upper = (0.62 * room).round();
        let nats = Rect::from_min_size(
            pos2(area.left(), area.top() + head),
            vec2(area.width(), upper),
        );
        Self {
            nats,
            ms: Some(Rect::from_min_max(
                pos2(area.left(), nats.bottom() + gap),
                area.max,
            )),
        }
    }
}

/// Upper ends of the axes, in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Axes {
    nats: f64,
    ms: f64,
}

impl Axes {
    fn of(session: &Session) -> Self {
        let (mut nats, mut decode_ms, mut prefill_ms) = (0f64, 0f64, 0f64);
        for node in session.path_nodes() {
            let surprisal = node.score.map(|score| score.surprisal_nats());
            for value in [surprisal, node.entropy_nats]
                .into_iter()
                .flatten()
                .filter(|value| value.is_finite())
            {
                nats = nats.max(value);
            }
            if let Some(timing) = node
                .prediction
                .as_ref()
                .map(|prediction| &prediction.timing)
            {
                let total = timing.model_ms + timing.record_ms;
                match timing.phase {
                    Phase::Decode => decode_ms = decode_ms.max(total),
                    Phase::Prefill => prefill_ms = prefill_ms.max(total),
                }
            }
        }
        // A long prefill would flatten every decode step; it is a block with its number written on it instead.
        Self {
            nats: chart::nice_ceil(nats),
            ms: chart::nice_ceil(if decode_ms > 0.0 {
                decode_ms
            } else {
                prefill_ms
            }),
        }
    }
}

/// Neighbouring tokens that one prefill pass put through the model.
#[derive(Debug)]
struct Block<'a> {
    tokens: std::ops::Range<usize>,
    timing: &'a Arc<PassTiming>,
}

fn prefill_blocks(session: &Session) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block> = Vec::new();
    for (index, node) in session.path_nodes().enumerate() {
        let Some(timing) = node
            .prediction
            .as_ref()
            .map(|prediction| &prediction.timing)
        else {
            continue;
        };
        if timing.phase != Phase::Prefill {
            continue;
        }
        match blocks.last_mut() {
            Some(last) if last.tokens.end == index && Arc::ptr_eq(last.timing, timing) => {
                last.tokens.end += 1
            }
            _ => blocks.push(Block {
                tokens: index..index + 1,
                timing,
            }),
        }
    }
    blocks
}

/// The ways to label a prefill block, longest first.
fn block_labels(timing: &PassTiming, here: usize) -> [String; 3] {
    let tokens = if timing.rows == 1 {
        "1 token".to_owned()
    } else {
        format!("{} tokens", chart::count(timing.rows))
    };
    let here = if here == timing.rows {
        String::new()
    } else {
        format!(", {here} of them here")
    };
    let ms = milliseconds(timing.model_ms);
    [
        format!("prefill {tokens}{here} {ms}"),
        format!("prefill {ms}"),
        ms,
    ]
}

fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 9.995 => format!("{ms:.2} ms"),
        ms if ms < 99.95 => format!("{ms:.1} ms"),
        _ => format!("{} ms", chart::count(ms.round() as usize)),
    }
}

// ---- drawing -----------------------------------------------------------------------------------------------------

fn content(ui: &mut Ui, ctx: &mut PanelContext) {
    let area = ui.available_rect_before_wrap();
    let faces = Faces::of(ui);
    let gutter = faces.small_width(ui, "0.05 nats") + 8.0;
    if area.width() < gutter + 20.0 || area.height() < faces.line {
        return;
    }
    let axes = Axes::of(ctx.session);
    let plot = Rect::from_min_max(pos2(area.left() + gutter, area.top()), area.max);
    let bands = Bands::fit(plot, faces.line);
    draw_axes(
        ui,
        ctx.theme,
        &faces,
        bands,
        axes,
        area.left() + gutter - 6.0,
    );
    let columns = ctx.session.len() + 1;
    let (width, fits) = column_width(plot.width(), columns, ctx.scale);
    let mut inner = ui.new_child(UiBuilder::new().id_salt("columns").max_rect(plot));
    ScrollArea::horizontal()
        .auto_shrink(false)
        .stick_to_right(ctx.session.follows())
        .show_viewport(&mut inner, |ui, viewport| {
            let size = vec2(
                if fits {
                    plot.width()
                } else {
                    width * columns as f32
                },
                plot.height(),
            );
            let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
            let first = column_at(viewport.left(), 0.0, width, columns);
            let last = column_at(viewport.right(), 0.0, width, columns);
            let drawing = Drawing {
                session: ctx.session,
                theme: ctx.theme,
                faces: &faces,
                bands,
                axes,
                left: rect.left(),
                width,
            };
            interact(ui, ctx, rect, &drawing);
            drawing.paint(ui, first..last + 1, ctx.panels.hovered_token);
            keep_in_view(ui, ctx, rect, &drawing);
        });
    ui.advance_cursor_after_rect(ui.max_rect());
}

/// Numbers and units at both ends of each axis, and its base line.
fn draw_axes(ui: &Ui, theme: &Theme, faces: &Faces, bands: Bands, axes: Axes, right: f32) {
    let painter = ui.painter();
    let one = |band: Rect, end: f64, unit: &str| {
        let write = |y: f32, text: String| {
            chart::text_right(painter, pos2(right, y), text, &faces.small, theme.dim)
        };
        write(
            band.top() + 0.2 * faces.line,
            format!("{} {unit}", chart::short(end as f32)),
        );
        if band.height() > 1.6 * faces.line {
            write(band.bottom() - 0.4 * faces.line, "0".to_owned());
        }
        if band.height() > 4.5 * faces.line {
            write(band.center().y, chart::short(0.5 * end as f32));
            painter.hline(band.x_range(), band.center().y, theme.hairline());
        }
        painter.hline(band.x_range(), band.top(), theme.hairline());
        painter.hline(band.x_range(), band.bottom(), theme.hairline());
    };
    one(bands.nats, axes.nats, "nats");
    if let Some(ms) = bands.ms {
        one(ms, axes.ms, "ms");
    }
}

/// Pointer and keyboard on the whole chart.
fn interact(ui: &Ui, ctx: &mut PanelContext, rect: Rect, drawing: &Drawing) {
    let session = ctx.session;
    let (len, selected) = (session.len(), session.selected());
    let id = Id::unique("timeline chart");
    let response = ui.interact(rect, id, Sense::click_and_drag());
    response.widget_info(|| {
        let what = session.node(selected).map_or_else(
            || "open step".to_owned(),
            |node| step_name(session, selected, node),
        );
        egui::WidgetInfo::slider(
            true,
            selected as f64,
            format!("Timeline, step {selected} of {len}, {what}"),
        )
    });
    let index_at = |at: Pos2| drawing.column_at(at.x);
    if response.clicked() || response.dragged() {
        response.request_focus();
        if let Some(step) = response.interact_pointer_pos().map(index_at)
            && step != selected
        {
            ctx.act(Action::Select(step));
        }
    }
    if response.has_focus() {
        ui.memory_mut(|memory| {
            memory.set_focus_lock_filter(
                id,
                EventFilter {
                    horizontal_arrows: true,
                    ..Default::default()
                },
            )
        });
        let step = ui.input(|input| match () {
            () if input.key_pressed(Key::ArrowLeft) => Some(selected.saturating_sub(1)),
            () if input.key_pressed(Key::ArrowRight) => Some((selected + 1).min(len)),
            () if input.key_pressed(Key::Home) => Some(0),
            () if input.key_pressed(Key::End) => Some(len),
            () => None,
        });
        if let Some(step) = step {
            ctx.act(Action::Select(step));
        }
        let frame = ui.clip_rect().intersect(rect.expand(2.0));
        ui.painter().rect_stroke(
            frame,
            4,
            egui::Stroke::new(1.5, ctx.theme.ink),
            egui::StrokeKind::Inside,
        );
    }
    // What this panel has set it also takes back, when the pointer leaves.
    let was_on = ui.data(|data| data.get_temp::<bool>(id)).unwrap_or(false);
    let on = response
        .hover_pos()
        .map(index_at)
        .filter(|&index| index <= len);
    if on.is_some() || was_on {
        ctx.panels.hovered_token = on;
        ui.data_mut(|data| data.insert_temp(id, on.is_some()));
    }
    if let Some(index) = on {
        response.on_hover_ui_at_pointer(|ui| details(ui, session, index));
    }
}

/// Scrolls to the selected column when the selection has moved.
fn keep_in_view(ui: &Ui, ctx: &PanelContext, rect: Rect, drawing: &Drawing) {
    let id = Id::unique("timeline last selection");
    let selected = ctx.session.selected();
    let moved = ui.data(|data| data.get_temp::<usize>(id)) != Some(selected);
    if moved {
        ui.data_mut(|data| data.insert_temp(id, selected));
        let column = Rect::from_x_y_ranges(drawing.column(selected), rect.y_range());
        if !ctx.session.follows() && !ui.clip_rect().contains_rect(column) {
            ui.scroll_to_rect(column, None);
        }
    }
}

struct Drawing<'a> {
    session: &'a Session,
    theme: &'a Theme,
    faces: &'a Faces,
    bands: Bands,
    axes: Axes,
    /// Left end of the first column on screen, scrolled.
    left: f32,
    width: f32,
}

impl Drawing<'_> {
    fn column_at(&self, x: f32) -> usize {
        column_at(x, self.left, self.width, self.session.len() + 1)
    }

    fn column(&self, index: usize) -> egui::Rangef {
        let left = self.left + index as f32 * self.width;
        egui::Rangef::new(left, left + self.width)
    }

    /// A bar's share of its column: a gap between bars where they are wide enough for one.
    fn bar(&self, index: usize) -> egui::Rangef {
        let column = self.column(index);
        egui::Rangef::new(
            column.min,
            column.max - if self.width >= 14.0 { 3.0 } else { 1.0 },
        )
    }

    fn paint(&self, ui: &Ui, columns: std::ops::Range<usize>, hovered: Option<usize>) {
        let painter = ui.painter();
        let mut bars = Bars {
            mesh: Mesh::default(),
            rounded: self.width >= 9.0,
            painter,
            pixels_per_point: ui.pixels_per_point(),
        };
        for index in [hovered, Some(self.session.selected())]
            .into_iter()
            .flatten()
            .filter(|index| columns.contains(index))
        {
            let bottom = self.bands.ms.unwrap_or(self.bands.nats).bottom();
            let ground = Rect::from_x_y_ranges(self.column(index), self.bands.nats.top()..=bottom);
            painter.rect_filled(ground, 0, self.theme.field);
        }
        if let Some(band) = self.bands.ms {
            self.times(&mut bars, band, &columns);
        }
        let mut before = columns
            .start
            .checked_sub(1)
            .and_then(|index| self.session.node(index));
        for index in columns.clone() {
            let node = self.session.node(index);
            self.surprise(
                &mut bars,
                index,
                node,
                before.and_then(|before| before.entropy_nats),
            );
            before = node;
        }
        bars.finish();
        if columns.contains(&self.session.selected()) {
            self.playhead(painter, self.session.selected());
        }
    }

    fn surprise(&self, bars: &mut Bars, index: usize, node: Option<&Node>, entropy: Option<f64>) {
        let band = self.bands.nats;
        let y = |nats: f64| {
            band.bottom() - band.height() * (nats / self.axes.nats).clamp(0.0, 1.0) as f32
        };
        let x = self.bar(index);
        match node {
            None => chart::hollow_bar(
                bars.painter,
                Rect::from_x_y_ranges(x, band.y_range()),
                if index == self.session.selected() {
                    self.theme.chosen
                } else {
                    self.theme.dim
                },
            ),
            Some(node) => match node.score {
                Some(score) => {
                    let surprisal = score.surprisal_nats();
                    let top = if surprisal.is_nan() {
                        band.bottom()
                    } else {
                        y(surprisal)
                    };
                    let color = match () {
                        () if index == self.session.selected() => self.theme.chosen,
                        () if node.origin.is_generated() => self.theme.surprisal,
                        () => self.theme.prompt,
                    };
                    // Certainty is no bar, but a foot to stand on shows that the token was scored.
                    bars.add(
                        Rect::from_x_y_ranges(x, top.min(band.bottom() - 1.0)..=band.bottom()),
                        color,
                    );
                }
                // The first token that nothing conditions, and tokens that were never predicted.
                None => {
                    let middle = x.center();
                    let half = 0.3 * x.span();
                    let at = band.bottom() - 0.25 * self.faces.line;
                    bars.add(
                        Rect::from_x_y_ranges(middle - half..=middle + half, at - 0.75..=at + 0.75),
                        self.theme.dim,
                    );
                }
            },
        }
        if let Some(entropy) = entropy.filter(|entropy| entropy.is_finite()) {
            let at = y(entropy);
            bars.add(
                Rect::from_x_y_ranges(x, at - 1.0..=at + 1.0),
                self.theme.ink,
            );
        }
    }

    fn times(&self, bars: &mut Bars, band: Rect, columns: &std::ops::Range<usize>) {
        let y =
            |ms: f64| band.bottom() - band.height() * (ms / self.axes.ms).clamp(0.0, 1.0) as f32;
        let lighter = self.theme.panel.lerp_to_gamma(self.theme.dim, 0.45);
        for index in columns.clone() {
            let Some(timing) = self
                .session
                .node(index)
                .and_then(|node| node.prediction.as_ref())
                .map(|prediction| &prediction.timing)
            else {
                continue;
            };
            if timing.phase == Phase::Decode {
                let (model, total) = (y(timing.model_ms), y(timing.model_ms + timing.record_ms));
                bars.add(
                    Rect::from_x_y_ranges(self.bar(index), model..=band.bottom()),
                    self.theme.dim,
                );
                if model - total >= 0.5 {
                    bars.add(
                        Rect::from_x_y_ranges(self.bar(index), total..=model),
                        lighter,
                    );
                }
            }
        }
        for block in prefill_blocks(self.session) {
            if block.tokens.end <= columns.start || block.tokens.start >= columns.end {
                continue;
            }
            self.prefill(
                bars,
                band,
                &block,
                y(block.timing.model_ms + block.timing.record_ms),
            );
        }
    }

    /// One block over all tokens of the pass, with its time written on it.
    fn prefill(&self, bars: &Bars, band: Rect, block: &Block, top: f32) {
        let painter = bars.painter;
        let (first, last) = (self.bar(block.tokens.start), self.bar(block.tokens.end - 1));
        let rect = Rect::from_min_max(
            pos2(first.min, top.min(band.bottom() - 2.0)),
            pos2(last.max, band.bottom()),
        );
        painter.rect_filled(
            rect,
            2,
            self.theme.panel.lerp_to_gamma(self.theme.prompt, 0.35),
        );
        let total = block.timing.model_ms + block.timing.record_ms;
        if total > self.axes.ms {
            // It ends above the axis: a cut through the block says that its height is not its time.
            let cut = rect.top() + 3.0;
            painter.hline(
                rect.x_range(),
                cut,
                egui::Stroke::new(1.5, self.theme.panel),
            );
        }
        for label in block_labels(block.timing, block.tokens.len()) {
            let galley = painter.layout_no_wrap(label, self.faces.small.clone(), self.theme.ink);
            if galley.size().x + 4.0 <= rect.width() {
                let at = pos2(rect.left() + 4.0, band.center().y - 0.5 * galley.size().y);
                painter.galley(at, galley, self.theme.ink);
                break;
            }
        }
    }

    /// A line through both charts at the selected step.
    fn playhead(&self, painter: &egui::Painter, index: usize) {
        let bar = self.bar(index);
        let bottom = self.bands.ms.unwrap_or(self.bands.nats).bottom();
        let line = egui::Stroke::new(2.0, self.theme.chosen);
        painter.hline(bar, bottom + 1.0, line);
        let (tip, half) = (self.bands.nats.top(), 4.0f32);
        let x = bar.center();
        let points = vec![
            pos2(x - half, tip - half),
            pos2(x + half, tip - half),
            pos2(x, tip + 1.0),
        ];
        painter.add(egui::Shape::convex_polygon(
            points,
            self.theme.chosen,
            egui::Stroke::NONE,
        ));
    }
}

/// Bars go into one mesh once there are many: no corners, no feathering, four vertices each.
struct Bars<'a> {
    mesh: Mesh,
    rounded: bool,
    painter: &'a egui::Painter,
    pixels_per_point: f32,
}

impl Bars<'_> {
    fn add(&mut self, rect: Rect, color: egui::Color32) {
        if self.rounded {
            let radius = if rect.height() > 4.0 { 2 } else { 0 };
            self.painter.rect_filled(
                rect,
                egui::CornerRadius {
                    nw: radius,
                    ne: radius,
                    sw: 0,
                    se: 0,
                },
                color,
            );
        } else {
            let snap = |at: f32| (at * self.pixels_per_point).round() / self.pixels_per_point;
            let (min, mut max) = (
                pos2(snap(rect.left()), snap(rect.top())),
                pos2(snap(rect.right()), snap(rect.bottom())),
            );
            max.y = max.y.max(min.y + 1.0 / self.pixels_per_point);
            self.mesh
                .add_colored_rect(Rect::from_min_max(min, max), color);
        }
    }

    fn finish(self) {
        if !self.mesh.is_empty() {
            self.painter.add(self.mesh);
        }
    }
}

// ---- words -------------------------------------------------------------------------------------------------------

fn label_of(session: &Session, node: &Node) -> String {
    session.tokenizer().map_or_else(
        || format!("#{}", node.token),
        |tokenizer| tokenizer.label(node.token),
    )
}

fn step_name(session: &Session, index: usize, node: &Node) -> String {
    let entropy = entropy_before(session, index).map_or_else(String::new, |entropy| {
        format!(", entropy {entropy:.2} nats")
    });
    let surprisal = node.score.map_or_else(
        || "no surprisal".to_owned(),
        |score| format!("surprisal {:.2} nats", score.surprisal_nats()),
    );
    format!(
        "{}, {}, {surprisal}{entropy}",
        label_of(session, node),
        node.origin.name()
    )
}

/// Entropy of the prediction that a token was chosen from.
fn entropy_before(session: &Session, index: usize) -> Option<f64> {
    index
        .checked_sub(1)
        .and_then(|before| session.node(before))
        .and_then(|node| node.entropy_nats)
}

fn details(ui: &mut Ui, session: &Session, index: usize) {
    let entropy = |ui: &mut Ui| {
        if let Some(entropy) = entropy_before(session, index) {
            ui.label(format!("entropy before it {entropy:.4} nats"));
        }
    };
    let Some(node) = session.node(index) else {
        ui.label("open step, nothing chosen yet");
        entropy(ui);
        return;
    };
    ui.label(
        egui::RichText::new(format!("{}  ·  id {}", label_of(session, node), node.token))
            .monospace(),
    );
    ui.label(format!("token {index}, {}", node.origin.name()));
    match node.score {
        Some(score) => {
            ui.label(format!(
                "model P {:.4} %  ·  rank {}",
                100.0 * score.log_prob.exp(),
                chart::count(score.rank)
            ));
            ui.label(format!("surprisal {:.4} nats", score.surprisal_nats()));
        }
        None if node.outside => drop(ui.label("before the context, the model never saw it")),
        None if index == session.context_start() => {
            drop(ui.label("nothing before it to predict it from"))
        }
        None => drop(ui.label("not predicted yet")),
    }
    entropy(ui);
    if let Some(timing) = node
        .prediction
        .as_ref()
        .map(|prediction| &prediction.timing)
    {
        let how = match timing.phase {
            Phase::Prefill => format!(
                "put through the model in a prefill of {} tokens",
                chart::count(timing.rows)
            ),
            Phase::Decode => "put through the model in one decode step".to_owned(),
        };
        ui.label(format!(
            "{how}, {} and {} for recording",
            milliseconds(timing.model_ms),
            milliseconds(timing.record_ms)
        ));
    }
}

/// Tab-separated, one row a token.
fn table(session: &Session) -> String {
    let mut out = String::from(
        "index\tid\ttoken\torigin\tmodel P (%)\trank\tsurprisal (nats)\tentropy before it (nats)\tphase\ttokens in the pass\tmodel (ms)\trecording (ms)\n",
    );
    for (index, node) in session.path_nodes().enumerate() {
        let score = node.score.map_or_else(
            || "\t\t".to_owned(),
            |score| {
                format!(
                    "{:.6}\t{}\t{:.6}",
                    100.0 * score.log_prob.exp(),
                    score.rank,
                    score.surprisal_nats()
                )
            },
        );
        let entropy = entropy_before(session, index)
            .map(|entropy| format!("{entropy:.6}"))
            .unwrap_or_default();
        let time = node.prediction.as_ref().map_or_else(
            || "\t\t\t".to_owned(),
            |prediction| {
                let timing = &prediction.timing;
                format!(
                    "{}\t{}\t{:.3}\t{:.3}",
                    timing.phase.name(),
                    timing.rows,
                    timing.model_ms,
                    timing.record_ms
                )
            },
        );
        out.push_str(&format!(
            "{index}\t{}\t{}\t{}\t{score}\t{entropy}\t{time}\n",
            node.token,
            label_of(session, node),
            node.origin.name()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_narrow_in_steps_and_then_scroll() {
        assert_eq!(column_width(1300.0, 14, 1.0), (27.0, true));
        assert_eq!(column_width(1300.0, 100, 1.0), (11.0, true));
        assert_eq!(column_width(1300.0, 1025, 1.0), (4.0, false));
        let (width, fits) = column_width(1300.0, 300, 2.5);
        assert!(!fits && width >= 10.0);
        let mut last = f32::INFINITY;
        for columns in 1..1100 {
            let (width, fits) = column_width(1300.0, columns, 1.0);
            assert!(width <= last && width >= LEAST_COLUMN_POINTS);
            assert!(!fits || width * columns as f32 <= 1300.0);
            last = width;
        }
    }

    #[test]
    fn the_pointer_always_finds_a_column() {
        assert_eq!(column_at(-50.0, 10.0, 24.0, 14), 0);
        assert_eq!(column_at(10.0, 10.0, 24.0, 14), 0);
        assert_eq!(column_at(35.0, 10.0, 24.0, 14), 1);
        assert_eq!(column_at(1e6, 10.0, 24.0, 14), 13);
        assert_eq!(column_at(f32::NAN, 10.0, 24.0, 14), 0);
        assert_eq!(column_at(5.0, 0.0, 24.0, 0), 0);
    }

    #[test]
    fn a_low_panel_shows_one_chart_and_bands_stay_inside() {
        for height in 16..400 {
            let area = Rect::from_min_size(pos2(3.0, 9.0), vec2(500.0, height as f32));
            let bands = Bands::fit(area, 15.0);
            assert!(
                area.expand(0.5).contains_rect(bands.nats),
                "{height} {bands:?}"
            );
            if let Some(ms) = bands.ms {
                assert!(
                    area.contains_rect(ms) && ms.top() > bands.nats.bottom() && ms.height() > 15.0,
                    "{height} {bands:?}"
                );
            }
        }
        assert!(
            Bands::fit(Rect::from_min_size(Pos2::ZERO, vec2(500.0, 40.0)), 15.0)
                .ms
                .is_none()
        );
        assert!(
            Bands::fit(Rect::from_min_size(Pos2::ZERO, vec2(500.0, 87.0)), 15.0)
                .ms
                .is_some()
        );
    }

    #[test]
    fn a_block_says_how_many_of_its_tokens_are_still_in_the_text() {
        let timing = PassTiming {
            phase: Phase::Prefill,
            first: 0,
            rows: 6,
            model_ms: 8.4,
            record_ms: 0.1,
        };
        assert_eq!(block_labels(&timing, 6)[0], "prefill 6 tokens 8.40 ms");
        assert_eq!(
            block_labels(&timing, 3)[0],
            "prefill 6 tokens, 3 of them here 8.40 ms"
        );
        let one = PassTiming {
            rows: 1,
            model_ms: 1234.4,
            ..timing
        };
        assert_eq!(
            block_labels(&one, 1),
            ["prefill 1 token 1,234 ms", "prefill 1,234 ms", "1,234 ms"]
        );
        assert_eq!(milliseconds(12.34), "12.3 ms");
    }
}
