//! Tokens panel: one chip a token, and a dashed one for the open step.

use std::sync::Arc;

use egui::{
    Align2, CornerRadius, FontId, Galley, Key, Rect, Response, RichText, ScrollArea, Sense, Stroke,
    StrokeKind, TextStyle, Ui, Vec2, pos2, style::ScrollAnimation, vec2,
};

use super::{Panel, PanelContext, card::Card, chart, theme::mono_bold};
use crate::session::{Action, Node, Session};

/// Space inside a chip, and between chips, in points.
const PADDING: Vec2 = vec2(6.0, 4.0);
const GAP: f32 = 4.0;

/// Label of the chip for the open step.
const OPEN: &str = "next";

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let subtitle = format!(
        "{} tokens · underline: surprisal when chosen · dashed: the open step",
        ctx.session.len()
    );
    Card::new(Panel::Tokens, subtitle).show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            ScrollArea::vertical()
                .auto_shrink(false)
                .stick_to_bottom(true)
                .show_viewport(ui, |ui, viewport| {
                    chips(ui, ctx, viewport);
                });
        },
    )
}

/// Tab-separated, one row a token.
pub fn table(session: &Session) -> String {
    let mut out = String::from("index\tid\ttoken\torigin\tP\trank\tsurprisal (nats)\n");
    for (index, node) in session.path_nodes().enumerate() {
        let label = session
            .tokenizer()
            .map(|tokenizer| tokenizer.label(node.token))
            .unwrap_or_default();
        let score = node.score.map_or("\t\t".to_owned(), |score| {
            format!(
                "{:.6}\t{}\t{:.4}",
                score.log_prob.exp(),
                score.rank,
                score.surprisal_nats()
            )
        });
        out.push_str(&format!(
            "{index}\t{}\t{label}\t{}\t{score}\n",
            node.token,
            node.origin.name()
        ));
    }
    out
}

struct Chip {
    /// Relative to the top left of all chips.
    rect: Rect,
    galley: Arc<Galley>,
}

/// Flows all chips, draws those in view.
fn chips(ui: &mut Ui, ctx: &mut PanelContext, viewport: Rect) {
    let font = TextStyle::Monospace.resolve(ui.style());
    let bold = FontId::new(font.size, mono_bold());
    let width = ui.available_width();
    let selected = ctx.session.selected();
    let len = ctx.session.len();
    let chips = flow(ui, ctx, &font, &bold, width, selected);
    let height = chips.last().map_or(0.0, |chip| chip.rect.bottom());
    let (area, _) = ui.allocate_exact_size(vec2(width, height), Sense::hover());
    if let Some(chip) = chips.get(selected)
        && chart::is_news(ui, "selected chip", selected)
    {
        let place = chip.rect.translate(area.min.to_vec2());
        ui.scroll_to_rect_animation(place, None, ScrollAnimation::none());
    }
    let mut hovered = None;
    for (index, chip) in chips.iter().enumerate() {
        let is_selected = index == selected;
        if !chip.rect.intersects(viewport) {
            continue;
        }
        let rect = chip.rect.translate(area.min.to_vec2());
        let response = ui.interact(rect, ui.scope_id().with(("chip", index)), Sense::click());
        let node = ctx.session.node(index);
        let name = chip_name(ctx, index, node);
        response.widget_info(|| {
            egui::WidgetInfo::selected(egui::Role::Button, true, is_selected, &name)
        });
        paint(
            ui,
            ctx,
            rect,
            chip,
            node,
            is_selected,
            response.hovered() || response.has_focus() || ctx.panels.hovered_token == Some(index),
        );
        if response.clicked() {
            ctx.actions.push(Action::Select(index));
        }
        if response.has_focus() {
            let step = ui.input(|input| match () {
                () if input.key_pressed(Key::ArrowLeft) => Some(index.saturating_sub(1)),
                () if input.key_pressed(Key::ArrowRight) => Some((index + 1).min(len)),
                () => None,
            });
            if let Some(step) = step {
                ctx.actions.push(Action::Select(step));
                ui.memory_mut(|memory| memory.request_focus(ui.scope_id().with(("chip", step))));
            }
        }
        if response.hovered() {
            hovered = Some(index);
            if let Some(node) = node {
                response.on_hover_ui(|ui| details(ui, ctx, index, node));
            }
        }
    }
    if ui.rect_contains_pointer(area) || hovered.is_some() {
        ctx.panels.hovered_token = hovered;
    }
}

