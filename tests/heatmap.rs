//! The attention heatmap read back pixel by pixel, on whatever adapter there is (a software one counts), and its twin
//! on the CPU. Without an adapter these tests say so and pass, unless LOGITSCOPE_REQUIRE_ADAPTER=1.

use std::sync::{Arc, Mutex, MutexGuard};

use egui::{Color32, ColorImage};
use logitscope::{
    heatmap::{
        Arrangement, Heads, Heatmap, Palette, Picture, Quantity, Shape, Synced, Triangle,
        WallTexture, cividis, color, largest_score, paint_cpu, side_for, store::PAGE_WORDS,
    },
    prediction::{AttentionRow, LayerRow, pack_weights},
};

const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

const PALETTE: Palette = Palette {
    ground: Color32::from_rgb(255, 255, 255),
    masked: Color32::from_rgb(240, 237, 230),
    hatch: Color32::from_rgb(200, 196, 190),
    not_a_number: Color32::from_rgb(185, 58, 52),
    absent: Color32::from_rgb(120, 120, 130),
    allowed: Color32::from_rgb(95, 101, 109),
};

// ---- devices ---------------------------------------------------------------------------------------------------

/// One test at a time draws: a software rasteriser has no cores to spare.
static DRAWING: Mutex<()> = Mutex::new(());

struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    _drawing: MutexGuard<'static, ()>,
}

