//! Walking the generation loop one phase at a time.
//!
//! A run's iteration is one request of the worker; the walk shows it in four phases. Predict and select are shown
//! of the open step, append is carried out by [`Action::Step`], stop? is the answer on record.

use super::{Action, NodeId, Session, Tree};

/// A phase of the generation loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoopPhase {
    Predict,
    Select,
    Append,
    Stop,
}

impl LoopPhase {
    pub const ALL: [Self; 4] = [Self::Predict, Self::Select, Self::Append, Self::Stop];

    pub fn name(self) -> &'static str {
        match self {
            Self::Predict => "predict",
            Self::Select => "select",
            Self::Append => "append",
            Self::Stop => "stop?",
        }
    }

    /// Whether the phase is about a token that is not in the text yet.
    pub fn is_open(self) -> bool {
        self <= Self::Select
    }
}

/// Slowest pace at which a run is not taken apart into its phases, in seconds a token.
const ANIMATED_FROM_SECONDS: f64 = 0.5;

/// Where in the loop the reader is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Walk {
    head: NodeId,
    /// When `head` became the end of the text, in the window's seconds.
    since: f64,
    phase: LoopPhase,
    /// A step was asked for and has not appended its token yet.
    stepping: bool,
}

impl Default for Walk {
    fn default() -> Self {
        Self {
            head: Tree::ROOT,
            since: 0.0,
            phase: LoopPhase::Predict,
            stepping: false,
        }
    }
}

impl Walk {
    /// Takes in what has happened to the text, and says which phase is shown at `now`, in the window's seconds.
    pub fn phase(&mut self, session: &Session, now: f64) -> LoopPhase {
        let head = session.head();
        if head != self.head {
            let node = session.tree().node(head);
            let chosen = !session.is_empty() && node.origin.is_generated();
            self.phase = match () {
                () if chosen && self.stepping => LoopPhase::Append,
                () if chosen => LoopPhase::Stop,
                () => LoopPhase::Predict,
            };
            // A lone end-of-text comes first where the text was empty.
            self.stepping &= !chosen && session.is_running();
            self.head = head;
            self.since = now;
        }
        match self.animated(session, now) {
            Some((phase, _)) => phase,
            None => self.phase,
        }
    }

    /// The phase of a slow run and the seconds until the next one.
    fn animated(&self, session: &Session, now: f64) -> Option<(LoopPhase, f64)> {
        let interval = session.pace().interval().as_secs_f64();
        if !session.is_running() || interval < ANIMATED_FROM_SECONDS || self.stepping {
            return None;
        }
        let quarter = 0.25 * interval;
        let at = ((now - self.since) / quarter).max(0.0);
        // A token has just been appended; the last phase holds until the next one is.
        let order = [
            LoopPhase::Append,
            LoopPhase::Stop,
            LoopPhase::Predict,
            LoopPhase::Select,
        ];
        let place = (at as usize).min(3);
        Some((order[place], (at.floor() + 1.0 - at) * quarter))
    }

    /// Seconds until a slow run shows another phase.
    pub fn next_change(&self, session: &Session, now: f64) -> Option<f64> {
        self.animated(session, now)
            .filter(|(phase, _)| *phase != LoopPhase::Select)
            .map(|(_, seconds)| seconds)
    }

    /// Why the next phase cannot be shown now, if it cannot.
    pub fn is_held(&self, session: &Session) -> Option<&'static str> {
        let predicted = session
            .prediction(session.len())
            .is_some_and(|prediction| prediction.logits.is_some());
        match self.phase {
            _ if session.is_running() => Some("The run walks by itself: pause it first."),
            LoopPhase::Append => None,
            _ if !predicted => Some("The next token has not been predicted yet."),
            LoopPhase::Select if session.context_len() >= session.n_ctx() => {
                Some("The context is full: nothing can be appended.")
            }
            _ => None,
        }
    }

    /// Goes on to the next phase, and returns what that asks for.
    pub fn advance(&mut self, session: &Session) -> Option<Action> {
        if self.is_held(session).is_some() {
            return None;
        }
        match self.phase {
            LoopPhase::Predict => self.phase = LoopPhase::Select,
            LoopPhase::Select => {
                self.stepping = true;
                return Some(Action::Step);
            }
            LoopPhase::Append => self.phase = LoopPhase::Stop,
            LoopPhase::Stop => self.phase = LoopPhase::Predict,
        }
        None
    }
}
