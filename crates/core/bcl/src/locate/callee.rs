//! Evaluates the result of a function call syntactically, when the function is visible at the call.

use rsjsonnet_lang::ast::{Arg, Expr, ExprKind, Field, FieldName, Member, ObjInside, Param};

use crate::locate::{SearchResult, Want};
use crate::scope::{Bound, Scope, argument};

use super::walk::Walk;

/// A function whose definition is visible in the sources.
struct Function<'n> {
    params: &'n [Param<'n, 'n>],
    body: &'n Expr<'n, 'n>,
    scope: Scope<'n>,
}

fn per_task<'n>(function: &Function<'n>, args: &'n [Arg<'n, 'n>]) -> Option<&'n Expr<'n, 'n>> {
    const NAME: &str = "perTask";
    let position = function.params.iter().position(|param| param.name.value.value() == NAME)?;
    argument(args, position, NAME)
}

impl<'n> Walk<'_, 'n> {
    /// The result of calling a visible function.
    pub(crate) fn call(
        &self,
        callee: &'n Expr<'n, 'n>,
        args: &'n [Arg<'n, 'n>],
        scope: &Scope<'n>,
        wants: &[Want<'_>],
        depth: u32,
    ) -> SearchResult {
        let Some(function) = self.function(callee, scope, depth) else {
            return SearchResult::Unknown(None);
        };
        let in_library = self.trees.own_range(function.body.span).is_none();
        if let [Want::Name("overrides"), Want::Name(_), below @ ..] = wants
            && in_library
            && let Some(per_task) = per_task(&function, args)
        {
            return self.per_task(per_task, scope, below, depth);
        }
        let inner = function.scope.with_arguments(function.params, args, scope);
        self.find(function.body, &inner, wants, depth)
    }

    /// The result of the library's `perTask` for a task.
    fn per_task(
        &self,
        function: &'n Expr<'n, 'n>,
        scope: &Scope<'n>,
        below: &[Want<'_>],
        depth: u32,
    ) -> SearchResult {
        let around = self.trees.own_range(function.span);
        let Some(function) = self.function(function, scope, depth) else {
            return SearchResult::Unknown(around);
        };
        let names = function.params.iter().map(|param| param.name.value.value());
        let inner = function.scope.with_unknown(names);
        match self.find(function.body, &inner, below, depth) {
            SearchResult::At(spot) => SearchResult::At(spot),
            _ => SearchResult::Unknown(around),
        }
    }

    /// The function that an expression evaluates to.
    fn function(
        &self,
        expr: &'n Expr<'n, 'n>,
        scope: &Scope<'n>,
        depth: u32,
    ) -> Option<Function<'n>> {
        let depth = depth.checked_sub(1)?;
        self.steps.set(self.steps.get().checked_sub(1)?);
        match &expr.kind {
            ExprKind::Func(params, body) => Some(Function { params, body, scope: scope.clone() }),
            ExprKind::Paren(inner) => self.function(inner, scope, depth),
            ExprKind::Ident(ident) => match scope.find(ident.value.value())? {
                (Bound::Own { params: Some(params), value }, scope) => {
                    Some(Function { params, body: value, scope })
                }
                (Bound::Own { params: None, value }, scope) => self.function(value, &scope, depth),
                (Bound::Argument(value, scope), _) => self.function(value, &scope, depth),
                (Bound::Unknown, _) => None,
            },
            ExprKind::Field(object, name) => self.method(object, name.value.value(), scope, depth),
            _ => None,
        }
    }

    /// The function that is a field of an object literal, or of an object that a function returns.
    fn method(
        &self,
        object: &'n Expr<'n, 'n>,
        name: &str,
        scope: &Scope<'n>,
        depth: u32,
    ) -> Option<Function<'n>> {
        let depth = depth.checked_sub(1)?;
        match &object.kind {
            ExprKind::Paren(inner) => self.method(inner, name, scope, depth),
            ExprKind::Local(binds, body) => {
                self.method(body, name, &scope.with_binds(binds), depth)
            }
            ExprKind::Ident(ident) => match scope.find(ident.value.value())? {
                (Bound::Own { params: None, value }, scope) => {
                    self.method(value, name, &scope, depth)
                }
                (Bound::Argument(value, scope), _) => self.method(value, name, &scope, depth),
                _ => None,
            },
            ExprKind::Import(path) => {
                self.method(self.imported(object, path)?, name, &Scope::default(), depth)
            }
            ExprKind::Call(callee, args, _) => {
                let called = self.function(callee, scope, depth)?;
                let inner = called.scope.with_arguments(called.params, args, scope);
                self.method(called.body, name, &inner, depth)
            }
            ExprKind::Object(ObjInside::Members(members)) => members.iter().find_map(|member| {
                let Member::Field(field) = member else { return None };
                let FieldName::Ident(ident) = field.name() else { return None };
                if ident.value.value() != name {
                    return None;
                }
                let inner = scope.with_members(members);
                match field {
                    Field::Func(_, params, _, _, body) => {
                        Some(Function { params, body, scope: inner })
                    }
                    Field::Value(_, false, _, value) => self.function(value, &inner, depth),
                    Field::Value(..) => None,
                }
            }),
            _ => None,
        }
    }
}
