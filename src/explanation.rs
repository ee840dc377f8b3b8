//! Where a next-token distribution comes from, as plain numbers: the final hidden state against the rows of the LM
//! head, the logit lens, and the rows nearest to one row. Made by the worker, read by the window; immutable.

use std::sync::Arc;

use crate::prediction::LogitsRow;

/// The most likely tokens that a lens keeps, and the rows nearest to one.
pub const LENS_TOP: usize = 8;
pub const NEAREST_ROWS: usize = 40;

/// The rows of a model's LM head, as far as no step is needed to know them.
#[derive(Debug, Clone, PartialEq)]
pub struct HeadRows {
    /// `[vocab_size]`: lengths of the rows.
    pub norms: Vec<f64>,
    /// `[vocab_size]`: added to the dot products.
    pub bias: Option<Vec<f32>>,
    /// The head is the token table itself.
    pub is_tied: bool,
    pub n_embd: usize,
}

/// One step taken apart.
#[derive(Debug)]
pub struct Explanation {
    pub head: Arc<HeadRows>,
    /// Length of the final hidden state h, after `ln_f`.
    pub hidden_norm: f64,
    /// `[vocab_size]`: h · w of every row w, products and sums in f64, without the bias.
    pub dots: Vec<f64>,
    /// `[n_layer + 1]`: logits of the embeddings and of the stream after each block, each through `ln_f` and the head.
    pub lens: Vec<LensRow>,
    /// Time it took, in milliseconds.
    pub ms: f64,
}

/// One stage of the logit lens.
#[derive(Debug)]
pub struct LensRow {
    pub logits: LogitsRow,
    /// At most [`LENS_TOP`] ids, most likely first.
    pub top: Vec<u32>,
}

/// One logit as lengths and an angle: `hidden_norm · norm · cos = dot`, and `dot + bias = logit`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Product {
    pub norm: f64,
    /// NaN where a length is 0.
    pub cos: f64,
    pub dot: f64,
    pub bias: Option<f64>,
    pub logit: f64,
}

impl Explanation {
    /// How a token's logit comes about; `None` outside the vocabulary.
    pub fn product(&self, id: u32) -> Option<Product> {
        let at = id as usize;
        let (dot, norm) = (*self.dots.get(at)?, *self.head.norms.get(at)?);
        let bias = self.head.bias.as_ref().and_then(|bias| bias.get(at));
        let bias = bias.map(|&bias| f64::from(bias));
        Some(Product {
            norm,
            cos: cosine(dot, self.hidden_norm, norm),
            dot,
            bias,
            logit: dot + bias.unwrap_or(0.0),
        })
    }

    /// Largest |h · w + b − z| over a row of logits; NaN where one is not a number.
    pub fn difference(&self, logits: &[f32]) -> f64 {
        let bias = self.head.bias.as_deref().unwrap_or_default();
        let bias = bias.iter().copied().chain(std::iter::repeat(0.0));
        let own = self.dots.iter().zip(bias);
        largest_difference(own.map(|(dot, bias)| dot + f64::from(bias)), logits)
    }

    /// Largest difference between the last stage of the lens and a row of logits; NaN as above.
    pub fn lens_difference(&self, logits: &[f32]) -> f64 {
        let last = self.lens.last().map_or(&[][..], |row| &row.logits.values);
        largest_difference(last.iter().map(|&z| f64::from(z)), logits)
    }
}

/// How far apart two ways of computing the same logits may be: the limit of the self-check.
pub fn agreement_limit(logits: &[f32]) -> f64 {
    let largest = logits.iter().fold(1.0f32, |max, z| max.max(z.abs()));
    1e-4 * f64::from(largest)
}

fn largest_difference(own: impl Iterator<Item = f64>, logits: &[f32]) -> f64 {
    let apart = |(own, &z): (f64, &f32)| match f64::from(z) {
        z if own == z => 0.0,
        z => (own - z).abs(),
    };
    own.zip(logits).map(apart).fold(0.0, |worst, apart| {
        if apart.is_nan() || apart > worst {
            apart
        } else {
            worst
        }
    })
}

