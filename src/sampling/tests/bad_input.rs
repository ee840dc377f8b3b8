//! Numbers that are none, and settings nobody checked.

use super::*;

#[test]
fn a_tiny_temperature_gives_numbers() {
    let z = [-35.0, -30.0, -30.5, -30.0];
    for temperature in [1e-6, 1e-20, f32::MIN_POSITIVE, 1e-45] {
        let s = SamplingSettings {
            temperature,
            ..SamplingSettings::default()
        };
        let d = Distribution::new(&z, &[], &s);
        assert_eq!(
            (d.prob(1), d.prob(3)),
            (Some(0.5), Some(0.5)),
            "{temperature}"
        );
        assert!(
            d.kept()
                .iter()
                .all(|k| k.prob.is_finite() && k.cumulative.is_finite())
        );
        // No draw, however close to 1, falls on a token without probability.
        assert_eq!((d.choose(0.0), d.choose(0.5), d.choose(1.0)), (1, 3, 3));
        // Also where nothing is cut and such tokens follow.
        let d = Distribution::new(
            &z,
            &[],
            &SamplingSettings {
                temperature,
                ..off()
            },
        );
        assert_eq!((d.kept().len(), d.choose(1.0), d.choose(2.0)), (4, 3, 3));
    }
}

#[test]
fn nan_and_infinite_logits_have_a_defined_outcome() {
    let default = SamplingSettings::default();
    let nan = Distribution::new(&[NAN, 1.0, NAN, 1.0, -INF], &[0, 1], &default);
    assert_eq!(ids(&nan), [1, 3]);
    assert_eq!(
        (nan.prob(0), nan.cut_by(0), nan.tempered_prob(0)),
        (None, None, 0.0)
    );
    assert_eq!((nan.prob(4), nan.cut_by(4)), (None, None));

    let s = SamplingSettings {
        top_k: 3,
        top_p: 1.0,
        ..default.clone()
    };
    let infinite = Distribution::new(&[5.0, INF, NAN, INF], &[], &s);
    assert_eq!(ids(&infinite), [1, 3, 0]);
    assert_eq!((infinite.prob(1), infinite.prob(0)), (Some(0.5), Some(0.0)));
    assert_eq!((infinite.choose(0.49), infinite.choose(0.51)), (1, 3));

    // Nothing has any probability: the first in rank order stands in.
    for (row, first) in [
        (&[NAN, NAN][..], 0),
        (&[NAN, -INF, -INF], 1),
        (&[-INF, -INF], 0),
    ] {
        for mode in [Mode::Greedy, Mode::Sample] {
            let s = SamplingSettings {
                mode,
                repetition_penalty: 1.3,
                ..default.clone()
            };
            let d = Distribution::new(row, &[0], &s);
            assert_eq!(
                d.kept(),
                [Kept {
                    id: first,
                    prob: 1.0,
                    cumulative: 1.0
                }]
            );
            assert_eq!(select(row, &[0], &s, 1, 0).id, first);
        }
    }
    let empty = Distribution::new(&[], &[3], &default);
    assert!(empty.kept().is_empty());
    assert_eq!(
        (empty.choose(0.5), select(&[], &[], &default, 0, 0).id),
        (0, 0)
    );
}

#[test]
fn settings_that_were_never_validated_do_not_panic() {
    let z = [0.5, -1.0, 2.0, NAN];
    for v in [-1.0, -INF, INF, NAN, 0.0, 1e30] {
        let s = SamplingSettings {
            temperature: v,
            top_p: v,
            min_p: v,
            repetition_penalty: v,
            ..SamplingSettings::default()
        };
        let d = Distribution::new(&z, &[0, 1], &s);
        assert!(!d.kept().is_empty());
        assert!(d.kept().iter().all(|k| k.prob.is_finite()));
        assert!(d.choose(NAN.into()) < 3);
    }
}
