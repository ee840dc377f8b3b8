//! The chart of the Cost panel: ms a step above, tokens through the model below, tokens in the sequence along.

use egui::{Id, Painter, Pos2, Rangef, Rect, Shape, Stroke, Ui, pos2, vec2};

use super::words;
use crate::{
    prediction::Phase,
    session::{Cost, CostStep},
    ui::{
        PanelContext, Theme,
        chart::{self, Faces},
    },
};

/// Fewest tokens that the chart has room for.
const LEAST_TOKENS: f64 = 10.0;

/// Up to so many columns every measured length has its circle.
const MARKED_COLUMNS: f64 = 80.0;

/// Which sequence lengths and values lie where.
#[derive(Clone, Copy, Debug)]
struct Scale {
    time: Rect,
    /// Left out where the panel is too low for both.
    work: Option<Rect>,
    /// Upper ends of the axes.
    tokens: f64,
    ms: f64,
}

impl Scale {
    fn fit(area: Rect, line: f32, tokens: usize, ms: f64) -> Self {
        // Room for the number at the top of each axis, and for the one along.
        let (head, gap, foot) = (0.5 * line, 0.9 * line, 1.2 * line);
        let room = area.height() - head - foot;
        let both = room > 7.0 * line;
        let upper = if both {
            (0.68 * (room - gap)).round()
        } else {
            room
        };
        let time = Rect::from_min_size(
            pos2(area.left(), area.top() + head),
            vec2(area.width(), upper.max(1.0)),
        );
        let bottom = area.bottom() - foot;
        Self {
            time,
            work: both.then(|| {
                Rect::from_min_max(
                    pos2(area.left(), time.bottom() + gap),
                    pos2(area.right(), bottom),
                )
            }),
            tokens: chart::nice_ceil((tokens as f64).max(LEAST_TOKENS)),
            ms: chart::nice_ceil(ms),
        }
    }

    /// The column of a sequence of `tokens`.
    fn column(&self, tokens: usize) -> Rangef {
        let width = self.time.width() / self.tokens as f32;
        let right = self.time.left() + tokens as f32 * width;
        Rangef::new(right - width, right)
    }

    /// The sequence length whose column holds `x`.
    fn tokens_at(&self, x: f32) -> usize {
        let share = ((x - self.time.left()) / self.time.width()).max(0.0);
        (f64::from(share) * self.tokens) as usize + 1
    }

    fn ms(&self, ms: f64) -> f32 {
        height(self.time, ms / self.ms)
    }
}

fn height(band: Rect, share: f64) -> f32 {
    band.bottom() - band.height() * share.clamp(0.0, 1.0) as f32
}

/// The upper end that the times ask for, in ms.
fn largest_ms(cost: &Cost) -> f64 {
    let largest = |ms: &dyn Fn(&CostStep) -> Option<f64>| {
        chart::typical_max(&mut cost.generating().iter().filter_map(ms).collect())
    };
    let curves = largest(&|step| step.decode_ms())
        .into_iter()
        .chain(largest(&|step| step.uncached_ms()))
        .reduce(f64::max);
    curves.unwrap_or_else(|| {
        let times = cost.passes.iter().map(|pass| pass.timing.model_ms);
        times.fold(0.0, f64::max)
    })
}

pub(super) fn show(ui: &mut Ui, ctx: &mut PanelContext, cost: &Cost) {
    let faces = Faces::of(ui);
    let gutter = faces.small_width(ui, "1,000 tokens") + 8.0;
    let area = ui.available_rect_before_wrap();
    ui.advance_cursor_after_rect(area);
    if area.width() < gutter + 40.0 || area.height() < 6.0 * faces.line {
        return;
    }
    let right = area.right() - 0.5 * gutter.min(40.0);
    let plot = Rect::from_min_max(
        pos2(area.left() + gutter, area.top() + 1.4 * faces.line),
        pos2(right, area.bottom()),
    );
    let scale = Scale::fit(plot, faces.line, cost.steps.len(), largest_ms(cost));
    let start = ctx.session.context_start();
    let selected = ctx.session.selected().checked_sub(start);
    let step = selected
        .and_then(|tokens| cost.steps.get(tokens.checked_sub(1)?))
        .map_or_else(|| "no step of the context".to_owned(), words::step_name);
    let name = format!(
        "Cost, {} in the sequence, {step}",
        words::tokens(selected.unwrap_or(0))
    );
    let last = cost.steps.len();
    let (response, on) = chart::select_steps(ui, ctx, plot, Id::unique("cost chart"), name, |at| {
        start + scale.tokens_at(at.x).min(last)
    });
    let drawing = Drawing {
        cost,
        scale,
        theme: ctx.theme,
        faces: &faces,
        painter: ui.painter(),
    };
    drawing.axes(area.left() + gutter - 6.0);
    if let Some(tokens) = selected.filter(|&tokens| (1..=last).contains(&tokens)) {
        drawing.playhead(tokens);
    }
    drawing.prefill();
    drawing.times();
    drawing.work();
    drawing.legend(Rect::from_x_y_ranges(plot.x_range(), area.y_range()));
    if let Some(step) = on.and_then(|index| cost.steps.get((index - start).checked_sub(1)?)) {
        response.on_hover_ui_at_pointer(|ui| {
            ui.style_mut().wrap_mode = Some(egui::TextWrapMode::Extend);
            ui.label(format!("{} in the sequence", words::tokens(step.tokens)));
            for part in words::step_name(step).split(", ") {
                ui.label(part);
            }
        });
    }
}

