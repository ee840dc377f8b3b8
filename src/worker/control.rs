//! How a run hears of stops, new settings and a new pace between two tokens.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, TryRecvError},
    },
    time::{Duration, Instant},
};

use super::{Command, Pace};
use crate::sampling::SamplingSettings;

/// The part of a run's settings that may change while it runs.
#[derive(Clone, Debug)]
pub struct Live {
    pub settings: Arc<SamplingSettings>,
    pub pace: Pace,
}

/// Who may interrupt a run.
pub trait Control {
    /// Waits until one pace interval after `since`, taking in changes; breaks when the run is to end.
    fn wait(&mut self, since: Option<Instant>, live: &mut Live) -> ControlFlow<()>;

    /// Whether the prefill or the run is to end, without waiting.
    fn check(&mut self) -> ControlFlow<()>;
}

/// Nobody interrupts: the command line.
pub struct Uncontrolled;

impl Control for Uncontrolled {
    fn wait(&mut self, _since: Option<Instant>, _live: &mut Live) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn check(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The worker's end of the command channel. Commands that a run cannot take in wait their turn here.
pub(super) struct Inbox {
    commands: Receiver<Command>,
    waiting: VecDeque<Command>,
    closed: bool,
    /// A load is in progress, and whether it is to be given up.
    loading: bool,
    load_cancelled: bool,
}

impl Inbox {
    pub fn new(commands: Receiver<Command>) -> Self {
        Self {
            commands,
            waiting: VecDeque::new(),
            closed: false,
            loading: false,
            load_cancelled: false,
        }
    }

    /// The next command; `None` once the window is gone.
    pub fn next(&mut self) -> Option<Command> {
        self.waiting.pop_front().or_else(|| {
            if self.closed {
                None
            } else {
                self.commands.recv().ok()
            }
        })
    }

    /// The next command, or `None` if none comes within `patience`.
    pub fn next_within(&mut self, patience: Duration) -> Option<Command> {
        self.waiting
            .pop_front()
            .or_else(|| self.commands.recv_timeout(patience).ok())
    }

    /// A load begins: from now on it can be cancelled.
    pub fn begin_load(&mut self) {
        (self.loading, self.load_cancelled) = (true, false);
    }

    pub fn end_load(&mut self) {
        self.loading = false;
    }

    /// A prediction that the model in use can make while another loads, if one is asked for; breaks when the load is to
    /// be given up. Everything else waits its turn.
    pub fn during_load(&mut self) -> ControlFlow<(), Option<Command>> {
        while !self.load_cancelled {
            match self.commands.try_recv() {
                Ok(Command::CancelLoad) => self.load_cancelled = true,
                Ok(predict @ Command::Predict { .. }) => {
                    return ControlFlow::Continue(Some(predict));
                }
                Ok(other) => self.waiting.push_back(other),
                Err(TryRecvError::Empty) => return ControlFlow::Continue(None),
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    self.load_cancelled = true;
                }
            }
        }
        ControlFlow::Break(())
    }

    fn take_in(&mut self, command: Command, live: Option<&mut Live>) -> ControlFlow<()> {
        match (command, live) {
            (Command::Stop, _) => ControlFlow::Break(()),
            (Command::Settings(settings), Some(live)) => {
                live.settings = settings;
                ControlFlow::Continue(())
            }
            (Command::Pace(pace), Some(live)) => {
                live.pace = pace;
                ControlFlow::Continue(())
            }
            (change @ (Command::Settings(_) | Command::Pace(_) | Command::SelfCheck), _) => {
                self.waiting.push_back(change);
                ControlFlow::Continue(())
            }
            (Command::CancelLoad, _) if self.loading => {
                self.load_cancelled = true;
                ControlFlow::Break(())
            }
            (Command::CancelLoad, _) => ControlFlow::Continue(()),
            (next @ (Command::Load(_) | Command::Predict { .. } | Command::Run(_)), _) => {
                self.waiting.push_back(next);
                ControlFlow::Break(())
            }
        }
    }
}

impl Control for Inbox {
    fn wait(&mut self, since: Option<Instant>, live: &mut Live) -> ControlFlow<()> {
        // Settings and pace may have come in while the prefill ran.
        let mut earlier = std::mem::take(&mut self.waiting);
        while let Some(command) = earlier.pop_front() {
            if self.take_in(command, Some(live)).is_break() {
                self.waiting.append(&mut earlier);
                return ControlFlow::Break(());
            }
        }
        loop {
            let left = since.map_or_else(Default::default, |since| {
                (since + live.pace.interval()).saturating_duration_since(Instant::now())
            });
            match self.commands.recv_timeout(left) {
                Ok(command) => self.take_in(command, Some(live))?,
                Err(RecvTimeoutError::Timeout) => return ControlFlow::Continue(()),
                Err(RecvTimeoutError::Disconnected) => {
                    self.closed = true;
                    return ControlFlow::Break(());
                }
            }
        }
    }

    fn check(&mut self) -> ControlFlow<()> {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.take_in(command, None)?,
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    return ControlFlow::Break(());
                }
            }
        }
    }
}
