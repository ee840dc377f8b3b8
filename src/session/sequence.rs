//! The chain rule over the text: one factor P(x_t | x_<t) a token, their product kept as a sum of logarithms.
//!
//! The first token has no factor unless the text begins with an end-of-text to condition it on.
//! [`Action::Condition`](super::Action::Condition) puts one there, or takes it away. Model P throughout.

use super::{Change, Session};
use crate::worker::Command;

/// What the first factor is conditioned on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing: the chain starts at the second token.
    None,
    /// An end-of-text before the text, which moves every position by one.
    EndOfText,
}

impl Condition {
    pub const ALL: [Self; 2] = [Self::None, Self::EndOfText];

    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::EndOfText => "end-of-text",
        }
    }
}

/// The product of some factors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Chain {
    /// Factors that are in the product.
    pub factors: usize,
    /// Tokens without one: unconditioned, or not predicted.
    pub without: usize,
    /// Σ log P in nats.
    pub sum_nats: f64,
}

impl Chain {
    /// Adds up natural logarithms in their order; `None` is a token without a factor.
    pub fn of(log_probs: impl IntoIterator<Item = Option<f64>>) -> Self {
        let mut chain = Self::default();
        for log_prob in log_probs {
            chain.push(log_prob);
        }
        chain
    }

    pub fn push(&mut self, log_prob: Option<f64>) {
        match log_prob {
            Some(log_prob) => {
                self.factors += 1;
                self.sum_nats += log_prob;
            }
            None => self.without += 1,
        }
    }

    pub fn sum_bits(&self) -> f64 {
        self.sum_nats / std::f64::consts::LN_2
    }

    /// e^(-mean log P); `None` without a factor.
    pub fn perplexity(&self) -> Option<f64> {
        (self.factors > 0).then(|| (-self.sum_nats / self.factors as f64).exp())
    }
}

/// e^`nats` with two digits, as "3.1 × 10⁻¹⁷", however small or large; plain from a thousandth to a thousand.
pub fn power_of_ten(nats: f64) -> String {
    if nats.is_nan() {
        return "NaN".to_owned();
    }
    if nats == f64::NEG_INFINITY {
        return "0".to_owned();
    }
    let plain = nats.exp();
    if (0.000_995..1000.0).contains(&plain) {
        return match plain {
            p if p >= 99.95 => format!("{p:.0}"),
            p if p >= 9.995 => format!("{p:.1}"),
            1.0 => "1".to_owned(),
            p if p > 1.0 => format!("{p:.2}"),
            // A certainty that it is not.
            p if p >= 0.9995 => ">0.999".to_owned(),
            p if p >= 0.0995 => format!("{p:.3}"),
            p if p >= 0.00995 => format!("{p:.4}"),
            p => format!("{p:.5}"),
        };
    }
    let log10 = nats / std::f64::consts::LN_10;
    let mut exponent = log10.floor();
    let mut digits = 10f64.powf(log10 - exponent);
    if digits >= 9.95 {
        digits = 1.0;
        exponent += 1.0;
    }
    format!("{digits:.1} × 10{}", superscript(exponent as i64))
}

fn superscript(exponent: i64) -> String {
    exponent
        .to_string()
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            c => char::from_u32(c as u32 - '0' as u32 + '⁰' as u32).unwrap_or(c),
        })
        .collect()
}

impl Session {
    /// log P of every token of the text, in nats; `None` where there is no factor.
    pub fn log_probs(&self) -> impl ExactSizeIterator<Item = Option<f64>> {
        self.path_nodes()
            .map(|node| node.score.map(|score| score.log_prob))
    }

    /// The chain over a range of tokens, clamped to the text.
    pub fn chain(&self, range: std::ops::Range<usize>) -> Chain {
        let end = range.end.min(self.len());
        let start = range.start.min(end);
        Chain::of(self.log_probs().skip(start).take(end - start))
    }

