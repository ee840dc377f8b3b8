//! Arcs: one token's weights drawn onto the text itself. The tokens stand in lines as text does; an arc goes from the
//! query to each key, thicker and more opaque the larger its weight, and the key's ground is tinted by it.
//!
//! The query is the pinned cell's, or the current row: text and square show one selection.

use egui::{
    Align, Align2, Color32, EventFilter, FontFamily, FontId, Key, Pos2, Rect, Response, Sense,
    Stroke, StrokeKind, Ui, UiBuilder, Vec2, WidgetInfo,
    epaint::{CubicBezierShape, PathStroke},
    pos2, vec2,
};

use super::{AttentionState, scene::Scene, scene::weight_text};
use crate::{
    heatmap::{Quantity, cividis},
    ui::{PanelContext, Theme, chart, theme::mono_bold},
};

/// Weights below it have no arc: a thousand of them would be a grey veil.
const LEAST: f32 = 0.01;

/// Heights at 100 % type: of a weight above its token, of a token, and of the room below it that arcs hang in.
const NUMBER: f32 = 13.0;
const LABEL: f32 = 19.0;
const HANG: f32 = 20.0;

/// Between two tokens of a line.
const GAP: f32 = 5.0;

/// Where each token of the text stands. Kept from frame to frame: a step adds its own token.
#[derive(Clone, Default)]
pub struct Text {
    basis: Option<Basis>,
    ids: Vec<u32>,
    labels: Vec<String>,
    /// From the text's top left corner, in points.
    rects: Vec<Rect>,
    scale: f32,
}

/// What labels and lines depend on besides the tokens.
#[derive(Clone, Copy, PartialEq)]
struct Basis {
    /// Address of the model, whose tokenizer names the tokens.
    model: usize,
    width: f32,
    scale: f32,
    pixels_per_point: f32,
}

impl Text {
    /// Breaks the shown tokens into lines of this width.
    fn keep_up(&mut self, ui: &Ui, scene: &Scene, width: f32, scale: f32) {
        let basis = Basis {
            model: scene.model_address(),
            width,
            scale,
            pixels_per_point: ui.pixels_per_point(),
        };
        if self.basis != Some(basis) {
            *self = Self {
                basis: Some(basis),
                scale,
                ..Self::default()
            };
        }
        let ids = scene.ids();
        let same = self.ids.iter().zip(ids).take_while(|(a, b)| a == b);
        let kept = same.count();
        self.ids.truncate(kept);
        self.labels.truncate(kept);
        self.rects.truncate(kept);
        let font = font(scale, false);
        for (position, &id) in ids.iter().enumerate().skip(kept) {
            let label = scene.label(position);
            // The bold face is as wide: nothing moves when another token is selected.
            let (text, color) = (label.clone(), Color32::PLACEHOLDER);
            let galley = ui.painter().layout_no_wrap(text, font.clone(), color);
            // Room for the padding, and for a weight above.
            let token = (galley.size().x + 8.0 * scale).max(30.0 * scale);
            self.rects
                .push(next_place(self.rects.last(), token, width, scale));
            self.ids.push(id);
            self.labels.push(label);
        }
    }

    fn height(&self) -> f32 {
        let lowest = self.rects.last().map_or(0.0, |rect| rect.bottom());
        lowest + HANG * self.scale
    }

    /// The token nearest to a place, a line's whole height belonging to it.
    fn token_at(&self, at: Vec2) -> Option<usize> {
        let pitch = (NUMBER + LABEL + HANG) * self.scale;
        let line = (at.y / pitch).floor().max(0.0);
        let nearness = |rect: &Rect| {
            let lines = ((rect.top() / pitch).floor() - line).abs();
            let beside = (rect.left() - at.x).max(at.x - rect.right()).max(0.0);
            1e5 * lines + beside
        };
        let tokens = self.rects.iter().map(nearness).enumerate();
        tokens
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(token, _)| token)
    }

    /// The token above or below another.
    fn vertically(&self, from: usize, lines: f32) -> Option<usize> {
        let pitch = (NUMBER + LABEL + HANG) * self.scale;
        let center = self.rects.get(from)?.center();
        self.token_at(vec2(center.x, center.y + lines * pitch))
    }
}

/// Where a token of some width stands after the last one: in its line, or at the start of the next.
fn next_place(last: Option<&Rect>, token: f32, width: f32, scale: f32) -> Rect {
    const LEFT: f32 = 2.0;
    let at = match last {
        None => pos2(LEFT, NUMBER * scale),
        Some(last) if last.right() + GAP * scale + token <= width => {
            pos2(last.right() + GAP * scale, last.top())
        }
        Some(last) => pos2(LEFT, last.top() + (NUMBER + LABEL + HANG) * scale),
    };
    Rect::from_min_size(at, vec2(token, LABEL * scale))
}

