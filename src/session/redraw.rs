//! Drawing the shown step again: another draw from the same distribution, which changes nothing until it is taken.

use super::{Draw, NodeId, Origin, Session, StepView, TokenRow};
use crate::{sampling::uniform, worker::Command};

/// Which draw of which step is on show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preview {
    /// The token before the step, and the one that was chosen there.
    place: (Option<NodeId>, Option<NodeId>),
    redraw: u32,
}

/// Another draw of the shown step.
#[derive(Clone, Debug, PartialEq)]
pub struct Redraw {
    /// How often the step had been drawn before.
    pub redraw: u32,
    /// The drawn number.
    pub u: f64,
    /// The token that it leads to.
    pub row: TokenRow,
}

impl Session {
    /// Whether the shown step can be drawn again: greedy has no draw.
    pub fn can_redraw(&self) -> bool {
        self.view()
            .is_some_and(|view| !view.distribution.is_greedy())
    }

    /// The draw on show, with the settings that the step is shown with; `None` where none was asked for.
    pub fn redraw(&self) -> Option<Redraw> {
        let preview = self
            .preview
            .filter(|preview| preview.place == self.place())?;
        let view = self.view().filter(|view| view.step == self.selected)?;
        if view.distribution.is_greedy() {
            return None;
        }
        let u = uniform(view.settings.seed, self.position()?, preview.redraw);
        let row = view.row(view.distribution.choose(u));
        Some(Redraw {
            redraw: preview.redraw,
            u,
            row,
        })
    }

    fn place(&self) -> (Option<NodeId>, Option<NodeId>) {
        let before = self
            .selected
            .checked_sub(1)
            .and_then(|index| self.path.get(index));
        (before.copied(), self.path.get(self.selected).copied())
    }

    /// The shown step's place in the context, which its draws depend on.
    fn position(&self) -> Option<u64> {
        if self.path.is_empty() {
            // A lone end-of-text will stand before it.
            return Some(self.context().len() as u64);
        }
        self.selected
            .checked_sub(self.context_start())
            .map(|position| position as u64)
    }

    /// Shows the next draw of the shown step. An open step begins with the draw that the next step will make.
    pub(super) fn draw_again(&mut self) -> Vec<Command> {
        if !self.can_redraw() {
            return Vec::new();
        }
        let place = self.place();
        let drawn = self
            .view()
            .and_then(|view: &StepView| view.chosen.as_ref())
            .filter(|chosen| chosen.u.is_some())
            .map(|chosen| chosen.redraw);
        let redraw = match (self.preview, drawn) {
            (Some(preview), _) if preview.place == place => preview.redraw.saturating_add(1),
            (_, Some(drawn)) => drawn.saturating_add(1),
            (_, None) => 0,
        };
        self.preview = Some(Preview { place, redraw });
        Vec::new()
    }

    /// Makes the draw on show the choice of its step: a branch, as a picked token is, but sampled.
    pub(super) fn take_redraw(&mut self, now: f64) -> Vec<Command> {
        let (Some(redraw), Some(view)) = (self.redraw(), self.view()) else {
            return Vec::new();
        };
        let draw = Draw {
            settings: view.settings.clone(),
            u: Some(redraw.u),
            redraw: redraw.redraw,
        };
        let (appended, mut commands) =
            self.append_at_selection(redraw.row.id, Origin::Sampled, draw, now);
        if appended {
            self.preview = None;
            commands.extend(self.live());
            commands.extend(self.predict());
        }
        commands
    }
}
