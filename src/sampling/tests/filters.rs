//! Tables for each filter and for their order.

use super::*;

#[test]
fn top_k_keeps_exactly_k_of_tied_tokens() {
    let z = [1.0, 2.0, 2.0, 2.0, 0.0];
    let d = Distribution::new(&z, &[], &SamplingSettings { top_k: 2, ..off() });
    assert_eq!(ids(&d), [1, 2]);
    assert_eq!(
        (d.prob(1), d.prob(2), d.prob(3)),
        (Some(0.5), Some(0.5), None)
    );
    assert_eq!(
        (d.cut_by(1), d.cut_by(3), d.cut_by(0)),
        (None, Some(Filter::TopK), Some(Filter::TopK))
    );
    let removed = RowStats::of(&z);
    let expected = removed.prob(1.0) + removed.prob(2.0) + removed.prob(0.0);
    assert!(close(d.removed_mass(Filter::TopK), expected, 1e-12));
    assert_eq!(
        (d.removed_mass(Filter::TopP), d.removed_mass(Filter::MinP)),
        (0.0, 0.0)
    );
}

#[test]
fn top_k_that_is_off_or_larger_than_the_vocabulary_keeps_all() {
    let z = [1.0, 2.0, 3.0];
    for top_k in [0, 3, 4, 1_000_000, u32::MAX] {
        let d = Distribution::new(&z, &[], &SamplingSettings { top_k, ..off() });
        assert_eq!(ids(&d), [2, 1, 0], "{top_k}");
        assert_eq!(d.removed_mass(Filter::TopK), 0.0);
        assert_eq!(d.kept()[2].cumulative, 1.0);
        let stats = RowStats::of(&z);
        assert!(
            d.kept()
                .iter()
                .all(|k| close(k.prob, stats.prob(z[k.id as usize]), 1e-15))
        );
    }
}

#[test]
fn top_p_keeps_the_token_that_crosses_p() {
    let z = logits_of(&[0.1, 0.4, 0.3, 0.2]);
    for (top_p, expected) in [
        (0.0, &[1][..]),
        (0.39, &[1]),
        (0.41, &[1, 2]),
        (0.69, &[1, 2]),
        (0.71, &[1, 2, 3]),
        (0.91, &[1, 2, 3, 0]),
        (1.0, &[1, 2, 3, 0]),
    ] {
        let d = Distribution::new(&z, &[], &SamplingSettings { top_p, ..off() });
        assert_eq!(ids(&d), expected, "{top_p}");
    }
    let d = Distribution::new(
        &z,
        &[],
        &SamplingSettings {
            top_p: 0.5,
            ..off()
        },
    );
    assert!(close(d.removed_mass(Filter::TopP), 0.3, 1e-6));
    assert!(close(d.prob(1).unwrap(), 4.0 / 7.0, 1e-6));
    assert_eq!((d.cut_by(3), d.cut_by(2)), (Some(Filter::TopP), None));
    // Exactly at p nothing crosses: two of four equal tokens are half.
    let d = Distribution::new(
        &[0.0; 4],
        &[],
        &SamplingSettings {
            top_p: 0.5,
            ..off()
        },
    );
    assert_eq!(ids(&d), [0, 1]);
}

#[test]
fn top_p_of_a_flat_distribution_keeps_thousands() {
    let z = [-3.0; 20_000];
    for (top_p, expected) in [(0.25, 5000), (0.5, 10_000), (0.75, 15_000), (0.03125, 625)] {
        let d = Distribution::new(&z, &[], &SamplingSettings { top_p, ..off() });
        assert_eq!(ids(&d), (0..expected).collect::<Vec<u32>>(), "{top_p}");
        assert_eq!(d.cut_by(expected), Some(Filter::TopP));
        assert!(close(
            d.removed_mass(Filter::TopP),
            1.0 - f64::from(top_p),
            1e-12
        ));
    }
}

#[test]
fn min_p_is_a_fraction_of_the_largest_probability() {
    let z = logits_of(&[0.1, 0.4, 0.3, 0.2]);
    for (min_p, expected) in [
        (0.0, &[1, 2, 3, 0][..]),
        (0.24, &[1, 2, 3, 0]),
        (0.26, &[1, 2, 3]),
        (0.76, &[1]),
        (1.0, &[1]),
    ] {
        let d = Distribution::new(&z, &[], &SamplingSettings { min_p, ..off() });
        assert_eq!(ids(&d), expected, "{min_p}");
    }
    // min-p 1 keeps ties.
    let d = Distribution::new(
        &[5.0, 5.0, 4.0],
        &[],
        &SamplingSettings {
            min_p: 1.0,
            ..off()
        },
    );
    assert_eq!(ids(&d), [0, 1]);
    assert_eq!(d.cut_by(2), Some(Filter::MinP));
}

