//! Two pinned tokens side by side: their logits' difference makes the ratio of their probabilities.

use super::layout::Token;
use crate::{sampling::Softmax, session::power_of_ten, ui::chart};

/// The line for exactly two pins: Δz, e^(Δz/T), and beside it the ratio of their probabilities, each worked out by
/// itself. `None` for another number of pins.
pub(in crate::ui) fn words(
    pinned: &[Token],
    label: impl Fn(u32) -> String,
    softmax: &Softmax,
    temperature: f32,
) -> Option<String> {
    let [a, b] = pinned else { return None };
    let difference = f64::from(a.logit) - f64::from(b.logit);
    let factor = difference / f64::from(temperature);
    let (p, q) = (softmax.prob(a.logit), softmax.prob(b.logit));
    let ratio = if q > 0.0 {
        power_of_ten((p / q).ln())
    } else {
        "none, the second has probability 0".to_owned()
    };
    let difference = if difference < 0.0 {
        format!("{}{:.3}", chart::MINUS, -difference)
    } else {
        format!("{difference:.3}")
    };
    Some(format!(
        "{} over {}: Δz {difference} · e^(Δz/T) {} · ratio of softmax {ratio} at T {temperature:.2}",
        label(a.id),
        label(b.id),
        power_of_ten(factor),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_logits_is_the_ratio_of_probabilities() {
        let logits = [2.1f32, -0.4, 0.7, 3.3];
        let token = |id: u32| Token {
            id,
            logit: logits[id as usize],
            rank: 0,
        };
        for (temperature, ratio) in [(1.0, "12.2"), (0.5, "148"), (2.0, "3.49")] {
            let softmax = Softmax::new(&logits, temperature);
            let line = words(
                &[token(0), token(1)],
                |id| format!("t{id}"),
                &softmax,
                temperature,
            );
            let line = line.expect("two tokens");
            assert_eq!(
                line,
                format!(
                    "t0 over t1: Δz 2.500 · e^(Δz/T) {ratio} · ratio of softmax {ratio} at T {temperature:.2}"
                )
            );
        }
        let softmax = Softmax::new(&logits, 1.0);
        assert_eq!(words(&[token(0)], |_| String::new(), &softmax, 1.0), None);
        assert_eq!(words(&[], |_| String::new(), &softmax, 1.0), None);
        let none = [
            token(0),
            Token {
                id: 1,
                logit: f32::NEG_INFINITY,
                rank: 4,
            },
        ];
        let line = words(&none, |_| String::new(), &softmax, 1.0).expect("two tokens");
        assert!(line.contains("probability 0"), "{line}");
    }
}
