//! The picture shows everything that a plan has, nothing overlaps, and the file is well formed.

use super::*;
use crate::description::catalogue::Catalogue;
use crate::plan::Origin;
use std::path::Path;

fn plan(system: &str) -> Plan {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bad/world");
    let catalogue = Catalogue::read(&root);
    crate::expand::expand(&catalogue, &root.join(format!("systems/{system}.toml")), None).unwrap()
}

#[test]
fn every_domain_device_and_region_is_drawn() {
    let plan = plan("full");
    let svg = svg(&plan);
    for domain in &plan.domains {
        assert!(svg.contains(&format!("id=\"pd-{}\"", domain.name)), "{}", domain.name);
    }
    for device in &plan.devices {
        assert!(svg.contains(&format!("id=\"device-{}\"", device.board.name)));
    }
    assert!(svg.contains("id=\"region-shared\""));
}

#[test]
fn boxes_do_not_overlap_and_lie_in_their_lane() {
    let plan = plan("full");
    let model = model::Model::of(&plan);
    let placed = place::place(&model);
    for (index, a) in placed.boxes.iter().enumerate() {
        for b in &placed.boxes[..index] {
            let apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
            assert!(apart, "{a:?} {b:?}");
        }
        let lane = placed.lanes[model.nodes[index].lane];
        assert!(a.y > lane.y && a.y + a.height < lane.y + lane.height, "{a:?} {lane:?}");
        assert!(a.x + a.width < placed.size.x);
    }
}

#[test]
fn data_flows_to_the_right() {
    let plan = plan("full");
    let model = model::Model::of(&plan);
    let layer = |name: &str| {
        let id = plan.domain(name).unwrap();
        model.nodes.iter().find(|node| node.kind == model::NodeKind::Domain(id)).unwrap().layer
    };
    assert!(layer("nic0_driver") < layer("nic0_rx"));
    assert!(layer("nic0_rx") < layer("http_copier"));
    assert!(layer("http_copier") < layer("http"));
    assert!(layer("client") < layer("server"), "a callee is to the right of its caller");
    assert!(plan.domains.iter().filter(|domain| domain.origin == Origin::Supervisor).count() == 1);
}

#[test]
fn elements_are_closed() {
    let svg = svg(&plan("full"));
    for element in ["g", "text", "title", "style", "defs", "marker", "svg"] {
        let opened = svg.matches(&format!("<{element}>")).count() + svg.matches(&format!("<{element} ")).count();
        assert_eq!(opened, svg.matches(&format!("</{element}>")).count(), "{element}");
    }
}
