//! What each step of the text costs: the passes on record, beside the same tokens without the KV cache.

use std::{ops::Range, sync::Arc};

use super::{RATIO_LENGTHS, Session, median};
use crate::prediction::{PassTiming, Phase};

/// Neighbouring tokens of the text that one pass put through the model.
#[derive(Debug)]
pub struct PassBlock<'a> {
    /// Their indices in the text. Fewer than the pass took where it took more than the text still has.
    pub tokens: Range<usize>,
    pub timing: &'a Arc<PassTiming>,
}

/// What it takes to have a sequence of one length, given all shorter ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostStep<'a> {
    /// Tokens in the sequence: so many go through the model without the KV cache.
    pub tokens: usize,
    /// The pass that put the last of them through the model.
    pub cached: Option<&'a PassTiming>,
    /// Median of the passes without the KV cache in milliseconds, and how many there were.
    pub uncached: Option<(f64, usize)>,
}

impl CostStep<'_> {
    /// Milliseconds of the decode step; `None` for a token that a prefill took.
    pub fn decode_ms(&self) -> Option<f64> {
        self.cached
            .filter(|timing| timing.phase == Phase::Decode)
            .map(|timing| timing.model_ms)
    }

    pub fn uncached_ms(&self) -> Option<f64> {
        self.uncached.map(|(ms, _)| ms)
    }
}

/// Tokens put through the model, and the milliseconds that took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Total {
    pub tokens: usize,
    pub ms: f64,
    pub passes: usize,
}

/// Medians in milliseconds at the beginning and the end of a curve, over `steps` steps each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ends {
    pub steps: usize,
    pub first_ms: f64,
    pub last_ms: f64,
}

/// The longer of [`RATIO_LENGTHS`] against the shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ratio {
    /// Medians in milliseconds in the order of [`RATIO_LENGTHS`], and how many passes the fewest had.
    Measured {
        ms: [f64; 2],
        passes: usize,
    },
    NotMeasured,
    /// The text is too short.
    TextTooShort {
        tokens: usize,
    },
    /// No text of this model is long enough.
    ContextTooShort {
        n_ctx: usize,
    },
}

/// Cost of the whole text.
#[derive(Debug)]
pub struct Cost<'a> {
    /// One for each length of the context, from one token on.
    pub steps: Vec<CostStep<'a>>,
    /// The first length that generating the text passes through: that of the prompt.
    pub first: usize,
    /// Whether anything of it was generated.
    pub generated: bool,
    pub passes: Vec<PassBlock<'a>>,
    pub ratio: Ratio,
}

impl Cost<'_> {
    /// The steps that generating the text takes; the first is the prompt's prefill.
    pub fn generating(&self) -> &[CostStep<'_>] {
        self.steps.get(self.first - 1..).unwrap_or_default()
    }

    /// All passes on record; `None` while a token has none.
    pub fn cached(&self) -> Option<Total> {
        let complete = self.steps.iter().all(|step| step.cached.is_some());
        complete.then(|| Total {
            tokens: self.passes.iter().map(|pass| pass.timing.rows).sum(),
            ms: self.passes.iter().map(|pass| pass.timing.model_ms).sum(),
            passes: self.passes.len(),
        })
    }

    /// The passes without the KV cache that have been timed, one a length.
    pub fn uncached(&self) -> Total {
        let timed = self.generating().iter();
        timed.fold(Total::default(), |total, step| match step.uncached_ms() {
            Some(ms) => Total {
                tokens: total.tokens + step.tokens,
                ms: total.ms + ms,
                passes: total.passes + 1,
            },
            None => total,
        })
    }

    /// Tokens that go through the model without the KV cache: first + … + n.
    pub fn uncached_tokens(&self) -> usize {
        self.generating().iter().map(|step| step.tokens).sum()
    }

    /// Whether every length has been timed without the KV cache.
    pub fn is_measured(&self) -> bool {
        self.uncached().passes == self.generating().len()
    }

    pub fn decode_ends(&self) -> Option<Ends> {
        ends(self.generating().iter().filter_map(CostStep::decode_ms))
    }

    /// `None` until every length is timed: the ends of some of them are not the ends.
    pub fn uncached_ends(&self) -> Option<Ends> {
        self.is_measured().then_some(())?;
        ends(self.generating().iter().filter_map(CostStep::uncached_ms))
    }
}

/// A fifth of the steps at each end, twenty at most; `None` of fewer than two.
fn ends(ms: impl Iterator<Item = f64>) -> Option<Ends> {
    let ms: Vec<_> = ms.collect();
    let steps = (ms.len() / 5).clamp(1, 20);
    (ms.len() >= 2).then_some(())?;
    Some(Ends {
        steps,
        first_ms: median(&ms[..steps])?,
        last_ms: median(&ms[ms.len() - steps..])?,
    })
}

impl Session {
    /// The passes that the text went through the model in, in order.
    pub fn passes(&self) -> Vec<PassBlock<'_>> {
        let mut blocks: Vec<PassBlock> = Vec::new();
        for (index, node) in self.path_nodes().enumerate() {
            let Some(prediction) = &node.prediction else {
                continue;
            };
            let timing = &prediction.timing;
            match blocks.last_mut() {
                Some(last) if last.tokens.end == index && Arc::ptr_eq(last.timing, timing) => {
                    last.tokens.end += 1;
                }
                _ => blocks.push(PassBlock {
                    tokens: index..index + 1,
                    timing,
                }),
            }
        }
        blocks
    }

    /// The first length that generating the text passes through: the prompt's, or two tokens where nothing was
    /// generated, as if the text had been generated from its first token.
    pub(super) fn first_step(&self) -> usize {
        let context = self.path_nodes().skip(self.context_start());
        let prompt = context
            .take_while(|node| !node.origin.is_generated())
            .count();
        let generated = prompt < self.context_len();
        if generated { prompt } else { 2 }.clamp(1, self.context_len().max(1))
    }

    /// What the text costs, as far as that is on record and measured.
    pub fn cost(&self) -> Cost<'_> {
        let start = self.context_start();
        let nodes = &self.path[start..];
        let shared = self.measured_len();
        let steps: Vec<_> = (1..=nodes.len())
            .zip(nodes)
            .map(|(tokens, &node)| CostStep {
                tokens,
                cached: self
                    .tree
                    .node(node)
                    .prediction
                    .as_ref()
                    .map(|prediction| &*prediction.timing),
                uncached: self
                    .measurement
                    .as_ref()
                    .filter(|_| tokens <= shared)
                    .and_then(|measurement| measurement.median_ms(tokens)),
            })
            .collect();
        let generated = self.path_nodes().any(|node| node.origin.is_generated());
        Cost {
            ratio: self.ratio(&steps),
            steps,
            first: self.first_step(),
            generated,
            passes: self.passes(),
        }
    }

    fn ratio(&self, steps: &[CostStep]) -> Ratio {
        let longest = RATIO_LENGTHS[1];
        let (tokens, n_ctx) = (steps.len(), self.n_ctx());
        if n_ctx < longest {
            return Ratio::ContextTooShort { n_ctx };
        }
        if tokens < longest {
            return Ratio::TextTooShort { tokens };
        }
        match RATIO_LENGTHS.map(|tokens| steps[tokens - 1].uncached) {
            [Some((short, a)), Some((long, b))] => Ratio::Measured {
                ms: [short, long],
                passes: a.min(b),
            },
            _ => Ratio::NotMeasured,
        }
    }
}
