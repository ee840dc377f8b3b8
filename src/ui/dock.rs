//! Where the panels are: a tree of tiles for wide windows and a tabbed one for small windows or large type,
//! both remembered; and one panel alone for a projector.

use egui::{RichText, Ui, WidgetText};
use egui_tiles::{
    Behavior, Container, Linear, LinearDir, SimplificationOptions, Tile, TileId, Tiles, Tree,
    UiResponse,
};

use super::{
    Panel, PanelContext, attention, branches, cost, generation_loop, lm_head, logits, next_token,
    sampling, sequence, text, theme::GUTTER, timeline, tokens, toy,
};

/// Below this many points (at 100 % type) panels are shown as tabs instead of being squeezed.
const WIDE_FROM: egui::Vec2 = egui::vec2(1180.0, 700.0);

/// The remembered layouts.
#[derive(serde::Serialize, serde::Deserialize)]
pub struct Dock {
    wide: Tree<Panel>,
    tabbed: Tree<Panel>,
    /// One panel that fills the window.
    pub alone: Option<Panel>,
}

impl Default for Dock {
    fn default() -> Self {
        Self {
            wide: wide(),
            tabbed: tabbed(),
            alone: None,
        }
    }
}

impl Dock {
    fn tree(&self, size: egui::Vec2, scale: f32) -> &Tree<Panel> {
        if is_wide(size, scale) {
            &self.wide
        } else {
            &self.tabbed
        }
    }

    fn tree_mut(&mut self, size: egui::Vec2, scale: f32) -> &mut Tree<Panel> {
        if is_wide(size, scale) {
            &mut self.wide
        } else {
            &mut self.tabbed
        }
    }

    pub fn is_open(&self, panel: Panel, size: egui::Vec2, scale: f32) -> bool {
        let tree = self.tree(size, scale);
        tree.tiles
            .find_pane(&panel)
            .is_some_and(|tile| tree.tiles.is_visible(tile))
    }

    /// Opens or closes a panel in the layout of this window size.
    pub fn set_open(&mut self, panel: Panel, open: bool, size: egui::Vec2, scale: f32) {
        let tree = self.tree_mut(size, scale);
        match tree.tiles.find_pane(&panel) {
            // A panel that a fresh layout has not got leaves no empty tab bar behind.
            Some(tile) if !open && !Panel::FIRST.contains(&panel) => {
                tree.remove_recursively(tile);
            }
            Some(tile) => {
                tree.set_visible(tile, open);
                if open {
                    tree.make_active(|id, _| id == tile);
                }
            }
            None if open => {
                let tile = tree.tiles.insert_pane(panel);
                if !insert_beside(tree, tile, Panel::Logits)
                    && let Some(root) = tree.root()
                {
                    tree.move_tile_to_container(tile, root, usize::MAX, true);
                }
                tree.make_active(|id, _| id == tile);
            }
            None => {}
        }
    }

    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Shows the panels over all available space.
    pub fn show(&mut self, ui: &mut Ui, ctx: &mut PanelContext) {
        let size = ui.available_size();
        // An empty or damaged layout is no layout.
        if let Some(panel) = self.alone {
            show_panel(panel, ui, ctx);
            return;
        }
        let scale = ctx.scale;
        let tree = self.tree_mut(size, scale);
        let mut behavior = PanelBehavior {
            ctx,
            close: None,
            alone: None,
        };
        tree.ui(&mut behavior, ui);
        let PanelBehavior { close, alone, .. } = behavior;
        if let Some(panel) = close {
            self.set_open(panel, false, size, scale);
        }
        if alone.is_some() {
            self.alone = alone;
        }
    }
}

/// Puts a new tile into the tabs of `neighbour`, which are made if it has none; false where it is not on screen.
fn insert_beside(tree: &mut Tree<Panel>, tile: TileId, neighbour: Panel) -> bool {
    let tiles = &mut tree.tiles;
    let Some(beside) = tiles
        .find_pane(&neighbour)
        .filter(|&beside| tiles.is_visible(beside))
    else {
        return false;
    };
    let Some(parent) = tiles.parent_of(beside) else {
        return false;
    };
    if let Some(Tile::Container(container @ Container::Tabs(_))) = tiles.get_mut(parent) {
        container.add_child(tile);
        return true;
    }
    let tabs = tiles.insert_tab_tile(vec![beside, tile]);
    match tiles.get_mut(parent) {
        Some(Tile::Container(container)) => container.replace_child(beside, tabs).is_some(),
        _ => false,
    }
}

