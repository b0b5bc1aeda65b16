//! The book shows the picture that `culm graph web` draws. `CULM_BLESS=1` draws it anew.

use culm_tool::description::catalogue::Catalogue;
use culm_tool::{expand, graph};
use std::path::Path;

#[test]
fn the_book_shows_what_graph_draws() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let catalogue = Catalogue::read(&root);
    let plan = expand::expand(&catalogue, &root.join("systems/web.toml"), None).expect("the web system is well");
    let picture = graph::svg(&plan);
    let file = root.join("docs/src/pictures/web.svg");
    if std::env::var_os("CULM_BLESS").is_some() {
        std::fs::write(&file, &picture).expect("the picture can be written");
    }
    assert!(std::fs::read_to_string(&file).unwrap_or_default() == picture, "run this test with CULM_BLESS=1");
}
