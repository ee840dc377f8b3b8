//! What the attention panel shows this frame: which rows, which heads, and what single cells hold.
//!
//! Queries and keys are counted from the start of the context.

use std::{fmt::Write as _, sync::Arc};

use super::Options;
use super::Over;
use crate::{
    export::Facts,
    heatmap::{
        Cell, Heads, Quantity, Rollout, Shape, mean_weights, read_cell, score_bound, side_for,
        words_before,
    },
    prediction::AttentionRow,
    session::Session,
    ui::chart,
};

/// Rows that were worked out from recorded ones, as far as they have been: one layer with one head.
pub type Derived = Vec<Option<Arc<AttentionRow>>>;

/// Read from the session once a frame.
pub struct Scene<'a> {
    session: &'a Session,
    /// Index in the text of the context's first token.
    pub start: usize,
    /// Query rows shown: the tokens that the shown step was predicted from.
    pub rows: usize,
    pub shape: Shape,
    /// The choices, cut to what the model has.
    pub options: Options,
    /// The recorded rows of the whole text, so that going back and forth uploads nothing.
    pub record: Vec<Option<&'a Arc<AttentionRow>>>,
    /// Shown rows of which a layer that is needed was let go.
    pub let_go: usize,
    /// Rows of the attention rollout, where that is shown instead of recorded ones.
    pub rollout: Option<Derived>,
    /// Rows of a mean over heads, drawn in the place of recorded ones. Single cells are read from the record, which has
    /// all their digits.
    pub means: Option<Derived>,
}

impl<'a> Scene<'a> {
    pub fn read(session: &'a Session, options: Options) -> Self {
        let start = session.context_start();
        let rows = session.selected().saturating_sub(start);
        let predictions: Vec<_> = session
            .path_nodes()
            .skip(start)
            .map(|node| node.prediction.as_ref())
            .collect();
        let record: Vec<_> = predictions
            .iter()
            .map(|prediction| prediction.and_then(|prediction| prediction.attention.as_ref()))
            .collect();
        let shape = record.iter().flatten().next().map_or_else(
            || {
                session.model().map_or(Shape::default(), |model| Shape {
                    n_layer: model.n_layer,
                    n_head: model.n_head,
                })
            },
            |row| Shape {
                n_layer: row.layers.len(),
                n_head: row.n_head,
            },
        );
        let options = options.clamped(shape);
        let let_go = predictions
            .iter()
            .zip(&record)
            .take(rows)
            .filter(|(prediction, row)| {
                let is_there = |row: &Arc<AttentionRow>| match options.over {
                    Over::One | Over::Layer => row.layer(options.layer).is_some(),
                    Over::Head | Over::All | Over::Rollout => row.is_complete(),
                };
                prediction.is_some() && !row.is_some_and(is_there)
            })
            .count();
        Self {
            session,
            start,
            rows: rows.min(record.len()),
            shape,
            options,
            record,
            let_go,
            rollout: None,
            means: None,
        }
    }

    pub fn side(&self) -> usize {
        side_for(self.rows)
    }

    /// The heads in the large picture, among those of [`Self::read_shape`].
    pub fn heads(&self) -> Heads {
        match self.rollout {
            Some(_) => Heads::one(Rollout::SHAPE, 0, 0),
            None => self.options.heads(self.shape),
        }
    }

    /// How many layers and heads the rows have that single cells are read from.
    fn read_shape(&self) -> Shape {
        match &self.rollout {
            Some(_) => Rollout::SHAPE,
            None => self.shape,
        }
    }

    /// The row that a query's cells are read from: recorded, or of the rollout.
    fn read_from(&self, query: usize) -> Option<&Arc<AttentionRow>> {
        match &self.rollout {
            Some(rows) => rows.get(query)?.as_ref(),
            None => self.record.get(query).copied().flatten(),
        }
    }

    /// What is drawn in the place of the record.
    pub fn derived(&self) -> Option<&Derived> {
        self.rollout.as_ref().or(self.means.as_ref())
    }

    /// How many layers and heads the rows have that are drawn, and which of them.
    pub fn drawn_heads(&self) -> (Shape, Heads) {
        match self.derived() {
            Some(_) => (Rollout::SHAPE, Heads::one(Rollout::SHAPE, 0, 0)),
            None => (self.shape, self.heads()),
        }
    }

    /// The rows that are drawn, for the whole text.
    pub fn drawn_rows(&self) -> impl ExactSizeIterator<Item = Option<&Arc<AttentionRow>>> {
        let derived = self.derived();
        (0..self.record.len()).map(move |query| match derived {
            Some(rows) => rows.get(query)?.as_ref(),
            None => self.record.get(query).copied().flatten(),
        })
    }

    /// The weights that a query gives to the keys up to itself, `[keys]`; `None` where one is not on record.
    pub fn weights(&self, query: usize) -> Option<Vec<f32>> {
        mean_weights(self.read_from(query)?, self.read_shape(), self.heads())
    }