fn is_wide(size: egui::Vec2, scale: f32) -> bool {
    size.x >= WIDE_FROM.x * scale && size.y >= WIDE_FROM.y * scale - 120.0
}

fn wide() -> Tree<Panel> {
    let mut tiles = Tiles::default();
    let left = shares(
        &mut tiles,
        LinearDir::Vertical,
        &[
            (Panel::Text, 0.36),
            (Panel::Tokens, 0.21),
            (Panel::Sampling, 0.43),
        ],
    );
    let middle = tiles.insert_pane(Panel::NextToken);
    let right = shares(
        &mut tiles,
        LinearDir::Vertical,
        &[(Panel::Attention, 0.52), (Panel::Logits, 0.48)],
    );
    let mut columns = Linear::new(LinearDir::Horizontal, vec![left, middle, right]);
    columns.shares.set_share(left, 0.98);
    columns.shares.set_share(middle, 0.96);
    columns.shares.set_share(right, 1.22);
    let columns = tiles.insert_container(columns);
    let timeline = tiles.insert_pane(Panel::Timeline);
    let mut rows = Linear::new(LinearDir::Vertical, vec![columns, timeline]);
    rows.shares.set_share(columns, 0.83);
    rows.shares.set_share(timeline, 0.17);
    let root = tiles.insert_container(rows);
    Tree::new(egui::Id::unique("wide layout"), root, tiles)
}

fn tabbed() -> Tree<Panel> {
    let mut tiles = Tiles::default();
    let text = tiles.insert_pane(Panel::Text);
    let below = [Panel::Sampling, Panel::Tokens].map(|panel| tiles.insert_pane(panel));
    let below = tiles.insert_tab_tile(below.to_vec());
    let mut left = Linear::new(LinearDir::Vertical, vec![text, below]);
    left.shares.set_share(text, 0.45);
    left.shares.set_share(below, 0.55);
    let left = tiles.insert_container(left);
    let right = [
        Panel::NextToken,
        Panel::Logits,
        Panel::Attention,
        Panel::Timeline,
    ]
    .map(|panel| tiles.insert_pane(panel));
    let right = tiles.insert_tab_tile(right.to_vec());
    let mut columns = Linear::new(LinearDir::Horizontal, vec![left, right]);
    columns.shares.set_share(left, 0.42);
    columns.shares.set_share(right, 0.58);
    let root = tiles.insert_container(columns);
    Tree::new(egui::Id::unique("tabbed layout"), root, tiles)
}

fn shares(tiles: &mut Tiles<Panel>, dir: LinearDir, panels: &[(Panel, f32)]) -> TileId {
    let children: Vec<_> = panels
        .iter()
        .map(|&(panel, _)| tiles.insert_pane(panel))
        .collect();
    let mut linear = Linear::new(dir, children.clone());
    for (child, &(_, share)) in children.into_iter().zip(panels) {
        linear.shares.set_share(child, share);
    }
    tiles.insert_container(Container::Linear(linear))
}

/// Shows one panel and returns its title's response.
pub(super) fn show_panel(panel: Panel, ui: &mut Ui, ctx: &mut PanelContext) -> egui::Response {
    match panel {
        Panel::Text => text::show(ui, ctx),
        Panel::Tokens => tokens::show(ui, ctx),
        Panel::Sampling => sampling::show(ui, ctx),
        Panel::NextToken => next_token::show(ui, ctx),
        Panel::Logits => logits::show(ui, ctx),
        Panel::Attention => attention::show(ui, ctx),
        Panel::Timeline => timeline::show(ui, ctx),
        Panel::Sequence => sequence::show(ui, ctx),
        Panel::Loop => generation_loop::show(ui, ctx),
        Panel::Branches => branches::show(ui, ctx),
        Panel::Cost => cost::show(ui, ctx),
        Panel::Toy => toy::show(ui, ctx),
        Panel::LmHead => lm_head::show(ui, ctx),
    }
}

