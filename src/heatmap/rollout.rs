//! Attention rollout: how much of each token's representation comes from which earlier token, if attention were all
//! that moves information between them. Not a weight of any one head.
//!
//! Abnar & Zuidema, "Quantifying Attention Flow in Transformers", ACL 2020 (arXiv:2005.00928), section 3: with A_l the
//! mean over the heads of layer l, Â_l = ½ A_l + ½ I (the residual connection), each row divided by its sum, the
//! rollout is Â_L · … · Â_1. All of these are lower triangles, so row *i* needs no later row, and a decode step adds
//! one row to what is there.
//!
//! Runs on the window's thread, a bounded amount of work a frame.

use std::sync::Arc;

use super::{
    Heads, Shape,
    means::{mean_weights, one_head},
    rows::Source,
};
use crate::prediction::AttentionRow;

/// Multiplications in one [`Rollout::sync`] at most, a few milliseconds; one row is always made.
const FRAME_PRODUCTS: usize = 4 << 20;

/// The rollout of one path, as far as it has been worked out.
#[derive(Clone, Debug, Default)]
pub struct Rollout {
    shape: Shape,
    sources: Vec<Source>,
    /// `[n_layer]`, each a packed lower triangle `[row * (row + 1) / 2 + key]` of the product up to that layer.
    products: Vec<Vec<f32>>,
    /// What is drawn: rows of one layer with one head. `None` from the first row on that is not wholly on record.
    rows: Vec<Option<Arc<AttentionRow>>>,
}

/// Where a row begins in a packed lower triangle; also the number of cells before it.
const fn start(row: usize) -> usize {
    row * (row + 1) / 2
}

impl Rollout {
    /// One layer with one head: what [`Self::rows`] look like.
    pub const SHAPE: Shape = Shape {
        n_layer: 1,
        n_head: 1,
    };

