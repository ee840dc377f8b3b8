//! What the Timeline says in words: labels, the tooltip, the table.

use egui::Ui;

use crate::{
    prediction::{PassTiming, Phase},
    session::{Node, Session},
    ui::chart::{self, milliseconds, timing_cells},
};

/// The ways to label a prefill block, longest first.
pub(super) fn block_labels(timing: &PassTiming, here: usize) -> [String; 3] {
    let tokens = if timing.rows == 1 {
        "1 token".to_owned()
    } else {
        format!("{} tokens", chart::count(timing.rows))
    };
    let here = if here == timing.rows {
        String::new()
    } else {
        format!(", {here} of them here")
    };
    let ms = milliseconds(timing.model_ms);
    [
        format!("prefill {tokens}{here} {ms}"),
        format!("prefill {ms}"),
        ms,
    ]
}

fn label_of(session: &Session, node: &Node) -> String {
    session.tokenizer().map_or_else(
        || format!("#{}", node.token),
        |tokenizer| tokenizer.label(node.token),
    )
}

pub(super) fn step_name(session: &Session, index: usize, node: &Node) -> String {
    let entropy = entropy_before(session, index).map_or_else(String::new, |entropy| {
        format!(", entropy {entropy:.2} nats")
    });
    let surprisal = node.score.map_or_else(
        || "no surprisal".to_owned(),
        |score| format!("surprisal {:.2} nats", score.surprisal_nats()),
    );
    format!(
        "{}, {}, {surprisal}{entropy}",
        label_of(session, node),
        node.origin.name()
    )
}

/// Entropy of the prediction that a token was chosen from.
fn entropy_before(session: &Session, index: usize) -> Option<f64> {
    index
        .checked_sub(1)
        .and_then(|before| session.node(before))
        .and_then(|node| node.entropy_nats)
}

pub(super) fn details(ui: &mut Ui, session: &Session, index: usize) {
    ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
    let entropy = |ui: &mut Ui| {
        if let Some(entropy) = entropy_before(session, index) {
            ui.label(format!("entropy before it {entropy:.4} nats"));
        }
    };
    let Some(node) = session.node(index) else {
        ui.label("open step, nothing chosen yet");
        entropy(ui);
        return;
    };
    ui.label(
        egui::RichText::new(format!("{}  ·  id {}", label_of(session, node), node.token))
            .monospace(),
    );
    ui.label(format!("token {index}, {}", node.origin.name()));
    match node.score {
        Some(score) => {
            ui.label(format!(
                "model P {:.4} %  ·  rank {}",
                100.0 * score.log_prob.exp(),
                chart::count(score.rank)
            ));
            ui.label(format!("surprisal {:.4} nats", score.surprisal_nats()));
        }
        None if node.outside => drop(ui.label("before the context, the model never saw it")),
        None if index == session.context_start() => {
            drop(ui.label("nothing before it to predict it from"))
        }
        None => drop(ui.label("not predicted yet")),
    }
    entropy(ui);
    if let Some(timing) = node
        .prediction
        .as_ref()
        .map(|prediction| &prediction.timing)
    {
        let how = match timing.phase {
            Phase::Prefill => format!("prefill of {} tokens", chart::count(timing.rows)),
            Phase::Decode => "decode step".to_owned(),
            Phase::Typed => {
                ui.label("the numbers after it are typed: nothing was computed");
                return;
            }
        };
        let (model, recording) = (
            milliseconds(timing.model_ms),
            milliseconds(timing.record_ms),
        );
        ui.label(format!("{how} {model} + {recording} recording"));
    }
}

/// Tab-separated, one row a token.
pub fn table(session: &Session) -> String {
    let mut out = String::from(
        "index\tid\ttoken\torigin\tmodel P (%)\trank\tsurprisal (nats)\tentropy before it (nats)\tphase\ttokens in the pass\tmodel (ms)\trecording (ms)\n",
    );
    for (index, node) in session.path_nodes().enumerate() {
        let score = node.score.map_or_else(
            || "\t\t".to_owned(),
            |score| {
                format!(
                    "{:.6}\t{}\t{:.6}",
                    100.0 * score.log_prob.exp(),
                    score.rank,
                    score.surprisal_nats()
                )
            },
        );
        let entropy = entropy_before(session, index)
            .map(|entropy| format!("{entropy:.6}"))
            .unwrap_or_default();
        let time = timing_cells(
            node.prediction
                .as_ref()
                .map(|prediction| &*prediction.timing),
        );
        out.push_str(&format!(
            "{index}\t{}\t{}\t{}\t{score}\t{entropy}\t{time}\n",
            node.token,
            label_of(session, node),
            node.origin.name()
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_says_how_many_of_its_tokens_are_still_in_the_text() {
        let timing = PassTiming {
            phase: Phase::Prefill,
            first: 0,
            rows: 6,
            model_ms: 8.4,
            record_ms: 0.1,
        };
        assert_eq!(block_labels(&timing, 6)[0], "prefill 6 tokens 8.40 ms");
        assert_eq!(
            block_labels(&timing, 3)[0],
            "prefill 6 tokens, 3 of them here 8.40 ms"
        );
        let one = PassTiming {
            rows: 1,
            model_ms: 1234.4,
            ..timing
        };
        assert_eq!(
            block_labels(&one, 1),
            ["prefill 1 token 1,234 ms", "prefill 1,234 ms", "1,234 ms"]
        );
    }
}
