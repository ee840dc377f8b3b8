//! A download from the Hub as the window sees it: on a thread of its own, so that the current model stays usable.
//!
//! The thread only leaves its newest state behind and wakes the window; the window looks once a frame.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

use crate::hub::{Hub, HubError, Meter, Progress, RepoId, Revision};

/// Least time between two reports to the window.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// How far it is, for the bar.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DownloadView {
    /// The model's name.
    pub name: String,
    /// From 0 to 1.
    pub share: f32,
    /// One line with file, bytes and rate.
    pub line: String,
}

/// A download that is going on. Dropping it cancels it.
#[derive(Debug)]
pub struct Download {
    newest: Arc<Mutex<DownloadView>>,
    cancelled: Arc<AtomicBool>,
    outcome: Receiver<Result<PathBuf, HubError>>,
}

impl Download {
    /// Begins to fetch the newest revision of a model; `wake` is called when there is something new to show.
    pub fn start(hub: Hub, repo: RepoId, wake: impl Fn() + Send + 'static) -> Self {
        let newest = Arc::new(Mutex::new(DownloadView {
            name: repo.label(),
            ..DownloadView::default()
        }));
        let cancelled = Arc::new(AtomicBool::new(false));
        let (sender, outcome) = channel();
        let (shared, stop) = (newest.clone(), cancelled.clone());
        thread::spawn(move || {
            let mut reports = Reports::default();
            let fetched = hub.fetch(&repo, &Revision::default(), &mut |progress| {
                if stop.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                if let Some(line) = reports.line(&progress, Instant::now()) {
                    let mut view = shared.lock().unwrap_or_else(PoisonError::into_inner);
                    view.share = progress.share() as f32;
                    view.line = line;
                    drop(view);
                    wake();
                }
                ControlFlow::Continue(())
            });
            // A window that is gone needs no model.
            let _ = sender.send(fetched);
            wake();
        });
        Self {
            newest,
            cancelled,
            outcome,
        }
    }

    /// How far it is.
    pub fn view(&self) -> DownloadView {
        self.newest
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The model's folder, or why there is none, once it has ended.
    pub fn outcome(&self) -> Option<Result<PathBuf, HubError>> {
        self.outcome.try_recv().ok()
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// Which of the many reports of a download are worth a frame.
#[derive(Default)]
struct Reports {
    meter: Meter,
    last: Option<Instant>,
}

impl Reports {
    fn line(&mut self, progress: &Progress, now: Instant) -> Option<String> {
        self.meter.note(progress, now);
        if self.last.is_some_and(|last| now - last < REPORT_INTERVAL) {
            return None;
        }
        self.last = Some(now);
        Some(self.meter.describe(progress))
    }
}
