//! What the Next token panel says in words: pure functions of a step.

use egui::Ui;

use super::MATCHES;
use crate::{
    sampling::Filter,
    session::{Origin, Session, StepView, TokenRow},
    ui::chart,
};

const FILTERS: [Filter; 3] = [Filter::TopK, Filter::TopP, Filter::MinP];

pub(super) fn subtitle(session: &Session, view: &StepView) -> String {
    let after = if view.step == 0 {
        "at the start".to_owned()
    } else {
        format!("after {}", chart::text_before(session, view.step))
    };
    if let Some(what_if) = view
        .drawn_with
        .as_ref()
        .and_then(|drawn| chart::what_if(&view.settings, drawn))
    {
        return format!("{what_if} · Esc shows it as drawn · {after}");
    }
    let how = match &view.chosen {
        None => "open step".to_owned(),
        Some(chosen) => match (chosen.origin, chosen.u) {
            (Origin::Sampled, Some(u)) if chosen.redraw > 0 => {
                format!("drawn u = {u:.3}, draw {}", chosen.redraw + 1)
            }
            (Origin::Sampled, Some(u)) => format!("drawn u = {u:.3}"),
            (origin, _) => origin.name().to_owned(),
        },
    };
    format!(
        "{after} · entropy {:.2} nats · {how}",
        view.logits.stats.entropy_nats
    )
}

pub(super) fn top_label(shown: usize, all: usize) -> String {
    if shown < all {
        format!("top {shown} of {all}")
    } else {
        format!("top {all}")
    }
}

pub(super) fn matches_label(found: usize) -> String {
    match found {
        0 => "no match".to_owned(),
        1 => "1 match".to_owned(),
        MATCHES => format!("first {MATCHES}"),
        _ => format!("{found} matches"),
    }
}

/// The drawn-from column.
pub(super) fn drawn_from(token: &TokenRow, view: &StepView) -> String {
    chart::drawn_from(token, view.distribution.is_greedy())
}

/// What a screen reader says of a row.
pub(super) fn name(label: &str, token: &TokenRow, view: &StepView, chosen: bool) -> String {
    let drawn = match token.cut_by {
        Some(filter) => format!("cut by {}", chart::filter_name(filter, &view.settings)),
        None => format!("drawn from {}", drawn_from(token, view)),
    };
    format!(
        "{label}, rank {}, model P {}, {drawn}, logit {}{}",
        token.rank,
        chart::percent(token.prob),
        chart::number(token.logit.into()),
        if chosen { ", chosen" } else { "" }
    )
}

/// The tooltip of a row.
pub(super) fn details(
    ui: &mut Ui,
    session: &Session,
    view: &StepView,
    label: &str,
    token: &TokenRow,
) {
    ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
    ui.label(egui::RichText::new(format!("{label}  ·  id {}", token.id)).monospace());
    ui.label(format!(
        "rank {} of {}",
        chart::count(token.rank),
        chart::count(view.logits.values.len())
    ));
    ui.label(format!(
        "model P {:.5} %  ·  surprisal {:.4} nats",
        100.0 * token.prob,
        -view.logits.log_prob(token.id)
    ));
    ui.label(match (token.drawn_from, token.cut_by) {
        (Some(p), _) => format!("drawn from {:.5} %", 100.0 * p),
        (None, Some(filter)) => format!(
            "cut by {}; {:.5} % before the filters",
            chart::filter_name(filter, &view.settings),
            100.0 * view.distribution.tempered_prob(token.id)
        ),
        (None, None) => "not drawn".to_owned(),
    });
    ui.label(match view.distribution.penalised_logit(token.id) {
        Some(z) if z != token.logit => format!(
            "logit {:.5}, {z:.5} after the repetition penalty",
            token.logit
        ),
        _ => format!("logit {:.5}", token.logit),
    });
    if let Some(tokenizer) = session.tokenizer() {
        let bytes: Vec<_> = tokenizer
            .bytes(token.id)
            .iter()
            .map(|byte| format!("{byte:02X}"))
            .collect();
        ui.label(egui::RichText::new(format!("bytes {}", bytes.join(" "))).monospace());
    }
    ui.label("Click to continue with it");
}

pub(super) fn strip_labels(mass: f64, shown: usize, vocab_size: usize) -> (String, String) {
    let others = vocab_size.saturating_sub(shown);
    let rest = if others == 0 {
        0.0
    } else {
        (1.0 - mass).max(0.0)
    };
    (
        format!("top {shown} hold {}", chart::percent(mass)),
        format!(
            "{} others hold {}",
            chart::count(others),
            chart::percent(rest)
        ),
    )
}

