//! Arcs: the selected token's weights drawn onto the tokens themselves. One line of token labels that scrolls
//! sideways; an arc from the query to each key, thicker and more opaque the larger its weight.
//!
//! The query is the pinned cell's, or the current row: the line and the square show one selection.

use egui::{
    Align, Color32, EventFilter, FontFamily, FontId, Key, Pos2, Rect, Response, Sense, Stroke,
    StrokeKind, Ui, UiBuilder, WidgetInfo,
    epaint::{CubicBezierShape, PathStroke},
    pos2, vec2,
};

use super::{AttentionState, scene::Scene, scene::weight_text};
use crate::{
    heatmap::{Cell, Quantity, cividis},
    ui::{PanelContext, Theme, theme::mono_bold},
};

/// Weights below it have no arc: a thousand of them would be a grey veil.
const LEAST: f32 = 0.01;

/// Height of the whole line in points at 100 % type.
pub const HEIGHT: f32 = 108.0;

/// Where each token of the line stands.
struct Line {
    /// Left and right ends of the labels, from the line's start, in points.
    ends: Vec<(f32, f32)>,
    font: FontId,
    bold: FontId,
    labels: Vec<String>,
}

impl Line {
    fn of(ui: &Ui, scene: &Scene, scale: f32) -> Self {
        let font = FontId::new(13.0 * scale, FontFamily::Monospace);
        let bold = FontId::new(13.0 * scale, mono_bold());
        let gap = 10.0 * scale;
        let mut at = 0.5 * gap;
        let labels: Vec<_> = (0..scene.rows).map(|at| scene.label(at)).collect();
        let ends = labels
            .iter()
            .map(|label| {
                // The bold face is as wide: nothing moves when another token is selected.
                let galley =
                    ui.painter()
                        .layout_no_wrap(label.clone(), font.clone(), Color32::PLACEHOLDER);
                // Room for a weight of four digits below.
                let width = galley.size().x.max(26.0 * scale);
                let ends = (at, at + width);
                at += width + gap;
                ends
            })
            .collect();
        Self {
            ends,
            font,
            bold,
            labels,
        }
    }

    fn width(&self) -> f32 {
        self.ends.last().map_or(0.0, |&(_, right)| right + 5.0)
    }

    fn middle(&self, token: usize) -> f32 {
        self.ends
            .get(token)
            .map_or(0.0, |&(left, right)| 0.5 * (left + right))
    }

    /// The token nearest to a place on the line.
    fn token_at(&self, x: f32) -> Option<usize> {
        let after = self.ends.partition_point(|&(_, right)| right < x);
        (!self.ends.is_empty()).then(|| after.min(self.ends.len() - 1))
    }
}

/// Opacity and thickness in points of an arc.
pub fn strength(weight: f32, scale: f32) -> (f32, f32) {
    let weight = weight.clamp(0.0, 1.0);
    (0.15 + 0.85 * weight, (0.75 + 5.25 * weight) * scale)
}

/// The end of the attention colour map that stands out from the panel.
fn arc_color(theme: &Theme) -> Color32 {
    let [r, g, b] = cividis(if theme.dark { 0.9 } else { 0.12 });
    Color32::from_rgb(r, g, b)
}

pub fn show(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    area: Rect,
) {
    if area.height() < 40.0 * ctx.scale || area.width() < 60.0 {
        return;
    }
    let mut ui = ui.new_child(UiBuilder::new().id_salt("arcs").max_rect(area));
    ui.set_clip_rect(area.intersect(ui.clip_rect()));
    let line = Line::of(&ui, scene, ctx.scale);
    let query = query(state, scene);
    egui::ScrollArea::horizontal()
        .id_salt("arcs")
        .auto_shrink([false, false])
        .show(&mut ui, |ui| {
            let height = ui.available_height();
            let size = vec2(line.width().max(ui.available_width()), height);
            let (rect, response) = ui.allocate_exact_size(size, Sense::click());
            let query = select(ui, state, scene, &line, rect, &response, query);
            if state.arcs_at != Some((query, scene.rows)) {
                state.arcs_at = Some((query, scene.rows));
                let middle = rect.left() + line.middle(query);
                let target = Rect::from_x_y_ranges(middle..=middle, rect.y_range());
                ui.scroll_to_rect(target, Some(Align::Center));
            }
            paint(ui, ctx, state, scene, &line, rect, &response, query);
        });
}

