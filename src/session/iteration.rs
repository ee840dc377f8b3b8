//! One iteration of the generation loop, taken apart: predict → select → append → stop?.
//!
//! Worked out from the record of a token that a run appended, with the same functions that the loop calls; or, for
//! the open step, from the settings in force, which gives the very token that the next step will append.

use std::sync::Arc;

use super::{NodeId, Origin, Session, StepView, TokenRow};
use crate::{
    prediction::LogitsRow,
    sampling::{Distribution, SamplingSettings, top, uniform},
    worker::{StopMatcher, StopReason},
};

/// Tokens of a distribution that an iteration shows.
pub const SHOWN_TOKENS: usize = 5;

/// Parts of the cumulative sum that an iteration shows.
const SHOWN_PARTS: usize = 48;

/// Why a token was selected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// It has the largest logit after the repetition penalty.
    Greedy,
    /// The drawn number `u` lies in [`from`, `to`), the token's part of the cumulative sum of drawn-from.
    Drawn {
        u: f64,
        from: f64,
        to: f64,
        redraw: u32,
    },
    /// By hand.
    Picked,
}

/// The selected token.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    pub row: TokenRow,
    pub why: Why,
}

/// One question of the stop test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopAnswer {
    pub reason: StopReason,
    pub yes: bool,
    /// What it was decided by, such as "3 of 120".
    pub by: String,
}

/// The stop test after a token, its questions in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StopTest {
    pub answers: Vec<StopAnswer>,
}

impl StopTest {
    /// The first question that was answered with yes.
    pub fn reason(&self) -> Option<StopReason> {
        self.answers
            .iter()
            .find(|answer| answer.yes)
            .map(|answer| answer.reason)
    }
}

/// One round of the loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Iteration {
    /// Index that the token has, or will have, in the text.
    pub index: usize,
    /// The appended token; `None` for the open step.
    pub node: Option<NodeId>,
    /// The most likely tokens that can be drawn, then ones that were cut; empty where the logits were let go.
    pub top: Vec<TokenRow>,
    /// The beginning of the cumulative sum of drawn-from, in descending probability.
    pub cumulative: Vec<f64>,
    /// Tokens that can be drawn.
    pub kept: usize,
    /// The largest logit is taken: no filter applies, and all others have no chance.
    pub is_greedy: bool,
    pub selection: Option<Selection>,
    /// The stop test after the token; `None` where no run asked it.
    pub stop: Option<StopTest>,
}

impl Iteration {
    fn new(
        index: usize,
        node: Option<NodeId>,
        logits: &LogitsRow,
        distribution: &Distribution,
        chosen: Option<(u32, Origin, Option<f64>, u32)>,
    ) -> Self {
        let kept = distribution.kept();
        let mut shown: Vec<u32> = kept.iter().take(SHOWN_TOKENS).map(|kept| kept.id).collect();
        for id in top(&logits.values, SHOWN_TOKENS) {
            if shown.len() < SHOWN_TOKENS && !shown.contains(&id) {
                shown.push(id);
            }
        }
        let row = |id| StepView::row_of(logits, distribution, id);
        let selection = chosen.map(|(id, origin, u, redraw)| Selection {
            row: row(id),
            why: match (origin, u) {
                (Origin::Picked, _) => Why::Picked,
                (_, Some(u)) => {
                    let to = distribution.get(id).map_or(1.0, |kept| kept.cumulative);
                    // The same sum as its left neighbour's right end.
                    let from = kept
                        .iter()
                        .take_while(|kept| kept.id != id)
                        .last()
                        .map_or(0.0, |kept| kept.cumulative);
                    Why::Drawn {
                        u,
                        from,
                        to,
                        redraw,
                    }
                }
                (_, None) => Why::Greedy,
            },
        });
        Self {
            index,
            node,
            top: shown.into_iter().map(row).collect(),
            cumulative: kept
                .iter()
                .take(SHOWN_PARTS)
                .map(|kept| kept.cumulative)
                .collect(),
            kept: kept.len(),
            is_greedy: distribution.is_greedy(),
            selection,
            stop: None,
        }
    }
}

impl Session {
    /// Indices of the last `count` tokens that were chosen from a prediction, in order.
    pub fn last_choices(&self, count: usize) -> Vec<usize> {
        let mut found: Vec<_> = (0..self.len())
            .rev()
            .filter(|&index| {
                self.node(index)
                    .is_some_and(|node| node.origin.is_generated())
            })
            .take(count)
            .collect();
        found.reverse();
        found
    }

