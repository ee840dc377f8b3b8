//! The twin of `shaders/heatmap.wgsl` on the CPU, for one head: what a device without storage buffers is shown, and
//! what the shader is tested against.

use std::{ops::Range, sync::Arc};

use egui::{Color32, ColorImage};

use super::{
    Arrangement, Heads, Picture, Quantity, Shape,
    color::{cividis, diverging, place},
    rows::RowCache,
};
use crate::prediction::AttentionRow;

/// Stands for a value that is not there; a value that is not a number is a NaN.
const ABSENT: f32 = f32::INFINITY;

/// What one cell holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell {
    Value(f32),
    NotANumber,
    /// Let go for memory, or a score whose weight underflowed f16.
    Absent,
}

/// One cell of one head, or the mean over several.
pub fn read_cell(
    row: &AttentionRow,
    shape: Shape,
    heads: Heads,
    quantity: Quantity,
    key: usize,
) -> Cell {
    match cell(row, shape, heads, quantity, key) {
        value if value.is_nan() => Cell::NotANumber,
        ABSENT => Cell::Absent,
        value => Cell::Value(value),
    }
}

/// ln of the smallest f16 above zero, 2^-24: a weight that is kept as zero was no larger.
const LN_SMALLEST: f32 = -16.635_532;

/// What a score that is [`Cell::Absent`] because of an underflow lies below; for a mean, with the scores of the other
/// heads as they are. `None` where a number is not on record.
pub fn score_bound(row: &AttentionRow, shape: Shape, heads: Heads, key: usize) -> Option<f32> {
    let mut sum = 0.0;
    for flat in heads.numbers() {
        let (layer, head) = (flat / shape.n_head.max(1), flat % shape.n_head.max(1));
        let weight = row.weight(layer, head, key)?;
        let lse = *row.layer(layer)?.log_sum_exp.get(head)?;
        sum += weight.ln().max(LN_SMALLEST) + lse;
    }
    Some(sum / heads.count as f32).filter(|bound| bound.is_finite())
}

/// The values of one head, or the mean over several, for every query and key; rows are worked out once.
#[derive(Default)]
pub struct Triangle {
    /// Row `q` is `[q + 1]`: weights or scores, NaN, or [`ABSENT`].
    cells: RowCache<(Shape, Heads, Quantity), Vec<f32>>,
}

impl Triangle {
    /// Takes over what has changed in the current path's rows; returns whether anything has.
    pub fn sync<'a>(
        &mut self,
        shape: Shape,
        heads: Heads,
        quantity: Quantity,
        rows: impl Iterator<Item = Option<&'a Arc<AttentionRow>>>,
    ) -> bool {
        self.cells
            .sync((shape, heads, quantity), rows, |index, row| {
                (0..=index)
                    .map(|key| row.map_or(ABSENT, |row| cell(row, shape, heads, quantity, key)))
                    .collect()
            })
    }

    /// The largest value of a query over some keys: a NaN where there is one, [`ABSENT`] where there is nothing.
    fn largest(&self, query: usize, keys: Range<usize>) -> f32 {
        let row = self.cells.get(query).map_or(&[][..], Vec::as_slice);
        let values = row.get(keys).unwrap_or_default();
        let largest = values.iter().copied().reduce(|held, value| match () {
            () if held.is_nan() || value.is_nan() => f32::NAN,
            () if held == ABSENT || (value != ABSENT && value > held) => value,
            () => held,
        });
        largest.unwrap_or(ABSENT)
    }
}

/// The mean over the given heads; it exists only where all of them do.
///
/// Keep in sync with `cell` and `mean_cell` in `shaders/heatmap.wgsl`.
fn cell(row: &AttentionRow, shape: Shape, heads: Heads, quantity: Quantity, key: usize) -> f32 {
    let mut sum = 0.0;
    let mut absent = false;
    for flat in heads.numbers() {
        let (layer, head) = (flat / shape.n_head.max(1), flat % shape.n_head.max(1));
        let Some(weight) = row.weight(layer, head, key) else {
            absent = true;
            continue;
        };
        if !weight.is_finite() {
            return f32::NAN;
        }
        if quantity != Quantity::Scores {
            sum += weight;
            continue;
        }
        let lse = row
            .layer(layer)
            .and_then(|part| part.log_sum_exp.get(head))
            .copied()
            .unwrap_or(f32::NAN);
        if !lse.is_finite() {
            return f32::NAN;
        }
        if weight <= 0.0 {
            absent = true;
        } else {
            sum += weight.ln() + lse;
        }
    }
    if absent {
        ABSENT
    } else {
        sum / heads.count as f32
    }
}

/// The cells under pixel `p` along one axis: the one under its centre, or all of them where they are smaller than a
/// pixel. Keep in sync with `cells_under` in `shaders/heatmap.wgsl`.
fn cells_under(p: usize, first: f32, inverse: f32) -> Range<usize> {
    let p = p as f32;
    if inverse <= 1.0 {
        let at = (first + (p + 0.5) * inverse).max(0.0) as usize;
        return at..at + 1;
    }
    let start = (first + p * inverse + 0.001).floor().max(0.0) as usize;
    let end = (first + (p + 1.0) * inverse - 0.001).ceil().max(0.0) as usize;
    start..end.max(start + 1)
}

