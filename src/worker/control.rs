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

use super::{Command, ExplainRequest, Pace, Question};
use crate::sampling::SamplingSettings;

/// The part of a run's settings that may change while it runs.
#[derive(Clone, Debug)]
pub struct Live {
    pub settings: Arc<SamplingSettings>,
    pub pace: Pace,
}

/// What a run does after waiting.
#[derive(Debug)]
pub enum Turn {
    /// Its next token.
    Token,
    /// A question that fits into what is left of the wait; then it waits on.
    Explain(ExplainRequest),
    End,
}

impl From<ControlFlow<()>> for Turn {
    fn from(flow: ControlFlow<()>) -> Self {
        match flow {
            ControlFlow::Continue(()) => Self::Token,
            ControlFlow::Break(()) => Self::End,
        }
    }
}

/// Who may interrupt a run.
pub trait Control {
    /// Waits until one pace interval after `since`, taking in changes. `explaining` is how long a question is known
    /// to take: one that would make the next token late stays for after the run, and so does the first of a model.
    fn wait(
        &mut self,
        since: Option<Instant>,
        live: &mut Live,
        explaining: Option<Duration>,
    ) -> Turn;

    /// Whether the prefill or the run is to end, without waiting.
    fn check(&mut self) -> ControlFlow<()>;
}

/// Nobody interrupts: the command line.
pub struct Uncontrolled;

impl Control for Uncontrolled {
    fn wait(
        &mut self,
        _since: Option<Instant>,
        _live: &mut Live,
        _explaining: Option<Duration>,
    ) -> Turn {
        Turn::Token
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

    /// Puts a command off until its turn. Of the questions of one kind only the newest is kept.
    fn keep(&mut self, command: Command) {
        let kind = |command: &Command| match command {
            Command::Explain(request) => Some(matches!(request.question, Question::Step(_))),
            _ => None,
        };
        if let Some(new) = kind(&command) {
            self.waiting.retain(|old| kind(old) != Some(new));
        }
        self.waiting.push_back(command);
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
                Ok(other) => self.keep(other),
                Err(TryRecvError::Empty) => return ControlFlow::Continue(None),
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    self.load_cancelled = true;
                }
            }
        }
        ControlFlow::Break(())
    }

    /// Whether something has come that goes before a question: other work, or a newer question about a step.
    pub fn has_work(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(command) => self.keep(command),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    self.closed = true;
                    return true;
                }
            }
        }
        self.waiting.iter().any(|command| match command {
            Command::Load { .. } | Command::Predict { .. } | Command::Run(_) => true,
            Command::Explain(request) => matches!(request.question, Question::Step(_)),
            _ => false,
        })
    }

    /// The first question that waits.
    fn take_question(&mut self) -> Option<ExplainRequest> {
        let is_question = |command: &Command| matches!(command, Command::Explain(_));
        let at = self.waiting.iter().position(is_question)?;
        match self.waiting.remove(at)? {
            Command::Explain(request) => Some(request),
            _ => None,
        }
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
            (
                later @ (Command::Settings(_)
                | Command::Pace(_)
                | Command::SelfCheck
                | Command::Explain(_)),
                _,
            ) => {
                self.keep(later);
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
    fn wait(
        &mut self,
        since: Option<Instant>,
        live: &mut Live,
        explaining: Option<Duration>,
    ) -> Turn {
        // Settings and pace may have come in while the prefill ran.
        let mut earlier = std::mem::take(&mut self.waiting);
        while let Some(command) = earlier.pop_front() {
            if self.take_in(command, Some(live)).is_break() {
                self.waiting.append(&mut earlier);
                return Turn::End;
            }
        }
        loop {
            let left = since.map_or_else(Default::default, |since| {
                (since + live.pace.interval()).saturating_duration_since(Instant::now())
            });
            if explaining.is_some_and(|takes| takes < left)
                && let Some(question) = self.take_question()
            {
                return Turn::Explain(question);
            }
            match self.commands.recv_timeout(left) {
                Ok(command) => {
                    if self.take_in(command, Some(live)).is_break() {
                        return Turn::End;
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Turn::Token,
                Err(RecvTimeoutError::Disconnected) => {
                    self.closed = true;
                    return Turn::End;
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
