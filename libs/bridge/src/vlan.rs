//! VLAN tags (IEEE 802.1Q-2018 §9), and the VLANs of a port.
//!
//! A bridge none of whose ports has a VLAN is *transparent*: it takes tags for content. In any
//! other each frame belongs to one VLAN: that of its tag, or of the port where it came in. It goes
//! out without a tag where it belongs to the port's own VLAN, and with one elsewhere.
//!
//! A frame may have a second tag behind the first one, for the stations of its VLAN: content. It
//! does not go out where the first one would be taken out. The second would be the frame's tag
//! then, so that a station chose the VLAN in which the next bridge takes it.

use crate::HEAD;
use alloc::boxed::Box;
use alloc::vec;

/// The type of a tagged frame (IEEE 802.1Q-2018, table 9-1).
pub const TAG: [u8; 2] = [0x81, 0x00];

/// Where a tag begins in a frame: behind both addresses.
pub const AT: usize = 12;

/// Bytes of a tag.
pub const LENGTH: usize = 4;

/// The VLAN of ports of which nothing else is said (IEEE 802.1Q-2018, table 9-2).
pub const DEFAULT: u16 = 1;

/// The greatest number of a VLAN; 0 and 4095 have other meanings (IEEE 802.1Q-2018, table 9-2).
pub const MAX: u16 = 4094;

/// A tag's priority and drop eligibility, which stay a frame's own.
const PRIORITY: u16 = 0xf000;

/// What has to be done to a frame's tag where it goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Nothing.
    Keep,
    /// The tag is taken out.
    Remove,
    /// This tag is put in, behind the addresses.
    Insert([u8; LENGTH]),
    /// This tag takes the place of the frame's.
    Replace([u8; LENGTH]),
}

impl Edit {
    /// Returns the bytes that stand in the place of a frame's first ones, written into `room`, and
    /// how many those are. `head` is the beginning of the frame to which this edit belongs.
    pub fn beginning<'a>(&self, head: &[u8], room: &'a mut [u8; AT + LENGTH]) -> (&'a [u8], usize) {
        let Some(addresses) = head.get(..AT).filter(|_| *self != Self::Keep) else { return (&[], 0) };
        room[..AT].copy_from_slice(addresses);
        match self {
            Self::Keep => (&[], 0),
            Self::Remove => (&room[..AT], AT + LENGTH),
            Self::Insert(tag) | Self::Replace(tag) => {
                room[AT..].copy_from_slice(tag);
                let instead_of = if matches!(self, Self::Insert(_)) { AT } else { AT + LENGTH };
                (room, instead_of)
            }
        }
    }
}

/// A set of VLANs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSet(Box<[u64]>);

impl Default for VlanSet {
    fn default() -> Self {
        Self(vec![0; 64].into_boxed_slice())
    }
}

impl VlanSet {
    /// Returns whether a VLAN is in it.
    pub fn contains(&self, vlan: u16) -> bool {
        self.0.get(usize::from(vlan / 64)).is_some_and(|word| word & (1 << (vlan % 64)) != 0)
    }

    /// Adds a VLAN, if it is one (1 to [`MAX`]).
    pub fn add(&mut self, vlan: u16) {
        if let (1..=MAX, Some(word)) = (vlan, self.0.get_mut(usize::from(vlan / 64))) {
            *word |= 1 << (vlan % 64);
        }
    }

    /// Returns whether no VLAN is in it.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

/// The VLANs of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The VLAN of frames without a tag; they leave without one too. `None`: the port takes tagged
    /// ones only.
    pub own: Option<u16>,
    /// The VLANs of tagged frames.
    pub tagged: VlanSet,
}

impl Membership {
    /// Returns whether frames of a VLAN go out by this port.
    pub fn has(&self, vlan: u16) -> bool {
        self.own == Some(vlan) || self.tagged.contains(vlan)
    }

    /// Returns the VLAN of a frame that comes in by this port; `None`: it is none of the port's.
    ///
    /// A tag of VLAN 0 says a priority only. A frame tagged with the port's own VLAN is taken if
    /// the port has tagged VLANs: a station that knows of none sends no tags.
    pub fn classify(&self, tag: Option<u16>) -> Option<u16> {
        match tag.map(|tag| tag & !PRIORITY) {
            None | Some(0) => self.own,
            Some(vlan) if self.tagged.contains(vlan) => Some(vlan),
            Some(vlan) => self.own.filter(|own| *own == vlan && !self.tagged.is_empty()),
        }
    }

