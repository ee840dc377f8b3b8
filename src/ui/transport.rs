//! The bar at the top: model menu, transport, examples, panels, type scale, appearance.

use egui::containers::menu::MenuButton;
use egui::{Align, Button, Layout, Response, RichText, ScrollArea, TextWrapMode, Ui};
use egui_material_icons::{
    MaterialIcon,
    icons::{
        ICON_CHEVRON_LEFT, ICON_CHEVRON_RIGHT, ICON_CONTRAST, ICON_FORMAT_SIZE, ICON_INFO,
        ICON_KEYBOARD_ARROW_DOWN, ICON_LAST_PAGE, ICON_MORE_HORIZ, ICON_PAUSE, ICON_PLAY_ARROW,
        ICON_SKIP_NEXT, ICON_STOP,
    },
};

use super::{
    Panel, PanelContext,
    dock::Dock,
    hub_menu,
    open_model::memory,
    theme::{GUTTER, semibold},
};
use crate::{
    download::DownloadView,
    model::{DeviceChoice, LoadRequest, ModelSource, Precision, WeightOptions},
    picker::Pick,
    session::{Action, Activity, FIRST_TEXT, Session},
    worker::Pace,
};

/// Ten prompts to begin with: the chapter's own among them, and one whose greedy run loops.
pub const EXAMPLES: [(&str, &str); 10] = [
    ("Once upon a time", FIRST_TEXT),
    ("The cat sat on the", "The cat sat on the"),
    (
        "Greedy loops here",
        "The king said to the queen, \"I will go to the",
    ),
    (
        "There was once a king",
        "There was once a king who had three daughters; the youngest was",
    ),
    (
        "An open question",
        "\"Where are you going?\" said the wolf. \"",
    ),
    (
        "Almost certain",
        "Once upon a time there was a little boy who had a little dog. The little boy loved his little",
    ),
    ("A list", "One, two, three, four,"),
    ("Who speaks?", "The fox looked up at the crow and said,"),
    (
        "Far from the training text",
        "The server returned an error because",
    ),
    (
        "A rhyme",
        "Twinkle, twinkle, little star, how I wonder what you",
    ),
];

/// What the bar asks of the window itself.
#[derive(Clone, Debug, PartialEq)]
pub enum WindowWish {
    Pick(Pick),
    /// Use a model of the Hub by name; download it where it is not on this computer.
    Fetch(String),
    CancelFetch,
    Appearance {
        dark: bool,
    },
    Scale(f32),
}

/// Where models run and how their weights are kept; remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Place {
    pub device: DeviceChoice,
    pub weights: WeightOptions,
}

impl Place {
    /// On a device, with weights in f32.
    pub fn on(device: DeviceChoice) -> Self {
        Self {
            device,
            ..Self::default()
        }
    }

    pub fn request(&self, source: ModelSource) -> LoadRequest {
        LoadRequest {
            source,
            device: self.device,
            weights: self.weights,
        }
    }
}

/// Type scales on offer.
pub const SCALES: [f32; 6] = [1.0, 1.25, 1.5, 1.75, 2.0, 2.5];

pub fn show(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    dock: &mut Dock,
    place: &mut Place,
    recent: &[std::path::PathBuf],
    download: Option<&DownloadView>,
    dock_size: egui::Vec2,
) -> Vec<WindowWish> {
    let mut wishes = Vec::new();
    let room = Room::of(ui.available_width() / ctx.scale);
    ui.horizontal_centered(|ui| {
        model_menu(ui, ctx, place, recent, download, room, &mut wishes);
        if room == Room::Words {
            let center = 520.0 * ctx.scale;
            let left = ui.max_rect().center().x - center / 2.0 - ui.cursor().left();
            ui.add_space(left.max(8.0));
        }
        transport(ui, ctx, room);
        if room == Room::Tight {
            more_menu(ui, ctx, dock, dock_size, &mut wishes);
            return;
        }
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let dark = ctx.theme.dark;
            let name = appearance_name(dark);
            if icon(ui, ICON_CONTRAST, name, "").clicked() {
                wishes.push(WindowWish::Appearance { dark: !dark });
            }
            let button = Button::new(ICON_FORMAT_SIZE.rich_text());
            named_menu(ui, button, "Type size", |ui| {
                scales(ui, ctx.scale, &mut wishes)
            });
            ui.menu_button("Panels", |ui| {
                scrolling(ui, |ui| panels(ui, ctx, dock, dock_size))
            });
            ui.menu_button("Examples", |ui| scrolling(ui, |ui| examples(ui, ctx)));
        });
    });
    wishes
}

/// How much of the bar fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    /// Icons with words.
    Words,
    /// Icons; names in tooltips.
    Icons,
    /// Icons, and everything but the transport in one menu.
    Tight,
}

