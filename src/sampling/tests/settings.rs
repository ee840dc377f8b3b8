//! Defaults, limits, refusal and clamping.

use super::*;

#[test]
fn defaults_are_those_of_the_design() {
    let s = SamplingSettings::default();
    assert_eq!(
        (s.mode, s.temperature, s.top_k, s.top_p),
        (Mode::Sample, 0.8, 40, 0.95)
    );
    assert_eq!((s.min_p, s.repetition_penalty, s.seed), (0.0, 1.0, 42));
    assert_eq!((s.max_new_tokens, s.stop.len()), (120, 0));
    assert_eq!(s.validate(), Ok(()));
    assert_eq!(s.clamped(), s);
}

#[test]
fn validate_names_value_and_range() {
    type Set = fn(&mut SamplingSettings, f32);
    let fields: [(&str, Set, f32); 4] = [
        ("temperature", |s, v| s.temperature = v, 100.5),
        ("top-p", |s, v| s.top_p = v, 1.01),
        ("min-p", |s, v| s.min_p = v, 1.01),
        ("repetition penalty", |s, v| s.repetition_penalty = v, 0.0),
    ];
    for (name, set, outside) in fields {
        for value in [-1.0, NAN, INF, -INF, outside] {
            let mut s = off();
            set(&mut s, value);
            let message = s.validate().unwrap_err().to_string();
            assert!(
                message.starts_with(&format!("{name} is {value}; it must be a number from")),
                "{message}"
            );
            assert_eq!(s.clamped().validate(), Ok(()), "{name} {value}");
        }
    }
    let error = SamplingSettings {
        temperature: -0.5,
        ..off()
    };
    assert_eq!(
        error.validate().unwrap_err().to_string(),
        "temperature is -0.5; it must be a number from 0 to 100 (0 is greedy)"
    );
}

#[test]
fn both_ends_of_every_range_are_allowed() {
    for (temperature, top_k, top_p, min_p, repetition_penalty) in
        [(0.0, 0, 0.0, 0.0, 0.01), (100.0, u32::MAX, 1.0, 1.0, 100.0)]
    {
        let s = SamplingSettings {
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            max_new_tokens: 0,
            ..off()
        };
        assert_eq!(s.validate(), Ok(()));
        assert_eq!(s.clamped(), s);
    }
}

#[test]
fn an_empty_stop_string_is_refused_and_clamped_away() {
    let s = SamplingSettings {
        stop: vec!["a".into(), String::new()],
        ..off()
    };
    assert_eq!(s.validate(), Err(SettingsError::EmptyStop { number: 2 }));
    assert_eq!(s.clamped().stop, ["a"]);
}

#[test]
fn greedy_is_the_mode_or_temperature_zero() {
    assert!(!off().is_greedy());
    for s in [
        SamplingSettings {
            mode: Mode::Greedy,
            ..off()
        },
        SamplingSettings {
            temperature: 0.0,
            ..off()
        },
        SamplingSettings {
            temperature: -3.0,
            ..off()
        },
        SamplingSettings {
            temperature: NAN,
            ..off()
        },
    ] {
        assert!(s.is_greedy());
    }
    let tiny = SamplingSettings {
        temperature: 1e-6,
        ..off()
    };
    assert!(!tiny.is_greedy());
}

#[test]
fn settings_survive_json_and_take_defaults_for_what_is_missing() {
    let s = SamplingSettings {
        mode: Mode::Greedy,
        temperature: 0.7,
        seed: u64::MAX,
        stop: vec!["\n".into()],
        ..off()
    };
    let json = serde_json::to_string(&s).unwrap();
    assert_eq!(serde_json::from_str::<SamplingSettings>(&json).unwrap(), s);
    let partial: SamplingSettings = serde_json::from_str(r#"{"mode":"greedy"}"#).unwrap();
    assert_eq!(
        partial,
        SamplingSettings {
            mode: Mode::Greedy,
            ..SamplingSettings::default()
        }
    );
}
