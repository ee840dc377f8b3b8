//! Text panel: prompt and continuation as one editable text, generated tokens tinted by surprisal.

use std::sync::Arc;

use egui::{
    FontId, Galley, Mesh, Rangef, Rect, RichText, ScrollArea, Shape, Stroke, TextEdit, Ui, Vec2,
    emath::GuiRounding as _,
    style::ScrollAnimation,
    text::{CCursor, CCursorRange, LayoutJob, TextFormat},
    text_edit::TextEditState,
};

use super::{Panel, PanelContext, Theme, card::Card, chart, theme::editor_style};
use crate::session::{Action, Origin, Session};

/// The editor's egui id: the window sends keys there.
pub fn editor_id() -> egui::Id {
    egui::Id::unique("prompt editor")
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> egui::Response {
    let card = Card::new(Panel::Text, subtitle(ctx.session));
    let mut wishes = Vec::new();
    let session = ctx.session;
    let title = card.show(
        ui,
        ctx,
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
        |ui, ctx| {
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
    if let Some(toy) = session.toy().filter(|_| session.is_unread()) {
        return format!(
            "not read yet: the toy's tokens are {}",
            toy.sheet().labels.join(", ")
        );
    }
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
            "{} tokens; the context holds {}, of which {} are left for new ones.",
            session.context_len(),
            session.n_ctx(),
            session.n_ctx() - session.truncated_len()
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
        let mut job = layout(text.as_str(), session, theme, &font);
        job.wrap.max_width = width;
        ui.fonts_mut(|fonts| fonts.layout_job(job))
    };
    ScrollArea::vertical()
        .auto_shrink(false)
        .stick_to_bottom(true)
        .show(ui, |ui| {
            follow_the_end(ui, session);
            // Filled in once it is known where the glyphs are, and painted below them.
            let ground = ui.painter().add(Shape::Noop);
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
            if text == session.text() && !session.is_unread() {
                let marks = Marks::of(
                    &output.galley,
                    output.galley_pos.to_vec2(),
                    ui.clip_rect(),
                    session,
                    hovered,
                );
                if let Some(place) = marks.selected.first()
                    && chart::is_news(ui, "selected token", session.selected())
                {
                    ui.scroll_to_rect_animation(*place, None, ScrollAnimation::none());
                }
                ui.painter().set(ground, marks.tints(ui, theme));
                marks.underline(ui, theme);
            }
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

/// A cursor that stands at the end of the text stays there while a run makes it longer.
fn follow_the_end(ui: &Ui, session: &Session) {
    let end = session.text().chars().count();
    let remembered = editor_id().with("end of the text");
    let before = ui.data_mut(|data| {
        let before = data.get_temp::<usize>(remembered);
        data.insert_temp(remembered, end);
        before
    });
    let Some(mut state) = TextEditState::load(ui.ctx(), editor_id()) else {
        return;
    };
    let Some(cursor) = state.cursor.char_range() else {
        return;
    };
    if before != Some(end) && cursor.is_empty() && Some(cursor.primary.index.0) == before {
        state
            .cursor
            .set_char_range(Some(CCursorRange::one(CCursor::new(end))));
        state.store(ui.ctx(), editor_id());
    }
}

/// Sets the text in as few sections as its glyphs need: each section is shaped on its own, which costs more than all
/// else in a frame. Tints and lines are no part of it, see [`Marks`]. While an edit is on its way to the session, the
/// text may differ from it.
fn layout(text: &str, session: &Session, theme: &Theme, font: &FontId) -> LayoutJob {
    let format = |outside: bool, picked: bool| TextFormat {
        font_id: font.clone(),
        color: if outside { theme.dim } else { theme.ink },
        italics: picked,
        ..Default::default()
    };
    let mut job = LayoutJob::default();
    let mut start = 0;
    if text == session.text() && !session.is_unread() {
        let mut section = (false, false);
        let mut before = 0;
        for (node, &end) in session.path_nodes().zip(&session.layout().ends) {
            let wanted = (node.outside, node.origin == Origin::Picked);
            if wanted != section {
                if before > start {
                    job.append(&text[start..before], 0.0, format(section.0, section.1));
                    start = before;
                }
                section = wanted;
            }
            before = end.min(text.len());
        }
        if before > start {
            job.append(&text[start..before], 0.0, format(section.0, section.1));
            start = before;
        }
    }
    if start < text.len() || text.is_empty() {
        job.append(&text[start..], 0.0, format(false, false));
    }
    job
}

/// Where the tokens that carry a mark are on screen: a token that wraps has one place in each line.
#[derive(Debug, Default)]
struct Marks {
    /// Place and surprisal in nats.
    generated: Vec<(Rect, f64)>,
    selected: Vec<Rect>,
    hovered: Vec<Rect>,
}

impl Marks {
    /// `galley` shows the session's text, moved by `offset`; what lies outside `clip` is passed over, but for the
    /// selected token.
    fn of(
        galley: &Galley,
        offset: Vec2,
        clip: Rect,
        session: &Session,
        hovered: Option<usize>,
    ) -> Self {
        let mut marks = Self::default();
        let ends = &session.layout().ends;
        // Rows hold one glyph for each character, but none for a line break.
        let mut chars = session.text().char_indices();
        let mut token = 0;
        for row in &galley.rows {
            let band = row.rect().translate(offset);
            let visible = band.y_range().intersects(clip.y_range());
            let mut place: Option<(usize, Rangef)> = None;
            for glyph in &row.glyphs {
                let Some((at, _)) = chars.next() else { break };
                while ends.get(token).is_some_and(|&end| end <= at) {
                    token += 1;
                }
                // The selected token is brought into view: its place is needed wherever it is.
                if !visible && token != session.selected() {
                    continue;
                }
                let left = row.pos.x + offset.x + glyph.pos.x;
                let right = left + glyph.advance_width;
                match &mut place {
                    Some((of, x)) if *of == token => *x = Rangef::new(x.min, right),
                    _ => {
                        marks.put(place, band, session, hovered);
                        place = Some((token, Rangef::new(left, right)));
                    }
                }
            }
            marks.put(place, band, session, hovered);
            if row.ends_with_newline {
                chars.next();
            }
        }
        marks
    }

    fn put(
        &mut self,
        place: Option<(usize, Rangef)>,
        band: Rect,
        session: &Session,
        hovered: Option<usize>,
    ) {
        let Some((token, x)) = place else { return };
        let Some(node) = session.node(token) else {
            return;
        };
        let rect = Rect::from_x_y_ranges(x, band.y_range());
        if node.origin.is_generated() {
            let surprisal = node.score.map_or(0.0, |score| score.surprisal_nats());
            self.generated.push((rect, surprisal));
        }
        if token == session.selected() {
            self.selected.push(rect);
        } else if Some(token) == hovered {
            self.hovered.push(rect);
        }
    }

    /// The grounds of generated tokens, one mesh.
    fn tints(&self, ui: &Ui, theme: &Theme) -> Shape {
        let mut mesh = Mesh::default();
        for &(rect, surprisal) in &self.generated {
            let rect = rect.round_to_pixels(ui.pixels_per_point());
            mesh.add_colored_rect(rect, theme.surprisal_tint(surprisal));
        }
        Shape::mesh(mesh)
    }

    fn underline(&self, ui: &Ui, theme: &Theme) {
        let painter = ui.painter();
        for (rects, width, color) in [
            (&self.selected, 3.0, theme.chosen),
            (&self.hovered, 1.5, theme.dim),
        ] {
            for rect in rects {
                painter.hline(
                    rect.x_range(),
                    rect.bottom() - 0.5 * width,
                    Stroke::new(width, color),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        sampling::{Choice, SamplingSettings},
        worker::{Command, Event, ModelInfo, Pace, StopReason},
    };

    /// A session with a typed text and generated tokens after it.
    fn session(typed: &str, generated: &str) -> Session {
        let info = ModelInfo {
            end_of_text: None,
            ..ModelInfo::of_test("played", 512)
        };
        let ids = info.tokenizer.encode(generated);
        let mut session = Session::new(typed, SamplingSettings::default(), Pace::Unlimited);
        session.on_event(Event::Loaded(Arc::new(info)), 0.0);
        let epoch = session
            .apply(Action::RunOrPause, 0.0)
            .into_iter()
            .find_map(|command| match command {
                Command::Run(request) => Some(request.epoch),
                _ => None,
            })
            .expect("a run");
        for id in ids {
            let choice = Choice {
                id,
                u: Some(0.5),
                redraw: 0,
            };
            let settings = session.settings().clone();
            session.on_event(
                Event::Chosen {
                    epoch,
                    choice,
                    settings,
                },
                0.0,
            );
        }
        let reason = Some(StopReason::Stopped);
        session.on_event(Event::Stopped { epoch, reason }, 0.0);
        session
    }

    fn galley(session: &Session, width: f32) -> Arc<Galley> {
        let ctx = egui::Context::default();
        ctx.set_fonts(crate::ui::theme::fonts());
        let mut galley = None;
        let _ = ctx.run_ui(egui::RawInput::default(), |ui| {
            let mut job = layout(
                session.text(),
                session,
                &Theme::LIGHT,
                &FontId::proportional(18.0),
            );
            job.wrap.max_width = width;
            galley = Some(ui.fonts_mut(|fonts| fonts.layout_job(job)));
        });
        galley.expect("laid out")
    }

    fn marks(session: &Session, width: f32) -> Marks {
        let galley = galley(session, width);
        Marks::of(&galley, Vec2::ZERO, Rect::EVERYTHING, session, None)
    }

    #[test]
    fn the_sections_hold_the_whole_text_and_are_few() {
        for (typed, generated) in [
            ("a", "bc"),
            ("Once upon a time", " there was a little fox\n\nwho ran"),
            ("naïve 東京 🦊", " and 🦊🦊 more"),
        ] {
            let session = session(typed, generated);
            let job = layout(session.text(), &session, &Theme::LIGHT, &FontId::default());
            assert_eq!(job.text, session.text());
            assert_eq!(job.sections.len(), 1);
            let edited = format!("{}!", session.text());
            let job = layout(&edited, &session, &Theme::LIGHT, &FontId::default());
            assert_eq!(job.text, edited);
        }
    }

    #[test]
    fn tints_cover_the_generated_tokens_and_nothing_else() {
        for (typed, generated) in [
            ("Once upon a time", " there was a little fox"),
            ("one\n", "\ntwo\n\nthree four"),
            ("東京 🦊", " and 🦊🦊 naïve more"),
        ] {
            let session = session(typed, generated);
            let place = marks(&session, f32::INFINITY);
            let galley = galley(&session, f32::INFINITY);
            let typed_chars = typed.chars().count();
            let mut at = 0;
            for row in &galley.rows {
                for glyph in &row.glyphs {
                    let middle =
                        row.pos + glyph.pos.to_vec2() + egui::vec2(0.5 * glyph.advance_width, -2.0);
                    let tinted = place
                        .generated
                        .iter()
                        .any(|(rect, _)| rect.contains(middle));
                    assert_eq!(tinted, at >= typed_chars, "{typed:?} {generated:?} {at}");
                    at += 1;
                }
                at += usize::from(row.ends_with_newline);
            }
            assert_eq!(at, session.text().chars().count());
        }
    }

    #[test]
    fn a_wrapped_text_is_marked_in_every_line() {
        let session = session(
            "Once",
            " upon a time there was a little fox who lived in a wood",
        );
        let wide = marks(&session, f32::INFINITY);
        let narrow = marks(&session, 90.0);
        assert_eq!(wide.generated.len(), session.counts().generated);
        let lines: std::collections::BTreeSet<_> = narrow
            .generated
            .iter()
            .map(|(rect, _)| rect.top() as i32)
            .collect();
        assert!(lines.len() > 4, "{lines:?}");
        let clipped = Marks::of(
            &galley(&session, 90.0),
            Vec2::ZERO,
            Rect::from_min_size(egui::Pos2::ZERO, egui::vec2(90.0, 10.0)),
            &session,
            None,
        );
        assert!(clipped.generated.len() < narrow.generated.len());
    }
}
