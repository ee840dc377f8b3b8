//! The real worker thread with the built-in model on the CPU: the generation loop, its stops, and interruptions.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use logitscope::{
    model::{DeviceChoice, Gpt2Config, LoadRequest, ModelSource},
    prediction::Phase,
    sampling::{Mode, SamplingSettings},
    tokenizer::Tokenizer,
    worker::{Command, Event, ModelInfo, Pace, RunRequest, StopReason, WorkerHandle},
};

struct Client {
    worker: WorkerHandle,
    model: Arc<ModelInfo>,
    epoch: u64,
}

/// What one request brought.
#[derive(Default)]
struct Outcome {
    chosen: Vec<u32>,
    /// Context positions that were predicted, in order, with their phases.
    predicted: Vec<(usize, Phase)>,
    reason: Option<StopReason>,
    failure: Option<String>,
}

impl Client {
    fn start() -> Self {
        let worker = WorkerHandle::spawn(|| {}).expect("a thread");
        worker.send(Command::Load(LoadRequest::new(
            ModelSource::BuiltIn,
            DeviceChoice::Cpu,
        )));
        let model = loop {
            match wait(&worker) {
                Event::Loaded(model) => break model,
                Event::LoadFailed { message, .. } => panic!("{message}"),
                _ => {}
            }
        };
        Self {
            worker,
            model,
            epoch: 0,
        }
    }

    fn tokenizer(&self) -> &Tokenizer {
        &self.model.tokenizer
    }

    fn request(&mut self, context: &[u32], settings: &SamplingSettings) -> RunRequest {
        self.epoch += 1;
        RunRequest {
            epoch: self.epoch,
            context: context.to_vec(),
            from: 0,
            open: None,
            continuation: 0,
            budget: settings.max_new_tokens,
            settings: Arc::new(settings.clone()),
            pace: Pace::Unlimited,
        }
    }

    fn run(&mut self, context: &[u32], settings: &SamplingSettings) -> Outcome {
        let request = self.request(context, settings);
        self.send(request)
    }

    fn send(&mut self, request: RunRequest) -> Outcome {
        self.worker.send(Command::Run(request));
        self.outcome(|_, _| {})
    }

    /// Collects events until the current request ends; `on_token` may interfere after each token.
    fn outcome(&self, mut on_token: impl FnMut(&WorkerHandle, usize)) -> Outcome {
        let mut outcome = Outcome::default();
        loop {
            match wait(&self.worker) {
                Event::Chosen { epoch, choice, .. } if epoch == self.epoch => {
                    outcome.chosen.push(choice.id);
                    on_token(&self.worker, outcome.chosen.len());
                }
                Event::Predicted {
                    epoch,
                    first,
                    predictions,
                } if epoch == self.epoch => {
                    for (offset, prediction) in predictions.iter().enumerate() {
                        assert!(prediction.is_complete());
                        assert_eq!(
                            prediction.attention.as_ref().map(|row| row.keys),
                            Some(first + offset + 1)
                        );
                        outcome
                            .predicted
                            .push((first + offset, prediction.timing.phase));
                    }
                }
                Event::Stopped { epoch, reason } if epoch == self.epoch => {
                    outcome.reason = reason;
                    return outcome;
                }
                Event::Failed { epoch, message } if epoch == self.epoch => {
                    outcome.failure = Some(message);
                    return outcome;
                }
                _ => {}
            }
        }
    }
}

