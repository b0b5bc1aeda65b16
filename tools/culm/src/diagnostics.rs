//! What is wrong with a description, shown in it: file, line, the offending text underlined, what would be right.
//!
//! Every step that can find a mistake adds to one [`Diagnostics`] and goes on, so that one run shows all of them.

use culm_manifest::problem::{Problem, position};
use std::fmt::Write as _;
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

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Arc<Self>, Diagnostic> {
        let problem = |what: String| Diagnostic::general(format!("cannot read {}: {what}", path.display()));
        let bytes = std::fs::read(path).map_err(|error| problem(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| problem("it is not UTF-8 text".into()))?;
        Ok(Self::new(path, text))
    }
}

/// A place in a file.
#[derive(Clone, Debug)]
pub struct Place {
    /// The file.
    pub source: Arc<Source>,
    /// The bytes meant.
    pub span: Range<usize>,
}

/// One mistake.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// What is wrong.
    pub message: String,
    /// Where; `None` where no file can be pointed into.
    pub place: Option<Place>,
    /// Other places that have to do with it, each with what it is.
    pub related: Vec<(Place, String)>,
    /// What would be right.
    pub help: Option<String>,
    /// More to know, printed as it stands (a table, for example).
    pub note: Option<String>,
}

impl Diagnostic {
    /// A mistake that no file can be pointed into for.
    pub fn general(message: impl Into<String>) -> Self {
        Self { message: message.into(), place: None, related: Vec::new(), help: None, note: None }
    }

    /// A mistake at `span` of `source`.
    pub fn at(source: &Arc<Source>, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { place: Some(Place { source: source.clone(), span }), ..Self::general(message) }
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
        self.related.push((Place { source: source.clone(), span }, what.into()));
        self
    }

    /// The same with more to know.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// As text for people; `colour`: with terminal colours.
    pub fn render(&self, colour: bool) -> String {
        let paint = Paint { colour };
        let mut out = format!("{}: {}\n", paint.red("error"), paint.bold(&self.message));
        let places = self.place.iter().map(|place| (place, None));
        let related = self.related.iter().map(|(place, what)| (place, Some(what.as_str())));
        let mut margin = 1;
        for (place, what) in places.chain(related) {
            margin = excerpt(&mut out, &paint, place, what);
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
fn excerpt(out: &mut String, paint: &Paint, place: &Place, what: Option<&str>) -> usize {
    let text = &place.source.text;
    let (line, column) = position(text, place.span.start);
    let content = text.lines().nth(line - 1).unwrap_or("");
    let margin = line.to_string().len();
    let space = " ".repeat(margin);
    let _ = writeln!(out, "{space}{} {}:{line}:{column}", paint.blue("-->"), place.source.path.display());
    let _ = writeln!(out, "{space} {}", paint.blue("|"));
    let _ = writeln!(out, "{} {} {}", paint.blue(&line.to_string()), paint.blue("|"), content.replace('\t', " "));
    // What goes on over further lines is underlined to the end of its first.
    let rest = content.chars().count().saturating_sub(column - 1);
    let wanted = text.get(place.span.clone()).map_or(1, |span| span.lines().next().unwrap_or("").chars().count());
    let marks = "^".repeat(wanted.min(rest).max(1));
    let marks = if what.is_some() { paint.blue(&marks.replace('^', "-")) } else { paint.red(&marks) };
    let label = what.map(|what| format!(" {}", paint.blue(what))).unwrap_or_default();
    let _ = writeln!(out, "{space} {} {}{marks}{label}", paint.blue("|"), " ".repeat(column - 1));
    margin
}

/// Terminal colours, or none.
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(&self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn red(&self, text: &str) -> String {
        self.with("1;31", text)
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
        self.list.extend(
            problems
                .into_iter()
                .map(|problem| Diagnostic::at(source, problem.span, problem.message).maybe_help(problem.help)),
        );
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The mistakes, in the order of files and lines.
    pub fn sorted(&self) -> Vec<&Diagnostic> {
        let mut sorted: Vec<&Diagnostic> = self.list.iter().collect();
        sorted.sort_by_key(|diagnostic| {
            diagnostic.place.as_ref().map(|place| (place.source.path.clone(), place.span.start))
        });
        sorted
    }

    /// As text for people, ending with their count; `colour`: with terminal colours.
    pub fn render(&self, colour: bool) -> String {
        let mut out: String = self.sorted().iter().map(|diagnostic| diagnostic.render(colour) + "\n").collect();
        let count = match self.len() {
            1 => "1 mistake found".to_string(),
            count => format!("{count} mistakes found"),
        };
        let _ = writeln!(out, "{count}");
        out
    }
}

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
    fn any_span_can_be_shown() {
        let source = Source::new("x", "ä\n");
        for span in [0..0, 0..99, 1..2, 99..100, 3..3] {
            Diagnostic::at(&source, span, "x").render(false);
        }
    }
}
