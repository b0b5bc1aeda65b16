//! Mistakes in a description, shown in it: file, line, the offending text underlined, what would be
//! right.
//!
//! Every step that can find a mistake adds to one [`Diagnostics`] and goes on, so that one run
//! shows all of them.

pub mod json;

use culm_manifest::problem::{Problem, position};
use culm_manifest::reader::MAX_FILE;
use std::fmt::Write as _;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that diagnostics point into.
#[derive(Debug)]
pub struct Source {
    /// Its path, as messages show it.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

impl Source {
    /// A source with this text.
    pub fn new(path: impl Into<PathBuf>, text: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { path: path.into(), text: text.into() })
    }

    /// Reads a file. What is no regular file, or far too long, is refused before it is read: a pipe
    /// would never end.
    pub fn read(path: &Path) -> Result<Arc<Self>, Diagnostic> {
        let problem = |what: String| Diagnostic::general(format!("cannot read {}: {what}", path.display()));
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => problem("there is no such file".into()),
            _ => problem(error.to_string()),
        })?;
        if metadata.is_dir() {
            return Err(problem("it is a folder, not a file".into()).maybe_help(first_description(path)));
        }
        if !metadata.is_file() {
            return Err(problem("it is no regular file".into()));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| problem(error.to_string()))?;
        if bytes.len() > MAX_FILE {
            return Err(problem(format!("it has {} bytes, which no description has", metadata.len()))
                .help(format!("a description has {MAX_FILE} bytes at most")));
        }
        Self::from_bytes(path, bytes)
    }

    /// A source with this content, if that is text.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Arc<Self>, Diagnostic> {
        let error = match String::from_utf8(bytes) {
            Ok(text) => return Ok(Self::new(path, text)),
            Err(error) => error,
        };
        let start = error.utf8_error().valid_up_to();
        let is_utf_16 = error.as_bytes().starts_with(b"\xff\xfe") || error.as_bytes().starts_with(b"\xfe\xff");
        let source = Self::new(path, String::from_utf8_lossy(error.as_bytes()));
        let byte = error.as_bytes().get(start).copied().unwrap_or_default();
        Err(Diagnostic::at(&source, start..start + 1, format!("this byte, {byte:#04x}, is not UTF-8")).help(
            if is_utf_16 {
                "the file is UTF-16: save it as UTF-8"
            } else {
                "save the file as UTF-8: its encoding is another one, or it is no text"
            },
        ))
    }
}

/// The description that someone may have meant who named a folder: a component's, if it is that of
/// a component.
fn first_description(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?;
    let mut names: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml") && !path.ends_with("Cargo.toml"))
        .collect();
    names.sort_by_key(|path| (!path.ends_with("component.toml"), path.clone()));
    names.first().map(|name| format!("name a file in it: {}", name.display()))
}

/// A place in a file.
#[derive(Clone, Debug)]
pub struct Location {
    /// The file.
    pub source: Arc<Source>,
    /// The bytes of the file that are underlined.
    pub span: Range<usize>,
}

impl std::fmt::Display for Location {
    /// The place with its line, for messages that are no diagnostics.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        excerpt(&mut out, &Paint { colour: false }, Severity::Error, self, None);
        formatter.write_str(out.trim_end())
    }
}

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is built while it stands.
    Error,
    /// It is legal, but odd.
    Warning,
}

impl Severity {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// One mistake, or something odd.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The mistake.
    pub message: String,
    /// Where; `None` where no file can be pointed into.
    pub place: Option<Location>,
    /// Other places that have to do with it, each with what it is.
    pub related: Vec<(Location, String)>,
    /// Advice on what would be right.
    pub help: Option<String>,
    /// Text that is printed below as it stands, such as a table.
    pub note: Option<Box<str>>,
}

