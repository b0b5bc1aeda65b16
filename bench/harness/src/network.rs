//! The wire between load generator and guest: a TAP device in a network namespace of its own, the
//! same with faults between it and the guest, or user networking.
//!
//! The namespace has no name and the TAP device is not persistent: both vanish with the process,
//! however it ends. Culm and Linux have the same addresses.

use anyhow::{Context, Result, bail};
use culm_wire::{Faults, Namespace, Relay, ip, link_local};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV6, TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

pub use culm_wire::{GUEST, HOST, MAC};

/// The way to the guest.
pub const DEVICE: &str = "culm-bench";

/// The way to a second card, for what is beside the one that is measured.
pub const DEVICE_BESIDE: &str = "culm-beside";

/// What joins the two.
const BRIDGE: &str = "culm-joined";

/// The host's address there.
pub const HOST_BESIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);

/// The network of the load and the guest.
pub const NETWORK: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// That of the second card.
pub const NETWORK_BESIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 0);

/// The guest's address there, where it is a router.
pub const GUEST_BESIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);

/// A network of 16 bits behind the far end's address, in which nobody is.
pub const NOWHERE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);

/// The address behind the second card, for a path through the guest, on the network of the first.
pub const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 3);

/// A note on costs, for when there is no TAP device.
pub const USER_NETWORKING_COST: &str = "QEMU's user networking stands in for a TAP device. It answers in QEMU's own thread, so throughput and \
     round trips include its TCP/IP stack, and bulk TCP is limited by it. It offers no offloads and its packets come in smaller \
     batches, so that instructions per operation are more too: by a fifth for UDP echo at window 64";

/// Ports of the guest that a load goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// A UDP port.
    Udp(u16),
    /// A TCP port.
    Tcp(u16),
}

/// A way to the guest.
pub enum Network {
    /// A TAP device in a namespace of its own.
    Tap {
        /// The device.
        tap: OwnedFd,
        /// Another one, to a second card.
        beside: OwnedFd,
        /// The namespace.
        namespace: Namespace,
    },
    /// A TAP device in a namespace of its own, and a wire with faults from there to the guest.
    Faulty {
        /// QEMU's end of the wire.
        socket: UnixDatagram,
        /// The wire.
        relay: Relay,
        /// The namespace.
        namespace: Namespace,
    },
    /// QEMU's user networking with a local port for each of the guest's.
    User {
        /// Guest's port and local port.
        forwards: Vec<(Port, u16)>,
    },
}

impl Network {
    /// A TAP device where that is possible, else user networking with `ports` forwarded, and why.
    pub fn open(ports: &[Port]) -> Result<(Network, Option<String>)> {
        match Self::tap() {
            Ok(network) => Ok((network, None)),
            Err(error) => Ok((Self::user(ports)?, Some(format!("{error:#}; {USER_NETWORKING_COST}")))),
        }
    }

    /// A TAP device in a new namespace.
    pub fn tap() -> Result<Network> {
        let set_up = || {
            let tap = set_up_tap(libc::IFF_VNET_HDR)?;
            // A load of many connections wants many ports.
            std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535")
                .context("cannot widen the range of ports")?;
            let beside = open_tap(DEVICE_BESIDE, libc::IFF_VNET_HDR)
                .context("no permission for a second TAP device (/dev/net/tun)")?;
            ip(&format!("addr add {HOST_BESIDE}/24 dev {DEVICE_BESIDE}"))?;
            ip(&format!("link set {DEVICE_BESIDE} up"))?;
            Ok((tap, beside))
        };
        let (namespace, (tap, beside)) = Namespace::new(set_up)?;
        Ok(Network::Tap { tap, beside, namespace })
    }

    /// A TAP device in a new namespace, and a wire from there to the guest that has no fault yet.
    /// Frames are passed on by a thread on `processor`.
    pub fn faulty(processor: Option<usize>) -> Result<Network> {
        let set_up = || {
            // So many frames wait for QEMU at most; sockets take the bound when they are made.
            std::fs::write("/proc/sys/net/unix/max_dgram_qlen", "4096").context("cannot lengthen a queue")?;
            Ok((set_up_tap(0)?, UnixDatagram::pair()?))
        };
        let (namespace, (tap, (socket, other))) = Namespace::new(set_up)?;
        let relay = Relay::start(tap, other, move || crate::spawn::pin(processor));
        Ok(Network::Faulty { socket, relay, namespace })
    }

