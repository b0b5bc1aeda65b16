//! The network outside an emulated machine: QEMU's own, with ports that lead into it, or an
//! interface of the host.

use super::cards::{cards, is_card};
use super::forward::{self, Forward, Protocol};
use super::options::NAME;
use crate::failure::Failure;
use crate::plan::{Device, Plan};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;

/// Options of `culm run`.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Options {
    /// Lead a port of this machine to one of the guest: HOST:GUEST, udp:HOST:GUEST, or
    /// HOST:ADDRESS:GUEST where there are several network clients or cards: the first card's
    /// addresses begin with 10.0.2, the second's with 10.0.3. May be given several times; without
    /// it, each client's `port` is forwarded (80 from 8080, or the next that is free)
    #[arg(long, value_name = "HOST:GUEST")]
    forward: Vec<Forward>,
    /// Connect a network card to this TAP interface, in place of QEMU's own network: the first card
    /// that has none, or with CARD=NAME that card. May be given once for each. Who has no `address`
    /// in the configuration needs a DHCP server there
    #[arg(long, value_name = "NAME")]
    tap: Vec<Tap>,
}

/// A TAP interface of the host, for a card.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tap {
    /// The card's name; without one it is the first that has no interface.
    card: Option<String>,
    interface: String,
}

impl FromStr for Tap {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.split_once('=') {
            Some((card, interface)) => Self { card: Some(card.to_string()), interface: interface.to_string() },
            None => Self { card: None, interface: text.to_string() },
        })
    }
}

impl Options {
    /// Refuses what could not be connected.
    pub fn check(&self, plan: &Plan, debugger: Option<u16>) -> Result<(), Failure> {
        let option = if self.tap.is_empty() { "--forward" } else { "--tap" };
        let cards = cards(&plan.devices);
        if (!self.tap.is_empty() || !self.forward.is_empty()) && cards.is_empty() {
            return Err(Failure::new(format!(
                "the system `{}` has no network card that anything could lead to",
                plan.name
            ))
            .help(format!("leave out {option}, or add a `[device.NAME]` of the class `{NAME}` to the system")));
        }
        let taps = self.taps(&cards)?;
        for tap in &self.tap {
            check_tap(&tap.interface)?;
        }
        for forward in &self.forward {
            check_card(forward, &cards, &taps)?;
        }
        forward::check(&self.forward, debugger)
    }

    /// The interface of each card that has one.
    fn taps(&self, cards: &[&str]) -> Result<BTreeMap<String, String>, Failure> {
        let mut taps = BTreeMap::<String, String>::new();
        let (named, others): (Vec<&Tap>, Vec<&Tap>) = self.tap.iter().partition(|tap| tap.card.is_some());
        for Tap { card, interface } in named.into_iter().chain(others) {
            let is_free = |name: &&str| !taps.contains_key(*name);
            let found = match card {
                Some(card) => cards.iter().copied().find(|name| name == card),
                None => cards.iter().copied().find(is_free),
            };
            let Some(found) = found else {
                let message = match card {
                    Some(card) => format!("the system has no network card `{card}` for the interface `{interface}`"),
                    None => format!("the system has no further network card for the interface `{interface}`"),
                };
                return Err(Failure::new(message).help(format!("its cards: {}", cards.join(", "))));
            };
            if let Some(other) = taps.get(found) {
                let message = format!("the card `{found}` cannot be on both `{other}` and `{interface}`");
                return Err(Failure::new(message).help("give each card one --tap"));
            }
            if let Some((other, _)) = taps.iter().find(|(_, taken)| *taken == interface) {
                let message = format!("the interface `{interface}` cannot have both `{other}` and `{found}` on it");
                return Err(Failure::new(message).help("a TAP has one machine's card: make a second one"));
            }
            taps.insert(found.to_string(), interface.clone());
        }
        Ok(taps)
    }

