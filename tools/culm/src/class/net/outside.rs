//! The network outside an emulated machine: QEMU's own, with ports that lead into it, or an
//! interface of the host.

use super::forward::{self, Forward, Protocol};
use super::options::NAME;
use crate::failure::Failure;
use crate::plan::{Device, Plan};
use std::net::Ipv4Addr;
use std::path::Path;

/// Options of `culm run`.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Options {
    /// Lead a port of this machine to one of the guest: HOST:GUEST, udp:HOST:GUEST, or
    /// HOST:ADDRESS:GUEST where there are several network clients. May be given several times;
    /// without it, each client's `port` is forwarded (80 from 8080, or the next that is free)
    #[arg(long, value_name = "HOST:GUEST")]
    forward: Vec<Forward>,
    /// Connect the first network card to this TAP interface, in place of QEMU's own network. Who
    /// has no `address` in the configuration needs a DHCP server there
    #[arg(long, value_name = "NAME", conflicts_with = "forward")]
    tap: Option<String>,
}

impl Options {
    /// Refuses what could not be connected.
    pub fn check(&self, plan: &Plan, debugger: Option<u16>) -> Result<(), Failure> {
        let option = if self.tap.is_some() { "--tap" } else { "--forward" };
        if (self.tap.is_some() || !self.forward.is_empty()) && !plan.devices.iter().any(is_card) {
            return Err(Failure::new(format!(
                "the system `{}` has no network card that anything could lead to",
                plan.name
            ))
            .help(format!("leave out {option}, or add a `[device.NAME]` of the class `{NAME}` to the system")));
        }
        if let Some(name) = &self.tap {
            check_tap(name)?;
        }
        forward::check(&self.forward, debugger)
    }

    /// The network of this system.
    pub fn network(&self, plan: &Plan, debugger: Option<u16>) -> Network {
        match &self.tap {
            Some(name) => Network::Tap(name.clone()),
            None if self.forward.is_empty() => Network::user(forward::defaults(plan, debugger)),
            None => {
                let known: Vec<u16> = forward::ports(plan).into_keys().collect();
                let is_unknown = |port: &u16| !known.contains(port);
                let guests = self.forward.iter().map(|forward| forward.guest).filter(is_unknown);
                Network::User { forwards: self.forward.clone(), unasked: guests.collect() }
            }
        }
    }
}

/// How the network cards are connected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// QEMU's own network.
    User {
        /// Ports that lead to the first card.
        forwards: Vec<Forward>,
        /// Ports of the guest that no component's configuration names, among those.
        unasked: Vec<u16>,
    },
    /// The first card is on this TAP interface of the host.
    Tap(String),
}

impl Network {
    /// QEMU's own network with these ports, to which somebody listens.
    fn user(forwards: Vec<Forward>) -> Self {
        Self::User { forwards, unasked: Vec::new() }
    }

    /// QEMU's arguments for the network of the device at `index`; none where it is no network card.
    pub fn arguments(&self, devices: &[Device], index: usize) -> Vec<String> {
        let device = &devices[index];
        if !is_card(device) {
            return Vec::new();
        }
        let name = &device.board.name;
        let first = !devices[..index].iter().any(is_card);
        let network = match self {
            Self::Tap(interface) if first => format!("tap,id={name},ifname={interface},script=no,downscript=no"),
            Self::User { forwards, .. } if first => {
                let forwards: String = forwards.iter().map(|forward| format!(",{}", forward.qemu())).collect();
                format!("user,id={name}{forwards}")
            }
            _ => format!("user,id={name}"),
        };
        vec!["-netdev".to_string(), network]
    }

    /// Which ports lead where.
    pub fn announcements(&self) -> Vec<String> {
        let forwards = self.forwards();
        // The same by the other protocol is in its line.
        let twin = |forward: &Forward, protocol| forwards.contains(&Forward { protocol, ..*forward });
        let is_told = |forward: &&Forward| forward.protocol == Protocol::Udp && twin(forward, Protocol::Tcp);
        let line = |forward: &Forward| {
            let Forward { protocol, host, address, guest } = forward;
            let is_shared = forwards.iter().any(|other| other.guest == *guest && other.address != *address);
            let place = if is_shared { format!("{guest} at {address}") } else { guest.to_string() };
            let both = if twin(forward, Protocol::Udp) && *protocol == Protocol::Tcp { " and udp" } else { "" };
            let listener = match self.is_unasked(*guest) {
                true => ", a port that no component's configuration names: does anybody listen there?",
                false => "",
            };
            format!("{protocol}{both} port {host} leads to the guest's {place}{listener}")
        };
        forwards.iter().filter(|forward| !is_told(forward)).map(line).collect()
    }

    fn is_unasked(&self, port: u16) -> bool {
        matches!(self, Self::User { unasked, .. } if unasked.contains(&port))
    }

    /// The port of this machine that leads to a TCP port of the guest, if that is clear.
    pub fn leads_to(&self, port: u16, address: Option<Ipv4Addr>) -> Option<u16> {
        let leads_here = |forward: &&Forward| forward.protocol == Protocol::Tcp && forward.guest == port;
        let mut candidates = self.forwards().iter().filter(leads_here);
        match address {
            Some(address) => candidates.find(|forward| forward.address == address).map(|forward| forward.host),
            // With several it depends on its address.
            None => candidates.next().filter(|_| candidates.next().is_none()).map(|forward| forward.host),
        }
    }

    fn forwards(&self) -> &[Forward] {
        match self {
            Self::User { forwards, .. } => forwards,
            Self::Tap(_) => &[],
        }
    }
}

fn is_card(device: &Device) -> bool {
    device.board.classes.iter().any(|class| class.name() == NAME)
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

    #[test]
    fn the_first_card_is_on_the_network_that_was_asked_for() {
        let mut plan = with_card();
        plan.devices.push(plan.devices[0].clone());
        let user = Network::user(vec!["8080:80".parse().expect("a forward")]);
        let line = |network: &Network, index| network.arguments(&plan.devices, index).join(" ");
        assert_eq!(line(&user, 0), "-netdev user,id=nic0,hostfwd=tcp:127.0.0.1:8080-10.0.2.15:80");
        assert_eq!(line(&user, 1), "-netdev user,id=nic0");
        let tap = Network::Tap("tap7".into());
        assert_eq!(line(&tap, 0), "-netdev tap,id=nic0,ifname=tap7,script=no,downscript=no");
    }

    #[test]
    fn a_port_is_found_where_it_leads_for_certain() {
        let forwards = ["8080:80", "8081:10.0.2.16:80", "7000:7"];
        let forwards = forwards.iter().map(|text| text.parse().expect("a forward")).collect();
        let network = Network::user(forwards);
        assert_eq!(network.leads_to(7, None), Some(7000));
        assert_eq!(network.leads_to(80, None), None);
        assert_eq!(network.leads_to(80, Some(Ipv4Addr::new(10, 0, 2, 16))), Some(8081));
    }

    #[test]
    fn a_port_by_both_protocols_is_told_of_once() {
        let forwards = ["8080:80", "udp:8080:80", "udp:7007:7"].iter().map(|text| text.parse().expect("a forward"));
        let said = Network::user(forwards.collect()).announcements();
        assert_eq!(said, ["tcp and udp port 8080 leads to the guest's 80", "udp port 7007 leads to the guest's 7"]);
    }

    #[test]
    fn a_port_to_which_nobody_listens_is_told_of() {
        let options = |forward: &str| Options { forward: vec![forward.parse().expect("a forward")], tap: None };
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
