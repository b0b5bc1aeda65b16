//! The SVG itself.

use super::model::{Edge, EdgeKind, Model, NodeKind, SMALL_SIZE, badge_width, badges, is_observer};
use super::place::{Box, MARGIN, Path, Placed, Point, STRIP};
use super::style::STYLE;
use super::text::{bold_width, escape, width};
use crate::plan::{DomainId, Origin, Plan};
use culm_manifest::units::format_size;
use std::fmt::Write as _;

/// Height of the legend.
const LEGEND: f64 = 44.0;

/// Draws everything.
pub fn draw(plan: &Plan, model: &Model, placed: &Placed) -> String {
    let kinds = kinds(model);
    let legend_width = legend_width(&kinds) + 2.0 * MARGIN;
    let width = placed.size.x.max(legend_width).max(420.0);
    let height = placed.size.y + LEGEND;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">"
    );
    let _ = writeln!(out, "<title>{}</title>\n<style>{STYLE}</style>", escape(&plan.name));
    heads(&mut out);
    let _ = writeln!(out, "<rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>");
    title(&mut out, plan);
    for (lane, at) in model.lanes.iter().zip(&placed.lanes) {
        rectangle(&mut out, "lane", *at, 16.0);
        let text = format!("CORE {}", lane.core);
        line(&mut out, "lane-title", at.x + 18.0, at.y + 24.0, &text);
    }
    for (edge, path) in model.edges.iter().zip(&placed.paths) {
        draw_edge(&mut out, edge, path);
    }
    // Boxes with text are drawn over the lines that pass.
    for (lane, at) in model.lanes.iter().zip(&placed.lanes) {
        if let Some(supervisor) = lane.supervisor {
            strip(&mut out, plan, supervisor, *at);
        }
    }
    for (node, at) in model.nodes.iter().zip(&placed.boxes) {
        match node.kind {
            NodeKind::Device(device) => chip(&mut out, plan, device, *at),
            NodeKind::Domain(domain) => draw_domain(&mut out, plan, domain, *at),
            NodeKind::Region(region) => pill(&mut out, plan, region, *at),
            NodeKind::Logs(count) => logs(&mut out, count, *at),
        }
    }
    for (edge, path) in model.edges.iter().zip(&placed.paths) {
        label(&mut out, edge, path);
    }
    legend(&mut out, &kinds, height - LEGEND);
    out.push_str("</svg>\n");
    out
}

fn title(out: &mut String, plan: &Plan) {
    line(out, "title", MARGIN, MARGIN + 22.0, &plan.name);
    let count = plan.domains.len();
    let mut subtitle = format!("{count} protection domains on {}", plan.board.description);
    if plan.board.description.is_empty() {
        subtitle = format!("{count} protection domains on {}", plan.board.name);
    }
    if !plan.description.is_empty() {
        subtitle = format!("{} · {subtitle}", plan.description);
    }
    line(out, "subtitle", MARGIN, MARGIN + 46.0, &subtitle);
}

fn line(out: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let _ = writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(text));
}

fn centred(out: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
        escape(text)
    );
}

fn rectangle(out: &mut String, class: &str, at: Box, radius: f64) {
    let _ = writeln!(
        out,
        "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"{radius:.0}\"/>",
        at.x, at.y, at.width, at.height
    );
}

/// Name and style class of each kind of edge, for arrow heads and legend.
const KINDS: &[(EdgeKind, &str, &str)] = &[
    (EdgeKind::Queue, "queue", "queue: payload, and empty buffers back"),
    (EdgeKind::Device, "device", "registers and interrupts"),
    (EdgeKind::Call, "call", "call"),
    (EdgeKind::Notify, "notify", "notify"),
    (EdgeKind::Write, "write", "memory, written"),
    (EdgeKind::Read, "read", "memory, read"),
    (EdgeKind::Log, "log", "logs"),
];

fn class(kind: EdgeKind) -> &'static str {
    KINDS.iter().find(|(found, _, _)| *found == kind).map_or("", |(_, class, _)| class)
}

