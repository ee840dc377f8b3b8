//! One undo and redo over typing bursts, runs, steps, branches and settings.
//!
//! Nodes of the tree never go away, so a state is only a few words: which node is the head, and the settings.

use std::sync::Arc;

use super::{BranchBook, ModelIndex, tree::NodeId};
use crate::sampling::SamplingSettings;

/// Everything that undo brings back.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub head: NodeId,
    pub settings: Arc<SamplingSettings>,
    pub selected: usize,
    pub book: Arc<BranchBook>,
    /// The toy in use.
    pub toy: Option<ModelIndex>,
}

/// What kind of change a state was left by; neighbouring changes of one kind become one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Typing,
    Settings,
    Run,
    Step,
    Branch,
    Model,
    Toy,
}

impl Change {
    fn coalesces(self) -> bool {
        matches!(self, Self::Typing | Self::Settings | Self::Toy)
    }
}

/// Seconds without a change after which a typing burst or a settings drag is over.
const BURST_SECONDS: f64 = 1.0;

#[derive(Debug, Default)]
pub struct History {
    undo: Vec<State>,
    redo: Vec<State>,
    last: Option<(Change, f64)>,
}

impl History {
    /// Notes that `state` is about to be changed, `now` in seconds.
    pub fn record(&mut self, state: State, change: Change, now: f64) {
        let burst = self.last.is_some_and(|(last, at)| {
            last == change && change.coalesces() && now - at < BURST_SECONDS
        });
        if !burst {
            self.undo.push(state);
        }
        self.redo.clear();
        self.last = Some((change, now));
    }

    /// Ends a burst: the next change is an entry of its own.
    pub fn end_burst(&mut self) {
        self.last = None;
    }

    pub fn undo(&mut self, current: State) -> Option<State> {
        Self::step(&mut self.undo, &mut self.redo, &mut self.last, current)
    }

    pub fn redo(&mut self, current: State) -> Option<State> {
        Self::step(&mut self.redo, &mut self.undo, &mut self.last, current)
    }

    fn step(
        from: &mut Vec<State>,
        to: &mut Vec<State>,
        last: &mut Option<(Change, f64)>,
        current: State,
    ) -> Option<State> {
        let state = from.pop()?;
        to.push(current);
        *last = None;
        Some(state)
    }

    pub fn can_undo(&self) -> bool {
        !self.undo.is_empty()
    }

    pub fn can_redo(&self) -> bool {
        !self.redo.is_empty()
    }
}
