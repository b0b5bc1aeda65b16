//! Culm's systems: those in `bench/systems`, and variations of one that are written here, so that
//! rows which differ in a number do not need as many files.

mod router;

pub use router::Router;

use crate::machine::MAC_BESIDE;
use crate::network::{GUEST, GUEST_BESIDE, MAC, NETWORK, NETWORK_BESIDE};
use anyhow::{Context, Result};
use culm_bench_guest::disk::BLOCK;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

/// When a system is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// When its echo server answers.
    Echo,
    /// When its web server answers.
    Web,
    /// A moment after it was started.
    Soon,
}

/// A system to build and boot.
#[derive(Clone, Debug)]
pub struct System {
    /// Its name.
    pub name: String,
    /// When it is up.
    pub ready: Ready,
    /// Its description, where it has no file in `bench/systems`.
    text: Option<String>,
}

impl System {
    /// `bench/systems/NAME.toml`.
    pub fn file(name: &str) -> System {
        System { name: name.to_owned(), ready: Ready::Soon, text: None }
    }

    /// `bench/systems/NAME.toml`, which has an echo server.
    pub fn echo_file(name: &str) -> System {
        System { ready: Ready::Echo, ..System::file(name) }
    }

    /// `bench/systems/NAME.toml`, which has a web server.
    pub fn web_file(name: &str) -> System {
        System { ready: Ready::Web, ..System::file(name) }
    }

    /// Where the tool finds its description.
    pub fn description(&self, root: &Path) -> Result<PathBuf> {
        let Some(text) = &self.text else { return Ok(root.join(format!("bench/systems/{}.toml", self.name))) };
        let folder = root.join("build/bench-systems");
        let path = folder.join(format!("{}.toml", self.name));
        std::fs::create_dir_all(&folder)?;
        if std::fs::read_to_string(&path).ok().as_ref() != Some(text) {
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(path)
    }
}

/// An echo server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// On the TCP/IP stack.
    Stack,
    /// Frame by frame, without one.
    Reflector,
    /// The same, on a card of its own.
    BareReflector,
}

/// The differences of one variation of the echo system.
#[derive(Clone, Debug)]
pub struct Echo {
    /// Echo servers, each a client of the network card with an address of its own.
    pub clients: u8,
    /// Components that received frames go through between copier and client.
    pub through: u8,
    /// Components that have nothing to do with it.
    pub bystanders: u16,
    /// How often each of them wakes up; never without.
    pub tick: Option<&'static str>,
    /// Whether clients have a copier.
    pub copier: bool,
    /// Whether the echo server is one without a stack, which needs no virtualisers either.
    pub server: Server,
    /// Options of the connection to the card besides.
    pub connection: &'static str,
    /// Options of each domain besides.
    pub domain: &'static str,
    /// Options of the card besides.
    pub device: &'static str,
    /// The core of the echo servers and their copiers.
    pub core: u32,
}

impl Default for Echo {
    fn default() -> Echo {
        Echo {
            clients: 1,
            through: 0,
            bystanders: 0,
            tick: None,
            copier: true,
            server: Server::Stack,
            connection: "",
            domain: "",
            device: "",
            core: 0,
        }
    }
}

impl Echo {
    /// The system of this name.
    pub fn system(&self, name: &str) -> System {
        System { name: name.to_owned(), ready: Ready::Echo, text: Some(self.text(name)) }
    }

    /// Options of the card. A client that has it to itself has its address.
    fn card(&self) -> String {
        match self.server {
            Server::BareReflector => format!("bare = true\nmac = \"{}\"\n{}", client_mac(0), self.device),
            _ => self.device.to_string(),
        }
    }

    fn text(&self, name: &str) -> String {
        let mut text = format!(
            "# Written by bench/harness/src/systems.rs.\nname = \"{name}\"\nboard = \"virt\"\n\n\
             [device.nic0]\npriority = 240\n{}\n[device.uart0]\npriority = 60\n",
            self.card()
        );
        for client in 0..self.clients {
            let (address, mac) = (client_address(client), client_mac(client));
            let server = match self.server {
                Server::Stack => format!("udp-echo\"\nconfig = {{ address = \"{address}/24\" }}"),
                _ => format!("reflector\"\nconfig = {{ address = \"{address}\" }}"),
            };
            let through = vec!["\"pass-through\""; self.through.into()].join(", ");
            let _ = write!(
                text,
                "\n[pd.echo{client}]\ncomponent = \"{server}\npriority = 100\ncore = {}\n{}",
                self.core, self.domain
            );
            if self.server == Server::BareReflector {
                text.push_str("card = \"nic0\"\n");
                continue;
            }
            let _ = writeln!(
                text,
                "net = {{ device = \"nic0\", mac = \"{mac}\", copier = {}, through = [{through}]{} }}",
                self.copier, self.connection
            );
        }
        for bystander in 0..self.bystanders {
            let tick = self.tick.map_or(String::new(), |tick| format!("config = {{ period = \"{tick}\" }}\n"));
            let _ = write!(
                text,
                "\n[pd.bystander{bystander}]\ncomponent = \"bystander\"\npriority = 50\nlog = \"off\"\n{tick}"
            );
        }
        text
    }
}

