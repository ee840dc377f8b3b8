//! The rows as arrows: each at its true angle to the final hidden state, and at its true length beside the others.
//! Angles between two rows are not drawn true: a plane has no room for them.

use egui::{Color32, Id, Pos2, Rect, Sense, Shape, Stroke, Ui, Vec2, pos2, vec2};

use super::Scene;
use crate::ui::{Theme, chart};

pub(super) fn show(
    ui: &Ui,
    theme: &Theme,
    label: impl Fn(u32) -> String,
    scene: &Scene,
    ids: &[u32],
    pointed: Option<u32>,
    rect: Rect,
) {
    let line = scene.faces.line;
    let origin = pos2(rect.left() + 8.0, rect.center().y);
    let radius = (0.5 * rect.height() - line).min(rect.width() - 14.0);
    let painter = ui
        .painter()
        .with_clip_rect(rect.expand(4.0).intersect(ui.clip_rect()));
    let response = ui.interact(rect, Id::unique("LM head fan"), Sense::hover());
    let what = "Each row w at its true angle to h, its length beside the other rows' true; h itself is not to scale. Height is ‖w‖ cos θ, which is z / ‖h‖";
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Image, true, what));
    response.on_hover_text(what);
    if radius < 20.0 {
        return;
    }
    let grid = Stroke::new(1.0, theme.line);
    painter.add(Shape::line(arc(origin, radius), grid));
    let level = [origin, origin + vec2(radius, 0.0)];
    painter.extend(Shape::dashed_line(
        &level,
        Stroke::new(1.0, theme.dim),
        3.0,
        3.0,
    ));
    arrow(&painter, origin, vec2(0.0, -radius), theme.ink, 2.0);
    let at = origin + vec2(6.0, -radius - 0.2 * line);
    chart::text_left(&painter, at, "h", &scene.faces.small, theme.ink);

    let Some(explanation) = scene.explanation else {
        return;
    };
    let longest = ids
        .iter()
        .filter_map(|&id| Some(explanation.product(id)?.norm))
        .fold(0.0, f64::max);
    // The arrows that matter are drawn last, over the others.
    let weight = |id: u32| (scene.is_chosen(id), scene.token == id, pointed == Some(id));
    let mut order = ids.to_vec();
    order.sort_by_key(|&id| weight(id));
    for id in order {
        let Some(product) = explanation.product(id).filter(|row| !row.cos.is_nan()) else {
            continue;
        };
        let length = (product.norm / longest) as f32 * radius;
        let sine = (1.0 - product.cos * product.cos).max(0.0).sqrt();
        let tip = vec2(sine as f32, -product.cos as f32) * length;
        let marked = scene.token == id || pointed == Some(id);
        let color = match () {
            () if scene.is_chosen(id) => theme.chosen,
            () if marked => theme.ink,
            () => theme.prompt,
        };
        if marked {
            projection(&painter, theme, origin, tip);
        }
        if id == pointed.unwrap_or(scene.token) {
            let at = origin + vec2(8.0, tip.y - 0.6 * line);
            let label = chart::fit(&label(id), 14);
            chart::text_left(&painter, at, label, &scene.faces.small, color);
        }
        let width = if marked || scene.is_chosen(id) {
            2.0
        } else {
            1.0
        };
        arrow(&painter, origin, tip, color, width);
    }
}

/// The part along h of a row, and how it is found.
fn projection(painter: &egui::Painter, theme: &Theme, origin: Pos2, tip: Vec2) {
    let foot = origin + vec2(0.0, tip.y);
    let down = [origin + tip, foot];
    painter.extend(Shape::dashed_line(
        &down,
        Stroke::new(1.0, theme.dim),
        3.0,
        2.0,
    ));
    let color = if tip.y > 0.0 {
        theme.negative
    } else {
        theme.positive
    };
    painter.line_segment([origin, foot], Stroke::new(5.0, color));
}

fn arrow(painter: &egui::Painter, from: Pos2, by: Vec2, color: Color32, width: f32) {
    let stroke = Stroke::new(width, color);
    let tip = from + by;
    painter.line_segment([from, tip], stroke);
    let length = by.length();
    if length > 10.0 {
        let back = -by / length * 6.0;
        let side = vec2(back.y, -back.x) * 0.5;
        painter.line_segment([tip, tip + back + side], stroke);
        painter.line_segment([tip, tip + back - side], stroke);
    }
}

/// A half circle from straight up to straight down.
fn arc(origin: Pos2, radius: f32) -> Vec<Pos2> {
    const PIECES: u32 = 48;
    (0..=PIECES)
        .map(|piece| {
            let angle = std::f32::consts::PI * piece as f32 / PIECES as f32;
            origin + vec2(angle.sin(), -angle.cos()) * radius
        })
        .collect()
}