    /// "layer 3, head 8", counted from one, or what the mean is over.
    pub fn heads_name(&self) -> String {
        let (layer, head) = (self.options.layer + 1, self.options.head + 1);
        let Shape { n_layer, n_head } = self.shape;
        match self.options.over {
            Over::One => format!("layer {layer}, head {head}"),
            Over::Layer => format!("layer {layer}, mean over its {n_head} heads"),
            Over::Head => format!("head {head}, mean over the {n_layer} layers"),
            Over::All => format!(
                "mean over all {} heads of {n_layer} layers",
                n_layer * n_head
            ),
            Over::Rollout => "attention rollout (not a weight of any one head)".to_owned(),
        }
    }

    /// How many numbers a cell is the mean of; `None` where it is one, or something else.
    pub fn mean_of(&self) -> Option<usize> {
        let count = self.heads().count;
        (self.rollout.is_none() && self.options.over != Over::One).then_some(count)
    }

    /// Labels of the tokens at context positions.
    pub fn label(&self, position: usize) -> String {
        let Some(&id) = self.session.ids().get(self.start + position) else {
            return String::new();
        };
        self.session
            .tokenizer()
            .map_or_else(|| format!("#{id}"), |tokenizer| tokenizer.label(id))
    }

    /// What the shown rows take of all layers, in memory.
    pub fn all_layers_bytes(&self) -> usize {
        size_of::<u32>() * self.shape.heads() * words_before(self.rows)
    }

    /// The ids of the shown tokens.
    pub fn ids(&self) -> &[u32] {
        let ids = self.session.ids();
        ids.get(self.start..self.start + self.rows)
            .unwrap_or_default()
    }

    /// Tells one model from another while both are there.
    pub fn model_address(&self) -> usize {
        self.session
            .model()
            .map_or(0, |model| Arc::as_ptr(model) as usize)
    }

    pub fn cell(&self, quantity: Quantity, query: usize, key: usize) -> Cell {
        match self.read_from(query) {
            Some(row) => read_cell(row, self.read_shape(), self.heads(), quantity, key),
            None => Cell::Absent,
        }
    }

    /// Whether the model has made a prediction after this query.
    pub fn is_predicted(&self, query: usize) -> bool {
        self.session
            .node(self.start + query)
            .is_some_and(|node| node.prediction.is_some())
    }

    /// The cell with the largest weight among the queries and keys given, as a pixel that covers them shows.
    pub fn largest(
        &self,
        queries: std::ops::Range<usize>,
        keys: std::ops::Range<usize>,
    ) -> Option<(usize, usize)> {
        let mut largest: Option<((usize, usize), f32)> = None;
        for query in queries.start..queries.end.min(self.rows) {
            for key in keys.start..keys.end.min(query + 1) {
                let weight = match self.cell(Quantity::Weights, query, key) {
                    Cell::Value(weight) => weight,
                    Cell::NotANumber => f32::INFINITY,
                    Cell::Absent => -1.0,
                };
                if largest.is_none_or(|(_, held)| weight > held) {
                    largest = Some(((query, key), weight));
                }
            }
        }
        largest.map(|(cell, _)| cell)
    }

    /// The two keys that a query gives most weight to.
    fn strongest(&self, query: usize) -> Vec<(usize, f32)> {
        let mut best: Vec<(usize, f32)> = Vec::with_capacity(3);
        let weights = self.weights(query).unwrap_or_default();
        for (key, weight) in weights.into_iter().enumerate() {
            if weight.is_nan() {
                continue;
            }
            let at = best.iter().position(|&(_, held)| weight > held);
            best.insert(at.unwrap_or(best.len()), (key, weight));
            best.truncate(2);
        }
        best
    }

    /// The panel's one line: which heads, what is shown of them, and what the last or the pinned row says.
    ///
    /// `cells_a_pixel`: how many cells along either axis share a pixel.
    pub fn subtitle(&self, pinned: Option<(usize, usize)>, cells_a_pixel: usize) -> String {
        if self.rows == 0 {
            return String::new();
        }
        let heads = self.heads_name();
        let quantity = match self.options.quantity {
            Quantity::Weights if self.rollout.is_some() && self.options.logarithmic => {
                "shares, logarithmic scale"
            }
            Quantity::Weights if self.rollout.is_some() => "shares",
            Quantity::Weights if self.options.logarithmic => "weights, logarithmic scale",
            Quantity::Weights => "weights",
            Quantity::Scores => "scores before softmax",
            Quantity::Mask => {
                return "causal mask · a token sees itself and what comes before it".to_owned();
            }
        };
        let quantity = match self.options {
            Options {
                without_first: true,
                quantity: Quantity::Weights,
                ..
            } => format!("{quantity}, first token left out of the scale"),
            _ => quantity.to_owned(),
        };
        let quantity = match cells_a_pixel {
            0 | 1 => quantity,
            n => format!("{quantity}, a pixel is the largest of {n} × {n}"),
        };
        if let Some((query, key)) = pinned {
            let looks = format!("“{}” looks at “{}”", self.label(query), self.label(key));
            let value = if key > query {
                "masked".to_owned()
            } else {
                self.value_text(Quantity::Weights, query, key)
            };
            return format!("{heads} · {quantity} · pinned: {looks} {value}");
        }
        let last = self.rows - 1;
        let strongest = self.strongest(last);
        if strongest.is_empty() {
            return format!("{heads} · {quantity}");
        }
        let list: Vec<_> = strongest
            .iter()
            .map(|&(key, weight)| format!("“{}” {weight:.2}", self.label(key)))
            .collect();
        format!(
            "{heads} · {quantity} · last row: “{}” looks at {}",
            self.label(last),
            list.join(", ")
        )
    }

