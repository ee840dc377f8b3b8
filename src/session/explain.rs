//! Asking where the shown step's distribution comes from, and keeping the answer: of the shown step or of none.

use std::sync::Arc;

use super::{ModelIndex, NodeId, Session};
use crate::{
    explanation::{Explanation, Nearest},
    worker::{Answer, Command, ExplainRequest, Question},
};

/// What an answer belongs to: everything that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// The last token that the model was given; a node stands for all tokens before it, too. `None` is the lone
    /// end-of-text of an empty text.
    Step(ModelIndex, Option<NodeId>),
    Nearest(ModelIndex, u32),
}

/// The newest question of one kind, and its answer once it is there.
#[derive(Debug)]
struct Asked<T> {
    subject: Subject,
    ticket: u64,
    answer: Option<Result<Arc<T>, String>>,
}

#[derive(Debug, Default)]
pub(super) struct Explaining {
    tickets: u64,
    step: Option<Asked<Explanation>>,
    nearest: Option<Asked<Nearest>>,
}

impl<T> Asked<T> {
    fn answer_to(asked: &Option<Self>, subject: Subject) -> Option<Result<&Arc<T>, &str>> {
        let asked = asked.as_ref().filter(|asked| asked.subject == subject)?;
        let answer = asked.answer.as_ref()?;
        Some(answer.as_ref().map_err(String::as_str))
    }

    fn is_about(asked: &Option<Self>, subject: Subject) -> bool {
        asked.as_ref().is_some_and(|asked| asked.subject == subject)
    }

    fn with_ticket(asked: &mut Option<Self>, ticket: u64) -> Option<&mut Self> {
        asked.as_mut().filter(|asked| asked.ticket == ticket)
    }
}

impl Session {
    /// Where the shown step's distribution comes from, or why that cannot be said; `None` until it is known.
    pub fn explanation(&self) -> Option<Result<&Arc<Explanation>, &str>> {
        Asked::answer_to(&self.explaining.step, self.shown_subject()?)
    }

    /// Whether [`Action::Explain`](super::Action::Explain) would ask something new.
    pub fn wants_explanation(&self) -> bool {
        let subject = self.shown_subject();
        subject.is_some_and(|subject| !Asked::is_about(&self.explaining.step, subject))
    }

    /// The rows of the LM head nearest to a token's; `None` until they are known.
    pub fn nearest(&self, token: u32) -> Option<Result<&Arc<Nearest>, &str>> {
        let subject = Subject::Nearest(self.model?, token);
        Asked::answer_to(&self.explaining.nearest, subject)
    }

    /// Whether [`Action::Nearest`](super::Action::Nearest) would ask something new.
    pub fn wants_nearest(&self, token: u32) -> bool {
        self.nearest_subject(token)
            .is_some_and(|subject| !Asked::is_about(&self.explaining.nearest, subject))
    }

    /// The shown step, where it was predicted by the loaded model.
    fn shown_subject(&self) -> Option<Subject> {
        let model = self.explaining_model()?;
        self.prediction(self.selected)?;
        let last = self.selected.checked_sub(1).map(|index| self.path[index]);
        let is_own = last.is_none_or(|last| self.tree.node(last).model == model);
        is_own.then_some(Subject::Step(model, last))
    }

    /// The model in use, where it can be asked: a toy's numbers are typed, and come from nowhere.
    fn explaining_model(&self) -> Option<ModelIndex> {
        self.model
            .filter(|_| self.loading.is_none() && self.toy().is_none())
    }

    fn nearest_subject(&self, token: u32) -> Option<Subject> {
        let model = self.explaining_model()?;
        let known = (token as usize) < self.models[model].vocab_size;
        known.then_some(Subject::Nearest(model, token))
    }

    pub(super) fn explain(&mut self) -> Vec<Command> {
        let Some(subject) = self.shown_subject().filter(|_| self.wants_explanation()) else {
            return Vec::new();
        };
        let context = match self.selected {
            0 => self.context(),
            step => self.ids[self.context_start()..step].to_vec(),
        };
        let (asked, command) = self.ask(subject, Question::Step(context));
        self.explaining.step = Some(asked);
        vec![command]
    }

    pub(super) fn find_nearest(&mut self, token: u32) -> Vec<Command> {
        let wanted = self.wants_nearest(token);
        let Some(subject) = self.nearest_subject(token).filter(|_| wanted) else {
            return Vec::new();
        };
        let (asked, command) = self.ask(subject, Question::Nearest(token));
        self.explaining.nearest = Some(asked);
        vec![command]
    }

    fn ask<T>(&mut self, subject: Subject, question: Question) -> (Asked<T>, Command) {
        self.explaining.tickets += 1;
        let ticket = self.explaining.tickets;
        let asked = Asked {
            subject,
            ticket,
            answer: None,
        };
        (asked, Command::Explain(ExplainRequest { ticket, question }))
    }

    /// Takes in an answer; one to an older question is about something that is no longer asked.
    pub(super) fn on_explained(&mut self, ticket: u64, answer: Result<Answer, String>) {
        let Explaining { step, nearest, .. } = &mut self.explaining;
        match answer {
            Ok(Answer::Step(explanation)) => {
                if let Some(asked) = Asked::with_ticket(step, ticket) {
                    asked.answer = Some(Ok(explanation));
                }
            }
            Ok(Answer::Nearest(rows)) => {
                if let Some(asked) = Asked::with_ticket(nearest, ticket) {
                    asked.answer = Some(Ok(rows));
                }
            }
            Ok(Answer::Interrupted) => {
                // Whoever still wants to know asks again.
                step.take_if(|asked| asked.ticket == ticket);
                nearest.take_if(|asked| asked.ticket == ticket);
            }
            Err(message) => {
                if let Some(asked) = Asked::with_ticket(step, ticket) {
                    asked.answer = Some(Err(message));
                } else if let Some(asked) = Asked::with_ticket(nearest, ticket) {
                    asked.answer = Some(Err(message));
                }
            }
        }
    }
}