    /// The network of this system, which [`Self::check`] has found nothing wrong with.
    pub fn network(&self, plan: &Plan, debugger: Option<u16>) -> Network {
        let cards = cards(&plan.devices);
        let taps = self.taps(&cards).unwrap_or_default();
        if self.forward.is_empty() {
            let is_user = |card: usize| cards.get(card).is_none_or(|name| !taps.contains_key(*name));
            let forwards = forward::defaults(plan, debugger, is_user);
            return Network { taps, forwards, unasked: Vec::new() };
        }
        let known: Vec<u16> = forward::ports(plan).into_keys().collect();
        let is_unknown = |port: &u16| !known.contains(port);
        let guests = self.forward.iter().map(|forward| forward.guest).filter(is_unknown);
        Network { taps, forwards: self.forward.clone(), unasked: guests.collect() }
    }
}

/// The port of web servers.
const HTTP: u16 = 80;

/// The port of iperf3's servers.
const IPERF3: u16 = 5201;

/// How the network cards are connected: each to a network of its own, QEMU's or a TAP interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// The interfaces of the host, by the names of the cards that are on them.
    taps: BTreeMap<String, String>,
    /// Ports that lead to the other cards.
    forwards: Vec<Forward>,
    /// Ports of the guest that no component's configuration names, among those.
    unasked: Vec<u16>,
}

impl Network {
    /// QEMU's arguments for the network of the device at `index`; none where it is no network card.
    pub fn arguments(&self, devices: &[Device], index: usize) -> Vec<String> {
        let device = &devices[index];
        if !is_card(device) {
            return Vec::new();
        }
        let name = &device.board.name;
        let card = devices[..index].iter().filter(|device| is_card(device)).count();
        let network = match self.taps.get(name) {
            Some(interface) => format!("tap,id={name},ifname={interface},script=no,downscript=no"),
            None => {
                let forwards = self.forwards.iter().filter(|forward| forward.card() == card);
                let forwards: String = forwards.map(|forward| format!(",{}", forward.qemu())).collect();
                // The first one's network is QEMU's own choice.
                let net = if card == 0 { String::new() } else { format!(",net={}", forward::network(card)) };
                format!("user,id={name}{net}{forwards}")
            }
        };
        vec!["-netdev".to_string(), network]
    }

    /// Which ports lead where.
    pub fn announcements(&self) -> Vec<String> {
        let forwards = &self.forwards;
        // The same by the other protocol is in its line.
        let twin = |forward: &Forward, protocol| forwards.contains(&Forward { protocol, ..*forward });
        let is_told = |forward: &&Forward| forward.protocol == Protocol::Udp && twin(forward, Protocol::Tcp);
        let line = |forward: &Forward| {
            let Forward { protocol, host, address, guest } = forward;
            let is_shared = forwards.iter().any(|other| other.guest == *guest && other.address != *address);
            let place =
                if is_shared || forward.card() > 0 { format!("{guest} at {address}") } else { guest.to_string() };
            let both = if twin(forward, Protocol::Udp) && *protocol == Protocol::Tcp { " and udp" } else { "" };
            let listener = match self.is_unasked(*guest) {
                true => ", a port that no component's configuration names: does anybody listen there?",
                false => "",
            };
            // What listens there is a web server, whoever it is, or one of iperf3's.
            let page = match (*protocol, *guest) {
                (Protocol::Tcp, HTTP) => format!(": http://localhost:{host}/"),
                (Protocol::Tcp, IPERF3) => format!(": iperf3 -c 127.0.0.1 -p {host}"),
                _ => String::new(),
            };
            format!("{protocol}{both} port {host} leads to the guest's {place}{listener}{page}")
        };
        forwards.iter().filter(|forward| !is_told(forward)).map(line).collect()
    }

    fn is_unasked(&self, port: u16) -> bool {
        self.unasked.contains(&port)
    }

