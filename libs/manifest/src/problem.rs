//! Problems of a description, each with its place: the one form in which every reader reports.

use core::ops::Range;

/// One thing that is wrong in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The offending bytes of the file.
    pub span: Range<usize>,
    /// The problem.
    pub message: String,
    /// Advice on what would be right, if there is some.
    pub help: Option<String>,
    /// Other places of the file that have to do with it, each with what it is.
    pub related: Vec<(Range<usize>, String)>,
}

impl Problem {
    /// A problem without advice.
    pub fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None, related: Vec::new() }
    }

    /// The same problem with advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same problem with advice, where there is some.
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// The same problem with another place of the file that has to do with it.
    pub fn related(mut self, span: Range<usize>, what: impl Into<String>) -> Self {
        self.related.push((span, what.into()));
        self
    }

    /// Line and column of the problem in `text`, both counted from 1.
    pub fn position(&self, text: &str) -> (usize, usize) {
        position(text, self.span.start)
    }
}

/// Problems found so far in one file.
pub type Problems = Vec<Problem>;

/// Line and column (in characters) of a byte offset in `text`, both counted from 1.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// A value and the bytes of the file that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands in its file.
    pub span: Range<usize>,
}

impl<T> Located<T> {
    /// A value with its place.
    pub fn new(value: T, span: Range<usize>) -> Self {
        Self { value, span }
    }

    /// The same place with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: change(self.value), span: self.span }
    }
}

impl<T> core::ops::Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Longest name that is compared with others letter by letter: no name of ours is nearly as long.
const LONGEST: usize = 64;

/// The name among `known` that `wrong` was most likely meant to be, if any is near.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wrong.len() > LONGEST {
        return None;
    }
    let wrong_folded = fold(wrong);
    known
        .into_iter()
        .map(|name| (distance(&wrong_folded, &fold(name)), name))
        .filter(|(distance, name)| *distance <= name.chars().count().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Advice for a name that is not among `known`: the nearest, or all of them where they are few.
pub fn suggest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<String> {
    if let Some(name) = nearest(wrong, known.clone()).or_else(|| only_one_with(wrong, known.clone())) {
        return Some(format!("did you mean `{name}`?"));
    }
    let mut names: Vec<&str> = known.into_iter().collect();
    names.sort_unstable();
    match names.len() {
        0 => None,
        1 => Some(format!("the only choice is `{}`", names[0])),
        2..=20 => Some(format!("choose one of `{}`", names.join("`, `"))),
        count => Some(format!("there are {count} to choose from, none of a similar name")),
    }
}

/// The name of which `wrong` is one of the words, or which is one of the words of `wrong`, if there
/// is just one: `virtio` for `net-virtio`.
fn only_one_with<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let has_word = |name: &str, word: &str| name.split(['-', '_']).any(|part| part.eq_ignore_ascii_case(word));
    let mut found = known.into_iter().filter(|name| has_word(name, wrong) || has_word(wrong, name));
    found.next().filter(|_| found.next().is_none())
}

fn fold(name: &str) -> Vec<char> {
    name.chars().map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect()
}

/// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours cost one
/// each.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let substitution = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = substitution.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_slips_of_the_finger() {
        let known = ["priority", "period", "component", "core"];
        assert_eq!(nearest("prioriti", known), Some("priority"));
        assert_eq!(nearest("cmoponent", known), Some("component"));
        assert_eq!(nearest("croe", known), Some("core"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("net-rx", ["net_rx"]), Some("net_rx"));
        assert_eq!(nearest(&"a".repeat(1 << 20), known), None);
    }

    #[test]
    fn a_word_of_one_name_only_is_taken_for_it() {
        let known = ["net-virtio", "net-misbehave", "serial-pl011"];
        assert_eq!(suggest("virtio", known).as_deref(), Some("did you mean `net-virtio`?"));
        assert_eq!(
            suggest("net", known).as_deref(),
            Some("choose one of `net-misbehave`, `net-virtio`, `serial-pl011`")
        );
    }

    #[test]
    fn positions_count_from_one_and_in_characters() {
        assert_eq!(position("ab\nçd", 0), (1, 1));
        assert_eq!(position("ab\nçd", 5), (2, 2));
        assert_eq!(position("ab", 99), (1, 3));
    }
}
