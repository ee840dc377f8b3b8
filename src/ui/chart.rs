//! What the charts share: numbers as text, type, bars and row grounds, the slot beside a panel's title, and what
//! is said where there is nothing to draw. Owns no state; runs on the window's thread.

#[cfg(test)]
mod flows;
mod steps;
mod words;

use egui::{
    Align, Align2, Color32, CornerRadius, FontId, Layout, Painter, Pos2, Rect, Response, Shape,
    Stroke, StrokeKind, TextStyle, Ui, UiBuilder, pos2, vec2,
};

use super::{PanelContext, Theme, card::heading, theme::mono_bold};
use crate::session::{Action, Activity, Session};

pub use steps::{axis, cut_rect, prefill_color, select_steps, typical_max};
pub use words::{
    MINUS, count, drawn_from, filter_name, fit, milliseconds, nice_ceil, number, parse, percent,
    short, signed, text_before, timing_cells, what_if,
};

// ---- type --------------------------------------------------------------------------------------------------------

/// The faces of a chart at the current type scale.
pub struct Faces {
    pub mono: FontId,
    pub bold: FontId,
    pub small: FontId,
    /// Advance of a monospaced digit, in points.
    pub digit: f32,
    /// Height of a line of small type, in points.
    pub line: f32,
}

impl Faces {
    pub fn of(ui: &Ui) -> Self {
        let mono = TextStyle::Monospace.resolve(ui.style());
        let small = TextStyle::Small.resolve(ui.style());
        let (digit, line) = ui
            .ctx()
            .fonts_mut(|fonts| (fonts.glyph_width(&mono, '0'), fonts.row_height(&small)));
        Self {
            bold: FontId::new(mono.size, mono_bold()),
            mono,
            small,
            digit,
            line,
        }
    }

    /// Monospaced, bold for what was chosen.
    pub fn token(&self, strong: bool) -> &FontId {
        if strong { &self.bold } else { &self.mono }
    }

    pub fn small_width(&self, ui: &Ui, text: &str) -> f32 {
        ui.painter()
            .layout_no_wrap(text.to_owned(), self.small.clone(), Color32::PLACEHOLDER)
            .size()
            .x
    }
}

/// Writes text whose right end is at `at`, centred on it vertically; returns where it is.
pub fn text_right(
    painter: &Painter,
    at: Pos2,
    text: impl ToString,
    font: &FontId,
    color: Color32,
) -> Rect {
    painter.text(at, Align2::RIGHT_CENTER, text, font.clone(), color)
}

/// Writes text whose left end is at `at`, centred on it vertically; returns where it is.
pub fn text_left(
    painter: &Painter,
    at: Pos2,
    text: impl ToString,
    font: &FontId,
    color: Color32,
) -> Rect {
    painter.text(at, Align2::LEFT_CENTER, text, font.clone(), color)
}

/// One dim line of small type, cut with "…" where it does not fit; the whole is read on hover.
pub fn note(ui: &mut Ui, rect: Rect, text: &str, theme: &Theme) {
    let mut line = ui.new_child(
        UiBuilder::new()
            .max_rect(rect)
            .layout(Layout::left_to_right(Align::Center)),
    );
    let label = egui::Label::new(egui::RichText::new(text).small().color(theme.dim)).truncate();
    line.add(label).on_hover_text(text);
}

// ---- shapes ------------------------------------------------------------------------------------------------------

/// The part of a row that its bar takes, in points.
pub fn bar_height(row_height: f32) -> f32 {
    (0.66 * row_height).round()
}

pub fn bar(painter: &Painter, rect: Rect, color: Color32) {
    painter.rect_filled(rect, CornerRadius::same(2), color);
}

/// A dashed outline: something that a filter cut, or that is not there yet.
pub fn hollow_bar(painter: &Painter, rect: Rect, color: Color32) {
    let stroke = Stroke::new(1.0, color);
    if rect.width() < 5.0 {
        // Two dashed sides this close together would flicker: one line is calmer.
        let x = painter.round_to_pixel_center(rect.left() + 0.5);
        let ends = [pos2(x, rect.top()), pos2(x, rect.bottom())];
        painter.extend(Shape::dashed_line(&ends, stroke, 3.0, 2.5));
        return;
    }
    let rect = rect.shrink(0.5);
    let corners = [
        rect.left_top(),
        rect.right_top(),
        rect.right_bottom(),
        rect.left_bottom(),
        rect.left_top(),
    ];
    painter.extend(Shape::dashed_line(&corners, stroke, 3.0, 2.5));
}

/// A small triangle that points left at what was chosen.
pub fn mark(painter: &Painter, center: Pos2, size: f32, color: Color32) {
    let half = 0.5 * size;
    let points = vec![
        center + vec2(-half, 0.0),
        center + vec2(half, -half),
        center + vec2(half, half),
    ];
    painter.add(Shape::convex_polygon(points, color, Stroke::NONE));
}

/// The outline of a [`mark`]: something that might have been chosen.
pub fn hollow_mark(painter: &Painter, center: Pos2, size: f32, color: Color32) {
    let half = 0.5 * size;
    let points = vec![
        center + vec2(-half, 0.0),
        center + vec2(half, -half),
        center + vec2(half, half),
    ];
    painter.add(Shape::closed_line(points, Stroke::new(1.2, color)));
}

/// The ground of a row that the pointer or the keyboard is on.
pub fn row_ground(painter: &Painter, rect: Rect, response: &Response, theme: &Theme) {
    let rect = rect.expand2(vec2(4.0, -0.5));
    if response.hovered() {
        painter.rect_filled(rect, CornerRadius::same(4), theme.field);
    }
    if response.has_focus() {
        painter.rect_stroke(
            rect,
            CornerRadius::same(4),
            Stroke::new(1.5, theme.ink),
            StrokeKind::Inside,
        );
    }
}

