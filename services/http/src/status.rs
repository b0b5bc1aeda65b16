//! The system's state, as people and programs see it.
//!
//! [`source`] knows where the state is and takes [`snapshot`]s of it; [`json`] and [`metrics`] render one. The page for
//! people is a static file that fetches the JSON each second.

use alloc::vec::Vec;
use culm_http_protocol::Renderer;
use culm_http_protocol::site::{Document, Embedded};

pub mod json;
pub mod metrics;
pub mod snapshot;
pub mod source;
pub mod text;

pub use snapshot::Snapshot;
pub use source::Source;

/// The page for people.
const PAGE: &[u8] = include_bytes!("status/page.html");

/// What is rendered on request; [`Status`] renders them by their position.
pub const DOCUMENTS: [Document; 2] = [
    Document { path: "/_status.json", media: "application/json" },
    Document { path: "/_metrics", media: "application/openmetrics-text; version=1.0.0; charset=utf-8" },
];

/// What is served as it is: the page, and the system's picture.
pub fn files<'a>(picture: &'a [u8]) -> [Embedded<'a>; 2] {
    let html = culm_http_protocol::media::HTML;
    [
        Embedded { path: "/_status", media: html, content: PAGE },
        Embedded { path: "/_status.svg", media: "image/svg+xml", content: picture },
    ]
}

/// Renders [`DOCUMENTS`].
pub struct Status(Source);

impl Status {
    /// Of this system.
    pub fn new(source: Source) -> Self {
        Self(source)
    }
}

impl Renderer for Status {
    fn render(&mut self, document: u16, now: u64, into: &mut Vec<u8>) {
        let snapshot = self.0.snapshot(now);
        match document {
            0 => json::render(snapshot, into),
            _ => metrics::render(snapshot, into),
        }
    }
}
