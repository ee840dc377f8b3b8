//! Opening the window.

use std::process::ExitCode;

use super::{CliError, Global};
use crate::{app::App, store::Store, worker::WorkerHandle};

/// Opens the window and stays until it is closed.
pub fn open(global: &Global) -> ExitCode {
    let model = match global.model.as_ref().map(|_| global.source()).transpose() {
        Ok(model) => model,
        Err(error) => return fail(&error),
    };
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("Logitscope")
            .with_app_id("logitscope")
            .with_inner_size([1440.0, 900.0])
            .with_min_inner_size([480.0, 320.0]),
        renderer: eframe::Renderer::Wgpu,
        ..Default::default()
    };
    let device = global.device;
    let outcome = eframe::run_native(
        "logitscope",
        options,
        Box::new(move |cc| {
            let ctx = cc.egui_ctx.clone();
            let worker = WorkerHandle::spawn(move || ctx.request_repaint())?;
            Ok(Box::new(App::on_device(
                cc,
                worker,
                Store::of_user(),
                model,
                device,
            )))
        }),
    );
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause = match error {
                eframe::Error::WinitEventLoop(_) | eframe::Error::Winit(_) => {
                    "there is no display".to_owned()
                }
                other => other.to_string(),
            };
            eprintln!(
                "logitscope: the window cannot be opened: {cause}. A window needs a display (X11 or Wayland on Linux) and a \
                 graphics driver; without them, use a command: logitscope --help lists them."
            );
            ExitCode::FAILURE
        }
    }
}

fn fail(error: &CliError) -> ExitCode {
    eprintln!("logitscope: {error}");
    error.exit_code()
}
