//! What stands beside the square: the wall of all heads, the legend, and the choice of layer and head.

use egui::{
    Align2, Color32, CornerRadius, DragValue, EventFilter, FontId, Key, Mesh, Rect, Response,
    RichText, Sense, Shape as Drawing, Stroke, StrokeKind, TextStyle, Ui, UiBuilder, Vec2,
    WidgetInfo, pos2, vec2,
};

use super::{
    AttentionState, Options, Over,
    drawer::{palette, picture},
    layout::Parts,
    scene::Scene,
};
use crate::{
    heatmap::{Arrangement, Quantity, Shape, cividis, color},
    ui::{PanelContext, Theme, chart},
};

/// Largest thumbnail with its gap, and the room that legend and controls need, in points at 100 % type.
const LARGEST_THUMB: f32 = 72.0;
const BELOW_WALL: f32 = 152.0;
const BELOW_WALL_ON_PAPER: f32 = 60.0;

pub fn show(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    parts: &Parts,
) {
    let builder = UiBuilder::new()
        .max_rect(parts.side)
        .layout(egui::Layout::top_down(egui::Align::Min));
    let mut ui = ui.new_child(builder);
    let clip = ui.clip_rect();
    ui.set_clip_rect(parts.side.expand(4.0).intersect(clip));
    let ui = &mut ui;
    ui.spacing_mut().item_spacing.y = 4.0 * ctx.scale;
    ui.spacing_mut().button_padding = vec2(6.0, 3.0);
    let on_paper = ctx.panels.on_paper;
    if let Some(below) = parts.stacked {
        if !on_paper {
            ui.horizontal(|ui| {
                choice(ui, state, scene, ctx.theme);
                arcs_toggle(ui, &mut state.options, ctx.theme);
            });
        }
        legend(ui, ctx, state, scene);
        let mut ui = ui.new_child(UiBuilder::new().max_rect(below));
        ui.set_clip_rect(clip.intersect(below.expand(4.0)));
        wall(&mut ui, ctx, state, scene, below, 24.0 * ctx.scale);
        return;
    }
    // In a narrow column the controls take one line more.
    let narrow = parts.side.width() < 200.0 * ctx.scale;
    let reserved = match () {
        () if on_paper => BELOW_WALL_ON_PAPER,
        () if narrow => BELOW_WALL + 28.0,
        () => BELOW_WALL,
    };
    wall(ui, ctx, state, scene, parts.side, reserved * ctx.scale);
    legend(ui, ctx, state, scene);
    if on_paper {
        return;
    }
    ui.add_space(4.0 * ctx.scale);
    ui.horizontal_wrapped(|ui| choice(ui, state, scene, ctx.theme));
    quantity(ui, &mut state.options, ctx.theme);
}

// ---- the wall ----------------------------------------------------------------------------------------------------

