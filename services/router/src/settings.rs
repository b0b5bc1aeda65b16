//! The router as its system file describes it.

use crate::desk::Desk;
use crate::journal::Journal;
use crate::networks::{Address, Network, Networks};
use crate::policy::Policy;
use crate::router::{Router, Secrets};
use crate::{Config, Connections, counters, instant};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;
use culm::connection::NetClient;
use culm::{Region, time};
use culm_firewall::{RuleSet, Zones, parse};
use culm_flow::memory_words;
use culm_guard::Guard;
use culm_ip::{Key, LinkAddress};
use culm_net::Client;
use culm_report::Since;

/// Bytes of the longest packet of networks that have no key for it.
const MTU: u16 = 1500;

/// Makes the router, and its clients of the cards in the order of its networks.
///
/// # Panics
///
/// If the rules cannot be used, which the build tool has found out.
pub fn start(config: Config, connections: Connections) -> (Router, Desk, Vec<Client>) {
    // Before anything is made of random numbers; what fails is said in the log.
    if let Some(entropy) = &connections.entropy {
        let _ = culm_entropy::take_seed(entropy);
    }
    let Config { outer_address: outer, inner_address: inner, dmz_address: dmz, guest_address: guest, .. } = config;
    let described: [(&'static str, Option<NetClient>, _, _, _, _); 4] = [
        ("outer", Some(connections.outer), outer, config.outer_address6, config.outer_mtu, false),
        ("inner", Some(connections.inner), inner, config.inner_address6, config.inner_mtu, config.inner_advertise),
        ("dmz", connections.dmz, dmz, config.dmz_address6, MTU, config.dmz_advertise),
        ("guest", connections.guest, guest, config.guest_address6, MTU, config.guest_advertise),
    ];
    let (mut clients, mut networks, mut advertised) = (Vec::new(), Vec::new(), Vec::new());
    for (name, connection, v4, v6, mtu, is_advertised) in described {
        let Some(connection) = connection else { continue };
        if is_advertised {
            advertised.push(networks.len());
        }
        let client = Client::new(connection);
        networks.push(Network {
            name,
            link: LinkAddress(client.mac().bytes()),
            v4: v4.and_then(Address::<Ipv4Addr>::parse),
            v6: v6.and_then(Address::<Ipv6Addr>::parse),
            mtu,
        });
        clients.push(client);
    }
    let gateway4 = config.gateway.and_then(|gateway| gateway.parse().ok());
    let gateway6 = config.gateway6.and_then(|gateway| gateway.parse().ok());
    let networks = Networks::new(networks, gateway4, gateway6);
    let secrets = secrets();
    let memory = memory(connections.flows, config.flows as usize);
    let flows = config.flows as usize;
    let guard = guard(config.reload_token_sha256, connections.proposals.is_some());
    let desk = Desk::new(connections.report, connections.proposals, connections.asker, guard, secrets.flows, flows);
    let policy = policy(&desk, config.rules, &networks, secrets.flows, flows);
    let journal = Journal::new(secrets.flows, config.log_rate);
    let (mut router, adopted) =
        Router::new(networks, policy, memory, config.flows_per_source, &secrets, journal, instant());
    if adopted.kept + adopted.refused > 0 {
        culm::info!("{} flows go on, {} do not", adopted.kept, adopted.refused);
    }
    let name_servers = config.name_server6.and_then(|address| address.parse().ok());
    router.advertise(advertised.into_iter(), name_servers.into_iter().collect());
    counters::FLOWS_KEPT.add(adopted.kept as u64);
    (router, desk, clients)
}

/// Returns who knows the token of who may give rules, if the system has its hash.
fn guard(hash: Option<&str>, has_proposals: bool) -> Option<Guard> {
    let hash = hash.and_then(culm_guard::read_hash);
    if hash.is_some() && !has_proposals {
        culm::warn!("a token is set, and no rules can be given: connect `proposals`");
    }
    // Its seed tells hosts apart, and all guesses come from one place here.
    hash.map(|hash| Guard::new(hash, time::ticks(culm_guard::PAUSE), [0; 4]))
}

/// Returns the rules that a previous life was given while it ran, or else those of the system, and
/// has them shown.
///
/// # Panics
///
/// If those of the system cannot be used.
pub fn policy(desk: &Desk, system: &str, networks: &Networks, key: culm_flow::Key, flows: usize) -> Policy {
    let make = |text: &str| {
        let rules = read(text, networks)?;
        Policy::new(rules, networks, key, flows).map_err(|why| format!("they cannot be used: {why}"))
    };
    if let Some((text, since)) = desk.left() {
        match make(&text) {
            Ok(mut policy) => {
                culm::info!("the rules that were given to the router before stay in use");
                desk.show(&mut policy, &text, since);
                return policy;
            }
            Err(what) => culm::warn!("the rules that the router had are not those of the system, and wrong: {what}"),
        }
    }
    match make(system) {
        Ok(mut policy) => {
            let time = crate::router::milliseconds(instant());
            desk.show(&mut policy, system, Since { is_proposed: false, time });
            policy
        }
        Err(what) => panic!("rules: {what}"),
    }
}

/// Reads rules. Of mistakes all are said, as the build tool does.
pub fn read(text: &str, networks: &Networks) -> Result<RuleSet, String> {
    let names: Vec<&str> = networks.all().iter().map(|network| network.name).collect();
    let zones = Zones::new(&names).map_err(|_| String::from("the networks' names are none of zones"))?;
    parse(text, &zones).map_err(|problems| {
        let mut said = String::new();
        for problem in problems {
            // A string takes all.
            let _ = problem.write(&mut said, "rules", text);
        }
        said
    })
}

/// Returns memory for so many flows: that of the region, if there is one, which outlives the
/// router.
fn memory(region: Option<Region>, flows: usize) -> &'static [AtomicU64] {
    if let Some(region) = region {
        let words = memory_words(flows).min(region.len() / 8);
        if let Ok(words) = region.atomics_u64(0, words) {
            return words;
        }
    }
    let words: Vec<AtomicU64> = (0..memory_words(flows)).map(|_| AtomicU64::new(0)).collect();
    words.leak()
}

/// Returns random bits: without a source of them, somebody could guess ports and fill one place of
/// the tables.
fn secrets() -> Secrets {
    let words: [u64; 7] = culm::random::words().unwrap_or_else(|| {
        culm::warn!("there is no source of randomness: ports and places in tables can be guessed");
        let seed = time::now().ticks();
        core::array::from_fn(|index| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ index as u64))
    });
    let [a, b, neighbours @ ..] = words;
    Secrets { flows: culm_flow::Key([a, b]), neighbours: Key(neighbours) }
}
