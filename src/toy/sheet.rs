//! What was typed: labels, a prompt and cells, as text; reading it, and changing it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{END_OF_TEXT, Toy};
use crate::{prediction::LogitsRow, tokenizer::Tokenizer};

/// Most tokens of a vocabulary, and most rows.
pub const MAX_LABELS: usize = 12;
pub const MAX_ROWS: usize = 32;

/// How far the probabilities of a row without a blank may be from 1 together.
const SUM_TOLERANCE: f64 = 1e-6;

/// What the cells hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Any finite number; a blank is refused.
    #[default]
    Logits,
    /// P(token | everything before it), from 0 to 1; blanks share equally what the others leave.
    Probabilities,
}

/// A sheet of cells as typed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sheet {
    pub kind: Kind,
    /// One token each.
    pub labels: Vec<String>,
    /// The labels that the text begins with, spaces between them.
    pub prompt: String,
    /// `[position][label]`: row *i* is what follows *i + 1* tokens.
    pub rows: Vec<Vec<String>>,
}

/// Where a sheet makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Label(usize),
    Prompt,
    Row(usize),
    Cell { row: usize, column: usize },
}

/// Why a sheet makes no sense: the first thing that is wrong with it, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    pub place: Place,
    message: String,
}

impl Problem {
    fn new(place: Place, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { place, message }
    }
}

impl Sheet {
    /// Reads the cells.
    ///
    /// # Errors
    /// The first label, word of the prompt, cell or row that makes no sense.
    pub fn read(&self) -> Result<Toy, Problem> {
        self.check_labels()?;
        let prompt = self.prompt_ids()?;
        if self.rows.is_empty() || self.rows.len() > MAX_ROWS {
            let message = format!("A toy has 1 to {MAX_ROWS} rows, not {}.", self.rows.len());
            return Err(Problem::new(Place::Row(0), message));
        }
        let rows = (0..self.rows.len())
            .map(|row| Ok(Arc::new(LogitsRow::new(self.logits(row)?))))
            .collect::<Result<_, Problem>>()?;
        let tokenizer = Tokenizer::from_json(self.tokenizer_json().as_bytes())
            .map_err(|error| Problem::new(Place::Label(0), error.to_string()))?
            .with_word_labels();
        Ok(Toy {
            sheet: self.clone(),
            tokenizer,
            prompt,
            rows,
        })
    }

    fn check_labels(&self) -> Result<(), Problem> {
        let count = self.labels.len();
        if !(2..=MAX_LABELS).contains(&count) {
            let message = format!("A toy has 2 to {MAX_LABELS} tokens, not {count}.");
            return Err(Problem::new(Place::Label(0), message));
        }
        for (at, label) in self.labels.iter().enumerate() {
            let wrong = |message| Err(Problem::new(Place::Label(at), message));
            if label.is_empty() {
                return wrong(format!("Token {} has no label.", at + 1));
            }
            if label.contains(char::is_whitespace) || label.starts_with("##") {
                return wrong(format!(
                    "“{label}” cannot be a label: spaces stand between tokens, and ## at the beginning would join them."
                ));
            }
            if self.labels[..at].contains(label) {
                return wrong(format!("Two tokens are labelled “{label}”."));
            }
        }
        Ok(())
    }

    fn prompt_ids(&self) -> Result<Vec<u32>, Problem> {
        let wrong = |message| Problem::new(Place::Prompt, message);
        let ids: Vec<u32> = self
            .prompt
            .split_whitespace()
            .map(|word| {
                let found = self.labels.iter().position(|label| label == word);
                found
                    .map(|at| at as u32)
                    .ok_or_else(|| wrong(format!("“{word}” in the prompt is no token of the toy.")))
            })
            .collect::<Result<_, _>>()?;
        match ids.len() {
            0 => Err(wrong(
                "The prompt is empty: write at least one label.".to_owned(),
            )),
            len if len > self.rows.len() => Err(wrong(format!(
                "The prompt has {len} tokens and there are {} rows: a row is needed after each token.",
                self.rows.len()
            ))),
            _ => Ok(ids),
        }
    }

