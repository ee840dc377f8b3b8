//! The sampling filters against what Hugging Face transformers computes (tests/fixtures/gpt2-tiny).

use std::collections::BTreeMap;

use logitscope::sampling::{Distribution, SamplingSettings};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    filters: Filters,
}

#[derive(Deserialize)]
struct Filters {
    logits: Vec<f32>,
    context: Vec<u32>,
    /// By filter: id and probability of every token that has any.
    probs: BTreeMap<String, Vec<(u32, f64)>>,
}

fn reference() -> Filters {
    let json = include_str!("fixtures/gpt2-tiny/expected.json");
    serde_json::from_str::<Expected>(json).unwrap().filters
}

/// One filter on, all others off.
fn settings(name: &str, value: f32) -> SamplingSettings {
    let mut settings = SamplingSettings {
        temperature: 1.0,
        top_k: 0,
        top_p: 1.0,
        ..SamplingSettings::default()
    };
    match name {
        "temperature" => settings.temperature = value,
        "top_k" => settings.top_k = value as u32,
        "top_p" => settings.top_p = value,
        "min_p" => settings.min_p = value,
        "repetition_penalty" => settings.repetition_penalty = value,
        other => panic!("the reference has a filter that is not known here: {other}"),
    }
    settings
}

#[test]
fn every_filter_agrees_with_transformers() {
    let reference = reference();
    let mut checked = 0;
    for (filter, expected) in &reference.probs {
        let (name, value) = filter.split_once(' ').unwrap();
        // Logitscope has no typical sampling.
        if name == "typical_p" {
            continue;
        }
        let settings = settings(name, value.parse().unwrap());
        let d = Distribution::new(&reference.logits, &reference.context, &settings);
        assert_eq!(d.kept().len(), expected.len(), "{filter}");
        for &(id, p) in expected {
            let ours = d
                .prob(id)
                .unwrap_or_else(|| panic!("{filter} cut token {id}"));
            assert!(
                (ours - p).abs() <= 1e-6,
                "{filter}, token {id}: {ours}, transformers {p}"
            );
        }
        checked += 1;
    }
    assert_eq!(checked, 8);
}

#[test]
fn the_reference_can_tell_filters_apart() {
    let reference = reference();
    let d = Distribution::new(&reference.logits, &[], &settings("repetition_penalty", 1.3));
    let expected = &reference.probs["repetition_penalty 1.3"];
    // Without its context the penalty does nothing, and the numbers differ by far more than 1e-6.
    assert!(
        expected
            .iter()
            .any(|&(id, p)| (d.prob(id).unwrap() - p).abs() > 1e-4)
    );
}
