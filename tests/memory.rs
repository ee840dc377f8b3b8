//! Ten runs of 200 tokens: what is resident beyond the record that the status line shows must not grow.

#[path = "support/memory.rs"]
mod memory;
#[path = "support/player.rs"]
mod player;
#[path = "support/window.rs"]
mod window;

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable as _;
use logitscope::store::Remembered;
use memory::{TOKENS, assert_steady, idle, open, report, run_to, session, until};

const RUNS: usize = 10;

#[test]
fn two_thousand_tokens_over_ten_runs_leave_nothing_behind_but_their_record() {
    let Some(mut harness) = open(Remembered::default()) else {
        return;
    };
    let mut after = Vec::new();
    for run in 1..=RUNS {
        let prompt = format!("Once upon a time, {run}");
        harness
            .get_by_role_and_label(Role::MultilineTextInput, "Prompt")
            .focus();
        harness.step();
        harness.key_press_modifiers(Modifiers::COMMAND, Key::A);
        harness.step();
        harness.event(egui::Event::Paste(prompt.clone()));
        until(&mut harness, "the prompt is predicted", |session| {
            idle(session) && session.text() == prompt && session.prediction(session.len()).is_some()
        });
        let typed = session(&harness).len();
        run_to(&mut harness, typed + TOKENS);
        let resident = memory_stats::memory_stats().map_or(0, |stats| stats.physical_mem);
        after.push(report(&harness, &format!("run {run}"), resident));
    }
    assert_steady(after[1], after[RUNS - 1]);
}
