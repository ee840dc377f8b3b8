//! Logits → softmax panel: the same tokens twice, as logits on both sides of a zero line and as softmax at the
//! chosen temperature over the whole vocabulary, before any filter.
//!
//! Dragging its temperature changes the session's settings, which reshapes the stored step; the model does not run.
//! Runs on the window's thread; what needs the whole vocabulary is worked out once for each row and temperature.

use std::sync::{Arc, Weak};

use egui::{DragValue, Id, Rect, Response, ScrollArea, Sense, Slider, Ui, UiBuilder, pos2, vec2};
use egui_material_icons::icons::ICON_KEEP;

use super::{
    PanelContext, Theme,
    card::Card,
    chart::{self, Faces},
};
use crate::{
    prediction::LogitsRow,
    sampling::{Mode, SamplingSettings, Softmax, rank},
    session::{Action, Session, StepView},
};

const TITLE: &str = "Logits → softmax";

/// Most rows from the top of the distribution.
const TOP: usize = 12;
/// Rows from far down.
const FAR: usize = 3;

/// What the panel remembers.
#[derive(Default, serde::Serialize, serde::Deserialize)]
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
struct Derived {
    row: Weak<LogitsRow>,
    temperature: f32,
    softmax: Softmax,
    far: Vec<Token>,
    /// In the order of the pins.
    pinned: Vec<Token>,
}

/// A token with its place in the order.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Token {
    id: u32,
    logit: f32,
    rank: usize,
}

impl LogitsState {
    /// Lets go of all pinned tokens.
    pub fn release_pins(&mut self) {
        self.pinned.clear();
    }

    fn toggle_pin(&mut self, id: u32) {
        match self.pinned.iter().position(|&pinned| pinned == id) {
            Some(at) => drop(self.pinned.remove(at)),
            None => self.pinned.push(id),
        }
    }

    /// Brings what is derived from the row up to date.
    fn derive(&mut self, row: &Arc<LogitsRow>, temperature: f32) -> &Derived {
        let values = &row.values;
        if self.pinned_in != values.len() {
            self.pinned.clear();
            self.pinned_in = values.len();
        }
        let mut derived = match self.derived.take() {
            Some(old) if std::ptr::eq(old.row.as_ptr(), Arc::as_ptr(row)) => old,
            _ => Derived {
                row: Arc::downgrade(row),
                temperature,
                softmax: Softmax::new(values, temperature),
                far: far_tokens(values),
                pinned: Vec::new(),
            },
        };
        if derived.temperature != temperature {
            derived.temperature = temperature;
            derived.softmax = Softmax::new(values, temperature);
        }
        if !derived
            .pinned
            .iter()
            .map(|token| token.id)
            .eq(self.pinned.iter().copied())
        {
            let token = |&id: &u32| Token {
                id,
                logit: values.get(id as usize).copied().unwrap_or(f32::NAN),
                rank: rank(values, id),
            };
            derived.pinned = self.pinned.iter().map(token).collect();
        }
        self.derived.insert(derived)
    }
}

/// The ranks from far down that are shown of a vocabulary, none of them among the top rows.
fn far_ranks(vocab_size: usize) -> Vec<usize> {
    let mut ranks = vec![vocab_size / 4, vocab_size / 2, vocab_size];
    ranks.retain(|&rank| rank > TOP);
    ranks.dedup();
    ranks
}

/// The tokens at [`far_ranks`], found without sorting the whole row.
fn far_tokens(values: &[f32]) -> Vec<Token> {
    // The order of `sampling::rank`: larger logits first, ties lowest id, NaN last.
    let before = |a: &u32, b: &u32| {
        let key = |id: u32| values.get(id as usize).map_or(f32::NAN, |&z| z + 0.0);
        let (za, zb) = (key(*a), key(*b));
        za.is_nan()
            .cmp(&zb.is_nan())
            .then_with(|| zb.partial_cmp(&za).unwrap_or(std::cmp::Ordering::Equal))
            .then(a.cmp(b))
    };
    let mut ids: Vec<u32> = (0..values.len() as u32).collect();
    let mut found = Vec::with_capacity(FAR);
    // From the far end, so that each search only looks at what comes before the last one.
    for rank in far_ranks(values.len()).into_iter().rev() {
        let (_, &mut id, _) = ids.select_nth_unstable_by(rank - 1, before);
        found.push(Token {
            id,
            logit: values[id as usize],
            rank,
        });
        ids.truncate(rank);
    }
    found.reverse();
    found
}

