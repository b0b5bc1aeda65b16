//! The macro that turns a component's manifest into its types.
//!
//! `culm::component!(Hello)` reads `component.toml` beside the crate's `Cargo.toml` and makes
//!
//! * `Config`: the configuration, a field per `[[config]]`, with its type and documentation;
//! * `Connections`: what the component is connected to, a field per `[[connection]]`;
//! * `counters`: a constant per name in `counters`;
//! * the entry point (on the host, where only tests run, a `main` that says so).
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
    match read_manifest(&component) {
        Ok(manifest) => generate::component(&component, &manifest).into(),
        Err(error) => error.into_compile_error().into(),
    }
}

/// Reads the manifest; problems are reported at the macro's argument, with the manifest's own line
/// and column.
fn read_manifest(component: &syn::Path) -> syn::Result<Manifest> {
    let folder = std::env::var("CARGO_MANIFEST_DIR")
        .map_err(|_| syn::Error::new_spanned(component, "culm::component! works only when Cargo builds the crate"))?;
    let path = Path::new(&folder).join("component.toml");
    let text = std::fs::read_to_string(&path)
        .map_err(|error| syn::Error::new_spanned(component, format!("{}: {error}", path.display())))?;
    Manifest::parse(&text).map_err(|problems| {
        problems
            .iter()
            .map(|problem| {
                let (line, column) = problem.position(&text);
                let help = problem.help.as_ref().map_or_else(String::new, |help| format!("; {help}"));
                syn::Error::new_spanned(component, format!("component.toml:{line}:{column}: {}{help}", problem.message))
            })
            .reduce(|mut all, next| {
                all.combine(next);
                all
            })
            .unwrap_or_else(|| syn::Error::new_spanned(component, "component.toml is not valid"))
    })
}
