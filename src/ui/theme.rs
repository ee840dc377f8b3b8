//! Colours and type of the window, in one place.
//!
//! Colour has meaning and only that: orange is what was chosen and the selected step, blue is probability mass,
//! violet is surprisal, green and red are positive and negative logits (which direction shows as well). Controls are ink.

use egui::{
    Color32, CornerRadius, FontData, FontDefinitions, FontFamily, FontId, Margin, Shadow, Stroke,
    TextStyle,
};

/// Gap between panels, and inside panels from edge to content, in points.
pub const GUTTER: f32 = 12.0;
pub const PANEL_PADDING: f32 = 14.0;
/// Corner radius of panels, in points.
pub const CORNER: u8 = 10;
/// Height of one row of a chart, the same in every panel, in points at 100 % type.
pub const ROW_HEIGHT: f32 = 24.0;

/// Widths of a bold face for emphasis: egui has no bold style of its own.
pub fn semibold() -> FontFamily {
    FontFamily::Name("semibold".into())
}

pub fn mono_bold() -> FontFamily {
    FontFamily::Name("mono-bold".into())
}

/// The editor's text style.
pub fn editor_style() -> TextStyle {
    TextStyle::Name("editor".into())
}

/// The palette of one appearance. Every colour that the window paints comes from here, or from cividis for attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theme {
    pub dark: bool,
    /// Ground between the panels.
    pub window: Color32,
    /// Ground of a panel.
    pub panel: Color32,
    /// Text and controls.
    pub ink: Color32,
    /// Secondary text.
    pub dim: Color32,
    /// Hairlines; never the only sign of anything.
    pub line: Color32,
    /// Ground of chips, tracks and fields.
    pub field: Color32,
    /// The chosen token and the selected step.
    pub chosen: Color32,
    /// Probability mass.
    pub probability: Color32,
    pub surprisal: Color32,
    /// Positive logits.
    pub positive: Color32,
    /// Negative logits.
    pub negative: Color32,
    /// What belongs to the prompt.
    pub prompt: Color32,
}

impl Theme {
    pub const LIGHT: Self = Self {
        dark: false,
        window: Color32::from_rgb(0xF7, 0xF5, 0xF0),
        panel: Color32::from_rgb(0xFF, 0xFF, 0xFF),
        ink: Color32::from_rgb(0x23, 0x26, 0x2B),
        dim: Color32::from_rgb(0x5F, 0x65, 0x6D),
        line: Color32::from_rgb(0xE3, 0xDF, 0xD6),
        field: Color32::from_rgb(0xF0, 0xED, 0xE6),
        chosen: Color32::from_rgb(0xA8, 0x54, 0x00),
        probability: Color32::from_rgb(0x5B, 0x8D, 0xB8),
        surprisal: Color32::from_rgb(0x7E, 0x6B, 0xA8),
        positive: Color32::from_rgb(0x1F, 0x7A, 0x48),
        negative: Color32::from_rgb(0xB9, 0x3A, 0x34),
        prompt: Color32::from_rgb(0x8B, 0x8F, 0x96),
    };

    pub const DARK: Self = Self {
        dark: true,
        window: Color32::from_rgb(0x15, 0x18, 0x1C),
        panel: Color32::from_rgb(0x1C, 0x20, 0x25),
        ink: Color32::from_rgb(0xE7, 0xE9, 0xEC),
        dim: Color32::from_rgb(0x9A, 0xA1, 0xAA),
        line: Color32::from_rgb(0x2C, 0x31, 0x38),
        field: Color32::from_rgb(0x26, 0x2B, 0x31),
        chosen: Color32::from_rgb(0xF0, 0xA0, 0x4B),
        probability: Color32::from_rgb(0x4F, 0x86, 0xB0),
        surprisal: Color32::from_rgb(0xA4, 0x93, 0xCF),
        positive: Color32::from_rgb(0x4F, 0xB3, 0x7D),
        negative: Color32::from_rgb(0xE8, 0x73, 0x6B),
        prompt: Color32::from_rgb(0x76, 0x7D, 0x86),
    };

