//! Walks from an expression down to a value below it, through everything that can be read
//! statically.

use std::cell::Cell;

use rsjsonnet_lang::ast::{
    BinaryOp, CompSpecPart, Expr, ExprKind, Field, FieldName, Member, ObjInside,
};
use rsjsonnet_lang::span::SpanId;

use crate::locate::{SearchResult, Spot, Trees, Want};
use crate::scope::{Bound, Scope};
use crate::source::Range;

/// One search.
pub(crate) struct Walk<'t, 'n> {
    pub(crate) trees: &'t Trees<'n>,
    /// How many more expressions may be visited.
    pub(crate) steps: Cell<u32>,
}

impl<'t, 'n> Walk<'t, 'n> {
    pub(crate) fn new(trees: &'t Trees<'n>, steps: u32) -> Self {
        Self { trees, steps: Cell::new(steps) }
    }

    /// Searches an expression for a value below it.
    pub(crate) fn find(
        &self,
        expr: &'n Expr<'n, 'n>,
        scope: &Scope<'n>,
        wants: &[Want<'_>],
        depth: u32,
    ) -> SearchResult {
        let around = || self.trees.own_range(expr.span);
        let (Some(depth), Some(steps)) = (depth.checked_sub(1), self.steps.get().checked_sub(1))
        else {
            return SearchResult::Unknown(around());
        };
        self.steps.set(steps);
        match &expr.kind {
            ExprKind::Paren(inner) => return self.find(inner, scope, wants, depth),
            ExprKind::Local(binds, body) => {
                return self.find(body, &scope.with_binds(binds), wants, depth);
            }
            ExprKind::Assert(_, body) => return self.find(body, scope, wants, depth),
            _ => {}
        }
        let Some((want, below)) = wants.split_first() else {
            return match around() {
                Some(range) => SearchResult::At(Spot { name: range, whole: range, exact: true }),
                None => SearchResult::Unknown(None),
            };
        };
        match (&expr.kind, want) {
            (ExprKind::Object(inside), Want::Name(name)) => {
                self.field(inside, expr.span, scope, name, below, depth)
            }
            (ExprKind::ObjExt(base, inside, inside_span), Want::Name(name)) => {
                match self.field(inside, *inside_span, scope, name, below, depth) {
                    SearchResult::Absent => {
                        self.find(base, scope, wants, depth).or_around(around())
                    }
                    SearchResult::Before(count) => {
                        let wants = shortened(wants, count);
                        self.find(base, scope, &wants, depth).or_around(around())
                    }
                    answer => answer,
                }
            }
            (ExprKind::Binary(left, BinaryOp::Add, right), _) => {
                self.sum(left, right, scope, wants, depth).or_around(around())
            }
            (ExprKind::Array(elements), Want::Element(position, _)) => {
                match elements.get(*position) {
                    Some(element) => self
                        .find(element, scope, below, depth)
                        .or_around(self.trees.own_range(element.span)),
                    None => SearchResult::Absent,
                }
            }
            (ExprKind::ArrayComp(body, spec), Want::Element(..)) => {
                let names = spec.iter().filter_map(|part| match part {
                    CompSpecPart::For(part) => Some(part.var.value.value()),
                    CompSpecPart::If(_) => None,
                });
                self.find(body, &scope.with_unknown(names), below, depth).or_around(around())
            }
            // A value is below a function only if the file is one, and is called with parameters.
            (ExprKind::Func(params, body), _) => {
                let names = params.iter().map(|param| param.name.value.value());
                self.find(body, &scope.with_unknown(names), wants, depth).or_around(around())
            }
            (ExprKind::If(_, yes, no), _) => {
                let yes = self.find(yes, scope, wants, depth);
                let no = no.map_or(SearchResult::Absent, |no| self.find(no, scope, wants, depth));
                match (yes, no) {
                    (SearchResult::Absent, answer) | (answer, SearchResult::Absent) => answer,
                    _ => SearchResult::Unknown(around()),
                }
            }
            (ExprKind::Ident(ident), _) => match scope.find(ident.value.value()) {
                Some((Bound::Own { params: None, value }, scope)) => {
                    self.find(value, &scope, wants, depth)
                }
                Some((Bound::Argument(value, scope), _)) => self.find(value, &scope, wants, depth),
                _ => SearchResult::Unknown(around()),
            },
            (ExprKind::Field(object, name), _) => {
                let mut longer = vec![Want::Name(name.value.value())];
                longer.extend_from_slice(wants);
                self.find(object, scope, &longer, depth).or_around(around())
            }
            (ExprKind::Import(path), _) => match self.imported(expr, path) {
                Some(root) => self.find(root, &Scope::default(), wants, depth),
                None => SearchResult::Unknown(around()),
            },
            (ExprKind::Call(callee, args, _), _) => {
                self.call(callee, args, scope, wants, depth).or_around(around())
            }
            // Expressions without fields or elements.
            (
                ExprKind::Null
                | ExprKind::Bool(_)
                | ExprKind::String(_)
                | ExprKind::TextBlock(_)
                | ExprKind::Number(_)
                | ExprKind::Object(_)
                | ExprKind::Array(_),
                _,
            ) => SearchResult::Absent,
            _ => SearchResult::Unknown(around()),
        }
    }

    /// Searches a field of an object literal.
    fn field(
        &self,
        inside: &'n ObjInside<'n, 'n>,
        span: SpanId,
        scope: &Scope<'n>,
        name: &str,
        below: &[Want<'_>],
        depth: u32,
    ) -> SearchResult {
        let ObjInside::Members(members) = inside else {
            return SearchResult::Unknown(self.trees.own_range(span));
        };
        let mut computed = false;
        for member in *members {
            let Member::Field(field) = member else { continue };
            let (field_name, plus, value) = match field {
                Field::Value(name, plus, _, value) => (name, plus, value),
                // A method is not a value, so nothing is below it.
                Field::Func(name, _, _, _, body) => (name, &false, body),
            };
            let (known, name_span) = match field_name {
                FieldName::Ident(ident) => (ident.value.value(), ident.span),
                FieldName::String(text, span) => (text.value(), *span),
                FieldName::Expr(Expr { kind: ExprKind::String(text), .. }, span) => (*text, *span),
                FieldName::Expr(..) => {
                    computed = true;
                    continue;
                }
            };
            if known != name {
                continue;
            }
            let inner = scope.with_members(members);
            let spot = self.spot(name_span, value.span);
            let found = match below.is_empty() {
                true => SearchResult::Absent,
                false => self.element_of(value, &inner, below, *plus, depth),
            };
            return match (found, spot) {
                (SearchResult::At(found), _) => SearchResult::At(found),
                (SearchResult::Absent, Some(spot)) if below.is_empty() => SearchResult::At(spot),
                // In the library, a field whose value is an argument was written by the caller.
                (SearchResult::Absent, None) if below.is_empty() => {
                    self.argument_of(value, &inner, depth)
                }
                (SearchResult::Absent, _) if *plus => SearchResult::Absent,
                (SearchResult::Unknown(range), spot) => {
                    SearchResult::Unknown(range.or(spot.map(|spot| spot.whole)))
                }
                (SearchResult::Before(count), _) if matches!(below, [Want::Element(..), ..]) => {
                    SearchResult::Before(count)
                }
                (_, Some(spot)) => SearchResult::At(Spot { exact: false, ..spot }),
                (_, None) => SearchResult::Unknown(None),
            };
        }
        match computed {
            true => SearchResult::Unknown(self.trees.own_range(span)),
            false => SearchResult::Absent,
        }
    }

    /// Searches below a field's value. With `+:`, a list is appended to the previous one.
    fn element_of(
        &self,
        value: &'n Expr<'n, 'n>,
        scope: &Scope<'n>,
        below: &[Want<'_>],
        plus: bool,
        depth: u32,
    ) -> SearchResult {
        let Some((Want::Element(position, of), rest)) = below.split_first().filter(|_| plus) else {
            return self.find(value, scope, below, depth);
        };
        match (of, self.length(value, scope, depth)) {
            (Some(of), Some(length)) if length <= *of => match position.checked_sub(of - length) {
                Some(position) => {
                    let mut wants = vec![Want::Element(position, Some(length))];
                    wants.extend_from_slice(rest);
                    self.find(value, scope, &wants, depth)
                }
                None => SearchResult::Before(of - length),
            },
            _ => SearchResult::Unknown(None),
        }
    }

    /// Searches a sum of objects or lists.
    fn sum(
        &self,
        left: &'n Expr<'n, 'n>,
        right: &'n Expr<'n, 'n>,
        scope: &Scope<'n>,
        wants: &[Want<'_>],
        depth: u32,
    ) -> SearchResult {
        let Some((want, below)) = wants.split_first() else { return SearchResult::Unknown(None) };
        let with = |want: Want<'_>, side| {
            let mut wants = vec![want];
            wants.extend(below.iter().cloned());
            self.find(side, scope, &wants, depth)
        };
        match want {
            Want::Name(name) => match with(Want::Name(name), right) {
                SearchResult::Absent => with(Want::Name(name), left),
                SearchResult::Before(count) => {
                    let mut wants = vec![Want::Name(name)];
                    wants.extend_from_slice(below);
                    self.find(left, scope, &shortened(&wants, count), depth)
                }
                answer => answer,
            },
            Want::Element(position, of) => {
                let (left_has, right_has) =
                    (self.length(left, scope, depth), self.length(right, scope, depth));
                let left_has =
                    left_has.or_else(|| right_has.and_then(|has| (*of)?.checked_sub(has)));
                match left_has {
                    Some(has) if *position < has => with(Want::Element(*position, Some(has)), left),
                    Some(has) => {
                        let of = of.and_then(|of| of.checked_sub(has));
                        with(Want::Element(position - has, of), right)
                    }
                    None => SearchResult::Unknown(None),
                }
            }
        }
    }

    /// The length of a list, if it can be determined.
    fn length(&self, expr: &'n Expr<'n, 'n>, scope: &Scope<'n>, depth: u32) -> Option<usize> {
        let depth = depth.checked_sub(1)?;
        self.steps.set(self.steps.get().checked_sub(1)?);
        match &expr.kind {
            ExprKind::Array(elements) => Some(elements.len()),
            ExprKind::Paren(inner) => self.length(inner, scope, depth),
            ExprKind::Local(binds, body) => self.length(body, &scope.with_binds(binds), depth),
            ExprKind::Binary(left, BinaryOp::Add, right) => {
                let left = self.length(left, scope, depth)?;
                left.checked_add(self.length(right, scope, depth)?)
            }
            ExprKind::Ident(ident) => match scope.find(ident.value.value())? {
                (Bound::Own { params: None, value }, scope) => self.length(value, &scope, depth),
                (Bound::Argument(value, scope), _) => self.length(value, &scope, depth),
                _ => None,
            },
            _ => None,
        }
    }

    /// The tree of an imported file.
    pub(crate) fn imported(
        &self,
        import: &Expr<'_, '_>,
        path: &Expr<'_, '_>,
    ) -> Option<&'n Expr<'n, 'n>> {
        let ExprKind::String(path) = path.kind else { return None };
        let from = self.trees.file_of(import.span)?;
        let file = self.trees.files.imported(from, path)?;
        self.trees.roots.get(&file).copied()
    }

    /// The caller's expression that an argument in the library stands for.
    fn argument_of(&self, expr: &'n Expr<'n, 'n>, scope: &Scope<'n>, depth: u32) -> SearchResult {
        let (ExprKind::Ident(ident), Some(depth)) = (&expr.kind, depth.checked_sub(1)) else {
            return SearchResult::Unknown(None);
        };
        match scope.find(ident.value.value()) {
            // The argument is itself one of the caller's own arguments.
            Some((Bound::Argument(value, scope), _)) => {
                match self.argument_of(value, &scope, depth) {
                    SearchResult::At(spot) => SearchResult::At(spot),
                    _ => self.find(value, &scope, &[], depth),
                }
            }
            _ => SearchResult::Unknown(None),
        }
    }

    fn spot(&self, name: SpanId, value: SpanId) -> Option<Spot> {
        let name = self.trees.own_range(name)?;
        let value = self.trees.own_range(value)?;
        Some(Spot { name, whole: Range { end: value.end, ..name }, exact: true })
    }
}

/// The path to an element after skipping the `count` elements of the list that is appended to.
fn shortened<'w>(wants: &[Want<'w>], count: usize) -> Vec<Want<'w>> {
    let mut wants = wants.to_vec();
    if let Some(Want::Element(_, of)) = wants.get_mut(1) {
        *of = Some(count);
    }
    wants
}
