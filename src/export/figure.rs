//! A panel's picture without its window: the same drawing code in an egui context of its own, at any scale.
//!
//! [`Figure::draw`] runs on the window's thread, because panels read the session; [`Figure::rasterise`] is the long
//! part and may run elsewhere.

use std::sync::Arc;

use egui::{
    Color32, ColorImage, Context, Pos2, RawInput, Rect, RichText, Ui, UiBuilder, Vec2, ViewportId,
    epaint::ClippedShape, pos2, util::IdTypeMap, vec2,
};

use super::raster::{Textures, rasterise};
use crate::ui::{
    Theme,
    theme::{self, PANEL_PADDING},
};

/// Passes until sizes that depend on the pass before have settled.
const PASSES: usize = 3;

/// Longest side in pixels: a picture of 8,192 by 8,192 takes 256 MiB.
const LONGEST_PX: f32 = 8192.0;

/// Shapes that are ready to be drawn.
pub struct Figure {
    ctx: Context,
    shapes: Vec<ClippedShape>,
    textures: Textures,
    size_px: [usize; 2],
    pixels_per_point: f32,
    ground: Color32,
}

impl Figure {
    /// Lets `show` draw a panel over `size` points, and writes `caption` below; what the panel leaves empty at its
    /// bottom is cut off. `type_scale` is 1.0 at 100 %. `memory` is what widgets remember in the window, such as how
    /// far they are scrolled.
    ///
    /// `pixels_per_point` is less than asked for where the picture would be larger than [`LONGEST_PX`].
    pub fn draw(
        theme: &Theme,
        type_scale: f32,
        size: Vec2,
        caption: &str,
        pixels_per_point: f32,
        memory: IdTypeMap,
        mut show: impl FnMut(&mut Ui),
    ) -> Self {
        let size = size.max(Vec2::splat(1.0));
        let pixels_per_point = pixels_per_point.min(LONGEST_PX / size.max_elem());
        let ctx = Context::default();
        ctx.set_fonts(theme::fonts());
        ctx.add_font(egui_material_icons::font_insert());
        ctx.add_font_provider(Arc::new(
            egui_system_font_provider::SystemFontProvider::new(),
        ));
        theme.apply(&ctx, type_scale);
        ctx.memory_mut(|held| held.data = memory);
        let mut figure = Self {
            ctx,
            shapes: Vec::new(),
            textures: Textures::default(),
            size_px: [0; 2],
            pixels_per_point,
            ground: theme.panel,
        };
        let panel = Rect::from_min_size(Pos2::ZERO, size);
        let mut caption_top = size.y;
        let mut height = size.y;
        for pass in 0..PASSES {
            let mut input = RawInput {
                screen_rect: Some(Rect::from_min_size(Pos2::ZERO, vec2(size.x, LONGEST_PX))),
                max_texture_side: Some(LONGEST_PX as usize),
                time: Some(pass as f64),
                ..Default::default()
            };
            let viewport = input.viewports.entry(ViewportId::ROOT).or_default();
            viewport.native_pixels_per_point = Some(pixels_per_point);
            let output = figure.ctx.run_ui(input, |ui| {
                show(&mut ui.new_child(UiBuilder::new().max_rect(panel)));
                if pass + 1 == PASSES && !caption.is_empty() {
                    let top = pos2(PANEL_PADDING, caption_top);
                    let room = vec2(size.x - 2.0 * PANEL_PADDING, f32::INFINITY);
                    let rect = Rect::from_min_size(top, room);
                    let text = RichText::new(caption).small().color(theme.dim);
                    let label = egui::Label::new(text).wrap().selectable(false);
                    let mut below = ui.new_child(UiBuilder::new().max_rect(rect));
                    height = below.add(label).rect.bottom() + PANEL_PADDING;
                }
            });
            figure.textures.take_over(&output.textures_delta);
            figure.shapes = output.shapes;
            if pass + 1 < PASSES {
                caption_top = figure.bottom().min(size.y) + PANEL_PADDING;
                height = caption_top;
            }
        }
        // Very long captions and very wide pictures have an end.
        let height = height.min(LONGEST_PX / pixels_per_point);
        figure.size_px = [size.x, height].map(|side| (side * pixels_per_point).round() as usize);
        figure
    }

    /// Where the lowest shape ends.
    fn bottom(&self) -> f32 {
        let ends = self.shapes.iter().map(|clipped| {
            let seen = clipped.shape.visual_bounding_rect();
            seen.intersect(clipped.clip_rect)
        });
        ends.filter(|rect| rect.is_positive())
            .fold(0.0, |lowest, rect| rect.bottom().max(lowest))
    }

    pub fn rasterise(self) -> ColorImage {
        let primitives = self.ctx.tessellate(self.shapes, self.pixels_per_point);
        rasterise(
            &primitives,
            &self.textures,
            self.size_px,
            self.pixels_per_point,
            self.ground,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(size: Vec2, caption: &str, scale: f32, show: impl FnMut(&mut Ui)) -> Figure {
        let memory = IdTypeMap::default();
        Figure::draw(&Theme::LIGHT, 1.0, size, caption, scale, memory, show)
    }

    /// Pixels that are written on.
    fn inked(image: &ColorImage) -> usize {
        image.pixels.iter().filter(|pixel| pixel.r() < 128).count()
    }

    #[test]
    fn a_label_is_drawn_at_any_scale() {
        let mut shares = Vec::new();
        for scale in [1.0, 2.0, 4.0] {
            let figure = draw(vec2(120.0, 40.0), "", scale, |ui| {
                ui.label("Weights 東京");
                ui.allocate_space(ui.available_size());
            });
            let image = figure.rasterise();
            assert_eq!(image.size[0], 120 * scale as usize);
            let count = inked(&image);
            assert!(
                count > 40,
                "something is written at {scale}: {count} dark pixels"
            );
            shares.push(count as f32 / (scale * scale));
        }
        // The letters cover the same share of the picture.
        assert!((shares[1] / shares[2] - 1.0).abs() < 0.2, "{shares:?}");
    }

    #[test]
    fn the_caption_follows_what_is_drawn_and_wraps() {
        let bar = |ui: &mut Ui| {
            let rect = Rect::from_min_size(ui.max_rect().min, vec2(50.0, 30.0));
            ui.painter().rect_filled(rect, 0, Color32::BLACK);
        };
        let heights = ["", "a caption", &"many words ".repeat(20)].map(|caption| {
            let image = draw(vec2(200.0, 400.0), caption, 1.0, bar).rasterise();
            assert!(inked(&image) >= 50 * 30);
            image.size[1]
        });
        assert_eq!(heights[0], 30 + PANEL_PADDING as usize);
        assert!(
            heights[0] + 15 < heights[1] && heights[1] + 30 < heights[2],
            "{heights:?}"
        );
    }

    #[test]
    fn sizes_are_bounded() {
        let figure = draw(vec2(4000.0, 10.0), "", 4.0, |_| {});
        assert_eq!(figure.size_px[0], 8192);
        let [width, height] = draw(Vec2::ZERO, "a", 1.0, |_| {}).rasterise().size;
        assert!(width == 1 && (1..=8192).contains(&height));
    }
}
