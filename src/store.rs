//! What survives a restart and a crash: text, settings, layout, appearance, recent models.
//!
//! One JSON file in the user's data folder, written whole beside the old one and moved over it, so that a crash
//! at any moment leaves one of the two. Written on the window's thread, at most once a second.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use directories::ProjectDirs;
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, Default)]
pub struct Store {
    file: Option<PathBuf>,
    written: String,
}

impl Store {
    /// The user's own.
    pub fn of_user() -> Self {
        Self {
            file: ProjectDirs::from("", "", "logitscope")
                .map(|dirs| dirs.data_dir().join("window.json")),
            written: String::new(),
        }
    }

    pub fn at(file: PathBuf) -> Self {
        Self {
            file: Some(file),
            written: String::new(),
        }
    }

    /// Reads what was remembered; what cannot be read is put aside, never overwritten unseen.
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
                // If it cannot be moved either, it will be written over: there is nothing in it to be read.
                let _ = fs::rename(file, file.with_extension("unreadable.json"));
                Remembered::default()
            }
        }
    }

    /// Writes `remembered` if it differs from what was last written.
    ///
    /// # Errors
    /// Where the folder cannot be made or the file cannot be written.
    pub fn write(&mut self, remembered: &Remembered) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let text = serde_json::to_string(remembered)?;
        if text == self.written {
            return Ok(());
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        let beside = file.with_extension("new");
        let mut out = fs::File::create(&beside)?;
        out.write_all(text.as_bytes())?;
        out.sync_all()?;
        fs::rename(&beside, file)?;
        self.written = text;
        Ok(())
    }
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
    fn unknown_and_missing_fields_do_no_harm() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("window.json");
        fs::write(&file, r#"{"text":"kept","from_the_future":1}"#).expect("written");
        assert_eq!(Store::at(file).read().text, "kept");
    }
}
