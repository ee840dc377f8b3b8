//! The square of cells: picture, labels, the current row, pointer and keyboard.

use std::f32::consts::FRAC_PI_2;

use egui::{
    Color32, EventFilter, FontFamily, FontId, Galley, Key, Rect, Response, Sense, Stroke,
    StrokeKind, Ui, WidgetInfo,
    epaint::TextShape,
    pos2,
    text::{LayoutJob, TextFormat, TextWrapping},
};

use super::{
    AttentionState,
    drawer::picture,
    layout::{KEY_LABELS, Square, Zoom, label_stride},
    scene::Scene,
};
use crate::{
    heatmap::{Arrangement, Quantity},
    ui::{PanelContext, Theme, theme::mono_bold},
};

/// Shows the square in `chart`.
pub fn show(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    chart: Rect,
) {
    let pixels_per_point = ui.pixels_per_point();
    let Some(square) = Square::new(chart, scene.side(), pixels_per_point, ctx.scale) else {
        return;
    };
    let response = ui.interact(
        square.rect,
        ui.scope_id().with("heatmap"),
        Sense::click_and_drag(),
    );
    zoom(ui, state, scene, &square, &response);
    keys(ui, state, scene, &square, &response);
    let hovered = response
        .hover_pos()
        .and_then(|at| square.cells_at(state.zoom, at));
    let cell = hovered.and_then(|(keys, queries)| {
        let (query, key) = (queries.start, keys.start);
        // Of several cells under a pixel, the one whose value it shows.
        scene
            .largest(queries, keys)
            .or((query < scene.rows && key < scene.rows).then_some((query, key)))
    });
    if response.double_clicked() {
        state.zoom = Zoom::default();
        state.pinned = None;
    } else if response.clicked() {
        response.request_focus();
        state.pinned = cell.filter(|&cell| state.pinned != Some(cell));
    }
    let labels = row_labels(ui, ctx, state, scene, &square);
    report_hover(
        ctx,
        state,
        scene,
        cell.map(|(_, key)| key).or(labels.hovered),
    );

    state.cells_a_pixel = square.cells_a_pixel(state.zoom);
    let arrangement = Arrangement::One {
        heads: scene.drawn_heads().1,
        first_cell: state.zoom.first.into(),
        cell_px: square.cell_px(state.zoom),
    };
    let scales = (state.drawer.extent(scene), state.drawer.scale_max(scene));
    let size = [square.side_px; 2];
    let picture = picture(
        scene,
        ctx.theme,
        arrangement,
        scales,
        size,
        pixels_per_point,
    );
    state
        .drawer
        .paint_one(ui, square.rect, square.origin_px(), &picture, scene);

    let marked = cell.or(state.pinned.filter(|_| labels.hovered.is_none()));
    let elsewhere = ctx
        .panels
        .hovered_token
        .and_then(|token| token.checked_sub(scene.start))
        .filter(|&at| at < scene.rows);
    let bands = marked
        .or(labels.hovered.map(|at| (at, at)))
        .or(elsewhere.map(|at| (at, at)));
    marks(ui, ctx.theme, state.zoom, scene, &square, bands, marked);
    labels.paint(ui, ctx, scene, bands.map(|(query, _)| query));
    key_labels(
        ui,
        ctx,
        state.zoom,
        scene,
        &square,
        chart,
        bands.map(|(_, key)| key),
    );

    if response.has_focus() {
        let stroke = Stroke::new(1.5, ctx.theme.ink);
        ui.painter()
            .rect_stroke(square.rect.expand(2.0), 2, stroke, StrokeKind::Outside);
    }
    let name = accessible_name(scene, marked.or(state.pinned));
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Image, true, &name));
    if let Some((query, key)) = cell {
        response.on_hover_ui_at_pointer(|ui| details(ui, ctx.theme, scene, query, key));
    }
}