fn wait(worker: &WorkerHandle) -> Event {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(event) = worker.try_event() {
            return event;
        }
        assert!(Instant::now() < until, "the worker says nothing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn settings(max_new_tokens: usize) -> SamplingSettings {
    SamplingSettings {
        max_new_tokens,
        ..Default::default()
    }
}

#[test]
fn a_run_predicts_every_position_once_and_the_open_step_too() {
    let mut client = Client::start();
    let prompt = client.tokenizer().encode("Once upon a time");
    let outcome = client.run(&prompt, &settings(5));
    assert_eq!(outcome.reason, Some(StopReason::MaxNewTokens));
    assert_eq!(outcome.chosen.len(), 5);
    let positions: Vec<_> = outcome.predicted.iter().map(|&(at, _)| at).collect();
    assert_eq!(positions, (0..prompt.len() + 5).collect::<Vec<_>>());
    let (prefill, decode) = outcome.predicted.split_at(prompt.len());
    assert!(prefill.iter().all(|&(_, phase)| phase == Phase::Prefill));
    assert!(decode.iter().all(|&(_, phase)| phase == Phase::Decode));
}

#[test]
fn the_same_seed_draws_the_same_tokens_whole_or_in_pieces() {
    let mut client = Client::start();
    let prompt = client.tokenizer().encode("There was once a");
    let whole = client.run(&prompt, &settings(12)).chosen;
    assert_eq!(client.run(&prompt, &settings(12)).chosen, whole);
    let mut pieces = prompt.clone();
    for _ in 0..12 {
        let next = client.run(&pieces, &settings(1)).chosen;
        pieces.extend(next);
    }
    assert_eq!(pieces[prompt.len()..], whole);
    let other = SamplingSettings {
        seed: 43,
        ..settings(12)
    };
    assert_ne!(client.run(&prompt, &other).chosen, whole);
}

#[test]
fn the_context_ends_at_n_ctx() {
    let mut client = Client::start();
    let n_ctx = client.model.n_ctx;
    for (length, appended) in [(1, 3), (n_ctx - 1, 1), (n_ctx, 0)] {
        let context = vec![5; length];
        let outcome = client.run(&context, &settings(3));
        assert_eq!(outcome.chosen.len(), appended, "from {length}");
        let expected = if appended == 3 {
            StopReason::MaxNewTokens
        } else {
            StopReason::ContextFull
        };
        assert_eq!(outcome.reason, Some(expected), "from {length}");
        assert_eq!(
            outcome.predicted.last().map(|&(at, _)| at),
            Some(length + appended - 1)
        );
    }
    for context in [vec![], vec![5; n_ctx + 1], vec![1_000_000]] {
        let outcome = client.run(&context, &settings(3));
        assert!(outcome.failure.is_some(), "{} tokens", context.len());
        assert!(outcome.chosen.is_empty());
    }
    // The worker goes on after a refusal.
    assert_eq!(client.run(&[5], &settings(1)).chosen.len(), 1);
}

#[test]
fn stop_strings_match_across_tokens_and_keep_the_whole_token() {
    let mut client = Client::start();
    let prompt = client.tokenizer().encode("Once upon a time there was a");
    let greedy = SamplingSettings {
        mode: Mode::Greedy,
        ..settings(40)
    };
    let ids = client.run(&prompt, &greedy).chosen;
    let text = client.tokenizer().decode(&ids);
    // From the middle of one token to the middle of another.
    let tenth = client.tokenizer().decode(&ids[..10]).len();
    let stop = text
        .get(tenth - 2..tenth + 2)
        .expect("plain ASCII")
        .to_owned();
    let first_at = text.find(&stop).expect("it is there") + stop.len();
    let stopping = SamplingSettings {
        stop: vec![stop.clone()],
        ..greedy
    };
    let outcome = client.run(&prompt, &stopping);
    assert_eq!(outcome.reason, Some(StopReason::StopString));
    let kept = client.tokenizer().decode(&outcome.chosen);
    assert!(kept.contains(&stop));
    assert!(text.starts_with(&kept) && kept.len() >= first_at);
    let without_last = client
        .tokenizer()
        .decode(&outcome.chosen[..outcome.chosen.len() - 1]);
    assert!(
        !without_last.contains(&stop),
        "it stops at the first token that completes it"
    );

    // A stop string begun before a pause is found after it.
    let (before, after) = outcome.chosen.split_at(outcome.chosen.len() - 1);
    let context: Vec<_> = prompt.iter().chain(before).copied().collect();
    let mut request = client.request(&context, &stopping);
    request.continuation = before.len();
    let resumed = client.send(request);
    assert_eq!(resumed.reason, Some(StopReason::StopString));
    assert_eq!(resumed.chosen, after);

    // A new run does not see what an earlier one wrote.
    let context: Vec<_> = prompt.iter().chain(&outcome.chosen).copied().collect();
    let again = client.run(&context, &stopping);
    assert!(!again.chosen.is_empty());
}

#[test]
fn end_of_text_is_appended_and_stops() {
    let mut client = Client::start();
    let end = client.model.end_of_text.expect("storyteller has one");
    let prompt = client.tokenizer().encode("Once");
    let mut request = client.request(
        &prompt,
        &SamplingSettings {
            mode: Mode::Greedy,
            ..settings(5)
        },
    );
    // Whatever the model thinks: the shown distribution is what is drawn from.
    let mut row = vec![0.0; client.model.vocab_size];
    row[end as usize] = 9.0;
    request.from = prompt.len();
    request.open = Some(Arc::new(logitscope::prediction::LogitsRow::new(row)));
    let outcome = client.send(request);
    assert_eq!(outcome.chosen, [end]);
    assert_eq!(outcome.reason, Some(StopReason::EndOfText));
    assert_eq!(
        outcome.predicted.len(),
        1,
        "the distribution after it is there as well"
    );
}

#[test]
fn a_stop_ends_the_run_at_the_next_token() {
    let mut client = Client::start();
    let prompt = client.tokenizer().encode("Once upon a time");
    let request = client.request(&prompt, &settings(400));
    client.worker.send(Command::Run(request));
    let outcome = client.outcome(|worker, count| {
        if count == 3 {
            worker.send(Command::Stop);
        }
    });
    assert_eq!(outcome.reason, Some(StopReason::Stopped));
    assert!(
        (3..30).contains(&outcome.chosen.len()),
        "{}",
        outcome.chosen.len()
    );
    assert_eq!(
        outcome.predicted.last().map(|&(at, _)| at),
        Some(prompt.len() + outcome.chosen.len() - 1)
    );
}

#[test]
fn a_stop_does_not_wait_for_the_pace() {
    let mut client = Client::start();
    let prompt = client.tokenizer().encode("Once");
    let mut request = client.request(&prompt, &settings(50));
    request.pace = Pace::TokensPerSecond(1);
    client.worker.send(Command::Run(request));
    let mut asked = None;
    let outcome = client.outcome(|worker, _| {
        worker.send(Command::Stop);
        asked = Some(Instant::now());
    });
    assert_eq!(outcome.chosen.len(), 1);
    assert!(asked.expect("a token").elapsed() < Duration::from_millis(500));
}

#[test]
fn new_settings_and_pace_apply_from_the_next_token() {
    let mut client = Client::start();
    let prompt = client.tokenizer().encode("Once upon a time");
    let greedy = SamplingSettings {
        mode: Mode::Greedy,
        ..settings(10)
    };
    let expected = client.run(&prompt, &greedy).chosen;
    let hot = SamplingSettings {
        temperature: 2.0,
        top_k: 0,
        top_p: 1.0,
        ..settings(10)
    };
    let mut request = client.request(&prompt, &greedy);
    request.pace = Pace::TokensPerSecond(20);
    client.worker.send(Command::Run(request));
    let outcome = client.outcome(|worker, count| {
        if count == 3 {
            worker.send(Command::Settings(Arc::new(hot.clone())));
            worker.send(Command::Pace(Pace::Unlimited));
        }
    });
    assert_eq!(outcome.chosen[..3], expected[..3]);
    assert_ne!(outcome.chosen, expected);
    assert_eq!(outcome.chosen.len(), 10);
}

#[test]
fn the_cache_is_cut_back_to_what_is_shared() {
    let mut client = Client::start();
    let prompt = client
        .tokenizer()
        .encode("Once upon a time there was a little");
    let first = client.run(&prompt, &settings(6));
    let mut branch: Vec<_> = prompt.iter().chain(&first.chosen[..2]).copied().collect();
    branch.push(77);
    let mut request = client.request(&branch, &settings(4));
    request.from = branch.len() - 1;
    let branched = client.send(request);
    assert_eq!(
        branched.predicted.len(),
        5,
        "one new token and four decode steps"
    );

    // The numbers are those of a worker that has never seen anything else.
    let mut fresh = Client::start();
    assert_eq!(fresh.run(&branch, &settings(4)).chosen, branched.chosen);
}

#[test]
fn a_long_prompt_is_prefilled_in_chunks_that_can_be_stopped() {
    let mut client = Client::start();
    let prompt: Vec<u32> = (0..500).map(|at| 300 + at % 1000).collect();
    client.epoch += 1;
    client.worker.send(Command::Predict {
        epoch: client.epoch,
        context: prompt.clone(),
        from: 0,
    });
    client.worker.send(Command::Stop);
    let outcome = client.outcome(|_, _| {});
    assert!(
        outcome.predicted.len() < prompt.len(),
        "stopped after {} positions",
        outcome.predicted.len()
    );
    client.epoch += 1;
    client.worker.send(Command::Predict {
        epoch: client.epoch,
        context: prompt.clone(),
        from: 0,
    });
    assert_eq!(client.outcome(|_, _| {}).predicted.len(), prompt.len());
}

#[test]
fn a_model_that_cannot_be_read_leaves_the_old_one() {
    let mut client = Client::start();
    let empty = tempfile::tempdir().expect("a folder");
    client.worker.send(Command::Load(LoadRequest::new(
        ModelSource::Folder(empty.path().to_owned()),
        DeviceChoice::Cpu,
    )));
    let message = loop {
        match wait(&client.worker) {
            Event::LoadFailed { message, .. } => break message,
            Event::Loaded(_) => panic!("an empty folder holds no model"),
            _ => {}
        }
    };
    assert!(message.contains("config.json"), "{message}");
    let prompt = client.tokenizer().encode("Once");
    assert_eq!(client.run(&prompt, &settings(2)).chosen.len(), 2);
}

#[test]
fn the_self_check_runs_by_itself_once_nothing_else_is_asked_for() {
    let client = Client::start();
    let summary = loop {
        if let Event::SelfCheck(summary) = wait(&client.worker) {
            break summary;
        }
    };
    assert!(summary.passed, "{:?}", summary.lines);
    assert!(
        summary.lines.iter().any(|line| line.contains("cached")),
        "{:?}",
        summary.lines
    );
}

/// Loading random weights of this size takes a while, and fails for want of a tokenizer.
fn slow_load() -> Command {
    let config = Gpt2Config::shape("distilgpt2").expect("a shape");
    Command::Load(LoadRequest::new(
        ModelSource::Random(config, 1),
        DeviceChoice::Cpu,
    ))
}

#[test]
fn the_model_in_use_answers_while_another_loads() {
    let mut client = Client::start();
    let prompt = client.tokenizer().encode("Once upon a time");
    client.worker.send(slow_load());
    for epoch in [1, 2] {
        client.epoch = epoch;
        client.worker.send(Command::Predict {
            epoch,
            context: prompt.clone(),
            from: 0,
        });
        let mut predicted = 0;
        loop {
            match wait(&client.worker) {
                Event::Predicted { predictions, .. } => predicted += predictions.len(),
                Event::Stopped { epoch: ended, .. } => {
                    assert_eq!((ended, predicted), (epoch, prompt.len()));
                    break;
                }
                Event::LoadFailed { .. } => panic!("the prediction waited for the load"),
                _ => {}
            }
        }
    }
    // A cancel that comes while it answers is heard.
    client.worker.send(Command::Predict {
        epoch: 3,
        context: prompt.repeat(100)[..300].to_vec(),
        from: 0,
    });
    client.worker.send(Command::CancelLoad);
    loop {
        match wait(&client.worker) {
            Event::LoadCancelled { .. } => break,
            Event::LoadFailed { .. } => panic!("the cancel was lost"),
            _ => {}
        }
    }
    assert_eq!(client.run(&prompt, &settings(2)).chosen.len(), 2);
}
