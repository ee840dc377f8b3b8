//! The logit lens: what the head would predict from the residual stream after each block.

use egui::{
    CornerRadius, Id, Rect, ScrollArea, Sense, Stroke, StrokeKind, Ui, UiBuilder, pos2, vec2,
};

use super::{LmHeadState, Scene, words};
use crate::{
    explanation::{Explanation, LENS_TOP},
    ui::{PanelContext, chart},
};

/// Right ends of the columns of numbers, and where the cells are, in points.
#[derive(Clone, Copy, Debug)]
struct Columns {
    rank: f32,
    prob: f32,
    cells: f32,
    cell: f32,
    count: usize,
}

impl Columns {
    fn fit(rect: Rect, digit: f32) -> Self {
        let rank = rect.left() + 20.5 * digit;
        let prob = rank + 8.5 * digit;
        let cells = prob + 1.5 * digit;
        let room = (rect.right() - cells).max(0.0);
        let count = ((room / (8.5 * digit)) as usize).clamp(1, LENS_TOP);
        Self {
            rank,
            prob,
            cells,
            cell: room / count as f32,
            count,
        }
    }
}

pub(super) fn show(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    scene: &Scene,
    state: &mut LmHeadState,
    area: Rect,
) -> Option<u32> {
    let faces = &scene.faces;
    let head = area.with_max_y(area.top() + faces.line + 4.0);
    let body = area.with_min_y(head.bottom());
    let columns = Columns::fit(area, faces.digit);
    let y = head.top() + 0.5 * faces.line;
    for (x, text) in [(columns.rank, "rank"), (columns.prob, "model P")] {
        chart::text_right(ui.painter(), pos2(x, y), text, &faces.small, ctx.theme.dim);
    }
    let stage = pos2(area.left(), y);
    chart::text_left(ui.painter(), stage, "after", &faces.small, ctx.theme.dim);
    let top = format!("{} most likely, most likely first", columns.count);
    chart::text_left(
        ui.painter(),
        pos2(columns.cells, y),
        top,
        &faces.small,
        ctx.theme.dim,
    );
    let stages = ctx.session.model().map_or(0, |model| model.n_layer + 1);
    let explanation = scene.explanation;
    let ranks = match explanation {
        Some(explanation) => {
            let derived = state.derive(scene.view, explanation, scene.token);
            derived.ranks.as_ref().map(|(_, ranks)| ranks.clone())
        }
        None => None,
    };
    let ranks = ranks.unwrap_or_default();
    let height = chart::fitting_row_height(ctx.row_height(), body.height(), stages);
    let mut pointed = None;
    let mut list = ui.new_child(UiBuilder::new().id_salt("lens").max_rect(body));
    list.set_clip_rect(body.expand2(vec2(5.0, 0.0)).intersect(ui.clip_rect()));
    ScrollArea::vertical()
        .id_salt("lens")
        .auto_shrink(false)
        // The output is where one begins to read.
        .stick_to_bottom(true)
        .show(&mut list, |ui| {
            let size = vec2(body.width(), stages as f32 * height);
            let (all, _) = ui.allocate_exact_size(size, Sense::hover());
            for at in 0..stages {
                let top = all.top() + at as f32 * height;
                let rect = Rect::from_min_size(pos2(body.left(), top), vec2(body.width(), height));
                let own = explanation.zip(ranks.get(at).copied());
                if ui.is_rect_visible(rect)
                    && let Some(id) = one(ui, ctx, scene, state, columns, (rect, at, stages), own)
                {
                    pointed = Some(id);
                }
            }
        });
    pointed
}

/// One stage; the token of the cell that the pointer or the keyboard is on.
fn one(
    ui: &Ui,
    ctx: &PanelContext,
    scene: &Scene,
    state: &mut LmHeadState,
    columns: Columns,
    (rect, at, stages): (Rect, usize, usize),
    answer: Option<(&std::sync::Arc<Explanation>, usize)>,
) -> Option<u32> {
    let (theme, faces) = (ctx.theme, &scene.faces);
    let is_output = at + 1 == stages;
    let y = rect.center().y;
    let font = faces.token(is_output);
    let painter = ui.painter();
    let name = words::stage(at, stages);
    chart::text_left(painter, pos2(rect.left(), y), &name, font, theme.ink);
    let numbers = rect.with_max_x(columns.prob);
    let response = ui.interact(
        numbers,
        Id::unique("LM head stage").with(at),
        Sense::hover(),
    );
    let (explanation, rank) = answer?;
    let full_name = words::stage_name(ctx.session, explanation, at, scene.token, rank);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Label, true, &full_name));
    response.on_hover_text(full_name);
    let row = &explanation.lens[at];
    let color = if scene.is_chosen(scene.token) {
        theme.chosen
    } else {
        theme.ink
    };
    let own = chart::percent(row.logits.prob(scene.token));
    for (x, text) in [(columns.rank, chart::count(rank)), (columns.prob, own)] {
        chart::text_right(painter, pos2(x, y), text, font, color);
    }
    let mut pointed = None;
    for (place, &id) in row.top.iter().take(columns.count).enumerate() {
        let left = columns.cells + place as f32 * columns.cell;
        let cell = Rect::from_min_size(pos2(left, rect.top()), vec2(columns.cell, rect.height()));
        let cell = cell.shrink2(vec2(1.5, 1.0));
        let p = row.logits.prob(id);
        // Half of the scale is the square root's: a few per cent show.
        let strength = 0.75 * p.clamp(0.0, 1.0).sqrt() as f32;
        let ground = theme.panel.lerp_to_gamma(theme.probability, strength);
        painter.rect_filled(cell, CornerRadius::same(3), ground);
        let followed = id == scene.token;
        if followed {
            let stroke = Stroke::new(2.0, color);
            painter.rect_stroke(cell, 3, stroke, StrokeKind::Inside);
        }
        let percent = chart::percent(p);
        let room = (cell.width() / faces.digit) as usize;
        let wide = room > 15;
        let label = ctx.label(id);
        let chars = if wide { room - 8 } else { room.max(2) - 1 };
        let text = chart::fit(&label, chars);
        let bold = faces.token(followed);
        chart::text_left(painter, pos2(cell.left() + 4.0, y), text, bold, theme.ink);
        if wide {
            let at = pos2(cell.right() - 4.0, y);
            chart::text_right(painter, at, &percent, &faces.small, theme.ink);
        }
        let id_of_cell = Id::unique("LM head cell").with((at, place));
        let response = ui.interact(cell, id_of_cell, Sense::click());
        let name = format!("{label} {percent} after {name}");
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
        if response.has_focus() || response.hovered() {
            painter.rect_stroke(cell, 3, Stroke::new(1.5, theme.ink), StrokeKind::Inside);
            pointed = Some(id);
        }
        if response.gained_focus() {
            ui.scroll_to_rect(cell, None);
        }
        if response.clicked() {
            state.look_at(id, scene.vocab_size());
        }
        response.on_hover_text(format!("{name}\nid {id} · click to follow it"));
    }
    pointed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_fill_what_the_numbers_leave() {
        for width in [300.0, 510.0, 1400.0] {
            let rect = Rect::from_min_size(pos2(0.0, 0.0), vec2(width, 20.0));
            let columns = Columns::fit(rect, 7.8);
            assert!((1..=LENS_TOP).contains(&columns.count));
            let end = columns.cells + columns.count as f32 * columns.cell;
            assert!(end <= width.max(columns.cells) + 0.5, "{columns:?}");
            assert!(columns.rank < columns.prob && columns.prob < columns.cells);
        }
    }
}
