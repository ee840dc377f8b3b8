//! Which files of a repository a GPT-2 needs, and whether a folder has them. Pure, but for reading a folder.

use std::{
    collections::BTreeSet,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use super::{HubError, RepoId, repo::is_file_name};

pub(super) const CONFIG: &str = "config.json";

/// Weights in one file, in order of preference, each with the index that stands for it when it is in parts.
const WEIGHTS: [(&str, &str); 2] = [
    ("model.safetensors", "model.safetensors.index.json"),
    ("pytorch_model.bin", "pytorch_model.bin.index.json"),
];

/// One file is enough; else all of the second row.
const TOKENIZER: &str = "tokenizer.json";
const OLD_TOKENIZER: [&str; 2] = ["vocab.json", "merges.txt"];

/// Taken along where they are there.
const EXTRAS: [&str; 3] = [
    "added_tokens.json",
    "special_tokens_map.json",
    "generation_config.json",
];

/// Largest JSON file that is read whole.
pub(super) const JSON_LIMIT: u64 = 32 << 20;

/// The files to fetch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Configuration and tokenizer, and the weights' index where there is one.
    pub small: Vec<&'static str>,
    pub weights: Weights,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weights {
    One(&'static str),
    /// In the parts that this index names.
    Index(&'static str),
}

/// Chooses from the files that a repository lists.
///
/// # Errors
/// [`HubError::Missing`] where it lacks what every model needs.
pub(super) fn plan(repo: &RepoId, listed: &BTreeSet<String>) -> Result<Plan, HubError> {
    let has = |name: &str| listed.contains(name);
    let missing = |missing| HubError::Missing {
        repo: repo.clone(),
        missing,
    };
    if !has(CONFIG) {
        return Err(missing(CONFIG));
    }
    let mut small = vec![CONFIG];
    if has(TOKENIZER) {
        small.push(TOKENIZER);
    } else if OLD_TOKENIZER.iter().all(|name| has(name)) {
        small.extend(OLD_TOKENIZER);
    } else {
        return Err(missing("tokenizer.json (nor vocab.json with merges.txt)"));
    }
    small.extend(EXTRAS.iter().filter(|name| has(name)));
    let weights = WEIGHTS
        .iter()
        .find_map(|&(one, index)| match (has(one), has(index)) {
            (true, _) => Some(Weights::One(one)),
            (false, true) => Some(Weights::Index(index)),
            (false, false) => None,
        })
        .ok_or_else(|| missing("model.safetensors (nor pytorch_model.bin)"))?;
    if let Weights::Index(index) = weights {
        small.push(index);
    }
    Ok(Plan { small, weights })
}

/// The parts that an index names, each once.
///
/// # Errors
/// A problem, in words.
pub(super) fn shards(index: &Path) -> Result<BTreeSet<String>, String> {
    let json = read_json(index)?;
    let map = json
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or("it has no weight_map")?;
    let names: Option<BTreeSet<String>> = map
        .values()
        .map(|name| name.as_str().map(str::to_owned))
        .collect();
    match names {
        Some(names) if !names.is_empty() => Ok(names),
        Some(_) => Err("its weight_map is empty".to_owned()),
        None => Err("its weight_map holds something that is no file name".to_owned()),
    }
}

/// Another kind of model than GPT-2, where a configuration says so.
pub(super) fn other_model_type(config: &Path) -> Result<Option<String>, String> {
    let json = read_json(config)?;
    let found = json.get("model_type").and_then(Value::as_str);
    Ok(found.filter(|found| *found != "gpt2").map(str::to_owned))
}

fn read_json(path: &Path) -> Result<Map<String, Value>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(JSON_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > JSON_LIMIT {
        return Err("it is too large".to_owned());
    }
    serde_json::from_slice(&bytes).map_err(|error| error.to_string())
}

/// Whether a folder holds a whole model, as far as its files can tell: JSON parses, weights are as long as
/// their headers say, all parts are there.
pub(super) fn is_complete(folder: &Path) -> bool {
    let at = |name: &str| folder.join(name);
    let tokenizer = read_json(&at(TOKENIZER)).is_ok()
        || (read_json(&at(OLD_TOKENIZER[0])).is_ok() && has_content(&at(OLD_TOKENIZER[1])));
    read_json(&at(CONFIG)).is_ok()
        && tokenizer
        && WEIGHTS.iter().any(|(one, index)| {
            is_whole_weights(&at(one))
                || shards(&at(index)).is_ok_and(|names| {
                    names
                        .iter()
                        .all(|name| is_file_name(name) && is_whole_weights(&at(name)))
                })
        })
}

fn has_content(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|file| file.is_file() && file.len() > 0)
}

fn is_whole_weights(path: &Path) -> bool {
    if path
        .extension()
        .is_some_and(|ending| ending == "safetensors")
    {
        safetensors_bytes(path).is_some_and(|bytes| {
            path.metadata()
                .is_ok_and(|file| file.is_file() && file.len() == bytes)
        })
    } else {
        has_content(path)
    }
}

/// How long a safetensors file's header says that it is.
fn safetensors_bytes(path: &Path) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = u64::from_le_bytes(length);
    if length > JSON_LIMIT {
        return None;
    }
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).ok()?;
    let header: Map<String, Value> = serde_json::from_slice(&header).ok()?;
    let end = header
        .values()
        .filter_map(|tensor| tensor.get("data_offsets")?.get(1)?.as_u64())
        .max()
        .unwrap_or(0);
    end.checked_add(8 + length)
}

