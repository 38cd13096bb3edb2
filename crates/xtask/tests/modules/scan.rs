//! Which top-level module of a crate uses which, read from its sources with `syn`.
//!
//! A top-level module is one unit with everything below it. An edge is a path in its code that
//! leads to another unit: `use crate::…`, `super::…`, in an expression, a type, an attribute or the
//! tokens of a macro. A name that the root re-exports leads to the module that it comes from.
//!
//! Not considered: code compiled only for tests; the visibility of items; the root itself, which
//! combines the modules; methods and types that are used without being named.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Ident, Punct, Spacing, TokenStream, TokenTree};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Field, FieldValue, ImplItem, Item, ItemMod, ItemUse, Local, Macro, Meta, UseTree,
    Visibility,
};

/// A position in the sources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) file: PathBuf,
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// The units of one crate, and for each pair the places where one uses the other.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    edges: BTreeMap<(String, String), BTreeSet<Place>>,
}

impl Graph {
    /// Reads a crate, from its root file. Places are shown relative to `top`.
    pub(crate) fn of_crate(root: &Path, top: &Path) -> Self {
        let mut files = Vec::new();
        read(root, &[], &mut files);
        for file in &mut files {
            let shown = file.path.strip_prefix(top).map(Path::to_owned);
            file.path = shown.unwrap_or_else(|_| file.path.clone());
        }
        Self::of_files(&files)
    }

    fn of_files(files: &[File]) -> Self {
        let root = files.first().expect("a crate has a root");
        let modules = root.modules();
        let names = root.reexports(&modules);
        let mut graph = Self::default();
        for file in files {
            let mut walk =
                Walk { modules: &modules, module: file.module.clone(), paths: Vec::new() };
            walk.visit_file(&file.syntax);
            for (module, path, line) in walk.paths {
                let (Some(from), Some(first)) = (module.first(), path.first()) else { continue };
                // Everything else is defined in the root itself.
                let to = modules.get(first).or_else(|| names.get(first));
                if let Some(to) = to.filter(|to| *to != from) {
                    let place = Place { file: file.path.clone(), line };
                    let places = graph.edges.entry((from.clone(), to.clone())).or_default();
                    places.insert(place);
                }
            }
        }
        graph
    }

    /// The cycles: sets of units each of which uses, directly or not, every other of its set.
    pub(crate) fn circles(&self) -> Vec<BTreeSet<&str>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.edges.keys().map(|(from, _)| (from.as_str(), self.reach(from))).collect();
        let mut circles: Vec<BTreeSet<&str>> = Vec::new();
        for (unit, reached) in &reach {
            let back = |other: &&&str| reach.get(**other).is_some_and(|back| back.contains(unit));
            let circle: BTreeSet<&str> = reached.iter().filter(back).copied().collect();
            if !circle.is_empty() && !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }

    fn reach<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(from) = waiting.pop() {
            for (_, to) in self.edges.keys().filter(|(user, _)| user == from) {
                if reached.insert(to.as_str()) {
                    waiting.push(to);
                }
            }
        }
        reached
    }

    /// The edges within a cycle, one per line, with up to three places.
    pub(crate) fn shown(&self, circle: &BTreeSet<&str>) -> String {
        let within = self.edges.iter().filter(|((from, to), _)| {
            circle.contains(from.as_str()) && circle.contains(to.as_str())
        });
        let lines = within.map(|((from, to), places)| {
            let shown: Vec<String> = places.iter().take(3).map(Place::to_string).collect();
            let more = match places.len().saturating_sub(3) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("    {from} → {to}: {}{more}\n", shown.join(", "))
        });
        lines.collect()
    }
}

/// A file of a crate, and its module path.
struct File {
    path: PathBuf,
    module: Vec<String>,
    syntax: syn::File,
}

/// Reads a file and its modules' files.
fn read(path: &Path, module: &[String], files: &mut Vec<File>) {
    let text = fs::read_to_string(path);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let syntax = syn::parse_file(&text);
    let syntax = syntax.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let directory = path.parent().unwrap_or(Path::new(""));
    // The modules of a root and of a `mod.rs` are beside it, those of another file in its
    // directory.
    let beside = module.is_empty() || path.ends_with("mod.rs");
    let directory = if beside { directory.to_owned() } else { path.with_extension("") };
    let mut below = Vec::new();
    declared(&syntax.items, module, &directory, &mut below);
    files.push(File { path: path.to_owned(), module: module.to_owned(), syntax });
    for (module, path) in below {
        read(&path, &module, files);
    }
}

