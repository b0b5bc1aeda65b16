//! The system's state, as people and programs see it.
//!
//! [`source`] knows where the state is and takes [`snapshot`]s of it; [`html`], [`json`] and
//! [`metrics`] render one.

use alloc::vec::Vec;
use culm_http::Renderer;
use culm_http::media::{self, HTML};
use culm_http::site::{Document, Embedded};

mod figures;
pub mod html;
mod http;
pub mod json;
pub mod metrics;
pub mod snapshot;
pub mod source;
pub mod text;

pub use snapshot::Snapshot;
pub use source::Source;

/// What is rendered on request; [`Status`] renders them by their position.
pub const DOCUMENTS: [Document; 3] = [
    Document { path: "/_status", media: HTML },
    Document { path: "/_status.json", media: "application/json" },
    Document { path: "/_metrics", media: "application/openmetrics-text; version=1.0.0; charset=utf-8" },
];

/// What is served as it is: what the page needs, a page that explains it, and the system's picture.
pub fn files(picture: &[u8]) -> [Embedded<'_>; 4] {
    let embedded = |path, content| Embedded { path, media: media::of(path), content };
    [
        embedded("/_status.css", include_bytes!("status/page/page.css").as_slice()),
        embedded("/_status.js", include_bytes!("status/page/page.js").as_slice()),
        embedded("/_status.svg", picture),
        Embedded { path: "/_about", media: HTML, content: include_bytes!("status/page/about.html") },
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
            0 => html::render(snapshot, into),
            1 => json::render(snapshot, into),
            _ => metrics::render(snapshot, into),
        }
    }
}
