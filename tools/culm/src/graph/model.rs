//! The content of a picture: nodes, and edges between them.

use super::text::{bold_width, width};
use crate::plan::{ConnectionData, Domain, DomainId, End, Fields, Origin, Plan, Purpose, RegionId};
use culm_manifest::units::{format_duration, format_size};
use std::collections::BTreeMap;

/// The picture to draw.
pub struct Model {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The edges.
    pub edges: Vec<Edge>,
    /// Cores with something on them.
    pub lanes: Vec<Lane>,
}

/// A core.
pub struct Lane {
    /// Its number.
    pub core: u32,
    /// The supervisor, if it is here.
    pub supervisor: Option<DomainId>,
}

/// Something that has a place.
pub struct Node {
    /// Its kind.
    pub kind: NodeKind,
    /// Position in [`Model::lanes`].
    pub lane: usize,
    /// Column, from the devices at the left.
    pub layer: usize,
    /// Width of the box.
    pub width: f64,
    /// Least height of the box; it grows with its edges.
    pub height: f64,
}

/// The kind of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A device of the board.
    Device(usize),
    /// A protection domain.
    Domain(DomainId),
    /// A region that the description names.
    Region(RegionId),
    /// The logs of that many domains.
    Logs(usize),
}

/// Something that leads from one node to another.
pub struct Edge {
    /// From this node …
    pub from: usize,
    /// … to this one.
    pub to: usize,
    /// Short text beside it.
    pub label: String,
    /// The text that a reader sees who stays on it.
    pub title: String,
    /// How it is drawn.
    pub kind: EdgeKind,
    /// Something of the same connection goes the other way.
    pub back: bool,
}

/// The kind of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeKind {
    /// Registers and interrupts.
    Device,
    /// A queue, in the direction of the payload.
    Queue,
    /// Calls.
    Call,
    /// Notifications only.
    Notify,
    /// A region mapped writable.
    Write,
    /// A region mapped read-only.
    Read,
    /// Logs.
    Log,
}

/// First column of applications: devices, drivers, virtualisers and copiers come before.
const APPLICATIONS: usize = 4;

/// Sizes of text in boxes.
pub const NAME_SIZE: f64 = 14.0;
/// See [`NAME_SIZE`].
pub const SMALL_SIZE: f64 = 11.0;

impl Model {
    /// Makes the picture's content from a plan.
    pub fn of(plan: &Plan) -> Self {
        let mut cores: Vec<u32> = plan.domains.iter().map(|domain| domain.core).collect();
        cores.sort_unstable();
        cores.dedup();
        let supervisor = plan.domains.iter().position(|domain| domain.origin == Origin::Supervisor);
        let lanes = cores
            .into_iter()
            .map(|core| Lane { core, supervisor: supervisor.filter(|id| plan.domains[*id].core == core) })
            .collect();
        let mut model = Self { nodes: Vec::new(), edges: Vec::new(), lanes };
        model.add_domains(plan);
        model.add_devices(plan);
        model.add_queues(plan);
        model.add_channels(plan);
        model.add_regions(plan);
        model.add_shown(plan);
        model.layer(plan);
        model.even_widths();
        model
    }

    fn lane_of(&self, plan: &Plan, domain: DomainId) -> usize {
        self.lanes.iter().position(|lane| lane.core == plan.domains[domain].core).unwrap_or(0)
    }

    /// The node of a domain; the supervisor has none.
    fn node_of(&self, domain: DomainId) -> Option<usize> {
        self.nodes.iter().position(|node| node.kind == NodeKind::Domain(domain))
    }

    fn add_domains(&mut self, plan: &Plan) {
        for (id, domain) in plan.domains.iter().enumerate() {
            let layer = match domain.origin {
                Origin::Supervisor => continue,
                Origin::Driver(_) => 1,
                Origin::Virtualiser(_) => 2,
                Origin::Before { .. } => 3,
                Origin::Description => APPLICATIONS,
            };
            let component = &plan.components[domain.component].manifest.name;
            let badges: f64 = badges(domain).iter().map(|badge| badge_width(&badge.text) + 6.0).sum();
            let eye = if is_observer(domain) { 22.0 } else { 0.0 };
            let content =
                (bold_width(&domain.name, NAME_SIZE) + eye).max(width(component, SMALL_SIZE)).max(badges - 6.0);
            let node = Node {
                kind: NodeKind::Domain(id),
                lane: self.lane_of(plan, id),
                layer,
                width: (content + 34.0).max(126.0),
                height: 78.0,
            };
            self.nodes.push(node);
        }
    }

    fn add_devices(&mut self, plan: &Plan) {
        for (id, device) in plan.devices.iter().enumerate() {
            let board = &device.board;
            let content = bold_width(&board.name, NAME_SIZE).max(width(&board.compatible, SMALL_SIZE));
            let lane = self.lane_of(plan, device.driver);
            let node =
                Node { kind: NodeKind::Device(id), lane, layer: 0, width: (content + 34.0).max(104.0), height: 66.0 };
            self.nodes.push(node);
            let Some(driver) = self.node_of(device.driver) else { continue };
            let lines: Vec<String> = board.interrupts.iter().map(|interrupt| interrupt.number.to_string()).collect();
            let label = if lines.is_empty() { String::new() } else { format!("irq {}", lines.join(", ")) };
            let registers = board.registers;
            let title =
                format!("{}: registers at {:#x}, {} bytes; {label}", board.name, registers.address, registers.size);
            let from = self.nodes.len() - 1;
            self.edges.push(Edge { from, to: driver, label, title, kind: EdgeKind::Device, back: true });
        }
    }

