//! The system's state, as people and programs see it.
//!
//! [`source`] knows where the state is and takes [`snapshot`]s of it; [`html`], [`json`] and
//! [`metrics`] render one.

use crate::crashes::Crash;
use core::fmt::{self, Write};
use culm_http::Renderer;
use culm_http::documents::Length;
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

/// The documents that are rendered on request; [`Status`] renders them by their position.
pub const DOCUMENTS: [Document; 3] = [
    Document { path: "/_status", media: HTML },
    Document { path: "/_status.json", media: "application/json" },
    Document { path: "/_metrics", media: "application/openmetrics-text; version=1.0.0; charset=utf-8" },
];

/// Returns the files that are served as they are: what the page needs, a page that explains it, and
/// the system's picture.
pub fn files(picture: &'static [u8]) -> [Embedded; 4] {
    let embedded = |path, content| Embedded { path, media: media::of(path), content };
    [
        embedded("/_status.css", include_bytes!("status/page/page.css").as_slice()),
        embedded("/_status.js", include_bytes!("status/page/page.js").as_slice()),
        embedded("/_status.svg", picture),
        Embedded { path: "/_about", media: HTML, content: include_bytes!("status/page/about.html") },
    ]
}

/// Renders [`DOCUMENTS`].
pub struct Status {
    source: Source,
    longest: usize,
}

impl Status {
    /// Of this system.
    pub fn new(source: Source) -> Self {
        let longest = longest(source.last().clone());
        Self { source, longest }
    }

    /// Shows these crash reports from now on, the newest first.
    pub fn show(&mut self, crashes: &[Crash]) {
        self.source.show(crashes);
    }
}

impl Renderer for Status {
    fn render(&mut self, document: u16, now: u64, into: &mut dyn Write) -> fmt::Result {
        render(self.source.snapshot(now), document, into)
    }

    fn longest(&self) -> usize {
        self.longest
    }
}

fn render(snapshot: &Snapshot, document: u16, into: &mut dyn Write) -> fmt::Result {
    match document {
        0 => html::render(snapshot, into),
        1 => json::render(snapshot, into),
        _ => metrics::render(snapshot, into),
    }
}

/// Returns how many bytes any document of such a snapshot may have: as many as with the greatest
/// numbers, and an eighth more, since some figures are longest when they are small.
fn longest(snapshot: Snapshot) -> usize {
    let greatest = snapshot.with_greatest_numbers();
    let lengths = (0..DOCUMENTS.len() as u16).map(|document| {
        let mut length = Length::default();
        // Counting does not fail.
        let _ = render(&greatest, document, &mut length);
        length.0
    });
    let longest = lengths.max().unwrap_or_default();
    longest + longest / 8
}
