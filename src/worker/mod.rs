//! The worker: one OS thread that owns the model, its KV cache and the compute device.
//!
//! [`protocol`](Command) is what goes to and fro, [`Engine`] is the model with its generation loop (also behind
//! the command line, on its own thread), [`WorkerHandle`] is the window's end.

mod control;
mod engine;
mod explain;
mod generation;
mod handle;
mod measurement;
mod protocol;
mod stops;
mod thread;
mod toy;

pub use control::{Control, Live, Turn, Uncontrolled};
pub use engine::{Engine, EngineError, PREFILL_CHUNK};
pub use handle::WorkerHandle;
pub use protocol::{
    Answer, Command, Event, ExplainRequest, MeasureRequest, ModelInfo, Pace, Question, RunRequest,
    SelfCheckSummary, StopReason,
};
pub(crate) use stops::StopMatcher;
