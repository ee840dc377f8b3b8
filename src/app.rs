//! The window: takes in the worker's events, shows the panels, carries out what they ask for.

use std::{path::PathBuf, time::Duration};

use eframe::{CreationContext, Frame};
use egui::{
    CentralPanel, Context, Event as InputEvent, Key, KeyboardShortcut, Modifiers,
    Panel as EdgePanel, Ui,
};

use crate::{
    download::Download,
    export::{Job, Saver},
    hub::{Hub, HubError, RepoId, Revision},
    model::ModelSource,
    picker::Picker,
    session::{Action, Session},
    store::{Remembered, Store},
    ui::{
        PanelContext, Theme,
        card::mark_typed,
        files,
        notice::{self, Answer, Notice},
        open_model::{Decision, OpenModel},
        status,
        text::editor_id,
        theme::{self, GUTTER},
        transport::{self, Place, SCALES, WindowWish},
    },
    worker::{Command, WorkerHandle},
};

/// Least time between two writes of what is remembered.
const WRITE_INTERVAL_SECONDS: f64 = 1.0;

/// The window's state around a [`Session`].
pub struct App {
    session: Session,
    worker: WorkerHandle,
    store: Store,
    remembered: Remembered,
    actions: Vec<Action>,
    theme: &'static Theme,
    /// Appearance and type scale that egui's style was last set to.
    applied: Option<(bool, f32)>,
    /// Asks which model is to be opened.
    picker: Picker,
    /// A model that is being downloaded.
    download: Option<Download>,
    /// Where models by name come from; read from the environment when one is asked for, unless set.
    hub: Option<Hub>,
    /// A notice about the window itself; the session's own come from it.
    notice: Option<Notice>,
    saver: Saver,
    /// The built-in model took the place of one that could not be loaded at the start.
    fell_back: bool,
    /// A model that was picked and waits for a decision.
    opening: Option<OpenModel>,
    written_at: f64,
    /// Something may have changed since.
    unwritten: bool,
    dock_size: egui::Vec2,
}

impl App {
    /// Opens the window's state and asks the worker for the model that was last in use, or for `model`.
    pub fn new(
        cc: &CreationContext,
        worker: WorkerHandle,
        store: Store,
        model: Option<ModelSource>,
    ) -> Self {
        Self::with(cc, worker, store, model, |_| {})
    }

    /// The same where the command line has a say in what is remembered of device and weights.
    pub fn with(
        cc: &CreationContext,
        worker: WorkerHandle,
        mut store: Store,
        model: Option<ModelSource>,
        place: impl FnOnce(&mut Place),
    ) -> Self {
        let mut remembered = store.read();
        place(&mut remembered.place);
        cc.egui_ctx.set_fonts(theme::fonts());
        cc.egui_ctx.add_font(egui_material_icons::font_insert());
        cc.egui_ctx
            .options_mut(|options| options.zoom_with_keyboard = false);
        let mut session = Session::new(
            &remembered.text,
            remembered.settings.clone(),
            remembered.pace,
        );
        let typed = remembered.toy_in_use.then(|| remembered.panels.toy.sheet());
        let typed = typed.and_then(|sheet| sheet.read().ok());
        let source = model.or(typed.map(|toy| ModelSource::Toy(toy.into())));
        let source = source.unwrap_or_else(|| {
            remembered
                .model
                .clone()
                .map_or(ModelSource::BuiltIn, ModelSource::Folder)
        });
        for command in session.apply(Action::LoadModel(remembered.place.request(source)), 0.0) {
            worker.send(command);
        }
        remembered.scale = remembered.scale.clamp(SCALES[0], SCALES[SCALES.len() - 1]);
        let dark = remembered
            .dark
            .unwrap_or_else(|| cc.egui_ctx.system_theme() == Some(egui::Theme::Dark));
        Self {
            session,
            worker,
            store,
            remembered,
            actions: Vec::new(),
            theme: Theme::of(dark),
            applied: None,
            picker: Picker::native(),
            download: None,
            hub: None,
            notice: None,
            saver: Saver::default(),
            fell_back: false,
            opening: None,
            written_at: 0.0,
            unwritten: true,
            dock_size: egui::Vec2::ZERO,
        }
    }

