//! The chart panels as a person uses them: real widgets over a session whose worker the test plays.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use egui::{Key, Ui, Vec2, vec2};
use egui_kittest::{Harness, kittest::Queryable};

use crate::{
    prediction::{LogitsRow, PassTiming, Phase, Prediction},
    sampling::{Mode, SamplingSettings, select},
    session::{Action, Origin, Session},
    ui::{PanelContext, PanelState, Theme, logits, next_token, theme, timeline},
    worker::{Command, Event, ModelInfo, Pace, RunRequest},
};

const N_CTX: usize = 600;

/// Logits that look like a model's, from the position alone: one row never equals another.
fn row(position: usize, vocab_size: usize) -> Vec<f32> {
    let mut state = position as u64 + 1;
    let mut next = || {
        // SplitMix64
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..vocab_size)
        .map(|_| 3.0 * (next() + next() + next() + next() - 2.0) - 3.0)
        .collect()
}

/// A model's logits after a position, for a vocabulary.
type Row = fn(usize, usize) -> Vec<f32>;

/// The window's state as far as these panels see it.
struct Window {
    session: Session,
    panels: PanelState,
    actions: Vec<Action>,
    now: f64,
    scale: f32,
    row: Row,
}

impl Window {
    fn new(text: &str, settings: SamplingSettings, row: Row) -> Self {
        let model = ModelInfo::of_test("played", N_CTX);
        let session = Session::new(text, settings, Pace::Unlimited);
        let mut window = Self {
            session,
            panels: PanelState::default(),
            actions: Vec::new(),
            now: 0.0,
            scale: 1.0,
            row,
        };
        let commands = window.session.on_event(Event::Loaded(Arc::new(model)), 0.0);
        window.obey(commands);
        window
    }

    fn act(&mut self, action: Action) {
        self.now += 10.0;
        let commands = self.session.apply(action, self.now);
        self.obey(commands);
    }

    fn event(&mut self, event: Event) {
        let commands = self.session.on_event(event, self.now);
        self.obey(commands);
    }

    fn obey(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Predict {
                    epoch,
                    context,
                    from,
                } => {
                    self.prefill(epoch, context.len(), from);
                    self.event(Event::Stopped {
                        epoch,
                        reason: None,
                    });
                }
                Command::Run(request) => self.run(request),
                _ => {}
            }
        }
    }

    fn values(&self, position: usize) -> Vec<f32> {
        (self.row)(
            position,
            self.session.model().map_or(0, |model| model.vocab_size),
        )
    }

    fn prediction(&self, position: usize, timing: PassTiming) -> Prediction {
        let logits = Some(Arc::new(LogitsRow::new(self.values(position))));
        Prediction {
            logits,
            attention: None,
            timing: Arc::new(timing),
        }
    }

    fn prefill(&mut self, epoch: u64, len: usize, from: usize) {
        let rows = len - from;
        let timing = Arc::new(PassTiming {
            phase: Phase::Prefill,
            first: from,
            rows,
            model_ms: 8.4,
            record_ms: 0.2,
        });
        let logits = |at| Some(Arc::new(LogitsRow::new(self.values(at))));
        let prediction = |at| Prediction {
            logits: logits(at),
            attention: None,
            timing: timing.clone(),
        };
        let predictions = (from..len).map(prediction).collect();
        self.event(Event::Predicted {
            epoch,
            first: from,
            predictions,
        });
    }

    fn run(&mut self, mut request: RunRequest) {
        let epoch = request.epoch;
        if request.from < request.context.len() {
            self.prefill(epoch, request.context.len(), request.from);
        }
        for _ in 0..request.budget {
            let at = request.context.len();
            let values = self.values(at - 1);
            let choice = select(&values, &request.context, &request.settings, at as u64, 0);
            request.context.push(choice.id);
            self.event(Event::Chosen {
                epoch,
                choice,
                settings: request.settings.clone(),
            });
            let timing = PassTiming {
                phase: Phase::Decode,
                first: at,
                rows: 1,
                model_ms: 3.0,
                record_ms: 0.1,
            };
            let predictions = vec![self.prediction(at, timing)];
            self.event(Event::Predicted {
                epoch,
                first: at,
                predictions,
            });
        }
        self.event(Event::Stopped {
            epoch,
            reason: None,
        });
    }

    fn show(&mut self, ui: &mut Ui, panel: fn(&mut Ui, &mut PanelContext) -> egui::Response) {
        Theme::LIGHT.apply(ui.ctx(), self.scale);
        self.session.refresh_view();
        let mut ctx = PanelContext {
            session: &self.session,
            theme: &Theme::LIGHT,
            scale: self.scale,
            actions: &mut self.actions,
            panels: &mut self.panels,
            gpu: None,
            now: self.now,
        };
        panel(ui, &mut ctx);
        for action in std::mem::take(&mut self.actions) {
            self.act(action);
        }
    }
}

type Shared = Rc<RefCell<Window>>;

