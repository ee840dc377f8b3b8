//! Comma-separated values as RFC 4180 has them, below a header of comment lines.
//!
//! A comment line is `# key: value`, the value as a JSON string where it holds line breaks or other control
//! characters. Cells that hold a comma, a quote or a line break are quoted.

use std::fmt::Write as _;

use super::Facts;

/// A table whose cells are separated by tabs and whose rows end in line feeds, as panels copy them, with a header that
/// says what it was made from.
pub fn csv(facts: &Facts, table: &str) -> String {
    let mut out = String::with_capacity(table.len() + 1024);
    for (key, value) in facts.iter() {
        let plain = !value.chars().any(char::is_control) && !value.starts_with('"');
        let value = if plain {
            value.to_owned()
        } else {
            serde_json::Value::from(value).to_string()
        };
        let _ = writeln!(out, "# {key}: {value}");
    }
    for row in table.lines() {
        for (index, cell) in row.split('\t').enumerate() {
            if index > 0 {
                out.push(',');
            }
            push_cell(&mut out, cell);
        }
        out.push('\n');
    }
    out
}

fn push_cell(out: &mut String, cell: &str) {
    // A first cell that begins with # would read as a comment.
    if cell.contains([',', '"', '\n', '\r']) || cell.starts_with('#') {
        out.push('"');
        out.push_str(&cell.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(cell);
    }
}

/// Reads what [`csv`] writes: the header's keys and values, and the cells.
pub fn parse(text: &str) -> (Vec<(String, String)>, Vec<Vec<String>>) {
    let mut facts = Vec::new();
    let mut rest = text;
    while let Some(line) = rest.strip_prefix("# ") {
        let (line, after) = line.split_once('\n').unwrap_or((line, ""));
        if let Some((key, value)) = line.split_once(": ") {
            let value = match value.starts_with('"') {
                true => serde_json::from_str(value).unwrap_or_else(|_| value.to_owned()),
                false => value.to_owned(),
            };
            facts.push((key.to_owned(), value));
        }
        rest = after;
    }
    (facts, cells(rest))
}

fn cells(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = vec![String::new()];
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                push(&mut row, '"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(std::mem::replace(&mut row, vec![String::new()])),
            c => push(&mut row, c),
        }
    }
    if row.len() > 1 || row.iter().any(|cell| !cell.is_empty()) {
        rows.push(row);
    }
    rows
}

fn push(row: &mut [String], c: char) {
    if let Some(cell) = row.last_mut() {
        cell.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let facts = Facts::default()
            .with("prompt", "She said: \"no\",\nand left\r\n")
            .with("text", "\"quoted\" first")
            .with("empty", "")
            .with("unicode", "東京 é");
        let text = csv(&facts, "a, b\tc \"d\"\t#\n1\t\t-2.5\n#x\t,\t\"\n");
        assert!(text.starts_with("# prompt: \"She said"));
        let (read, cells) = parse(&text);
        let expected: Vec<_> = facts
            .iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        assert_eq!(read, expected);
        assert_eq!(
            cells,
            [
                ["a, b", "c \"d\"", "#"],
                ["1", "", "-2.5"],
                ["#x", ",", "\""]
            ]
        );
    }
}
