//! Documents that are rendered on request, each rendering shared by all who ask at about the same
//! time.
//!
//! A fixed number of renderings exists. One is kept while a connection still sends it, and is given
//! again to any client that asks for the same document while it is fresh. So a flood of requests
//! costs a bounded number of renderings, and slow readers a bounded amount of memory; if slow
//! readers hold all renderings, the answer is 503.
//!
//! Renderings have their memory from the start, each for the longest document, and never grow: no
//! request makes the heap run out. If the heap has no place for all, there are fewer.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Renders documents.
pub trait Renderer {
    /// Writes the document of this number ([`crate::site::Document`], in the order given to the
    /// site) to `into`.
    ///
    /// # Errors
    ///
    /// If `into` does not take all of it.
    fn render(&mut self, document: u16, now: u64, into: &mut dyn Write) -> fmt::Result;

    /// Returns how many bytes the longest document may ever have.
    fn longest(&self) -> usize;
}

/// A server without documents.
impl Renderer for () {
    fn render(&mut self, _document: u16, _now: u64, _into: &mut dyn Write) -> fmt::Result {
        Ok(())
    }

    fn longest(&self) -> usize {
        0
    }
}

/// Renderings that exist at a time, if the heap has a place for them.
const RENDERINGS: usize = 4;

/// Bytes of the heap that the renderings leave to others, who need some for a moment.
const SPARE: usize = 32 * 1024;

/// Counts the bytes that are written to it.
#[derive(Debug, Default)]
pub struct Length(pub usize);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.saturating_add(text.len());
        Ok(())
    }
}

/// Appends to bytes as far as they need not grow.
struct Within<'v>(&'v mut Vec<u8>);

impl Write for Within<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.0.capacity() - self.0.len() {
            return Err(fmt::Error);
        }
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

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
        let renderings = allocate(renderer.longest());
        Self { renderer, fresh, renderings }
    }

    /// Returns the bytes that the heap is short of for all renderings.
    pub fn shortage(&self) -> usize {
        (RENDERINGS - self.renderings.len()).saturating_mul(self.renderer.longest())
    }

    /// A rendering of `document`, held for the caller; none while slow readers hold them all, or if
    /// the document is longer than its renderer has said.
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
        rendering.document = None;
        self.renderer.render(document, now, &mut Within(&mut rendering.bytes)).ok()?;
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

/// Allocates the renderings of documents that have so many bytes at most: as many as the heap has a
/// place for.
fn allocate(longest: usize) -> Box<[Rendering]> {
    let reserve = |size| {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).ok().map(|()| bytes)
    };
    // Given back when all renderings have their memory.
    let spare = reserve(SPARE);
    let renderings = (0..RENDERINGS).map_while(|_| spare.as_ref().and_then(|_| reserve(longest)));
    renderings.map(|bytes| Rendering { bytes, ..Rendering::default() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counting(u32);

    impl Renderer for Counting {
        fn render(&mut self, document: u16, now: u64, into: &mut dyn Write) -> fmt::Result {
            self.0 += 1;
            write!(into, "{document} at {now}")
        }

        fn longest(&self) -> usize {
            10
        }
    }

    /// Renders a document of so many bytes, and says that it has this many at most.
    struct Long(usize, usize);

    impl Renderer for Long {
        fn render(&mut self, _: u16, _: u64, into: &mut dyn Write) -> fmt::Result {
            (0..self.0).try_for_each(|_| into.write_char('x'))
        }

        fn longest(&self) -> usize {
            self.1
        }
    }

    #[test]
    fn a_rendering_does_not_grow() {
        let mut documents = Documents::new(Long(101, 100), 1);
        let capacities = |documents: &Documents<_>| -> Vec<_> {
            documents.renderings.iter().map(|rendering| rendering.bytes.capacity()).collect()
        };
        let before = capacities(&documents);
        for now in 1..20 {
            assert_eq!(documents.acquire(0, now * 10), None);
        }
        documents.renderer().0 = 100;
        let whole = documents.acquire(0, 1000).expect("it fits");
        assert_eq!(documents.bytes(whole), [b'x'; 100]);
        assert_eq!(capacities(&documents), before);
        assert_eq!((before, documents.shortage()), (std::vec![100; RENDERINGS], 0));
    }

    #[test]
    fn a_heap_without_a_place_for_renderings_has_none() {
        let mut documents = Documents::new(Long(1, isize::MAX as usize), 1);
        assert_eq!(documents.acquire(0, 10), None);
        assert!(documents.shortage() >= isize::MAX as usize);
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