#[test]
fn filters_work_in_order_each_on_what_the_one_before_left() {
    // After top-k 3: 4/9, 3/9, 2/9. Top-p 0.7 of that keeps two (4/9 + 3/9 = 0.78), of the whole
    // it would have kept three. Min-p 0.8 of that removes the second (0.75).
    let z = logits_of(&[0.1, 0.4, 0.3, 0.2]);
    let settings = SamplingSettings {
        top_k: 3,
        top_p: 0.7,
        ..off()
    };
    let d = Distribution::new(&z, &[], &settings);
    assert_eq!(ids(&d), [1, 2]);
    let d = Distribution::new(
        &z,
        &[],
        &SamplingSettings {
            min_p: 0.8,
            ..settings
        },
    );
    assert_eq!(ids(&d), [1]);
    let cuts = [0, 3, 2, 1].map(|id| d.cut_by(id));
    assert_eq!(
        cuts,
        [
            Some(Filter::TopK),
            Some(Filter::TopP),
            Some(Filter::MinP),
            None
        ]
    );
    assert!(close(d.removed_mass(Filter::TopK), 0.1, 1e-6));
    assert!(close(d.removed_mass(Filter::TopP), 2.0 / 9.0, 1e-6));
    assert!(close(d.removed_mass(Filter::MinP), 3.0 / 7.0, 1e-6));
    assert!(close(d.tempered_prob(0), 0.1, 1e-7) && close(d.tempered_prob(1), 0.4, 1e-7));
}

#[test]
fn temperature_comes_before_the_filters() {
    // At T 0.5 probabilities are squared: 16/30 for the first, so top-p 0.5 keeps one.
    let z = logits_of(&[0.4, 0.3, 0.2, 0.1]);
    let s = SamplingSettings {
        temperature: 0.5,
        top_p: 0.5,
        ..off()
    };
    let d = Distribution::new(&z, &[], &s);
    assert_eq!(ids(&d), [0]);
    assert!(close(d.tempered_prob(0), 16.0 / 30.0, 1e-6));
    assert!(close(d.removed_mass(Filter::TopP), 14.0 / 30.0, 1e-6));
}

#[test]
fn the_penalty_divides_positive_and_multiplies_negative_logits_once_an_id() {
    let z = [2.0, -2.0, 0.0, 2.0];
    let s = SamplingSettings {
        repetition_penalty: 2.0,
        ..off()
    };
    // Id 0 twice counts once; id 99 is outside the row.
    let d = Distribution::new(&z, &[0, 1, 0, 2, 99], &s);
    let penalised: Vec<_> = (0..4).map(|id| d.penalised_logit(id).unwrap()).collect();
    assert_eq!(penalised, [1.0, -4.0, 0.0, 2.0]);
    assert_eq!(ids(&d), [3, 0, 2, 1]);
    assert_eq!(
        (d.penalised_logit(99), d.prob(99), d.cut_by(99)),
        (None, None, None)
    );
    assert_eq!(d.tempered_prob(99), 0.0);
}

#[test]
fn the_penalty_applies_in_greedy_mode_too() {
    let z = [3.0, 2.0, 2.0];
    for s in [
        SamplingSettings {
            mode: Mode::Greedy,
            ..off()
        },
        SamplingSettings {
            temperature: 0.0,
            ..off()
        },
    ] {
        assert_eq!(select(&z, &[0], &s, 0, 0).id, 0);
        let s = SamplingSettings {
            repetition_penalty: 2.0,
            ..s
        };
        // 3 / 2 is below 2; of the two ties the lowest id.
        assert_eq!(
            select(&z, &[0], &s, 0, 0),
            Choice {
                id: 1,
                u: None,
                redraw: 0
            }
        );
        let d = Distribution::new(&z, &[0], &s);
        assert_eq!(
            d.kept(),
            [Kept {
                id: 1,
                prob: 1.0,
                cumulative: 1.0
            }]
        );
        // Greedy is not a filter; the limit T → 0 gives ties equal parts.
        assert_eq!(
            (d.cut_by(0), d.cut_by(2), d.is_greedy()),
            (None, None, true)
        );
        assert_eq!((d.tempered_prob(1), d.tempered_prob(2)), (0.5, 0.5));
    }
}
