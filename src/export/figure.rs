//! A panel's picture without its window: the same drawing code in an egui context of its own, at any scale.
//!
//! [`Figure::draw`] runs on the window's thread, because panels read the session; [`Figure::rasterise`] is the long
//! part and may run elsewhere.

use std::sync::Arc;

use egui::{
    Color32, ColorImage, Context, Pos2, RawInput, Rect, Ui, Vec2, ViewportId, epaint::ClippedShape,
    util::IdTypeMap,
};

use super::raster::{Textures, rasterise};
use crate::ui::{Theme, theme};

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
    /// Lets `show` draw over `size` points; `type_scale` is 1.0 at 100 %. `memory` is what widgets remember in the
    /// window, such as how far they are scrolled.
    ///
    /// `pixels_per_point` is less than asked for where the picture would be larger than [`LONGEST_PX`].
    pub fn draw(
        theme: &Theme,
        type_scale: f32,
        size: Vec2,
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
            size_px: [size.x, size.y].map(|side| (side * pixels_per_point).round() as usize),
            pixels_per_point,
            ground: theme.panel,
        };
        for pass in 0..PASSES {
            let mut input = RawInput {
                screen_rect: Some(Rect::from_min_size(Pos2::ZERO, size)),
                max_texture_side: Some(LONGEST_PX as usize),
                time: Some(pass as f64),
                ..Default::default()
            };
            let viewport = input.viewports.entry(ViewportId::ROOT).or_default();
            viewport.native_pixels_per_point = Some(pixels_per_point);
            let output = figure.ctx.run_ui(input, &mut show);
            figure.textures.take_over(&output.textures_delta);
            figure.shapes = output.shapes;
        }
        figure
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

    #[test]
    fn a_label_is_drawn_at_any_scale() {
        let mut inked = Vec::new();
        for scale in [1.0, 2.0, 4.0] {
            let (size, memory) = (egui::vec2(120.0, 40.0), IdTypeMap::default());
            let figure = Figure::draw(&Theme::LIGHT, 1.0, size, scale, memory, |ui| {
                ui.label("Weights 東京");
            });
            let image = figure.rasterise();
            assert_eq!(image.size, [120, 40].map(|side| side * scale as usize));
            let dark = |pixel: &&Color32| pixel.r() < 128;
            let count = image.pixels.iter().filter(dark).count();
            assert!(
                count > 40,
                "something is written at {scale}: {count} dark pixels"
            );
            inked.push(count as f32 / (scale * scale));
        }
        // The letters cover the same share of the picture.
        assert!((inked[1] / inked[2] - 1.0).abs() < 0.2, "{inked:?}");
    }

    #[test]
    fn sizes_are_bounded() {
        let draw = |size, scale| {
            Figure::draw(&Theme::DARK, 1.0, size, scale, IdTypeMap::default(), |_| {})
        };
        let figure = draw(egui::vec2(4000.0, 10.0), 4.0);
        assert_eq!(figure.size_px[0], 8192);
        let figure = draw(Vec2::ZERO, 1.0);
        assert_eq!(figure.rasterise().size, [1, 1]);
    }
}
