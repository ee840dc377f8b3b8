//! Asks where a file is to go and writes it there, on a thread of its own: no frame waits for the dialog, the encoding
//! or the disk.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, TryRecvError, channel},
};

use super::write_whole;

type Make = Box<dyn FnOnce() -> Result<Vec<u8>, String> + Send>;

/// A file to be written: what to call it, and how to make its bytes.
pub struct Job {
    /// With its extension.
    pub name: String,
    make: Make,
}

/// A file on its way: the dialog is open, or the bytes are being made.
pub struct Saving(Receiver<Option<Result<PathBuf, String>>>);

impl Job {
    /// `make` runs off the window's thread, after the user has said where to.
    pub fn new(
        name: impl Into<String>,
        make: impl FnOnce() -> Result<Vec<u8>, String> + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            make: Box::new(make),
        }
    }

    /// Makes the bytes and writes them whole.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong.
    pub fn write(self, path: &Path) -> Result<(), String> {
        let bytes = (self.make)()?;
        write_whole(path, &bytes).map_err(|error| {
            format!(
                "{} could not be written: {error}. Free some space or choose another folder.",
                path.display()
            )
        })
    }

    /// Opens the system's dialog; `ctx` is woken when the file is there.
    pub fn ask(self, ctx: egui::Context) -> Saving {
        let extension = self.name.rsplit_once('.').map_or("", |(_, end)| end);
        let dialog = rfd::AsyncFileDialog::new()
            .set_title("Save as")
            .add_filter(extension.to_uppercase(), &[extension])
            .set_file_name(self.name.clone())
            .save_file();
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let path = pollster::block_on(dialog).map(|handle| handle.path().to_owned());
            let outcome = path.map(|path| self.write(&path).map(|()| path));
            // A window that is gone needs no answer.
            let _ = sender.send(outcome);
            ctx.request_repaint();
        });
        Saving(receiver)
    }
}

impl Saving {
    /// What became of it, once: a sentence, or nothing where the user chose no place. `None` while it goes on.
    pub fn outcome(&self) -> Option<Option<String>> {
        match self.0.try_recv() {
            Ok(None) => Some(None),
            Ok(Some(Ok(path))) => Some(Some(format!("Saved {}.", path.display()))),
            Ok(Some(Err(why))) => Some(Some(why)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Some(
                "The file was not saved: writing it failed.".to_owned(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_writes_its_bytes_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let job = Job::new("a.csv", || Ok(b"1,2\n".to_vec()));
        job.write(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"1,2\n");
        let none = folder.path().join("none").join("a.csv");
        let why = Job::new("a.csv", || Ok(Vec::new()))
            .write(&none)
            .unwrap_err();
        assert!(
            why.contains("a.csv") && why.contains("could not be written"),
            "{why}"
        );
        let failed = Job::new("a.csv", || Err("no picture".to_owned())).write(&path);
        assert_eq!(failed, Err("no picture".to_owned()));
        assert_eq!(
            std::fs::read(&path).unwrap(),
            b"1,2\n",
            "what was there stays"
        );
    }

    #[test]
    fn the_outcome_is_told_once() {
        let (sender, receiver) = channel();
        let saving = Saving(receiver);
        assert_eq!(saving.outcome(), None);
        sender.send(Some(Ok(PathBuf::from("a.png")))).unwrap();
        assert_eq!(saving.outcome(), Some(Some("Saved a.png.".to_owned())));
        sender.send(None).unwrap();
        assert_eq!(saving.outcome(), Some(None));
        drop(sender);
        assert!(saving.outcome().flatten().is_some());
    }
}