    /// Takes over what has changed in the current path's record, as far as one frame's share of work goes. Returns
    /// whether there is more to do.
    pub fn sync<'a>(
        &mut self,
        shape: Shape,
        record: impl ExactSizeIterator<Item = Option<&'a Arc<AttentionRow>>>,
    ) -> bool {
        if shape != self.shape {
            *self = Self {
                shape,
                products: vec![Vec::new(); shape.n_layer],
                ..Self::default()
            };
        }
        self.truncate(record.len());
        let mut work = 0;
        for (index, row) in record.enumerate() {
            if self.sources.get(index).is_some_and(|held| held.is(row)) {
                continue;
            }
            if work > 0 && work + shape.n_layer * start(index) > FRAME_PRODUCTS {
                return true;
            }
            self.truncate(index);
            let follows = index == 0 || self.rows.last().is_some_and(Option::is_some);
            let made = row.filter(|_| follows).and_then(|row| self.append(row));
            work += shape.n_layer * (start(index) + 1);
            self.sources.push(Source::of(row));
            self.rows.push(made);
        }
        false
    }

    /// The rows worked out so far; `None` where the record lacks this row, or one before it.
    pub fn rows(&self) -> &[Option<Arc<AttentionRow>>] {
        &self.rows
    }

    /// Memory taken.
    pub fn bytes(&self) -> usize {
        let products: usize = self.products.iter().map(Vec::capacity).sum();
        let rows: usize = self.rows.iter().flatten().map(|row| row.bytes()).sum();
        products * size_of::<f32>() + rows
    }

    fn truncate(&mut self, rows: usize) {
        self.sources.truncate(rows);
        self.rows.truncate(rows);
        for product in &mut self.products {
            product.truncate(start(rows));
        }
    }

    /// Adds the next row to every layer's product. `None`, with nothing added, where a layer is not on record.
    fn append(&mut self, row: &AttentionRow) -> Option<Arc<AttentionRow>> {
        let query = self.rows.len();
        if row.keys != query + 1
            || row.n_head != self.shape.n_head
            || row.layers.len() != self.shape.n_layer
            || !row.is_complete()
        {
            return None;
        }
        // The row of the product before the first layer: the identity.
        let mut below: Option<usize> = None;
        for layer in 0..self.shape.n_layer {
            let step = self.mixed(row, layer)?;
            let mut out = vec![0.0f32; query + 1];
            match below {
                None => out.copy_from_slice(&step),
                Some(before) => {
                    let before = &self.products[before];
                    for (key, &share) in step.iter().enumerate() {
                        let from = &before[start(key)..start(key + 1)];
                        for (sum, &value) in out.iter_mut().zip(from) {
                            *sum += share * value;
                        }
                    }
                }
            }
            self.products[layer].extend(out);
            below = Some(layer);
        }
        let last = self.products.last()?.get(start(query)..)?;
        Some(one_head(last))
    }

    /// One row of Â: half the mean over a layer's heads, half the token itself, divided by its sum.
    fn mixed(&self, row: &AttentionRow, layer: usize) -> Option<Vec<f32>> {
        let mut mixed = mean_weights(row, self.shape, Heads::layer(self.shape, layer))?;
        for share in &mut mixed {
            *share *= 0.5;
        }
        *mixed.last_mut()? += 0.5;
        let total: f32 = mixed.iter().sum();
        for share in &mut mixed {
            *share /= total;
        }
        Some(mixed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::{LayerRow, pack_weights};

    /// `[n_layer, n_head, keys]` weights of one query.
    fn row(weights: &[&[&[f32]]]) -> Arc<AttentionRow> {
        Arc::new(AttentionRow {
            n_head: weights[0].len(),
            keys: weights[0][0].len(),
            layers: weights
                .iter()
                .map(|heads| {
                    Some(Arc::new(LayerRow {
                        words: heads.iter().flat_map(|head| pack_weights(head)).collect(),
                        log_sum_exp: vec![0.0; heads.len()],
                    }))
                })
                .collect(),
        })
    }

    const SHAPE: Shape = Shape {
        n_layer: 2,
        n_head: 2,
    };

    fn record() -> Vec<Option<Arc<AttentionRow>>> {
        vec![
            Some(row(&[&[&[1.0], &[1.0]], &[&[1.0], &[1.0]]])),
            // Means over the heads: ½ ½, then ¼ ¾.
            Some(row(&[
                &[&[1.0, 0.0], &[0.0, 1.0]],
                &[&[0.5, 0.5], &[0.0, 1.0]],
            ])),
            Some(row(&[
                &[&[0.5, 0.25, 0.25], &[0.5, 0.25, 0.25]],
                &[&[0.0, 0.0, 1.0], &[0.0, 1.0, 0.0]],
            ])),
        ]
    }

    fn sync(rollout: &mut Rollout, record: &[Option<Arc<AttentionRow>>]) -> bool {
        rollout.sync(SHAPE, record.iter().map(Option::as_ref))
    }

    fn values(rollout: &Rollout, row: usize) -> Option<Vec<f32>> {
        let row = rollout.rows()[row].as_ref()?;
        Some((0..row.keys).filter_map(|k| row.weight(0, 0, k)).collect())
    }

    #[test]
    fn two_layers_by_hand() {
        let mut rollout = Rollout::default();
        assert!(!sync(&mut rollout, &record()));
        assert_eq!(values(&rollout, 0), Some(vec![1.0]));
        // Â_1 = [¼ ¾], Â_2 = [⅛ ⅞]: ⅛ · [1 0] + ⅞ · [¼ ¾].
        assert_eq!(values(&rollout, 1), Some(vec![0.343_75, 0.656_25]));
        // Â_1 = [¼ ⅛ ⅝], Â_2 = [0 ¼ ¾]: ¼ · [¼ ¾ 0] + ¾ · [¼ ⅛ ⅝].
        assert_eq!(values(&rollout, 2), Some(vec![0.25, 0.281_25, 0.468_75]));
        assert!(rollout.bytes() > 0);
    }

    #[test]
    fn rows_are_kept_until_the_first_difference() {
        let mut rollout = Rollout::default();
        let mut record = record();
        sync(&mut rollout, &record);
        let before = rollout.rows().to_vec();
        record[2] = Some(row(&[
            &[&[1.0, 0.0, 0.0], &[1.0, 0.0, 0.0]],
            &[&[0.0, 0.0, 1.0], &[0.0, 0.0, 1.0]],
        ]));
        sync(&mut rollout, &record);
        for (a, b) in before.iter().zip(rollout.rows()).take(2) {
            assert!(Arc::ptr_eq(a.as_ref().unwrap(), b.as_ref().unwrap()));
        }
        // ½ · [1 0 0] + ½ · [0 0 1] through one layer, nothing in the second.
        assert_eq!(values(&rollout, 2), Some(vec![0.5, 0.0, 0.5]));
        // A row that is gone takes all after it along, and comes back with them.
        let gone = record[1].take();
        record[1] = gone.as_ref().map(|row| Arc::new(row.without_layer(0)));
        sync(&mut rollout, &record);
        assert_eq!(values(&rollout, 0), Some(vec![1.0]));
        assert_eq!((values(&rollout, 1), values(&rollout, 2)), (None, None));
        record[1] = gone;
        sync(&mut rollout, &record);
        assert_eq!(values(&rollout, 2), Some(vec![0.5, 0.0, 0.5]));
        sync(&mut rollout, &record[..1]);
        assert_eq!(rollout.rows().len(), 1);
    }

    #[test]
    fn long_texts_are_spread_over_frames_and_rows_sum_to_one() {
        let shape = Shape {
            n_layer: 3,
            n_head: 1,
        };
        let record: Vec<_> = (0..400)
            .map(|query: usize| {
                let weights = vec![1.0 / (query + 1) as f32; query + 1];
                let heads: &[&[f32]] = &[&weights];
                Some(row(&[heads; 3]))
            })
            .collect();
        let mut rollout = Rollout::default();
        let mut frames = 1;
        while rollout.sync(shape, record.iter().map(Option::as_ref)) {
            frames += 1;
        }
        assert!((4..100).contains(&frames), "{frames} frames");
        for at in [0, 1, 57, 399] {
            let sum: f32 = values(&rollout, at).unwrap().iter().sum();
            assert!((sum - 1.0).abs() < 1e-3, "row {at} sums to {sum}");
        }
    }

    #[test]
    fn a_nan_is_passed_on_and_no_layers_are_no_rollout() {
        let mut record = record();
        record[1] = Some(row(&[
            &[&[f32::NAN, 0.0], &[0.0, 1.0]],
            &[&[0.5, 0.5], &[0.0, 1.0]],
        ]));
        let mut rollout = Rollout::default();
        sync(&mut rollout, &record);
        assert!(values(&rollout, 2).unwrap()[0].is_nan());
        let none = Shape::default();
        assert!(!rollout.sync(none, record.iter().map(Option::as_ref)));
        assert!(rollout.rows().iter().all(Option::is_none));
    }
}
