//! Sequence panel: the chain rule over the text. One row a token with its factor P(x_t | x_<t) as a bar and the
//! product so far; Σ log P, perplexity; a range of tokens; what the first factor is conditioned on.
//!
//! Reads scores, which outlive logits that were let go for memory. Runs on the window's thread.

mod words;

pub use words::table;

use egui::{DragValue, Id, Modifiers, Rect, Response, RichText, ScrollArea, Sense, Ui, pos2, vec2};

use super::{
    Panel, PanelContext, Theme,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    export::Facts,
    session::{Action, Chain, Condition, Origin, Session, power_of_ten},
};

const SUBTITLE: &str = "chain rule: bar and % P(token | all tokens before it), model P, 0 to 100 % · product so far from the first token of the range";

/// What the panel remembers.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct SequenceState {
    /// First token of the picked range and the one after its last; `None` is the whole text.
    #[serde(skip)]
    range: Option<(usize, usize)>,
    /// The selection that was last scrolled to.
    #[serde(skip)]
    scrolled_to: Option<usize>,
    /// The pointer was on a row in the last frame.
    #[serde(skip)]
    hovering: bool,
}

impl SequenceState {
    /// The picked range in a text of `len` tokens.
    fn range(&self, len: usize) -> (usize, usize) {
        let (start, end) = self.range.unwrap_or((0, len));
        let end = end.min(len);
        (start.min(end), end)
    }

    fn pick(&mut self, start: usize, end: usize, len: usize) {
        let (start, end) = (start.min(len), end.clamp(start.min(len), len));
        self.range = ((start, end) != (0, len)).then_some((start, end));
    }
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    Card::new(Panel::Sequence, SUBTITLE).show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            chart::header_slot(ui, Panel::Sequence.title(), ctx.theme, |ui| {
                condition(ui, session, ctx.actions)
            });
            if session.is_empty() {
                chart::no_view(ui, ctx);
            } else {
                content(ui, ctx);
            }
        },
    )
}

/// The picked range with its totals, and what the first factor is conditioned on.
pub fn add_facts(ctx: &PanelContext, facts: &mut Facts) {
    let session = ctx.session;
    let range = ctx.panels.sequence.range(session.len());
    facts.add("condition", session.condition().name());
    facts.add(
        "range",
        format!("tokens {} up to, not including, {}", range.0, range.1),
    );
    facts.add("totals", words::totals(session, range).join(" "));
}

/// The choice of what comes before the first token.
fn condition(ui: &mut Ui, session: &Session, actions: &mut Vec<Action>) {
    let current = session.condition();
    let fixed = session.condition_is_fixed();
    ui.add_enabled_ui(fixed.is_none(), |ui| {
        let shown = format!("first factor given {}", current.name());
        let text = RichText::new(&shown).small();
        let choice = egui::ComboBox::from_id_salt("condition of the first factor")
            .selected_text(text)
            .show_ui(ui, |ui| {
                for condition in Condition::ALL {
                    let words = words::condition(condition);
                    if ui.selectable_label(current == condition, words).clicked() {
                        actions.push(Action::Condition(condition));
                    }
                }
            })
            .response;
        choice.widget_info(|| {
            egui::WidgetInfo::labeled(egui::Role::ComboBox, true, format!("Condition: {shown}"))
        });
        choice
            .on_hover_text("An end-of-text before the text moves every position by one")
            .on_disabled_hover_text(fixed.unwrap_or_default());
    });
}

fn content(ui: &mut Ui, ctx: &mut PanelContext) {
    let session = ctx.session;
    let mut state = std::mem::take(&mut ctx.panels.sequence);
    let len = session.len();
    range_controls(ui, session, ctx.theme, &mut state);
    let range = state.range(len);
    for line in words::totals(session, range) {
        ui.add(egui::Label::new(RichText::new(&line).small()).truncate())
            .on_hover_text(&line);
    }
    rows(ui, ctx, &mut state, range);
    ctx.panels.sequence = state;
}

