// Attention as a picture: one head, the mean over several, or the wall of all heads.
//
// One fragment shader over the recorded rows. They form one long array of words, two f16 weights in each, cut into
// pages of 2^page_shift words; `src/heatmap/mod.rs` describes the layout. Everything below that says "keep in sync"
// has a twin in `src/heatmap/cpu.rs` or `color.rs`; tests/heatmap compares the two pixel by pixel.

// Keep in sync with `uniform_words` in src/heatmap/gpu.rs. Colours are gamma-encoded, premultiplied, 0..1.
struct View {
    ground: vec4f,
    masked: vec4f,
    hatch: vec4f,
    not_a_number: vec4f,
    absent: vec4f,
    allowed: vec4f,
    negative: vec4f,
    zero: vec4f,
    positive: vec4f,
    // Top left corner in the target, width and height.
    origin_px: vec2f,
    size_px: vec2f,
    // One head: the cell [key, query] at the corner, and pixels along a cell.
    first_cell: vec2f,
    cell_px: f32,
    // The score at the ends of the diverging map.
    extent: f32,
    // Wall: pixels from one thumbnail to the next, and along one. A pitch of 0 means one head.
    pitch_px: u32,
    thumb_px: u32,
    hatch_period_px: u32,
    hatch_line_px: u32,
    // Rows shown, rows that have been uploaded, cells along the square's side.
    rows: u32,
    resident_rows: u32,
    side: u32,
    n_layer: u32,
    n_head: u32,
    // The layers that are uploaded.
    first_layer: u32,
    layers: u32,
    // One head: the first and how many to average, counted through the layers that are uploaded.
    first_head: u32,
    head_count: u32,
    quantity: u32,
    logarithmic: u32,
    page_shift: u32,
    // 1 where the target encodes sRGB itself.
    linear_target: u32,
    // Wall: pixels that only cover rows and keys before this one are as they were drawn before.
    changed_from: u32,
    // One head: from one of the averaged heads to the next.
    head_step: u32,
    // The weight at the upper end of its colour scale.
    scale_max: f32,
    cividis: array<vec4u, 64>,
}

const WEIGHTS = 0u;
const SCORES = 1u;
const MASK = 2u;
// A word that stands for weights which are not there: it fills a row of a layer that is not there. Keep in sync with
// `ABSENT_WORD` in src/heatmap/store.rs.
const ABSENT = 0xffffffffu;
const LN_2 = 0.6931471805599453;

@group(0) @binding(0) var<uniform> view: View;
@group(0) @binding(1) var<storage, read> page_0: array<u32>;
@group(0) @binding(2) var<storage, read> page_1: array<u32>;
@group(0) @binding(3) var<storage, read> page_2: array<u32>;
@group(0) @binding(4) var<storage, read> page_3: array<u32>;
@group(0) @binding(5) var<storage, read> page_4: array<u32>;
@group(0) @binding(6) var<storage, read> page_5: array<u32>;
@group(0) @binding(7) var<storage, read> page_6: array<u32>;
// [row, head]: log-sum-exp, as bits so that it can be told from NaN.
@group(0) @binding(8) var<storage, read> log_sum_exp: array<u32>;

@vertex
fn vs_main(@builtin(vertex_index) index: u32) -> @builtin(position) vec4f {
    // One triangle that covers the target; the scissor cuts it to the picture.
    let corner = vec2f(f32((index << 1u) & 2u), f32(index & 2u));
    return vec4f(corner * 2.0 - 1.0, 0.0, 1.0);
}

// ---- the record ------------------------------------------------------------------------------------------------

// Words that the rows before `row` take for one head. Keep in sync with `words_before` in src/heatmap/mod.rs.
fn words_before(row: u32) -> u32 {
    return ((row + 1u) * (row + 1u)) / 4u;
}

// Keep in sync with `word_index` in src/heatmap/mod.rs.
fn first_word_of(head: u32, row: u32) -> u32 {
    return view.layers * view.n_head * words_before(row) + head * ((row + 2u) / 2u);
}

fn word(index: u32) -> u32 {
    let at = index & ((1u << view.page_shift) - 1u);
    switch index >> view.page_shift {
        case 0u: { return page_0[at]; }
        case 1u: { return page_1[at]; }
        case 2u: { return page_2[at]; }
        case 3u: { return page_3[at]; }
        case 4u: { return page_4[at]; }
        case 5u: { return page_5[at]; }
        default: { return page_6[at]; }
    }
}

// ---- cells -----------------------------------------------------------------------------------------------------

// What the cells under a pixel hold.
struct Found {
    // The largest value, where there is one.
    value: f32,
    some_value: bool,
    some_nan: bool,
    // At least one cell is not masked.
    some_cell: bool,
}

