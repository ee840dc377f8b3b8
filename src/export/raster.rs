//! Draws egui's triangles on the CPU: pictures of panels that need no graphics device and are the same everywhere.
//!
//! Colours are gamma-encoded and premultiplied, and blended so, as egui's own shader does on a target that is not
//! sRGB. A pixel belongs to a triangle when its centre lies inside; on an edge, the top and left ones count.

use std::{collections::HashMap, ops::Range};

use egui::{
    Color32, ColorImage, ImageData, Rect, TextureFilter, TextureId, TexturesDelta,
    epaint::{ClippedPrimitive, Mesh, Primitive, Vertex},
};

/// Textures by their ids, as far as a frame's changes tell.
#[derive(Default)]
pub struct Textures(HashMap<TextureId, (ColorImage, TextureFilter)>);

impl Textures {
    pub fn take_over(&mut self, delta: &TexturesDelta) {
        let changes = delta
            .set
            .iter()
            .flat_map(|(id, changes)| changes.iter().map(move |change| (id, change)));
        for (id, change) in changes {
            let ImageData::Color(image) = &change.image;
            let Some([left, top]) = change.pos else {
                let whole = (image.as_ref().clone(), change.options.magnification);
                self.0.insert(*id, whole);
                continue;
            };
            let Some((held, _)) = self.0.get_mut(id) else {
                continue;
            };
            let [width, height] = image.size;
            let fits = left + width <= held.size[0] && top + height <= held.size[1];
            if !fits {
                continue;
            }
            for y in 0..height {
                let to = (top + y) * held.size[0] + left;
                held.pixels[to..to + width]
                    .copy_from_slice(&image.pixels[y * width..(y + 1) * width]);
            }
        }
    }
}

/// Draws tessellated shapes over `ground`.
pub fn rasterise(
    primitives: &[ClippedPrimitive],
    textures: &Textures,
    size_px: [usize; 2],
    pixels_per_point: f32,
    ground: Color32,
) -> ColorImage {
    let mut image = ColorImage::filled(size_px, ground);
    for ClippedPrimitive {
        clip_rect,
        primitive,
    } in primitives
    {
        // Paint callbacks draw on a graphics device, of which there is none here.
        let Primitive::Mesh(mesh) = primitive else {
            continue;
        };
        let Some((texture, filter)) = textures.0.get(&mesh.texture_id) else {
            continue;
        };
        let clip = Clip::of(*clip_rect * pixels_per_point, size_px);
        let sample = |uv: [f32; 2]| match filter {
            TextureFilter::Nearest => nearest(texture, uv),
            TextureFilter::Linear => bilinear(texture, uv),
        };
        draw(&mut image, mesh, &clip, pixels_per_point, &sample);
    }
    image
}

/// Whole pixels that may be drawn to.
struct Clip {
    x: Range<usize>,
    y: Range<usize>,
}

impl Clip {
    fn of(rect: Rect, size: [usize; 2]) -> Self {
        let axis = |min: f32, max: f32, side: usize| {
            let cut = |v: f32| (v.round().max(0.0) as usize).min(side);
            cut(min)..cut(max)
        };
        Self {
            x: axis(rect.min.x, rect.max.x, size[0]),
            y: axis(rect.min.y, rect.max.y, size[1]),
        }
    }
}

fn draw(
    image: &mut ColorImage,
    mesh: &Mesh,
    clip: &Clip,
    pixels_per_point: f32,
    sample: &dyn Fn([f32; 2]) -> [f32; 4],
) {
    for corners in mesh.indices.chunks_exact(3) {
        let corner = |at: usize| mesh.vertices.get(corners[at] as usize);
        if let (Some(a), Some(b), Some(c)) = (corner(0), corner(1), corner(2)) {
            triangle(image, [a, b, c], clip, pixels_per_point, sample);
        }
    }
}