/// The modules in separate files that a module and its inline modules declare.
fn declared(
    items: &[Item],
    module: &[String],
    directory: &Path,
    below: &mut Vec<(Vec<String>, PathBuf)>,
) {
    for item in items {
        let Item::Mod(item) = item else { continue };
        if is_for_tests(&item.attrs) {
            continue;
        }
        let elsewhere = item.attrs.iter().any(|attribute| attribute.path().is_ident("path"));
        assert!(!elsewhere, "{}: a module is in the file of its name", item.ident);
        let name = item.ident.to_string();
        let module = [module, std::slice::from_ref(&name)].concat();
        if let Some((_, items)) = &item.content {
            declared(items, &module, &directory.join(&name), below);
            continue;
        }
        let file = directory.join(format!("{name}.rs"));
        let path = if file.exists() { file } else { directory.join(&name).join("mod.rs") };
        below.push((module, path));
    }
}

impl File {
    /// The top-level modules of the root.
    fn modules(&self) -> BTreeSet<String> {
        let modules = self.syntax.items.iter().filter_map(|item| match item {
            Item::Mod(item) if !is_for_tests(&item.attrs) => Some(item.ident.to_string()),
            _ => None,
        });
        modules.collect()
    }

    /// The names that the root imports from its modules, and their modules.
    fn reexports(&self, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
        let mut names = BTreeMap::new();
        for item in &self.syntax.items {
            let Item::Use(item) = item else { continue };
            for (path, name, _) in leaves(&item.tree) {
                let path = resolved(&[], &path, modules).unwrap_or_default();
                if let Some(module) = path.first().filter(|first| modules.contains(*first)) {
                    assert!(name != "*", "{}: the root names what it takes", self.path.display());
                    names.insert(name, module.clone());
                }
            }
        }
        names
    }
}

/// The paths that a `use` imports, each with its local name and its line.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, String, usize)> {
    let last = |ident: &Ident, name: String| {
        vec![(vec![ident.to_string()], name, ident.span().start().line)]
    };
    match tree {
        UseTree::Name(leaf) => last(&leaf.ident, leaf.ident.to_string()),
        UseTree::Rename(leaf) => last(&leaf.ident, leaf.rename.to_string()),
        UseTree::Glob(leaf) => {
            vec![(vec!["*".to_owned()], "*".to_owned(), leaf.star_token.spans[0].start().line)]
        }
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Path(path) => {
            let mut below = leaves(&path.tree);
            for (rest, ..) in &mut below {
                rest.insert(0, path.ident.to_string());
            }
            below
        }
    }
}

/// A path as seen from the root, if it leads to this crate.
fn resolved(module: &[String], path: &[String], modules: &BTreeSet<String>) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    if rest.is_empty() {
        return None;
    }
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => {
            let supers = path.iter().take_while(|segment| *segment == "super").count();
            let above = module.get(..module.len().checked_sub(supers)?)?;
            Some([above, path.get(supers..)?].concat())
        }
        _ if module.is_empty() && modules.contains(first) => Some(path.to_vec()),
        _ => None,
    }
}

/// The paths in a file, each as seen from the root.
struct Walk<'a> {
    modules: &'a BTreeSet<String>,
    module: Vec<String>,
    /// The module of the unit, the target, and the line.
    paths: Vec<(Vec<String>, Vec<String>, usize)>,
}

impl Walk<'_> {
    fn note(&mut self, path: &[String], line: usize) {
        if let Some(to) = resolved(&self.module, path, self.modules) {
            self.paths.push((self.module.clone(), to, line));
        }
    }

    /// The paths in tokens that are not parsed.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<Ident> = Vec::new();
        let mut colons = 0;
        for token in tokens.into_iter().chain([Punct::new(';', Spacing::Alone).into()]) {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) if colons == 2 && !path.is_empty() => path.push(ident),
                other => {
                    let names: Vec<String> = path.iter().map(Ident::to_string).collect();
                    if let Some(first) = path.first() {
                        self.note(&names, first.span().start().line);
                    }
                    path.clear();
                    match other {
                        // After two colons it is part of another crate's path.
                        TokenTree::Ident(ident) if colons != 2 => path.push(ident),
                        TokenTree::Group(group) => self.tokens(group.stream()),
                        _ => {}
                    }
                }
            }
            colons = 0;
        }
    }
}

