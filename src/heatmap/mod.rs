//! The attention heatmap: what is to be drawn, and the two ways of drawing it.
//!
//! - [`store`]: recorded rows on the window's own wgpu device; only new rows are uploaded.
//! - [`gpu`]: one fragment shader, `shaders/heatmap.wgsl`, that draws one head or the wall of all heads.
//! - [`wall`]: the wall's texture, of which only what has changed is drawn.
//! - [`cpu`]: the same picture of one head, pixel by pixel on the CPU, for devices without storage buffers.
//! - [`means`]: means over heads, worked out row by row from the record.
//! - [`rollout`]: attention rollout, worked out row by row from the record.
//! - [`rows`]: what is worked out once for each row and kept while the row stays the same.
//! - [`color`]: the colour maps that both share.
//!
//! All of it runs on the window's thread. It knows rows of numbers and pixels; tokens, labels and the pointer
//! belong to [`crate::ui::attention`].
//!
//! # Layout of the record
//!
//! Query row `r` (0-based) has `r + 1` keys, two f16 a word, so [`words_per_row`]`(r + 1)` words for each layer and
//! head. Rows lie one after another, and in each row layer by layer, head by head: what a decode step adds is one
//! contiguous write. With `heads` heads in all, the word that holds weight `[head, r, key]` is number
//! `heads * words_before(r) + head * words_per_row(r + 1) + key / 2` of one long array, which is cut into pages of
//! a power of two of words, at most 64 MiB.

pub mod color;
pub mod cpu;
pub mod gpu;
pub mod means;
pub mod rollout;
pub mod rows;
pub mod store;
pub mod wall;

use egui::Color32;

pub use color::cividis;
pub use cpu::{Cell, Triangle, paint_cpu, paint_wall_cpu, read_cell, score_bound};
pub use gpu::{Heatmap, HeatmapCallback, PictureSlot};
pub use means::{Means, mean_weights};
pub use rollout::Rollout;
pub use rows::{RowCache, largest_score, largest_weight_after_first};
pub use store::{RowStore, Synced};
pub use wall::WallTexture;

use crate::prediction::words_per_row;

/// How many layers and heads there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub n_layer: usize,
    pub n_head: usize,
}

impl Shape {
    pub fn heads(self) -> usize {
        self.n_layer * self.n_head
    }
}

/// Words that the rows before `row` take for one head: the sum of [`words_per_row`]`(1 ..= row)`.
///
/// Keep in sync with `words_before` in `shaders/heatmap.wgsl`.
pub const fn words_before(row: usize) -> usize {
    (row + 1) * (row + 1) / 4
}

/// Number of the word that holds one weight; `head` counts through all layers.
///
/// Keep in sync with `word_of` in `shaders/heatmap.wgsl`.
pub const fn word_index(heads: usize, head: usize, row: usize, key: usize) -> usize {
    heads * words_before(row) + head * words_per_row(row + 1) + key / 2
}

/// Cells along one side of the square: a power of two or one and a half of it, so that cells stay where they are
/// while a text grows, and at least two thirds of the square are used.
pub fn side_for(rows: usize) -> usize {
    let power = rows.next_power_of_two().max(8);
    let between = power / 4 * 3;
    if between >= rows.max(8) {
        between
    } else {
        power
    }
}

/// Which heads one picture shows: one, or the mean over several that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Counted through all layers: `layer * n_head + head`.
    pub first: usize,
    /// 1 for a single head.
    pub count: usize,
    /// From one of them to the next: 1 within a layer, `n_head` from layer to layer.
    pub step: usize,
}

impl Heads {
    pub fn one(shape: Shape, layer: usize, head: usize) -> Self {
        Self {
            first: layer * shape.n_head + head,
            count: 1,
            step: 1,
        }
    }

    /// The mean over all heads of a layer.
    pub fn layer(shape: Shape, layer: usize) -> Self {
        Self {
            first: layer * shape.n_head,
            count: shape.n_head.max(1),
            step: 1,
        }
    }