impl Room {
    /// For a bar this wide, in points at 100 % type.
    fn of(width: f32) -> Self {
        match width {
            w if w >= 1120.0 => Self::Words,
            w if w >= 800.0 => Self::Icons,
            _ => Self::Tight,
        }
    }
}

fn appearance_name(dark: bool) -> &'static str {
    if dark {
        "Light appearance"
    } else {
        "Dark appearance"
    }
}

/// A menu is no lower, wherever it opens.
const LEAST_MENU_POINTS: f32 = 160.0;

/// A menu that scrolls where the window is too low for it.
fn scrolling(ui: &mut Ui, content: impl FnOnce(&mut Ui)) {
    // A menu's own ui knows only a default height.
    let room = ui.ctx().content_rect().bottom() - ui.cursor().top() - GUTTER;
    let room = room.max(LEAST_MENU_POINTS);
    ui.style_mut().wrap_mode = Some(TextWrapMode::Extend);
    ScrollArea::vertical()
        .max_height(room)
        .min_scrolled_height(room)
        .show(ui, content);
}

fn named_menu(ui: &mut Ui, button: Button, name: &str, content: impl FnOnce(&mut Ui)) {
    let (response, _) = MenuButton::from_button(button).ui(ui, content);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name));
}

/// Everything that a narrow bar has no room for.
fn more_menu(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    dock: &mut Dock,
    size: egui::Vec2,
    wishes: &mut Vec<WindowWish>,
) {
    named_menu(ui, Button::new(ICON_MORE_HORIZ.rich_text()), "More", |ui| {
        ui.menu_button("Pace", |ui| paces(ui, ctx));
        ui.menu_button("Examples", |ui| scrolling(ui, |ui| examples(ui, ctx)));
        ui.menu_button("Panels", |ui| {
            scrolling(ui, |ui| panels(ui, ctx, dock, size))
        });
        ui.menu_button("Type size", |ui| scales(ui, ctx.scale, wishes));
        let dark = ctx.theme.dark;
        if ui.button(appearance_name(dark)).clicked() {
            wishes.push(WindowWish::Appearance { dark: !dark });
        }
    });
}

fn icon(ui: &mut Ui, icon: MaterialIcon, name: &str, key: &str) -> Response {
    let response = ui.add(Button::new(icon.rich_text()));
    let hover = if key.is_empty() {
        name.to_owned()
    } else {
        format!("{name} ({key})")
    };
    let name = name.to_owned();
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    response.on_hover_text(hover)
}

// ---- model -------------------------------------------------------------------------------------------------------

fn model_menu(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    place: &mut Place,
    recent: &[std::path::PathBuf],
    download: Option<&DownloadView>,
    room: Room,
    wishes: &mut Vec<WindowWish>,
) {
    let name = model_name(ctx.session);
    let button = Button::new((
        RichText::new(&name).family(semibold()),
        ICON_KEYBOARD_ARROW_DOWN.rich_text(),
    ))
    .frame(false);
    let (response, _) = MenuButton::from_button(button).ui(ui, |ui| {
        scrolling(ui, |ui| {
            ui.set_min_width(260.0 * ctx.scale);
            if ui.button("storyteller (built in)").clicked() {
                ctx.act(Action::LoadModel(place.request(ModelSource::BuiltIn)));
            }
            if ui
            .button("Open a folder…")
            .on_hover_text(
                "A GPT-2 in Hugging Face layout: config.json, model.safetensors, tokenizer.json",
            )
            .clicked()
        {
            wishes.push(WindowWish::Pick(Pick::Folder));
        }
            if ui
                .button("Open a file…")
                .on_hover_text("One of a model's files: it stands for the folder that it lies in")
                .clicked()
            {
                wishes.push(WindowWish::Pick(Pick::File));
            }
            for folder in recent {
                let source = ModelSource::Folder(folder.clone());
                if ui
                    .button(source.name())
                    .on_hover_text(folder.display().to_string())
                    .clicked()
                {
                    ctx.act(Action::LoadModel(place.request(source)));
                }
            }
            if ui
                .button("Typed numbers (toy)")
                .on_hover_text("Numbers that you type in the Toy panel, in a model's place")
                .clicked()
                && let Ok(toy) = ctx.panels.toy.sheet().read()
            {
                ctx.act(Action::LoadModel(
                    place.request(ModelSource::Toy(toy.into())),
                ));
            }
            ui.separator();
            hub_menu::names(ui, ctx, place.weights.precision, download, wishes);
            ui.separator();
            places(ui, ctx, place);
        });
    });
    let label = format!("Model: {name}");
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &label));
    if let Some(download) = download {
        hub_menu::progress(ui, ctx, download, wishes);
    }
    if let Some(model) = ctx.session.model() {
        notes(ui, ctx, &model.notes);
    }
    if ctx.session.loading().is_some() {
        loading(ui, ctx);
    } else if room == Room::Words
        && download.is_none()
        && let Some(model) = ctx.session.model()
    {
        let text = match model.toy() {
            Some(_) => format!("{}, no model", model.device),
            None => format!(
                "{} · {} layers × {} heads",
                parameters(model.parameters),
                model.n_layer,
                model.n_head
            ),
        };
        ui.label(RichText::new(text).color(ctx.theme.dim));
    }
}

