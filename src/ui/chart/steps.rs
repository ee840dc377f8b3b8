//! What charts with the steps of the text along them share: selecting a step by pointer and keys, axes.

use egui::{
    Color32, EventFilter, Id, Key, Painter, Pos2, Rect, Response, Sense, Stroke, StrokeKind, Ui,
    pos2,
};

use super::{Faces, Theme, short, text_right};
use crate::{session::Action, ui::PanelContext};

/// One response over the whole of a chart, named `name`: click, drag, arrow keys, Home and End select a step, the
/// pointer highlights its token in all panels. `step_at` is the step under a point.
///
/// Returns the response and the step that the pointer is on.
pub fn select_steps(
    ui: &Ui,
    ctx: &mut PanelContext,
    rect: Rect,
    id: Id,
    name: String,
    step_at: impl Fn(Pos2) -> usize,
) -> (Response, Option<usize>) {
    let (len, selected) = (ctx.session.len(), ctx.session.selected());
    let response = ui.interact(rect, id, Sense::click_and_drag());
    response.widget_info(|| egui::WidgetInfo::slider(true, selected as f64, &name));
    if response.clicked() || response.dragged() {
        response.request_focus();
        if let Some(step) = response.interact_pointer_pos().map(&step_at)
            && step != selected
        {
            ctx.act(Action::Select(step));
        }
    }
    if response.has_focus() {
        ui.memory_mut(|memory| {
            memory.set_focus_lock_filter(
                id,
                EventFilter {
                    horizontal_arrows: true,
                    ..Default::default()
                },
            )
        });
        let step = ui.input(|input| match () {
            () if input.key_pressed(Key::ArrowLeft) => Some(selected.saturating_sub(1)),
            () if input.key_pressed(Key::ArrowRight) => Some((selected + 1).min(len)),
            () if input.key_pressed(Key::Home) => Some(0),
            () if input.key_pressed(Key::End) => Some(len),
            () => None,
        });
        if let Some(step) = step {
            ctx.act(Action::Select(step));
        }
        let frame = ui.clip_rect().intersect(rect.expand(2.0));
        let stroke = Stroke::new(1.5, ctx.theme.ink);
        ui.painter()
            .rect_stroke(frame, 4, stroke, StrokeKind::Inside);
    }
    // What this panel has set it also takes back, when the pointer leaves.
    let was_on = ui.data(|data| data.get_temp::<bool>(id)).unwrap_or(false);
    let on = response
        .hover_pos()
        .map(&step_at)
        .filter(|&index| index <= len);
    if on.is_some() || was_on {
        ctx.panels.hovered_token = on;
        ui.data_mut(|data| data.insert_temp(id, on.is_some()));
    }
    (response, on)
}

/// Numbers and unit of an upright axis from 0 to `end` left of a band, and its lines.
pub fn axis(
    painter: &Painter,
    theme: &Theme,
    faces: &Faces,
    band: Rect,
    right: f32,
    (end, unit): (f64, &str),
) {
    let write = |y: f32, text: String| {
        text_right(painter, pos2(right, y), text, &faces.small, theme.dim);
    };
    write(
        band.top() + 0.2 * faces.line,
        format!("{} {unit}", short(end as f32)),
    );
    if band.height() > 1.6 * faces.line {
        write(band.bottom() - 0.4 * faces.line, "0".to_owned());
    }
    if band.height() > 4.5 * faces.line {
        write(band.center().y, short(0.5 * end as f32));
        painter.hline(band.x_range(), band.center().y, theme.hairline());
    }
    painter.hline(band.x_range(), band.top(), theme.hairline());
    painter.hline(band.x_range(), band.bottom(), theme.hairline());
}

/// A cut through a bar says that it ends above the axis: its height is not its time.
pub fn cut_rect(x: egui::Rangef, top: f32) -> Rect {
    Rect::from_x_y_ranges(x, top + 2.0..=top + 4.0)
}

/// The ground of a block of prompt tokens that one pass took.
pub fn prefill_color(theme: &Theme) -> Color32 {
    theme.panel.lerp_to_gamma(theme.prompt, 0.35)
}

/// The largest of some times; where a few are far above all others, what the others reach, so that one pause of
/// the machine does not flatten the rest. `None` where there is none.
pub fn typical_max(times: &mut Vec<f64>) -> Option<f64> {
    times.retain(|ms| ms.is_finite());
    times.sort_unstable_by(f64::total_cmp);
    let largest = *times.last()?;
    let most = times[(times.len() - 1) * 19 / 20];
    Some(if most > 0.0 && largest > 3.0 * most {
        1.5 * most
    } else {
        largest
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pause_of_the_machine_does_not_flatten_the_rest() {
        assert_eq!(typical_max(&mut vec![]), None);
        assert_eq!(typical_max(&mut vec![4.0]), Some(4.0));
        assert_eq!(typical_max(&mut vec![3.0, 4.0, f64::NAN]), Some(4.0));
        let mut times = vec![3.0; 99];
        times.push(90.0);
        assert_eq!(typical_max(&mut times), Some(4.5));
        let mut even: Vec<_> = (1..=100).map(f64::from).collect();
        assert_eq!(typical_max(&mut even), Some(100.0));
    }
}