fn accessible_name(scene: &Scene, cell: Option<(usize, usize)>) -> String {
    let heads = scene.heads_name();
    match cell {
        None => format!("Attention heatmap, {heads}, {} tokens", scene.rows),
        Some((query, key)) => format!(
            "Attention heatmap, {heads}, query {}, key {}: {}",
            scene.label(query),
            scene.label(key),
            if key > query {
                "masked".to_owned()
            } else {
                format!("weight {}", scene.value_text(Quantity::Weights, query, key))
            }
        ),
    }
}

/// Tells the other panels which token the pointer is on, as long as it is on one here.
fn report_hover(
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    position: Option<usize>,
) {
    if let Some(position) = position {
        ctx.panels.hovered_token = Some(scene.start + position);
    } else if state.reports_hover {
        ctx.panels.hovered_token = None;
    }
    state.reports_hover = position.is_some();
}

// ---- pointer and keyboard ----------------------------------------------------------------------------------------

fn zoom(ui: &Ui, state: &mut AttentionState, scene: &Scene, square: &Square, response: &Response) {
    state.zoom = state.zoom.clamped(scene.side());
    if response.dragged() {
        state.zoom = state.zoom.dragged(square, response.drag_delta());
    }
    let Some(at) = response.hover_pos() else {
        return;
    };
    let by = ui.input_mut(|input| {
        let pinch = input.zoom_delta();
        // The wheel zooms here, so nothing around scrolls by it.
        let wheel = std::mem::take(&mut input.smooth_scroll_delta).y;
        pinch * (wheel / 200.0).exp()
    });
    if by != 1.0 {
        state.zoom = state.zoom.about(square, at, by);
    }
}

fn keys(ui: &Ui, state: &mut AttentionState, scene: &Scene, square: &Square, response: &Response) {
    if !response.has_focus() {
        return;
    }
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
    let (arrows, by, reset) = ui.input(|input| {
        let key = |key| i32::from(input.key_pressed(key));
        let arrows = [
            key(Key::ArrowDown) - key(Key::ArrowUp),
            key(Key::ArrowRight) - key(Key::ArrowLeft),
        ];
        let by = key(Key::Plus) + key(Key::Equals) - key(Key::Minus);
        (arrows, by, input.key_pressed(Key::Num0))
    });
    let last = scene.rows.saturating_sub(1);
    if arrows != [0, 0] {
        state.pinned = Some(match state.pinned {
            Some((query, key)) => (
                query.saturating_add_signed(arrows[0] as isize).min(last),
                key.saturating_add_signed(arrows[1] as isize).min(last),
            ),
            // Begins with what the current row looks at most.
            None => scene
                .largest(last..last + 1, 0..scene.rows)
                .unwrap_or((last, last)),
        });
    }
    let center = state.pinned.map_or(square.rect.center(), |(query, key)| {
        let rect = square.cells(state.zoom, key..key + 1, query..query + 1);
        square.rect.clamp(rect.center())
    });
    if by != 0 {
        state.zoom = state.zoom.about(square, center, 1.5f32.powi(by));
    }
    if reset {
        state.zoom = Zoom::default();
    }
    if let (Some((query, key)), true) = (state.pinned, arrows != [0, 0]) {
        // Keeps the pinned cell in view.
        let rect = square.cells(state.zoom, key..key + 1, query..query + 1);
        let target = square.rect.clamp(rect.min).to_vec2() - rect.min.to_vec2();
        let other = square.rect.clamp(rect.max).to_vec2() - rect.max.to_vec2();
        state.zoom = state.zoom.dragged(square, target + other);
    }
}

