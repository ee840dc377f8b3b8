//! The session: text, history tree, undo, selection, settings, and what is running.
//!
//! A plain state machine without egui, burn or wgpu types. [`Session::apply`] takes what the user asks for,
//! [`Session::on_event`] what the worker reports; both return what to ask of the worker next. Runs on the
//! window's thread and never waits.

mod action;
mod apply;
mod branches;
mod events;
mod history;
mod iteration;
mod memory;
mod phases;
mod redraw;
mod sequence;
mod tree;
mod view;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use action::Action;
pub use branches::{Branch, BranchBook};
use history::{Change, History, State};
pub use iteration::{Iteration, SHOWN_TOKENS, Selection, StopAnswer, StopTest, Why};
pub use memory::DEFAULT_BUDGET_BYTES;
pub use phases::{LoopPhase, Walk};
use redraw::Preview;
pub use redraw::Redraw;
pub use sequence::{Chain, Condition, power_of_ten};
pub use tree::{Draw, ModelIndex, Node, NodeId, Origin, RunMark, Score, Tree};
use view::ViewKey;
pub use view::{Chosen, StepView, TOP_ROWS, TokenRow};

use crate::{
    model::LoadRequest,
    prediction::{PassTiming, Prediction},
    sampling::{Distribution, SamplingSettings},
    tokenizer::{TextLayout, Tokenizer},
    worker::{Command, ModelInfo, Pace, SelfCheckSummary, StopReason},
};

/// Seconds after the last keystroke until the new text is predicted.
pub const TYPING_PAUSE_SECONDS: f64 = 0.15;

/// The text of a first start.
pub const FIRST_TEXT: &str = "Once upon a time";

/// What the worker is doing for this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    Idle,
    /// Prefilling what was typed.
    Predicting,
    /// Generating.
    Running,
    /// The run ends at its next token; `pause` keeps its remaining budget.
    Ending {
        pause: bool,
    },
    /// A run was paused with tokens of its budget left.
    Paused,
}

/// A model being read.
#[derive(Clone, Debug, PartialEq)]
pub struct Loading {
    pub name: String,
    pub request: LoadRequest,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// A run was asked for meanwhile.
    pub run_queued: bool,
}

/// The generation loop's bookkeeping, kept over a pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    /// Tokens appended since the run began.
    appended: usize,
    /// Tokens it may append in all.
    budget: usize,
}

/// How many tokens came from where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub typed: usize,
    pub generated: usize,
    pub retokenised: usize,
}

pub struct Session {
    models: Vec<Arc<ModelInfo>>,
    /// Index of the loaded model in `models`.
    model: Option<ModelIndex>,
    loading: Option<Loading>,
    tree: Tree,
    head: NodeId,
    /// The nodes of the text, from its first token to `head`.
    path: Vec<NodeId>,
    ids: Vec<u32>,
    layout: TextLayout,
    /// Text to read once a model is there to read it.
    unread: Option<String>,
    /// The prediction after a lone end-of-text, which an empty text stands for.
    empty_prediction: Option<Prediction>,
    settings: Arc<SamplingSettings>,
    pace: Pace,
    selected: usize,
    follow: bool,
    what_if: bool,
    history: History,
    book: Arc<BranchBook>,
    /// Another draw of the shown step, not taken.
    preview: Option<Preview>,
    activity: Activity,
    run: Run,
    stop_reason: Option<StopReason>,
    epoch: u64,
    /// When to predict what was typed, in the caller's seconds.
    predict_at: Option<f64>,
    /// First path index that the request in progress predicts after.
    last_timing: Option<Arc<PassTiming>>,
    prefill: Option<Prefill>,
    notice: Option<String>,
    /// The notice says that the text is too long: it goes when that is no longer so.
    notice_is_of_length: bool,
    /// What may be loaded instead of what the notice says could not be.
    offer: Option<LoadRequest>,
    self_check: Option<SelfCheckSummary>,
    budget_bytes: usize,
    recorded_bytes: usize,
    window_bytes: usize,
    focus_layer: usize,
    predictions_received: usize,
    view: Option<(ViewKey, StepView)>,
}

