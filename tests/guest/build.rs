//! Links the guests by their own script, as flat images, when they are built for the target.

fn main() {
    println!("cargo:rerun-if-changed=link.ld");
    println!("cargo:rerun-if-changed=src/start.s");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let directory = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg-bins=-T{directory}/link.ld");
        println!("cargo:rustc-link-arg-bins=--oformat=binary");
    }
}
