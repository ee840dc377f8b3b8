//! The worker thread's main loop.

use std::{
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
    time::{Duration, Instant},
};

use super::{
    Command, Control, Engine, Event, RunRequest, SelfCheckSummary, control::Inbox,
    engine::EngineError,
};
use crate::model::{LoadRequest, ModelError, Outcome, Precision, WeightOptions, self_check_loaded};

/// Most parameters for which the self-check runs by itself after loading.
const AUTOMATIC_CHECK_PARAMETERS: u64 = 20_000_000;

/// How long nothing must have been asked for before that.
const IDLE_BEFORE_CHECK: Duration = Duration::from_secs(1);

/// Least time between two progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(50);

struct Worker<W: Fn()> {
    inbox: Inbox,
    outbox: Sender<Event>,
    wake: W,
    engine: Option<Engine>,
    request: Option<LoadRequest>,
    /// The loaded model is small enough to be checked by itself, once nothing else is asked for.
    check_due: bool,
}

/// Serves commands until the window is gone.
pub(super) fn run(commands: Receiver<Command>, outbox: Sender<Event>, wake: impl Fn()) {
    let mut worker = Worker {
        inbox: Inbox::new(commands),
        outbox,
        wake,
        engine: None,
        request: None,
        check_due: false,
    };
    loop {
        let command = if worker.check_due {
            worker.inbox.next_within(IDLE_BEFORE_CHECK)
        } else {
            worker.inbox.next()
        };
        match command {
            Some(command) => worker.serve(command),
            None if worker.check_due => worker.serve(Command::SelfCheck),
            None => return,
        }
    }
}

impl<W: Fn()> Worker<W> {
    fn serve(&mut self, command: Command) {
        match command {
            Command::Load(request) => self.load(&request),
            Command::Predict {
                epoch,
                context,
                from,
            } => self.predict(epoch, &context, from),
            Command::Run(request) => {
                let RunRequest { epoch, .. } = request;
                let outcome = self
                    .guarded(|engine, inbox, emit| engine.generate(request, inbox, emit).map(Some));
                self.report(
                    epoch,
                    outcome.map(|reason| Event::Stopped { epoch, reason }),
                );
            }
            Command::SelfCheck => self.self_check(),
            // Nothing is running.
            Command::Stop | Command::Settings(_) | Command::Pace(_) | Command::CancelLoad => {}
        }
    }

    fn predict(&mut self, epoch: u64, context: &[u32], from: usize) {
        let outcome = self.guarded(|engine, inbox, emit| {
            let _ = engine.predict(context, from, true, &mut |first, predictions| {
                if !predictions.is_empty() {
                    emit(Event::Predicted {
                        epoch,
                        first,
                        predictions,
                    });
                }
                inbox.check()
            })?;
            Ok(None)
        });
        self.report(
            epoch,
            outcome.map(|reason| Event::Stopped { epoch, reason }),
        );
    }

    fn emit(&self, event: Event) {
        // A window that is gone needs no events.
        let _ = self.outbox.send(event);
        (self.wake)();
    }

    fn report(&self, epoch: u64, outcome: Result<Event, String>) {
        self.emit(outcome.unwrap_or_else(|message| Event::Failed { epoch, message }));
    }

    /// Runs engine work so that a failing compute device ends the request, not the worker.
    fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Engine, &mut Inbox, &mut dyn FnMut(Event)) -> Result<T, EngineError>,
    ) -> Result<T, String> {
        let Some(engine) = &mut self.engine else {
            return Err("No model is loaded.".to_owned());
        };
        let (inbox, outbox, wake) = (&mut self.inbox, &self.outbox, &self.wake);
        let mut emit = |event| {
            let _ = outbox.send(event);
            wake();
        };
        match catch_unwind(AssertUnwindSafe(|| work(engine, inbox, &mut emit))) {
            Ok(outcome) => outcome.map_err(|error| error.to_string()),
            Err(panic) => {
                engine.forget();
                Err(device_failure(&*panic))
            }
        }
    }

    fn load(&mut self, request: &LoadRequest) {
        let name = request.source.name();
        let mut reported = Instant::now();
        self.inbox.begin_load();
        let loaded = catch_unwind(AssertUnwindSafe(|| {
            Engine::load(request, &mut |done_bytes, total_bytes| {
                // The model in use stays so: what is typed is predicted between two pieces of the other.
                while let Some(command) = self.inbox.during_load()? {
                    self.serve(command);
                }
                if reported.elapsed() >= PROGRESS_INTERVAL {
                    reported = Instant::now();
                    let _ = self.outbox.send(Event::Loading {
                        name: name.clone(),
                        done_bytes,
                        total_bytes,
                    });
                    (self.wake)();
                }
                ControlFlow::Continue(())
            })
        }));
        self.inbox.end_load();
        match loaded {
            Ok(Ok((engine, info))) => {
                let check = info.parameters <= AUTOMATIC_CHECK_PARAMETERS;
                self.engine = Some(engine);
                self.request = Some(request.clone());
                self.emit(Event::Loaded(Arc::new(info)));
                if check {
                    self.check_due = true;
                }
            }
            Ok(Err(EngineError::Model(ModelError::Cancelled))) => {
                self.emit(Event::LoadCancelled { name })
            }
            Ok(Err(error)) => self.emit(Event::LoadFailed {
                name,
                message: error.to_string(),
                instead: instead(&error, request.weights),
            }),
            Err(panic) => self.emit(Event::LoadFailed {
                name,
                message: device_failure(&*panic),
                instead: None,
            }),
        }
    }

    fn self_check(&mut self) {
        self.check_due = false;
        let (Some(request), Some(engine)) = (&self.request, &self.engine) else {
            return;
        };
        let rows = match catch_unwind(AssertUnwindSafe(|| {
            self_check_loaded(
                &engine.gpt2,
                &engine.device,
                &request.source,
                request.weights,
            )
        })) {
            Ok(rows) => rows,
            Err(panic) => {
                let lines = vec![device_failure(&*panic)];
                return self.emit(Event::SelfCheck(SelfCheckSummary {
                    passed: false,
                    lines,
                }));
            }
        };
        let passed = rows.iter().all(|row| row.outcome != Outcome::Failed);
        let lines = rows
            .iter()
            .map(|row| format!("{}: {}", row.name, row.detail))
            .collect();
        self.emit(Event::SelfCheck(SelfCheckSummary { passed, lines }));
    }
}

/// Options that take away what an error is about.
fn instead(error: &EngineError, weights: WeightOptions) -> Option<WeightOptions> {
    match error {
        EngineError::Model(ModelError::UnknownTensor { .. }) => Some(WeightOptions {
            allow_unknown_tensors: true,
            ..weights
        }),
        EngineError::Model(ModelError::NoF16 { .. } | ModelError::BeyondF16 { .. }) => {
            Some(WeightOptions {
                precision: Precision::F32,
                ..weights
            })
        }
        _ => None,
    }
}

fn device_failure(panic: &(dyn std::any::Any + Send)) -> String {
    let cause = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no cause was given");
    format!(
        "The compute device failed: {cause}. Choose the CPU in the model menu, or a smaller model."
    )
}