fn font(scale: f32, bold: bool) -> FontId {
    let family = if bold {
        mono_bold()
    } else {
        FontFamily::Monospace
    };
    FontId::new(13.0 * scale, family)
}

/// Opacity and thickness in points of an arc.
pub fn strength(weight: f32, scale: f32) -> (f32, f32) {
    let weight = weight.clamp(0.0, 1.0);
    (0.2 + 0.8 * weight, (0.75 + 5.25 * weight) * scale)
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
    let scale = ctx.scale;
    let note_height = 18.0 * scale;
    if area.height() < note_height + 40.0 * scale || area.width() < 60.0 {
        return;
    }
    let (note, area) = area.split_top_bottom_at_y(area.top() + note_height);
    let query = query(state, scene);
    let what = format!(
        "from “{}”, weights from {LEAST} up · click another token",
        scene.label(query)
    );
    chart::note(ui, note, &what, ctx.theme);
    let mut ui = ui.new_child(UiBuilder::new().id_salt("arcs").max_rect(area));
    ui.set_clip_rect(area.intersect(ui.clip_rect()));
    let width = area.width() - ui.spacing().scroll.allocated_width();
    let mut text = std::mem::take(&mut state.arcs_text);
    text.keep_up(&ui, scene, width, scale);
    egui::ScrollArea::vertical()
        .id_salt("arcs")
        .auto_shrink([false, false])
        .show(&mut ui, |ui| {
            let size = vec2(width, text.height().max(ui.available_height()));
            let (rect, response) = ui.allocate_exact_size(size, Sense::click());
            let query = select(ui, state, scene, &text, rect, &response, query);
            if state.arcs_at != Some((query, scene.rows)) {
                state.arcs_at = Some((query, scene.rows));
                if let Some(token) = text.rects.get(query) {
                    // What it looks at lies above it.
                    let mut target = token.translate(rect.min.to_vec2());
                    target.max.y += HANG * scale;
                    ui.scroll_to_rect(target, Some(Align::Max));
                }
            }
            paint(ui, ctx, state, scene, &text, rect, &response, query);
        });
    state.arcs_text = text;
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
    text: &Text,
    rect: Rect,
    response: &Response,
    query: usize,
) -> usize {
    let mut to = None;
    if response.clicked() {
        response.request_focus();
        to = response
            .interact_pointer_pos()
            .and_then(|at| text.token_at(at - rect.min));
    }
    if response.has_focus() {
        let filter = EventFilter {
            horizontal_arrows: true,
            vertical_arrows: true,
            ..Default::default()
        };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
        let pressed = |key| ui.input(|input| input.key_pressed(key));
        for (key, target) in [
            (Key::ArrowRight, Some(query + 1)),
            (Key::ArrowLeft, Some(query.saturating_sub(1))),
            (Key::ArrowUp, text.vertically(query, -1.0)),
            (Key::ArrowDown, text.vertically(query, 1.0)),
            (Key::Home, Some(0)),
            (Key::End, Some(scene.rows)),
        ] {
            if pressed(key) {
                to = target;
            }
        }
    }
    let Some(to) = to else { return query };
    let to = to.min(scene.rows.saturating_sub(1));
    pin(state, scene, to);
    to
}