// One cell: x is its value, y says what it is.
const IS_VALUE = 0.0;
const IS_NAN = 1.0;
const IS_ABSENT = 2.0;

// A weight or score from its 16 bits; bits are looked at because WGSL promises nothing about NaN.
fn cell(bits: u32, row: u32, head: u32) -> vec2f {
    if (bits & 0x7c00u) == 0x7c00u {
        return vec2f(0.0, IS_NAN);
    }
    let weight = unpack2x16float(bits).x;
    if view.quantity != SCORES {
        return vec2f(weight, IS_VALUE);
    }
    let lse = log_sum_exp[row * view.layers * view.n_head + head];
    if (lse & 0x7f800000u) == 0x7f800000u {
        return vec2f(0.0, IS_NAN);
    }
    if weight <= 0.0 {
        // Too small for f16: the score is somewhere below what can be told.
        return vec2f(0.0, IS_ABSENT);
    }
    return vec2f(log2(weight) * LN_2 + bitcast<f32>(lse), IS_VALUE);
}

// The largest of a row's cells from `first_key` up to `end`. Weights are not negative, so that their bits compare as
// they do, NaN above all; a score is larger where its weight is.
fn largest_cell(row: u32, first_key: u32, end: u32, head: u32) -> vec2f {
    let start = first_word_of(head, row);
    let last = (end - 1u) / 2u;
    var largest = 0u;
    for (var j = first_key / 2u; j <= last; j++) {
        var pair = word(start + j);
        if pair == ABSENT {
            return vec2f(0.0, IS_ABSENT);
        }
        if 2u * j < first_key {
            pair &= 0xffff0000u;
        }
        if 2u * j + 2u > end {
            pair &= 0xffffu;
        }
        largest = max(largest, max(pair & 0xffffu, pair >> 16u));
    }
    return cell(largest, row, head);
}

// The mean over `count` heads from `first` on, `view.head_step` apart; it exists only where all of them do.
fn mean_cell(row: u32, key: u32, first: u32, count: u32) -> vec2f {
    var sum = 0.0;
    var kind = IS_VALUE;
    for (var i = 0u; i < count; i++) {
        let head = first + i * view.head_step;
        let pair = word(first_word_of(head, row) + key / 2u);
        if pair == ABSENT {
            kind = IS_ABSENT;
            continue;
        }
        let one = cell((pair >> (16u * (key & 1u))) & 0xffffu, row, head);
        if one.y == IS_NAN {
            return one;
        }
        kind = max(kind, one.y);
        sum += one.x;
    }
    return vec2f(sum / f32(count), kind);
}

fn include(found: ptr<function, Found>, one: vec2f) {
    if one.y == IS_VALUE {
        if !(*found).some_value || one.x > (*found).value {
            (*found).value = one.x;
        }
        (*found).some_value = true;
    } else if one.y == IS_NAN {
        (*found).some_nan = true;
    }
}

// All cells with row in rows.x .. rows.y and key in keys.x .. keys.y.
fn look(rows: vec2u, keys: vec2u, first: u32, count: u32) -> Found {
    var found = Found(0.0, false, false, false);
    for (var row = max(rows.x, keys.x); row < min(rows.y, view.rows); row++) {
        // Key k is masked for all rows above k.
        let end = min(keys.y, row + 1u);
        if end <= keys.x {
            continue;
        }
        found.some_cell = true;
        if row >= view.resident_rows || view.quantity == MASK {
            continue;
        }
        if count == 1u {
            include(&found, largest_cell(row, keys.x, end, first));
        } else {
            for (var key = keys.x; key < end; key++) {
                include(&found, mean_cell(row, key, first, count));
            }
        }
    }
    return found;
}

// The cells that pixel `p` covers along one axis, from `first` on with `inverse` cells a pixel: the one under its
// centre, or all of them where they are smaller than a pixel. Keep in sync with `cells_under` in src/heatmap/cpu.rs.
fn cells_under(p: f32, first: f32, inverse: f32) -> vec2u {
    if inverse <= 1.0 {
        let at = u32(max(first + (p + 0.5) * inverse, 0.0));
        return vec2u(at, at + 1u);
    }
    // The margin keeps rounding from counting a cell that the pixel only touches.
    let start = u32(max(floor(first + p * inverse + 0.001), 0.0));
    let end = u32(max(ceil(first + (p + 1.0) * inverse - 0.001), 0.0));
    return vec2u(start, max(end, start + 1u));
}

// ---- colours ---------------------------------------------------------------------------------------------------

