//! What the text costs with the KV cache and without it, and whose numbers those are.

use super::*;
use crate::worker::MeasureRequest;

/// What a pass of the played worker takes.
fn pass_ms(tokens: usize) -> f64 {
    2.0 + 0.1 * tokens as f64
}

impl Bench {
    fn measure(&mut self) -> MeasureRequest {
        let commands = self.session.apply(Action::MeasureUncached, self.now);
        let [Command::MeasureUncached(request)] = &commands[..] else {
            panic!("{commands:?}")
        };
        request.clone()
    }

    fn pass(&mut self, request: &MeasureRequest, tokens: usize) {
        self.event(Event::Measured {
            id: request.id,
            tokens,
            model_ms: pass_ms(tokens),
        });
    }

    fn measured(&self) -> Vec<usize> {
        let cost = self.session.cost();
        let steps = cost.steps.iter();
        steps
            .filter(|step| step.uncached.is_some())
            .map(|step| step.tokens)
            .collect()
    }

    fn state(&self) -> &MeasurementState {
        &self.session.measurement().expect("a measurement").state
    }
}

fn sorted(mut lengths: Vec<usize>) -> Vec<usize> {
    lengths.sort_unstable();
    lengths
}

/// "Once upon a time" with six generated tokens.
fn generated() -> Bench {
    let mut bench = Bench::new("Once upon a time");
    bench.act(Action::RunOrPause);
    bench.generate(6);
    bench
}

#[test]
fn every_length_from_the_prompt_on_is_measured_and_summed() {
    let mut bench = generated();
    assert_eq!(bench.session.len(), 10);
    let cost = bench.session.cost();
    assert_eq!((cost.first, cost.generated), (4, true));
    assert_eq!(cost.uncached_tokens(), (4..=10).sum::<usize>());
    let cached = cost.cached().expect("all on record");
    // Four passes of one row each are what the played worker's prefill is made of.
    assert_eq!((cached.tokens, cached.passes), (10, 10));
    let request = bench.measure();
    assert_eq!(request.context, bench.session.ids());
    assert_eq!(request.lengths[..2], [10, 4], "the ends first");
    assert_eq!(
        sorted(request.lengths.clone()),
        (4..=10).collect::<Vec<_>>()
    );
    for &tokens in &request.lengths {
        assert!(!bench.session.cost().is_measured());
        bench.pass(&request, tokens);
    }
    assert_eq!(*bench.state(), MeasurementState::Done);
    let cost = bench.session.cost();
    assert!(cost.is_measured());
    let total = cost.uncached();
    assert_eq!((total.tokens, total.passes), (49, 7));
    assert!((total.ms - (4..=10).map(pass_ms).sum::<f64>()).abs() < 1e-9);
    let ends = cost.uncached_ends().expect("two steps at least");
    assert_eq!((ends.first_ms, ends.last_ms), (pass_ms(4), pass_ms(10)));
    assert_eq!(cost.ratio, Ratio::ContextTooShort { n_ctx: N_CTX });
}

#[test]
fn a_typed_text_is_measured_as_if_it_had_been_generated() {
    let mut bench = Bench::new("Once upon a time");
    let request = bench.measure();
    assert_eq!(sorted(request.lengths), [2, 3, 4]);
    assert!(!bench.session.cost().generated);
    let mut one = Bench::new("Once");
    assert_eq!(one.measure().lengths, [1]);
    assert_eq!(one.session.cost().uncached_tokens(), 1);
}

#[test]
fn sixty_tokens_are_set_against_ten_as_medians_of_passes_in_turns() {
    let text = "Once upon a time ".repeat(16);
    let mut bench = Bench::with(text.trim_end(), model("long", 128, Some(0)));
    assert!(bench.session.len() >= 60);
    assert_eq!(bench.session.cost().ratio, Ratio::NotMeasured);
    let request = bench.measure();
    assert_eq!(request.lengths[..10], [10, 60].repeat(RATIO_PASSES));
    for round in 0..RATIO_PASSES {
        for tokens in RATIO_LENGTHS {
            // One pass in five falls into a pause of the machine.
            let pause = if round == 2 { 500.0 } else { 0.0 };
            bench.event(Event::Measured {
                id: request.id,
                tokens,
                model_ms: pass_ms(tokens) + pause,
            });
        }
    }
    assert_eq!(
        bench.session.cost().ratio,
        Ratio::Measured {
            ms: [pass_ms(10), pass_ms(60)],
            passes: RATIO_PASSES
        }
    );
    let mut short = Bench::with("Once upon a time", model("long", 128, Some(0)));
    assert_eq!(
        short.session.cost().ratio,
        Ratio::TextTooShort { tokens: 4 }
    );
    assert!(short.measure().lengths.iter().all(|&tokens| tokens <= 4));
}

