//! Panels, examples, appearance and type size.

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::ui::{Panel, transport::EXAMPLES};

use crate::window::Window;

fn shows(window: &Window, panel: Panel) -> bool {
    let menu = format!("{} menu", panel.title()).to_lowercase();
    window
        .harness
        .query_by(move |node| node.label().is_some_and(|name| name.to_lowercase() == menu))
        .is_some()
}

fn toggle(window: &mut Window, panel: Panel) {
    window.click("Panels");
    window
        .harness
        .get_by_role_and_label(Role::CheckBox, panel.title())
        .click();
    window.settle();
    close_menus(window);
}

fn close_menus(window: &mut Window) {
    let corner = egui::pos2(2.0, 880.0);
    window.drag(corner, corner);
}

#[test]
fn the_default_window_shows_its_panels_and_no_others() {
    let window = Window::new();
    for panel in Panel::ALL {
        let first = Panel::FIRST.contains(&panel);
        assert_eq!(shows(&window, panel), first, "{panel:?}");
    }
}

#[test]
fn panels_close_and_open_and_the_layout_resets() {
    let mut window = Window::new();
    for panel in Panel::FIRST {
        toggle(&mut window, panel);
        assert!(!shows(&window, panel), "{panel:?} is closed");
    }
    for panel in Panel::FIRST {
        toggle(&mut window, panel);
        assert!(shows(&window, panel), "{panel:?} is open again");
    }
    toggle(&mut window, Panel::Text);
    toggle(&mut window, Panel::Timeline);
    window.click("Panels");
    window.click("Reset layout");
    for panel in Panel::FIRST {
        assert!(shows(&window, panel), "{panel:?}");
    }
}

#[test]
fn a_run_goes_on_while_its_panels_are_closed_and_opened() {
    let mut window = Window::new();
    window.click("Run");
    for panel in Panel::FIRST {
        toggle(&mut window, panel);
        window.append(2);
    }
    for panel in Panel::FIRST {
        toggle(&mut window, panel);
        window.append(2);
    }
    assert_eq!(window.session().len(), 4 + 4 * Panel::FIRST.len());
}

#[test]
fn one_panel_alone_and_escape() {
    for panel in Panel::ALL {
        let mut window = Window::new();
        window.click("Panels");
        window.button("Show one alone").hover();
        window.settle();
        window
            .harness
            .get_by_role_and_label(Role::RadioButton, panel.title())
            .click();
        window.settle();
        for other in Panel::ALL {
            assert_eq!(shows(&window, other), other == panel, "{panel:?} {other:?}");
        }
        window.press(Key::Escape);
        for other in Panel::FIRST {
            assert!(shows(&window, other), "{panel:?} {other:?}");
        }
    }
}

#[test]
fn every_example_is_ready_to_run() {
    let mut window = Window::new();
    assert_eq!(EXAMPLES.len(), 10);
    for (name, text) in EXAMPLES {
        window.click("Examples");
        window.click(name);
        assert_eq!(window.text(), text);
        window.wait(0.3);
        assert!(window.session().is_open_step() && window.session().view().is_some());
        window.click("Step");
        window.append(1);
        window.click("Stop");
        assert_eq!(window.session().counts().generated, 1, "{name}");
    }
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert_eq!(window.text(), EXAMPLES[9].1, "the step is undone");
    window.press_with(Modifiers::COMMAND, Key::Z);
    assert!(window.text().starts_with(EXAMPLES[8].1), "then the example");
}

#[test]
fn appearance_and_type_size_change_and_are_remembered() {
    let mut window = Window::new();
    window.click("Dark appearance");
    assert_eq!(window.harness.state().remembered().dark, Some(true));
    assert!(window.harness.ctx.global_style().visuals.dark_mode);
    window.click("Light appearance");
    assert!(!window.harness.ctx.global_style().visuals.dark_mode);

    let body = |window: &Window| {
        let style = window.harness.ctx.global_style();
        egui::TextStyle::Body.resolve(&style).size
    };
    let usual = body(&window);
    window.click("Type size");
    window
        .harness
        .get_by_role_and_label(Role::RadioButton, "200 %")
        .click();
    window.settle();
    assert_eq!(window.harness.state().remembered().scale, 2.0);
    assert_eq!(body(&window), 2.0 * usual);
    window.press_with(Modifiers::COMMAND, Key::Plus);
    assert_eq!(window.harness.state().remembered().scale, 2.5);
    window.press_with(Modifiers::COMMAND, Key::Plus);
    assert_eq!(window.harness.state().remembered().scale, 2.5);
    for _ in 0..7 {
        window.press_with(Modifiers::COMMAND, Key::Minus);
    }
    assert_eq!(body(&window), usual);
}

#[test]
fn pace_is_remembered_and_reaches_a_run() {
    let mut window = Window::new();
    window.click("Run");
    window.append(1);
    window
        .harness
        .get_by_role_and_label(Role::ComboBox, "Pace")
        .click();
    window.settle();
    window.click("20 tokens/s");
    let pace = logitscope::worker::Pace::TokensPerSecond(20);
    assert_eq!(window.session().pace(), pace);
    assert!(matches!(
        window.player.heard.last(),
        Some(logitscope::worker::Command::Pace(told)) if *told == pace
    ));
}
