//! Messages for syntax errors.

use std::fmt::Write as _;

use rsjsonnet_lang::lexer::LexError;
use rsjsonnet_lang::parser::{ActualToken, ExpectedToken, ParseError};
use rsjsonnet_lang::program::{AnalyzeError, LoadError};
use rsjsonnet_lang::span::SpanId;
use rsjsonnet_lang::token::STokenKind as S;

use crate::screen::quoted;

/// The place of a syntax error and its message.
pub(crate) fn explain(error: &LoadError) -> (SpanId, String) {
    match error {
        LoadError::Lex(error) => lexical(error),
        LoadError::Parse(ParseError::Expected { span, expected, instead }) => {
            (*span, syntactical(expected.iter().copied(), instead))
        }
        LoadError::Analyze(error) => static_error(error),
    }
}

fn lexical(error: &LexError) -> (SpanId, String) {
    use LexError as L;
    match error {
        L::InvalidChar { span, chr } => {
            (*span, format!("unexpected character {}", quoted(&chr.to_string())))
        }
        L::InvalidUtf8 { span, .. } => (*span, "this is not UTF-8 text".to_owned()),
        L::UnfinishedMultilineComment { span } => (*span, "unterminated comment".to_owned()),
        L::LeadingZeroInNumber { span } => (*span, "a number cannot start with 0".to_owned()),
        L::MissingFracDigits { span } => {
            (*span, "digits are missing after the decimal point".to_owned())
        }
        L::MissingExpDigits { span } => (*span, "the exponent's digits are missing".to_owned()),
        L::MissingDigitAfterUnderscore { span } => {
            (*span, "a digit is missing after the underscore".to_owned())
        }
        L::ExpOverflow { span } => (*span, "the exponent is too large".to_owned()),
        L::InvalidEscapeInString { span, chr } => {
            (*span, format!("unknown escape {}", quoted(&format!("\\{chr}"))))
        }
        L::IncompleteUnicodeEscape { span } => {
            (*span, "\\u must be followed by four hexadecimal digits".to_owned())
        }
        L::InvalidUtf16EscapeSequence { span, .. } => {
            (*span, "the escape is not a valid character".to_owned())
        }
        L::UnfinishedString { span } => (*span, "unterminated string".to_owned()),
        L::MissingLineBreakAfterTextBlockStart { span } => {
            (*span, "'|||' must be followed by a line break".to_owned())
        }
        L::MissingWhitespaceTextBlockStart { span } => {
            (*span, "the first line of a text block must be indented".to_owned())
        }
        L::InvalidTextBlockTermination { span } => {
            (*span, "unterminated text block: '|||' on a line of its own is missing".to_owned())
        }
    }
}

fn static_error(error: &AnalyzeError) -> (SpanId, String) {
    use AnalyzeError as A;
    match error {
        A::UnknownVariable { span, name } => {
            let hint = match name.as_str() {
                "borg" => ": begin the file with local borg = import 'borg.libsonnet';",
                _ => "",
            };
            (*span, format!("there is no variable {}{hint}", quoted(name)))
        }
        A::SelfOutsideObject { self_span } => (*self_span, "'self' outside an object".to_owned()),
        A::SuperOutsideObject { super_span } => {
            (*super_span, "'super' outside an object".to_owned())
        }
        A::DollarOutsideObject { dollar_span } => {
            (*dollar_span, "'$' outside an object".to_owned())
        }
        A::RepeatedLocalName { repeated_span, name, .. } => {
            (*repeated_span, format!("the variable {} is defined twice", quoted(name)))
        }
        A::RepeatedFieldName { repeated_span, name, .. } => {
            (*repeated_span, format!("the field {} is defined twice", quoted(name)))
        }
        A::RepeatedParamName { repeated_span, name, .. } => {
            (*repeated_span, format!("the parameter {} is defined twice", quoted(name)))
        }
        A::PositionalArgAfterNamed { arg_span } => {
            (*arg_span, "a positional argument after a named one".to_owned())
        }
        A::TextBlockAsImportPath { span } | A::ComputedImportPath { span } => {
            (*span, "the path of an import must be a string literal".to_owned())
        }
    }
}

