//! The figures of a web server: what each is called, and what it says.

/// A figure of a web server.
pub struct Figure {
    /// Its name, for programs.
    pub name: &'static str,
    /// The counter of the component that has it.
    pub counter: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Its meaning, in words.
    pub help: &'static str,
}

/// How a figure moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Count,
    /// It is as it is now.
    Level,
}

const fn count(name: &'static str, help: &'static str) -> Figure {
    Figure { name, counter: name, kind: Kind::Count, help }
}

/// All of them.
pub static FIGURES: [Figure; 10] = [
    count("requests", "Requests answered."),
    count("errors", "Of these, requests answered with a status from 400 on."),
    count("bytes", "Bytes of responses handed to TCP."),
    count("connections", "Connections accepted."),
    Figure { name: "open", counter: "open", kind: Kind::Level, help: "Connections open now." },
    count("attempts", "Attempts to connect."),
    Figure {
        name: "refused",
        counter: "attempts_refused",
        kind: Kind::Count,
        help: "Attempts that found no place; the client tries again by itself.",
    },
    count("evicted", "Connections at rest that made way for a new one."),
    count("timeouts", "Connections ended because nothing happened in time."),
    count("resets", "Connections ended by a reset from this side."),
];