    /// The port of this machine that leads to a TCP port of the guest, if that is clear.
    pub fn leads_to(&self, port: u16, address: Option<Ipv4Addr>) -> Option<u16> {
        let leads_here = |forward: &&Forward| forward.protocol == Protocol::Tcp && forward.guest == port;
        let mut candidates = self.forwards.iter().filter(leads_here);
        match address {
            Some(address) => candidates.find(|forward| forward.address == address).map(|forward| forward.host),
            // With several it depends on its address.
            None => candidates.next().filter(|_| candidates.next().is_none()).map(|forward| forward.host),
        }
    }
}

/// Refuses a port that leads to no card, or to one that is not on QEMU's own network.
fn check_card(forward: &Forward, cards: &[&str], taps: &BTreeMap<String, String>) -> Result<(), Failure> {
    let Some(name) = cards.get(forward.card()) else {
        let networks = cards.iter().enumerate();
        let networks: Vec<String> =
            networks.map(|(card, name)| format!("{name} has {}", forward::network(card))).collect();
        return Err(Failure::new(format!(
            "no network card has the address {} of --forward {forward}",
            forward.address
        ))
        .help(networks.join(", ")));
    };
    let Some(interface) = taps.get(*name) else { return Ok(()) };
    Err(Failure::new(format!(
        "--forward {forward} leads to the card `{name}`, which is on the interface `{interface}`"
    ))
    .help("it is reached there by its own address: leave out one of the two"))
}

