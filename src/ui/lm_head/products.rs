//! Rows of the head against the final hidden state: each logit as two lengths and an angle.

use egui::{Id, Rect, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};

use super::{LmHeadState, Scene, fan, row, words};
use crate::ui::{
    PanelContext,
    chart::{self, Faces},
};

/// Right ends of the columns, in points.
#[derive(Clone, Copy, Debug)]
struct Columns {
    label: f32,
    label_chars: usize,
    norm: f32,
    cos: f32,
    bias: Option<f32>,
    product: f32,
    recorded: f32,
}

impl Columns {
    fn fit(rect: Rect, digit: f32, has_bias: bool) -> Self {
        let recorded = rect.right() - 2.0;
        let product = recorded - 9.5 * digit;
        let bias = product - 9.5 * digit;
        let cos = if has_bias { bias - 7.5 * digit } else { bias };
        let norm = cos - 7.5 * digit;
        let label = norm - 6.5 * digit;
        Self {
            label_chars: (((label - rect.left()) / digit) as usize).clamp(2, 16),
            label: label.max(rect.left() + 2.0 * digit),
            norm,
            cos,
            bias: has_bias.then_some(bias),
            product,
            recorded,
        }
    }
}

/// The first of the most likely tokens, then those asked for that are not among them. Of the former at least three
/// stay: the list scrolls.
fn listed(slots: usize, top: &[u32], asked: &[u32]) -> Vec<u32> {
    let with = |shown: usize| {
        let mut all = top[..shown].to_vec();
        for id in asked {
            if !all.contains(id) {
                all.push(*id);
            }
        }
        all
    };
    let most = top.len().min(slots);
    (3.min(most)..=most)
        .rev()
        .map(with)
        .find(|all| all.len() <= slots)
        .unwrap_or_else(|| with(3.min(most)))
}

pub(super) fn show(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    scene: &Scene,
    state: &mut LmHeadState,
    area: Rect,
) -> Option<u32> {
    let faces = &scene.faces;
    let has_fan = area.width() > 46.0 * faces.digit && area.height() > 12.0 * faces.digit;
    let fan_width = if has_fan {
        (0.55 * area.height()).min(0.34 * area.width())
    } else {
        0.0
    };
    let gap = if has_fan { 14.0 } else { 0.0 };
    let table = area.with_min_x(area.left() + fan_width + gap);
    let head = table.with_max_y(table.top() + faces.line + 4.0);
    let body = table.with_min_y(head.bottom());
    let height = ctx.row_height();
    let slots = ((body.height() + 0.5) / height).max(1.0) as usize;

    let vocab_size = scene.vocab_size();
    let ids = if state.query.trim().is_empty() {
        let top: Vec<u32> = scene.view.top.iter().map(|row| row.id).collect();
        let chosen = scene.view.chosen.iter().map(|chosen| chosen.row.id);
        let pins = ctx.panels.logits.pins(vocab_size).iter().copied();
        let asked: Vec<u32> = chosen.chain(pins).chain([scene.token]).collect();
        listed(slots, &top, &asked)
    } else {
        state.matches(ctx.session, vocab_size).to_vec()
    };
    if has_fan {
        let place = area.with_max_x(area.left() + fan_width);
        let label = |id| ctx.label(id);
        fan::show(ui, ctx.theme, label, scene, &ids, state.pointed, place);
    }

    let has_bias = scene
        .explanation
        .is_some_and(|explanation| explanation.head.bias.is_some());
    let columns = Columns::fit(table, faces.digit, has_bias);
    heading(ui, ctx, scene, head, columns, has_bias);
    let mut pointed = None;
    let mut list = ui.new_child(UiBuilder::new().id_salt("products").max_rect(body));
    list.set_clip_rect(body.expand2(vec2(5.0, 0.0)).intersect(ui.clip_rect()));
    ScrollArea::vertical()
        .auto_shrink(false)
        .show(&mut list, |ui| {
            let size = vec2(body.width(), ids.len() as f32 * height);
            let (all, _) = ui.allocate_exact_size(size, Sense::hover());
            for (slot, &id) in ids.iter().enumerate() {
                let top = all.top() + slot as f32 * height;
                let rect = Rect::from_min_size(pos2(body.left(), top), vec2(body.width(), height));
                if one(ui, ctx, scene, state, columns, (rect, slot, id)) {
                    pointed = Some(id);
                }
            }
        });
    pointed
}

