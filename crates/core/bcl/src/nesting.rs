//! Measures how deep the expressions of a file are nested, from its tokens, before the
//! interpreter's recursive parser sees them: a hundred thousand open braces must be an error, not a
//! stack overflow.
//!
//! Nesting constructs are brackets; the bodies of `local`, `if`, `function`, `assert`, `error` and
//! `import`; and each step of a chain such as `a.b(c).d`. Lists, objects and sums of any length do
//! not nest. The count is never below the parser's depth and may be slightly above it.

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::interner::StrInterner;
use rsjsonnet_lang::lexer::Lexer;
use rsjsonnet_lang::span::SpanManager;
use rsjsonnet_lang::token::{STokenKind as S, Token, TokenKind};

/// The byte range of the first token that is nested too deep. `None` also if the file has lexical
/// errors.
pub(crate) fn too_deep(source: &[u8], most: u32) -> Option<std::ops::Range<usize>> {
    let (strings, ast) = (Arena::new(), Arena::new());
    let interner = StrInterner::new();
    let mut spans = SpanManager::new();
    let (context, _) = spans.insert_source_context(source.len());
    let lexer = Lexer::new(&strings, &ast, &interner, &mut spans, context, source);
    let tokens = lexer.lex_to_eof(false).ok()?;
    let token = first_too_deep(&tokens, most)?;
    let (_, start, end) = spans.get_span(token.span);
    Some(start..end)
}

/// The state between two brackets.
#[derive(Default)]
struct Frame {
    /// The depth outside.
    base: u32,
    /// Whether the bracket is a brace: if it opens an object, its members may be `local`.
    brace: bool,
    /// Keywords whose bodies extend to the right.
    prefixes: u32,
    /// Steps of the current chain.
    suffixes: u32,
    /// For each `local` and `assert` without its `;` yet: the number of prefixes before it.
    unfinished: Vec<u32>,
}

impl Frame {
    fn depth(&self) -> u32 {
        self.base.saturating_add(self.prefixes).saturating_add(self.suffixes)
    }
}

fn first_too_deep<'p, 'ast>(tokens: &[Token<'p, 'ast>], most: u32) -> Option<Token<'p, 'ast>> {
    let mut outer: Vec<Frame> = Vec::new();
    let mut frame = Frame::default();
    let mut before = S::LeftBracket;
    for token in tokens {
        let TokenKind::Simple(kind) = token.kind else {
            before = S::Null;
            continue;
        };
        match kind {
            S::LeftBrace | S::LeftBracket | S::LeftParen => {
                // A function's parameter list belongs to its keyword.
                let step = u32::from(before != S::Function);
                frame.suffixes = frame.suffixes.saturating_add(step);
                let inner =
                    Frame { base: frame.depth(), brace: kind == S::LeftBrace, ..Frame::default() };
                outer.push(std::mem::replace(&mut frame, inner));
            }
            S::RightBrace | S::RightBracket | S::RightParen => {
                frame = outer.pop().unwrap_or_default();
            }
            S::Dot => frame.suffixes = frame.suffixes.saturating_add(1),
            S::Comma => {
                frame.suffixes = 0;
                frame.prefixes = frame.unfinished.last().copied().unwrap_or(0);
            }
            S::Semicolon => {
                frame.suffixes = 0;
                frame.prefixes = frame.unfinished.pop().unwrap_or(frame.prefixes);
            }
            S::Local | S::Assert => {
                let member = frame.brace
                    && frame.unfinished.is_empty()
                    && matches!(before, S::LeftBrace | S::Comma);
                if !member {
                    frame.prefixes = frame.prefixes.saturating_add(1);
                    frame.unfinished.push(frame.prefixes);
                }
            }
            S::If | S::Function | S::Error | S::Import | S::Importstr | S::Importbin => {
                frame.prefixes = frame.prefixes.saturating_add(1);
            }
            S::Null | S::True | S::False | S::Self_ | S::Super | S::Tailstrict => {}
            // An operator or the end of an operand: a new chain starts.
            _ => frame.suffixes = 0,
        }
        before = kind;
        if frame.depth() > most {
            return Some(*token);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recursion_of_the_parser_is_counted() {
        let nested = |open: &str, close: &str| {
            let text = |times: usize| open.repeat(times) + "1" + &close.repeat(times);
            assert_eq!(too_deep(text(30).as_bytes(), 250), None, "{open}");
            assert!(too_deep(text(100_000).as_bytes(), 250).is_some(), "{open}");
        };
        for (open, close) in [
            ("{a:", "}"),
            ("[", "]"),
            ("(", ")"),
            ("{a:1, b:", "}"),
            ("{local a=", ",b:a}"),
            ("local a = 1; ", ""),
            ("local a = 1, b = 2; ", ""),
            ("local a = ", "; a"),
            ("local a = 1, b = ", "; a"),
            ("{a: local x = 1, y = 2; ", "}"),
            ("if true then 1 else ", ""),
            ("if ", " then 1"),
            ("function(x) ", ""),
            ("function(x=", ") 1"),
            ("assert true; ", ""),
            ("error ", ""),
            ("f(", ")"),
            ("[1][", "]"),
            ("[", " for x in [1]]"),
            ("1 + {a: ", "}"),
        ] {
            nested(open, close);
        }
        for chain in [".a", "{}", "()", "[0]"] {
            let text = "a".to_owned() + &chain.repeat(100_000);
            assert!(too_deep(text.as_bytes(), 250).is_some(), "{chain}");
        }
    }

    #[test]
    fn length_is_not_depth() {
        for (before, part, after) in [
            ("[", "{ a: [1, if x then f(1).b else 2] }, ", "]"),
            ("{", "local a = 1, ", "b: 2 }"),
            ("{", "a: local x = 1, y = 2; x, ", "}"),
            ("", "a.b(c) + ", "1"),
            ("local ", "a(x) = if x then 1 else [2], ", "b = 1; b"),
        ] {
            let text = before.to_owned() + &part.repeat(10_000) + after;
            assert_eq!(too_deep(text.as_bytes(), 20), None, "{part}");
        }
    }
}