fn heads(out: &mut String) {
    out.push_str("<defs>\n");
    for (_, class, _) in KINDS {
        let _ = writeln!(
            out,
            "<marker id=\"head-{class}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"11\" \
             markerHeight=\"11\" markerUnits=\"userSpaceOnUse\" orient=\"auto-start-reverse\">\
             <path class=\"head-{class}\" d=\"M0,1 L10,5 L0,9 z\"/></marker>"
        );
    }
    out.push_str("</defs>\n");
}

/// The kinds of edges in the picture.
fn kinds(model: &Model) -> Vec<EdgeKind> {
    let used = |kind: EdgeKind| model.edges.iter().any(|edge| edge.kind == kind);
    KINDS.iter().map(|(kind, _, _)| *kind).filter(|kind| used(*kind)).collect()
}

fn legend_entry_width(kind: EdgeKind) -> f64 {
    let words = KINDS.iter().find(|(found, _, _)| *found == kind).map_or("", |(_, _, words)| words);
    54.0 + width(words, SMALL_SIZE) + 22.0
}

fn legend_width(kinds: &[EdgeKind]) -> f64 {
    kinds.iter().map(|kind| legend_entry_width(*kind)).sum()
}

fn legend(out: &mut String, kinds: &[EdgeKind], y: f64) {
    let mut x = MARGIN;
    for kind in kinds {
        let Some((_, class, words)) = KINDS.iter().find(|(found, _, _)| found == kind) else { continue };
        let _ =
            writeln!(out, "<path class=\"edge {class}\" d=\"M{x:.1},{y:.1} h42\" marker-end=\"url(#head-{class})\"/>");
        line(out, "small", x + 52.0, y + 4.0, words);
        x += legend_entry_width(*kind);
    }
}

/// A device: a chip with pins.
fn chip(out: &mut String, plan: &Plan, id: usize, at: Box) {
    let device = &plan.devices[id];
    let _ = writeln!(out, "<g class=\"node\" id=\"device-{}\">", escape(&device.board.name));
    let count = ((at.width - 20.0) / 14.0).floor().max(1.0);
    let step = (at.width - 20.0) / count;
    for pin in 0..count as usize {
        let x = at.x + 10.0 + (pin as f64 + 0.5) * step - 3.0;
        for y in [at.y - 5.0, at.y + at.height - 1.0] {
            rectangle(out, "pin", Box { x, y, width: 6.0, height: 6.0 }, 1.0);
        }
    }
    rectangle(out, "chip", at, 6.0);
    let (x, y) = (at.x + at.width / 2.0, at.y + at.height / 2.0);
    centred(out, "name chip-text", x, y - 3.0, &device.board.name);
    centred(out, "chip-small", x, y + 15.0, &device.board.compatible);
    out.push_str("</g>\n");
}

/// Style class of the bar that says what a domain is.
fn accent(origin: Origin) -> &'static str {
    match origin {
        Origin::Driver(_) => "accent-driver",
        Origin::Virtualiser(_) => "accent-virtualiser",
        Origin::Before { .. } => "accent-copier",
        Origin::Description => "accent-application",
        Origin::Supervisor => "accent-supervisor",
    }
}

fn draw_domain(out: &mut String, plan: &Plan, id: DomainId, at: Box) {
    let domain = &plan.domains[id];
    let component = &plan.components[domain.component].manifest;
    let _ = writeln!(
        out,
        "<g class=\"node\" id=\"pd-{0}\" data-domain=\"{id}\"><title>{0}: {1}\nstack {2}, heap {3}</title>",
        escape(&domain.name),
        escape(&component.description),
        format_size(domain.stack),
        format_size(domain.heap)
    );
    rectangle(out, "box", at, 9.0);
    let (x, y, radius) = (at.x + 0.6, at.y + 0.6, 8.0);
    let bottom = at.y + at.height - 0.6;
    let _ = writeln!(
        out,
        "<path class=\"{}\" d=\"M{:.1},{y:.1} a{radius},{radius} 0 0 0 -{radius},{radius} V{:.1} \
         a{radius},{radius} 0 0 0 {radius},{radius} z\"/>",
        accent(domain.origin),
        x + radius,
        bottom - radius
    );
    let left = at.x + 20.0;
    let top = at.y + (at.height - 78.0) / 2.0;
    line(out, "name", left, top + 25.0, &domain.name);
    line(out, "small", left, top + 42.0, &component.name);
    if is_observer(domain) {
        eye(out, at.x + at.width - 22.0, top + 20.0);
    }
    let mut x = left;
    for badge in badges(domain) {
        let width = badge_width(&badge.text);
        rectangle(out, badge.class, Box { x, y: top + 50.0, width, height: 17.0 }, 8.0);
        centred(out, "badge-text", x + width / 2.0, top + 62.4, &badge.text);
        x += width + 6.0;
    }
    out.push_str("</g>\n");
}

