//! A Hub that behaves: the cache's layout, other tools' files, names, revisions, the environment.

use std::{
    collections::HashMap,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use logitscope::hub::{Hub, HubError, Links, Phase, RepoId, Revision};

use super::support::*;

#[test]
fn a_model_arrives_in_the_shared_layout() {
    let (place, server) = (Place::new(), FakeHub::sound(model()));
    let hub = place.hub(&server);
    assert_eq!(find(&hub), None);
    let snapshot = fetch(&hub).unwrap();

    assert_eq!(snapshot, place.model().join("snapshots").join(COMMIT));
    assert_eq!(
        names(&snapshot),
        [
            "config.json",
            "generation_config.json",
            WEIGHTS,
            "tokenizer.json"
        ]
    );
    assert_whole(&snapshot, &server);
    let reference = fs::read_to_string(place.model().join("refs/main")).unwrap();
    assert_eq!(reference, COMMIT);
    let mut etags: Vec<String> = names(&snapshot)
        .iter()
        .map(|name| server.repo.etag(name))
        .collect();
    etags.sort();
    assert_eq!(place.blobs(), etags);
    #[cfg(unix)]
    assert_eq!(
        fs::read_link(snapshot.join(WEIGHTS)).unwrap(),
        Path::new("../../blobs").join(server.repo.etag(WEIGHTS))
    );
    assert_eq!(find(&hub), Some(snapshot));
}

#[test]
fn only_what_is_needed_is_asked_for_and_nothing_twice() {
    let (place, server) = (Place::new(), FakeHub::sound(model()));
    place.fetch(&server).unwrap();
    for seen in server.seen() {
        for other in ["README", "tf_model", "vocab.json"] {
            assert!(!seen.path.contains(other), "{seen:?}");
        }
        assert_eq!(seen.header("range"), None);
    }
    assert_eq!(server.weights_seen().len(), 1);
    place.fetch(&server).unwrap();
    assert_eq!(server.weights_seen().len(), 1);
    let gets = server
        .seen()
        .into_iter()
        .filter(|seen| seen.method == "GET");
    let of_files = gets.filter(|seen| !seen.is_list() && !seen.cdn);
    assert_eq!(of_files.count(), 4);
}

#[test]
fn progress_counts_every_byte_once() {
    let (place, server) = (Place::new(), FakeHub::sound(model()));
    let mut reports = Vec::new();
    place
        .hub(&server)
        .fetch(&repo(), &Revision::default(), &mut |progress| {
            reports.push(progress);
            ControlFlow::Continue(())
        })
        .unwrap();
    let total: usize = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        WEIGHTS,
    ]
    .iter()
    .map(|name| server.repo.bytes(name).len())
    .sum();
    let last = reports.last().unwrap();
    assert_eq!(last.total_bytes, total as u64);
    assert_eq!(last.done_bytes, total as u64);
    let downloading: Vec<u64> = reports
        .iter()
        .filter(|report| report.phase == Phase::Downloading)
        .map(|report| report.done_bytes)
        .collect();
    assert!(downloading.is_sorted());
    assert!(
        downloading.len() > 10,
        "pieces are small enough to cancel between"
    );
}

#[test]
fn what_another_tool_fetched_is_simply_there() {
    let place = Place::new();
    let hub = Hub::at("http://127.0.0.1:1", place.cache()).unwrap();
    let source = small_model();
    for folder in ["models--openai-community--gpt2", "models--gpt2"] {
        let model = place.cache().join(folder);
        let snapshot = model.join("snapshots").join(COMMIT);
        fs::create_dir_all(&snapshot).unwrap();
        fs::create_dir_all(model.join("refs")).unwrap();
        fs::write(model.join("refs/main"), format!("{COMMIT}\n")).unwrap();
        for name in ["config.json", "tokenizer.json", WEIGHTS] {
            fs::write(snapshot.join(name), source.bytes(name)).unwrap();
        }
        let gpt2 = RepoId::parse("gpt2").unwrap();
        assert_eq!(hub.find(&gpt2, &Revision::default()), Some(snapshot));
        let by_commit = Revision::parse(COMMIT).unwrap();
        assert!(hub.find(&gpt2, &by_commit).is_some());
        let other = Revision::parse("other").unwrap();
        assert_eq!(hub.find(&gpt2, &other), None);
        fs::remove_dir_all(model).unwrap();
    }
}

#[test]
fn what_is_not_whole_is_not_there() {
    let (place, server) = (Place::new(), FakeHub::sound(small_model()));
    let hub = place.hub(&server);
    let weights = server.repo.bytes(WEIGHTS).to_vec();
    let cases: [(&str, Option<&[u8]>); 8] = [
        ("config.json", None),
        ("config.json", Some(b"{\"model_type\":")),
        ("tokenizer.json", None),
        ("tokenizer.json", Some(b"")),
        (WEIGHTS, None),
        (WEIGHTS, Some(b"")),
        (WEIGHTS, Some(&weights[..weights.len() - 1])),
        (WEIGHTS, Some(&[255; 64])),
    ];
    for (name, content) in cases {
        let snapshot = fetch(&hub).unwrap();
        assert!(find(&hub).is_some());
        let path = snapshot.join(name);
        fs::remove_file(&path).unwrap();
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        assert_eq!(find(&hub), None, "{name} {content:?}");
    }
    // And fetching makes it whole again.
    assert_whole(&fetch(&hub).unwrap(), &server);
}