fn details(ui: &mut Ui, theme: &Theme, scene: &Scene, query: usize, key: usize) {
    egui::Grid::new("cell").num_columns(2).show(ui, |ui| {
        let mut line = |name: &str, value: String, note: String| {
            ui.label(egui::RichText::new(name).color(theme.dim));
            ui.horizontal(|ui| {
                ui.monospace(value);
                ui.label(egui::RichText::new(note).small().color(theme.dim));
            });
            ui.end_row();
        };
        let place = |at: usize| format!("token {}", scene.start + at);
        line("query", scene.label(query), place(query));
        line("key", scene.label(key), place(key));
        if key > query {
            line(
                "weight",
                "masked".to_owned(),
                "comes after the query".to_owned(),
            );
            return;
        }
        let note = scene
            .mean_of()
            .map_or_else(String::new, |count| format!("mean over {count} heads"));
        let text = |quantity| scene.value_text(quantity, query, key);
        if scene.rollout.is_some() {
            line(
                "rollout",
                text(Quantity::Weights),
                "not a weight of any one head".to_owned(),
            );
            return;
        }
        line("weight", text(Quantity::Weights), note.clone());
        line("score", text(Quantity::Scores), note);
    });
}

// ---- marks -------------------------------------------------------------------------------------------------------

/// Outlines the current row, and the row, column and cell that the pointer or a pin is on.
fn marks(
    ui: &Ui,
    theme: &Theme,
    zoom: Zoom,
    scene: &Scene,
    square: &Square,
    bands: Option<(usize, usize)>,
    cell: Option<(usize, usize)>,
) {
    let clip = square.rect.expand(2.0).intersect(ui.clip_rect());
    let painter = ui.painter().with_clip_rect(clip);
    let outline = |rect: Rect, stroke: Stroke| {
        // Rows thinner than the outline would vanish under it.
        let grow = 0.5 * (2.0 - rect.size().min_elem()).max(0.0);
        painter.rect_stroke(rect.expand(grow), 0, stroke, StrokeKind::Middle);
    };
    let rows = scene.rows;
    if let Some((query, key)) = bands {
        // Ink on a light edge shows on both ends of the colour map.
        for stroke in [Stroke::new(2.5, theme.panel), Stroke::new(1.0, theme.ink)] {
            outline(square.cells(zoom, 0..rows, query..query + 1), stroke);
            outline(square.cells(zoom, key..key + 1, 0..rows), stroke);
        }
    }
    outline(
        square.cells(zoom, 0..rows, rows - 1..rows),
        Stroke::new(2.0, theme.chosen),
    );
    if let Some((query, key)) = cell {
        let rect = square.cells(zoom, key..key + 1, query..query + 1);
        outline(rect, Stroke::new(3.0, theme.panel));
        outline(rect, Stroke::new(1.5, theme.ink));
    }
}

// ---- labels ------------------------------------------------------------------------------------------------------

fn label(
    ui: &Ui,
    text: String,
    font: FontId,
    color: Color32,
    width: f32,
) -> std::sync::Arc<Galley> {
    let format = TextFormat {
        font_id: font,
        color,
        ..Default::default()
    };
    let mut job = LayoutJob::single_section(text, format);
    job.wrap = TextWrapping::truncate_at_width(width);
    job.break_on_newline = false;
    ui.painter().layout_job(job)
}

struct RowLabels {
    /// Rows that have one, with the middle of each in points.
    rows: Vec<(usize, f32)>,
    right: f32,
    width: f32,
    size: f32,
    hovered: Option<usize>,
}

/// Works out which rows have labels, and which of them the pointer is on.
fn row_labels(
    ui: &Ui,
    ctx: &PanelContext,
    state: &AttentionState,
    scene: &Scene,
    square: &Square,
) -> RowLabels {
    let right = square.rect.left() - 6.0;
    let width = right - square.labels_from;
    let cell = square.cell_points(state.zoom);
    let size = (11.5 * ctx.scale).min((0.85 * cell).max(9.0 * ctx.scale));
    let mut labels = RowLabels {
        rows: Vec::new(),
        right,
        width,
        size,
        hovered: None,
    };
    if width < 3.0 * size {
        return labels;
    }
    let stride = label_stride(cell, 1.15 * size);
    let mut last_bottom = f32::NEG_INFINITY;
    for query in square.queries_in_view(state.zoom, scene.rows) {
        let middle = square.cells(state.zoom, 0..1, query..query + 1).center().y;
        let is_last = query + 1 == scene.rows;
        let inside = square.rect.y_range().contains(middle);
        if inside && (query.is_multiple_of(stride) || is_last) {
            if is_last && middle - 0.5 * size < last_bottom {
                // The current row's label comes before its neighbour's.
                labels.rows.pop();
            }
            labels.rows.push((query, middle));
            last_bottom = middle + 0.5 * size;
        }
    }
    let strip = Rect::from_min_max(
        pos2(square.labels_from, square.rect.top()),
        pos2(square.rect.left(), square.rect.bottom()),
    );
    if ui.rect_contains_pointer(strip)
        && let Some(at) = ui.input(|input| input.pointer.hover_pos())
    {
        let inside = pos2(square.rect.left(), at.y);
        labels.hovered = square
            .cells_at(state.zoom, inside)
            .map(|(_, queries)| queries.start)
            .filter(|&query| query < scene.rows);
    }
    labels
}

