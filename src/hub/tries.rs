//! Trying again after a failure that may pass, a bounded number of times and with growing pauses.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use super::{HubError, Patience};

/// Longest wait between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// How often a wait looks whether it was cancelled.
pub(super) const WAIT_STEP: Duration = Duration::from_millis(50);

/// A break cancels.
pub(super) fn go_on(flow: ControlFlow<()>) -> Result<(), HubError> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(HubError::Cancelled),
    }
}

/// Tries again after a failure that may pass, with growing pauses.
///
/// # Errors
/// That of the last try, or [`HubError::Cancelled`].
pub(super) fn with_tries<T>(
    patience: &Patience,
    on_wait: &mut dyn FnMut() -> ControlFlow<()>,
    mut attempt: impl FnMut() -> Result<T, HubError>,
) -> Result<T, HubError> {
    let mut failures = 0;
    loop {
        match attempt() {
            Err(error) if error.is_passing() => {
                failures += 1;
                if failures >= patience.tries {
                    return Err(error);
                }
                pause(patience, failures, on_wait)?;
            }
            done => return done,
        }
    }
}

/// Waits after so many failures in a row.
pub(super) fn pause(
    patience: &Patience,
    failures: u32,
    on_wait: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<(), HubError> {
    let length = patience
        .pause
        .saturating_mul(1 << (failures - 1).min(16))
        .min(LONGEST_PAUSE);
    let end = Instant::now() + length;
    loop {
        go_on(on_wait())?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(WAIT_STEP));
    }
}