/// The token whose weights are drawn.
pub fn query(state: &AttentionState, scene: &Scene) -> usize {
    let last = scene.rows.saturating_sub(1);
    state.pinned.map_or(last, |(query, _)| query).min(last)
}

/// Makes a token the query by pinning what it looks at most.
fn pin(state: &mut AttentionState, scene: &Scene, query: usize) {
    state.pinned = Some(
        scene
            .largest(query..query + 1, 0..scene.rows)
            .unwrap_or((query, query)),
    );
}

/// Takes clicks and arrow keys; returns the query from here on.
fn select(
    ui: &Ui,
    state: &mut AttentionState,
    scene: &Scene,
    line: &Line,
    rect: Rect,
    response: &Response,
    query: usize,
) -> usize {
    let mut to = None;
    if response.clicked() {
        response.request_focus();
        to = response
            .interact_pointer_pos()
            .and_then(|at| line.token_at(at.x - rect.left()));
    }
    if response.has_focus() {
        let filter = EventFilter {
            horizontal_arrows: true,
            ..Default::default()
        };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
        let (by, home, end) = ui.input(|input| {
            let key = |key| isize::from(input.key_pressed(key));
            (
                key(Key::ArrowRight) - key(Key::ArrowLeft),
                input.key_pressed(Key::Home),
                input.key_pressed(Key::End),
            )
        });
        if by != 0 {
            to = Some(query.saturating_add_signed(by));
        }
        if home {
            to = Some(0);
        }
        if end {
            to = Some(scene.rows);
        }
    }
    let Some(to) = to else { return query };
    let to = to.min(scene.rows.saturating_sub(1));
    pin(state, scene, to);
    to
}

