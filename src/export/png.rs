//! PNG with what the picture was made from, in one text chunk for each fact.
//!
//! Values in ASCII are `tEXt` chunks, which every reader knows; others are `iTXt`, which is UTF-8 (PNG specification,
//! third edition, section 11.3.3).

use egui::ColorImage;

use super::Facts;

/// The first letter of a keyword is a capital by custom; `Software` is a keyword that the specification names.
fn keyword(key: &str) -> String {
    let mut chars = key.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(chars).collect()
}

/// Encodes a picture; colours are opaque or premultiplied and gamma-encoded, as egui has them.
///
/// # Errors
/// A picture without pixels, or a keyword that PNG does not allow.
pub fn encode(image: &ColorImage, facts: &Facts) -> Result<Vec<u8>, png::EncodingError> {
    let [width, height] = image
        .size
        .map(|side| u32::try_from(side).unwrap_or(u32::MAX));
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, width, height);
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    for (key, value) in facts.iter() {
        if value.is_ascii() && !value.contains('\0') {
            encoder.add_text_chunk(keyword(key), value.to_owned())?;
        } else {
            encoder.add_itxt_chunk(keyword(key), value.replace('\0', "\u{FFFD}"))?;
        }
    }
    let mut writer = encoder.write_header()?;
    let bytes: Vec<u8> = image
        .pixels
        .iter()
        .flat_map(|pixel| pixel.to_srgba_unmultiplied())
        .collect();
    writer.write_image_data(&bytes)?;
    writer.finish()?;
    Ok(out)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use egui::Color32;

    /// Size, RGBA bytes, and keywords with their texts.
    pub fn read(bytes: &[u8]) -> ([u32; 2], Vec<u8>, Vec<(String, String)>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        reader.finish().unwrap();
        let info = reader.info();
        let ascii = info.uncompressed_latin1_text.iter();
        let mut texts: Vec<_> = ascii
            .map(|chunk| (chunk.keyword.clone(), chunk.text.clone()))
            .collect();
        for chunk in &info.utf8_text {
            texts.push((chunk.keyword.clone(), chunk.get_text().unwrap()));
        }
        ([info.width, info.height], pixels, texts)
    }

    #[test]
    fn pixels_and_facts_are_read_again() {
        let mut image = ColorImage::filled([3, 2], Color32::from_rgb(10, 20, 30));
        image[(2, 1)] = Color32::WHITE;
        let facts = Facts::default()
            .with("software", "logitscope 0")
            .with("prompt", "naïve 東京\n\0");
        let (size, pixels, texts) = read(&encode(&image, &facts).unwrap());
        assert_eq!(size, [3, 2]);
        assert_eq!(pixels[..4], [10, 20, 30, 255]);
        assert_eq!(pixels[20..], [255; 4]);
        let text = |key: &str| {
            texts
                .iter()
                .find(|(held, _)| held == key)
                .unwrap()
                .1
                .clone()
        };
        assert_eq!(text("Software"), "logitscope 0");
        assert_eq!(text("Prompt"), "naïve 東京\n\u{FFFD}");
        assert!(encode(&ColorImage::filled([0, 4], Color32::RED), &facts).is_err());
    }
}
