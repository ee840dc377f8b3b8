//! Pointer, keyboard, sizes, and what is missing.

use super::*;

#[test]
fn the_panel_says_what_the_last_row_looks_at() {
    let session = session("Once upon a time", TINY);
    let mut options = Options {
        layer: 0,
        head: 0,
        ..Default::default()
    };
    let scene = Scene::read(&session, options);
    assert_eq!(scene.rows, 4);
    assert_eq!(
        scene.subtitle(None, 1),
        "layer 1, head 1 · weights · last row: “·time” looks at “·upon” 0.29, “·time” 0.29"
    );
    assert_eq!(
        scene.subtitle(Some((2, 0)), 1),
        "layer 1, head 1 · weights · pinned: “·a” looks at “Once” 0.365"
    );
    assert!(
        scene
            .subtitle(Some((0, 2)), 1)
            .ends_with("“Once” looks at “·a” masked")
    );
    // More layers and heads than there are: cut, not forgotten.
    options.layer = 90;
    options.head = 90;
    let scene = Scene::read(&session, options);
    assert_eq!((scene.options.layer, scene.options.head), (2, 3));
    options.over = Over::Layer;
    let scene = Scene::read(&session, options);
    assert!(
        scene
            .subtitle(None, 1)
            .starts_with("layer 3, mean over its 4 heads · weights")
    );
    assert_eq!(scene.table().lines().count(), 5);
}

#[test]
fn nothing_panics_at_any_size_with_any_text() {
    let gpu = gpu();
    for gpu in [None, gpu] {
        for (text, shape) in [
            ("", TINY),
            (
                "a",
                Shape {
                    n_layer: 1,
                    n_head: 1,
                },
            ),
            (
                "Once upon a time",
                Shape {
                    n_layer: 48,
                    n_head: 25,
                },
            ),
            ("\u{202e}né\t\n\u{1F600}", TINY),
        ] {
            let mut stage = stage(session(text, shape), gpu.clone());
            stage.scale = 2.5;
            // The renderer is not asked for pictures, so that one device serves many windows.
            let mut harness = Harness::builder()
                .with_size(SIZE)
                .allow_missing_glyphs()
                .build_ui_state(
                    |ui, stage: &mut Stage| {
                        let mut ctx = PanelContext {
                            session: &stage.session,
                            theme: stage.theme,
                            scale: stage.scale,
                            actions: &mut stage.actions,
                            panels: &mut stage.panels,
                            gpu: stage.gpu.as_ref(),
                            now: 0.0,
                        };
                        show(ui, &mut ctx);
                    },
                    stage,
                );
            harness.ctx.set_fonts(theme::fonts());
            harness.ctx.add_font(egui_material_icons::font_insert());
            for (width, height) in [
                (900.0, 600.0),
                (300.0, 200.0),
                (60.0, 400.0),
                (200.0, 30.0),
                (1.0, 1.0),
                (0.0, 0.0),
            ] {
                for quantity in [Quantity::Weights, Quantity::Scores, Quantity::Mask] {
                    let state = &mut harness.state_mut().panels.attention;
                    state.options = Options {
                        quantity,
                        logarithmic: width > 100.0,
                        over: Over::ALL[(width + height) as usize % 5],
                        without_first: width > 250.0,
                        ..state.options
                    };
                    harness.set_size(vec2(width, height));
                    harness.hover_at(pos2(0.3 * width, 0.6 * height));
                    harness.step();
                }
            }
        }
    }
}

