//! Cost panel: time of the prefill and of each decode step as measured, beside the same tokens put through the model
//! again without the KV cache; and how many tokens that is at each step.
//!
//! Reads times that outlive what is let go for memory. Runs on the window's thread.

mod plot;
mod words;

use egui::{Grid, Response, RichText, ScrollArea, Ui};

pub use words::table;

use super::{
    Panel, PanelContext, Theme,
    card::Card,
    chart::{self, Faces},
};
use crate::session::{Action, Cost, MeasurementState, Session};

const SUBTITLE: &str = "model time in ms until a pass's logits are read back, and the tokens it puts through the model, against the tokens in the sequence · recording attention and the pace are not in it · cut where it ends above the axis";

/// The chart is no lower, in points at 100 % type: then the panel scrolls.
const LEAST_CHART_POINTS: f32 = 170.0;

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    Card::new(Panel::Cost, SUBTITLE).show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            if !ctx.panels.on_paper {
                chart::header_slot(ui, Panel::Cost.title(), ctx.theme, |ui| {
                    measure_button(ui, ctx)
                });
            }
            if session.toy().is_some() {
                chart::say(ui, ctx.theme, words::NOTHING_COMPUTED);
            } else if session.is_empty() {
                chart::no_view(ui, ctx);
            } else {
                content(ui, ctx);
            }
        },
    )
}

/// The control that the panel lives by: measure, or give it up.
fn measure_button(ui: &mut Ui, ctx: &mut PanelContext) {
    let session = ctx.session;
    let state = session.measurement().map(|measurement| &measurement.state);
    if let Some(MeasurementState::Running { .. }) = state {
        if ui.button("Cancel measurement").clicked() {
            ctx.act(Action::CancelMeasurement);
        }
        return;
    }
    let refusal = session.cannot_measure();
    let again = refusal.is_none() && !session.is_empty() && session.cost().is_measured();
    let name = if again {
        "Measure again without cache"
    } else {
        "Measure without cache"
    };
    let button = ui
        .add_enabled(refusal.is_none(), egui::Button::new(name))
        .on_hover_text(words::WHAT_IS_MEASURED)
        .on_disabled_hover_text(refusal.unwrap_or_default());
    if button.clicked() {
        ctx.act(Action::MeasureUncached);
    }
}

fn content(ui: &mut Ui, ctx: &mut PanelContext) {
    let session = ctx.session;
    let cost = session.cost();
    ScrollArea::vertical()
        .id_salt("cost")
        .auto_shrink(false)
        .show(ui, |ui| {
            totals(ui, ctx.theme, &cost);
            for line in words::lines(session, &cost) {
                ui.add(egui::Label::new(RichText::new(line).small()).wrap());
            }
            progress(ui, ctx.theme, session);
            let height = ui.available_height().max(LEAST_CHART_POINTS * ctx.scale);
            ui.allocate_ui(egui::vec2(ui.available_width(), height), |ui| {
                plot::show(ui, ctx, &cost);
            });
        });
}

/// With the cache beside without it: tokens through the model, time, and how a step changes.
fn totals(ui: &mut Ui, theme: &Theme, cost: &Cost) {
    let faces = Faces::of(ui);
    let grid = Grid::new("cost totals")
        .num_columns(4)
        .min_row_height(1.5 * faces.line)
        .spacing([2.0 * faces.digit, 0.0]);
    ScrollArea::horizontal()
        .id_salt("cost totals")
        .show(ui, |ui| {
            grid.show(ui, |ui| {
                let [head, rows @ ..] = words::totals(cost);
                for cell in head {
                    ui.label(RichText::new(cell).small().color(theme.dim));
                }
                ui.end_row();
                for [name, cells @ ..] in rows {
                    ui.label(RichText::new(name).small());
                    for cell in cells {
                        ui.label(RichText::new(cell).monospace().color(theme.ink));
                    }
                    ui.end_row();
                }
            });
        });
}

fn progress(ui: &mut Ui, theme: &Theme, session: &Session) {
    let Some(measurement) = session.measurement() else {
        return;
    };
    match &measurement.state {
        MeasurementState::Running { done, planned } => {
            let share = *done as f32 / (*planned).max(1) as f32;
            let text = words::progress(*done, *planned, session.is_running());
            let bar = egui::ProgressBar::new(share)
                .desired_height(0.8 * ui.spacing().interact_size.y)
                .fill(theme.dim.gamma_multiply(0.45))
                .text(RichText::new(&text).small().color(theme.ink));
            ui.add(bar);
        }
        MeasurementState::Failed(message) => {
            let text = RichText::new(format!("The measurement ended. {message}")).small();
            ui.add(egui::Label::new(text).wrap());
        }
        MeasurementState::Cancelled | MeasurementState::Done => {}
    }
}
