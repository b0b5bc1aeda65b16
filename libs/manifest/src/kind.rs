//! Which kind of file a table is of: one that was taken for another is better told so than key by
//! key.

use crate::problem::Problem;
use crate::reader::{Problems, TableReader, parse_table};

/// A kind of description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `systems/NAME.toml`.
    System,
    /// `boards/NAME.toml`.
    Board,
    /// `component.toml`.
    Component,
    /// `Cargo.toml`: no description, but beside one.
    Crate,
}

impl Kind {
    const ALL: [Self; 4] = [Self::System, Self::Board, Self::Component, Self::Crate];

    /// Keys that only files of this kind have.
    fn tell_tale(self) -> &'static [&'static str] {
        match self {
            Self::System => &["pd", "channel", "region", "supervisor", "board"],
            Self::Board => &["gic", "memory", "cores", "mpidr", "coherent_dma", "qemu"],
            Self::Component => &["connection", "config", "driver", "counters", "stack", "heap"],
            Self::Crate => &["package", "dependencies", "workspace"],
        }
    }

    /// The kind of a file, by the keys in it; `None` where none of them says so.
    pub fn of(text: &str) -> Option<Self> {
        let document = parse_table(text, &mut Problems::new());
        let table = TableReader::new("the file", 0..0, document.get_ref());
        Self::ALL.into_iter().find(|kind| kind.is_told_by(&table))
    }

    fn is_told_by(self, table: &TableReader<'_>) -> bool {
        self.tell_tale().iter().any(|key| table.has(key))
    }

    /// Returns the kind's name.
    fn in_words(self) -> &'static str {
        match self {
            Self::System => "a system file",
            Self::Board => "a board file",
            Self::Component => "a component's manifest",
            Self::Crate => "a crate's Cargo.toml",
        }
    }

    /// Reports a file that is of another kind. Where keys of both are there, this one is meant.
    pub fn is_another(self, table: &TableReader<'_>, problems: &mut Problems) -> bool {
        if self.is_told_by(table) {
            return false;
        }
        let Some(found) = Self::ALL.into_iter().find(|kind| kind.is_told_by(table)) else { return false };
        let message = format!("this is {}, where {} is expected", found.in_words(), self.in_words());
        problems.push(Problem::new(table.span.clone(), message).help(match self {
            Self::System => "systems are in `systems/`; `./culm systems` lists them",
            Self::Board => "boards are in `boards/`; `./culm boards` lists them",
            Self::Component | Self::Crate => "a component has a `component.toml` beside its `Cargo.toml`",
        }));
        true
    }
}
