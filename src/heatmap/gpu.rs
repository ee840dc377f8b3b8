//! Drawing through `shaders/heatmap.wgsl`: pipelines, uniform buffers, the paint callback for one head.
//!
//! Each picture has a uniform buffer and a bind group of its own (a [`PictureSlot`]), so any number of them can be
//! in one frame.

use eframe::egui_wgpu;
use egui::Color32;

use super::{
    Arrangement, Picture, Quantity,
    color::{self, CIVIDIS},
    store::{MAX_PAGES, PAGE_WORDS, RowStore},
};

/// Words of the shader's `View`: 9 colours, 28 numbers, the colour map.
const UNIFORM_WORDS: usize = 9 * 4 + 28 + 256;

/// The wall's own texture, read by egui as gamma-encoded colours.
pub(super) const WALL_FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

/// The rows on the device, and what draws them.
pub struct Heatmap {
    pub store: RowStore,
    /// Rows that are worked out from the record, as if they were those of one head: attention rollout.
    pub derived: RowStore,
    pub(super) device: wgpu::Device,
    queue: wgpu::Queue,
    layout: wgpu::BindGroupLayout,
    /// For the window's format.
    pipeline: wgpu::RenderPipeline,
    wall_pipeline: wgpu::RenderPipeline,
    linear_target: bool,
}

/// What one picture needs on the device.
pub struct PictureSlot {
    uniform: wgpu::Buffer,
    bind_group: Option<(u64, wgpu::BindGroup)>,
    words: Vec<u32>,
}

impl Heatmap {
    /// Why a device with these limits cannot draw from storage buffers; `None` where it can.
    pub fn obstacle(limits: &wgpu::Limits) -> Option<String> {
        let needed = MAX_PAGES as u32 + 1;
        let there = limits.max_storage_buffers_per_shader_stage;
        (there < needed).then(|| match there {
            0 => "this window's graphics device has no storage buffers".to_owned(),
            _ => format!(
                "this window's graphics device has {there} storage buffers, {needed} are needed"
            ),
        })
    }

    /// `format` is that of the target of [`HeatmapCallback`]; an error says why the device cannot do it.
    pub fn new(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        format: wgpu::TextureFormat,
    ) -> Result<Self, String> {
        Self::with_page_words(device, queue, format, PAGE_WORDS)
    }

