//! Which rows the Logits → softmax panel shows, and where its columns are: pure functions.

use crate::sampling::rank;

/// Most rows from the top of the distribution.
pub(super) const TOP: usize = 12;
/// Rows from far down.
pub(super) const FAR: usize = 3;

/// A token with its place in the order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token {
    pub id: u32,
    pub logit: f32,
    pub rank: usize,
}

impl Token {
    pub fn of(values: &[f32], id: u32) -> Self {
        Self {
            id,
            logit: values.get(id as usize).copied().unwrap_or(f32::NAN),
            rank: rank(values, id),
        }
    }
}

/// The ranks from far down that are shown of a vocabulary, none of them among the top rows.
fn far_ranks(vocab_size: usize) -> Vec<usize> {
    let mut ranks = vec![vocab_size / 4, vocab_size / 2, vocab_size];
    ranks.retain(|&rank| rank > TOP);
    ranks.dedup();
    ranks
}

/// The tokens at [`far_ranks`], found without sorting the whole row.
pub(super) fn far_tokens(values: &[f32]) -> Vec<Token> {
    // The order of `sampling::rank`: larger logits first, ties lowest id, NaN last.
    let before = |a: &u32, b: &u32| {
        let key = |id: u32| values.get(id as usize).map_or(f32::NAN, |&z| z + 0.0);
        let (za, zb) = (key(*a), key(*b));
        za.is_nan()
            .cmp(&zb.is_nan())
            .then_with(|| zb.partial_cmp(&za).unwrap_or(std::cmp::Ordering::Equal))
            .then(a.cmp(b))
    };
    let mut ids: Vec<u32> = (0..values.len() as u32).collect();
    let mut found = Vec::with_capacity(FAR);
    // From the far end, so that each search only looks at what comes before the last one.
    for rank in far_ranks(values.len()).into_iter().rev() {
        let (_, &mut id, _) = ids.select_nth_unstable_by(rank - 1, before);
        found.push(Token {
            id,
            logit: values[id as usize],
            rank,
        });
        ids.truncate(rank);
    }
    found.reverse();
    found
}

/// The rows that are shown: the first of the top, then those asked for, then those from far down.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub top: usize,
    pub extras: Vec<Token>,
    pub far: Vec<Token>,
}

impl Plan {
    /// Fills `slots` rows. What was asked for takes the place of the last top rows, so that nothing else moves;
    /// three top rows stay in any case, and the list scrolls.
    pub fn new(slots: usize, top: &[Token], asked: &[Token], far: &[Token]) -> Self {
        let far_len = match slots {
            0..=3 => 0,
            4..=5 => 1,
            _ => FAR,
        };
        let far: Vec<_> = far.iter().rev().take(far_len).rev().copied().collect();
        let mut shown = top
            .len()
            .min(TOP)
            .min(slots.saturating_sub(far.len()).max(1));
        loop {
            let mut extras: Vec<Token> = Vec::new();
            for token in asked {
                let is_there = |list: &[Token]| list.iter().any(|other| other.id == token.id);
                if !is_there(&top[..shown]) && !is_there(&far) && !is_there(&extras) {
                    extras.push(*token);
                }
            }
            if shown + extras.len() + far.len() <= slots || shown <= 3 {
                return Self {
                    top: shown,
                    extras,
                    far,
                };
            }
            shown -= 1;
        }
    }

    pub fn len(&self) -> usize {
        self.top + self.extras.len() + self.far.len()
    }
}

/// Where the columns are: ends of the bars, right ends of the numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns {
    pub label_chars: usize,
    pub label: f32,
    pub logit_bar: std::ops::Range<f32>,
    pub centred: Option<f32>,
    pub raw: Option<f32>,
    pub prob_bar: std::ops::Range<f32>,
    pub prob: f32,
}