fn flow(
    ui: &Ui,
    ctx: &PanelContext,
    font: &FontId,
    bold: &FontId,
    width: f32,
    selected: usize,
) -> Vec<Chip> {
    let mut at = pos2(0.0, 0.0);
    let mut chips = Vec::with_capacity(ctx.session.len() + 1);
    for index in 0..=ctx.session.len() {
        let text = ctx
            .session
            .ids()
            .get(index)
            .map_or_else(|| OPEN.to_owned(), |&id| ctx.label(id));
        let font = if index == selected { bold } else { font };
        let galley = ui
            .painter()
            .layout_no_wrap(text, font.clone(), ctx.theme.ink);
        let size = (galley.size() + 2.0 * PADDING).max(vec2(16.0, 0.0));
        if at.x + size.x > width && at.x > 0.0 {
            at = pos2(0.0, at.y + size.y + GAP);
        }
        chips.push(Chip {
            rect: Rect::from_min_size(at, size),
            galley,
        });
        at.x += size.x + GAP;
    }
    chips
}

fn paint(
    ui: &Ui,
    ctx: &PanelContext,
    rect: Rect,
    chip: &Chip,
    node: Option<&Node>,
    selected: bool,
    hovered: bool,
) {
    let theme = ctx.theme;
    let painter = ui.painter();
    let corner = CornerRadius::same(5);
    match node {
        Some(node) => {
            painter.rect_filled(rect, corner, theme.field);
            if node.origin.is_generated()
                && let Some(score) = node.score
            {
                // A line as strong as the token was surprising.
                let strength = (score.surprisal_nats() / 8.0).clamp(0.0, 1.0) as f32;
                let line = Rect::from_min_max(
                    pos2(rect.left() + 2.0, rect.bottom() - 2.0 - 2.0 * strength),
                    rect.right_bottom() - vec2(2.0, 0.0),
                );
                painter.rect_filled(
                    line,
                    CornerRadius::same(1),
                    theme
                        .field
                        .lerp_to_gamma(theme.surprisal, 0.35 + 0.65 * strength),
                );
            }
        }
        None => chart::hollow_bar(painter, rect, theme.dim),
    }
    if selected {
        painter.rect_stroke(
            rect.expand(1.0),
            corner,
            Stroke::new(2.0, theme.chosen),
            StrokeKind::Inside,
        );
    } else if hovered {
        painter.rect_stroke(
            rect,
            corner,
            Stroke::new(1.0, theme.dim),
            StrokeKind::Inside,
        );
    }
    let color = if node.is_none_or(|node| node.outside) {
        theme.dim
    } else {
        theme.ink
    };
    let at = Align2::CENTER_CENTER
        .align_size_within_rect(chip.galley.size(), rect)
        .min;
    painter.galley_with_override_text_color(at, chip.galley.clone(), color);
}

fn chip_name(ctx: &PanelContext, index: usize, node: Option<&Node>) -> String {
    match node {
        Some(node) => format!("Token {index}, {}", ctx.label(node.token)),
        None => "Open step".to_owned(),
    }
}

fn details(ui: &mut Ui, ctx: &PanelContext, index: usize, node: &Node) {
    ui.label(RichText::new(format!("{}  ·  id {}", ctx.label(node.token), node.token)).monospace());
    ui.label(format!(
        "token {index}, {}{}",
        node.origin.name(),
        if node.outside {
            ", before the context"
        } else {
            ""
        }
    ));
    match node.score {
        Some(score) => ui.label(format!(
            "model P {:.3} %  ·  rank {}  ·  surprisal {:.3} nats",
            100.0 * score.log_prob.exp(),
            score.rank,
            score.surprisal_nats()
        )),
        None => ui.label("nothing before it to predict it from"),
    };
    if let Some(draw) = &node.draw {
        let drawn = draw.u.map_or_else(
            || node.origin.name().to_owned(),
            |u| format!("drawn u = {u:.4}, seed {}", draw.settings.seed),
        );
        ui.label(drawn);
    }
}
