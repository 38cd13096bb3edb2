//! Names: a parameter of a function has a name, and the name of a type says which type it is. A tuple pattern as
//! a parameter is a type that nobody named, and a name that half of the crates use for different types says too
//! little to read any of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Attribute, FnArg, Item, Pat, Signature};

/// In how many places of the workspace a name of a type may be defined.
const MOST: usize = 3;

/// Names that modules have by convention, such as the arguments of a subcommand or the results of a benchmark:
/// their path says which of them is meant.
const CONVENTIONAL: [&str; 12] = [
    "Args", "Command", "Error", "Figures", "Inner", "Iter", "ListArgs", "Message", "Options",
    "Script", "Settings", "ShowArgs",
];

/// Names that say so little that only one type may have each of them.
const VAGUE: [&str; 9] =
    ["Asked", "Asker", "Front", "Known", "Looked", "Part", "Seen", "Shared", "Standing"];

/// Files that have tuple patterns as parameters, and how many at most. They are to go.
const WITH_TUPLES: [(&str, usize); 9] = [
    ("boundary/formats/src/image/enrolment.rs", 1),
    ("boundary/formats/src/image/user.rs", 1),
    ("boundary/api/src/saver.rs", 1),
    ("core/borglet/src/usage/recorder.rs", 4),
    ("core/cell/src/apply/belief.rs", 1),
    ("core/cell/src/apply/capability.rs", 1),
    ("core/cell/src/apply/enrolment.rs", 3),
    ("core/cell/src/apply/update.rs", 1),
    // The cell is the only caller.
    ("words/spec/src/autoscale.rs", 1),
];

#[test]
fn no_function_takes_a_tuple_pattern() {
    let mut found = Vec::new();
    for (file, source) in production() {
        let lines = Found::of(&source).tuples;
        let known = WITH_TUPLES.iter().find(|(with, _)| *with == file);
        if lines.len() > known.map_or(0, |(_, most)| *most) {
            let shown =
                |line| format!("{file}:{line}: a parameter is a tuple pattern: give it a type");
            found.extend(lines.iter().map(shown));
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn no_name_of_a_type_has_many_meanings() {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, source) in production() {
        for (name, line) in Found::of(&source).types {
            names.entry(name).or_default().push(format!("{file}:{line}"));
        }
    }
    assert!(names.len() > 500, "only {} types", names.len());
    names.retain(|name, places| {
        let most = if VAGUE.contains(&name.as_str()) { 1 } else { MOST };
        places.len() > most && !CONVENTIONAL.contains(&name.as_str())
    });
    let shown = |(name, places): (&String, &Vec<String>)| {
        format!("{} types are called {name}: {}", places.len(), places.join(" "))
    };
    let found: Vec<_> = names.iter().map(shown).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn a_planted_tuple_is_found_and_what_a_trait_forces_is_not_looked_at() {
    let found = Found::of(
        "fn one((a, b): (u8, u8)) {}
        impl Two { fn two(&self, &(a, b): &(u8, u8)) { fn inner((c, d): (u8, u8)) {} } }
        impl From<(u8, u8)> for Two { fn from((a, b): (u8, u8)) -> Self { Self } }
        trait Three { fn three((a, b): (u8, u8)) {} }
        fn four(Pair { a, b }: Pair) { let five = |(a, b): (u8, u8)| a + b; }
        #[cfg(test)] mod tests { fn six((a, b): (u8, u8)) {} struct Six; }
        #[test] fn seven((a, b): (u8, u8)) {}",
    );
    assert_eq!(found.tuples, [1, 2, 2, 4]);
    assert_eq!(found.types, []);
}

#[test]
fn planted_types_are_found_wherever_they_are() {
    let found = Found::of(
        "pub struct A; enum B { C }
        type D = u8; mod inner { struct E<T>(T); }
        fn f() { struct F; }
        #[cfg(test)] struct G;
        impl Iterator for A { type Item = u8; }",
    );
    let found: Vec<_> = found.types.iter().map(|(name, line)| format!("{name}{line}")).collect();
    assert_eq!(found, ["A1", "B1", "D2", "E2", "F3"]);
}

/// What a source defines outside of its tests.
#[derive(Default)]
struct Found {
    /// The lines of the parameters that are tuple patterns.
    tuples: Vec<usize>,
    /// The names of the types, and their lines.
    types: Vec<(String, usize)>,
}

impl Found {
    fn of(source: &str) -> Self {
        let mut found = Self::default();
        found.visit_file(&syn::parse_file(source).expect("a source is Rust"));
        found
    }

    fn look_at(&mut self, signature: &Signature) {
        for input in &signature.inputs {
            let FnArg::Typed(input) = input else { continue };
            let mut pattern = &*input.pat;
            while let Pat::Reference(inner) = pattern {
                pattern = &inner.pat;
            }
            if let Pat::Tuple(_) = pattern {
                self.tuples.push(signature.ident.span().start().line);
            }
        }
    }

    fn define(&mut self, name: &syn::Ident) {
        self.types.push((name.to_string(), name.span().start().line));
    }
}

impl<'a> Visit<'a> for Found {
    fn visit_item(&mut self, item: &'a Item) {
        let (attributes, name) = match item {
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, None),
            Item::Impl(item) => (&item.attrs, None),
            Item::Mod(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if !for_tests(attributes) {
            name.into_iter().for_each(|name| self.define(name));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.look_at(&function.sig);
        visit::visit_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, method: &'a syn::TraitItemFn) {
        self.look_at(&method.sig);
        visit::visit_trait_item_fn(self, method);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        for inner in &item.items {
            if let (syn::ImplItem::Fn(method), None) = (inner, &item.trait_)
                && !for_tests(&method.attrs)
            {
                self.look_at(&method.sig);
            }
        }
        visit::visit_item_impl(self, item);
    }
}

/// Whether an item is compiled for tests alone.
fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let mut test = attribute.path().is_ident("test");
        if attribute.path().is_ident("cfg") {
            test |= attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
        }
        test
    })
}

/// The sources of the workspace that are compiled into libraries and binaries, by their path in `crates`: `src`
/// without the modules for tests.
fn production() -> BTreeMap<String, String> {
    let (mut files, mut directories) = (BTreeMap::new(), vec![root()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of ours can be listed") {
            let path = entry.expect("a directory of ours can be listed").path();
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if ["tests", "testing", "benches", "examples"].contains(&stem.as_str()) {
                continue;
            }
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).expect("a source can be read");
                let shown = path.strip_prefix(root()).expect("it is below the root");
                files.insert(shown.display().to_string(), source);
            }
        }
    }
    assert!(files.len() > 500, "only {} sources", files.len());
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
