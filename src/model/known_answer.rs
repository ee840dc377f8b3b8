//! What the published GPT-2 answers, so that anyone who has it can see whether theirs is right.
//!
//! The continuation is the one in the tests of Hugging Face transformers. It says something about
//! the published weights only; a fine-tune of the same size answers otherwise and is not wrong.

use super::{
    config::Gpt2Config,
    error::ModelError,
    gpt2::{Gpt2, Logits, Record},
    self_check::{CheckRow, Outcome},
};

/// "The dog", and what follows it greedily.
const PROMPT: [u32; 2] = [464, 3290];
const CONTINUATION: [u32; 18] = [
    373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262, 13, 198, 198, 464,
    3290,
];
/// "The cat sat on the", after which " floor" is among the five likeliest.
const CAT: [u32; 5] = [464, 3797, 3332, 319, 262];
const FLOOR: u32 = 4314;

/// Names under which the published weights are kept.
const NAMES: [&str; 2] = ["gpt2", "openai-community/gpt2"];

/// Compare a model of `gpt2`'s sizes with the published answers; `None` for any other size.
///
/// `name` is what the model is called: under one of the published names a difference is a failure,
/// under another it only says that this is another model.
pub(super) fn known_answer(model: &Gpt2, name: &str) -> Option<CheckRow> {
    let published = Gpt2Config::shape("gpt2")?;
    let sizes = |c: &Gpt2Config| (c.n_layer, c.n_head, c.n_embd, c.n_ctx, c.vocab_size);
    if sizes(&model.config) != sizes(&published) {
        return None;
    }
    let is_published = NAMES.contains(&name);
    Some(match answers(model) {
        Ok((continuation, likeliest)) => judge(&continuation, &likeliest, is_published),
        Err(error) => CheckRow {
            name: ROW.into(),
            detail: error.to_string(),
            outcome: Outcome::Failed,
        },
    })
}

const ROW: &str = "known answers of gpt2";

fn judge(continuation: &[u32], likeliest: &[u32], is_published: bool) -> CheckRow {
    let same = continuation
        .iter()
        .zip(&CONTINUATION)
        .take_while(|(a, b)| a == b)
        .count();
    let floor = likeliest.contains(&FLOOR);
    let right = same == CONTINUATION.len() && floor;
    let found = format!(
        "\"The dog\": {same} of {} greedy ids as published; \" floor\" {} among the five likeliest \
         after \"The cat sat on the\"",
        CONTINUATION.len(),
        if floor { "is" } else { "is not" },
    );
    let (outcome, detail) = match (right, is_published) {
        (true, _) => (Outcome::Passed, found),
        (false, true) => (Outcome::Failed, found),
        (false, false) => (
            Outcome::Skipped,
            format!("skipped: not the published weights ({found})"),
        ),
    };
    CheckRow {
        name: ROW.into(),
        detail,
        outcome,
    }
}

/// The greedy continuation of the first prompt and the five likeliest tokens after the second.
fn answers(model: &Gpt2) -> Result<(Vec<u32>, Vec<u32>), ModelError> {
    let record = Record {
        logits: Logits::Last,
        ..Record::default()
    };
    let mut cache = model.new_cache();
    let mut continuation = Vec::new();
    let mut ids = PROMPT.to_vec();
    while continuation.len() < CONTINUATION.len() {
        let pass = model.forward(&ids, &mut cache, &record)?;
        let best = likeliest(&pass.logits, 1);
        continuation.extend(&best);
        ids = best;
    }
    let pass = model.forward(&CAT, &mut model.new_cache(), &record)?;
    Ok((continuation, likeliest(&pass.logits, 5)))
}

/// The `count` largest values, ties by lower id.
fn likeliest(logits: &[f32], count: usize) -> Vec<u32> {
    let mut ids: Vec<u32> = (0u32..).take(logits.len()).collect();
    ids.sort_by(|&a, &b| {
        logits[b as usize]
            .total_cmp(&logits[a as usize])
            .then(a.cmp(&b))
    });
    ids.truncate(count);
    ids
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::model::{ComputeDevice, ModelSource};

    #[test]
    fn only_the_published_name_makes_a_difference_a_failure() {
        let five = [1, 2, FLOOR, 3, 4];
        let row = judge(&CONTINUATION, &five, false);
        assert_eq!(row.outcome, Outcome::Passed);
        assert!(row.detail.contains("18 of 18"), "{}", row.detail);
        assert_eq!(
            judge(&CONTINUATION, &five[..2], true).outcome,
            Outcome::Failed
        );
        let mut other = CONTINUATION;
        other[4] = 0;
        assert_eq!(judge(&other, &five, true).outcome, Outcome::Failed);
        let row = judge(&other, &five, false);
        assert_eq!(row.outcome, Outcome::Skipped);
        assert!(row.detail.contains("4 of 18"), "{}", row.detail);
    }

    #[test]
    fn other_sizes_have_no_known_answer() {
        let flex = ComputeDevice::flex();
        let go_on = &mut |_, _| ControlFlow::Continue(());
        let model = Gpt2::load(&ModelSource::BuiltIn, &flex, go_on).unwrap();
        assert_eq!(known_answer(&model, "gpt2"), None);
    }

    #[test]
    fn ties_go_to_the_lower_id() {
        assert_eq!(likeliest(&[1.0, 3.0, 3.0, 2.0], 3), [1, 2, 3]);
    }
}