fn gpu_with(limits: wgpu::Limits) -> Option<Gpu> {
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

fn gpu() -> Option<Gpu> {
    gpu_with(wgpu::Limits::default())
}

impl Gpu {
    fn heatmap(&self) -> Heatmap {
        Heatmap::new(&self.device, &self.queue, FORMAT).unwrap()
    }

    fn target(&self, size: [u32; 2], format: wgpu::TextureFormat) -> wgpu::Texture {
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

    fn draw(&self, heatmap: &Heatmap, picture: &Picture) -> ColorImage {
        let texture = self.target(picture.size_px, FORMAT);
        let mut slot = heatmap.slot();
        heatmap.draw(
            &mut slot,
            picture,
            &texture.create_view(&Default::default()),
        );
        self.read(&texture)
    }

    fn read(&self, texture: &wgpu::Texture) -> ColorImage {
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
fn noise(seed: usize) -> f32 {
    let mut x = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03;
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 40) as f32 / (1u64 << 24) as f32
}

/// Scores with a few large ones, as softmax sees them.
fn score(flat: usize, query: usize, key: usize) -> f32 {
    8.0 * noise((flat * 2048 + query) * 2048 + key) - 3.0
}

/// The true softmax of one row and its log-sum-exp.
fn weights(flat: usize, query: usize) -> (Vec<f32>, f32) {
    let scores: Vec<f32> = (0..=query).map(|key| score(flat, query, key)).collect();
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|s| (s - largest).exp()).sum();
    let lse = largest + sum.ln();
    (scores.iter().map(|s| (s - lse).exp()).collect(), lse)
}

fn row_of(
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

fn rows_of(shape: Shape, rows: usize) -> Vec<Option<Arc<AttentionRow>>> {
    (0..rows)
        .map(|query| Some(row_of(shape, query, weights)))
        .collect()
}

fn sync(
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
fn sync_all(heatmap: &mut Heatmap, shape: Shape, rows: &[Option<Arc<AttentionRow>>]) -> usize {
    for frame in 1..10_000 {
        if sync(heatmap, shape, 0, rows).resident_rows == rows.len() {
            return frame;
        }
    }
    panic!("the rows never became resident");
}

fn triangle(picture: &Picture, rows: &[Option<Arc<AttentionRow>>]) -> Triangle {
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
fn one(shape: Shape, heads: Heads, rows: usize, cell_px: u32) -> Picture {
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
        extent: 8.0,
        rows,
        side,
        size_px: [side as u32 * cell_px; 2],
        hatch_px: [6, 1],
        palette: PALETTE,
    }
}

fn close(a: Color32, b: Color32) -> bool {
    a.to_array()
        .iter()
        .zip(b.to_array())
        .all(|(&a, b)| a.abs_diff(b) <= 1)
}

fn rgb([r, g, b]: [u8; 3]) -> Color32 {
    Color32::from_rgb(r, g, b)
}

fn assert_same(gpu: &ColorImage, cpu: &ColorImage, what: &str) {
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
fn assert_cells(image: &ColorImage, picture: &Picture, flat: usize, cell_px: usize, what: &str) {
    for query in 0..picture.side {
        let (row, _) = weights(flat, query);
        for key in 0..picture.side {
            let pixels = (0..cell_px).flat_map(|dy| {
                (0..cell_px).map(move |dx| (key * cell_px + dx, query * cell_px + dy))
            });
            for (x, y) in pixels {
                let found = image[(x, y)];
                let expected = if query >= picture.rows || key >= picture.rows {
                    PALETTE.ground
                } else if key > query {
                    if (x + y) % 6 < 1 {
                        PALETTE.hatch
                    } else {
                        PALETTE.masked
                    }
                } else {
                    // The record keeps f16: 11 bits are exact to well below one of 256 levels.
                    rgb(cividis(half::f16::from_f32(row[key]).to_f32()))
                };
                assert!(
                    close(found, expected),
                    "{what}: query {query}, key {key} is {found:?}, not {expected:?}"
                );
            }
        }
    }
}

#[test]
fn cells_of_a_head_are_the_numbers_at_6_64_and_1024_tokens() {
    let shape = Shape {
        n_layer: 2,
        n_head: 3,
    };
    let gpu = gpu();
    for (rows, cell_px) in [(6, 19), (64, 4), (1024, 1)] {
        let record = rows_of(shape, rows);
        let heads = Heads::one(shape, 1, 2);
        let picture = one(shape, heads, rows, cell_px);
        let cpu = paint_cpu(&picture, &triangle(&picture, &record));
        assert_cells(
            &cpu,
            &picture,
            5,
            cell_px as usize,
            &format!("CPU, T = {rows}"),
        );
        let Some(gpu) = &gpu else { continue };
        let mut heatmap = gpu.heatmap();
        sync_all(&mut heatmap, shape, &record);
        let drawn = gpu.draw(&heatmap, &picture);
        assert_cells(
            &drawn,
            &picture,
            5,
            cell_px as usize,
            &format!("GPU, T = {rows}"),
        );
        assert_same(&drawn, &cpu, &format!("T = {rows}"));
    }
}

#[test]
fn the_shader_and_its_twin_agree_on_every_pixel_of_every_view() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 3,
        n_head: 4,
    };
    let mut record = rows_of(shape, 75);
    // A row that was never recorded, one with a layer let go, one with numbers that are none, one that underflows.
    record[20] = None;
    record[30] = Some(Arc::new(record[30].as_ref().unwrap().without_layer(1)));
    record[40] = Some(row_of(shape, 40, |flat, query| {
        let (mut row, lse) = weights(flat, query);
        row[7] = f32::NAN;
        row[9] = f32::INFINITY;
        (row, lse)
    }));
    record[50] = Some(row_of(shape, 50, |flat, query| {
        let (mut row, lse) = weights(flat, query);
        row[3] = 0.0;
        row[4] = 1e-9;
        (row, lse)
    }));
    record[60] = Some(row_of(shape, 60, |flat, query| {
        (weights(flat, query).0, f32::NAN)
    }));
    let mut heatmap = gpu.heatmap();
    sync_all(&mut heatmap, shape, &record);
    for quantity in [Quantity::Weights, Quantity::Scores, Quantity::Mask] {
        for (logarithmic, heads) in [
            (false, Heads::one(shape, 1, 3)),
            (true, Heads::one(shape, 0, 0)),
            (false, Heads::layer(shape, 2)),
            (
                true,
                Heads {
                    first: 0,
                    count: shape.heads(),
                },
            ),
        ] {
            // Whole cells, zoomed in off the grid, and several cells a pixel.
            for (first_cell, cell_px) in [
                ([0.0, 0.0], 2.0),
                ([3.37, 41.61], 7.3),
                ([0.0, 0.0], 0.77),
                ([9.2, 1.7], 0.3),
            ] {
                let picture = Picture {
                    arrangement: Arrangement::One {
                        heads,
                        first_cell,
                        cell_px,
                    },
                    quantity,
                    logarithmic,
                    size_px: [211, 190],
                    ..one(shape, heads, 75, 2)
                };
                let drawn = gpu.draw(&heatmap, &picture);
                let painted = paint_cpu(&picture, &triangle(&picture, &record));
                assert_same(&drawn, &painted, &format!("{picture:?}"));
            }
        }
    }
}

#[test]
fn the_two_colour_maps_agree_to_one_level_over_their_whole_range() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 1,
        n_head: 1,
    };
    // The last row of a 512-token text holds every 1/511.
    let mut record = vec![None; 511];
    let values: Vec<f32> = (0..512).map(|key| key as f32 / 511.0).collect();
    record.push(Some(row_of(shape, 511, |_, _| (values.clone(), 2.0))));
    let mut heatmap = gpu.heatmap();
    sync_all(&mut heatmap, shape, &record);
    let heads = Heads::one(shape, 0, 0);
    for logarithmic in [false, true] {
        let picture = Picture {
            logarithmic,
            ..one(shape, heads, 512, 1)
        };
        let drawn = gpu.draw(&heatmap, &picture);
        for (key, &value) in values.iter().enumerate() {
            let value = half::f16::from_f32(value).to_f32();
            let expected = rgb(cividis(color::place(value, logarithmic)));
            assert!(
                close(drawn[(key, 511)], expected),
                "{value}: {:?}, not {expected:?}",
                drawn[(key, 511)]
            );
        }
        assert_eq!(
            drawn[(3, 100)],
            PALETTE.absent,
            "a row that is not on record is not zero"
        );
    }
    let picture = Picture {
        quantity: Quantity::Scores,
        extent: 4.0,
        ..one(shape, heads, 512, 1)
    };
    let drawn = gpu.draw(&heatmap, &picture);
    for (key, &value) in values.iter().enumerate().skip(1) {
        let score = half::f16::from_f32(value).to_f32().ln() + 2.0;
        let expected = rgb(color::diverging(score / 4.0));
        assert!(
            close(drawn[(key, 511)], expected),
            "{score}: {:?}, not {expected:?}",
            drawn[(key, 511)]
        );
    }
    assert_eq!(drawn[(0, 511)], PALETTE.absent, "ln 0 is not a score");
}

#[test]
fn what_is_masked_or_not_a_number_looks_like_neither_zero_nor_one() {
    let shape = Shape {
        n_layer: 1,
        n_head: 1,
    };
    let record = vec![
        Some(row_of(shape, 0, |_, _| (vec![1.0], 0.0))),
        Some(row_of(shape, 1, |_, _| (vec![0.0, f32::NAN], 0.0))),
    ];
    let heads = Heads::one(shape, 0, 0);
    let picture = one(shape, heads, 2, 12);
    let mut images = vec![paint_cpu(&picture, &triangle(&picture, &record))];
    if let Some(gpu) = gpu() {
        let mut heatmap = gpu.heatmap();
        sync_all(&mut heatmap, shape, &record);
        images.push(gpu.draw(&heatmap, &picture));
    }
    for image in images {
        assert!(close(image[(5, 5)], rgb(cividis(1.0))));
        assert!(
            close(image[(5, 17)], rgb(cividis(0.0))),
            "a weight of zero is the map's dark end"
        );
        assert_eq!(image[(17, 17)], PALETTE.not_a_number);
        let masked: Vec<_> = (12..24)
            .flat_map(|x| (0..12).map(move |y| (x, y)))
            .map(|at| image[at])
            .collect();
        assert!(
            masked
                .iter()
                .all(|&c| c == PALETTE.masked || c == PALETTE.hatch)
        );
        assert!(
            masked.contains(&PALETTE.masked) && masked.contains(&PALETTE.hatch),
            "hatched"
        );
        assert_eq!(
            image[(40, 40)],
            PALETTE.ground,
            "beyond the text there is nothing"
        );
    }
}

#[test]
fn a_decode_step_uploads_its_own_row_in_one_write() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 6,
        n_head: 8,
    };
    let mut record = rows_of(shape, 40);
    let mut heatmap = gpu.heatmap();
    let first = sync(&mut heatmap, shape, 0, &record);
    assert_eq!(
        (first.uploaded_rows, first.runs, first.resident_rows),
        (40, 1, 40),
        "a prefill is one write"
    );
    assert_eq!(
        sync(&mut heatmap, shape, 0, &record).uploaded_rows,
        0,
        "nothing has changed"
    );
    let version = heatmap.store.version();
    for query in 40..70 {
        record.push(Some(row_of(shape, query, weights)));
        let step = sync(&mut heatmap, shape, 0, &record);
        assert_eq!((step.uploaded_rows, step.runs), (1, 1));
        // Two f16 a word, an f32 log-sum-exp.
        assert_eq!(step.uploaded_bytes, 48 * ((query + 1).div_ceil(2) * 4 + 4));
    }
    assert_ne!(heatmap.store.version(), version);
    // Pages double as they fill; what was there is still there.
    let picture = one(shape, Heads::one(shape, 5, 7), 70, 2);
    assert_cells(
        &gpu.draw(&heatmap, &picture),
        &picture,
        47,
        2,
        "after 30 steps",
    );
    // Another branch from row 50 on; going back to the shorter text first costs nothing.
    assert_eq!(sync(&mut heatmap, shape, 0, &record[..50]).uploaded_rows, 0);
    let other: Vec<_> = (50..60)
        .map(|query| Some(row_of(shape, query, |_, q| (vec![0.5; q + 1], 0.0))))
        .collect();
    record.splice(50.., other);
    let branch = sync(&mut heatmap, shape, 0, &record);
    assert_eq!((branch.uploaded_rows, branch.runs), (10, 1));
    let picture = one(shape, Heads::one(shape, 0, 0), 60, 1);
    let drawn = gpu.draw(&heatmap, &picture);
    assert!(close(drawn[(3, 55)], rgb(cividis(0.5))));
    assert_cells(
        &drawn,
        &Picture {
            rows: 50,
            side: 50,
            ..picture
        },
        0,
        1,
        "the shared prefix",
    );
}