    /// Pages of another size, so that tests can fill several.
    pub fn with_page_words(
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        format: wgpu::TextureFormat,
        page_words: usize,
    ) -> Result<Self, String> {
        if let Some(obstacle) = Self::obstacle(&device.limits()) {
            return Err(obstacle);
        }
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("heatmap"),
            source: wgpu::ShaderSource::Wgsl(include_str!("../../shaders/heatmap.wgsl").into()),
        });
        let layout = bind_group_layout(device);
        Ok(Self {
            store: RowStore::new(device.clone(), queue.clone(), page_words),
            derived: RowStore::new(device.clone(), queue.clone(), page_words),
            pipeline: pipeline(device, &module, &layout, format),
            wall_pipeline: pipeline(device, &module, &layout, WALL_FORMAT),
            linear_target: format.is_srgb(),
            layout,
            device: device.clone(),
            queue: queue.clone(),
        })
    }

    pub fn slot(&self) -> PictureSlot {
        let uniform = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("heatmap view"),
            size: (UNIFORM_WORDS * size_of::<u32>()) as u64,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        PictureSlot {
            uniform,
            bind_group: None,
            words: Vec::new(),
        }
    }

    /// A callback that draws `picture` with its top left corner at `origin_px` of the window.
    pub fn callback(
        &self,
        slot: &mut PictureSlot,
        picture: &Picture,
        origin_px: [f32; 2],
    ) -> HeatmapCallback {
        self.callback_from(&self.store, slot, picture, origin_px)
    }

    /// The same from [`Self::derived`]; a slot serves one of the two.
    pub fn derived_callback(
        &self,
        slot: &mut PictureSlot,
        picture: &Picture,
        origin_px: [f32; 2],
    ) -> HeatmapCallback {
        self.callback_from(&self.derived, slot, picture, origin_px)
    }

    fn callback_from(
        &self,
        store: &RowStore,
        slot: &mut PictureSlot,
        picture: &Picture,
        origin_px: [f32; 2],
    ) -> HeatmapCallback {
        let words = uniform_words(picture, store, origin_px, self.linear_target, 0);
        let bind_group = self.prepare(slot, store, words);
        HeatmapCallback {
            pipeline: self.pipeline.clone(),
            bind_group,
        }
    }

    /// Draws `picture` into the top left corner of a texture of the window's format.
    pub fn draw(&self, slot: &mut PictureSlot, picture: &Picture, target: &wgpu::TextureView) {
        let words = uniform_words(picture, &self.store, [0.0, 0.0], self.linear_target, 0);
        let bind_group = self.prepare(slot, &self.store, words);
        let load = wgpu::LoadOp::Clear(wgpu::Color::TRANSPARENT);
        self.submit(&self.pipeline, &bind_group, target, load);
    }

    /// Draws the wall, `picture`, into a texture of its own that already shows the rows before `changed_from`; from
    /// scratch where that is `None`.
    pub(super) fn draw_wall(
        &self,
        slot: &mut PictureSlot,
        picture: &Picture,
        target: &wgpu::TextureView,
        changed_from: Option<usize>,
    ) {
        let from = changed_from.unwrap_or(0);
        let words = uniform_words(picture, &self.store, [0.0, 0.0], false, from);
        let bind_group = self.prepare(slot, &self.store, words);
        let load = match changed_from {
            Some(_) => wgpu::LoadOp::Load,
            None => wgpu::LoadOp::Clear(wgpu::Color::TRANSPARENT),
        };
        self.submit(&self.wall_pipeline, &bind_group, target, load);
    }

    fn submit(
        &self,
        pipeline: &wgpu::RenderPipeline,
        bind_group: &wgpu::BindGroup,
        target: &wgpu::TextureView,
        load: wgpu::LoadOp<wgpu::Color>,
    ) {
        let mut encoder = self
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
            label: Some("heatmap"),
            color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                view: target,
                depth_slice: None,
                resolve_target: None,
                ops: wgpu::Operations {
                    load,
                    store: wgpu::StoreOp::Store,
                },
            })],
            ..Default::default()
        });
        pass.set_pipeline(pipeline);
        pass.set_bind_group(0, bind_group, &[]);
        pass.draw(0..3, 0..1);
        drop(pass);
        self.queue.submit([encoder.finish()]);
    }

    /// Writes the uniform buffer if it has changed, and binds the store's buffers again if they have.
    fn prepare(
        &self,
        slot: &mut PictureSlot,
        store: &RowStore,
        words: Vec<u32>,
    ) -> wgpu::BindGroup {
        if slot.words != words {
            self.queue
                .write_buffer(&slot.uniform, 0, bytemuck::cast_slice(&words));
            slot.words = words;
        }
        let version = store.buffers_version();
        if let Some((held, bind_group)) = &slot.bind_group
            && *held == version
        {
            return bind_group.clone();
        }
        let entries: Vec<_> = std::iter::once(&slot.uniform)
            .chain(store.buffers())
            .zip(0..)
            .map(|(buffer, binding)| wgpu::BindGroupEntry {
                binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let bind_group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("heatmap"),
            layout: &self.layout,
            entries: &entries,
        });
        slot.bind_group = Some((version, bind_group.clone()));
        bind_group
    }
}

fn bind_group_layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    let entries: Vec<_> = (0..MAX_PAGES as u32 + 2)
        .map(|binding| wgpu::BindGroupLayoutEntry {
            binding,
            visibility: wgpu::ShaderStages::FRAGMENT,
            ty: wgpu::BindingType::Buffer {
                ty: match binding {
                    0 => wgpu::BufferBindingType::Uniform,
                    _ => wgpu::BufferBindingType::Storage { read_only: true },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: Some("heatmap"),
        entries: &entries,
    })
}

fn pipeline(
    device: &wgpu::Device,
    module: &wgpu::ShaderModule,
    layout: &wgpu::BindGroupLayout,
    format: wgpu::TextureFormat,
) -> wgpu::RenderPipeline {
    let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: Some("heatmap"),
        bind_group_layouts: &[Some(layout)],
        immediate_size: 0,
    });
    device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
        label: Some("heatmap"),
        layout: Some(&layout),
        vertex: wgpu::VertexState {
            module,
            entry_point: Some("vs_main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            buffers: &[],
        },
        fragment: Some(wgpu::FragmentState {
            module,
            entry_point: Some("fs_main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            targets: &[Some(wgpu::ColorTargetState {
                format,
                blend: Some(wgpu::BlendState::PREMULTIPLIED_ALPHA_BLENDING),
                write_mask: wgpu::ColorWrites::ALL,
            })],
        }),
        primitive: wgpu::PrimitiveState::default(),
        depth_stencil: None,
        multisample: wgpu::MultisampleState::default(),
        multiview_mask: None,
        cache: None,
    })
}

