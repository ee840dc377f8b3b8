//! What the Loop panel says in words: reasons, answers, names, the table.

use std::sync::Arc;

use crate::{
    session::{Iteration, LoopPhase, Selection, Session, StopAnswer, Why},
    ui::chart,
    worker::StopReason,
};

pub(super) fn label(session: &Session, token: Option<u32>) -> String {
    match (token, session.tokenizer()) {
        (Some(token), Some(tokenizer)) => tokenizer.label(token),
        (Some(token), None) => format!("#{token}"),
        (None, _) => String::new(),
    }
}

pub(super) fn what_comes_next(phase: LoopPhase) -> &'static str {
    match phase {
        LoopPhase::Predict => "Next: select a token from the distribution",
        LoopPhase::Select => "Next: append it (one step of the model)",
        LoopPhase::Append => "Next: ask whether to stop",
        LoopPhase::Stop => "Next: the distribution after the new token",
    }
}

/// How many tokens the model was given.
pub(super) fn count_before(session: &Session, index: usize) -> String {
    let given = index.saturating_sub(session.context_start()).max(1);
    match given {
        1 => "1 token".to_owned(),
        n => format!("{} tokens", chart::count(n)),
    }
}

/// Why the token was selected, in two short lines; a third says which draw it was, where it was not the first.
pub(super) fn why(selection: &Selection) -> Vec<String> {
    match selection.why {
        Why::Greedy => vec![
            "greedy: largest".to_owned(),
            format!("logit {}", chart::number(selection.row.logit.into())),
        ],
        Why::Drawn {
            u,
            from,
            to,
            redraw,
        } => {
            let within = if from <= u && u < to { "in" } else { "not in" };
            let mut lines = vec![format!("u {u:.4} {within}"), format!("{from:.4} – {to:.4}")];
            if redraw > 0 {
                lines.push(format!("draw {}", redraw.saturating_add(1)));
            }
            lines
        }
        Why::Picked => vec!["picked by hand".to_owned()],
    }
}

/// A stop test and its answer.
pub(super) fn stop_line(answer: &StopAnswer) -> (String, &'static str) {
    let question = match answer.reason {
        StopReason::EndOfText => "end of text".to_owned(),
        StopReason::StopString => "stop string".to_owned(),
        StopReason::MaxNewTokens => format!("new {}", answer.by.replace(" of ", "/")),
        StopReason::ContextFull => format!("context {}", answer.by.replace(" of ", "/")),
        StopReason::Stopped => "user".to_owned(),
    };
    (question, if answer.yes { "yes" } else { "no" })
}

/// The accessible name of an iteration, and its tooltip: everything up to the phase that it has reached.
pub(super) fn row_name(session: &Session, iteration: &Iteration, reached: LoopPhase) -> String {
    let mut name = format!(
        "Iteration of token {}, given {}. Predict: ",
        iteration.index,
        count_before(session, iteration.index)
    );
    if iteration.top.is_empty() {
        name.push_str("the logits were let go for memory");
    }
    let top: Vec<_> = iteration
        .top
        .iter()
        .map(|row| {
            let drawn = match row.cut_by {
                Some(_) => "cut".to_owned(),
                None => format!("drawn from {}", chart::drawn_from(row, iteration.is_greedy)),
            };
            format!(
                "{} model P {}, {drawn}",
                label(session, Some(row.id)),
                chart::percent(row.prob)
            )
        })
        .collect();
    name.push_str(&top.join("; "));
    if reached >= LoopPhase::Select
        && let Some(selection) = &iteration.selection
    {
        name.push_str(&format!(
            ". Select: {}, {}",
            label(session, Some(selection.row.id)),
            why(selection).join(" ")
        ));
    }
    if reached >= LoopPhase::Append {
        let token = session.node(iteration.index).map(|node| node.token);
        name.push_str(&format!(
            ". Append: {}, length {}",
            label(session, token),
            iteration.index + 1
        ));
    }
    if reached >= LoopPhase::Stop {
        name.push_str(&format!(". Stop? {}", stop(iteration)));
    }
    name
}

/// The answer of the stop test as a sentence.
fn stop(iteration: &Iteration) -> String {
    match &iteration.stop {
        None => "Not asked: taken by hand".to_owned(),
        Some(test) => match test.reason() {
            Some(reason) => format!("Yes: {}", reason.describe()),
            None => "No, go on".to_owned(),
        },
    }
}

/// Tab-separated, one row a token of each iteration's distribution.
pub(super) fn table(session: &Session, shown: &[(Arc<Iteration>, LoopPhase)]) -> String {
    let mut out = String::from(
        "token index\tcandidate id\tcandidate\tlogit\tmodel P (%)\tdrawn from (%)\tselected\tu\tcumulative from\tcumulative to\tstop?\n",
    );
    for (iteration, reached) in shown {
        let selection = iteration
            .selection
            .as_ref()
            .filter(|_| *reached >= LoopPhase::Select);
        let elsewhere = selection
            .map(|selection| &selection.row)
            .filter(|row| !iteration.top.iter().any(|other| other.id == row.id));
        for row in iteration.top.iter().chain(elsewhere) {
            let selected = selection.filter(|selection| selection.row.id == row.id);
            let why = match selected.map(|selection| selection.why) {
                Some(Why::Drawn { u, from, to, .. }) => {
                    format!("yes\t{u:.6}\t{from:.6}\t{to:.6}")
                }
                Some(Why::Greedy) => "greedy\t\t\t".to_owned(),
                Some(Why::Picked) => "picked\t\t\t".to_owned(),
                None => "\t\t\t".to_owned(),
            };
            let stop = match selected {
                Some(_) if *reached >= LoopPhase::Stop => stop(iteration),
                _ => String::new(),
            };
            let drawn = row
                .drawn_from
                .map(|p| format!("{:.6}", 100.0 * p))
                .unwrap_or_default();
            out.push_str(&format!(
                "{}\t{}\t{}\t{:.6}\t{:.6}\t{drawn}\t{why}\t{stop}\n",
                iteration.index,
                row.id,
                label(session, Some(row.id)),
                row.logit,
                100.0 * row.prob
            ));
        }
    }
    out
}
