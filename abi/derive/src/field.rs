//! One field of a structure: what its type says of it.

use crate::documentation;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{GenericArgument, Ident, PathArguments, PathSegment, Result, Type};

/// A field.
pub struct Field<'a> {
    name: &'a Ident,
    documentation: String,
    /// The method of a visitor that takes its value.
    method: Ident,
    /// Its `FieldKind`.
    kind: TokenStream,
    optional: bool,
    exclusive: bool,
    /// Whether the visitor is given the value itself, not a reference to it.
    by_value: bool,
}

/// The meaning of a type.
struct Meaning {
    method: &'static str,
    kind: TokenStream,
    optional: bool,
}

impl<'a> Field<'a> {
    /// Reads a field of a structure over `form`.
    pub fn read(field: &'a syn::Field, form: &Ident) -> Result<Self> {
        let name = field.ident.as_ref().ok_or_else(|| syn::Error::new(field.span(), "a field has a name"))?;
        let mut exclusive = false;
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("connection")) {
            attribute.parse_nested_meta(|meta| match meta.path.is_ident("exclusive") {
                true => {
                    exclusive = true;
                    Ok(())
                }
                false => Err(meta.error("a field can be `exclusive`")),
            })?;
        }
        let Meaning { method, kind, optional } = meaning(&field.ty, form)?;
        Ok(Self {
            name,
            documentation: documentation(&field.attrs),
            method: Ident::new(method, name.span()),
            kind,
            optional,
            exclusive,
            by_value: ["number", "mac"].contains(&method),
        })
    }

    /// Its `Field`, in the structure of this name.
    pub fn description(&self, structure: &Ident) -> TokenStream {
        let Self { name, documentation, kind, optional, exclusive, .. } = self;
        let title = name.to_string();
        quote! {
            crate::connection::Field {
                name: #title,
                documentation: #documentation,
                kind: crate::connection::FieldKind::#kind,
                optional: #optional,
                exclusive: #exclusive,
                offset: ::core::mem::offset_of!(#structure<crate::connection::Start>, #name),
            }
        }
    }

    /// Shows the value of the field at `index` to a visitor.
    pub fn visit(&self, index: usize) -> TokenStream {
        let Self { name, method, .. } = self;
        let value = if self.by_value { quote!(self.#name.into()) } else { quote!(&self.#name) };
        quote!(visitor.#method(&fields[#index], #value);)
    }
}

fn meaning(of: &Type, form: &Ident) -> Result<Meaning> {
    let simple = |method, kind| Ok(Meaning { method, kind, optional: false });
    let unknown = || syn::Error::new(of.span(), "no type that a connection's field can have: see `Form`");
    match of {
        Type::Array(array) if quote!(#array).to_string().replace(' ', "") == "[u8;6]" => simple("mac", quote!(Mac)),
        Type::Path(path) if path.path.is_ident("u32") => simple("number", quote!(Number { bytes: 4 })),
        Type::Path(path) if path.path.is_ident("u64") => simple("number", quote!(Number { bytes: 8 })),
        Type::Path(path) => {
            let segments: Vec<&PathSegment> = path.path.segments.iter().collect();
            let [first, segment] = segments[..] else { return Err(unknown()) };
            if first.ident != *form {
                return Err(unknown());
            }
            match segment.ident.to_string().as_str() {
                "Ring" => simple("ring", quote!(Ring)),
                "Memory" => simple("memory", quote!(Memory)),
                "Channel" => simple("channel", quote!(Channel)),
                "Rights" => simple("rights", quote!(Rights)),
                "Text" => simple("text", quote!(Text)),
                "Flag" => simple("flag", quote!(Flag)),
                "List" => {
                    let element = argument(segment).ok_or_else(unknown)?;
                    simple("list", quote!(List(<#element as crate::connection::Structure<#form>>::FIELDS)))
                }
                "Optional" => {
                    let inner = meaning(argument(segment).ok_or_else(unknown)?, form)?;
                    let method = match inner.method {
                        "ring" => "optional_ring",
                        "memory" => "optional_memory",
                        "channel" => "optional_channel",
                        _ => return Err(unknown()),
                    };
                    Ok(Meaning { method, kind: inner.kind, optional: true })
                }
                _ => Err(unknown()),
            }
        }
        _ => Err(unknown()),
    }
}

/// The one type argument of a path's segment.
fn argument(segment: &PathSegment) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(argument) => Some(argument),
        _ => None,
    }
}
