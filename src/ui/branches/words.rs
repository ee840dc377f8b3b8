//! What the Branches panel says in words: titles, sums, names, the table.

use crate::{
    session::{Branch, Chain, power_of_ten},
    ui::chart,
};

/// Its name, or its own text.
pub(super) fn title(branch: &Branch) -> String {
    let dots = if branch.fork > 0 { "…" } else { "" };
    let own = format!("{dots}{}", branch.own_text.replace('\n', "↵"));
    let text = match &branch.name {
        Some(name) => format!("{name}: {own}"),
        None => own,
    };
    match &branch.other_model {
        Some(model) => format!("[{model}] {text}"),
        None => text,
    }
}

fn signed(value: f64) -> String {
    if value < 0.0 {
        format!("{}{:.2}", chart::MINUS, -value)
    } else {
        format!("{value:.2}")
    }
}

/// Σ log P in nats; a dash where nothing was predicted, and a mark where a part was not.
pub(super) fn sum(chain: &Chain) -> String {
    match chain.factors {
        0 => "–".to_owned(),
        _ => format!(
            "{}{}",
            signed(chain.sum_nats),
            // The first token has no factor.
            if chain.without > 1 { "*" } else { "" }
        ),
    }
}

/// log P per factor, in nats.
pub(super) fn mean(chain: &Chain) -> String {
    match chain.factors {
        0 => "–".to_owned(),
        n => signed(chain.sum_nats / n as f64),
    }
}

/// How its log-probability compares with the current text's from where the two part.
fn comparison(branch: &Branch) -> Option<String> {
    if branch.is_current || branch.other_model.is_some() {
        return None;
    }
    let (own, current) = (&branch.apart, &branch.current_apart);
    if own.factors == 0 && current.factors == 0 {
        return None;
    }
    let difference = own.sum_nats - current.sum_nats;
    Some(format!(
        "after {} shared tokens: {} nats over {} here, {} nats over {} in the current text; {} times as probable",
        chart::count(branch.shared),
        signed(own.sum_nats),
        tokens(own.factors),
        signed(current.sum_nats),
        tokens(current.factors),
        power_of_ten(difference)
    ))
}

fn tokens(n: usize) -> String {
    match n {
        1 => "1 token".to_owned(),
        n => format!("{} tokens", chart::count(n)),
    }
}

pub(super) fn details(branch: &Branch) -> Vec<String> {
    let mut lines = vec![title(branch)];
    if branch.fork > 0 {
        lines.push(format!("its own from token {} on", branch.fork));
    }
    lines.extend(comparison(branch));
    if branch.chain.without > 1 {
        lines.push(format!(
            "* {} of its tokens were never predicted",
            chart::count(branch.chain.without - 1)
        ));
    }
    if let Some(model) = &branch.other_model {
        lines.push(format!(
            "Written with {model}: going to it reads its text again with the loaded model"
        ));
    }
    lines
}

/// The accessible name of a row.
pub(super) fn row_name(number: usize, branch: &Branch) -> String {
    let current = if branch.is_current { ", current" } else { "" };
    let model = branch
        .other_model
        .as_ref()
        .map_or_else(String::new, |model| format!(", of {model}"));
    let compared = comparison(branch).map_or_else(String::new, |text| format!(", {text}"));
    format!(
        "Branch {number}{current}{model}, {}, {}, log P {} nats, {} a factor{compared}",
        title(branch),
        tokens(branch.len),
        sum(&branch.chain),
        mean(&branch.chain)
    )
}

/// Tab-separated, one row a branch.
pub(super) fn table(list: &[Branch]) -> String {
    let mut out = String::from(
        "branch\tname\tcurrent\tother model\tforks at token\ttokens\tfactors\tsum of log P (nats)\tmean log P (nats)\tshared with the current text\tlog P after that (nats)\tlog P of the current text after that (nats)\town text\n",
    );
    for (at, branch) in list.iter().enumerate() {
        let mean = match branch.chain.factors {
            0 => String::new(),
            n => format!("{:.6}", branch.chain.sum_nats / n as f64),
        };
        out.push_str(&format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{:.6}\t{mean}\t{}\t{:.6}\t{:.6}\t{:?}\n",
            at + 1,
            branch.name.as_deref().unwrap_or_default(),
            if branch.is_current { "yes" } else { "" },
            branch.other_model.as_deref().unwrap_or_default(),
            branch.fork,
            branch.len,
            branch.chain.factors,
            branch.chain.sum_nats,
            branch.shared,
            branch.apart.sum_nats,
            branch.current_apart.sum_nats,
            branch.own_text
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_say_what_they_leave_out() {
        let chain = |values: &[Option<f64>]| Chain::of(values.iter().copied());
        assert_eq!(sum(&chain(&[None])), "–");
        assert_eq!(mean(&chain(&[None])), "–");
        assert_eq!(sum(&chain(&[None, Some(-1.0), Some(-2.5)])), "−3.50");
        assert_eq!(mean(&chain(&[None, Some(-1.0), Some(-2.5)])), "−1.75");
        assert_eq!(sum(&chain(&[None, Some(-1.0), None])), "−1.00*");
    }
}
