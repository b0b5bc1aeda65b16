//! Addresses of a component's code, as functions and lines.

use crate::tree::Tree;
use addr2line::Loader;
use std::fmt::Write as _;
use std::path::Path;

/// Turns addresses of one program into words.
pub struct Symbols {
    loader: Loader,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Symbols")
    }
}

impl Symbols {
    /// Reads the debug information of `elf`, if it has any.
    pub fn read(elf: &Path) -> Option<Self> {
        Loader::new(elf).ok().map(|loader| Self { loader })
    }

    /// The lines for a backtrace: the program counter first, then return addresses. Paths below
    /// where the user works are shortened.
    pub fn backtrace(&self, addresses: &[u64], tree: &Tree) -> String {
        let mut text = String::new();
        for (number, &address) in addresses.iter().enumerate() {
            // A return address can be that of the next function; the call is the instruction before
            // it.
            let probe = if number == 0 { address } else { address.saturating_sub(4) };
            let lines = self.frames(probe, tree);
            if lines.is_empty() {
                let _ = writeln!(text, "    {number:2}: {address:#x}");
            }
            for (depth, line) in lines.iter().enumerate() {
                match depth {
                    0 => _ = writeln!(text, "    {number:2}: {address:#x} {line}"),
                    _ => _ = writeln!(text, "        inlined into {line}"),
                }
            }
        }
        text
    }

    /// The function at `probe` and those that it is inlined into.
    fn frames(&self, probe: u64, tree: &Tree) -> Vec<String> {
        let mut lines = Vec::new();
        if let Ok(mut frames) = self.loader.find_frames(probe) {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame.function.as_ref().and_then(|function| function.demangle().ok());
                let symbol = || self.loader.find_symbol(probe).map(|name| addr2line::demangle_auto(name.into(), None));
                let name = function.or_else(symbol).map_or_else(|| "(unknown)".to_string(), |name| name.into_owned());
                let place = frame.location.and_then(|location| Some((location.file?.to_string(), location.line)));
                lines.push(match place {
                    Some((file, line)) => format!("{name} at {}:{}", shorten(&file, tree), line.unwrap_or(0)),
                    None => name,
                });
            }
        }
        if lines.is_empty() {
            lines.extend(
                self.loader.find_symbol(probe).map(|name| addr2line::demangle_auto(name.into(), None).into_owned()),
            );
        }
        lines
    }
}

fn shorten(file: &str, tree: &Tree) -> String {
    tree.shown(Path::new(file)).display().to_string()
}