#[test]
fn the_pointer_reads_a_cell_and_a_click_pins_it() {
    let mut window = window(stage(session("Once upon a time", TINY), gpu()), SIZE);
    window.step();
    let rect = heatmap_rect(&window);
    // Eight cells along the side: query 3, key 1.
    let at = |key: usize, query: usize| {
        rect.min + vec2(key as f32 + 0.5, query as f32 + 0.5) * rect.width() / 8.0
    };
    window.hover_at(at(1, 3));
    window.run_steps(3);
    assert_eq!(window.state().panels.hovered_token, Some(1));
    assert!(has(&window, "query ·time, key ·upon"));
    click(&mut window, at(1, 3));
    assert_eq!(window.state().panels.attention.pinned, Some((3, 1)));
    assert!(has(&window, "pinned: “·time” looks at “·upon”"));
    // The pointer leaves: the other panels are told.
    window.hover_at(pos2(rect.right() + 30.0, rect.bottom() + 200.0));
    window.run_steps(2);
    assert_eq!(window.state().panels.hovered_token, None);
    // Arrows move the pin, Esc is the window's.
    window.key_press(Key::ArrowUp);
    window.run_steps(2);
    assert_eq!(window.state().panels.attention.pinned, Some((2, 1)));
    window.key_press(Key::ArrowRight);
    window.key_press(Key::ArrowRight);
    window.run_steps(2);
    assert_eq!(window.state().panels.attention.pinned, Some((2, 3)));
    assert!(has(&window, "query ·a, key ·time: masked"));
    window.state_mut().panels.release_pins();
    window.run_steps(1);
    assert_eq!(window.state().panels.attention.pinned, None);
    // A token hovered in another panel shows here and stays theirs.
    window.state_mut().panels.hovered_token = Some(2);
    window.run_steps(2);
    assert_eq!(window.state().panels.hovered_token, Some(2));
}

#[test]
fn the_wheel_zooms_about_the_pointer_and_a_double_click_resets() {
    let mut window = window(stage(session(&long_text(40), TINY), gpu()), SIZE);
    window.step();
    let rect = heatmap_rect(&window);
    let at = rect.min + 0.25 * rect.size();
    window.hover_at(at);
    window.step();
    for _ in 0..6 {
        window.event(egui::Event::MouseWheel {
            unit: egui::MouseWheelUnit::Line,
            delta: vec2(0.0, 3.0),
            phase: egui::TouchPhase::Move,
            source: egui::MouseWheelSource::Wheel,
            modifiers: Modifiers::NONE,
        });
        window.run_steps(4);
    }
    // egui spreads a turn of the wheel over several frames.
    window.run_steps(60);
    let zoom = window.state().panels.attention.zoom;
    assert!(zoom.factor > 1.5, "{zoom:?}");
    let side = crate::heatmap::side_for(40) as f32;
    let cell = |first: f32, factor: f32| first + 0.25 * side / factor;
    assert!(
        (cell(zoom.first.x, zoom.factor) - 0.25 * side).abs() < 0.1,
        "{zoom:?}"
    );
    for pressed in [true, false, true, false] {
        window.event(button(at, pressed));
    }
    window.run_steps(2);
    assert_eq!(window.state().panels.attention.zoom, Zoom::default());
    assert_eq!(window.state().panels.attention.pinned, None);
}

#[test]
fn a_head_of_the_wall_opens_and_the_session_is_told_its_layer() {
    let Some(gpu) = gpu() else { return };
    let mut window = window(stage(session(&long_text(20), STORYTELLER), Some(gpu)), SIZE);
    window.step();
    let layers = |window: &Harness<'static, Stage>| -> Vec<usize> {
        let layer = |action: &Action| match action {
            Action::FocusLayer(layer) => Some(*layer),
            _ => None,
        };
        window.state().actions.iter().filter_map(layer).collect()
    };
    assert_eq!(layers(&window), [2]);
    let wall = window.get_by_label_contains("All 48 heads").rect();
    let pitch = vec2(wall.width() / 8.0, wall.height() / 6.0);
    click(&mut window, wall.min + vec2(1.4, 4.4) * pitch);
    let options = window.state().panels.attention.options;
    assert_eq!((options.layer, options.head), (4, 1));
    assert_eq!(layers(&window), [2, 4]);
    assert!(has(&window, "layer 5, head 2 · weights"));
    // It has the keyboard now.
    window.key_press(Key::ArrowUp);
    window.key_press(Key::ArrowRight);
    window.run_steps(2);
    let options = window.state().panels.attention.options;
    assert_eq!((options.layer, options.head), (3, 2));
    assert!(window.state().panels.attention.gpu_bytes() > 0);
}

#[test]
fn without_a_device_the_head_is_drawn_and_the_wall_says_why_it_is_not() {
    let mut window = window(stage(session("Once upon a time", TINY), None), SIZE);
    window.run_steps(2);
    assert!(has(
        &window,
        "No wall of all heads: this window has no graphics device"
    ));
    heatmap_rect(&window);
    let held = |window: &Harness<'static, Stage>| {
        window
            .state()
            .panels
            .attention
            .drawer
            .texture_id()
            .expect("a texture")
    };
    let before = held(&window);
    window.run_steps(3);
    assert_eq!(held(&window), before);
}