impl<'ast> Visit<'ast> for Walk<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            for (path, _, line) in leaves(&item.tree) {
                self.note(&path, line);
            }
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        let attributes = match item {
            ImplItem::Const(item) => &item.attrs,
            ImplItem::Fn(item) => &item.attrs,
            ImplItem::Macro(item) => &item.attrs,
            ImplItem::Type(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !is_for_tests(attributes) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_field(&mut self, field: &'ast Field) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field(self, field);
        }
    }

    fn visit_field_value(&mut self, field: &'ast FieldValue) {
        if !is_for_tests(&field.attrs) {
            visit::visit_field_value(self, field);
        }
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if !is_for_tests(&local.attrs) {
            visit::visit_local(self, local);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names: Vec<String> =
                path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            if let Some(first) = path.segments.first() {
                self.note(&names, first.ident.span().start().line);
            }
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }

    /// Visibility is not a use.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether something is compiled only for tests.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args().is_ok_and(|condition| needs_test(&condition))
    })
}

/// Whether a condition of `cfg` holds only in tests.
fn needs_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let parts = list.parse_args_with(Punctuated::<Meta, syn::Token![,]>::parse_terminated);
    let Ok(parts) = parts else { return false };
    match () {
        () if list.path.is_ident("all") => parts.iter().any(needs_test),
        () if list.path.is_ident("any") => !parts.is_empty() && parts.iter().all(needs_test),
        () => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The edges of a crate with these modules: the first is the root. A path is `a::b`, the text
    /// its file.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let graph = graph(files);
        let edges = graph.edges.iter();
        let shown = edges.map(|((from, to), places)| {
            let places: Vec<String> = places.iter().map(Place::to_string).collect();
            format!("{from} → {to}: {}", places.join(" "))
        });
        shown.collect()
    }

    fn graph(files: &[(&str, &str)]) -> Graph {
        let files = files.iter().map(|(module, text)| File {
            path: PathBuf::from(if module.is_empty() { "lib" } else { module }),
            module: module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            syntax: syn::parse_file(text).unwrap(),
        });
        Graph::of_files(&files.collect::<Vec<_>>())
    }

    const ROOT: (&str, &str) =
        ("", "mod a; mod b; pub mod c; pub use b::{Thing as Other, call}; pub const ROOM: u8 = 1;");

    /// The edges of module `a` with this text.
    fn edges_of_a(text: &str) -> Vec<String> {
        edges(&[ROOT, ("a", text)])
    }

    #[test]
    fn paths_to_other_modules_are_edges() {
        for text in [
            "use crate::b;",
            "use crate::b::*;",
            "use crate::{std, b::{self, X}};",
            "use super::b::X as Y;",
            "use super::b;",
            "pub(crate) use crate::b::X;",
            "fn f() { crate::b::g(); }",
            "fn f(x: &crate::b::X) {}",
            "fn f() { let x = Vec::<super::b::X>::new(); }",
            "impl crate::b::T for X {}",
            "struct X { x: Option<crate::b::X> }",
            "mod inner { use super::super::b; }",
            "mod inner { fn f() { crate::b::g() } }",
            "fn f() { println!(\"{}\", crate::b::X) }",
            "fn f() { vec![(1, super::b::g(2))]; }",
            "macro_rules! m { () => { $crate::b::g() } }",
            "#[arg(value_parser = crate::b::parse)] struct X;",
            "fn f() { match x { crate::b::X => 1 } }",
        ] {
            assert_eq!(edges_of_a(text), ["a → b: a:1"], "{text}");
        }
    }

    #[test]
    fn paths_to_no_other_module_are_no_edges() {
        for text in [
            "use crate::a::X; use self::inner::Y; mod inner {}",
            "use ::b::X; fn f() { ::b::g() }",
            "use b::X; fn f() { b::g() }",
            "use crate::ROOM;",
            "mod inner { use super::b; }",
            "pub(in crate::b) struct X;",
            "fn f(self) { self.b.crate_b() }",
            "fn f() { m!(other::crate::b, x.b::<u8>()) }",
            "/// See [`crate::b::X`].\nstruct X;",
            "fn f() { \"crate::b::X\" }",
        ] {
            assert_eq!(edges_of_a(text), <[&str; 0]>::default(), "{text}");
        }
    }

    #[test]
    fn test_only_code_makes_no_edge() {
        for text in [
            "#[cfg(test)] use crate::b::X;",
            "#[cfg(test)] mod tests { use crate::b::X; }",
            "#[cfg(all(test, unix))] fn f() { crate::b::g() }",
            "impl X { #[cfg(test)] fn f() { crate::b::g() } }",
            "struct X { #[cfg(test)] x: crate::b::X }",
            "fn f() { #[cfg(test)] let x = crate::b::g(); }",
            "fn f() { X { #[cfg(test)] x: crate::b::g() } }",
        ] {
            assert_eq!(edges_of_a(text), <[&str; 0]>::default(), "{text}");
        }
        for text in [
            "#[cfg(not(test))] use crate::b::X;",
            "#[cfg(any(test, fuzzing))] use crate::b::X;",
            "#[cfg(fuzzing)] use crate::b::X;",
        ] {
            assert_eq!(edges_of_a(text), ["a → b: a:1"], "{text}");
        }
    }

    #[test]
    fn names_that_the_root_takes_from_a_module_lead_there() {
        assert_eq!(edges_of_a("use crate::Other;"), ["a → b: a:1"]);
        assert_eq!(edges_of_a("fn f() {\n super::call(); crate::call()\n }"), ["a → b: a:2"]);
        assert_eq!(edges_of_a("use crate::Thing;"), <[&str; 0]>::default());
    }

    #[test]
    fn the_modules_below_a_module_are_a_part_of_it() {
        let files = [
            ROOT,
            ("a", "mod x; mod y;"),
            ("a::x", "use super::y;\nuse crate::a::y::Y;"),
            ("a::y", "use super::super::b::X;"),
            ("c", "use crate::a::x::X;"),
        ];
        assert_eq!(edges(&files), ["a → b: a::y:1", "c → a: c:1"]);
    }

    #[test]
    fn circles_are_found_with_their_edges() {
        let straight =
            [ROOT, ("a", "use crate::b::X; use crate::c::X;"), ("b", "use crate::c::X;")];
        assert!(graph(&straight).circles().is_empty());
        let root =
            ("", "mod a; mod b; mod c; mod d; mod e; mod f; fn run() { a::run(); f::run() }");
        let files = [
            root,
            ("a", "use crate::b::X;\nuse crate::d::X;"),
            ("b", "use crate::c::X;"),
            ("c", "\nuse crate::a::X;\nfn f() { crate::a::f() }"),
            ("d", "use crate::e::X;"),
            ("e", "use crate::d::X;"),
            ("f", "use crate::a::X;"),
        ];
        let graph = graph(&files);
        let circles = graph.circles();
        let expected = [BTreeSet::from(["a", "b", "c"]), BTreeSet::from(["d", "e"])];
        assert_eq!(circles, expected);
        let shown = circles.iter().map(|circle| graph.shown(circle)).collect::<String>();
        let expected = [
            "    a → b: a:1\n",
            "    b → c: b:1\n",
            "    c → a: c:2, c:3\n",
            "    d → e: d:1\n",
            "    e → d: e:1\n",
        ];
        assert_eq!(shown, expected.concat());
    }

    #[test]
    fn the_files_of_a_crate_are_found() {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
        let files = [
            ("lib.rs", "mod a; mod b { mod c; } #[cfg(test)] mod missing;"),
            ("a/mod.rs", "mod x;"),
            ("a/x.rs", "mod y;"),
            ("a/x/y.rs", "use crate::b::X;"),
            ("b/c.rs", "use super::super::a::X;"),
        ];
        for (name, text) in files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let graph = Graph::of_crate(&directory.join("lib.rs"), &directory);
        let circles = graph.circles();
        assert_eq!(circles, [BTreeSet::from(["a", "b"])]);
        let shown = graph.shown(circles.first().unwrap());
        assert_eq!(shown, "    a → b: a/x/y.rs:1\n    b → a: b/c.rs:1\n");
    }
}
