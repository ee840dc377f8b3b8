//! Models by name from the Hugging Face Hub: find on this computer, download, verify, keep in the shared cache.
//!
//! - [`RepoId`], [`Revision`]: what a name may be.
//! - [`Hub`]: one Hub, one cache; [`Hub::find`] asks nobody, [`Hub::fetch`] is the only code that opens a
//!   connection, and only when called.
//! - `fetch`: one model; `download`: one file, resumed and verified; `tries`: trying again; `http`: requests,
//!   redirects, the token; `cache`: the folder layout that other tools use too; `files`: what a GPT-2 needs.
//!
//! Everything blocks; a download belongs on a thread of its own. The variables are those that huggingface_hub
//! documents: `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`,
//! `HF_HUB_DISABLE_SYMLINKS`, `XDG_CACHE_HOME`.

mod cache;
mod checksum;
mod download;
mod error;
mod fetch;
mod files;
mod http;
mod meter;
mod repo;
mod tries;

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use ureq::http::Uri;

pub use cache::Links;
pub use download::Phase;
pub use error::HubError;
pub use http::Patience;
pub use meter::Meter;
pub use repo::{RepoId, Revision, snapshot_name};

/// The Hub that everyone means.
pub const OFFICIAL: &str = "https://huggingface.co";

/// Where models come from and where they are kept.
#[derive(Clone)]
pub struct Hub {
    endpoint: Uri,
    cache: PathBuf,
    token: Option<String>,
    offline: bool,
    pub links: Links,
    pub patience: Patience,
}

// The token is nobody's business.
impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .finish_non_exhaustive()
    }
}

/// How far a download is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    pub phase: Phase,
    /// The file that is being worked on; empty while the list is asked for.
    pub file: String,
    /// Of all files, as far as their sizes are known yet.
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// Told how far a download is, at each piece; a break cancels it.
pub type OnProgress<'a> = &'a mut dyn FnMut(Progress) -> ControlFlow<()>;

impl Hub {
    /// The Hub that the environment names.
    ///
    /// # Errors
    /// Where a variable holds what it cannot hold, or no folder for downloads is known.
    pub fn from_env() -> Result<Self, HubError> {
        Self::from_vars(&|name| std::env::var(name).ok(), std::env::home_dir())
    }

    /// The same from variables given by hand.
    ///
    /// # Errors
    /// As [`Self::from_env`].
    pub fn from_vars(
        var: &dyn Fn(&str) -> Option<String>,
        home: Option<PathBuf>,
    ) -> Result<Self, HubError> {
        let var = |name: &str| {
            var(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let is_set = |name: &str| {
            var(name).is_some_and(|value| {
                matches!(
                    value.to_ascii_uppercase().as_str(),
                    "1" | "ON" | "YES" | "TRUE"
                )
            })
        };
        let folder = |name: &str| {
            let value = var(name)?;
            match (value.strip_prefix("~/"), &home) {
                (Some(rest), Some(home)) => Some(home.join(rest)),
                _ => Some(PathBuf::from(value)),
            }
        };
        let hf_home = folder("HF_HOME")
            .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("huggingface")))
            .or_else(|| Some(home.as_ref()?.join(".cache").join("huggingface")));
        let cache = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(hf_home.as_ref()?.join("hub")))
            .ok_or(HubError::NoCacheFolder)?;
        let token_file = folder("HF_TOKEN_PATH").or_else(|| Some(hf_home.as_ref()?.join("token")));
        let token = var("HF_TOKEN")
            .or_else(|| var("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| fs::read_to_string(token_file?).ok())
            .map(|token| token.trim().to_owned())
            // What cannot be a header is no token.
            .filter(|token| !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()));
        let mut hub = Self::at(var("HF_ENDPOINT").as_deref().unwrap_or(OFFICIAL), cache)?;
        hub.token = token;
        hub.offline = is_set("HF_HUB_OFFLINE");
        if is_set("HF_HUB_DISABLE_SYMLINKS") {
            hub.links = Links::Hard;
        }
        Ok(hub)
    }

    /// A Hub at an address, with its cache in a folder and no token.
    ///
    /// # Errors
    /// [`HubError::BadEndpoint`] for what is no http or https address.
    pub fn at(endpoint: &str, cache: impl Into<PathBuf>) -> Result<Self, HubError> {
        let bad = || HubError::BadEndpoint {
            variable: "HF_ENDPOINT".to_owned(),
            value: endpoint.to_owned(),
        };
        let uri: Uri = endpoint.trim_end_matches('/').parse().map_err(|_| bad())?;
        let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_web || uri.host().is_none_or(str::is_empty) || uri.query().is_some() {
            return Err(bad());
        }
        Ok(Self {
            endpoint: uri,
            cache: cache.into(),
            token: None,
            offline: false,
            links: Links::default(),
            patience: Patience::default(),
        })
    }

    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// The folder of the cache.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The folder of a model that is on this computer whole, whichever tool fetched it. Asks nobody.
    pub fn find(&self, repo: &RepoId, revision: &Revision) -> Option<PathBuf> {
        cache::find(&self.cache, repo, revision)
    }

    /// Downloads what is missing or wrong of a model, and says in which folder it is.
    ///
    /// # Errors
    /// As the sentences of [`HubError`] say. What has arrived is kept, and the next call goes on from there.
    pub fn fetch(
        &self,
        repo: &RepoId,
        revision: &Revision,
        progress: OnProgress,
    ) -> Result<PathBuf, HubError> {
        if self.offline {
            return self
                .find(repo, revision)
                .ok_or_else(|| HubError::Offline { repo: repo.clone() });
        }
        fetch::run(self, repo, revision, progress)
    }
}
