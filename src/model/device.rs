//! Which processor runs the model: a GPU through wgpu, or burn's `flex` CPU backend.
//!
//! Owns the choice, the burn device and what is worth telling the user about it. The window has a
//! wgpu device of its own; nothing is shared with it. Devices are opened on the worker's thread.

use std::{
    fmt,
    future::Future,
    pin::pin,
    str::FromStr,
    sync::{Mutex, PoisonError},
    task::{Context, Poll, Waker},
};

use burn::tensor::{
    Device, DeviceKind as BurnKind,
    wgpu::{WgpuBackend, WgpuSetup},
};

use super::{error::ModelError, precision::Precision};

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum DeviceChoice {
    /// A real GPU where there is one, else the CPU.
    #[default]
    Auto,
    Cpu,
    Gpu,
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "gpu" => Ok(Self::Gpu),
            other => Err(format!("unknown device \"{other}\"; use auto, cpu or gpu")),
        }
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
        })
    }
}

/// Keeps one core of this machine out of the CPU backend, for a window that has to answer within a frame while the
/// model computes. Has an effect only before the first computation of the process; a single core stays in use.
pub fn leave_the_window_a_core() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // An earlier computation has started its threads already: then they stay.
    let _ = rayon::ThreadPoolBuilder::new()
        .num_threads((cores - 1).max(1))
        .build_global();
}

/// Which backend a [`ComputeDevice`] uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    Cpu,
    Gpu,
}

/// A device that can run the model.
#[derive(Debug, Clone)]
pub struct ComputeDevice {
    pub burn: Device,
    /// "CPU (flex, 8 threads)" or the adapter's own name.
    pub name: String,
    /// Why this one, as a short phrase: "asked for", "no GPU found".
    pub why: String,
    pub kind: DeviceKind,
    /// A GPU interface that a CPU emulates (llvmpipe, WARP): correct, and slower than `flex`.
    pub software: bool,
    /// Largest tensor that a kernel may bind. `u64::MAX` on the CPU.
    pub max_storage_binding_bytes: u64,
    /// Graphics interface of a GPU ("Vulkan", "Metal", "Dx12").
    pub interface: Option<String>,
}

impl ComputeDevice {
    /// Open the device that `choice` means on this machine.
    pub fn open(choice: DeviceChoice) -> Result<Self, ModelError> {
        match choice {
            DeviceChoice::Cpu => Ok(Self::flex()),
            DeviceChoice::Gpu => Self::gpu(true),
            DeviceChoice::Auto => Ok(Self::auto()),
        }
    }

    /// Whether the device keeps weights in `precision`. The CPU keeps any; a GPU has f16 or not.
    pub fn has(&self, precision: Precision) -> bool {
        match (self.kind, precision) {
            (DeviceKind::Cpu, _) | (_, Precision::F32) => true,
            (DeviceKind::Gpu, Precision::F16) => self.burn.supports_dtype(precision.dtype()),
        }
    }

    /// burn's CPU backend.
    pub fn flex() -> Self {
        let threads = rayon::current_num_threads();
        Self {
            burn: Device::flex(),
            name: format!(
                "CPU (flex, {threads} thread{})",
                if threads == 1 { "" } else { "s" }
            ),
            why: "asked for".into(),
            kind: DeviceKind::Cpu,
            software: false,
            max_storage_binding_bytes: u64::MAX,
            interface: None,
        }
    }