/// The folder of a snapshot's file, if the names are fit to be part of a path.
///
/// # Errors
/// [`HubError::UnsafeName`] for a name that could lead out of the folder.
pub(super) fn inside(folder: &Path, name: &str, repo: &RepoId) -> Result<PathBuf, HubError> {
    if is_file_name(name) {
        Ok(folder.join(name))
    } else {
        Err(HubError::UnsafeName {
            repo: repo.clone(),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo() -> RepoId {
        RepoId::parse("some/model").expect("a name")
    }

    fn planned(listed: &[&str]) -> Result<Plan, HubError> {
        plan(
            &repo(),
            &listed.iter().map(|&name| name.to_owned()).collect(),
        )
    }

    #[test]
    fn only_what_is_needed_is_chosen() {
        let listed = [
            ".gitattributes",
            "README.md",
            "config.json",
            "flax_model.msgpack",
            "generation_config.json",
            "merges.txt",
            "model.safetensors",
            "onnx/decoder_model.onnx",
            "pytorch_model.bin",
            "tf_model.h5",
            "tokenizer.json",
            "tokenizer_config.json",
            "vocab.json",
        ];
        let plan = planned(&listed).expect("a plan");
        assert_eq!(plan.weights, Weights::One("model.safetensors"));
        assert_eq!(
            plan.small,
            ["config.json", "tokenizer.json", "generation_config.json"]
        );
    }

    #[test]
    fn older_layouts_are_chosen_where_there_is_nothing_newer() {
        let listed = [
            "config.json",
            "vocab.json",
            "merges.txt",
            "added_tokens.json",
            "pytorch_model.bin.index.json",
        ];
        let plan = planned(&listed).expect("a plan");
        assert_eq!(plan.weights, Weights::Index("pytorch_model.bin.index.json"));
        let sharded = planned(&[
            "config.json",
            "tokenizer.json",
            "model.safetensors.index.json",
            "pytorch_model.bin",
        ])
        .expect("a plan");
        assert_eq!(
            sharded.weights,
            Weights::Index("model.safetensors.index.json")
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        for (listed, named) in [
            (&["model.safetensors", "tokenizer.json"][..], "config.json"),
            (
                &["config.json", "model.safetensors", "vocab.json"],
                "tokenizer.json",
            ),
            (&["config.json", "tokenizer.json"], "model.safetensors"),
        ] {
            let error = planned(listed).expect_err("something is missing");
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn names_stay_inside() {
        let folder = Path::new("folder");
        for name in [
            "../x",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "..",
            ".",
            "",
            "c:x",
            ".hidden",
            "x.",
        ] {
            assert!(inside(folder, name, &repo()).is_err(), "{name:?}");
        }
        assert!(inside(folder, "model-00001-of-00002.safetensors", &repo()).is_ok());
    }
}
