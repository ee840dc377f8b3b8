//! What is said of the window or the session: one notice at a time, over the panels, until it is dismissed.

use egui::{Align2, Area, Frame, Id, Label, Margin, Order, RichText, Ui};

use super::Theme;
use crate::model::LoadRequest;

/// Inner margin of a notice, in points.
const PADDING: Margin = Margin::same(12);

/// What is said of the window itself; the session has its own.
pub struct Notice {
    pub text: String,
    /// When it goes without being dismissed, in the window's seconds: what went well needs no answer.
    pub until: Option<f64>,
}

impl From<String> for Notice {
    fn from(text: String) -> Self {
        Self { text, until: None }
    }
}

/// What was said to a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Dismiss,
    TakeOffer,
}

/// Shows a notice, with a way out where there is one to `offer`.
pub fn show(
    ui: &Ui,
    theme: &Theme,
    scale: f32,
    text: &str,
    offer: Option<&LoadRequest>,
) -> Option<Answer> {
    let contents = |ui: &mut Ui| {
        ui.set_max_width(560.0 * scale);
        ui.horizontal(|ui| {
            ui.add(Label::new(RichText::new(text).color(theme.ink)).wrap());
            let take = offer.is_some_and(|request| ui.button(offer_label(request)).clicked());
            match (take, ui.button("Dismiss").clicked()) {
                (true, _) => Some(Answer::TakeOffer),
                (false, true) => Some(Answer::Dismiss),
                (false, false) => None,
            }
        })
        .inner
    };
    Area::new(Id::unique("notice"))
        .anchor(Align2::CENTER_BOTTOM, [0.0, -44.0 * scale])
        .order(Order::Foreground)
        .show(ui.ctx(), |ui| {
            let frame = Frame::popup(ui.style()).fill(theme.panel);
            frame.inner_margin(PADDING).show(ui, contents).inner
        })
        .inner
}

fn offer_label(request: &LoadRequest) -> &'static str {
    if request.weights.allow_unknown_tensors {
        "Load without them"
    } else {
        "Load in f32"
    }
}
