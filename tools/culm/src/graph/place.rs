//! The placement of a picture's parts: columns in the direction of data, order within them so that
//! few edges cross, heights so that edges run straight. (After Sugiyama, Tagawa, Toda: "Methods for
//! Visual Understanding of Hierarchical System Structures", 1981; heights by isotonic regression.)

use super::model::{Model, SMALL_SIZE};
use super::text::width;

/// Space between boxes of a column.
const ROW_GAP: f64 = 26.0;
/// Least space between columns.
const COLUMN_GAP: f64 = 92.0;
/// Space for the curves at both sides of a label between columns.
const LABEL_MARGIN: f64 = 56.0;
/// Space for each edge at the side of a box.
const PORT: f64 = 24.0;
/// Space between the upright parts of edges that go from lane to lane.
const TRACK: f64 = 14.0;
/// Space within a lane above and below its boxes.
const LANE_MARGIN: f64 = 26.0;
/// Height of a lane's title.
const LANE_TITLE: f64 = 26.0;
/// Height of the strip that stands for the supervisor.
pub const STRIP: f64 = 34.0;
/// Space between lanes.
const LANE_GAP: f64 = 18.0;
/// Space around the picture.
pub const MARGIN: f64 = 28.0;
/// Height of the picture's title.
pub const TITLE: f64 = 76.0;

/// Where everything is.
pub struct Placed {
    /// A box per node of the model.
    pub boxes: Vec<Box>,
    /// A path per edge of the model.
    pub paths: Vec<Path>,
    /// A box per lane.
    pub lanes: Vec<Box>,
    /// Size of the picture, without the legend.
    pub size: Point,
}

/// The way of an edge.
pub struct Path {
    /// The points that it passes.
    pub points: Vec<Point>,
    /// Where it goes from lane to lane: which stretch between two points that is, and the place of
    /// its upright part.
    pub track: Option<(usize, f64)>,
}

/// A point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Down.
    pub y: f64,
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Box {
    /// Left edge.
    pub x: f64,
    /// Top edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// A node, or a point where an edge passes a column.
struct Item {
    lane: usize,
    layer: usize,
    height: f64,
    /// Centre, from the top of the lane's content.
    y: f64,
}

/// A piece of an edge between neighbouring columns.
struct Piece {
    left: usize,
    right: usize,
}

/// The columns of one lane: items from top to bottom.
type Columns = Vec<Vec<usize>>;

/// Places a model.
pub fn place(model: &Model) -> Placed {
    let mut items: Vec<Item> = model
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| Item {
            lane: node.lane,
            layer: node.layer,
            height: node.height.max(ports(model, index) as f64 * PORT + 20.0),
            y: 0.0,
        })
        .collect();
    let (chains, pieces) = chains(model, &mut items);
    let layers = items.iter().map(|item| item.layer + 1).max().unwrap_or(1);
    let mut lanes: Vec<Columns> = vec![vec![Vec::new(); layers]; model.lanes.len()];
    for (index, item) in items.iter().enumerate() {
        lanes[item.lane][item.layer].push(index);
    }
    order(&mut lanes, &mut items, &pieces);
    for lane in &lanes {
        straighten(lane, &mut items, &pieces);
    }
    finish(model, &items, &lanes, &chains)
}

/// How many edges the busier side of a node has.
fn ports(model: &Model, node: usize) -> usize {
    let layer = model.nodes[node].layer;
    let others = model.edges.iter().filter_map(|edge| match (edge.from == node, edge.to == node) {
        (true, false) => Some(edge.to),
        (false, true) => Some(edge.from),
        _ => None,
    });
    let (left, right): (Vec<usize>, Vec<usize>) = others.partition(|other| model.nodes[*other].layer < layer);
    left.len().max(right.len())
}

/// The items that each edge passes from left to right, with new ones for columns that it crosses.
fn chains(model: &Model, items: &mut Vec<Item>) -> (Vec<Vec<usize>>, Vec<Piece>) {
    let mut chains = Vec::new();
    let mut pieces = Vec::new();
    for edge in &model.edges {
        let (mut left, mut right) = (edge.from, edge.to);
        if model.nodes[left].layer > model.nodes[right].layer {
            (left, right) = (right, left);
        }
        let mut chain = vec![left];
        for layer in model.nodes[left].layer + 1..model.nodes[right].layer {
            items.push(Item { lane: model.nodes[right].lane, layer, height: PORT, y: 0.0 });
            chain.push(items.len() - 1);
        }
        chain.push(right);
        pieces.extend(chain.windows(2).map(|pair| Piece { left: pair[0], right: pair[1] }));
        chains.push(chain);
    }
    (chains, pieces)
}

