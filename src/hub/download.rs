//! One blob: waits for its lock, goes on where an earlier try stopped, verifies, and only then gives it its
//! name.
//!
//! What has arrived lies in `ETAG.incomplete`, which is moved to `ETAG` when its length and, where the server
//! states one, its checksum are right and it is on the disk. Bytes that an earlier try left are hashed again, not
//! believed. No `If-Range` is sent: the name of the file is the ETag that the Hub states for this very commit,
//! a CDN's own differs from it, and the hash decides. Blocking; runs on the thread that downloads.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::Path,
};

use super::{
    HubError, Patience,
    cache::RepoCache,
    checksum::Checksum,
    http::{About, Client, FileFacts, text},
    tries::{WAIT_STEP, go_on, pause},
};

/// Bytes read and written at a time; between two such pieces a download can be cancelled.
const PIECE_BYTES: usize = 128 << 10;

/// Bytes that a try must bring for the failures before it to be forgotten.
const HEADWAY_BYTES: u64 = 1 << 20;

/// What is going on with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The Hub is asked what there is.
    Asking,
    /// Another program fetches the same file; it will be used when it is there.
    Waiting,
    Downloading,
    /// The content is compared with its checksum.
    Verifying,
    /// A try failed; the next one comes soon.
    Pausing,
}

/// Called with what goes on and the bytes of this file that are there; a break cancels.
pub(super) type OnFile<'a> = &'a mut dyn FnMut(Phase, u64) -> ControlFlow<()>;

/// One file of a repository at one commit, and what the server says about it.
pub(super) struct Wanted<'a> {
    pub client: &'a Client,
    pub cache: &'a RepoCache,
    pub patience: &'a Patience,
    /// On the server.
    pub path: &'a str,
    pub file: &'a str,
    pub about: About<'a>,
    pub facts: &'a FileFacts,
}

impl Wanted<'_> {
    /// Sees to it that the blob is there and right.
    ///
    /// # Errors
    /// As the sentences of [`HubError`] say.
    pub fn fetch(&self, on_file: OnFile) -> Result<(), HubError> {
        let blob = self.cache.blob(&self.facts.etag);
        if self.is_right(&blob, on_file)? {
            return Ok(());
        }
        let _lock = self.lock(on_file)?;
        // Whoever held the lock may just have fetched it.
        if self.is_right(&blob, on_file)? {
            return Ok(());
        }
        let incomplete = self.cache.incomplete(&self.facts.etag);
        self.make_folder(&incomplete)?;
        for fresh in [false, true] {
            if fresh {
                // Damaged: not a byte of it can be relied on.
                self.io(&incomplete, fs::remove_file(&incomplete))?;
            }
            if self.fill(&incomplete, on_file)? {
                return self.io(
                    &blob,
                    fs::rename(&incomplete, &blob).and_then(|()| sync_folder(&blob)),
                );
            }
        }
        self.io(&incomplete, fs::remove_file(&incomplete))?;
        Err(HubError::Corrupt {
            file: self.file.to_owned(),
            host: self.client.host(),
        })
    }

    fn io<T>(&self, path: &Path, result: io::Result<T>) -> Result<T, HubError> {
        result.map_err(|source| {
            let there = path.metadata().map_or(0, |file| file.len());
            HubError::io(path, self.facts.size.saturating_sub(there), source)
        })
    }

    fn make_folder(&self, file: &Path) -> Result<(), HubError> {
        let folder = file.parent().unwrap_or(file);
        self.io(folder, fs::create_dir_all(folder))
    }

    /// Whether a finished blob has the right length and content. One that has not is removed.
    fn is_right(&self, blob: &Path, on_file: OnFile) -> Result<bool, HubError> {
        let Ok(metadata) = blob.metadata() else {
            return Ok(false);
        };
        if metadata.is_file() && metadata.len() == self.facts.size {
            let mut sum = self.facts.checksum();
            if sum.is_stated() {
                let mut file = self.io(blob, File::open(blob))?;
                self.sum_file(blob, &mut file, self.facts.size, &mut sum, on_file)?;
            }
            if sum.matches() {
                return Ok(true);
            }
        }
        self.io(blob, fs::remove_file(blob))?;
        Ok(false)
    }

    /// Sums the first `length` bytes of a file; how many there were.
    fn sum_file(
        &self,
        path: &Path,
        file: &mut File,
        length: u64,
        sum: &mut Checksum,
        on_file: OnFile,
    ) -> Result<u64, HubError> {
        let mut piece = vec![0; PIECE_BYTES];
        let mut done = 0;
        let mut file = file.take(length);
        loop {
            go_on(on_file(Phase::Verifying, done))?;
            match self.io(path, file.read(&mut piece))? {
                0 => return Ok(done),
                n => {
                    sum.update(&piece[..n]);
                    done += n as u64;
                }
            }
        }
    }

    /// Holds the file's lock, for which it waits where another program has it. `None` on a file system that
    /// has no locks: there only the checksum protects from a second download.
    fn lock(&self, on_file: OnFile) -> Result<Option<File>, HubError> {
        let path = self.cache.lock(&self.facts.etag);
        self.make_folder(&path)?;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let file = self.io(&path, file)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::WouldBlock) => {
                    go_on(on_file(Phase::Waiting, 0))?;
                    std::thread::sleep(WAIT_STEP);
                }
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    return Ok(None);
                }
                Err(TryLockError::Error(error)) => return self.io(&path, Err(error)),
            }
        }
    }

    /// Brings `path` to its full length; whether its content is right.
    fn fill(&self, path: &Path, on_file: OnFile) -> Result<bool, HubError> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path);
        let mut part = Part {
            wanted: self,
            path,
            file: self.io(path, file)?,
            sum: self.facts.checksum(),
            done: 0,
        };
        part.take_up(on_file)?;
        let mut failures = 0;
        let mut headway = part.done;
        while part.done < self.facts.size {
            match part.receive(on_file) {
                Ok(()) => {}
                Err(error) if error.is_passing() => {
                    if part.done >= headway + HEADWAY_BYTES {
                        headway = part.done;
                        failures = 0;
                    }
                    failures += 1;
                    if failures >= self.patience.tries {
                        return Err(error);
                    }
                    let done = part.done;
                    pause(self.patience, failures, &mut || {
                        on_file(Phase::Pausing, done)
                    })?;
                }
                Err(error) => return Err(error),
            }
        }
        self.io(path, part.file.sync_all())?;
        Ok(part.sum.matches())
    }
}

