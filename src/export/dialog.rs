//! Asks where a file is to go and writes it there, on a thread of its own: no frame waits for the dialog, the encoding
//! or the disk.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::{Receiver, TryRecvError, channel},
};

use super::write_whole;
use crate::dialog::{self, Dialog};

type Make = Box<dyn FnOnce() -> Result<Vec<u8>, String> + Send>;

/// A file to be written: what to call it, and how to make its bytes.
pub struct Job {
    /// With its extension.
    pub name: String,
    make: Make,
}

/// Asks for the place of a file of this name. Called on the window's thread, waited for on another.
pub type Ask = Box<dyn Fn(&str) -> Dialog>;

/// Saves files one at a time.
pub struct Saver {
    ask: Ask,
    /// The dialog is open, or the bytes are being made.
    saving: Option<Receiver<Option<Result<PathBuf, String>>>>,
}

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

    /// Makes the bytes and writes them whole; returns where to. A path without this file's extension gets it.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong.
    pub fn write(self, path: &Path) -> Result<PathBuf, String> {
        let path = with_extension_of(path, &self.name)?;
        let bytes = (self.make)()?;
        match write_whole(&path, &bytes) {
            Ok(()) => Ok(path),
            Err(error) => Err(format!(
                "{} could not be written: {error}. Free some space or choose another folder.",
                path.display()
            )),
        }
    }
}

/// The path with the extension of `name` added where it has another or none.
///
/// # Errors
/// A sentence where that file exists: the user has not agreed to replace it.
fn with_extension_of(path: &Path, name: &str) -> Result<PathBuf, String> {
    let Some(extension) = Path::new(name).extension() else {
        return Ok(path.to_owned());
    };
    if path
        .extension()
        .is_some_and(|held| held.eq_ignore_ascii_case(extension))
    {
        return Ok(path.to_owned());
    }
    let mut whole = path.as_os_str().to_owned();
    whole.push(".");
    whole.push(extension);
    let whole = PathBuf::from(whole);
    if whole.exists() {
        return Err(format!(
            "{} is already there and was left as it is. Save again under its whole name to replace it.",
            whole.display()
        ));
    }
    Ok(whole)
}

/// The system's dialog.
fn system_dialog(name: &str) -> Dialog {
    let extension = name.rsplit_once('.').map_or("", |(_, end)| end);
    let dialog = rfd::AsyncFileDialog::new()
        .set_title("Save as")
        .add_filter(extension.to_uppercase(), &[extension])
        .set_file_name(name)
        .save_file();
    dialog::of_system(dialog)
}

impl Default for Saver {
    fn default() -> Self {
        Self::asking(Box::new(system_dialog))
    }
}

impl Saver {
    /// Asks in another way than with the system's dialog.
    pub fn asking(ask: Ask) -> Self {
        Self { ask, saving: None }
    }

    /// Asks where a file is to go; `ctx` is woken when it is there.
    ///
    /// # Errors
    /// A sentence where another file is still on its way: this one is not saved.
    pub fn start(&mut self, job: Job, ctx: egui::Context) -> Result<(), String> {
        if self.saving.is_some() {
            return Err(format!(
                "{} was not saved: another file is still being saved. Close its dialog first.",
                job.name
            ));
        }
        let place = (self.ask)(&job.name);
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let outcome = match pollster::block_on(place) {
                Ok(path) => path.map(|path| job.write(&path)),
                Err(why) => Some(Err(why)),
            };
            // A window that is gone needs no answer.
            let _ = sender.send(outcome);
            ctx.request_repaint();
        });
        self.saving = Some(receiver);
        Ok(())
    }

    /// What became of the file, once: a sentence that it was or was not saved, or nothing where the user chose no
    /// place. `None` while it goes on.
    pub fn outcome(&mut self) -> Option<Option<Result<String, String>>> {
        let outcome = match self.saving.as_ref()?.try_recv() {
            Ok(outcome) => {
                outcome.map(|written| written.map(|path| format!("Saved {}.", path.display())))
            }
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                Some(Err("The file was not saved: writing it failed.".to_owned()))
            }
        };
        self.saving = None;
        Some(outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str) -> Job {
        Job::new(name, || Ok(b"1,2\n".to_vec()))
    }

    #[test]
    fn a_job_writes_its_bytes_or_says_why_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        assert_eq!(job("a.csv").write(&path), Ok(path.clone()));
        assert_eq!(std::fs::read(&path).unwrap(), b"1,2\n");
        let none = folder.path().join("none").join("a.csv");
        let why = job("a.csv").write(&none).unwrap_err();
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
    fn names_may_hold_anything_and_get_their_extension_without_replacing_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let longest = format!("{}.csv", "é".repeat(125));
        for name in [
            "東京 ünï %20 'x' \"y\".csv",
            " .csv.CSV",
            "a;b&c.csv",
            &longest,
        ] {
            let path = folder.path().join(name);
            assert_eq!(job("a.csv").write(&path), Ok(path.clone()));
            assert!(path.exists());
        }
        let (typed, whole) = (folder.path().join("figure 1.2"), "figure 1.2.csv");
        let whole = folder.path().join(whole);
        assert_eq!(job("a.csv").write(&typed), Ok(whole.clone()));
        std::fs::write(&whole, b"old").unwrap();
        let why = job("a.csv").write(&typed).unwrap_err();
        assert!(why.contains("already there"), "{why}");
        assert_eq!(std::fs::read(&whole).unwrap(), b"old");
        assert_eq!(job("a.csv").write(&whole), Ok(whole));
    }

    /// Waits for the outcome of what is being saved.
    fn outcome(saver: &mut Saver) -> Option<Result<String, String>> {
        loop {
            if let Some(outcome) = saver.outcome() {
                return outcome;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn one_file_at_a_time_and_its_outcome_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let (answer, answers) = std::sync::mpsc::channel::<Option<PathBuf>>();
        let answers = std::sync::Arc::new(std::sync::Mutex::new(answers));
        let mut saver = Saver::asking(Box::new(move |_| {
            let answers = answers.clone();
            Box::pin(async move { Ok(answers.lock().unwrap().recv().unwrap()) })
        }));
        let ctx = egui::Context::default();
        assert_eq!(saver.outcome(), None);
        saver.start(job("a.csv"), ctx.clone()).unwrap();
        assert_eq!(saver.outcome(), None, "the dialog is open");
        let why = saver.start(job("b.csv"), ctx.clone()).unwrap_err();
        assert!(why.starts_with("b.csv was not saved"), "{why}");
        answer.send(Some(path.clone())).unwrap();
        let said = outcome(&mut saver).unwrap().unwrap();
        assert_eq!(said, format!("Saved {}.", path.display()));
        assert_eq!(saver.outcome(), None);
        saver.start(job("a.csv"), ctx.clone()).unwrap();
        answer.send(None).unwrap();
        assert_eq!(
            outcome(&mut saver),
            None,
            "nothing is said of a cancelled dialog"
        );
        saver
            .start(Job::new("a.csv", || panic!("a bug")), ctx)
            .unwrap();
        answer.send(Some(path)).unwrap();
        assert!(outcome(&mut saver).unwrap().is_err());
    }
}
