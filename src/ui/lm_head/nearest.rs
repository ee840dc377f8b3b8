//! The rows of the head nearest in direction to one token's row.

use egui::{Id, Rect, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2};

use super::{LmHeadState, Scene, row, words};
use crate::ui::{PanelContext, chart};

pub(super) fn show(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    scene: &Scene,
    state: &mut LmHeadState,
    area: Rect,
) -> Option<u32> {
    let faces = &scene.faces;
    let digit = faces.digit;
    let head = area.with_max_y(area.top() + faces.line + 4.0);
    let body = area.with_min_y(head.bottom());
    let height = ctx.row_height();
    let prob = area.right() - 2.0;
    let norm = prob - 9.0 * digit;
    let cos = norm - 7.5 * digit;
    let label_chars = ((0.28 * area.width() / digit) as usize).clamp(6, 20);
    let label = area.left() + label_chars as f32 * digit;
    let bar = label + digit..=(cos - 7.0 * digit).max(label + digit);
    let y = head.top() + 0.5 * faces.line;
    for (x, text) in [
        (label, "token"),
        (*bar.end(), "1"),
        (cos, "cos"),
        (norm, "‖w‖"),
        (prob, "model P"),
    ] {
        chart::text_right(ui.painter(), pos2(x, y), text, &faces.small, ctx.theme.dim);
    }
    let session = ctx.session;
    let nearest = session.nearest(scene.token)?.ok()?;
    let mut pointed = None;
    let mut list = ui.new_child(UiBuilder::new().id_salt("nearest").max_rect(body));
    list.set_clip_rect(body.expand2(vec2(5.0, 0.0)).intersect(ui.clip_rect()));
    ScrollArea::vertical()
        .id_salt(("nearest to", scene.token))
        .auto_shrink(false)
        .show(&mut list, |ui| {
            let size = vec2(body.width(), nearest.rows.len() as f32 * height);
            let (all, _) = ui.allocate_exact_size(size, Sense::hover());
            for (slot, &(id, cosine)) in nearest.rows.iter().enumerate() {
                let top = all.top() + slot as f32 * height;
                let rect = Rect::from_min_size(pos2(body.left(), top), vec2(body.width(), height));
                let text = ctx.label(id);
                let chosen = scene.is_chosen(id);
                let p = chart::percent(scene.view.logits.prob(id));
                let length = chart::number(nearest.head.norms[id as usize]);
                let name = format!(
                    "{text}, place {}, cosine {}, angle {}, length {length}, model P {p}{}",
                    slot + 1,
                    words::cosine(cosine),
                    words::degrees(cosine),
                    if chosen { ", chosen" } else { "" }
                );
                let place = Id::unique("LM head nearest").with(slot);
                let response = row(ui, ctx, scene, state, (rect, place, id), &name);
                if response.hovered() || response.has_focus() {
                    pointed = Some(id);
                }
                if ui.is_rect_visible(rect) {
                    let (y, font) = (rect.center().y, faces.token(chosen));
                    let painter = ui.painter();
                    let ink = if chosen {
                        ctx.theme.chosen
                    } else {
                        ctx.theme.ink
                    };
                    let write = |x: f32, text: String, color| {
                        chart::text_right(painter, pos2(x, y), text, font, color);
                    };
                    write(label, chart::fit(&text, label_chars), ink);
                    let half = 0.5 * chart::bar_height(height);
                    let span = bar.end() - bar.start();
                    let end = bar.start() + cosine.clamp(0.0, 1.0) as f32 * span;
                    let place = Rect::from_x_y_ranges(*bar.start()..=end, y - half..=y + half);
                    chart::bar(painter, place, ctx.theme.prompt);
                    write(cos, words::cosine(cosine), ctx.theme.ink);
                    write(norm, length, ctx.theme.dim);
                    write(prob, p, ctx.theme.dim);
                }
                response.on_hover_text(name);
            }
        });
    pointed
}