    /// Takes models by name from this Hub and no other.
    pub fn set_hub(&mut self, hub: Hub) {
        self.hub = Some(hub);
    }

    /// How much may be recorded, in bytes, the window's own copies included.
    pub fn set_budget_bytes(&mut self, bytes: usize) {
        self.session.set_budget_bytes(bytes);
    }

    /// Asks in another way which model is to be opened.
    pub fn set_picker(&mut self, picker: Picker) {
        self.picker = picker;
    }

    /// Asks in another way where files are to go.
    pub fn set_saver(&mut self, saver: Saver) {
        self.saver = saver;
    }

    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What is remembered at the next write.
    pub fn remembered(&self) -> &Remembered {
        &self.remembered
    }

    fn send(&self, commands: Vec<Command>) {
        for command in commands {
            self.worker.send(command);
        }
    }

    fn apply(&mut self, action: Action, now: f64) {
        let commands = self.session.apply(action, now);
        self.send(commands);
    }

    // ---- before drawing ------------------------------------------------------------------------------------------

    fn take_in_events(&mut self, ctx: &Context, now: f64) {
        while let Some(event) = self.worker.try_event() {
            self.unwritten = true;
            let failed_at_start = matches!(event, crate::worker::Event::LoadFailed { .. })
                && self.session.model().is_none();
            let commands = self.session.on_event(event, now);
            self.send(commands);
            if failed_at_start && !self.fell_back {
                // What was asked for, or the folder of last time, is gone or broken: the built-in model always works.
                self.fell_back = true;
                self.remembered.model = None;
                self.apply(
                    Action::LoadModel(self.remembered.place.request(ModelSource::BuiltIn)),
                    now,
                );
            }
        }
        self.note_model();
        let commands = self.session.tick(now);
        self.send(commands);
        if let Some(at) = self.session.next_tick() {
            ctx.request_repaint_after(Duration::from_secs_f64((at - now).max(0.0)));
        }
    }

    /// Remembers which model is in use.
    fn note_model(&mut self) {
        let Some(model) = self.session.model() else {
            return;
        };
        let toy = model.toy();
        self.remembered.toy_in_use = toy.is_some();
        if let Some(toy) = toy {
            self.remembered.panels.toy.follow(toy);
        }
        let folder = match &model.source {
            ModelSource::Folder(folder) => Some(folder.clone()),
            _ => None,
        };
        if folder != self.remembered.model && self.session.loading().is_none() {
            if let Some(folder) = &folder {
                self.remembered.note_recent(folder);
            }
            self.remembered.model = folder;
        }
    }

    fn take_in_folder(&mut self, ctx: &Context) {
        let dropped = ctx.input(|input| {
            input
                .raw
                .dropped_files
                .first()
                .map(|file| Ok(file.path().to_owned()))
        });
        match dropped.or_else(|| self.picker.take()) {
            Some(Ok(path)) => self.open(path),
            Some(Err(why)) => self.notice = Some(why.into()),
            None => {}
        }
    }

    /// Shows what a picked folder, or the folder of a picked file, holds: to be loaded or left.
    fn open(&mut self, path: PathBuf) {
        let source = ModelSource::Folder(path);
        let name = source.name();
        match OpenModel::read(source) {
            Ok(model) => self.opening = Some(model),
            Err(error) => {
                self.notice = Some(format!("{name} could not be loaded. {error}.").into())
            }
        }
    }

    fn show_opening(&mut self, ui: &Ui) {
        let Some(opening) = &self.opening else {
            return;
        };
        let place = &mut self.remembered.place;
        match opening.show(ui, self.theme, self.remembered.scale, &mut place.weights) {
            Some(Decision::Load) => {
                let request = place.request(opening.source.clone());
                self.actions.push(Action::LoadModel(request));
                self.opening = None;
            }
            Some(Decision::Leave) => self.opening = None,
            None => {}
        }
    }

