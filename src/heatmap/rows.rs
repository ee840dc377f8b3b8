//! What is worked out once for each recorded row, and kept while the row stays the same.
//!
//! Rows are immutable, so a row is the same while its address is. Weak pointers keep the addresses from being used
//! again without keeping the numbers alive: memory that the session lets go of is gone.

use std::sync::{Arc, Weak};

use super::{Cell, Heads, Quantity, Shape, read_cell};
use crate::prediction::{AttentionRow, unpack_weight};

/// Which row something was made from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Nothing,
    Row(Weak<AttentionRow>),
}

impl Source {
    pub fn of(row: Option<&Arc<AttentionRow>>) -> Self {
        row.map_or(Self::Nothing, |row| Self::Row(Arc::downgrade(row)))
    }

    pub fn is(&self, row: Option<&Arc<AttentionRow>>) -> bool {
        match (self, row) {
            (Self::Nothing, None) => true,
            (Self::Row(held), Some(row)) => std::ptr::eq(held.as_ptr(), Arc::as_ptr(row)),
            _ => false,
        }
    }
}

/// One value for each row of a path, made again only for rows that have changed.
#[derive(Debug)]
pub struct RowCache<K, T> {
    key: Option<K>,
    rows: Vec<(Source, T)>,
}

impl<K, T> Default for RowCache<K, T> {
    fn default() -> Self {
        Self {
            key: None,
            rows: Vec::new(),
        }
    }
}

impl<K: PartialEq, T> RowCache<K, T> {
    /// Calls `make` for each row that is not the one held, and for all of them when `key` is another than before.
    ///
    /// Returns whether anything has changed. Values past the end of `rows` are kept, in case the path grows back.
    pub fn sync<'a>(
        &mut self,
        key: K,
        rows: impl Iterator<Item = Option<&'a Arc<AttentionRow>>>,
        mut make: impl FnMut(usize, Option<&AttentionRow>) -> T,
    ) -> bool {
        let mut changed = false;
        if self.key.as_ref() != Some(&key) {
            self.key = Some(key);
            self.rows.clear();
            changed = true;
        }
        for (index, row) in rows.enumerate() {
            match self.rows.get_mut(index) {
                Some((source, _)) if source.is(row) => continue,
                Some(held) => *held = (Source::of(row), make(index, row.map(AsRef::as_ref))),
                None => self
                    .rows
                    .push((Source::of(row), make(index, row.map(AsRef::as_ref)))),
            }
            changed = true;
        }
        changed
    }

    pub fn get(&self, row: usize) -> Option<&T> {
        self.rows.get(row).map(|(_, value)| value)
    }

    /// The values of the first `rows` rows, as far as there are any.
    pub fn first(&self, rows: usize) -> impl Iterator<Item = &T> {
        self.rows.iter().take(rows).map(|(_, value)| value)
    }
}

/// The largest magnitude among one row's scores of the given heads; 0 where none is known.
pub fn largest_score(row: &AttentionRow, shape: Shape, heads: Heads) -> f32 {
    let mut largest = 0.0f32;
    for flat in heads.numbers() {
        let (layer, head) = (flat / shape.n_head.max(1), flat % shape.n_head.max(1));
        let (Some(words), Some(part)) = (row.head_words(layer, head), row.layer(layer)) else {
            continue;
        };
        let Some(&lse) = part.log_sum_exp.get(head) else {
            continue;
        };
        let (mut low, mut high) = (f32::INFINITY, 0.0f32);
        for key in 0..row.keys {
            // The logarithm is monotone: two of them a row are enough.
            match unpack_weight(words, key) {
                Some(weight) if weight > 0.0 && weight.is_finite() => {
                    low = low.min(weight);
                    high = high.max(weight);
                }
                _ => {}
            }
        }
        if high > 0.0 && lse.is_finite() {
            largest = largest
                .max((low.ln() + lse).abs())
                .max((high.ln() + lse).abs());
        }
    }
    largest
}

/// The largest weight among one row's keys but the first; 0 where there is none or it is not known.
pub fn largest_weight_after_first(row: &AttentionRow, shape: Shape, heads: Heads) -> f32 {
    let weights = (1..row.keys).filter_map(|key| {
        match read_cell(row, shape, heads, Quantity::Weights, key) {
            Cell::Value(weight) => Some(weight),
            _ => None,
        }
    });
    weights.fold(0.0, f32::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(keys: usize) -> Arc<AttentionRow> {
        Arc::new(AttentionRow {
            n_head: 1,
            keys,
            layers: Vec::new(),
        })
    }

    #[test]
    fn values_are_made_once_a_row_and_again_from_the_first_difference() {
        let (a, b, c) = (row(1), row(2), row(2));
        let mut cache = RowCache::default();
        let made = |cache: &mut RowCache<u8, usize>, key, rows: &[Option<&Arc<AttentionRow>>]| {
            let mut made = Vec::new();
            cache.sync(key, rows.iter().copied(), |index, row| {
                made.push(index);
                row.map_or(0, |row| row.keys)
            });
            made
        };
        assert_eq!(made(&mut cache, 0, &[Some(&a), Some(&b)]), [0, 1]);
        assert_eq!(made(&mut cache, 0, &[Some(&a), Some(&b)]), [0usize; 0]);
        assert_eq!(made(&mut cache, 0, &[Some(&a), Some(&b), None]), [2]);
        assert_eq!(
            made(&mut cache, 0, &[Some(&a)]),
            [0usize; 0],
            "a shorter path keeps the rest"
        );
        assert_eq!(
            made(&mut cache, 0, &[Some(&a), Some(&c)]),
            [1],
            "another branch"
        );
        assert_eq!(
            made(&mut cache, 1, &[Some(&a), Some(&c)]),
            [0, 1],
            "another key"
        );
        assert_eq!(cache.first(9).copied().collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn a_row_that_was_let_go_is_not_mistaken_for_a_new_one() {
        let mut cache = RowCache::default();
        let mut count = 0;
        for _ in 0..100 {
            // Each is freed before the next is made, which would often get the same address.
            let row = row(1);
            cache.sync((), std::iter::once(Some(&row)), |_, _| count += 1);
        }
        assert_eq!(count, 100);
    }
}