#[test]
fn rows_that_cross_pages_are_whole() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 3,
        n_head: 5,
    };
    let rows = 90;
    let record = rows_of(shape, rows);
    // 15 heads of 90 rows are 31,050 words: four pages of 2^13, so rows lie across their ends.
    let mut heatmap = Heatmap::with_page_words(&gpu.device, &gpu.queue, FORMAT, 1 << 13).unwrap();
    sync_all(&mut heatmap, shape, &record);
    assert!(heatmap.store.holds_all_layers());
    for flat in [0, 7, 14] {
        let picture = one(
            shape,
            Heads {
                first: flat,
                count: 1,
            },
            rows,
            1,
        );
        assert_cells(
            &gpu.draw(&heatmap, &picture),
            &picture,
            flat,
            1,
            &format!("head {flat}"),
        );
    }
}

#[test]
fn where_not_all_layers_fit_the_one_in_view_is_kept() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 6,
        n_head: 5,
    };
    let rows = 90;
    let record = rows_of(shape, rows);
    let mut heatmap = Heatmap::with_page_words(&gpu.device, &gpu.queue, FORMAT, 1 << 12).unwrap();
    for layer in [2, 4] {
        let synced = sync(&mut heatmap, shape, layer, &record);
        assert_eq!(synced.resident_rows, rows);
        assert_eq!(heatmap.store.layers(), layer..layer + 1);
        assert!(!heatmap.store.holds_all_layers());
        let flat = layer * 5 + 3;
        let picture = one(
            shape,
            Heads {
                first: flat,
                count: 1,
            },
            rows,
            1,
        );
        assert_cells(
            &gpu.draw(&heatmap, &picture),
            &picture,
            flat,
            1,
            "the layer in view",
        );
        let other = one(shape, Heads { first: 0, count: 1 }, rows, 1);
        let drawn = gpu.draw(&heatmap, &other);
        assert_eq!(drawn[(0, 10)], PALETTE.absent);
        assert_eq!(
            drawn[(80, 9)],
            if (80 + 9) % 6 < 1 {
                PALETTE.hatch
            } else {
                PALETTE.masked
            }
        );
        let wall = wall(shape, rows, 20);
        let drawn = draw_wall(&gpu, &heatmap, &wall);
        assert_eq!(drawn[(0, 8)], PALETTE.absent);
        assert_ne!(drawn[(0, layer * 20 + 8)], PALETTE.absent);
    }
    // A shorter text fits whole again.
    sync(&mut heatmap, shape, 4, &record[..40]);
    assert!(heatmap.store.holds_all_layers());
}

