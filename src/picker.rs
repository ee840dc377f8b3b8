//! Asks which model is to be opened, on a thread of its own: no frame waits for the dialog.

use std::{
    path::PathBuf,
    sync::mpsc::{Receiver, channel},
};

use crate::dialog::{self, Answer, Dialog};

/// What the dialog lets the user choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// A model's folder.
    Folder,
    /// One of a model's files, which stands for its folder.
    File,
}

/// Opens a dialog, on the window's thread.
pub type Ask = Box<dyn Fn(Pick) -> Dialog>;

/// One dialog at a time.
pub struct Picker {
    ask: Ask,
    open: Option<Receiver<Answer>>,
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

    /// What was chosen since the last call, or why nothing could be.
    pub fn take(&mut self) -> Option<Result<PathBuf, String>> {
        let answer = self.open.as_ref()?.try_recv().ok()?;
        self.open = None;
        answer.transpose()
    }
}

fn native_dialog(what: Pick) -> Dialog {
    let chooser = rfd::AsyncFileDialog::new();
    match what {
        Pick::Folder => dialog::of_system(chooser.set_title("Open a GPT-2 folder").pick_folder()),
        Pick::File => {
            let file = chooser
                .set_title("Open a file of a GPT-2")
                .add_filter("model files", &["safetensors", "bin", "json"])
                .pick_file();
            dialog::of_system(file)
        }
    }
}
