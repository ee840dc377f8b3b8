//! The mean weights over several heads as rows of one head: what is drawn of a mean, so that neither the device nor the
//! window's thread goes through all heads again at every frame, and so that layers which do not fit on the device are
//! in it all the same.
//!
//! Runs on the window's thread, a bounded amount of work a frame.

use std::sync::Arc;

use super::{Heads, Shape, rows::Source};
use crate::prediction::{AttentionRow, LayerRow, pack_weights};

/// Weights read in one [`Means::sync`] at most, a few milliseconds; one row is always made.
const FRAME_WEIGHTS: usize = 4 << 20;

/// The mean rows of one path, as far as they have been worked out.
#[derive(Clone, Debug, Default)]
pub struct Means {
    of: Option<(Shape, Heads)>,
    sources: Vec<Source>,
    /// Rows of one layer with one head; `None` where not all of the heads are on record.
    rows: Vec<Option<Arc<AttentionRow>>>,
}

impl Means {
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
        heads: Heads,
        record: impl ExactSizeIterator<Item = Option<&'a Arc<AttentionRow>>>,
    ) -> bool {
        if self.of != Some((shape, heads)) {
            *self = Self {
                of: Some((shape, heads)),
                ..Self::default()
            };
        }
        self.sources.truncate(record.len());
        self.rows.truncate(record.len());
        let mut work = 0;
        for (index, row) in record.enumerate() {
            if self.sources.get(index).is_some_and(|held| held.is(row)) {
                continue;
            }
            let weights = heads.count * (index + 1);
            if work > 0 && work + weights > FRAME_WEIGHTS {
                return true;
            }
            work += weights;
            let source = Source::of(row);
            let made = row.and_then(|row| mean_row(row, shape, heads));
            if index < self.rows.len() {
                self.sources[index] = source;
                self.rows[index] = made;
            } else {
                self.sources.push(source);
                self.rows.push(made);
            }
        }
        false
    }

    /// The rows worked out so far.
    pub fn rows(&self) -> &[Option<Arc<AttentionRow>>] {
        &self.rows
    }

    /// Memory taken.
    pub fn bytes(&self) -> usize {
        self.rows.iter().flatten().map(|row| row.bytes()).sum()
    }
}

/// A row of one head; its log-sum-exp is none of any head's.
fn mean_row(row: &AttentionRow, shape: Shape, heads: Heads) -> Option<Arc<AttentionRow>> {
    let mean = mean_weights(row, shape, heads)?;
    Some(one_head(&mean))
}

/// Weights as a row of one layer with one head, in f16.
pub(super) fn one_head(weights: &[f32]) -> Arc<AttentionRow> {
    Arc::new(AttentionRow {
        n_head: 1,
        keys: weights.len(),
        layers: vec![Some(Arc::new(LayerRow {
            words: pack_weights(weights).collect(),
            log_sum_exp: vec![0.0],
        }))],
    })
}

/// The mean over heads of the weights that a query gives to each key, `[keys]`; `None` where one of the heads is not
/// on record. As exact as [`super::read_cell`], for all keys at once.
pub fn mean_weights(row: &AttentionRow, shape: Shape, heads: Heads) -> Option<Vec<f32>> {
    let mut sums = vec![0.0f32; row.keys];
    let n_head = shape.n_head.max(1);
    for flat in heads.numbers() {
        let words = row.head_words(flat / n_head, flat % n_head)?;
        for (pair, word) in sums.chunks_mut(2).zip(words) {
            let halves = [(word & 0xffff) as u16, (word >> 16) as u16];
            for (sum, bits) in pair.iter_mut().zip(halves) {
                *sum += f16_to_f32(bits);
            }
        }
    }
    for sum in &mut sums {
        *sum /= heads.count as f32;
    }
    Some(sums)
}

