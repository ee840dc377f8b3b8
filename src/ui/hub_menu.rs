//! The model menu's part for models from the Hub: known names, a field for any other, and a running download.

use egui::{Key, RichText, Ui};

use super::{PanelContext, open_model::memory, transport::WindowWish};
use crate::{
    download::DownloadView,
    model::{Gpt2Config, Precision, WeightBytes},
};

/// The models that go by a short name, with the size of what is downloaded.
const KNOWN: [(&str, &str); 5] = [
    ("gpt2", "0.5 GB"),
    ("distilgpt2", "0.4 GB"),
    ("gpt2-medium", "1.5 GB"),
    ("gpt2-large", "3.2 GB"),
    ("gpt2-xl", "6.4 GB"),
];

/// Width of the menu, in points at 100 % type.
const WIDTH: f32 = 280.0;

/// Names to choose from. Nothing is asked of the network before one is chosen.
pub fn names(
    ui: &mut Ui,
    ctx: &PanelContext,
    precision: Precision,
    download: Option<&DownloadView>,
    wishes: &mut Vec<WindowWish>,
) {
    ui.set_max_width(WIDTH * ctx.scale);
    ui.label(
        RichText::new("From the Hugging Face Hub")
            .small()
            .color(ctx.theme.dim),
    );
    ui.add_enabled_ui(download.is_none(), |ui| {
        for (name, size) in KNOWN {
            let button =
                egui::Button::new(name).right_text(RichText::new(size).color(ctx.theme.dim));
            let response = ui
                .add(button)
                .accessible_name(format!("{name} from the Hub"))
                .on_hover_text(format!(
                    "Used at once where it is on this computer; else downloads about {size}.{}",
                    takes(name, precision)
                ));
            if response.clicked() {
                wishes.push(WindowWish::Fetch(name.to_owned()));
                ui.close();
            }
        }
        let id = egui::Id::unique("name of a model on the Hub");
        let mut name = ui
            .data(|data| data.get_temp::<String>(id))
            .unwrap_or_default();
        let edit = egui::TextEdit::singleline(&mut name)
            .hint_text("owner/name, then Enter")
            .desired_width((WIDTH - 24.0) * ctx.scale);
        // Fields in a menu have no edge of their own.
        let field = egui::Frame::new()
            .stroke((1.0, ctx.theme.line))
            .corner_radius(6)
            .inner_margin(egui::Margin::symmetric(4, 2))
            .show(ui, |ui| ui.add(edit))
            .inner
            .accessible_name("Name of a model on the Hub")
            .on_hover_text("Any GPT-2 on the Hub, as owner/name; Enter fetches it");
        let entered = field.lost_focus() && ui.input(|input| input.key_pressed(Key::Enter));
        if entered && !name.trim().is_empty() {
            wishes.push(WindowWish::Fetch(name.trim().to_owned()));
            ui.close();
        }
        ui.data_mut(|data| data.insert_temp(id, name));
    });
}

/// What the weights of a published model take in memory.
fn takes(name: &str, precision: Precision) -> String {
    Gpt2Config::shape(name).map_or_else(String::new, |config| {
        format!(
            " Its weights take {} in {precision}.",
            memory(WeightBytes::of(&config), precision)
        )
    })
}

/// A running download in the bar, with its own Cancel.
pub fn progress(
    ui: &mut Ui,
    ctx: &PanelContext,
    download: &DownloadView,
    wishes: &mut Vec<WindowWish>,
) {
    let text = format!("{} {:.0} %", download.name, 100.0 * download.share);
    ui.add(
        egui::ProgressBar::new(download.share)
            .desired_width(150.0 * ctx.scale)
            .text(text),
    )
    .on_hover_text(&download.line);
    if ui
        .button("Cancel download")
        .on_hover_text("What has arrived is kept; the next download goes on from there")
        .clicked()
    {
        wishes.push(WindowWish::CancelFetch);
    }
}