    /// Uses a model by name: at once where it is on this computer, else when it has been downloaded.
    fn fetch(&mut self, name: &str, ctx: &Context) {
        let hub = match &self.hub {
            Some(hub) => Ok(hub.clone()),
            None => Hub::from_env(),
        };
        let found = hub.and_then(|hub| {
            let repo = RepoId::parse(name)?;
            Ok((hub.find(&repo, &Revision::default()), hub, repo))
        });
        match found {
            Ok((Some(folder), ..)) => self.load_folder(folder),
            Ok((None, hub, repo)) => {
                let ctx = ctx.clone();
                self.download = Some(Download::start(hub, repo, move || ctx.request_repaint()));
            }
            Err(error) => self.notice = Some(could_not_download(name, &error).into()),
        }
    }

    fn load_folder(&mut self, folder: PathBuf) {
        let request = self.remembered.place.request(ModelSource::Folder(folder));
        self.actions.push(Action::LoadModel(request));
    }

    fn take_in_download(&mut self) {
        let Some(outcome) = self.download.as_ref().and_then(Download::outcome) else {
            return;
        };
        let name = self.download.take().map(|download| download.view().name);
        match outcome {
            Ok(folder) => self.load_folder(folder),
            Err(error) => {
                self.notice = Some(could_not_download(&name.unwrap_or_default(), &error).into());
            }
        }
    }

    fn remember(&mut self, now: f64) {
        self.remembered.text.clear();
        self.remembered.text.push_str(self.session.text());
        self.remembered.settings = (**self.session.settings()).clone();
        self.remembered.pace = self.session.pace();
        self.written_at = now;
        match self.store.keep(&self.remembered) {
            Ok(written) => self.unwritten = !written,
            Err(error) => {
                // The next change tries again.
                self.unwritten = false;
                self.notice = Some(format!(
                    "The text and settings could not be saved: {error}. Free some space or check the folder's permissions."
                ).into());
            }
        }
    }

    // ---- keys ----------------------------------------------------------------------------------------------------

    /// Takes the window's own keys before any widget, the text field's undo among them.
    fn take_keys(&mut self, ctx: &Context) {
        let mut taken = Vec::new();
        let mut wish = None;
        ctx.input_mut(|input| {
            let mut key = |modifiers: Modifiers, key: Key| {
                input.consume_shortcut(&KeyboardShortcut::new(modifiers, key))
            };
            // Longer combinations first: a plain key also matches with Shift held.
            if key(Modifiers::SHIFT, Key::F5) {
                taken.push(Action::Stop);
            }
            if key(Modifiers::NONE, Key::F5) || key(Modifiers::COMMAND, Key::Enter) {
                taken.push(Action::RunOrPause);
            }
            if key(Modifiers::NONE, Key::F10) {
                taken.push(Action::Step);
            }
            if key(Modifiers::NONE, Key::F7) {
                taken.push(Action::Back);
            }
            if key(Modifiers::NONE, Key::F8) {
                taken.push(Action::Forward);
            }
            if key(Modifiers::NONE, Key::F9) {
                taken.push(Action::Live);
            }
            if key(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z) || key(Modifiers::COMMAND, Key::Y)
            {
                taken.push(Action::Redo);
            }
            if key(Modifiers::COMMAND, Key::Z) {
                taken.push(Action::Undo);
            }
            if key(Modifiers::COMMAND, Key::Plus) || key(Modifiers::COMMAND, Key::Equals) {
                wish = Some(1);
            }
            if key(Modifiers::COMMAND, Key::Minus) {
                wish = Some(-1);
            }
        });
        self.actions.extend(taken);
        if let Some(direction) = wish {
            self.remembered.scale = next_scale(self.remembered.scale, direction);
        }
        let escape = ctx.input(|input| input.key_pressed(Key::Escape));
        if escape {
            self.remembered.panels.release_pins();
            self.remembered.dock.alone = None;
            self.actions.push(Action::ReleaseWhatIf);
        }
    }

