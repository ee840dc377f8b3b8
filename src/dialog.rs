//! What a file dialog is answered with. The system's dialogs say nothing where there is none to open: that is told from
//! its haste.

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    time::{Duration, Instant},
};

/// A path, nothing where the user chose none, or a sentence where no dialog could be opened.
pub type Answer = Result<Option<PathBuf>, String>;

/// A dialog that is open. Made on the window's thread, waited for on another.
pub type Dialog = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Nobody closes a dialog this soon after it was asked for.
const TOO_SOON: Duration = Duration::from_millis(150);

/// Waits for one of the system's dialogs.
pub fn of_system(dialog: impl Future<Output = Option<rfd::FileHandle>> + Send + 'static) -> Dialog {
    let asked = Instant::now();
    Box::pin(async move {
        match dialog.await {
            Some(chosen) => Ok(Some(chosen.path().to_owned())),
            None if asked.elapsed() < TOO_SOON => Err(none_opened().to_owned()),
            None => Ok(None),
        }
    })
}

fn none_opened() -> &'static str {
    if cfg!(target_os = "linux") {
        "No file dialog could be opened. Install a desktop portal (xdg-desktop-portal with its part for GTK or KDE) or zenity."
    } else {
        "No file dialog could be opened."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_too_soon_for_anyone_is_a_dialog_that_never_was() {
        let no_dialog = pollster::block_on(of_system(async { None }));
        assert!(no_dialog.is_err_and(|why| why.starts_with("No file dialog")));
        let closed = pollster::block_on(of_system(async {
            std::thread::sleep(2 * TOO_SOON);
            None
        }));
        assert_eq!(closed, Ok(None));
    }
}
