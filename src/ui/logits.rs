//! Logits → softmax panel: the same tokens twice, as logits on both sides of a zero line and as softmax at the
//! chosen temperature over the whole vocabulary, before any filter.
//!
//! Dragging its temperature changes the session's settings, which reshapes the stored step; the model does not run.
//! Runs on the window's thread; what needs the whole vocabulary is worked out once for each row and temperature.

pub(super) mod layout;
pub(super) mod pair;
mod rows;

use std::sync::{Arc, Weak};

use egui::{
    DragValue, Rect, Response, ScrollArea, Sense, Slider, SliderClamping, Ui, UiBuilder, pos2, vec2,
};

use layout::{Columns, FAR, Plan, TOP, Token, far_tokens};
use rows::Rows;

use super::{
    Panel, PanelContext,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    prediction::LogitsRow,
    sampling::{Mode, SamplingSettings, Softmax},
    session::{Action, Session, StepView},
};

/// What the panel remembers.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LogitsState {
    /// Bars show raw logits instead of their distance from the mean.
    raw: bool,
    /// Token ids, in the order in which they were pinned.
    #[serde(skip)]
    pinned: Vec<u32>,
    /// Size of the vocabulary that the pins belong to: another model's ids mean other tokens.
    #[serde(skip)]
    pinned_in: usize,
    #[serde(skip)]
    derived: Option<Derived>,
}

/// What takes a pass over the vocabulary, for one row at one temperature.
#[derive(Clone)]
struct Derived {
    row: Weak<LogitsRow>,
    temperature: f32,
    softmax: Softmax,
    far: Vec<Token>,
    /// In the order of the pins.
    pinned: Vec<Token>,
}

impl LogitsState {
    /// Lets go of all pinned tokens.
    pub fn release_pins(&mut self) {
        self.pinned.clear();
    }

    /// Token ids, in the order in which they were pinned, where they belong to a vocabulary of this size.
    pub fn pins(&self, vocab_size: usize) -> &[u32] {
        if self.pinned_in == vocab_size {
            &self.pinned
        } else {
            &[]
        }
    }

    /// Pins a token of a vocabulary of this size, or lets go of it.
    pub fn toggle_pin_in(&mut self, vocab_size: usize, id: u32) {
        if self.pinned_in != vocab_size {
            self.pinned.clear();
            self.pinned_in = vocab_size;
        }
        self.toggle_pin(id);
    }

    fn toggle_pin(&mut self, id: u32) {
        match self.pinned.iter().position(|&pinned| pinned == id) {
            Some(at) => drop(self.pinned.remove(at)),
            None => self.pinned.push(id),
        }
    }

    /// Brings what is derived from the row up to date.
    ///
    /// `softmax` is its softmax at this temperature, where someone has worked that out already.
    fn derive(
        &mut self,
        row: &Arc<LogitsRow>,
        temperature: f32,
        softmax: Option<Softmax>,
    ) -> &Derived {
        let values = &row.values;
        let softmax = || softmax.unwrap_or_else(|| Softmax::new(values, temperature));
        if self.pinned_in != values.len() {
            self.pinned.clear();
            self.pinned_in = values.len();
        }
        let mut derived = match self.derived.take() {
            Some(old) if std::ptr::eq(old.row.as_ptr(), Arc::as_ptr(row)) => old,
            _ => Derived {
                row: Arc::downgrade(row),
                temperature,
                softmax: softmax(),
                far: far_tokens(values),
                pinned: Vec::new(),
            },
        };
        if derived.temperature != temperature {
            derived.temperature = temperature;
            derived.softmax = softmax();
        }
        if !derived
            .pinned
            .iter()
            .map(|token| token.id)
            .eq(self.pinned.iter().copied())
        {
            let token = |&id: &u32| Token::of(values, id);
            derived.pinned = self.pinned.iter().map(token).collect();
        }
        self.derived.insert(derived)
    }
}