struct Drawing<'a> {
    cost: &'a Cost<'a>,
    scale: Scale,
    theme: &'a Theme,
    faces: &'a Faces,
    painter: &'a Painter,
}

impl Drawing<'_> {
    /// What has the KV cache is in ink; what has not is dim and hollow: shape tells them apart too.
    fn with_cache(&self) -> Stroke {
        Stroke::new(2.0, self.theme.ink)
    }

    fn without_cache(&self) -> Stroke {
        Stroke::new(2.0, self.theme.dim)
    }

    fn axes(&self, right: f32) {
        let Scale {
            time,
            work,
            tokens,
            ms,
        } = self.scale;
        let axis = |band, end, unit| {
            chart::axis(
                self.painter,
                self.theme,
                self.faces,
                band,
                right,
                (end, unit),
            );
        };
        axis(time, ms, "ms");
        if let Some(work) = work {
            axis(work, tokens, "tokens");
        }
        let y = work.unwrap_or(time).bottom() + 0.7 * self.faces.line;
        let write = |tokens: f64, text: String| {
            let x = self.scale.column(tokens as usize).center();
            self.painter.text(
                pos2(x, y),
                egui::Align2::CENTER_CENTER,
                text,
                self.faces.small.clone(),
                self.theme.dim,
            );
        };
        write(1.0, "1".to_owned());
        write(0.5 * tokens, "tokens in the sequence".to_owned());
        write(tokens, chart::count(tokens as usize));
    }

    fn playhead(&self, tokens: usize) {
        let column = self.scale.column(tokens);
        let bottom = self.scale.work.unwrap_or(self.scale.time).bottom();
        let line = Stroke::new(2.0, self.theme.chosen);
        let at = column.center();
        self.painter.vline(at, self.scale.time.top()..=bottom, line);
        let tip = pos2(at, self.scale.time.top() + 1.0);
        let points = vec![tip + vec2(-4.0, -5.0), tip + vec2(4.0, -5.0), tip];
        self.painter.add(Shape::convex_polygon(
            points,
            self.theme.chosen,
            Stroke::NONE,
        ));
    }

    /// One block over the tokens of each prefill, as high as its time.
    fn prefill(&self) {
        let start = self.cost.passes.first().map_or(0, |pass| pass.tokens.start);
        for pass in &self.cost.passes {
            if pass.timing.phase != Phase::Prefill {
                continue;
            }
            let [first, last] = [pass.tokens.start + 1, pass.tokens.end]
                .map(|index| self.scale.column((index - start).max(1)));
            let x = Rangef::new(first.min, last.max.max(first.min + 1.0));
            let color = chart::prefill_color(self.theme);
            let top = self.scale.ms(pass.timing.model_ms);
            let time = Rect::from_x_y_ranges(x, top..=self.scale.time.bottom());
            self.painter.rect_filled(time, 2, color);
            if pass.timing.model_ms > self.scale.ms {
                self.painter
                    .rect_filled(chart::cut_rect(x, top), 0, self.theme.panel);
            }
            if let Some(work) = self.scale.work {
                let share = pass.timing.rows as f64 / self.scale.tokens;
                let rect = Rect::from_x_y_ranges(x, height(work, share)..=work.bottom());
                self.painter.rect_filled(rect, 2, color);
            }
        }
    }

    fn times(&self) {
        let steps = self.cost.generating();
        let points = |ms: &dyn Fn(&CostStep) -> Option<f64>| -> Vec<Pos2> {
            let point = |step: &CostStep| {
                let x = self.scale.column(step.tokens).center();
                Some(pos2(x, self.scale.ms(ms(step)?)))
            };
            steps.iter().filter_map(point).collect()
        };
        self.curve(
            points(&|step| step.uncached_ms()),
            self.without_cache(),
            true,
        );
        self.curve(points(&|step| step.decode_ms()), self.with_cache(), false);
    }

    fn curve(&self, points: Vec<Pos2>, stroke: Stroke, hollow: bool) {
        let marked = self.scale.tokens <= MARKED_COLUMNS || points.len() < 40;
        self.painter.line(points.clone(), stroke);
        if !marked {
            return;
        }
        for at in points {
            if hollow {
                self.hollow_dot(at, stroke);
            } else {
                self.painter.circle_filled(at, 2.5, stroke.color);
            }
        }
    }

    fn hollow_dot(&self, at: Pos2, stroke: Stroke) {
        let line = Stroke::new(1.5, stroke.color);
        self.painter.circle(at, 3.0, self.theme.panel, line);
    }

    /// Tokens through the model: known without measuring.
    fn work(&self) {
        let (Some(work), steps) = (self.scale.work, self.cost.generating()) else {
            return;
        };
        let at = |step: &CostStep, rows: usize| {
            let x = self.scale.column(step.tokens).center();
            pos2(x, height(work, rows as f64 / self.scale.tokens))
        };
        let without = steps.iter().map(|step| at(step, step.tokens)).collect();
        self.painter.line(without, self.without_cache());
        let decode = steps.iter().filter(|step| step.decode_ms().is_some());
        self.painter
            .line(decode.map(|step| at(step, 1)).collect(), self.with_cache());
    }

    /// Names of the curves in one line above them; what does not fit is in the tooltip.
    fn legend(&self, area: Rect) {
        let y = area.top() + 0.5 * self.faces.line;
        let mut left = area.left();
        let mut entry = |sample: &dyn Fn(Pos2), text: String| {
            let ink = self.theme.ink;
            let galley = self
                .painter
                .layout_no_wrap(text, self.faces.small.clone(), ink);
            let text_at = pos2(left + 30.0, y - 0.5 * galley.size().y);
            let right = text_at.x + galley.size().x;
            if right <= area.right() {
                sample(pos2(left + 12.0, y));
                self.painter.galley(text_at, galley, ink);
                left = right + 2.0 * self.faces.digit;
            }
        };
        let line = |at: Pos2, stroke: Stroke| {
            self.painter.hline(at.x - 12.0..=at.x + 12.0, at.y, stroke);
        };
        let (with, without) = (self.with_cache(), self.without_cache());
        entry(
            &|at| {
                line(at, without);
                self.hollow_dot(at, without);
            },
            "without cache".to_owned(),
        );
        entry(
            &|at| {
                line(at, with);
                self.painter.circle_filled(at, 2.5, with.color);
            },
            "with KV cache".to_owned(),
        );
        let mut prefills = self.cost.passes.iter();
        if let Some(pass) = prefills.find(|pass| pass.timing.phase == Phase::Prefill) {
            entry(
                &|at| {
                    let rect = Rect::from_center_size(at, vec2(24.0, 0.6 * self.faces.line));
                    self.painter
                        .rect_filled(rect, 2, chart::prefill_color(self.theme));
                },
                format!(
                    "prefill of {} {}",
                    words::tokens(pass.timing.rows),
                    chart::milliseconds(pass.timing.model_ms)
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_of_a_column_leads_back_to_its_length() {
        let area = Rect::from_min_size(pos2(50.0, 20.0), vec2(400.0, 300.0));
        let scale = Scale::fit(area, 15.0, 200, 12.0);
        assert_eq!((scale.tokens, scale.ms), (200.0, 15.0));
        for tokens in 1..=200 {
            assert_eq!(scale.tokens_at(scale.column(tokens).center()), tokens);
        }
        assert_eq!(scale.tokens_at(0.0), 1);
    }

    #[test]
    fn bands_stay_inside_and_a_low_panel_shows_the_times() {
        for height in 40..600 {
            let area = Rect::from_min_size(pos2(3.0, 9.0), vec2(500.0, height as f32));
            let scale = Scale::fit(area, 15.0, 20, 5.0);
            assert!(area.contains_rect(scale.time), "{height}");
            if let Some(work) = scale.work {
                assert!(area.contains_rect(work) && work.top() > scale.time.bottom());
                assert!(work.height() > 15.0, "{height}");
            }
        }
    }
}
