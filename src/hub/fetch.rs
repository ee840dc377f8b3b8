//! One model: learns what there is, chooses, and brings each file into the snapshot.

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::{
    Hub, HubError, OnProgress, Phase, Progress, RepoId, Revision,
    cache::RepoCache,
    download::Wanted,
    files::{self, Weights},
    http::{About, Client, FileFacts},
    repo::is_commit,
    tries::with_tries,
};

/// Most bytes of a list of files.
const LIST_LIMIT: u64 = 16 << 20;

/// See [`Hub::fetch`].
pub(super) fn run(
    hub: &Hub,
    repo: &RepoId,
    revision: &Revision,
    progress: OnProgress,
) -> Result<PathBuf, HubError> {
    let client = Client::new(&hub.endpoint, hub.token.as_deref(), &hub.patience);
    let mut fetch = Fetch {
        hub,
        client,
        cache: RepoCache::new(&hub.cache, repo),
        repo,
        revision,
        commit: String::new(),
        done_bytes: 0,
        total_bytes: 0,
        progress,
    };
    let listed = fetch.list()?;
    let plan = files::plan(repo, &listed)?;
    let mut wanted = Vec::new();
    for &file in &plan.small {
        let facts = fetch.ask(file)?;
        if facts.size > files::JSON_LIMIT {
            return Err(fetch.bad_file(file, "it is too large".to_owned()));
        }
        wanted.push((file.to_owned(), facts));
    }
    let mut weights = Vec::new();
    if let Weights::One(file) = plan.weights {
        weights.push((file.to_owned(), fetch.ask(file)?));
    }
    for (file, facts) in &wanted {
        fetch.bring(file, facts)?;
        if file == files::CONFIG {
            fetch.check_config()?;
        }
    }
    if let Weights::Index(index) = plan.weights {
        for shard in fetch.shards(index, &listed)? {
            let facts = fetch.ask(&shard)?;
            weights.push((shard, facts));
        }
    }
    for (file, facts) in &weights {
        fetch.bring(file, facts)?;
    }
    // Only now does the revision's name stand for this commit.
    fetch.cache.write_ref(revision, &fetch.commit)?;
    Ok(fetch.cache.snapshot(&fetch.commit))
}

/// The part of the list of files that is read.
#[derive(Deserialize)]
struct Listing {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

/// One call of [`Hub::fetch`].
struct Fetch<'a> {
    hub: &'a Hub,
    client: Client,
    cache: RepoCache,
    repo: &'a RepoId,
    revision: &'a Revision,
    commit: String,
    done_bytes: u64,
    total_bytes: u64,
    progress: OnProgress<'a>,
}

