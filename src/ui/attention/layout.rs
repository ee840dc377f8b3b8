//! Where things lie in the attention panel, as plain geometry: the square and what is beside it, cells and pixels
//! under zoom.

use std::ops::Range;

use egui::{Pos2, Rect, Vec2, pos2, vec2};

/// Gap between the square and the column beside it, in points.
const GAP: f32 = 16.0;

/// Room below the cells that key labels need, in points at 100 % type.
pub const KEY_LABELS: f32 = 44.0;

/// Least width and height that arcs have beside or below a square; with less room they take its place.
const ARCS: Vec2 = vec2(300.0, 230.0);

/// Least width of a square, with its labels, that has arcs beside it.
const BESIDE_ARCS: f32 = 440.0;

/// The panel's parts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// The square of cells with its labels, unless the arcs are in its place.
    pub chart: Option<Rect>,
    /// The text with its arcs.
    pub arcs: Option<Rect>,
    /// Legend and controls; above them the wall, unless it has a place of its own.
    pub side: Rect,
    /// In narrow panels the side part lies above the chart, and the wall below it where there is room.
    pub stacked: Option<Rect>,
}

/// Divides the panel's content; `arcs` where they are wanted.
pub fn parts(area: Rect, arcs: bool, scale: f32) -> Parts {
    if area.width() < 330.0 * scale {
        let top = area.top() + (60.0 * scale).min(0.4 * area.height()).max(0.0) + 6.0;
        let square = area.width() - gutter(area.width(), scale) + KEY_LABELS * scale;
        let middle = (top + square + GAP).min(area.bottom()).max(top);
        let chart = Rect::from_min_max(pos2(area.left(), top), pos2(area.right(), middle));
        let side = Rect::from_min_max(area.min, pos2(area.right(), top - 6.0));
        let below = Rect::from_min_max(pos2(area.left(), middle), area.max);
        let both = arcs && below.height() >= ARCS.y * scale;
        return Parts {
            chart: (both || !arcs).then_some(chart),
            arcs: arcs.then_some(if both { below } else { chart }),
            side,
            stacked: (!both).then_some(below),
        };
    }
    let least = (0.28 * area.width()).max(150.0 * scale);
    let square = gutter(area.width(), scale) + area.height();
    let text = (0.3 * area.width()).max(ARCS.x * scale);
    let beside = (area.width() - least - text - 2.0 * GAP).min(square);
    if arcs && beside >= square.min(BESIDE_ARCS * scale) {
        // Side by side: the square needs no more than its height, the rest is the text's.
        let text = area.left() + beside + GAP;
        let side = area.right() - least;
        let column = |from: f32, to: f32| Rect::from_x_y_ranges(from..=to, area.y_range());
        return Parts {
            chart: Some(column(area.left(), text - GAP)),
            arcs: Some(column(text, side - GAP)),
            side: column(side, area.right()),
            stacked: None,
        };
    }
    if arcs && area.height() >= 2.0 * ARCS.y * scale {
        let at = area.bottom() - (0.4 * area.height()).max(ARCS.y * scale);
        let (above, below) = area.split_top_bottom_at_y(at);
        return Parts {
            arcs: Some(below),
            ..parts(above.with_max_y(at - 6.0), false, scale)
        };
    }
    // The chart needs no more than its height; the rest is the wall's, up to a half.
    let wanted = area.width() - square - GAP;
    let width = if arcs {
        least
    } else {
        wanted.min(0.5 * area.width()).max(least)
    };
    let at = area.right() - width;
    let chart = Rect::from_min_max(area.min, pos2(at - GAP, area.bottom()));
    Parts {
        chart: (!arcs).then_some(chart),
        arcs: arcs.then_some(chart),
        side: Rect::from_min_max(pos2(at, area.top()), area.max),
        stacked: None,
    }
}

/// Width of the row labels.
fn gutter(width: f32, scale: f32) -> f32 {
    if width < 180.0 * scale {
        0.0
    } else {
        66.0 * scale
    }
}

/// The square of cells on the pixel grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Square {
    /// In points, on whole pixels.
    pub rect: Rect,
    /// Left end of the row labels, in points.
    pub labels_from: f32,
    pub side_px: u32,
    /// Pixels along a cell when nothing is zoomed.
    base_px: f32,
    /// Cells along the side.
    side: usize,
    pixels_per_point: f32,
}

