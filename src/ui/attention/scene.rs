//! What the attention panel shows this frame: which rows, which heads, and what single cells hold.
//!
//! Queries and keys are counted from the start of the context.

use std::sync::Arc;

use super::Options;
use crate::{
    heatmap::{Cell, Heads, Quantity, Shape, read_cell, side_for},
    prediction::AttentionRow,
    session::Session,
    ui::chart,
};

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
    /// Shown rows of which the chosen layer was let go.
    pub let_go: usize,
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
                prediction.is_some() && row.is_none_or(|row| row.layer(options.layer).is_none())
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
        }
    }

    pub fn side(&self) -> usize {
        side_for(self.rows)
    }

    /// The heads in the large picture.
    pub fn heads(&self) -> Heads {
        if self.options.mean {
            Heads::layer(self.shape, self.options.layer)
        } else {
            Heads::one(self.shape, self.options.layer, self.options.head)
        }
    }

    /// "layer 3, head 8", counted from one.
    pub fn heads_name(&self) -> String {
        let layer = self.options.layer + 1;
        if self.options.mean {
            format!("layer {layer}, mean over its {} heads", self.shape.n_head)
        } else {
            format!("layer {layer}, head {}", self.options.head + 1)
        }
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

    pub fn cell(&self, quantity: Quantity, query: usize, key: usize) -> Cell {
        match self.record.get(query) {
            Some(Some(row)) => read_cell(row, self.shape, self.heads(), quantity, key),
            _ => Cell::Absent,
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
        for key in 0..=query {
            if let Cell::Value(weight) = self.cell(Quantity::Weights, query, key) {
                let at = best.iter().position(|&(_, held)| weight > held);
                best.insert(at.unwrap_or(best.len()), (key, weight));
                best.truncate(2);
            }
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
            Quantity::Weights if self.options.logarithmic => "weights, logarithmic scale",
            Quantity::Weights => "weights",
            Quantity::Scores => "scores before softmax",
            Quantity::Mask => {
                return "causal mask · a token sees itself and what comes before it".to_owned();
            }
        };
        let quantity = match cells_a_pixel {
            0 | 1 => quantity.to_owned(),
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
            (Cell::Absent, Quantity::Scores)
                if !matches!(self.cell(Quantity::Weights, query, key), Cell::Absent) =>
            {
                "below what f16 weights tell".to_owned()
            }
            (Cell::Absent, _) if self.is_predicted(query) => "let go for memory".to_owned(),
            (Cell::Absent, _) => "not computed yet".to_owned(),
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
                    (_, Cell::Absent) => {}
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