/// Items connected to `item` in the given direction.
fn neighbours(pieces: &[Piece], item: usize, to_the_left: bool) -> impl Iterator<Item = usize> + '_ {
    pieces.iter().filter_map(move |piece| match to_the_left {
        true => (piece.right == item).then_some(piece.left),
        false => (piece.left == item).then_some(piece.right),
    })
}

/// Sorts columns by the mean position of what they are connected to, to and fro until little
/// changes.
fn order(lanes: &mut [Columns], items: &mut [Item], pieces: &[Piece]) {
    const SWEEPS: usize = 12;
    for sweep in 0..SWEEPS {
        // Positions over all lanes, so that edges between lanes pull their ends towards each other.
        for (lane, columns) in lanes.iter().enumerate() {
            for column in columns {
                for (position, item) in column.iter().enumerate() {
                    items[*item].y = lane as f64 * 1000.0 + position as f64 - column.len() as f64 / 2.0;
                }
            }
        }
        let to_the_left = sweep % 2 == 0;
        let layers = lanes.first().map_or(0, Vec::len);
        let order: Vec<usize> = if to_the_left { (0..layers).collect() } else { (0..layers).rev().collect() };
        for layer in order {
            for columns in lanes.iter_mut() {
                let column = &mut columns[layer];
                for item in column.iter() {
                    let (sum, count) = neighbours(pieces, *item, to_the_left)
                        .fold((0.0, 0), |(sum, count), other| (sum + items[other].y, count + 1));
                    if count > 0 {
                        items[*item].y = sum / f64::from(count);
                    }
                }
                column.sort_by(|a, b| items[*a].y.total_cmp(&items[*b].y));
            }
        }
    }
}

/// Gives the items of a lane heights at which their edges run as straight as their order lets them.
fn straighten(columns: &Columns, items: &mut [Item], pieces: &[Piece]) {
    for column in columns {
        let mut y = 0.0;
        for item in column {
            items[*item].y = y + items[*item].height / 2.0;
            y += items[*item].height + ROW_GAP;
        }
    }
    const SWEEPS: usize = 30;
    for sweep in 0..SWEEPS {
        let mut order: Vec<&Vec<usize>> = columns.iter().collect();
        if sweep % 2 == 1 {
            order.reverse();
        }
        for column in order {
            let wanted: Vec<f64> = column.iter().map(|item| wanted(items, pieces, *item)).collect();
            let gaps: Vec<f64> =
                column.windows(2).map(|pair| (items[pair[0]].height + items[pair[1]].height) / 2.0 + ROW_GAP).collect();
            for (item, y) in column.iter().zip(spread(&wanted, &gaps)) {
                items[*item].y = y;
            }
        }
    }
}

/// The mean height of what an item of a lane is connected to in the same lane.
fn wanted(items: &[Item], pieces: &[Piece], item: usize) -> f64 {
    let both = neighbours(pieces, item, true).chain(neighbours(pieces, item, false));
    let (sum, count) = both
        .filter(|other| items[*other].lane == items[item].lane)
        .fold((0.0, 0), |(sum, count), other| (sum + items[other].y, count + 1));
    if count == 0 { items[item].y } else { sum / f64::from(count) }
}

/// Positions nearest to `wanted` (least squares) that keep their order and these gaps: pool
/// adjacent violators.
fn spread(wanted: &[f64], gaps: &[f64]) -> Vec<f64> {
    let mut offsets = vec![0.0; wanted.len()];
    for index in 1..wanted.len() {
        offsets[index] = offsets[index - 1] + gaps[index - 1];
    }
    // Blocks of (mean, count).
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (value, offset) in wanted.iter().zip(&offsets) {
        blocks.push((value - offset, 1));
        while let [.., (earlier, many), (later, few)] = blocks[..]
            && earlier > later
        {
            blocks.truncate(blocks.len() - 2);
            let count = many + few;
            blocks.push(((earlier * many as f64 + later * few as f64) / count as f64, count));
        }
    }
    let means = blocks.iter().flat_map(|(mean, count)| std::iter::repeat_n(*mean, *count));
    means.zip(&offsets).map(|(mean, offset)| mean + offset).collect()
}