/// The temperature of the softmax column: greedy has none, so it is shown at 1.
fn shown_temperature(settings: &SamplingSettings) -> f32 {
    if settings.is_greedy() {
        1.0
    } else {
        settings.temperature
    }
}

// ---- which rows --------------------------------------------------------------------------------------------------

/// The rows that are shown: the first of the top, then those asked for, then those from far down.
#[derive(Debug, PartialEq)]
struct Plan {
    top: usize,
    extras: Vec<Token>,
    far: Vec<Token>,
}

impl Plan {
    /// Fills `slots` rows. What was asked for takes the place of the last top rows, so that nothing else moves;
    /// three top rows stay in any case, and the list scrolls.
    fn new(slots: usize, top: &[Token], asked: &[Token], far: &[Token]) -> Self {
        let far_len = match slots {
            0..=3 => 0,
            4..=5 => 1,
            _ => FAR,
        };
        let far: Vec<_> = far.iter().rev().take(far_len).rev().copied().collect();
        let mut shown = top
            .len()
            .min(TOP)
            .min(slots.saturating_sub(far.len()).max(1));
        loop {
            let mut extras: Vec<Token> = Vec::new();
            for token in asked {
                let is_there = |list: &[Token]| list.iter().any(|other| other.id == token.id);
                if !is_there(&top[..shown]) && !is_there(&far) && !is_there(&extras) {
                    extras.push(*token);
                }
            }
            if shown + extras.len() + far.len() <= slots || shown <= 3 {
                return Self {
                    top: shown,
                    extras,
                    far,
                };
            }
            shown -= 1;
        }
    }

    fn len(&self) -> usize {
        self.top + self.extras.len() + self.far.len()
    }
}

// ---- layout ------------------------------------------------------------------------------------------------------

/// Where the columns are: ends of the bars, right ends of the numbers.
#[derive(Clone, Debug, PartialEq)]
struct Columns {
    label_chars: usize,
    label: f32,
    logit_bar: std::ops::Range<f32>,
    centred: Option<f32>,
    raw: Option<f32>,
    prob_bar: std::ops::Range<f32>,
    prob: f32,
}

impl Columns {
    /// One of the two logit columns is given up where there is no room for both: never the one that the bars show.
    fn fit(left: f32, width: f32, digit: f32, gap: f32, raw_bars: bool) -> Self {
        let number = 7.0 * digit;
        let wide = width > 60.0 * digit;
        let label_chars = if wide {
            14
        } else if width > 40.0 * digit {
            10
        } else {
            7
        };
        let least_bars = 10.0 * digit;
        let fixed = label_chars as f32 * digit + gap + number + 2.0 * gap;
        let both = width - fixed - 2.0 * (number + gap) >= least_bars;
        let one = both || width - fixed - (number + gap) >= 0.5 * least_bars;
        let (has_centred, has_raw) = (both || (one && !raw_bars), both || (one && raw_bars));
        let columns = (usize::from(has_centred) + usize::from(has_raw)) as f32;
        let bars = (width - fixed - columns * (number + gap)).max(0.0);
        let label = left + label_chars as f32 * digit;
        let logit_bar = label + gap..label + gap + 0.5 * bars;
        let mut right = logit_bar.end;
        let mut next = |shown: bool| {
            shown.then(|| {
                right += gap + number;
                right
            })
        };
        let centred = next(has_centred);
        let raw = next(has_raw);
        let prob = left + width;
        let prob_bar = (right + gap).min(prob)..(prob - number - gap).max((right + gap).min(prob));
        Self {
            label_chars,
            label,
            logit_bar,
            centred,
            raw,
            prob_bar,
            prob,
        }
    }
}

