//! The wall of all heads.

use std::sync::Arc;

use logitscope::heatmap::{
    Arrangement, Heads, Heatmap, Picture, Shape, WallTexture, cividis, paint_cpu, paint_wall_cpu,
};

use logitscope::prediction::AttentionRow;

use crate::stage::*;

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
        let painted = paint_wall_cpu(&picture, &references(&record));
        assert_same(&drawn, &painted, &format!("the wall of {rows} rows"));
        let thumb = pitch - 2;
        for flat in 0..shape.heads() {
            let heads = Heads {
                first: flat,
                count: 1,
                step: 1,
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

fn references(record: &[Option<Arc<AttentionRow>>]) -> Vec<Option<&Arc<AttentionRow>>> {
    record.iter().map(Option::as_ref).collect()
}

#[test]
fn the_wall_on_paper_is_the_one_in_the_window_whatever_is_missing() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 3,
        n_head: 4,
    };
    let mut record = rows_of(shape, 60);
    record[20] = None;
    record[30] = Some(Arc::new(record[30].as_ref().unwrap().without_layer(1)));
    record[40] = Some(row_of(shape, 40, |flat, query| {
        let (mut row, lse) = weights(flat, query);
        row[7] = f32::NAN;
        (row, lse)
    }));
    let mut heatmap = gpu.heatmap();
    sync_all(&mut heatmap, shape, &record);
    for (shown, pitch, logarithmic, scale_max) in [
        (60, 22, false, 1.0),
        (60, 200, true, 0.2),
        (45, 31, true, 1.0),
    ] {
        let picture = Picture {
            logarithmic,
            scale_max,
            ..wall(shape, shown, pitch)
        };
        let drawn = draw_wall(&gpu, &heatmap, &picture);
        let painted = paint_wall_cpu(&picture, &references(&record));
        assert_same(&drawn, &painted, &format!("{shown} rows, {pitch} pixels"));
    }
}

#[test]
fn a_wall_is_drawn_once_for_each_change() {
    let Some(gpu) = gpu() else { return };
    let shape = Shape {
        n_layer: 2,
        n_head: 3,
    };
    let record = rows_of(shape, 30);
    let mut heatmap = gpu.heatmap();
    let mut texture = WallTexture::new(&heatmap);
    let mut drawings = |rows: usize, shown: usize| {
        sync_all(&mut heatmap, shape, &record[..rows]);
        texture.refresh(&heatmap, &wall(shape, shown, 23));
        texture.drawings()
    };
    assert_eq!(drawings(20, 20), 1);
    assert_eq!(drawings(20, 20), 1, "nothing has changed");
    assert_eq!(drawings(21, 20), 1, "a new row that is not shown");
    assert_eq!(drawings(21, 21), 2);
    assert_eq!(drawings(21, 15), 3);
    assert_eq!(drawings(21, 15), 3);
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
    for (query, row) in record.iter_mut().enumerate().skip(40) {
        *row = Some(row_of(shape, query, |flat, query| weights(flat + 9, query)));
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
