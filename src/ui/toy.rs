//! Toy panel: a sheet of typed numbers in a model's place. Typing a number reshapes every panel at once.
//!
//! A sheet that makes no sense is kept as a draft and said; the numbers in use stay until it does. Runs on the window's
//! thread.

mod words;

use std::sync::Arc;

use egui::{
    Align2, Event as InputEvent, Grid, Id, Key, Modifiers, Response, RichText, ScrollArea, Stroke,
    TextEdit, Ui,
};

pub use words::table;

use super::{Panel, PanelContext, card::Card, chart};
use crate::{
    model::{DeviceChoice, LoadRequest, ModelSource},
    session::Action,
    toy::{MAX_LABELS, MAX_ROWS, Place, Problem, Sheet, Toy},
};

const SUBTITLE: &str = "typed numbers in a model's place · row n: what follows n tokens, whichever they are · → most likely token, softmax at T = 1";

/// Width of a cell, in points at 100 % type.
const CELL_POINTS: f32 = 66.0;

/// What the panel remembers: the typed numbers, also while a model is in use.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ToyState {
    sheet: Sheet,
    /// A changed sheet that makes no sense yet.
    draft: Option<Sheet>,
}

impl ToyState {
    /// Remembers a sheet.
    pub fn of(sheet: Sheet) -> Self {
        Self { sheet, draft: None }
    }

    /// The sheet that was last in use.
    pub fn sheet(&self) -> &Sheet {
        &self.sheet
    }

    /// Takes note of the numbers in use; a draft of others is given up.
    pub fn follow(&mut self, toy: &Toy) {
        if self.sheet != *toy.sheet() {
            self.sheet = toy.sheet().clone();
            self.draft = None;
        }
    }
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    Card::new(Panel::Toy, SUBTITLE).show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            ScrollArea::vertical()
                .id_salt("toy")
                .auto_shrink(false)
                .show(ui, |ui| match session.toy().cloned() {
                    Some(toy) => desk(ui, ctx, &toy),
                    None => offer(ui, ctx),
                });
        },
    )
}

/// While a model is in use: what a toy is, and how to get one.
fn offer(ui: &mut Ui, ctx: &mut PanelContext) {
    let text = RichText::new(words::WHAT_IT_IS).color(ctx.theme.dim);
    ui.add(egui::Label::new(text).wrap());
    ui.horizontal_wrapped(|ui| {
        if ui
            .button("Use the typed numbers")
            .on_hover_text("Those that were last in use")
            .clicked()
        {
            let sheet = ctx.panels.toy.sheet.clone();
            load(ctx, &sheet);
        }
        examples(ui, ctx);
    });
}

fn examples(ui: &mut Ui, ctx: &mut PanelContext) {
    for (name, what, sheet) in [
        (
            "Example: logits",
            "Four tokens; after the prompt the largest logit is 2.1, which softmax at T = 1 turns into 0.62; sets T 1 and no filters",
            Sheet::logits_example as fn() -> Sheet,
        ),
        (
            "Example: conditionals",
            "0.08 × 0.15 × 0.25 = 0.003, the first of them given an end-of-text; sets T 1 and no filters",
            Sheet::conditionals_example,
        ),
    ] {
        if ui.button(name).on_hover_text(what).clicked() {
            load(ctx, &sheet());
            let settings = ctx.session.settings().without_reshaping();
            ctx.act(Action::SetSettings(Arc::new(settings)));
        }
    }
}

/// Puts a sheet in use, with its prompt as the text.
fn load(ctx: &mut PanelContext, sheet: &Sheet) {
    let Ok(toy) = sheet.read().map(Arc::new) else {
        return;
    };
    ctx.panels.toy.draft = None;
    if ctx.session.toy().is_none() {
        let source = ModelSource::Toy(toy);
        ctx.act(Action::LoadModel(LoadRequest::new(
            source,
            DeviceChoice::Auto,
        )));
        return;
    }
    let prompt = toy.tokenizer().decode(toy.prompt());
    ctx.act(Action::EditToy(toy));
    ctx.act(Action::Example(prompt));
}

