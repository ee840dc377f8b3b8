//! The colour maps of attention: cividis for weights, a diverging map for scores.
//!
//! Cividis is the map of Nuñez, Anderton & Renslow, "Optimizing colormaps with consideration for color vision
//! deficiency to enable accurate interpretation of scientific data", PLoS ONE 13(7): e0199239 (2018), at its 256
//! published points. The shader has no table of its own: it reads this one through its uniform buffer.

/// The 256 points of cividis as 0xRRGGBB in gamma-encoded sRGB, for values 0, 1/255, … 1.
#[rustfmt::skip]
pub(super) const CIVIDIS: [u32; 256] = [
    0x00224E, 0x00234F, 0x002451, 0x002553, 0x002554, 0x002656, 0x002758, 0x002859, 0x00285B, 0x00295D,
    0x002A5F, 0x002A61, 0x002B62, 0x002C64, 0x002C66, 0x002D68, 0x002E6A, 0x002E6C, 0x002F6D, 0x00306F,
    0x003070, 0x003170, 0x003171, 0x013271, 0x053371, 0x083370, 0x0C3470, 0x0F3570, 0x123570, 0x143670,
    0x163770, 0x18376F, 0x1A386F, 0x1C396F, 0x1E3A6F, 0x203A6F, 0x213B6E, 0x233C6E, 0x243C6E, 0x263D6E,
    0x273E6E, 0x293F6E, 0x2A3F6D, 0x2B406D, 0x2D416D, 0x2E416D, 0x2F426D, 0x31436D, 0x32436D, 0x33446D,
    0x34456C, 0x35456C, 0x36466C, 0x38476C, 0x39486C, 0x3A486C, 0x3B496C, 0x3C4A6C, 0x3D4A6C, 0x3E4B6C,
    0x3F4C6C, 0x404C6C, 0x414D6C, 0x424E6C, 0x434E6C, 0x444F6C, 0x45506C, 0x46516C, 0x47516C, 0x48526C,
    0x49536C, 0x4A536C, 0x4B546C, 0x4C556C, 0x4D556C, 0x4E566C, 0x4F576C, 0x50576C, 0x51586D, 0x52596D,
    0x535A6D, 0x545A6D, 0x555B6D, 0x555C6D, 0x565C6D, 0x575D6D, 0x585E6D, 0x595E6E, 0x5A5F6E, 0x5B606E,
    0x5C616E, 0x5D616E, 0x5E626E, 0x5E636F, 0x5F636F, 0x60646F, 0x61656F, 0x62656F, 0x636670, 0x646770,
    0x656870, 0x656870, 0x666970, 0x676A71, 0x686A71, 0x696B71, 0x6A6C71, 0x6B6D72, 0x6C6D72, 0x6C6E72,
    0x6D6F72, 0x6E6F73, 0x6F7073, 0x707173, 0x717274, 0x727274, 0x727374, 0x737475, 0x747475, 0x757575,
    0x767676, 0x777776, 0x777777, 0x787877, 0x797977, 0x7A7A78, 0x7B7A78, 0x7C7B78, 0x7D7C78, 0x7E7C78,
    0x7E7D78, 0x7F7E78, 0x807F78, 0x817F78, 0x828079, 0x838179, 0x848279, 0x858279, 0x868379, 0x878478,
    0x888578, 0x898578, 0x8A8678, 0x8B8778, 0x8C8878, 0x8D8878, 0x8E8978, 0x8F8A78, 0x908B78, 0x918B78,
    0x928C78, 0x928D78, 0x938E78, 0x948E77, 0x958F77, 0x969077, 0x979177, 0x989277, 0x999277, 0x9A9376,
    0x9B9476, 0x9C9576, 0x9D9576, 0x9E9676, 0x9F9775, 0xA09875, 0xA19975, 0xA29975, 0xA39A74, 0xA49B74,
    0xA59C74, 0xA69C74, 0xA79D73, 0xA89E73, 0xA99F73, 0xAAA073, 0xABA072, 0xACA172, 0xADA272, 0xAEA371,
    0xAFA471, 0xB0A571, 0xB1A570, 0xB3A670, 0xB4A76F, 0xB5A86F, 0xB6A96F, 0xB7A96E, 0xB8AA6E, 0xB9AB6D,
    0xBAAC6D, 0xBBAD6D, 0xBCAE6C, 0xBDAE6C, 0xBEAF6B, 0xBFB06B, 0xC0B16A, 0xC1B26A, 0xC2B369, 0xC3B369,
    0xC4B468, 0xC5B568, 0xC6B667, 0xC7B767, 0xC8B866, 0xC9B965, 0xCBB965, 0xCCBA64, 0xCDBB63, 0xCEBC63,
    0xCFBD62, 0xD0BE62, 0xD1BF61, 0xD2C060, 0xD3C05F, 0xD4C15F, 0xD5C25E, 0xD6C35D, 0xD7C45C, 0xD9C55C,
    0xDAC65B, 0xDBC75A, 0xDCC859, 0xDDC858, 0xDEC958, 0xDFCA57, 0xE0CB56, 0xE1CC55, 0xE2CD54, 0xE4CE53,
    0xE5CF52, 0xE6D051, 0xE7D150, 0xE8D24F, 0xE9D34E, 0xEAD34C, 0xEBD44B, 0xEDD54A, 0xEED649, 0xEFD748,
    0xF0D846, 0xF1D945, 0xF2DA44, 0xF3DB42, 0xF5DC41, 0xF6DD3F, 0xF7DE3E, 0xF8DF3C, 0xF9E03A, 0xFBE138,
    0xFCE236, 0xFDE334, 0xFEE434, 0xFEE535, 0xFEE636, 0xFEE838,
];

