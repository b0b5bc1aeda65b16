//! The language is its own test suite: one broken description per mistake with the exact message,
//! and what a good description expands to. `CULM_BLESS=1` writes what the tool says now; read the
//! difference before you commit it.

use culm_tool::description::board::BoardFile;
use culm_tool::description::catalogue::Catalogue;
use culm_tool::diagnostics::{Diagnostics, Source};
use culm_tool::{expand, show};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Root of the miniature source tree that the descriptions are made from.
const WORLD: &str = "../../tests/bad/world";

fn catalogue() -> Catalogue {
    Catalogue::read(Path::new(WORLD))
}

/// Compares with the file, or writes it where the person running the test says so.
fn compare(expected: &Path, found: &str) -> Result<(), String> {
    if std::env::var_os("CULM_BLESS").is_some() {
        std::fs::write(expected, found).map_err(|error| format!("cannot write {}: {error}", expected.display()))?;
        return Ok(());
    }
    let wanted = std::fs::read_to_string(expected).unwrap_or_default();
    if wanted == found {
        return Ok(());
    }
    Err(format!("{}\n--- expected\n{wanted}--- found\n{found}", expected.display()))
}

/// Paths as they are in the tree, wherever it lies.
fn neutral(text: &str) -> String {
    let root = Path::new("../..").canonicalize().expect("the tree is there");
    text.replace("../../", "").replace(&format!("{}/", root.display()), "")
}