    /// The mean over all layers, for the head of one number in each.
    pub fn across_layers(shape: Shape, head: usize) -> Self {
        Self {
            first: head,
            count: shape.n_layer.max(1),
            step: shape.n_head.max(1),
        }
    }

    /// The mean over all heads of all layers.
    pub fn all(shape: Shape) -> Self {
        Self {
            first: 0,
            count: shape.heads().max(1),
            step: 1,
        }
    }

    /// Their numbers, counted through all layers.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |i| self.first + i * self.step)
    }

    /// The last one's number.
    pub fn last(self) -> usize {
        self.first + self.count.saturating_sub(1) * self.step
    }
}

/// What a cell's colour stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Quantity {
    /// After softmax, 0..=1.
    #[default]
    Weights,
    /// Scaled dot products before softmax: ln weight + log-sum-exp.
    Scores,
    /// Only which keys a query may see.
    Mask,
}

/// Where the cells lie in a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrangement {
    /// One square of cells.
    One {
        heads: Heads,
        /// The cell `[key, query]` at the picture's top left corner; whole and zero unless zoomed.
        first_cell: [f32; 2],
        /// Pixels along the side of a cell; below one, a pixel shows the largest of the cells it covers.
        cell_px: f32,
    },
    /// All heads as thumbnails, a row for each layer.
    Wall {
        /// Pixels from one thumbnail to the next.
        pitch_px: u32,
        /// Pixels along the side of a thumbnail.
        thumb_px: u32,
    },
}

/// The colours that are not part of a colour map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Palette {
    /// Where there is no row.
    pub ground: Color32,
    /// Ground and lines of masked cells.
    pub masked: Color32,
    pub hatch: Color32,
    /// Cells that hold no number.
    pub not_a_number: Color32,
    /// Cells whose number is not there: let go for memory, not uploaded yet, or a score whose weight underflowed.
    pub absent: Color32,
    /// Unmasked cells when only the mask is shown.
    pub allowed: Color32,
}

/// One heatmap, all that a pixel's colour depends on besides the recorded rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Picture {
    pub shape: Shape,
    pub arrangement: Arrangement,
    pub quantity: Quantity,
    /// Logarithmic colour scale of the weights.
    pub logarithmic: bool,
    /// The weight at the upper end of its colour scale, 1 unless the first token is left out of it. Larger weights
    /// have the colour of the end.
    pub scale_max: f32,
    /// The score at either end of the diverging map.
    pub extent: f32,
    /// Query rows shown, and keys.
    pub rows: usize,
    /// Cells along the side of the square, [`side_for`].
    pub side: usize,
    /// Width and height in pixels.
    pub size_px: [u32; 2],
    /// Distance between the hatching's lines in pixels, along either axis, and their width.
    pub hatch_px: [u32; 2],
    pub palette: Palette,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closed_form_of_the_layout_is_the_sum() {
        let mut sum = 0;
        for row in 0..2000 {
            assert_eq!(words_before(row), sum, "row {row}");
            sum += words_per_row(row + 1);
        }
        // GPT-2 small at a full context: 144 MiB and a little for the padding of odd rows.
        assert_eq!(144 * words_before(1024) * 4, 151_289_856);
    }

    #[test]
    fn words_of_a_row_are_contiguous_over_layers_and_heads() {
        for (heads, row) in [(1, 0), (48, 5), (144, 511), (1200, 6)] {
            let first = word_index(heads, 0, row, 0);
            let mut next = first;
            for head in 0..heads {
                for key in (0..=row).step_by(2) {
                    assert_eq!(word_index(heads, head, row, key), next);
                    next += 1;
                }
            }
            assert_eq!(word_index(heads, 0, row + 1, 0), next);
        }
    }

    #[test]
    fn the_side_grows_in_steps_and_holds_the_rows() {
        for (rows, side) in [
            (0, 8),
            (1, 8),
            (8, 8),
            (9, 12),
            (12, 12),
            (13, 16),
            (64, 64),
            (65, 96),
            (97, 128),
            (1024, 1024),
        ] {
            assert_eq!(side_for(rows), side);
        }
    }
}