impl Columns {
    /// One of the two logit columns is given up where there is no room for both: never the one that the bars show.
    pub fn fit(left: f32, width: f32, digit: f32, gap: f32, raw_bars: bool) -> Self {
        let (centred, raw, prob) = (6.0 * digit, 7.0 * digit, 7.0 * digit);
        let label_chars = match () {
            () if width > 70.0 * digit => 16,
            () if width > 40.0 * digit => 10,
            () => 7,
        };
        let label = left + label_chars as f32 * digit;
        let fixed = label - left + 3.0 * gap + prob;
        let least_bars = 10.0 * digit;
        let has_both = width - fixed - centred - raw - 2.0 * gap >= least_bars;
        let has_one = width - fixed - raw - gap >= 0.5 * least_bars;
        let centred = (has_both || has_one && !raw_bars).then_some(centred + gap);
        let raw = (has_both || has_one && raw_bars).then_some(raw + gap);
        let numbers = centred.unwrap_or(0.0) + raw.unwrap_or(0.0);
        let bars = (width - fixed - numbers).max(0.0);
        let logit_bar = label + gap..label + gap + 0.5 * bars;
        let centred = centred.map(|column| logit_bar.end + column);
        let raw = raw.map(|column| centred.unwrap_or(logit_bar.end) + column);
        let right = left + width;
        let start = (logit_bar.end + numbers + gap).min(right);
        let prob_bar = start..(right - prob - gap).max(start);
        Self {
            label_chars,
            label,
            logit_bar,
            centred,
            raw,
            prob_bar,
            prob: right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::sampling::rank;

    fn tokens(ids: std::ops::Range<u32>) -> Vec<Token> {
        ids.map(|id| Token {
            id,
            logit: -(id as f32),
            rank: id as usize + 1,
        })
        .collect()
    }

    #[test]
    fn far_rows_are_the_same_for_a_row_and_have_the_ranks_they_say() {
        assert_eq!(far_ranks(4096), [1024, 2048, 4096]);
        assert_eq!(far_ranks(50_257), [12_564, 25_128, 50_257]);
        assert_eq!(far_ranks(5), [] as [usize; 0]);
        assert_eq!(far_ranks(13), [13]);
        let mut values: Vec<f32> = (0..997u32)
            .map(|i| ((i * 7919) % 131) as f32 * 0.25 - 9.0)
            .collect();
        values[13] = f32::NAN;
        values[14] = f32::NEG_INFINITY;
        values[15] = -0.0;
        values[16] = 0.0;
        for token in far_tokens(&values) {
            assert_eq!(rank(&values, token.id), token.rank);
        }
        assert!(
            far_tokens(&values)
                .last()
                .is_some_and(|token| token.logit.is_nan())
        );
        assert!(far_tokens(&[]).is_empty());
    }

    #[test]
    fn what_is_asked_for_takes_the_place_of_the_last_top_rows() {
        let (top, far) = (tokens(0..20), tokens(100..103));
        let plan = Plan::new(9, &top, &[], &far);
        assert_eq!((plan.top, plan.extras.len(), plan.far.len()), (6, 0, 3));
        let inside = Plan::new(9, &top, &top[2..3], &far);
        assert_eq!((inside.top, inside.extras.len()), (6, 0));
        // Rank 6 is in the sixth slot already: it must not push itself out.
        assert_eq!(Plan::new(9, &top, &top[5..6], &far).extras.len(), 0);
        let outside = Plan::new(9, &top, &[top[7], top[15]], &far);
        assert_eq!(
            (outside.top, outside.extras.len(), outside.len()),
            (4, 2, 9)
        );
        // A token is never shown twice.
        assert!(
            Plan::new(9, &top, &[far[0], far[0]], &far)
                .extras
                .is_empty()
        );
        assert_eq!(
            Plan::new(9, &top, &[top[15], top[15]], &far).extras.len(),
            1
        );
    }

    #[test]
    fn few_slots_keep_the_top() {
        let (top, far) = (tokens(0..20), tokens(100..103));
        assert_eq!(Plan::new(1, &top, &[], &far).far.len(), 0);
        assert_eq!(Plan::new(4, &top, &[], &far).far, &far[2..]);
        let crowded = Plan::new(4, &top, &tokens(50..60), &far);
        assert_eq!(
            (crowded.top, crowded.extras.len()),
            (3, 10),
            "the list scrolls"
        );
        assert_eq!(Plan::new(15, &tokens(0..2), &[], &[]).top, 2);
        assert_eq!(Plan::new(15, &[], &[], &[]).len(), 0);
    }

    #[test]
    fn columns_never_overlap() {
        for scale in [1.0, 2.5] {
            for width in (40..1600).step_by(7) {
                for raw in [false, true] {
                    let columns = Columns::fit(0.0, width as f32, 7.8 * scale, 9.0 * scale, raw);
                    assert!(
                        columns.prob_bar.start <= columns.prob_bar.end
                            && columns.logit_bar.start <= columns.logit_bar.end,
                        "{width} {columns:?}"
                    );
                    let ends: Vec<_> = [
                        Some(columns.label),
                        Some(columns.logit_bar.start),
                        Some(columns.logit_bar.end),
                        columns.centred,
                        columns.raw,
                        Some(columns.prob_bar.start),
                        Some(columns.prob_bar.end),
                    ]
                    .into_iter()
                    .flatten()
                    .collect();
                    if columns.centred.is_some() || columns.raw.is_some() {
                        assert!(ends.is_sorted(), "{width} {columns:?}");
                    }
                }
            }
        }
        let sketched = Columns::fit(0.0, 512.0, 7.8, 9.0, false);
        assert!(
            sketched.centred.is_some() && sketched.raw.is_some(),
            "{sketched:?}"
        );
    }
}
