//! Sampling panel: one settings object; a drag reshapes the shown step at once.

use std::sync::Arc;

use egui::{
    CornerRadius, DragValue, Grid, Response, RichText, ScrollArea, Slider, SliderClamping, Ui,
    emath::Numeric,
};

use super::{Panel, PanelContext, Theme, card::Card, chart};
use crate::{
    sampling::{Mode, SamplingSettings},
    session::Action,
};

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let mut settings = (**ctx.session.settings()).clone();
    let before = settings.clone();
    let vocab_size = ctx.session.model().map_or(50_257, |model| model.vocab_size) as u32;
    let theme = ctx.theme;
    let scale = ctx.scale;
    let mut reset = false;
    let title = Card::new(Panel::Sampling, subtitle(&settings)).show(
        ui,
        ctx,
        |ui| reset = ui.button("Defaults").clicked(),
        |ui, _| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                ui.horizontal_wrapped(|ui| {
                    ui.spacing_mut().item_spacing.x = 5.0;
                    ui.spacing_mut().button_padding.x = 7.0;
                    mode(ui, &mut settings, theme);
                    seed_and_length(ui, &mut settings);
                    stop_strings(ui, &mut settings);
                });
                ui.add_space(4.0);
                sliders(ui, &mut settings, vocab_size, scale);
            });
        },
    );
    if reset {
        settings = SamplingSettings::default();
    }
    if settings != before {
        ctx.act(Action::SetSettings(Arc::new(settings)));
    }
    title
}

/// Tab-separated, one row a setting, with the value that turns it off named so.
pub fn table(settings: &SamplingSettings) -> String {
    let off = |is_off: bool, value: String| if is_off { "off".to_owned() } else { value };
    let mode = if settings.is_greedy() {
        "greedy"
    } else {
        "sample"
    };
    // A stop string may hold what separates cells.
    let stop = serde_json::Value::from(settings.stop.clone()).to_string();
    let rows = [
        ("mode", mode.to_owned()),
        ("temperature", settings.temperature.to_string()),
        (
            "top-k",
            off(settings.top_k == 0, settings.top_k.to_string()),
        ),
        (
            "top-p",
            off(settings.top_p >= 1.0, settings.top_p.to_string()),
        ),
        (
            "min-p",
            off(settings.min_p <= 0.0, settings.min_p.to_string()),
        ),
        (
            "repetition penalty",
            off(
                settings.repetition_penalty == 1.0,
                settings.repetition_penalty.to_string(),
            ),
        ),
        ("seed", settings.seed.to_string()),
        ("max new tokens", settings.max_new_tokens.to_string()),
        ("stop strings (JSON)", stop),
    ];
    let mut out = String::from("setting\tvalue\n");
    for (name, value) in rows {
        out.push_str(&format!("{name}\t{value}\n"));
    }
    out
}

fn subtitle(settings: &SamplingSettings) -> String {
    if settings.is_greedy() {
        "greedy: always the most likely token · of what is below only repetition applies".to_owned()
    } else {
        "order: penalty, temperature, top-k, renormalise, top-p, min-p".to_owned()
    }
}

/// Two halves of one control.
fn mode(ui: &mut Ui, settings: &mut SamplingSettings, theme: &Theme) {
    let round = CornerRadius::same(7);
    let halves = [
        (
            Mode::Greedy,
            "Greedy",
            CornerRadius {
                ne: 0,
                se: 0,
                ..round
            },
        ),
        (
            Mode::Sample,
            "Sample",
            CornerRadius {
                nw: 0,
                sw: 0,
                ..round
            },
        ),
    ];
    ui.scope(|ui| {
        ui.spacing_mut().item_spacing.x = 0.0;
        for (mode, name, corners) in halves {
            let on = settings.mode == mode;
            let (text, ground) = if on {
                (theme.panel, theme.ink)
            } else {
                (theme.ink, theme.panel)
            };
            let button = egui::Button::new(RichText::new(name).color(text))
                .fill(ground)
                .corner_radius(corners);
            let response = ui.add(button);
            response.widget_info(|| {
                egui::WidgetInfo::selected(egui::Role::RadioButton, true, on, name)
            });
            if response.clicked() {
                settings.mode = mode;
            }
        }
    });
}