impl RowLabels {
    fn paint(&self, ui: &Ui, ctx: &PanelContext, scene: &Scene, marked: Option<usize>) {
        let theme = ctx.theme;
        let near = |query: usize| {
            // A label that the marked row's own would run into.
            let at = |row: usize| {
                self.rows
                    .iter()
                    .find(|held| held.0 == row)
                    .map(|held| held.1)
            };
            match (marked, marked.and_then(at), at(query)) {
                (Some(marked), Some(a), Some(b)) => marked != query && (a - b).abs() < self.size,
                _ => false,
            }
        };
        for &(query, middle) in &self.rows {
            if near(query) {
                continue;
            }
            let (family, color) = if Some(query) == marked {
                (mono_bold(), theme.ink)
            } else if query + 1 == scene.rows {
                (mono_bold(), theme.chosen)
            } else {
                (FontFamily::Monospace, theme.dim)
            };
            let font = FontId::new(self.size, family);
            let galley = label(ui, scene.label(query), font, color, self.width);
            let at = pos2(self.right - galley.size().x, middle - 0.5 * galley.size().y);
            ui.painter().galley(at, galley, color);
        }
    }
}

/// Key labels below the cells, turned upright, where there is room: all of them, or the marked one.
fn key_labels(
    ui: &Ui,
    ctx: &PanelContext,
    zoom: Zoom,
    scene: &Scene,
    square: &Square,
    chart: Rect,
    marked: Option<usize>,
) {
    let cell = square.cell_points(zoom);
    let below = square
        .cells(zoom, 0..1, 0..scene.rows)
        .bottom()
        .min(square.rect.bottom())
        + 5.0;
    let room = chart.bottom() - below;
    if room < KEY_LABELS * ctx.scale {
        return;
    }
    let size = (11.5 * ctx.scale).min((0.85 * cell).max(9.0 * ctx.scale));
    let stride = label_stride(cell, 1.15 * size);
    let columns = square.rect.x_range();
    let mut taken = None;
    let mut draw = |key: usize, strong: bool| {
        let middle = square.cells(zoom, key..key + 1, 0..1).center().x;
        if !columns.contains(middle) {
            return;
        }
        if taken.is_some_and(|at: f32| !strong && (at - middle).abs() < 1.1 * size) {
            return;
        }
        if strong {
            taken = Some(middle);
        }
        let (family, color) = if strong {
            (mono_bold(), ctx.theme.ink)
        } else {
            (FontFamily::Monospace, ctx.theme.dim)
        };
        let font = FontId::new(size, family);
        let galley = label(
            ui,
            scene.label(key),
            font,
            color,
            room.min(66.0 * ctx.scale),
        );
        let at = pos2(middle - 0.5 * galley.size().y, below + galley.size().x);
        ui.painter()
            .add(TextShape::new(at, galley, color).with_angle(-FRAC_PI_2));
    };
    if let Some(key) = marked.filter(|&key| key < scene.rows) {
        draw(key, true);
    }
    for key in (0..scene.rows).step_by(stride) {
        if Some(key) != marked {
            draw(key, false);
        }
    }
}