fn window(text: &str, settings: SamplingSettings, tokens: usize) -> Shared {
    let mut window = Window::new(
        text,
        SamplingSettings {
            max_new_tokens: tokens,
            ..settings
        },
        row,
    );
    if tokens > 0 {
        window.act(Action::RunOrPause);
    }
    Rc::new(RefCell::new(window))
}

fn harness(
    window: &Shared,
    size: Vec2,
    panel: fn(&mut Ui, &mut PanelContext) -> egui::Response,
) -> Harness<'static> {
    let window = window.clone();
    Harness::builder()
        .with_size(size)
        .with_context_setup(|ctx| {
            ctx.set_fonts(theme::fonts());
            ctx.add_font(egui_material_icons::font_insert());
        })
        .build_ui(move |ui| window.borrow_mut().show(ui, panel))
}

const NEXT_TOKEN: Vec2 = vec2(420.0, 640.0);
const LOGITS: Vec2 = vec2(540.0, 310.0);
const TIMELINE: Vec2 = vec2(1400.0, 150.0);

#[test]
fn a_click_on_a_row_continues_with_its_token() {
    let shared = window("Once upon a time", SamplingSettings::default(), 0);
    let mut harness = harness(&shared, NEXT_TOKEN, next_token::show);
    harness.run();
    let before = shared.borrow().session.len();
    harness.get_by_label_contains(", rank 3, model P").click();
    harness.run();
    let window = shared.borrow();
    assert_eq!(window.session.len(), before + 1);
    let node = window.session.node(before).expect("the picked token");
    assert_eq!(node.origin, Origin::Picked);
    assert_eq!(node.score.map(|score| score.rank), Some(3));
}

#[test]
fn a_row_is_picked_with_the_keyboard() {
    let shared = window("Once upon a time", SamplingSettings::default(), 0);
    let mut harness = harness(&shared, NEXT_TOKEN, next_token::show);
    harness.run();
    let before = shared.borrow().session.len();
    harness.get_by_label_contains(", rank 2, model P").focus();
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    assert_eq!(shared.borrow().session.len(), before + 1);
}

#[test]
fn any_token_is_found_and_can_be_picked() {
    let shared = window("Once upon a time", SamplingSettings::default(), 0);
    let mut harness = harness(&shared, NEXT_TOKEN, next_token::show);
    harness.run();
    harness.get_by_label("Find a token by text or id").focus();
    harness.run();
    harness.event(egui::Event::Text("#14".to_owned()));
    harness.run();
    let id = 14;
    let label = shared
        .borrow()
        .session
        .tokenizer()
        .map(|tokenizer| tokenizer.label(id))
        .expect("a tokenizer");
    // Enter leaves the field for the first match, and picks it when pressed again.
    harness.key_press(Key::Enter);
    harness.run();
    assert!(
        harness
            .get_by_label_contains(&format!("{label}, rank "))
            .is_focused()
    );
    harness.key_press(Key::Enter);
    harness.run();
    let window = shared.borrow();
    assert_eq!(window.session.ids().last(), Some(&id));
}

#[test]
fn what_a_filter_cut_and_what_was_chosen_is_said() {
    let settings = SamplingSettings {
        top_k: 5,
        top_p: 1.0,
        ..Default::default()
    };
    let shared = window("Once upon a time", settings, 4);
    shared.borrow_mut().act(Action::Back);
    let mut harness = harness(&shared, NEXT_TOKEN, next_token::show);
    harness.run();
    assert_eq!(
        harness
            .query_all_by_label_contains(", cut by top-k 5")
            .count(),
        15,
        "a row each"
    );
    harness.get_by_label_contains("hollow: cut");
    assert_eq!(harness.query_all_by_label_contains(", chosen").count(), 1);
    harness.get_by_label_contains("top-k cut ");
}

#[test]
fn a_chosen_token_outside_the_top_has_its_own_row() {
    let shared = window("Once upon a time", SamplingSettings::default(), 0);
    let mut harness = harness(&shared, NEXT_TOKEN, next_token::show);
    harness.run();
    let far = crate::sampling::top(&row(shared.borrow().session.len() - 1, 4096), 3000)[2999];
    {
        let mut window = shared.borrow_mut();
        window.act(Action::Pick(far));
        window.act(Action::Back);
    }
    harness.run();
    harness.get_by_label_contains(", rank 3000, model P <0.1 %, cut by top-k 40");
    assert_eq!(
        harness.query_all_by_label_contains(", model P ").count(),
        21
    );
}

#[test]
fn the_temperature_reshapes_a_past_step_without_the_model() {
    let shared = window("Once upon a time", SamplingSettings::default(), 6);
    shared.borrow_mut().act(Action::Select(5));
    let mut harness = harness(&shared, LOGITS, logits::show);
    harness.run();
    assert!(harness.query_all_by_label_contains("at T 0.80").count() > 6);
    let tokens = shared.borrow().session.len();
    let hotter = SamplingSettings {
        temperature: 1.3,
        ..(**shared.borrow().session.settings()).clone()
    };
    shared
        .borrow_mut()
        .act(Action::SetSettings(Arc::new(hotter)));
    harness.run();
    assert!(harness.query_all_by_label_contains("at T 1.30").count() > 6);
    harness.get_by_label_contains("T 1.3; drawn at 0.8 · Esc shows it as drawn");
    assert_eq!(shared.borrow().session.len(), tokens);
}

