//! How one iteration is drawn: the sequence as boxes above, the four phases side by side below.

use egui::{FontFamily, FontId, Rangef, Rect, Stroke, StrokeKind, Ui, pos2, vec2};

use crate::{
    session::{Iteration, LoopPhase, SHOWN_TOKENS, Session, TokenRow, Why},
    ui::{
        Theme,
        chart::{self, Faces},
        theme::semibold,
    },
};

use super::words;

/// Where the phases are, side by side, in points.
pub(super) struct Regions {
    predict: Rangef,
    select: Rangef,
    append: Rangef,
    stop: Rangef,
}

impl Regions {
    pub fn fit(x: Rangef) -> Self {
        let gap = 10.0;
        let width = (x.span() - 3.0 * gap).max(0.0);
        let mut left = x.min;
        let mut next = |share: f32| {
            let column = Rangef::new(left, left + share * width);
            left = column.max + gap;
            column
        };
        Self {
            predict: next(0.315),
            select: next(0.235),
            append: next(0.145),
            stop: next(0.305),
        }
    }

    pub fn columns(&self) -> [Rangef; 4] {
        [self.predict, self.select, self.append, self.stop]
    }
}

/// Height of the boxes of the sequence, in points.
fn box_height(faces: &Faces) -> f32 {
    faces.line + 6.0
}

/// Model P of a full bar: one scale for all iterations on show, so that they can be compared.
pub(super) fn full_bar<'a>(shown: impl Iterator<Item = &'a Iteration>) -> f64 {
    let most_likely = shown.filter_map(|iteration| iteration.top.first());
    let largest = most_likely.map(|row| row.prob).fold(0.0, f64::max);
    chart::nice_ceil(largest).min(1.0)
}

/// Height of a line below the boxes, in points.
fn line_height(faces: &Faces) -> f32 {
    (1.12 * faces.line).round()
}

/// Type for a panel of this size, in points: larger where three iterations leave room, as on a projector.
pub(super) fn zoomed(mut faces: Faces, size: egui::Vec2, scale: f32) -> Faces {
    const LARGEST: f32 = 1.8;
    // The narrowest panel in which nothing is cut at 100 % type.
    let least = vec2(560.0 * scale, 3.0 * row_height(&faces));
    let zoom = (size / least).min_elem().clamp(1.0, LARGEST);
    for font in [&mut faces.small, &mut faces.mono, &mut faces.bold] {
        font.size *= zoom;
    }
    faces.line *= zoom;
    faces.digit *= zoom;
    faces
}

/// Height of one iteration, in points.
pub(super) fn row_height(faces: &Faces) -> f32 {
    box_height(faces) + line_height(faces) * SHOWN_TOKENS as f32 + 22.0
}

pub(super) struct Painting<'a> {
    pub ui: &'a Ui,
    pub session: &'a Session,
    pub theme: &'a Theme,
    pub faces: &'a Faces,
    pub iteration: &'a Iteration,
    pub reached: LoopPhase,
    /// Model P of a full bar, in all iterations on show.
    pub full: f64,
}

