//! Text panel: prompt and continuation as one editable text, generated tokens tinted by surprisal.

use std::sync::Arc;

use egui::{
    Color32, FontId, Galley, RichText, ScrollArea, Stroke, TextEdit, Ui, text::LayoutJob,
    text::TextFormat,
};

use super::{PanelContext, Theme, card::Card, theme::editor_style};
use crate::session::{Action, Origin, Session};

/// The editor's egui id: the window sends keys there.
pub fn editor_id() -> egui::Id {
    egui::Id::unique("prompt editor")
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> egui::Response {
    let card = Card {
        title: "Text",
        subtitle: subtitle(ctx.session),
    };
    let theme = ctx.theme;
    let mut wishes = Vec::new();
    let session = ctx.session;
    let title = card.show(
        ui,
        theme,
        |ui| {
            if ui
                .button("Tokenise all again")
                .on_hover_text("Read the whole text afresh, as if it had been typed")
                .clicked()
            {
                wishes.push(Action::TokeniseAll);
            }
            if ui.button("Clear").clicked() {
                wishes.push(Action::EditText(String::new()));
            }
            if ui.button("Copy").clicked() {
                ui.ctx().copy_text(session.text().to_owned());
            }
        },
        |ui| {
            if session.is_too_long() {
                truncation_banner(ui, ctx);
            }
            editor(ui, ctx);
        },
    );
    ctx.actions.extend(wishes);
    title
}

fn subtitle(session: &Session) -> String {
    let counts = session.counts();
    let mut parts = vec![format!(
        "{} typed, {} generated",
        counts.typed, counts.generated
    )];
    if counts.retokenised > 0 {
        parts.push(format!("{} re-tokenised", counts.retokenised));
    }
    let outside = session.context_start();
    if outside > 0 {
        parts.push(format!("{outside} before the context"));
    }
    format!("{} · tint: surprisal", parts.join(", "))
}

fn truncation_banner(ui: &mut Ui, ctx: &mut PanelContext) {
    let session = ctx.session;
    ui.horizontal_wrapped(|ui| {
        ui.label(RichText::new(format!(
            "{} tokens; the context holds {}.",
            session.context_len(),
            session.n_ctx()
        )));
        if ui
            .button(format!("Use the last {}", session.truncated_len()))
            .clicked()
        {
            ctx.actions.push(Action::AcceptTruncation);
        }
    });
}

fn editor(ui: &mut Ui, ctx: &mut PanelContext) {
    let session = ctx.session;
    let mut text = session.text().to_owned();
    let font = editor_style().resolve(ui.style());
    let theme = ctx.theme;
    let hovered = ctx.panels.hovered_token;
    let mut layouter = |ui: &Ui, text: &dyn egui::TextBuffer, width: f32| -> Arc<Galley> {
        let mut job = layout(text.as_str(), session, theme, &font, hovered);
        job.wrap.max_width = width;
        ui.fonts_mut(|fonts| fonts.layout_job(job))
    };
    ScrollArea::vertical()
        .auto_shrink(false)
        .stick_to_bottom(true)
        .show(ui, |ui| {
            let output = TextEdit::multiline(&mut text)
                .id(editor_id())
                .frame(egui::Frame::NONE)
                .margin(egui::Margin::ZERO)
                .desired_width(f32::INFINITY)
                .desired_rows(2)
                .min_size(ui.available_size() - egui::vec2(0.0, 2.0))
                .hint_text("Type a prompt, or choose one from Examples")
                .layouter(&mut layouter)
                .show(ui);
            let response = output.response.response.accessible_name("Prompt");
            if response.changed() {
                ctx.actions.push(Action::EditText(text.clone()));
            }
            // The session's own undo covers typing; egui's would fight it.
            let mut state = output.state;
            state.clear_undoer();
            state.store(ui.ctx(), response.id);
        });
}

/// Colours the text by its tokens. While an edit is on its way to the session, the text may differ from it.
fn layout(
    text: &str,
    session: &Session,
    theme: &Theme,
    font: &FontId,
    hovered: Option<usize>,
) -> LayoutJob {
    let plain = |color: Color32| TextFormat {
        font_id: font.clone(),
        color,
        ..Default::default()
    };
    let mut job = LayoutJob::default();
    if text != session.text() || session.is_empty() {
        job.append(text, 0.0, plain(theme.ink));
        return job;
    }
    let selected = session.selected();
    let mut start = 0;
    for (index, (node, &end)) in session.path_nodes().zip(&session.layout().ends).enumerate() {
        let end = end.min(text.len());
        if end <= start {
            continue;
        }
        let mut format = plain(if node.outside { theme.dim } else { theme.ink });
        if node.origin.is_generated() {
            let surprisal = node.score.map_or(0.0, |score| score.surprisal_nats());
            format.background = theme.surprisal_tint(surprisal);
        }
        if node.origin == Origin::Picked {
            format.italics = true;
        }
        if index == selected {
            format.underline = Stroke::new(3.0, theme.chosen);
        } else if hovered == Some(index) {
            format.underline = Stroke::new(1.5, theme.dim);
        }
        job.append(&text[start..end], 0.0, format);
        start = end;
    }
    if start < text.len() {
        job.append(&text[start..], 0.0, plain(theme.ink));
    }
    job
}