impl Diagnostic {
    /// A mistake that no file can be pointed into for.
    pub fn general(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            place: None,
            related: Vec::new(),
            help: None,
            note: None,
        }
    }

    /// A mistake at `span` of `source`.
    pub fn at(source: &Arc<Source>, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { place: Some(Location { source: source.clone(), span }), ..Self::general(message) }
    }

    /// The same as something that is odd, and no mistake.
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The same with advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same with advice, where there is some.
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// The same with another place that has to do with it.
    pub fn related(mut self, source: &Arc<Source>, span: Range<usize>, what: impl Into<String>) -> Self {
        self.related.push((Location { source: source.clone(), span }, what.into()));
        self
    }

    /// The same with more to know.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into().into_boxed_str());
        self
    }

    /// Whether both say the same of the same place.
    fn is_same(&self, other: &Self) -> bool {
        let place =
            |diagnostic: &Self| diagnostic.place.as_ref().map(|place| (place.source.path.clone(), place.span.clone()));
        self.message == other.message && place(self) == place(other)
    }

    /// As text for people; `colour`: with terminal colours.
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint { colour };
        let word = paint.strong(self.severity, self.severity.name());
        let mut out = format!("{word}: {}\n", paint.bold(&self.message));
        let places = self.place.iter().map(|place| (place, None));
        let related = self.related.iter().map(|(place, what)| (place, Some(what.as_str())));
        let mut margin = 1;
        for (place, what) in places.chain(related) {
            margin = excerpt(&mut out, &paint, self.severity, place, what);
        }
        let mut advice = |kind: &str, text: &str| {
            let indent = " ".repeat(margin + kind.len() + 5);
            let text = text.trim_end().replace('\n', &format!("\n{indent}"));
            let _ = writeln!(out, "{} {} {kind}: {text}", " ".repeat(margin), paint.blue("="));
        };
        if let Some(help) = &self.help {
            advice("help", help);
        }
        if let Some(note) = &self.note {
            advice("note", note);
        }
        out
    }
}

/// Writes one place with its line underlined; returns the width of the line number.
fn excerpt(out: &mut String, paint: &Paint, severity: Severity, place: &Location, what: Option<&str>) -> usize {
    let text = &place.source.text;
    let (line, column) = position(text, place.span.start);
    let content: String = text.lines().nth(line - 1).unwrap_or("").chars().map(printable).collect();
    let margin = line.to_string().len();
    let space = " ".repeat(margin);
    let _ = writeln!(out, "{space}{} {}:{line}:{column}", paint.blue("-->"), place.source.path.display());
    let _ = writeln!(out, "{space} {}", paint.blue("|"));
    let _ = writeln!(out, "{} {} {}", paint.blue(&line.to_string()), paint.blue("|"), content);
    // A span that goes on over further lines is underlined to the end of its first.
    let rest = content.chars().count().saturating_sub(column - 1);
    let wanted = text.get(place.span.clone()).map_or(1, |span| span.lines().next().unwrap_or("").chars().count());
    let marks = "^".repeat(wanted.min(rest).max(1));
    let marks = match what {
        Some(_) => paint.blue(&marks.replace('^', "-")),
        None => paint.strong(severity, &marks),
    };
    let label = what.map(|what| format!(" {}", paint.blue(what))).unwrap_or_default();
    let _ = writeln!(out, "{space} {} {}{marks}{label}", paint.blue("|"), " ".repeat(column - 1));
    margin
}

/// A character of a file as it can be shown in one column of a terminal: nothing in a file moves
/// the cursor.
fn printable(character: char) -> char {
    match character {
        '\t' => ' ',
        character if character.is_control() => '\u{fffd}',
        character => character,
    }
}

/// Terminal colours, or none.
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Red for mistakes, yellow for what is odd.
    fn strong(&self, severity: Severity, text: &str) -> String {
        self.with(if severity == Severity::Error { "1;31" } else { "1;33" }, text)
    }

    fn blue(&self, text: &str) -> String {
        self.with("1;34", text)
    }

    fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }
}

