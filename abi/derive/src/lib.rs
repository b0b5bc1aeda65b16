//! Derives all that follows from the declaration of a connection's structure in `culm-abi`.
//!
//! `#[derive(Structure)]` on a structure that is generic over its `Form` implements `Structure`:
//! the list of its fields, with their documentation and their places in a start block, and the
//! visit of their values. With `#[connection(kind = …, name = "…")]` it is also the structure of a
//! kind of connection.

#![forbid(unsafe_code)]

mod field;

use field::Field;
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{Attribute, DeriveInput, Expr, ExprLit, Lit, Result};

/// Implements `Structure`, and `Connection` where the structure says `#[connection(kind = …)]`. A
/// field whose memory nobody else may write says `#[connection(exclusive)]`.
#[proc_macro_derive(Structure, attributes(connection))]
pub fn structure(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    derive(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}

fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let form = input.generics.type_params().next().map(|parameter| &parameter.ident);
    let form = form.ok_or_else(|| syn::Error::new(name.span(), "a structure is generic over its form: `<F: Form>`"))?;
    let syn::Data::Struct(data) = &input.data else {
        return Err(syn::Error::new(name.span(), "only a structure has fields"));
    };
    let fields: Vec<Field<'_>> = data.fields.iter().map(|field| Field::read(field, form)).collect::<Result<_>>()?;
    let described = fields.iter().map(|field| field.description(name));
    let visits = fields.iter().enumerate().map(|(index, field)| field.visit(index));
    let connection = connection(input, form)?;
    Ok(quote! {
        impl<#form: crate::connection::Form> crate::connection::Structure<#form> for #name<#form> {
            const FIELDS: &'static [crate::connection::Field] = &[#(#described),*];
            const SIZE: usize = ::core::mem::size_of::<#name<crate::connection::Start>>();

            fn visit(&self, visitor: &mut impl crate::connection::Visitor<#form>) {
                let fields = <Self as crate::connection::Structure<#form>>::FIELDS;
                #(#visits)*
            }
        }

        #connection
    })
}

/// The kind of connection that the structure belongs to, where it says so.
fn connection(input: &DeriveInput, form: &syn::Ident) -> Result<TokenStream> {
    let name = &input.ident;
    let Some(attribute) = input.attrs.iter().find(|attribute| attribute.path().is_ident("connection")) else {
        return Ok(TokenStream::new());
    };
    let (mut kind, mut title, mut class, mut role) = (None, None, quote!(::core::option::Option::None), None);
    attribute.parse_nested_meta(|meta| {
        let value: Expr = meta.value()?.parse()?;
        match () {
            () if meta.path.is_ident("kind") => kind = Some(value),
            () if meta.path.is_ident("name") => title = Some(value),
            () if meta.path.is_ident("class") => class = quote!(::core::option::Option::Some(#value)),
            () if meta.path.is_ident("role") => role = Some(value),
            () => return Err(meta.error("a connection has `kind`, `name`, `class` and `role`")),
        }
        Ok(())
    })?;
    let lacks = |what: &str| syn::Error::new(attribute.span(), format!("the connection has no `{what}`"));
    let (kind, title) = (kind.ok_or_else(|| lacks("kind"))?, title.ok_or_else(|| lacks("name"))?);
    let role = role.ok_or_else(|| lacks("role"))?;
    let doc = documentation(&input.attrs);
    let structure = name.to_string();
    Ok(quote! {
        impl<#form: crate::connection::Form> crate::connection::Connection for #name<#form> {
            const KIND: crate::connection::Kind = crate::connection::Kind {
                number: #kind,
                name: #title,
                structure: #structure,
                documentation: #doc,
                class: #class,
                role: crate::connection::Role::#role,
                fields: <#name<crate::connection::Start> as
                    crate::connection::Structure<crate::connection::Start>>::FIELDS,
            };
        }
    })
}

/// The documentation comment, in one line.
fn documentation(attributes: &[Attribute]) -> String {
    let lines =
        attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| match &attribute
            .meta
            .require_name_value()
            .ok()?
            .value
        {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_string()),
            _ => None,
        });
    lines.collect::<Vec<_>>().join(" ").trim().to_string()
}