#[test]
fn the_slider_beside_the_title_sets_the_sessions_temperature() {
    let shared = window("Once upon a time", SamplingSettings::default(), 3);
    let mut harness = harness(&shared, LOGITS, logits::show);
    harness.run();
    harness
        .get_by_role_and_label(egui::accesskit::Role::Slider, "Temperature of the softmax")
        .set_value_accesskit(1.5);
    harness.run();
    assert_eq!(shared.borrow().session.settings().temperature, 1.5);
    assert!(harness.query_all_by_label_contains("at T 1.50").count() > 6);
    shared.borrow_mut().act(Action::ReleaseWhatIf);
    harness.run();
    assert!(
        harness.query_all_by_label_contains("at T 0.80").count() > 6,
        "as it was drawn"
    );
}

#[test]
fn greedy_is_shown_at_one_and_says_so() {
    let settings = SamplingSettings {
        mode: Mode::Greedy,
        ..Default::default()
    };
    let shared = window("Once upon a time", settings, 2);
    let mut harness = harness(&shared, LOGITS, logits::show);
    harness.run();
    harness.get_by_label_contains("e^(z/T) / Σ e^(z/T) over 4,096 tokens · T 1, greedy uses none");
}

#[test]
fn a_pinned_token_stays_until_it_is_released() {
    let shared = window("Once upon a time", SamplingSettings::default(), 3);
    let mut harness = harness(&shared, LOGITS, logits::show);
    harness.run();
    harness.get_by_label_contains(", rank 4096, logit").click();
    harness.run();
    assert_eq!(harness.query_all_by_label_contains(", pinned").count(), 1);
    shared.borrow_mut().act(Action::Back);
    harness.run();
    assert_eq!(
        harness.query_all_by_label_contains(", pinned").count(),
        1,
        "another step, the same token"
    );
    shared.borrow_mut().panels.release_pins();
    harness.run();
    assert_eq!(harness.query_all_by_label_contains(", pinned").count(), 0);
}

#[test]
fn the_playhead_moves_with_pointer_and_keyboard() {
    let shared = window("Once upon a time", SamplingSettings::default(), 20);
    let mut harness = harness(&shared, TIMELINE, timeline::show);
    harness.run();
    let chart = harness.get_by_label_contains("Timeline, step ");
    let at = chart.rect().left_top() + vec2(3.5 * 27.0, 30.0);
    harness.hover_at(at);
    harness.run();
    assert_eq!(shared.borrow().panels.hovered_token, Some(3));
    harness.drag_at(at);
    harness.drop_at(at);
    harness.run();
    assert_eq!(shared.borrow().session.selected(), 3);
    harness.key_press(Key::ArrowRight);
    harness.run();
    assert_eq!(shared.borrow().session.selected(), 4);
    harness.key_press(Key::End);
    harness.run();
    assert!(shared.borrow().session.is_open_step());
    harness.hover_at(egui::pos2(10.0, 10.0));
    harness.run();
    assert_eq!(shared.borrow().panels.hovered_token, None);
}

/// Sizes from nothing to a projector, steps without a prediction, rows without numbers: nothing panics.
#[test]
fn odd_sizes_and_odd_numbers_are_drawn() {
    let with = |text, row: Row| {
        Rc::new(RefCell::new(Window::new(
            text,
            SamplingSettings::default(),
            row,
        )))
    };
    let windows = [
        with("", row),
        with("Once", row),
        window(
            "Once upon a time",
            SamplingSettings {
                temperature: 1e-6,
                ..Default::default()
            },
            500,
        ),
        with("Once upon a time", |_, n| vec![f32::NAN; n]),
        with("Once upon a time", |_, n| vec![f32::NEG_INFINITY; n]),
        with("Once upon a time", |_, n| {
            (0..n)
                .map(|i| if i % 3 == 0 { f32::INFINITY } else { 1e38 })
                .collect()
        }),
        with("Once upon a time", |_, n| {
            (0..n)
                .map(|i| if i % 2 == 0 { f32::NAN } else { -1e38 })
                .collect()
        }),
    ];
    for shared in windows {
        for panel in [next_token::show, logits::show, timeline::show] {
            for size in [
                vec2(1.0, 1.0),
                vec2(60.0, 40.0),
                vec2(160.0, 120.0),
                vec2(420.0, 640.0),
                vec2(1900.0, 1000.0),
            ] {
                for scale in [1.0, 2.5] {
                    shared.borrow_mut().scale = scale;
                    let mut harness = harness(&shared, size, panel);
                    harness.run_ok();
                    let len = shared.borrow().session.len();
                    for step in [0, len / 2, len] {
                        shared.borrow_mut().act(Action::Select(step));
                        harness.run_ok();
                    }
                }
            }
        }
    }
}
