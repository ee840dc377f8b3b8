//! The history tree: every token that was ever in the text, so that nothing is lost by rewinding.
//!
//! A text is the path from the root to a node. Nodes are only added; a text that was edited away stays as a branch.

use std::sync::Arc;

use crate::{
    prediction::Prediction,
    sampling::{SamplingSettings, rank},
};

/// Index of a [`Node`] in its [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

/// Which of the session's models a node's token id belongs to.
pub type ModelIndex = usize;

/// How a token came into the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Typed,
    /// Generated text that an edit before it made the tokenizer read again: typed from then on.
    Retokenised,
    Sampled,
    Greedy,
    /// Picked by hand from the distribution.
    Picked,
}

impl Origin {
    /// Whether the token was chosen from a prediction, by the loop or by hand.
    pub fn is_generated(self) -> bool {
        matches!(self, Self::Sampled | Self::Greedy | Self::Picked)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Retokenised => "re-tokenised",
            Self::Sampled => "sampled",
            Self::Greedy => "greedy",
            Self::Picked => "picked",
        }
    }
}

/// How a generated token was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    pub settings: Arc<SamplingSettings>,
    /// The drawn number in [0, 1); `None` for greedy and picked tokens.
    pub u: Option<f64>,
    pub redraw: u32,
}

/// One token of the history.
#[derive(Debug)]
pub struct Node {
    pub parent: Option<NodeId>,
    pub token: u32,
    pub model: ModelIndex,
    pub origin: Origin,
    pub draw: Option<Draw>,
    /// The token lies before the context: the model never sees it.
    pub outside: bool,
    /// What the model predicts after this token; shared by all children.
    pub prediction: Option<Prediction>,
    /// How well the prediction before this token foresaw it; `None` for a first token that nothing conditions.
    pub score: Option<Score>,
    /// Entropy of the prediction after this token, in nats; stays when its logits are let go.
    pub entropy_nats: Option<f64>,
    /// Where in its run the token was appended; `None` for one that no run appended.
    pub mark: Option<RunMark>,
}

/// A token's place in the run that appended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMark {
    /// Tokens that the run had appended with this one.
    pub appended: usize,
    /// Tokens that it might append in all.
    pub budget: usize,
}

/// A token under the model P of the prediction before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// Natural logarithm of model P.
    pub log_prob: f64,
    /// 1 for the most likely token.
    pub rank: usize,
}

impl Score {
    /// -ln P, in nats.
    pub fn surprisal_nats(self) -> f64 {
        -self.log_prob
    }
}

fn score(prediction: Option<&Prediction>, token: u32) -> Option<Score> {
    let row = prediction?.logits.as_ref()?;
    ((token as usize) < row.values.len()).then(|| Score {
        log_prob: row.log_prob(token),
        rank: rank(&row.values, token),
    })
}

/// All nodes; the root stands for the empty text and holds no token.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    children: Vec<Vec<NodeId>>,
}

/// A token to add below a node.
#[derive(Clone, Debug)]
pub struct NewNode {
    pub token: u32,
    pub model: ModelIndex,
    pub origin: Origin,
    pub draw: Option<Draw>,
    pub outside: bool,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Node {
            parent: None,
            token: 0,
            model: 0,
            origin: Origin::Typed,
            draw: None,
            outside: false,
            prediction: None,
            score: None,
            entropy_nats: None,
            mark: None,
        };
        Self {
            nodes: vec![root],
            children: vec![Vec::new()],
        }
    }
}

impl Tree {
    pub const ROOT: NodeId = NodeId(0);

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len() as u32).map(NodeId)
    }

    pub fn contains(&self, id: NodeId) -> bool {
        (id.0 as usize) < self.nodes.len()
    }

    pub fn children(&self, id: NodeId) -> &[NodeId] {
        &self.children[id.0 as usize]
    }

    /// The child of `parent` that equals `new`, added if there is none: writing the same text twice is the same
    /// path, and finds its predictions again.
    pub fn child(&mut self, parent: NodeId, new: NewNode) -> NodeId {
        let same = |id: &&NodeId| {
            let node = self.node(**id);
            node.token == new.token
                && node.model == new.model
                && node.origin == new.origin
                && node.outside == new.outside
                && node.draw == new.draw
        };
        if let Some(&id) = self.children(parent).iter().find(same) {
            return id;
        }
        let id = NodeId(self.nodes.len() as u32);
        let score = score(self.node(parent).prediction.as_ref(), new.token);
        self.nodes.push(Node {
            parent: Some(parent),
            token: new.token,
            model: new.model,
            origin: new.origin,
            draw: new.draw,
            outside: new.outside,
            prediction: None,
            score,
            entropy_nats: None,
            mark: None,
        });
        self.children.push(Vec::new());
        self.children[parent.0 as usize].push(id);
        id
    }

    /// Puts on record what the model predicts after a node, and scores the tokens that follow it.
    ///
    /// Returns the bytes of the prediction that was there before.
    pub fn set_prediction(&mut self, id: NodeId, prediction: Prediction) -> usize {
        for child in self.children(id).to_vec() {
            let token = self.node(child).token;
            let found = score(Some(&prediction), token);
            let child = self.node_mut(child);
            child.score = child.score.or(found);
        }
        let node = self.node_mut(id);
        node.entropy_nats = prediction
            .logits
            .as_ref()
            .map(|row| row.stats.entropy_nats)
            .or(node.entropy_nats);
        node.prediction
            .replace(prediction)
            .map_or(0, |old| old.bytes())
    }

    /// The nodes from the first token to `head`, without the root.
    pub fn path(&self, head: NodeId) -> Vec<NodeId> {
        let mut path: Vec<_> = std::iter::successors(Some(head), |&id| self.node(id).parent)
            .take_while(|&id| id != Self::ROOT)
            .collect();
        path.reverse();
        path
    }

    pub fn len(&self) -> usize {
        self.nodes.len() - 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