/// A client of a disk.
#[derive(Clone, Debug)]
pub struct DiskClient {
    /// Whether it writes.
    pub writes: bool,
    /// Blocks of a request.
    pub blocks: u32,
    /// Requests that it has under way.
    pub depth: u32,
    /// Requests between two of its marks.
    pub beat: u32,
    /// Keys of its part of the disk, a comma behind each.
    pub part: String,
}

/// Clients of a virtio disk of zeroes, or of that of an image.
pub fn disk_clients(name: &str, image: Option<&Path>, clients: &[DiskClient]) -> System {
    let disk =
        image.map_or("size = \"64MiB\"".to_owned(), |image| format!("image = {:?}", image.display().to_string()));
    let mut text = format!(
        "# Written by bench/harness/src/systems.rs.\nname = \"{name}\"\nboard = \"virt\"\n\n[device.uart0]\npriority = 60\n\n\
         [device.disk0]\npriority = 240\nqueue = 512\n{disk}\n"
    );
    for (number, DiskClient { writes, blocks, depth, beat, part }) in clients.iter().enumerate() {
        let memory = u64::from(blocks * depth) * u64::from(BLOCK);
        let memory = memory.next_multiple_of(4096) >> 10;
        let _ = write!(
            text,
            "\n[pd.client{number}]\ncomponent = \"block-load\"\npriority = 100\n\
             config = {{ number = {number}, writes = {writes}, blocks = {blocks}, depth = {depth}, beat = {beat} }}\n\
             disk = {{ device = \"disk0\", {part}memory = \"{memory}KiB\", queue = 64 }}\n"
        );
    }
    System { name: name.to_owned(), ready: Ready::Soon, text: Some(text) }
}

/// Memory of a guest, in MiB.
pub const GUEST_MEMORY: u32 = 256;

/// The web server beside a guest, on a card of its own and the guest's core: its status page tells
/// why the guest leaves that core.
pub const BESIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 3);

/// A Linux as a guest, with the network card's address and the disk that it has when it is the
/// peer, and this many virtual CPUs, from core 0 on, where everything else is. Its files are where
/// the peer's are, so no file can name them.
pub fn guest(name: &str, cpus: u32, kernel: &Path, initrd: &Path, command_line: &str) -> System {
    let cores: Vec<u32> = (0..cpus).collect();
    let quoted = |path: &Path| format!("{:?}", path.display().to_string());
    let text = format!(
        "# Written by bench/harness/src/systems.rs.\nname = \"{name}\"\nboard = \"virt\"\n\n\
         [device.nic0]\npriority = 240\n\n[device.nic1]\npriority = 240\n\n[device.uart0]\npriority = 60\n\n\
         [device.disk0]\npriority = 240\nsize = \"64MiB\"\nfused = true\n\n\
         [device.rng0]\npriority = 230\n\n\
         [pd.monitor]\ncomponent = \"vmm\"\npriority = 50\nguest = \"linux\"\nconsole = \"uart0\"\nentropy = \"rng0\"\n\
         net = {{ device = \"nic0\", mac = \"{}\", copier = false }}\n\
         disk = {{ device = \"disk0\", memory = \"2MiB\" }}\n\n\
         [pd.http]\ncomponent = \"http\"\npriority = 45\nobserve = true\n\
         config = {{ address = \"{BESIDE}/24\", site = \"../bench-site-beside\" }}\n\
         net = \"nic1\"\n\n\
         [guest.linux]\nkernel = {}\ninitrd = {}\nmemory = \"{GUEST_MEMORY}MiB\"\npriority = 40\n\
         cores = {cores:?}\ncommand_line = {command_line:?}\n",
        MAC,
        quoted(kernel),
        quoted(initrd),
    );
    System { name: name.to_owned(), ready: Ready::Soon, text: Some(text) }
}

/// Several small Linuxes as guests, each with a core, a card and an address of its own
/// ([`client_address`]). Core 0 is the first one's where no card needs it.
#[derive(Clone, Copy, Debug)]
pub struct Guests<'a> {
    /// The system's name.
    pub name: &'a str,
    /// How many there are.
    pub count: u8,
    /// What joins them.
    pub joint: Joint,
    /// What the last one is told on its command line besides.
    pub last: &'a str,
}