fn cosine(dot: f64, a: f64, b: f64) -> f64 {
    // Rounding must not make a cosine of more than 1.
    match dot / (a * b) {
        cos if cos.is_finite() => cos.clamp(-1.0, 1.0),
        _ => f64::NAN,
    }
}

/// The rows of the head nearest in direction to one token's row.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    pub head: Arc<HeadRows>,
    pub token: u32,
    /// Ids and cosines, the nearest first, without the token itself.
    pub rows: Vec<(u32, f64)>,
}

impl Nearest {
    /// `dots` are the products of the token's row with every row, `[vocab_size]`.
    pub fn new(head: Arc<HeadRows>, token: u32, dots: &[f64]) -> Self {
        let own = head.norms.get(token as usize).copied().unwrap_or(f64::NAN);
        let mut rows: Vec<(u32, f64)> = (0..)
            .zip(dots.iter().zip(&head.norms))
            .map(|(id, (&dot, &norm))| (id, cosine(dot, own, norm)))
            // A row of length 0 has no direction.
            .filter(|&(id, cos)| id != token && !cos.is_nan())
            .collect();
        let nearer =
            |a: &(u32, f64), b: &(u32, f64)| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0));
        if rows.len() > NEAREST_ROWS {
            rows.select_nth_unstable_by(NEAREST_ROWS, nearer);
            rows.truncate(NEAREST_ROWS);
        }
        rows.sort_unstable_by(nearer);
        Self { head, token, rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows (3, 4), (1, 0), (0, 0), (−2, 0) with a bias, against h = (1, 0).
    fn explained(bias: Option<Vec<f32>>) -> Explanation {
        let head = Arc::new(HeadRows {
            norms: vec![5.0, 1.0, 0.0, 2.0],
            bias,
            is_tied: true,
            n_embd: 2,
        });
        Explanation {
            head,
            hidden_norm: 1.0,
            dots: vec![3.0, 1.0, 0.0, -2.0],
            lens: Vec::new(),
            ms: 0.0,
        }
    }

    #[test]
    fn a_logit_is_two_lengths_and_a_cosine_and_a_bias() {
        let plain = explained(None);
        let product = plain.product(0).expect("in the vocabulary");
        assert_eq!((product.norm, product.cos), (5.0, 0.6));
        assert_eq!(
            plain.hidden_norm * product.norm * product.cos,
            product.logit
        );
        assert!(plain.product(2).is_some_and(|row| row.cos.is_nan()));
        assert_eq!(plain.product(4), None);
        let biased = explained(Some(vec![0.5, 0.0, -1.0, 0.0]));
        assert_eq!(biased.product(0).map(|row| row.logit), Some(3.5));
        assert_eq!(biased.product(2).map(|row| row.logit), Some(-1.0));
    }

    #[test]
    fn the_difference_is_the_largest_and_what_is_no_number_shows() {
        let plain = explained(None);
        assert_eq!(plain.difference(&[3.0, 1.0, 0.0, -2.0]), 0.0);
        assert_eq!(plain.difference(&[3.0, 0.5, 0.25, -2.0]), 0.5);
        assert!(plain.difference(&[f32::NAN, 0.5, 0.0, -2.0]).is_nan());
        assert_eq!(agreement_limit(&[0.5]), 1e-4);
        assert_eq!(agreement_limit(&[-30.0, 2.0]), 1e-4 * 30.0);
    }

    #[test]
    fn nearest_rows_are_ordered_by_angle_not_by_length() {
        let Explanation { head, .. } = explained(None);
        // (1, 0) against all.
        let nearest = Nearest::new(head, 1, &[3.0, 1.0, 0.0, -2.0]);
        assert_eq!(nearest.rows, [(0, 0.6), (3, -1.0)]);
    }
}
