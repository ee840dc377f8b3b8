//! The order of tokens that everything agrees on: logit descending, ties lowest id, NaN last.

/// A sort key: smaller comes first. The logit's bits, mapped so that they order as an unsigned
/// number and turned around, above the id, so that one integer comparison does both.
pub(super) fn key(logit: f32, id: u32) -> u64 {
    // Adding 0 turns -0 into +0: the two are equal and must tie.
    let bits = (logit + 0.0).to_bits();
    let ascending = if logit.is_nan() {
        0
    } else if bits >> 31 == 1 {
        !bits
    } else {
        bits | 0x8000_0000
    };
    (u64::from(!ascending) << 32) | u64::from(id)
}

/// The id in a [`key`].
pub(super) fn id_of(key: u64) -> u32 {
    (key & 0xffff_ffff) as u32
}

/// The first token in the order, `None` for an empty row.
pub(super) fn first(logits: &[f32]) -> Option<u32> {
    logits
        .iter()
        .zip(0u32..)
        .map(|(&z, id)| key(z, id))
        .min()
        .map(id_of)
}

/// Rank of token `id`, 1 for the largest logit; ties lowest id first, NaN last.
/// An id outside the row ranks behind all of it.
pub fn rank(logits: &[f32], id: u32) -> usize {
    let Some(&logit) = logits.get(id as usize) else {
        return logits.len() + 1;
    };
    let own = key(logit, id);
    1 + logits
        .iter()
        .zip(0u32..)
        .filter(|&(&z, other)| key(z, other) < own)
        .count()
}

/// The `n` first tokens in the order (all of them if there are fewer). Linear in the vocabulary
/// plus a sort of `n`.
pub fn top(logits: &[f32], n: usize) -> Vec<u32> {
    let mut keys: Vec<u64> = logits
        .iter()
        .zip(0u32..)
        .map(|(&z, id)| key(z, id))
        .collect();
    keep_smallest(&mut keys, n);
    keys.sort_unstable();
    keys.into_iter().map(id_of).collect()
}

/// The tokens at some ranks, which ascend from 1 and lie within the row; found without sorting it.
pub fn at_ranks(logits: &[f32], ranks: &[usize]) -> Vec<u32> {
    let keys = logits.iter().zip(0u32..).map(|(&z, id)| key(z, id));
    let mut keys: Vec<u64> = keys.collect();
    let mut found = Vec::with_capacity(ranks.len());
    // From the far end, so that each search only looks at what comes before the last one.
    for &rank in ranks.iter().rev() {
        let (_, &mut key, _) = keys.select_nth_unstable(rank - 1);
        found.push(id_of(key));
        keys.truncate(rank);
    }
    found.reverse();
    found
}

/// Cuts `keys` to its `n` smallest, in no particular order.
pub(super) fn keep_smallest(keys: &mut Vec<u64>, n: usize) {
    if n == 0 {
        keys.clear();
    } else if n < keys.len() {
        keys.select_nth_unstable(n - 1);
        keys.truncate(n);
    }
}