/// The temperature of the softmax column: greedy has none, so it is shown at 1.
pub(super) fn shown_temperature(settings: &SamplingSettings) -> f32 {
    if settings.is_greedy() {
        1.0
    } else {
        settings.temperature
    }
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    let subtitle = session
        .view()
        .map_or_else(String::new, |view| subtitle(view, ctx.panels.logits.raw));
    let mut state = std::mem::take(&mut ctx.panels.logits);
    let raw = state.raw;
    let pins = !state.pinned.is_empty();
    let mut bars = None;
    let mut release = false;
    let title = Card::new(Panel::Logits, subtitle).show(
        ui,
        ctx,
        |ui| {
            for (choice, name) in [(false, "Bars show z − mean z"), (true, "Bars show raw z")] {
                if ui.radio(raw == choice, name).clicked() {
                    bars = Some(choice);
                }
            }
            release = ui
                .add_enabled(pins, egui::Button::new("Release pins"))
                .clicked();
        },
        |ui, ctx| match session.view() {
            Some(view) => both_charts(ui, ctx, view, &mut state),
            None => chart::no_view(ui, ctx),
        },
    );
    state.raw = bars.unwrap_or(state.raw);
    if release {
        state.release_pins();
    }
    ctx.panels.logits = state;
    title
}

fn subtitle(view: &StepView, raw: bool) -> String {
    let what_if = view
        .drawn_with
        .as_ref()
        .and_then(|drawn| chart::what_if(&view.settings, drawn));
    let softmax = format!(
        "e^(z/T) / Σ e^(z/T) over {} tokens",
        chart::count(view.logits.values.len())
    );
    match what_if {
        Some(what_if) => format!("{what_if} · Esc shows it as drawn · {softmax}"),
        None => {
            let order = if raw {
                "raw z, z − mean z"
            } else {
                "z − mean z, raw z"
            };
            let temperature = if view.settings.is_greedy() {
                "T 1, greedy uses none".to_owned()
            } else {
                format!("T {:.2}", view.settings.temperature)
            };
            format!("{order}, then {softmax} · {temperature}")
        }
    }
}

