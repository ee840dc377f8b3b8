//! One row of both charts: its bars, its numbers, what it says.

use egui::{Id, Rect, Sense, Ui, pos2};
use egui_material_icons::icons::ICON_KEEP;

use super::{
    layout::{Columns, Token},
    shown_temperature,
};
use crate::{
    sampling::Softmax,
    session::StepView,
    ui::{
        PanelContext, Theme,
        chart::{self, Faces},
    },
};

/// One row of a frame.
struct Row<'a> {
    token: &'a Token,
    label: String,
    prob: f64,
    chosen: bool,
    pinned: bool,
}

/// What all rows of one frame share.
pub(super) struct Rows<'a> {
    pub view: &'a StepView,
    pub faces: Faces,
    pub columns: Columns,
    pub softmax: Softmax,
    pub raw: bool,
    /// Logit at either end of the diverging bars.
    pub extent: f64,
    /// Probability at the right end of the softmax bars.
    pub full: f64,
}

impl Rows<'_> {
    fn centred(&self, logit: f32) -> f64 {
        f64::from(logit) - f64::from(self.view.logits.stats.mean)
    }

    pub fn bar_value(&self, logit: f32) -> f64 {
        if self.raw {
            logit.into()
        } else {
            self.centred(logit)
        }
    }

    fn zero(&self) -> f32 {
        0.5 * (self.columns.logit_bar.start + self.columns.logit_bar.end)
    }

    pub fn zero_line(&self, ui: &Ui, theme: &Theme, rect: Rect) {
        let x = ui.painter().round_to_pixel_center(self.zero());
        let ends = [pos2(x, rect.top()), pos2(x, rect.bottom())];
        ui.painter().extend(egui::Shape::dashed_line(
            &ends,
            egui::Stroke::new(1.0, theme.dim),
            3.0,
            3.0,
        ));
    }

    /// Shows one row; true when it was asked to pin or release its token.
    pub fn show(
        &self,
        ui: &Ui,
        ctx: &PanelContext,
        rect: Rect,
        slot: usize,
        token: &Token,
        pinned: bool,
    ) -> bool {
        let row = Row {
            token,
            label: ctx.label(token.id),
            prob: self.softmax.prob(token.logit),
            chosen: self
                .view
                .chosen
                .as_ref()
                .is_some_and(|chosen| chosen.row.id == token.id),
            pinned,
        };
        let response = ui.interact(rect, Id::unique("logits row").with(slot), Sense::click());
        response
            .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, self.name(&row)));
        if response.gained_focus() {
            ui.scroll_to_rect(rect, None);
        }
        if ui.is_rect_visible(rect) {
            chart::row_ground(ui.painter(), rect, &response, ctx.theme);
            self.paint(ui, ctx.theme, rect, &row);
        }
        let toggled = response.clicked() || response.secondary_clicked();
        response.on_hover_ui(|ui| self.details(ui, &row));
        toggled
    }

    fn paint(&self, ui: &Ui, theme: &Theme, rect: Rect, row: &Row) {
        let painter = ui.painter();
        let Self { columns, faces, .. } = self;
        let logit = row.token.logit;
        let y = rect.center().y;
        let half = 0.5 * chart::bar_height(rect.height());
        if row.pinned {
            let font = egui::FontId::new(faces.small.size, ICON_KEEP.font_family());
            chart::text_left(
                painter,
                pos2(rect.left(), y),
                ICON_KEEP.codepoint,
                &font,
                theme.dim,
            );
        }
        let label = chart::fit(&row.label, columns.label_chars);
        chart::text_right(
            painter,
            pos2(columns.label, y),
            label,
            faces.token(row.chosen),
            theme.ink,
        );
        let value = self.bar_value(logit);
        if value.is_finite() {
            let zero = self.zero();
            let length =
                ((value.abs() / self.extent) as f32).min(1.0) * (columns.logit_bar.end - zero);
            let (range, color) = if value < 0.0 {
                (zero - length.max(1.0)..=zero, theme.negative)
            } else {
                (zero..=zero + length.max(1.0), theme.positive)
            };
            chart::bar(
                painter,
                Rect::from_x_y_ranges(range, y - half..=y + half),
                color,
            );
        }
        let centred = chart::signed(self.centred(logit));
        for (x, text) in [
            (columns.centred, centred),
            (columns.raw, chart::number(logit.into())),
        ] {
            if let Some(x) = x {
                chart::text_right(painter, pos2(x, y), text, &faces.mono, theme.dim);
            }
        }
        if row.prob > 0.0 {
            let start = columns.prob_bar.start;
            let length = ((row.prob / self.full) as f32).min(1.0) * (columns.prob_bar.end - start);
            let color = if row.chosen {
                theme.chosen
            } else {
                theme.probability
            };
            let range = start..=start + length.max(1.5);
            chart::bar(
                painter,
                Rect::from_x_y_ranges(range, y - half..=y + half),
                color,
            );
        }
        let prob = chart::percent(row.prob);
        chart::text_right(
            painter,
            pos2(columns.prob, y),
            prob,
            faces.token(row.chosen),
            theme.ink,
        );
    }

    fn name(&self, row: &Row) -> String {
        format!(
            "{}, rank {}, logit {}, z − mean z {}, softmax {} at T {:.2}{}{}",
            row.label,
            row.token.rank,
            chart::number(row.token.logit.into()),
            chart::signed(self.centred(row.token.logit)),
            chart::percent(row.prob),
            shown_temperature(&self.view.settings),
            if row.chosen { ", chosen" } else { "" },
            if row.pinned { ", pinned" } else { "" }
        )
    }

    fn details(&self, ui: &mut Ui, row: &Row) {
        ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
        let Token { id, logit, rank } = *row.token;
        let logits = &self.view.logits;
        let temperature = shown_temperature(&self.view.settings);
        ui.label(egui::RichText::new(format!("{}  ·  id {id}", row.label)).monospace());
        ui.label(format!(
            "rank {} of {}",
            chart::count(rank),
            chart::count(logits.values.len())
        ));
        let (centred, mean) = (self.centred(logit), logits.stats.mean);
        ui.label(format!(
            "z {logit:.5}  ·  z − mean z {centred:+.5}  ·  mean z {mean:.5}"
        ));
        ui.label(format!(
            "softmax {:.5} % at T {temperature:.2}",
            100.0 * row.prob
        ));
        ui.label(format!(
            "softmax {:.5} % at T 1, model P",
            100.0 * logits.stats.prob(logit)
        ));
        ui.label(if row.pinned {
            "Click to let go"
        } else {
            "Click to pin"
        });
    }
}
