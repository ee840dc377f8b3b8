//! What a chosen model is and what memory it takes, before it is loaded.

use egui::{Align, Id, Layout, Modal, RichText, Ui};

use super::{
    Theme,
    chart::count,
    status::bytes,
    theme::{self, semibold},
    transport::parameters,
};
use crate::model::{
    Gpt2Config, ModelError, ModelSource, Precision, WeightBytes, WeightOptions, model_folder,
    source_config,
};

/// A model that was picked, and its sizes.
pub struct OpenModel {
    pub source: ModelSource,
    config: Gpt2Config,
}

/// What was decided about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Load,
    Leave,
}

impl OpenModel {
    /// Reads the sizes, not the weights.
    ///
    /// # Errors
    /// Where there is no GPT-2, or its sizes are refused.
    pub fn read(source: ModelSource) -> Result<Self, ModelError> {
        let config = source_config(&source)?;
        let source = match source {
            ModelSource::Folder(path) => ModelSource::Folder(model_folder(&path)),
            other => other,
        };
        Ok(Self { source, config })
    }

    /// Shows it over the window; `weights` is what is chosen there.
    pub fn show(
        &self,
        ui: &Ui,
        theme: &Theme,
        scale: f32,
        weights: &mut WeightOptions,
    ) -> Option<Decision> {
        let frame = egui::Frame::popup(ui.style())
            .fill(theme.panel)
            .corner_radius(theme::CORNER)
            .inner_margin(20);
        let response = Modal::new(Id::unique("open a model"))
            .frame(frame)
            .show(ui.ctx(), |ui| {
                ui.set_width(460.0 * scale);
                ui.label(
                    RichText::new(self.source.name())
                        .heading()
                        .family(semibold())
                        .color(theme.ink),
                );
                ui.label(RichText::new(self.sizes()).color(theme.dim));
                ui.add_space(10.0);
                self.precisions(ui, theme, weights);
                ui.checkbox(
                    &mut weights.allow_unknown_tensors,
                    "Leave out tensors that a GPT-2 does not have",
                )
                .on_hover_text("They are named after loading. Otherwise the file is refused.");
                ui.add_space(10.0);
                self.buttons(ui)
            });
        match response.inner {
            None if response.should_close() => Some(Decision::Leave),
            decision => decision,
        }
    }

    fn sizes(&self) -> String {
        let Gpt2Config {
            n_layer,
            n_head,
            n_ctx,
            vocab_size,
            ..
        } = self.config;
        format!(
            "{} parameters · {n_layer} layers × {n_head} heads\ncontext {} · {} tokens",
            parameters(self.config.parameters()),
            count(n_ctx),
            count(vocab_size)
        )
    }

    fn precisions(&self, ui: &mut Ui, theme: &Theme, weights: &mut WeightOptions) {
        ui.label(
            RichText::new("Memory that the weights take")
                .small()
                .color(theme.dim),
        );
        for precision in Precision::ALL {
            let label = format!(
                "{precision}: {}",
                memory(WeightBytes::of(&self.config), precision)
            );
            ui.radio_value(&mut weights.precision, precision, label)
                .on_hover_text(precision.describe());
        }
    }

    fn buttons(&self, ui: &mut Ui) -> Option<Decision> {
        let mut decision = None;
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let load = ui.button("Load");
            // The keyboard begins at the button: Enter loads, Esc leaves.
            if ui.memory(|memory| memory.focused().is_none()) {
                load.request_focus();
            }
            if load.clicked() {
                decision = Some(Decision::Load);
            }
            if ui.button("Cancel").clicked() {
                decision = Some(Decision::Leave);
            }
        });
        decision
    }
}

/// Memory that a model's weights take, as "475 MiB".
pub fn memory(weights: WeightBytes, precision: Precision) -> String {
    bytes(usize::try_from(weights.in_precision(precision)).unwrap_or(usize::MAX))
}
