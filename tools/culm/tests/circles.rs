//! The tool's modules import each other in one direction: no module imports, by way of others, what
//! imports it. Tests within a file may import what they like.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each module's imports, by paths from the crate's root.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Reads the modules in a folder and below, each with its code, less its comments and tests.
fn modules(folder: &Path, path: &[String], found: &mut BTreeMap<Vec<String>, String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let file = entry.expect("its entries can be read").path();
        let name = file.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let inner = [path, std::slice::from_ref(&name)].concat();
        if name == "tests" {
            continue;
        }
        if file.is_dir() {
            modules(&file, &inner, found);
        } else if file.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&file).expect("it is text");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            let own = if matches!(name.as_str(), "mod" | "lib") { path.to_vec() } else { inner };
            found.insert(own, lines.collect::<Vec<_>>().join(" "));
        }
    }
}

/// Returns the paths that the tree of a `use` names, each behind `before`.
fn paths(tree: &str, before: &str) -> Vec<String> {
    let (mut found, mut depth, mut begin) = (Vec::new(), 0, 0);
    let ends = tree.char_indices().chain([(tree.len(), ',')]);
    for (at, character) in ends {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let one = tree[begin..at].trim();
                begin = at + 1;
                match one.split_once('{') {
                    Some((head, rest)) => found.extend(paths(rest.trim_end_matches('}'), &format!("{before}{head}"))),
                    None if one.is_empty() => {}
                    None => found.push(format!("{before}{one}")),
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the module that a path names a part of, if it is one of these.
fn module_of(path: &str, own: &[String], modules: &BTreeMap<Vec<String>, String>) -> Option<Vec<String>> {
    let mut parts: Vec<&str> = path.split("::").map(str::trim).collect();
    let mut from: Vec<String> = match parts[0] {
        "crate" => Vec::new(),
        "self" | "super" => own.to_vec(),
        _ => return None,
    };
    while matches!(parts.first(), Some(&("crate" | "self" | "super"))) {
        if parts.remove(0) == "super" {
            from.pop();
        }
    }
    from.extend(parts.into_iter().map(str::to_string));
    while !from.is_empty() && !modules.contains_key(&from) {
        from.pop();
    }
    (!from.is_empty() && from != own).then_some(from)
}

fn imports(root: &Path) -> Imports {
    let mut all = BTreeMap::new();
    modules(root, &[], &mut all);
    let imports_of = |own: &Vec<String>, code: &String| {
        let statements = code.split(" use ").skip(1).filter_map(|rest| rest.split_once(';'));
        let named = statements.flat_map(|(tree, _)| paths(tree, ""));
        named.filter_map(|path| module_of(&path, own, &all)).collect()
    };
    all.iter().map(|(own, code)| (own.clone(), imports_of(own, &format!(" {code}")))).collect()
}

/// Returns the modules that import themselves by way of others.
fn in_circles(imports: &Imports) -> Vec<String> {
    let leads_back = |module: &Vec<String>| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![module]);
        while let Some(at) = next.pop() {
            for imported in imports.get(at).into_iter().flatten() {
                if imported == module {
                    return true;
                }
                if seen.insert(imported) {
                    next.push(imported);
                }
            }
        }
        false
    };
    imports.keys().filter(|module| leads_back(module)).map(|module| module.join("::")).collect()
}

#[test]
fn no_module_of_the_tool_imports_what_imports_it() {
    let imports = imports(Path::new("src"));
    assert!(imports.len() > 100 && imports.values().map(BTreeSet::len).sum::<usize>() > 300, "they are not found");
    assert_eq!(in_circles(&imports), Vec::<String>::new(), "move what both need to a module of its own");
}