/// Turns heights within lanes into places in the picture.
fn finish(model: &Model, items: &[Item], lanes: &[Columns], chains: &[Vec<usize>]) -> Placed {
    let layers = lanes.first().map_or(0, Vec::len);
    let mut columns = vec![0.0f64; layers];
    for node in &model.nodes {
        columns[node.layer] = columns[node.layer].max(node.width);
    }
    let mut centres = Vec::new();
    let mut x = MARGIN + LANE_MARGIN;
    let tracks = tracks(model, items, chains);
    let gaps = gaps(model, layers, &tracks);
    for (column, gap) in columns.iter().zip(&gaps) {
        centres.push(x + column / 2.0);
        x += column + gap;
    }
    let right = x + LANE_MARGIN;
    // The lanes begin to the right of the devices, which are the board's and no core's.
    let has_devices = model.nodes.iter().any(|node| matches!(node.kind, super::model::NodeKind::Device(_)));
    let left = if has_devices { MARGIN + LANE_MARGIN + columns[0] + gaps[0] / 2.0 } else { MARGIN };
    let mut lane_boxes = Vec::new();
    let mut tops = Vec::new();
    let mut y = MARGIN + TITLE;
    for (lane, description) in lanes.iter().zip(&model.lanes) {
        let members = || lane.iter().flatten().map(|item| &items[*item]);
        let top = members().map(|item| item.y - item.height / 2.0).fold(f64::INFINITY, f64::min);
        let bottom = members().map(|item| item.y + item.height / 2.0).fold(f64::NEG_INFINITY, f64::max);
        let content = if top < bottom { bottom - top } else { 0.0 };
        let strip = if description.supervisor.is_some() { STRIP + LANE_MARGIN } else { 0.0 };
        let height = LANE_TITLE + LANE_MARGIN + content + LANE_MARGIN + strip;
        lane_boxes.push(Box { x: left, y, width: (right - left).max(220.0), height });
        tops.push(y + LANE_TITLE + LANE_MARGIN - if top.is_finite() { top } else { 0.0 });
        y += height + LANE_GAP;
    }
    let centre = |item: usize| Point { x: centres[items[item].layer], y: items[item].y + tops[items[item].lane] };
    let boxes: Vec<Box> = model
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let (at, height) = (centre(index), items[index].height);
            Box { x: at.x - node.width / 2.0, y: at.y - height / 2.0, width: node.width, height }
        })
        .collect();
    let track = |edge: usize| {
        let layer = items[chains[edge][0]].layer;
        tracks[edge].map(|track| centres[layer] + columns[layer] / 2.0 + LABEL_MARGIN / 2.0 + track as f64 * TRACK)
    };
    let paths = paths(model, &boxes, chains, &centre, &columns, &track);
    let lanes_right = lane_boxes.iter().map(|lane| lane.x + lane.width).fold(0.0, f64::max);
    let size = Point { x: lanes_right.max(right) + MARGIN, y: y - LANE_GAP + MARGIN };
    Placed { boxes, paths, lanes: lane_boxes, size }
}

/// For each edge that goes from lane to lane, its place among those behind the same column. Edges
/// that start lower are further left, so that they turn down inside those that start above.
fn tracks(model: &Model, items: &[Item], chains: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut crossing: Vec<Vec<usize>> = Vec::new();
    for (edge, chain) in chains.iter().enumerate() {
        let (first, next) = (&items[chain[0]], &items[chain[1]]);
        if first.lane == next.lane || first.layer == next.layer {
            continue;
        }
        crossing.resize_with(crossing.len().max(first.layer + 1), Vec::new);
        crossing[first.layer].push(edge);
    }
    let mut tracks = vec![None; model.edges.len()];
    for edges in &mut crossing {
        edges.sort_by(|a, b| {
            let start = |edge: usize| &items[chains[edge][0]];
            let end = |edge: usize| &items[chains[edge][1]];
            let by_start = start(*b).lane.cmp(&start(*a).lane).then(start(*b).y.total_cmp(&start(*a).y));
            by_start.then(end(*b).lane.cmp(&end(*a).lane)).then(end(*b).y.total_cmp(&end(*a).y))
        });
        for (track, edge) in edges.iter().enumerate() {
            tracks[*edge] = Some(track);
        }
    }
    tracks
}

