//! Carrying out what the user asks for.

use std::sync::Arc;

use super::{
    Action, Activity, Change, Draw, Origin, Run, Session, State, TYPING_PAUSE_SECONDS, Tree,
    tree::{NewNode, NodeId},
};
use crate::{
    sampling::SamplingSettings,
    worker::{Command, Pace, RunRequest, StopReason},
};

impl Session {
    /// Carries out one action at `now` (seconds of any steady clock), and returns what to ask of the worker.
    pub fn apply(&mut self, action: Action, now: f64) -> Vec<Command> {
        let mut commands = self.carry_out(action, now);
        commands.extend(self.check_measurement());
        commands
    }

    fn carry_out(&mut self, action: Action, now: f64) -> Vec<Command> {
        match action {
            Action::EditText(text) => self.edit_text(&text, now),
            Action::Example(text) => self.example(&text, now),
            Action::TokeniseAll => self.tokenise_all(now),
            Action::Condition(condition) => self.set_condition(condition, now),
            Action::AcceptTruncation => self.accept_truncation(now),
            Action::RunOrPause => self.run_or_pause(now),
            Action::Step => self.step(now),
            Action::Stop => self.stop(),
            Action::Select(step) => self.select(step),
            Action::Back => self.select(self.selected.saturating_sub(1)),
            Action::Forward => self.select(self.selected + 1),
            Action::Live => self.live(),
            Action::Pick(token) => self.pick(token, now),
            Action::Redraw => self.draw_again(),
            Action::TakeRedraw => self.take_redraw(now),
            Action::ContinueFromHere => self.continue_from_here(now),
            Action::SwitchBranch(head) => self.switch_branch(head, now),
            Action::NameBranch(head, name) => self.name_branch(head, &name, now),
            Action::DeleteBranch(head) => self.delete_branch(head, now),
            Action::SetSettings(settings) => self.set_settings(&settings, now),
            Action::ReleaseWhatIf => {
                self.what_if = false;
                self.preview = None;
                Vec::new()
            }
            Action::SetPace(pace) => self.set_pace(pace),
            Action::Undo => self.undo(),
            Action::Redo => self.redo(),
            Action::LoadModel(request) => self.load_model(request),
            Action::CancelLoad => self
                .loading
                .is_some()
                .then_some(Command::CancelLoad)
                .into_iter()
                .collect(),
            Action::EditToy(toy) => self.edit_toy(toy, now),
            Action::SelfCheck => vec![Command::SelfCheck],
            Action::MeasureUncached => self.measure_uncached(),
            Action::CancelMeasurement => self.cancel_measurement(),
            Action::Explain => self.explain(),
            Action::Nearest(token) => self.find_nearest(token),
            Action::FocusLayer(layer) => {
                self.focus_layer = layer;
                Vec::new()
            }
            Action::Recompute => self.recompute(),
            Action::DismissNotice => {
                (self.notice, self.offer) = (None, None);
                Vec::new()
            }
        }
    }

    /// Does what has become due: predicts after a pause in typing.
    pub fn tick(&mut self, now: f64) -> Vec<Command> {
        if self.predict_at.is_some_and(|at| now >= at) {
            self.predict()
        } else {
            Vec::new()
        }
    }

    // ---- text ----------------------------------------------------------------------------------------------------

    fn edit_text(&mut self, text: &str, now: f64) -> Vec<Command> {
        if text == self.text() {
            return Vec::new();
        }
        if self.unread.take().is_some() && self.model.is_some() && text == self.layout.text {
            return Vec::new();
        }
        let Some(tokenizer) = self.tokenizer().cloned() else {
            self.unread = Some(text.to_owned());
            return Vec::new();
        };
        let edit = tokenizer.retokenise_from(&self.ids, text);
        if self.toy().is_some() && !edit.exact {
            self.unread = Some(text.to_owned());
            return Vec::new();
        }
        let commands = self.leave_run();
        self.record(Change::Typing, now);
        self.rewrite(edit.kept, &edit.ids);
        self.select_after_edit(edit.kept);
        self.predict_at = Some(now + TYPING_PAUSE_SECONDS);
        self.stop_reason = None;
        commands
    }

