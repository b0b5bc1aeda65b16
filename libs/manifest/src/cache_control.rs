//! Values of the type `cache-control`: what caches may do with files, by patterns of their paths.
//!
//! In a system file it is a table like `{ "*.html" = "no-cache", "/assets/*" = "max-age=31536000,
//! immutable" }`. The server (`libs/http/src/caching.rs`) looks patterns up; here they and the
//! directives of RFC 9111 are checked.

use crate::problem::{Located, Problem, suggest};
use crate::reader::{Entry, Problems};

/// Directives for responses (RFC 9111 §5.2.2, RFC 5861, RFC 8246), and whether each takes seconds.
const DIRECTIVES: &[(&str, bool)] = &[
    ("immutable", false),
    ("max-age", true),
    ("must-revalidate", false),
    ("must-understand", false),
    ("no-cache", false),
    ("no-store", false),
    ("no-transform", false),
    ("private", false),
    ("proxy-revalidate", false),
    ("public", false),
    ("s-maxage", true),
    ("stale-if-error", true),
    ("stale-while-revalidate", true),
];

/// Reads the table: patterns and their directives, in the order of the file.
pub fn read(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<(String, String)>> {
    let before = problems.len();
    if !entry.is_table() {
        let what = format!("`{}` must be a table, not {}", entry.key.value, entry.kind());
        problems.push(Problem::new(entry.span(), what).help("for all files: `{ \"*\" = \"no-cache\" }`"));
        return None;
    }
    let mut table = entry.table(format!("`{}`", entry.key.value), problems)?;
    let mut rules = Vec::new();
    for rule in table.rest(problems) {
        check_pattern(&rule.key, problems);
        if let Some(directives) = rule.text(problems) {
            check_directives(&directives, problems);
            rules.push((rule.key.value, directives.value));
        }
    }
    (problems.len() == before).then_some(rules)
}

fn check_pattern(pattern: &Located<String>, problems: &mut Problems) {
    let text = pattern.value.as_str();
    let help = if text.is_empty() {
        "write a file's name like `index.html`, a pattern like `*.css`, or a path like `/assets/*`".to_string()
    } else if let Some(odd) = text.chars().find(|letter| "?[]{}\\".contains(*letter) || letter.is_control()) {
        format!("only `*` is special, and stands for any letters: write `*` in the place of `{}`", odd.escape_default())
    } else if text.contains("**") {
        "one `*` stands for any letters, `/` among them".to_string()
    } else if text.ends_with('/') {
        format!("it is files that have rules: write `/{}/*` for all in that folder", text.trim_matches('/'))
            .replace("//", "/")
    } else if text.contains('/') && !text.starts_with('/') {
        format!("a path begins with a slash: write `/{text}`")
    } else if text.starts_with('.') {
        format!("no file has this name: write `*{text}` for all files that end so")
    } else {
        return;
    };
    problems.push(Problem::new(pattern.span.clone(), format!("`{text}` is not a pattern of files")).help(help));
}

fn check_directives(directives: &Located<String>, problems: &mut Problems) {
    let mut seen: Vec<String> = Vec::new();
    for directive in directives.value.split(',').map(str::trim) {
        let (name, argument) = match directive.split_once('=') {
            Some((name, argument)) => (name, Some(argument)),
            None => (directive, None),
        };
        let name = name.to_ascii_lowercase();
        let (what, help) = match DIRECTIVES.iter().find(|(known, _)| *known == name) {
            None => (
                format!("`{directive}` is not a directive of Cache-Control"),
                suggest(&name, DIRECTIVES.iter().map(|(known, _)| *known)),
            ),
            Some((_, true)) if !argument.is_some_and(is_seconds) => (
                format!("`{name}` needs a number of seconds"),
                Some(format!("write `{name}=3600` for an hour, `{name}=31536000` for a year")),
            ),
            Some((_, false)) if argument.is_some() => {
                (format!("`{name}` takes no value"), Some(format!("write `{name}`")))
            }
            Some(_) if seen.contains(&name) => {
                (format!("`{name}` is there twice"), Some("each directive stands once".to_string()))
            }
            Some(_) => {
                seen.push(name);
                continue;
            }
        };
        let problem = Problem::new(directives.span.clone(), what);
        problems.push(match help {
            Some(help) => problem.help(help),
            None => problem,
        });
    }
}

/// RFC 9111 §1.2.2: caches must understand 31 bits.
fn is_seconds(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i32>().is_ok()
}
