//! The Jsonnet interpreter; imports are served by a [`Loader`] and the built-in library.

use std::collections::BTreeMap;

use model::PackageReference;
use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::InternedStr;
use rsjsonnet_lang::program::{
    Callbacks, EvalError, EvalStackTraceItem, ImportError, LoadError, NativeError, Program, Thunk,
    Value,
};
use rsjsonnet_lang::span::{SourceId, SpanContext, SpanId};

use crate::error::ErrorKind;
use crate::nesting;
use crate::source::{File, FileId, Files, Range};
use crate::{LIBRARY, LIBRARY_NAME, limits};

/// The functions of the standard library that replace the interpreter's own.
const STANDARD: &str = include_str!("standard.libsonnet");
/// The path by which [`WITH_STANDARD`] imports them. No file of a user has such a name.
const STANDARD_PATH: &str = "\0standard";
/// Precedes the text of every file. It has no line of its own, and [`Interpreter::range`] takes its
/// length off every place, so that an error shows the file as its author knows it.
const WITH_STANDARD: &str =
    "local builtin = std; local std = builtin + (import '\\u0000standard'); ";

/// The inputs of an evaluation besides files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// External variables, read with `std.extVar`; the shell sets `cell` and `user`.
    pub variables: BTreeMap<String, String>,
    /// The parameters of a file that is a function, as texts. They come before those of the files.
    pub parameters: BTreeMap<String, String>,
    /// Files that evaluate to an object with parameters; a later one comes before an earlier one.
    pub parameter_files: Vec<ParameterFile>,
}

/// A file with parameters: Jsonnet or JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterFile {
    /// Its name in errors, and the base of its imports.
    pub name: String,
    /// Its content; need not be UTF-8.
    pub content: Vec<u8>,
}

/// The source of imported files. The shell implements it over the file system.
pub trait Loader {
    /// Finds an imported file.
    ///
    /// `from` is the name of the importing file: the evaluated one, or one that this loader
    /// returned. A name must always refer to the same content; it may be requested more than once.
    ///
    /// # Errors
    /// When there is no such file: every name that was tried, with the reason.
    fn load(&mut self, from: &str, path: &str) -> Result<Loaded, NotLoaded>;

    /// Makes a package of a directory: the path as the evaluated file says it, and the name of the package. The same
    /// directory may be asked for more than once. The default implementation has no directories.
    ///
    /// # Errors
    /// When that cannot be done: the reason.
    fn directory(&mut self, path: &str, name: &str) -> Result<PackageReference, String> {
        let _ = (path, name);
        Err("there are no directories here".to_owned())
    }

    /// Makes a package of an image in a registry: its reference as the evaluated file says it. The same image may be
    /// asked for more than once. The default implementation has no registries.
    ///
    /// # Errors
    /// When that cannot be done: the reason.
    fn image(&mut self, reference: &str) -> Result<PackageReference, String> {
        let _ = reference;
        Err("there are no registries here".to_owned())
    }

    /// Receives the file's trace output (`std.trace`). The text may contain anything. The default
    /// implementation discards it.
    fn trace(&mut self, text: &str) {
        let _ = text;
    }
}

/// A loaded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The name used in errors and as the base of its own imports.
    pub name: String,
    /// Its content; need not be UTF-8.
    pub content: Vec<u8>,
}

/// No file was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotLoaded {
    /// The names that were tried, each with the reason for its failure.
    pub tried: Vec<(String, String)>,
}

/// A loader without files: only the built-in library can be imported.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoImports;

impl Loader for NoImports {
    fn load(&mut self, _: &str, _: &str) -> Result<Loaded, NotLoaded> {
        Err(NotLoaded::default())
    }
}

/// The reason for a failed evaluation. Spans belong to the interpreter that returned it.
pub(crate) enum Failure {
    NestedTooDeep(Range),
    SourceTooLarge,
    Load(LoadError),
    Evaluation(EvalError),
    /// An import failed during the evaluation.
    Import {
        span: SpanId,
        path: String,
        why: ImportFailure,
    },
    /// Something about the parameters of the file; with the file that it is about.
    Parameters(FileId, ErrorKind),
}

/// The reason for a failed import.
pub(crate) enum ImportFailure {
    NotLoaded(NotLoaded),
    /// The file was found but is not UTF-8; with its name.
    NotText(String),
    /// The file was found but cannot be parsed.
    Unreadable(Box<Failure>),
}

