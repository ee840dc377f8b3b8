//! Branches: the ends of the history tree, with their names and what was deleted.
//!
//! A branch is an end of the tree that was predicted or generated, and the current text. Deleting one only takes it
//! from the list, so that undo brings it back with everything that was recorded of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{Chain, Change, NodeId, Session, Tree};
use crate::worker::Command;

/// Most letters of a branch's name.
const NAME_CHARS: usize = 60;

/// Names of branches, and those that were deleted; part of what undo brings back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BranchBook {
    names: BTreeMap<NodeId, String>,
    deleted: BTreeSet<NodeId>,
}

/// One branch, as the list shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    pub head: NodeId,
    pub name: Option<String>,
    pub is_current: bool,
    /// The model that it was read with, where that is not the loaded one.
    pub other_model: Option<String>,
    /// Branches between it and the first one, along which it forks.
    pub depth: usize,
    /// Tokens that it shares with the branch it forks from.
    pub fork: usize,
    /// Tokens that it shares with the current text.
    pub shared: usize,
    /// The text of its own tokens, from the fork on.
    pub own_text: String,
    pub len: usize,
    /// Over all its tokens.
    pub chain: Chain,
    /// Over the tokens that the current text has not got.
    pub apart: Chain,
    /// Over the current text's tokens that this one has not got.
    pub current_apart: Chain,
}

