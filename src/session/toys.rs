//! Other numbers for the toy in use.
//!
//! Numbers that are typed over make another toy. The text, its branches and their names are carried over to it, so
//! that what was there is seen under the new numbers at once, without the worker; a token that was drawn from a row
//! that is another now was not drawn from it, and counts as re-tokenised text. The old toy stays with all that was
//! recorded of it, for undo.

use std::{collections::HashMap, sync::Arc};

use super::{
    Change, ModelIndex, NodeId, Origin, Session, Tree,
    tree::{NewNode, Node},
};
use crate::{
    toy::Toy,
    worker::{Command, ModelInfo},
};

impl Session {
    /// The typed numbers in use in a model's place, if they are.
    pub fn toy(&self) -> Option<&Arc<Toy>> {
        self.model()?.toy()
    }

    /// Puts other numbers in the place of those in use, at `now` (seconds).
    pub(super) fn edit_toy(&mut self, toy: Arc<Toy>, now: f64) -> Vec<Command> {
        let Some((old_index, old)) = self.model.zip(self.toy().cloned()) else {
            return Vec::new();
        };
        if old == toy {
            return Vec::new();
        }
        let mut commands = self.leave_run();
        self.record(Change::Toy, now);
        let known = self.models.iter();
        let index = known
            .map(|model| model.toy())
            .position(|known| known == Some(&toy))
            .unwrap_or(self.models.len());
        if index == self.models.len() {
            self.models.push(Arc::new(ModelInfo::of_toy(toy.clone())));
        }
        let head = self.head;
        commands.extend(self.use_toy(index));
        let carried = self.carry_over(old_index, &old, index, &toy);
        let another_prompt = old.prompt() != toy.prompt();
        if another_prompt {
            self.path.clear();
            self.head = Tree::ROOT;
            self.rewrite(0, toy.prompt());
            self.follow = true;
        } else {
            let ancestors = self.tree.path(head);
            let head = ancestors.iter().rev().find_map(|id| carried.get(id));
            self.set_head(head.copied().unwrap_or(Tree::ROOT));
        }
        self.selected = if self.follow {
            self.newest_step()
        } else {
            self.selected.min(self.path.len())
        };
        self.what_if = false;
        self.preview = None;
        self.stop_reason = None;
        commands.extend(self.predict());
        commands
    }

    /// Makes one of the session's toys the one in use.
    pub(super) fn use_toy(&mut self, index: ModelIndex) -> Vec<Command> {
        let Some(toy) = self
            .models
            .get(index)
            .and_then(|model| model.toy())
            .cloned()
        else {
            return Vec::new();
        };
        if let Some(old) = self.model.replace(index) {
            self.superseded.insert(old);
        }
        self.superseded.remove(&index);
        if let Some(old) = self.empty_prediction.take() {
            self.recorded_bytes -= old.bytes();
        }
        self.last_timing = None;
        vec![Command::UseToy(toy)]
    }

    /// Adds all nodes of one toy again under another, as far as their tokens are there in both; returns which became
    /// which. Names of branches, and which were deleted, come along.
    fn carry_over(
        &mut self,
        old_index: ModelIndex,
        old: &Toy,
        index: ModelIndex,
        toy: &Toy,
    ) -> HashMap<NodeId, NodeId> {
        // Parents come before their children.
        let ids: Vec<_> = self.tree.ids().skip(1).collect();
        let mut carried: HashMap<NodeId, (NodeId, usize)> = HashMap::new();
        for id in ids {
            let node = self.tree.node(id);
            let parent = match node.parent {
                Some(Tree::ROOT) | None => Some((Tree::ROOT, 0)),
                Some(parent) => carried.get(&parent).copied(),
            };
            let Some((parent, position)) = parent else {
                continue;
            };
            if node.model != old_index || node.token as usize >= toy.vocab_size() {
                continue;
            }
            let from_same_row = position == 0 || old.same_row(toy, position - 1);
            let (new, mark) = (carried_node(node, index, from_same_row), node.mark);
            let new = self.tree.child(parent, new);
            self.tree.node_mut(new).mark = mark.filter(|_| from_same_row);
            if self.tree.node(new).prediction.is_none()
                && let Some(prediction) = toy.prediction(position)
            {
                self.attach(new, prediction);
                self.predictions_received += 1;
            }
            carried.insert(id, (new, position + 1));
        }
        let carried = carried.into_iter().map(|(old, (new, _))| (old, new));
        let carried: HashMap<_, _> = carried.collect();
        self.book = Arc::new(self.book.carried_over(&carried));
        carried
    }
}

/// The same token of another toy.
fn carried_node(node: &Node, model: ModelIndex, from_same_row: bool) -> NewNode {
    let stands = from_same_row || !node.origin.is_generated();
    NewNode {
        token: node.token,
        model,
        origin: if stands {
            node.origin
        } else {
            Origin::Retokenised
        },
        draw: node.draw.clone().filter(|_| stands),
        outside: node.outside,
    }
}