/// A file and its value, before and after the evaluation.
pub(crate) struct EvaluatedFile<'p> {
    pub(crate) file: FileId,
    pub(crate) thunk: Thunk<'p>,
    pub(crate) value: Value<'p>,
}

/// One evaluation.
pub(crate) struct Interpreter<'p, 'l> {
    pub(crate) program: Program<'p>,
    pub(crate) host: Host<'p, 'l>,
}

/// The callbacks of the interpreter.
pub(crate) struct Host<'p, 'l> {
    pub(crate) loader: &'l mut dyn Loader,
    pub(crate) files: Files,
    sources: BTreeMap<SourceId, FileId>,
    thunks: BTreeMap<FileId, Thunk<'p>>,
    standard: Option<Thunk<'p>>,
    bytes_left: usize,
    /// The cause of the last failed import: the interpreter's own error does not carry it.
    import_failure: Option<ImportFailure>,
}

impl<'p, 'l> Interpreter<'p, 'l> {
    pub(crate) fn new(arena: &'p Arena, loader: &'l mut dyn Loader, settings: &Settings) -> Self {
        let mut program = Program::new(arena);
        program.set_max_stack(limits::STACK_MAX);
        for (name, value) in &settings.variables {
            let name = program.intern_str(name);
            let thunk = program.value_to_thunk(&Value::string(value));
            program.add_ext_var(name, &thunk);
        }
        let host = Host {
            loader,
            files: Files::default(),
            sources: BTreeMap::new(),
            thunks: BTreeMap::new(),
            standard: None,
            bytes_left: limits::SOURCE_BYTES_MAX,
            import_failure: None,
        };
        Self { program, host }
    }

    /// Evaluates a file completely, so that its value contains nothing lazy.
    pub(crate) fn evaluate(
        &mut self,
        name: &str,
        source: &[u8],
    ) -> Result<EvaluatedFile<'p>, Failure> {
        let file = File { name: name.to_owned(), bytes: source.to_vec(), built_in: false };
        let (id, thunk) = self.host.add(&mut self.program, file)?;
        let value = self.program.eval_value(&thunk, &mut self.host);
        let value = value.map_err(|error| self.failure(error))?;
        Ok(EvaluatedFile { file: id, thunk, value })
    }

    /// Calls the function that a file evaluated to, completely.
    pub(crate) fn call(
        &mut self,
        function: &Thunk<'p>,
        arguments: &BTreeMap<String, Value<'p>>,
    ) -> Result<Value<'p>, Failure> {
        let mut named = Vec::new();
        for (name, value) in arguments {
            named.push((self.program.intern_str(name), self.program.value_to_thunk(value)));
        }
        let called = self.program.eval_call(function, &[], &named, &mut self.host);
        called.map_err(|error| self.failure(error))
    }

    fn failure(&mut self, error: EvalError) -> Failure {
        use rsjsonnet_lang::program::EvalErrorKind as Kind;
        match (&error.kind, self.host.import_failure.take()) {
            (Kind::ImportFailed { span, path }, Some(why)) => {
                Failure::Import { span: *span, path: path.clone(), why }
            }
            _ => Failure::Evaluation(error),
        }
    }

    /// The range of an interpreter's span; `None` inside its own standard library.
    pub(crate) fn range(&self, span: SpanId) -> Option<Range> {
        let spans = self.program.span_manager();
        let (context, start, end) = spans.get_span(span);
        let SpanContext::Source(source) = spans.get_context(context);
        let file = *self.host.sources.get(source)?;
        let in_file = |offset: usize| offset.saturating_sub(WITH_STANDARD.len());
        Some(Range { file, start: in_file(start), end: in_file(end) })
    }
}

