//! Properties over random rows and settings.

use proptest::prelude::*;

use super::*;

/// The filters as DESIGN.md words them, with a full sort and a flag a token.
fn restated(z: &[f32], context: &[u32], s: &SamplingSettings) -> Vec<(u32, f64)> {
    let mut z = z.to_vec();
    let distinct: std::collections::BTreeSet<u32> = context.iter().copied().collect();
    for id in distinct {
        if let Some(z) = z.get_mut(id as usize) {
            *z = if *z < 0.0 {
                *z * s.repetition_penalty
            } else {
                *z / s.repetition_penalty
            };
        }
    }
    let mut rows: Vec<(u32, f64)> = Vec::new();
    let max = f64::from(z.iter().copied().fold(-INF, f32::max));
    for (id, &z) in z.iter().enumerate().filter(|(_, z)| !z.is_nan()) {
        rows.push((
            id as u32,
            ((f64::from(z) - max) / f64::from(s.temperature)).exp(),
        ));
    }
    rows.sort_by(|a, b| {
        z[b.0 as usize]
            .total_cmp(&z[a.0 as usize])
            .then(a.0.cmp(&b.0))
    });
    let renormalise = |rows: &mut Vec<(u32, f64)>| {
        let sum: f64 = rows.iter().map(|r| r.1).sum();
        rows.iter_mut().for_each(|r| r.1 /= sum);
    };
    if s.top_k > 0 {
        rows.truncate(s.top_k as usize);
    }
    renormalise(&mut rows);
    if s.top_p < 1.0 {
        let mut before = 0.0;
        let mut keep = 0;
        while keep < rows.len() && (keep == 0 || before < f64::from(s.top_p)) {
            before += rows[keep].1;
            keep += 1;
        }
        rows.truncate(keep);
    }
    let floor = rows[0].1 * f64::from(s.min_p);
    rows.retain(|r| r.1 >= floor);
    renormalise(&mut rows);
    rows
}

fn any_settings() -> impl Strategy<Value = SamplingSettings> {
    let temperature = prop_oneof![Just(1.0f32), 0.05f32..3.0];
    let top_k = prop_oneof![Just(0u32), 1u32..50, Just(1_000_000)];
    // Odd fractions, so that no sum is at p to the last bit.
    let top_p = prop_oneof![
        Just(1.0f32),
        Just(0.0),
        (0u32..1000).prop_map(|i| i as f32 / 1009.3)
    ];
    let min_p = prop_oneof![Just(0.0f32), (0u32..1000).prop_map(|i| i as f32 / 1009.3)];
    let penalty = prop_oneof![Just(1.0f32), 0.5f32..2.0];
    (temperature, top_k, top_p, min_p, penalty).prop_map(
        |(temperature, top_k, top_p, min_p, repetition_penalty)| SamplingSettings {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            ..off()
        },
    )
}

fn row() -> impl Strategy<Value = Vec<f32>> {
    // Few distinct values give ties; long rows reach the selection without a full sort.
    let value = prop_oneof![
        8 => -40.0f32..40.0,
        2 => (-3i8..3).prop_map(f32::from),
        1 => Just(NAN),
    ];
    prop_oneof![
        9 => prop::collection::vec(value.clone(), 1..60),
        1 => prop::collection::vec(value.prop_map(|z| z / 20.0), 600..5000),
    ]
    .prop_filter("some logit is a number", |z| z.iter().any(|z| !z.is_nan()))
}

proptest! {
    #[test]
    fn the_distribution_is_the_rule_restated(
        z in row(),
        context in prop::collection::vec(0u32..70, 0..20),
        s in any_settings(),
    ) {
        let d = Distribution::new(&z, &context, &s);
        let expected = restated(&z, &context, &s);
        prop_assert_eq!(ids(&d), expected.iter().map(|r| r.0).collect::<Vec<_>>());
        let mut cumulative = 0.0;
        for (kept, (_, p)) in d.kept().iter().zip(&expected) {
            prop_assert!(close(kept.prob, *p, 1e-12), "{} {}", kept.prob, p);
            cumulative += kept.prob;
            prop_assert!(close(kept.cumulative, cumulative, 1e-12));
            prop_assert_eq!(d.get(kept.id), Some(kept));
            prop_assert_eq!(d.cut_by(kept.id), None);
        }
        prop_assert_eq!(d.kept().last().map(|k| k.cumulative), Some(1.0));
        // Every other token was cut by exactly one filter, and the masses add up: what is kept is
        // what three filters in turn have left of the tempered distribution.
        let mut left = 1.0;
        for filter in [Filter::TopK, Filter::TopP, Filter::MinP] {
            let cut = (0..z.len() as u32).filter(|&id| d.cut_by(id) == Some(filter));
            let mass: f64 = cut.map(|id| d.tempered_prob(id)).sum();
            prop_assert!(close(d.removed_mass(filter) * left, mass, 1e-12));
            left *= 1.0 - d.removed_mass(filter);
        }
        let mass: f64 = d.kept().iter().map(|k| d.tempered_prob(k.id)).sum();
        prop_assert!(close(mass, left, 1e-9));
        for id in (0..z.len() as u32).filter(|&id| !z[id as usize].is_nan()) {
            prop_assert_eq!(d.prob(id).is_none(), d.cut_by(id).is_some());
        }
    }

    #[test]
    fn choose_inverts_the_cumulative(z in row(), s in any_settings(), u in 0.0f64..1.0) {
        let d = Distribution::new(&z, &[], &s);
        let kept = *d.get(d.choose(u)).unwrap();
        prop_assert!(kept.prob > 0.0);
        prop_assert!(kept.cumulative > u && kept.cumulative - kept.prob <= u + 1e-12);
    }

    #[test]
    fn order_is_a_plain_sort(z in row(), n in 0usize..80) {
        let mut sorted: Vec<u32> = (0..z.len() as u32).collect();
        // Stable, so ties stay by id.
        let value = |id: u32| Some(z[id as usize]).filter(|z| !z.is_nan());
        sorted.sort_by(|&a, &b| value(b).partial_cmp(&value(a)).unwrap());
        let first: Vec<u32> = sorted.iter().copied().take(n).collect();
        prop_assert_eq!(top(&z, n), first);
        let id = sorted[n % sorted.len()];
        prop_assert_eq!(rank(&z, id), n % sorted.len() + 1);
    }

    #[test]
    fn stats_are_the_formulas(z in prop::collection::vec(-50.0f32..50.0, 1..300)) {
        let stats = RowStats::of(&z);
        let sum: f64 = z.iter().map(|&z| f64::from(z).exp()).sum();
        prop_assert!(close(stats.log_sum_exp, sum.ln(), 1e-9));
        let entropy: f64 = z.iter().map(|&z| f64::from(z).exp() / sum).map(|p| -p * p.ln()).sum();
        prop_assert!(close(stats.entropy_nats, entropy, 1e-9));
        prop_assert!(close(z.iter().map(|&z| stats.prob(z)).sum(), 1.0, 1e-9));
        let (z, p) = (z[0], stats.prob(z[0]));
        prop_assert!(close(stats.log_prob(z), p.ln(), 1e-9));
    }

    #[test]
    fn drawn_numbers_are_in_range(seed: u64, position: u64, redraw: u32) {
        let u = uniform(seed, position, redraw);
        prop_assert!((0.0..1.0).contains(&u));
        prop_assert_eq!(u, uniform(seed, position, redraw));
    }
}
