//! The macros that turn a component's manifest into its types, and the component into a program.
//!
//! `culm::component!(Hello)` reads `component.toml` beside the crate's `Cargo.toml` and makes
//!
//! * `Config`: the configuration, a field per `[[config]]`, with its type and documentation;
//! * `Connections`: what the component is connected to, a field per `[[connection]]`;
//! * `counters`: a constant per name in `counters`;
//! * the entry point (on the host, where only tests run, a `main` that says so).
//!
//! A crate that is a library besides, for its tests and for other programs made of it, has
//! `culm::manifest!()` in the library, which makes all but the last, and `culm::entry!(Type)` in
//! its `main.rs`.
//!
//! The manifest's format is owned by `culm-manifest`, which the build tool uses too.

#![forbid(unsafe_code)]

mod generate;

use culm_manifest::Manifest;
use proc_macro::TokenStream;
use std::path::Path;

/// Declares the component of this crate: `culm::component!(Type)`, where `Type` implements
/// `culm::Component`.
///
/// Makes `Config`, `Connections`, `counters` and the entry point from the crate's `component.toml`.
#[proc_macro]
pub fn component(input: TokenStream) -> TokenStream {
    let component = syn::parse_macro_input!(input as syn::Path);
    let types = read_manifest().map(|manifest| generate::types(&manifest));
    let types = types.unwrap_or_else(|error| error.into_compile_error());
    let entry = generate::entry(&component);
    quote::quote!(#types #entry).into()
}

/// Makes `Config`, `Connections` and `counters` from the crate's `component.toml`:
/// `culm::manifest!()`, for libraries.
#[proc_macro]
pub fn manifest(input: TokenStream) -> TokenStream {
    let _ = syn::parse_macro_input!(input as syn::parse::Nothing);
    match read_manifest() {
        Ok(manifest) => generate::types(&manifest).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

/// Makes the entry point of a component that a library has: `culm::entry!(library::Type)`, where
/// `Type` implements `culm::Component`.
#[proc_macro]
pub fn entry(input: TokenStream) -> TokenStream {
    generate::entry(&syn::parse_macro_input!(input as syn::Path)).into()
}

/// Reads the manifest; problems are reported at the macro's call, with the manifest's own line and
/// column.
fn read_manifest() -> syn::Result<Manifest> {
    let failure = |message: String| syn::Error::new(proc_macro2::Span::call_site(), message);
    let folder = std::env::var("CARGO_MANIFEST_DIR")
        .map_err(|_| failure("a component is built by Cargo, which says where its manifest is".into()))?;
    let path = Path::new(&folder).join("component.toml");
    let text = std::fs::read_to_string(&path).map_err(|error| failure(format!("{}: {error}", path.display())))?;
    Manifest::parse(&text).map_err(|problems| {
        problems
            .iter()
            .map(|problem| {
                let (line, column) = problem.position(&text);
                let help = problem.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
                failure(format!("component.toml:{line}:{column}: {}{help}", problem.message))
            })
            .reduce(|mut all, next| {
                all.combine(next);
                all
            })
            .unwrap_or_else(|| failure("component.toml is not valid".into()))
    })
}
