//! Where the parts of the Next token panel are: pure functions of its size and type.

use egui::{Rect, pos2, vec2};

use crate::ui::chart;

/// Where the parts of the panel are. What does not fit is left out from the bottom up, never squeezed.
#[derive(Debug, PartialEq)]
pub(super) struct Regions {
    pub header: Rect,
    pub rows: Rect,
    /// The slot for a chosen token that is not among the rows.
    pub extra: Option<Rect>,
    pub strip: Option<Rect>,
    pub filters: Option<Rect>,
    pub hint: Option<Rect>,
    pub row_height: f32,
}

impl Regions {
    /// `line` is the height of a line of small type, `slots` how many rows there are to show.
    pub fn fit(area: Rect, line: f32, row_height: f32, slots: usize) -> Self {
        let gap = (0.35 * line).round();
        let header_height = line + gap;
        let strip_height = line + (0.6 * line).round();
        // A panel too low for a few rows shows rows and nothing else.
        let mut room = area.height() - header_height;
        let least = 3.0 * row_height;
        let mut take = |height: f32| {
            let fits = room - height >= least;
            if fits {
                room -= height;
            }
            fits
        };
        let has_extra = take(row_height + gap);
        let has_strip = take(strip_height + gap);
        let has_filters = take(line + 1.0);
        let has_hint = take(line + 1.0);
        let row_height = chart::fitting_row_height(
            row_height,
            room + if has_extra { row_height } else { 0.0 },
            slots + usize::from(has_extra),
        );
        let mut top = area.top();
        let mut next = |height: f32| {
            let rect =
                Rect::from_min_size(pos2(area.left(), top), vec2(area.width(), height.max(0.0)));
            top += height;
            rect
        };
        let header = next(header_height);
        let below = |shown: bool, height: f32| if shown { height } else { 0.0 };
        let fixed = below(has_extra, row_height + gap)
            + below(has_strip, strip_height + gap)
            + below(has_filters, line + 1.0)
            + below(has_hint, line + 1.0);
        let room = (area.height() - header_height - fixed).max(0.0);
        let whole = ((room + 0.5) / row_height).floor().min(slots as f32);
        // Whole rows only, unless there is not even one.
        let rows_height = if whole >= 1.0 {
            whole * row_height
        } else {
            room
        };
        let rows = next(rows_height);
        let extra = has_extra.then(|| {
            next(gap);
            next(row_height)
        });
        let strip = has_strip.then(|| {
            next(gap);
            next(strip_height)
        });
        // The two notes stand at the bottom of the panel, like the sketch's.
        let bottom = |lines: f32| {
            Rect::from_min_size(
                pos2(area.left(), area.bottom() - lines * (line + 1.0)),
                vec2(area.width(), line),
            )
        };
        let filters = has_filters.then(|| bottom(if has_hint { 2.0 } else { 1.0 }));
        let hint = has_hint.then(|| bottom(1.0));
        Self {
            header,
            rows,
            extra,
            strip,
            filters,
            hint,
            row_height,
        }
    }

    pub fn whole_rows(&self) -> usize {
        ((self.rows.height() + 0.5) / self.row_height).max(0.0) as usize
    }
}

/// Widths that the columns are made from, in points.
#[derive(Clone, Copy)]
pub(super) struct Widths {
    pub digit: f32,
    /// Headings in small type.
    pub model_p: f32,
    pub drawn_from: f32,
    pub gap: f32,
}

/// Where the columns are: right ends of the numbers, both ends of the bars. Depends on the type and the panel's
/// width alone, so that nothing moves while numbers change.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Columns {
    pub label_chars: usize,
    pub label: f32,
    pub bar: std::ops::Range<f32>,
    pub prob: f32,
    pub drawn: Option<f32>,
    pub logit: Option<f32>,
    pub rank: Option<f32>,
    pub mark: f32,
}

