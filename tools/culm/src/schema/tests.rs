//! Schemas against every file of the tree, and against the bad examples: what a reader takes a
//! schema takes, and what a schema can know it refuses. The validator here knows the keywords that
//! the schemas use, and fails on any other; of patterns it knows whether text is empty, so that
//! those are held against the readers' own tests.

use super::{Of, schema};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is wrong with `value`; `root` holds the definitions.
fn wrong(schema: &Value, value: &Value, root: &Value) -> Option<String> {
    let keywords = schema.as_object().expect("a schema is an object");
    keywords.iter().find_map(|(keyword, argument)| violated(keyword, argument, keywords, value, root))
}

fn violated(
    keyword: &str,
    argument: &Value,
    schema: &serde_json::Map<String, Value>,
    value: &Value,
    root: &Value,
) -> Option<String> {
    let refuse = |is_wrong: bool| is_wrong.then(|| format!("{keyword} {argument}: {value}"));
    match keyword {
        "$schema" | "title" | "description" | "definitions" => None,
        "$ref" => wrong(root.pointer(argument.as_str()?.strip_prefix('#')?).expect("it is defined"), value, root),
        "allOf" => argument.as_array()?.iter().find_map(|schema| wrong(schema, value, root)),
        "anyOf" => refuse(argument.as_array()?.iter().all(|schema| wrong(schema, value, root).is_some())),
        "enum" => refuse(!argument.as_array()?.contains(value)),
        "type" => {
            let fits = |name: &Value| match name.as_str() {
                Some("object") => value.is_object(),
                Some("array") => value.is_array(),
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                Some("integer") => value.is_i64() || value.is_u64(),
                other => panic!("no type of the schemas: {other:?}"),
            };
            refuse(!argument.as_array().map_or_else(|| fits(argument), |names| names.iter().any(fits)))
        }
        "minimum" => refuse(value.as_f64()? < argument.as_f64()?),
        "maximum" => refuse(value.as_f64()? > argument.as_f64()?),
        "maxLength" => refuse(value.as_str()?.len() as u64 > argument.as_u64()?),
        "pattern" => refuse(value.as_str()?.is_empty()),
        "minItems" => refuse((value.as_array()?.len() as u64) < argument.as_u64()?),
        "maxItems" => refuse(value.as_array()?.len() as u64 > argument.as_u64()?),
        "uniqueItems" => {
            let items = value.as_array()?;
            refuse((1..items.len()).any(|index| items[..index].contains(&items[index])))
        }
        "items" => value.as_array()?.iter().find_map(|item| wrong(argument, item, root)),
        "required" => {
            argument.as_array()?.iter().find_map(|key| refuse(value.as_object()?.get(key.as_str()?).is_none()))
        }
        "propertyNames" => value.as_object()?.keys().find_map(|key| wrong(argument, &Value::from(key.as_str()), root)),
        "properties" => {
            let properties = argument.as_object()?;
            let known = value.as_object()?.iter().filter_map(|(key, value)| Some((properties.get(key)?, value)));
            known.into_iter().find_map(|(schema, value)| wrong(schema, value, root))
        }
        "additionalProperties" => {
            let known = schema.get("properties").and_then(Value::as_object);
            let others =
                value.as_object()?.iter().filter(|(key, _)| known.is_none_or(|known| !known.contains_key(*key)));
            others.into_iter().find_map(|(key, value)| match argument {
                Value::Bool(false) => Some(format!("no key `{key}`")),
                schema => wrong(schema, value, root),
            })
        }
        other => panic!("no keyword of the schemas: {other}"),
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A TOML file as a JSON value, if it is TOML.
fn read(path: &Path) -> Option<Value> {
    let table: toml::Table = std::fs::read_to_string(path).ok()?.parse().ok()?;
    serde_json::to_value(table).ok()
}

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = entries.map(|entry| entry.expect("readable").path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect()
}

fn components(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => components(&path, found),
            path if path.ends_with("component.toml") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn every_file_of_the_tree_is_taken() {
    let mut manifests = Vec::new();
    for folder in ["apps", "drivers", "services", "virtualisers", "bench/components", "tests/components"] {
        components(&root().join(folder), &mut manifests);
    }
    let systems = ["systems", "tests/systems", "bench/systems", "tests/bad/world/systems", "tests/bad/odd"];
    let systems: Vec<PathBuf> = systems.iter().flat_map(|folder| files(folder)).collect();
    let boards: Vec<PathBuf> = ["boards", "tests/bad/world/boards"].iter().flat_map(|folder| files(folder)).collect();
    assert!(manifests.len() >= 20 && systems.len() >= 20 && boards.len() >= 3);
    for (of, files) in [(Of::System, systems), (Of::Board, boards), (Of::Component, manifests)] {
        let schema = schema(of);
        for file in files {
            let value = read(&file).unwrap_or_else(|| panic!("{} is no TOML", file.display()));
            assert_eq!(wrong(&schema, &value, &schema), None, "{}", file.display());
        }
    }
}

#[test]
fn what_a_schema_can_know_it_refuses() {
    let system = [
        "unknown-key-of-system",
        "unknown-key-of-device",
        "misspelt-component",
        "list-of-domains",
        "numbers-and-booleans-in-quotes",
        "text-without-quotes",
        "net-is-a-number",
        "negative-numbers",
        "fractions",
        "bad-choice",
        "no-component",
        "no-priority",
        "queue-not-power-of-two",
        "priority-out-of-range",
        "channel-with-three-ends",
        "region-with-wrong-permission",
        "domain-without-name",
        "channel-with-one-bracket",
        "supervisor-supervised",
        "component-as-system",
        "region-of-unknown-kind",
    ];
    let board = ["misspelt", "list-of-devices"];
    let component = ["misspelt", "single-brackets", "names-twice", "default-out-of-bounds", "empty", "cargo", "system"];
    let refused = [
        (Of::System, "tests/bad", &system[..]),
        (Of::Board, "tests/bad/boards", &board[..]),
        (Of::Component, "tests/bad/components", &component[..]),
    ];
    for (of, folder, names) in refused {
        let schema = schema(of);
        for name in names {
            let file = root().join(folder).join(format!("{name}.toml"));
            let value = read(&file).unwrap_or_else(|| panic!("{name} is no TOML"));
            assert!(wrong(&schema, &value, &schema).is_some(), "{name} passes the schema");
        }
    }
}

#[test]
fn schemas_and_readers_know_the_same_keys() {
    let page = |name: &str| std::fs::read_to_string(root().join("docs/src/reference").join(name)).expect("a page");
    for (of, page) in [(Of::Board, page("board-file.md")), (Of::Component, page("component-file.md"))] {
        let mut keys = Vec::new();
        keys_of(&schema(of), &mut keys);
        let missing: Vec<&String> = keys.iter().filter(|key| !page.contains(key.as_str())).collect();
        assert!(missing.is_empty(), "not in the book: {missing:?}");
    }
}

fn keys_of(schema: &Value, keys: &mut Vec<String>) {
    match schema {
        Value::Object(object) => {
            keys.extend(
                object.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.keys().cloned()),
            );
            object.values().for_each(|value| keys_of(value, keys));
        }
        Value::Array(all) => all.iter().for_each(|value| keys_of(value, keys)),
        _ => {}
    }
}
