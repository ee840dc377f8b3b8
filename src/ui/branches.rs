//! Branches panel: every end of the history tree as one row, indented under the branch that it forks from, with its
//! own text, length and log-probability. Click goes to it; it can be named, and deleted with undo.
//!
//! Runs on the window's thread; the list is worked out again only when the record has changed.

mod words;

use std::sync::Arc;

use egui::{
    Align, Button, Id, Key, Layout, Rect, Response, ScrollArea, Sense, Ui, UiBuilder, pos2, vec2,
};
use egui_material_icons::{
    MaterialIcon,
    icons::{ICON_DELETE, ICON_EDIT},
};

use super::{
    Panel, PanelContext,
    card::Card,
    chart::{self, Faces},
};
use crate::session::{Action, Branch, NodeId, Session};

const SUBTITLE: &str = "each end of the history tree, under the one it forks from · Σ log P over all its factors, in nats, model P · mean per factor · click goes to it";

/// What the panel remembers.
#[derive(Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct BranchesState {
    #[serde(skip)]
    list: Option<(ListKey, Arc<[Branch]>)>,
    /// The branch that is being named, and what is typed so far.
    #[serde(skip)]
    naming: Option<(NodeId, String)>,
}

/// What the list depends on.
#[derive(Clone, PartialEq)]
struct ListKey {
    head: NodeId,
    record: (usize, usize, usize),
    model: Option<usize>,
}

impl BranchesState {
    fn list(&mut self, session: &Session) -> Arc<[Branch]> {
        let key = ListKey {
            head: session.head(),
            record: session.record_version(),
            model: session.model().map(|model| Arc::as_ptr(model) as usize),
        };
        match self.list.take() {
            Some((old, list)) if old == key => self.list.insert((old, list)).1.clone(),
            _ => self.list.insert((key, session.branches().into())).1.clone(),
        }
    }
}

pub fn show(ui: &mut Ui, ctx: &mut PanelContext) -> Response {
    let session = ctx.session;
    let mut state = std::mem::take(&mut ctx.panels.branches);
    let list = state.list(session);
    let title = Card::new(Panel::Branches, SUBTITLE).show(
        ui,
        ctx,
        |_| {},
        |ui, ctx| {
            if list.is_empty() {
                chart::no_view(ui, ctx);
            } else {
                content(ui, ctx, &mut state, &list);
            }
        },
    );
    ctx.panels.branches = state;
    title
}

/// Tab-separated, one row a branch.
pub fn table(ctx: &mut PanelContext) -> String {
    words::table(&ctx.panels.branches.list(ctx.session))
}

/// Right ends of the columns of numbers, and where the buttons begin, in points.
#[derive(Clone, Copy)]
struct Columns {
    text: f32,
    tokens: f32,
    sum: f32,
    mean: f32,
    buttons: f32,
}

impl Columns {
    fn fit(rect: Rect, digit: f32, button: f32) -> Self {
        let buttons = rect.right() - 2.0 * button - 4.0;
        let mean = buttons - digit;
        let sum = mean - 7.5 * digit;
        let tokens = sum - 9.5 * digit;
        Self {
            text: (tokens - 5.0 * digit).max(rect.left()),
            tokens,
            sum,
            mean,
            buttons,
        }
    }
}

fn content(ui: &mut Ui, ctx: &mut PanelContext, state: &mut BranchesState, list: &[Branch]) {
    let faces = Faces::of(ui);
    let head = ui
        .allocate_exact_size(vec2(ui.available_width(), faces.line), Sense::hover())
        .0;
    let button = ui.spacing().interact_size.y;
    let columns = Columns::fit(head, faces.digit, button);
    for (x, text) in [
        (columns.tokens, "tokens"),
        (columns.sum, "Σ log P"),
        (columns.mean, "mean"),
    ] {
        chart::text_right(
            ui.painter(),
            pos2(x, head.center().y),
            text,
            &faces.small,
            ctx.theme.dim,
        );
    }
    let height = ctx.row_height().max(button);
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        for (at, branch) in list.iter().enumerate() {
            let (rect, _) =
                ui.allocate_exact_size(vec2(ui.available_width(), height), Sense::hover());
            row(
                ui,
                ctx,
                state,
                &faces,
                columns,
                rect,
                at,
                branch,
                list.len(),
            );
        }
    });
}

