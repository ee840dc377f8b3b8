//! The window's end of the worker.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::{Command, Event, thread};

/// Sends commands to the worker and takes in its events; never waits.
///
/// Dropping it ends the worker at its next token.
pub struct WorkerHandle {
    commands: Sender<Command>,
    events: Receiver<Event>,
}

impl WorkerHandle {
    /// Starts the worker's thread. `wake` is called after every event, from that thread.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn spawn(wake: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (commands, inbox) = channel();
        let (outbox, events) = channel();
        std::thread::Builder::new()
            .name("worker".to_owned())
            .spawn(move || thread::run(inbox, outbox, wake))?;
        Ok(Self { commands, events })
    }

    /// A handle whose other end a test plays.
    pub fn scripted() -> (Self, Receiver<Command>, Sender<Event>) {
        let (commands, inbox) = channel();
        let (outbox, events) = channel();
        (Self { commands, events }, inbox, outbox)
    }

    /// A worker that is gone hears nothing; its absence shows in the events.
    pub fn send(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// The next event, if one has come.
    pub fn try_event(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }
}