/// The newest prefill, over all its chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prefill {
    pub tokens: usize,
    pub chunks: usize,
    pub model_ms: f64,
    pub record_ms: f64,
}

impl Session {
    /// A session that will read `text` once a model is loaded.
    pub fn new(text: &str, settings: SamplingSettings, pace: Pace) -> Self {
        Self {
            models: Vec::new(),
            model: None,
            loading: None,
            tree: Tree::default(),
            head: Tree::ROOT,
            path: Vec::new(),
            ids: Vec::new(),
            layout: TextLayout::default(),
            unread: Some(text.to_owned()),
            empty_prediction: None,
            settings: Arc::new(settings.clamped()),
            pace,
            selected: 0,
            follow: true,
            what_if: false,
            history: History::default(),
            book: Arc::default(),
            preview: None,
            activity: Activity::Idle,
            run: Run::default(),
            stop_reason: None,
            epoch: 0,
            predict_at: None,
            last_timing: None,
            prefill: None,
            notice: None,
            notice_is_of_length: false,
            offer: None,
            self_check: None,
            budget_bytes: DEFAULT_BUDGET_BYTES,
            recorded_bytes: 0,
            window_bytes: 0,
            focus_layer: 0,
            predictions_received: 0,
            view: None,
        }
    }

    // ---- what is there -------------------------------------------------------------------------------------------

    pub fn model(&self) -> Option<&Arc<ModelInfo>> {
        self.models.get(self.model?)
    }

    pub fn loading(&self) -> Option<&Loading> {
        self.loading.as_ref()
    }

    pub fn tokenizer(&self) -> Option<&Tokenizer> {
        self.model().map(|model| &model.tokenizer)
    }

    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    pub fn head(&self) -> NodeId {
        self.head
    }

    /// The text as the editor shows it: while tokens stream in, without the bytes of an unfinished character.
    pub fn text(&self) -> &str {
        if let Some(text) = &self.unread {
            return text;
        }
        if self.is_running() {
            self.layout.settled()
        } else {
            &self.layout.text
        }
    }

    /// Byte ends of the tokens' pieces in the full text, and how many last tokens hold an unfinished character.
    pub fn layout(&self) -> &TextLayout {
        &self.layout
    }

