//! Two sheets that are ready to use, each with the numbers that make its point.

use super::{END_OF_TEXT, Kind, Sheet};

impl Sheet {
    /// Four tokens, a prompt of three, logits of both signs: after the prompt the largest is 2.1, which softmax turns
    /// into 0.62.
    pub fn logits_example() -> Self {
        Self::example(
            Kind::Logits,
            &["the", "cat", "sat", "down"],
            "the cat sat",
            &[
                &["-1.5", "2.4", "-0.3", "0.2"],
                &["-0.8", "-1.9", "2.2", "0.9"],
                &["1.2", "0.4", "-1.6", "2.1"],
                &["1.7", "-0.6", "-1.2", "0.5"],
                &["-2.0", "1.9", "0.3", "-0.7"],
                &["0.6", "-1.4", "1.8", "-0.2"],
            ],
        )
    }

    /// Three conditionals whose product is 0.08 × 0.15 × 0.25 = 0.003. The first factor has a condition too: the
    /// text begins with an end-of-text.
    pub fn conditionals_example() -> Self {
        Self::example(
            Kind::Probabilities,
            &[END_OF_TEXT, "the", "cat", "sat"],
            "<|endoftext|> the cat sat",
            &[
                &["", "0.08", "", ""],
                &["", "", "0.15", ""],
                &["", "", "", "0.25"],
                &["0.7", "0.1", "", ""],
                &["0.25", "", "", ""],
            ],
        )
    }

    fn example(kind: Kind, labels: &[&str], prompt: &str, rows: &[&[&str]]) -> Self {
        let own = |cells: &[&str]| cells.iter().map(|&cell| cell.to_owned()).collect();
        Self {
            kind,
            labels: own(labels),
            prompt: prompt.to_owned(),
            rows: rows.iter().map(|row| own(row)).collect(),
        }
    }
}

impl Default for Sheet {
    fn default() -> Self {
        Self::logits_example()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_logit_of_the_example_becomes_0_62() {
        let toy = Sheet::logits_example().read().expect("a toy");
        assert_eq!((toy.vocab_size(), toy.prompt().len()), (4, 3));
        let row = toy.row(2).expect("the row after the prompt");
        let largest = row.values.iter().copied().fold(f32::MIN, f32::max);
        assert_eq!(largest, 2.1);
        assert_eq!(format!("{:.2}", row.prob(3)), "0.62");
        for position in 0..toy.n_ctx() {
            let row = toy.row(position).expect("a row");
            let both = |sign: f32| row.values.iter().any(|&z| z * sign > 0.0);
            assert!(both(1.0) && both(-1.0), "row {position} has both signs");
            let sum: f64 = (0..4).map(|id| row.prob(id)).sum();
            assert!((sum - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn the_conditionals_of_the_example_multiply_to_0_003() {
        let toy = Sheet::conditionals_example().read().expect("a toy");
        let factors: Vec<f64> = (1..4)
            .map(|at| toy.row(at - 1).expect("a row").prob(toy.prompt()[at]))
            .collect();
        for (factor, typed) in factors.iter().zip([0.08, 0.15, 0.25]) {
            assert!((factor - typed).abs() < 1e-8, "{factor}");
        }
        let product: f64 = factors.iter().product();
        assert!((product - 0.003).abs() < 1e-9, "{product}");
        assert_eq!(toy.tokenizer().end_of_text(), Some(0));
        // What is left blank shares the rest equally.
        let row = toy.row(0).expect("a row");
        for id in [0, 2, 3] {
            assert!((row.prob(id) - 0.92 / 3.0).abs() < 1e-7);
        }
    }
}
