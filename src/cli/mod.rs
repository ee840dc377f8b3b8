//! The command line: the same engine without a window, for scripts and for checking.

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;

use crate::{
    app::App,
    model::{DeviceChoice, ModelSource},
    store::Store,
    worker::WorkerHandle,
};

/// A desktop playground for watching GPT-2 choose its next token.
///
/// Without a command, the window opens.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Cli {
    /// A model folder (Hugging Face layout), or the name of a downloaded model; the built-in one if absent.
    #[arg(long, global = true, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The compute device: auto takes a real GPU, else the CPU.
    #[arg(long, global = true, default_value = "auto")]
    device: DeviceChoice,
}

impl Cli {
    /// Runs the command, or the window.
    pub fn run(self) -> ExitCode {
        let model = self
            .model
            .map(|model| ModelSource::Folder(PathBuf::from(model)));
        match open_window(model) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("logitscope: the window cannot be opened: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

fn open_window(model: Option<ModelSource>) -> eframe::Result {
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("Logitscope")
            .with_app_id("logitscope")
            .with_inner_size([1440.0, 900.0])
            .with_min_inner_size([480.0, 320.0]),
        renderer: eframe::Renderer::Wgpu,
        ..Default::default()
    };
    eframe::run_native(
        "logitscope",
        options,
        Box::new(|cc| {
            let ctx = cc.egui_ctx.clone();
            let worker = WorkerHandle::spawn(move || ctx.request_repaint())?;
            Ok(Box::new(App::new(cc, worker, Store::of_user(), model)))
        }),
    )
}