impl<'p> Host<'p, '_> {
    fn take_bytes(&mut self, count: usize) -> Result<(), Failure> {
        self.bytes_left = self.bytes_left.checked_sub(count).ok_or(Failure::SourceTooLarge)?;
        Ok(())
    }

    fn add(
        &mut self,
        program: &mut Program<'p>,
        file: File,
    ) -> Result<(FileId, Thunk<'p>), Failure> {
        self.take_bytes(file.bytes.len())?;
        let text = [WITH_STANDARD.as_bytes(), &file.bytes].concat();
        let (context, source) = program.span_manager_mut().insert_source_context(text.len());
        let id = self.files.add(file);
        self.sources.insert(source, id);
        let file = self.files.get(id);
        if let Some(at) = nesting::too_deep(&file.bytes, limits::NESTING_MAX) {
            return Err(Failure::NestedTooDeep(Range { file: id, start: at.start, end: at.end }));
        }
        let thunk = program.load_source(context, &text, true, &file.name).map_err(Failure::Load)?;
        self.thunks.insert(id, thunk.clone());
        Ok((id, thunk))
    }

    /// The replaced functions. Their source is not among the files: an error in a call of them is
    /// attributed to the caller, as in the interpreter's own library.
    fn standard(&mut self, program: &mut Program<'p>) -> Result<Thunk<'p>, ImportFailure> {
        if let Some(standard) = &self.standard {
            return Ok(standard.clone());
        }
        let (context, _) = program.span_manager_mut().insert_source_context(STANDARD.len());
        let standard = program
            .load_source(context, STANDARD.as_bytes(), true, STANDARD_PATH)
            .map_err(|error| ImportFailure::Unreadable(Box::new(Failure::Load(error))))?;
        self.standard = Some(standard.clone());
        Ok(standard)
    }

    fn importer(&self, program: &Program<'p>, from: SpanId) -> Option<FileId> {
        let spans = program.span_manager();
        let SpanContext::Source(source) = spans.get_context(spans.get_span(from).0);
        self.sources.get(source).copied()
    }

    fn load(&mut self, from: Option<FileId>, path: &str) -> Result<Loaded, ImportFailure> {
        let from = from.map_or("", |from| &self.files.get(from).name);
        self.loader.load(from, path).map_err(ImportFailure::NotLoaded)
    }

    fn import_file(
        &mut self,
        program: &mut Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Thunk<'p>, ImportFailure> {
        if path == STANDARD_PATH {
            return self.standard(program);
        }
        let importer = self.importer(program, from);
        let unreadable = |failure| ImportFailure::Unreadable(Box::new(failure));
        let (known, file) = if path == LIBRARY_NAME {
            let bytes = LIBRARY.as_bytes().to_vec();
            let file = File { name: path.to_owned(), bytes, built_in: true };
            (self.files.built_in(), file)
        } else {
            let loaded = self.load(importer, path)?;
            let known = self.files.named(&loaded.name);
            (known, File { name: loaded.name, bytes: loaded.content, built_in: false })
        };
        let (id, thunk) = match known.and_then(|id| Some((id, self.thunks.get(&id)?.clone()))) {
            Some(known) => known,
            None => self.add(program, file).map_err(unreadable)?,
        };
        if let Some(importer) = importer {
            self.files.note_import(importer, path, id);
        }
        Ok(thunk)
    }

    fn import_bytes(
        &mut self,
        program: &Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Loaded, ImportFailure> {
        if path == LIBRARY_NAME {
            let content = LIBRARY.as_bytes().to_vec();
            return Ok(Loaded { name: path.to_owned(), content });
        }
        let loaded = self.load(self.importer(program, from), path)?;
        self.take_bytes(loaded.content.len())
            .map_err(|failure| ImportFailure::Unreadable(Box::new(failure)))?;
        Ok(loaded)
    }

    fn noted<T>(&mut self, result: Result<T, ImportFailure>) -> Result<T, ImportError> {
        result.map_err(|failure| {
            self.import_failure = Some(failure);
            ImportError
        })
    }
}

impl<'p> Callbacks<'p> for Host<'p, '_> {
    fn import(
        &mut self,
        program: &mut Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Thunk<'p>, ImportError> {
        let result = self.import_file(program, from, path);
        self.noted(result)
    }

    fn import_str(
        &mut self,
        program: &mut Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<String, ImportError> {
        let result = self.import_bytes(program, from, path).and_then(|loaded| {
            let name = loaded.name;
            String::from_utf8(loaded.content).map_err(|_| ImportFailure::NotText(name))
        });
        self.noted(result)
    }

    fn import_bin(
        &mut self,
        program: &mut Program<'p>,
        from: SpanId,
        path: &str,
    ) -> Result<Vec<u8>, ImportError> {
        let result = self.import_bytes(program, from, path).map(|loaded| loaded.content);
        self.noted(result)
    }

    fn trace(&mut self, _: &mut Program<'p>, message: &str, _: &[EvalStackTraceItem]) {
        self.loader.trace(message);
    }

    fn native_call(
        &mut self,
        _: &mut Program<'p>,
        _: InternedStr<'p>,
        _: &[Value<'p>],
    ) -> Result<Value<'p>, NativeError> {
        // No native function is registered, so none can be called.
        Err(NativeError)
    }
}
