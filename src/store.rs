//! What survives a restart and a crash: text, settings, layout, appearance, recent models.
//!
//! One JSON file in the user's data folder, written whole beside the old one and moved over it, so that a crash
//! at any moment leaves one of the two. Written at most once a second, on a thread of its own: a disk may take its time,
//! the window may not.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use directories::ProjectDirs;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    sampling::SamplingSettings,
    session::FIRST_TEXT,
    ui::{PanelState, dock::Dock, transport::Place},
    worker::Pace,
};

/// Recent model folders that are remembered.
pub const RECENT_MODELS: usize = 8;

/// Everything that is remembered. A field that an older or newer version does not know takes its default.
#[derive(Serialize, Deserialize)]
#[serde(default)]
pub struct Remembered {
    pub text: String,
    pub settings: SamplingSettings,
    pub pace: Pace,
    /// `None` follows the system.
    pub dark: Option<bool>,
    pub scale: f32,
    pub dock: Dock,
    pub panels: PanelState,
    #[serde(flatten)]
    pub place: Place,
    /// The model folder in use; `None` is the built-in model.
    pub model: Option<PathBuf>,
    pub recent: Vec<PathBuf>,
    /// Typed numbers were in use instead of a model.
    pub toy_in_use: bool,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            text: FIRST_TEXT.to_owned(),
            settings: SamplingSettings::default(),
            pace: Pace::TokensPerSecond(5),
            dark: None,
            scale: 1.0,
            dock: Dock::default(),
            panels: PanelState::default(),
            place: Place::default(),
            model: None,
            recent: Vec::new(),
            toy_in_use: false,
        }
    }
}

impl Remembered {
    /// Puts a folder at the head of the recent ones.
    pub fn note_recent(&mut self, folder: &Path) {
        self.recent.retain(|other| other != folder);
        self.recent.insert(0, folder.to_owned());
        self.recent.truncate(RECENT_MODELS);
    }
}

/// Where it is kept; nowhere in tests and where the system names no data folder.
#[derive(Debug, Default)]
pub struct Store {
    file: Option<PathBuf>,
    /// What was last written or is being written.
    written: String,
    writing: Option<JoinHandle<io::Result<()>>>,
}

impl Store {
    /// The user's own.
    pub fn of_user() -> Self {
        Self {
            file: ProjectDirs::from("", "", "logitscope")
                .map(|dirs| dirs.data_dir().join("window.json")),
            written: String::new(),
            writing: None,
        }
    }

    pub fn at(file: PathBuf) -> Self {
        Self {
            file: Some(file),
            written: String::new(),
            writing: None,
        }
    }

    /// Reads what was remembered; of a file that cannot be read whole, what can be, and the file is put aside.
    pub fn read(&mut self) -> Remembered {
        let Some(file) = &self.file else {
            return Remembered::default();
        };
        let Ok(text) = fs::read_to_string(file) else {
            return Remembered::default();
        };
        match serde_json::from_str(&text) {
            Ok(remembered) => {
                self.written = text;
                remembered
            }
            Err(_) => {
                // If it cannot be copied either, it will be written over: what can be read of it is kept.
                let _ = fs::rename(file, file.with_extension("unreadable.json"));
                readable_part(&text)
            }
        }
    }

    /// Begins to write `remembered` where it differs from what was last written. Whether it is on the disk by now;
    /// where not, it is to be called again.
    ///
    /// # Errors
    /// Where an earlier call's folder could not be made or its file could not be written.
    pub fn keep(&mut self, remembered: &Remembered) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(true);
        };
        if self
            .writing
            .as_ref()
            .is_some_and(|writing| !writing.is_finished())
        {
            return Ok(false);
        }
        let text = serde_json::to_string(remembered)?;
        let file = file.clone();
        self.finish()?;
        if text == self.written {
            return Ok(true);
        }
        self.written.clone_from(&text);
        self.writing = Some(thread::Builder::new().spawn(move || write(&file, &text))?);
        Ok(false)
    }

    /// Waits for what is being written.
    ///
    /// # Errors
    /// Where it could not be written.
    fn finish(&mut self) -> io::Result<()> {
        let Some(writing) = self.writing.take() else {
            return Ok(());
        };
        let outcome = writing
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the writer failed")));
        if outcome.is_err() {
            self.written.clear();
        }
        outcome
    }

    /// Writes `remembered`, and waits until it is on the disk.
    ///
    /// # Errors
    /// Where the folder cannot be made or the file cannot be written.
    pub fn write(&mut self, remembered: &Remembered) -> io::Result<()> {
        // Whatever became of an earlier call, this one writes newer things.
        let _ = self.finish();
        self.keep(remembered)?;
        self.finish()
    }
}