/// The TOML files of a folder, in the order of their names.
fn files_in(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("its entries can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    files
}

/// Compares what is found in each file of a folder with the message beside it. `None` is for a file
/// in which nothing is found.
fn each_has_its_message(folder: &str, least: usize, found: impl Fn(&Path) -> Option<Diagnostics>) {
    let files = files_in(folder);
    assert!(files.len() >= least, "{} files in {folder}", files.len());
    let mut failures = Vec::new();
    for file in files {
        match found(&file) {
            None => failures.push(format!("{}: nothing is found", file.display())),
            Some(diagnostics) => {
                failures.extend(without_place(&file, &diagnostics));
                let message = neutral(&diagnostics.render(false));
                failures.extend(compare(&file.with_extension("txt"), &message).err());
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Returns what a person would look for in vain: a mistake without a place in a file, or without a
/// word on what to do.
fn without_place(file: &Path, diagnostics: &Diagnostics) -> Vec<String> {
    let lacking = diagnostics.sorted().into_iter().filter_map(|diagnostic| {
        let lacks = match (&diagnostic.place, &diagnostic.help) {
            (None, _) => "no place",
            (Some(place), _) if place.span.start > place.source.text.len() => "a place outside its file",
            (_, None) => "no advice",
            _ => return None,
        };
        Some(format!("{}: {lacks}: {}", file.display(), diagnostic.message))
    });
    lacking.collect()
}

#[test]
fn each_mistake_has_its_message() {
    let catalogue = catalogue();
    each_has_its_message("../../tests/bad", 140, |file| expand::expand(&catalogue, file, None).err());
}

#[test]
fn each_mistake_in_a_component_has_its_message() {
    let catalogue = catalogue();
    each_has_its_message("../../tests/bad/components", 9, |file| {
        let source = catalogue.source(file).expect("it is text");
        let problems = culm_manifest::Manifest::parse(&source.text).err()?;
        let mut diagnostics = Diagnostics::default();
        diagnostics.extend(&source, problems);
        Some(diagnostics)
    });
}

/// A component that breaks rules on purpose must not come into a system that somebody relies on.
#[test]
fn no_system_for_use_gets_a_component_of_the_tests() {
    let catalogue = catalogue();
    let found = |folder: &str| {
        let file = PathBuf::from(WORLD).join(folder).join("mine.toml");
        let text = "name = \"mine\"\nboard = \"virt\"\n[pd.a]\ncomponent = \"breaker\"\npriority = 1\n";
        let source = Source::new(file.clone(), text.to_string());
        expand::check_source(&catalogue, &file, &source, None).err().unwrap_or_default()
    };
    let refused = found("systems").render(false);
    assert!(refused.contains("`breaker` exists for `tests/`"), "{refused}");
    assert_eq!(found("tests").render(false), "");
}

#[test]
fn what_is_odd_has_its_warning() {
    let catalogue = catalogue();
    each_has_its_message("../../tests/bad/odd", 10, |file| {
        let checked = expand::check(&catalogue, file, None).unwrap_or_else(|found| panic!("{found}"));
        Some(checked.warnings).filter(|warnings| !warnings.is_empty())
    });
}

#[test]
fn the_systems_of_the_tree_are_well_and_not_odd() {
    let root = Path::new("../..").canonicalize().expect("the tree is there");
    let catalogue = Catalogue::read(&root);
    for folder in ["systems", "tests/systems", "bench/systems"] {
        for file in files_in(&format!("../../{folder}")) {
            // Files that a benchmark serves are made when it runs.
            if std::fs::read_to_string(&file).is_ok_and(|text| text.contains("../build/")) {
                continue;
            }
            let checked = expand::check(&catalogue, &file, None).unwrap_or_else(|found| panic!("{found}"));
            assert!(checked.warnings.is_empty(), "{}", checked.warnings);
        }
    }
}

/// Mistakes in a system of the tree with something in its file replaced.
fn mistakes_in(system: &str, from: &str, to: &str) -> String {
    let root = Path::new("../..").canonicalize().expect("the tree is there");
    let file = root.join("systems").join(system);
    let text = std::fs::read_to_string(&file).expect("it is there");
    assert!(text.contains(from), "{system} has no {from}");
    let source = Source::new(&file, text.replace(from, to));
    expand::check_source(&Catalogue::read(&root), &file, &source, None).err().unwrap_or_default().render(false)
}

#[test]
fn a_log_keeper_must_be_let_write_its_reports() {
    let found = mistakes_in("web-sd.toml", "folder = \"/crashes\", write = true", "folder = \"/crashes\"");
    assert!(found.contains("`write = true`"), "{found}");
}

#[test]
fn a_card_for_the_web_has_the_least_size_that_does() {
    let found = mistakes_in("web-sd.toml", "\"256MiB\"", "\"32MiB\"");
    assert!(found.contains("`size = \"128MiB\"`"), "{found}");
    assert_eq!(mistakes_in("web-sd.toml", "\"256MiB\"", "\"128MiB\""), "");
}

#[test]
fn who_cannot_be_called_is_refused_where_it_is_named() {
    let mistakes = |from: &str, to: &str| mistakes_in("../tests/systems/echo-client.toml", from, to);
    assert_eq!(mistakes("203.0.113.9:7000", "203.0.113.9:7001"), "");
    for wrong in ["203.0.113.9", "127.0.0.1:7000", "[::1]:7000", "203.0.113:7000", "www.example:0"] {
        let found = mistakes("203.0.113.9:7000", wrong);
        assert!(found.contains(&format!("`{wrong}` is not a service")), "{wrong}: {found}");
    }
    for wrong in ["127.0.0.53", "::1", "dns.example"] {
        let found = mistakes("bytes = 300000", &format!("name_servers = [\"fd00::53\", \"{wrong}\"]"));
        assert!(found.contains(&format!("`{wrong}` is not an IP address")), "{wrong}: {found}");
    }
    let found = mistakes_in("router.toml", "name_servers = [\"10.0.2.3\"]", "name_servers = [\"127.0.0.53\"]");
    assert!(found.contains("`127.0.0.53` is not an IPv4 address"), "{found}");
}

/// Networks that do not meet may have the same addresses: those of two cards, of two switches, and
/// of two VLANs of one; and a trunk without `vlan` has no network for what is sent without a tag.
#[test]
fn one_address_on_networks_that_do_not_meet_is_no_mistake() {
    let mut text = String::from(
        "[device.nic0]\npriority = 240\n[device.nic1]\npriority = 240\n\
        [pd.first]\ncomponent = \"switch\"\npriority = 150\nuplink = \"nic1\"\n\
        [pd.second]\ncomponent = \"switch\"\npriority = 150\n\
        config = { ports = { b = \"vlan 10\", c = \"vlan 20\", e = \"trunk 10,20\" } }\n",
    );
    for (name, network) in [("a", "nic0"), ("b", "second"), ("c", "second"), ("d", "first"), ("e", "second")] {
        text += &format!(
            "[pd.{name}]\ncomponent = \"http\"\npriority = 10\nnet = \"{network}\"\n\
            config = {{ site = \"site\", ip = \"10.0.2.15/24\" }}\n"
        );
    }
    let (catalogue, file) = (catalogue(), PathBuf::from(WORLD).join("mine.toml"));
    let found = |text: &str| {
        let source = Source::new(file.clone(), text.to_string());
        expand::check_source(&catalogue, &file, &source, None).err().unwrap_or_default().render(false)
    };
    assert_eq!(found(&text), "");
    let met = found(&text.replace("vlan 20", "vlan 10"));
    assert!(met.contains("10.0.2.15 is the address of `b` too"), "{met}");
}

/// A package that was fetched can be looked into, though no file in it is known to the tests.
#[test]
fn a_package_that_was_fetched_is_known_by_its_files() {
    let build = tempfile::tempdir().expect("there is a place for temporary files");
    let mut catalogue = catalogue();
    catalogue.tree.build = build.path().to_path_buf();
    let package = build.path().join("debian/bookworm-arm64/some-tools");
    std::fs::create_dir_all(package.join("bin")).expect("it can be written");
    std::fs::write(package.join("bin/tool"), "a program").expect("it can be written");
    std::fs::write(package.join(".complete"), "some-tools").expect("it can be written");
    let text = "[pd.monitor]\ncomponent = \"vmm\"\npriority = 20\nguest = \"tiny\"\n\
        [guest.tiny]\nkernel = \"debian:some-tools\"\nmemory = \"16MiB\"\npriority = 10\n\
        files = { init = \"debian:some-tools/bin/tool\", b = \"debian:some-tools/bin/tol\" }\n";
    let source = Source::new("tiny.toml", text.to_string());
    let checked = expand::check_source(&catalogue, Path::new("tiny.toml"), &source, None);
    let found = checked.expect_err("a file that is not there").render(false);
    for message in ["the package `some-tools` has no kernel", "the package `some-tools` has no file `bin/tol`"] {
        assert!(found.contains(message), "{message}: {found}");
    }
    assert!(found.contains("2 mistakes found"), "{found}");
}

/// What `./culm run --memory` asks for counts before anything is refused.
#[test]
fn a_board_with_more_memory_has_room_for_more() {
    let (catalogue, file) = (catalogue(), Path::new("../../tests/bad/heap-larger-than-the-board.toml"));
    let check = |memory| expand::check_with_memory(&catalogue, file, None, memory);
    assert!(check(None).is_err());
    assert_eq!(check(Some(1 << 30)).expect("it fits").plan.board.memory.size, 1 << 30);
}

/// A driver's `registers::SIZE` is what it maps; its manifest must ask boards for as much.
#[test]
fn drivers_ask_for_the_registers_that_they_map() {
    let root = Path::new("../..").canonicalize().expect("the tree is there");
    let mut compared = 0;
    for (name, component) in Catalogue::read(&root).components {
        let Ok(code) = std::fs::read_to_string(component.folder.join("src/registers.rs")) else { continue };
        let Some((_, rest)) = code.split_once("pub const SIZE: usize = 0x") else { continue };
        let digits = rest.split(';').next().unwrap_or_default().replace('_', "");
        let mapped = u64::from_str_radix(&digits, 16).expect("a number");
        let driver = component.manifest.expect("a good manifest").driver.expect("a driver");
        assert_eq!(driver.needs.registers, mapped, "{name}");
        compared += 1;
    }
    assert!(compared >= 2, "{compared} drivers");
}

#[test]
fn good_descriptions_expand_as_recorded() {
    let catalogue = catalogue();
    for (name, file) in catalogue.systems() {
        let plan = expand::expand(&catalogue, &file, None).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        let found = neutral(&show::expanded(&plan));
        toml::from_str::<toml::Table>(&found).expect("an expanded system is TOML");
        if let Err(failure) = compare(&file.with_extension("expanded.txt"), &found) {
            panic!("{failure}");
        }
    }
}

/// Names with one slip of the finger each: a letter left out, doubled, swapped with its neighbour,
/// or another.
fn slips(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let at = letters.len() / 2;
    let without = letters.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, c)| *c);
    let twice = letters.iter().enumerate().flat_map(|(index, c)| vec![*c; if index == at { 2 } else { 1 }]);
    let mut swapped = letters.clone();
    swapped.swap(at, at - 1);
    let mut other = letters.clone();
    other[at] = if other[at] == 'x' { 'y' } else { 'x' };
    let made =
        [without.collect(), twice.collect(), swapped.into_iter().collect(), other.into_iter().collect::<String>()];
    made.into_iter().filter(|made| made != name).collect()
}

/// Each key of a file with each slip: the line, and the text with it.
fn misspelt(text: &str) -> Vec<(usize, String, String)> {
    let mut all = Vec::new();
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let code = line.split('#').next().unwrap_or("");
        for (at, _) in code.match_indices(" = ") {
            let before = &code[..at];
            let from = before.rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(0, |at| at + 1);
            let key = &before[from..];
            if key.len() < 2 {
                continue;
            }
            for slip in slips(key) {
                let changed = format!("{}{slip}{}", &text[..start + from], &text[start + at..]);
                all.push((number + 1, slip, changed));
            }
        }
        start += line.len();
    }
    all
}

/// No key can be misspelt without a mistake in its line: not one that would be required, and not
/// one that is optional.
#[test]
fn no_misspelt_key_goes_unnoticed() {
    let catalogue = catalogue();
    let system = Path::new("../../tests/bad/world/systems/full.toml");
    let board = Path::new("../../tests/bad/world/boards/virt.toml");
    let mut failures = Vec::new();
    let mut tried = 0;
    let mut check = |file: &Path, found: &dyn Fn(&Arc<Source>) -> Diagnostics| {
        let text = std::fs::read_to_string(file).expect("the world's own files can be read");
        for (line, slip, text) in misspelt(&text) {
            tried += 1;
            let found = found(&Source::new(file, text));
            let is_there = found.sorted().iter().any(|diagnostic| {
                let place = diagnostic.place.as_ref();
                place.is_some_and(|place| {
                    culm_manifest::problem::position(&place.source.text, place.span.start).0 == line
                }) && diagnostic.message.contains(&format!("`{slip}`"))
            });
            if !is_there {
                failures.push(format!("{}:{line}: `{slip}`: {found}", file.display()));
            }
        }
    };
    check(system, &|source| expand::check_source(&catalogue, system, source, None).err().unwrap_or_default());
    check(board, &|source| {
        let mut found = Diagnostics::default();
        BoardFile::read(source, &mut found);
        found
    });
    for component in ["services/http", "drivers/serial/pl011", "apps/idle"] {
        let file = PathBuf::from(format!("../../tests/bad/world/{component}/component.toml"));
        check(&file, &|source| {
            let mut found = Diagnostics::default();
            found.extend(source, culm_manifest::Manifest::parse(&source.text).err().unwrap_or_default());
            found
        });
    }
    assert!(tried > 500, "{tried} slips");
    assert!(failures.is_empty(), "{} of {tried}:\n{}", failures.len(), failures.join("\n"));
}