fn triangle(
    image: &mut ColorImage,
    mut corners: [&Vertex; 3],
    clip: &Clip,
    pixels_per_point: f32,
    sample: &dyn Fn([f32; 2]) -> [f32; 4],
) {
    let place = |vertex: &Vertex| {
        let at = vertex.pos * pixels_per_point;
        [f64::from(at.x), f64::from(at.y)]
    };
    let cross = |a: [f64; 2], b: [f64; 2], p: [f64; 2]| {
        (b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0])
    };
    let mut at = corners.map(place);
    let mut area = cross(at[0], at[1], at[2]);
    if area < 0.0 {
        corners.swap(1, 2);
        at.swap(1, 2);
        area = -area;
    }
    if area.is_nan() || area <= 0.0 {
        return;
    }
    let bounds = |axis: usize, range: &Range<usize>| {
        let values = at.map(|p| p[axis]);
        let min = values.into_iter().fold(f64::INFINITY, f64::min).floor();
        let max = values.into_iter().fold(f64::NEG_INFINITY, f64::max).ceil();
        range.start.max(min.max(0.0) as usize)..range.end.min(max.max(0.0) as usize)
    };
    let edges = [(1, 2), (2, 0), (0, 1)].map(|(from, to)| {
        let (a, b) = (at[from], at[to]);
        // With y downwards and this winding, a top edge runs right and a left edge runs up.
        let counts = (a[1] == b[1] && b[0] > a[0]) || b[1] < a[1];
        (a, b, counts)
    });
    let center = |x: usize, y: usize| [x as f64 + 0.5, y as f64 + 0.5];
    let inside = |x: usize, y: usize| {
        edges.iter().all(|&(a, b, counts)| {
            let w = cross(a, b, center(x, y));
            w > 0.0 || (w == 0.0 && counts)
        })
    };
    let colors = corners.map(|vertex| vertex.color.to_array().map(f32::from));
    let same_color = colors[0] == colors[1] && colors[1] == colors[2];
    let same_uv = corners[0].uv == corners[1].uv && corners[1].uv == corners[2].uv;
    let texel = same_uv.then(|| sample([corners[0].uv.x, corners[0].uv.y]));
    let flat = texel
        .filter(|_| same_color)
        .map(|texel| std::array::from_fn(|channel| colors[0][channel] * texel[channel]));
    let shade = |x: usize, y: usize| -> [f32; 4] {
        let share = edges.map(|(a, b, _)| (cross(a, b, center(x, y)) / area) as f32);
        let mix = |of: [f32; 3]| of[0] * share[0] + of[1] * share[1] + of[2] * share[2];
        let texel = texel.unwrap_or_else(|| {
            sample([
                mix(corners.map(|vertex| vertex.uv.x)),
                mix(corners.map(|vertex| vertex.uv.y)),
            ])
        });
        std::array::from_fn(|channel| mix(colors.map(|color| color[channel])) * texel[channel])
    };
    let width = image.size[0];
    for y in bounds(1, &clip.y) {
        // A triangle's pixels in a line follow one another: those at its ends are looked for from where the edges
        // cross the line, a pixel to spare on either side.
        let mut columns = bounds(0, &clip.x);
        for (a, b, _) in &edges {
            let (rise, at_zero) = (a[1] - b[1], cross(*a, *b, [0.5, y as f64 + 0.5]));
            if rise > 0.0 {
                let from = (-at_zero / rise).floor() - 1.0;
                columns.start = columns.start.max(from.max(0.0) as usize);
            } else if rise < 0.0 {
                let to = (-at_zero / rise).ceil() + 2.0;
                columns.end = columns.end.min(to.max(0.0) as usize);
            }
        }
        while !columns.is_empty() && !inside(columns.start, y) {
            columns.start += 1;
        }
        while !columns.is_empty() && !inside(columns.end - 1, y) {
            columns.end -= 1;
        }
        let first = columns.start;
        let Some(line) = image
            .pixels
            .get_mut(y * width + first..y * width + columns.end)
        else {
            continue;
        };
        match flat {
            Some(source) if source[3] >= 255.0 => line.fill(over(source, Color32::TRANSPARENT)),
            Some(source) => line
                .iter_mut()
                .for_each(|pixel| *pixel = over(source, *pixel)),
            None => {
                for (x, pixel) in (first..).zip(line) {
                    *pixel = over(shade(x, y), *pixel);
                }
            }
        }
    }
}

/// `source` in 0..=255, premultiplied, over what is there.
fn over(source: [f32; 4], below: Color32) -> Color32 {
    let keep = 1.0 - source[3] / 255.0;
    let below = below.to_array();
    let [r, g, b, a] = std::array::from_fn(|channel| {
        let sum = source[channel] + f32::from(below[channel]) * keep;
        sum.round().clamp(0.0, 255.0) as u8
    });
    Color32::from_rgba_premultiplied(r, g, b, a)
}

fn texel(texture: &ColorImage, x: i64, y: i64) -> [f32; 4] {
    let [width, height] = texture.size.map(|side| side as i64);
    let at = y.clamp(0, height - 1) * width + x.clamp(0, width - 1);
    let pixel = texture.pixels.get(at as usize).copied();
    pixel
        .unwrap_or_default()
        .to_array()
        .map(|v| f32::from(v) / 255.0)
}