/// The sheet in use, to be changed.
fn desk(ui: &mut Ui, ctx: &mut PanelContext, toy: &Toy) {
    let mut sheet = ctx
        .panels
        .toy
        .draft
        .clone()
        .unwrap_or_else(|| toy.sheet().clone());
    let before = sheet.clone();
    let problem = sheet.read().err();
    ui.horizontal(|ui| {
        examples(ui, ctx);
        if ui
            .button("Start again")
            .on_hover_text("The prompt is the text again")
            .clicked()
        {
            ctx.act(Action::Example(toy.tokenizer().decode(toy.prompt())));
        }
    });
    ui.horizontal_wrapped(|ui| {
        ui.label("Prompt");
        let field = TextEdit::singleline(&mut sheet.prompt)
            .id(Id::unique("toy prompt"))
            .font(egui::TextStyle::Monospace)
            .align(Align2::LEFT_CENTER)
            .desired_width(3.5 * CELL_POINTS * ctx.scale);
        ui.add(field).accessible_name("Toy prompt");
        ui.label(RichText::new(words::kind(sheet.kind)).color(ctx.theme.dim));
    });
    let said = match &problem {
        Some(problem) => format!("{problem} Until then the numbers from before stay in use."),
        None => words::product(ctx.session, toy),
    };
    ui.add(egui::Label::new(said).wrap());
    paste_row(ui, &mut sheet);
    ScrollArea::horizontal()
        .id_salt("toy table")
        .show(ui, |ui| cells(ui, ctx, toy, &mut sheet, problem.as_ref()));
    sizes(ui, &mut sheet);
    if sheet != before {
        change(ctx, toy, sheet);
    }
}

/// A changed sheet is used where it makes sense, and kept as a draft where it does not.
fn change(ctx: &mut PanelContext, toy: &Toy, sheet: Sheet) {
    match sheet.read() {
        Ok(_) if sheet == *toy.sheet() => ctx.panels.toy.draft = None,
        Ok(changed) => {
            ctx.panels.toy.draft = None;
            ctx.act(Action::EditToy(Arc::new(changed)));
        }
        Err(_) => ctx.panels.toy.draft = Some(sheet),
    }
}

// ---- the table ---------------------------------------------------------------------------------------------------

fn cell_id(row: usize, column: usize) -> Id {
    Id::unique(("toy cell", row, column))
}

/// Numbers that are pasted beside each other fill the cells from the one with the keyboard on.
fn paste_row(ui: &Ui, sheet: &mut Sheet) {
    let (rows, columns) = (sheet.rows.len(), sheet.labels.len());
    let cells = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let mut cells = cells.filter(|&(row, column)| ui.memory(|m| m.has_focus(cell_id(row, column))));
    let Some((row, column)) = cells.next() else {
        return;
    };
    ui.input_mut(|input| {
        input.events.retain(|event| match event {
            InputEvent::Paste(text) => !sheet.paste(row, column, text),
            _ => true,
        });
    });
}

fn cells(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    toy: &Toy,
    sheet: &mut Sheet,
    problem: Option<&Problem>,
) {
    let place = problem.map(|problem| problem.place);
    let columns = sheet.labels.len();
    Grid::new("toy sheet")
        .num_columns(columns + 2)
        .spacing([6.0, 2.0])
        .show(ui, |ui| {
            ui.label(RichText::new("after").small().color(ctx.theme.dim));
            for column in 0..columns {
                let mut label = sheet.labels[column].clone();
                let wrong = place == Some(Place::Label(column));
                let name = format!("Label of token {}", column + 1);
                let id = Id::unique(("toy label", column));
                if field(ui, ctx, &mut label, (id, &name), wrong, |edit| edit).changed() {
                    sheet.rename(toy.sheet(), column, &label);
                }
            }
            ui.end_row();
            for row in 0..sheet.rows.len() {
                row_head(ui, ctx, row);
                for column in 0..columns {
                    let wrong = match place {
                        Some(Place::Row(wrong)) => wrong == row,
                        place => place == Some(Place::Cell { row, column }),
                    };
                    cell(ui, ctx, toy, sheet, (row, column), wrong);
                }
                let best = words::most_likely(toy, row);
                ui.label(RichText::new(best).monospace().color(ctx.theme.dim));
                ui.end_row();
            }
        });
}