fn seed_and_length(ui: &mut Ui, settings: &mut SamplingSettings) {
    let seed = ui.label("seed");
    ui.add(DragValue::new(&mut settings.seed).speed(0.2))
        .labelled_by(seed.id)
        .on_hover_text("The same seed and settings draw the same tokens");
    let max_new = ui.label("max new");
    ui.add(DragValue::new(&mut settings.max_new_tokens).range(0..=100_000))
        .labelled_by(max_new.id)
        .on_hover_text("Tokens that a run appends at most");
}

fn stop_strings(ui: &mut Ui, settings: &mut SamplingSettings) {
    let name = match settings.stop.len() {
        0 => "stop…".to_owned(),
        1 => format!("stop {}", settings.stop[0].escape_debug()),
        n => format!("{n} stop strings"),
    };
    ui.menu_button(name, |ui| {
        ui.set_min_width(240.0);
        ui.label(
            "A run stops when its continuation contains one of these. Write \\n for a line break.",
        );
        let mut remove = None;
        for (index, stop) in settings.stop.iter_mut().enumerate() {
            ui.horizontal(|ui| {
                let mut escaped = escape(stop);
                let field = ui.add(
                    egui::TextEdit::singleline(&mut escaped)
                        .desired_width(180.0)
                        .hint_text("text"),
                );
                if field.changed() {
                    *stop = unescape(&escaped);
                }
                if ui.button("Remove").clicked() {
                    remove = Some(index);
                }
            });
        }
        if let Some(index) = remove {
            settings.stop.remove(index);
        }
        // An empty stop string would stop every run at once: a new one is a draft until it says something.
        let draft_id = ui.scope_id().with("draft");
        let mut draft = ui.data_mut(|data| data.get_temp::<String>(draft_id).unwrap_or_default());
        ui.horizontal(|ui| {
            let field = ui.add(
                egui::TextEdit::singleline(&mut draft)
                    .desired_width(180.0)
                    .hint_text("new stop string"),
            );
            let entered =
                field.lost_focus() && ui.input(|input| input.key_pressed(egui::Key::Enter));
            if (ui.button("Add").clicked() || entered) && !draft.is_empty() {
                settings.stop.push(unescape(&std::mem::take(&mut draft)));
            }
        });
        ui.data_mut(|data| data.insert_temp(draft_id, draft));
    });
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\t', "\\t")
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, chars.clone().next()) {
            ('\\', Some('n')) => out.push('\n'),
            ('\\', Some('t')) => out.push('\t'),
            ('\\', Some('\\')) => out.push('\\'),
            _ => {
                out.push(c);
                continue;
            }
        }
        chars.next();
    }
    out
}

