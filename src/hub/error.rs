//! What can go wrong between a model's name and its files on this computer, each as one sentence.
//!
//! Every message names the model, the file or the host and says what to do. Nothing here prints.

use std::path::{Path, PathBuf};

use super::RepoId;

/// Why a model could not be had from the Hub.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error(
        "“{0}” is no model name: give gpt2, distilgpt2, gpt2-medium, gpt2-large, gpt2-xl, or owner/name"
    )]
    BadName(String),
    #[error("“{0}” is no revision: give a branch, a tag or a commit")]
    BadRevision(String),
    #[error("{variable} is “{value}”, which is no http or https address: correct it or unset it")]
    BadEndpoint { variable: String, value: String },
    #[error("neither HF_HOME nor a home folder is known: set HF_HOME to the folder for downloads")]
    NoCacheFolder,

    #[error("{repo} is not on this computer and HF_HUB_OFFLINE is set: unset it and fetch again")]
    Offline { repo: RepoId },
    #[error(
        "the host {host} was not found: check the network connection and HF_ENDPOINT, then fetch again"
    )]
    HostNotFound { host: String },
    #[error(
        "no connection to {host} ({cause}): check the network, then fetch again; it goes on where it stopped"
    )]
    Unreachable { host: String, cause: String },
    #[error("{host} did not answer in time: fetch again; it goes on where it stopped")]
    TimedOut { host: String },
    #[error(
        "the connection to {host} is not secure ({cause}): check this computer's clock and any proxy in between"
    )]
    Insecure { host: String, cause: String },
    #[error(
        "{file} broke off at {done_bytes} of {total_bytes} bytes: check the network, then fetch again; it goes on there"
    )]
    Cut {
        file: String,
        done_bytes: u64,
        total_bytes: u64,
    },

    #[error(
        "{repo} was not found on {host}: check the name; if the model is private, set HF_TOKEN to a token that may read it"
    )]
    NoModel { repo: RepoId, host: String },
    #[error("{repo} has no revision “{revision}”: leave it out for the newest, or check its name")]
    NoRevision { repo: RepoId, revision: String },
    #[error("{host} has no {file} although {repo} lists it: fetch again later")]
    NoFile {
        repo: RepoId,
        file: String,
        host: String,
    },
    #[error(
        "{host} refuses the token: make a new one there and set HF_TOKEN to it, or unset it for public models"
    )]
    TokenRefused { host: String },
    #[error(
        "{repo} asks its users to accept terms: accept them at {page}, set HF_TOKEN to a token of yours, and fetch again"
    )]
    Gated { repo: RepoId, page: String },
    #[error(
        "{host} does not let you read {repo}: ask its owner, or set HF_TOKEN to a token that may"
    )]
    Forbidden { repo: RepoId, host: String },
    #[error("{host} has had too many requests: wait a few minutes, then fetch again")]
    TooMany { host: String },
    #[error("{host} has a fault (status {status}): fetch again later; it goes on where it stopped")]
    Server { host: String, status: u16 },
    #[error(
        "{host} redirects in circles: check HF_ENDPOINT and any proxy in between, or fetch again later"
    )]
    RedirectLoop { host: String },
    #[error(
        "{host} redirects to an address that is not encrypted; nothing was taken from there: check HF_ENDPOINT and any proxy"
    )]
    Downgrade { host: String },
    #[error(
        "the answer of {host} is not that of a Hub ({problem}): check HF_ENDPOINT and any proxy"
    )]
    BadReply { host: String, problem: String },

    #[error(
        "{repo} names a file “{name}” that would lie outside its folder; it was not written: choose another model"
    )]
    UnsafeName { repo: RepoId, name: String },
    #[error("{repo} is a {found} model: choose one whose model_type is gpt2")]
    NotGpt2 { repo: RepoId, found: String },
    #[error("{repo} has no {missing}: choose a model in Hugging Face layout")]
    Missing { repo: RepoId, missing: &'static str },
    #[error("{repo}: {index} names {shard}, which is not there: choose another revision")]
    MissingShard {
        repo: RepoId,
        index: String,
        shard: String,
    },
    #[error("{repo}: {file} cannot be read ({problem}): choose another revision")]
    BadFile {
        repo: RepoId,
        file: String,
        problem: String,
    },

    #[error(
        "{file} should have {expected} bytes, but {host} sends {found}; they were not kept: fetch again later"
    )]
    WrongLength {
        file: String,
        host: String,
        expected: u64,
        found: u64,
    },
    #[error(
        "{file} arrived damaged, twice (its checksum is not the one that {host} states); nothing was kept: fetch again later"
    )]
    Corrupt { file: String, host: String },

    #[error(
        "the disk is full: free {needed_bytes} bytes at {}, then fetch again; it goes on where it stopped", folder.display()
    )]
    DiskFull { folder: PathBuf, needed_bytes: u64 },
    #[error("cannot write {}: {source}: check the folder's permissions, or set HF_HOME to another one", path.display())]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the download was cancelled; what has arrived is kept")]
    Cancelled,
}

impl HubError {
    /// An error of the file system on `path`, where `needed_bytes` were still to be written.
    pub(super) fn io(path: &Path, needed_bytes: u64, source: std::io::Error) -> Self {
        use std::io::ErrorKind::{QuotaExceeded, StorageFull};
        match source.kind() {
            StorageFull | QuotaExceeded => Self::DiskFull {
                folder: path.parent().unwrap_or(path).to_owned(),
                needed_bytes,
            },
            _ => Self::Io {
                path: path.to_owned(),
                source,
            },
        }
    }

    /// Whether it lies in what was asked for, not in the network, the Hub or this computer.
    pub fn is_of_the_request(&self) -> bool {
        matches!(
            self,
            Self::BadName(_)
                | Self::BadRevision(_)
                | Self::BadEndpoint { .. }
                | Self::NoModel { .. }
                | Self::NoRevision { .. }
                | Self::NotGpt2 { .. }
                | Self::Missing { .. }
        )
    }

    /// Whether the Hub could not be asked, or not to the end.
    pub fn is_of_the_network(&self) -> bool {
        self.is_passing()
            || matches!(
                self,
                Self::HostNotFound { .. } | Self::Insecure { .. } | Self::RedirectLoop { .. }
            )
    }

    /// Whether the same request may succeed in a moment.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::TimedOut { .. }
                | Self::Cut { .. }
                | Self::TooMany { .. }
                | Self::Server { .. }
        )
    }
}
