//! Names of models and revisions on the Hub: what is accepted, and where it lives in the cache.
//!
//! Both become parts of paths and URLs, so whatever is not plainly a name is refused here. Pure; any thread.

use std::{fmt, path::Path};

use super::HubError;

/// Short names that people know, and owner and name of the repository that each stands for. Each short name
/// was a repository of its own once: older tools keep it in the cache under that.
const ALIASES: [(&str, &str, &str); 5] = [
    ("gpt2", "openai-community", "gpt2"),
    ("distilgpt2", "distilbert", "distilgpt2"),
    ("gpt2-medium", "openai-community", "gpt2-medium"),
    ("gpt2-large", "openai-community", "gpt2-large"),
    ("gpt2-xl", "openai-community", "gpt2-xl"),
];

/// Longest owner or model name that the Hub allows.
const LONGEST_NAME: usize = 96;

/// A model repository on the Hub.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RepoId {
    owner: String,
    name: String,
}

impl RepoId {
    /// The models that go by a short name.
    pub const SHORT_NAMES: [&str; 5] = [
        ALIASES[0].0,
        ALIASES[1].0,
        ALIASES[2].0,
        ALIASES[3].0,
        ALIASES[4].0,
    ];

    /// Reads `gpt2` and the other short names, or `owner/name`.
    ///
    /// # Errors
    /// [`HubError::BadName`] for anything else.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        let text = text.trim();
        let bad = || HubError::BadName(text.to_owned());
        if let Some((_, owner, name)) = ALIASES.iter().find(|(short, ..)| *short == text) {
            return Ok(Self {
                owner: (*owner).to_owned(),
                name: (*name).to_owned(),
            });
        }
        let (owner, name) = text.split_once('/').ok_or_else(bad)?;
        if !is_name(owner) || !is_name(name) || name.ends_with(".git") {
            return Err(bad());
        }
        Ok(Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    /// What a person would call it: the short name where there is one.
    pub fn label(&self) -> String {
        self.short().map_or_else(|| self.to_string(), str::to_owned)
    }

    fn short(&self) -> Option<&'static str> {
        ALIASES
            .iter()
            .find(|(_, owner, name)| *owner == self.owner && *name == self.name)
            .map(|(short, ..)| *short)
    }

    /// Its folder in the cache.
    pub(super) fn folder(&self) -> String {
        format!("models--{}--{}", self.owner, self.name)
    }

    /// Every folder in which a tool may have put it: the short names were repositories once.
    pub(super) fn folders(&self) -> Vec<String> {
        let old = self.short().map(|short| format!("models--{short}"));
        std::iter::once(self.folder()).chain(old).collect()
    }
}

/// What a person would call the model in a snapshot folder of the cache; `None` for any other folder.
pub fn snapshot_name(folder: &Path) -> Option<String> {
    let snapshots = folder.parent()?;
    if snapshots.file_name()? != "snapshots" {
        return None;
    }
    let name = snapshots.parent()?.file_name()?.to_str()?;
    let name = name.strip_prefix("models--")?.replacen("--", "/", 1);
    RepoId::parse(&name).ok().map(|repo| repo.label())
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// Whether the Hub allows this as an owner's or a model's name.
fn is_name(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    text.len() <= LONGEST_NAME
        && text.chars().all(is_plain)
        && edge(text.chars().next())
        && edge(text.chars().next_back())
        && !text.contains("--")
        && !text.contains("..")
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Whether a name that the server gave can be a file of its own inside a folder, on every system.
pub(super) fn is_file_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 200
        && text.chars().all(is_plain)
        && !text.starts_with('.')
        && !text.ends_with('.')
}

/// A branch, a tag, or a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(String);

impl Revision {
    /// Reads a revision: letters, digits and `-_.+@`, in parts separated by `/`.
    ///
    /// # Errors
    /// [`HubError::BadRevision`] where it could not be a part of a path.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        let part = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && !part.ends_with('.')
                && !part.contains("..")
                && part.chars().all(|c| is_plain(c) || matches!(c, '+' | '@'))
        };
        let text = text.trim();
        if text.len() <= 200 && text.split('/').all(part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(HubError::BadRevision(text.to_owned()))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The revision as one segment of a URL.
    pub(super) fn segment(&self) -> String {
        self.0
            .replace('/', "%2F")
            .replace('+', "%2B")
            .replace('@', "%40")
    }

    /// The commit that it names by its whole hash.
    pub(super) fn commit(&self) -> Option<&str> {
        is_commit(&self.0).then_some(self.as_str())
    }
}

impl Default for Revision {
    fn default() -> Self {
        Self("main".to_owned())
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A git commit's whole hash.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_stand_for_their_repositories() {
        for (text, whole) in [
            ("gpt2", "openai-community/gpt2"),
            ("distilgpt2", "distilbert/distilgpt2"),
            (" gpt2-xl ", "openai-community/gpt2-xl"),
            ("openai-community/gpt2", "openai-community/gpt2"),
            ("Some_One/my.gpt-2", "Some_One/my.gpt-2"),
        ] {
            let repo = RepoId::parse(text).expect(text);
            assert_eq!(repo.to_string(), whole);
        }
        let repo = RepoId::parse("openai-community/gpt2").expect("a name");
        assert_eq!(repo.label(), "gpt2");
        assert_eq!(
            repo.folders(),
            ["models--openai-community--gpt2", "models--gpt2"]
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let long = format!("a/{}", "b".repeat(97));
        for text in [
            "", "/", "gpt3", "a/b/c", "../b", "a/..", "a/.b", "a/b.", "-a/b", "a/b--c", "a/b..c",
            "a b/c", "a/b\\c", "a/b.git", "a:/b", "ä/b", "a/", &long,
        ] {
            assert!(RepoId::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_snapshot_goes_by_its_models_name() {
        for (folder, name) in [
            (
                "hub/models--openai-community--gpt2/snapshots/607a",
                Some("gpt2"),
            ),
            ("hub/models--gpt2-xl/snapshots/607a", Some("gpt2-xl")),
            ("hub/models--some--model/snapshots/607a", Some("some/model")),
            ("hub/models--some--model", None),
            ("hub/datasets--some--data/snapshots/607a", None),
        ] {
            assert_eq!(
                snapshot_name(Path::new(folder)).as_deref(),
                name,
                "{folder}"
            );
        }
    }

    #[test]
    fn revisions() {
        for text in ["main", "v1.0", "refs/pr/1", "feature/x+y"] {
            assert!(Revision::parse(text).is_ok(), "{text}");
        }
        for text in [
            "", "../main", "a//b", "/a", "a/", "a/../b", "a b", "a\\b", ".a", "c:d",
        ] {
            assert!(Revision::parse(text).is_err(), "{text:?}");
        }
        let pr = Revision::parse("refs/pr/1").expect("a revision");
        assert_eq!(pr.segment(), "refs%2Fpr%2F1");
    }
}