#[test]
fn a_change_of_branch_is_spread_over_frames() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 12,
        n_head: 12,
    };
    let rows = 400;
    let some = row_of(shape, rows - 1, weights);
    // Only the last row's numbers matter here; the others are as large as they would be.
    let filler = |query: usize| row_of(shape, query, |_, query| (vec![0.25; query + 1], 0.0));
    let mut record: Vec<_> = (0..rows - 1).map(|query| Some(filler(query))).collect();
    record.push(Some(some));
    let mut heatmap = gpu.heatmap();
    let first = sync(&mut heatmap, shape, 0, &record);
    assert!(
        first.uploaded_bytes <= 9 << 20,
        "{} bytes in one frame",
        first.uploaded_bytes
    );
    assert!(first.resident_rows < rows);
    let picture = one(shape, Heads::one(shape, 0, 0), rows, 1);
    let drawn = gpu.draw(&heatmap, &picture);
    assert!(close(drawn[(0, 10)], rgb(cividis(0.25))));
    assert_eq!(drawn[(0, rows - 1)], PALETTE.absent, "not uploaded yet");
    sync_all(&mut heatmap, shape, &record);
    let drawn = gpu.draw(&heatmap, &picture);
    let expected = half::f16::from_f32(weights(0, rows - 1).0[17]).to_f32();
    assert!(close(drawn[(17, rows - 1)], rgb(cividis(expected))));
}