/// How much each filter removed, of the distribution that it saw.
pub(super) fn filters_note(view: &StepView) -> String {
    if view.distribution.is_greedy() {
        return "greedy, no filter applies".to_owned();
    }
    let removed = FILTERS.map(|filter| (filter, view.distribution.removed_mass(filter)));
    removed_note(
        &removed,
        view.settings.temperature,
        view.distribution.kept().len(),
        view.logits.values.len(),
    )
}

fn removed_note(
    removed: &[(Filter, f64)],
    temperature: f32,
    kept: usize,
    vocab_size: usize,
) -> String {
    let mut parts = Vec::new();
    for &(filter, mass) in removed.iter().filter(|(_, mass)| *mass > 0.0) {
        let name = match filter {
            Filter::TopK => "top-k",
            Filter::TopP => "top-p",
            Filter::MinP => "min-p",
        };
        parts.push(if parts.is_empty() {
            format!(
                "{name} cut {} after T {}",
                chart::percent(mass),
                chart::short(temperature)
            )
        } else {
            format!("{name} {} of the rest", chart::percent(mass))
        });
    }
    if parts.is_empty() {
        return format!(
            "no filter cut anything, drawn from {} tokens",
            chart::count(kept)
        );
    }
    format!(
        "{} · {} of {} left",
        parts.join(", "),
        chart::count(kept),
        chart::count(vocab_size)
    )
}

pub(super) fn hints(view: &StepView, on_paper: bool) -> [String; 3] {
    let on: Vec<_> = FILTERS
        .into_iter()
        .filter(|&filter| view.distribution.removed_mass(filter) > 0.0)
        .map(|filter| chart::filter_name(filter, &view.settings))
        .collect();
    let hollow = |with_names: bool| match with_names {
        _ if on.is_empty() => String::new(),
        true => format!("hollow: cut by {}", on.join(" or ")),
        false => "hollow: cut".to_owned(),
    };
    if on_paper {
        return [hollow(true), hollow(false), String::new()];
    }
    let join = |hollow: String, click: &str| match &hollow[..] {
        "" => click.to_owned(),
        _ => format!("{hollow} · {click}"),
    };
    let click = "click a row to continue with it";
    [
        join(hollow(true), click),
        join(hollow(false), click),
        join(hollow(false), "click to continue"),
    ]
}

/// Tab-separated, one row a token.
pub(super) fn table(session: &Session, view: &StepView) -> String {
    let mut out =
        String::from("rank\tid\ttoken\tmodel P (%)\tdrawn from (%)\tcut by\tlogit\tchosen\n");
    let elsewhere = view
        .chosen
        .iter()
        .map(|chosen| &chosen.row)
        .filter(|row| view.top.iter().all(|other| other.id != row.id));
    for row in view.top.iter().chain(elsewhere) {
        let label = session
            .tokenizer()
            .map(|tokenizer| tokenizer.label(row.id))
            .unwrap_or_default();
        let drawn = row
            .drawn_from
            .map(|p| format!("{:.6}", 100.0 * p))
            .unwrap_or_default();
        let cut = row
            .cut_by
            .map(|filter| chart::filter_name(filter, &view.settings))
            .unwrap_or_default();
        let chosen = if view
            .chosen
            .as_ref()
            .is_some_and(|chosen| chosen.row.id == row.id)
        {
            "yes"
        } else {
            ""
        };
        out.push_str(&format!(
            "{}\t{}\t{label}\t{:.6}\t{drawn}\t{cut}\t{:.6}\t{chosen}\n",
            row.rank,
            row.id,
            100.0 * row.prob,
            row.logit
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_name_the_distribution_that_each_filter_saw() {
        let removed = [
            (Filter::TopK, 0.123),
            (Filter::TopP, 0.031),
            (Filter::MinP, 0.0),
        ];
        assert_eq!(
            removed_note(&removed, 0.8, 9, 4096),
            "top-k cut 12.3 % after T 0.8, top-p 3.1 % of the rest · 9 of 4,096 left"
        );
        assert_eq!(
            removed_note(&[], 0.8, 4096, 4096),
            "no filter cut anything, drawn from 4,096 tokens"
        );
    }

    #[test]
    fn labels_count_what_they_name() {
        assert_eq!(top_label(14, 20), "top 14 of 20");
        assert_eq!(top_label(20, 20), "top 20");
        assert_eq!(matches_label(0), "no match");
        assert_eq!(matches_label(MATCHES), "first 40");
        assert_eq!(
            strip_labels(0.483, 20, 4096),
            (
                "top 20 hold 48.3 %".to_owned(),
                "4,076 others hold 51.7 %".to_owned()
            )
        );
        assert_eq!(
            strip_labels(1.0, 5, 5),
            (
                "top 5 hold 100.0 %".to_owned(),
                "0 others hold 0.0 %".to_owned()
            )
        );
    }
}
