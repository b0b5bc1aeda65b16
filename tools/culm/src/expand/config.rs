//! Configuration: what a description gives, checked against what the component's manifest asks for.

use super::draft::{Draft, Rules};
use super::memory::in_words;
use crate::diagnostics::Source;
use crate::image::archive;
use crate::plan::ConfigValue;
use culm_manifest::reader::{Problems, TableReader};
use culm_manifest::{ConfigField, ConfigType, Located, Manifest, Problem, RESERVED, Value};

/// One value per field of the manifest, in its order.
pub fn resolve<'a>(
    draft: &mut Draft<'a>,
    domain: &Located<String>,
    manifest: &'a Manifest,
    table: Option<TableReader<'a>>,
) -> Vec<ConfigValue> {
    let mut problems = Problems::new();
    let mut table = table.map(|mut table| {
        table.what = format!("the configuration of `{}`", manifest.name);
        table
    });
    let mut values = Vec::new();
    for field in &manifest.config {
        let entry = table.as_mut().and_then(|table| table.take(&field.name));
        let value = match entry {
            Some(entry) => field.read(&entry, &mut problems),
            None => {
                if field.required() {
                    missing(draft, domain, table.as_ref(), field);
                }
                field.default.clone().map(|value| Located::new(value, domain.span.clone()))
            }
        };
        values.push(value.map_or(ConfigValue::Absent, |value| convert(draft, field, value)));
    }
    if let Some(mut table) = table {
        report_misplaced(&mut table, domain, manifest, &mut problems);
        table.finish(&mut problems);
    }
    draft.diagnostics.extend(draft.source, problems);
    values
}

/// Reports keys that are meant for the table in which the configuration stands.
fn report_misplaced<'a>(
    table: &mut TableReader<'a>,
    domain: &Located<String>,
    manifest: &'a Manifest,
    problems: &mut Problems,
) {
    let connections = manifest.connections.iter().map(|connection| (connection.name.as_str(), "a connection"));
    let keys = RESERVED.iter().map(|key| (*key, "a key"));
    let is_field = |name: &str| manifest.config.iter().any(|field| field.name == name);
    for (name, what) in connections.chain(keys).filter(|(name, _)| !is_field(name)) {
        if !table.has(name) {
            continue;
        }
        let Some(entry) = table.take(name) else { continue };
        let message = format!("`{name}` is {what} of `{}`, and no part of its configuration", domain.value);
        problems.push(Problem::new(entry.key.span, message).help("write it beside `config`, not in it"));
    }
}

fn missing(draft: &mut Draft<'_>, domain: &Located<String>, table: Option<&TableReader<'_>>, field: &ConfigField) {
    let span = table.map_or(&domain.span, |table| &table.span);
    let what = if field.description.is_empty() { String::new() } else { format!(": {}", field.description) };
    let diagnostic = draft
        .at(span, format!("the configuration of `{}` has no `{}`", domain.value, field.name))
        .help(format!("add `{} = …` to its `config`, of the type {}{what}", field.name, field.kind.name()));
    draft.error(diagnostic);
}

fn convert(draft: &mut Draft<'_>, field: &ConfigField, value: Located<Value>) -> ConfigValue {
    match value.value {
        Value::Bool(value) => ConfigValue::Bool(value),
        Value::Unsigned(value) => ConfigValue::Unsigned(value),
        Value::Signed(value) => ConfigValue::Signed(value),
        Value::Text(text) => ConfigValue::Text(text),
        Value::Mac(mac) => ConfigValue::Mac(mac),
        Value::List(list) => ConfigValue::List(list),
        Value::Pairs(pairs) => ConfigValue::Pairs(pairs),
        Value::Path(path) => {
            let path = Located::new(path, value.span);
            match field.kind {
                ConfigType::Folder => folder(draft, path),
                ConfigType::FirewallRules => rules(draft, &path),
                _ => file(draft, path),
            }
        }
    }
}

fn file(draft: &mut Draft<'_>, path: Located<String>) -> ConfigValue {
    let full = draft.beside(&path.value);
    match std::fs::metadata(&full) {
        Ok(metadata) if metadata.is_file() => packed(draft, &path, metadata.len()),
        Ok(metadata) if metadata.is_dir() => wrong_path(draft, &path, "is a folder, not a file"),
        Ok(_) => wrong_path(draft, &path, "is no regular file"),
        Err(error) => wrong_path(draft, &path, &unreadable(&error)),
    }
    ConfigValue::File(full)
}

/// Reads a file of rules, which are checked where the networks are known.
fn rules(draft: &mut Draft<'_>, path: &Located<String>) -> ConfigValue {
    let full = draft.as_written(&path.value);
    // A rule has several words, and seldom a file's name.
    if path.value.contains(' ') && !full.exists() {
        let message = "rules in the system file stand in several lines; in one they are the path of a file";
        let help = "put three quotation marks before them and behind, and each rule in a line: '''\n…\n'''";
        let diagnostic = draft.at(&path.span, message).help(help);
        draft.error(diagnostic);
        return ConfigValue::Absent;
    }
    match std::fs::metadata(&full) {
        Ok(metadata) if metadata.is_file() => match Source::read(&full) {
            Ok(source) => {
                let text = source.text.clone();
                draft.rules.push(Rules { source, place: path.span.clone() });
                return ConfigValue::Text(text);
            }
            Err(diagnostic) => draft.error(diagnostic),
        },
        Ok(_) => wrong_path(draft, path, "is no regular file"),
        Err(error) => wrong_path(draft, path, &unreadable(&error)),
    }
    ConfigValue::Absent
}

fn folder(draft: &mut Draft<'_>, path: Located<String>) -> ConfigValue {
    let full = draft.beside(&path.value);
    match std::fs::metadata(&full) {
        Ok(metadata) if metadata.is_dir() => match archive::list_folder(&draft.as_written(&path.value)) {
            Ok(files) => {
                let sizes = files.values().filter_map(|file| std::fs::metadata(file).ok()).map(|file| file.len());
                let size = sizes.fold(0, u64::saturating_add);
                packed(draft, &path, size);
            }
            Err(failure) => {
                let diagnostic = draft.at(&path.span, failure.message()).maybe_help(failure.advice().map(Into::into));
                draft.error(diagnostic);
            }
        },
        Ok(metadata) if metadata.is_file() => wrong_path(draft, &path, "is a file, not a folder"),
        Ok(_) => wrong_path(draft, &path, "is no folder"),
        Err(error) => wrong_path(draft, &path, &unreadable(&error)),
    }
    ConfigValue::Folder(full)
}

fn unreadable(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "does not exist".to_string(),
        _ => format!("cannot be read: {error}"),
    }
}

/// Checks the size that a file or a folder will have in the image: more than the board's memory can
/// never be there.
fn packed(draft: &mut Draft<'_>, path: &Located<String>, size: u64) {
    let board = &draft.board.board;
    if size > board.memory.size {
        let message = format!("`{}` has {}, more than the board's memory", path.value, in_words(size));
        let diagnostic = draft.at(&path.span, message).help(format!(
            "the memory of `{}` has {}, and the image is in it",
            board.name,
            in_words(board.memory.size)
        ));
        draft.error(diagnostic);
        return;
    }
    draft.packed.push((path.clone(), size));
}

fn wrong_path(draft: &mut Draft<'_>, path: &Located<String>, what: &str) {
    let diagnostic =
        draft.at(&path.span, format!("`{}` {what}", path.value)).help("paths are relative to the system file");
    draft.error(diagnostic);
}