/// The number of tokens that a row follows, with the last of them: a button that shows its step.
fn row_head(ui: &mut Ui, ctx: &mut PanelContext, row: usize) {
    let session = ctx.session;
    let label = session.node(row).map(|node| ctx.label(node.token));
    let selected = session.selected() == row + 1;
    let text = match &label {
        Some(label) => format!("{} {}", row + 1, chart::fit(label, 10)),
        None => (row + 1).to_string(),
    };
    let color = match (selected, &label) {
        (true, _) => ctx.theme.chosen,
        (false, Some(_)) => ctx.theme.ink,
        (false, None) => ctx.theme.dim,
    };
    let button = egui::Button::new(RichText::new(text).monospace().color(color)).frame(false);
    let response = ui.add_enabled(label.is_some(), button);
    let name = format!("Row {}, {}", row + 1, words::after(label.as_deref()));
    response.widget_info(|| egui::WidgetInfo::selected(egui::Role::Button, true, selected, &name));
    if response.clicked() {
        ctx.act(Action::Select(row + 1));
    }
}

fn cell(
    ui: &mut Ui,
    ctx: &PanelContext,
    toy: &Toy,
    sheet: &mut Sheet,
    (row, column): (usize, usize),
    wrong: bool,
) {
    let mut text = sheet.cell(row, column).to_owned();
    let label = sheet.labels[column].clone();
    let name = format!("Row {}, {label}, {}", row + 1, words::unit(sheet.kind));
    let hint = words::share(toy, row, column);
    let id = (cell_id(row, column), &*name);
    let response = field(ui, ctx, &mut text, id, wrong, |edit| {
        edit.hint_text(hint.clone()).align(Align2::RIGHT_CENTER)
    });
    if response.changed() {
        sheet.set_cell(row, column, text);
    }
    // Taken, so that the field below does not hear it too.
    let enter = |input: &mut egui::InputState| input.consume_key(Modifiers::NONE, Key::Enter);
    if response.lost_focus() && ui.input_mut(enter) {
        let below = (row + 1) % sheet.rows.len();
        ui.memory_mut(|memory| memory.request_focus(cell_id(below, column)));
    }
    response.on_hover_text(format!("{label} {}", words::share(toy, row, column)));
}

/// One text field of the sheet, framed where it is what makes no sense.
fn field(
    ui: &mut Ui,
    ctx: &PanelContext,
    text: &mut String,
    (id, name): (Id, &str),
    wrong: bool,
    style: impl for<'a> FnOnce(TextEdit<'a>) -> TextEdit<'a>,
) -> Response {
    let width = CELL_POINTS * ctx.scale;
    let edit = TextEdit::singleline(text)
        .id(id)
        .font(egui::TextStyle::Monospace)
        .align(Align2::LEFT_CENTER)
        .desired_width(width)
        .min_size(egui::vec2(width, 0.0));
    let response = ui.add(style(edit)).accessible_name(name);
    if wrong {
        let line = Stroke::new(2.0, ctx.theme.ink);
        ui.painter()
            .rect_stroke(response.rect, 4, line, egui::StrokeKind::Inside);
    }
    response
}

fn sizes(ui: &mut Ui, sheet: &mut Sheet) {
    let (rows, labels) = (sheet.rows.len(), sheet.labels.len());
    ui.horizontal(|ui| {
        for (name, possible, change) in [
            ("Add row", rows < MAX_ROWS, Sheet::add_row as fn(&mut Sheet)),
            ("Remove last row", rows > 1, Sheet::remove_last_row),
            ("Add token", labels < MAX_LABELS, Sheet::add_label),
            ("Remove last token", labels > 2, Sheet::remove_last_label),
        ] {
            let button = egui::Button::new(RichText::new(name).small());
            if ui.add_enabled(possible, button).clicked() {
                change(sheet);
            }
        }
    });
}
