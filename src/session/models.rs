//! Another model, or typed numbers, in the place of the one in use: the text stays and is read again.

use super::{Loading, Session, Tree};
use crate::{model::LoadRequest, tokenizer::Tokenizer, worker::Command};

impl Session {
    pub(super) fn load_model(&mut self, request: LoadRequest) -> Vec<Command> {
        let mut commands = self.leave_run();
        if self.loading.is_some() {
            commands.push(Command::CancelLoad);
        }
        self.loading = Some(Loading {
            name: request.source.name(),
            request: request.clone(),
            done_bytes: 0,
            total_bytes: 0,
            run_queued: false,
        });
        commands.push(Command::Load(request));
        // The model in use goes on answering until the other is there.
        commands.extend(self.predict());
        commands
    }

    /// Reads the text again where another model's tokens make it up: ids mean something only to their own model.
    pub(super) fn adopt_path_of_another_model(&mut self) {
        let (Some(model), Some(tokenizer)) = (self.model, self.tokenizer().cloned()) else {
            return;
        };
        if self.path_nodes().all(|node| node.model == model) {
            return;
        }
        let ids = self.read(&tokenizer, &self.layout.text);
        self.path.clear();
        self.head = Tree::ROOT;
        self.rewrite(0, &ids);
    }

    /// The ids of a text; a toy that cannot read it begins with its own prompt.
    pub(super) fn read(&self, tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
        match self.toy() {
            Some(toy) => toy.ids_or_prompt(text),
            None => tokenizer.encode(text),
        }
    }
}