    /// One edge for each pair of queues that carries payload one way and empty buffers the other,
    /// one for each queue of bytes. Logs are counted, and drawn as one.
    fn add_queues(&mut self, plan: &Plan) {
        let mut logs: BTreeMap<DomainId, usize> = BTreeMap::new();
        let log_regions = log_regions(plan);
        for (region, _) in plan.regions.iter().enumerate().filter(|(_, region)| region.purpose == Purpose::Queues) {
            let rings: Vec<_> = plan.rings.iter().filter(|ring| ring.region == region).collect();
            let Some(first) = rings.first() else { continue };
            if log_regions.contains(&region) {
                *logs.entry(first.consumer).or_default() += 1;
                continue;
            }
            let has_back = rings.iter().any(|ring| ring.name.ends_with("free"));
            for ring in rings.iter().filter(|ring| !ring.name.ends_with("free")) {
                let (Some(from), Some(to)) = (self.node_of(ring.producer), self.node_of(ring.consumer)) else {
                    continue;
                };
                if from == to {
                    // Between a driver and its virtualisers in one domain.
                    continue;
                }
                let what = ring.name.rsplit(' ').next().unwrap_or(&ring.name).trim_end_matches("_filled");
                self.edges.push(Edge {
                    from,
                    to,
                    label: format!("{what} {}", ring.capacity),
                    title: format!(
                        "{}: {} entries from {} to {}",
                        ring.name, ring.capacity, plan.domains[ring.producer].name, plan.domains[ring.consumer].name
                    ),
                    kind: EdgeKind::Queue,
                    back: has_back,
                });
            }
        }
        for (virtualiser, count) in logs {
            let Some(to) = self.node_of(virtualiser) else { continue };
            let lane = self.lane_of(plan, virtualiser);
            self.nodes.push(Node { kind: NodeKind::Logs(count), lane, layer: 3, width: 92.0, height: 34.0 });
            let title = format!("{count} protection domains write their logs here");
            let from = self.nodes.len() - 1;
            self.edges.push(Edge { from, to, label: String::new(), title, kind: EdgeKind::Log, back: false });
        }
    }

    /// Channels that the description names: those between domains whose connections are of the kind
    /// `channel`.
    fn add_channels(&mut self, plan: &Plan) {
        for (id, domain) in plan.domains.iter().enumerate() {
            for connection in &domain.connections {
                let ConnectionData::Channel(named) = &connection.data else { continue };
                let Some(End::Peer { domain: peer, end, notify, call, label }) =
                    domain.ends.get(named.channel as usize)
                else {
                    continue;
                };
                let Some(End::Peer { notify: notified, call: called, .. }) =
                    plan.domains[*peer].ends.get(*end as usize)
                else {
                    continue;
                };
                // Each channel once: from the side that calls, else that notifies, else that comes
                // first.
                let rank = |call: bool, notify: bool| (call, notify);
                let (own, other) = (rank(*call, *notify), rank(*called, *notified));
                if own < other || (own == other && id > *peer) {
                    continue;
                }
                let (Some(from), Some(to)) = (self.node_of(id), self.node_of(*peer)) else { continue };
                let (kind, verb) = if *call { (EdgeKind::Call, "calls") } else { (EdgeKind::Notify, "notifies") };
                // A reply goes without saying.
                let back = !*call && *notified;
                self.edges.push(Edge {
                    from,
                    to,
                    label: label.clone(),
                    title: format!("{} {verb} {} ({label})", domain.name, plan.domains[*peer].name),
                    kind,
                    back,
                });
            }
        }
    }

    /// Regions that the description names.
    fn add_regions(&mut self, plan: &Plan) {
        for (id, region) in plan.regions.iter().enumerate().filter(|(_, region)| region.purpose == Purpose::Description)
        {
            let Some(owner) = region.mappings.first() else { continue };
            let caption = format!("{} {}", format_size(region.size), region.kind.name());
            let content = bold_width(&region.name, NAME_SIZE).max(width(&caption, SMALL_SIZE));
            let lane = self.lane_of(plan, owner.domain);
            let node =
                Node { kind: NodeKind::Region(id), lane, layer: APPLICATIONS + 1, width: content + 44.0, height: 50.0 };
            self.nodes.push(node);
            let here = self.nodes.len() - 1;
            for mapping in &region.mappings {
                let Some(domain) = self.node_of(mapping.domain) else { continue };
                let name = &plan.domains[mapping.domain].name;
                let edge = match mapping.writable {
                    true => Edge {
                        from: domain,
                        to: here,
                        label: "rw".to_string(),
                        title: format!("{name} reads and writes {}", region.name),
                        kind: EdgeKind::Write,
                        back: false,
                    },
                    false => Edge {
                        from: here,
                        to: domain,
                        label: "r".to_string(),
                        title: format!("{name} reads {}", region.name),
                        kind: EdgeKind::Read,
                        back: false,
                    },
                };
                self.edges.push(edge);
            }
        }
    }