#[test]
fn a_damaged_blob_is_fetched_anew() {
    let (place, server) = (Place::new(), FakeHub::sound(small_model()));
    place.fetch(&server).unwrap();
    let blob = place.model().join("blobs").join(server.repo.etag(WEIGHTS));
    for damage in [0_usize, 1] {
        let mut bytes = server.repo.bytes(WEIGHTS).to_vec();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        bytes.truncate(bytes.len() - damage);
        fs::write(&blob, bytes).unwrap();
        assert_whole(&place.fetch(&server).unwrap(), &server);
    }
    assert_eq!(server.weights_seen().len(), 3);
}

#[test]
fn a_system_without_symbolic_links_gets_files() {
    for links in [Links::Hard, Links::Copy] {
        let (place, server) = (Place::new(), FakeHub::sound(small_model()));
        let mut hub = place.hub(&server);
        hub.links = links;
        let snapshot = fetch(&hub).unwrap();
        assert_whole(&snapshot, &server);
        assert!(!snapshot.join(WEIGHTS).is_symlink());
        assert_eq!(find(&hub), Some(snapshot.clone()));
        assert_eq!(fetch(&hub).unwrap(), snapshot);
        assert_eq!(server.weights_seen().len(), 1);
        assert_eq!(names(&snapshot).len(), 4, "no leftovers");
    }
}