    /// One row as logits; of probabilities, their natural logarithms.
    fn logits(&self, row: usize) -> Result<Vec<f32>, Problem> {
        let typed = self.typed(row)?;
        match self.kind {
            Kind::Logits => typed
                .into_iter()
                .enumerate()
                .map(|(column, value)| {
                    let blank = || self.wrong_cell(row, column, "a logit is missing.");
                    value.map(|z| z as f32).ok_or_else(blank)
                })
                .collect(),
            Kind::Probabilities => Ok(self
                .probabilities(row, &typed)?
                .into_iter()
                .map(|p| p.ln() as f32)
                .collect()),
        }
    }

    /// The numbers of a row, `None` where a cell is blank.
    fn typed(&self, row: usize) -> Result<Vec<Option<f64>>, Problem> {
        (0..self.labels.len())
            .map(|column| {
                let cell = self.cell(row, column).trim();
                if cell.is_empty() {
                    return Ok(None);
                }
                let value = parse(cell).ok_or_else(|| {
                    let why = format!("“{cell}” is not a number; decimals take a point.");
                    self.wrong_cell(row, column, &why)
                })?;
                let possible = match self.kind {
                    Kind::Logits => (value as f32).is_finite(),
                    Kind::Probabilities => (0.0..=1.0).contains(&value),
                };
                if !possible {
                    let why = match self.kind {
                        Kind::Logits => format!("{cell} is too large for a logit."),
                        Kind::Probabilities => {
                            format!("{cell} is no probability: it has to be from 0 to 1.")
                        }
                    };
                    return Err(self.wrong_cell(row, column, &why));
                }
                Ok(Some(value))
            })
            .collect()
    }

    fn probabilities(&self, row: usize, typed: &[Option<f64>]) -> Result<Vec<f64>, Problem> {
        let sum: f64 = typed.iter().flatten().sum();
        let blanks = typed.iter().filter(|value| value.is_none()).count();
        let rest = 1.0 - sum;
        let after = format!("Row {}", row + 1);
        if rest < -SUM_TOLERANCE {
            let message = format!("{after}: the probabilities sum to {sum:.4}, more than 1.");
            return Err(Problem::new(Place::Row(row), message));
        }
        if blanks == 0 && rest > SUM_TOLERANCE {
            let message = format!(
                "{after}: the probabilities sum to {sum:.4}, not 1; leave a cell blank to take the rest."
            );
            return Err(Problem::new(Place::Row(row), message));
        }
        let share = rest.max(0.0) / blanks.max(1) as f64;
        Ok(typed.iter().map(|value| value.unwrap_or(share)).collect())
    }

    fn wrong_cell(&self, row: usize, column: usize, why: &str) -> Problem {
        let label = self.labels.get(column).map_or("", String::as_str);
        let message = format!("Row {}, {label}: {why}", row + 1);
        Problem::new(Place::Cell { row, column }, message)
    }

    fn tokenizer_json(&self) -> String {
        let vocab: serde_json::Map<_, _> = self
            .labels
            .iter()
            .zip(0u32..)
            .map(|(label, id)| (label.clone(), id.into()))
            .collect();
        serde_json::json!({
            "version": "1.0",
            "added_tokens": [],
            "pre_tokenizer": { "type": "WhitespaceSplit" },
            "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "" },
        })
        .to_string()
    }

    // ---- changing it -------------------------------------------------------------------------------------------

    pub fn cell(&self, row: usize, column: usize) -> &str {
        let row = self.rows.get(row);
        row.and_then(|row| row.get(column))
            .map_or("", String::as_str)
    }

    /// Sets a cell; one outside the sheet is left alone.
    pub fn set_cell(&mut self, row: usize, column: usize, text: String) {
        let columns = self.labels.len();
        if let Some(row) = self.rows.get_mut(row)
            && column < columns
        {
            row.resize(columns, String::new());
            row[column] = text;
        }
    }

    /// Fills cells from one on with numbers that stand beside each other, further lines in the rows below; numbers
    /// that the sheet has no room for are left out. False where `text` is a single cell's.
    pub fn paste(&mut self, row: usize, column: usize, text: &str) -> bool {
        let is_separator = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|');
        if !text.trim().contains(is_separator) {
            return false;
        }
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        for (below, line) in lines.enumerate() {
            // Between tabs a cell may be blank; between spaces none is.
            let cells: Vec<&str> = if line.contains('\t') {
                line.split('\t').collect()
            } else {
                line.split(is_separator)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            };
            for (right, cell) in cells.into_iter().enumerate() {
                self.set_cell(row + below, column + right, cell.trim().to_owned());
            }
        }
        true
    }

