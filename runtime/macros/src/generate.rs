//! From a manifest to Rust.

use culm_manifest::{ConfigField, ConfigType, Connection, ConnectionKind, Manifest};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;

/// The types that `culm::manifest!` makes.
pub fn types(manifest: &Manifest) -> TokenStream {
    let config = config(manifest);
    let connections = connections(manifest);
    let counters = counters(manifest);
    quote! {
        #config
        #connections
        #counters

        // Makes the compiler watch the manifest.
        const _: &[u8] = ::core::include_bytes!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/component.toml"));
    }
}

/// The entry point that `culm::entry!` makes.
pub fn entry(component: &syn::Path) -> TokenStream {
    quote! {
        #[cfg(target_os = "none")]
        const _: () = {
            #[unsafe(no_mangle)]
            extern "C" fn culm_main(_start_block: u64, restarts: u64, a: u64, b: u64, c: u64, d: u64) -> ! {
                ::culm::entry::run::<#component>(restarts, [a, b, c, d])
            }
        };

        #[cfg(not(target_os = "none"))]
        fn main() -> ::std::process::ExitCode {
            ::culm::testing::refuse_to_run::<#component>()
        }
    }
}

fn config(manifest: &Manifest) -> TokenStream {
    let doc = format!("Configuration of `{}`.", manifest.name);
    let fields = manifest.config.iter().map(|field| {
        let (doc, name, kind) = (config_doc(field), identifier(&field.name), config_type(field.kind));
        let kind = if field.optional { quote!(::core::option::Option<#kind>) } else { kind };
        quote!(#[doc = #doc] pub #name: #kind)
    });
    let reads = manifest.config.iter().enumerate().map(|(index, field)| {
        let name = identifier(&field.name);
        quote!(#name: block.config(#index))
    });
    structure(&doc, "Config", fields, reads)
}

fn connections(manifest: &Manifest) -> TokenStream {
    let doc = format!("What `{}` is connected to.", manifest.name);
    let fields = manifest.connections.iter().map(|connection| {
        let (doc, name, kind) =
            (connection_doc(connection), identifier(&connection.name), connection_type(connection.kind));
        let kind = if connection.optional { quote!(::core::option::Option<#kind>) } else { kind };
        quote!(#[doc = #doc] pub #name: #kind)
    });
    let reads = manifest.connections.iter().enumerate().map(|(slot, connection)| {
        let name = identifier(&connection.name);
        if connection.optional {
            quote!(#name: block.connections(#slot).next())
        } else {
            quote!(#name: block.connection(#slot))
        }
    });
    structure(&doc, "Connections", fields, reads)
}

/// A structure and how it is read from the start block.
fn structure(
    doc: &str,
    name: &str,
    fields: impl Iterator<Item = TokenStream>,
    reads: impl Iterator<Item = TokenStream>,
) -> TokenStream {
    let name = identifier(name);
    quote! {
        #[doc = #doc]
        #[derive(Clone, Copy, Debug)]
        pub struct #name { #(#fields),* }

        impl ::culm::start::FromStart for #name {
            fn read(block: &::culm::start::StartBlock) -> Self {
                let _ = block;
                Self { #(#reads),* }
            }
        }
    }
}

fn counters(manifest: &Manifest) -> TokenStream {
    if manifest.counters.is_empty() {
        return TokenStream::new();
    }
    let constants = manifest.counters.iter().enumerate().map(|(index, counter)| {
        let doc = format!("`{counter}`");
        let name = identifier(&counter.to_uppercase());
        quote!(#[doc = #doc] pub const #name: ::culm::Counter = ::culm::Counter::new(#index);)
    });
    let count = manifest.counters.len();
    let doc = format!("Counters of `{}` that observers see.", manifest.name);
    quote! {
        #[doc = #doc]
        pub mod counters {
            /// How many there are.
            pub const COUNTERS: usize = #count;
            #(#constants)*
        }
    }
}

fn identifier(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

fn config_type(kind: ConfigType) -> TokenStream {
    match kind {
        ConfigType::Bool => quote!(bool),
        ConfigType::U8 => quote!(u8),
        ConfigType::U16 => quote!(u16),
        ConfigType::U32 => quote!(u32),
        ConfigType::U64 | ConfigType::Size => quote!(u64),
        ConfigType::I64 => quote!(i64),
        ConfigType::String
        | ConfigType::Ipv4
        | ConfigType::Ipv4Network
        | ConfigType::Ipv6
        | ConfigType::Ipv6Network
        | ConfigType::Sha256
        | ConfigType::FirewallRules => quote!(&'static str),
        ConfigType::Mac => quote!([u8; 6]),
        ConfigType::Duration => quote!(::core::time::Duration),
        ConfigType::File => quote!(&'static [u8]),
        ConfigType::Folder => quote!(::culm::archive::Archive<'static>),
        ConfigType::StringList
        | ConfigType::Ipv4List
        | ConfigType::IpList
        | ConfigType::ServiceList
        | ConfigType::StationList => quote!(::culm::config::Strings),
        ConfigType::CacheControl | ConfigType::SwitchPorts => quote!(::culm::config::Pairs),
    }
}

/// The type that the runtime has for a kind, by the name of the kind's structure.
fn connection_type(kind: ConnectionKind) -> TokenStream {
    let structure = identifier(kind.declaration().structure);
    quote!(::culm::connection::#structure)
}

/// Documentation of a field: its description, type and limits.
fn config_doc(field: &ConfigField) -> String {
    let mut doc = described(&field.description, &field.name);
    doc.push_str(&format!("\n\nType `{}`", field.kind.name()));
    for (word, bound) in [("at least", field.min), ("at most", field.max)] {
        if let Some(bound) = bound {
            doc.push_str(&format!(", {word} {bound}"));
        }
    }
    doc.push_str(if field.optional { "; may be absent." } else { "." });
    doc
}

fn connection_doc(connection: &Connection) -> String {
    let optional = if connection.optional { "; may be absent" } else { "" };
    format!("{}\n\nKind `{}`{optional}.", described(&connection.description, &connection.name), connection.kind.name())
}

fn described(description: &str, name: &str) -> String {
    if description.is_empty() { format!("`{name}`.") } else { description.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = r#"
        name = "http"
        description = "HTTP server"
        counters = ["requests", "bytes"]
        [[connection]]
        name = "net"
        kind = "net-client"
        description = "The network."
        [[connection]]
        name = "peer"
        kind = "channel"
        optional = true
        [[config]]
        name = "port"
        type = "u16"
        default = 80
        min = 1
        description = "The port."
        [[config]]
        name = "site"
        type = "folder"
        optional = true
    "#;

    /// Returns what the macro makes, without spaces, so that the test does not depend on where
    /// `quote` puts them.
    fn generated() -> String {
        let manifest = Manifest::parse(MANIFEST).expect("a manifest");
        let path = syn::parse_str("Http").expect("a path");
        let code = format!("{} {}", types(&manifest), entry(&path));
        code.split_whitespace().collect()
    }

    #[test]
    fn fields_have_the_manifests_types_and_order() {
        let code = generated();
        for expected in [
            "pubstructConfig{",
            "pubport:u16,",
            "pubsite:::core::option::Option<::culm::archive::Archive<'static>>}",
            "Self{port:block.config(0usize),site:block.config(1usize)}",
            "pubnet:::culm::connection::NetClient,",
            "pubpeer:::core::option::Option<::culm::connection::Channel>}",
            "Self{net:block.connection(0usize),peer:block.connections(1usize).next()}",
            "pubconstBYTES:::culm::Counter=::culm::Counter::new(1usize);",
            "::culm::entry::run::<Http>(restarts,[a,b,c,d])",
        ] {
            assert!(code.contains(expected), "{expected} is not in {code}");
        }
    }

    #[test]
    fn documentation_says_what_the_manifest_says() {
        let code = generated();
        assert!(code.contains(r"Theport.\n\nType`u16`,atleast1."));
        assert!(code.contains(r"`site`.\n\nType`folder`;maybeabsent."));
        assert!(code.contains(r"`peer`.\n\nKind`channel`;maybeabsent."));
    }
}
