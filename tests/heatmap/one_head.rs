//! One head, on the device and on the CPU, against the numbers that went in.

use std::sync::Arc;

use logitscope::heatmap::{
    Arrangement, Heads, Heatmap, Picture, Quantity, Shape, cividis, color, largest_score, paint_cpu,
};

use crate::stage::*;

#[test]
fn cells_of_a_head_are_the_numbers_at_6_64_and_1024_tokens_in_every_view() {
    let shape = Shape {
        n_layer: 2,
        n_head: 3,
    };
    let gpu = gpu();
    for (rows, cell_px) in [(6, 19), (64, 4), (1024, 1)] {
        let record = rows_of(shape, rows);
        let heads = Heads::one(shape, 1, 2);
        let mut heatmap = gpu.as_ref().map(|gpu| gpu.heatmap());
        if let Some(heatmap) = &mut heatmap {
            sync_all(heatmap, shape, &record);
        }
        for (quantity, logarithmic) in [
            (Quantity::Weights, false),
            (Quantity::Weights, true),
            (Quantity::Scores, false),
            (Quantity::Mask, false),
        ] {
            let picture = Picture {
                quantity,
                logarithmic,
                ..one(shape, heads, rows, cell_px)
            };
            let what = format!("T = {rows}, {quantity:?}, logarithmic {logarithmic}");
            let cpu = paint_cpu(&picture, &triangle(&picture, &record));
            assert_cells(&cpu, &picture, 5, cell_px as usize, &format!("CPU, {what}"));
            if let (Some(gpu), Some(heatmap)) = (&gpu, &heatmap) {
                let drawn = gpu.draw(heatmap, &picture);
                assert_cells(
                    &drawn,
                    &picture,
                    5,
                    cell_px as usize,
                    &format!("GPU, {what}"),
                );
                assert_same(&drawn, &cpu, &what);
            }
        }
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
            (false, Heads::across_layers(shape, 1)),
            (true, Heads::across_layers(shape, 3)),
            (
                true,
                Heads {
                    first: 0,
                    count: shape.heads(),
                    step: 1,
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
                    // As where the first token is left out of the scale.
                    scale_max: if heads.step > 1 { 0.15 } else { 1.0 },
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
            heads: Heads {
                first: 0,
                count: 1,
                step: 1,
            },
            first_cell: [0.0, 0.0],
            cell_px: 0.25,
        },
        size_px: [16, 16],
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
    };
    let image = paint_cpu(&picture, &triangle(&picture, &record));
    for (x, y) in [(0, 3), (2, 9), (7, 15), (15, 15)] {
        let mut largest = 0.0f32;
        for query in 4 * y..4 * y + 4 {
            let (row, _) = weights(0, query);
            for &weight in &row[4 * x..(4 * x + 4).min(query + 1)] {
                largest = largest.max(half::f16::from_f32(weight).to_f32());
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
                step: 1,
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
    let picture = one(
        after,
        Heads {
            first: 1,
            count: 1,
            step: 1,
        },
        20,
        1,
    );
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
    let picture = one(
        shape,
        Heads {
            first: 0,
            count: 1,
            step: 1,
        },
        30,
        2,
    );
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
        let found = largest_score(
            &row,
            shape,
            Heads {
                first: 3,
                count: 1,
                step: 1,
            },
        );
        let expected = (0..=query)
            .map(|key| score(3, query, key).abs())
            .fold(0.0, f32::max);
        // f16 keeps 11 bits of a weight: a thousandth in its logarithm.
        assert!((found - expected).abs() < 2e-3, "{found}, not {expected}");
    }
}