/// A file that is arriving.
struct Part<'a> {
    wanted: &'a Wanted<'a>,
    path: &'a Path,
    file: File,
    /// Of the bytes so far.
    sum: Checksum,
    done: u64,
}

impl Part<'_> {
    /// Takes up what an earlier try left.
    fn take_up(&mut self, on_file: OnFile) -> Result<(), HubError> {
        let Wanted { facts, .. } = self.wanted;
        let there = self.wanted.io(self.path, self.file.metadata())?.len();
        if there > facts.size {
            return self.start_anew();
        }
        self.done =
            self.wanted
                .sum_file(self.path, &mut self.file, there, &mut self.sum, on_file)?;
        Ok(())
    }

    fn start_anew(&mut self) -> Result<(), HubError> {
        self.sum = self.wanted.facts.checksum();
        self.done = 0;
        if self.wanted.io(self.path, self.file.metadata())?.len() > 0 {
            let emptied = self.file.set_len(0);
            self.wanted.io(self.path, emptied)?;
        }
        let start = self.file.seek(SeekFrom::Start(0));
        self.wanted.io(self.path, start)?;
        Ok(())
    }

    /// Receives the rest in one request.
    ///
    /// # Errors
    /// [`HubError::Cut`] where the answer ends early, which the next request makes good.
    fn receive(&mut self, on_file: OnFile) -> Result<(), HubError> {
        let wanted = self.wanted;
        let size = wanted.facts.size;
        go_on(on_file(Phase::Downloading, self.done))?;
        let response = wanted.client.get(wanted.path, self.done, wanted.about)?;
        match response.status().as_u16() {
            206 if starts_at(&response, self.done, size) => {}
            // It does not do ranges, or not this one: the whole file comes, or is asked for next.
            206 | 416 if self.done > 0 => return self.start_anew(),
            200 => {}
            status => {
                return Err(HubError::BadReply {
                    host: wanted.client.host(),
                    problem: format!("status {status} for the whole of {}", wanted.file),
                });
            }
        }
        let whole = response.status() == 200;
        let left = if whole { size } else { size - self.done };
        let length = text(&response, "content-length").and_then(|length| length.parse().ok());
        if let Some(length) = length
            && length != left
        {
            return Err(self.wrong_length((size - left).saturating_add(length)));
        }
        if whole {
            self.start_anew()?;
        }
        // One byte more than wanted shows an answer that is too long.
        let mut body = response.into_body().into_reader().take(left + 1);
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            let read = match body.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // Cut or silent: the next request takes it up.
                Ok(0) | Err(_) if self.done < size => {
                    return Err(HubError::Cut {
                        file: wanted.file.to_owned(),
                        done_bytes: self.done,
                        total_bytes: size,
                    });
                }
                Ok(0) | Err(_) => return Ok(()),
                Ok(read) => read,
            };
            if self.done + read as u64 > size {
                let found = self.done + read as u64;
                self.start_anew()?;
                return Err(self.wrong_length(found));
            }
            wanted.io(self.path, self.file.write_all(&piece[..read]))?;
            self.sum.update(&piece[..read]);
            self.done += read as u64;
            go_on(on_file(Phase::Downloading, self.done))?;
        }
    }

    fn wrong_length(&self, found: u64) -> HubError {
        HubError::WrongLength {
            file: self.wanted.file.to_owned(),
            host: self.wanted.client.host(),
            expected: self.wanted.facts.size,
            found,
        }
    }
}

/// Whether a partial answer begins at `from` of a file of `size` bytes.
fn starts_at(response: &ureq::http::Response<ureq::Body>, from: u64, size: u64) -> bool {
    let range = text(response, "content-range").unwrap_or_default();
    range
        .strip_prefix("bytes ")
        .and_then(|range| range.split_once('-'))
        .and_then(|(start, rest)| Some((start, rest.split_once('/')?.1)))
        .is_some_and(|(start, total)| {
            start.trim().parse() == Ok(from) && (total == "*" || total.parse() == Ok(size))
        })
}

/// Puts a folder's new entry on the disk, where the system can do that.
fn sync_folder(file: &Path) -> io::Result<()> {
    if cfg!(unix)
        && let Some(folder) = file.parent()
    {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