/// The uniform buffer's contents. Keep in sync with `View` in `shaders/heatmap.wgsl`.
///
/// `changed_from`: the first row that may differ from what is already in the target.
fn uniform_words(
    picture: &Picture,
    store: &RowStore,
    origin_px: [f32; 2],
    linear_target: bool,
    changed_from: usize,
) -> Vec<u32> {
    let mut words = Vec::with_capacity(UNIFORM_WORDS);
    let palette = &picture.palette;
    let opaque = |[r, g, b]: [u8; 3]| Color32::from_rgb(r, g, b);
    for color in [
        palette.ground,
        palette.masked,
        palette.hatch,
        palette.not_a_number,
        palette.absent,
        palette.allowed,
        opaque(color::NEGATIVE),
        opaque(color::ZERO),
        opaque(color::POSITIVE),
    ] {
        words.extend(color.to_normalized_gamma_f32().map(f32::to_bits));
    }
    let layers = store.layers();
    let (first_cell, cell_px, [pitch_px, thumb_px], [first_head, count, step]) =
        match picture.arrangement {
            Arrangement::One {
                heads,
                first_cell,
                cell_px,
            } => {
                let held = layers.start * picture.shape.n_head..layers.end * picture.shape.n_head;
                let is_held = held.start <= heads.first && heads.last() < held.end;
                let first = if is_held {
                    (heads.first - held.start) as u32
                } else {
                    u32::MAX
                };
                (
                    first_cell,
                    cell_px,
                    [0, 0],
                    [first, heads.count as u32, heads.step as u32],
                )
            }
            Arrangement::Wall { pitch_px, thumb_px } => {
                ([0.0; 2], 1.0, [pitch_px.max(1), thumb_px.max(1)], [0, 1, 1])
            }
        };
    let size_px = picture.size_px.map(|px| px as f32);
    words.extend(
        [origin_px, size_px, first_cell, [cell_px, picture.extent]]
            .as_flattened()
            .iter()
            .map(|v| v.to_bits()),
    );
    words.extend([pitch_px, thumb_px]);
    words.extend(picture.hatch_px);
    words.extend([
        picture.rows as u32,
        store.resident_rows() as u32,
        picture.side as u32,
        picture.shape.n_layer as u32,
        picture.shape.n_head as u32,
        layers.start as u32,
        layers.len() as u32,
    ]);
    words.extend([first_head, count]);
    words.extend([
        match picture.quantity {
            Quantity::Weights => 0,
            Quantity::Scores => 1,
            Quantity::Mask => 2,
        },
        u32::from(picture.logarithmic),
        store.page_shift(),
        u32::from(linear_target),
        changed_from.min(u32::MAX as usize) as u32,
        step,
        picture.scale_max.to_bits(),
    ]);
    words.extend(CIVIDIS);
    words
}

/// Draws one picture straight into the window.
pub struct HeatmapCallback {
    pipeline: wgpu::RenderPipeline,
    bind_group: wgpu::BindGroup,
}

impl egui_wgpu::CallbackTrait for HeatmapCallback {
    fn paint(
        &self,
        info: egui::PaintCallbackInfo,
        pass: &mut wgpu::RenderPass<'static>,
        _: &egui_wgpu::CallbackResources,
    ) {
        // The whole target, so that fragment positions are the window's pixels however the picture is scrolled or cut;
        // egui's scissor keeps the drawing inside the clip rectangle.
        let [width, height] = info.screen_size_px.map(|px| px as f32);
        pass.set_viewport(0.0, 0.0, width, height, 0.0, 1.0);
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.bind_group, &[]);
        pass.draw(0..3, 0..1);
    }
}
