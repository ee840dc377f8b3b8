//! The real window as `eframe` runs it, frame by frame, with the time of each part and without drawing pixels: layout,
//! tessellation, and handing buffers and textures to the graphics device.

// Each benchmark uses a part of it.
#![allow(dead_code)]

use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use eframe::{
    App as _, CreationContext,
    egui_wgpu::{RenderState, RendererOptions, ScreenDescriptor, WgpuSetupCreateNew},
};
use egui::{Context, Event as InputEvent, RawInput, Rect, Vec2, ViewportId};
use egui_kittest::wgpu::{create_render_state, default_wgpu_setup};
use logitscope::{
    app::App,
    model::ModelSource,
    session::Session,
    store::{Remembered, Store},
    worker::WorkerHandle,
};

/// Seconds of the window's own clock between two frames.
const FRAME_SECONDS: f64 = 1.0 / 60.0;

/// What one frame took of the window's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct FrameTime {
    pub layout: Duration,
    pub tessellation: Duration,
    pub upload: Duration,
    /// Bytes of vertices and indices.
    pub mesh_bytes: usize,
}

impl FrameTime {
    pub fn total(&self) -> Duration {
        self.layout + self.tessellation + self.upload
    }
}

/// The window's side: app, egui context, graphics device.
pub struct Frames {
    pub ctx: Context,
    app: App,
    frame: eframe::Frame,
    gpu: Option<RenderState>,
    size: Vec2,
    now: f64,
    started: bool,
}

impl Frames {
    /// Opens the app on whatever adapter there is; `remembered` is where it starts from.
    pub fn open(size: Vec2, worker: WorkerHandle, remembered: &Remembered) -> Self {
        let gpu = adapters()
            .next()
            .map(|_| create_render_state(default_wgpu_setup(), RendererOptions::PREDICTABLE));
        Self::open_on(gpu, size, worker, remembered)
    }

    /// Opens the app on a graphics device, or without one.
    pub fn open_on(
        gpu: Option<RenderState>,
        size: Vec2,
        worker: WorkerHandle,
        remembered: &Remembered,
    ) -> Self {
        let ctx = Context::default();
        ctx.set_theme(egui::Theme::Light);
        let mut cc = CreationContext::_new_kittest(ctx.clone());
        let mut frame = eframe::Frame::_new_kittest();
        cc.wgpu_render_state = gpu.clone();
        frame.wgpu_render_state = gpu.clone();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("window.json");
        let text = serde_json::to_string(remembered).expect("JSON");
        std::fs::write(&file, text).expect("written");
        // The folder goes with this function: the app reads it now, and the benchmark writes nothing.
        let mut store = Store::at(file);
        let _ = store.read();
        let app = App::new(&cc, worker, store, Some(ModelSource::BuiltIn));
        Self {
            ctx,
            app,
            frame,
            gpu,
            size,
            now: 0.0,
            started: false,
        }
    }

    pub fn session(&self) -> &Session {
        self.app.session()
    }

    /// What uploads go to.
    pub fn device(&self) -> String {
        self.gpu.as_ref().map_or_else(
            || "no graphics device: attention as a texture made on the CPU, no uploads".to_owned(),
            |gpu| format!("uploads to {}", gpu.adapter.get_info().name),
        )
    }

    /// Shows one frame.
    pub fn show(&mut self, events: Vec<InputEvent>) -> FrameTime {
        self.now += FRAME_SECONDS;
        let mut input = RawInput {
            screen_rect: Some(Rect::from_min_size(egui::Pos2::ZERO, self.size)),
            time: Some(self.now),
            events,
            ..Default::default()
        };
        if let Some(viewport) = input.viewports.get_mut(&ViewportId::ROOT) {
            viewport.native_pixels_per_point = Some(1.0);
        }
        let begin = ThreadTime::now();
        let (app, frame) = (&mut self.app, &mut self.frame);
        let mut output = self.ctx.run_ui(input, |ui| {
            let ctx = ui.ctx().clone();
            app.logic(&ctx, frame);
            app.ui(ui, frame);
        });
        let layout = begin.elapsed();

        let begin = ThreadTime::now();
        let shapes = std::mem::take(&mut output.shapes);
        let jobs = self.ctx.tessellate(shapes, output.pixels_per_point);
        let tessellation = begin.elapsed();
        let mesh_bytes = jobs
            .iter()
            .map(|job| match &job.primitive {
                egui::epaint::Primitive::Mesh(mesh) => mesh.bytes_used(),
                egui::epaint::Primitive::Callback(_) => 0,
            })
            .sum();

        let begin = ThreadTime::now();
        self.upload(&mut output.textures_delta, &jobs);
        let upload = begin.elapsed();
        FrameTime {
            layout,
            tessellation,
            upload,
            mesh_bytes,
        }
    }

    fn upload(&self, textures: &mut egui::TexturesDelta, jobs: &[egui::ClippedPrimitive]) {
        let set = std::mem::take(&mut textures.set);
        let free = std::mem::take(&mut textures.free);
        let Some(gpu) = &self.gpu else { return };
        let mut renderer = gpu.renderer.write();
        for (id, images) in set {
            for image in images {
                renderer.update_texture(&gpu.device, &gpu.queue, id, &image);
            }
        }
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        let screen = ScreenDescriptor {
            pixels_per_point: 1.0,
            size_in_pixels: [self.size.x as u32, self.size.y as u32],
        };
        let buffers = renderer.update_buffers(&gpu.device, &gpu.queue, &mut encoder, jobs, &screen);
        gpu.queue
            .submit(buffers.into_iter().chain([encoder.finish()]));
        for id in free {
            renderer.free_texture(&id);
        }
    }

    /// Waits until the device has done what it was handed, so that it does not disturb the next frame.
    pub fn let_device_finish(&self) {
        if let Some(gpu) = &self.gpu {
            let _ = gpu.device.poll(wgpu::PollType::Wait {
                submission_index: None,
                timeout: Some(Duration::from_secs(10)),
            });
        }
    }
}

fn adapters() -> impl Iterator<Item = wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all())).into_iter()
}

/// A device whose pixels are drawn by something other than the cores that are measured, if there is one.
pub fn hardware_device() -> Option<RenderState> {
    let is_hardware =
        |adapter: &wgpu::Adapter| adapter.get_info().device_type != wgpu::DeviceType::Cpu;
    adapters().find(is_hardware)?;
    let mut setup = WgpuSetupCreateNew::without_display_handle();
    setup.native_adapter_selector = Some(std::sync::Arc::new(move |all, _| {
        let found = all.iter().find(|adapter| is_hardware(adapter));
        found.cloned().ok_or_else(|| "no adapter".to_owned())
    }));
    Some(create_render_state(
        setup.into(),
        RendererOptions::PREDICTABLE,
    ))
}

/// A share of the values lies below the result; in milliseconds.
pub fn quantile_ms(values: &[Duration], share: f64) -> f64 {
    let mut sorted: Vec<_> = values.to_vec();
    sorted.sort();
    let at = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted
        .get(at)
        .map_or(f64::NAN, |value| value.as_secs_f64() * 1e3)
}

/// Whether `cargo bench` asked; `cargo test --all-targets` only wants to see the program run.
pub fn is_measuring() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// Waits for something with the patience of a benchmark.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "waited in vain until {what}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
