//! What a file was made from, as keys and values: model, device, prompt, text, step, sampling settings, version.

use crate::{sampling::SamplingSettings, session::Session};

/// Ordered keys and values. Keys are lower-case ASCII words with underscores; values may hold anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts(Vec<(String, String)>);

impl Facts {
    /// What every file says.
    pub fn of(session: &Session) -> Self {
        let mut facts = Self::default();
        let version = format!("logitscope {}", env!("CARGO_PKG_VERSION"));
        facts.add("software", version);
        if let Some(model) = session.model() {
            facts.add("model", &model.name);
            facts.add("device", &model.device);
            let precision = match model.toy() {
                Some(_) => model.precision_name(),
                None => model.precision().describe().to_owned(),
            };
            facts.add("precision", precision);
        }
        facts.add("prompt", prompt(session));
        facts.add("text", &session.layout().text);
        facts.add("tokens", session.len().to_string());
        facts.add("step", session.selected().to_string());
        if let Ok(settings) = serde_json::to_string(settings(session)) {
            facts.add("settings", settings);
        }
        facts
    }

    pub fn add(&mut self, key: &str, value: impl Into<String>) {
        self.0.push((key.to_owned(), value.into()));
    }

    pub fn with(mut self, key: &str, value: impl Into<String>) -> Self {
        self.add(key, value);
        self
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(held, _)| held == key);
        found.map(|(_, value)| value.as_str())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Those that the shown step is drawn under, which a what-if may have changed.
pub fn settings(session: &Session) -> &SamplingSettings {
    session
        .view()
        .map_or_else(|| session.settings(), |view| &view.settings)
}

/// The text before the first token that was chosen from a prediction.
pub fn prompt(session: &Session) -> &str {
    let typed = session
        .path_nodes()
        .take_while(|node| !node.origin.is_generated())
        .count();
    let layout = session.layout();
    let end = typed
        .checked_sub(1)
        .and_then(|last| layout.ends.get(last))
        .map_or(0, |&end| end);
    layout.text.get(..end).unwrap_or_default()
}