/// Space behind each column: as much as the labels and tracks there need; behind the last, none.
fn gaps(model: &Model, layers: usize, tracks: &[Option<usize>]) -> Vec<f64> {
    let mut gaps = vec![COLUMN_GAP; layers];
    let mut most = vec![0usize; layers];
    for (edge, track) in model.edges.iter().zip(tracks) {
        let layer = model.nodes[edge.from].layer.min(model.nodes[edge.to].layer);
        most[layer] = most[layer].max(track.map_or(0, |track| track + 1));
    }
    for edge in &model.edges {
        let layer = model.nodes[edge.from].layer.min(model.nodes[edge.to].layer);
        let last = model.nodes[edge.from].layer.max(model.nodes[edge.to].layer).saturating_sub(1);
        // A label stands in the first gap in the edge's own direction.
        let gap = if model.nodes[edge.from].layer == layer { layer } else { last };
        gaps[gap] = gaps[gap].max(width(&edge.label, SMALL_SIZE) + LABEL_MARGIN);
    }
    for (gap, most) in gaps.iter_mut().zip(most) {
        *gap += most as f64 * TRACK;
    }
    if let Some(last) = gaps.last_mut() {
        *last = 0.0;
    }
    gaps
}

/// The points that each edge passes, from its `from` to its `to`.
fn paths(
    model: &Model,
    boxes: &[Box],
    chains: &[Vec<usize>],
    centre: &dyn Fn(usize) -> Point,
    columns: &[f64],
    track: &dyn Fn(usize) -> Option<f64>,
) -> Vec<Path> {
    // Ends of edges at each side of each box, in the order of where they lead to.
    let mut sides: Vec<[Vec<(f64, usize, usize)>; 2]> = vec![[Vec::new(), Vec::new()]; boxes.len()];
    for (edge, chain) in chains.iter().enumerate() {
        let (first, last) = (chain[0], chain[chain.len() - 1]);
        let same_column = model.nodes[first].layer == model.nodes[last].layer;
        let second = centre(chain[1]).y;
        let before = centre(chain[chain.len() - 2]).y;
        sides[first][1].push((second, edge, 0));
        sides[last][usize::from(same_column)].push((before, edge, 1));
    }
    let mut ends = vec![[Point { x: 0.0, y: 0.0 }; 2]; chains.len()];
    for (node, sides) in sides.iter_mut().enumerate() {
        for (side, list) in sides.iter_mut().enumerate() {
            list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let step = PORT.min(boxes[node].height / (list.len() as f64 + 1.0));
            let middle = boxes[node].y + boxes[node].height / 2.0;
            let x = if side == 0 { boxes[node].x } else { boxes[node].x + boxes[node].width };
            for (position, (_, edge, end)) in list.iter().enumerate() {
                let y = middle + (position as f64 - (list.len() as f64 - 1.0) / 2.0) * step;
                ends[*edge][*end] = Point { x, y };
            }
        }
    }
    let make = |(edge, chain): (usize, &Vec<usize>)| {
        let mut points = vec![ends[edge][0]];
        for item in &chain[1..chain.len() - 1] {
            // Straight through the column, from its left to its right edge.
            let (at, half) = (centre(*item), columns_half(model, columns, *item, chain));
            points.push(Point { x: at.x - half, y: at.y });
            points.push(Point { x: at.x + half, y: at.y });
        }
        points.push(ends[edge][1]);
        let mut track = track(edge).map(|x| (0, x));
        if model.edges[edge].from != chain[0] {
            points.reverse();
            track = track.map(|(_, x)| (points.len() - 2, x));
        }
        Path { points, track }
    };
    chains.iter().enumerate().map(make).collect()
}

/// Half the width of the column in which a passing point lies.
fn columns_half(model: &Model, columns: &[f64], item: usize, chain: &[usize]) -> f64 {
    let position = chain.iter().position(|found| *found == item).unwrap_or(0);
    columns[model.nodes[chain[0]].layer + position] / 2.0
}