/// Thumbnails of all heads, a row for each layer. `reserved` points of `area`'s height are for what follows.
fn wall(
    ui: &mut Ui,
    ctx: &mut PanelContext,
    state: &mut AttentionState,
    scene: &Scene,
    area: Rect,
    reserved: f32,
) {
    let dim = |text: String| RichText::new(text).small().color(ctx.theme.dim);
    if !state.options.wall {
        return;
    }
    let on_paper = ctx.panels.on_paper;
    if let Some(why) = state.drawer.obstacle().filter(|_| !on_paper) {
        let text = format!("No wall of all heads: {why}.");
        ui.add(egui::Label::new(dim(text)).wrap());
        return;
    }
    let (n_layer, n_head) = (scene.shape.n_layer, scene.shape.n_head);
    let height = area.height() - reserved;
    let pixels_per_point = ui.pixels_per_point();
    let pitch = (area.width() / n_head as f32)
        .min(height / n_layer as f32)
        .min(LARGEST_THUMB * ctx.scale);
    let pitch_px = (pitch * pixels_per_point).floor();
    if pitch_px.is_nan() || pitch_px < 3.0 || n_layer * n_head == 0 {
        return;
    }
    let pitch_px = pitch_px as u32;
    let gap_px = if pitch_px < 8 {
        1
    } else {
        (0.12 * pitch_px as f32).round() as u32
    };
    let size_px = [pitch_px * n_head as u32, pitch_px * n_layer as u32];
    let [width, height] = size_px.map(|px| px as f32 / pixels_per_point);
    let (rect, response) = ui.allocate_exact_size(vec2(width, height), Sense::click());
    let snap = |v: f32| (v * pixels_per_point).round() / pixels_per_point;
    let rect = Rect::from_min_size(pos2(snap(rect.left()), snap(rect.top())), rect.size());
    let arrangement = Arrangement::Wall {
        pitch_px,
        thumb_px: pitch_px - gap_px,
    };
    let picture = picture(
        scene,
        ctx.theme,
        arrangement,
        (1.0, state.drawer.scale_max(scene)),
        size_px,
        pixels_per_point,
    );
    if on_paper {
        state.drawer.paint_wall_on_paper(ui, rect, &picture, scene);
    } else {
        state.drawer.paint_wall(ui, ctx.gpu, rect, &picture);
    }

    let pitch = pitch_px as f32 / pixels_per_point;
    let thumb = (pitch_px - gap_px) as f32 / pixels_per_point;
    let frame = |layer: usize, head: usize| {
        let min = rect.min + vec2(head as f32, layer as f32) * pitch;
        Rect::from_min_size(min, Vec2::splat(thumb)).expand(1.5)
    };
    let Options { layer, head, .. } = scene.options;
    let chosen = match scene.options.over {
        Over::One => frame(layer, head),
        Over::Layer => frame(layer, 0).union(frame(layer, n_head - 1)),
        Over::Head => frame(0, head).union(frame(n_layer - 1, head)),
        Over::All | Over::Rollout => frame(0, 0).union(frame(n_layer - 1, n_head - 1)),
    };
    let stroke = Stroke::new(2.0, ctx.theme.chosen);
    ui.painter()
        .rect_stroke(chosen, 3, stroke, StrokeKind::Outside);
    let under = response.hover_pos().map(|at| {
        let at = (at - rect.min) / pitch;
        (
            (at.y.max(0.0) as usize).min(n_layer - 1),
            (at.x.max(0.0) as usize).min(n_head - 1),
        )
    });
    if let Some((layer, head)) = under {
        let stroke = Stroke::new(1.0, ctx.theme.ink);
        ui.painter()
            .rect_stroke(frame(layer, head), 3, stroke, StrokeKind::Outside);
        if response.clicked() {
            state.options.open(layer, head);
            response.request_focus();
        }
    }
    if response.has_focus() {
        let stroke = Stroke::new(1.5, ctx.theme.ink);
        ui.painter()
            .rect_stroke(rect.expand(4.0), 4, stroke, StrokeKind::Outside);
        wall_keys(ui, state, scene, response.id);
    }
    let name = format!(
        "All {} heads; shown: {}",
        n_layer * n_head,
        scene.heads_name()
    );
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Button, true, &name));
    if let Some((layer, head)) = under {
        response.on_hover_text_at_pointer(format!("layer {}, head {}", layer + 1, head + 1));
    }
    let heads = n_layer * n_head;
    let (caption, more) = if state.drawer.holds_all_layers() {
        (
            format!("all {heads} heads, maxima"),
            "Weights of every head; each pixel is the largest among the cells it covers".to_owned(),
        )
    } else {
        (
            format!("layer {} alone", scene.options.layer + 1),
            format!("All {n_layer} layers do not fit on the graphics device at this length"),
        )
    };
    ui.add(egui::Label::new(dim(caption)).truncate())
        .on_hover_text(more);
}

/// Arrows go from head to head.
fn wall_keys(ui: &Ui, state: &mut AttentionState, scene: &Scene, id: egui::Id) {
    let filter = EventFilter {
        horizontal_arrows: true,
        vertical_arrows: true,
        ..Default::default()
    };
    ui.memory_mut(|memory| memory.set_focus_lock_filter(id, filter));
    let (down, right) = ui.input(|input| {
        let key = |key| isize::from(input.key_pressed(key));
        (
            key(Key::ArrowDown) - key(Key::ArrowUp),
            key(Key::ArrowRight) - key(Key::ArrowLeft),
        )
    });
    if (down, right) != (0, 0) {
        let step = |at: usize, by: isize, count: usize| {
            at.saturating_add_signed(by).min(count.saturating_sub(1))
        };
        state.options.open(
            step(scene.options.layer, down, scene.shape.n_layer),
            step(scene.options.head, right, scene.shape.n_head),
        );
    }
}

// ---- controls ----------------------------------------------------------------------------------------------------