fn range_controls(ui: &mut Ui, session: &Session, theme: &Theme, state: &mut SequenceState) {
    let len = session.len();
    ui.horizontal_wrapped(|ui| {
        let (mut start, mut last) = {
            let (start, end) = state.range(len);
            (start, end.saturating_sub(1))
        };
        ui.label(RichText::new("Tokens").small());
        let first = ui
            .add(DragValue::new(&mut start).range(0..=len.saturating_sub(1)))
            .accessible_name("First token of the range")
            .on_hover_text("First token of the range, counted from 0");
        ui.label(RichText::new("to").small());
        let end = ui
            .add(DragValue::new(&mut last).range(0..=len.saturating_sub(1)))
            .accessible_name("Last token of the range")
            .on_hover_text("Last token of the range; Shift+click on a row sets it too");
        if first.changed() || end.changed() {
            state.pick(start, last.max(start) + 1, len);
        }
        let typed = session
            .path_nodes()
            .take_while(|node| node.origin == Origin::Typed)
            .count();
        let picked = state.range(len);
        for (name, from, to) in [
            ("Whole text", 0, len),
            ("Prompt", 0, typed),
            ("Continuation", typed, len),
        ] {
            let on = picked == (from, to);
            if from < to && chart::choice_button(ui, theme, name, on).clicked() {
                state.pick(from, to, len);
            }
        }
    });
}

// ---- rows --------------------------------------------------------------------------------------------------------

/// Right ends of the columns of a row, and where its bar is, in points.
#[derive(Clone, Copy)]
struct Columns {
    index: f32,
    label: f32,
    label_chars: usize,
    bar: (f32, f32),
    prob: f32,
    product: f32,
}

impl Columns {
    fn fit(rect: Rect, digit: f32) -> Self {
        let gap = digit;
        let product = rect.right() - 4.0;
        let prob = product - 13.0 * digit - gap;
        let bar_end = prob - 7.0 * digit - gap;
        let index = rect.left() + 4.0 * digit;
        // The bar keeps a fair part of what is left, labels take up to fourteen letters.
        let room = (bar_end - index - 2.0 * gap).max(0.0);
        let label_chars = ((0.45 * room / digit) as usize).clamp(3, 14);
        let label = index + gap + label_chars as f32 * digit;
        Self {
            index,
            label,
            label_chars,
            bar: (label + gap, bar_end.max(label + gap)),
            prob,
            product,
        }
    }
}

fn rows(ui: &mut Ui, ctx: &mut PanelContext, state: &mut SequenceState, range: (usize, usize)) {
    let session = ctx.session;
    let faces = Faces::of(ui);
    let height = ctx.row_height();
    let header = ui
        .allocate_exact_size(vec2(ui.available_width(), faces.line), Sense::hover())
        .0;
    let columns = Columns::fit(header, faces.digit);
    for (x, text) in [
        (columns.label, "token"),
        (columns.prob, "P"),
        (columns.product, "product"),
    ] {
        chart::text_right(
            ui.painter(),
            pos2(x, header.center().y),
            text,
            &faces.small,
            ctx.theme.dim,
        );
    }
    // What this panel has set it also takes back, when the pointer leaves.
    if std::mem::take(&mut state.hovering) {
        ctx.panels.hovered_token = None;
    }
    let moved = state.scrolled_to != Some(session.selected());
    state.scrolled_to = Some(session.selected());
    ScrollArea::vertical()
        .auto_shrink(false)
        .show_viewport(ui, |ui, viewport| {
            let len = session.len();
            let size = vec2(ui.available_width(), height * len as f32);
            let (area, _) = ui.allocate_exact_size(size, Sense::hover());
            let at = |index: usize| {
                Rect::from_min_size(
                    pos2(area.left(), area.top() + index as f32 * height),
                    vec2(area.width(), height),
                )
            };
            if moved {
                let shown = session.selected().min(len.saturating_sub(1));
                ui.scroll_to_rect(at(shown), None);
            }
            let first = ((viewport.top() / height).floor().max(0.0) as usize).min(len);
            let last = ((viewport.bottom() / height).ceil().max(0.0) as usize).min(len);
            let mut chain = session.chain(range.0..first.max(range.0));
            for index in first..last {
                let within = (range.0..range.1).contains(&index);
                let factor = session
                    .node(index)
                    .and_then(|node| node.score)
                    .map(|score| score.log_prob);
                if within {
                    chain.push(factor);
                }
                let row = Row {
                    index,
                    factor,
                    product: within.then_some(chain),
                };
                row.show(ui, ctx, state, &faces, columns, at(index));
            }
        });
}

struct Row {
    index: usize,
    /// log P in nats.
    factor: Option<f64>,
    /// The chain up to and including this token, inside the range.
    product: Option<Chain>,
}