fn both_charts(ui: &mut Ui, ctx: &mut PanelContext, view: &StepView, state: &mut LogitsState) {
    let raw = state.raw;
    let (pinned_ids, vocab_size) = (state.pinned.clone(), view.logits.values.len());
    let temperature = shown_temperature(&view.settings);
    // Without penalty and greed the distribution was drawn from it.
    let is_plain = view.settings.repetition_penalty == 1.0 && !view.settings.is_greedy();
    let known = is_plain.then(|| view.distribution.tempered());
    let derived = state.derive(&view.logits, temperature, known);
    let mut area = ui.available_rect_before_wrap();
    let label = |id| ctx.label(id);
    if let Some(pair) = pair::words(&derived.pinned, label, &derived.softmax, temperature) {
        let line = ui.text_style_height(&egui::TextStyle::Small);
        let rect = area.with_min_y(area.bottom() - line);
        chart::note(ui, rect, &pair, ctx.theme);
        area.max.y -= line + 4.0;
    }
    let gap = (6.0 * ctx.scale).round();
    let wanted = TOP + FAR;
    let row_height = chart::fitting_row_height(ctx.row_height(), area.height() - 2.0 * gap, wanted);
    let slots = (((area.height() - 2.0 * gap + 0.5) / row_height).max(1.0) as usize)
        .min(wanted + pinned_ids.len());
    let top: Vec<Token> = view
        .top
        .iter()
        .map(|row| Token {
            id: row.id,
            logit: row.logit,
            rank: row.rank,
        })
        .collect();
    let chosen = view.chosen.as_ref().map(|chosen| Token {
        id: chosen.row.id,
        logit: chosen.row.logit,
        rank: chosen.row.rank,
    });
    let asked: Vec<Token> = chosen
        .into_iter()
        .chain(derived.pinned.iter().copied())
        .collect();
    let plan = Plan::new(slots, &top, &asked, &derived.far);
    let softmax = derived.softmax;
    let faces = Faces::of(ui);
    let columns = Columns::fit(area.left(), area.width(), faces.digit, 9.0 * ctx.scale, raw);
    let mut rows = Rows {
        view,
        faces,
        columns,
        softmax,
        raw,
        extent: 1.0,
        full: 1.0,
    };
    let shown: Vec<Token> = top[..plan.top]
        .iter()
        .chain(&plan.extras)
        .chain(&plan.far)
        .copied()
        .collect();
    rows.extent = chart::nice_ceil(
        shown
            .iter()
            .map(|token| rows.bar_value(token.logit).abs())
            .filter(|z| z.is_finite())
            .fold(0.0, f64::max),
    );
    rows.full = chart::nice_ceil(
        shown
            .iter()
            .map(|token| softmax.prob(token.logit))
            .fold(0.0, f64::max),
    )
    .min(1.0);

    let top_all = TOP.min(vocab_size);
    controls(
        ui,
        ctx,
        view,
        state,
        &rows.faces,
        &format!("top {} of {top_all}", plan.top),
    );
    let pins = |id: u32| pinned_ids.contains(&id);
    let height = plan.len() as f32 * row_height + 2.0 * gap;
    let mut list = ui.new_child(UiBuilder::new().id_salt("rows").max_rect(area));
    list.set_clip_rect(area.expand2(vec2(5.0, 0.0)).intersect(ui.clip_rect()));
    ScrollArea::vertical()
        .auto_shrink(false)
        .show(&mut list, |ui| {
            let full_height = height.max(slots as f32 * row_height + 2.0 * gap);
            let (all, _) = ui.allocate_exact_size(vec2(area.width(), full_height), Sense::hover());
            rows.zero_line(ui, ctx.theme, all);
            // Top rows hang from the top; the others stand on the bottom slots, so that neither moves the other.
            let far_top = full_height - plan.far.len() as f32 * row_height;
            let extras_top = far_top - gap - plan.extras.len() as f32 * row_height;
            let groups = [
                (0.0, &top[..plan.top]),
                (extras_top, &plan.extras[..]),
                (far_top, &plan.far[..]),
            ];
            let mut slot = 0;
            for (group_top, tokens) in groups {
                for (index, token) in tokens.iter().enumerate() {
                    let y = all.top() + group_top + index as f32 * row_height;
                    let rect =
                        Rect::from_min_size(pos2(area.left(), y), vec2(area.width(), row_height));
                    if rows.show(ui, ctx, rect, slot, token, pins(token.id)) {
                        state.toggle_pin(token.id);
                    }
                    slot += 1;
                }
            }
        });
    ui.advance_cursor_after_rect(ui.max_rect());
}

