//! A Hub, a cache and a client for one test.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::Duration,
};

use logitscope::hub::{Hub, HubError, Patience, Progress, RepoId, Revision};
use tempfile::TempDir;

#[path = "../support/hub_server.rs"]
pub mod server;

pub use server::{COMMIT, FakeHub, Reply, Repo, Seen};

pub const NAME: &str = "some/model";
pub const WEIGHTS: &str = "model.safetensors";

/// Enough numbers for weights of 2.4 MB.
pub const NUMBERS: usize = 600_000;

pub struct Place {
    pub folder: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("home").join("hub")
    }

    pub fn model(&self) -> PathBuf {
        self.cache().join("models--some--model")
    }

    pub fn blobs(&self) -> Vec<String> {
        names(&self.model().join("blobs"))
    }

    pub fn hub(&self, server: &FakeHub) -> Hub {
        let mut hub = Hub::at(&server.url(), self.cache()).unwrap();
        hub.patience = hasty();
        hub
    }

    pub fn fetch(&self, server: &FakeHub) -> Result<PathBuf, HubError> {
        fetch(&self.hub(server))
    }
}

pub fn hasty() -> Patience {
    Patience {
        connect: Duration::from_secs(2),
        silence: Duration::from_secs(20),
        tries: 3,
        pause: Duration::from_millis(2),
    }
}

pub fn repo() -> RepoId {
    RepoId::parse(NAME).unwrap()
}

pub fn model() -> Repo {
    Repo::gpt2(NAME, NUMBERS)
}

pub fn small_model() -> Repo {
    Repo::gpt2(NAME, 100)
}

pub fn fetch(hub: &Hub) -> Result<PathBuf, HubError> {
    hub.fetch(&repo(), &Revision::default(), &mut go_on)
}

pub fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

pub fn find(hub: &Hub) -> Option<PathBuf> {
    hub.find(&repo(), &Revision::default())
}

pub fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Every file below a folder.
pub fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for name in names(folder) {
        let path = folder.join(name);
        if path.is_dir() && !path.is_symlink() {
            files.extend(all_files(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// The snapshot holds the repository's own bytes.
pub fn assert_whole(snapshot: &Path, server: &FakeHub) {
    for name in ["config.json", "tokenizer.json", WEIGHTS] {
        let found = std::fs::read(snapshot.join(name)).unwrap();
        assert!(found == server.repo.bytes(name), "{name} differs");
    }
}
