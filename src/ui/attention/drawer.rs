//! Brings the record to where it is drawn: the window's device, or a texture made on the CPU where that has no
//! storage buffers.

use eframe::egui_wgpu::RenderState;
use egui::{Color32, Rect, TextureHandle, TextureId, TextureOptions, Ui, pos2};

use super::scene::Scene;
use crate::heatmap::{
    Arrangement, Heads, Heatmap, Palette, Picture, PictureSlot, Quantity, Rollout, RowCache, Shape,
    Synced, Triangle, WallTexture, largest_score, largest_weight_after_first, paint_cpu,
    paint_wall_cpu,
};
use crate::ui::{Theme, chart};

/// The colours beside the colour maps.
pub fn palette(theme: &Theme) -> Palette {
    let strength = if theme.dark { 0.22 } else { 0.16 };
    Palette {
        ground: theme.panel,
        masked: theme.field,
        hatch: theme.field.lerp_to_gamma(theme.dim, strength),
        not_a_number: theme.negative,
        absent: theme.field.lerp_to_gamma(theme.dim, 0.55),
        allowed: theme.dim,
    }
}

/// What draws, and what it remembers between frames.
#[derive(Default)]
pub struct Drawer {
    device: Option<Device>,
    triangle: Triangle,
    texture: Option<(Picture, TextureHandle)>,
    /// The wall, on paper.
    wall: Option<(Picture, TextureHandle)>,
    /// The largest magnitude of each row's scores.
    extents: RowCache<(Shape, Heads), f32>,
    /// The largest weight of each row that is not the first token's.
    largest: RowCache<(Shape, Heads), f32>,
}

/// A copy draws something else, such as a picture for a file, and begins anew.
impl Clone for Drawer {
    fn clone(&self) -> Self {
        Self::default()
    }
}

enum Device {
    Gpu(Box<Gpu>),
    /// Why there is none that can draw from storage buffers.
    Cpu(String),
}

struct Gpu {
    heatmap: Heatmap,
    slot: PictureSlot,
    derived_slot: PictureSlot,
    wall: WallTexture,
    wall_id: Option<TextureId>,
}

impl Drawer {
    /// Takes over what is new in the record. Called before anything is drawn.
    pub fn sync(&mut self, ui: &Ui, gpu: Option<&RenderState>, scene: &Scene) {
        let device = self.device.get_or_insert_with(|| Device::new(gpu));
        let Device::Gpu(gpu) = device else { return };
        let synced = gpu.heatmap.store.sync(
            scene.shape,
            scene.options.layer,
            scene.record.iter().copied(),
        );
        let derived = scene.derived().map(|_| {
            let rows = scene.drawn_rows();
            gpu.heatmap.derived.sync(Rollout::SHAPE, 0, rows)
        });
        let is_behind = |synced: &Synced| synced.resident_rows < scene.record.len();
        if is_behind(&synced) || derived.as_ref().is_some_and(is_behind) {
            // The rest comes with the next frames.
            ui.ctx().request_repaint();
        }
    }

    /// As in a window without a graphics device.
    #[cfg(test)]
    pub fn without_device() -> Self {
        Self {
            device: Some(Device::new(None)),
            ..Default::default()
        }
    }

    #[cfg(test)]
    pub fn texture_id(&self) -> Option<TextureId> {
        self.texture.as_ref().map(|(_, texture)| texture.id())
    }

    /// Why there is no wall; `None` where there is.
    pub fn obstacle(&self) -> Option<&str> {
        match &self.device {
            Some(Device::Cpu(why)) => Some(why),
            _ => None,
        }
    }

    /// Whether the device holds all layers, or only the one in view because they do not fit.
    pub fn holds_all_layers(&self) -> bool {
        match &self.device {
            Some(Device::Gpu(gpu)) => gpu.heatmap.store.holds_all_layers(),
            _ => true,
        }
    }

    /// Memory taken on the window's device.
    pub fn gpu_bytes(&self) -> usize {
        match &self.device {
            Some(Device::Gpu(gpu)) => gpu.heatmap.store.bytes() + gpu.heatmap.derived.bytes(),
            _ => 0,
        }
    }

    /// The score at the ends of the diverging map, a round number that all shown scores lie within.
    pub fn extent(&mut self, scene: &Scene) -> f32 {
        if scene.options.quantity != Quantity::Scores {
            return 1.0;
        }
        let (shape, heads) = scene.drawn_heads();
        self.extents
            .sync((shape, heads), scene.drawn_rows(), |_, row| {
                row.map_or(0.0, |row| largest_score(row, shape, heads))
            });
        let largest = self.extents.first(scene.rows).copied().fold(0.0, f32::max);
        chart::nice_ceil(f64::from(largest)) as f32
    }

    /// The weight at the end of the colour scale: 1, or a round number that no weight of the shown heads exceeds
    /// but those that the first token gets.
    pub fn scale_max(&mut self, scene: &Scene) -> f32 {
        if !scene.options.without_first {
            return 1.0;
        }
        let (shape, heads) = scene.drawn_heads();
        self.largest
            .sync((shape, heads), scene.drawn_rows(), |_, row| {
                row.map_or(0.0, |row| largest_weight_after_first(row, shape, heads))
            });
        let largest = self.largest.first(scene.rows).copied().fold(0.0, f32::max);
        (chart::nice_ceil(f64::from(largest)) as f32).min(1.0)
    }