/// How high a row may be so that `wanted` of them fit into `height`: never above the usual height, and at most an
/// eighth below it; then fewer fit.
pub fn fitting_row_height(usual: f32, height: f32, wanted: usize) -> f32 {
    (height / wanted.max(1) as f32).clamp(0.875 * usual, usual)
}

// ---- panel furniture ---------------------------------------------------------------------------------------------

/// The room beside a panel's title, left of its menu: for the one control that the panel lives by. Laid out from
/// the right.
pub fn header_slot(ui: &mut Ui, title: &str, theme: &Theme, contents: impl FnOnce(&mut Ui)) {
    let title = egui::WidgetText::from(heading(ui.ctx(), title, theme));
    let title_width = title
        .into_galley(
            ui,
            Some(egui::TextWrapMode::Extend),
            f32::INFINITY,
            TextStyle::Small,
        )
        .size()
        .x;
    let card = ui.max_rect();
    let gap = ui.spacing().item_spacing.x;
    let height = ui.spacing().interact_size.y;
    let rect = Rect::from_min_max(
        pos2(card.left() + title_width + 2.0 * gap, card.top()),
        pos2(
            card.right() - ui.spacing().interact_size.x - 0.5 * gap,
            card.top() + height,
        ),
    );
    if rect.width() < 24.0 {
        return;
    }
    let mut slot = ui.new_child(
        UiBuilder::new()
            .id_salt("header slot")
            .max_rect(rect)
            .layout(Layout::right_to_left(Align::Center)),
    );
    slot.set_clip_rect(rect.expand(2.0).intersect(slot.clip_rect()));
    contents(&mut slot);
}

/// A field in which a token is found by text or id; true when Enter was pressed in it. Esc empties it.
pub fn find_field(
    ui: &mut Ui,
    ctx: &PanelContext,
    query: &mut String,
    name: &str,
    hint: &str,
) -> bool {
    let mut entered = false;
    let width = ui.available_width().min(170.0 * ctx.scale);
    let field = egui::TextEdit::singleline(query)
        .hint_text("Find by text or id")
        .font(TextStyle::Small)
        .align(Align2::LEFT_CENTER)
        .desired_width(width - 8.0);
    let enabled = ctx.session.tokenizer().is_some();
    let field = ui
        .add_enabled(enabled, field)
        .accessible_name(name)
        .on_hover_text(hint);
    if field.lost_focus() {
        entered = ui.input(|input| input.key_pressed(egui::Key::Enter));
        if ui.input(|input| input.key_pressed(egui::Key::Escape)) {
            query.clear();
        }
    }
    entered && !query.is_empty()
}

/// A small control in ink, filled while it is the picked one of its kind.
pub fn choice_button(ui: &mut Ui, theme: &Theme, name: &str, on: bool) -> Response {
    let (fill, ink) = if on {
        (theme.ink, theme.panel)
    } else {
        (theme.panel, theme.ink)
    };
    let text = egui::RichText::new(name).small().color(ink);
    let response = ui.add(egui::Button::new(text).fill(fill));
    response.widget_info(|| egui::WidgetInfo::selected(egui::Role::Button, true, on, name));
    response
}

/// What to say where a step has no distribution to draw, and whether computing it again would help.
fn why_no_view(session: &Session) -> (String, bool) {
    let step = session.selected();
    if let Some(loading) = session.loading() {
        return (format!("Loading {}…", loading.name), false);
    }
    if session.model().is_none() {
        return (
            "No model is loaded. Choose one from the model menu.".to_owned(),
            false,
        );
    }
    if session
        .prediction(step)
        .is_some_and(|prediction| prediction.logits.is_none())
    {
        return (
            "The logits of this step were let go for memory.".to_owned(),
            !session.is_running(),
        );
    }
    if session.is_too_long() {
        return (
            "The text is longer than the context, so nothing is predicted from it.".to_owned(),
            false,
        );
    }
    if step < session.len() && step <= session.context_start() {
        let why = if session.context_start() == 0 {
            "Nothing comes before the first token, so no prediction was made of it."
        } else {
            "This token lies before the context: the model never saw it."
        };
        return (why.to_owned(), false);
    }
    match session.activity() {
        Activity::Predicting => ("Predicting…".to_owned(), false),
        _ => ("No prediction yet.".to_owned(), false),
    }
}

/// Whether `value` is another than in the last frame: panels bring what has just been selected into view, once.
pub fn is_news(ui: &Ui, what: &str, value: usize) -> bool {
    let id = ui.scope_id().with(what);
    let before = ui.data_mut(|data| {
        let before = data.get_temp::<usize>(id);
        data.insert_temp(id, value);
        before
    });
    before != Some(value)
}

/// One dim sentence in a panel's place.
pub fn say(ui: &mut Ui, theme: &Theme, sentence: impl Into<String>) {
    let text = egui::RichText::new(sentence).color(theme.dim);
    ui.add(egui::Label::new(text).wrap());
}

/// Says why there is nothing to draw.
pub fn no_view(ui: &mut Ui, ctx: &mut PanelContext) {
    let (why, recomputable) = why_no_view(ctx.session);
    ui.add_space(8.0 * ctx.scale);
    say(ui, ctx.theme, why);
    if recomputable && ui.button("Compute again").clicked() {
        ctx.act(Action::Recompute);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_shrink_a_little_before_fewer_fit() {
        assert_eq!(fitting_row_height(24.0, 600.0, 20), 24.0);
        assert_eq!(fitting_row_height(24.0, 460.0, 20), 23.0);
        assert_eq!(fitting_row_height(24.0, 100.0, 20), 21.0);
    }
}