    /// Returns what is to be done to a frame of a VLAN where it goes out by this port; `tag` is
    /// that with which it came.
    pub fn edit(&self, vlan: u16, tag: Option<u16>) -> Edit {
        let wanted = (self.own != Some(vlan)).then(|| tag.unwrap_or(0) & PRIORITY | vlan);
        match (tag, wanted) {
            (None, None) => Edit::Keep,
            (Some(_), None) => Edit::Remove,
            (Some(tag), Some(wanted)) if tag == wanted => Edit::Keep,
            (Some(_), Some(wanted)) => Edit::Replace(bytes(wanted)),
            (None, Some(wanted)) => Edit::Insert(bytes(wanted)),
        }
    }
}

/// Returns whether a frame has a tag and behind it another one, which would be its tag if the first
/// one were taken out.
pub fn hides_tag(head: &[u8]) -> bool {
    let is_tag = |at| head.get(at..).and_then(|rest| rest.first_chunk()) == Some(&TAG);
    is_tag(AT) && is_tag(AT + LENGTH)
}

/// Returns whether a frame ends within its tag, or before the type behind it. What a card puts
/// behind a short frame would complete the tag, and nobody would have looked at it.
pub fn is_cut(head: &[u8]) -> bool {
    head.len() < HEAD && head.get(AT..).is_some_and(|rest| rest.starts_with(&TAG))
}

/// Returns the tag at the beginning of a frame: its priority, drop eligibility and VLAN.
pub fn tag_of(head: &[u8]) -> Option<u16> {
    let bytes: &[u8; LENGTH] = head.get(AT..)?.first_chunk()?;
    let [high, low, control @ ..] = *bytes;
    ([high, low] == TAG).then(|| u16::from_be_bytes(control))
}

fn bytes(control: u16) -> [u8; LENGTH] {
    let ([a, b], [c, d]) = (TAG, control.to_be_bytes());
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(own: Option<u16>, tagged: &[u16]) -> Membership {
        let mut set = VlanSet::default();
        tagged.iter().for_each(|vlan| set.add(*vlan));
        Membership { own, tagged: set }
    }

    #[test]
    fn an_access_port_takes_what_has_no_tag() {
        let port = membership(Some(10), &[]);
        assert_eq!(
            [None, Some(0), Some(0xe000), Some(10), Some(20)].map(|tag| port.classify(tag)),
            [Some(10), Some(10), Some(10), None, None]
        );
        assert_eq!(port.edit(10, None), Edit::Keep);
        assert_eq!(port.edit(10, Some(10)), Edit::Remove);
        assert!(port.has(10) && !port.has(20));
    }

    #[test]
    fn a_trunk_takes_its_vlans() {
        let port = membership(None, &[20, 4094]);
        assert_eq!(
            [None, Some(0), Some(20), Some(0x3014), Some(4094), Some(4095), Some(10)].map(|tag| port.classify(tag)),
            [None, None, Some(20), Some(20), Some(4094), None, None]
        );
        assert_eq!(port.edit(20, Some(0xe014)), Edit::Keep);
        assert_eq!(port.edit(20, None), Edit::Insert([0x81, 0, 0, 20]));
        assert_eq!(port.edit(20, Some(0xe000)), Edit::Replace([0x81, 0, 0xe0, 20]));
        let both = membership(Some(10), &[20]);
        assert_eq!(both.classify(Some(10)), Some(10));
    }

    #[test]
    fn a_frame_begins_as_its_edit_says() {
        let frame = *b"destinsource\x81\x00\x00\x05type";
        let edited = |edit: Edit| {
            let mut room = [0; AT + LENGTH];
            let (bytes, instead_of) = edit.beginning(&frame, &mut room);
            [bytes, &frame[instead_of..]].concat()
        };
        assert_eq!(edited(Edit::Keep), frame);
        assert_eq!(edited(Edit::Remove), b"destinsourcetype");
        assert_eq!(edited(Edit::Replace(*b"TAG!")), b"destinsourceTAG!type");
        assert_eq!(edited(Edit::Insert(*b"TAG!")), b"destinsourceTAG!\x81\x00\x00\x05type");
        assert_eq!(Edit::Remove.beginning(b"short", &mut [0; AT + LENGTH]), (&[][..], 0));
    }

    #[test]
    fn numbers_that_are_no_vlan_are_in_no_set() {
        let port = membership(None, &[0, 4095, u16::MAX]);
        assert!(port.tagged.is_empty());
        assert!(![0, 4095, u16::MAX].iter().any(|vlan| port.tagged.contains(*vlan)));
    }

    #[test]
    fn a_tag_is_read_where_it_is_whole() {
        let mut head = [0; 18];
        head[12..16].copy_from_slice(&[0x81, 0, 0x20, 5]);
        assert_eq!(tag_of(&head), Some(0x2005));
        assert_eq!(tag_of(&head[..15]), None);
        head[13] = 1;
        assert_eq!(tag_of(&head), None);
    }
}
