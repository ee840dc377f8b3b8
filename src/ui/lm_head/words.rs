//! What the LM head panel says in words: pure functions of a step and its explanation.

use super::{Chart, Scene};
use crate::{
    explanation::{Explanation, Product},
    sampling::rank,
    session::{Session, StepView},
    ui::chart,
};

pub(super) const TOY_HAS_NO_HEAD: &str =
    "A toy has no LM head: its logits are typed, no hidden state leads to them.";

fn label(session: &Session, id: u32) -> String {
    let tokenizer = session.tokenizer();
    tokenizer.map_or_else(|| format!("#{id}"), |tokenizer| tokenizer.label(id))
}

/// A token with what it is in this step.
fn role(session: &Session, view: &StepView, id: u32) -> String {
    let is = |other: Option<u32>| other == Some(id);
    let what = match () {
        () if is(view.chosen.as_ref().map(|chosen| chosen.row.id)) => " (chosen)",
        () if is(view.top.first().map(|row| row.id)) => " (most likely)",
        () => "",
    };
    format!("{}{what}", label(session, id))
}

pub(super) fn subtitle(session: &Session, view: &StepView, which: Chart, token: u32) -> String {
    let token = role(session, view, token);
    let after = if view.step == 0 {
        "at the start".to_owned()
    } else {
        format!("after {}", chart::text_before(session, view.step))
    };
    match which {
        Chart::Products => {
            format!("z = h · w: final hidden state h against a token's row w of the head · {after}")
        }
        Chart::Nearest => format!("cosine with the row of {token}, over all rows of the head"),
        Chart::Lens => {
            format!("ln_f and head after each block · model P, rank of {token} · {after}")
        }
    }
}

pub(super) fn subtitle_of_all(session: &Session) -> String {
    let step = session.selected();
    format!(
        "where the logits of step {step} come from · after {}",
        chart::text_before(session, step)
    )
}

pub(super) fn pending(session: &Session) -> &'static str {
    if session.is_running() {
        "Worked out in the pauses of a slow run, else after it"
    } else {
        "Working it out…"
    }
}

/// A difference in logits with two digits.
fn apart(difference: f64) -> String {
    if difference == 0.0 || difference.is_nan() {
        format!("{difference}")
    } else {
        format!("{difference:.1e}")
    }
}

fn agrees(difference: f64, limit: f64) -> &'static str {
    if difference <= limit {
        "agree with"
    } else {
        "DISAGREE with"
    }
}

pub(super) fn agreement(difference: f64, limit: f64, vocab_size: usize) -> String {
    format!(
        "products {} the logits on record: max |Δ| {} over {} tokens, limit {}",
        agrees(difference, limit),
        apart(difference),
        chart::count(vocab_size),
        apart(limit)
    )
}

pub(super) fn lens_agreement(difference: f64, limit: f64, vocab_size: usize) -> String {
    let verb = if difference <= limit { "is" } else { "IS NOT" };
    format!(
        "the last row {verb} the output: max |Δ| {} to the record over {} tokens, limit {}",
        apart(difference),
        chart::count(vocab_size),
        apart(limit)
    )
}

pub(super) fn nearest_note(scene: &Scene) -> String {
    format!(
        "direction alone, whatever the lengths; over all {} rows · click a row to go on from it",
        chart::count(scene.vocab_size())
    )
}

/// A cosine with its sign.
pub(super) fn cosine(cos: f64) -> String {
    if cos.is_nan() {
        return "–".to_owned();
    }
    let sign = if cos < 0.0 { chart::MINUS } else { '+' };
    format!("{sign}{:.3}", cos.abs())
}

pub(super) fn degrees(cos: f64) -> String {
    if cos.is_nan() {
        "none".to_owned()
    } else {
        format!("{:.1}°", cos.acos().to_degrees())
    }
}

/// What a screen reader says of a row of products.
pub(super) fn product_name(
    label: &str,
    logit: f32,
    product: Option<Product>,
    marks: &str,
) -> String {
    let Some(product) = product else {
        return format!(
            "{label}, logit on record {}, not worked out yet{marks}",
            chart::number(logit.into())
        );
    };
    let bias = product.bias.map_or_else(String::new, |bias| {
        format!(", bias {}", chart::number(bias))
    });
    format!(
        "{label}, length {}, cosine {}{bias}, product {}, logit on record {}{marks}",
        chart::number(product.norm),
        cosine(product.cos),
        chart::number(product.logit),
        chart::number(logit.into())
    )
}

/// The tooltip of a row of products.
pub(super) fn product_details(
    session: &Session,
    explanation: &Explanation,
    id: u32,
    logit: f32,
) -> Vec<String> {
    let mut lines = vec![format!("{}  ·  id {id}", label(session, id))];
    if let Some(product) = explanation.product(id) {
        lines.push(format!(
            "‖h‖ {:.5} · ‖w‖ {:.5} · cos θ {:.5} = {:.5}",
            explanation.hidden_norm, product.norm, product.cos, product.dot
        ));
        lines.push(format!("θ {}", degrees(product.cos)));
        if let Some(bias) = product.bias {
            lines.push(format!("+ bias {bias:.5} = {:.5}", product.logit));
        }
        lines.push(format!(
            "logit on record {logit:.5}, |Δ| {}",
            apart((product.logit - f64::from(logit)).abs())
        ));
    }
    lines.push("Click to look at it, right-click to pin it".to_owned());
    lines
}