// ---- drawing -----------------------------------------------------------------------------------------------------

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
    let title = Card {
        title: TITLE,
        subtitle,
    }
    .show(
        ui,
        ctx.theme,
        |ui| {
            for (choice, name) in [(false, "Bars show z − mean z"), (true, "Bars show raw z")] {
                if ui.radio(raw == choice, name).clicked() {
                    bars = Some(choice);
                }
            }
            release = ui
                .add_enabled(pins, egui::Button::new("Release pins"))
                .clicked();
            chart::copy_table_item(ui, || session.view().map(|view| table(session, view)));
        },
        |ui| match session.view() {
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

/// What all rows of one frame share.
struct Rows<'a> {
    view: &'a StepView,
    faces: Faces,
    columns: Columns,
    softmax: Softmax,
    raw: bool,
    /// Logit at either end of the diverging bars.
    extent: f64,
    /// Probability at the right end of the softmax bars.
    full: f64,
}

fn both_charts(ui: &mut Ui, ctx: &mut PanelContext, view: &StepView, state: &mut LogitsState) {
    let raw = state.raw;
    let (pinned_ids, vocab_size) = (state.pinned.clone(), view.logits.values.len());
    let derived = state.derive(&view.logits, shown_temperature(&view.settings));
    let area = ui.available_rect_before_wrap();
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
    chart::header_slot(ui, TITLE, ctx.theme, |ui| {
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
                .fixed_decimals(2);
            let number = ui
                .add_sized([46.0 * scale, ui.spacing().interact_size.y], number)
                .on_hover_text(why)
                .on_disabled_hover_text(why);
            number.accessible_name("Temperature of the softmax");
            if room > 160.0 * scale {
                ui.spacing_mut().slider_width = (room - 90.0 * scale).min(96.0 * scale);
                let slider = ui
                    .add(
                        Slider::new(&mut temperature, 0.0..=2.0)
                            .step_by(0.01)
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
        if ui.available_width() > faces.small_width(ui, fits) + 8.0 {
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

impl Rows<'_> {
    fn centred(&self, logit: f32) -> f64 {
        f64::from(logit) - f64::from(self.view.logits.stats.mean)
    }

    fn bar_value(&self, logit: f32) -> f64 {
        if self.raw {
            logit.into()
        } else {
            self.centred(logit)
        }
    }

    fn zero(&self) -> f32 {
        0.5 * (self.columns.logit_bar.start + self.columns.logit_bar.end)
    }

    fn zero_line(&self, ui: &Ui, theme: &Theme, rect: Rect) {
        let x = ui.painter().round_to_pixel_center(self.zero());
        let ends = [pos2(x, rect.top()), pos2(x, rect.bottom())];
        ui.painter().extend(egui::Shape::dashed_line(
            &ends,
            egui::Stroke::new(1.0, theme.dim),
            3.0,
            3.0,
        ));
    }

    /// Shows one row; true when it was asked to pin or release its token.
    fn show(
        &self,
        ui: &Ui,
        ctx: &PanelContext,
        rect: Rect,
        slot: usize,
        token: &Token,
        pinned: bool,
    ) -> bool {
        let chosen = self
            .view
            .chosen
            .as_ref()
            .is_some_and(|chosen| chosen.row.id == token.id);
        let label = ctx.label(token.id);
        let prob = self.softmax.prob(token.logit);
        let response = ui.interact(rect, Id::unique("logits row").with(slot), Sense::click());
        response.widget_info(|| {
            egui::WidgetInfo::labeled(
                egui::Role::Button,
                true,
                self.name(&label, token, prob, chosen, pinned),
            )
        });
        if response.gained_focus() {
            ui.scroll_to_rect(rect, None);
        }
        if ui.is_rect_visible(rect) {
            chart::row_ground(ui.painter(), rect, &response, ctx.theme);
            self.paint(ui, ctx.theme, rect, &label, token, prob, chosen);
            if pinned {
                let font = egui::FontId::new(self.faces.small.size, ICON_KEEP.font_family());
                chart::text_left(
                    ui.painter(),
                    pos2(rect.left(), rect.center().y),
                    ICON_KEEP.codepoint,
                    &font,
                    ctx.theme.dim,
                );
            }
        }
        let toggled = response.clicked() || response.secondary_clicked();
        response.on_hover_ui(|ui| self.details(ui, &label, token, prob, pinned));
        toggled
    }

    fn paint(
        &self,
        ui: &Ui,
        theme: &Theme,
        rect: Rect,
        label: &str,
        token: &Token,
        prob: f64,
        chosen: bool,
    ) {
        let painter = ui.painter();
        let Self { columns, faces, .. } = self;
        let y = rect.center().y;
        let half = 0.5 * chart::bar_height(rect.height());
        chart::text_right(
            painter,
            pos2(columns.label, y),
            chart::fit(label, columns.label_chars),
            faces.token(chosen),
            theme.ink,
        );
        let value = self.bar_value(token.logit);
        if value.is_finite() {
            let zero = self.zero();
            let length =
                ((value.abs() / self.extent) as f32).min(1.0) * (columns.logit_bar.end - zero);
            let (range, color) = if value < 0.0 {
                (zero - length.max(1.0)..=zero, theme.negative)
            } else {
                (zero..=zero + length.max(1.0), theme.positive)
            };
            chart::bar(
                painter,
                Rect::from_x_y_ranges(range, y - half..=y + half),
                color,
            );
        }
        for (x, text) in [
            (columns.centred, chart::signed(self.centred(token.logit))),
            (columns.raw, chart::number(token.logit.into())),
        ] {
            if let Some(x) = x {
                chart::text_right(painter, pos2(x, y), text, &faces.mono, theme.dim);
            }
        }
        if prob > 0.0 {
            let start = columns.prob_bar.start;
            let length = ((prob / self.full) as f32).min(1.0) * (columns.prob_bar.end - start);
            let color = if chosen {
                theme.chosen
            } else {
                theme.probability
            };
            chart::bar(
                painter,
                Rect::from_x_y_ranges(start..=start + length.max(1.5), y - half..=y + half),
                color,
            );
        }
        chart::text_right(
            painter,
            pos2(columns.prob, y),
            chart::percent(prob),
            faces.token(chosen),
            theme.ink,
        );
    }

    fn name(&self, label: &str, token: &Token, prob: f64, chosen: bool, pinned: bool) -> String {
        format!(
            "{label}, rank {}, logit {}, z − mean z {}, softmax {} at T {:.2}{}{}",
            token.rank,
            chart::number(token.logit.into()),
            chart::signed(self.centred(token.logit)),
            chart::percent(prob),
            shown_temperature(&self.view.settings),
            if chosen { ", chosen" } else { "" },
            if pinned { ", pinned" } else { "" }
        )
    }

    fn details(&self, ui: &mut Ui, label: &str, token: &Token, prob: f64, pinned: bool) {
        let stats = &self.view.logits.stats;
        ui.label(egui::RichText::new(format!("{label}  ·  id {}", token.id)).monospace());
        ui.label(format!(
            "rank {} of {}",
            chart::count(token.rank),
            chart::count(self.view.logits.values.len())
        ));
        ui.label(format!(
            "z {:.5}  ·  z − mean z {:+.5}  ·  mean z {:.5}",
            token.logit,
            self.centred(token.logit),
            stats.mean
        ));
        ui.label(format!(
            "softmax {:.5} % at T {:.2}",
            100.0 * prob,
            shown_temperature(&self.view.settings)
        ));
        ui.label(format!(
            "softmax {:.5} % at T 1, model P",
            100.0 * stats.prob(token.logit)
        ));
        ui.label(if pinned {
            "Click to let go"
        } else {
            "Click to pin"
        });
    }
}

/// Tab-separated, one row a token: the most likely ones and those from far down.
fn table(session: &Session, view: &StepView) -> String {
    let temperature = shown_temperature(&view.settings);
    let softmax = Softmax::new(&view.logits.values, temperature);
    let mut out = format!(
        "rank\tid\ttoken\tlogit z\tz - mean z\tsoftmax at T {temperature:.2} (%)\tchosen\n"
    );
    let top = view.top.iter().map(|row| Token {
        id: row.id,
        logit: row.logit,
        rank: row.rank,
    });
    let far = far_tokens(&view.logits.values)
        .into_iter()
        .filter(|token| token.rank > view.top.len());
    for token in top.chain(far) {
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
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(ids: std::ops::Range<u32>) -> Vec<Token> {
        ids.map(|id| Token {
            id,
            logit: -(id as f32),
            rank: id as usize + 1,
        })
        .collect()
    }

    #[test]
    fn far_rows_are_the_same_for_a_row_and_have_the_ranks_they_say() {
        assert_eq!(far_ranks(4096), [1024, 2048, 4096]);
        assert_eq!(far_ranks(50_257), [12_564, 25_128, 50_257]);
        assert_eq!(far_ranks(5), [] as [usize; 0]);
        assert_eq!(far_ranks(13), [13]);
        let mut values: Vec<f32> = (0..997u32)
            .map(|i| ((i * 7919) % 131) as f32 * 0.25 - 9.0)
            .collect();
        values[13] = f32::NAN;
        values[14] = f32::NEG_INFINITY;
        values[15] = -0.0;
        values[16] = 0.0;
        for token in far_tokens(&values) {
            assert_eq!(rank(&values, token.id), token.rank);
        }
        assert!(
            far_tokens(&values)
                .last()
                .is_some_and(|token| token.logit.is_nan())
        );
        assert!(far_tokens(&[]).is_empty());
    }

    #[test]
    fn what_is_asked_for_takes_the_place_of_the_last_top_rows() {
        let (top, far) = (tokens(0..20), tokens(100..103));
        let plan = Plan::new(9, &top, &[], &far);
        assert_eq!((plan.top, plan.extras.len(), plan.far.len()), (6, 0, 3));
        let inside = Plan::new(9, &top, &top[2..3], &far);
        assert_eq!((inside.top, inside.extras.len()), (6, 0));
        // Rank 6 is in the sixth slot already: it must not push itself out.
        assert_eq!(Plan::new(9, &top, &top[5..6], &far).extras.len(), 0);
        let outside = Plan::new(9, &top, &[top[7], top[15]], &far);
        assert_eq!(
            (outside.top, outside.extras.len(), outside.len()),
            (4, 2, 9)
        );
        // A token is never shown twice.
        assert!(
            Plan::new(9, &top, &[far[0], far[0]], &far)
                .extras
                .is_empty()
        );
        assert_eq!(
            Plan::new(9, &top, &[top[15], top[15]], &far).extras.len(),
            1
        );
    }

    #[test]
    fn few_slots_keep_the_top() {
        let (top, far) = (tokens(0..20), tokens(100..103));
        assert_eq!(Plan::new(1, &top, &[], &far).far.len(), 0);
        assert_eq!(Plan::new(4, &top, &[], &far).far, &far[2..]);
        let crowded = Plan::new(4, &top, &tokens(50..60), &far);
        assert_eq!(
            (crowded.top, crowded.extras.len()),
            (3, 10),
            "the list scrolls"
        );
        assert_eq!(Plan::new(15, &tokens(0..2), &[], &[]).top, 2);
        assert_eq!(Plan::new(15, &[], &[], &[]).len(), 0);
    }

    #[test]
    fn columns_never_overlap() {
        for scale in [1.0, 2.5] {
            for width in (40..1600).step_by(7) {
                for raw in [false, true] {
                    let columns = Columns::fit(0.0, width as f32, 7.8 * scale, 9.0 * scale, raw);
                    assert!(
                        columns.prob_bar.start <= columns.prob_bar.end
                            && columns.logit_bar.start <= columns.logit_bar.end,
                        "{width} {columns:?}"
                    );
                    let ends: Vec<_> = [
                        Some(columns.label),
                        Some(columns.logit_bar.start),
                        Some(columns.logit_bar.end),
                        columns.centred,
                        columns.raw,
                        Some(columns.prob_bar.start),
                        Some(columns.prob_bar.end),
                    ]
                    .into_iter()
                    .flatten()
                    .collect();
                    if columns.centred.is_some() || columns.raw.is_some() {
                        assert!(ends.is_sorted(), "{width} {columns:?}");
                    }
                }
            }
        }
        let sketched = Columns::fit(0.0, 512.0, 7.8, 9.0, false);
        assert!(
            sketched.centred.is_some() && sketched.raw.is_some(),
            "{sketched:?}"
        );
    }

    #[test]
    fn pins_go_with_the_vocabulary_and_with_escape() {
        let mut state = LogitsState::default();
        let row = Arc::new(LogitsRow::new((0..40).map(|i| i as f32 * 0.1).collect()));
        state.derive(&row, 1.0);
        state.toggle_pin(3);
        state.toggle_pin(7);
        state.toggle_pin(3);
        let derived = state.derive(&row, 0.5);
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
        assert!(state.derive(&other, 0.5).pinned.is_empty());
        state.toggle_pin(1);
        state.release_pins();
        assert!(state.derive(&other, 0.5).pinned.is_empty());
    }
}