    /// Keeps the first `kept` nodes of the path and adds typed ones for the rest of `ids`.
    pub(super) fn rewrite(&mut self, kept: usize, ids: &[u32]) {
        let Some((model, tokenizer)) = self.model.zip(self.tokenizer().cloned()) else {
            return;
        };
        let old: Vec<_> = self
            .path
            .iter()
            .map(|&id| self.tree.node(id).origin)
            .collect();
        let cut_in_head = kept < self.context_start() && kept < ids.len();
        let mut head = kept
            .checked_sub(1)
            .map_or(Tree::ROOT, |last| self.path[last]);
        if cut_in_head {
            // The part before the context was edited: the whole text is in question again.
            head = self.copy_path(kept, |_| false);
        }
        // What was generated and stands unchanged behind the edit is known by its distance from the end of the text.
        let layout = tokenizer.layout(ids);
        let unchanged = common_suffix(&self.layout.text, &layout.text);
        for (index, &token) in ids.iter().enumerate().skip(kept) {
            let from_end = layout.text.len() - layout.range(index).start;
            let before = (from_end <= unchanged)
                .then(|| self.layout.token_at(self.layout.text.len() - from_end))
                .and_then(|at| old.get(at));
            let generated_before = before
                .is_some_and(|origin| origin.is_generated() || *origin == Origin::Retokenised);
            let origin = if generated_before {
                Origin::Retokenised
            } else {
                Origin::Typed
            };
            head = self.tree.child(
                head,
                NewNode {
                    token,
                    model,
                    origin,
                    draw: None,
                    outside: false,
                },
            );
        }
        self.set_head(head);
    }

    /// Adds the first `len` nodes of the path again with `outside` decided anew, and returns the last.
    fn copy_path(&mut self, len: usize, outside: impl Fn(usize) -> bool) -> NodeId {
        let mut head = Tree::ROOT;
        for index in 0..len {
            let node = self.tree.node(self.path[index]);
            let new = NewNode {
                token: node.token,
                model: node.model,
                origin: node.origin,
                draw: node.draw.clone(),
                outside: outside(index),
            };
            head = self.tree.child(head, new);
        }
        head
    }

    /// After an edit the selection moves to the last step still valid; while it follows, or where none is, to the open
    /// step.
    pub(super) fn select_after_edit(&mut self, kept: usize) {
        self.what_if = false;
        // Step 0 has nothing before it to be predicted from.
        self.follow |= kept == 0;
        if self.follow {
            self.selected = self.path.len();
        } else {
            self.selected = self.selected.min(kept);
        }
    }

    fn example(&mut self, text: &str, now: f64) -> Vec<Command> {
        if self.toy().is_some_and(|toy| !toy.can_read(text)) {
            self.say(
                "This example is for a model: the toy in use knows only its own tokens. Choose a model first.",
            );
            return Vec::new();
        }
        self.history.end_burst();
        let mut commands = self.edit_text(text, now);
        self.history.end_burst();
        commands.extend(self.live());
        commands
    }

    fn tokenise_all(&mut self, now: f64) -> Vec<Command> {
        let Some(tokenizer) = self.tokenizer().cloned() else {
            return Vec::new();
        };
        let ids = tokenizer.encode(&self.layout.text);
        if ids == self.ids {
            self.say("Tokenising the whole text afresh gives the same tokens.");
            return Vec::new();
        }
        let mut commands = self.leave_run();
        self.record(Change::Branch, now);
        let kept = self
            .ids
            .iter()
            .zip(&ids)
            .take_while(|(a, b)| a == b)
            .count();
        self.rewrite(kept, &ids);
        self.select_after_edit(kept);
        commands.extend(self.predict());
        commands
    }

    fn accept_truncation(&mut self, now: f64) -> Vec<Command> {
        if !self.is_too_long() {
            return Vec::new();
        }
        let mut commands = self.leave_run();
        self.record(Change::Branch, now);
        let start = self.path.len() - self.truncated_len();
        let head = self.copy_path(self.path.len(), |index| index < start);
        self.set_head(head);
        self.follow = true;
        self.select_after_edit(0);
        commands.extend(self.predict());
        commands
    }

    // ---- transport -----------------------------------------------------------------------------------------------

    fn run_or_pause(&mut self, now: f64) -> Vec<Command> {
        if let Some(loading) = &mut self.loading {
            loading.run_queued = !loading.run_queued;
            return Vec::new();
        }
        match self.activity {
            Activity::Running => {
                self.activity = Activity::Ending { pause: true };
                vec![Command::Stop]
            }
            Activity::Ending { .. } => Vec::new(),
            Activity::Paused => {
                let left = self.run.budget - self.run.appended;
                self.start(left, now, Change::Run)
            }
            Activity::Idle | Activity::Predicting => {
                self.run = Run {
                    appended: 0,
                    budget: self.settings.max_new_tokens,
                };
                self.start(self.run.budget, now, Change::Run)
            }
        }
    }

