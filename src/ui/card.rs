//! The frame of every panel: rounded ground, title in small capitals, one dim line saying what is shown, a menu that
//! ends with what every panel offers as files.

use egui::{Align, Context, Id, Layout, Response, RichText, Sense, Ui, UiBuilder};
use egui_material_icons::icons::ICON_MORE_HORIZ;

use super::{
    Panel, PanelContext, Theme, chart, files,
    theme::{CORNER, PANEL_PADDING, semibold},
};

/// What the head of a panel says.
pub struct Card {
    panel: Panel,
    /// Exactly what is shown, with units.
    subtitle: String,
    beside_title: bool,
}

impl Card {
    pub fn new(panel: Panel, subtitle: impl Into<String>) -> Self {
        Self {
            panel,
            subtitle: subtitle.into(),
            beside_title: false,
        }
    }

    /// Says what is shown in the title's own line: for panels that are wide and low.
    pub fn beside_title(mut self) -> Self {
        self.beside_title = true;
        self
    }

    /// Shows the panel over all available space. `menu` begins the "…" menu, `content` fills the rest.
    ///
    /// Returns the title's response: dragging it moves the panel.
    pub fn show(
        self,
        ui: &mut Ui,
        ctx: &mut PanelContext,
        menu: impl FnOnce(&mut Ui),
        content: impl FnOnce(&mut Ui, &mut PanelContext),
    ) -> Response {
        let theme = ctx.theme;
        let on_paper = ctx.panels.on_paper;
        let rect = ui.available_rect_before_wrap();
        if !on_paper {
            let within = egui::StrokeKind::Inside;
            ui.painter()
                .rect(rect, CORNER, theme.panel, theme.hairline(), within);
        }
        let mut inner = rect.shrink(PANEL_PADDING);
        // The title row is as high as its button; its letters sit where the padding ends.
        inner.min.y -= 7.0;
        // The same ids wherever the panel is, so that it scrolls to the same place docked, alone and on paper.
        let mut ui = ui.new_child(
            UiBuilder::new()
                .scope_id(Id::unique("panel").with(self.panel))
                .max_rect(inner)
                .layout(Layout::top_down(Align::Min)),
        );
        ui.set_clip_rect(rect.shrink(1.0).intersect(ui.clip_rect()));
        let name = self.panel.title();
        let mut asked = None;
        let title = ui
            .horizontal(|ui| {
                let title = ui.add(
                    egui::Label::new(heading(ui.ctx(), name, theme))
                        .sense(Sense::click_and_drag())
                        .selectable(false),
                );
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    if on_paper {
                        return;
                    }
                    let button = egui::Button::new(ICON_MORE_HORIZ.rich_text().color(theme.dim))
                        .frame(false);
                    let (button, _) =
                        egui::containers::menu::MenuButton::from_button(button).ui(ui, |ui| {
                            menu(ui);
                            files::menu(ui, &mut asked);
                        });
                    let name = format!("{name} menu");
                    button
                        .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
                });
                title
            })
            .inner;
        if let Some(what) = asked {
            ctx.panels.wish = Some(files::Wish {
                panel: self.panel,
                what,
                shown: self.subtitle.clone(),
                size: rect.size(),
            });
        }
        if self.beside_title {
            chart::header_slot(&mut ui, name, theme, |ui| {
                ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                    subtitle(ui, theme, &self.subtitle);
                });
            });
        } else if !self.subtitle.is_empty() {
            subtitle(&mut ui, theme, &self.subtitle);
        }
        ui.add_space(2.0);
        content(&mut ui, ctx);
        title.on_hover_cursor(egui::CursorIcon::Grab)
    }
}

/// Whether every panel's title says, from now on, that the numbers are typed ones.
pub fn mark_typed(ctx: &Context, typed: bool) {
    ctx.data_mut(|data| data.insert_temp(typed_id(), typed));
}

fn typed_id() -> Id {
    Id::unique("numbers are typed")
}

/// A panel's title, with what holds of all its numbers.
pub fn heading(ctx: &Context, title: &str, theme: &Theme) -> RichText {
    let typed = ctx.data(|data| data.get_temp(typed_id())).unwrap_or(false);
    if typed {
        small_capitals(&format!("{title} · typed"), theme)
    } else {
        small_capitals(title, theme)
    }
}

fn subtitle(ui: &mut Ui, theme: &Theme, text: &str) {
    let label = egui::Label::new(RichText::new(text).small().color(theme.dim));
    ui.add(label.truncate()).on_hover_text(text);
}

/// Panel titles: capitals a little apart, small and strong.
pub fn small_capitals(text: &str, theme: &Theme) -> RichText {
    RichText::new(text.to_uppercase())
        .small()
        .family(semibold())
        .color(theme.dim)
        .extra_letter_spacing(1.0)
}