    pub fn of(dark: bool) -> &'static Self {
        if dark { &Self::DARK } else { &Self::LIGHT }
    }

    /// Ground behind a token in the text: the more surprising it was, the stronger.
    pub fn surprisal_tint(&self, surprisal_nats: f64) -> Color32 {
        // 8 nats is one chance in three thousand: beyond that all is "very surprising".
        let strength = (surprisal_nats / 8.0).clamp(0.0, 1.0) as f32;
        self.panel
            .lerp_to_gamma(self.surprisal, 0.08 + 0.42 * strength)
    }

    /// Ground of slider rails and check boxes.
    fn rail(&self) -> Color32 {
        self.panel.lerp_to_gamma(self.dim, 0.35)
    }

    pub fn hairline(&self) -> Stroke {
        Stroke::new(1.0, self.line)
    }

    /// Sets egui's own widgets to this palette, with all type at `scale` (1.0 is 100 %).
    pub fn apply(&self, ctx: &egui::Context, scale: f32) {
        let mut style = egui::Style {
            visuals: if self.dark {
                egui::Visuals::dark()
            } else {
                egui::Visuals::light()
            },
            ..Default::default()
        };
        let visuals = &mut style.visuals;
        visuals.panel_fill = self.window;
        visuals.window_fill = self.panel;
        visuals.window_stroke = self.hairline();
        visuals.window_corner_radius = CornerRadius::same(CORNER);
        visuals.menu_corner_radius = CornerRadius::same(8);
        visuals.popup_shadow = Shadow {
            offset: [0, 4],
            blur: 16,
            spread: 0,
            color: Color32::from_black_alpha(if self.dark { 90 } else { 30 }),
        };
        visuals.window_shadow = visuals.popup_shadow;
        visuals.extreme_bg_color = self.panel;
        visuals.text_edit_bg_color = Some(self.panel);
        visuals.faint_bg_color = self.field;
        visuals.weak_text_color = Some(self.dim);
        visuals.hyperlink_color = self.ink;
        visuals.selection.bg_fill = self.chosen.gamma_multiply(0.35);
        visuals.selection.stroke = Stroke::new(1.5, self.ink);
        visuals.slider_trailing_fill = false;
        visuals.handle_shape = egui::style::HandleShape::Circle;
        let widgets = &mut visuals.widgets;
        for (widget, fill, stroke) in [
            (&mut widgets.noninteractive, self.panel, self.line),
            (&mut widgets.inactive, self.panel, self.line),
            (&mut widgets.hovered, self.field, self.dim),
            (&mut widgets.active, self.field, self.ink),
            (&mut widgets.open, self.field, self.dim),
        ] {
            // Rails and handles of sliders, boxes of checks: they have to stand out from the panel.
            widget.bg_fill = self.rail();
            widget.weak_bg_fill = fill;
            widget.bg_stroke = Stroke::new(1.0, stroke);
            widget.fg_stroke = Stroke::new(1.0, self.ink);
            widget.corner_radius = CornerRadius::same(7);
            widget.expansion = 0.0;
        }
        let size = |points: f32| points * scale;
        style.text_styles = [
            (
                TextStyle::Small,
                FontId::new(size(12.0), FontFamily::Proportional),
            ),
            (
                TextStyle::Body,
                FontId::new(size(14.0), FontFamily::Proportional),
            ),
            (
                TextStyle::Button,
                FontId::new(size(14.0), FontFamily::Proportional),
            ),
            (TextStyle::Heading, FontId::new(size(16.0), semibold())),
            (
                TextStyle::Monospace,
                FontId::new(size(13.0), FontFamily::Monospace),
            ),
            (
                editor_style(),
                FontId::new(size(18.0), FontFamily::Proportional),
            ),
        ]
        .into();
        style.spacing.item_spacing = egui::vec2(8.0, 6.0);
        style.spacing.button_padding = egui::vec2(10.0, 5.0);
        style.spacing.interact_size = egui::vec2(size(32.0), size(26.0));
        style.spacing.menu_margin = Margin::same(8);
        style.spacing.slider_rail_height = 4.0;
        style.spacing.scroll = egui::style::ScrollStyle::thin();
        style.interaction.selectable_labels = false;
        ctx.set_theme(if self.dark {
            egui::Theme::Dark
        } else {
            egui::Theme::Light
        });
        ctx.set_style_of(
            if self.dark {
                egui::Theme::Dark
            } else {
                egui::Theme::Light
            },
            style,
        );
    }
}

