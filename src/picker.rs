//! Asks which model is to be opened, on a thread of its own: no frame waits for the dialog.

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    sync::mpsc::{Receiver, channel},
};

/// What the dialog lets the user choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A model's folder.
    Folder,
    /// One of a model's files, which stands for its folder.
    File,
}

/// What the user chose; `None` where nothing.
pub type Choice = Pin<Box<dyn Future<Output = Option<PathBuf>> + Send>>;

/// Called on the window's thread, waited for on another.
pub type Ask = Box<dyn Fn(Pick) -> Choice>;

/// One dialog at a time.
pub struct Picker {
    ask: Ask,
    open: Option<Receiver<Option<PathBuf>>>,
}

impl Picker {
    /// With the system's own dialogs.
    pub fn native() -> Self {
        Self::asking(Box::new(native_dialog))
    }

    pub fn asking(ask: Ask) -> Self {
        Self { ask, open: None }
    }

    /// Opens a dialog, unless one is open. `wake` is called when there is an answer.
    pub fn open(&mut self, what: Pick, wake: impl FnOnce() + Send + 'static) {
        if self.open.is_some() {
            return;
        }
        let (sender, receiver) = channel();
        self.open = Some(receiver);
        let choice = (self.ask)(what);
        std::thread::spawn(move || {
            // A window that is gone needs no answer.
            let _ = sender.send(pollster::block_on(choice));
            wake();
        });
    }

    /// What was chosen since the last call.
    pub fn take(&mut self) -> Option<PathBuf> {
        let answer = self.open.as_ref()?.try_recv().ok()?;
        self.open = None;
        answer
    }
}

fn native_dialog(what: Pick) -> Choice {
    let dialog = rfd::AsyncFileDialog::new();
    match what {
        Pick::Folder => {
            let folder = dialog.set_title("Open a GPT-2 folder").pick_folder();
            Box::pin(async move { Some(folder.await?.path().to_owned()) })
        }
        Pick::File => {
            let file = dialog
                .set_title("Open a file of a GPT-2")
                .add_filter("model files", &["safetensors", "bin", "json"])
                .pick_file();
            Box::pin(async move { Some(file.await?.path().to_owned()) })
        }
    }
}
