//! The frame of every panel: rounded ground, title in small capitals, one dim line saying what is shown, a menu.

use egui::{Align, Context, Id, Layout, Response, RichText, Sense, Ui, UiBuilder};
use egui_material_icons::icons::ICON_MORE_HORIZ;

use super::{
    Theme,
    theme::{CORNER, PANEL_PADDING, semibold},
};

/// What the head of a panel says and was asked for.
pub struct Card<'a> {
    pub title: &'a str,
    /// Exactly what is shown, with units.
    pub subtitle: String,
}

impl Card<'_> {
    /// Shows the panel over all available space. `menu` fills the "…" menu, `content` the rest.
    ///
    /// Returns the title's response: dragging it moves the panel.
    pub fn show(
        self,
        ui: &mut Ui,
        theme: &Theme,
        menu: impl FnOnce(&mut Ui),
        content: impl FnOnce(&mut Ui),
    ) -> Response {
        let rect = ui.available_rect_before_wrap();
        ui.painter().rect(
            rect,
            CORNER,
            theme.panel,
            theme.hairline(),
            egui::StrokeKind::Inside,
        );
        let mut inner = rect.shrink(PANEL_PADDING);
        // The title row is as high as its button; its letters sit where the padding ends.
        inner.min.y -= 7.0;
        let mut ui = ui.new_child(
            UiBuilder::new()
                .max_rect(inner)
                .layout(Layout::top_down(Align::Min)),
        );
        ui.set_clip_rect(rect.shrink(1.0).intersect(ui.clip_rect()));
        let title = ui
            .horizontal(|ui| {
                let title = ui.add(
                    egui::Label::new(heading(ui.ctx(), self.title, theme))
                        .sense(Sense::click_and_drag())
                        .selectable(false),
                );
                ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                    let button = egui::Button::new(ICON_MORE_HORIZ.rich_text().color(theme.dim))
                        .frame(false);
                    let (button, _) =
                        egui::containers::menu::MenuButton::from_button(button).ui(ui, menu);
                    let name = format!("{} menu", self.title);
                    button
                        .widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
                });
                title
            })
            .inner;
        if !self.subtitle.is_empty() {
            ui.add(
                egui::Label::new(RichText::new(&self.subtitle).small().color(theme.dim)).truncate(),
            )
            .on_hover_text(&self.subtitle);
        }
        ui.add_space(2.0);
        content(&mut ui);
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

/// Panel titles: capitals a little apart, small and strong.
pub fn small_capitals(text: &str, theme: &Theme) -> RichText {
    RichText::new(text.to_uppercase())
        .small()
        .family(semibold())
        .color(theme.dim)
        .extra_letter_spacing(1.0)
}
