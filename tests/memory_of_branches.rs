//! Ten branches of a text of 500 tokens, all panels with their own record on screen: what the program holds beyond the
//! record that the status line shows must not grow.

#[path = "support/layout.rs"]
mod layout;
#[path = "support/memory.rs"]
mod memory;
#[path = "support/player.rs"]
mod player;
#[path = "support/window.rs"]
mod window;

use egui::Key;
use egui_kittest::kittest::Queryable as _;
use layout::{APART, remembered_with_panels};
use memory::{assert_steady, idle, open, report, run_to, session, until};
use peak_alloc::PeakAlloc;

/// Counts what the program asked for and has not given back: what is resident has the allocator's gaps in it, of which
/// rows of so many lengths leave some.
#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const BRANCHES: usize = 10;
const LENGTH: usize = 500;

#[test]
fn ten_branches_of_500_tokens_leave_nothing_behind_but_their_record() {
    let Some(mut harness) = open(remembered_with_panels(&APART)) else {
        return;
    };
    run_to(&mut harness, LENGTH);
    let mut after = Vec::new();
    for branch in 2..=BRANCHES {
        let step = LENGTH - 25 * branch;
        for _ in step..=LENGTH {
            harness.key_press(Key::F7);
            harness.step();
        }
        let chosen = session(&harness).ids()[session(&harness).selected()];
        let top = &session(&harness).view().expect("a step").top;
        let rank = 1 + usize::from(top[0].id == chosen);
        let name = format!(", rank {rank}, model P ");
        harness.get_by_label_contains(&name).click();
        until(&mut harness, "the branch is predicted", |session| {
            idle(session) && session.len() < LENGTH && session.view().is_some()
        });
        run_to(&mut harness, LENGTH);
        let what = format!("branch {branch}");
        after.push(report(&harness, &what, HEAP.current_usage()));
    }
    assert_eq!(session(&harness).branches().len(), BRANCHES);
    assert_steady(after[1], after[after.len() - 1]);
}
