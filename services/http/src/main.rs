//! HTTP server with the system's status page: the component.
//!
//! A turn takes what was received, gives each connection that has news its turn in the order in
//! which the news came, and sends what they have to say, all at once. Files go from the image
//! straight into the send buffers.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests;

use core::fmt;
use culm::connection::FileClient;
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, Progress, run_rounds};
use culm_clock::Clock;
use culm_guard::Guard;
use culm_http::site::File;
use culm_http::{Caching, Renderer, Server, Site, Timeouts, limits};
use culm_net::stack::{Event, Settings, Stack};
use http::crashes::Crashes;
use http::network::Network;
use http::status::{self, Source, Status};
use http::store::Store;

culm::component!(Http);

/// Turns that connections are given before what they sent goes out.
const TURNS: usize = 64;

/// Rounds of one turn: whatever the network has to offer, others of this priority get their turn,
/// and what is counted is shown.
const ROUNDS: u32 = 64;

/// How long a client may be silent after it has acknowledged its last response, until it ends the
/// connection too, where the stack is not left to wait for that.
const LINGER: time::Duration = time::Duration::from_secs(5);

/// How long a client may go on sending then.
const FAREWELL: time::Duration = time::Duration::from_secs(30);

/// How long one rendering of the system's state serves.
const FRESH: time::Duration = time::Duration::from_millis(200);

/// How long an open file serves all who ask for its path.
const OPEN_FILE: time::Duration = time::Duration::from_secs(1);

/// How often connections are looked through for those that took too long, and files for those that
/// are open for nobody.
const PATROL: time::Duration = OPEN_FILE;

/// The server with what it serves.
type WebServer = Server<Observer, Option<Store>>;

struct Http {
    stack: Stack,
    clock: Option<Clock>,
    /// When the next second begins, if the time of day is known.
    next_second: Instant,
    server: WebServer,
    /// The crash reports, if somebody keeps them and the status page may show them.
    crashes: Option<Crashes>,
    /// When to look through the connections and open files again.
    patrol: Instant,
    patrol_ticks: u64,
}