    // ---- drawing -------------------------------------------------------------------------------------------------

    fn apply_style(&mut self, ctx: &Context, ui: &mut Ui) {
        let dark = self
            .remembered
            .dark
            .unwrap_or_else(|| ctx.system_theme() == Some(egui::Theme::Dark));
        let wanted = (dark, self.remembered.scale);
        if self.applied != Some(wanted) {
            self.theme = Theme::of(dark);
            self.theme.apply(ctx, self.remembered.scale);
            // The frame's own ui was made with the style from before.
            ui.reset_style();
            self.applied = Some(wanted);
        }
    }

    fn show(&mut self, ui: &mut Ui, frame: &Frame, now: f64) {
        let Self {
            session,
            remembered,
            actions,
            dock_size,
            theme,
            download,
            ..
        } = self;
        let (theme, scale) = (*theme, remembered.scale);
        let Remembered {
            dock,
            place,
            panels,
            recent,
            ..
        } = remembered;
        let mut ctx = PanelContext {
            session: &*session,
            theme,
            scale,
            actions,
            panels,
            gpu: frame.wgpu_render_state(),
            now,
        };
        mark_typed(ui.ctx(), ctx.session.toy().is_some());
        let bar = egui::Frame::new()
            .fill(theme.panel)
            .inner_margin(egui::Margin::symmetric(16, 0));
        let wishes = EdgePanel::top("transport")
            .frame(bar)
            .exact_size(52.0 * scale)
            .show(ui, |ui| {
                let download = download.as_ref().map(Download::view);
                transport::show(
                    ui,
                    &mut ctx,
                    dock,
                    place,
                    recent,
                    download.as_ref(),
                    *dock_size,
                )
            })
            .inner;
        let line = egui::Frame::new()
            .fill(theme.window)
            .inner_margin(egui::Margin {
                left: 18,
                right: 18,
                top: 0,
                bottom: 4,
            });
        EdgePanel::bottom("status")
            .frame(line)
            .show_separator_line(false)
            .show(ui, |ui| status::show(ui, &mut ctx));
        let ground = egui::Frame::new().fill(theme.window).inner_margin(GUTTER);
        CentralPanel::default().frame(ground).show(ui, |ui| {
            *dock_size = ui.available_size();
            dock.show(ui, &mut ctx);
        });
        let file = files::carry_out(ui, &mut ctx);
        session.set_window_bytes(panels.attention.gpu_bytes());
        self.fulfil(wishes, ui.ctx());
        self.save(file, ui.ctx(), now);
        self.show_opening(ui);
        self.show_notice(ui);
    }

    fn fulfil(&mut self, wishes: Vec<WindowWish>, ctx: &Context) {
        for wish in wishes {
            match wish {
                WindowWish::Appearance { dark } => self.remembered.dark = Some(dark),
                WindowWish::Scale(scale) => self.remembered.scale = scale,
                WindowWish::Pick(what) => {
                    let ctx = ctx.clone();
                    self.picker.open(what, move || ctx.request_repaint());
                }
                WindowWish::Fetch(name) => self.fetch(&name, ctx),
                WindowWish::CancelFetch => self.download = None,
            }
        }
    }

    /// Asks where a file is to go, and says what became of the last one.
    fn save(&mut self, file: Option<Result<Job, String>>, ctx: &Context, now: f64) {
        let started = file.map(|job| job.and_then(|job| self.saver.start(job, ctx.clone())));
        if let Some(Err(why)) = started {
            self.notice = Some(why.into());
        }
        match self.saver.outcome().flatten() {
            Some(Ok(text)) => {
                let until = Some(now + SAVED_SECONDS);
                self.notice = Some(Notice { text, until });
                ctx.request_repaint_after(Duration::from_secs_f64(SAVED_SECONDS));
            }
            Some(Err(why)) => self.notice = Some(why.into()),
            None => {}
        }
        self.notice
            .take_if(|notice| notice.until.is_some_and(|until| now >= until));
    }