    /// A further row like the last one.
    pub fn add_row(&mut self) {
        if self.rows.len() < MAX_ROWS {
            let last = self.rows.last().cloned();
            self.rows.push(last.unwrap_or_default());
        }
    }

    pub fn remove_last_row(&mut self) {
        if self.rows.len() > 1 {
            self.rows.pop();
        }
    }

    /// A further token: of logit 0 everywhere, or with blank probabilities.
    pub fn add_label(&mut self) {
        if self.labels.len() >= MAX_LABELS {
            return;
        }
        let columns = self.labels.len();
        let name = (1..)
            .map(|n| format!("word{n}"))
            .find(|name| !self.labels.contains(name));
        self.labels.extend(name);
        let cell = match self.kind {
            Kind::Logits => "0",
            Kind::Probabilities => "",
        };
        for row in &mut self.rows {
            row.resize(columns, String::new());
            row.push(cell.to_owned());
        }
    }

    /// Takes the last token away, with its column.
    pub fn remove_last_label(&mut self) {
        if self.labels.len() > 2 {
            self.labels.pop();
            for row in &mut self.rows {
                row.truncate(self.labels.len());
            }
        }
    }

    /// Gives a token another label, in the prompt too. `base` is the sheet that last made sense: while a label is being
    /// typed it may be empty or another's for a moment, and the prompt must find it again.
    pub fn rename(&mut self, base: &Self, column: usize, label: &str) {
        let Some(own) = self.labels.get_mut(column) else {
            return;
        };
        own.replace_range(.., label);
        if let Some(old) = base.labels.get(column).filter(|_| !label.is_empty()) {
            let words = base.prompt.split_whitespace();
            let renamed: Vec<_> = words
                .map(|word| if word == old { label } else { word })
                .collect();
            self.prompt = renamed.join(" ");
        }
    }

    /// Whether the first token is an end-of-text that conditions the others.
    pub fn is_conditioned(&self) -> bool {
        self.prompt.split_whitespace().next() == Some(END_OF_TEXT)
    }
}

