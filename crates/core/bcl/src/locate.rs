//! Finds where in the source files a value of the result was written.
//!
//! The interpreter does not track the origin of values. Therefore this module parses the sources
//! again and follows a value's path down through what can be read statically: literals, `{…} {…}`,
//! `+`, `+:`, `if`, locals, imports, and calls of visible functions, including those of the
//! built-in library. It computes nothing. If a value may come from several places or is computed,
//! the result says so and gives the nearest enclosing text: it never points at a wrong field.
//!
//! Why this is sound: the value exists, so when all but one of its possible sources are certainly
//! absent, the remaining one is its source.

mod callee;
mod walk;

use std::collections::BTreeMap;

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::ast::Expr;
use rsjsonnet_lang::interner::StrInterner;
use rsjsonnet_lang::lexer::Lexer;
use rsjsonnet_lang::parser::Parser;
use rsjsonnet_lang::span::{SourceId, SpanContext, SpanId, SpanManager};
use spec::{Path, Step};

use crate::json::Json;
use crate::scope::Scope;
use crate::source::{FileId, Files, Range};
use walk::Walk;

/// How deep expressions are followed; below that, the nearest enclosing text is given.
const DEPTH_MAX: u32 = 200;
/// The maximum number of expressions visited per value.
const STEPS_MAX: u32 = 100_000;

/// The place where a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The field's name, or the element.
    pub(crate) name: Range,
    /// The field with its value, or the element.
    pub(crate) whole: Range,
    /// Whether this is the field itself; otherwise it is the nearest enclosing text.
    pub(crate) exact: bool,
}

/// The syntax trees of all files.
pub(crate) struct Trees<'n> {
    pub(crate) files: &'n Files,
    spans: SpanManager,
    sources: BTreeMap<SourceId, FileId>,
    pub(crate) roots: BTreeMap<FileId, &'n Expr<'n, 'n>>,
}

/// The next step down to a value.
#[derive(Clone)]
pub(crate) enum Want<'w> {
    Name(&'w str),
    /// An element's index, and the length of its list if known.
    Element(usize, Option<usize>),
}

/// The result of searching an expression for a value below it.
pub(crate) enum SearchResult {
    /// The value is certainly not from here.
    Absent,
    /// The value may be from here; with the nearest enclosing text.
    Unknown(Option<Range>),
    /// The value is in the list that this one is appended to, which has this many elements.
    Before(usize),
    /// The value is from here.
    At(Spot),
}

impl<'n> Trees<'n> {
    /// Parses all files. A file that cannot be parsed gets no tree; that is then the reported
    /// error.
    pub(crate) fn new(files: &'n Files, arena: &'n Arena) -> Self {
        let interner = StrInterner::new();
        let mut spans = SpanManager::new();
        let (mut sources, mut roots) = (BTreeMap::new(), BTreeMap::new());
        for id in files.ids() {
            let bytes = &files.get(id).bytes;
            let (context, source) = spans.insert_source_context(bytes.len());
            sources.insert(source, id);
            let lexer = Lexer::new(arena, arena, &interner, &mut spans, context, bytes);
            let Ok(tokens) = lexer.lex_to_eof(false) else { continue };
            let parser = Parser::new(arena, arena, &interner, &mut spans, tokens);
            if let Ok(root) = parser.parse_root_expr() {
                roots.insert(id, arena.alloc(root));
            }
        }
        Self { files, spans, sources, roots }
    }

    /// Where the value at a path of a file's result was written.
    pub(crate) fn locate(&self, file: FileId, result: &Json, path: &Path) -> Option<Spot> {
        let root = *self.roots.get(&file)?;
        let wants = wants(result, path);
        let walk = Walk::new(self, STEPS_MAX);
        let around = match walk.find(root, &Scope::default(), &wants, DEPTH_MAX) {
            SearchResult::At(spot) => return Some(spot),
            SearchResult::Unknown(Some(range)) => range,
            _ => self.range(root.span)?,
        };
        Some(Spot { name: around, whole: around, exact: false })
    }

    pub(crate) fn range(&self, span: SpanId) -> Option<Range> {
        let (context, start, end) = self.spans.get_span(span);
        let SpanContext::Source(source) = self.spans.get_context(context);
        Some(Range { file: *self.sources.get(source)?, start, end })
    }

    /// A range in a user's file: not in the built-in library.
    pub(crate) fn own_range(&self, span: SpanId) -> Option<Range> {
        self.range(span).filter(|range| !self.files.get(range.file).built_in)
    }

    pub(crate) fn file_of(&self, span: SpanId) -> Option<FileId> {
        self.range(span).map(|range| range.file)
    }
}

fn wants<'w>(result: &Json, path: &'w Path) -> Vec<Want<'w>> {
    let mut here = Some(result);
    let want = |step: &'w Step| match step {
        Step::Field(name) | Step::Key(name) => {
            here = here.and_then(Json::object).and_then(|object| object.get(name));
            Want::Name(name)
        }
        Step::Element(position) => {
            let list = here.and_then(Json::list);
            here = list.and_then(|list| list.get(*position));
            Want::Element(*position, list.map(<[Json]>::len))
        }
    };
    path.0.iter().map(want).collect()
}

impl SearchResult {
    /// Sets the nearest enclosing text if none is known yet.
    pub(crate) fn or_around(self, around: Option<Range>) -> Self {
        match self {
            Self::Unknown(range) => Self::Unknown(range.or(around)),
            answer => answer,
        }
    }
}
