//! Order, statistics and softmax of single rows.

use super::*;

#[test]
fn what_stands_at_a_rank_has_it() {
    let mut row: Vec<f32> = (0..199).map(|i| ((i * 37) % 50) as f32 - 20.0).collect();
    (row[7], row[9], row[11]) = (NAN, -INF, -0.0);
    let ranks = [1, 2, 50, 198, 199];
    for (id, wanted) in at_ranks(&row, &ranks).into_iter().zip(ranks) {
        assert_eq!(rank(&row, id), wanted);
    }
    assert!(at_ranks(&[], &[]).is_empty());
}

#[test]
fn rank_and_top_break_ties_by_id_and_put_nan_last() {
    let z = [1.0, 3.0, NAN, 3.0, -INF, INF, -0.0, 0.0];
    assert_eq!(top(&z, 8), [5, 1, 3, 0, 6, 7, 4, 2]);
    assert_eq!(top(&z, 3), [5, 1, 3]);
    assert_eq!(top(&z, 100).len(), 8);
    assert_eq!(top(&z, 0), [0u32; 0]);
    for (place, id) in top(&z, 8).into_iter().enumerate() {
        assert_eq!(rank(&z, id), place + 1);
    }
    assert_eq!(rank(&z, 8), 9);
    assert_eq!(rank(&[], 0), 1);
    assert_eq!(top(&[NAN, NAN], 2), [0, 1]);
}

#[test]
fn stats_of_known_rows() {
    let uniform = RowStats::of(&[-7.5; 50]);
    assert!(close(uniform.entropy_nats, 50f64.ln(), 1e-12));
    assert!(close(uniform.log_sum_exp, -7.5 + 50f64.ln(), 1e-12));
    assert_eq!(
        (uniform.max, uniform.mean, uniform.non_finite),
        (-7.5, -7.5, 0)
    );
    assert!(close(uniform.prob(-7.5), 0.02, 1e-15));

    let half = RowStats::of(&logits_of(&[0.5, 0.25, 0.25]));
    assert!(close(half.entropy_nats, 1.5 * 2f64.ln(), 1e-7));

    let certain = RowStats::of(&[1000.0, -1000.0]);
    assert_eq!((certain.entropy_nats, certain.prob(1000.0)), (0.0, 1.0));
    // P underflows, its logarithm does not.
    assert_eq!(
        (certain.prob(-1000.0), certain.log_prob(-1000.0)),
        (0.0, -2000.0)
    );
}

#[test]
fn stats_do_not_depend_on_a_common_shift() {
    let z: Vec<f32> = (0..1000).map(|i| (i % 17) as f32 * 0.5).collect();
    let shifted: Vec<f32> = z.iter().map(|z| z - 4096.0).collect();
    let (a, b) = (RowStats::of(&z), RowStats::of(&shifted));
    assert!(close(a.entropy_nats, b.entropy_nats, 1e-9));
    assert!(close(a.log_prob(8.0), b.log_prob(8.0 - 4096.0), 1e-9));
}

#[test]
fn stats_of_rows_that_are_not_numbers() {
    let some = RowStats::of(&[NAN, 0.0, -INF, 0.0]);
    assert_eq!(
        (some.prob(0.0), some.prob(NAN), some.prob(-INF)),
        (0.5, 0.0, 0.0)
    );
    assert_eq!((some.non_finite, some.max, some.mean), (2, 0.0, 0.0));
    assert_eq!(some.log_prob(NAN), f64::NEG_INFINITY);
    assert!(close(some.entropy_nats, 2f64.ln(), 1e-15));

    let infinite = RowStats::of(&[INF, 3.0, INF, NAN]);
    assert_eq!((infinite.prob(INF), infinite.prob(3.0)), (0.5, 0.0));
    assert!(close(infinite.log_prob(INF), -(2f64.ln()), 1e-15));
    assert!(close(infinite.entropy_nats, 2f64.ln(), 1e-15));
    assert_eq!(infinite.log_prob(3.0), f64::NEG_INFINITY);

    for row in [&[NAN, NAN][..], &[-INF, NAN], &[]] {
        let none = RowStats::of(row);
        assert!(none.entropy_nats.is_nan() && none.mean.is_nan());
        assert_eq!((none.max, none.log_sum_exp), (-INF, f64::NEG_INFINITY));
        assert_eq!(
            (none.prob(0.0), none.prob(NAN), none.prob(-INF)),
            (0.0, 0.0, 0.0)
        );
        assert_eq!(none.log_prob(-INF), f64::NEG_INFINITY);
    }
}

#[test]
fn softmax_at_a_temperature() {
    let z = [2.0, 1.0, 2.0, -5.0];
    // T → 0: ties share; ids outside the row have none.
    for t in [0.0, -1.0, NAN, 1e-6, f32::MIN_POSITIVE] {
        assert_eq!(
            softmax_at(&z, t, &[0, 1, 2, 3, 4]),
            [0.5, 0.0, 0.5, 0.0, 0.0],
            "{t}"
        );
    }
    let at_one = softmax_at(&z, 1.0, &[0, 1, 2, 3]);
    let stats = RowStats::of(&z);
    for (p, &z) in at_one.iter().zip(&z) {
        assert!(close(*p, stats.prob(z), 1e-15));
    }
    // T → ∞ flattens.
    assert!(
        softmax_at(&z, 1e9, &[0, 3])
            .iter()
            .all(|&p| close(p, 0.25, 1e-6))
    );
    // A top logit of 2.1 among values of both signs: 8.166 / (8.166 + 2.718 + 1.822 + 0.497).
    let p = softmax_at(&[2.1, 1.0, 0.6, -0.7], 1.0, &[0])[0];
    assert!(close(p, 0.6185, 5e-5), "{p}");
}
