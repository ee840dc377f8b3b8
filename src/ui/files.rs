//! What every panel's menu ends with: its numbers as a table to copy or as CSV, its picture as PNG, the run as JSON.
//!
//! The frame of every panel, [`super::card`], shows [`menu`] and notes what was asked for as a [`Wish`]; once all panels
//! are drawn [`carry_out`] makes a [`Job`] of it, and the window asks where it is to go. A panel takes part with one
//! function that gives its table, named in [`Panel::table`]; its picture is the panel itself, drawn again. Runs on the
//! window's thread; [`crate::export`] encodes and writes on another.

use egui::{Ui, Vec2, vec2};

use super::{Panel, PanelContext, PanelState, dock::show_panel};
use crate::{
    export::{Facts, Figure, Job, RunRecord, csv::csv, facts::settings, png},
    sampling::SamplingSettings,
};

/// Pixels a point that a picture can be saved at.
pub const SCALES: [u8; 3] = [1, 2, 4];

/// Smallest picture in points at 100 % type, without its caption.
const LEAST: Vec2 = vec2(320.0, 120.0);

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The numbers, into the clipboard.
    Copy,
    /// The panel as it stands, with this many pixels a point.
    Picture { scale: u8 },
    /// The numbers as CSV.
    Numbers,
    /// The whole run as JSON.
    Run { attention: bool },
}

/// What was asked for, and of which panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    pub panel: Panel,
    pub what: What,
    /// What the panel says that it shows.
    pub shown: String,
    /// Of the panel on screen, in points.
    pub size: Vec2,
}

/// The entries; `asked` is set by a click.
pub fn menu(ui: &mut Ui, asked: &mut Option<What>) {
    ui.separator();
    let mut entry = |ui: &mut Ui, name: String, more: &str, what: What| {
        if ui.button(name).on_hover_text(more).clicked() {
            *asked = Some(what);
        }
    };
    let table = "All rows, also those that have scrolled out of view";
    entry(ui, "Copy numbers as table".to_owned(), table, What::Copy);
    ui.menu_button("Save the picture", |ui| {
        for scale in SCALES {
            let name = format!("PNG at {scale} ×…");
            let more = "The panel as it stands; what has scrolled out of view is not in it";
            entry(ui, name, more, What::Picture { scale });
        }
    });
    let numbers = "Save the numbers as CSV…".to_owned();
    entry(ui, numbers, table, What::Numbers);
    for (name, attention) in [
        ("Save the run as JSON…", false),
        ("Save the run with all attention as JSON…", true),
    ] {
        let more = "Every token with how it was chosen, every step with its most likely tokens";
        entry(ui, name.to_owned(), more, What::Run { attention });
    }
}

/// Does what a panel's menu was asked for. Returns the file to be saved, or a sentence that says why there is none.
pub fn carry_out(ui: &Ui, ctx: &mut PanelContext) -> Option<Result<Job, String>> {
    let wish = ctx.panels.wish.take()?;
    let none = || format!("{} has no numbers yet.", wish.panel.title());
    match wish.what {
        What::Copy => match wish.panel.table(ctx) {
            Some(table) => {
                ui.ctx().copy_text(table);
                None
            }
            None => Some(Err(none())),
        },
        What::Numbers => Some(wish.panel.table(ctx).ok_or_else(none).map(|table| {
            let facts = facts(&wish, ctx);
            let name = file_name(&wish, ctx, "csv");
            Job::new(name, move || Ok(csv(&facts, &table).into_bytes()))
        })),
        What::Picture { scale } => {
            let facts = facts(&wish, ctx);
            let figure = figure(ui, &wish, ctx, &facts, scale.into());
            Some(Ok(Job::new(file_name(&wish, ctx, "png"), move || {
                png::encode(&figure.rasterise(), &facts)
                    .map_err(|error| format!("The picture could not be encoded: {error}."))
            })))
        }
        What::Run { attention } => {
            let run = RunRecord::of(ctx.session);
            Some(Ok(Job::new("run.json", move || {
                run.to_json(attention)
                    .map_err(|error| format!("The run could not be written as JSON: {error}."))
            })))
        }
    }
}

fn facts(wish: &Wish, ctx: &mut PanelContext) -> Facts {
    let mut facts = Facts::of(ctx.session)
        .with("panel", wish.panel.title())
        .with("shown", &wish.shown);
    wish.panel.add_facts(ctx, &mut facts);
    facts
}

/// Such as `next-token-step-12.png`: words that every file system takes.
fn file_name(wish: &Wish, ctx: &PanelContext, extension: &str) -> String {
    let words = wish
        .panel
        .title()
        .split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let step = ctx.session.selected();
    format!("{}-step-{step}.{extension}", words.join("-").to_lowercase())
}

/// The panel above a caption that says what it was made from.
fn figure(
    ui: &Ui,
    wish: &Wish,
    ctx: &PanelContext,
    facts: &Facts,
    pixels_per_point: f32,
) -> Figure {
    let (session, theme, scale, now) = (ctx.session, ctx.theme, ctx.scale, ctx.now);
    let size = wish.size.max(LEAST * scale);
    let caption = caption(facts, settings(session));
    let mut actions = Vec::new();
    let mut panels = PanelState {
        on_paper: true,
        hovered_token: None,
        ..ctx.panels.clone()
    };
    // Where things have scrolled to.
    let memory = ui.ctx().memory(|memory| memory.data.clone());
    Figure::draw(
        theme,
        scale,
        size,
        &caption,
        pixels_per_point,
        memory,
        |ui| {
            let mut ctx = PanelContext {
                session,
                theme,
                scale,
                actions: &mut actions,
                panels: &mut panels,
                gpu: None,
                now,
            };
            show_panel(wish.panel, ui, &mut ctx);
        },
    )
}

/// Two lines: which model at which step, drawn how; and from what prompt.
fn caption(facts: &Facts, settings: &SamplingSettings) -> String {
    let fact = |key| facts.get(key).unwrap_or_default();
    let model = facts.get("model").unwrap_or("no model");
    let mut prompt = fact("prompt").replace('\n', " ↵ ");
    if prompt.chars().count() > 120 {
        prompt = prompt.chars().take(119).chain(['…']).collect();
    }
    format!(
        "{model} · {} · step {} of {} tokens · {} · {}\nprompt “{prompt}”",
        fact("device"),
        fact("step"),
        fact("tokens"),
        settings.summary(),
        fact("software")
    )
}