/// The sign of a domain that may see the whole system.
fn eye(out: &mut String, x: f64, y: f64) {
    let _ = writeln!(
        out,
        "<g><title>may see the whole system</title><path class=\"eye\" d=\"M{:.1},{y:.1} q8,-9 16,0 q-8,9 -16,0 z\"/>\
         <circle class=\"pupil\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.4\"/></g>",
        x - 8.0
    );
}

/// The supervisor: a strip along the lane that it runs in, for it is connected to all.
fn strip(out: &mut String, plan: &Plan, id: DomainId, lane: Box) {
    let domain = &plan.domains[id];
    let at = Box { x: lane.x + 18.0, y: lane.y + lane.height - STRIP - 18.0, width: lane.width - 36.0, height: STRIP };
    let _ = writeln!(out, "<g class=\"node\" id=\"pd-{}\" data-domain=\"{id}\">", escape(&domain.name));
    rectangle(out, "strip", at, 11.0);
    let y = at.y + STRIP / 2.0;
    let _ = writeln!(out, "<circle class=\"accent-supervisor\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>", at.x + 16.0);
    line(out, "name", at.x + 28.0, y + 5.0, &domain.name);
    let after = at.x + 28.0 + bold_width(&domain.name, super::model::NAME_SIZE) + 12.0;
    let badge = format!("priority {}", domain.priority);
    let size = badge_width(&badge);
    rectangle(out, "badge", Box { x: after, y: y - 8.5, width: size, height: 17.0 }, 8.0);
    centred(out, "badge-text", after + size / 2.0, y + 3.9, &badge);
    let children = plan.domains.len().saturating_sub(1);
    let words = format!("is told of the faults of all {children} others");
    let words_at = after + size + 12.0;
    if words_at + width(&words, SMALL_SIZE) < at.x + at.width {
        line(out, "small", words_at, y + 4.0, &words);
    }
    out.push_str("</g>\n");
}

fn pill(out: &mut String, plan: &Plan, id: usize, at: Box) {
    let region = &plan.regions[id];
    let _ = writeln!(out, "<g class=\"node\" id=\"region-{}\">", escape(&region.name));
    rectangle(out, "pill", at, 25.0_f64.min(at.height / 2.0));
    let (x, y) = (at.x + at.width / 2.0, at.y + at.height / 2.0);
    centred(out, "name", x, y - 2.0, &region.name);
    let caption = format!("{} {}", format_size(region.size), region.kind.name());
    centred(out, "small", x, y + 14.0, &caption);
    out.push_str("</g>\n");
}

fn logs(out: &mut String, count: usize, at: Box) {
    rectangle(out, "logs", at, 9.0);
    let words = if count == 1 { "1 log".to_string() } else { format!("{count} logs") };
    centred(out, "small", at.x + at.width / 2.0, at.y + at.height / 2.0 + 4.0, &words);
}

/// Half the distance between the two lines of an edge that goes both ways.
const APART: f64 = 4.5;

