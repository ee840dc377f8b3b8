//! The folder of one model in the shared cache: blobs, snapshots that point to them, and refs.
//!
//! The layout is the one that huggingface_hub documents, so that other tools find what was fetched here and
//! the other way round: `models--owner--name/{blobs/ETAG, snapshots/COMMIT/FILE, refs/REVISION}`, with locks
//! in `.locks/models--owner--name/ETAG.lock`. A file of a snapshot is a relative link to its blob where the
//! system has symbolic links, else a hard link or a copy. Blocking file work; any thread.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    HubError, RepoId, Revision,
    files::{inside, is_complete},
    repo::is_commit,
};

/// How a snapshot's file comes to be the blob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// A symbolic link; where the system refuses, as Windows does, the next one.
    #[default]
    Symbolic,
    /// A hard link; where the file system refuses, a copy.
    Hard,
    Copy,
}

/// One model's folder in the cache.
pub(super) struct RepoCache {
    repo: RepoId,
    folder: PathBuf,
    locks: PathBuf,
}

impl RepoCache {
    pub fn new(cache: &Path, repo: &RepoId) -> Self {
        Self {
            repo: repo.clone(),
            folder: cache.join(repo.folder()),
            locks: cache.join(".locks").join(repo.folder()),
        }
    }

    pub fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// What has arrived of a blob.
    pub fn incomplete(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(format!("{etag}.incomplete"))
    }

    pub fn lock(&self, etag: &str) -> PathBuf {
        self.locks.join(format!("{etag}.lock"))
    }

    pub fn snapshot(&self, commit: &str) -> PathBuf {
        self.folder.join("snapshots").join(commit)
    }

    /// Puts a blob into a snapshot under its name.
    ///
    /// # Errors
    /// Where the name leads out of the folder or the file system refuses.
    pub fn place(
        &self,
        etag: &str,
        commit: &str,
        name: &str,
        links: Links,
    ) -> Result<(), HubError> {
        let snapshot = self.snapshot(commit);
        let target = inside(&snapshot, name, &self.repo)?;
        let blob = self.blob(etag);
        let failed = |source| HubError::io(&target, size(&blob), source);
        if same_file(&target, &blob) {
            return Ok(());
        }
        fs::create_dir_all(&snapshot).map_err(failed)?;
        // Made beside and moved over it, so that the name never stands for half a file.
        let beside = snapshot.join(format!(".{name}.{}", std::process::id()));
        let _ = fs::remove_file(&beside);
        let relative = Path::new("..").join("..").join("blobs").join(etag);
        let made = match links {
            Links::Symbolic => symlink(&relative, &beside)
                .or_else(|_| fs::hard_link(&blob, &beside))
                .or_else(|_| copy(&blob, &beside)),
            Links::Hard => fs::hard_link(&blob, &beside).or_else(|_| copy(&blob, &beside)),
            Links::Copy => copy(&blob, &beside),
        };
        let placed = made.and_then(|()| fs::rename(&beside, &target));
        // Also left over where both names are hard links to one file: such a rename does nothing.
        let _ = fs::remove_file(&beside);
        placed.map_err(failed)
    }

    /// Notes which commit a revision is.
    ///
    /// # Errors
    /// Where the file system refuses.
    pub fn write_ref(&self, revision: &Revision, commit: &str) -> Result<(), HubError> {
        if revision.commit().is_some() {
            return Ok(());
        }
        let path = revision
            .as_str()
            .split('/')
            .fold(self.folder.join("refs"), |path, part| path.join(part));
        if fs::read_to_string(&path).is_ok_and(|text| text.trim() == commit) {
            return Ok(());
        }
        let failed = |source| HubError::io(&path, commit.len() as u64, source);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder).map_err(failed)?;
        let beside = folder.join(format!(".ref.{}", std::process::id()));
        fs::write(&beside, commit)
            .and_then(|()| fs::rename(&beside, &path))
            .map_err(failed)
    }
}

/// A whole snapshot in the cache, whichever tool made it; asks nobody.
pub(super) fn find(cache: &Path, repo: &RepoId, revision: &Revision) -> Option<PathBuf> {
    repo.folders().iter().find_map(|folder| {
        let folder = cache.join(folder);
        let commit = match revision.commit() {
            Some(commit) => commit.to_owned(),
            None => {
                let text = fs::read_to_string(folder.join("refs").join(revision.as_str())).ok()?;
                text.trim().to_owned()
            }
        };
        let snapshot = folder.join("snapshots").join(&commit);
        (is_commit(&commit) && is_complete(&snapshot)).then_some(snapshot)
    })
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}

fn same_file(link: &Path, blob: &Path) -> bool {
    matches!((link.canonicalize(), blob.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    fs::File::open(to)?.sync_all()
}

#[cfg(unix)]
fn symlink(to: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(to, link)
}

#[cfg(windows)]
fn symlink(to: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(to, link)
}

#[cfg(not(any(unix, windows)))]
fn symlink(_to: &Path, _link: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
