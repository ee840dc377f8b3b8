//! The status line: phase and times, tokens used, why the last run stopped, device, memory, self-check.

use egui::{Align, Layout, RichText, TextStyle, Ui};

use super::{PanelContext, open_model::memory, theme::semibold};
use crate::{
    prediction::Phase,
    session::{Action, Activity, Session},
    worker::StopReason,
};

/// Space between the parts of the line, in points.
const SPACING: f32 = 18.0;

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) {
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = SPACING;
        ui.label(
            RichText::new(phase(ctx.session))
                .small()
                .family(semibold())
                .color(ctx.theme.ink),
        );
        let parts = left_parts(ctx.session).join("     ");
        let right = right_parts(ui, ctx, &parts);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            self_check(ui, ctx);
            for (text, more) in right {
                ui.label(RichText::new(text).small().color(ctx.theme.dim))
                    .on_hover_text(more);
            }
            // What is left of the line, cut with an ellipsis where it is too short.
            ui.with_layout(Layout::left_to_right(Align::Center), |ui| {
                ui.add(
                    egui::Label::new(RichText::new(&parts).small().color(ctx.theme.dim)).truncate(),
                )
                .on_hover_text(&parts);
            });
        });
    });
}

/// Memory and device, each with what is said on hover, as long as there is room for beside what is said of the run.
fn right_parts(ui: &Ui, ctx: &PanelContext, left: &str) -> Vec<(String, String)> {
    let width = |text: &str| {
        let font = TextStyle::Small.resolve(ui.style());
        let text = text.to_owned();
        let galley = ui.painter().layout_no_wrap(text, font, ctx.theme.dim);
        galley.size().x + SPACING
    };
    // In steps, so that nothing on the right moves with the digits on the left.
    let step = 24.0 * ctx.scale;
    let left = (width(left) / step).ceil() * step;
    let room = ui.available_width() - left - width("self-check ✓");
    let recorded = recorded(ctx.session);
    let devices = device(ctx.session);
    let kind = devices.last().map_or(0.0, |kind| width(kind));
    let mut parts = Vec::new();
    let mut room = room;
    if width(&recorded) + kind <= room {
        room -= width(&recorded);
        let more = "Logits and attention kept so that every past step can be shown again. Over the budget, \
                    attention is let go first and computed again when asked for.";
        parts.push((recorded, more.to_owned()));
    }
    let fitting = devices.iter().find(|text| width(text) <= room);
    if let (Some(device), Some(model)) = (fitting.or(devices.last()), ctx.session.model()) {
        let whole = format!(
            "{}{}. {}: {} of weights.",
            model.device,
            why(&model.device_why),
            model.precision().describe(),
            memory(model.weight_bytes, model.precision())
        );
        parts.push((device.clone(), whole));
    }
    parts
}

fn recorded(session: &Session) -> String {
    format!(
        "recorded {} of {}",
        bytes(session.recorded_bytes()),
        bytes(session.budget_bytes())
    )
}

/// Why a device is in use, as what follows its name.
fn why(device_why: &str) -> String {
    match device_why {
        "" => String::new(),
        why => format!(": {why}"),
    }
}

/// The compute device and why it is in use, from the longest way to say it to its kind alone.
fn device(session: &Session) -> Vec<String> {
    let Some(model) = session.model() else {
        return Vec::new();
    };
    if model.toy().is_some() {
        return vec![
            format!("{}, no model, no device", model.device),
            model.device.clone(),
        ];
    }
    let why = why(&model.device_why);
    let kind = model.device.split(' ').next().unwrap_or_default();
    let precision = model.precision();
    vec![
        format!("{}{why} · {precision}", model.device),
        format!("{kind}{why} · {precision}"),
        format!("{kind} · {precision}"),
    ]
}

fn phase(session: &Session) -> &'static str {
    match session.activity() {
        _ if session.loading().is_some() => "LOADING",
        Activity::Predicting | Activity::Running | Activity::Ending { .. }
            if session.toy().is_some() =>
        {
            "TYPED ROWS"
        }
        Activity::Predicting => "PREFILL",
        Activity::Running | Activity::Ending { .. } => {
            match session.last_timing().map(|timing| timing.phase) {
                Some(Phase::Decode) if session.run_progress().0 > 0 => "DECODE",
                _ => "PREFILL",
            }
        }
        Activity::Paused => "PAUSED",
        Activity::Idle if session.model().is_none() => "NO MODEL",
        Activity::Idle => "READY",
    }
}

fn left_parts(session: &Session) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(loading) = session.loading() {
        let progress = if loading.total_bytes > 0 {
            format!(
                "{}: {} of {}",
                loading.name,
                bytes(loading.done_bytes as usize),
                bytes(loading.total_bytes as usize)
            )
        } else {
            loading.name.clone()
        };
        parts.push(progress);
        if loading.run_queued {
            parts.push("run queued".to_owned());
        }
    }
    if let Some(reason) = session.stop_reason() {
        parts.push(match reason {
            StopReason::Stopped => "stopped by you".to_owned(),
            reason => format!("stopped: {}", reason.describe()),
        });
    }
    let (appended, budget) = session.run_progress();
    if appended > 0 {
        parts.push(format!("token {appended} of {budget}"));
    }
    if let Some(timing) = session
        .last_timing()
        .filter(|timing| timing.phase == Phase::Decode)
    {
        parts.push(format!(
            "decode {} + {} recording",
            ms(timing.model_ms),
            ms(timing.record_ms)
        ));
    }
    if let Some(prefill) = session.prefill() {
        let chunks = if prefill.chunks > 1 {
            format!(" in {} chunks", prefill.chunks)
        } else {
            String::new()
        };
        parts.push(format!(
            "prefill {} tokens {}{chunks}",
            prefill.tokens,
            ms(prefill.model_ms)
        ));
    }
    if session.n_ctx() > 0 {
        parts.push(format!(
            "{} of {} context",
            session.context_len(),
            session.n_ctx()
        ));
    }
    parts
}

fn self_check(ui: &mut Ui, ctx: &mut PanelContext) {
    if ctx.session.toy().is_some() {
        return;
    }
    let theme = ctx.theme;
    let (text, detail) = match ctx.session.self_check() {
        Some(check) if check.passed => ("self-check ✓", check.lines.join("\n")),
        Some(check) => ("self-check failed", check.lines.join("\n")),
        None => (
            "self-check",
            "Compare the devices, and cached with uncached decoding, on this model".to_owned(),
        ),
    };
    let failed = ctx.session.self_check().is_some_and(|check| !check.passed);
    let color = if failed { theme.negative } else { theme.dim };
    let button = ui
        .add(egui::Button::new(RichText::new(text).small().color(color)).frame(false))
        .on_hover_text(detail);
    if button.clicked() {
        ctx.act(Action::SelfCheck);
    }
}

/// Milliseconds with three digits at most.
pub fn ms(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0} ms"),
        v if v >= 10.0 => format!("{v:.1} ms"),
        v => format!("{v:.2} ms"),
    }
}

/// Bytes in binary units.
pub fn bytes(value: usize) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut scaled = value as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{value} B"),
        _ if scaled >= 100.0 || scaled.fract() == 0.0 => format!("{scaled:.0} {}", UNITS[unit]),
        _ => format!("{scaled:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_carry_their_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1 << 30), "1 GiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(435_159_040), "415 MiB");
        assert_eq!(ms(2.913), "2.91 ms");
        assert_eq!(ms(33.333), "33.3 ms");
        assert_eq!(ms(1234.5), "1234 ms");
    }
}
