//! What the Toy panel says in words: kinds, shares, the product of the text's factors, the table.

use crate::{
    session::{Session, power_of_ten},
    toy::{Kind, Toy},
    ui::chart,
};

pub(super) const WHAT_IT_IS: &str = "Numbers that you type stand in a model's place: a vocabulary of a handful of tokens, and one row of logits or of conditional probabilities after each position. All panels then show these numbers and say that they are typed. The text that is there now stays as a branch.";

pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Logits => "cells: logits",
        Kind::Probabilities => {
            "cells: P(token | all before it), 0 to 1; blanks share the rest equally"
        }
    }
}

/// What a cell holds.
pub(super) fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Logits => "logit",
        Kind::Probabilities => "probability",
    }
}

pub(super) fn after(label: Option<&str>) -> String {
    label.map_or_else(
        || "the text is not so long yet".to_owned(),
        |label| format!("what follows {label}"),
    )
}

/// The probability that a row of the toy in use gives to a token.
pub(super) fn share(toy: &Toy, row: usize, column: usize) -> String {
    toy.row(row).map_or_else(String::new, |logits| {
        chart::percent(logits.prob(column as u32))
    })
}

/// The likeliest token of a row, the first of equals.
pub(super) fn most_likely(toy: &Toy, row: usize) -> String {
    let best = toy
        .row(row)
        .and_then(|logits| crate::sampling::top(&logits.values, 1).first().copied());
    best.map_or_else(String::new, |id| {
        format!(
            "→ {} {}",
            toy.tokenizer().label(id),
            share(toy, row, id as usize)
        )
    })
}

/// A factor as it was typed, where it was.
fn factor(toy: &Toy, position: usize, token: u32, log_prob: f64) -> String {
    let sheet = toy.sheet();
    let typed = position
        .checked_sub(1)
        .filter(|_| sheet.kind == Kind::Probabilities)
        .map(|row| sheet.cell(row, token as usize).trim())
        .filter(|cell| !cell.is_empty());
    typed.map_or_else(|| power_of_ten(log_prob), str::to_owned)
}

/// The product of the text's factors, each written out.
pub(super) fn product(session: &Session, toy: &Toy) -> String {
    let factors: Vec<_> = session
        .path_nodes()
        .enumerate()
        .filter_map(|(position, node)| {
            let log_prob = node.score?.log_prob;
            Some(factor(toy, position, node.token, log_prob))
        })
        .collect();
    if factors.is_empty() {
        return "The text has no factor yet: nothing comes before its first token.".to_owned();
    }
    let given = session
        .ids()
        .first()
        .map_or_else(String::new, |&first| toy.tokenizer().label(first));
    let total = session.chain(0..usize::MAX);
    format!(
        "P(text | {given}) = {} = {} (typed)",
        factors.join(" × "),
        power_of_ten(total.sum_nats)
    )
}

/// Tab-separated, one row a position: the numbers as typed, then softmax of each.
pub fn table(toy: &Toy) -> String {
    let sheet = toy.sheet();
    let heads = |what: &str| {
        let labels = sheet.labels.iter();
        labels
            .map(|label| format!("\t{label} ({what})"))
            .collect::<String>()
    };
    let mut out = format!("after{}{}\n", heads("typed"), heads("softmax, %"));
    for row in 0..toy.n_ctx() {
        out.push_str(&(row + 1).to_string());
        for column in 0..toy.vocab_size() {
            out.push_str(&format!("\t{}", sheet.cell(row, column)));
        }
        for id in 0..toy.vocab_size() as u32 {
            let prob = toy.row(row).map_or(f64::NAN, |logits| logits.prob(id));
            out.push_str(&format!("\t{:.6}", 100.0 * prob));
        }
        out.push('\n');
    }
    out
}
