//! A device tree as text (Devicetree Specification 0.4, chapter 6), for people: it says all that
//! the bytes say, and can be made into them again.

use std::fmt::Write as _;

/// The first word of a device tree, and the places of others in its header (5.2).
const MAGIC: u32 = 0xd00d_feed;
const STRUCTURE: usize = 8;
const STRINGS: usize = 12;

/// Tokens of the structure (5.4.1).
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOP: u32 = 4;
const END: u32 = 9;

/// Returns the text of a device tree; nothing if it is none.
pub fn source_text(tree: &[u8]) -> Option<String> {
    let reader = Reader { tree, at: 0 };
    if reader.word_at(0)? != MAGIC {
        return None;
    }
    let strings = tree.get(reader.word_at(STRINGS)? as usize..)?;
    let mut reader = Reader { at: reader.word_at(STRUCTURE)? as usize, ..reader };
    let mut text = String::from("/dts-v1/;\n\n");
    let mut depth = 0;
    loop {
        match reader.word()? {
            BEGIN_NODE => {
                let name = reader.name()?;
                indent(&mut text, depth);
                _ = writeln!(text, "{} {{", if depth == 0 { "/" } else { name });
                depth += 1;
            }
            END_NODE => {
                depth = usize::checked_sub(depth, 1)?;
                indent(&mut text, depth);
                text.push_str("};\n");
            }
            PROPERTY => {
                let (length, name) = (reader.word()? as usize, reader.word()? as usize);
                let name = until_zero(strings.get(name..)?)?;
                let value = value(reader.bytes(length)?);
                indent(&mut text, depth);
                _ = match value {
                    None => writeln!(text, "{name};"),
                    Some(value) => writeln!(text, "{name} = {value};"),
                };
            }
            NOP => {}
            END => return (depth == 0).then_some(text),
            _ => return None,
        }
    }
}

/// The structure, read from one token to the next.
struct Reader<'a> {
    tree: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn word_at(&self, at: usize) -> Option<u32> {
        let bytes = self.tree.get(at..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    fn word(&mut self) -> Option<u32> {
        let word = self.word_at(self.at)?;
        self.at += 4;
        Some(word)
    }

    /// Returns so many bytes; the next token stands at a multiple of four.
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let bytes = self.tree.get(self.at..)?.get(..length)?;
        self.at += length.next_multiple_of(4);
        Some(bytes)
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = until_zero(self.tree.get(self.at..)?)?;
        self.at += (name.len() + 1).next_multiple_of(4);
        Some(name)
    }
}

fn until_zero(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes.split(|byte| *byte == 0).next()?).ok()
}

fn indent(text: &mut String, depth: usize) {
    (0..depth).for_each(|_| text.push_str("    "));
}

/// Returns a property's value as text; nothing if it is empty.
fn value(bytes: &[u8]) -> Option<String> {
    if bytes.is_empty() {
        return None;
    }
    let texts = bytes.strip_suffix(&[0]).map(|texts| texts.split(|byte| *byte == 0));
    let is_text = |text: &[u8]| !text.is_empty() && text.iter().all(|byte| matches!(byte, b' '..=b'~'));
    if let Some(texts) = texts.filter(|texts| texts.clone().all(is_text)) {
        return Some(texts.map(quoted).collect::<Vec<_>>().join(", "));
    }
    let (words, rest) = bytes.as_chunks();
    if rest.is_empty() {
        let words: Vec<_> = words.iter().map(|word| format!("{:#x}", u32::from_be_bytes(*word))).collect();
        return Some(format!("<{}>", words.join(" ")));
    }
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("[{}]", bytes.join(" ")))
}

/// Returns a text in quotation marks. An apostrophe is written by its number, so that a text in
/// apostrophes can hold all of it.
fn quoted(text: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b'\'' => quoted.push_str("\\x27"),
            _ => quoted.push(char::from(*byte)),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use vm_fdt::FdtWriter;

    fn tree() -> Vec<u8> {
        let mut tree = FdtWriter::new().unwrap();
        let root = tree.begin_node("").unwrap();
        tree.property_string("model", r#"it's "a\b""#).unwrap();
        let node = tree.begin_node("serial@9000000").unwrap();
        tree.property_string_list("compatible", vec!["arm,pl011".into(), "arm,primecell".into()]).unwrap();
        tree.property_array_u64("reg", &[0x900_0000, 0x1000]).unwrap();
        tree.property("odd", &[0, 1, 0xff]).unwrap();
        tree.property_string("nothing", "").unwrap();
        tree.property_null("dma-coherent").unwrap();
        tree.end_node(node).unwrap();
        tree.end_node(root).unwrap();
        tree.finish().unwrap()
    }

    #[test]
    fn a_tree_is_told_as_its_source_would_be() {
        let text = r#"/dts-v1/;

/ {
    model = "it\x27s \"a\\b\"";
    serial@9000000 {
        compatible = "arm,pl011", "arm,primecell";
        reg = <0x0 0x9000000 0x0 0x1000>;
        odd = [00 01 ff];
        nothing = [00];
        dma-coherent;
    };
};
"#;
        assert_eq!(source_text(&tree()).as_deref(), Some(text));
    }

    #[test]
    fn what_is_no_tree_has_no_text() {
        assert_eq!(source_text(b""), None);
        assert_eq!(source_text(b"\0\0\0\0 is none"), None);
        let tree = tree();
        for length in 0..tree.len() {
            // It ends, and takes nothing from beyond.
            source_text(&tree[..length]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_harm(
            mut tree in Just(tree()),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
        ) {
            for (at, byte) in changes {
                let at = at.index(tree.len());
                tree[at] = byte;
            }
            source_text(&tree);
        }
    }
}