struct PanelBehavior<'a, 'b> {
    ctx: &'a mut PanelContext<'b>,
    close: Option<Panel>,
    alone: Option<Panel>,
}

impl Behavior<Panel> for PanelBehavior<'_, '_> {
    fn pane_ui(&mut self, ui: &mut Ui, _tile: TileId, panel: &mut Panel) -> UiResponse {
        let title = show_panel(*panel, ui, self.ctx);
        title.context_menu(|ui| {
            if ui.button("Show alone").clicked() {
                self.alone = Some(*panel);
            }
            if ui.button("Close").clicked() {
                self.close = Some(*panel);
            }
        });
        if title.double_clicked() {
            self.alone = Some(*panel);
        }
        if title.drag_started() {
            UiResponse::DragStarted
        } else {
            UiResponse::None
        }
    }

    fn tab_title_for_pane(&mut self, panel: &Panel) -> WidgetText {
        RichText::new(panel.title()).into()
    }

    fn is_tab_closable(&self, tiles: &Tiles<Panel>, tile: TileId) -> bool {
        matches!(tiles.get(tile), Some(Tile::Pane(_)))
    }

    fn on_tab_close(&mut self, tiles: &mut Tiles<Panel>, tile: TileId) -> bool {
        self.close = tiles.get_pane(&tile).copied();
        // Closed panels stay in the tree, hidden, so that they come back where they were.
        false
    }

    fn gap_width(&self, _style: &egui::Style) -> f32 {
        GUTTER
    }

    fn min_size(&self) -> f32 {
        90.0
    }

    fn tab_bar_height(&self, _style: &egui::Style) -> f32 {
        30.0 * self.ctx.scale
    }

    fn tab_bar_color(&self, _visuals: &egui::Visuals) -> egui::Color32 {
        self.ctx.theme.window
    }

    fn tab_bg_color(
        &self,
        _visuals: &egui::Visuals,
        _tiles: &Tiles<Panel>,
        _tile: TileId,
        state: &egui_tiles::TabState,
    ) -> egui::Color32 {
        if state.active {
            self.ctx.theme.panel
        } else {
            self.ctx.theme.window
        }
    }

    fn tab_text_color(
        &self,
        _visuals: &egui::Visuals,
        _tiles: &Tiles<Panel>,
        _tile: TileId,
        state: &egui_tiles::TabState,
    ) -> egui::Color32 {
        if state.active {
            self.ctx.theme.ink
        } else {
            self.ctx.theme.dim
        }
    }

    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions {
            all_panes_must_have_tabs: false,
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_hold_every_first_panel_once() {
        for tree in [wide(), tabbed()] {
            for panel in Panel::FIRST {
                let found = tree
                    .tiles
                    .tiles()
                    .filter(|tile| matches!(tile, Tile::Pane(pane) if *pane == panel))
                    .count();
                assert_eq!(found, 1, "{panel:?}");
            }
        }
    }

    #[test]
    fn a_further_panel_opens_in_tabs_and_leaves_the_layout_as_it_was() {
        for size in [egui::vec2(1440.0, 800.0), egui::vec2(900.0, 600.0)] {
            let mut dock = Dock::default();
            for panel in Panel::ALL {
                let further = !Panel::FIRST.contains(&panel);
                assert_eq!(dock.is_open(panel, size, 1.0), !further, "{panel:?}");
                dock.set_open(panel, true, size, 1.0);
                assert!(dock.is_open(panel, size, 1.0), "{panel:?}");
            }
            dock.set_open(Panel::Sequence, false, size, 1.0);
            assert!(!dock.is_open(Panel::Sequence, size, 1.0));
            assert!(dock.is_open(Panel::Logits, size, 1.0));
        }
    }

    #[test]
    fn a_closed_panel_opens_again() {
        let size = egui::vec2(1440.0, 800.0);
        let mut dock = Dock::default();
        dock.set_open(Panel::Logits, false, size, 1.0);
        assert!(!dock.is_open(Panel::Logits, size, 1.0));
        assert!(
            dock.is_open(Panel::Logits, egui::vec2(900.0, 600.0), 1.0),
            "the other layout is its own"
        );
        dock.set_open(Panel::Logits, true, size, 1.0);
        assert!(dock.is_open(Panel::Logits, size, 1.0));
    }
}
