//! Drawing the shown step again: a line at the panel's foot with its two buttons.

use egui::{Align, Button, Layout, Rect, Response, RichText, Ui, UiBuilder};

use crate::{
    session::{Action, Redraw, Session},
    ui::{PanelContext, chart},
};

/// What another draw led to, or the longest of `hints` that fits while there is none; "Draw again" and "Take" at the
/// right, unless on paper.
pub(super) fn foot(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    rect: Rect,
    redraw: Option<&Redraw>,
    hints: &[String; 3],
) {
    let mut right = ui.new_child(
        UiBuilder::new()
            .id_salt("draw again")
            .max_rect(rect)
            .layout(Layout::right_to_left(Align::Center)),
    );
    right.spacing_mut().button_padding = egui::vec2(5.0, 0.0);
    right.spacing_mut().interact_size.y = rect.height();
    let can = ctx.session.can_redraw();
    let on_paper = ctx.panels.on_paper;
    if !on_paper
        && small(&mut right, "Draw again", can)
            .on_hover_text("Another draw of this step; the text stays until it is taken")
            .on_disabled_hover_text("Greedy has no draw")
            .clicked()
    {
        ctx.act(Action::Redraw);
    }
    if !on_paper && redraw.is_some() && small(&mut right, "Take", true).clicked() {
        ctx.act(Action::TakeRedraw);
    }
    let end = right.min_rect().left() - 6.0;
    let line = rect.with_max_x(end.max(rect.left()));
    let said = match redraw {
        Some(redraw) => words(ctx.session, redraw),
        None => {
            let faces = chart::Faces::of(ui);
            let fits = |hint: &&String| faces.small_width(ui, hint) <= line.width();
            let fitting = hints.iter().find(fits).or(hints.last());
            fitting.cloned().unwrap_or_default()
        }
    };
    chart::note(ui, line, &said, ctx.theme);
}

fn small(ui: &mut Ui, name: &str, enabled: bool) -> Response {
    ui.add_enabled(enabled, Button::new(RichText::new(name).small()))
}

/// The same in the panel's menu, for panels too low for the line.
pub(super) fn menu(ui: &mut Ui, session: &Session, actions: &mut Vec<Action>) {
    if ui
        .add_enabled(session.can_redraw(), Button::new("Draw this step again"))
        .clicked()
    {
        actions.push(Action::Redraw);
    }
    if session.redraw().is_some() && ui.button("Take the draw").clicked() {
        actions.push(Action::TakeRedraw);
    }
}

pub(super) fn words(session: &Session, redraw: &Redraw) -> String {
    let label = session.tokenizer().map_or_else(
        || format!("#{}", redraw.row.id),
        |tokenizer| tokenizer.label(redraw.row.id),
    );
    format!(
        "draw {}: u {:.3} → {label}, not taken",
        redraw.redraw.saturating_add(1),
        redraw.u
    )
}
