//! Other panels in the places of a first start's.

use logitscope::{store::Remembered, ui::Panel};

/// The panels that take the loop, the sequence, the tree and the head apart, all on screen at once.
pub const APART: [(Panel, Panel); 4] = [
    (Panel::Tokens, Panel::Branches),
    (Panel::Sampling, Panel::Sequence),
    (Panel::Attention, Panel::Loop),
    (Panel::Logits, Panel::LmHead),
];

/// What is remembered of a first start, with the second of each pair in the place of the first.
pub fn remembered_with_panels(places: &[(Panel, Panel)]) -> Remembered {
    let mut text = serde_json::to_string(&Remembered::default()).expect("JSON");
    let pane = |panel: Panel| format!("{{\"Pane\":\"{panel:?}\"}}");
    for &(old, new) in places {
        assert!(text.contains(&pane(old)), "{old:?} is in the first layout");
        text = text.replace(&pane(old), &pane(new));
    }
    serde_json::from_str(&text).expect("what was written")
}
