//! A station on two networks, with a TCP/IP stack for each: answers pings, and sends each UDP
//! datagram back over the network that it came from, with that network's name before it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::connection::NetClient;
use culm::{Channels, Component, Progress, ROUNDS, run_rounds};
use culm_net::Client;
use culm_net::stack::{Datagram, Settings, Stack};
use culm_net::wire::is_client_port;

culm::component!(TwoCards);

/// The names of the networks, which stand before the answers.
const NAMES: [&[u8]; 2] = [b"outer ", b"inner "];

struct TwoCards {
    stacks: [Stack; 2],
    port: u16,
}

impl Component for TwoCards {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let outer = stack(connections.outer, config.outer_address.unwrap_or(""), config.port);
        let inner = stack(connections.inner, config.inner_address.unwrap_or(""), config.port);
        let mut this = Self { stacks: [outer, inner], port: config.port };
        this.turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

/// Returns the stack of one network.
fn stack(connection: NetClient, address: &str, port: u16) -> Stack {
    let settings = match Settings::default().with_addresses(address, "") {
        Ok(settings) => settings,
        Err(error) => panic!("address = {address:?}: {error}"),
    };
    let mut stack = Stack::new(Client::new(connection), settings);
    stack.bind(port);
    stack
}

impl TwoCards {
    fn turn(&mut self) {
        run_rounds(ROUNDS, || {
            let mut progress = Progress::Asleep;
            for (stack, name) in self.stacks.iter_mut().zip(NAMES) {
                progress &= answer(stack, name, self.port);
            }
            progress
        });
    }
}

/// Answers what came over one network.
fn answer(stack: &mut Stack, name: &[u8], port: u16) -> Progress {
    stack.receive(&mut |datagram: Datagram<'_>| {
        // Other servers' ports get no answer, so that two of them do not answer each other for
        // ever.
        if !is_client_port(datagram.remote_port(), port) {
            return;
        }
        let length = name.len() + datagram.payload().len();
        // One that is too long for an answer gets none.
        let _ = datagram.answer(length, |answer, request| {
            let (before, after) = answer.split_at_mut(name.len());
            before.copy_from_slice(name);
            after.copy_from_slice(request);
        });
    });
    stack.end_round()
}
