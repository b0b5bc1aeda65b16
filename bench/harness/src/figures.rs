//! Figures that documents quote, each table between two marks: made from the records, so that no
//! document says anything else than they do.

use crate::record;
use crate::results::number;
use anyhow::{Context, Result, bail};
use std::fmt::Write;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- figures: written by `./culm bench --record`, see bench/harness/src/figures.rs -->\n";
const END: &str = "<!-- end of figures -->\n";

/// One figure of a record.
struct Quote {
    bench: &'static str,
    row: &'static str,
    unit: &'static str,
    /// The peer that stands beside it; "" for none.
    peer: &'static str,
    /// Its name in a document.
    what: &'static str,
}

const fn quote([bench, row, unit]: [&'static str; 3], peer: &'static str, what: &'static str) -> Quote {
    Quote { bench, row, unit, peer, what }
}

/// A figure of the web server, beside nginx.
const fn web(row: &'static str, unit: &'static str, what: &'static str) -> Quote {
    quote(["web", row, unit], "nginx-linux-nokaslr", what)
}

/// A cost of the kernel's, which no peer has.
const fn cost(row: &'static str, what: &'static str) -> Quote {
    quote(["ipc", row, "instructions/round"], "", what)
}

/// The peer of most figures.
const LINUX: &str = "linux-nokaslr";

/// The figures of the README: where Culm is ahead and where it is not.
const README: &[Quote] = &[
    quote(
        ["net", "udp-64-w256", "instructions/packet"],
        LINUX,
        "UDP echo, 64 bytes, 256 packets under way: per packet",
    ),
    quote(["net", "udp-64-w1", "instructions/packet"], LINUX, "the same, one packet at a time: per packet"),
    web("354-keep-alive", "instructions/request", "HTTP, 354 bytes, 16 connections: per request"),
    web("354-close", "instructions/request", "the same, a connection for each request: per request"),
    web("33M", "instructions/MiB", "HTTP, a file of 33 MB: per MiB"),
    quote(["tcp", "in-1", "instructions/MiB"], LINUX, "bulk TCP in: per MiB"),
    quote(
        ["ipc", "notify-ping-pong", "instructions/round"],
        "linux-futex",
        "two programs wake each other: per round trip",
    ),
    quote(["boot", "first-echo", "instructions"], LINUX, "from QEMU's start to the first UDP echo"),
];

/// The kernel's costs.
const COSTS: &[Quote] = &[
    cost("notify-no-switch", "[`signal`](system-calls/signal.md) to a domain of lower priority: no switch"),
    cost("notify-ping-pong", "two domains notify each other: two [`wait`](system-calls/wait.md), two switches"),
    cost(
        "call",
        "[`call`](system-calls/call.md) and [`reply_wait`](system-calls/reply_wait.md) without words: two switches",
    ),
    cost("call-8-words", "the same with eight words each way"),
    cost("deadline", "[`wait`](system-calls/wait.md) with a deadline, until it ends"),
    cost("notify-ping-pong-cores", "two domains on two cores notify each other, both sleeping in between"),
];

/// Every document with figures, relative to the root.
const DOCUMENTS: &[(&str, &[Quote])] = &[("README.md", README), ("docs/src/reference/costs.md", COSTS)];

/// Each document and what it should say.
pub fn documents(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let document = |(path, quotes): &(&str, &[Quote])| {
        let path = root.join(path);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let filled = fill(&text, &table(root, quotes)?).with_context(|| format!("in {}", path.display()))?;
        Ok((path, filled))
    };
    DOCUMENTS.iter().map(document).collect()
}

/// Brings all documents up to date.
pub fn write(root: &Path) -> Result<()> {
    for (path, text) in documents(root)? {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Replaces what stands between the marks.
fn fill(text: &str, table: &str) -> Result<String> {
    let Some((before, rest)) = text.split_once(BEGIN) else { bail!("there is no mark for figures to begin at") };
    let Some((_, after)) = rest.split_once(END) else { bail!("there is no mark for figures to end at") };
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// A share in two digits, more of them where it is small.
fn share(share: f64) -> String {
    if share < 0.01 { format!("{share:.4}") } else { format!("{share:.2}") }
}

/// The table of `quotes`; what is not recorded is left out.
fn table(root: &Path, quotes: &[Quote]) -> Result<String> {
    let peers = quotes.iter().any(|quote| !quote.peer.is_empty());
    let mut text = String::from(if peers {
        "| Guest instructions | Culm | Linux | Culm to Linux |\n| --- | ---: | ---: | ---: |\n"
    } else {
        "| Operation | Instructions |\n| --- | ---: |\n"
    });
    for quote in quotes {
        let record = record::read(root, quote.bench)?;
        let rows = record.map_or(Vec::new(), |record| record.rows);
        let row = rows.iter().find(|row| {
            row.row == quote.row
                && row.unit == quote.unit
                && (quote.peer.is_empty() || row.peer_name.as_deref().unwrap_or("") == quote.peer)
        });
        let Some((row, culm)) = row.and_then(|row| Some((row, row.culm?))) else { continue };
        let _ = write!(text, "| {} | {}", quote.what, number(Some(culm)));
        if peers {
            let ratio = row.peer.map_or(String::new(), |peer| share(culm / peer));
            let _ = write!(text, " | {} | {ratio}", row.peer.map_or(String::new(), |peer| number(Some(peer))));
        }
        text.push_str(" |\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `CULM_BLESS=1 cargo test -p culm-bench-harness figures` brings the documents up to date.
    #[test]
    fn documents_say_what_the_records_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        if std::env::var_os("CULM_BLESS").is_some() {
            write(&root).expect("documents can be written");
        }
        for (path, text) in documents(&root).expect("documents have their marks") {
            let written = std::fs::read_to_string(&path).expect("read a moment ago");
            assert!(
                written == text,
                "{} quotes other figures than are recorded: run with CULM_BLESS=1",
                path.display()
            );
        }
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let text = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(fill(&text, "new\n").expect("marks"), format!("a\n{BEGIN}\nnew\n\n{END}b\n"));
        assert!(fill("a", "new").is_err());
        assert!(fill(BEGIN, "new").is_err());
    }
}