impl Fetch<'_> {
    fn report(&mut self, phase: Phase, file: &str, file_bytes: u64) -> ControlFlow<()> {
        (self.progress)(Progress {
            phase,
            file: file.to_owned(),
            done_bytes: self.done_bytes + file_bytes,
            total_bytes: self.total_bytes,
        })
    }

    /// Learns the commit and the names of its files.
    fn list(&mut self) -> Result<BTreeSet<String>, HubError> {
        let path = format!(
            "api/models/{}/revision/{}",
            self.repo,
            self.revision.segment()
        );
        let hub = self.hub;
        if self.report(Phase::Asking, "", 0).is_break() {
            return Err(HubError::Cancelled);
        }
        let (client, repo, revision) = (&self.client, self.repo, self.revision.as_str());
        let about = About {
            repo,
            revision,
            file: None,
        };
        let progress = &mut *self.progress;
        let bad = |problem: &str| HubError::BadReply {
            host: client.host(),
            problem: problem.to_owned(),
        };
        let bytes = with_tries(&hub.patience, &mut || progress(asking()), || {
            let response = client.get(&path, 0, about)?;
            let mut body = response.into_body();
            let body = body.with_config().limit(LIST_LIMIT);
            body.read_to_vec().map_err(|error| match error {
                ureq::Error::BodyExceedsLimit(_) => bad("its list of files is too long"),
                error => HubError::Unreachable {
                    host: client.host(),
                    cause: error.to_string(),
                },
            })
        })?;
        let listing: Listing =
            serde_json::from_slice(&bytes).map_err(|_| bad("its list of files cannot be read"))?;
        if !is_commit(&listing.sha) {
            return Err(bad("the commit that it names is none"));
        }
        self.commit = listing.sha;
        Ok(listing
            .siblings
            .into_iter()
            .map(|sibling| sibling.rfilename)
            .collect())
    }

    fn path(&self, file: &str) -> String {
        format!("{}/resolve/{}/{file}", self.repo, self.commit)
    }

    /// Asks for a file's facts and counts its bytes.
    fn ask(&mut self, file: &str) -> Result<FileFacts, HubError> {
        if self.report(Phase::Asking, file, 0).is_break() {
            return Err(HubError::Cancelled);
        }
        let path = self.path(file);
        let hub = self.hub;
        let (client, repo, revision) = (&self.client, self.repo, self.revision.as_str());
        let about = About {
            repo,
            revision,
            file: Some(file),
        };
        let progress = &mut *self.progress;
        let facts = with_tries(&hub.patience, &mut || progress(asking()), || {
            client.facts(&path, about)
        })?;
        self.total_bytes = self.total_bytes.saturating_add(facts.size);
        Ok(facts)
    }

    /// Sees to it that a file is in the snapshot.
    fn bring(&mut self, file: &str, facts: &FileFacts) -> Result<(), HubError> {
        let path = self.path(file);
        let (done_bytes, total_bytes) = (self.done_bytes, self.total_bytes);
        let progress = &mut *self.progress;
        let wanted = Wanted {
            client: &self.client,
            cache: &self.cache,
            patience: &self.hub.patience,
            path: &path,
            file,
            about: About {
                repo: self.repo,
                revision: self.revision.as_str(),
                file: Some(file),
            },
            facts,
        };
        wanted.fetch(&mut |phase, file_bytes| {
            progress(Progress {
                phase,
                file: file.to_owned(),
                done_bytes: done_bytes + file_bytes,
                total_bytes,
            })
        })?;
        self.cache
            .place(&facts.etag, &self.commit, file, self.hub.links)?;
        self.done_bytes = self.done_bytes.saturating_add(facts.size);
        Ok(())
    }

    fn in_snapshot(&self, file: &str) -> PathBuf {
        self.cache.snapshot(&self.commit).join(file)
    }

    fn bad_file(&self, file: &str, problem: String) -> HubError {
        HubError::BadFile {
            repo: self.repo.clone(),
            file: file.to_owned(),
            problem,
        }
    }

    /// Looks before half a gigabyte of another model arrives.
    fn check_config(&self) -> Result<(), HubError> {
        match files::other_model_type(&self.in_snapshot(files::CONFIG)) {
            Ok(None) => Ok(()),
            Ok(Some(found)) => Err(HubError::NotGpt2 {
                repo: self.repo.clone(),
                found,
            }),
            Err(problem) => Err(self.bad_file(files::CONFIG, problem)),
        }
    }

    /// The parts that an index names, all of which the repository lists.
    fn shards(&self, index: &str, listed: &BTreeSet<String>) -> Result<Vec<String>, HubError> {
        let names = files::shards(&self.in_snapshot(index))
            .map_err(|problem| self.bad_file(index, problem))?;
        for name in &names {
            files::inside(Path::new(""), name, self.repo)?;
            if !listed.contains(name) {
                return Err(HubError::MissingShard {
                    repo: self.repo.clone(),
                    index: index.to_owned(),
                    shard: name.clone(),
                });
            }
        }
        Ok(names.into_iter().collect())
    }
}

fn asking() -> Progress {
    Progress {
        phase: Phase::Pausing,
        file: String::new(),
        done_bytes: 0,
        total_bytes: 0,
    }
}
