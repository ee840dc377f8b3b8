//! Devices, rows and pictures for the tests.

use std::sync::{Arc, Mutex, MutexGuard};

use egui::{Color32, ColorImage};
use logitscope::{
    heatmap::{
        Arrangement, Heads, Heatmap, Palette, Picture, Quantity, Shape, Synced, Triangle,
        WallTexture, cividis, color, side_for,
    },
    prediction::{AttentionRow, LayerRow, pack_weights},
};

pub const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

pub const PALETTE: Palette = Palette {
    ground: Color32::from_rgb(255, 255, 255),
    masked: Color32::from_rgb(240, 237, 230),
    hatch: Color32::from_rgb(200, 196, 190),
    not_a_number: Color32::from_rgb(185, 58, 52),
    absent: Color32::from_rgb(120, 120, 130),
    allowed: Color32::from_rgb(95, 101, 109),
};

// ---- devices ---------------------------------------------------------------------------------------------------

/// One test at a time draws: a software rasteriser has no cores to spare.
pub static DRAWING: Mutex<()> = Mutex::new(());

pub struct Gpu {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub _drawing: MutexGuard<'static, ()>,
}

pub fn gpu_with(limits: wgpu::Limits) -> Option<Gpu> {
    let drawing = DRAWING
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let rank = |adapter: &wgpu::Adapter| match adapter.get_info().backend {
        wgpu::Backend::Gl => 1,
        _ => 0,
    };
    let Some(adapter) = adapters.into_iter().min_by_key(rank) else {
        assert!(
            std::env::var_os("LOGITSCOPE_REQUIRE_ADAPTER").is_none_or(|value| value != "1"),
            "LOGITSCOPE_REQUIRE_ADAPTER=1, and there is no adapter"
        );
        println!("skipped: no adapter");
        return None;
    };
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        required_limits: limits,
        ..Default::default()
    }))
    .expect("an adapter gives a device with these limits");
    Some(Gpu {
        device,
        queue,
        _drawing: drawing,
    })
}

pub fn gpu() -> Option<Gpu> {
    gpu_with(wgpu::Limits::default())
}

impl Gpu {
    pub fn heatmap(&self) -> Heatmap {
        Heatmap::new(&self.device, &self.queue, FORMAT).unwrap()
    }

    pub fn target(&self, size: [u32; 2], format: wgpu::TextureFormat) -> wgpu::Texture {
        self.device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size: wgpu::Extent3d {
                width: size[0],
                height: size[1],
                depth_or_array_layers: 1,
            },
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC,
            view_formats: &[],
        })
    }

    pub fn draw(&self, heatmap: &Heatmap, picture: &Picture) -> ColorImage {
        let texture = self.target(picture.size_px, FORMAT);
        let mut slot = heatmap.slot();
        heatmap.draw(
            &mut slot,
            picture,
            &texture.create_view(&Default::default()),
        );
        self.read(&texture)
    }

    pub fn read(&self, texture: &wgpu::Texture) -> ColorImage {
        let (width, height) = (texture.width(), texture.height());
        let stride = (width * 4).next_multiple_of(wgpu::COPY_BYTES_PER_ROW_ALIGNMENT);
        let buffer = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: u64::from(stride * height),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_texture_to_buffer(
            texture.as_image_copy(),
            wgpu::TexelCopyBufferInfo {
                buffer: &buffer,
                layout: wgpu::TexelCopyBufferLayout {
                    offset: 0,
                    bytes_per_row: Some(stride),
                    rows_per_image: None,
                },
            },
            texture.size(),
        );
        self.queue.submit([encoder.finish()]);
        buffer.map_async(wgpu::MapMode::Read, .., |result| result.unwrap());
        self.device
            .poll(wgpu::PollType::wait_indefinitely())
            .unwrap();
        let bytes = buffer.get_mapped_range(..).unwrap();
        let mut image = ColorImage::filled([width as usize, height as usize], Color32::TRANSPARENT);
        for y in 0..height as usize {
            for x in 0..width as usize {
                let at = y * stride as usize + x * 4;
                image[(x, y)] = Color32::from_rgba_premultiplied(
                    bytes[at],
                    bytes[at + 1],
                    bytes[at + 2],
                    bytes[at + 3],
                );
            }
        }
        image
    }
}

// ---- rows ------------------------------------------------------------------------------------------------------

/// A repeatable number in 0..1 for a cell.
pub fn noise(seed: usize) -> f32 {
    let mut x = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 24) as f32
}

/// Scores with a few large ones, as softmax sees them.
pub fn score(flat: usize, query: usize, key: usize) -> f32 {
    8.0 * noise((flat * 2048 + query) * 2048 + key) - 3.0
}

/// The true softmax of one row and its log-sum-exp.
pub fn weights(flat: usize, query: usize) -> (Vec<f32>, f32) {
    let scores: Vec<f32> = (0..=query).map(|key| score(flat, query, key)).collect();
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|s| (s - largest).exp()).sum();
    let lse = largest + sum.ln();
    (scores.iter().map(|s| (s - lse).exp()).collect(), lse)
}

pub fn row_of(
    shape: Shape,
    query: usize,
    weights: impl Fn(usize, usize) -> (Vec<f32>, f32),
) -> Arc<AttentionRow> {
    let layers = (0..shape.n_layer)
        .map(|layer| {
            let mut part = LayerRow {
                words: Vec::new(),
                log_sum_exp: Vec::new(),
            };
            for head in 0..shape.n_head {
                let (row, lse) = weights(layer * shape.n_head + head, query);
                part.words.extend(pack_weights(&row));
                part.log_sum_exp.push(lse);
            }
            Some(Arc::new(part))
        })
        .collect();
    Arc::new(AttentionRow {
        n_head: shape.n_head,
        keys: query + 1,
        layers,
    })
}

