//! Shows by HTTP what a router does: its rules with how many packets each has decided on, its
//! flows, and what the switch beside it counts of each port; and takes other rules for it from who
//! has the token.
//!
//! It stands apart from the router, and sees its memory without its help: flows where the router
//! keeps them, rules and counts where it shows them. Whatever is asked here, and by how many, costs
//! the router nothing. Who speaks HTTP to this component could take it over, and gains little
//! before somebody sends rules: they go to the router with the token of their sender, and it takes
//! none without. Afterwards the token may be found in this component's memory.
//!
//! A connection has one request. Its answer fits the connection's send buffer, so that nothing has
//! to be kept for it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod flows;
mod json;
mod proposing;
mod request;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use culm::config::Strings;
use culm::time::{self, Duration};
use culm::{Channels, Component, ROUNDS, Region, random, run_rounds};
use culm_bridge::counts;
use culm_flow::Watch;
use culm_guard::{Guard, TooMany};
use culm_http::request::{Method, Parser, Progress};
use culm_net::Client;
use culm_net::stack::{Event, KeepAlive, Settings, Stack, Stream};
use culm_report::{LONGEST_TOKEN, Verdict, View};
use flows::Flows;
use json::Picture;
use proposing::Proposing;
use request::{Ask, HEAD};

culm::component!(RouterStatus);

/// Connections at a time.
const CONNECTIONS: usize = 6;

/// Bytes of a request at most, its head included, and of an answer.
const RECEIVED: usize = 128 << 10;
const SENT: usize = 384 << 10;

/// Bytes of what is shown at most: the rest of an answer is its head.
const CONTENT: usize = SENT - 1024;

/// Flows whose counts are remembered, 16 bytes each. A router may have more: of those behind, it is
/// not known how much they carry just now.
const MOST_FLOWS: usize = 32_768;

/// Bytes of the heap at least, as the manifest says, and what of them is for rules that are read,
/// answers to them, and the stack of the network's protocols.
const HEAP: usize = 5 << 20;
const OTHERS: usize = 768 << 10;

const _: () = assert!((CONNECTIONS + 1) * (RECEIVED + SENT) + 16 * MOST_FLOWS + OTHERS <= HEAP);

/// How long the router may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Behind the status of each answer.
const FIELDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
                      Content-Security-Policy: default-src 'self'; img-src data:; frame-ancestors 'none'\r\n\
                      Referrer-Policy: no-referrer\r\nConnection: close\r\n";

const TEXT: &str = "text/plain; charset=utf-8";

/// The status, with its field, of who has not sent the token.
const UNAUTHORIZED: &str = "401 Unauthorized\r\nWWW-Authenticate: Bearer";

/// What is known of a connection's request.
#[derive(Default)]
enum Stage {
    /// Its head comes.
    #[default]
    Head,
    HeadOf(Parser),
    /// The rules behind the head of so many bytes come.
    Rules {
        head: usize,
        length: usize,
        token: String,
    },
    /// The router judges them.
    Waits,
    /// It was answered.
    Done,
}

struct RouterStatus {
    stack: Stack,
    view: Option<View<'static>>,
    flows: Option<Flows>,
    ports: Option<counts::View<'static>>,
    proposing: Option<Proposing>,
    guard: Option<Guard>,
    /// Names by which it may be asked.
    names: Strings,
    /// By connection.
    stages: Vec<Stage>,
    received: Vec<u8>,
    out: String,
}

