//! Turns the interpreter's failures into messages with places in the source files.

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::ast::{BinaryOp, UnaryOp};
use rsjsonnet_lang::program::{EvalError, EvalErrorKind, EvalErrorValueType, EvalStackTraceItem};
use rsjsonnet_lang::span::SpanId;
use spec::{Path, Step};

use crate::error::{Error, ErrorKind};
use crate::grammar;
use crate::interpreter::{Failure, ImportFailure, Interpreter, NotLoaded, Settings};
use crate::json::Json;
use crate::locate::{Spot, Trees};
use crate::screen::quoted;
use crate::source::{FileId, Range};
use crate::words;

/// Additional places reported with an error.
const BY_MAX: usize = 4;
/// Maximum steps followed into the result.
const RESULT_STEPS_MAX: usize = 4;
/// The fields of the built-in library, for suggestions.
const LIBRARY_FIELDS: &[&str] = &[
    "service",
    "batch",
    "port",
    "index",
    "job",
    "user",
    "cell",
    "priority",
    "KiB",
    "MiB",
    "GiB",
    "TiB",
    "free",
    "bestEffortBatch",
    "mid",
    "production",
    "monitoring",
    "attribute",
    "equal",
    "notEqual",
    "lessThan",
    "atMost",
    "greaterThan",
    "atLeast",
    "present",
    "notPresent",
    "preferred",
];
/// The parameters of its functions.
const LIBRARY_PARAMETERS: &[&str] = &["name", "tasks", "cmd", "perTask", "value"];

/// Explains the failures of one interpreter.
pub(crate) struct Explainer<'a, 'p, 'l> {
    pub(crate) interpreter: &'a Interpreter<'p, 'l>,
    pub(crate) settings: &'a Settings,
}

