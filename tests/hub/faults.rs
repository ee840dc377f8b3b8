//! A Hub, a network and a disk that do not behave: each has its sentence, nothing half-written is taken for
//! whole, and the next try goes on where the last one stopped.

use std::{
    fs,
    net::TcpListener,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use logitscope::hub::{Hub, HubError, Phase, Revision};

use super::support::*;

/// A fault in every answer that `when` picks.
fn faulty(
    repo: Repo,
    when: impl Fn(&Seen) -> bool + Send + Sync + 'static,
    fault: impl Fn(&Seen, Reply) -> Reply + Send + Sync + 'static,
) -> FakeHub {
    FakeHub::start(repo, move |seen, reply| {
        if when(seen) {
            fault(seen, reply)
        } else {
            reply
        }
    })
}

fn first_weights(seen: &Seen) -> bool {
    seen.is_weights() && seen.nth == 0
}

/// Nothing can be mistaken for a model, and the sentence says `wanted`.
fn assert_failed(place: &Place, server: &FakeHub, wanted: &str) {
    let error = place.fetch(server).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(wanted), "“{text}” lacks “{wanted}”");
    assert_eq!(find(&place.hub(server)), None);
    assert!(!place.blobs().contains(&server.repo.etag(WEIGHTS)));
    assert!(!place.model().join("refs/main").exists());
}

// ---- cut, resumed ------------------------------------------------------------------------------------------------

#[test]
fn a_cut_connection_is_taken_up_where_it_broke() {
    let server = faulty(model(), first_weights, |_, mut reply| {
        reply.cut_at = Some(1_500_000);
        reply
    });
    let place = Place::new();
    assert_whole(&place.fetch(&server).unwrap(), &server);
    let weights = server.weights_seen();
    assert_eq!(weights.len(), 2);
    assert_eq!(weights[1].header("range"), Some("bytes=1500000-"));
}

#[test]
fn the_next_call_goes_on_where_the_last_one_stopped() {
    let server = faulty(model(), first_weights, |_, mut reply| {
        reply.cut_at = Some(1_000_000);
        reply
    });
    let place = Place::new();
    let mut hub = place.hub(&server);
    hub.patience.tries = 1;
    let error = fetch(&hub).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("model.safetensors broke off at 1000000 of 24000"),
        "{error}"
    );
    assert_eq!(find(&hub), None);
    let incomplete = format!("{}.incomplete", server.repo.etag(WEIGHTS));
    assert!(place.blobs().contains(&incomplete));
    assert_whole(&fetch(&hub).unwrap(), &server);
    assert!(!place.blobs().contains(&incomplete));
    let weights = server.weights_seen();
    assert_eq!(weights.len(), 2);
    assert_eq!(weights[1].header("range"), Some("bytes=1000000-"));
}

#[test]
fn a_line_that_always_breaks_ends_after_bounded_tries() {
    let server = faulty(model(), Seen::is_weights, |_, mut reply| {
        reply.cut_at = Some(1000);
        reply
    });
    let place = Place::new();
    assert_failed(&place, &server, "broke off at 3000 of");
    assert_eq!(server.weights_seen().len(), 3);
}

#[test]
fn a_server_without_ranges_sends_it_all_again() {
    for status in [200, 416, 206] {
        let server = faulty(model(), Seen::is_weights, move |seen, mut reply| {
            if seen.nth == 0 {
                reply.cut_at = Some(1_500_000);
                return reply;
            }
            if seen.header("range").is_none() {
                return reply;
            }
            match status {
                // The range is not heeded.
                200 => Reply::status(200).with_body(model().bytes(WEIGHTS)),
                416 => Reply::status(416),
                // Another range than was asked for.
                _ => {
                    reply.set("Content-Range", "bytes 7-2400000/2400001");
                    reply
                }
            }
        });
        let place = Place::new();
        assert_whole(&place.fetch(&server).unwrap(), &server);
    }
}