    /// A cell's number as text, or what there is in its place.
    pub fn value_text(&self, quantity: Quantity, query: usize, key: usize) -> String {
        match (self.cell(quantity, query, key), quantity) {
            (Cell::NotANumber, _) => "NaN".to_owned(),
            (Cell::Value(value), Quantity::Scores) => chart::number(f64::from(value)),
            (Cell::Value(value), _) => weight_text(value),
            (Cell::Absent, Quantity::Scores) if self.below(query, key).is_some() => {
                let below = self.below(query, key).unwrap_or_default();
                format!("below {}", chart::number(f64::from(below)))
            }
            (Cell::Absent, _) if self.rollout_is_behind(query) => "being worked out".to_owned(),
            (Cell::Absent, _) if self.is_predicted(query) => "let go for memory".to_owned(),
            (Cell::Absent, _) => "not computed yet".to_owned(),
        }
    }

    /// What a score lies below whose weight underflowed f16; `None` for any other cell.
    pub fn below(&self, query: usize, key: usize) -> Option<f32> {
        if self.cell(Quantity::Scores, query, key) != Cell::Absent {
            return None;
        }
        score_bound(self.read_from(query)?, self.read_shape(), self.heads(), key)
    }

    fn rollout_is_behind(&self, query: usize) -> bool {
        self.rollout
            .as_ref()
            .is_some_and(|rows| rows.len() <= query)
    }

    /// Which heads, and what of them.
    pub fn add_facts(&self, facts: &mut Facts) {
        let Options {
            quantity,
            logarithmic,
            without_first,
            ..
        } = self.options;
        let numbers = match quantity {
            _ if self.rollout.is_some() => "attention rollout shares",
            Quantity::Weights => "attention weights after softmax",
            Quantity::Scores => "attention scores before softmax",
            Quantity::Mask => "causal mask",
        };
        let scale = match (quantity, logarithmic, without_first) {
            (Quantity::Scores | Quantity::Mask, ..) => "linear",
            (_, false, false) => "linear",
            (_, true, false) => "logarithmic",
            (_, false, true) => "linear, first token left out of the scale",
            (_, true, true) => "logarithmic, first token left out of the scale",
        };
        facts.add("heads", self.heads_name());
        facts.add("numbers", numbers);
        facts.add("colour_scale", scale);
        facts.add("rows", self.rows.to_string());
        if self.let_go > 0 {
            let missing = format!("{} rows let go for memory", self.let_go);
            facts.add("missing", missing);
        }
    }

    /// The shown triangle, tab separated, one row a query.
    pub fn table(&self) -> String {
        let labels: Vec<_> = (0..self.rows).map(|at| self.label(at)).collect();
        let mut out = format!("query \\ key\t{}\n", labels.join("\t"));
        for (query, label) in labels.iter().enumerate() {
            out.push_str(label);
            for key in 0..self.rows {
                out.push('\t');
                if key > query {
                    continue;
                }
                match (
                    self.options.quantity,
                    self.cell(self.options.quantity, query, key),
                ) {
                    (Quantity::Mask, _) => out.push('1'),
                    (_, Cell::Value(value)) => out.push_str(&value.to_string()),
                    (_, Cell::NotANumber) => out.push_str("NaN"),
                    (_, Cell::Absent) => {
                        if let Some(below) = self.below(query, key) {
                            let _ = write!(out, "below {below}");
                        }
                    }
                }
            }
            out.push('\n');
        }
        out
    }
}

/// A weight with three digits: more are not in an f16.
pub fn weight_text(weight: f32) -> String {
    if weight <= 0.0 {
        // The smallest f16 is 6e-8; softmax gives no true zero.
        "<6e-8".to_owned()
    } else if weight < 0.001 {
        format!("{weight:.1e}")
    } else {
        let decimals = (2.0 - weight.log10().floor()).max(0.0) as usize;
        format!("{weight:.decimals$}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_have_the_digits_that_f16_holds() {
        for (weight, text) in [
            (1.0, "1.00"),
            (0.683_2, "0.683"),
            (0.1, "0.100"),
            (0.012_34, "0.0123"),
            (0.001, "0.00100"),
            (0.000_123, "1.2e-4"),
            (0.0, "<6e-8"),
        ] {
            assert_eq!(weight_text(weight), text);
        }
    }
}