impl Explainer<'_, '_, '_> {
    pub(crate) fn explain(&self, failure: Failure) -> Error {
        match failure {
            Failure::NestedTooDeep(range) => self.at(ErrorKind::NestedTooDeep, range),
            Failure::SourceTooLarge => Error::new(ErrorKind::SourceTooLarge),
            Failure::Load(error) => {
                let (span, message) = grammar::explain(&error);
                self.at_span(ErrorKind::Syntax { message }, span)
            }
            Failure::Evaluation(error) => self.evaluation(&error),
            Failure::Import { span, path, why } => self.import(span, path, why),
            Failure::Parameters(file, kind) => {
                self.at(kind, Range { file, start: 0, end: self.first_line(file) })
            }
        }
    }

    /// The length of the first line of a file.
    fn first_line(&self, file: FileId) -> usize {
        let bytes = &self.interpreter.host.files.get(file).bytes;
        bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len())
    }

    fn at(&self, kind: ErrorKind, range: Range) -> Error {
        Error::at(kind, self.interpreter.host.files.place(range))
    }

    fn at_span(&self, kind: ErrorKind, span: SpanId) -> Error {
        match self.interpreter.range(span) {
            Some(range) => self.at(kind, range),
            None => Error::new(kind),
        }
    }

    fn import(&self, span: SpanId, path: String, why: ImportFailure) -> Error {
        let tried = match why {
            ImportFailure::NotLoaded(NotLoaded { tried }) => tried,
            ImportFailure::NotText(name) => vec![(name, "it is not UTF-8 text".to_owned())],
            ImportFailure::Unreadable(failure) => {
                let mut error = self.explain(*failure);
                let by = self.interpreter.range(span);
                error.by.extend(by.map(|range| self.interpreter.host.files.place(range)));
                return error;
            }
        };
        self.at_span(ErrorKind::Import { path, tried }, span)
    }

    fn evaluation(&self, error: &EvalError) -> Error {
        let kind = match &error.kind {
            EvalErrorKind::StackOverflow => ErrorKind::StackOverflow,
            EvalErrorKind::InfiniteRecursion => ErrorKind::NeedsItself,
            kind => ErrorKind::Evaluation { message: self.message(kind) },
        };
        let own = own_span(&error.kind);
        let called = error.stack_trace.iter().rev().filter_map(trace_span);
        let mut ranges: Vec<Range> = Vec::new();
        for range in own.into_iter().chain(called).filter_map(|span| self.interpreter.range(span)) {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
        // A failure inside the library is attributed to its caller.
        let files = &self.interpreter.host.files;
        let (mine, library): (Vec<_>, Vec<_>) =
            ranges.into_iter().partition(|range| !files.get(range.file).built_in);
        let mut mine = mine.into_iter().map(|range| files.place(range));
        if let Some(place) = mine.next() {
            return Error { by: mine.take(BY_MAX).collect(), ..Error::at(kind, place) };
        }
        // The failure happened while the result was assembled: report where that part of it was
        // written.
        let spot = self.result_spot(&error.stack_trace);
        let by = library.into_iter().map(|range| files.place(range)).take(1).collect();
        Error {
            place: spot.map(|spot| files.place(spot.whole)),
            exact: spot.is_none_or(|spot| spot.exact),
            by,
            ..Error::new(kind)
        }
    }

    /// Where the part of the result that was being assembled was written.
    fn result_spot(&self, trace: &[EvalStackTraceItem]) -> Option<Spot> {
        let step = |item: &EvalStackTraceItem| match item {
            EvalStackTraceItem::ObjectField { span: None, name } => Some(Step::Field(name.clone())),
            EvalStackTraceItem::ArrayItem { span: None, index } => Some(Step::Element(*index)),
            _ => None,
        };
        let mut path = Path(trace.iter().map_while(step).take(RESULT_STEPS_MAX).collect());
        let arena = Arena::new();
        let trees = Trees::new(&self.interpreter.host.files, &arena);
        loop {
            let spot = trees.locate(FileId(0), &Json::Null, &path)?;
            // A part of a value that contains itself is written out at some step above.
            if spot.exact || path.0.len() <= 1 {
                return Some(spot);
            }
            path.0.pop();
        }
    }

    fn message(&self, kind: &EvalErrorKind) -> String {
        use EvalErrorKind as K;
        let type_name = |got: &EvalErrorValueType| type_name(*got);
        match kind {
            K::StackOverflow | K::InfiniteRecursion => String::new(),
            K::InvalidIndexedType { got_type, .. } => {
                format!(
                    "only an object, a list or a string has elements, this is {}",
                    type_name(got_type)
                )
            }
            K::InvalidSlicedType { got_type, .. } => {
                format!("only a list or a string can be sliced, this is {}", type_name(got_type))
            }
            K::SliceIndexOrStepIsNotNumber { got_type, .. }
            | K::StringIndexIsNotNumber { got_type, .. }
            | K::ArrayIndexIsNotNumber { got_type, .. } => {
                format!("an index must be a number, this is {}", type_name(got_type))
            }
            K::NumericIndexIsNotValid { index, .. } => format!("{index} is not an index"),
            K::NumericIndexOutOfRange { index, length, .. } => {
                format!("there is no element {index}: there are {length}, counted from 0")
            }
            K::ObjectIndexIsNotString { got_type, .. } => {
                format!(
                    "the name of an object's field must be a string, this is {}",
                    type_name(got_type)
                )
            }
            K::RepeatedFieldName { name, .. } => {
                format!("the field {} is defined twice", quoted(name))
            }
            K::FieldNameIsNotString { got_type, .. } => {
                format!("a field's name must be a string, this is {}", type_name(got_type))
            }
            K::UnknownObjectField { field_name, .. } => {
                let near = near(field_name, LIBRARY_FIELDS);
                format!("there is no field {} here{near}", quoted(field_name))
            }
            K::FieldOfNonObject { .. } => "only an object has fields".to_owned(),
            K::SuperWithoutSuperObject { .. } => "there is no super object here".to_owned(),
            K::ForSpecValueIsNotArray { got_type, .. } => {
                format!("'for' needs a list, this is {}", type_name(got_type))
            }
            K::CondIsNotBool { got_type, .. } => {
                format!("a condition must be true or false, this is {}", type_name(got_type))
            }
            K::CalleeIsNotFunction { got_type, .. } => {
                format!("only a function can be called, this is {}", type_name(got_type))
            }
            K::TooManyCallArgs { num_params, .. } => {
                format!("too many arguments: the function takes {num_params}")
            }
            K::UnknownCallParam { param_name, .. } => {
                let near = near(param_name, LIBRARY_PARAMETERS);
                format!("the function has no parameter {}{near}", quoted(param_name))
            }
            K::RepeatedCallParam { param_name, .. } => {
                format!("the parameter {} is given twice", quoted(param_name))
            }
            K::CallParamNotBound { param_name, .. } => {
                format!("the function needs the parameter {}", quoted(param_name))
            }
            K::NativeCallFailed => "there are no native functions".to_owned(),
            K::InvalidUnaryOpType { op, rhs_type, .. } => {
                format!("{} cannot be applied to {}", unary(*op), type_name(rhs_type))
            }
            K::InvalidBinaryOpTypes { op, lhs_type, rhs_type, .. } => {
                let (left, right) = (type_name(lhs_type), type_name(rhs_type));
                format!("{} cannot be applied to {left} and {right}", binary(*op))
            }
            K::NumberNotBitwiseSafe { .. } => {
                "the number is too large for this operation".to_owned()
            }
            K::NumberOverflow { .. } => "the number is too large".to_owned(),
            K::NumberNan { .. } => "the result is not a number".to_owned(),
            K::DivByZero { .. } => "division by zero".to_owned(),
            K::ShiftByNegative { .. } => "a shift must not be negative".to_owned(),
            K::InvalidStdFuncArgType { func_name, arg_index, expected_types, got_type } => {
                let expected: Vec<_> = expected_types.iter().map(type_name).collect();
                let (number, expected) = (arg_index + 1, expected.join(" or "));
                let got = type_name(got_type);
                format!("argument {number} of std.{func_name} must be {expected}, is {got}")
            }
            K::AssertFailed { message: Some(message), .. } => {
                format!("assertion failed: {message}")
            }
            K::AssertFailed { message: None, .. } => "assertion failed".to_owned(),
            K::AssertEqualFailed { lhs, rhs } => {
                format!("assertion failed: {} is not {}", quoted(lhs), quoted(rhs))
            }
            K::ExplicitError { message, .. } => message.clone(),
            K::ImportFailed { path, .. } => format!("cannot import {}", quoted(path)),
            K::UnknownExtVar { name } => {
                let known: Vec<_> = self.settings.variables.keys().map(|k| quoted(k)).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                format!("there is no external variable {}: there are {known}", quoted(name))
            }
            K::ManifestFunction => "a function cannot be part of the result".to_owned(),
            K::CompareNullInequality => "nulls cannot be ordered".to_owned(),
            K::CompareBooleanInequality => "booleans cannot be ordered".to_owned(),
            K::CompareObjectInequality => "objects cannot be ordered".to_owned(),
            K::CompareFunctions => "functions cannot be compared".to_owned(),
            K::CompareDifferentTypesInequality { lhs_type, rhs_type } => {
                format!("{} cannot be compared with {}", type_name(lhs_type), type_name(rhs_type))
            }
            K::PrimitiveEqualsNonPrimitive { got_type } => {
                format!("std.primitiveEquals cannot be applied to {}", type_name(got_type))
            }
            K::Other { message, .. } => message.clone(),
        }
    }
}