impl Square {
    /// The largest square of `side` cells in the chart's area, a whole number of pixels a cell if there is one;
    /// `None` where there is no room.
    pub fn new(chart: Rect, side: usize, pixels_per_point: f32, scale: f32) -> Option<Self> {
        let gutter = gutter(chart.width(), scale);
        let available = (chart.width() - gutter).min(chart.height());
        let mut side_px = (available * pixels_per_point).floor();
        if side_px.is_nan() || side_px < 16.0 || side == 0 {
            return None;
        }
        // Beyond this a device may have no texture for it.
        side_px = side_px.min(8192.0);
        if side_px >= side as f32 {
            side_px -= side_px % side as f32;
        }
        let snap = |v: f32| (v * pixels_per_point).round() / pixels_per_point;
        let min = pos2(snap(chart.left() + gutter), snap(chart.top()));
        Some(Self {
            rect: Rect::from_min_size(min, Vec2::splat(side_px / pixels_per_point)),
            labels_from: chart.left(),
            side_px: side_px as u32,
            base_px: side_px / side as f32,
            side,
            pixels_per_point,
        })
    }

    pub fn origin_px(&self) -> [f32; 2] {
        [self.rect.left(), self.rect.top()].map(|v| (v * self.pixels_per_point).round())
    }

    pub fn cell_px(&self, zoom: Zoom) -> f32 {
        self.base_px * zoom.factor
    }

    pub fn cell_points(&self, zoom: Zoom) -> f32 {
        self.cell_px(zoom) / self.pixels_per_point
    }

    /// Cells along either axis that one pixel covers.
    pub fn cells_a_pixel(&self, zoom: Zoom) -> usize {
        (1.0 / self.cell_px(zoom)).ceil().max(1.0) as usize
    }

    /// Where a block of cells lies, `[keys, queries]` in cells.
    pub fn cells(&self, zoom: Zoom, keys: Range<usize>, queries: Range<usize>) -> Rect {
        let cell = self.cell_points(zoom);
        let at = |key: usize, query: usize| {
            self.rect.min + (vec2(key as f32, query as f32) - zoom.first) * cell
        };
        Rect::from_min_max(at(keys.start, queries.start), at(keys.end, queries.end))
    }

    /// The keys and queries under a point: one each, or all that its pixel covers.
    pub fn cells_at(&self, zoom: Zoom, at: Pos2) -> Option<(Range<usize>, Range<usize>)> {
        if !self.rect.contains(at) {
            return None;
        }
        let cells_a_px = 1.0 / self.cell_px(zoom);
        let axis = |offset: f32, first: f32| {
            let px = (offset * self.pixels_per_point).floor().max(0.0);
            if cells_a_px <= 1.0 {
                let cell = (first + (px + 0.5) * cells_a_px).max(0.0) as usize;
                return cell..cell + 1;
            }
            let start = (first + px * cells_a_px).max(0.0) as usize;
            let end = (first + (px + 1.0) * cells_a_px).ceil().max(0.0) as usize;
            start..end.max(start + 1)
        };
        let offset = at - self.rect.min;
        Some((axis(offset.x, zoom.first.x), axis(offset.y, zoom.first.y)))
    }

    /// The cells in view along the vertical axis.
    pub fn queries_in_view(&self, zoom: Zoom, rows: usize) -> Range<usize> {
        let count = self.side as f32 / zoom.factor;
        let end = (zoom.first.y + count).ceil().max(0.0) as usize;
        (zoom.first.y.max(0.0) as usize).min(rows)..end.min(rows)
    }
}

/// Which part of the square is in view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zoom {
    /// 1 shows all cells.
    pub factor: f32,
    /// The cell `[key, query]` at the top left corner.
    pub first: Vec2,
}

impl Default for Zoom {
    fn default() -> Self {
        Self {
            factor: 1.0,
            first: Vec2::ZERO,
        }
    }
}

impl Zoom {
    /// Cuts to what the square has: at least four cells in view, none outside.
    pub fn clamped(self, side: usize) -> Self {
        let factor = if self.factor.is_finite() {
            self.factor.clamp(1.0, (side as f32 / 4.0).max(1.0))
        } else {
            1.0
        };
        let room = side as f32 * (1.0 - 1.0 / factor);
        let cut = |v: f32| {
            if v.is_finite() {
                v.clamp(0.0, room)
            } else {
                0.0
            }
        };
        Self {
            factor,
            first: vec2(cut(self.first.x), cut(self.first.y)),
        }
    }

    /// Zooms so that what is at `at` stays there.
    pub fn about(self, square: &Square, at: Pos2, by: f32) -> Self {
        let offset = at - square.rect.min;
        let before = offset / square.cell_points(self);
        let zoomed = Self {
            factor: self.factor * by,
            ..self
        }
        .clamped(square.side);
        let after = offset / square.cell_points(zoomed);
        Self {
            factor: zoomed.factor,
            first: self.first + before - after,
        }
        .clamped(square.side)
    }

    /// Moves what is in view by a distance in points.
    pub fn dragged(self, square: &Square, by: Vec2) -> Self {
        Self {
            first: self.first - by / square.cell_points(self),
            ..self
        }
        .clamped(square.side)
    }
}

