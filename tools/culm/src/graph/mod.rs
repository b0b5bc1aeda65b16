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

#[cfg(test)]
mod tests;
