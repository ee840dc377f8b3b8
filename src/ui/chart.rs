//! What the charts share: numbers as text, type, bars and row grounds, the slot beside a panel's title, and what
//! is said where there is nothing to draw. Owns no state; runs on the window's thread.

use egui::{
    Align, Align2, Color32, CornerRadius, FontId, Layout, Painter, Pos2, Rect, Response, Shape,
    Stroke, StrokeKind, TextStyle, Ui, UiBuilder, pos2, vec2,
};

use super::{
    PanelContext, Theme,
    card::small_capitals,
    theme::{mono_bold, semibold},
};
use crate::{
    sampling::{Filter, SamplingSettings},
    session::{Action, Activity, Session},
};

/// U+2212, as wide as a digit; a hyphen sits too low beside one.
pub const MINUS: char = '−';

// ---- numbers as text ---------------------------------------------------------------------------------------------

/// A probability with one decimal, so that a column of them lines up on the unit. What would round to "0.0 %" or
/// to a certainty that it is not says so.
pub fn percent(p: f64) -> String {
    if p.is_nan() {
        "NaN".to_owned()
    } else if p > 0.0 && p < 0.0005 {
        "<0.1 %".to_owned()
    } else if (0.9995..1.0).contains(&p) {
        ">99.9 %".to_owned()
    } else {
        format!("{:.1} %", 100.0 * p)
    }
}

/// A logit with two decimals; fewer once it has so many digits before the point that the column would overflow.
pub fn number(z: f64) -> String {
    let magnitude = z.abs();
    let digits = match () {
        () if z.is_nan() => return "NaN".to_owned(),
        () if z.is_infinite() => "∞".to_owned(),
        () if magnitude < 999.995 => format!("{magnitude:.2}"),
        () if magnitude < 99_999.5 => format!("{magnitude:.0}"),
        () => format!("{magnitude:.0e}"),
    };
    let zero = digits.chars().all(|digit| matches!(digit, '0' | '.'));
    if z < 0.0 && !zero {
        format!("{MINUS}{digits}")
    } else {
        digits
    }
}

/// A difference: as [`number`] with one decimal and always a sign.
pub fn signed(z: f64) -> String {
    let magnitude = z.abs();
    let digits = match () {
        () if z.is_nan() => return "NaN".to_owned(),
        () if z.is_infinite() => "∞".to_owned(),
        () if magnitude < 9_999.95 => format!("{magnitude:.1}"),
        () => format!("{magnitude:.0e}"),
    };
    format!("{}{digits}", if z < 0.0 { MINUS } else { '+' })
}

