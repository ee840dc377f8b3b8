//! Columns, axes and blocks of the Timeline: pure functions of the text's record and the panel's size.

use egui::{Rect, pos2, vec2};

use crate::{
    prediction::Phase,
    session::{PassBlock, Session},
    ui::chart::{self, typical_max},
};

/// Widths that a column may have, in points at 100 % type: as tokens come, columns narrow in these steps only.
const COLUMN_WIDTHS: [f32; 10] = [27.0, 22.0, 18.0, 14.0, 11.0, 9.0, 7.0, 6.0, 5.0, 4.0];

/// No bar is narrower: beyond that the chart scrolls.
const LEAST_COLUMN_POINTS: f32 = 4.0;

/// Width of a column so that `columns` of them fit into `room`, and whether they do.
pub(super) fn column_width(room: f32, columns: usize, scale: f32) -> (f32, bool) {
    let fits = COLUMN_WIDTHS
        .iter()
        .map(|width| (width * scale).round())
        .find(|width| width * columns as f32 <= room);
    match fits {
        Some(width) => (width, true),
        None => (
            (COLUMN_WIDTHS[COLUMN_WIDTHS.len() - 1] * scale)
                .round()
                .max(LEAST_COLUMN_POINTS),
            false,
        ),
    }
}

/// The column under a point, counted from the first.
pub(super) fn column_at(x: f32, left: f32, width: f32, columns: usize) -> usize {
    (((x - left) / width).max(0.0) as usize).min(columns.saturating_sub(1))
}

/// The two charts, one above the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bands {
    pub nats: Rect,
    /// Left out where the panel is too low for both.
    pub ms: Option<Rect>,
}

impl Bands {
    pub fn fit(area: Rect, line: f32) -> Self {
        // Room above each band for the number at the top of its axis.
        let head = 0.5 * line;
        let gap = 0.7 * line;
        let room = area.height() - head - gap;
        if room < 3.5 * line {
            return Self {
                nats: Rect::from_min_max(
                    pos2(area.left(), (area.top() + head).min(area.bottom())),
                    area.max,
                ),
                ms: None,
            };
        }
        let upper = (0.62 * room).round();
        let nats = Rect::from_min_size(
            pos2(area.left(), area.top() + head),
            vec2(area.width(), upper),
        );
        Self {
            nats,
            ms: Some(Rect::from_min_max(
                pos2(area.left(), nats.bottom() + gap),
                area.max,
            )),
        }
    }
}

/// Upper ends of the axes, in steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axes {
    pub nats: f64,
    pub ms: f64,
}

impl Axes {
    pub fn of(session: &Session) -> Self {
        let (mut nats, mut prefill_ms) = (0f64, 0f64);
        let mut decode_ms = Vec::with_capacity(session.len());
        for node in session.path_nodes() {
            let surprisal = node.score.map(|score| score.surprisal_nats());
            for value in [surprisal, node.entropy_nats]
                .into_iter()
                .flatten()
                .filter(|value| value.is_finite())
            {
                nats = nats.max(value);
            }
            if let Some(timing) = node
                .prediction
                .as_ref()
                .map(|prediction| &prediction.timing)
            {
                let total = timing.model_ms + timing.record_ms;
                match timing.phase {
                    Phase::Decode => decode_ms.push(total),
                    Phase::Prefill => prefill_ms = prefill_ms.max(total),
                    Phase::Typed => {}
                }
            }
        }
        // A long prefill would flatten every decode step; it is a block with its number written on it instead.
        let ms = typical_max(&mut decode_ms).unwrap_or(prefill_ms);
        Self {
            nats: chart::nice_ceil(nats),
            ms: chart::nice_ceil(ms),
        }
    }
}

/// The passes that took the prompt, or more than one token at once.
pub(super) fn prefill_blocks(session: &Session) -> impl Iterator<Item = PassBlock<'_>> {
    let passes = session.passes().into_iter();
    passes.filter(|pass| pass.timing.phase == Phase::Prefill)
}

#[cfg(test)]
mod tests {
    use super::*;

    use egui::Pos2;

    #[test]
    fn columns_narrow_in_steps_and_then_scroll() {
        assert_eq!(column_width(1300.0, 14, 1.0), (27.0, true));
        assert_eq!(column_width(1300.0, 100, 1.0), (11.0, true));
        assert_eq!(column_width(1300.0, 1025, 1.0), (4.0, false));
        let (width, fits) = column_width(1300.0, 300, 2.5);
        assert!(!fits && width >= 10.0);
        let mut last = f32::INFINITY;
        for columns in 1..1100 {
            let (width, fits) = column_width(1300.0, columns, 1.0);
            assert!(width <= last && width >= LEAST_COLUMN_POINTS);
            assert!(!fits || width * columns as f32 <= 1300.0);
            last = width;
        }
    }

    #[test]
    fn the_pointer_always_finds_a_column() {
        assert_eq!(column_at(-50.0, 10.0, 24.0, 14), 0);
        assert_eq!(column_at(10.0, 10.0, 24.0, 14), 0);
        assert_eq!(column_at(35.0, 10.0, 24.0, 14), 1);
        assert_eq!(column_at(1e6, 10.0, 24.0, 14), 13);
        assert_eq!(column_at(f32::NAN, 10.0, 24.0, 14), 0);
        assert_eq!(column_at(5.0, 0.0, 24.0, 0), 0);
    }

    #[test]
    fn a_low_panel_shows_one_chart_and_bands_stay_inside() {
        for height in 16..400 {
            let area = Rect::from_min_size(pos2(3.0, 9.0), vec2(500.0, height as f32));
            let bands = Bands::fit(area, 15.0);
            assert!(
                area.expand(0.5).contains_rect(bands.nats),
                "{height} {bands:?}"
            );
            if let Some(ms) = bands.ms {
                assert!(
                    area.contains_rect(ms) && ms.top() > bands.nats.bottom() && ms.height() > 15.0,
                    "{height} {bands:?}"
                );
            }
        }
        assert!(
            Bands::fit(Rect::from_min_size(Pos2::ZERO, vec2(500.0, 40.0)), 15.0)
                .ms
                .is_none()
        );
        assert!(
            Bands::fit(Rect::from_min_size(Pos2::ZERO, vec2(500.0, 87.0)), 15.0)
                .ms
                .is_some()
        );
    }
}