/// A weight from its bits. Weights are not negative; with no branch in it, a loop over many is done several at a time.
fn f16_to_f32(bits: u16) -> f32 {
    // The exponent moves from a bias of 15 to one of 127; numbers below the smallest normal one come out right too.
    let shifted = f32::from_bits(u32::from(bits & 0x7fff) << 13) * f32::from_bits((254 - 15) << 23);
    // Infinity and NaN have the largest exponent in either format.
    if bits & 0x7c00 == 0x7c00 {
        f32::NAN
    } else {
        shifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heatmap::{Cell, Quantity, read_cell};

    #[test]
    fn every_weight_is_what_its_bits_say() {
        for bits in 0..0x8000u16 {
            let exact = half::f16::from_bits(bits).to_f32();
            let found = f16_to_f32(bits);
            if exact.is_finite() {
                assert_eq!(found, exact, "{bits:#x}");
            } else {
                assert!(found.is_nan(), "{bits:#x}");
            }
        }
    }

    const SHAPE: Shape = Shape {
        n_layer: 3,
        n_head: 5,
    };

    fn row(query: usize) -> Arc<AttentionRow> {
        let layer = |layer: usize| {
            let head = |head: usize| {
                let weight = move |key: usize| {
                    ((layer * 31 + head * 7 + key * 3) % 17) as f32 / (17.0 + query as f32)
                };
                let weights: Vec<_> = (0..=query).map(weight).collect();
                pack_weights(&weights).collect::<Vec<_>>()
            };
            Some(Arc::new(LayerRow {
                words: (0..SHAPE.n_head).flat_map(head).collect(),
                log_sum_exp: vec![0.0; SHAPE.n_head],
            }))
        };
        Arc::new(AttentionRow {
            n_head: SHAPE.n_head,
            keys: query + 1,
            layers: (0..SHAPE.n_layer).map(layer).collect(),
        })
    }

    fn sync(means: &mut Means, heads: Heads, record: &[Option<Arc<AttentionRow>>]) -> bool {
        means.sync(SHAPE, heads, record.iter().map(Option::as_ref))
    }

    #[test]
    fn means_are_those_of_the_cells() {
        let record: Vec<_> = (0..40).map(|query| Some(row(query))).collect();
        for heads in [
            Heads::layer(SHAPE, 2),
            Heads::across_layers(SHAPE, 3),
            Heads::all(SHAPE),
        ] {
            let mut means = Means::default();
            assert!(!sync(&mut means, heads, &record));
            for (query, row) in record.iter().enumerate() {
                let row = row.as_ref().unwrap();
                let mean = mean_weights(row, SHAPE, heads).unwrap();
                let made = means.rows()[query].as_ref().unwrap();
                for (key, &mean) in mean.iter().enumerate() {
                    let cell = read_cell(row, SHAPE, heads, Quantity::Weights, key);
                    assert_eq!(cell, Cell::Value(mean));
                    let kept = half::f16::from_f32(mean).to_f32();
                    assert_eq!(made.weight(0, 0, key), Some(kept));
                }
            }
        }
    }

    #[test]
    fn only_new_rows_are_worked_out_and_one_that_lacks_a_head_is_absent() {
        let mut record: Vec<_> = (0..30).map(|query| Some(row(query))).collect();
        let mut means = Means::default();
        let heads = Heads::across_layers(SHAPE, 0);
        sync(&mut means, heads, &record);
        let before = means.rows().to_vec();
        let whole = record[10].take().unwrap();
        record[10] = Some(Arc::new(whole.without_layer(1)));
        record.push(Some(row(30)));
        sync(&mut means, heads, &record);
        for (index, row) in before.iter().enumerate().filter(|(index, _)| *index != 10) {
            let (held, now) = (row.as_ref().unwrap(), means.rows()[index].as_ref().unwrap());
            assert!(Arc::ptr_eq(held, now), "row {index}");
        }
        assert!(means.rows()[10].is_none() && means.rows()[30].is_some());
        // The heads of a layer that is there are there.
        sync(&mut means, Heads::layer(SHAPE, 0), &record);
        assert!(means.rows()[10].is_some());
        record.truncate(5);
        sync(&mut means, heads, &record);
        assert_eq!(means.rows().len(), 5);
        assert!(means.bytes() > 0);
    }

    #[test]
    fn many_rows_are_spread_over_frames() {
        let shape = Shape {
            n_layer: 48,
            n_head: 25,
        };
        let wide = Arc::new(AttentionRow {
            n_head: 25,
            keys: 1,
            layers: vec![None; 48],
        });
        let record = vec![Some(wide); 300];
        let mut means = Means::default();
        let mut frames = 1;
        while means.sync(shape, Heads::all(shape), record.iter().map(Option::as_ref)) {
            frames += 1;
        }
        assert!((10..30).contains(&frames), "{frames}");
        assert_eq!(means.rows().len(), 300);
    }
}