/// Where the model runs and in what precision; a change loads the model anew.
fn places(ui: &mut Ui, ctx: &mut PanelContext, place: &mut Place) {
    let before = *place;
    ui.label(RichText::new("Device").small().color(ctx.theme.dim));
    ui.radio_value(&mut place.device, DeviceChoice::Auto, "automatic")
        .on_hover_text("A real GPU, else the CPU");
    ui.radio_value(&mut place.device, DeviceChoice::Cpu, "CPU");
    ui.radio_value(&mut place.device, DeviceChoice::Gpu, "GPU")
        .on_hover_text("Any graphics adapter, a software one too");
    ui.separator();
    ui.label(RichText::new("Weights").small().color(ctx.theme.dim));
    let model = ctx.session.model().filter(|model| model.toy().is_none());
    let weights = model.map(|model| model.weight_bytes);
    for precision in Precision::ALL {
        let label = match weights {
            Some(weights) => format!("{precision}: {}", memory(weights, precision)),
            None => precision.to_string(),
        };
        ui.radio_value(&mut place.weights.precision, precision, label)
            .on_hover_text(format!(
                "{}; what the loaded model takes",
                precision.describe()
            ));
    }
    if *place != before
        && let Some(model) = ctx.session.model().filter(|model| model.toy().is_none())
    {
        let source = model.source.clone();
        ctx.act(Action::LoadModel(place.request(source)));
    }
}

/// What was done to make the files fit, behind a mark beside the model's name.
fn notes(ui: &mut Ui, ctx: &PanelContext, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let text = notes.join("\n");
    let mark = Button::new(ICON_INFO.rich_text().color(ctx.theme.dim)).frame(false);
    let (response, _) = MenuButton::from_button(mark).ui(ui, |ui| {
        ui.set_max_width(360.0 * ctx.scale);
        for note in notes {
            ui.add(egui::Label::new(sentence(note)).wrap());
        }
    });
    let name = format!("About this model: {}", notes.join("; "));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &name));
    response.on_hover_text(text);
}

/// With a capital first and a full stop.
fn sentence(note: &str) -> String {
    let mut letters = note.chars();
    letters.next().map_or_else(String::new, |first| {
        format!("{}{}.", first.to_uppercase(), letters.as_str())
    })
}

fn model_name(session: &Session) -> String {
    match (session.model(), session.loading()) {
        (Some(model), _) => model.name.clone(),
        (None, Some(loading)) => loading.name.clone(),
        (None, None) => "Choose a model".to_owned(),
    }
}

fn loading(ui: &mut Ui, ctx: &mut PanelContext) {
    let Some(loading) = ctx.session.loading() else {
        return;
    };
    let share = if loading.total_bytes == 0 {
        0.0
    } else {
        loading.done_bytes as f32 / loading.total_bytes as f32
    };
    ui.add(
        egui::ProgressBar::new(share)
            .desired_width(120.0 * ctx.scale)
            .text(format!("{:.0} %", 100.0 * share)),
    );
    if ui.button("Cancel").clicked() {
        ctx.act(Action::CancelLoad);
    }
}

/// Parameter count in the usual short form.
pub fn parameters(count: u64) -> String {
    match count {
        n if n >= 1_000_000_000 => format!("{:.2} B", n as f64 / 1e9),
        n if n >= 1_000_000 => format!("{:.1} M", n as f64 / 1e6),
        n if n >= 1_000 => format!("{:.0} k", n as f64 / 1e3),
        n => n.to_string(),
    }
}

// ---- transport ---------------------------------------------------------------------------------------------------