#[expect(clippy::too_many_arguments, reason = "one line, drawn in one place")]
fn paint(
    ui: &Ui,
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    line: &Line,
    rect: Rect,
    response: &Response,
    query: usize,
) {
    let (theme, scale) = (ctx.theme, ctx.scale);
    let painter = ui.painter();
    let base = rect.bottom() - 42.0 * scale;
    let at = |token: usize, y: f32| pos2(rect.left() + line.middle(token), y);
    let hovered = response
        .hover_pos()
        .and_then(|at| line.token_at(at.x - rect.left()));
    if let Some(token) = hovered {
        ctx.panels.hovered_token = Some(scene.start + token);
    } else if state.arcs_report_hover {
        ctx.panels.hovered_token = None;
    }
    state.arcs_report_hover = hovered.is_some();
    let elsewhere = ctx
        .panels
        .hovered_token
        .and_then(|token| token.checked_sub(scene.start));
    let visible = ui.clip_rect().expand(60.0).x_range();
    let color = arc_color(theme);
    let weight = |key: usize| match scene.cell(Quantity::Weights, query, key) {
        Cell::Value(weight) => Some(weight),
        _ => None,
    };
    // The strongest last, so that it lies on top.
    let mut arcs: Vec<_> = (0..=query)
        .filter_map(|key| weight(key).map(|weight| (key, weight)))
        .filter(|&(_, weight)| weight >= LEAST)
        .collect();
    arcs.sort_by(|a, b| a.1.total_cmp(&b.1));
    let top = rect.top() + 4.0 * scale;
    for &(key, weight) in &arcs {
        let (opacity, width) = strength(weight, scale);
        let stroke = Stroke::new(width, color.gamma_multiply(opacity));
        painter.add(arc(at(query, base), at(key, base), top, scale, stroke));
    }
    for (token, label) in line.labels.iter().enumerate() {
        let middle = at(token, base);
        if !visible.contains(middle.x) {
            continue;
        }
        let (font, ink) = match token {
            _ if token == query => (&line.bold, theme.ink),
            _ if token + 1 == scene.rows => (&line.bold, theme.chosen),
            _ => (&line.font, theme.ink),
        };
        // What comes after the query is masked.
        let ink = if token > query { theme.dim } else { ink };
        let (left, right) = line.ends[token];
        let ground = Rect::from_min_max(
            pos2(rect.left() + left - 3.0 * scale, base + 2.0 * scale),
            pos2(rect.left() + right + 3.0 * scale, base + 22.0 * scale),
        );
        if token == query || Some(token) == hovered || Some(token) == elsewhere {
            painter.rect_filled(ground, 4, theme.field);
        }
        if token == query {
            painter.rect_stroke(ground, 4, Stroke::new(1.5, theme.ink), StrokeKind::Inside);
        }
        let label_at = pos2(middle.x, ground.center().y);
        painter.text(
            label_at,
            egui::Align2::CENTER_CENTER,
            label,
            font.clone(),
            ink,
        );
        let below = match token {
            _ if token > query => "masked".to_owned(),
            _ => match scene.cell(Quantity::Weights, query, token) {
                Cell::Value(weight) if weight < LEAST => String::new(),
                Cell::Value(weight) => format!("{weight:.2}"),
                Cell::NotANumber => "NaN".to_owned(),
                Cell::Absent => "–".to_owned(),
            },
        };
        let small = FontId::new(10.5 * scale, FontFamily::Monospace);
        let below_at = pos2(middle.x, ground.bottom() + 8.0 * scale);
        // Masked is said once, for the first of them: the rest are dim like it.
        if token <= query + 1 {
            painter.text(
                below_at,
                egui::Align2::CENTER_CENTER,
                below,
                small,
                theme.dim,
            );
        }
    }
    if response.has_focus() {
        let frame = rect.intersect(ui.clip_rect()).shrink(1.0);
        painter.rect_stroke(frame, 3, Stroke::new(1.5, theme.ink), StrokeKind::Inside);
    }
    let name = accessible_name(scene, query, &arcs);
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Image, true, &name));
    if let Some(key) = hovered {
        let text = if key > query {
            format!("“{}” comes after the query: masked", scene.label(key))
        } else {
            format!(
                "“{}” looks at “{}”: {}",
                scene.label(query),
                scene.label(key),
                scene.value_text(Quantity::Weights, query, key)
            )
        };
        response.clone().on_hover_text_at_pointer(text);
    }
}

/// A bow from one token to another, higher the farther they are apart; a loop where they are one.
fn arc(from: Pos2, to: Pos2, top: f32, scale: f32, stroke: Stroke) -> egui::Shape {
    let room = (from.y - top).max(0.0);
    let distance = (from.x - to.x).abs();
    let (a, b, height) = if distance < 1.0 {
        let half = 9.0 * scale;
        (
            from - vec2(half, 0.0),
            to + vec2(half, 0.0),
            (26.0 * scale).min(room),
        )
    } else {
        (from, to, (20.0 * scale + 0.28 * distance).min(room))
    };
    // A cubic reaches three quarters of its control points' height.
    let lift = vec2(0.0, height / 0.75);
    CubicBezierShape::from_points_stroke(
        [a, a - lift, b - lift, b],
        false,
        Color32::TRANSPARENT,
        PathStroke::from(stroke),
    )
    .into()
}

/// The query and the keys that it looks at most.
fn accessible_name(scene: &Scene, query: usize, arcs: &[(usize, f32)]) -> String {
    let strongest: Vec<_> = arcs
        .iter()
        .rev()
        .take(3)
        .map(|&(key, weight)| format!("{} {}", scene.label(key), weight_text(weight)))
        .collect();
    format!(
        "Attention arcs, {}, from {} to {}",
        scene.heads_name(),
        scene.label(query),
        strongest.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thicker_and_more_opaque_by_weight() {
        let mut before = (0.0, 0.0);
        for weight in [0.0, 0.01, 0.2, 0.7, 1.0] {
            let now = strength(weight, 1.0);
            assert!(now.0 > before.0 && now.1 > before.1);
            before = now;
        }
        assert_eq!(before, (1.0, 6.0));
        assert_eq!(strength(f32::INFINITY, 2.0), (1.0, 12.0));
    }
}
