//! What the Cost panel says in words: totals, conditions, progress, a step's numbers, the table.

use crate::{
    prediction::Phase,
    session::{Cost, CostStep, Ends, RATIO_LENGTHS, Ratio, Session},
    ui::chart::{count, milliseconds, timing_cells},
};

pub(super) const WHAT_IS_MEASURED: &str = "Puts the same token ids through the model again from the first token on, once for every length, in a cache of its own that starts empty: as generate --no-cache does. It runs in the background whenever the model has nothing else to do; one pass before the first is not counted. It reads back the logits of the last token only; a prefill in this window reads those of all its tokens, since it shows them.";

pub(super) const NOTHING_COMPUTED: &str = "A toy costs nothing: its numbers are typed and looked up, no token goes through a model. Choose a model to see what it costs.";

/// "4 + 5 + … + 200", or shorter where there is no more.
fn sum(first: usize, last: usize) -> String {
    match last - first {
        0 => count(last),
        1 => format!("{} + {}", count(first), count(last)),
        2 => format!("{} + {} + {}", count(first), count(first + 1), count(last)),
        _ => format!(
            "{} + {} + … + {}",
            count(first),
            count(first + 1),
            count(last)
        ),
    }
}

fn equals(terms: String, total: usize) -> String {
    let total = count(total);
    if terms == total {
        total
    } else {
        format!("{terms} = {total}")
    }
}

/// The tokens that the passes on record put through the model: each prefill, then one a decode step.
fn cached_tokens(cost: &Cost, total: usize) -> String {
    const SHOWN: usize = 3;
    let rows = |phase| {
        let passes = cost.passes.iter();
        passes
            .filter(move |pass| pass.timing.phase == phase)
            .map(|pass| pass.timing.rows)
    };
    let prefills: Vec<_> = rows(Phase::Prefill).collect();
    let mut terms: Vec<_> = prefills.iter().take(SHOWN).map(|&n| count(n)).collect();
    if prefills.len() > SHOWN {
        terms.push("…".to_owned());
    }
    match rows(Phase::Decode).count() {
        0 => {}
        steps => terms.push(format!("{} × 1", count(steps))),
    }
    equals(terms.join(" + "), total)
}

fn ends(ends: Option<Ends>) -> String {
    let ms = |ms| milliseconds(ms).trim_end_matches(" ms").to_owned();
    ends.map_or_else(
        || "–".to_owned(),
        |ends| format!("{} → {} ms", ms(ends.first_ms), ms(ends.last_ms)),
    )
}

/// A head and two rows: with the KV cache, without it.
pub(super) fn totals(cost: &Cost) -> [[String; 4]; 3] {
    let steps = [cost.decode_ends(), cost.uncached_ends()]
        .into_iter()
        .flatten()
        .map(|ends| ends.steps)
        .max();
    let step = match steps {
        Some(1) => "a step, first → last".to_owned(),
        Some(steps) => format!("median step, first → last {steps}"),
        None => "a step".to_owned(),
    };
    let (cached, uncached) = (cost.cached(), cost.uncached());
    let n = cost.steps.len();
    let time = match (uncached.passes, cost.generating().len()) {
        (0, _) => "not measured".to_owned(),
        (made, all) if made < all => format!("{made} of {all} steps timed"),
        _ => match cached.filter(|cached| cost.generated && cached.ms > 0.0) {
            Some(cached) => format!(
                "{} ({:.1} ×)",
                milliseconds(uncached.ms),
                uncached.ms / cached.ms
            ),
            None => milliseconds(uncached.ms),
        },
    };
    [
        [
            String::new(),
            "tokens through the model".to_owned(),
            "time in all".to_owned(),
            step,
        ],
        [
            "with KV cache".to_owned(),
            cached.map_or_else(
                || "not all on record".to_owned(),
                |total| cached_tokens(cost, total.tokens),
            ),
            cached.map_or_else(|| "–".to_owned(), |total| milliseconds(total.ms)),
            ends(cost.decode_ends()),
        ],
        [
            "without".to_owned(),
            equals(sum(cost.first, n), cost.uncached_tokens()),
            time,
            ends(cost.uncached_ends()),
        ],
    ]
}

/// What is said below the totals.
pub(super) fn lines(session: &Session, cost: &Cost) -> Vec<String> {
    let n = cost.steps.len();
    let mut lines = vec![ratio(cost.ratio)];
    if !cost.generated {
        lines.push(
            "Nothing was generated: one prefill took the text. Without the cache is what generating it token by token would take; Run for decode steps beside it."
                .to_owned(),
        );
    } else if cost.first > 1 {
        lines.push(format!(
            "From a single token on {} beside {}.",
            equals(sum(1, n), n * (n + 1) / 2),
            count(n)
        ));
    }
    if let Some(model) = session.model() {
        lines.push(format!(
            "{} on {}, {}.{}",
            model.name,
            model.device,
            model.precision_name(),
            recording(cost)
        ));
    }
    lines
}