/// What joins guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joint {
    /// They share the network card.
    Card,
    /// A switch without a card.
    Switch,
    /// Nothing stands between the two: they are the ends of a link.
    Link,
    /// Each of the two has a card of its own, and what joins those is the host's affair.
    Cards,
    /// The same, and a link besides, over which each forwards from its card to the other's.
    Path,
}

/// What a guest of several is joined by.
struct Joined {
    /// The keys of its monitor that connect it.
    connections: String,
    /// Words of its command line.
    words: String,
}

impl Guests<'_> {
    /// Memory of each, in MiB.
    const MEMORY: u32 = 80;

    /// The core of the first one: that of the card has no guest, so that each further guest is as
    /// far from it as the first.
    fn first_core(&self) -> u32 {
        u32::from(matches!(self.joint, Joint::Card | Joint::Cards | Joint::Path))
    }

    /// How the guest of this number is joined to the others.
    fn joined(&self, guest: u8) -> Joined {
        // The cards of the two that have one each are those of a router's two sides.
        let side = |card, mac| format!("net = {{ device = \"{card}\", mac = \"{mac}\", copier = false }}\n");
        let sides = [(GUEST, side("nic0", MAC)), (GUEST_BESIDE, side("nic1", MAC_BESIDE))];
        let net = |provider| format!("net = {{ device = \"{provider}\", mac = \"{}\" }}\n", client_mac(guest));
        // A link is a key of the second one's alone.
        let (connections, address) = match (self.joint, guest) {
            (Joint::Card, _) => (net("nic0"), client_address(guest)),
            (Joint::Switch, _) => (net("switch"), client_address(guest)),
            (Joint::Link, 0) => (String::new(), client_address(guest)),
            (Joint::Link, _) => (net("monitor0"), client_address(guest)),
            (Joint::Cards, _) => (sides[usize::from(guest)].1.clone(), client_address(guest)),
            (Joint::Path, 0) => (sides[0].1.clone(), sides[0].0),
            (Joint::Path, _) => (format!("{}net2 = \"monitor0\"\n", sides[1].1), sides[1].0),
        };
        let mut words = format!("address={address}");
        if self.joint == Joint::Path {
            let [own, other] = if guest == 0 { [1, 2] } else { [2, 1] };
            let behind = if guest == 0 { NETWORK_BESIDE } else { NETWORK };
            let _ = write!(words, " second=192.168.7.{own} behind={behind}/24 via=192.168.7.{other}");
        }
        Joined { connections, words }
    }

    /// Cores that the machine needs.
    pub fn cores(&self) -> u32 {
        self.first_core() + u32::from(self.count)
    }

    /// The system, with this kernel, initial RAM disk and command line.
    pub fn system(&self, kernel: &Path, initrd: &Path, command_line: &str) -> System {
        let text = self.text(kernel, initrd, command_line);
        System { name: self.name.to_owned(), ready: Ready::Soon, text: Some(text) }
    }

    fn text(&self, kernel: &Path, initrd: &Path, command_line: &str) -> String {
        let mut text = format!(
            "# Written by bench/harness/src/systems.rs.\nname = \"{}\"\nboard = \"virt\"\n\n\
             [device.uart0]\npriority = 60\n\n[device.rng0]\npriority = 230\n\n",
            self.name
        );
        text.push_str(match self.joint {
            Joint::Card => "[device.nic0]\npriority = 240\n",
            Joint::Switch => "[pd.switch]\ncomponent = \"switch\"\npriority = 150\n",
            Joint::Link => "",
            Joint::Cards | Joint::Path => "[device.nic0]\npriority = 240\n\n[device.nic1]\npriority = 240\n",
        });
        for guest in 0..self.count {
            let core = self.first_core() + u32::from(guest);
            let last = if guest + 1 == self.count { self.last } else { "" };
            let Joined { connections, words } = self.joined(guest);
            let line = format!("{command_line} {words} {last}");
            let _ = write!(
                text,
                "\n[pd.monitor{guest}]\ncomponent = \"vmm\"\npriority = 50\ncore = {core}\nguest = \"linux{guest}\"\n\
                 console = \"uart0\"\nentropy = \"rng0\"\n{connections}\n\
                 [guest.linux{guest}]\nkernel = {:?}\ninitrd = {:?}\nmemory = \"{}MiB\"\npriority = 40\n\
                 command_line = {:?}\n",
                kernel.display().to_string(),
                initrd.display().to_string(),
                Self::MEMORY,
                line.trim(),
            );
        }
        text
    }
}

