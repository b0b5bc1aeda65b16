//! What README and the book show of the web system is what there is.

use culm_tool::description::catalogue::Catalogue;
use culm_tool::{expand, graph};
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