// ---- the wall --------------------------------------------------------------------------------------------------

fn wall(shape: Shape, rows: usize, pitch_px: u32) -> Picture {
    Picture {
        arrangement: Arrangement::Wall {
            pitch_px,
            thumb_px: pitch_px - 2,
        },
        size_px: [
            pitch_px * shape.n_head as u32,
            pitch_px * shape.n_layer as u32,
        ],
        ..one(shape, Heads { first: 0, count: 1 }, rows, 1)
    }
}

fn draw_wall(gpu: &Gpu, heatmap: &Heatmap, picture: &Picture) -> ColorImage {
    let mut wall = WallTexture::new(heatmap);
    assert!(
        wall.refresh(heatmap, picture),
        "the first texture is a new one"
    );
    assert!(!wall.refresh(heatmap, picture));
    gpu.read(wall.texture().unwrap())
}

#[test]
fn each_pixel_of_the_wall_is_the_largest_of_its_cells() {
    let Some(gpu) = gpu() else { return };
    // More cells than pixels, fewer, and not a whole number of them.
    for (shape, rows, pitch) in [
        (
            Shape {
                n_layer: 6,
                n_head: 8,
            },
            100,
            18,
        ),
        (
            Shape {
                n_layer: 2,
                n_head: 2,
            },
            12,
            50,
        ),
        (
            Shape {
                n_layer: 3,
                n_head: 4,
            },
            64,
            25,
        ),
    ] {
        let record = rows_of(shape, rows);
        let mut heatmap = gpu.heatmap();
        sync_all(&mut heatmap, shape, &record);
        let picture = wall(shape, rows, pitch);
        let drawn = draw_wall(&gpu, &heatmap, &picture);
        let thumb = pitch - 2;
        for flat in 0..shape.heads() {
            let heads = Heads {
                first: flat,
                count: 1,
            };
            // The same thumbnail as a picture of one head, which other tests compare with the numbers.
            let single = Picture {
                arrangement: Arrangement::One {
                    heads,
                    first_cell: [0.0, 0.0],
                    cell_px: thumb as f32 / picture.side as f32,
                },
                size_px: [thumb, thumb],
                ..picture
            };
            let expected = paint_cpu(&single, &triangle(&single, &record));
            let corner = [
                flat % shape.n_head * pitch as usize,
                flat / shape.n_head * pitch as usize,
            ];
            for y in 0..pitch as usize {
                for x in 0..pitch as usize {
                    let found = drawn[(corner[0] + x, corner[1] + y)];
                    let expected = if x < thumb as usize && y < thumb as usize {
                        expected[(x, y)]
                    } else {
                        PALETTE.ground
                    };
                    assert!(
                        close(found, expected),
                        "head {flat}, pixel {x}, {y}: {found:?}, not {expected:?}"
                    );
                }
            }
        }
        // And one pixel by hand: the top left one covers the first cells, the very first of which is always 1.
        assert!(close(drawn[(0, 0)], rgb(cividis(1.0))));
    }
}