pub fn rows_of(shape: Shape, rows: usize) -> Vec<Option<Arc<AttentionRow>>> {
    (0..rows)
        .map(|query| Some(row_of(shape, query, weights)))
        .collect()
}

pub fn sync(
    heatmap: &mut Heatmap,
    shape: Shape,
    focus: usize,
    rows: &[Option<Arc<AttentionRow>>],
) -> Synced {
    heatmap
        .store
        .sync(shape, focus, rows.iter().map(Option::as_ref))
}

/// Uploads over as many frames as it takes.
pub fn sync_all(heatmap: &mut Heatmap, shape: Shape, rows: &[Option<Arc<AttentionRow>>]) -> usize {
    for frame in 1..10_000 {
        if sync(heatmap, shape, 0, rows).resident_rows == rows.len() {
            return frame;
        }
    }
    panic!("the rows never became resident");
}

pub fn triangle(picture: &Picture, rows: &[Option<Arc<AttentionRow>>]) -> Triangle {
    let Arrangement::One { heads, .. } = picture.arrangement else {
        panic!("one head")
    };
    let mut triangle = Triangle::default();
    triangle.sync(
        picture.shape,
        heads,
        picture.quantity,
        rows.iter().map(Option::as_ref),
    );
    triangle
}

// ---- pictures --------------------------------------------------------------------------------------------------

/// One head with a whole number of pixels a cell.
pub fn one(shape: Shape, heads: Heads, rows: usize, cell_px: u32) -> Picture {
    let side = side_for(rows);
    Picture {
        shape,
        arrangement: Arrangement::One {
            heads,
            first_cell: [0.0, 0.0],
            cell_px: cell_px as f32,
        },
        quantity: Quantity::Weights,
        logarithmic: false,
        scale_max: 1.0,
        extent: 8.0,
        rows,
        side,
        size_px: [side as u32 * cell_px; 2],
        hatch_px: [6, 1],
        palette: PALETTE,
    }
}

pub fn close(a: Color32, b: Color32) -> bool {
    a.to_array()
        .iter()
        .zip(b.to_array())
        .all(|(&a, b)| a.abs_diff(b) <= 1)
}

pub fn rgb([r, g, b]: [u8; 3]) -> Color32 {
    Color32::from_rgb(r, g, b)
}

pub fn assert_same(gpu: &ColorImage, cpu: &ColorImage, what: &str) {
    assert_eq!(gpu.size, cpu.size);
    for y in 0..gpu.size[1] {
        for x in 0..gpu.size[0] {
            assert!(
                close(gpu[(x, y)], cpu[(x, y)]),
                "{what}: pixel {x}, {y} is {:?} on the GPU and {:?} on the CPU",
                gpu[(x, y)],
                cpu[(x, y)]
            );
        }
    }
}

/// Compares each pixel of each cell with the numbers that went in.
pub fn assert_cells(
    image: &ColorImage,
    picture: &Picture,
    flat: usize,
    cell_px: usize,
    what: &str,
) {
    for query in 0..picture.side {
        let (row, lse) = weights(flat, query);
        for key in 0..picture.side {
            let pixels = (0..cell_px).flat_map(|dy| {
                (0..cell_px).map(move |dx| (key * cell_px + dx, query * cell_px + dy))
            });
            for (x, y) in pixels {
                let found = image[(x, y)];
                let expected = match row.get(key) {
                    _ if query >= picture.rows || key >= picture.rows => PALETTE.ground,
                    None if (x + y) % 6 < 1 => PALETTE.hatch,
                    None => PALETTE.masked,
                    // The record keeps f16: 11 bits are exact to well below one of 256 levels.
                    Some(&weight) => {
                        let weight = half::f16::from_f32(weight).to_f32();
                        match picture.quantity {
                            Quantity::Mask => PALETTE.allowed,
                            Quantity::Weights => {
                                rgb(cividis(color::place(weight, picture.logarithmic)))
                            }
                            Quantity::Scores if weight == 0.0 => PALETTE.absent,
                            Quantity::Scores => {
                                rgb(color::diverging((weight.ln() + lse) / picture.extent))
                            }
                        }
                    }
                };
                assert!(
                    close(found, expected),
                    "{what}: query {query}, key {key} is {found:?}, not {expected:?}"
                );
            }
        }
    }
}

// ---- the wall --------------------------------------------------------------------------------------------------

pub fn wall(shape: Shape, rows: usize, pitch_px: u32) -> Picture {
    Picture {
        arrangement: Arrangement::Wall {
            pitch_px,
            thumb_px: pitch_px - 2,
        },
        size_px: [
            pitch_px * shape.n_head as u32,
            pitch_px * shape.n_layer as u32,
        ],
        ..one(
            shape,
            Heads {
                first: 0,
                count: 1,
                step: 1,
            },
            rows,
            1,
        )
    }
}

pub fn draw_wall(gpu: &Gpu, heatmap: &Heatmap, picture: &Picture) -> ColorImage {
    let mut wall = WallTexture::new(heatmap);
    assert!(
        wall.refresh(heatmap, picture),
        "the first texture is a new one"
    );
    assert!(!wall.refresh(heatmap, picture));
    gpu.read(wall.texture().unwrap())
}