/// Every how many rows one has a label, for labels that need `height` points.
pub fn label_stride(cell_points: f32, height: f32) -> usize {
    let fit = (height / cell_points.max(1e-3)).ceil() as usize;
    // 1, 2, 5, 10, 20, 50 … so that labels keep their rows while the text grows.
    let mut stride = 1;
    for factor in [2, 5, 10].into_iter().cycle() {
        if stride >= fit || stride >= 10_000 {
            return stride;
        }
        stride = match factor {
            2 => stride * 2,
            5 => stride / 2 * 5,
            _ => stride * 2,
        };
    }
    stride
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(side: usize) -> Square {
        let chart = Rect::from_min_size(pos2(10.0, 20.0), vec2(400.0, 320.0));
        Square::new(chart, side, 1.0, 1.0).unwrap()
    }

    #[test]
    fn cells_are_whole_pixels_where_there_are_enough() {
        for (side, px) in [
            (8, 320),
            (16, 320),
            (64, 320),
            (128, 256),
            (256, 256),
            (512, 320),
            (1024, 320),
        ] {
            assert_eq!(square(side).side_px, px, "{side} cells");
        }
        assert_eq!(square(16).cell_px(Zoom::default()), 20.0);
    }

    #[test]
    fn no_room_is_no_square() {
        for (width, height) in [(0.0, 0.0), (5.0, 300.0), (300.0, -4.0), (f32::NAN, 10.0)] {
            let chart = Rect::from_min_size(Pos2::ZERO, vec2(width, height));
            assert_eq!(Square::new(chart, 8, 1.5, 2.5), None);
        }
        for width in 0..50 {
            let area = Rect::from_min_size(Pos2::ZERO, vec2(10.0 * width as f32, 3.0));
            for arcs in [false, true] {
                parts(area, arcs, 2.5);
            }
        }
    }

    #[test]
    fn arcs_are_beside_the_square_below_it_or_in_its_place() {
        let of = |width, height, arcs| {
            parts(
                Rect::from_min_size(Pos2::ZERO, vec2(width, height)),
                arcs,
                1.0,
            )
        };
        // As docked in the first layout; there is no room for both.
        let docked = of(509.0, 265.0, true);
        assert_eq!(docked.chart, None);
        assert!(docked.arcs.unwrap().width() > 300.0 && docked.arcs.unwrap().height() == 265.0);
        for (width, height) in [
            (1400.0, 700.0),
            (600.0, 700.0),
            (320.0, 900.0),
            (1100.0, 300.0),
        ] {
            let both = of(width, height, true);
            let (square, text) = (both.chart.unwrap(), both.arcs.unwrap());
            let all = [square, text, both.side];
            for (index, part) in all.iter().enumerate() {
                assert!(part.is_positive(), "{width} × {height}: {both:?}");
                for other in &all[index + 1..] {
                    assert!(!part.intersect(*other).is_positive(), "{width}: {both:?}");
                }
            }
        }
        assert_eq!(of(509.0, 265.0, false).arcs, None);
    }

    #[test]
    fn a_point_finds_the_cell_drawn_there() {
        let square = square(16);
        let zoom = Zoom::default();
        let rect = square.cells(zoom, 3..4, 11..12);
        assert_eq!(square.cells_at(zoom, rect.center()), Some((3..4, 11..12)));
        let zoom = zoom.about(&square, rect.center(), 3.0);
        assert_eq!(square.cells_at(zoom, rect.center()), Some((3..4, 11..12)));
        assert_eq!(square.cells_at(zoom, pos2(0.0, 0.0)), None);
        // Several cells a pixel.
        let square = self::square(1024);
        let (keys, queries) = square.cells_at(Zoom::default(), square.rect.min).unwrap();
        assert_eq!((keys, queries), (0..4, 0..4));
    }

    #[test]
    fn zoom_stays_inside_and_keeps_the_point_under_the_pointer() {
        let square = square(64);
        let at = square.rect.min + vec2(100.0, 250.0);
        let zoom = Zoom::default().about(&square, at, 4.0);
        let cell = |zoom: Zoom| zoom.first + (at - square.rect.min) / square.cell_points(zoom);
        assert!((cell(zoom) - cell(Zoom::default())).length() < 1e-3);
        assert_eq!(zoom.about(&square, at, 1e-9), Zoom::default());
        let far = zoom.dragged(&square, vec2(-1e6, 1e6));
        assert_eq!((far.first.x, far.first.y), (48.0, 0.0));
        assert_eq!(zoom.about(&square, at, 1e9).factor, 16.0);
        let broken = Zoom {
            factor: f32::NAN,
            first: vec2(f32::NAN, f32::INFINITY),
        };
        assert_eq!(broken.clamped(64), Zoom::default());
    }

    #[test]
    fn labels_thin_out_in_round_steps() {
        for (cell, stride) in [
            (20.0, 1),
            (12.0, 1),
            (11.0, 2),
            (5.0, 5),
            (2.0, 10),
            (0.5, 50),
            (0.3, 50),
            (0.2, 100),
        ] {
            assert_eq!(label_stride(cell, 12.0), stride, "{cell}");
        }
    }
}