fn transport(ui: &mut Ui, ctx: &mut PanelContext, room: Room) {
    let roomy = room == Room::Words;
    let session = ctx.session;
    let mut wish = None;
    ui.add_enabled_ui(session.selected() > 0, |ui| {
        if labelled(ui, ICON_CHEVRON_LEFT, "Back", "F7", roomy).clicked() {
            wish = Some(Action::Back);
        }
    });
    ui.add_enabled_ui(!session.is_open_step(), |ui| {
        if labelled(ui, ICON_CHEVRON_RIGHT, "Forward", "F8", roomy).clicked() {
            wish = Some(Action::Forward);
        }
    });
    if run_button(ui, ctx).clicked() {
        wish = Some(Action::RunOrPause);
    }
    if labelled(ui, ICON_SKIP_NEXT, "Step", "F10", roomy)
        .on_hover_text("One token")
        .clicked()
    {
        wish = Some(Action::Step);
    }
    let can_stop = session.is_running()
        || matches!(session.activity(), Activity::Paused | Activity::Predicting);
    ui.add_enabled_ui(can_stop, |ui| {
        if labelled(ui, ICON_STOP, "Stop", "Shift+F5", roomy).clicked() {
            wish = Some(Action::Stop);
        }
    });
    let live = session.follows();
    ui.add_enabled_ui(!live, |ui| {
        if labelled(ui, ICON_LAST_PAGE, "Live", "F9", roomy)
            .on_hover_text("Return to the newest step")
            .clicked()
        {
            wish = Some(Action::Live);
        }
    });
    if room != Room::Tight {
        let response = egui::ComboBox::from_id_salt("pace")
            .width(118.0 * ctx.scale)
            .selected_text(session.pace().label())
            .show_ui(ui, |ui| paces(ui, ctx));
        response
            .response
            .widget_info(|| egui::WidgetInfo::labeled(egui::Role::ComboBox, true, "Pace"));
    }
    ctx.actions.extend(wish);
}

fn labelled(ui: &mut Ui, symbol: MaterialIcon, name: &str, key: &str, roomy: bool) -> Response {
    if !roomy {
        return icon(ui, symbol, name, key);
    }
    let response = ui.add(Button::new((symbol.rich_text(), name)));
    let label = name.to_owned();
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &label));
    response.on_hover_text(format!("{name} ({key})"))
}

fn paces(ui: &mut Ui, ctx: &mut PanelContext) {
    let mut pace = ctx.session.pace();
    for choice in Pace::CHOICES {
        ui.selectable_value(&mut pace, choice, choice.label());
    }
    if pace != ctx.session.pace() {
        ctx.act(Action::SetPace(pace));
    }
}

/// The one loud control: ink on ground turned round.
fn run_button(ui: &mut Ui, ctx: &PanelContext) -> Response {
    let theme = ctx.theme;
    let running = ctx.session.activity() == Activity::Running;
    let queued = ctx
        .session
        .loading()
        .is_some_and(|loading| loading.run_queued);
    let (symbol, name) = match (running, queued) {
        (true, _) => (ICON_PAUSE, "Pause"),
        (false, true) => (ICON_PLAY_ARROW, "Queued"),
        (false, false) => (ICON_PLAY_ARROW, "Run"),
    };
    let text = RichText::new(name).family(semibold()).color(theme.panel);
    let button = Button::new((symbol.rich_text().color(theme.panel), text))
        .fill(theme.ink)
        .min_size(egui::vec2(88.0, 0.0) * ctx.scale);
    let response = ui.add(button);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, name));
    response.on_hover_text(format!("{name} (F5)"))
}

// ---- menus on the right ------------------------------------------------------------------------------------------

fn examples(ui: &mut Ui, ctx: &mut PanelContext) {
    ui.set_min_width(280.0 * ctx.scale);
    for (name, text) in EXAMPLES {
        if ui.button(name).on_hover_text(text).clicked() {
            ctx.act(Action::Example(text.to_owned()));
        }
    }
}

fn panels(ui: &mut Ui, ctx: &PanelContext, dock: &mut Dock, size: egui::Vec2) {
    for panel in Panel::ALL {
        let mut open = dock.is_open(panel, size, ctx.scale);
        if ui.checkbox(&mut open, panel.title()).changed() {
            dock.set_open(panel, open, size, ctx.scale);
        }
    }
    ui.separator();
    ui.menu_button("Show one alone", |ui| {
        for panel in Panel::ALL {
            if ui.radio(dock.alone == Some(panel), panel.title()).clicked() {
                dock.alone = Some(panel);
                ui.close();
            }
        }
    });
    if ui
        .add_enabled(dock.alone.is_some(), Button::new("Show all"))
        .clicked()
    {
        dock.alone = None;
    }
    if ui.button("Reset layout").clicked() {
        dock.reset();
    }
}

fn scales(ui: &mut Ui, current: f32, wishes: &mut Vec<WindowWish>) {
    for scale in SCALES {
        if ui
            .radio(
                (current - scale).abs() < 0.01,
                format!("{:.0} %", 100.0 * scale),
            )
            .clicked()
        {
            wishes.push(WindowWish::Scale(scale));
            ui.close();
        }
    }
}