/// All mistakes found so far.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Adds a mistake.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Adds the problems found while reading `source`.
    pub fn extend(&mut self, source: &Arc<Source>, problems: impl IntoIterator<Item = Problem>) {
        self.list.extend(problems.into_iter().map(|problem| {
            let diagnostic = Diagnostic::at(source, problem.span, problem.message).maybe_help(problem.help);
            let related = problem.related.into_iter();
            related.fold(diagnostic, |diagnostic, (span, what)| diagnostic.related(source, span, what))
        }));
    }

    /// Adds what another step has found, but nothing twice.
    pub fn append(&mut self, others: &Self) {
        for other in &others.list {
            if !self.list.iter().any(|known| known.is_same(other)) {
                self.list.push(other.clone());
            }
        }
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are, warnings included.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// How many there are of this severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.list.iter().filter(|diagnostic| diagnostic.severity == severity).count()
    }

    /// The mistakes, in the order of files and lines.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<&Diagnostic> = self.list.iter().collect();
        sorted.sort_by_key(|diagnostic| diagnostic.place.as_ref().map(|place| (&place.source.path, place.span.start)));
        sorted
    }

    /// As text for people, ending with their count; `colour`: with terminal colours.
    pub fn render(&self, colour: bool) -> String {
        let sorted = self.sorted();
        let mut out: String = sorted.iter().take(SHOWN).map(|diagnostic| diagnostic.render(colour) + "\n").collect();
        if sorted.len() > SHOWN {
            let _ = writeln!(out, "… and {} more", sorted.len() - SHOWN);
        }
        let count = |severity, one: &str, many: &str| match self.count(severity) {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let mistakes = count(Severity::Error, "mistake", "mistakes");
        let warnings = count(Severity::Warning, "warning", "warnings");
        let counts: Vec<String> = mistakes.into_iter().chain(warnings).collect();
        if !counts.is_empty() {
            let _ = writeln!(out, "{} found", counts.join(" and "));
        }
        out
    }
}

/// Mistakes that are shown at once, at most.
const SHOWN: usize = 100;

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self { list: vec![diagnostic] }
    }
}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offending_text_is_underlined() {
        let source = Source::new("systems/x.toml", "name = \"x\"\n\n[pd.a]\n  prioriti = 1\n");
        let diagnostic = Diagnostic::at(&source, 21..29, "unknown key")
            .related(&source, 12..18, "in this table")
            .help("did you mean `priority`?");
        assert_eq!(
            diagnostic.render(false),
            "error: unknown key
 --> systems/x.toml:4:3
  |
4 |   prioriti = 1
  |   ^^^^^^^^
 --> systems/x.toml:3:1
  |
3 | [pd.a]
  | ------ in this table
  = help: did you mean `priority`?
"
        );
        assert!(diagnostic.render(true).contains("\x1b[1;31m^^^^^^^^\x1b[0m"));
    }

    #[test]
    fn what_is_no_text_or_no_file_is_refused_with_its_place() {
        let found = |bytes: &[u8]| Source::from_bytes(Path::new("x"), bytes.to_vec()).expect_err("no text");
        let diagnostic = found(b"name = 1\nb = \"\xe9\"\n");
        assert!(diagnostic.render(false).contains("--> x:2:6"), "{}", diagnostic.render(false));
        assert!(found(b"\xff\xfen\0").help.is_some_and(|help| help.contains("UTF-16")));
        let folder = tempfile::tempdir().expect("a folder");
        let long = folder.path().join("long");
        std::fs::write(&long, vec![b'\n'; MAX_FILE + 1]).expect("a file");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        for (path, what) in [
            (folder.path().to_path_buf(), "it is a folder"),
            (pipe, "it is no regular file"),
            (PathBuf::from("/dev/zero"), "it is no regular file"),
            (long, "which no description has"),
            (folder.path().join("none"), "there is no such file"),
        ] {
            let diagnostic = Source::read(&path).expect_err("it is refused");
            assert!(diagnostic.message.contains(what), "{}", diagnostic.message);
        }
    }

    #[test]
    fn very_many_mistakes_are_not_all_shown() {
        let source = Source::new("x", "a\n");
        let mut diagnostics = Diagnostics::default();
        (0..1000).for_each(|_| diagnostics.push(Diagnostic::at(&source, 0..1, "x")));
        diagnostics.push(Diagnostic::at(&source, 0..1, "odd").warning());
        let text = diagnostics.render(false);
        assert!(text.ends_with("… and 901 more\n1000 mistakes and 1 warning found\n"), "{text}");
    }

    #[test]
    fn nothing_in_a_file_reaches_the_terminal_as_a_command() {
        let source = Source::new("x", "a = \u{1b}[2J\n");
        assert!(!Diagnostic::at(&source, 0..1, "x").render(false).contains('\u{1b}'));
    }

    #[test]
    fn any_span_can_be_shown() {
        let source = Source::new("x", "ä\n");
        for span in [0..0, 0..99, 1..2, 99..100, 3..3] {
            Diagnostic::at(&source, span, "x").render(false);
        }
    }
}