fn point(i: u32) -> vec3f {
    let rgb = view.cividis[i / 4u][i % 4u];
    return vec3f(f32((rgb >> 16u) & 0xffu), f32((rgb >> 8u) & 0xffu), f32(rgb & 0xffu)) / 255.0;
}

// Keep in sync with `cividis` in src/heatmap/color.rs.
fn cividis(t: f32) -> vec3f {
    let x = clamp(t, 0.0, 1.0) * 255.0;
    let i = min(u32(x), 254u);
    return mix(point(i), point(i + 1u), clamp(x - f32(i), 0.0, 1.0));
}

// Keep in sync with `diverging` in src/heatmap/color.rs.
fn diverging(t: f32) -> vec3f {
    let end = select(view.positive.rgb, view.negative.rgb, t < 0.0);
    return mix(view.zero.rgb, end, min(abs(t), 1.0));
}

// Keep in sync with `place` in src/heatmap/color.rs: 1e-4 is LOG_FLOOR, log2(10) * 4 spans its four decades.
fn place(weight: f32) -> f32 {
    if view.logarithmic != 0u {
        return 1.0 + log2(max(weight, 1e-4)) / 13.287712;
    }
    return weight;
}

// Keep in sync with `shade` in src/heatmap/cpu.rs.
fn shade(p: vec2u, rows: vec2u, keys: vec2u, first: u32, count: u32) -> vec4f {
    if rows.x >= view.rows || keys.x >= view.rows {
        return view.ground;
    }
    let found = look(rows, keys, first, count);
    if !found.some_cell {
        let on_line = (p.x + p.y) % max(view.hatch_period_px, 1u) < view.hatch_line_px;
        return select(view.masked, view.hatch, on_line);
    }
    if view.quantity == MASK {
        return view.allowed;
    }
    if found.some_nan {
        return view.not_a_number;
    }
    if !found.some_value {
        return view.absent;
    }
    if view.quantity == SCORES {
        return vec4f(diverging(found.value / view.extent), 1.0);
    }
    return vec4f(cividis(place(found.value / view.scale_max)), 1.0);
}

fn picture(p: vec2u) -> vec4f {
    if view.pitch_px == 0u {
        let inverse = 1.0 / view.cell_px;
        let keys = cells_under(f32(p.x), view.first_cell.x, inverse);
        let rows = cells_under(f32(p.y), view.first_cell.y, inverse);
        if view.first_head == 0xffffffffu {
            // The layer is not uploaded.
            return shade_absent(p, rows, keys);
        }
        return shade(p, rows, keys, view.first_head, view.head_count);
    }
    let thumb = p / view.pitch_px;
    let inner = p % view.pitch_px;
    if thumb.x >= view.n_head || thumb.y >= view.n_layer || inner.x >= view.thumb_px || inner.y >= view.thumb_px {
        return view.ground;
    }
    let inverse = f32(view.side) / f32(view.thumb_px);
    let keys = cells_under(f32(inner.x), 0.0, inverse);
    let rows = cells_under(f32(inner.y), 0.0, inverse);
    if rows.y <= view.changed_from && keys.y <= view.changed_from {
        // Leaves what is there: the target is blended with.
        return vec4f(0.0);
    }
    if thumb.y < view.first_layer || thumb.y >= view.first_layer + view.layers {
        return shade_absent(inner, rows, keys);
    }
    return shade(inner, rows, keys, (thumb.y - view.first_layer) * view.n_head + thumb.x, 1u);
}

// A head of which nothing is uploaded: its mask alone can be told.
fn shade_absent(p: vec2u, rows: vec2u, keys: vec2u) -> vec4f {
    if rows.x >= view.rows || keys.x >= view.rows {
        return view.ground;
    }
    if keys.x >= min(rows.y, view.rows) {
        let on_line = (p.x + p.y) % max(view.hatch_period_px, 1u) < view.hatch_line_px;
        return select(view.masked, view.hatch, on_line);
    }
    if view.quantity == MASK {
        return view.allowed;
    }
    return view.absent;
}

fn to_linear(c: vec3f) -> vec3f {
    return select(pow((c + 0.055) / 1.055, vec3f(2.4)), c / 12.92, c <= vec3f(0.04045));
}

@fragment
fn fs_main(@builtin(position) position: vec4f) -> @location(0) vec4f {
    let p = floor(position.xy) - view.origin_px;
    if any(p < vec2f(0.0)) || any(p >= view.size_px) {
        return vec4f(0.0);
    }
    let color = picture(vec2u(p));
    if view.linear_target != 0u {
        return vec4f(to_linear(color.rgb), color.a);
    }
    return color;
}