/// The name of a stage of the lens.
pub(super) fn stage(stage: usize, stages: usize) -> String {
    match stage {
        0 => "embedding".to_owned(),
        n if n + 1 == stages => format!("block {n} = out"),
        n => format!("block {n}"),
    }
}

pub(super) fn stage_name(
    session: &Session,
    explanation: &Explanation,
    at: usize,
    token: u32,
    rank: usize,
) -> String {
    let row = &explanation.lens[at];
    let top: Vec<_> = row
        .top
        .iter()
        .map(|&id| {
            let p = chart::percent(row.logits.prob(id));
            format!("{} {p}", label(session, id))
        })
        .collect();
    format!(
        "{}: {} rank {}, model P {}; most likely {}",
        stage(at, explanation.lens.len()),
        label(session, token),
        chart::count(rank),
        chart::percent(row.logits.prob(token)),
        top.join(", ")
    )
}

// ---- tables ------------------------------------------------------------------------------------------------------

/// The numbers of a chart, tab-separated.
pub(super) fn table(session: &Session, view: &StepView, which: Chart, token: u32) -> String {
    let explanation = session.explanation().and_then(Result::ok);
    match (which, explanation) {
        (Chart::Nearest, _) => nearest_table(session, view, token),
        (Chart::Products, Some(explanation)) => products_table(session, view, explanation, token),
        (Chart::Lens, Some(explanation)) => lens_table(session, explanation, token),
        (_, None) => String::new(),
    }
}

fn products_table(
    session: &Session,
    view: &StepView,
    explanation: &Explanation,
    token: u32,
) -> String {
    let mut out = String::from(
        "id\ttoken\tlength of h\tlength of w\tcos\tbias\tproduct\tlogit on record\tmodel P (%)\n",
    );
    let top = view.top.iter().map(|row| row.id);
    let others = view.chosen.iter().map(|chosen| chosen.row.id);
    let mut written = Vec::new();
    for id in top.chain(others).chain([token]) {
        let Some(product) = explanation.product(id).filter(|_| !written.contains(&id)) else {
            continue;
        };
        written.push(id);
        let bias = product.bias.map_or_else(String::new, |b| format!("{b:.6}"));
        out.push_str(&format!(
            "{id}\t{}\t{:.6}\t{:.6}\t{:.6}\t{bias}\t{:.6}\t{:.6}\t{:.6}\n",
            label(session, id),
            explanation.hidden_norm,
            product.norm,
            product.cos,
            product.logit,
            view.logits
                .values
                .get(id as usize)
                .copied()
                .unwrap_or(f32::NAN),
            100.0 * view.logits.prob(id)
        ));
    }
    out
}

fn nearest_table(session: &Session, view: &StepView, token: u32) -> String {
    let mut out = String::from("id\ttoken\tcos\tangle (degrees)\tlength of w\tmodel P (%)\n");
    if let Some(Ok(nearest)) = session.nearest(token) {
        for &(id, cos) in &nearest.rows {
            out.push_str(&format!(
                "{id}\t{}\t{cos:.6}\t{:.4}\t{:.6}\t{:.6}\n",
                label(session, id),
                cos.acos().to_degrees(),
                nearest.head.norms[id as usize],
                100.0 * view.logits.prob(id)
            ));
        }
    }
    out
}

fn lens_table(session: &Session, explanation: &Explanation, token: u32) -> String {
    let followed = label(session, token);
    let mut out =
        format!("stage\trank of {followed}\tP of {followed} (%)\tplace\tid\ttoken\tP (%)\n");
    let stages = explanation.lens.len();
    for (at, row) in explanation.lens.iter().enumerate() {
        let own = rank(&row.logits.values, token);
        let own_p = 100.0 * row.logits.prob(token);
        for (place, &id) in row.top.iter().enumerate() {
            out.push_str(&format!(
                "{}\t{own}\t{own_p:.6}\t{}\t{id}\t{}\t{:.6}\n",
                stage(at, stages),
                place + 1,
                label(session, id),
                100.0 * row.logits.prob(id)
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_agree_is_said_loudly() {
        assert_eq!(
            agreement(2.9e-6, 1.2e-3, 4096),
            "products agree with the logits on record: max |Δ| 2.9e-6 over 4,096 tokens, limit 1.2e-3"
        );
        assert!(agreement(0.1, 1e-3, 4096).contains("DISAGREE"));
        assert!(agreement(f64::NAN, 1e-3, 4096).contains("DISAGREE"));
        assert!(agreement(0.0, 1e-3, 4096).contains("max |Δ| 0 over"));
    }

    #[test]
    fn cosines_have_a_sign_and_an_angle_and_may_be_missing() {
        assert_eq!(
            (cosine(0.5), degrees(0.5)),
            ("+0.500".to_owned(), "60.0°".to_owned())
        );
        assert_eq!(cosine(-0.0625), "−0.062");
        assert_eq!(
            (cosine(f64::NAN), degrees(f64::NAN)),
            ("–".to_owned(), "none".to_owned())
        );
    }

    #[test]
    fn stages_are_named_by_what_has_run() {
        assert_eq!(stage(0, 7), "embedding");
        assert_eq!(stage(3, 7), "block 3");
        assert_eq!(stage(6, 7), "block 6 = out");
    }
}
