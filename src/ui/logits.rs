//! Stub until its panel lands.
use super::{PanelContext, card::Card};
pub fn show(ui: &mut egui::Ui, ctx: &mut PanelContext) -> egui::Response {
    Card {
        title: "logits",
        subtitle: String::new(),
    }
    .show(ui, ctx.theme, |_| {}, |_| {})
}
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LogitsState {}
impl LogitsState {
    pub fn release_pins(&mut self) {}
}
