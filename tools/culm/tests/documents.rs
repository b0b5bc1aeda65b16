//! Checks that README and the book show of the tree what there is: the web system, a board, paths,
//! and headings that links lead to.

use culm_tool::description::catalogue::Catalogue;
use culm_tool::{expand, graph};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).expect("the file is there")
}

/// The picture that `culm graph web` draws. `CULM_BLESS=1` draws it anew.
#[test]
fn the_book_shows_what_graph_draws() {
    let catalogue = Catalogue::read(&root());
    let plan = expand::expand(&catalogue, &root().join("systems/web.toml"), None).expect("the web system is well");
    let picture = graph::svg(&plan);
    let file = root().join("docs/src/pictures/web.svg");
    if std::env::var_os("CULM_BLESS").is_some() {
        std::fs::write(&file, &picture).expect("the picture can be written");
    }
    assert!(std::fs::read_to_string(&file).unwrap_or_default() == picture, "run this test with CULM_BLESS=1");
}

#[test]
fn the_guide_of_drivers_shows_a_whole_manifest() {
    assert_eq!(first_block("docs/src/guides/driver.md"), read("drivers/serial/pl011/component.toml"));
}

/// Returns the first block of TOML in a document.
fn first_block(document: &str) -> String {
    let text = read(document);
    let (_, block) = text.split_once("```toml\n").expect("the document has a block of TOML");
    block.split_once("```").expect("the block ends").0.to_owned()
}

#[test]
fn documents_show_the_whole_web_system() {
    let system = read("systems/web.toml");
    let shown = |leave_out: &[&str]| -> Vec<&str> {
        system.lines().filter(|line| !leave_out.iter().any(|start| line.starts_with(start))).collect()
    };
    let guide = first_block("docs/src/guides/system.md");
    assert_eq!(guide.lines().collect::<Vec<_>>(), shown(&["#"]), "the guide says: less its comments");
    let readme = first_block("README.md");
    assert_eq!(
        readme.lines().collect::<Vec<_>>(),
        shown(&["#", "description"]),
        "README says: less its comments and its description"
    );
}

/// A board in words of the guide: what it has not is what the guide says that it leaves out.
#[test]
fn the_guide_of_boards_shows_virt() {
    let parse = |text: &str| -> toml::Table { text.parse().expect("it is TOML") };
    let (board, shown) = (parse(&read("boards/virt.toml")), parse(&first_block("docs/src/guides/board.md")));
    let devices = |board: &toml::Table| board["device"].as_table().expect("a table each").clone();
    let (all, some) = (devices(&board), devices(&shown));
    for (name, device) in &some {
        assert_eq!(Some(device), all.get(name), "{name}");
    }
    let left_out: Vec<&str> = all.keys().map(String::as_str).filter(|name| !some.contains_key(*name)).collect();
    assert_eq!(
        left_out,
        ["disk0", "disk1", "gpio0", "nic1", "pci0", "rng0", "rtc0", "sd0", "uart1"],
        "the guide says: less its clock, its power button, its second serial port, its disks …"
    );
    let rest = |mut board: toml::Table| {
        board.remove("device");
        board
    };
    assert_eq!(rest(board), rest(shown));
}

/// Folders that are made, not written.
const MADE: &[&str] = &["build", "target", "fuzz/failures", "fuzz/target"];

/// All files of the tree, by their paths in it.
fn files(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it is read")) {
        let path = entry.path();
        let shown = path.strip_prefix(root()).expect("it is in the tree").to_string_lossy().into_owned();
        if entry.file_name().to_string_lossy().starts_with('.') || MADE.contains(&shown.as_str()) {
            continue;
        }
        if path.is_dir() {
            files(&path, into);
        } else {
            into.push(shown);
        }
    }
}

/// `a/{b,c}.rs` is two paths.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((inner, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    inner.split(',').flat_map(|each| alternatives(&format!("{before}{each}{after}"))).collect()
}

/// Whether a word of a document names a file or a folder: it has the name of a source, or begins at
/// the tree's root. Words in capitals and `*` stand for others.
fn is_path(word: &str, tops: &BTreeSet<&str>) -> bool {
    let stands_for_others = word.contains(['*', '…', '<'])
        || word.split(['/', '.', '-']).any(|part| part.len() > 1 && part.bytes().all(|byte| byte.is_ascii_uppercase()));
    let is_source = [".rs", ".toml", ".ld", ".c", ".sh"].iter().any(|end| word.ends_with(end) && word != *end);
    let is_rooted = word.split_once('/').is_some_and(|(top, _)| tops.contains(top));
    // `.taplo.toml` is a file that a user makes.
    !stands_for_others && !word.starts_with('.') && (is_source || is_rooted)
}

/// Every path that a document names is there, unless the document itself tells how to make it.
#[test]
fn documents_name_files_that_there_are() {
    let mut all = vec![];
    files(&root(), &mut all);
    let tops: BTreeSet<&str> = all.iter().filter_map(|file| Some(file.split_once('/')?.0)).collect();
    let documents = all.iter().filter(|file| file.ends_with(".md"));
    let mut missing = vec![];
    for document in documents {
        let text = read(document);
        // Text between fences is typed or written by the reader.
        let prose = text.split("```").step_by(2).collect::<String>();
        let words = prose.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
        for path in words.filter(|word| is_path(word, &tops)).flat_map(alternatives) {
            let (path, inner) = (path.trim_end_matches('/'), format!("/{}", path.trim_end_matches('/')));
            let is_there = root().join(path).exists() || all.iter().any(|file| file.ends_with(&inner));
            if !is_there && !text.contains(&format!("<!-- {path} -->")) {
                missing.push(format!("{document}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "not there:\n{}", missing.join("\n"));
}

/// The name by which a link reaches a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter.to_ascii_lowercase() }).collect()
}

/// `docs/check` looks for the files that links lead to; here are the headings.
#[test]
fn links_lead_to_headings_that_there_are() {
    let mut all = vec![];
    files(&root(), &mut all);
    let mut broken = vec![];
    for document in all.iter().filter(|file| file.ends_with(".md")) {
        let text = read(document);
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')')?.0.split_once('#'));
        for (file, wanted) in targets.filter(|(file, _)| !file.contains("://")) {
            let here = root().join(document);
            let there = if file.is_empty() { here } else { here.parent().expect("it is in a folder").join(file) };
            let headings = std::fs::read_to_string(&there).unwrap_or_default();
            let mut headings = headings.lines().filter(|line| line.starts_with('#'));
            if !headings.any(|line| anchor(line.trim_start_matches('#').trim()) == wanted) {
                broken.push(format!("{document}: {file}#{wanted}"));
            }
        }
    }
    assert!(broken.is_empty(), "no such heading:\n{}", broken.join("\n"));
}

/// The page of the web server says when each status is the answer.
#[test]
fn the_page_of_the_web_server_has_every_status() {
    let source = read("libs/http/src/response.rs");
    let (_, statuses) = source.split_once("pub enum Status {").expect("there are statuses");
    let (statuses, _) = statuses.split_once("\n}").expect("they end");
    let numbers = statuses.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "));
    let numbers: Vec<&str> = numbers.map(|(_, number)| number).collect();
    assert!(numbers.len() > 10, "{numbers:?}");
    let page = read("docs/src/reference/http.md");
    let answers: String =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | ")).map(|it| it.1).collect();
    let missing: Vec<&&str> = numbers.iter().filter(|number| !answers.contains(**number)).collect();
    assert!(missing.is_empty(), "the page does not say when the answer is {missing:?}");
}