/// Beside the title: temperature, what the bars show, how many rows fit.
fn controls(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    view: &StepView,
    state: &mut LogitsState,
    faces: &Faces,
    fits: &str,
) {
    let mut temperature = view.settings.temperature;
    let scale = ctx.scale;
    let mut raw = state.raw;
    // What is set here is said in the line below the title.
    if ctx.panels.on_paper {
        return;
    }
    chart::header_slot(ui, Panel::Logits.title(), ctx.theme, |ui| {
        let room = ui.available_width();
        let greedy = view.settings.mode == Mode::Greedy;
        let why = if greedy {
            "Greedy mode has no temperature: choose Sample in the Sampling panel"
        } else {
            "Reshapes the stored logits; the model does not run"
        };
        ui.add_enabled_ui(!greedy, |ui| {
            let number = DragValue::new(&mut temperature)
                .range(0.0..=100.0)
                .speed(0.01)
                .custom_parser(chart::parse)
                .fixed_decimals(2);
            let number = ui
                .add_sized([46.0 * scale, ui.spacing().interact_size.y], number)
                .on_hover_text(why)
                .on_disabled_hover_text(why);
            number.accessible_name("Temperature of the softmax");
            if room > 160.0 * scale {
                ui.spacing_mut().slider_width = (room - 90.0 * scale).min(72.0 * scale);
                let slider = ui
                    .add(
                        Slider::new(&mut temperature, 0.0..=2.0)
                            .step_by(0.01)
                            // The number may lie beyond the rail: the slider must not pull it back.
                            .clamping(SliderClamping::Edits)
                            .show_value(false),
                    )
                    .on_hover_text(why)
                    .on_disabled_hover_text(why);
                slider.accessible_name("Temperature of the softmax");
            }
            ui.label(egui::RichText::new("T").color(ctx.theme.dim));
        });
        let toggle = if raw { "raw z" } else { "z − mean z" };
        let toggle_width =
            faces.small_width(ui, "z − mean z") + 2.0 * ui.spacing().button_padding.x;
        if ui.available_width() > toggle_width + 8.0 {
            let button = egui::Button::new(egui::RichText::new(toggle).small())
                .min_size(vec2(toggle_width, 0.0));
            let button = ui
                .add(button)
                .on_hover_text("What the bars show; both numbers are printed");
            button.widget_info(|| {
                egui::WidgetInfo::labeled(egui::Role::Button, true, format!("Bars show {toggle}"))
            });
            if button.clicked() {
                raw = !raw;
            }
        }
        if ui.available_width() > faces.small_width(ui, fits) + 2.0 {
            ui.label(egui::RichText::new(fits).small().color(ctx.theme.dim));
        }
    });
    state.raw = raw;
    if temperature != view.settings.temperature {
        let settings = SamplingSettings {
            temperature,
            ..(**ctx.session.settings()).clone()
        };
        ctx.act(Action::SetSettings(Arc::new(settings)));
    }
}

/// Tab-separated, one row a token: the most likely ones, the pinned ones and those from far down.
pub fn table(session: &Session, state: &LogitsState) -> Option<String> {
    let view = session.view()?;
    let values = &view.logits.values;
    let temperature = shown_temperature(&view.settings);
    let softmax = Softmax::new(values, temperature);
    let mut out = format!(
        "rank\tid\ttoken\tlogit z\tz - mean z\tsoftmax at T {temperature:.2} (%)\tchosen\n"
    );
    let top = view.top.iter().map(|row| Token {
        id: row.id,
        logit: row.logit,
        rank: row.rank,
    });
    let pinned = state.pinned.iter().map(|&id| Token::of(values, id));
    let mut tokens: Vec<_> = top.collect();
    for token in pinned.chain(far_tokens(values)) {
        if tokens.iter().all(|held| held.id != token.id) {
            tokens.push(token);
        }
    }
    for token in tokens {
        let label = session
            .tokenizer()
            .map(|tokenizer| tokenizer.label(token.id))
            .unwrap_or_default();
        let chosen = if view
            .chosen
            .as_ref()
            .is_some_and(|chosen| chosen.row.id == token.id)
        {
            "yes"
        } else {
            ""
        };
        let centred = token.logit - view.logits.stats.mean;
        out.push_str(&format!(
            "{}\t{}\t{label}\t{:.6}\t{centred:.6}\t{:.6}\t{chosen}\n",
            token.rank,
            token.id,
            token.logit,
            100.0 * softmax.prob(token.logit)
        ));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_go_with_the_vocabulary_and_with_escape() {
        let mut state = LogitsState::default();
        let row = Arc::new(LogitsRow::new((0..40).map(|i| i as f32 * 0.1).collect()));
        state.derive(&row, 1.0, None);
        state.toggle_pin(3);
        state.toggle_pin(7);
        state.toggle_pin(3);
        let derived = state.derive(&row, 0.5, None);
        assert_eq!(
            derived
                .pinned
                .iter()
                .map(|token| (token.id, token.rank))
                .collect::<Vec<_>>(),
            [(7, 33)]
        );
        assert_eq!(derived.softmax, Softmax::new(&row.values, 0.5));
        let other = Arc::new(LogitsRow::new(vec![0.0; 5]));
        assert!(state.derive(&other, 0.5, None).pinned.is_empty());
        state.toggle_pin(1);
        state.release_pins();
        assert!(state.derive(&other, 0.5, None).pinned.is_empty());
    }
}