/// The paint callback lands on the very pixels that the texture from the CPU does, at any scale and zoom.
#[test]
fn the_square_looks_the_same_with_and_without_a_device() {
    for (pixels_per_point, factor, quantity) in [
        (1.0, 1.0, Quantity::Weights),
        (1.25, 1.0, Quantity::Scores),
        (1.5, 2.7, Quantity::Weights),
        (2.0, 1.0, Quantity::Mask),
    ] {
        let picture = |drawer: Drawer, gpu: RenderState| {
            let mut stage = stage(session("Once upon a time there was", TINY), Some(gpu));
            let state = &mut stage.panels.attention;
            state.options.quantity = quantity;
            state.drawer = drawer;
            state.zoom = Zoom {
                factor,
                first: vec2(0.4, 1.3),
            };
            let mut window = window(stage, SIZE);
            window.set_pixels_per_point(pixels_per_point);
            window.run_steps(2);
            let rect = heatmap_rect(&window) * pixels_per_point;
            (window.render().unwrap(), rect)
        };
        // Each renderer needs a device that nothing has drawn on.
        let (Some(one), Some(other)) = (gpu(), gpu()) else {
            return;
        };
        let (on_device, rect) = picture(Drawer::default(), one);
        let (on_cpu, same_rect) = picture(Drawer::without_device(), other);
        assert_eq!(rect, same_rect);
        let mut colors = std::collections::HashSet::new();
        for y in rect.top() as u32..rect.bottom() as u32 {
            for x in rect.left() as u32..rect.right() as u32 {
                let (a, b) = (on_device.get_pixel(x, y), on_cpu.get_pixel(x, y));
                let near = a.0.iter().zip(b.0).all(|(&a, b)| a.abs_diff(b) <= 2);
                assert!(
                    near,
                    "pixel {x}, {y} at {pixels_per_point}: {a:?} and {b:?}"
                );
                colors.insert(a.0);
            }
        }
        assert!(colors.len() > 3, "something is drawn");
    }
}

#[test]
fn a_layer_that_was_let_go_is_said_and_offered_again() {
    let mut session = session(&long_text(20), TINY);
    let rows = session.len();
    session.set_budget_bytes(rows * 8 * 4);
    let mut window = window(stage(session, gpu()), SIZE);
    window.run_steps(2);
    assert!(has(&window, "Layer 3 was let go for memory."));
    assert!(!has(&window, "looks at"));
    window.get_by_label("Recompute").click();
    window.run_steps(2);
    let asked = |action: &Action| matches!(action, Action::Recompute);
    assert!(window.state().actions.iter().any(asked));
}

#[test]
fn a_mean_over_layers_says_what_is_missing_and_is_offered_again_where_it_would_fit() {
    let mut held = session(&long_text(60), TINY);
    let (rows, heads) = (held.len(), TINY.heads());
    let all = 4 * heads * crate::heatmap::words_before(rows);
    // Logits take their share: attention alone fits at twice its size, and does not at half of it.
    for (budget, fits) in [(2 * all, true), (all / 2, false)] {
        held.set_budget_bytes(1);
        held.set_budget_bytes(budget);
        let mut stage = stage(session(&long_text(60), TINY), None);
        std::mem::swap(&mut stage.session, &mut held);
        stage.panels.attention.options.over = Over::All;
        let mut window = window(stage, SIZE);
        window.run_steps(2);
        assert!(has(&window, "At least one layer was let go for memory."));
        assert_eq!(has(&window, "Recompute"), fits);
        assert_eq!(has(&window, "more than the budget of "), !fits);
        std::mem::swap(&mut window.state_mut().session, &mut held);
    }
}

#[test]
fn options_survive_a_restart() {
    let mut state = AttentionState::default();
    state.options.open(4, 1);
    state.options.logarithmic = true;
    let text = serde_json::to_string(&state).unwrap();
    let read: AttentionState = serde_json::from_str(&text).unwrap();
    assert_eq!(read.options, state.options);
    let read: AttentionState = serde_json::from_str("{}").unwrap();
    assert_eq!(read.options, Options::default());
}