impl Row {
    fn show(
        &self,
        ui: &Ui,
        ctx: &mut PanelContext,
        state: &mut SequenceState,
        faces: &Faces,
        columns: Columns,
        rect: Rect,
    ) {
        let session = ctx.session;
        let Some(node) = session.node(self.index) else {
            return;
        };
        let label = ctx.label(node.token);
        let selected = session.selected() == self.index;
        let response = ui.interact(
            rect,
            Id::unique("sequence row").with(self.index),
            Sense::click(),
        );
        let name = words::row_name(session, self.index, &label, self.product);
        response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
        if response.gained_focus() {
            ui.scroll_to_rect(rect, None);
        }
        chart::row_ground(ui.painter(), rect, &response, ctx.theme);
        self.paint(ui, ctx, faces, columns, rect, &label, selected);
        if response.clicked() {
            if ui.input(|input| input.modifiers.matches_logically(Modifiers::SHIFT)) {
                let (start, _) = state.range(session.len());
                let start = if start <= self.index { start } else { 0 };
                state.pick(start, self.index + 1, session.len());
            } else {
                ctx.act(Action::Select(self.index));
            }
        }
        if response.hovered() {
            ctx.panels.hovered_token = Some(self.index);
            state.hovering = true;
        }
        response.on_hover_text(name);
    }

    #[expect(clippy::too_many_arguments, reason = "what one row is drawn from")]
    fn paint(
        &self,
        ui: &Ui,
        ctx: &PanelContext,
        faces: &Faces,
        columns: Columns,
        rect: Rect,
        label: &str,
        selected: bool,
    ) {
        let (theme, painter) = (ctx.theme, ui.painter());
        let y = rect.center().y;
        let within = self.product.is_some();
        let ink = if within { theme.ink } else { theme.dim };
        let write = |x: f32, text: String, font: &egui::FontId, color| {
            chart::text_right(painter, pos2(x, y), text, font, color)
        };
        write(
            columns.index,
            self.index.to_string(),
            &faces.small,
            theme.dim,
        );
        write(
            columns.label,
            chart::fit(label, columns.label_chars),
            faces.token(selected),
            ink,
        );
        let (left, right) = columns.bar;
        let half = 0.5 * chart::bar_height(rect.height());
        match self.factor {
            Some(log_prob) => {
                let track = Rect::from_x_y_ranges(left..=right, y - half..=y + half);
                painter.rect_filled(track, 2, theme.field);
                let length = (log_prob.exp().clamp(0.0, 1.0) as f32 * (right - left)).max(1.0);
                let bar = Rect::from_x_y_ranges(left..=left + length, y - half..=y + half);
                let color = if selected {
                    theme.chosen
                } else {
                    theme.probability
                };
                if within {
                    chart::bar(painter, bar, color);
                } else {
                    chart::hollow_bar(painter, bar, theme.dim);
                }
                write(
                    columns.prob,
                    chart::percent(log_prob.exp()),
                    faces.token(selected),
                    ink,
                );
            }
            None => {
                let why = words::no_factor(ctx.session, self.index);
                chart::text_left(painter, pos2(left, y), why, &faces.small, theme.dim);
                write(columns.prob, "–".to_owned(), &faces.mono, theme.dim);
            }
        }
        let product = match self.product {
            Some(chain) if chain.factors > 0 => power_of_ten(chain.sum_nats),
            _ => "–".to_owned(),
        };
        write(columns.product, product, &faces.mono, ink);
        if selected {
            let line = Rect::from_min_size(rect.left_top(), vec2(3.0, rect.height()))
                .shrink2(vec2(0.0, 3.0));
            painter.rect_filled(line.translate(vec2(-4.0, 0.0)), 1, theme.chosen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picked_range_stays_within_the_text() {
        let mut state = SequenceState::default();
        assert_eq!(state.range(7), (0, 7));
        state.pick(2, 5, 7);
        assert_eq!(state.range(7), (2, 5));
        assert_eq!(state.range(3), (2, 3), "the text became shorter");
        assert_eq!(state.range(0), (0, 0));
        state.pick(9, 1, 7);
        assert_eq!(state.range(7), (7, 7));
        state.pick(0, 7, 7);
        assert_eq!(state.range(9), (0, 9), "the whole text grows with it");
    }

    #[test]
    fn columns_never_cross() {
        for width in [10.0, 200.0, 500.0, 1400.0] {
            let rect = Rect::from_min_size(pos2(0.0, 0.0), vec2(width, 20.0));
            let columns = Columns::fit(rect, 8.0);
            assert!(columns.bar.0 <= columns.bar.1, "{width}");
            assert!((3..=14).contains(&columns.label_chars));
        }
    }
}