#[test]
fn bytes_that_another_try_left_are_not_believed() {
    for left in [
        vec![7; 1000],
        vec![7; 3_000_000],
        vec![7; model().bytes(WEIGHTS).len()],
    ] {
        let server = FakeHub::sound(model());
        let place = Place::new();
        let blobs = place.model().join("blobs");
        fs::create_dir_all(&blobs).unwrap();
        let incomplete = format!("{}.incomplete", server.repo.etag(WEIGHTS));
        fs::write(blobs.join(&incomplete), left).unwrap();
        assert_whole(&place.fetch(&server).unwrap(), &server);
        assert!(!blobs.join(&incomplete).exists());
    }
}

#[test]
fn cancelling_keeps_what_has_arrived() {
    let server = FakeHub::sound(model());
    let place = Place::new();
    let hub = place.hub(&server);
    let error = hub
        .fetch(&repo(), &Revision::default(), &mut |progress| {
            if progress.done_bytes > 1_000_000 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap_err();
    assert!(matches!(error, HubError::Cancelled), "{error}");
    assert_eq!(find(&hub), None);
    assert_whole(&fetch(&hub).unwrap(), &server);
    let weights = server.weights_seen();
    let from = weights[1].header("range").unwrap();
    let from: u64 = from["bytes=".len()..from.len() - 1].parse().unwrap();
    assert!(from > 900_000, "{from}");
}

// ---- wrong bytes -------------------------------------------------------------------------------------------------

#[test]
fn damaged_bytes_are_never_kept() {
    let server = faulty(model(), Seen::is_weights, |_, mut reply| {
        reply.body[2_000_000] ^= 1;
        reply
    });
    let place = Place::new();
    assert_failed(&place, &server, "arrived damaged, twice");
    assert_eq!(server.weights_seen().len(), 2);
    let incomplete = format!("{}.incomplete", server.repo.etag(WEIGHTS));
    assert!(!place.blobs().contains(&incomplete));
}

#[test]
fn small_files_are_summed_as_git_does() {
    // Still JSON, and as long as before.
    let is_tokenizer = |seen: &Seen| seen.path.ends_with("tokenizer.json");
    let server = faulty(small_model(), is_tokenizer, |_, mut reply| {
        if let Some(letter) = reply.body.iter_mut().find(|byte| **byte == b'B') {
            *letter = b'b';
        }
        reply
    });
    let place = Place::new();
    assert_failed(&place, &server, "tokenizer.json arrived damaged, twice");
    assert!(!place.blobs().contains(&server.repo.etag("tokenizer.json")));
}

#[test]
fn bytes_damaged_once_are_fetched_again() {
    let server = faulty(model(), first_weights, |_, mut reply| {
        reply.body[5] ^= 1;
        reply
    });
    assert_whole(&Place::new().fetch(&server).unwrap(), &server);
}

#[test]
fn a_wrong_length_is_refused() {
    let stated = faulty(small_model(), Seen::is_weights, |_, mut reply| {
        reply.body.push(0);
        reply
    });
    assert_failed(&Place::new(), &stated, "should have 4");
    let shorter = faulty(small_model(), Seen::is_weights, |_, mut reply| {
        reply.body.pop();
        reply
    });
    assert_failed(&Place::new(), &shorter, "fetch again later");
    let unstated = faulty(small_model(), Seen::is_weights, |_, mut reply| {
        reply.chunked = true;
        reply.body.push(0);
        reply
    });
    assert_failed(&Place::new(), &unstated, "should have 4");
    let early = faulty(small_model(), Seen::is_weights, |_, mut reply| {
        reply.chunked = true;
        reply.body.truncate(reply.body.len() / 2);
        reply
    });
    // What comes is what is left less half, three times over.
    assert_failed(&Place::new(), &early, "broke off at");
}

#[test]
fn bytes_of_unknown_length_are_taken_where_they_are_right() {
    let server = faulty(model(), Seen::is_weights, |_, mut reply| {
        reply.chunked = true;
        reply
    });
    assert_whole(&Place::new().fetch(&server).unwrap(), &server);
}

// ---- statuses ----------------------------------------------------------------------------------------------------

#[test]
fn each_status_has_its_sentence() {
    let cases = [
        (
            401,
            "",
            "",
            "check the name; if the model is private, set HF_TOKEN",
        ),
        (401, "", "token", "refuses the token"),
        (401, "RepoNotFound", "token", "was not found"),
        (401, "GatedRepo", "", "accept them at http://127.0.0.1:"),
        (
            403,
            "GatedRepo",
            "token",
            "accept them at http://127.0.0.1:",
        ),
        (403, "", "token", "ask its owner"),
        (404, "", "", "some/model was not found on 127.0.0.1"),
        (404, "RevisionNotFound", "", "has no revision “main”"),
        (418, "", "", "status 418"),
    ];
    for (status, code, token, wanted) in cases {
        let server = faulty(small_model(), Seen::is_list, move |_, _| {
            Reply::status(status).with("X-Error-Code", code)
        });
        let place = Place::new();
        let mut hub = place.hub(&server);
        if !token.is_empty() {
            hub = hub.with_token(token);
        }
        let text = fetch(&hub).unwrap_err().to_string();
        assert!(text.contains(wanted), "{status} {code}: “{text}”");
        assert_eq!(server.seen().len(), 1, "{status} is not asked for again");
        assert!(all_files(place.folder.path()).is_empty());
    }
}

#[test]
fn a_listed_file_that_is_not_there_is_named() {
    let server = faulty(
        small_model(),
        |seen| seen.path.ends_with("tokenizer.json"),
        |_, _| Reply::status(404).with("X-Error-Code", "EntryNotFound"),
    );
    assert_failed(&Place::new(), &server, "has no tokenizer.json although");
}

#[test]
fn a_fault_that_passes_is_waited_for() {
    for status in [500, 503, 429, 408] {
        let server = faulty(
            small_model(),
            |seen| !seen.cdn && seen.nth < 2,
            move |_, _| Reply::status(status),
        );
        assert_whole(&Place::new().fetch(&server).unwrap(), &server);
    }
}

#[test]
fn a_fault_that_stays_ends_after_bounded_tries() {
    for (status, wanted) in [
        (502, "has a fault (status 502)"),
        (429, "too many requests"),
    ] {
        let server = faulty(small_model(), Seen::is_weights, move |_, _| {
            Reply::status(status)
        });
        assert_failed(&Place::new(), &server, wanted);
        assert_eq!(server.weights_seen().len(), 3);
    }
}

#[test]
fn redirects_in_circles_end() {
    let server = faulty(small_model(), Seen::is_list, |seen, _| {
        Reply::status(302).with("Location", &seen.path)
    });
    assert_failed(&Place::new(), &server, "redirects in circles");
    assert_eq!(server.seen().len(), 11);
    let cdn = faulty(small_model(), Seen::is_weights, |seen, _| {
        Reply::status(302).with("Location", &seen.path)
    });
    assert_failed(&Place::new(), &cdn, "redirects in circles");
    let nowhere = faulty(small_model(), Seen::is_list, |_, _| Reply::status(302));
    assert_failed(&Place::new(), &nowhere, "a redirect to nowhere");
    let file = faulty(small_model(), Seen::is_weights, |_, _| {
        Reply::status(302).with("Location", "file:///etc/passwd")
    });
    assert_failed(&Place::new(), &file, "a redirect to no address");
}

#[test]
fn what_is_no_hub_is_said_to_be_none() {
    for body in [
        "<html>Please log in</html>",
        "{}",
        r#"{"sha":"../..","siblings":[]}"#,
    ] {
        let server = faulty(small_model(), Seen::is_list, move |_, _| {
            Reply::status(200).with_body(body)
        });
        let place = Place::new();
        assert_failed(&place, &server, "is not that of a Hub");
        assert!(all_files(place.folder.path()).is_empty());
    }
    let no_etag = faulty(
        small_model(),
        |seen| seen.method == "HEAD",
        |_, mut reply| {
            reply.headers.clear();
            reply
        },
    );
    assert_failed(&Place::new(), &no_etag, "no ETag for config.json");
}

// ---- the network -------------------------------------------------------------------------------------------------

#[test]
fn silence_ends_in_time() {
    let server = faulty(small_model(), Seen::is_list, |_, mut reply| {
        reply.silence = Duration::from_secs(10);
        reply
    });
    let mut hub = Place::new().hub(&server);
    hub.patience.silence = Duration::from_millis(300);
    let started = Instant::now();
    let text = fetch(&hub).unwrap_err().to_string();
    assert!(text.contains("did not answer in time"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(10));
    assert_eq!(server.seen().len(), 3);
}

#[test]
fn silence_within_a_file_is_taken_up() {
    let server = faulty(model(), first_weights, |_, mut reply| {
        reply.slow = Duration::from_secs(10);
        reply
    });
    let place = Place::new();
    let mut hub = place.hub(&server);
    hub.patience.silence = Duration::from_secs(2);
    assert_whole(&fetch(&hub).unwrap(), &server);
    assert_eq!(server.weights_seen().len(), 2);
}

#[test]
fn no_server_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    // Nobody there, and no such place: names under .invalid never resolve (RFC 6761).
    for (endpoint, said) in [
        (format!("http://{address}"), "no connection to 127.0.0.1"),
        (
            "http://hub.invalid".to_owned(),
            "no connection to hub.invalid",
        ),
    ] {
        let place = Place::new();
        let mut hub = Hub::at(&endpoint, place.cache()).unwrap();
        hub.patience = hasty();
        let text = fetch(&hub).unwrap_err().to_string();
        assert!(text.starts_with(said), "{text}");
        assert!(all_files(place.folder.path()).is_empty());
    }
}

// ---- the disk ----------------------------------------------------------------------------------------------------

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_said_and_the_next_try_goes_on() {
    let server = FakeHub::sound(model());
    let place = Place::new();
    let blobs = place.model().join("blobs");
    fs::create_dir_all(&blobs).unwrap();
    let incomplete = blobs.join(format!("{}.incomplete", server.repo.etag(WEIGHTS)));
    // Every write to this device fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", &incomplete).unwrap();
    assert_failed(&place, &server, "the disk is full: free 2400");
    fs::remove_file(&incomplete).unwrap();
    assert_whole(&place.fetch(&server).unwrap(), &server);
}

#[test]
fn a_cache_that_cannot_be_written_is_said() {
    let server = FakeHub::sound(small_model());
    let place = Place::new();
    fs::create_dir_all(place.cache().parent().unwrap()).unwrap();
    fs::write(place.cache(), "a file, not a folder").unwrap();
    let text = place.fetch(&server).unwrap_err().to_string();
    assert!(text.starts_with("cannot write "), "{text}");
    assert!(text.contains("HF_HOME"), "{text}");
}

// ---- names from the server ---------------------------------------------------------------------------------------

#[test]
fn no_name_from_the_server_leads_out_of_the_folder() {
    for name in [
        "../../../../escaped",
        "/tmp/escaped",
        "a/../../escaped",
        "..\\escaped",
    ] {
        let mut source = small_model();
        source.remove(WEIGHTS);
        source.put(name, &server::safetensors(10), true);
        let name = serde_json::to_string(name).unwrap();
        let index = format!(r#"{{"weight_map":{{"wte.weight":{name}}}}}"#);
        source.put("model.safetensors.index.json", index.as_bytes(), false);
        let server = FakeHub::sound(source);
        let place = Place::new();
        let text = place.fetch(&server).unwrap_err().to_string();
        assert!(text.contains("would lie outside its folder"), "{text}");
        let own = [place.model(), place.cache().join(".locks")];
        for file in all_files(place.folder.path()) {
            assert!(
                own.iter().any(|folder| file.starts_with(folder)),
                "{file:?}"
            );
        }
        assert!(server.weights_seen().is_empty());
    }
}

#[test]
fn no_etag_leads_out_of_the_folder() {
    for etag in [
        "\"../../../escaped\"",
        "\"/tmp/escaped\"",
        "\"..\"",
        "\"\"",
        "\"a b\"",
    ] {
        let server = faulty(
            small_model(),
            |seen| seen.method == "HEAD",
            move |_, mut reply| {
                reply.set("ETag", etag);
                reply.set("X-Linked-Etag", etag);
                reply
            },
        );
        let place = Place::new();
        let text = place.fetch(&server).unwrap_err().to_string();
        assert!(text.contains("an unusable ETag"), "{text}");
        assert!(all_files(place.folder.path()).is_empty());
    }
}

#[test]
fn an_index_that_names_what_is_not_there_is_refused() {
    let mut source = small_model();
    source.remove(WEIGHTS);
    let index = br#"{"weight_map":{"wte.weight":"model-00001-of-00001.safetensors"}}"#;
    source.put("model.safetensors.index.json", index, false);
    let server = FakeHub::sound(source);
    let text = Place::new().fetch(&server).unwrap_err().to_string();
    assert!(
        text.contains("model.safetensors.index.json names model-00001-of-00001.safetensors"),
        "{text}"
    );
    for index in [
        "{}",
        r#"{"weight_map":{}}"#,
        r#"{"weight_map":{"a":1}}"#,
        "no JSON",
    ] {
        let mut source = small_model();
        source.remove(WEIGHTS);
        source.put("model.safetensors.index.json", index.as_bytes(), false);
        let server = FakeHub::sound(source);
        let text = Place::new().fetch(&server).unwrap_err().to_string();
        assert!(
            text.contains("model.safetensors.index.json cannot be read"),
            "{text}"
        );
    }
}

// ---- two at once -------------------------------------------------------------------------------------------------

#[test]
fn two_downloads_of_one_model_fetch_it_once() {
    let server = faulty(model(), Seen::is_weights, |_, mut reply| {
        reply.slow = Duration::from_millis(10);
        reply
    });
    let place = Place::new();
    let waited = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let downloads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut note = |progress: logitscope::hub::Progress| {
                        if progress.phase == Phase::Waiting && progress.file == WEIGHTS {
                            waited.store(true, Ordering::SeqCst);
                        }
                        ControlFlow::Continue(())
                    };
                    place
                        .hub(&server)
                        .fetch(&repo(), &Revision::default(), &mut note)
                })
            })
            .collect();
        for download in downloads {
            assert_whole(&download.join().unwrap().unwrap(), &server);
        }
    });
    assert!(waited.load(Ordering::SeqCst));
    assert_eq!(server.weights_seen().len(), 1);
}

#[test]
fn waiting_for_another_program_can_be_cancelled() {
    let server = FakeHub::sound(small_model());
    let place = Place::new();
    let locks = place.cache().join(".locks").join("models--some--model");
    fs::create_dir_all(&locks).unwrap();
    let path = locks.join(format!("{}.lock", server.repo.etag(WEIGHTS)));
    let lock = fs::File::create(path).unwrap();
    lock.lock().unwrap();
    let started = Instant::now();
    let error = place
        .hub(&server)
        .fetch(&repo(), &Revision::default(), &mut |progress| {
            if progress.phase == Phase::Waiting {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap_err();
    assert!(matches!(error, HubError::Cancelled), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
    lock.unlock().unwrap();
    assert_whole(&place.fetch(&server).unwrap(), &server);
}
