//! What the Sequence panel says in words: totals, names, the table.

use crate::{
    session::{Chain, Condition, Session, power_of_ten},
    ui::chart,
};

pub(super) fn condition(condition: Condition) -> &'static str {
    match condition {
        Condition::None => "none: the chain starts at the second token",
        Condition::EndOfText => {
            "end-of-text: one stands before the text, every position moves by one"
        }
    }
}

/// Why a token has no factor.
pub(super) fn no_factor(session: &Session, index: usize) -> &'static str {
    let outside = session.node(index).is_some_and(|node| node.outside);
    match () {
        () if outside => "before the context",
        () if index > session.context_start() => "not predicted yet",
        () if session.condition() == Condition::EndOfText => "the condition",
        () => "unconditioned",
    }
}

/// A number of nats or bits with a true minus.
fn signed(value: f64) -> String {
    if value < 0.0 {
        format!("{}{:.3}", chart::MINUS, -value)
    } else {
        format!("{value:.3}")
    }
}

/// Totals of a range: product, sums, perplexity; and what has no factor in it.
pub(super) fn totals(session: &Session, (start, end): (usize, usize)) -> [String; 2] {
    let chain = session.chain(start..end);
    let of = match chain.factors {
        1 => "1 factor".to_owned(),
        n => format!("{} factors", chart::count(n)),
    };
    let Some(perplexity) = chain.perplexity() else {
        return [
            "No factor in this range.".to_owned(),
            starts_at(session, start, end, chain),
        ];
    };
    let perplexity = if perplexity < 1e6 {
        format!("{perplexity:.3}")
    } else {
        power_of_ten(perplexity.ln())
    };
    let first = format!(
        "P {} · Σ log P {} nats = {} bits · perplexity {perplexity} over {of}",
        power_of_ten(chain.sum_nats),
        signed(chain.sum_nats),
        signed(chain.sum_bits()),
    );
    [first, starts_at(session, start, end, chain)]
}

/// Where the chain starts, and which tokens are not in it.
fn starts_at(session: &Session, start: usize, end: usize, chain: Chain) -> String {
    let mut without = chain.without;
    let mut parts = Vec::new();
    let first = session.context_start();
    if (start..end).contains(&first) {
        without = without.saturating_sub(1);
        parts.push(match session.condition() {
            Condition::EndOfText => format!(
                "given end-of-text: it is token {first}, every position is one later than without"
            ),
            Condition::None => format!("token {first} has no factor: nothing conditions it"),
        });
    } else {
        parts.push(format!("given tokens 0 to {}", start.saturating_sub(1)));
    }
    if without > 0 {
        parts.push(format!("{} not predicted", chart::count(without)));
    }
    parts.join(" · ")
}

/// The accessible name of a row, and its tooltip.
pub(super) fn row_name(
    session: &Session,
    index: usize,
    label: &str,
    product: Option<Chain>,
) -> String {
    let factor = session.node(index).and_then(|node| node.score).map_or_else(
        || no_factor(session, index).to_owned(),
        |score| {
            format!(
                "P given {} before it {:.4} %, log P {} nats",
                if index == 1 {
                    "1 token".to_owned()
                } else {
                    format!("{index} tokens")
                },
                100.0 * score.log_prob.exp(),
                signed(score.log_prob)
            )
        },
    );
    let product = match product {
        Some(chain) if chain.factors > 0 => {
            format!(", product so far {}", power_of_ten(chain.sum_nats))
        }
        Some(_) => String::new(),
        None => ", outside the range".to_owned(),
    };
    format!("Factor {index}, {label}, {factor}{product}")
}

/// Tab-separated, one row a token; the sums run over the whole text.
pub fn table(session: &Session) -> String {
    let mut out = String::from(
        "index\tid\ttoken\tmodel P (%)\tlog P (nats)\tsum of log P (nats)\tsum of log P (bits)\tproduct\n",
    );
    let mut chain = Chain::default();
    for (index, node) in session.path_nodes().enumerate() {
        let log_prob = node.score.map(|score| score.log_prob);
        chain.push(log_prob);
        let label = session.tokenizer().map_or_else(
            || format!("#{}", node.token),
            |tokenizer| tokenizer.label(node.token),
        );
        let factor = log_prob.map_or_else(
            || "\t".to_owned(),
            |log_prob| format!("{:.6}\t{log_prob:.6}", 100.0 * log_prob.exp()),
        );
        let sums = if chain.factors > 0 {
            format!(
                "{:.6}\t{:.6}\t{}",
                chain.sum_nats,
                chain.sum_bits(),
                power_of_ten(chain.sum_nats)
            )
        } else {
            "\t\t".to_owned()
        };
        out.push_str(&format!(
            "{index}\t{}\t{label}\t{factor}\t{sums}\n",
            node.token
        ));
    }
    out
}