    /// Sets what a wire with faults does from now on.
    ///
    /// # Errors
    /// If this is none.
    pub fn set_faults(&self, faults: Faults) -> Result<()> {
        let Network::Faulty { relay, .. } = self else { bail!("this wire has no faults") };
        relay.set(faults);
        Ok(())
    }

    /// User networking, with a free local port for each of `ports`.
    pub fn user(ports: &[Port]) -> Result<Network> {
        let mut forwards = Vec::new();
        for port in ports {
            let local = match port {
                Port::Udp(_) => UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port(),
                Port::Tcp(_) => TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
            };
            forwards.push((*port, local));
        }
        Ok(Network::User { forwards })
    }

    /// Moves the way to the second card into a namespace of its own: whoever wants to get there
    /// from here has to go through the guest. Returns it, and the address that is there then:
    /// [`FAR`] on this network where the guest joins both to one, else one of another network,
    /// which the guest routes to.
    pub fn far(&self, is_routed: bool) -> Result<(Namespace, Ipv4Addr)> {
        let (far, ()) = Namespace::new(|| Ok(()))?;
        self.within(|| {
            ip(&format!("link set {DEVICE_BESIDE} netns {}", far.path()))?;
            if is_routed {
                ip(&format!("route add {NETWORK_BESIDE}/24 via {GUEST}"))?;
                ip(&format!("route add {NOWHERE}/16 via {GUEST}"))?;
            }
            Ok(())
        })?;
        let address = if is_routed { HOST_BESIDE } else { FAR };
        far.within(|| {
            // What is for nobody here ends here.
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "0").context("cannot forbid forwarding")?;
            ip(&format!("addr add {address}/24 dev {DEVICE_BESIDE}"))?;
            ip(&format!("link set {DEVICE_BESIDE} up"))?;
            if is_routed {
                ip(&format!("route add default via {GUEST_BESIDE}"))?;
            }
            Ok(())
        })?;
        Ok((far, address))
    }

    /// Joins the ways to both cards by a bridge of the host's.
    pub fn join(&self) -> Result<()> {
        self.within(|| {
            ip(&format!("link add {BRIDGE} type bridge forward_delay 0"))?;
            ip(&format!("link set {DEVICE} master {BRIDGE}"))?;
            ip(&format!("link set {DEVICE_BESIDE} master {BRIDGE}"))?;
            ip(&format!("link set {BRIDGE} up"))
        })
    }

    /// QEMU's `-netdev` option for a device called `name`.
    pub fn option(&self, name: &str) -> String {
        match self {
            Network::Tap { tap, .. } => format!("tap,id={name},fd={}", tap.as_raw_fd()),
            Network::Faulty { socket, .. } => {
                format!("dgram,id={name},local.type=fd,local.str={}", socket.as_raw_fd())
            }
            Network::User { forwards } => {
                let mut option = format!("user,id={name},net=198.18.0.0/24,host={HOST}");
                for (port, local) in forwards {
                    let (protocol, port) = match port {
                        Port::Udp(port) => ("udp", port),
                        Port::Tcp(port) => ("tcp", port),
                    };
                    option += &format!(",hostfwd={protocol}:127.0.0.1:{local}-{GUEST}:{port}");
                }
                option
            }
        }
    }

    /// QEMU's `-netdev` option for the second card, called `name`.
    pub fn option_beside(&self, name: &str) -> String {
        match self {
            Network::Tap { beside, .. } => format!("tap,id={name},fd={}", beside.as_raw_fd()),
            Network::Faulty { .. } | Network::User { .. } => {
                format!("user,id={name},net={HOST_BESIDE}/24,host={HOST_BESIDE}")
            }
        }
    }

    /// The file descriptors that QEMU must inherit.
    pub fn inherited(&self) -> [Option<RawFd>; 2] {
        match self {
            Network::Tap { tap, beside, .. } => [tap, beside].map(|file| Some(file.as_raw_fd())),
            Network::Faulty { socket, .. } => [Some(socket.as_raw_fd()), None],
            Network::User { .. } => [None; 2],
        }
    }

    /// Whether packets take the direct way.
    pub fn is_tap(&self) -> bool {
        matches!(self, Network::Tap { .. })
    }

    /// Where a port of the guest is reached.
    pub fn address(&self, port: Port) -> Result<SocketAddr> {
        match self {
            Network::Tap { .. } | Network::Faulty { .. } => {
                let (Port::Udp(number) | Port::Tcp(number)) = port;
                Ok((GUEST, number).into())
            }
            Network::User { forwards } => {
                let local = forwards.iter().find(|(forwarded, _)| *forwarded == port);
                let (_, local) = local.with_context(|| format!("{port:?} of the guest is not forwarded"))?;
                Ok((Ipv4Addr::LOCALHOST, *local).into())
            }
        }
    }

    /// Returns where a TCP port of the guest is reached over IPv6: at its link-local address. There
    /// is nothing where packets do not take the direct way.
    pub fn link_local(&self, port: u16) -> Result<Option<SocketAddr>> {
        if !self.is_tap() {
            return Ok(None);
        }
        let scope = self.within(|| {
            let name = std::ffi::CString::new(DEVICE)?;
            // SAFETY: the name ends in zero, and is read during the call alone.
            match unsafe { libc::if_nametoindex(name.as_ptr()) } {
                0 => Err(std::io::Error::last_os_error()).with_context(|| format!("no device {DEVICE}")),
                index => Ok(index),
            }
        })?;
        let octets = MAC.split(':').map(|octet| u8::from_str_radix(octet, 16)).collect::<Result<Vec<_>, _>>()?;
        let Ok(mac) = octets.try_into() else { bail!("{MAC} is no hardware address") };
        Ok(Some(SocketAddrV6::new(link_local(mac), port, 0, scope).into()))
    }

    /// Returns the namespace where the guest is reached.
    ///
    /// # Errors
    /// If it has none of its own.
    pub fn namespace(&self) -> Result<&Namespace> {
        match self {
            Network::Tap { namespace, .. } | Network::Faulty { namespace, .. } => Ok(namespace),
            Network::User { .. } => bail!("user networking has no namespace"),
        }
    }

    /// Runs `work` where the guest is reached: threads and processes that it starts are there too.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        match self {
            Network::Tap { namespace, .. } | Network::Faulty { namespace, .. } => namespace.within(work),
            Network::User { .. } => work(),
        }
    }
}