#[expect(clippy::too_many_arguments, reason = "what one row is drawn from")]
fn row(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    state: &mut BranchesState,
    faces: &Faces,
    columns: Columns,
    rect: Rect,
    at: usize,
    branch: &Branch,
    count: usize,
) {
    let main = rect.with_max_x(columns.buttons);
    let naming = state
        .naming
        .as_ref()
        .is_some_and(|(head, _)| *head == branch.head);
    let number = at + 1;
    let mut buttons = ui.new_child(
        UiBuilder::new()
            .id_salt(("branch buttons", at))
            .max_rect(rect.with_min_x(columns.buttons))
            .layout(Layout::right_to_left(Align::Center)),
    );
    buttons.spacing_mut().item_spacing.x = 0.0;
    buttons.spacing_mut().button_padding = vec2(3.0, 3.0);
    let delete = format!("Delete branch {number}");
    if icon(&mut buttons, ICON_DELETE, &delete, count > 1)
        .on_disabled_hover_text("The only branch stays")
        .clicked()
    {
        ctx.act(Action::DeleteBranch(branch.head));
    }
    if icon(
        &mut buttons,
        ICON_EDIT,
        &format!("Name branch {number}"),
        true,
    )
    .clicked()
    {
        state.naming = Some((branch.head, branch.name.clone().unwrap_or_default()));
        ui.memory_mut(|memory| memory.request_focus(name_field()));
    }
    if naming {
        name(ui, ctx, state, main, branch.head, number);
        return;
    }
    let response = ui.interact(main, Id::unique("branch row").with(at), Sense::click());
    let words = words::row_name(number, branch);
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, true, &words));
    if response.gained_focus() {
        ui.scroll_to_rect(rect, None);
    }
    chart::row_ground(ui.painter(), main, &response, ctx.theme);
    paint(ui, ctx, faces, columns, main, branch);
    if response.clicked() {
        ctx.act(Action::SwitchBranch(branch.head));
    }
    response.on_hover_ui(|ui| {
        ui.set_max_width(380.0 * ctx.scale);
        for line in words::details(branch) {
            ui.label(line);
        }
    });
}

fn icon(ui: &mut Ui, icon: MaterialIcon, name: &str, enabled: bool) -> Response {
    let response = ui.add_enabled(enabled, Button::new(icon.rich_text()).frame(false));
    response.widget_info(|| egui::WidgetInfo::labeled(egui::Role::Button, enabled, name));
    response.on_hover_text(name)
}

fn name_field() -> Id {
    Id::unique("branch name")
}

/// The field that a branch is named in, instead of its row.
fn name(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    state: &mut BranchesState,
    rect: Rect,
    head: NodeId,
    number: usize,
) {
    let Some((_, text)) = &mut state.naming else {
        return;
    };
    let field = egui::TextEdit::singleline(text)
        .id(name_field())
        .hint_text("Name; empty takes it away")
        .desired_width(rect.width() - 12.0);
    let response = ui
        .put(rect, field)
        .accessible_name(format!("Name of branch {number}"));
    if response.lost_focus() {
        // Leaving the field keeps what was typed, as everywhere; Esc does not.
        if !ui.input(|input| input.key_pressed(Key::Escape)) {
            ctx.act(Action::NameBranch(head, text.clone()));
        }
        state.naming = None;
    }
}

fn paint(
    ui: &Ui,
    ctx: &PanelContext,
    faces: &Faces,
    columns: Columns,
    rect: Rect,
    branch: &Branch,
) {
    let (theme, y) = (ctx.theme, rect.center().y);
    let painter = ui.painter().with_clip_rect(ui.clip_rect().intersect(rect));
    let font = faces.token(branch.is_current);
    let indent = 14.0 * ctx.scale;
    let mut x = rect.left() + 6.0;
    // A branch far out in the tree must not run out of its row.
    let depth = branch.depth.min(6);
    if depth > 0 {
        x += indent * depth as f32;
        let stroke = egui::Stroke::new(1.0, theme.dim);
        let (left, corner) = (x - 0.75 * indent, y);
        painter.vline(left, rect.top()..=corner, stroke);
        painter.hline(left..=x - 3.0, corner, stroke);
    }
    let color = if branch.other_model.is_some() {
        theme.dim
    } else {
        theme.ink
    };
    let chars = ((columns.text - x) / faces.digit).max(2.0) as usize;
    let text = chart::fit(&words::title(branch), chars);
    chart::text_left(&painter, pos2(x, y), text, font, color);
    let write = |x: f32, text: String| {
        chart::text_right(&painter, pos2(x, y), text, font, color);
    };
    write(columns.tokens, chart::count(branch.len));
    write(columns.sum, words::sum(&branch.chain));
    write(columns.mean, words::mean(&branch.chain));
    if branch.is_current {
        let bar = Rect::from_min_size(
            pos2(rect.left(), rect.top() + 3.0),
            vec2(3.0, rect.height() - 6.0),
        );
        painter.rect_filled(bar, 1, theme.ink);
    }
}