/// Inter for words, JetBrains Mono for tokens and numbers, icons behind both; system fonts fill in other scripts.
pub fn fonts() -> FontDefinitions {
    let mut fonts = FontDefinitions::empty();
    let faces: [(&str, &'static [u8]); 4] = [
        (
            "inter",
            include_bytes!("../../assets/fonts/Inter-Regular.otf"),
        ),
        (
            "inter-semibold",
            include_bytes!("../../assets/fonts/Inter-SemiBold.otf"),
        ),
        (
            "jetbrains-mono",
            include_bytes!("../../assets/fonts/JetBrainsMono-Regular.ttf"),
        ),
        (
            "jetbrains-mono-bold",
            include_bytes!("../../assets/fonts/JetBrainsMono-Bold.ttf"),
        ),
    ];
    for (name, bytes) in faces {
        fonts
            .font_data
            .insert(name.to_owned(), FontData::from_static(bytes).into());
    }
    for (family, faces) in [
        (FontFamily::Proportional, ["inter", "jetbrains-mono"]),
        (FontFamily::Monospace, ["jetbrains-mono", "inter"]),
        (semibold(), ["inter-semibold", "jetbrains-mono-bold"]),
        (mono_bold(), ["jetbrains-mono-bold", "inter-semibold"]),
    ] {
        fonts
            .families
            .insert(family, faces.map(str::to_owned).to_vec());
    }
    fonts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance and contrast ratio as WCAG 2.2 defines them.
    fn contrast(a: Color32, b: Color32) -> f32 {
        let luminance = |c: Color32| {
            let channel = |v: u8| {
                let v = f32::from(v) / 255.0;
                if v <= 0.04045 {
                    v / 12.92
                } else {
                    ((v + 0.055) / 1.055).powf(2.4)
                }
            };
            0.2126 * channel(c.r()) + 0.7152 * channel(c.g()) + 0.0722 * channel(c.b())
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn text_and_graphics_stand_out_from_their_ground() {
        for theme in [Theme::LIGHT, Theme::DARK] {
            for ground in [theme.window, theme.panel] {
                for text in [theme.ink, theme.dim] {
                    assert!(
                        contrast(text, ground) >= 4.5,
                        "text {text:?} on {ground:?}: {}",
                        contrast(text, ground)
                    );
                }
            }
            assert!(contrast(theme.ink, theme.field) >= 4.5);
            assert!(
                contrast(theme.dim, theme.field) >= 4.5,
                "{}",
                contrast(theme.dim, theme.field)
            );
            for mark in [
                theme.chosen,
                theme.probability,
                theme.surprisal,
                theme.positive,
                theme.negative,
                theme.prompt,
            ] {
                assert!(
                    contrast(mark, theme.panel) >= 3.0,
                    "mark {mark:?}: {}",
                    contrast(mark, theme.panel)
                );
            }
            // Text stands on the strongest tint too.
            assert!(contrast(theme.ink, theme.surprisal_tint(100.0)) >= 4.5);
            // The chosen token is written in its own colour.
            assert!(contrast(theme.chosen, theme.panel) >= 4.5);
        }
    }
}
