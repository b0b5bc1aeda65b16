//! TCP headers that say anything.
//!
//! What is read can be written, and what was written is read back the same, but for options that a
//! header has no space for together.

#![no_main]

use culm_tcp::{Header, LONGEST_HEADER, MOST_BLOCKS, SHORTEST_HEADER};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok((header, length)) = Header::parse(bytes) else { return };
    assert!((SHORTEST_HEADER..=LONGEST_HEADER).contains(&length) && length <= bytes.len());
    assert!(header.options.sack.as_slice().len() <= MOST_BLOCKS);

    let mut space = [0xff; LONGEST_HEADER];
    let written = header.emit(&mut space);
    let (again, read) = Header::parse(&space[..written]).expect("what was written can be read");
    assert_eq!(read, written);
    let kept = again.options.sack.as_slice();
    assert_eq!(kept, &header.options.sack.as_slice()[..kept.len()]);
    let mut same = header;
    same.options.sack = again.options.sack;
    assert_eq!(again, same);
});
