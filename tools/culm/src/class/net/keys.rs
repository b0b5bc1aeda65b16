//! Keys of the class in system files, for the reader, the book and the schema.

use super::options::{DEFAULT_BUFFERS, DEFAULT_LARGE};
use crate::reference::table::{Key, Table, key};

/// Returns the keys of a device.
pub fn device_keys() -> Vec<Key> {
    vec![
        key(
            "buffers",
            "number",
            format!("7/8 of `queue`, else {DEFAULT_BUFFERS}"),
            "net: payload buffers for frames received, of 16 KiB each, or of 2 KiB where a client has no copier or no large buffers",
        ),
        key(
            "queue",
            "power of two",
            "room for all buffers",
            "net: entries of each queue between driver and virtualisers",
        ),
        key("mac", "text", "`52:54:00:43:…`", "net: the device's hardware address"),
    ]
}

/// Returns the keys of a client.
pub fn client_keys() -> Vec<Table> {
    vec![Table {
        heading: "Connections of the kind net-client",
        intro: "`net = \"nic0\"`, or a table, for a connection called `net` in the manifest. A copier is added, the domain \
                `PD_copier` (`PD_CONNECTION_copier` where a domain has several), unless the provider is no device, or \
                `copier = false`.".to_string(),
        keys: vec![
            key("device", "text", "required", "the provider: a device, or a component in a device's place"),
            key(
                "mac",
                "text",
                "the device's for its first client, then `52:54:00:43:…`",
                "the client's hardware address",
            ),
            key("anti_spoof", "true or false", "false", "it cannot send frames from another address; costs a copy"),
            key(
                "promiscuous",
                "true or false",
                "false",
                "it receives frames to addresses that are no client's too, as one does that passes them on to clients of its own; \
                 one client of a device",
            ),
            key(
                "copier",
                "true or false",
                "true",
                "frames are copied into buffers that only the client sees; without, which only a device's single client can \
                 be, it reads the device's own buffers",
            ),
            key("copier_priority", "0 to 255", "one above the client", "the copier's priority"),
            key(
                "through",
                "list of texts",
                "none",
                "components, by name, that received frames go through between copier and client: each with a connection of the \
                 kind `net-copier`, both of whose sides have the same buffers. The domains are `PD_through1` and so on, at the \
                 copier's priority",
            ),
            key(
                "sent_through",
                "list of texts",
                "none",
                "components, by name, that sent frames go through on their way from the client, likewise. The client could still \
                 change a frame that lies there: who is to keep frames back copies them, as a provider does. The domains are \
                 `PD_sent1` and so on",
            ),
            key("buffers", "number", format!("7/8 of `queue` less the large ones, else {DEFAULT_BUFFERS}"), "its own buffers, each way"),
            key(
                "large_buffers",
                "0 to 256",
                format!("{DEFAULT_LARGE}; 0 for a switch's network outside"),
                "buffers of 64 KiB besides, each way, for packets of many TCP segments; at most a quarter of `queue`, without it of `buffers`; with 0 the \
                 device divides nothing for it and puts nothing together",
            ),
            key("queue", "power of two", "room for all buffers", "entries of its queues"),
        ],
    }, Table {
        heading: "Connections of the kind net-bare",
        intro: "`card = \"nic0\"`, a device with `bare = true`. Its `buffers`, `queue` and `mac` are the client's too.".to_string(),
        keys: vec![key("device", "text", "required", "the device")],
    }]
}
