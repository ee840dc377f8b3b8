//! What is uploaded when, and where it lies.

use logitscope::heatmap::{Heads, Heatmap, Picture, Shape, cividis};

use crate::stage::*;

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
                step: 1,
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
                step: 1,
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
        let other = one(
            shape,
            Heads {
                first: 0,
                count: 1,
                step: 1,
            },
            rows,
            1,
        );
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