    /// One notice at a time, over the panels, until it is dismissed.
    fn show_notice(&mut self, ui: &Ui) {
        let own = self.notice.as_ref().map(|notice| notice.text.as_str());
        let Some(text) = own.or(self.session.notice()) else {
            return;
        };
        let offer = match &self.notice {
            None => self.session.offer().cloned(),
            Some(_) => None,
        };
        let scale = self.remembered.scale;
        let answer = notice::show(ui, self.theme, scale, text, offer.as_ref());
        if answer.is_some() {
            self.notice = None;
            self.actions.push(Action::DismissNotice);
        }
        if let (Some(Answer::TakeOffer), Some(request)) = (answer, offer) {
            self.remembered.place.weights = request.weights;
            self.actions.push(Action::LoadModel(request));
        }
    }
}

fn could_not_download(name: &str, error: &HubError) -> String {
    format!("{name} could not be downloaded: {error}.")
}

/// How long it is said that a file was saved.
const SAVED_SECONDS: f64 = 8.0;

impl eframe::App for App {
    fn logic(&mut self, ctx: &Context, _frame: &mut Frame) {
        let now = ctx.input(|input| input.time);
        self.take_in_events(ctx, now);
        // Whatever happened may have changed something worth keeping; a still window is written once and then left alone.
        self.unwritten |= ctx.input(|input| !input.events.is_empty());
        if self.unwritten && now >= self.written_at + WRITE_INTERVAL_SECONDS {
            self.remember(now);
        }
        if self.unwritten {
            let due = self.written_at + WRITE_INTERVAL_SECONDS;
            ctx.request_repaint_after(Duration::from_secs_f64((due - now).max(0.0)));
        }
    }

    fn ui(&mut self, ui: &mut Ui, frame: &mut Frame) {
        let ctx = ui.ctx().clone();
        let now = ctx.input(|input| input.time);
        self.apply_style(&ctx, ui);
        self.take_keys(&ctx);
        give_editor_the_keys(&ctx);
        self.take_in_folder(&ctx);
        self.take_in_download();
        self.carry_out(now);
        self.session.refresh_view();
        self.show(ui, frame, now);
        if self.carry_out(now) {
            // What was asked for shows in the next frame, which has to come.
            ctx.request_repaint();
        }
    }

    fn on_exit(&mut self) {
        self.remember(self.written_at);
        // The window is gone: nobody could be told of a failure.
        let _ = self.store.write(&self.remembered);
    }

    fn clear_color(&self, _visuals: &egui::Visuals) -> [f32; 4] {
        self.theme.window.to_normalized_gamma_f32()
    }
}

impl App {
    fn carry_out(&mut self, now: f64) -> bool {
        let actions = std::mem::take(&mut self.actions);
        let any = !actions.is_empty();
        for action in actions {
            self.apply(action, now);
        }
        any
    }
}

/// Where nothing has the keyboard and something is typed or pasted, the editor takes it: the window opens ready to
/// type. Called before any widget is shown, so that the first character is not lost.
fn give_editor_the_keys(ctx: &Context) {
    let typed = ctx.input(|input| {
        input
            .events
            .iter()
            .any(|event| matches!(event, InputEvent::Text(_) | InputEvent::Paste(_)))
    });
    if typed && ctx.memory(|memory| memory.focused().is_none()) {
        ctx.memory_mut(|memory| memory.request_focus(editor_id()));
    }
}

fn next_scale(scale: f32, direction: i32) -> f32 {
    let at = SCALES
        .iter()
        .position(|&choice| choice >= scale - 0.01)
        .unwrap_or(0) as i32;
    SCALES[(at + direction).clamp(0, SCALES.len() as i32 - 1) as usize]
}
