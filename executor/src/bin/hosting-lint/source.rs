//! A source file: which function a line is in, and what an `#[expect]` above it says.

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

use crate::clippy::LINTS;

/// What is known of a file's lines.
#[derive(Debug)]
pub(crate) struct Source {
    lines: Vec<String>,
    /// In the order of their first lines, outer before inner.
    scopes: Vec<Scope>,
}

/// An item with the lines it covers.
#[derive(Debug)]
struct Scope {
    first: usize,
    last: usize,
    /// `module::Type::function`, if the item is one that runs.
    function: Option<String>,
    /// The reason with which it expects one of the lints.
    reason: Option<String>,
}

impl Source {
    /// Reads `text`. What does not parse has no functions; clippy, which ran before, would have said so.
    pub(crate) fn parse(text: &str) -> Self {
        let mut scopes = Scopes::default();
        if let Ok(file) = syn::parse_file(text) {
            let reason = expected(&file.attrs);
            scopes.found.push(Scope { first: 0, last: usize::MAX, function: None, reason });
            scopes.visit_file(&file);
        }
        Source { lines: text.lines().map(str::to_owned).collect(), scopes: scopes.found }
    }

    /// Returns the text of line `number`, counted from one, without the space around it.
    pub(crate) fn line(&self, number: usize) -> &str {
        self.lines.get(number.wrapping_sub(1)).map_or("", |line| line.trim())
    }

    /// Returns the innermost function (or constant) around line `number`; outside of all: `-`.
    pub(crate) fn function(&self, number: usize) -> &str {
        self.around(number).find_map(|scope| scope.function.as_deref()).unwrap_or("-")
    }

    /// Returns the reason of the innermost `#[expect]` or `#[allow]` of one of the lints around line `number`.
    pub(crate) fn reason(&self, number: usize) -> Option<&str> {
        self.around(number).find_map(|scope| scope.reason.as_deref())
    }

    /// Returns what is around a line, inner before outer.
    fn around(&self, number: usize) -> impl Iterator<Item = &Scope> {
        self.scopes.iter().rev().filter(move |scope| (scope.first..=scope.last).contains(&number))
    }
}

/// Collects the scopes of a file.
#[derive(Default)]
struct Scopes {
    found: Vec<Scope>,
    path: Vec<String>,
}

impl Scopes {
    /// Notes an item, and visits what is in it. `name` is a step of the path, `runs` says that it ends there.
    fn enter(
        &mut self,
        span: Span,
        attributes: &[Attribute],
        name: &str,
        runs: bool,
        inside: impl FnOnce(&mut Self),
    ) {
        if !name.is_empty() {
            self.path.push(name.to_owned());
        }
        let function = runs.then(|| self.path.join("::"));
        let (first, last) = (span.start().line, span.end().line);
        self.found.push(Scope { first, last, function, reason: expected(attributes) });
        inside(self);
        if !name.is_empty() {
            self.path.pop();
        }
    }
}

impl<'ast> Visit<'ast> for Scopes {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let name = item.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, false, |this| visit::visit_item_mod(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(of) => of.path.segments.last().map(|last| last.ident.to_string()),
            _ => None,
        };
        let name = name.unwrap_or_else(|| "impl".to_owned());
        self.enter(item.span(), &item.attrs, &name, false, |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        let name = item.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, false, |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        let name = item.sig.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, true, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        let name = item.sig.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, true, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        let name = item.sig.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, true, |this| visit::visit_trait_item_fn(this, item));
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        let name = item.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, true, |this| visit::visit_item_const(this, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        let name = item.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, true, |this| visit::visit_item_static(this, item));
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let name = item.ident.to_string();
        self.enter(item.span(), &item.attrs, &name, true, |this| visit::visit_item_struct(this, item));
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.enter(item.span(), &item.attrs, "", false, |_| {});
    }

    fn visit_item_macro(&mut self, item: &'ast syn::ItemMacro) {
        self.enter(item.span(), &item.attrs, "", false, |_| {});
    }

    fn visit_local(&mut self, statement: &'ast syn::Local) {
        self.enter(statement.span(), &statement.attrs, "", false, |this| visit::visit_local(this, statement));
    }
}

/// Returns the reason of the first `expect` or `allow` of one of the lints, empty if it has none.
fn expected(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        if !attribute.path().is_ident("expect") && !attribute.path().is_ident("allow") {
            return None;
        }
        let arguments = attribute.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
        let ours = |meta: &Meta| match meta {
            Meta::Path(path) => {
                let steps: Vec<String> = path.segments.iter().map(|step| step.ident.to_string()).collect();
                LINTS.contains(&steps.join("::").as_str())
            }
            _ => false,
        };
        if !arguments.iter().any(ours) {
            return None;
        }
        arguments.iter().find_map(|meta| match meta {
            Meta::NameValue(pair) if pair.path.is_ident("reason") => match &pair.value {
                Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
                _ => None,
            },
            _ => None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
use std::time::Instant;

mod inner {
    #[expect(clippy::disallowed_methods, clippy::unused_async, reason = "of the block")]
    impl<T> Wall<T> {
        fn start() -> u64 {
            #[expect(clippy::disallowed_methods, reason = "of the statement")]
            let a = Instant::now();
            let b = || Instant::now();
        }
    }
}

#[expect(dead_code, reason = "another lint")]
const LIMIT: usize = 7;
"#;

    #[test]
    fn a_line_knows_its_function() {
        let source = Source::parse(TEXT);
        assert_eq!(source.function(2), "-");
        assert_eq!(source.function(9), "inner::Wall::start");
        assert_eq!(source.function(10), "inner::Wall::start");
        assert_eq!(source.function(16), "LIMIT");
        assert_eq!(source.line(2), "use std::time::Instant;");
        assert_eq!((source.line(0), source.line(99)), ("", ""));
    }

    #[test]
    fn the_innermost_expectation_gives_the_reason() {
        let source = Source::parse(TEXT);
        assert_eq!(source.reason(2), None);
        assert_eq!(source.reason(9), Some("of the statement"));
        assert_eq!(source.reason(10), Some("of the block"));
        assert_eq!(source.reason(16), None);
    }

    #[test]
    fn a_file_may_expect_as_a_whole() {
        let source =
            Source::parse("#![expect(clippy::disallowed_types, reason = \"all of it\")]\nfn f() {}\n");
        assert_eq!(source.reason(2), Some("all of it"));
    }
}