fn channels(rgb: u32) -> [f32; 3] {
    [16, 8, 0].map(|shift| ((rgb >> shift) & 0xff) as f32)
}

fn mix(a: [f32; 3], b: [f32; 3], t: f32) -> [u8; 3] {
    std::array::from_fn(|i| (a[i] + (b[i] - a[i]) * t).round() as u8)
}

/// Cividis at `t` in 0..=1, clamped, straight lines between its 256 points; gamma-encoded sRGB.
///
/// Keep in sync with `cividis` in `shaders/heatmap.wgsl`; `tests/heatmap` compares the two.
pub fn cividis(t: f32) -> [u8; 3] {
    let x = t.clamp(0.0, 1.0) * 255.0;
    // A NaN becomes 0 here; callers tell it apart before they ask for a colour.
    let i = (x as usize).min(254);
    mix(
        channels(CIVIDIS[i]),
        channels(CIVIDIS[i + 1]),
        (x - i as f32).clamp(0.0, 1.0),
    )
}

/// The ends and the middle of the diverging map for scores before softmax: brown, paper, teal, which red-green
/// blindness does not confuse and which a grey print shows darker on both sides.
pub const NEGATIVE: [u8; 3] = [0x8C, 0x46, 0x12];
pub const ZERO: [u8; 3] = [0xF4, 0xF1, 0xEA];
pub const POSITIVE: [u8; 3] = [0x0B, 0x5F, 0x58];

/// The diverging map at `t` in -1..=1, clamped; gamma-encoded sRGB.
///
/// Keep in sync with `diverging` in `shaders/heatmap.wgsl`; `tests/heatmap` compares the two.
pub fn diverging(t: f32) -> [u8; 3] {
    let end = if t < 0.0 { NEGATIVE } else { POSITIVE };
    mix(ZERO.map(f32::from), end.map(f32::from), t.abs().min(1.0))
}

/// Smallest weight that the logarithmic scale tells from zero.
pub const LOG_FLOOR: f32 = 1e-4;

/// Where a weight lies on its colour scale, 0..=1.
///
/// Keep in sync with `place` in `shaders/heatmap.wgsl`.
pub fn place(weight: f32, logarithmic: bool) -> f32 {
    if logarithmic {
        1.0 + weight.max(LOG_FLOOR).log10() / 4.0
    } else {
        weight
    }
    .clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cividis_runs_from_blue_to_yellow_through_its_points() {
        assert_eq!(cividis(0.0), [0x00, 0x22, 0x4E]);
        assert_eq!(cividis(1.0), [0xFE, 0xE8, 0x38]);
        assert_eq!(cividis(-1.0), cividis(0.0));
        assert_eq!(cividis(7.0), cividis(1.0));
        for (i, &rgb) in CIVIDIS.iter().enumerate() {
            assert_eq!(
                cividis(i as f32 / 255.0),
                channels(rgb).map(|c| c as u8),
                "point {i}"
            );
        }
        // The map is perceptual: never darker towards the right.
        let luma = |c: [u8; 3]| {
            0.2126 * f32::from(c[0]) + 0.7152 * f32::from(c[1]) + 0.0722 * f32::from(c[2])
        };
        for i in 0..255 {
            assert!(luma(cividis((i + 1) as f32 / 255.0)) >= luma(cividis(i as f32 / 255.0)) - 0.5);
        }
    }

    #[test]
    fn scales_have_the_ends_that_the_legend_prints() {
        assert_eq!(place(0.0, false), 0.0);
        assert_eq!(place(1.0, false), 1.0);
        assert_eq!(place(0.0, true), 0.0);
        assert_eq!(place(1e-4, true), 0.0);
        assert!((place(0.01, true) - 0.5).abs() < 1e-6);
        assert_eq!(place(1.0, true), 1.0);
        assert_eq!(diverging(0.0), ZERO);
        assert_eq!(diverging(-3.0), NEGATIVE);
        assert_eq!(diverging(3.0), POSITIVE);
    }
}