#[test]
fn weights_in_parts_and_old_tokenizers() {
    let mut source = small_model();
    source.remove(WEIGHTS);
    source.remove("tokenizer.json");
    source.put("merges.txt", b"#version: 0.2\na b\n", false);
    let (one, two) = (
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
    );
    source.put(one, &server::safetensors(10), true);
    source.put(two, &server::safetensors(20), true);
    let index = format!(r#"{{"weight_map":{{"a":"{one}","b":"{two}","c":"{one}"}}}}"#);
    source.put("model.safetensors.index.json", index.as_bytes(), false);
    let (place, server) = (Place::new(), FakeHub::sound(source));
    let hub = place.hub(&server);
    let snapshot = fetch(&hub).unwrap();
    assert_eq!(
        names(&snapshot),
        [
            "config.json",
            "generation_config.json",
            "merges.txt",
            one,
            two,
            "model.safetensors.index.json",
            "vocab.json",
        ]
    );
    assert_eq!(find(&hub), Some(snapshot.clone()));
    fs::remove_file(snapshot.join(two)).unwrap();
    assert_eq!(find(&hub), None);
}

#[test]
fn pytorch_weights_where_there_are_no_others() {
    let mut source = small_model();
    source.remove(WEIGHTS);
    source.put("pytorch_model.bin", &[80, 75, 3, 4], true);
    let (place, server) = (Place::new(), FakeHub::sound(source));
    let hub = place.hub(&server);
    let snapshot = fetch(&hub).unwrap();
    assert!(names(&snapshot).contains(&"pytorch_model.bin".to_owned()));
    assert_eq!(find(&hub), Some(snapshot));
}

#[test]
fn revisions_have_refs_of_their_own() {
    let (place, server) = (Place::new(), FakeHub::sound(small_model()));
    let hub = place.hub(&server);
    for (text, asked) in [("refs/pr/1", "refs%2Fpr%2F1"), ("v1.0", "v1.0")] {
        let revision = Revision::parse(text).unwrap();
        let snapshot = hub.fetch(&repo(), &revision, &mut go_on).unwrap();
        assert_eq!(hub.find(&repo(), &revision), Some(snapshot));
        let path = format!("/api/models/{NAME}/revision/{asked}");
        assert!(server.seen().iter().any(|seen| seen.path == path));
    }
    assert_eq!(find(&hub), None, "main was not asked for");
    let commit = Revision::parse(COMMIT).unwrap();
    hub.fetch(&repo(), &commit, &mut go_on).unwrap();
    assert_eq!(names(&place.model().join("refs")), ["refs", "v1.0"]);
}

#[test]
fn a_model_that_moved_is_followed() {
    let server = FakeHub::start(small_model(), |seen, reply| {
        match seen.path.strip_prefix("/api/models/old/name/") {
            Some(rest) => Reply::status(307).with("Location", format!("/api/models/{NAME}/{rest}")),
            None => match seen.path.strip_prefix("/old/name/") {
                Some(rest) => Reply::status(307).with("Location", format!("/{NAME}/{rest}")),
                None => reply,
            },
        }
    });
    let place = Place::new();
    let hub = place.hub(&server).with_token("secret");
    let old = RepoId::parse("old/name").unwrap();
    let snapshot = hub.fetch(&old, &Revision::default(), &mut go_on).unwrap();
    assert_whole(&snapshot, &server);
    let own = server.seen().into_iter().filter(|seen| !seen.cdn);
    assert!(own.clone().count() > 10);
    for seen in own {
        assert_eq!(
            seen.header("authorization"),
            Some("Bearer secret"),
            "{seen:?}"
        );
    }
}

#[test]
fn the_token_is_not_shown_to_the_cdn() {
    let (place, server) = (Place::new(), FakeHub::sound(small_model()));
    let hub = place.hub(&server).with_token("secret");
    fetch(&hub).unwrap();
    assert!(!format!("{hub:?}").contains("secret"));
    let weights = server.weights_seen();
    assert!(!weights.is_empty());
    for seen in weights {
        assert_eq!(seen.header("authorization"), None);
    }
}

#[test]
fn another_kind_of_model_is_refused_before_its_weights() {
    let mut source = small_model();
    source.put("config.json", br#"{"model_type":"llama"}"#, false);
    let (place, server) = (Place::new(), FakeHub::sound(source));
    let error = place.fetch(&server).unwrap_err();
    assert!(matches!(error, HubError::NotGpt2 { .. }), "{error}");
    assert!(
        error.to_string().contains("some/model is a llama model"),
        "{error}"
    );
    assert!(server.weights_seen().is_empty());
}

#[test]
fn offline_means_offline() {
    let (place, server) = (Place::new(), FakeHub::sound(small_model()));
    let vars = HashMap::from([
        ("HF_HUB_OFFLINE", "1".to_owned()),
        ("HF_ENDPOINT", server.url()),
        ("HF_HUB_CACHE", place.cache().display().to_string()),
    ]);
    let offline = Hub::from_vars(&|name| vars.get(name).cloned(), None).unwrap();
    let error = fetch(&offline).unwrap_err();
    assert!(matches!(error, HubError::Offline { .. }), "{error}");
    assert!(server.seen().is_empty());
    let snapshot = place.fetch(&server).unwrap();
    let asked = server.seen().len();
    assert_eq!(fetch(&offline).unwrap(), snapshot);
    assert_eq!(server.seen().len(), asked);
}

#[test]
fn the_environment_is_read_as_other_tools_do() {
    let home = Some(PathBuf::from("/home/someone"));
    let of = |vars: &[(&str, &str)]| {
        let vars: HashMap<String, String> = vars
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Hub::from_vars(&|name| vars.get(name).cloned(), home.clone())
    };
    for (vars, cache) in [
        (&[][..], "/home/someone/.cache/huggingface/hub"),
        (&[("XDG_CACHE_HOME", "/xdg")], "/xdg/huggingface/hub"),
        (&[("HF_HOME", "/hf"), ("XDG_CACHE_HOME", "/xdg")], "/hf/hub"),
        (&[("HF_HOME", "~/hf")], "/home/someone/hf/hub"),
        (&[("HF_HUB_CACHE", "/cache"), ("HF_HOME", "/hf")], "/cache"),
        (&[("HF_HUB_CACHE", " "), ("HF_HOME", "/hf")], "/hf/hub"),
    ] {
        assert_eq!(of(vars).unwrap().cache(), Path::new(cache), "{vars:?}");
    }
    for address in ["no address", "ftp://host", "/path", "http://"] {
        let error = of(&[("HF_ENDPOINT", address)]).unwrap_err();
        assert!(error.to_string().contains("HF_ENDPOINT"), "{error}");
    }
    assert!(Hub::from_vars(&|_| None, None).is_err());
}

#[test]
fn the_token_comes_from_the_environment_or_its_file() {
    let (place, server) = (Place::new(), FakeHub::sound(small_model()));
    let hf_home = place.folder.path().join("home");
    fs::create_dir_all(&hf_home).unwrap();
    fs::write(hf_home.join("token"), "from-home\n").unwrap();
    fs::write(hf_home.join("elsewhere"), "from-path").unwrap();
    let elsewhere = hf_home.join("elsewhere").display().to_string();
    for (vars, token) in [
        (vec![], Some("Bearer from-home")),
        (
            vec![("HF_TOKEN_PATH", elsewhere.clone())],
            Some("Bearer from-path"),
        ),
        (
            vec![
                ("HF_TOKEN", "given".to_owned()),
                ("HF_TOKEN_PATH", elsewhere),
            ],
            Some("Bearer given"),
        ),
        (vec![("HF_TOKEN", "not\na token".to_owned())], None),
    ] {
        let mut vars: HashMap<&str, String> = vars.into_iter().collect();
        vars.insert("HF_ENDPOINT", server.url());
        vars.insert("HF_HOME", hf_home.display().to_string());
        let hub = Hub::from_vars(&|name| vars.get(name).cloned(), None).unwrap();
        assert_eq!(hub.cache(), place.cache());
        fetch(&hub).unwrap();
        let lists: Vec<Seen> = server.seen().into_iter().filter(Seen::is_list).collect();
        assert_eq!(lists.last().unwrap().header("authorization"), token);
    }
}