#[test]
fn the_measurement_goes_on_while_the_text_is_continued_and_the_rest_is_measured_later() {
    let mut bench = generated();
    let request = bench.measure();
    bench.pass(&request, 10);
    bench.act(Action::RunOrPause);
    bench.generate(2);
    assert!(matches!(
        bench.state(),
        MeasurementState::Running { done: 1, .. }
    ));
    for tokens in 4..10 {
        bench.pass(&request, tokens);
    }
    assert_eq!(*bench.state(), MeasurementState::Done);
    assert!(!bench.session.cost().is_measured());
    bench.act(Action::Stop);
    let more = bench.measure();
    assert_eq!(sorted(more.lengths.clone()), [11, 12]);
    for tokens in [11, 12] {
        bench.pass(&more, tokens);
    }
    assert!(bench.session.cost().is_measured());
    let again = bench.measure();
    assert_eq!(sorted(again.lengths.clone()), (4..=12).collect::<Vec<_>>());
    bench.event(Event::Measured {
        id: again.id,
        tokens: 12,
        model_ms: pass_ms(12) + 1.0,
    });
    let last = bench.session.cost().steps[11].uncached;
    assert_eq!(last, Some((pass_ms(12) + 0.5, 2)), "the median of both");
}

#[test]
fn an_edit_ends_the_measurement_keeps_the_shared_prefix_and_undo_brings_the_rest_back() {
    let mut bench = generated();
    let request = bench.measure();
    for tokens in [10, 4, 6] {
        bench.pass(&request, tokens);
    }
    bench.act(Action::Select(5));
    let commands = bench.session.apply(Action::Pick(7), bench.now);
    assert!(
        commands
            .iter()
            .any(|command| matches!(command, Command::CancelMeasurement))
    );
    bench.obey(commands);
    assert_eq!(*bench.state(), MeasurementState::Cancelled);
    assert_eq!(bench.measured(), [4], "six tokens are others now");
    // A pass that was on its way is still true of the text it was made of.
    bench.pass(&request, 8);
    assert_eq!(bench.measured(), [4]);
    bench.act(Action::Undo);
    assert_eq!(bench.measured(), [4, 6, 8, 10]);
    let rest = bench.measure();
    assert_eq!(sorted(rest.lengths), [5, 7, 9]);
}

#[test]
fn another_model_begins_anew_and_late_reports_are_of_no_account() {
    let mut bench = generated();
    let request = bench.measure();
    bench.pass(&request, 10);
    bench.act(Action::LoadModel(LoadRequest::new(
        ModelSource::BuiltIn,
        DeviceChoice::Cpu,
    )));
    assert!(bench.session.cannot_measure().is_some());
    assert!(
        bench
            .session
            .apply(Action::MeasureUncached, bench.now)
            .is_empty()
    );
    bench.event(Event::LoadFailed {
        name: "other".to_owned(),
        message: "gone".to_owned(),
        instead: None,
    });
    assert_eq!(bench.measured(), [10], "the model in use is the same");
    bench.event(Event::Loaded(model("first", N_CTX, Some(0))));
    assert!(bench.session.measurement().is_none());
    let anew = bench.measure();
    assert!(anew.id > request.id);
    bench.pass(&request, 4);
    assert_eq!(bench.measured(), Vec::<usize>::new());
}

#[test]
fn a_lost_device_ends_the_measurement_with_its_passes_kept() {
    let mut bench = generated();
    let request = bench.measure();
    bench.pass(&request, 10);
    bench.event(Event::MeasurementFailed {
        id: request.id,
        message: "The device is lost.".to_owned(),
    });
    assert_eq!(
        *bench.state(),
        MeasurementState::Failed("The device is lost.".to_owned())
    );
    assert_eq!(bench.measured(), [10]);
    assert!(bench.session.notice().is_none(), "the panel says it, once");
    assert!(!bench.measure().lengths.contains(&10));
    assert_eq!(bench.session.apply(Action::CancelMeasurement, 0.0).len(), 1);
    assert!(
        bench
            .session
            .apply(Action::CancelMeasurement, 0.0)
            .is_empty()
    );
}

#[test]
fn a_text_that_no_pass_can_take_is_not_measured() {
    let empty = Bench::new("");
    assert_eq!(empty.session.cannot_measure(), Some("The text is empty."));
    let long = Bench::new(&"Once upon a time ".repeat(20));
    assert_eq!(
        long.session.cannot_measure(),
        Some("The text is longer than the context.")
    );
    let unloaded = Session::new("Once", SamplingSettings::default(), Pace::Unlimited);
    assert_eq!(unloaded.cannot_measure(), Some("No model is loaded."));
}

#[test]
fn a_truncated_text_is_measured_over_its_context() {
    let mut bench = Bench::new(&"Once upon a time ".repeat(20));
    bench.act(Action::AcceptTruncation);
    let context = bench.session.context_len();
    let request = bench.measure();
    assert_eq!(request.context.len(), context);
    assert_eq!(bench.session.cost().steps.len(), context);
}