/// The maximum number of expected tokens listed in a message.
const EXPECTED_MAX: usize = 6;

fn syntactical(expected: impl Iterator<Item = ExpectedToken>, instead: &ActualToken) -> String {
    let found = match instead {
        ActualToken::EndOfFile => "end of file".to_owned(),
        ActualToken::Simple(kind) => format!("'{}'", token(*kind)),
        ActualToken::OtherOp(op) => quoted(op),
        ActualToken::Ident(name) => quoted(name),
        ActualToken::Number => "number".to_owned(),
        ActualToken::String => "string".to_owned(),
        ActualToken::TextBlock => "text block".to_owned(),
    };
    let mut names: Vec<String> = Vec::new();
    for expected in expected {
        let name = match expected {
            ExpectedToken::EndOfFile => "the end of the file".to_owned(),
            ExpectedToken::Simple(kind) => format!("'{}'", token(kind)),
            ExpectedToken::Ident => "a name".to_owned(),
            ExpectedToken::Number => "a number".to_owned(),
            ExpectedToken::String => "a string".to_owned(),
            ExpectedToken::TextBlock => "a text block".to_owned(),
            ExpectedToken::Expr => "a value".to_owned(),
            ExpectedToken::BinaryOp => "an operator".to_owned(),
        };
        if !goes_anywhere(expected) {
            names.push(name);
        }
    }
    names.truncate(EXPECTED_MAX);
    let mut text = format!("unexpected {found}");
    if let Some((last, others)) = names.split_last() {
        let others = others.join(", ");
        let or = if others.is_empty() { "" } else { " or " };
        // Writing to a `String` cannot fail.
        let _ = write!(text, "; expected {others}{or}{last}");
    }
    text
}

/// Whether a token is allowed nearly everywhere, so that listing it does not help.
fn goes_anywhere(expected: ExpectedToken) -> bool {
    let ExpectedToken::Simple(kind) = expected else { return false };
    matches!(
        kind,
        S::Dot
            | S::LeftParen
            | S::LeftBracket
            | S::LeftBrace
            | S::Tailstrict
            | S::ColonColon
            | S::ColonColonColon
            | S::PlusColon
            | S::PlusColonColon
            | S::PlusColonColonColon
    )
}

fn token(kind: S) -> &'static str {
    match kind {
        S::Assert => "assert",
        S::Else => "else",
        S::Error => "error",
        S::False => "false",
        S::For => "for",
        S::Function => "function",
        S::If => "if",
        S::Import => "import",
        S::Importstr => "importstr",
        S::Importbin => "importbin",
        S::In => "in",
        S::Local => "local",
        S::Null => "null",
        S::Tailstrict => "tailstrict",
        S::Then => "then",
        S::Self_ => "self",
        S::Super => "super",
        S::True => "true",
        S::Exclam => "!",
        S::ExclamEq => "!=",
        S::Dollar => "$",
        S::Percent => "%",
        S::Amp => "&",
        S::AmpAmp => "&&",
        S::LeftParen => "(",
        S::RightParen => ")",
        S::Asterisk => "*",
        S::Plus => "+",
        S::PlusColon => "+:",
        S::PlusColonColon => "+::",
        S::PlusColonColonColon => "+:::",
        S::Comma => ",",
        S::Minus => "-",
        S::Dot => ".",
        S::Slash => "/",
        S::Colon => ":",
        S::ColonColon => "::",
        S::ColonColonColon => ":::",
        S::Semicolon => ";",
        S::Lt => "<",
        S::LtLt => "<<",
        S::LtEq => "<=",
        S::Eq => "=",
        S::EqEq => "==",
        S::Gt => ">",
        S::GtEq => ">=",
        S::GtGt => ">>",
        S::LeftBracket => "[",
        S::RightBracket => "]",
        S::Hat => "^",
        S::LeftBrace => "{",
        S::Pipe => "|",
        S::PipePipe => "||",
        S::RightBrace => "}",
        S::Tilde => "~",
    }
}