impl Painting<'_> {
    pub fn paint(&self, rect: Rect) {
        let inner = rect.shrink2(vec2(0.0, 6.0));
        let boxes = Rect::from_min_size(inner.min, vec2(inner.width(), box_height(self.faces)));
        self.boxes(boxes);
        let top = boxes.bottom() + 6.0;
        let regions = Regions::fit(inner.x_range());
        let column = |x: Rangef| Rect::from_x_y_ranges(x, top..=inner.bottom());
        self.predict(column(regions.predict));
        if self.reached >= LoopPhase::Select {
            self.select(column(regions.select));
        }
        if self.reached >= LoopPhase::Append {
            self.append(column(regions.append));
        }
        if self.reached >= LoopPhase::Stop {
            self.stop(column(regions.stop));
        }
        let line = rect.bottom() - 0.5;
        self.ui
            .painter()
            .hline(rect.x_range(), line, self.theme.hairline());
    }

    fn mono(&self) -> FontId {
        FontId::new(self.faces.small.size, FontFamily::Monospace)
    }

    fn bold(&self) -> FontId {
        FontId::new(self.faces.small.size, self.faces.bold.family.clone())
    }

    fn write(
        &self,
        column: Rect,
        line: f32,
        text: impl Into<String>,
        font: &FontId,
        color: egui::Color32,
    ) {
        let at = pos2(
            column.left(),
            column.top() + (line + 0.5) * line_height(self.faces),
        );
        chart::text_left(
            &self
                .ui
                .painter()
                .with_clip_rect(column.intersect(self.ui.clip_rect())),
            at,
            text.into(),
            font,
            color,
        );
    }

    /// The sequence that the iteration began with, its end in view; and the new token once it is appended.
    fn boxes(&self, rect: Rect) {
        let (theme, painter) = (self.theme, self.ui.painter());
        let font = self.mono();
        let gap = 3.0;
        let width_of = |text: &str, font: &FontId| {
            painter
                .layout_no_wrap(text.to_owned(), font.clone(), theme.ink)
                .size()
                .x
                + 10.0
        };
        let appended = self.reached >= LoopPhase::Append;
        let last = words::label(self.session, self.appended_token());
        let last_width = if appended {
            width_of(&last, &self.bold())
        } else {
            28.0
        };
        // From the end backwards, as many as fit.
        let count = words::count_before(self.session, self.iteration.index);
        let note_width = self.faces.small_width(self.ui, &count) + 8.0;
        let room = rect.width() - last_width - gap - note_width;
        let mut tokens = Vec::new();
        let mut used = 0.0;
        let first = self.session.context_start();
        for index in (first..self.iteration.index).rev() {
            let Some(node) = self.session.node(index) else {
                break;
            };
            let text = words::label(self.session, Some(node.token));
            let width = width_of(&text, &font);
            if used + width + gap > room {
                break;
            }
            used += width + gap;
            tokens.push((text, width, node.origin.is_generated()));
        }
        let mut x = rect.left();
        let y = rect.center().y;
        let written = chart::text_left(painter, pos2(x, y), count, &self.faces.small, theme.dim);
        x = written.right() + 8.0;
        for (text, width, generated) in tokens.into_iter().rev() {
            let place = Rect::from_min_size(pos2(x, rect.top()), vec2(width, rect.height()));
            painter.rect_filled(place, 4, theme.field);
            let color = if generated { theme.ink } else { theme.dim };
            chart::text_left(painter, pos2(x + 5.0, y), text, &font, color);
            x += width + gap;
        }
        let place = Rect::from_min_size(pos2(x, rect.top()), vec2(last_width, rect.height()));
        if appended {
            painter.rect_filled(place, 4, theme.field);
            painter.rect_stroke(place, 4, Stroke::new(2.0, theme.chosen), StrokeKind::Inside);
            chart::text_left(painter, pos2(x + 5.0, y), last, &self.bold(), theme.ink);
        } else {
            chart::hollow_bar(painter, place, theme.dim);
        }
    }

    fn appended_token(&self) -> Option<u32> {
        self.session
            .node(self.iteration.index)
            .map(|node| node.token)
    }

    fn selected_id(&self) -> Option<u32> {
        let selection = self.iteration.selection.as_ref()?;
        (self.reached >= LoopPhase::Select).then_some(selection.row.id)
    }

    fn predict(&self, column: Rect) {
        if self.iteration.top.is_empty() {
            self.write(
                column,
                0.0,
                "logits let go for memory",
                &self.faces.small,
                self.theme.dim,
            );
            return;
        }
        let selected = self.selected_id();
        let mut rows: Vec<&TokenRow> = self.iteration.top.iter().collect();
        // A selected token from further down takes the last place; the order stays that of probability.
        if let Some(selection) = &self.iteration.selection
            && selected.is_some()
            && !rows.iter().any(|row| row.id == selection.row.id)
        {
            rows.truncate(SHOWN_TOKENS - 1);
            rows.push(&selection.row);
        }
        for (line, row) in rows.into_iter().enumerate() {
            self.candidate(column, line as f32, row, selected == Some(row.id));
        }
    }

    /// One token of the distribution: label, bar of model P, drawn-from in per cent.
    fn candidate(&self, column: Rect, line: f32, row: &TokenRow, selected: bool) {
        let (theme, painter) = (self.theme, self.ui.painter());
        let mono = self.mono();
        let font = if selected { self.bold() } else { mono };
        let digit = 0.62 * self.faces.small.size;
        let y = column.top() + (line + 0.5) * line_height(self.faces);
        let chars = ((0.37 * column.width() / digit) as usize).clamp(2, 12);
        let label_right = column.left() + chars as f32 * digit;
        let number = column.right();
        let color = if row.cut_by.is_some() && !selected {
            theme.dim
        } else {
            theme.ink
        };
        let label = chart::fit(&words::label(self.session, Some(row.id)), chars);
        chart::text_right(painter, pos2(label_right, y), label, &font, color);
        let text = chart::drawn_from(row, self.iteration.is_greedy);
        chart::text_right(painter, pos2(number, y), text, &font, color);
        let (left, right) = (label_right + 6.0, number - 8.2 * digit);
        if right <= left {
            return;
        }
        let length = ((row.prob / self.full) as f32).clamp(0.0, 1.0) * (right - left);
        let half = 0.36 * self.faces.line;
        let bar = Rect::from_x_y_ranges(left..=left + length.max(1.5), y - half..=y + half);
        let fill = if selected {
            theme.chosen
        } else {
            theme.probability
        };
        if row.cut_by.is_some() {
            chart::hollow_bar(painter, bar, if selected { fill } else { theme.dim });
        } else {
            chart::bar(painter, bar, fill);
        }
        if selected {
            let at = pos2(number - 7.4 * digit, y);
            chart::mark(painter, at, 0.45 * self.faces.line, theme.chosen);
        }
    }

    fn select(&self, column: Rect) {
        let theme = self.theme;
        let Some(selection) = &self.iteration.selection else {
            return;
        };
        let label = words::label(self.session, Some(selection.row.id));
        let why = words::why(selection);
        for (line, text) in why.iter().take(2).enumerate() {
            self.write(column, line as f32, text, &self.mono(), theme.ink);
        }
        if let Some(which) = why.get(2) {
            let y = column.top() + 4.5 * line_height(self.faces);
            let at = pos2(column.right(), y);
            chart::text_right(self.ui.painter(), at, which, &self.faces.small, theme.dim);
        }
        if let Why::Drawn { u, from, to, .. } = selection.why {
            let top = column.top() + 2.4 * line_height(self.faces);
            let strip = Rect::from_min_max(
                pos2(column.left(), top),
                pos2(column.right(), top + 0.9 * self.faces.line),
            );
            self.cumulative(strip, u, from, to);
        }
        self.write(column, 4.0, label, &self.bold(), theme.chosen);
    }

    /// The cumulative sum of drawn-from from 0 to 1: one part a token, the selected one's filled, a line at u.
    fn cumulative(&self, strip: Rect, u: f64, from: f64, to: f64) {
        let (theme, painter) = (self.theme, self.ui.painter());
        let x = |p: f64| strip.left() + p.clamp(0.0, 1.0) as f32 * strip.width();
        painter.rect_filled(strip, 2, theme.field);
        let mut left = 0.0;
        for &right in &self.iteration.cumulative {
            let part = Rect::from_x_y_ranges(x(left)..=x(right), strip.y_range());
            left = right;
            let gap = if part.width() > 3.0 { 1.0 } else { 0.0 };
            let part = part.with_max_x(part.right() - gap);
            painter.rect_filled(part, 0, theme.probability);
        }
        let chosen = Rect::from_x_y_ranges(x(from)..=x(to).max(x(from) + 1.5), strip.y_range());
        painter.rect_filled(chosen, 0, theme.chosen);
        let line = strip.expand2(vec2(0.0, 3.0));
        painter.vline(x(u), line.y_range(), Stroke::new(2.0, theme.ink));
    }

    fn append(&self, column: Rect) {
        let theme = self.theme;
        let index = self.iteration.index;
        self.write(
            column,
            0.0,
            format!("token {index}"),
            &self.faces.small,
            theme.dim,
        );
        let label = words::label(self.session, self.appended_token());
        let digit = 0.62 * self.faces.small.size;
        let chars = ((column.width() / digit) as usize).max(2);
        self.write(
            column,
            1.0,
            chart::fit(&label, chars),
            &self.bold(),
            theme.ink,
        );
        let length = format!("length {}", index + 1);
        self.write(column, 2.0, length, &self.faces.small, theme.dim);
    }

    fn stop(&self, column: Rect) {
        let theme = self.theme;
        let Some(test) = &self.iteration.stop else {
            for (line, text) in ["not asked:", "taken by hand"].into_iter().enumerate() {
                self.write(column, line as f32, text, &self.faces.small, theme.dim);
            }
            return;
        };
        let decided = test.answers.iter().position(|answer| answer.yes);
        for (line, answer) in test.answers.iter().enumerate() {
            // What comes after a yes was not asked.
            if decided.is_some_and(|at| line > at) {
                break;
            }
            let (question, yes) = words::stop_line(answer);
            let font = if answer.yes {
                &FontId::new(self.faces.small.size, semibold())
            } else {
                &self.faces.small
            };
            let color = if answer.yes { theme.ink } else { theme.dim };
            self.write(column, line as f32, yes, font, color);
            let answer_width = self.faces.small_width(self.ui, "yes") + self.faces.digit;
            let rest = column.with_min_x(column.left() + answer_width);
            self.write(rest, line as f32, question, font, color);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::theme;

    /// Inner width of the panel beside Attention at 1440 × 900, without its scroll bar.
    const DOCKED: f32 = 500.0;

    #[test]
    fn nothing_is_cut_at_the_docked_width() {
        let ctx = egui::Context::default();
        ctx.set_fonts(theme::fonts());
        Theme::LIGHT.apply(&ctx, 1.0);
        let _ = ctx.run_ui(egui::RawInput::default(), |ui| {
            let faces = Faces::of(ui);
            let regions = Regions::fit(Rangef::new(0.0, DOCKED));
            let width = |text: &str, font: FontId| {
                let painter = ui.painter();
                painter
                    .layout_no_wrap(text.to_owned(), font, theme::Theme::LIGHT.ink)
                    .size()
                    .x
            };
            let small = faces.small.clone();
            let mono = FontId::new(small.size, FontFamily::Monospace);
            let strong = FontId::new(small.size, semibold());
            for text in [
                "0.8227 – 0.8376",
                "u 0.8227 in",
                "greedy: largest",
                "picked by hand",
            ] {
                assert!(width(text, mono.clone()) <= regions.select.span(), "{text}");
            }
            for text in ["length 1024", "token 1023"] {
                assert!(
                    width(text, small.clone()) <= regions.append.span(),
                    "{text}"
                );
            }
            let answers = regions.stop.span() - faces.small_width(ui, "yes") - faces.digit;
            for text in [
                "end of text",
                "context 1024/1024",
                "new 1000/1000",
                "stop string",
            ] {
                assert!(width(text, strong.clone()) <= answers, "{text}");
                assert!(width(text, small.clone()) <= answers, "{text}");
            }
            let predict = regions.predict.span();
            assert!(width("logits let go for memory", small.clone()) <= predict);
        });
    }
}