/// One row a filter: name, slider, number; a filter that does nothing says "off".
fn sliders(ui: &mut Ui, settings: &mut SamplingSettings, vocab_size: u32, scale: f32) {
    let widths = RowWidths::fit(ui.available_width(), scale);
    Grid::new("filters")
        .num_columns(3)
        // As high as the number beside the slider: then all three stand on one line.
        .min_row_height(ui.spacing().interact_size.y)
        .spacing([12.0, 3.0])
        .show(ui, |ui| {
            widths.row(
                ui,
                "temperature",
                &mut settings.temperature,
                |value| Slider::new(value, 0.0..=2.0).step_by(0.01),
                |value| {
                    DragValue::new(value)
                        .range(0.0..=100.0)
                        .speed(0.01)
                        .custom_parser(chart::parse)
                        .custom_formatter(off_at(0.0, "0 greedy", ""))
                },
            );
            widths.row(
                ui,
                "top-k",
                &mut settings.top_k,
                |value| {
                    Slider::new(value, 0..=vocab_size)
                        .logarithmic(true)
                        .smallest_positive(1.0)
                },
                |value| {
                    DragValue::new(value)
                        .range(0..=u32::MAX)
                        .speed(0.3)
                        .custom_parser(chart::parse)
                        .custom_formatter(|k, _| {
                            if k == 0.0 {
                                "off".to_owned()
                            } else {
                                format!("{k:.0}")
                            }
                        })
                },
            );
            widths.row(
                ui,
                "top-p",
                &mut settings.top_p,
                |value| Slider::new(value, 0.0..=1.0).step_by(0.01),
                |value| {
                    DragValue::new(value)
                        .range(0.0..=1.0)
                        .speed(0.005)
                        .custom_parser(chart::parse)
                        .custom_formatter(off_at(1.0, "off", ""))
                },
            );
            widths.row(
                ui,
                "min-p",
                &mut settings.min_p,
                |value| Slider::new(value, 0.0..=1.0).step_by(0.01),
                |value| {
                    DragValue::new(value)
                        .range(0.0..=1.0)
                        .speed(0.002)
                        .custom_parser(chart::parse)
                        .custom_formatter(off_at(0.0, "off", ""))
                },
            );
            widths.row(
                ui,
                "repetition",
                &mut settings.repetition_penalty,
                |value| Slider::new(value, 1.0..=2.0).step_by(0.01),
                |value| {
                    DragValue::new(value)
                        .range(0.01..=100.0)
                        .speed(0.005)
                        .custom_parser(chart::parse)
                        .custom_formatter(off_at(1.0, "off", "÷ "))
                },
            );
        });
}

/// Writes a number with two digits, or a word at the value that switches its filter off.
fn off_at(
    off: f64,
    word: &'static str,
    prefix: &'static str,
) -> impl Fn(f64, std::ops::RangeInclusive<usize>) -> String {
    move |value, _| {
        if (value - off).abs() < 1e-6 {
            word.to_owned()
        } else {
            format!("{prefix}{value:.2}")
        }
    }
}

/// Height of a filter row, in points at 100 % type.
const ROW: f32 = 22.0;

/// The columns of the filter rows, in points.
struct RowWidths {
    slider: f32,
    number: f32,
    height: f32,
}

impl RowWidths {
    fn fit(available: f32, scale: f32) -> Self {
        let (label, number) = (92.0 * scale, 74.0 * scale);
        Self {
            slider: (available - label - number - 32.0).max(40.0),
            number,
            height: ROW * scale,
        }
    }

    /// egui draws a handle as a ring around a disc of the rail's colour: a wide ring of ink on a small disc.
    fn style_slider(&self, ui: &mut Ui) {
        let ink = ui.visuals().text_color();
        let style = ui.style_mut();
        let widgets = &mut style.visuals.widgets;
        for widget in [
            &mut widgets.inactive,
            &mut widgets.hovered,
            &mut widgets.active,
        ] {
            widget.fg_stroke = egui::Stroke::new(0.28 * self.height, ink);
        }
        style.spacing.slider_width = self.slider;
        style.spacing.interact_size.y = 0.55 * self.height;
        style.text_styles.insert(
            egui::TextStyle::Body,
            egui::FontId::proportional(0.4 * self.height),
        );
    }

    fn row<'a, Num: Numeric>(
        &self,
        ui: &mut Ui,
        name: &str,
        value: &'a mut Num,
        slider: impl for<'v> FnOnce(&'v mut Num) -> Slider<'v>,
        number: impl FnOnce(&'a mut Num) -> DragValue<'a>,
    ) {
        let label = ui.label(name);
        ui.scope(|ui| {
            self.style_slider(ui);
            // The number beside it may lie beyond the rail or between its steps: the slider must not pull it back.
            let slider = slider(value)
                .show_value(false)
                .clamping(SliderClamping::Edits);
            ui.add(slider).labelled_by(label.id);
        });
        let height = ui.spacing().interact_size.y;
        ui.add_sized([self.number, height], number(value))
            .labelled_by(label.id);
        ui.end_row();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_strings_survive_the_field() {
        for text in ["", "\n", "a\nb\t", "\\n", "C:\\new", "\\"] {
            assert_eq!(unescape(&escape(text)), text, "{text:?}");
        }
        assert_eq!(unescape("\\n"), "\n");
        assert_eq!(unescape("lone \\"), "lone \\");
    }
}