    /// One token: a run that pauses after it.
    fn step(&mut self, now: f64) -> Vec<Command> {
        if self.is_running() || self.loading.is_some() {
            return Vec::new();
        }
        if self.activity != Activity::Paused {
            self.run = Run {
                appended: 0,
                budget: self.settings.max_new_tokens.max(1),
            };
        }
        self.start(1, now, Change::Step)
    }

    pub(super) fn start(&mut self, budget: usize, now: f64, change: Change) -> Vec<Command> {
        if self.model.is_none() {
            self.say("No model is loaded. Choose one from the model menu.");
            return Vec::new();
        }
        if self.is_too_long() {
            self.say(format!(
                "The text has {} tokens and the model's context holds {}: shorten it, or use its last {} tokens.",
                self.context_len(),
                self.n_ctx(),
                self.truncated_len()
            ));
            self.notice_is_of_length = true;
            return Vec::new();
        }
        if self.path.is_empty() && !self.begin_with_end_of_text() {
            return Vec::new();
        }
        self.unread = None;
        let mut commands = self.interrupt();
        self.stop_reason = None;
        self.predict_at = None;
        if self.context_len() >= self.n_ctx() || budget == 0 {
            self.stop_reason = Some(if budget == 0 {
                StopReason::MaxNewTokens
            } else {
                StopReason::ContextFull
            });
            commands.extend(self.predict());
            return commands;
        }
        self.record(change, now);
        let start = self.context_start();
        let from = self
            .first_unpredicted()
            .map_or(self.context_len(), |index| index - start);
        let open = self
            .prediction(self.path.len())
            .and_then(|prediction| prediction.logits.clone());
        self.activity = Activity::Running;
        self.follow = true;
        self.what_if = false;
        self.selected = self.path.len();
        if from < self.context_len() {
            self.prefill = None;
        }
        commands.push(Command::Run(RunRequest {
            epoch: self.epoch,
            context: self.context(),
            from,
            open,
            continuation: self.run.appended.min(self.context_len()),
            budget,
            settings: self.settings.clone(),
            pace: self.pace,
        }));
        commands
    }

    /// An empty text is a lone end-of-text. Says so where the model has none.
    pub(super) fn begin_with_end_of_text(&mut self) -> bool {
        let Some((model, info)) = self.model.zip(self.model()) else {
            return false;
        };
        let Some(token) = info.end_of_text else {
            self.say(
                "An empty text cannot be continued: this model has no end-of-text token to start from. Type something.",
            );
            return false;
        };
        let head = self.tree.child(
            Tree::ROOT,
            NewNode {
                token,
                model,
                origin: Origin::Typed,
                draw: None,
                outside: false,
            },
        );
        if let Some(prediction) = self.empty_prediction.clone()
            && self.tree.node(head).prediction.is_none()
        {
            self.attach(head, prediction);
        }
        self.set_head(head);
        true
    }

    fn stop(&mut self) -> Vec<Command> {
        if let Some(loading) = &mut self.loading {
            loading.run_queued = false;
        }
        match self.activity {
            Activity::Running | Activity::Ending { pause: true } => {
                self.activity = Activity::Ending { pause: false };
                vec![Command::Stop]
            }
            Activity::Paused => {
                self.activity = Activity::Idle;
                self.stop_reason = Some(StopReason::Stopped);
                Vec::new()
            }
            Activity::Predicting => {
                self.activity = Activity::Idle;
                self.stop_reason = Some(StopReason::Stopped);
                self.epoch += 1;
                vec![Command::Stop]
            }
            Activity::Idle | Activity::Ending { pause: false } => Vec::new(),
        }
    }

    // ---- selection -----------------------------------------------------------------------------------------------

    fn select(&mut self, step: usize) -> Vec<Command> {
        let newest = self.path.len();
        self.selected = step.min(newest);
        self.follow = self.selected == newest;
        self.what_if = false;
        self.preview = None;
        Vec::new()
    }

    /// The newest step: the choice of the last token if the loop made it, else the open step.
    pub(super) fn live(&mut self) -> Vec<Command> {
        self.follow = true;
        self.what_if = false;
        self.selected = self.newest_step();
        Vec::new()
    }

    pub(super) fn newest_step(&self) -> usize {
        let len = self.path.len();
        match self.path_nodes().last() {
            Some(node) if matches!(node.origin, Origin::Sampled | Origin::Greedy) => len - 1,
            _ => len,
        }
    }

    // ---- branches ------------------------------------------------------------------------------------------------