fn common(a: &[NodeId], b: &[NodeId]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Session {
    /// The branches in the order of the tree: each comes after the one that it forks from.
    pub fn branches(&self) -> Vec<Branch> {
        let paths = self.branch_paths();
        // Tokens shared with the branch before: in this order, the most shared with any before.
        let shared: Vec<_> = (0..paths.len())
            .map(|at| {
                at.checked_sub(1)
                    .map_or(0, |before| common(&paths[before], &paths[at]))
            })
            .collect();
        let mut depths: Vec<usize> = Vec::with_capacity(paths.len());
        let mut branches = Vec::with_capacity(paths.len());
        for (at, path) in paths.iter().enumerate() {
            let fork = shared[at];
            // The first branch that goes through the fork is the one it forks from.
            let mut from = at;
            while from > 0 && fork > 0 && shared[from] >= fork {
                from -= 1;
            }
            depths.push(if from < at { depths[from] + 1 } else { 0 });
            branches.push(self.branch(path, depths[at], fork));
        }
        branches
    }

    fn branch(&self, path: &[NodeId], depth: usize, fork: usize) -> Branch {
        let head = path.last().copied().unwrap_or(Tree::ROOT);
        let node = self.tree.node(head);
        let model = self.models.get(node.model);
        let shared = common(path, &self.path);
        let own: Vec<u32> = path[fork..]
            .iter()
            .map(|&id| self.tree.node(id).token)
            .collect();
        let log_prob = |&id: &NodeId| self.tree.node(id).score.map(|score| score.log_prob);
        Branch {
            head,
            name: self.branch_name(head).map(str::to_owned),
            is_current: head == self.head,
            other_model: model
                .filter(|_| Some(node.model) != self.model)
                .map(|model| model.name.clone()),
            depth,
            fork,
            shared,
            own_text: model
                .map(|model| model.tokenizer.decode(&own))
                .unwrap_or_default(),
            len: path.len(),
            chain: Chain::of(path.iter().map(log_prob)),
            apart: Chain::of(path[shared..].iter().map(log_prob)),
            current_apart: Chain::of(self.path[shared..].iter().map(log_prob)),
        }
    }

    /// The paths of all branches, in the order of the tree.
    fn branch_paths(&self) -> Vec<Vec<NodeId>> {
        let mut paths = Vec::new();
        let mut path: Vec<NodeId> = Vec::new();
        // Nodes to visit, each with its depth.
        let mut open: Vec<(NodeId, usize)> = vec![(Tree::ROOT, 0)];
        while let Some((id, depth)) = open.pop() {
            path.truncate(depth.saturating_sub(1));
            if id != Tree::ROOT {
                path.push(id);
            }
            if self.is_branch(id) {
                paths.push(path.clone());
            }
            let children = self.tree.children(id).iter().rev();
            open.extend(children.map(|&child| (child, depth + 1)));
        }
        paths
    }

    fn is_branch(&self, id: NodeId) -> bool {
        if id == Tree::ROOT {
            return false;
        }
        if id == self.head {
            return true;
        }
        let node = self.tree.node(id);
        self.tree.children(id).is_empty()
            && !self.book.deleted.contains(&id)
            && (node.prediction.is_some() || node.origin.is_generated())
    }

    /// The name of a branch. It stays with the branch as that grows.
    fn branch_name(&self, head: NodeId) -> Option<&str> {
        let mut at = head;
        loop {
            if let Some(name) = self.book.names.get(&at) {
                return Some(name);
            }
            let parent = self.tree.node(at).parent?;
            // Of several continuations the first keeps the name.
            if self.tree.children(parent).first() != Some(&at) {
                return None;
            }
            at = parent;
        }
    }

    /// Makes a branch the text. One of another model is read again: ids mean something only to their own model.
    pub(super) fn switch_branch(&mut self, head: NodeId, now: f64) -> Vec<Command> {
        if head == self.head || !self.tree.contains(head) || self.model.is_none() {
            return Vec::new();
        }
        let mut commands = self.leave_run();
        self.record(Change::Branch, now);
        self.go_to(head);
        commands.extend(self.predict());
        commands
    }

    fn go_to(&mut self, head: NodeId) {
        self.set_head(head);
        self.adopt_path_of_another_model();
        self.stop_reason = None;
        self.what_if = false;
        self.follow = true;
        self.selected = self.newest_step();
    }

    /// Names a branch; an empty name takes the name away.
    pub(super) fn name_branch(&mut self, head: NodeId, name: &str, now: f64) -> Vec<Command> {
        if !self.tree.contains(head) {
            return Vec::new();
        }
        let name: String = name.trim().chars().take(NAME_CHARS).collect();
        let mut book = (*self.book).clone();
        // The name that it has by growing from a named one is replaced too.
        let named = std::iter::successors(Some(head), |&at| self.tree.node(at).parent)
            .find(|at| book.names.contains_key(at));
        if let Some(named) = named
            && self.branch_name(head) == book.names.get(&named).map(String::as_str)
        {
            book.names.remove(&named);
        }
        if !name.is_empty() {
            book.names.insert(head, name);
        }
        if book != *self.book {
            self.history.end_burst();
            self.record(Change::Branch, now);
            self.book = Arc::new(book);
        }
        Vec::new()
    }

    /// Takes a branch from the list. The text then is the branch that shares most with it, if it was the current one;
    /// the last branch stays.
    pub(super) fn delete_branch(&mut self, head: NodeId, now: f64) -> Vec<Command> {
        if !self.tree.contains(head) {
            return Vec::new();
        }
        // A run may have grown the branch since it was pointed at.
        let is_current = head == self.head || self.path.contains(&head);
        let mut commands = Vec::new();
        if !is_current {
            self.history.end_burst();
            self.record(Change::Branch, now);
            Arc::make_mut(&mut self.book).deleted.insert(head);
            return commands;
        }
        let nearest = self
            .branch_paths()
            .into_iter()
            .filter(|path| path.last() != Some(&self.head))
            // Of equally near ones the first.
            .rev()
            .max_by_key(|path| common(path, &self.path));
        let Some(&next) = nearest.as_ref().and_then(|path| path.last()) else {
            self.say("The only branch cannot be deleted.");
            return commands;
        };
        commands.extend(self.leave_run());
        self.record(Change::Branch, now);
        Arc::make_mut(&mut self.book).deleted.insert(self.head);
        self.go_to(next);
        commands.extend(self.predict());
        commands
    }
}
