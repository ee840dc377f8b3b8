//! Arcs over the tokens.

use super::*;

const TALL: Vec2 = vec2(600.0, 620.0);

fn with_arcs(session: Session) -> Harness<'static, Stage> {
    let mut stage = stage(session, None);
    stage.panels.attention.options = Options {
        layer: 0,
        head: 0,
        arcs: true,
        ..Default::default()
    };
    let mut window = window(stage, TALL);
    window.run_steps(3);
    window
}

#[test]
fn a_click_on_a_token_draws_from_it_and_arrows_go_on() {
    let mut window = with_arcs(session("Once upon a time", TINY));
    // The current row until another is chosen.
    assert!(has(
        &window,
        "Attention arcs, layer 1, head 1, from ·time to "
    ));
    assert!(has(&window, "·time 0.287"));
    let line = window.get_by_label_contains("Attention arcs").rect();
    click(&mut window, pos2(line.left() + 20.0, line.top() + 20.0));
    assert!(has(&window, "from Once to Once 1.00"));
    assert_eq!(window.state().panels.attention.pinned, Some((0, 0)));
    window.key_press(Key::ArrowRight);
    window.run_steps(2);
    assert!(has(&window, "from ·upon to "));
    window.key_press(Key::End);
    window.run_steps(2);
    assert!(has(&window, "from ·time to "));
    window.key_press(Key::ArrowRight);
    window.key_press(Key::Home);
    window.run_steps(2);
    assert!(has(&window, "from Once to "));
    // The pointer on a token is told to the other panels, until it leaves.
    window.hover_at(pos2(line.left() + 20.0, line.top() + 20.0));
    window.run_steps(2);
    assert_eq!(window.state().panels.hovered_token, Some(0));
    window.hover_at(pos2(line.left() + 20.0, line.top() - 40.0));
    window.run_steps(2);
    assert_eq!(window.state().panels.hovered_token, None);
    // Esc lets go: the current row again.
    window.state_mut().panels.release_pins();
    window.run_steps(2);
    assert!(has(&window, "from ·time to "));
}

#[test]
fn the_toggle_is_beside_the_square_and_remembered() {
    let mut window = window(stage(session("Once upon a time", TINY), None), TALL);
    window.run_steps(2);
    assert!(!has(&window, "Attention arcs"));
    window.get_by_label("show arcs").click();
    window.run_steps(3);
    assert!(has(&window, "Attention arcs") && has(&window, "Attention heatmap"));
    let text = serde_json::to_string(&window.state().panels.attention).unwrap();
    let read: AttentionState = serde_json::from_str(&text).unwrap();
    assert!(read.options.arcs);
}

#[test]
fn a_long_text_scrolls_to_its_query_and_nan_is_no_arc() {
    let mut window = with_arcs(session(&long_text(300), TINY));
    let rows = window.state().session.len();
    let line = window.get_by_label_contains("Attention arcs").rect();
    assert!(line.height() > 1000.0, "more lines than fit");
    // The last token is in view: a click near the bottom is on one of the last line's.
    click(&mut window, pos2(60.0, TALL.y - 40.0));
    let (query, _) = window.state().panels.attention.pinned.expect("pinned");
    assert!(query + 20 > rows, "{query} of {rows}");
    window.key_press(Key::ArrowUp);
    window.run_steps(2);
    let (above, _) = window.state().panels.attention.pinned.expect("pinned");
    assert!(
        above + 4 < query && above + 20 > query,
        "{above} above {query}"
    );
    // One window at a time draws.
    drop(window);
    let mut held = session("Once upon a time", TINY);
    let mut row = prediction(TINY, 3);
    row.attention = Some(Arc::new(AttentionRow {
        n_head: 4,
        keys: 4,
        layers: (0..3)
            .map(|_| {
                Some(Arc::new(LayerRow {
                    words: (0..4).flat_map(|_| pack_weights(&[f32::NAN; 4])).collect(),
                    log_sum_exp: vec![f32::NAN; 4],
                }))
            })
            .collect(),
    }));
    put_on_record(&mut held, 3, row);
    let window = with_arcs(held);
    // No key is named.
    window.get_by_label("Attention arcs, layer 1, head 1, from ·time to ");
}
