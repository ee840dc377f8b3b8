//! The wall of all heads: drawn in one call into a texture of its own, and only what of it has changed. On a software
//! rasteriser it is too much to draw with every movement of the pointer, or whole with every step.

use super::{
    Picture,
    gpu::{Heatmap, PictureSlot, WALL_FORMAT},
    store::RowStore,
};

/// A wall and what it was last drawn from.
pub struct WallTexture {
    slot: PictureSlot,
    texture: Option<wgpu::Texture>,
    drawn: Option<Drawn>,
    drawings: usize,
}

/// What a wall was drawn from.
#[derive(Clone, Copy, PartialEq)]
struct Drawn {
    picture: Picture,
    version: u64,
    resident_rows: usize,
    layers: (usize, usize),
}

impl Drawn {
    fn of(picture: &Picture, store: &RowStore) -> Self {
        let layers = store.layers();
        Self {
            picture: *picture,
            version: store.version(),
            resident_rows: store.resident_rows(),
            layers: (layers.start, layers.end),
        }
    }

    /// The first row from which on it differs from `now`; `None` where all may.
    fn changed_from(&self, now: &Self, store: &RowStore) -> Option<usize> {
        let same = Picture {
            rows: now.picture.rows,
            ..self.picture
        } == now.picture;
        if !same || self.layers != now.layers {
            return None;
        }
        let mut from = store.changed_since(self.version);
        for (before, now) in [
            (self.picture.rows, now.picture.rows),
            (self.resident_rows, now.resident_rows),
        ] {
            if before != now {
                from = from.min(before).min(now);
            }
        }
        Some(from)
    }
}

impl WallTexture {
    pub fn new(heatmap: &Heatmap) -> Self {
        Self {
            slot: heatmap.slot(),
            texture: None,
            drawn: None,
            drawings: 0,
        }
    }

    /// Draws what of the wall is not as it should be. Returns whether the texture is another one than before.
    ///
    /// The colours of `picture` must be opaque.
    pub fn refresh(&mut self, heatmap: &Heatmap, picture: &Picture) -> bool {
        let now = Drawn::of(picture, &heatmap.store);
        let from = |drawn: Drawn| drawn.changed_from(&now, &heatmap.store);
        if self
            .drawn
            .and_then(from)
            .is_some_and(|row| row >= picture.rows)
        {
            // Only rows have changed that are not shown.
            self.drawn = Some(now);
            return false;
        }
        self.drawings += 1;
        let size = wgpu::Extent3d {
            width: picture.size_px[0].max(1),
            height: picture.size_px[1].max(1),
            depth_or_array_layers: 1,
        };
        let held = self.texture.take().filter(|texture| texture.size() == size);
        let replaced = held.is_none();
        let drawn = self.drawn.replace(now).filter(|_| !replaced);
        let changed_from = drawn.and_then(|drawn| drawn.changed_from(&now, &heatmap.store));
        let texture = held.unwrap_or_else(|| {
            heatmap.device.create_texture(&wgpu::TextureDescriptor {
                label: Some("attention wall"),
                size,
                mip_level_count: 1,
                sample_count: 1,
                dimension: wgpu::TextureDimension::D2,
                format: WALL_FORMAT,
                usage: wgpu::TextureUsages::RENDER_ATTACHMENT
                    | wgpu::TextureUsages::TEXTURE_BINDING
                    | wgpu::TextureUsages::COPY_SRC,
                view_formats: &[],
            })
        });
        let view = texture.create_view(&wgpu::TextureViewDescriptor::default());
        heatmap.draw_wall(&mut self.slot, picture, &view, changed_from);
        self.texture = Some(texture);
        replaced
    }

    /// How often it has been drawn to.
    pub fn drawings(&self) -> usize {
        self.drawings
    }

    pub fn texture(&self) -> Option<&wgpu::Texture> {
        self.texture.as_ref()
    }
}