/// What recording took beside the model's time.
fn recording(cost: &Cost) -> String {
    let ms: Vec<_> = cost
        .generating()
        .iter()
        .filter_map(|step| step.cached.filter(|timing| timing.phase == Phase::Decode))
        .map(|timing| timing.record_ms)
        .collect();
    crate::session::median(&ms).map_or_else(String::new, |ms| {
        format!(
            " Recording attention took {} a decode step more (median).",
            milliseconds(ms)
        )
    })
}

fn ratio(ratio: Ratio) -> String {
    let [short, long] = RATIO_LENGTHS;
    match ratio {
        Ratio::Measured { ms, passes } => format!(
            "{long} tokens against {short} in one pass without cache: {} / {} = {:.2} × (medians of {passes} passes).",
            milliseconds(ms[1]),
            milliseconds(ms[0]),
            ms[1] / ms[0]
        ),
        Ratio::NotMeasured => {
            format!("{long} tokens against {short} in one pass without cache: not measured yet.")
        }
        Ratio::TextTooShort { tokens } => format!(
            "{long} tokens against {short}: not yet, the text has only {tokens} in the context."
        ),
        Ratio::ContextTooShort { n_ctx } => {
            format!("{long} tokens against {short}: no, the model's context holds only {n_ctx}.")
        }
    }
}

pub(super) fn progress(done: usize, planned: usize, waits: bool) -> String {
    let done = format!("pass {} of {}", count(done), count(planned));
    if waits {
        format!("{done}, waits while the model runs")
    } else {
        format!("measuring without cache, {done}")
    }
}

/// A step's numbers in one line: the chart's accessible name.
pub(super) fn step_name(step: &CostStep) -> String {
    let cached = match step.cached {
        Some(timing) => format!(
            "{} of {} {}",
            timing.phase.name(),
            tokens(timing.rows),
            milliseconds(timing.model_ms)
        ),
        None => "not on record".to_owned(),
    };
    let uncached = match step.uncached {
        Some((ms, 1)) => milliseconds(ms),
        Some((ms, passes)) => format!("{} (median of {passes} passes)", milliseconds(ms)),
        None => "not measured".to_owned(),
    };
    format!(
        "with KV cache {cached}, without it {} {uncached}",
        tokens(step.tokens)
    )
}

pub(super) fn tokens(n: usize) -> String {
    if n == 1 {
        "1 token".to_owned()
    } else {
        format!("{} tokens", count(n))
    }
}

/// Tab-separated, one row a length of the sequence.
pub fn table(session: &Session) -> String {
    let mut out = String::from(
        "tokens in the sequence\tphase\ttokens through the model with KV cache\tmodel (ms)\trecording (ms)\ttokens through the model without\tmodel without (ms)\tpasses without\n",
    );
    if session.is_empty() {
        return out;
    }
    let cost = session.cost();
    for step in &cost.steps {
        let cached = timing_cells(step.cached);
        let uncached = step.uncached.map_or_else(
            || "\t".to_owned(),
            |(ms, passes)| format!("{ms:.3}\t{passes}"),
        );
        out.push_str(&format!("{0}\t{cached}\t{0}\t{uncached}\n", step.tokens));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_written_out_as_far_as_they_go() {
        assert_eq!(equals(sum(7, 7), 7), "7");
        assert_eq!(equals(sum(7, 8), 15), "7 + 8 = 15");
        assert_eq!(equals(sum(1, 3), 6), "1 + 2 + 3 = 6");
        assert_eq!(equals(sum(4, 200), 20_094), "4 + 5 + … + 200 = 20,094");
    }

    #[test]
    fn a_ratio_that_cannot_be_had_says_why() {
        let measured = Ratio::Measured {
            ms: [3.0, 9.0],
            passes: 5,
        };
        assert_eq!(
            ratio(measured),
            "60 tokens against 10 in one pass without cache: 9.00 ms / 3.00 ms = 3.00 × (medians of 5 passes)."
        );
        assert!(ratio(Ratio::TextTooShort { tokens: 12 }).contains("the text has only 12"));
        assert!(ratio(Ratio::ContextTooShort { n_ctx: 32 }).contains("holds only 32"));
    }
}