    fn pick(&mut self, token: u32, now: f64) -> Vec<Command> {
        let known = self
            .model()
            .is_some_and(|info| (token as usize) < info.vocab_size);
        if !known || self.prediction(self.selected).is_none() {
            return Vec::new();
        }
        let draw = Draw {
            settings: self.settings.clone(),
            u: None,
            redraw: 0,
        };
        let (appended, mut commands) = self.append_at_selection(token, Origin::Picked, draw, now);
        if appended {
            self.select(self.path.len());
            commands.extend(self.predict());
        }
        commands
    }

    /// Makes a branch of the shown step with this token as its choice. Whether there was room for it, and what to ask of
    /// the worker in either case.
    pub(super) fn append_at_selection(
        &mut self,
        token: u32,
        origin: Origin,
        draw: Draw,
        now: f64,
    ) -> (bool, Vec<Command>) {
        let Some((model, info)) = self.model.zip(self.model()) else {
            return (false, Vec::new());
        };
        let step = self.selected;
        if step - self.context_start().min(step) >= info.n_ctx {
            self.stop_reason = Some(StopReason::ContextFull);
            return (false, Vec::new());
        }
        let commands = self.leave_run();
        if self.path.is_empty() && !self.begin_with_end_of_text() {
            return (false, commands);
        }
        self.record(Change::Branch, now);
        let new = NewNode {
            token,
            model,
            origin,
            draw: Some(draw),
            outside: false,
        };
        let head = self.tree.child(self.path[step.max(1) - 1], new);
        self.set_head(head);
        self.stop_reason = None;
        (true, commands)
    }

    fn continue_from_here(&mut self, now: f64) -> Vec<Command> {
        let step = self.selected;
        if step >= self.path.len() || step == 0 {
            return Vec::new();
        }
        let mut commands = self.leave_run();
        self.record(Change::Branch, now);
        self.set_head(self.path[step - 1]);
        self.select(self.path.len());
        self.stop_reason = None;
        commands.extend(self.predict());
        commands
    }

    // ---- settings ------------------------------------------------------------------------------------------------

    fn set_settings(&mut self, settings: &SamplingSettings, now: f64) -> Vec<Command> {
        let settings = settings.clamped();
        if settings == *self.settings {
            return Vec::new();
        }
        self.record(Change::Settings, now);
        self.adopt_settings(Arc::new(settings))
    }

    fn adopt_settings(&mut self, settings: Arc<SamplingSettings>) -> Vec<Command> {
        self.settings = settings;
        if self.is_running() {
            return vec![Command::Settings(self.settings.clone())];
        }
        self.what_if = self.selected < self.path.len();
        Vec::new()
    }

    fn set_pace(&mut self, pace: Pace) -> Vec<Command> {
        self.pace = pace;
        if self.is_running() {
            vec![Command::Pace(pace)]
        } else {
            Vec::new()
        }
    }

    // ---- undo ----------------------------------------------------------------------------------------------------

    fn undo(&mut self) -> Vec<Command> {
        let current = self.state();
        match self.history.undo(current) {
            Some(state) => self.restore(state),
            None => Vec::new(),
        }
    }

    fn redo(&mut self) -> Vec<Command> {
        let current = self.state();
        match self.history.redo(current) {
            Some(state) => self.restore(state),
            None => Vec::new(),
        }
    }

    fn restore(&mut self, state: State) -> Vec<Command> {
        let mut commands = self.leave_run();
        // Another toy's numbers come back with the text; another model is not loaded by an undo.
        if let Some(index) = state.toy
            && self.toy().is_some()
            && self.model != Some(index)
        {
            commands.extend(self.use_toy(index));
        }
        let text_changes = state.head != self.head;
        self.settings = state.settings;
        self.book = state.book;
        self.what_if = false;
        if text_changes {
            self.stop_reason = None;
            self.set_head(state.head);
            self.adopt_path_of_another_model();
        }
        self.selected = state.selected.min(self.path.len());
        self.follow = self.selected >= self.newest_step();
        commands.extend(self.predict());
        commands
    }

    // ---- record ------------------------------------------------------------------------------------------------------

    fn recompute(&mut self) -> Vec<Command> {
        if self.is_running() || self.is_too_long() {
            return Vec::new();
        }
        let start = self.context_start();
        let missing = self
            .path_nodes()
            .skip(start)
            .position(|node| !node.prediction.as_ref().is_some_and(|p| p.is_complete()));
        match missing {
            Some(from) => self.request_prediction(from),
            None => Vec::new(),
        }
    }
}

/// Bytes that two texts share at their ends.
fn common_suffix(a: &str, b: &str) -> usize {
    a.bytes()
        .rev()
        .zip(b.bytes().rev())
        .take_while(|(a, b)| a == b)
        .count()
}