/// Which layer and head, and whether the mean over the layer's heads.
fn choice(ui: &mut Ui, state: &mut AttentionState, scene: &Scene, theme: &Theme) {
    let number = |ui: &mut Ui, name: &str, at: usize, count: usize, enabled: bool| {
        let mut shown = at + 1;
        let label = ui.label(RichText::new(name).small());
        let field = DragValue::new(&mut shown)
            .range(1..=count.max(1))
            .speed(0.05);
        let response = ui.add_enabled(enabled, field).labelled_by(label.id);
        response.changed().then(|| shown.saturating_sub(1))
    };
    let Options {
        layer, head, over, ..
    } = scene.options;
    let Shape { n_layer, n_head } = scene.shape;
    if let Some(layer) = number(ui, "layer", layer, n_layer, over.has_layer()) {
        state.options.layer = layer;
    }
    if let Some(head) = number(ui, "head", head, n_head, over.has_head()) {
        state.options.head = head;
    }
    let combo = egui::ComboBox::from_id_salt("heads shown")
        .selected_text(RichText::new(over.short()).small().color(theme.ink))
        .width(84.0)
        .show_ui(ui, |ui| {
            for over in Over::ALL {
                ui.selectable_value(&mut state.options.over, over, over.describe());
            }
        });
    let name = format!("Heads shown: {}", over.describe());
    combo
        .response
        .widget_info(|| WidgetInfo::labeled(egui::Role::ComboBox, true, &name));
    combo.response.on_hover_text(over.describe());
}

/// Scores → mask → softmax: what is shown, its name, and what it means.
pub const QUANTITIES: [(Quantity, &str, &str); 3] = [
    (
        Quantity::Scores,
        "scores",
        "Before softmax: q · k / √d, which is ln weight + log-sum-exp",
    ),
    (Quantity::Mask, "mask", "Which keys a query may look at"),
    (
        Quantity::Weights,
        "weights",
        "After mask and softmax; a row sums to 1",
    ),
];

/// The three views as parts of one control.
fn quantity(ui: &mut Ui, options: &mut Options, theme: &Theme) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 0.0;
        for (index, (quantity, name, what)) in QUANTITIES.into_iter().enumerate() {
            let left = if index == 0 { 7 } else { 0 };
            let right = if index == 2 { 7 } else { 0 };
            let corners = CornerRadius {
                nw: left,
                sw: left,
                ne: right,
                se: right,
            };
            let on = options.quantity == quantity;
            let role = egui::Role::RadioButton;
            if part(ui, theme, on, name, corners, role)
                .on_hover_text(what)
                .clicked()
            {
                options.quantity = quantity;
            }
        }
        ui.add_space(8.0);
        arcs_toggle(ui, options, theme);
    });
}

/// Shows or hides the arcs over the tokens.
fn arcs_toggle(ui: &mut Ui, options: &mut Options, theme: &Theme) {
    let (corners, role) = (CornerRadius::same(7), egui::Role::CheckBox);
    if part(ui, theme, options.arcs, "arcs", corners, role)
        .on_hover_text("One token's weights as arcs over the text")
        .clicked()
    {
        options.arcs = !options.arcs;
    }
}

/// A small button that is ink while it is on.
fn part(
    ui: &mut Ui,
    theme: &Theme,
    on: bool,
    name: &str,
    corners: CornerRadius,
    role: egui::Role,
) -> Response {
    let (text, ground) = if on {
        (theme.panel, theme.ink)
    } else {
        (theme.ink, theme.panel)
    };
    let button = egui::Button::new(RichText::new(name).small().color(text))
        .fill(ground)
        .corner_radius(corners);
    let response = ui.add(button);
    response.widget_info(|| WidgetInfo::selected(role, true, on, format!("show {name}")));
    response
}

// ---- the legend --------------------------------------------------------------------------------------------------

