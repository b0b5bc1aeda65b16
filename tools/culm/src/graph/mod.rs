//! The picture of a system: an SVG file that stands for itself, light or dark as the reader's
//! screen is.
//!
//! Three steps: what is to be seen (`model`), where it goes (`place`), how it is drawn (`draw`).
//! Data flows from left to right, from the board's devices through drivers and virtualisers to the
//! applications; each core is a lane. What every domain has (its log, its supervisor) is said once
//! instead of drawn many times.

mod draw;
mod model;
mod place;
mod style;
mod text;

use crate::plan::Plan;

/// The system as an SVG file.
pub fn svg(plan: &Plan) -> String {
    let model = model::Model::of(plan);
    let placed = place::place(&model);
    draw::draw(plan, &model, &placed)
}

/// Whether a file's content is an SVG picture, as this or another program begins one.
pub fn is_svg(content: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(content) else { return false };
    let text = text.trim_start_matches('\u{feff}').trim_start();
    text.starts_with("<svg") || (text.starts_with("<?xml") && text.contains("<svg"))
}

#[cfg(test)]
mod tests;