    /// A GPU through wgpu; with `allow_software` also one that a CPU emulates.
    ///
    /// burn's runtime for an adapter can be set up once in a process, so the opened device is kept
    /// and handed out again.
    pub fn gpu(allow_software: bool) -> Result<Self, ModelError> {
        static OPENED: Mutex<Vec<ComputeDevice>> = Mutex::new(Vec::new());
        // A panic while the lock was held leaves a list that is still good.
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = opened.iter().find(|d| allow_software || !d.software) {
            return Ok(device.clone());
        }

        // Looked for with plain wgpu first: cubecl takes a missing adapter for a programming error
        // in some paths, and a rasteriser has to be recognised before anything is built on it.
        let found = best_adapter()
            .ok_or_else(|| ModelError::NoAdapter("wgpu lists no graphics adapter".into()))?;
        if found.software && !allow_software {
            return Err(ModelError::NoAdapter(format!(
                "only a software rasteriser: {}",
                found.name
            )));
        }
        let (burn, setup): (Device, WgpuSetup) = Device::wgpu_options()
            .device_kind(found.kind.clone())
            .graphics_api(found.api)
            .init_with_setup()
            .map_err(|e| ModelError::Adapter {
                name: found.name.clone(),
                problem: e.to_string(),
            })?;
        let info = setup.adapter.get_info();
        let limits = setup.device.limits();
        let device = Self {
            burn,
            name: info.name.clone(),
            why: "asked for".into(),
            kind: DeviceKind::Gpu,
            software: info.device_type == wgpu::DeviceType::Cpu,
            max_storage_binding_bytes: limits
                .max_storage_buffer_binding_size
                .min(limits.max_buffer_size),
            interface: Some(format!("{:?}", info.backend)),
        };
        opened.push(device.clone());
        Ok(device)
    }

    /// A real GPU, else the CPU with the reason in `why`.
    fn auto() -> Self {
        let why = match best_adapter() {
            None => "no GPU found".to_owned(),
            Some(found) if found.software => {
                format!("only a software rasteriser: {}", found.name)
            }
            Some(_) => match Self::gpu(false) {
                Ok(gpu) => {
                    return Self {
                        why: "a GPU was found".into(),
                        ..gpu
                    };
                }
                Err(error) => error.to_string(),
            },
        };
        Self {
            why,
            ..Self::flex()
        }
    }
}

/// An adapter worth opening, in burn's terms.
struct FoundAdapter {
    name: String,
    software: bool,
    api: WgpuBackend,
    kind: BurnKind,
}

/// The best adapter: a discrete GPU before an integrated, a virtual and an emulated one.
///
/// OpenGL is not asked: its compute limits are too small for cubecl's kernels, and looking makes
/// some drivers write to standard error.
fn best_adapter() -> Option<FoundAdapter> {
    let apis = [
        (wgpu::Backends::VULKAN, WgpuBackend::Vulkan),
        (wgpu::Backends::METAL, WgpuBackend::Metal),
        (wgpu::Backends::DX12, WgpuBackend::Dx12),
    ];
    let mut best: Option<(u8, FoundAdapter)> = None;
    for (backends, api) in apis {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends,
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        });
        for adapter in ready(instance.enumerate_adapters(backends)) {
            let info = adapter.get_info();
            let (rank, kind) = match info.device_type {
                wgpu::DeviceType::DiscreteGpu => (0, BurnKind::DiscreteGpu(0)),
                wgpu::DeviceType::IntegratedGpu => (1, BurnKind::IntegratedGpu(0)),
                wgpu::DeviceType::VirtualGpu => (2, BurnKind::VirtualGpu(0)),
                wgpu::DeviceType::Other => (3, BurnKind::DefaultDevice),
                wgpu::DeviceType::Cpu => (4, BurnKind::Cpu),
            };
            if best.as_ref().is_none_or(|(other, _)| rank < *other) {
                let found = FoundAdapter {
                    // "llvmpipe (LLVM 19.1.7, 256 bits)": the first words say enough.
                    name: info.name.split(" (").next().unwrap_or_default().to_owned(),
                    software: info.device_type == wgpu::DeviceType::Cpu,
                    api,
                    kind,
                };
                best = Some((rank, found));
            }
        }
    }
    best.map(|(_, found)| found)
}

/// Run a future to its end on this thread. wgpu's native adapter list is ready at once.
fn ready<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::yield_now();
    }
}