fn near(name: &str, candidates: &[&'static str]) -> String {
    // A suggestion that equals the name (it exists elsewhere in the library) is no help.
    words::nearest(name, candidates)
        .filter(|near| *near != name)
        .map(|near| format!("; the nearest name in the library is '{near}'"))
        .unwrap_or_default()
}

fn own_span(kind: &EvalErrorKind) -> Option<SpanId> {
    use EvalErrorKind as K;
    match kind {
        K::InvalidIndexedType { span, .. }
        | K::InvalidSlicedType { span, .. }
        | K::SliceIndexOrStepIsNotNumber { span, .. }
        | K::StringIndexIsNotNumber { span, .. }
        | K::ArrayIndexIsNotNumber { span, .. }
        | K::NumericIndexIsNotValid { span, .. }
        | K::NumericIndexOutOfRange { span, .. }
        | K::ObjectIndexIsNotString { span, .. }
        | K::RepeatedFieldName { span, .. }
        | K::FieldNameIsNotString { span, .. }
        | K::UnknownObjectField { span, .. }
        | K::FieldOfNonObject { span }
        | K::SuperWithoutSuperObject { span }
        | K::ForSpecValueIsNotArray { span, .. }
        | K::CondIsNotBool { span, .. }
        | K::InvalidUnaryOpType { span, .. }
        | K::AssertFailed { span, .. }
        | K::ExplicitError { span, .. }
        | K::ImportFailed { span, .. } => Some(*span),
        K::CalleeIsNotFunction { span, .. }
        | K::TooManyCallArgs { span, .. }
        | K::UnknownCallParam { span, .. }
        | K::RepeatedCallParam { span, .. }
        | K::CallParamNotBound { span, .. }
        | K::InvalidBinaryOpTypes { span, .. }
        | K::NumberNotBitwiseSafe { span }
        | K::NumberOverflow { span }
        | K::NumberNan { span }
        | K::DivByZero { span }
        | K::ShiftByNegative { span }
        | K::Other { span, .. } => *span,
        _ => None,
    }
}

fn trace_span(item: &EvalStackTraceItem) -> Option<SpanId> {
    match item {
        EvalStackTraceItem::Expr { span }
        | EvalStackTraceItem::Variable { span, .. }
        | EvalStackTraceItem::Import { span } => Some(*span),
        EvalStackTraceItem::Call { span, .. }
        | EvalStackTraceItem::ArrayItem { span, .. }
        | EvalStackTraceItem::ObjectField { span, .. } => *span,
        EvalStackTraceItem::CompareArrayItem { .. }
        | EvalStackTraceItem::CompareObjectField { .. }
        | EvalStackTraceItem::ManifestArrayItem { .. }
        | EvalStackTraceItem::ManifestObjectField { .. } => None,
    }
}

fn type_name(got: EvalErrorValueType) -> &'static str {
    match got {
        EvalErrorValueType::Null => "null",
        EvalErrorValueType::Bool => "a boolean",
        EvalErrorValueType::Number => "a number",
        EvalErrorValueType::String => "a string",
        EvalErrorValueType::Array => "a list",
        EvalErrorValueType::Object => "an object",
        EvalErrorValueType::Function => "a function",
    }
}

fn unary(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Minus => "'-'",
        UnaryOp::Plus => "'+'",
        UnaryOp::BitwiseNot => "'~'",
        UnaryOp::LogicNot => "'!'",
    }
}

fn binary(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "'+'",
        BinaryOp::Sub => "'-'",
        BinaryOp::Mul => "'*'",
        BinaryOp::Div => "'/'",
        BinaryOp::Rem => "'%'",
        BinaryOp::Shl => "'<<'",
        BinaryOp::Shr => "'>>'",
        BinaryOp::Lt => "'<'",
        BinaryOp::Le => "'<='",
        BinaryOp::Gt => "'>'",
        BinaryOp::Ge => "'>='",
        BinaryOp::Eq => "'=='",
        BinaryOp::Ne => "'!='",
        BinaryOp::In => "'in'",
        BinaryOp::BitwiseAnd => "'&'",
        BinaryOp::BitwiseOr => "'|'",
        BinaryOp::BitwiseXor => "'^'",
        BinaryOp::LogicAnd => "'&&'",
        BinaryOp::LogicOr => "'||'",
    }
}