/// Loops of `rounds` rounds each, over instructions alone or over memory too.
pub fn loops(name: &str, rounds: u64, memory: bool) -> System {
    let mut text = format!(
        "# Written by bench/harness/src/systems.rs.\nname = \"{name}\"\nboard = \"virt\"\n\n[device.uart0]\npriority = 60\n\n\
         [pd.loops]\ncomponent = \"loop-bench\"\npriority = 100\nconfig = {{ rounds = {rounds} }}\n"
    );
    for kind in ["cached", "uncached"].iter().filter(|_| memory) {
        let _ = write!(
            text,
            "\n[[region]]\nname = \"{kind}\"\nsize = \"4MiB\"\nkind = \"{kind}\"\nmap = {{ \"loops.{kind}\" = \"rw\" }}\n"
        );
    }
    System { name: name.to_owned(), ready: Ready::Soon, text: Some(text) }
}

/// The address of one of several echo servers; the first has the guest's.
pub fn client_address(client: u8) -> Ipv4Addr {
    let [a, b, c, d] = GUEST.octets();
    Ipv4Addr::new(a, b, c, d + client)
}

/// The hardware address of one of several echo servers; the first has the guest's.
pub fn client_mac(client: u8) -> String {
    let (start, last) = MAC.rsplit_once(':').unwrap_or(("52:54:00:12:34", "56"));
    let last = u8::from_str_radix(last, 16).unwrap_or(0).wrapping_add(client);
    format!("{start}:{last:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_addresses_of_their_own() {
        assert_eq!(client_address(0), GUEST);
        assert_eq!(client_mac(0), MAC);
        assert_eq!(
            (client_address(15).to_string(), client_mac(15)),
            ("198.18.0.17".into(), "52:54:00:12:34:65".into())
        );
    }

    #[test]
    fn variations_are_descriptions_in_toml() {
        let echo = Echo { clients: 2, through: 3, bystanders: 2, tick: Some("10ms"), ..Echo::default() };
        let table: toml::Table = toml::from_str(&echo.text("x")).unwrap();
        let domains = table["pd"].as_table().unwrap();
        assert_eq!(domains.len(), 4);
        assert_eq!(domains["echo1"]["net"]["through"].as_array().unwrap().len(), 3);
        let memory: toml::Table = toml::from_str(&loops("y", 7, true).text.unwrap()).unwrap();
        let part = "partition = 3, read_only = true, ".to_owned();
        let client = DiskClient { writes: false, blocks: 8, depth: 2, beat: 5, part };
        let disk: toml::Table = toml::from_str(&disk_clients("z", None, &[client]).text.unwrap()).unwrap();
        assert_eq!(disk["pd"]["client0"]["disk"]["memory"].as_str(), Some("8KiB"));
        let guest = guest("g", 2, Path::new("/a/Image"), Path::new("/b.cpio"), "quiet culm.work");
        let guest: toml::Table = toml::from_str(&guest.text.unwrap()).unwrap();
        assert_eq!(guest["guest"]["linux"]["initrd"].as_str(), Some("/b.cpio"));
        assert_eq!(guest["guest"]["linux"]["cores"].as_array().unwrap().len(), 2);
        let guests = Guests { name: "p", count: 2, joint: Joint::Switch, last: "ask=198.18.0.2" };
        let pair: toml::Table = toml::from_str(&guests.text(Path::new("/a"), Path::new("/b"), "quiet")).unwrap();
        assert_eq!((guests.cores(), pair["pd"]["monitor1"]["core"].as_integer()), (2, Some(1)));
        let line = |guest: &str| pair["guest"][guest]["command_line"].as_str().map(str::to_owned);
        assert_eq!(line("linux0").as_deref(), Some("quiet address=198.18.0.2"));
        assert_eq!(line("linux1").as_deref(), Some("quiet address=198.18.0.3 ask=198.18.0.2"));
        assert_eq!(Guests { joint: Joint::Card, ..guests }.cores(), 3);
        let link = Guests { joint: Joint::Link, ..guests };
        let link: toml::Table = toml::from_str(&link.text(Path::new("/a"), Path::new("/b"), "quiet")).unwrap();
        assert_eq!(link["pd"]["monitor1"]["net"]["device"].as_str(), Some("monitor0"));
        assert!(link["pd"]["monitor0"].get("net").is_none() && link["pd"].get("switch").is_none());
        let path = Guests { joint: Joint::Path, last: "", ..guests };
        let path: toml::Table = toml::from_str(&path.text(Path::new("/a"), Path::new("/b"), "quiet")).unwrap();
        assert_eq!(path["pd"]["monitor1"]["net"]["device"].as_str(), Some("nic1"));
        assert_eq!(path["pd"]["monitor1"]["net2"].as_str(), Some("monitor0"));
        let line = path["guest"]["linux0"]["command_line"].as_str();
        let expected = "quiet address=198.18.0.2 second=192.168.7.1 behind=198.18.1.0/24 via=192.168.7.2";
        assert_eq!(line, Some(expected));
        assert_eq!(memory["region"].as_array().unwrap().len(), 2);
        assert_eq!(domains["bystander1"]["config"]["period"].as_str(), Some("10ms"));
    }
}