    /// Draws one head over `rect`, whose top left corner is at `origin_px`.
    pub fn paint_one(
        &mut self,
        ui: &Ui,
        rect: Rect,
        origin_px: [f32; 2],
        picture: &Picture,
        scene: &Scene,
    ) {
        let painter = ui.painter().with_clip_rect(rect.intersect(ui.clip_rect()));
        if let Some(Device::Gpu(gpu)) = &mut self.device {
            let callback = match scene.derived() {
                None => gpu.heatmap.callback(&mut gpu.slot, picture, origin_px),
                Some(_) => {
                    let slot = &mut gpu.derived_slot;
                    gpu.heatmap.derived_callback(slot, picture, origin_px)
                }
            };
            painter.add(eframe::egui_wgpu::Callback::new_paint_callback(
                rect, callback,
            ));
            return;
        }
        let (shape, heads) = scene.drawn_heads();
        let rows = scene.drawn_rows();
        let changed = self.triangle.sync(shape, heads, picture.quantity, rows);
        let fresh = match &self.texture {
            Some((held, texture)) if held == picture && !changed => texture.id(),
            held => {
                let image = paint_cpu(picture, &self.triangle);
                let texture = match held {
                    Some((_, texture)) => {
                        let mut texture = texture.clone();
                        texture.set(image, TextureOptions::NEAREST);
                        texture
                    }
                    None => ui
                        .ctx()
                        .load_texture("attention", image, TextureOptions::NEAREST),
                };
                let id = texture.id();
                self.texture = Some((*picture, texture));
                id
            }
        };
        painter.image(fresh, rect, whole_texture(), Color32::WHITE);
    }

    /// Draws the wall over `rect` without a device: too long a work to be done for a window at every step.
    pub fn paint_wall_on_paper(&mut self, ui: &Ui, rect: Rect, picture: &Picture, scene: &Scene) {
        if self.wall.as_ref().is_none_or(|(held, _)| held != picture) {
            let image = paint_wall_cpu(picture, &scene.record);
            let texture = ui
                .ctx()
                .load_texture("attention wall", image, TextureOptions::NEAREST);
            self.wall = Some((*picture, texture));
        }
        if let Some((_, texture)) = &self.wall {
            ui.painter()
                .image(texture.id(), rect, whole_texture(), Color32::WHITE);
        }
    }

    /// Draws the wall over `rect`. Nothing where there is no device for it.
    pub fn paint_wall(
        &mut self,
        ui: &Ui,
        gpu: Option<&RenderState>,
        rect: Rect,
        picture: &Picture,
    ) {
        let (Some(Device::Gpu(held)), Some(state)) = (&mut self.device, gpu) else {
            return;
        };
        let replaced = held.wall.refresh(&held.heatmap, picture);
        let Some(texture) = held.wall.texture() else {
            return;
        };
        if replaced || held.wall_id.is_none() {
            let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
            let mut renderer = state.renderer.write();
            let filter = wgpu::FilterMode::Nearest;
            match held.wall_id {
                Some(id) => {
                    renderer.update_egui_texture_from_wgpu_texture(&state.device, &view, filter, id)
                }
                None => {
                    held.wall_id =
                        Some(renderer.register_native_texture(&state.device, &view, filter))
                }
            }
        }
        if let Some(id) = held.wall_id {
            ui.painter()
                .image(id, rect, whole_texture(), Color32::WHITE);
        }
    }
}

impl Device {
    fn new(gpu: Option<&RenderState>) -> Self {
        let Some(state) = gpu else {
            return Self::Cpu("this window has no graphics device".to_owned());
        };
        match Heatmap::new(&state.device, &state.queue, state.target_format) {
            Ok(heatmap) => Self::Gpu(Box::new(Gpu {
                slot: heatmap.slot(),
                derived_slot: heatmap.slot(),
                wall: WallTexture::new(&heatmap),
                wall_id: None,
                heatmap,
            })),
            Err(why) => Self::Cpu(why),
        }
    }
}

/// Texture coordinates of all of a texture.
fn whole_texture() -> Rect {
    Rect::from_min_max(pos2(0.0, 0.0), pos2(1.0, 1.0))
}

/// The picture of one head, or of the wall, under the panel's options.
pub fn picture(
    scene: &Scene,
    theme: &Theme,
    arrangement: Arrangement,
    (extent, scale_max): (f32, f32),
    size_px: [u32; 2],
    pixels_per_point: f32,
) -> Picture {
    let wall = matches!(arrangement, Arrangement::Wall { .. });
    let px = |points: f32| (points * pixels_per_point).round().max(1.0) as u32;
    let mut palette = palette(theme);
    if wall {
        // Too small for hatching: masked is the ground that the hatching has.
        palette.hatch = palette.masked;
    }
    Picture {
        shape: if wall {
            scene.shape
        } else {
            scene.drawn_heads().0
        },
        arrangement,
        quantity: if wall {
            Quantity::Weights
        } else {
            scene.options.quantity
        },
        logarithmic: scene.options.logarithmic,
        scale_max,
        extent,
        rows: scene.rows,
        side: scene.side(),
        size_px,
        hatch_px: [px(6.0), px(1.0)],
        palette,
    }
}