/// The colour of a pixel at `x`, `y` that covers these queries and keys. `look` gives the largest value of a query over
/// a range of keys that are not masked for it: a NaN where there is one, [`ABSENT`] where there is nothing.
///
/// Keep in sync with `shade` in `shaders/heatmap.wgsl`.
fn shade(
    picture: &Picture,
    look: impl Fn(usize, Range<usize>) -> f32,
    (x, y): (usize, usize),
    queries: Range<usize>,
    keys: &Range<usize>,
) -> Color32 {
    let palette = &picture.palette;
    if queries.start >= picture.rows || keys.start >= picture.rows {
        return palette.ground;
    }
    let last = queries.end.min(picture.rows);
    if keys.start >= last {
        let [period, line] = picture.hatch_px.map(|px| px as usize);
        return if (x + y) % period.max(1) < line {
            palette.hatch
        } else {
            palette.masked
        };
    }
    if picture.quantity == Quantity::Mask {
        return palette.allowed;
    }
    let mut largest: Option<f32> = None;
    for query in queries.start.max(keys.start)..last {
        let value = look(query, keys.start..keys.end.min(query + 1));
        if value.is_nan() {
            return palette.not_a_number;
        }
        if value != ABSENT && largest.is_none_or(|held| value > held) {
            largest = Some(value);
        }
    }
    let Some(value) = largest else {
        return palette.absent;
    };
    let [r, g, b] = match picture.quantity {
        Quantity::Scores => diverging(value / picture.extent),
        _ => cividis(place(value / picture.scale_max, picture.logarithmic)),
    };
    Color32::from_rgb(r, g, b)
}

/// Paints one head. A wall is not painted here: it is left as ground.
pub fn paint_cpu(picture: &Picture, triangle: &Triangle) -> ColorImage {
    let size = picture.size_px.map(|px| px as usize);
    let mut image = ColorImage::filled(size, picture.palette.ground);
    let Arrangement::One {
        first_cell,
        cell_px,
        ..
    } = picture.arrangement
    else {
        return image;
    };
    let inverse = 1.0 / cell_px;
    let columns: Vec<_> = (0..size[0])
        .map(|x| cells_under(x, first_cell[0], inverse))
        .collect();
    for y in 0..size[1] {
        let queries = cells_under(y, first_cell[1], inverse);
        let line = &mut image.pixels[y * size[0]..(y + 1) * size[0]];
        for (x, (pixel, keys)) in line.iter_mut().zip(&columns).enumerate() {
            let look = |query, keys| triangle.largest(query, keys);
            *pixel = shade(picture, look, (x, y), queries.clone(), keys);
        }
    }
    image
}

/// Paints the wall of all heads: thumbnails of `[n_layer, n_head]`, the weights alone. `record` holds the rows of the
/// current path. One head is not painted here: it is left as ground.
pub fn paint_wall_cpu(picture: &Picture, record: &[Option<&Arc<AttentionRow>>]) -> ColorImage {
    let size = picture.size_px.map(|px| px as usize);
    let mut image = ColorImage::filled(size, picture.palette.ground);
    let Arrangement::Wall { pitch_px, thumb_px } = picture.arrangement else {
        return image;
    };
    let inverse = picture.side as f32 / thumb_px as f32;
    let cells: Vec<_> = (0..thumb_px as usize)
        .map(|p| cells_under(p, 0.0, inverse))
        .collect();
    let pitch = pitch_px as usize;
    let Shape { n_layer, n_head } = picture.shape;
    for (layer, head) in (0..n_layer).flat_map(|layer| (0..n_head).map(move |head| (layer, head))) {
        for (y, queries) in cells.iter().enumerate() {
            let rows: Vec<_> = queries
                .clone()
                .map(|query| record.get(query).copied().flatten())
                .map(|row| row.and_then(|row| row.head_words(layer, head)))
                .collect();
            for (x, keys) in cells.iter().enumerate() {
                let look = |query: usize, keys: Range<usize>| {
                    let words = rows.get(query - queries.start).copied().flatten();
                    words.map_or(ABSENT, |words| largest_weight(words, keys))
                };
                let at = (head * pitch + x, layer * pitch + y);
                if at.0 < size[0] && at.1 < size[1] {
                    image[at] = shade(picture, look, (x, y), queries.clone(), keys);
                }
            }
        }
    }
    image
}

/// The largest of a row's weights, packed two a word. Weights are not negative, so that their bits compare as they do,
/// NaN above all.
fn largest_weight(words: &[u32], keys: Range<usize>) -> f32 {
    let bits = keys.filter_map(|key| Some(words.get(key / 2)? >> (16 * (key % 2)) & 0xffff));
    let bits = bits.max().unwrap_or_default() as u16;
    match half::f16::from_bits(bits).to_f32() {
        weight if weight.is_finite() => weight,
        _ => f32::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pixel_takes_the_cell_under_its_centre_or_all_it_covers() {
        assert_eq!(cells_under(0, 0.0, 0.25), 0..1);
        assert_eq!(cells_under(3, 0.0, 0.25), 0..1);
        assert_eq!(cells_under(4, 0.0, 0.25), 1..2);
        assert_eq!(cells_under(0, 2.5, 0.25), 2..3);
        assert_eq!(cells_under(0, 0.0, 2.0), 0..2);
        assert_eq!(cells_under(5, 0.0, 2.0), 10..12);
        assert_eq!(cells_under(1, 0.0, 2.5), 2..5);
    }
}