/// A whole number with its thousands set apart.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// At most two decimals and no trailing zeros, for settings named in a sentence.
pub fn short(value: f32) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The smallest of 1, 2, 5, 10, 20, 50 … times a power of ten that is not below `max`: an axis that moves only in
/// steps. 1 where there is nothing to fit.
pub fn nice_ceil(max: f64) -> f64 {
    if !(max.is_finite() && max > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(max.log10().floor());
    // The last one is there for what rounding of the logarithm leaves a hair above.
    let steps = [1.0, 2.0, 5.0, 10.0, 20.0];
    steps
        .map(|step| step * power)
        .into_iter()
        .find(|&step| step >= max * (1.0 - 1e-9))
        .unwrap_or(max)
}

/// A filter with its setting, such as "top-k 12".
pub fn filter_name(filter: Filter, settings: &SamplingSettings) -> String {
    match filter {
        Filter::TopK => format!("top-k {}", settings.top_k),
        Filter::TopP => format!("top-p {:.2}", settings.top_p),
        Filter::MinP => format!("min-p {:.2}", settings.min_p),
    }
}

/// What a what-if view changes, such as "T 1.3; drawn at 0.8"; `None` where no number on screen depends on it.
pub fn what_if(shown: &SamplingSettings, drawn: &SamplingSettings) -> Option<String> {
    let mode = |settings: &SamplingSettings| {
        if settings.is_greedy() {
            "greedy"
        } else {
            "sample"
        }
        .to_owned()
    };
    let k = |settings: &SamplingSettings| {
        if settings.top_k == 0 {
            "off".to_owned()
        } else {
            settings.top_k.to_string()
        }
    };
    let all = [
        ("", mode(shown), mode(drawn)),
        ("T ", short(shown.temperature), short(drawn.temperature)),
        ("top-k ", k(shown), k(drawn)),
        ("top-p ", short(shown.top_p), short(drawn.top_p)),
        ("min-p ", short(shown.min_p), short(drawn.min_p)),
        (
            "penalty ",
            short(shown.repetition_penalty),
            short(drawn.repetition_penalty),
        ),
        ("seed ", shown.seed.to_string(), drawn.seed.to_string()),
    ];
    let changed: Vec<_> = all
        .into_iter()
        .filter(|(_, shown, drawn)| shown != drawn)
        .collect();
    match &changed[..] {
        [] => None,
        [(name, shown, drawn)] => Some(format!("{name}{shown}; drawn at {drawn}")),
        several => {
            let list = |side: fn(&(&str, String, String)) -> String| {
                several.iter().map(side).collect::<Vec<_>>().join(", ")
            };
            let (shown, drawn) = (
                list(|(name, shown, _)| format!("{name}{shown}")),
                list(|(name, _, drawn)| format!("{name}{drawn}")),
            );
            Some(format!("{shown}; drawn at {drawn}"))
        }
    }
}

/// The end of the text before a step, in quotes.
pub fn text_before(session: &Session, step: usize) -> String {
    const CHARS: usize = 20;
    let layout = session.layout();
    let end = step
        .checked_sub(1)
        .and_then(|last| layout.ends.get(last))
        .copied()
        .unwrap_or(0);
    let text = layout.text.get(..end).unwrap_or_default();
    let skipped = text
        .char_indices()
        .rev()
        .nth(CHARS - 1)
        .map_or(0, |(at, _)| at);
    let dots = if skipped > 0 { "…" } else { "" };
    format!("“{dots}{}”", text[skipped..].replace('\n', "↵"))
}

/// A label cut to a number of characters, so that it ends in "…" instead of running into the chart.
pub fn fit(label: &str, chars: usize) -> String {
    if label.chars().nth(chars).is_none() {
        return label.to_owned();
    }
    label
        .chars()
        .take(chars.saturating_sub(1))
        .chain(['…'])
        .collect()
}

// ---- type --------------------------------------------------------------------------------------------------------

/// The faces of a chart at the current type scale.
pub struct Faces {
    pub mono: FontId,
    pub bold: FontId,
    pub small: FontId,
    /// Advance of a monospaced digit, in points.
    pub digit: f32,
    /// Height of a line of small type, in points.
    pub line: f32,
}

impl Faces {
    pub fn of(ui: &Ui) -> Self {
        let mono = TextStyle::Monospace.resolve(ui.style());
        let small = TextStyle::Small.resolve(ui.style());
        let (digit, line) = ui
            .ctx()
            .fonts_mut(|fonts| (fonts.glyph_width(&mono, '0'), fonts.row_height(&small)));
        Self {
            bold: FontId::new(mono.size, mono_bold()),
            mono,
            small,
            digit,
            line,
        }
    }

    /// Monospaced, bold for what was chosen.
    pub fn token(&self, strong: bool) -> &FontId {
        if strong { &self.bold } else { &self.mono }
    }

    pub fn small_width(&self, ui: &Ui, text: &str) -> f32 {
        ui.painter()
            .layout_no_wrap(text.to_owned(), self.small.clone(), Color32::PLACEHOLDER)
            .size()
            .x
    }
}

/// Writes text whose right end is at `at`, centred on it vertically; returns where it is.
pub fn text_right(
    painter: &Painter,
    at: Pos2,
    text: impl ToString,
    font: &FontId,
    color: Color32,
) -> Rect {
    painter.text(at, Align2::RIGHT_CENTER, text, font.clone(), color)
}

/// Writes text whose left end is at `at`, centred on it vertically; returns where it is.
pub fn text_left(
    painter: &Painter,
    at: Pos2,
    text: impl ToString,
    font: &FontId,
    color: Color32,
) -> Rect {
    painter.text(at, Align2::LEFT_CENTER, text, font.clone(), color)
}

/// One dim line of small type at the top of `rect`, cut with "…" where it does not fit; the whole is read on hover.
pub fn note(ui: &mut Ui, rect: Rect, text: &str, theme: &Theme) {
    let label = egui::Label::new(egui::RichText::new(text).small().color(theme.dim)).truncate();
    ui.place(rect, label).on_hover_text(text);
}

// ---- shapes ------------------------------------------------------------------------------------------------------

/// The part of a row that its bar takes, in points.
pub fn bar_height(row_height: f32) -> f32 {
    (0.66 * row_height).round()
}

pub fn bar(painter: &Painter, rect: Rect, color: Color32) {
    painter.rect_filled(rect, CornerRadius::same(2), color);
}

/// A dashed outline: something that a filter cut, or that is not there yet.
pub fn hollow_bar(painter: &Painter, rect: Rect, color: Color32) {
    let rect = rect.shrink(0.5);
    let corners = [
        rect.left_top(),
        rect.right_top(),
        rect.right_bottom(),
        rect.left_bottom(),
        rect.left_top(),
    ];
    painter.extend(Shape::dashed_line(
        &corners,
        Stroke::new(1.0, color),
        3.0,
        2.5,
    ));
}

/// A small triangle that points left at what was chosen.
pub fn mark(painter: &Painter, center: Pos2, size: f32, color: Color32) {
    let half = 0.5 * size;
    let points = vec![
        center + vec2(-half, 0.0),
        center + vec2(half, -half),
        center + vec2(half, half),
    ];
    painter.add(Shape::convex_polygon(points, color, Stroke::NONE));
}

/// The ground of a row that the pointer or the keyboard is on.
pub fn row_ground(painter: &Painter, rect: Rect, response: &Response, theme: &Theme) {
    let rect = rect.expand2(vec2(4.0, -0.5));
    if response.hovered() {
        painter.rect_filled(rect, CornerRadius::same(4), theme.field);
    }
    if response.has_focus() {
        painter.rect_stroke(
            rect,
            CornerRadius::same(4),
            Stroke::new(1.5, theme.ink),
            StrokeKind::Inside,
        );
    }
}

/// How high a row may be so that `wanted` of them fit into `height`: never above the usual height, and at most an
/// eighth below it; then fewer fit.
pub fn fitting_row_height(usual: f32, height: f32, wanted: usize) -> f32 {
    (height / wanted.max(1) as f32).clamp(0.875 * usual, usual)
}

// ---- panel furniture ---------------------------------------------------------------------------------------------

/// The room beside a panel's title, left of its menu: for the one control that the panel lives by. Laid out from
/// the right.
pub fn header_slot(ui: &mut Ui, title: &str, theme: &Theme, contents: impl FnOnce(&mut Ui)) {
    let title = egui::WidgetText::from(small_capitals(title, theme));
    let title_width = title
        .into_galley(
            ui,
            Some(egui::TextWrapMode::Extend),
            f32::INFINITY,
            TextStyle::Small,
        )
        .size()
        .x;
    let card = ui.max_rect();
    let gap = ui.spacing().item_spacing.x;
    let height = ui.spacing().interact_size.y;
    let rect = Rect::from_min_max(
        pos2(card.left() + title_width + 2.0 * gap, card.top()),
        pos2(
            card.right() - ui.spacing().interact_size.x - 0.5 * gap,
            card.top() + height,
        ),
    );
    if rect.width() < 24.0 {
        return;
    }
    let mut slot = ui.new_child(
        UiBuilder::new()
            .id_salt("header slot")
            .max_rect(rect)
            .layout(Layout::right_to_left(Align::Center)),
    );
    slot.set_clip_rect(rect.expand(2.0).intersect(slot.clip_rect()));
    contents(&mut slot);
}

/// The menu entry that every chart has.
pub fn copy_table_item(ui: &mut Ui, table: impl FnOnce() -> Option<String>) {
    if ui.button("Copy numbers as table").clicked()
        && let Some(table) = table()
    {
        ui.ctx().copy_text(table);
    }
}

/// What to say where a step has no distribution to draw, and whether computing it again would help.
fn why_no_view(session: &Session) -> (String, bool) {
    let step = session.selected();
    if let Some(loading) = session.loading() {
        return (format!("Loading {}…", loading.name), false);
    }
    if session.model().is_none() {
        return (
            "No model is loaded. Choose one from the model menu.".to_owned(),
            false,
        );
    }
    if session
        .prediction(step)
        .is_some_and(|prediction| prediction.logits.is_none())
    {
        return (
            "The logits of this step were let go for memory.".to_owned(),
            !session.is_running(),
        );
    }
    if session.is_too_long() {
        return (
            "The text is longer than the context, so nothing is predicted from it.".to_owned(),
            false,
        );
    }
    if step < session.len() && step <= session.context_start() {
        let why = if session.context_start() == 0 {
            "Nothing comes before the first token, so no prediction was made of it."
        } else {
            "This token lies before the context: the model never saw it."
        };
        return (why.to_owned(), false);
    }
    match session.activity() {
        Activity::Predicting => ("Predicting…".to_owned(), false),
        _ => ("No prediction yet.".to_owned(), false),
    }
}

/// Says why there is nothing to draw.
pub fn no_view(ui: &mut Ui, ctx: &mut PanelContext) {
    let (why, recomputable) = why_no_view(ctx.session);
    ui.add_space(8.0 * ctx.scale);
    ui.add(egui::Label::new(egui::RichText::new(why).color(ctx.theme.dim)).wrap());
    if recomputable && ui.button("Compute again").clicked() {
        ctx.act(Action::Recompute);
    }
}

/// Bold small type for words that a chart stresses.
pub fn strong_small(size: f32) -> FontId {
    FontId::new(size, semibold())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_line_up_and_never_round_to_what_is_not_so() {
        for (p, text) in [
            (0.085, "8.5 %"),
            (1.0, "100.0 %"),
            (0.0, "0.0 %"),
            (1e-12, "<0.1 %"),
            (0.000_499, "<0.1 %"),
            (0.0005, "0.1 %"),
            (0.999_6, ">99.9 %"),
            (0.999, "99.9 %"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(percent(p), text, "{p}");
        }
    }

    #[test]
    fn logits_have_a_true_minus_and_a_bounded_width() {
        for (z, text) in [
            (6.703, "6.70"),
            (-12.16, "−12.16"),
            (-0.001, "0.00"),
            (-1234.5, "−1234"),
            (2.5e30, "2e30"),
            (f64::NEG_INFINITY, "−∞"),
            (f64::INFINITY, "∞"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(z), text, "{z}");
            assert!(number(z).chars().count() <= 7);
        }
        assert_eq!(signed(9.72), "+9.7");
        assert_eq!(signed(-9.24), "−9.2");
        assert_eq!(signed(f64::NEG_INFINITY), "−∞");
    }

    #[test]
    fn counts_have_their_thousands_set_apart() {
        for (n, text) in [
            (0, "0"),
            (512, "512"),
            (4096, "4,096"),
            (50_257, "50,257"),
            (1_000_000, "1,000,000"),
        ] {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn axes_move_in_steps() {
        for (max, step) in [
            (0.085, 0.1),
            (0.1, 0.1),
            (0.11, 0.2),
            (0.62, 1.0),
            (1.0, 1.0),
            (5.1, 10.0),
            (0.0, 1.0),
            (f64::NAN, 1.0),
            (f64::INFINITY, 1.0),
        ] {
            assert!(
                (nice_ceil(max) - step).abs() < 1e-9,
                "{max}: {}",
                nice_ceil(max)
            );
        }
        for exponent in -12..12 {
            for digit in 1..100 {
                let max = f64::from(digit) * 0.1 * 10f64.powi(exponent);
                let step = nice_ceil(max);
                assert!(
                    step >= max * (1.0 - 1e-9) && step <= 2.51 * max,
                    "{max}: {step}"
                );
            }
        }
    }

    #[test]
    fn a_what_if_names_what_differs_and_only_that() {
        let drawn = SamplingSettings::default();
        assert_eq!(what_if(&drawn, &drawn), None);
        let hotter = SamplingSettings {
            temperature: 1.3,
            ..drawn.clone()
        };
        assert_eq!(
            what_if(&hotter, &drawn).as_deref(),
            Some("T 1.3; drawn at 0.8")
        );
        let two = SamplingSettings { top_k: 0, ..hotter };
        assert_eq!(
            what_if(&two, &drawn).as_deref(),
            Some("T 1.3, top-k off; drawn at T 0.8, top-k 40")
        );
        let longer = SamplingSettings {
            max_new_tokens: 7,
            ..drawn.clone()
        };
        assert_eq!(
            what_if(&longer, &drawn),
            None,
            "no number on screen depends on the budget"
        );
    }

    #[test]
    fn labels_are_cut_by_characters() {
        assert_eq!(fit("·thought", 8), "·thought");
        assert_eq!(fit("·thoughts", 8), "·though…");
        assert_eq!(fit("日本語", 2), "日…");
        assert_eq!(fit("", 0), "");
    }

    #[test]
    fn rows_shrink_a_little_before_fewer_fit() {
        assert_eq!(fitting_row_height(24.0, 600.0, 20), 24.0);
        assert_eq!(fitting_row_height(24.0, 460.0, 20), 23.0);
        assert_eq!(fitting_row_height(24.0, 100.0, 20), 21.0);
    }
}
