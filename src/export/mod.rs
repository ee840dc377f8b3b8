//! Figures and numbers as files: a panel as PNG, its numbers as CSV, the whole run as JSON.
//!
//! Every file says what it was made from: [`Facts`]. What is drawn or written is gathered on the window's thread from
//! the session; encoding and writing can run on any thread ([`dialog`] does it off the window's).
//!
//! - [`facts`]: model, prompt, step, settings, version.
//! - [`csv`], [`png`], [`run`]: the three formats.
//! - [`figure`], [`raster`]: panels drawn without a window or a graphics device.
//! - [`dialog`]: asks for a place and writes the file there.

pub mod csv;
pub mod dialog;
pub mod facts;
pub mod figure;
pub mod png;
pub mod raster;
pub mod run;

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

pub use dialog::{Ask, Job, Saver};
pub use facts::Facts;
pub use figure::Figure;
pub use run::RunRecord;

/// Writes a file whole or not at all: what was there stays until all bytes are on disk.
///
/// # Errors
/// Where the folder cannot be written to; nothing is left behind then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    // Not made from the file's own name, which may be as long as the file system allows.
    let beside = path.with_file_name(format!(".logitscope-{}.part", std::process::id()));
    let write = || {
        let mut out = fs::File::create(&beside)?;
        out.write_all(bytes)?;
        out.sync_all()?;
        fs::rename(&beside, path)
    };
    write().inspect_err(|_| {
        // The write's own error is the one to tell.
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a file.csv");
        write_whole(&path, b"old and long").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let taken = folder.path().join("folder");
        fs::create_dir(&taken).unwrap();
        assert!(write_whole(&taken, b"x").is_err());
        assert!(write_whole(&folder.path().join("none/a.csv"), b"x").is_err());
        assert!(write_whole(Path::new("/"), b"x").is_err());
        let names: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names.len(), 2, "no partial file is left: {names:?}");
    }
}