fn draw_edge(out: &mut String, edge: &Edge, path: &Path) {
    let class = class(edge.kind);
    let _ = writeln!(out, "<g class=\"link\"><title>{}</title>", escape(&edge.title));
    let both_ways = edge.back && edge.kind == EdgeKind::Queue;
    let shift = if both_ways { -APART } else { 0.0 };
    // The line itself, wide and unseen too, so that it is easy to point at.
    let forward = curve(path, shift);
    let tail = if edge.back && !both_ways { format!(" marker-start=\"url(#head-{class})\"") } else { String::new() };
    let _ = writeln!(out, "<path d=\"{forward}\" fill=\"none\" stroke=\"transparent\" stroke-width=\"12\"/>");
    let _ = writeln!(out, "<path class=\"edge {class}\" d=\"{forward}\" marker-end=\"url(#head-{class})\"{tail}/>");
    if both_ways {
        let points: Vec<Point> = path.points.iter().rev().copied().collect();
        let last = points.len().saturating_sub(2);
        let reverse = Path { points, track: path.track.map(|(stretch, x)| (last - stretch, x)) };
        let _ = writeln!(
            out,
            "<path class=\"back {class}\" d=\"{}\" marker-end=\"url(#head-{class})\"/>",
            curve(&reverse, APART)
        );
    }
    out.push_str("</g>\n");
}

/// A smooth path through points, level at each of them, moved down by `shift`.
fn curve(path: &Path, shift: f64) -> String {
    let mut out = String::new();
    let Some(first) = path.points.first() else { return out };
    let _ = write!(out, "M{:.1},{:.1}", first.x, first.y + shift);
    for (stretch, pair) in path.points.windows(2).enumerate() {
        let [from, to] = [pair[0], pair[1]];
        match path.track {
            Some((found, x)) if found == stretch => upright(&mut out, from, to, x, shift),
            _ => bend(&mut out, from, to, shift),
        }
    }
    out
}

/// One bend from point to point.
fn bend(out: &mut String, from: Point, to: Point, shift: f64) {
    let controls = if (from.x - to.x).abs() < 1.0 {
        // Both ends in one column: around it on the right.
        [from.x.max(to.x) + 34.0; 2]
    } else {
        [(from.x + to.x) / 2.0; 2]
    };
    let (above, below) = (from.y + shift, to.y + shift);
    let [first, second] = controls;
    let _ = write!(out, " C{first:.1},{above:.1} {second:.1},{below:.1} {:.1},{below:.1}", to.x);
}

/// From point to point by way of an upright part at `x`, with round corners.
fn upright(out: &mut String, from: Point, to: Point, x: f64, shift: f64) {
    const RADIUS: f64 = 9.0;
    let along = if to.x > from.x { 1.0 } else { -1.0 };
    let down = if to.y > from.y { 1.0 } else { -1.0 };
    // The two lines of an edge stay apart in both directions.
    let x = x - along * down * shift;
    let (start, end) = (from.y + shift, to.y + shift);
    let _ = write!(
        out,
        " H{:.1} Q{x:.1},{start:.1} {x:.1},{:.1} V{:.1} Q{x:.1},{end:.1} {:.1},{end:.1} H{:.1}",
        x - along * RADIUS,
        start + down * RADIUS,
        end - down * RADIUS,
        x + along * RADIUS,
        to.x
    );
}

/// The label: in the middle of the edge's first gap between columns; where edges go from lane to
/// lane, beside the end that each of them has for itself.
fn label(out: &mut String, edge: &Edge, path: &Path) {
    let [from, to, ..] = path.points[..] else { return };
    if edge.label.is_empty() {
        return;
    }
    let size = width(&edge.label, SMALL_SIZE) + 8.0;
    let same_column = (from.x - to.x).abs() < 1.0;
    let (x, y) = match path.track {
        Some((stretch, _)) => {
            let ends = [path.points[stretch], path.points[stretch + 1]];
            let end = if ends[0].x > ends[1].x { ends[0] } else { ends[1] };
            (end.x - size / 2.0 - 16.0, end.y)
        }
        None if same_column => (from.x + 26.0, (from.y + to.y) / 2.0),
        None => ((from.x + to.x) / 2.0, (from.y + to.y) / 2.0),
    };
    rectangle(out, "label-back", Box { x: x - size / 2.0, y: y - 8.0, width: size, height: 16.0 }, 5.0);
    centred(out, "label", x, y + 3.8, &edge.label);
}