    /// Adds the pages that providers show to their clients: an edge to each reader.
    fn add_shown(&mut self, plan: &Plan) {
        for region in plan.regions.iter().filter(|region| region.purpose == Purpose::Shown) {
            let writer = region.mappings.iter().find(|mapping| mapping.writable);
            let Some(from) = writer.and_then(|writer| self.node_of(writer.domain)) else { continue };
            for reader in region.mappings.iter().filter(|mapping| !mapping.writable) {
                let Some(to) = self.node_of(reader.domain) else { continue };
                let label = region.name.rsplit(' ').next().unwrap_or_default().to_string();
                let title = format!("{} reads {}", plan.domains[reader.domain].name, region.name);
                self.edges.push(Edge { from, to, label, title, kind: EdgeKind::Read, back: false });
            }
        }
    }

    /// Moves applications and regions to the right of what leads to them. An edge that would close
    /// a cycle counts for nothing: no column may run away.
    fn layer(&mut self, plan: &Plan) {
        let moves = |node: &Node| match node.kind {
            NodeKind::Domain(domain) => plan.domains[domain].origin == Origin::Description,
            NodeKind::Region(_) => true,
            _ => false,
        };
        let drawn: Vec<usize> = (0..self.edges.len())
            .filter(|edge| {
                let edge = &self.edges[*edge];
                edge.from != edge.to && moves(&self.nodes[edge.from]) && moves(&self.nodes[edge.to])
            })
            .collect();
        let mut kept: Vec<(usize, usize)> = Vec::new();
        for edge in drawn {
            let (from, to) = (self.edges[edge].from, self.edges[edge].to);
            if !reaches(&kept, to, from) {
                kept.push((from, to));
            }
        }
        // Without cycles this ends: a node moves once per node before it at most.
        let mut changed = true;
        while changed {
            changed = false;
            for &(from, to) in &kept {
                let least = self.nodes[from].layer + 1;
                if self.nodes[to].layer < least {
                    self.nodes[to].layer = least;
                    changed = true;
                }
            }
        }
        self.close_gaps();
    }

    /// Gives the domains of a column one width.
    fn even_widths(&mut self) {
        let is_domain = |node: &Node| matches!(node.kind, NodeKind::Domain(_));
        let mut widest: BTreeMap<usize, f64> = BTreeMap::new();
        for node in self.nodes.iter().filter(|node| is_domain(node)) {
            let width = widest.entry(node.layer).or_default();
            *width = width.max(node.width);
        }
        for node in self.nodes.iter_mut().filter(|node| is_domain(node)) {
            node.width = widest[&node.layer];
        }
    }

    /// Takes out columns that nobody is in.
    fn close_gaps(&mut self) {
        let mut used: Vec<usize> = self.nodes.iter().map(|node| node.layer).collect();
        used.sort_unstable();
        used.dedup();
        for node in &mut self.nodes {
            node.layer = used.iter().position(|layer| *layer == node.layer).unwrap_or(node.layer);
        }
    }
}

fn reaches(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
    let mut seen = vec![from];
    let mut next = 0;
    while next < seen.len() {
        let at = seen[next];
        next += 1;
        for &(_, target) in edges.iter().filter(|(start, _)| *start == at) {
            if !seen.contains(&target) {
                seen.push(target);
            }
        }
    }
    seen.contains(&to)
}

/// Regions that hold the queues of logs.
fn log_regions(plan: &Plan) -> Vec<RegionId> {
    let logs = plan.domains.iter().flat_map(|domain| &domain.connections);
    logs.filter(|connection| connection.slot == culm_abi::start::IMPLICIT)
        .flat_map(|connection| Fields::from(&connection.data).rings().collect::<Vec<_>>())
        .map(|ring| plan.rings[ring].region)
        .collect()
}

/// Whether a domain may see the whole system.
pub fn is_observer(domain: &Domain) -> bool {
    domain.connections.iter().any(|connection| matches!(connection.data, ConnectionData::Observation(_)))
}

/// A badge in a domain's box.
pub struct Badge {
    /// Its text.
    pub text: String,
    /// Class of its style.
    pub class: &'static str,
}

/// Priority, budget, and that it is passive.
pub fn badges(domain: &Domain) -> Vec<Badge> {
    let mut badges = vec![Badge { text: format!("priority {}", domain.priority), class: "badge" }];
    if let Some(budget) = domain.budget {
        let text = format!("{} / {}", format_duration(budget.budget), format_duration(budget.period));
        badges.push(Badge { text, class: "badge budget" });
    }
    if domain.passive {
        badges.push(Badge { text: "passive".to_string(), class: "badge passive" });
    }
    badges
}

/// Width of a badge.
pub fn badge_width(text: &str) -> f64 {
    width(text, SMALL_SIZE) + 12.0
}