impl Component for Http {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        // Before anything is made of random numbers; what fails is said in the log.
        if let Some(entropy) = &connections.entropy {
            let _ = culm_entropy::take_seed(entropy);
        }
        let site = site(&config);
        let crashes = connections.crashes.filter(|_| culm::observation().is_some());
        let crashes = crashes.map(|connection| Crashes::connect(&connection));
        let observer = Observer(culm::observation().map(|observation| {
            let mut source = Source::new(&observation);
            crashes.iter().for_each(|crashes| source.show(crashes.shown()));
            Status::new(source)
        }));
        let settings = settings(&config);
        let slots = settings.connections;
        let mut stack = Stack::new(culm_net::Client::new(connections.net), settings);
        stack.listen_for_requests(config.port);
        let files = connections.files.map(|connection| store(&config, &connection));
        let packed = config.site.as_ref().map_or(0, |site| site.len());
        match (packed, files.is_some()) {
            (0, true) => culm::info!("serves the files of a disk on port {}", config.port),
            (_, true) => culm::info!("serves {packed} files and those of a disk on port {}", config.port),
            (_, false) => culm::info!("serves {packed} files on port {}", config.port),
        }
        let mut http = Self {
            stack,
            clock: connections.clock.map(Clock::new),
            next_second: Instant::default(),
            server: Server::with_files(site, observer, files, slots, timeouts(&config)),
            crashes,
            patrol: Instant::default(),
            patrol_ticks: time::ticks(PATROL),
        };
        if http.server.shortage() > 0 {
            let kib = http.server.shortage().div_ceil(1024);
            culm::warn!("the heap is {kib} KiB short of what the status page needs while several clients ask for it");
        }
        http.turn();
        http
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl Http {
    fn turn(&mut self) {
        run_rounds(ROUNDS, || {
            self.stack.receive(&mut |_| {});
            let now = time::now();
            tell_time(self.clock.as_ref(), &mut self.next_second, &mut self.server, now);
            if self.server.files().is_some() {
                begin_files(&mut self.server, now);
            }
            while let Some(event) = self.stack.event() {
                match event {
                    Event::Opened { slot, .. } => self.server.opened(slot, now.ticks()),
                    Event::Ready { slot } => self.server.ready(slot),
                }
            }
            let more = self.server.run(&mut Network(&mut self.stack), now.ticks(), TURNS);
            if now >= self.patrol {
                self.server.expire(&mut Network(&mut self.stack), now.ticks());
                if let Some(files) = self.server.files() {
                    files.patrol();
                }
                self.patrol = Instant::from_ticks(now.ticks() + self.patrol_ticks);
            }
            let asleep = match self.server.files() {
                Some(files) => files.end_round(),
                None => Progress::Asleep,
            };
            let asleep = match &mut self.crashes {
                Some(crashes) => asleep & look_at_crashes(crashes, &mut self.server, now),
                None => asleep,
            };
            self.stack.end_round() & Progress::more_if(more) & asleep
        });
        if let Some(crashes) = &self.crashes {
            culm::wake_at(crashes.wake());
        }
        if self.server.open() > 0 || self.server.files().as_ref().is_some_and(Store::has_open_files) {
            culm::wake_at(self.patrol);
        }
        self.count();
    }

    fn count(&self) {
        let tally = self.server.tally();
        let network = self.stack.counts();
        counters::REQUESTS.set(tally.requests);
        counters::ERRORS.set(tally.requests_refused);
        counters::BYTES.set(tally.bytes);
        counters::CONNECTIONS.set(tally.connections);
        counters::OPEN.set(self.server.open() as u64);
        counters::TIMEOUTS.set(tally.timeouts);
        counters::EVICTED.set(network.evicted);
        counters::RESETS.set(network.resets);
        counters::ATTEMPTS.set(network.attempts);
        counters::ATTEMPTS_REFUSED.set(network.attempts_refused);
        counters::PACKETS.set(network.received);
        counters::DROPS.set(network.broken);
    }
}

/// Takes what the files have answered, and gives the connections that it is for a turn.
#[inline(never)]
fn begin_files(server: &mut WebServer, now: Instant) {
    let Some(files) = server.files() else { return };
    files.begin_round(now.ticks());
    while let Some(slot) = server.files().as_mut().and_then(Store::news) {
        server.ready(slot);
    }
}

/// Takes a round of the crash reports, and has those that were found shown.
#[inline(never)]
fn look_at_crashes(crashes: &mut Crashes, server: &mut WebServer, now: Instant) -> Progress {
    if crashes.begin_round(now)
        && let Some(status) = &mut server.renderer().0
    {
        status.show(crashes.shown());
    }
    crashes.end_round()
}

/// Tells the server each new second, if anybody knows the time of day.
#[inline(always)]
fn tell_time(clock: Option<&Clock>, next: &mut Instant, server: &mut WebServer, now: Instant) {
    if let Some(clock) = clock.filter(|_| now >= *next) {
        tell_second(clock, next, server, now);
    }
}

#[cold]
fn tell_second(clock: &Clock, next: &mut Instant, server: &mut WebServer, now: Instant) {
    let Some(time) = clock.at(now) else { return };
    server.set_date(format_args!("{}", time.http()));
    if let Some(files) = server.files() {
        files.set_today(time.since_1970().as_secs());
    }
    *next = now + (Duration::from_secs(1) - Duration::from_nanos(time.since_1970().subsec_nanos().into()));
}

/// The files, and the status pages where this component may see the system.
fn site(config: &Config) -> Site {
    let files = config.site.iter().flat_map(|site| site.files());
    let files = files.map(|file| File { path: file.path, content: file.content, gzip: file.gzip });
    let caching = Caching::new(config.cache.iter());
    // Which files a file service will have is not known.
    let is_whole = config.site.is_some();
    for pattern in caching.unused(files.clone().map(|file| file.path)).filter(|_| is_whole) {
        culm::warn!("cache: no file of the site matches \"{pattern}\"");
    }
    if culm::observation().is_some() {
        Site::new(files, &caching, &status::files(culm::observe::picture()), &status::DOCUMENTS)
    } else {
        Site::new(files, &caching, &[], &[])
    }
}

/// The files of a file service, and who may change them.
fn store(config: &Config, connection: &FileClient) -> Store {
    // The tool has checked that it is one.
    let hash = config.upload_token_sha256.and_then(culm_guard::read_hash);
    // Without a source of random numbers, others can tell which hosts share a group.
    let seed = culm::random::words().unwrap_or_default();
    let uploads = hash.map(|hash| (Guard::new(hash, time::ticks(culm_guard::PAUSE), seed), config.upload_limit));
    let caching = Caching::new(config.cache.iter());
    Store::connect(connection, config.connections as usize, uploads, caching, time::ticks(OPEN_FILE))
}

fn settings(config: &Config) -> Settings {
    let settings = Settings {
        ipv6: config.ipv6,
        connections: config.connections as usize,
        receive_buffer: limits::HEAD,
        send_buffer: config.send_buffer as usize,
        release_timeout: config.response_timeout,
        ..Settings::default()
    };
    let (address, gateway) = (config.address.unwrap_or(""), config.gateway.unwrap_or(""));
    settings.with_addresses(address, gateway).unwrap_or_else(|error| {
        culm::error!("address \"{address}\", gateway \"{gateway}\": {error}; DHCP is used instead");
        settings
    })
}

fn timeouts(config: &Config) -> Timeouts {
    Timeouts {
        idle: time::ticks(config.idle_timeout),
        request: time::ticks(config.request_timeout),
        response: time::ticks(config.response_timeout),
        linger: time::ticks(LINGER),
        farewell: time::ticks(FAREWELL),
        fresh: time::ticks(FRESH),
    }
}

/// Renders the status documents; without the right to observe there are none to ask for.
struct Observer(Option<Status>);

impl Renderer for Observer {
    fn render(&mut self, document: u16, now: u64, into: &mut dyn fmt::Write) -> fmt::Result {
        let Some(status) = &mut self.0 else { return Ok(()) };
        // Of interest to whoever asks, and nobody else.
        #[cfg(target_os = "none")]
        counters::HEAP_USED.set(culm::heap::used());
        status.render(document, now, into)
    }

    fn longest(&self) -> usize {
        self.0.as_ref().map_or(0, Renderer::longest)
    }
}