#[expect(clippy::too_many_arguments, reason = "one text, drawn in one place")]
fn paint(
    ui: &Ui,
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    text: &Text,
    rect: Rect,
    response: &Response,
    query: usize,
) {
    let theme = ctx.theme;
    let painter = ui.painter();
    let place = |token: usize| {
        let held = text.rects.get(token).copied().unwrap_or(Rect::ZERO);
        held.translate(rect.min.to_vec2())
    };
    let hovered = response
        .hover_pos()
        .and_then(|at| text.token_at(at - rect.min));
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
    let color = arc_color(theme);
    let weights = scene.weights(query);
    let weight_of = |key: usize| {
        weights
            .as_ref()
            .and_then(|weights| weights.get(key).copied())
    };
    // The strongest last, so that it lies on top.
    let mut arcs: Vec<_> = (0..=query)
        .filter_map(|key| Some((key, weight_of(key)?)))
        .filter(|&(_, weight)| weight >= LEAST)
        .collect();
    arcs.sort_by(|a, b| a.1.total_cmp(&b.1));
    for &(key, weight) in &arcs {
        let (opacity, width) = strength(weight, text.scale);
        let stroke = Stroke::new(width, color.gamma_multiply(opacity));
        painter.add(arc(place(query), place(key), text.scale, stroke));
    }
    let (regular, bold) = (font(text.scale, false), font(text.scale, true));
    let small = FontId::new(10.5 * text.scale, FontFamily::Monospace);
    for (token, label) in text.labels.iter().enumerate() {
        let ground = place(token);
        if !ui.is_rect_visible(ground.expand2(vec2(0.0, NUMBER * text.scale))) {
            continue;
        }
        let weight = weight_of(token).filter(|_| token <= query);
        // Arcs that pass behind a token leave it legible; what is looked at is tinted.
        let tint = theme.panel.lerp_to_gamma(
            color,
            0.35 * weight.filter(|weight| !weight.is_nan()).unwrap_or(0.0),
        );
        let tint = if Some(token) == hovered || Some(token) == elsewhere {
            theme.field
        } else {
            tint
        };
        painter.rect_filled(ground.shrink2(vec2(1.0, 0.0)), 4, tint);
        if token == query {
            painter.rect_stroke(ground, 4, Stroke::new(1.5, theme.ink), StrokeKind::Inside);
        }
        let (font, ink) = match token {
            // What comes after the query is masked.
            _ if token > query => (&regular, theme.dim),
            _ if token + 1 == scene.rows && token != query => (&bold, theme.chosen),
            _ if token == query => (&bold, theme.ink),
            _ => (&regular, theme.ink),
        };
        painter.text(
            ground.center(),
            Align2::CENTER_CENTER,
            label,
            font.clone(),
            ink,
        );
        let above = match weight {
            // Masked is said once, for the first of them: the rest are dim like it.
            _ if token == query + 1 => "masked".to_owned(),
            _ if token > query => continue,
            Some(weight) if weight.is_nan() => "NaN".to_owned(),
            Some(weight) if weight < LEAST => continue,
            Some(weight) => format!("{weight:.2}"),
            None => "–".to_owned(),
        };
        let ink = if weight.is_some_and(|weight| weight >= 0.1) {
            theme.ink
        } else {
            theme.dim
        };
        let at = pos2(ground.center().x, ground.top() - 1.0);
        painter.text(at, Align2::CENTER_BOTTOM, above, small.clone(), ink);
    }
    if response.has_focus() {
        let frame = rect.intersect(ui.clip_rect()).shrink(1.0);
        painter.rect_stroke(frame, 3, Stroke::new(1.5, theme.ink), StrokeKind::Inside);
    }
    let name = accessible_name(scene, query, &arcs);
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Image, true, &name));
    if let Some(key) = hovered {
        let words = if key > query {
            format!("“{}” comes after the query: masked", scene.label(key))
        } else {
            format!(
                "“{}” looks at “{}”: {}",
                scene.label(query),
                scene.label(key),
                scene.value_text(Quantity::Weights, query, key)
            )
        };
        response.clone().on_hover_text_at_pointer(words);
    }
}

/// From the query to a key: a bow that hangs below both in the query's own line, a sweep upwards to a line above.
fn arc(query: Rect, key: Rect, scale: f32, stroke: Stroke) -> egui::Shape {
    let curve = |points: [Pos2; 4]| {
        let (fill, stroke) = (Color32::TRANSPARENT, PathStroke::from(stroke));
        CubicBezierShape::from_points_stroke(points, false, fill, stroke).into()
    };
    if key.top() < query.top() {
        let from = query.center_top() - vec2(0.0, NUMBER * scale);
        let to = key.center_bottom();
        let lift = vec2(0.0, (0.5 * (from.y - to.y)).max(0.8 * HANG * scale));
        return curve([from, from - lift, to + lift, to]);
    }
    let half = if query == key { 8.0 * scale } else { 0.0 };
    let from = query.center_bottom() + vec2(half, 0.0);
    let to = key.center_bottom() - vec2(half, 0.0);
    // A cubic reaches three quarters of its control points' depth.
    let reach = 0.05 * (from.x - to.x).abs() + 0.45 * HANG * scale;
    let drop = vec2(0.0, reach.min(0.85 * HANG * scale) / 0.75);
    curve([from, from + drop, to + drop, to])
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

    #[test]
    fn tokens_and_their_weights_never_run_into_each_other() {
        let widths = (0..200).map(|token| 30.0 + (token * 37 % 90) as f32);
        for width in [10.0, 130.0, 400.0] {
            let mut rects: Vec<Rect> = Vec::new();
            for token in widths.clone() {
                rects.push(next_place(rects.last(), token, width, 1.0));
            }
            // A weight stands above its token, no wider than it.
            let with_number = |rect: &Rect| rect.with_min_y(rect.top() - NUMBER);
            for (index, rect) in rects.iter().enumerate() {
                assert!(rect.right() <= width || rect.left() <= 2.0, "{rect:?}");
                for other in &rects[index + 1..] {
                    let shared = with_number(rect).intersect(with_number(other));
                    assert!(!shared.is_positive(), "{rect:?} {other:?}");
                }
            }
        }
    }
}