fn nearest(texture: &ColorImage, uv: [f32; 2]) -> [f32; 4] {
    let [width, height] = texture.size.map(|side| side as f32);
    texel(
        texture,
        (uv[0] * width).floor() as i64,
        (uv[1] * height).floor() as i64,
    )
}

fn bilinear(texture: &ColorImage, uv: [f32; 2]) -> [f32; 4] {
    let [width, height] = texture.size.map(|side| side as f32);
    let (x, y) = (uv[0] * width - 0.5, uv[1] * height - 0.5);
    let (left, top) = (x.floor(), y.floor());
    let (fx, fy) = (x - left, y - top);
    let at = |dx: i64, dy: i64| texel(texture, left as i64 + dx, top as i64 + dy);
    let (a, b, c, d) = (at(0, 0), at(1, 0), at(0, 1), at(1, 1));
    std::array::from_fn(|i| {
        let upper = a[i] + (b[i] - a[i]) * fx;
        let lower = c[i] + (d[i] - c[i]) * fx;
        upper + (lower - upper) * fy
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{pos2, vec2};

    fn white() -> Textures {
        let mut textures = Textures::default();
        let image = ColorImage::filled([1, 1], Color32::WHITE);
        let whole = (image, TextureFilter::Linear);
        textures.0.insert(TextureId::default(), whole);
        textures
    }

    fn clipped(mesh: Mesh, clip: Rect) -> Vec<ClippedPrimitive> {
        vec![ClippedPrimitive {
            clip_rect: clip,
            primitive: Primitive::Mesh(mesh),
        }]
    }

    #[test]
    fn neighbouring_rectangles_leave_no_gap_and_share_no_pixel() {
        let mut mesh = Mesh::default();
        let half = Color32::from_rgba_premultiplied(100, 0, 0, 128);
        for x in 0..4 {
            let min = pos2(1.0 + 0.75 * x as f32, 1.0);
            mesh.add_colored_rect(Rect::from_min_size(min, vec2(0.75, 3.0)), half);
        }
        let clip = Rect::from_min_size(pos2(0.0, 0.0), vec2(10.0, 10.0));
        let image = rasterise(
            &clipped(mesh, clip),
            &white(),
            [10, 10],
            2.0,
            Color32::BLACK,
        );
        for y in 0..10 {
            for x in 0..10 {
                let inside = (2..8).contains(&x) && (2..8).contains(&y);
                let expected = if inside { 100 } else { 0 };
                assert_eq!(image[(x, y)].r(), expected, "{x}, {y}");
            }
        }
    }

    #[test]
    fn colours_are_mixed_clipped_and_blended() {
        let mut mesh = Mesh::default();
        mesh.colored_vertex(pos2(0.0, 0.0), Color32::BLACK);
        mesh.colored_vertex(pos2(256.0, 0.0), Color32::WHITE);
        mesh.colored_vertex(pos2(256.0, 4.0), Color32::WHITE);
        mesh.colored_vertex(pos2(0.0, 4.0), Color32::BLACK);
        mesh.add_triangle(0, 1, 2);
        mesh.add_triangle(0, 2, 3);
        let clip = Rect::from_min_max(pos2(10.0, 1.0), pos2(300.0, 3.0));
        let image = rasterise(&clipped(mesh, clip), &white(), [256, 4], 1.0, Color32::RED);
        assert_eq!(image[(9, 2)], Color32::RED);
        assert_eq!(image[(10, 0)], Color32::RED);
        for x in [10, 128, 255] {
            assert!(image[(x, 1)].g().abs_diff(x as u8) <= 1, "{x}");
        }
    }

    #[test]
    fn what_is_no_number_or_unknown_is_not_drawn() {
        let mut mesh = Mesh::default();
        for _ in 0..3 {
            mesh.colored_vertex(pos2(f32::NAN, 1.0), Color32::WHITE);
        }
        mesh.add_triangle(0, 1, 2);
        let everything = Rect::EVERYTHING;
        let shapes = clipped(mesh.clone(), everything);
        let image = rasterise(&shapes, &white(), [4, 4], 1.0, Color32::RED);
        assert!(image.pixels.iter().all(|&pixel| pixel == Color32::RED));
        mesh.texture_id = TextureId::User(7);
        let shapes = clipped(mesh, everything);
        rasterise(&shapes, &white(), [0, 0], 1.0, Color32::RED);
    }
}