impl Component for RouterStatus {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        if let Some(entropy) = &connections.entropy {
            let _ = culm_entropy::take_seed(entropy);
        }
        let settings =
            Settings { connections: CONNECTIONS, receive_buffer: RECEIVED, send_buffer: SENT, ..Settings::default() };
        let (address, gateway) = (config.address.unwrap_or_default(), config.gateway.unwrap_or_default());
        let settings = settings.with_addresses(address, gateway).unwrap_or_else(|error| {
            culm::error!("address \"{address}\", gateway \"{gateway}\": {error}");
            settings
        });
        let mut stack = Stack::new(Client::new(connections.net), settings);
        stack.listen_for_requests(config.port);
        culm::info!("shows the router on port {}", config.port);
        let words = |region: Region| region.atomics_u64(0, region.len() / 8).unwrap_or_default();
        let view = View::new(words(connections.report));
        if view.is_none() {
            culm::error!("the region `report` is too small for any");
        }
        let flows = connections.flows.map(words);
        let flows = flows.map(|words| Flows::new(Watch::new(words), (words.len() / 24).min(MOST_FLOWS)));
        let ports = connections.port_counts.map(words).map(counts::View::new);
        let hash = config.reload_token_sha256.and_then(culm_guard::read_hash);
        let proposing = connections.proposals.map(words).zip(connections.router);
        let proposing = proposing.and_then(|(words, router)| Proposing::new(words, router));
        if hash.is_some() && proposing.is_none() {
            culm::warn!("a token is set, and no rules can be given: connect `proposals` and `router`");
        }
        let seed = random::words().unwrap_or([time::now().ticks(), 1, 2, 3]);
        let guard = hash.map(|hash| Guard::new(hash, time::ticks(culm_guard::PAUSE), seed));
        let mut this = Self {
            stack,
            view,
            flows,
            ports,
            proposing,
            guard,
            names: config.names,
            stages: (0..CONNECTIONS).map(|_| Stage::Head).collect(),
            received: vec![0; RECEIVED],
            out: String::with_capacity(CONTENT),
        };
        this.turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl RouterStatus {
    fn turn(&mut self) {
        run_rounds(ROUNDS, || {
            self.stack.receive(&mut |_| {});
            while let Some(event) = self.stack.event() {
                let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
                if matches!(event, Event::Opened { .. }) {
                    self.begin(slot);
                }
                self.serve(slot);
            }
            self.tell();
            self.stack.end_round()
        });
        if let Some(until) = self.proposing.as_ref().and_then(Proposing::until) {
            culm::wake_at(until);
        }
    }

    fn begin(&mut self, slot: usize) {
        if let Some(stage) = self.stages.get_mut(slot) {
            *stage = Stage::HeadOf(Parser::default());
        }
        if let Some(proposing) = &mut self.proposing {
            proposing.forget(slot);
        }
        if let Some(mut stream) = self.stack.stream(slot) {
            stream.keep_alive(Some(KeepAlive::USUAL));
        }
    }

    /// Goes on with a connection's request.
    fn serve(&mut self, slot: usize) {
        let (Some(mut stream), Some(stage)) = (self.stack.stream(slot), self.stages.get_mut(slot)) else { return };
        match stage {
            Stage::HeadOf(parser) => {
                let count = stream.copy_received(self.received.get_mut(..HEAD).unwrap_or_default());
                let bytes = self.received.get(..count).unwrap_or_default();
                match parser.advance(bytes) {
                    Ok(Progress::Complete) => return self.asked(slot),
                    Ok(Progress::Incomplete) if stream.ended() => return self.end(slot),
                    // Who says nothing makes way for those that find no place.
                    Ok(Progress::Incomplete) if count < HEAD => return stream.rest(),
                    Ok(Progress::Incomplete) | Err(_) => {}
                }
                self.answer(slot, "400 Bad Request", TEXT, "This is no request of HTTP/1.1.\n");
            }
            Stage::Rules { head, length, token } => {
                let (head, length) = (*head, *length);
                if stream.received_count() >= head + length {
                    let token = core::mem::take(token);
                    self.propose(slot, &token, head, length);
                } else if stream.ended() {
                    self.end(slot);
                } else {
                    stream.rest();
                }
            }
            // Who has ended its side still wants the answer.
            Stage::Waits => {
                if stream.is_over() || stream.remote().is_none() {
                    self.end(slot);
                }
            }
            Stage::Head | Stage::Done => {
                if stream.ended() {
                    self.end(slot);
                } else {
                    // Who has its answer and does not end makes way too.
                    stream.rest();
                }
            }
        }
    }

    /// Answers a request whose head is there.
    fn asked(&mut self, slot: usize) {
        let received = core::mem::take(&mut self.received);
        self.decide(slot, received.get(..HEAD).unwrap_or_default());
        self.received = received;
        if matches!(self.stages.get(slot), Some(Stage::Rules { .. })) {
            self.serve(slot);
        }
    }

    fn decide(&mut self, slot: usize, received: &[u8]) {
        let Some(Stage::HeadOf(parser)) = self.stages.get_mut(slot).map(core::mem::take) else { return };
        let request = parser.request();
        let head = usize::from(request.length);
        let is_head = request.method == Method::Head;
        counters::REQUESTS.add(1);
        if !request::is_for_us(received.get(..head).unwrap_or_default(), self.names.iter()) {
            counters::REFUSED.add(1);
            let why = "Ask by an address, or by a name that the system lists in `names`.\n";
            return self.answer(slot, request::MISDIRECTED, TEXT, why);
        }
        match request::read(request, received) {
            Ask::Page(media, content) => {
                self.head(slot, "200 OK", media, content.len());
                if let (Some(mut stream), false) = (self.stack.stream(slot), is_head) {
                    stream.send_static(content);
                }
                self.end(slot);
            }
            Ask::State => {
                let mut out = core::mem::take(&mut self.out);
                let is_whole = self.render(&mut out);
                self.show(slot, "application/json", Some(out.as_str()).filter(|_| is_whole), is_head);
                self.out = out;
            }
            Ask::Rules => match self.view.as_ref().and_then(View::rules) {
                Some(shown) => self.show(slot, TEXT, Some(&shown.text), is_head),
                None => self.answer(slot, "503 Service Unavailable", TEXT, "The router has not said which they are.\n"),
            },
            Ask::Exchange { length, token, waits } => {
                let permission = permit(self.guard.as_mut(), token, self.stack.stream(slot));
                let token = token.and_then(|token| str::from_utf8(token).ok()).unwrap_or_default();
                self.admit(slot, permission, token, head, length, waits);
            }
            Ask::Refused(status, why) => self.answer(slot, status, TEXT, why),
        }
    }

    /// Has rules come, if their sender may send them.
    fn admit(
        &mut self,
        slot: usize,
        permission: Result<bool, TooMany>,
        token: &str,
        head: usize,
        length: usize,
        waits: bool,
    ) {
        let room = self.proposing.as_ref().map_or(0, Proposing::room).min(RECEIVED - HEAD);
        let room = room.min(self.view.as_ref().map_or(0, View::room));
        let (status, why) = match permission {
            _ if self.guard.is_none() || self.proposing.is_none() => (
                "403 Forbidden",
                "Nobody may give this router rules: its system has no `reload_token_sha256`, or no `proposals`.\n",
            ),
            Ok(false) => (
                UNAUTHORIZED,
                "Who gives the router rules sends the token: curl -H \"Authorization: Bearer TOKEN\" -T FILE URL\n",
            ),
            Err(TooMany) => ("429 Too Many Requests\r\nRetry-After: 6", "Too many tokens were wrong.\n"),
            Ok(true) if token.len() > LONGEST_TOKEN => {
                ("413 Content Too Large", "The token has more than 256 bytes.\n")
            }
            Ok(true) if length > room => ("413 Content Too Large", "There is no room for rules that long.\n"),
            Ok(true) => {
                if let Some(mut stream) = self.stack.stream(slot).filter(|_| waits) {
                    stream.send(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                if let Some(stage) = self.stages.get_mut(slot) {
                    *stage = Stage::Rules { head, length, token: token.into() };
                }
                return;
            }
        };
        counters::REFUSED.add(1);
        self.answer(slot, status, TEXT, why);
    }

    /// Hands the rules that have come to the router.
    fn propose(&mut self, slot: usize, token: &str, head: usize, length: usize) {
        let Some(mut stream) = self.stack.stream(slot) else { return };
        let count = stream.copy_received(&mut self.received);
        let bytes = self.received.get(..count).and_then(|bytes| bytes.get(head..head + length));
        let text = bytes.and_then(|bytes| str::from_utf8(bytes).ok());
        let Some(proposing) = &mut self.proposing else { return self.end(slot) };
        let refusal = match text {
            None => ("422 Unprocessable Content", "error: this is no text in UTF-8\n"),
            Some(_) if proposing.is_busy() => {
                ("503 Service Unavailable\r\nRetry-After: 1", "Other rules are being judged just now.\n")
            }
            Some(text) if proposing.propose(slot, token, text, time::now() + PATIENCE) => {
                counters::PROPOSALS.add(1);
                if let Some(stage) = self.stages.get_mut(slot) {
                    *stage = Stage::Waits;
                }
                return;
            }
            Some(_) => ("413 Content Too Large", "There is no room for rules that long.\n"),
        };
        self.answer(slot, refusal.0, TEXT, refusal.1);
    }

    /// Tells who has proposed rules what the router says of them.
    fn tell(&mut self) {
        let Some(proposing) = &mut self.proposing else { return };
        let Some((slot, answer)) = proposing.answered(self.view.as_ref(), time::now()) else { return };
        let (status, said) = match answer {
            Some(answer) if answer.verdict == Verdict::Taken => {
                ("200 OK", format!("The rules are in use. Flows that ended by them: {}\n", answer.ended))
            }
            Some(answer) => {
                counters::PROPOSALS_REFUSED.add(1);
                let said = answer.said + "The rules before these stay in use.\n";
                let is_forbidden = answer.verdict == Verdict::Forbidden;
                (if is_forbidden { UNAUTHORIZED } else { "422 Unprocessable Content" }, said)
            }
            None => ("504 Gateway Timeout", String::from("The router does not answer.\n")),
        };
        if let Some(slot) = slot {
            self.answer(slot, status, TEXT, &said);
        }
    }

    /// Writes the state in place of `out`. Returns whether there is room for it.
    fn render(&mut self, out: &mut String) -> bool {
        let now = time::now().microseconds() / 1000;
        let shown = self.view.as_ref().and_then(View::rules);
        if let Some(flows) = &mut self.flows {
            flows.look(now);
        }
        let observation = culm::observation();
        let picture = Picture {
            now,
            shown: shown.as_ref(),
            flows: self.flows.as_ref(),
            ports: self.ports.as_ref(),
            observation: observation.as_ref(),
        };
        json::write(out, CONTENT, &picture).is_ok()
    }

    /// Answers with what there is to be shown, if that fits the send buffer.
    fn show(&mut self, slot: usize, media: &str, content: Option<&str>, is_head: bool) {
        let Some(content) = content.filter(|content| content.len() <= CONTENT) else {
            return self.answer(slot, "503 Service Unavailable", TEXT, "It is too long to be shown.\n");
        };
        self.head(slot, "200 OK", media, content.len());
        if let (Some(mut stream), false) = (self.stack.stream(slot), is_head) {
            stream.send(content.as_bytes());
        }
        self.end(slot);
    }

    fn answer(&mut self, slot: usize, status: &str, media: &str, content: &str) {
        self.head(slot, status, media, content.len());
        if let Some(mut stream) = self.stack.stream(slot) {
            stream.send(content.as_bytes());
        }
        self.end(slot);
    }

    fn head(&mut self, slot: usize, status: &str, media: &str, length: usize) {
        let Some(mut stream) = self.stack.stream(slot) else { return };
        let count = stream.received_count();
        stream.consume(count);
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {length}\r\n{FIELDS}\r\n");
        stream.send(head.as_bytes());
    }

    /// Gives a connection back, whose end is sent in its own time.
    fn end(&mut self, slot: usize) {
        if let Some(stage) = self.stages.get_mut(slot) {
            *stage = Stage::Done;
        }
        if let Some(proposing) = &mut self.proposing {
            proposing.forget(slot);
        }
        if let Some(mut stream) = self.stack.stream(slot) {
            stream.finish();
        }
        self.stack.release(slot);
    }
}

/// Returns whether who has sent this token may give the router rules.
fn permit(guard: Option<&mut Guard>, token: Option<&[u8]>, stream: Option<Stream<'_>>) -> Result<bool, TooMany> {
    let (Some(guard), Some(stream)) = (guard, stream) else { return Ok(false) };
    guard.permit(token, stream.remote().map(|remote| remote.ip()), time::now().ticks())
}