impl Columns {
    pub fn fit(left: f32, width: f32, widths: Widths, wants_rank: bool) -> Self {
        let Widths { digit, gap, .. } = widths;
        let prob = widths.model_p.max(7.0 * digit);
        let drawn = widths.drawn_from.max(7.0 * digit);
        let (logit, rank, mark) = (7.0 * digit, 6.0 * digit, 2.2 * digit);
        let least_bar = 5.0 * digit;
        let label_chars = |spare: f32| (10 + (0.25 * spare / digit).max(0.0) as usize).min(20);
        let mut spare = width - (10.0 * digit + 2.0 * gap + prob + mark) - least_bar;
        let mut take = |column: f32, beyond: f32| {
            let fits = spare - column - gap >= beyond;
            if fits {
                spare -= column + gap;
            }
            fits
        };
        let has_drawn = take(drawn, 0.0);
        // Where there is no room for both, a rank that was asked for matters more than the logit.
        let has_rank_first = wants_rank && take(rank, 0.0);
        let has_logit = take(logit, 0.0);
        let has_rank = has_rank_first || take(rank, 12.0 * digit);
        let label_chars = if spare < 0.0 { 6 } else { label_chars(spare) };
        let label = left + label_chars as f32 * digit;
        let mut right = left + width - mark;
        let mut from_right = |shown: bool, column: f32| {
            let at = right;
            if shown {
                right -= column + gap;
            }
            shown.then_some(at)
        };
        let rank = from_right(has_rank, rank);
        let logit = from_right(has_logit, logit);
        let drawn = from_right(has_drawn, drawn);
        let at = right;
        let bar = label + gap..(at - prob - gap).max(label + gap);
        Self {
            label_chars,
            label,
            bar,
            prob: at,
            drawn,
            logit,
            rank,
            mark: left + width - 0.35 * mark,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTHS: Widths = Widths {
        digit: 7.8,
        model_p: 46.0,
        drawn_from: 64.0,
        gap: 9.0,
    };

    #[test]
    fn columns_never_overlap_and_leave_room_for_a_bar() {
        for scale in [1.0, 1.5, 2.5] {
            let widths = Widths {
                digit: 7.8 * scale,
                model_p: 46.0 * scale,
                drawn_from: 64.0 * scale,
                gap: 9.0 * scale,
            };
            for width in (60..1600).step_by(7) {
                for wants_rank in [false, true] {
                    let columns = Columns::fit(10.0, width as f32, widths, wants_rank);
                    let ends: Vec<_> = [
                        Some(columns.label),
                        Some(columns.bar.start),
                        Some(columns.bar.end),
                        Some(columns.prob),
                        columns.drawn,
                        columns.logit,
                        columns.rank,
                    ]
                    .into_iter()
                    .flatten()
                    .collect();
                    if columns.drawn.is_some() {
                        assert!(ends.is_sorted(), "{width} {columns:?}");
                        assert!(
                            columns.bar.end - columns.bar.start >= 4.0 * widths.digit,
                            "{width} {columns:?}"
                        );
                    }
                    assert!(columns.bar.end >= columns.bar.start);
                }
            }
        }
    }

    #[test]
    fn the_sketched_width_shows_both_probabilities_and_the_logit() {
        let columns = Columns::fit(0.0, 396.0, WIDTHS, false);
        assert!(
            columns.drawn.is_some() && columns.logit.is_some(),
            "{columns:?}"
        );
        assert!(columns.bar.end - columns.bar.start > 70.0, "{columns:?}");
        assert!(Columns::fit(0.0, 396.0, WIDTHS, true).rank.is_some());
        assert!(Columns::fit(0.0, 700.0, WIDTHS, false).rank.is_some());
    }

    #[test]
    fn regions_stay_inside_and_drop_notes_before_rows() {
        for height in (0..1200).step_by(13) {
            let area = Rect::from_min_size(pos2(5.0, 7.0), vec2(400.0, height as f32));
            let regions = Regions::fit(area, 15.0, 24.0, 20);
            for rect in [regions.extra, regions.strip, regions.filters, regions.hint]
                .into_iter()
                .flatten()
            {
                assert!(area.expand(0.5).contains_rect(rect), "{height} {regions:?}");
                assert!(
                    rect.top() >= regions.rows.bottom() - 0.5,
                    "{height} {regions:?}"
                );
            }
            assert!(regions.whole_rows() <= 20);
        }
        let tall = Regions::fit(
            Rect::from_min_size(pos2(0.0, 0.0), vec2(400.0, 549.0)),
            15.0,
            24.0,
            20,
        );
        assert_eq!(
            tall.whole_rows(),
            20,
            "the default window shows all twenty: {tall:?}"
        );
        assert!(tall.hint.is_some() && tall.filters.is_some() && tall.extra.is_some());
        let low = Regions::fit(
            Rect::from_min_size(pos2(0.0, 0.0), vec2(400.0, 120.0)),
            15.0,
            24.0,
            20,
        );
        assert!(low.hint.is_none() && low.whole_rows() >= 3, "{low:?}");
    }
}