#[test]
fn a_wall_that_grows_row_by_row_is_the_wall_drawn_at_once() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 2,
        n_head: 3,
    };
    let mut record = rows_of(shape, 60);
    let mut heatmap = gpu.heatmap();
    let mut growing = WallTexture::new(&heatmap);
    let check = |heatmap: &mut Heatmap, growing: &mut WallTexture, rows: &[_], shown: usize| {
        sync_all(heatmap, shape, rows);
        let picture = wall(shape, shown, 23);
        growing.refresh(heatmap, &picture);
        let at_once = draw_wall(&gpu, heatmap, &picture);
        let grown = gpu.read(growing.texture().unwrap());
        assert!(grown == at_once, "{} rows, {shown} shown", rows.len());
    };
    // Steps, one of which doubles the side; then scrubbing back and forth; then another branch.
    for rows in (30..40).chain(60..70) {
        while record.len() < rows {
            record.push(Some(row_of(shape, record.len(), weights)));
        }
        check(&mut heatmap, &mut growing, &record[..rows], rows);
    }
    for shown in [60, 41, 64, 66] {
        check(&mut heatmap, &mut growing, &record, shown);
    }
    for query in 40..record.len() {
        record[query] = Some(row_of(shape, query, |flat, query| weights(flat + 9, query)));
    }
    check(&mut heatmap, &mut growing, &record, 66);
    record.pop();
    check(&mut heatmap, &mut growing, &record, record.len());
    record.push(Some(row_of(shape, record.len(), weights)));
    // Two changes between two drawings.
    sync_all(&mut heatmap, shape, &record);
    record[3] = None;
    sync_all(&mut heatmap, shape, &record);
    record[50] = None;
    check(&mut heatmap, &mut growing, &record, record.len());
}

#[test]
fn the_largest_of_several_cells_is_taken_by_hand() {
    let shape = Shape {
        n_layer: 1,
        n_head: 1,
    };
    let rows = 64;
    let record = rows_of(shape, rows);
    // 16 pixels over 64 cells: each covers four by four.
    let picture = Picture {
        arrangement: Arrangement::One {
            heads: Heads { first: 0, count: 1 },
            first_cell: [0.0, 0.0],
            cell_px: 0.25,
        },
        size_px: [16, 16],
        ..one(shape, Heads { first: 0, count: 1 }, rows, 1)
    };
    let image = paint_cpu(&picture, &triangle(&picture, &record));
    for (x, y) in [(0, 3), (2, 9), (7, 15), (15, 15)] {
        let mut largest = 0.0f32;
        for query in 4 * y..4 * y + 4 {
            let (row, _) = weights(0, query);
            for key in 4 * x..(4 * x + 4).min(query + 1) {
                largest = largest.max(half::f16::from_f32(row[key]).to_f32());
            }
        }
        assert!(
            close(image[(x, y)], rgb(cividis(largest))),
            "pixel {x}, {y}"
        );
    }
}