/// A finite number as people write it: with a true minus too.
fn parse(text: &str) -> Option<f64> {
    let value: f64 = text.replace('−', "-").parse().ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits() -> Sheet {
        Sheet::logits_example()
    }

    fn problem(sheet: &Sheet) -> (Place, String) {
        let problem = sheet.read().expect_err("a problem");
        (problem.place, problem.to_string())
    }

    #[test]
    fn bad_cells_are_named_with_row_and_token() {
        for (cell, why) in [
            ("", "a logit is missing."),
            ("two", "“two” is not a number; decimals take a point."),
            ("2,1", "“2,1” is not a number; decimals take a point."),
            ("NaN", "“NaN” is not a number; decimals take a point."),
            ("inf", "“inf” is not a number; decimals take a point."),
            ("1e300", "1e300 is too large for a logit."),
        ] {
            let mut sheet = logits();
            sheet.set_cell(2, 3, cell.to_owned());
            let place = Place::Cell { row: 2, column: 3 };
            assert_eq!(problem(&sheet), (place, format!("Row 3, down: {why}")));
        }
        let mut sheet = logits();
        sheet.set_cell(2, 3, " −2.1 ".to_owned());
        let toy = sheet.read().expect("a true minus is a minus");
        assert_eq!(toy.row(2).expect("a row").values[3], -2.1);
    }

    #[test]
    fn probabilities_sum_to_one_and_blanks_share_the_rest() {
        let row = |cells: [&str; 4]| {
            let mut sheet = Sheet::conditionals_example();
            sheet.rows[1] = cells.map(str::to_owned).to_vec();
            sheet
        };
        let probs = |sheet: &Sheet| {
            let toy = sheet.read().expect("a toy");
            let row = toy.row(1).expect("a row").clone();
            (0..4).map(|id| row.prob(id)).collect::<Vec<_>>()
        };
        let close = |found: Vec<f64>, expected: [f64; 4]| {
            for (a, b) in found.iter().zip(expected) {
                assert!((a - b).abs() < 1e-6, "{found:?}");
            }
        };
        close(probs(&row(["", "", "", ""])), [0.25; 4]);
        close(probs(&row(["0.1", "0.2", "0.7", ""])), [0.1, 0.2, 0.7, 0.0]);
        close(probs(&row(["0", "0", "1", "0"])), [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(
            problem(&row(["0.5", "0.4", "0.2", ""])),
            (
                Place::Row(1),
                "Row 2: the probabilities sum to 1.1000, more than 1.".to_owned()
            )
        );
        let (place, message) = problem(&row(["0.2", "0.2", "0.2", "0.2"]));
        assert_eq!(place, Place::Row(1));
        assert!(message.contains("sum to 0.8000, not 1"), "{message}");
        let (_, message) = problem(&row(["1.5", "", "", ""]));
        assert!(message.contains("1.5 is no probability"), "{message}");
    }

    #[test]
    fn labels_and_prompt_are_checked() {
        let mut twice = logits();
        twice.labels[1] = "the".to_owned();
        assert_eq!(problem(&twice).1, "Two tokens are labelled “the”.");
        let mut spaced = logits();
        spaced.labels[1] = "big cat".to_owned();
        assert_eq!(problem(&spaced).0, Place::Label(1));
        let mut empty = logits();
        empty.labels[0].clear();
        assert_eq!(problem(&empty).1, "Token 1 has no label.");
        let mut unknown = logits();
        unknown.prompt = "the dog".to_owned();
        assert_eq!(
            problem(&unknown).1,
            "“dog” in the prompt is no token of the toy."
        );
        let mut nothing = logits();
        nothing.prompt = "  ".to_owned();
        assert_eq!(problem(&nothing).0, Place::Prompt);
        let mut long = logits();
        long.rows.truncate(2);
        assert_eq!(problem(&long).0, Place::Prompt);
    }

    #[test]
    fn a_row_of_numbers_is_pasted_and_what_has_no_room_is_left_out() {
        let mut sheet = logits();
        assert!(!sheet.paste(0, 0, " 3.5 "), "one number is typed as usual");
        assert!(sheet.paste(2, 1, "1.0 2.0, 3.0; 9.0"));
        assert_eq!(sheet.rows[2], ["1.2", "1.0", "2.0", "3.0"]);
        assert!(sheet.paste(4, 0, "1\t2\t3\t4\n5\t\t7\t8\n9\t9\t9\t9\n"));
        assert_eq!(sheet.rows[4], ["1", "2", "3", "4"]);
        assert_eq!(sheet.rows[5], ["5", "", "7", "8"]);
        assert_eq!(sheet.rows.len(), 6);
    }

    #[test]
    fn rows_and_tokens_come_and_go_within_limits() {
        let mut sheet = logits();
        for _ in 0..100 {
            sheet.add_row();
            sheet.add_label();
        }
        assert_eq!(
            (sheet.rows.len(), sheet.labels.len()),
            (MAX_ROWS, MAX_LABELS)
        );
        assert!(sheet.read().is_ok());
        for _ in 0..100 {
            sheet.remove_last_label();
        }
        assert_eq!(sheet.labels.len(), 2);
        sheet.prompt = "the cat".to_owned();
        assert!(sheet.read().is_ok());
        for _ in 0..100 {
            sheet.remove_last_row();
        }
        assert_eq!(sheet.rows.len(), 1);
    }

    #[test]
    fn a_renamed_token_is_renamed_in_the_prompt() {
        let mut sheet = logits();
        let base = sheet.clone();
        for typed in ["ca", "", "d", "do", "dog"] {
            sheet.rename(&base, 1, typed);
        }
        assert_eq!(sheet.prompt, "the dog sat");
        assert!(sheet.read().is_ok());
        sheet.rename(&base, 9, "nothing");
        assert_eq!(sheet.labels.len(), 4);
    }

    #[test]
    fn a_text_of_labels_is_read_and_any_other_gives_the_prompt() {
        let toy = logits().read().expect("a toy");
        let ids = toy.ids_or_prompt("the cat sat down the");
        assert_eq!(ids, [0, 1, 2, 3, 0]);
        assert_eq!(toy.tokenizer().decode(&ids), "the cat sat down the");
        assert_eq!(toy.ids_or_prompt("Once upon a time"), [0, 1, 2]);
        assert_eq!(toy.ids_or_prompt(""), [0, 1, 2]);
        let conditioned = Sheet::conditionals_example().read().expect("a toy");
        let text = conditioned.tokenizer().decode(conditioned.prompt());
        assert_eq!(conditioned.ids_or_prompt(&text), [0, 1, 2, 3]);
        assert!(conditioned.sheet().is_conditioned());
    }
}
