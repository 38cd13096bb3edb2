//! Rejections are part of the replicated state, so they are data, and sentences are made of them at the edge:
//! the core and its words name no command, and a rejection has no text but what a user wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Fields, Item};

/// What a string with a command of ours contains. Written in two parts, because this file has none.
const COMMAND: &str = concat!("bou", "rg ");

/// The texts in rejections: a type and its field. Users wrote them.
const WRITTEN_BY_USERS: [(&str, &str); 1] = [("Permission", "address")];

/// Types that hold any text.
const TEXTS: [&str; 4] = ["String", "str", "Cow", "OsString"];

#[test]
fn no_string_of_the_core_names_a_command() {
    let mut found = Vec::new();
    for path in ["core", "words"].iter().flat_map(|layer| production(&root().join(layer))) {
        let text = fs::read_to_string(&path).expect("a source can be read");
        let tokens = text.parse().expect("a source is Rust");
        for line in commands(tokens) {
            let shown = path.strip_prefix(root()).unwrap_or(&path).display().to_string();
            found.push(format!("{shown}:{line}: a string names a command: make it at the edge"));
        }
    }
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn rejections_have_no_text_but_what_a_user_wrote() {
    let sources = production(&root().join("core/cell"));
    let sources = sources.iter().map(|path| fs::read_to_string(path).expect("a source is read"));
    let types = Types::of(sources);
    let found = types.texts_in("Rejection");
    let allowed: BTreeSet<_> =
        WRITTEN_BY_USERS.map(|(name, field)| (name.to_owned(), field.to_owned())).into();
    assert_eq!(found, allowed, "the texts in rejections, and those that users write");
    assert!(types.reached("Rejection").contains("Shortfall"), "types in types are looked at");
}

#[test]
fn a_planted_command_is_found_in_production_code_only() {
    let source = format!(
        r##"//! In a comment of the module: {COMMAND}sim.
        /// In a comment: {COMMAND}run.
        fn one() {{ let help = "{COMMAND}run FILE"; }}
        #[error("it failed ({COMMAND}why)")]
        struct Two;
        fn three() {{ format!(r#"try {COMMAND}kill"#) }}
        #[cfg(test)]
        mod tests {{ const SAYS: &str = "{COMMAND}run"; }}
        #[cfg(test)]
        mod testing;
        fn four() {{ "bourg" }}
        "##
    );
    assert_eq!(commands(source.parse().expect("Rust")), [3, 4, 6]);
}

#[test]
fn a_planted_text_is_found_in_whatever_a_rejection_contains() {
    let types = Types::of(
        [
            "pub enum Rejection { A(Box<Inner>), B { what: String }, C(u64) }",
            "pub struct Inner { why: Option<Arc<str>>, next: Vec<Deep> } struct Other(String);",
            "enum Deep { Said(&'static str) }",
        ]
        .map(str::to_owned),
    );
    let found = types.texts_in("Rejection");
    let found: Vec<_> = found.iter().map(|(name, field)| format!("{name}.{field}")).collect();
    assert_eq!(found, ["Deep.Said", "Inner.why", "Rejection.what"]);
}

/// The lines of the strings that name a command; comments, and items that are compiled only for tests, are
/// skipped.
fn commands(tokens: TokenStream) -> Vec<usize> {
    let mut lines = Vec::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Literal(literal) if literal.to_string().contains(COMMAND) => {
                lines.push(literal.span().start().line);
            }
            TokenTree::Group(group) => lines.extend(commands(group.stream())),
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                if matches!(tokens.peek(), Some(TokenTree::Punct(inner)) if inner.as_char() == '!')
                {
                    tokens.next();
                }
                let Some(TokenTree::Group(attribute)) = tokens.peek() else { continue };
                let text: String = attribute.stream().to_string().split_whitespace().collect();
                if text.starts_with("doc=") {
                    tokens.next();
                } else if text == "cfg(test)" {
                    skip_item(&mut tokens);
                }
            }
            _ => {}
        }
    }
    lines
}

/// Skips to the end of the next item: its block, or a semicolon.
fn skip_item(tokens: &mut impl Iterator<Item = TokenTree>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            _ => {}
        }
    }
}

/// The types of a crate: for each of its fields, the names in the field's type.
struct Types(BTreeMap<String, Vec<(String, BTreeSet<String>)>>);

impl Types {
    fn of(sources: impl IntoIterator<Item = String>) -> Self {
        let mut types: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for text in sources {
            let file = syn::parse_file(&text).expect("a source is Rust");
            for item in file.items {
                match item {
                    Item::Struct(item) => {
                        types
                            .entry(item.ident.to_string())
                            .or_default()
                            .extend(fields(&item.fields, ""));
                    }
                    Item::Enum(item) => {
                        let of = types.entry(item.ident.to_string()).or_default();
                        for variant in &item.variants {
                            of.extend(fields(&variant.fields, &variant.ident.to_string()));
                        }
                    }
                    _ => {}
                }
            }
        }
        Self(types)
    }

    /// The types of the crate that a type contains, itself included.
    fn reached(&self, from: &str) -> BTreeSet<String> {
        let (mut reached, mut waiting) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(name) = waiting.pop() {
            let Some(fields) = self.0.get(&name) else { continue };
            if reached.insert(name) {
                waiting.extend(fields.iter().flat_map(|(_, names)| names.iter().cloned()));
            }
        }
        reached
    }

    /// The fields with a text, of all types that a type contains.
    fn texts_in(&self, from: &str) -> BTreeSet<(String, String)> {
        let mut found = BTreeSet::new();
        for name in self.reached(from) {
            for (field, names) in &self.0[&name] {
                if TEXTS.iter().any(|text| names.contains(*text)) {
                    found.insert((name.clone(), field.clone()));
                }
            }
        }
        found
    }
}

/// The fields with the names in their types; a field without a name has that of its variant.
fn fields(fields: &Fields, variant: &str) -> Vec<(String, BTreeSet<String>)> {
    let of = |field: &syn::Field| {
        let name = field.ident.as_ref().map_or_else(|| variant.to_owned(), ToString::to_string);
        let mut names = Names::default();
        names.visit_type(&field.ty);
        (name, names.0)
    };
    fields.iter().map(of).collect()
}

#[derive(Default)]
struct Names(BTreeSet<String>);

impl<'a> Visit<'a> for Names {
    fn visit_path_segment(&mut self, segment: &'a syn::PathSegment) {
        self.0.insert(segment.ident.to_string());
        visit::visit_path_segment(self, segment);
    }
}

/// The sources below a folder that are compiled into libraries: `src` without the modules for tests.
fn production(folder: &Path) -> Vec<PathBuf> {
    let (mut files, mut directories) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).expect("a directory of ours can be listed") {
            let path = entry.expect("a directory of ours can be listed").path();
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let for_tests = ["tests", "testing", "benches"].contains(&name.as_str());
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            match path.is_dir() {
                true if !for_tests => directories.push(path),
                false if is_rust && !for_tests => files.push(path),
                _ => {}
            }
        }
    }
    assert!(files.len() > 10, "only {} sources in {}", files.len(), folder.display());
    files.sort();
    files
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
