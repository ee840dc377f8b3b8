//! What a user can ask for.

use std::sync::Arc;

use super::{Condition, NodeId};
use crate::{model::LoadRequest, sampling::SamplingSettings, worker::Pace};

/// A wish of the user. Panels only collect actions; [`super::Session::apply`] carries them out in one place.
#[derive(Clone, Debug)]
pub enum Action {
    /// The text as it now reads.
    EditText(String),
    /// Replaces the whole text by an example, ready to run.
    Example(String),
    /// Tokenise the whole text afresh, as if it had been typed.
    TokeniseAll,
    /// What the first factor of the chain rule is conditioned on.
    Condition(Condition),
    /// Use only the last tokens of a text that is longer than the context.
    AcceptTruncation,
    RunOrPause,
    Step,
    Stop,
    /// Show the step that chose the token at this index; the text's length is the open step.
    Select(usize),
    Back,
    Forward,
    /// Return to the newest step and follow the run.
    Live,
    /// Continue the text at the shown step with this token.
    Pick(u32),
    /// Show another draw of the shown step; the text stays.
    Redraw,
    /// Continue the text at the shown step with the draw on show.
    TakeRedraw,
    /// Cut the text back to the shown step.
    ContinueFromHere,
    /// Make this end of the history tree the text.
    SwitchBranch(NodeId),
    /// An empty name takes the branch's name away.
    NameBranch(NodeId, String),
    /// Take a branch from the list, with undo.
    DeleteBranch(NodeId),
    SetSettings(Arc<SamplingSettings>),
    /// Show a past step with the settings it was drawn with again, and no other draw of it.
    ReleaseWhatIf,
    SetPace(Pace),
    Undo,
    Redo,
    LoadModel(LoadRequest),
    CancelLoad,
    SelfCheck,
    /// The layer that the attention panel shows: the last to be let go for memory.
    FocusLayer(usize),
    /// Compute again what was let go for memory on the current path.
    Recompute,
    DismissNotice,
}
