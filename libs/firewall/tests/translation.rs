//! NAT and forwarding: which rule a packet meets, and what that says.

use culm_firewall::{Ends, Engine, Key, Lender, Zones, parse};
use std::net::{Ipv4Addr, Ipv6Addr};

const RULES: &str = "
default allow
nat tcp from 10.0.1.0/24 out outer to 192.0.2.1-192.0.2.4 ports 20000-29999
nat from 10.0.0.0/16 in inner,guest out outer to own
forward tcp in outer from 198.51.100.0/24 port 8080 to 10.0.1.4
forward tcp in outer port 8080 to 10.0.1.5 port 80
forward tcp,udp in outer at 192.0.2.9 port 9000-9099 to 10.0.1.6
";

/// A packet of TCP from the zone `entry` to the zone `exit`.
fn key(zones: &Zones, entry: &str, exit: &str, source: [u8; 4], destination: [u8; 4], port: u16) -> Key {
    let zone = |name| zones.find(name).expect("it is there");
    let ends = Ends::V4 { source: source.into(), destination: destination.into() };
    Key { entry: zone(entry), exit: zone(exit), ends, protocol: 6, source_port: 4000, destination_port: port }
}

#[test]
fn packets_meet_the_first_rule_that_is_about_them() {
    let zones = Zones::new(&["inner", "outer", "guest"]).expect("names of zones");
    let rules = parse(RULES, &zones).expect("rules");
    let engine = Engine::new(&rules, 1 << 20).expect("the tables fit");
    let nat = |key: &Key| engine.nat(key).map(|nat| (nat.line, nat.to, nat.ports));
    let leaving = key(&zones, "inner", "outer", [10, 0, 1, 7], [192, 0, 2, 200], 443);
    let range = Lender::Range(Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 4));
    assert_eq!(nat(&leaving), Some((3, range, (20000, 29999))));
    assert_eq!(nat(&Key { protocol: 17, ..leaving }), Some((4, Lender::Own, (32768, 65535))));
    assert_eq!(nat(&key(&zones, "inner", "guest", [10, 0, 1, 7], [10, 0, 2, 1], 443)), None);
    assert_eq!(nat(&key(&zones, "self", "outer", [10, 0, 2, 7], [192, 0, 2, 200], 443)), None);
    let over_v6 = Ends::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    assert_eq!(nat(&Key { ends: over_v6, ..leaving }), None);

    let forward = |key: &Key| engine.forward(key).map(|forward| (forward.line, forward.to.octets()[3], forward.port));
    let own = |source, port| key(&zones, "outer", "self", source, [192, 0, 2, 1], port);
    assert_eq!(forward(&own([203, 0, 113, 1], 8080)), Some((6, 5, Some(80))));
    assert_eq!(forward(&own([198, 51, 100, 1], 8080)), Some((5, 4, None)));
    assert_eq!(forward(&own([203, 0, 113, 1], 8081)), None);
    // Those for another than the router, or from another zone, are not.
    assert_eq!(forward(&key(&zones, "outer", "inner", [203, 0, 113, 1], [10, 0, 1, 9], 8080)), None);
    assert_eq!(forward(&key(&zones, "inner", "self", [10, 0, 1, 1], [192, 0, 2, 1], 8080)), None);
    // A named address may be one that the router answers for without having it.
    let named = key(&zones, "outer", "inner", [203, 0, 113, 1], [192, 0, 2, 9], 9099);
    assert_eq!(forward(&named), Some((7, 6, None)));
    assert_eq!(forward(&Key { destination_port: 9100, ..named }), None);
    assert_eq!(forward(&Key { protocol: 1, ..named }), None);
}

#[test]
fn the_limit_of_memory_is_kept() {
    let zones = Zones::new(&["inner", "outer"]).expect("names of zones");
    let rules = parse("deny from 10.0.0.1\nnat out outer to own\n", &zones).expect("rules");
    let bytes = Engine::new(&rules, 1 << 20).expect("the tables fit").bytes();
    assert!(Engine::new(&rules, bytes).is_ok_and(|engine| engine.bytes() == bytes));
    assert!(Engine::new(&rules, bytes - 1).is_err());
}
