//! Documents that are rendered on request, each rendering shared by all who ask at about the same
//! time.
//!
//! A fixed number of renderings exists. One is kept while a connection still sends it, and is given
//! again to any client that asks for the same document while it is fresh. So a flood of requests
//! costs a bounded number of renderings, and slow readers a bounded amount of memory; if slow
//! readers hold all renderings, the answer is 503.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Renders documents.
pub trait Renderer {
    /// Appends the document of this number ([`crate::site::Document`], in the order given to the
    /// site) to `into`.
    fn render(&mut self, document: u16, now: u64, into: &mut Vec<u8>);
}

/// A server without documents.
impl Renderer for () {
    fn render(&mut self, _document: u16, _now: u64, _into: &mut Vec<u8>) {}
}

/// Renderings that exist at a time.
const RENDERINGS: usize = 4;

/// Names a rendering that its holder must [`release`](Documents::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenderingId(u8);

#[derive(Default)]
struct Rendering {
    document: Option<u16>,
    rendered: u64,
    holders: u32,
    bytes: Vec<u8>,
}

/// The renderings and who makes them.
pub struct Documents<R> {
    renderer: R,
    fresh: u64,
    renderings: Box<[Rendering]>,
}

impl<R: Renderer> Documents<R> {
    /// Renderings are given again for `fresh` units of time.
    pub fn new(renderer: R, fresh: u64) -> Self {
        Self { renderer, fresh, renderings: (0..RENDERINGS).map(|_| Rendering::default()).collect() }
    }

    /// A rendering of `document`, held for the caller; none while slow readers hold them all.
    pub fn acquire(&mut self, document: u16, now: u64) -> Option<RenderingId> {
        let fresh = self.fresh;
        let is_fresh = |rendering: &Rendering| {
            rendering.document == Some(document) && now.saturating_sub(rendering.rendered) < fresh
        };
        let position = self.renderings.iter().position(is_fresh).or_else(|| self.render(document, now))?;
        self.renderings[position].holders += 1;
        Some(RenderingId(position as u8))
    }

    /// Renders into the place of the oldest rendering that nobody holds.
    fn render(&mut self, document: u16, now: u64) -> Option<usize> {
        let unheld = self.renderings.iter().enumerate().filter(|(_, rendering)| rendering.holders == 0);
        let (position, _) = unheld.min_by_key(|(_, rendering)| rendering.rendered)?;
        let rendering = &mut self.renderings[position];
        rendering.bytes.clear();
        self.renderer.render(document, now, &mut rendering.bytes);
        rendering.document = Some(document);
        rendering.rendered = now;
        Some(position)
    }

    /// The bytes of a rendering that is held.
    pub fn bytes(&self, id: RenderingId) -> &[u8] {
        &self.renderings[usize::from(id.0)].bytes
    }

    /// Ends what [`acquire`](Self::acquire) began.
    pub fn release(&mut self, id: RenderingId) {
        let rendering = &mut self.renderings[usize::from(id.0)];
        rendering.holders = rendering.holders.saturating_sub(1);
    }

    /// Who renders.
    pub fn renderer(&mut self) -> &mut R {
        &mut self.renderer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u32);

    impl Renderer for Counting {
        fn render(&mut self, document: u16, now: u64, into: &mut Vec<u8>) {
            self.0 += 1;
            into.extend_from_slice(std::format!("{document} at {now}").as_bytes());
        }
    }

    #[test]
    fn a_fresh_rendering_is_shared() {
        let mut documents = Documents::new(Counting(0), 10);
        let first = documents.acquire(1, 100).unwrap();
        assert_eq!(documents.acquire(1, 109), Some(first));
        let later = documents.acquire(1, 110).unwrap();
        assert_ne!(later, first);
        assert_eq!(documents.bytes(first), b"1 at 100");
        assert_eq!(documents.bytes(later), b"1 at 110");
        assert_eq!(documents.renderer().0, 2);
    }

    #[test]
    fn held_renderings_are_not_overwritten() {
        let mut documents = Documents::new(Counting(0), 1);
        let held: Vec<_> = (0..RENDERINGS as u64).map(|now| documents.acquire(0, now * 10).unwrap()).collect();
        assert_eq!(documents.acquire(0, 1000), None);
        documents.release(held[2]);
        assert_eq!(documents.acquire(0, 1000), Some(held[2]));
    }
}