/// Refuses a TAP interface that QEMU could not use.
fn check_tap(name: &str) -> Result<(), Failure> {
    let help = "make one, then use --tap tap0: sudo ip tuntap add dev tap0 mode tap user $(id -un) && \
                sudo ip addr add 10.0.0.1/24 dev tap0 && sudo ip link set tap0 up";
    if nix::net::if_::if_nametoindex(name).is_err() {
        return Err(Failure::new(format!("there is no network interface `{name}`")).help(help));
    }
    // The folder shows the interfaces of the network namespace in which it was mounted, which need
    // not be this one.
    let folder = Path::new("/sys/class/net").join(name);
    if folder.is_dir() && !folder.join("tun_flags").is_file() {
        return Err(Failure::new(format!("the network interface `{name}` is not a TAP")).help(help));
    }
    std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").map(drop).map_err(|error| {
        Failure::io("open /dev/net/tun", &error).help("without it there is user networking: leave --tap out")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::fixture::{self, Shape};
    use crate::plan::{BoardDevice, DeviceClass, PhysicalRange};

    fn with_card() -> Plan {
        let mut plan = fixture::parts(&Shape::default()).plan;
        let board = fixture::device("nic0", "virtio,net", PhysicalRange { address: 0x0a00_0000, size: 0x200 });
        let classes = vec![DeviceClass::named(NAME).expect("a class")];
        plan.devices.push(fixture::used(BoardDevice { classes, ..board }));
        plan
    }

    fn with_cards() -> Plan {
        let mut plan = with_card();
        let mut second = plan.devices[0].clone();
        second.board.name = "nic1".into();
        plan.devices.push(second);
        plan
    }

    fn user(forwards: &[&str]) -> Network {
        let forwards = forwards.iter().map(|text| text.parse().expect("a forward")).collect();
        Network { forwards, ..Network::default() }
    }

    fn on_taps(taps: &[&str]) -> Options {
        let tap = taps.iter().map(|text| text.parse().unwrap_or_else(|never| match never {})).collect();
        Options { tap, ..Options::default() }
    }

    #[test]
    fn each_card_is_on_a_network_of_its_own() {
        let plan = with_cards();
        let line = |network: &Network, index| network.arguments(&plan.devices, index).join(" ");
        let user = user(&["8080:80", "udp:7007:10.0.3.15:7"]);
        assert_eq!(line(&user, 0), "-netdev user,id=nic0,hostfwd=tcp:127.0.0.1:8080-10.0.2.15:80");
        assert_eq!(line(&user, 1), "-netdev user,id=nic1,net=10.0.3.0/24,hostfwd=udp:127.0.0.1:7007-10.0.3.15:7");
        let taps = on_taps(&["tap7"]).network(&plan, None);
        assert_eq!(line(&taps, 0), "-netdev tap,id=nic0,ifname=tap7,script=no,downscript=no");
        assert_eq!(line(&taps, 1), "-netdev user,id=nic1,net=10.0.3.0/24");
        let taps = on_taps(&["tap7", "nic0=tap8"]).network(&plan, None);
        assert_eq!(line(&taps, 0), "-netdev tap,id=nic0,ifname=tap8,script=no,downscript=no");
        assert_eq!(line(&taps, 1), "-netdev tap,id=nic1,ifname=tap7,script=no,downscript=no");
    }

    #[test]
    fn interfaces_that_go_with_no_card_are_refused() {
        let plan = with_cards();
        for (taps, said) in [
            (&["a", "b", "c"][..], "no further network card for the interface `c`"),
            (&["nic2=a"], "no network card `nic2`"),
            (&["nic0=a", "nic0=b"], "`nic0` cannot be on both `a` and `b`"),
            (&["nic1=a", "a"], "`a` cannot have both `nic1` and `nic0`"),
        ] {
            let failure = on_taps(taps).check(&plan, None).expect_err("it is refused").to_string();
            assert!(failure.contains(said), "{taps:?}: {failure}");
        }
    }

    #[test]
    fn a_port_that_leads_to_no_card_is_refused() {
        let (cards, taps) = (["nic0", "nic1"], BTreeMap::from([("nic1".to_string(), "tap7".to_string())]));
        let refusal =
            |text: &str| check_card(&text.parse().expect("a forward"), &cards, &taps).map_err(|f| f.to_string());
        assert_eq!(refusal("8080:80"), Ok(()));
        assert!(refusal("8080:10.0.4.15:80").is_err_and(|said| said.contains("nic1 has 10.0.3.0/24")));
        assert!(refusal("8080:10.0.3.15:80").is_err_and(|said| said.contains("on the interface `tap7`")));
    }

    #[test]
    fn a_port_is_found_where_it_leads_for_certain() {
        let network = user(&["8080:80", "8081:10.0.2.16:80", "7000:7"]);
        assert_eq!(network.leads_to(7, None), Some(7000));
        assert_eq!(network.leads_to(80, None), None);
        assert_eq!(network.leads_to(80, Some(Ipv4Addr::new(10, 0, 2, 16))), Some(8081));
    }

    #[test]
    fn a_port_by_both_protocols_is_told_of_once() {
        let said = user(&["8080:80", "udp:8080:80", "udp:7007:7", "5202:5201", "udp:5202:5201"]).announcements();
        assert_eq!(
            said,
            [
                "tcp and udp port 8080 leads to the guest's 80: http://localhost:8080/",
                "udp port 7007 leads to the guest's 7",
                "tcp and udp port 5202 leads to the guest's 5201: iperf3 -c 127.0.0.1 -p 5202"
            ]
        );
    }

    #[test]
    fn a_port_to_which_nobody_listens_is_told_of() {
        let options = |forward: &str| Options { forward: vec![forward.parse().expect("a forward")], tap: vec![] };
        let without = fixture::parts(&Shape::default()).plan;
        let failure = options("8088:80").check(&without, None).expect_err("there is no card").to_string();
        assert!(failure.contains("has no network card") && failure.contains("leave out --forward"), "{failure}");
        let said = options("8088:8088").network(&with_card(), None).announcements();
        assert!(said[0].contains("8088, a port that no component's configuration names"), "{said:?}");
    }

    #[test]
    fn an_interface_that_is_no_tap_is_refused() {
        assert!(check_tap("lo").expect_err("loopback").message().contains("not a TAP"));
        assert!(check_tap("culm-no-such").expect_err("missing").to_string().contains("ip tuntap add"));
    }
}