fn legend(ui: &mut Ui, ctx: &PanelContext, state: &mut AttentionState, scene: &Scene) {
    let theme = ctx.theme;
    let font = FontId::new(11.0 * ctx.scale, egui::FontFamily::Monospace);
    let width = ui.available_width().min(220.0 * ctx.scale);
    let bar_height = 8.0 * ctx.scale;
    let (rect, response) =
        ui.allocate_exact_size(vec2(width, bar_height + 16.0 * ctx.scale), Sense::hover());
    if width < 40.0 {
        return;
    }
    let bar = Rect::from_min_size(rect.min, vec2(width, bar_height));
    let options = &scene.options;
    if options.quantity == Quantity::Mask {
        swatches(ui, theme, rect);
        return;
    }
    let extent = state.drawer.extent(scene);
    let scale_max = state.drawer.scale_max(scene);
    let (ticks, color): (_, fn(f32) -> [u8; 3]) = match options.quantity {
        Quantity::Scores => {
            let end = chart::short(extent);
            let ticks = [
                format!("{}{end}", chart::MINUS),
                "0".to_owned(),
                format!("+{end}"),
            ];
            (ticks, |t| color::diverging(2.0 * t - 1.0))
        }
        _ => (weight_ticks(scale_max, options), cividis),
    };
    ui.painter().add(gradient(bar, color));
    for (tick, (x, align)) in ticks.iter().zip([
        (bar.left(), Align2::LEFT_TOP),
        (bar.center().x, Align2::CENTER_TOP),
        (bar.right(), Align2::RIGHT_TOP),
    ]) {
        let at = pos2(x, bar.bottom() + 2.0);
        ui.painter().text(at, align, tick, font.clone(), theme.dim);
    }
    let unit = match options.quantity {
        Quantity::Scores => "score before softmax",
        _ if options.logarithmic => "weight, logarithmic",
        _ => "weight",
    };
    let unit = if options.without_first && options.quantity == Quantity::Weights {
        format!("{unit}, first token left out of the scale")
    } else {
        unit.to_owned()
    };
    let name = format!("Legend: {unit}, {}", ticks.join(", "));
    response.widget_info(|| WidgetInfo::labeled(egui::Role::Image, true, &name));
    response.on_hover_text(&unit);
}

/// The ends and the middle of the weights' scale. Where the first token is left out of it, there are weights beyond.
fn weight_ticks(scale_max: f32, options: &Options) -> [String; 3] {
    let number = |value: f32| {
        let decimals = (1.0 - value.log10().floor()).clamp(0.0, 6.0) as usize;
        let text = format!("{value:.decimals$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let end = if options.without_first && scale_max < 1.0 {
        format!("≥{}", number(scale_max))
    } else {
        number(scale_max)
    };
    if options.logarithmic {
        let (low, middle) = (1e-4 * scale_max, 1e-2 * scale_max);
        [format!("≤{}", number(low)), number(middle), end]
    } else {
        ["0".to_owned(), number(0.5 * scale_max), end]
    }
}

/// A bar of a colour map, 32 straight pieces.
fn gradient(bar: Rect, color: impl Fn(f32) -> [u8; 3]) -> Drawing {
    const PIECES: u32 = 32;
    let mut mesh = Mesh::default();
    for i in 0..=PIECES {
        let t = i as f32 / PIECES as f32;
        let [r, g, b] = color(t);
        let color = Color32::from_rgb(r, g, b);
        let x = egui::lerp(bar.x_range(), t);
        mesh.colored_vertex(pos2(x, bar.top()), color);
        mesh.colored_vertex(pos2(x, bar.bottom()), color);
        if i > 0 {
            let at = 2 * i;
            mesh.add_triangle(at - 2, at - 1, at);
            mesh.add_triangle(at - 1, at, at + 1);
        }
    }
    Drawing::mesh(mesh)
}

/// The mask's legend: what may be looked at, and what is hatched.
fn swatches(ui: &Ui, theme: &Theme, rect: Rect) {
    let palette = palette(theme);
    let font = TextStyle::Small.resolve(ui.style());
    let size = Vec2::splat(0.6 * rect.height());
    let mut x = rect.left();
    for (name, masked) in [("may look", false), ("masked", true)] {
        let swatch = Rect::from_min_size(pos2(x, rect.top()), size);
        if masked {
            let painter = ui
                .painter()
                .with_clip_rect(swatch.intersect(ui.clip_rect()));
            painter.rect_filled(swatch, 0, palette.masked);
            for step in 0..6 {
                let from = swatch.left_top() + vec2(6.0 * step as f32, 0.0);
                let to = from + vec2(-swatch.height(), swatch.height());
                painter.line_segment([from, to], Stroke::new(1.0, palette.hatch));
            }
        } else {
            ui.painter().rect_filled(swatch, 0, palette.allowed);
        }
        let at = pos2(swatch.right() + 5.0, swatch.center().y);
        let text = ui
            .painter()
            .text(at, Align2::LEFT_CENTER, name, font.clone(), theme.dim);
        x = text.right() + 14.0;
    }
}