#[test]
fn shapes_at_the_edges() {
    let Some(gpu) = gpu() else { return };
    for (shape, rows) in [
        (
            Shape {
                n_layer: 1,
                n_head: 1,
            },
            1,
        ),
        (
            Shape {
                n_layer: 48,
                n_head: 25,
            },
            9,
        ),
        (
            Shape {
                n_layer: 1,
                n_head: 1,
            },
            0,
        ),
        (
            Shape {
                n_layer: 0,
                n_head: 0,
            },
            0,
        ),
    ] {
        let record = rows_of(shape, rows);
        let mut heatmap = gpu.heatmap();
        sync_all(&mut heatmap, shape, &record);
        let last = shape.heads().saturating_sub(1);
        let picture = one(
            shape,
            Heads {
                first: last,
                count: 1,
            },
            rows,
            3,
        );
        let drawn = gpu.draw(&heatmap, &picture);
        assert_same(
            &drawn,
            &paint_cpu(&picture, &triangle(&picture, &record)),
            &format!("{shape:?}"),
        );
        assert_cells(&drawn, &picture, last, 3, &format!("{shape:?}"));
        let picture = Picture {
            size_px: [25 * 6, 48 * 6],
            ..wall(shape, rows, 6)
        };
        draw_wall(&gpu, &heatmap, &picture);
    }
    // A model with other heads than before.
    let mut heatmap = gpu.heatmap();
    let before = Shape {
        n_layer: 4,
        n_head: 4,
    };
    sync_all(&mut heatmap, before, &rows_of(before, 20));
    let after = Shape {
        n_layer: 1,
        n_head: 2,
    };
    sync_all(&mut heatmap, after, &rows_of(after, 20));
    let picture = one(after, Heads { first: 1, count: 1 }, 20, 1);
    assert_cells(
        &gpu.draw(&heatmap, &picture),
        &picture,
        1,
        1,
        "another model",
    );
    // Rows of the old shape under the new one's name are absent, not garbage.
    sync_all(&mut heatmap, after, &rows_of(before, 20));
    assert_eq!(gpu.draw(&heatmap, &picture)[(0, 0)], PALETTE.absent);
}

#[test]
fn a_target_that_encodes_srgb_itself_shows_the_same_colours() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 1,
        n_head: 1,
    };
    let record = rows_of(shape, 30);
    let format = wgpu::TextureFormat::Rgba8UnormSrgb;
    let mut heatmap = Heatmap::new(&gpu.device, &gpu.queue, format).unwrap();
    sync_all(&mut heatmap, shape, &record);
    let picture = one(shape, Heads { first: 0, count: 1 }, 30, 2);
    let texture = gpu.target(picture.size_px, format);
    heatmap.draw(
        &mut heatmap.slot(),
        &picture,
        &texture.create_view(&Default::default()),
    );
    // Read back as stored, that is encoded.
    let drawn = gpu.read(&texture);
    assert_same(
        &drawn,
        &paint_cpu(&picture, &triangle(&picture, &record)),
        "sRGB target",
    );
}

// ---- without storage buffers -----------------------------------------------------------------------------------

