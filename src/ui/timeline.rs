//! Timeline panel: surprisal and entropy of every token above, time below, one column a token, and the playhead.
//!
//! One response covers the whole chart. Scores and entropies outlive logits that were let go for memory. Runs on
//! the window's thread.

mod layout;
mod words;

use egui::{Id, Mesh, Rect, Response, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};

pub use words::table;

use layout::{Axes, Bands, column_at, column_width, prefill_blocks};

use super::{
    Panel, PanelContext, Theme,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    prediction::Phase,
    session::{Node, PassBlock, Session},
};

const SUBTITLE: &str = "bar: surprisal of the chosen token · line: entropy · nats, model P · prompt grey · below: time in ms, cut where it ends above the axis";

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    // The panel is low: what it shows is said beside its title.
    Card::new(Panel::Timeline, SUBTITLE).beside_title().show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            if session.is_empty() {
                chart::no_view(ui, ctx);
            } else {
                content(ui, ctx);
            }
        },
    )
}

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
        ctx.session.toy().is_some(),
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
fn draw_axes(
    ui: &Ui,
    theme: &Theme,
    faces: &Faces,
    bands: Bands,
    axes: Axes,
    right: f32,
    typed: bool,
) {
    let one = |band, end, unit| {
        chart::axis(ui.painter(), theme, faces, band, right, (end, unit));
    };
    one(bands.nats, axes.nats, "nats");
    match bands.ms {
        Some(ms) if typed => {
            let said = "no times: the numbers are typed";
            chart::text_right(
                ui.painter(),
                ms.right_center(),
                said,
                &faces.small,
                theme.dim,
            );
        }
        Some(ms) => one(ms, axes.ms, "ms"),
        None => {}
    }
}

/// Pointer and keyboard on the whole chart.
fn interact(ui: &Ui, ctx: &mut PanelContext, rect: Rect, drawing: &Drawing) {
    let session = ctx.session;
    let (len, selected) = (session.len(), session.selected());
    let what = session.node(selected).map_or_else(
        || "open step".to_owned(),
        |node| words::step_name(session, selected, node),
    );
    let (response, on) = chart::select_steps(
        ui,
        ctx,
        rect,
        Id::unique("timeline chart"),
        format!("Timeline, step {selected} of {len}, {what}"),
        |at| drawing.column_at(at.x),
    );
    if let Some(index) = on {
        response.on_hover_ui_at_pointer(|ui| words::details(ui, session, index));
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
        if let Some(band) = self.bands.ms.filter(|_| self.session.toy().is_none()) {
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
            // Hundreds of thick lines would drown the bars.
            let half = if self.width < 9.0 { 0.5 } else { 1.0 };
            bars.add(
                Rect::from_x_y_ranges(x, at - half..=at + half),
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
                if timing.model_ms + timing.record_ms > self.axes.ms {
                    bars.add(
                        chart::cut_rect(self.bar(index), band.top()),
                        self.theme.panel,
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
    fn prefill(&self, bars: &mut Bars, band: Rect, block: &PassBlock, top: f32) {
        let painter = bars.painter;
        let (first, last) = (self.bar(block.tokens.start), self.bar(block.tokens.end - 1));
        let rect = Rect::from_min_max(
            pos2(first.min, top.min(band.bottom() - 2.0)),
            pos2(last.max, band.bottom()),
        );
        painter.rect_filled(rect, 2, chart::prefill_color(self.theme));
        let total = block.timing.model_ms + block.timing.record_ms;
        if total > self.axes.ms {
            bars.add(
                chart::cut_rect(rect.x_range(), rect.top()),
                self.theme.panel,
            );
        }
        for label in words::block_labels(block.timing, block.tokens.len()) {
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