/// Nothing that was begun is lost.
impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// The fields of a JSON object that can be read, each for itself; the others take their defaults.
fn readable_part(text: &str) -> Remembered {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(text) else {
        return Remembered::default();
    };
    fields.retain(|name, value| {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        Remembered::deserialize(Value::Object(alone)).is_ok()
    });
    Remembered::deserialize(Value::Object(fields)).unwrap_or_default()
}

/// Writes beside the file, then over it.
fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let beside = file.with_extension("new");
    let mut out = fs::File::create(&beside)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("deep/window.json");
        let mut store = Store::at(file.clone());
        let mut remembered = store.read();
        assert_eq!(remembered.text, FIRST_TEXT);
        remembered.text = "naïve 東京 \u{0} \n".to_owned();
        remembered.settings.temperature = 1.25;
        remembered.scale = 2.0;
        remembered.note_recent(Path::new("a"));
        remembered.note_recent(Path::new("b"));
        remembered.note_recent(Path::new("a"));
        store.write(&remembered).expect("written");

        let again = Store::at(file).read();
        assert_eq!(again.text, remembered.text);
        assert_eq!(again.settings, remembered.settings);
        assert_eq!(again.scale, 2.0);
        assert_eq!(again.recent, [PathBuf::from("a"), PathBuf::from("b")]);
    }

    #[test]
    fn what_cannot_be_written_is_said_at_a_later_call() {
        let folder = tempfile::tempdir().expect("a folder");
        let blocker = folder.path().join("a file");
        fs::write(&blocker, "").expect("written");
        let mut store = Store::at(blocker.join("window.json"));
        let remembered = Remembered::default();
        assert!(store.write(&remembered).is_err());
        assert!(!store.keep(&remembered).expect("not yet known"));
        while store.writing.as_ref().is_some_and(|w| !w.is_finished()) {
            thread::yield_now();
        }
        assert!(store.keep(&remembered).is_err());
        // It goes on trying.
        fs::remove_file(&blocker).expect("removed");
        assert!(store.write(&remembered).is_ok());
        assert!(store.keep(&remembered).expect("written"));
    }

    #[test]
    fn a_torn_file_is_put_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("window.json");
        fs::write(&file, "{\"text\": \"half").expect("written");
        let remembered = Store::at(file.clone()).read();
        assert_eq!(remembered.text, FIRST_TEXT);
        assert!(!file.exists());
        assert!(folder.path().join("window.unreadable.json").exists());
    }

    #[test]
    fn one_field_that_cannot_be_read_takes_no_other_with_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("window.json");
        let torn =
            r#"{"text":"kept","scale":1.5,"pace":10,"dock":{"alone":"Nope"},"device":"Tpu"}"#;
        fs::write(&file, torn).expect("written");
        let remembered = Store::at(file.clone()).read();
        assert_eq!((remembered.text.as_str(), remembered.scale), ("kept", 1.5));
        assert_eq!(remembered.pace, Remembered::default().pace);
        assert!(remembered.dock.alone.is_none());
        let aside = fs::read_to_string(folder.path().join("window.unreadable.json"));
        assert_eq!(aside.expect("put aside"), torn);
    }

    #[test]
    fn unknown_and_missing_fields_do_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("window.json");
        fs::write(&file, r#"{"text":"kept","from_the_future":1}"#).expect("written");
        assert_eq!(Store::at(file).read().text, "kept");
    }
}