    /// The iteration that appended the token at `index`; `None` for a token that no prediction led to.
    pub fn iteration(&self, index: usize) -> Option<Iteration> {
        let id = *self.path.get(index)?;
        let node = self.tree.node(id);
        let draw = node.draw.as_ref().filter(|_| node.origin.is_generated())?;
        let Some(logits) = self
            .prediction(index)
            .and_then(|prediction| prediction.logits.as_ref())
        else {
            return Some(Iteration {
                index,
                node: Some(id),
                top: Vec::new(),
                cumulative: Vec::new(),
                kept: 0,
                is_greedy: draw.settings.is_greedy(),
                selection: None,
                stop: self.stop_test(index),
            });
        };
        let own;
        let shown = self.view().filter(|view| {
            // The same row is the same step, of the same tokens.
            Arc::ptr_eq(&view.logits, logits) && view.settings == draw.settings
        });
        let distribution = match shown {
            Some(view) => &view.distribution,
            None => {
                own = self.distribution_at(index, logits, &draw.settings);
                &own
            }
        };
        let chosen = Some((node.token, node.origin, draw.u, draw.redraw));
        Some(Iteration {
            stop: self.stop_test(index),
            ..Iteration::new(index, Some(id), logits, distribution, chosen)
        })
    }

    /// The iteration that the next step will carry out, with the settings in force; `None` without a prediction.
    pub fn open_iteration(&self) -> Option<Iteration> {
        let index = self.len();
        let logits = self.prediction(index)?.logits.as_ref()?;
        let distribution = self.distribution_at(index, logits, &self.settings);
        let position = self.context().len() as u64;
        let u = (!self.settings.is_greedy()).then(|| uniform(self.settings.seed, position, 0));
        let origin = if u.is_some() {
            Origin::Sampled
        } else {
            Origin::Greedy
        };
        let id = distribution.choose(u.unwrap_or(0.0));
        let chosen = (id, origin, u, 0);
        Some(Iteration::new(
            index,
            None,
            logits,
            &distribution,
            Some(chosen),
        ))
    }

    fn distribution_at(
        &self,
        step: usize,
        logits: &LogitsRow,
        settings: &SamplingSettings,
    ) -> Distribution {
        let lone;
        let context = if self.path.is_empty() {
            lone = self.context();
            &lone[..]
        } else {
            &self.ids[self.context_start().min(step)..step]
        };
        Distribution::new(&logits.values, context, settings)
    }

    /// The stop test after the token at `index`; `None` where no run asked it.
    pub fn stop_test(&self, index: usize) -> Option<StopTest> {
        let node = self.node(index)?;
        let mark = node.mark.filter(|_| node.origin != Origin::Picked)?;
        let settings = &node.draw.as_ref()?.settings;
        let model = self.models.get(node.model)?;
        let start = self.context_start();
        let context = index + 1 - start.min(index);
        let before = &self.ids[start.min(index)..index];
        let mut matcher = StopMatcher::new(
            Some(model.tokenizer.clone()),
            before,
            (mark.appended - 1).min(before.len()),
        );
        let stop_string = matcher.push(node.token, &settings.stop);
        let last = index + 1 == self.len();
        let answer = |reason, yes, by: String| StopAnswer { reason, yes, by };
        let strings = match settings.stop.len() {
            0 => "none set".to_owned(),
            1 => "1 set".to_owned(),
            n => format!("{n} set"),
        };
        Some(StopTest {
            answers: vec![
                answer(
                    StopReason::EndOfText,
                    model.end_of_text == Some(node.token),
                    String::new(),
                ),
                answer(StopReason::StopString, stop_string, strings),
                answer(
                    StopReason::MaxNewTokens,
                    mark.appended >= mark.budget,
                    format!("{} of {}", mark.appended, mark.budget),
                ),
                answer(
                    StopReason::ContextFull,
                    context >= model.n_ctx,
                    format!("{context} of {}", model.n_ctx),
                ),
                answer(
                    StopReason::Stopped,
                    last && self.stop_reason == Some(StopReason::Stopped),
                    String::new(),
                ),
            ],
        })
    }
}