#[test]
fn a_device_without_storage_buffers_is_told_apart_and_painted_for_on_the_cpu() {
    let limits = wgpu::Limits::downlevel_webgl2_defaults();
    let obstacle = Heatmap::obstacle(&limits).expect("WebGL 2 has no storage buffers");
    assert!(obstacle.contains("no storage buffers"), "{obstacle}");
    assert!(
        Heatmap::obstacle(&wgpu::Limits::downlevel_defaults()).is_some(),
        "four are too few"
    );
    assert_eq!(Heatmap::obstacle(&wgpu::Limits::default()), None);
    if let Some(gpu) = gpu_with(limits) {
        let refused = Heatmap::new(&gpu.device, &gpu.queue, FORMAT).err();
        assert_eq!(refused, Some(obstacle));
    }
    let shape = Shape {
        n_layer: 2,
        n_head: 2,
    };
    let mut record = rows_of(shape, 12);
    let picture = one(shape, Heads::one(shape, 1, 0), 12, 19);
    let mut triangle = triangle(&picture, &record);
    assert_cells(
        &paint_cpu(&picture, &triangle),
        &picture,
        2,
        19,
        "CPU texture",
    );
    // Only what is new is worked out, and nothing is when nothing is.
    let heads = Heads::one(shape, 1, 0);
    assert!(!triangle.sync(
        shape,
        heads,
        Quantity::Weights,
        record.iter().map(Option::as_ref)
    ));
    record.push(Some(row_of(shape, 12, weights)));
    assert!(triangle.sync(
        shape,
        heads,
        Quantity::Weights,
        record.iter().map(Option::as_ref)
    ));
    let picture = Picture {
        rows: 13,
        ..picture
    };
    assert_cells(
        &paint_cpu(&picture, &triangle),
        &picture,
        2,
        19,
        "one more row",
    );
}

#[test]
fn the_largest_score_of_a_row_bounds_all_of_them() {
    let shape = Shape {
        n_layer: 2,
        n_head: 2,
    };
    for query in [0, 5, 63] {
        let row = row_of(shape, query, weights);
        let found = largest_score(&row, shape, Heads { first: 3, count: 1 });
        let expected = (0..=query)
            .map(|key| score(3, query, key).abs())
            .fold(0.0, f32::max);
        // f16 keeps 11 bits of a weight: a thousandth in its logarithm.
        assert!((found - expected).abs() < 2e-3, "{found}, not {expected}");
    }
}

// ---- cost ------------------------------------------------------------------------------------------------------

/// UI-thread CPU time of a decode step's upload and the wall's draw call, 144 heads at 512 tokens. Prints only:
/// shared machines are too uneven for a limit here.
#[test]
#[ignore = "a measurement; run with --ignored --nocapture"]
fn cost_of_a_step() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 12,
        n_head: 12,
    };
    let filler = |query: usize| {
        Some(row_of(shape, query, |_, query| {
            (vec![0.25; query + 1], 0.0)
        }))
    };
    let mut record: Vec<_> = (0..512).map(filler).collect();
    let mut heatmap = gpu.heatmap();
    let frames = sync_all(&mut heatmap, shape, &record);
    println!(
        "first upload of 512 rows: {frames} frames, {} MiB on the device",
        heatmap.store.bytes() >> 20
    );
    let mut wall_texture = WallTexture::new(&heatmap);
    let mut slot = heatmap.slot();
    let mut times = Vec::new();
    for step in 512..562 {
        record.push(filler(step));
        let start = std::time::Instant::now();
        sync(&mut heatmap, shape, 0, &record);
        let uploaded = start.elapsed();
        wall_texture.refresh(&heatmap, &wall(shape, step + 1, 14));
        let picture = one(shape, Heads { first: 0, count: 1 }, step + 1, 1);
        heatmap.callback(&mut slot, &picture, [0.0, 0.0]);
        let asked = start.elapsed();
        gpu.device
            .poll(wgpu::PollType::wait_indefinitely())
            .unwrap();
        if step == 512 {
            println!(
                "the first wall: drawn in {:.1} ms",
                start.elapsed().as_secs_f64() * 1e3
            );
        }
        times.push((asked, uploaded, start.elapsed()));
    }
    times.sort();
    let (all, upload, drawn) = times[times.len() / 2];
    println!(
        "a step: {:.3} ms, of which the upload {:.3} ms; drawn after {:.1} ms",
        all.as_secs_f64() * 1e3,
        upload.as_secs_f64() * 1e3,
        drawn.as_secs_f64() * 1e3
    );
    assert_eq!(PAGE_WORDS * 4, 64 << 20);
}
