//! Opening the window, and one sentence about why it cannot be opened.

use std::{
    any::Any,
    env,
    panic::{self, AssertUnwindSafe},
    process::ExitCode,
};

use super::{CliError, Global};
use crate::{
    app::App, model::leave_the_window_a_core, store::Store, ui::transport::Place,
    worker::WorkerHandle,
};

/// Opens the window and stays until it is closed.
pub fn open(global: &Global) -> ExitCode {
    let model = match global.model.as_ref().map(|_| global.source()).transpose() {
        Ok(model) => model,
        Err(error) => return fail(&error),
    };
    leave_the_window_a_core();
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default()
            .with_title("Logitscope")
            .with_app_id("logitscope")
            .with_inner_size([1440.0, 900.0])
            .with_min_inner_size([480.0, 320.0]),
        renderer: eframe::Renderer::Wgpu,
        ..Default::default()
    };
    let (device, precision) = (global.device, global.precision);
    let allow_unknown_tensors = global.allow_unknown_tensors;
    keep_missing_libraries_quiet();
    let run = AssertUnwindSafe(|| {
        eframe::run_native(
            "logitscope",
            options,
            Box::new(move |cc| {
                let ctx = cc.egui_ctx.clone();
                let worker = WorkerHandle::spawn(move || ctx.request_repaint())?;
                let place = |place: &mut Place| {
                    place.device = device.unwrap_or(place.device);
                    place.weights.precision = precision.unwrap_or(place.weights.precision);
                    place.weights.allow_unknown_tensors |= allow_unknown_tensors;
                };
                let app = App::with(cc, worker, Store::of_user(), model, place);
                Ok(Box::new(app))
            }),
        )
    });
    let outcome = match panic::catch_unwind(run) {
        Ok(outcome) => outcome,
        Err(panic) => match missing_library(&*panic) {
            Some(library) => {
                eprintln!(
                    "logitscope: the window cannot be opened: the library {library} is missing; install it \
                     (on Debian and Ubuntu: apt install libxkbcommon-x11-0), or use a command: logitscope --help lists them"
                );
                return ExitCode::FAILURE;
            }
            None => panic::resume_unwind(panic),
        },
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause = match error {
                eframe::Error::WinitEventLoop(_) | eframe::Error::Winit(_) if !has_display() => {
                    "there is no display".to_owned()
                }
                // winit puts the place in its own source before the cause.
                eframe::Error::WinitEventLoop(error) => last_part(&error.to_string()),
                eframe::Error::Winit(error) => last_part(&error.to_string()),
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

fn last_part(message: &str) -> String {
    let last = message.rsplit(": ").next().unwrap_or(message);
    last.trim_end_matches('.').to_owned()
}

/// Whether this machine says that it has a display; everything but Unix always does.
fn has_display() -> bool {
    cfg!(not(all(unix, not(target_os = "macos"))))
        || ["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET"]
            .iter()
            .any(|name| env::var_os(name).is_some_and(|value| !value.is_empty()))
}

/// xkbcommon-dl 0.4.2 panics where its library is missing, from inside winit. It becomes a sentence in [`open`]; the
/// panic's own report, with its trace, would only hide that.
fn keep_missing_libraries_quiet() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if missing_library(info.payload()).is_none() {
            report(info);
        }
    }));
}

/// The library that a panic is about: "Library libxkbcommon-x11.so could not be loaded."
fn missing_library(panic: &(dyn Any + Send)) -> Option<&str> {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))?;
    message
        .strip_prefix("Library ")?
        .strip_suffix(" could not be loaded.")
}

fn fail(error: &CliError) -> ExitCode {
    eprintln!("logitscope: {error}");
    error.exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_comes_without_the_place_in_the_source() {
        let message = "os error at /src/linux/mod.rs:788: Failed to open connection to X server";
        assert_eq!(last_part(message), "Failed to open connection to X server");
        assert_eq!(last_part("Not supported."), "Not supported");
    }

    #[test]
    fn only_a_missing_library_is_taken_for_one() {
        let text = "Library libxkbcommon-x11.so could not be loaded.";
        assert_eq!(missing_library(&text), Some("libxkbcommon-x11.so"));
        assert_eq!(
            missing_library(&text.to_owned()),
            Some("libxkbcommon-x11.so")
        );
        assert_eq!(missing_library(&"index out of bounds"), None);
        assert_eq!(missing_library(&7), None);
    }
}
