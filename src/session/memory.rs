//! The memory budget: what is let go first when the record grows too large.
//!
//! Attention of other branches, then their logits, then attention of the current path layer by layer; never the
//! logits of the current path. Scores and entropies stay, so Timeline and tints lose nothing.

use std::{collections::HashSet, sync::Arc};

use super::{NodeId, Session};

/// What may be recorded unless the user says otherwise.
pub const DEFAULT_BUDGET_BYTES: usize = 1 << 30;

impl Session {
    pub fn set_budget_bytes(&mut self, bytes: usize) {
        self.budget_bytes = bytes;
        self.enforce_budget();
    }

    /// Bytes that the window's own copies of the record take.
    pub fn set_window_bytes(&mut self, bytes: usize) {
        if self.window_bytes != bytes {
            self.window_bytes = bytes;
            self.enforce_budget();
        }
    }

    fn is_over_budget(&self) -> bool {
        self.recorded_bytes() > self.budget_bytes
    }

    pub(super) fn enforce_budget(&mut self) {
        if !self.is_over_budget() {
            return;
        }
        let current: HashSet<NodeId> = self.path.iter().copied().collect();
        let others: Vec<_> = self.tree.ids().filter(|id| !current.contains(id)).collect();
        for &id in &others {
            if !self.is_over_budget() {
                return;
            }
            self.let_go(id, |prediction| prediction.attention = None);
        }
        for &id in &others {
            if !self.is_over_budget() {
                return;
            }
            self.let_go(id, |prediction| prediction.logits = None);
        }
        let n_layer = self.model().map_or(0, |model| model.n_layer);
        let focus = self.focus_layer.min(n_layer.saturating_sub(1));
        let layers = (0..n_layer)
            .filter(|&layer| layer != focus)
            .chain((n_layer > 0).then_some(focus));
        for layer in layers {
            if !self.is_over_budget() {
                return;
            }
            for index in 0..self.path.len() {
                self.let_go(self.path[index], |prediction| {
                    if let Some(row) = &mut prediction.attention
                        && row.layer(layer).is_some()
                    {
                        *row = Arc::new(row.without_layer(layer));
                    }
                });
            }
        }
    }

    fn let_go(&mut self, id: NodeId, change: impl FnOnce(&mut crate::prediction::Prediction)) {
        if let Some(prediction) = &mut self.tree.node_mut(id).prediction {
            let before = prediction.bytes();
            change(prediction);
            self.recorded_bytes -= before - prediction.bytes();
        }
    }
}