/// Makes the TAP device of the load, in the namespace of this thread.
fn set_up_tap(header: libc::c_int) -> Result<OwnedFd> {
    let tap = open_tap(DEVICE, header).context("no permission for a TAP device (/dev/net/tun)")?;
    ip(&format!("addr add {HOST}/24 dev {DEVICE}"))?;
    ip(&format!("link set {DEVICE} up"))?;
    // Known from the start, so that the first packet is no question for the guest's address.
    ip(&format!("neigh add {GUEST} lladdr {MAC} dev {DEVICE}"))?;
    Ok(tap)
}

/// A TAP device. With `IFF_VNET_HDR` it passes virtio's header through, so that offloads work as
/// with QEMU's own TAP devices; with 0 its frames are what a wire carries.
fn open_tap(name: &str, header: libc::c_int) -> std::io::Result<OwnedFd> {
    // SAFETY: the path ends in zero; the descriptor is ours alone afterwards.
    let tap = unsafe {
        let file = libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK);
        if file < 0 {
            return Err(std::io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(file)
    };
    // SAFETY: all fields are integers or unions of them, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header) as i16;
    // SAFETY: the kernel reads and writes `request`, which is what this call takes.
    if unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(tap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_networking_forwards_each_port() {
        let network = Network::user(&[Port::Udp(7), Port::Tcp(80)]).unwrap();
        let option = network.option("nic0");
        assert!(option.starts_with("user,id=nic0,") && option.contains(":7") && option.contains("hostfwd=tcp:"));
        assert!(network.address(Port::Tcp(80)).unwrap().ip().is_loopback());
        assert!(network.address(Port::Tcp(81)).is_err());
        assert_eq!(network.within(|| Ok(5)).unwrap(), 5);
    }
}
