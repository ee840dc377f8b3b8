//! Finding tokens by text or id.

use super::Tokenizer;

impl Tokenizer {
    /// At most `limit` tokens for what someone typed into a search field, the likeliest meant first:
    /// tokens that are this text, with or without a space before it; the token with this id (`4314`
    /// or `#4314`); the text in other case; tokens that begin with it; tokens that contain it. Equal
    /// ones by id. `·`, `↵` and `⇥` may be typed as labels show them. Case of ASCII letters is
    /// ignored except where said.
    pub fn find(&self, query: &str, limit: usize) -> Vec<u32> {
        let text = query
            .replace('·', " ")
            .replace('↵', "\n")
            .replace('⇥', "\t");
        let query_bytes = text.as_bytes();
        if query_bytes.is_empty() {
            return Vec::new();
        }
        let wanted_id = query.trim().trim_start_matches('#').parse::<u32>().ok();
        let mut found: Vec<(u8, u32)> = self
            .inner
            .pieces
            .iter()
            .zip(0u32..)
            .filter_map(|(piece, id)| {
                let tier = match piece.as_deref() {
                    Some(piece) if piece == query_bytes => Some(0),
                    Some(piece) if piece.strip_prefix(b" ") == Some(query_bytes) => Some(1),
                    Some(_) if wanted_id == Some(id) => Some(2),
                    Some(piece) => loose(piece, query_bytes),
                    None => None,
                };
                Some((tier?, id))
            })
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, id)| id).take(limit).collect()
    }
}

/// How well a piece matches when case does not count: 3 the same, 4 begins with it, 5 contains it.
fn loose(piece: &[u8], query: &[u8]) -> Option<u8> {
    let bare = piece.strip_prefix(b" ").unwrap_or(piece);
    let begins = |text: &[u8]| {
        text.get(..query.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(query))
    };
    if piece.eq_ignore_ascii_case(query) || bare.eq_ignore_ascii_case(query) {
        Some(3)
    } else if begins(piece) || begins(bare) {
        Some(4)
    } else {
        let inside = piece
            .windows(query.len())
            .any(|part| part.eq_ignore_ascii_case(query));
        inside.then_some(5)
    }
}