fn heading(
    ui: &Ui,
    ctx: &PanelContext,
    scene: &Scene,
    rect: Rect,
    columns: Columns,
    has_bias: bool,
) {
    let y = rect.top() + 0.5 * scene.faces.line;
    let product = if has_bias { "h · w + b" } else { "h · w" };
    let heads = [
        (Some(columns.label), "token"),
        (Some(columns.norm), "‖w‖"),
        (Some(columns.cos), "cos θ"),
        (columns.bias, "bias b"),
        (Some(columns.product), product),
        (Some(columns.recorded), "z on record"),
    ];
    for (x, text) in heads {
        if let Some(x) = x {
            chart::text_right(
                ui.painter(),
                pos2(x, y),
                text,
                &scene.faces.small,
                ctx.theme.dim,
            );
        }
    }
}

/// One row; true where the pointer or the keyboard is on it.
fn one(
    ui: &Ui,
    ctx: &mut PanelContext,
    scene: &Scene,
    state: &mut LmHeadState,
    columns: Columns,
    (rect, slot, id): (Rect, usize, u32),
) -> bool {
    let label = ctx.label(id);
    let values = &scene.view.logits.values;
    let logit = values.get(id as usize).copied().unwrap_or(f32::NAN);
    let product = scene
        .explanation
        .and_then(|explanation| explanation.product(id));
    let chosen = scene.is_chosen(id);
    let pinned = super::is_pinned(ctx, id);
    let marks = [
        (chosen, ", chosen"),
        (pinned, ", pinned"),
        (scene.token == id, ", looked at"),
    ];
    let marks: String = marks
        .into_iter()
        .filter_map(|(on, mark)| on.then_some(mark))
        .collect();
    let name = words::product_name(&label, logit, product, &marks);
    let place = Id::unique("LM head product").with(slot);
    let response = row(ui, ctx, scene, state, (rect, place, id), &name);
    if ui.is_rect_visible(rect) {
        paint(
            ui,
            ctx,
            &scene.faces,
            columns,
            rect,
            &label,
            chosen,
            logit,
            product,
        );
    }
    let on = response.hovered() || response.has_focus();
    if let Some(explanation) = scene.explanation {
        response.on_hover_ui(|ui| {
            ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
            for line in words::product_details(ctx.session, explanation, id, logit) {
                ui.label(line);
            }
        });
    }
    on
}

#[expect(clippy::too_many_arguments, reason = "what one row is drawn from")]
fn paint(
    ui: &Ui,
    ctx: &PanelContext,
    faces: &Faces,
    columns: Columns,
    rect: Rect,
    label: &str,
    chosen: bool,
    logit: f32,
    product: Option<crate::explanation::Product>,
) {
    let (theme, y) = (ctx.theme, rect.center().y);
    let font = faces.token(chosen);
    let write = |x: f32, text: String, color| {
        chart::text_right(ui.painter(), pos2(x, y), text, font, color);
    };
    let label_color = if chosen { theme.chosen } else { theme.ink };
    write(
        columns.label,
        chart::fit(label, columns.label_chars),
        label_color,
    );
    if let Some(product) = product {
        write(columns.norm, chart::number(product.norm), theme.dim);
        write(columns.cos, words::cosine(product.cos), theme.ink);
        if let (Some(x), Some(bias)) = (columns.bias, product.bias) {
            write(x, chart::number(bias), theme.dim);
        }
        write(columns.product, chart::number(product.logit), theme.ink);
    }
    write(columns.recorded, chart::number(logit.into()), theme.dim);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_takes_the_place_of_the_last_of_the_top() {
        let top: Vec<u32> = (0..20).collect();
        assert_eq!(listed(5, &top, &[]), [0, 1, 2, 3, 4]);
        assert_eq!(listed(5, &top, &[2, 2]), [0, 1, 2, 3, 4]);
        assert_eq!(listed(5, &top, &[9, 4]), [0, 1, 2, 9, 4]);
        assert_eq!(listed(2, &top, &[9]), [0, 1, 9]);
        assert_eq!(listed(4, &top, &[50, 51, 52]), [0, 1, 2, 50, 51, 52]);
        assert_eq!(listed(4, &[], &[7]), [7]);
    }

    #[test]
    fn columns_stand_in_their_order() {
        for width in [250.0, 380.0, 1200.0] {
            for has_bias in [false, true] {
                let rect = Rect::from_min_size(pos2(0.0, 0.0), vec2(width, 20.0));
                let columns = Columns::fit(rect, 7.8, has_bias);
                assert!(columns.norm < columns.cos && columns.cos < columns.product);
                assert!(columns.product < columns.recorded);
                assert_eq!(columns.bias.is_some(), has_bias);
            }
        }
    }
}