    /// What the first factor of the text is conditioned on.
    pub fn condition(&self) -> Condition {
        match self.ids.first() {
            Some(&first) if self.head_end_of_text() == Some(first) => Condition::EndOfText,
            _ => Condition::None,
        }
    }

    /// The first token that can have a factor; a condition has none itself.
    pub fn first_factor(&self) -> usize {
        (self.context_start() + 1).min(self.len())
    }

    fn head_end_of_text(&self) -> Option<u32> {
        self.head_model()?.end_of_text
    }

    /// Why the condition cannot be changed now, if it cannot.
    pub fn condition_is_fixed(&self) -> Option<&'static str> {
        let Some(model) = self.model() else {
            return Some("No model is loaded.");
        };
        if model.end_of_text.is_none() {
            return Some("This model has no end-of-text token to condition on.");
        }
        if self.context_start() > 0 {
            return Some("The text is longer than the context: its first token is never seen.");
        }
        match self.condition() {
            Condition::None if self.context_len() >= self.n_ctx() => {
                Some("The context is full: there is no room for an end-of-text before it.")
            }
            Condition::EndOfText if self.len() == 1 => {
                Some("An empty text is a lone end-of-text already.")
            }
            _ => None,
        }
    }

    /// Puts an end-of-text before the text, or takes it away. Every token is then predicted at another position:
    /// what was generated counts as re-tokenised text, since it was drawn from other distributions.
    pub(super) fn set_condition(&mut self, condition: Condition, now: f64) -> Vec<Command> {
        if condition == self.condition() || self.condition_is_fixed().is_some() {
            return Vec::new();
        }
        let Some(end_of_text) = self.model().and_then(|model| model.end_of_text) else {
            return Vec::new();
        };
        let mut commands = self.leave_run();
        self.record(Change::Branch, now);
        let selected = self.selected;
        let (ids, moved) = match condition {
            Condition::EndOfText => (
                [&[end_of_text], &self.ids[..]].concat(),
                selected.saturating_add(1),
            ),
            Condition::None => (self.ids[1..].to_vec(), selected.saturating_sub(1)),
        };
        self.rewrite(0, &ids);
        self.select_after_edit(self.len());
        if !self.follow {
            self.selected = moved.min(self.len());
        }
        self.stop_reason = None;
        commands.extend(self.predict());
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_far_below_the_smallest_float_are_shown_as_powers_of_ten() {
        let ln10 = std::f64::consts::LN_10;
        for (nats, text) in [
            (0.0, "1"),
            ((0.08f64 * 0.15 * 0.25).ln(), "0.00300"),
            (0.62f64.ln(), "0.620"),
            (-1e-9, ">0.999"),
            (5.234f64.ln(), "5.23"),
            (12.0f64.ln(), "12.0"),
            (4.2e6f64.ln(), "4.2 × 10⁶"),
            (0.0312f64.ln(), "0.0312"),
            (3.1f64.ln() - 17.0 * ln10, "3.1 × 10⁻¹⁷"),
            (9.96f64.ln() - 17.0 * ln10, "1.0 × 10⁻¹⁶"),
            (2.0f64.ln() - 4567.0 * ln10, "2.0 × 10⁻⁴⁵⁶⁷"),
            (f64::NEG_INFINITY, "0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(power_of_ten(nats), text, "{nats}");
        }
    }

    #[test]
    fn a_chain_multiplies_what_has_a_factor() {
        let factors = [0.08, 0.15, 0.25];
        let chain = Chain::of([None].into_iter().chain(factors.map(|p: f64| Some(p.ln()))));
        assert_eq!((chain.factors, chain.without), (3, 1));
        assert!((chain.sum_nats.exp() - 0.003).abs() < 1e-12);
        assert!((chain.sum_bits() - 0.003f64.log2()).abs() < 1e-12);
        let perplexity = chain.perplexity().expect("three factors");
        assert!((perplexity - 0.003f64.powf(-1.0 / 3.0)).abs() < 1e-9);
        assert_eq!(Chain::of([None]).perplexity(), None);
    }
}