    /// Token ids of the text.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub fn len(&self) -> usize {
        self.path.len()
    }

    pub fn is_empty(&self) -> bool {
        self.path.is_empty()
    }

    /// The nodes of the text, in order.
    pub fn path(&self) -> &[NodeId] {
        &self.path
    }

    pub fn path_nodes(&self) -> impl ExactSizeIterator<Item = &Node> {
        self.path.iter().map(|&id| self.tree.node(id))
    }

    pub fn node(&self, index: usize) -> Option<&Node> {
        self.path.get(index).map(|&id| self.tree.node(id))
    }

    /// Index of the first token that lies in the context.
    pub fn context_start(&self) -> usize {
        self.path_nodes().take_while(|node| node.outside).count()
    }

    /// Tokens in the context; an empty text stands for a lone end-of-text.
    pub fn context_len(&self) -> usize {
        self.path.len() - self.context_start()
    }

    pub fn n_ctx(&self) -> usize {
        self.model().map_or(0, |model| model.n_ctx)
    }

    /// Whether the text is longer than the context and the user has not said what to do about it.
    pub fn is_too_long(&self) -> bool {
        self.model.is_some() && self.context_len() > self.n_ctx()
    }

    /// How many last tokens [`Action::AcceptTruncation`] would use.
    pub fn truncated_len(&self) -> usize {
        let n_ctx = self.n_ctx();
        n_ctx - self.settings.max_new_tokens.min(n_ctx / 2)
    }

    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for node in self.path_nodes() {
            match node.origin {
                Origin::Typed => counts.typed += 1,
                Origin::Retokenised => counts.retokenised += 1,
                Origin::Sampled | Origin::Greedy | Origin::Picked => counts.generated += 1,
            }
        }
        counts
    }

    pub fn settings(&self) -> &Arc<SamplingSettings> {
        &self.settings
    }

    pub fn pace(&self) -> Pace {
        self.pace
    }

    pub fn activity(&self) -> Activity {
        self.activity
    }

    pub fn is_running(&self) -> bool {
        matches!(self.activity, Activity::Running | Activity::Ending { .. })
    }

    /// Tokens appended by the newest run, and its budget.
    pub fn run_progress(&self) -> (usize, usize) {
        (self.run.appended, self.run.budget)
    }

    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop_reason
    }

    /// The newest pass.
    pub fn last_timing(&self) -> Option<&PassTiming> {
        self.last_timing.as_deref()
    }

    pub fn prefill(&self) -> Option<Prefill> {
        self.prefill
    }

    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// A way to load what the notice says could not be loaded.
    pub fn offer(&self) -> Option<&LoadRequest> {
        self.offer.as_ref()
    }

    pub fn self_check(&self) -> Option<&SelfCheckSummary> {
        self.self_check.as_ref()
    }

    /// Logits and attention on record, the window's copies included.
    pub fn recorded_bytes(&self) -> usize {
        self.recorded_bytes + self.window_bytes
    }

    /// Moves whenever the record does: what is derived from it is then worked out again.
    pub fn record_version(&self) -> (usize, usize, usize) {
        let book = Arc::as_ptr(&self.book) as usize;
        (self.tree.len(), self.predictions_received, book)
    }

    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    pub fn can_undo(&self) -> bool {
        self.history.can_undo()
    }

    pub fn can_redo(&self) -> bool {
        self.history.can_redo()
    }

    /// The shown step: the prediction made from this many tokens. The text's length is the open step.
    pub fn selected(&self) -> usize {
        self.selected
    }

    /// Whether the selection moves along with the run.
    pub fn follows(&self) -> bool {
        self.follow
    }

    pub fn is_open_step(&self) -> bool {
        self.selected == self.path.len()
    }

    /// The prediction that step `step` was made from.
    pub fn prediction(&self, step: usize) -> Option<&Prediction> {
        match step.checked_sub(1) {
            Some(index) => self.node(index)?.prediction.as_ref(),
            None if self.path.is_empty() => self.empty_prediction.as_ref(),
            None => None,
        }
    }

    /// The shown step as [`Self::refresh_view`] last worked it out.
    pub fn view(&self) -> Option<&StepView> {
        self.view.as_ref().map(|(_, view)| view)
    }

    /// When [`Self::tick`] next has something to do, in the caller's seconds.
    pub fn next_tick(&self) -> Option<f64> {
        self.predict_at
    }

    // ---- the shown step ------------------------------------------------------------------------------------------

    /// Works the shown step out again if anything it depends on has changed. Called once a frame.
    pub fn refresh_view(&mut self) {
        let step = self.selected;
        let Some(prediction) = self.prediction(step) else {
            self.view = None;
            return;
        };
        let Some(logits) = prediction.logits.clone() else {
            self.view = None;
            return;
        };
        let chosen_id = self.path.get(step).copied();
        let draw = chosen_id.and_then(|id| self.tree.node(id).draw.as_ref());
        let drawn_with = draw
            .filter(|draw| self.what_if && draw.settings != self.settings)
            .map(|draw| draw.settings.clone());
        let settings = match draw {
            Some(draw) if !self.what_if => draw.settings.clone(),
            _ => self.settings.clone(),
        };
        let key = ViewKey {
            node: step.checked_sub(1).map(|index| self.path[index]),
            step,
            chosen: chosen_id,
            settings: settings.clone(),
            has_attention: prediction.attention.is_some(),
            epoch_of_prediction: Arc::as_ptr(&logits) as usize,
        };
        if self.view.as_ref().is_some_and(|(old, _)| *old == key) {
            return;
        }
        let context = &self.ids[self.context_start().min(step)..step];
        let distribution = Distribution::new(&logits.values, context, &settings);
        let chosen = chosen_id.map(|id| {
            let node = self.tree.node(id);
            Chosen {
                row: StepView::row_of(&logits, &distribution, node.token),
                origin: node.origin,
                u: node.draw.as_ref().and_then(|draw| draw.u),
                redraw: node.draw.as_ref().map_or(0, |draw| draw.redraw),
            }
        });
        let top = StepView::top_rows(&logits, &distribution);
        let attention = prediction.attention.clone();
        self.view = Some((
            key,
            StepView {
                step,
                logits,
                attention,
                settings,
                drawn_with,
                distribution,
                chosen,
                top,
            },
        ));
    }

    // ---- shared by apply and events ------------------------------------------------------------------------------

    fn state(&self) -> State {
        State {
            head: self.head,
            settings: self.settings.clone(),
            selected: self.selected,
            book: self.book.clone(),
        }
    }

    /// One notice at a time; a new one takes the place of the old and of what that offered.
    fn say(&mut self, notice: impl Into<String>) {
        self.notice = Some(notice.into());
        self.notice_is_of_length = false;
        self.offer = None;
    }

    fn record(&mut self, change: Change, now: f64) {
        self.history.record(self.state(), change, now);
    }

    /// Makes `head` the end of the text.
    fn set_head(&mut self, head: NodeId) {
        self.head = head;
        self.path = self.tree.path(head);
        self.read_path();
    }

    /// Works out ids and text from the path.
    fn read_path(&mut self) {
        self.ids = self
            .path
            .iter()
            .map(|&id| self.tree.node(id).token)
            .collect();
        let tokenizer = self.head_model().map(|model| model.tokenizer.clone());
        self.layout = tokenizer
            .map(|tokenizer| tokenizer.layout(&self.ids))
            .unwrap_or_default();
        if self.notice_is_of_length && !self.is_too_long() {
            self.notice = None;
        }
    }

    /// The model that the current text was read with; all of a path's nodes share one.
    fn head_model(&self) -> Option<&Arc<ModelInfo>> {
        let index = self
            .path
            .last()
            .map_or(self.model?, |&id| self.tree.node(id).model);
        self.models.get(index)
    }

    /// First path index whose logits are not there: never computed, or let go while another branch was current.
    fn first_unpredicted(&self) -> Option<usize> {
        let has_logits = |node: &Node| {
            node.prediction
                .as_ref()
                .is_some_and(|prediction| prediction.logits.is_some())
        };
        (self.context_start()..self.path.len())
            .find(|&index| !has_logits(self.tree.node(self.path[index])))
    }

    /// The token ids that the model sees.
    fn context(&self) -> Vec<u32> {
        if self.path.is_empty() {
            return self
                .model()
                .and_then(|model| model.end_of_text)
                .into_iter()
                .collect();
        }
        self.ids[self.context_start()..].to_vec()
    }

    /// Asks for every prediction that the text still lacks, now.
    fn predict(&mut self) -> Vec<Command> {
        self.predict_at = None;
        if self.model.is_none() || self.is_running() {
            return Vec::new();
        }
        if self.path.is_empty() {
            if self.empty_prediction.is_some() || self.context().is_empty() {
                return Vec::new();
            }
            return self.request_prediction(0);
        }
        if self.is_too_long() {
            return Vec::new();
        }
        match self.first_unpredicted() {
            Some(index) => self.request_prediction(index - self.context_start()),
            None => Vec::new(),
        }
    }

    /// Asks for the predictions after all context positions from `from` on.
    fn request_prediction(&mut self, from: usize) -> Vec<Command> {
        self.epoch += 1;
        self.activity = Activity::Predicting;
        self.prefill = None;
        vec![Command::Predict {
            epoch: self.epoch,
            context: self.context(),
            from,
        }]
    }

    /// Ends the run for good because the text it wrote is about to be another: nothing of its budget is left.
    fn leave_run(&mut self) -> Vec<Command> {
        let commands = self.interrupt();
        self.run = Run::default();
        commands
    }

    /// Lets go of whatever the worker is doing: its further events are about another text.
    fn interrupt(&mut self) -> Vec<Command> {
        self.epoch += 1;
        let busy = self.is_running() || self.activity == Activity::Predicting;
        if self.is_running() {
            self.stop_reason = Some(StopReason::Stopped);
        }
        self.activity = Activity::Idle;
        if busy {
            vec![Command::Stop]
        } else {
            Vec::new()
        }
    }
}
