//! Numbers, settings and labels as the charts write them.

use crate::{
    prediction::{PassTiming, Phase},
    sampling::{Filter, SamplingSettings},
    session::{Session, TokenRow},
};

/// U+2212, as wide as a digit; a hyphen sits too low beside one.
pub const MINUS: char = '−';

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
        () if magnitude < 999.95 => format!("{magnitude:.1}"),
        () if magnitude < 99_999.5 => format!("{magnitude:.0}"),
        () => format!("{magnitude:.0e}"),
    };
    format!("{}{digits}", if z < 0.0 { MINUS } else { '+' })
}

/// What a number field takes: NaN is not a number, and a typed minus may be the true one.
pub fn parse(text: &str) -> Option<f64> {
    let text = text.trim().trim_start_matches('÷').trim_start();
    let value: f64 = text.replace(MINUS, "-").parse().ok()?;
    (!value.is_nan()).then_some(value)
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

/// A time with three digits.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms < 9.995 => format!("{ms:.2} ms"),
        ms if ms < 99.95 => format!("{ms:.1} ms"),
        _ => format!("{} ms", count(ms.round() as usize)),
    }
}

/// Phase, tokens in the pass, model and recording time in ms as cells of a table, empty where there was no pass.
pub fn timing_cells(timing: Option<&PassTiming>) -> String {
    timing.map_or_else(
        || "\t\t\t".to_owned(),
        |timing| {
            if timing.phase == Phase::Typed {
                return format!("{}\t\t\t", timing.phase.name());
            }
            format!(
                "{}\t{}\t{:.3}\t{:.3}",
                timing.phase.name(),
                timing.rows,
                timing.model_ms,
                timing.record_ms
            )
        },
    )
}

/// At most two decimals and no trailing zeros, for settings named in a sentence.
pub fn short(value: f32) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The smallest of 1, 1.5, 2, 3, 4, 6, 8, 10, 15 … times a power of ten that is not below `max`: an axis that moves
/// only in steps, and is never less than two thirds full. 1 where there is nothing to fit.
pub fn nice_ceil(max: f64) -> f64 {
    if !(max.is_finite() && max > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(max.log10().floor());
    // The last one is there for what rounding of the logarithm leaves a hair above.
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 15.0];
    steps
        .map(|step| step * power)
        .into_iter()
        .find(|&step| step >= max * (1.0 - 1e-9))
        .unwrap_or(max)
}

/// The chance of a token to be drawn: "cut" only where a filter did it; under greedy none does, and all but the
/// largest have no chance.
pub fn drawn_from(token: &TokenRow, is_greedy: bool) -> String {
    match (token.drawn_from, token.cut_by) {
        (Some(p), _) => percent(p),
        (None, Some(_)) => "cut".to_owned(),
        (None, None) if is_greedy => percent(0.0),
        (None, None) => "–".to_owned(),
    }
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
    fn number_fields_take_what_they_show_and_no_nan() {
        assert_eq!(parse(" ÷ 1.20 "), Some(1.2));
        assert_eq!(parse("−3"), Some(-3.0));
        assert_eq!(parse("1e-6"), Some(1e-6));
        assert_eq!(parse("NaN"), None);
        assert_eq!(parse("off"), None);
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
    fn times_have_three_digits() {
        for (ms, text) in [(8.4, "8.40 ms"), (12.34, "12.3 ms"), (1234.4, "1,234 ms")] {
            assert_eq!(milliseconds(ms), text);
        }
    }

    #[test]
    fn axes_move_in_steps() {
        for (max, step) in [
            (0.085, 0.1),
            (0.1, 0.1),
            (0.11, 0.15),
            (0.62, 0.8),
            (1.0, 1.0),
            (5.1, 6.0),
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
                    step >= max * (1.0 - 1e-9) && step <= 1.51 * max,
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
}
