//! Stub until its panel lands.
use super::{PanelContext, card::Card};
pub fn show(ui: &mut egui::Ui, ctx: &mut PanelContext) -> egui::Response {
    Card {
        title: "timeline",
        subtitle: String::new(),
    }
    .show(ui, ctx.theme, |_| {}, |_| {})
}
