//! Resolves names at a place in a source file.

use std::rc::Rc;

use rsjsonnet_lang::ast::{Arg, Bind, Expr, Member, Param};

/// The meaning of a name.
#[derive(Clone)]
pub(crate) enum Bound<'n> {
    /// A `local`, a member `local` or a parameter's default: an expression of the scope itself.
    Own { params: Option<&'n [Param<'n, 'n>]>, value: &'n Expr<'n, 'n> },
    /// An argument: an expression of the caller.
    Argument(&'n Expr<'n, 'n>, Scope<'n>),
    /// Known only to the evaluation.
    Unknown,
}

/// The names visible at a place: a chain of scopes, innermost first.
#[derive(Clone, Default)]
pub(crate) struct Scope<'n>(Option<Rc<Level<'n>>>);

struct Level<'n> {
    names: Vec<(&'n str, Bound<'n>)>,
    outer: Scope<'n>,
}

impl<'n> Scope<'n> {
    fn with(&self, names: Vec<(&'n str, Bound<'n>)>) -> Self {
        Self(Some(Rc::new(Level { names, outer: self.clone() })))
    }

    /// The scope inside a `local`.
    pub(crate) fn with_binds(&self, binds: &'n [Bind<'n, 'n>]) -> Self {
        self.with(binds.iter().map(own).collect())
    }

    /// The scope inside an object.
    pub(crate) fn with_members(&self, members: &'n [Member<'n, 'n>]) -> Self {
        let locals = members.iter().filter_map(|member| match member {
            Member::Local(local) => Some(own(&local.bind)),
            _ => None,
        });
        self.with(locals.collect())
    }

    /// The scope inside a function's body, with its parameters bound to a caller's arguments.
    pub(crate) fn with_arguments(
        &self,
        params: &'n [Param<'n, 'n>],
        args: &'n [Arg<'n, 'n>],
        caller: &Self,
    ) -> Self {
        let bound = params.iter().enumerate().map(|(position, param)| {
            let name = param.name.value.value();
            let bound = match (argument(args, position, name), &param.default_value) {
                (Some(value), _) => Bound::Argument(value, caller.clone()),
                (None, Some(value)) => Bound::Own { params: None, value },
                (None, None) => Bound::Unknown,
            };
            (name, bound)
        });
        self.with(bound.collect())
    }

    /// The scope inside a construct whose names only the evaluation knows.
    pub(crate) fn with_unknown(&self, names: impl Iterator<Item = &'n str>) -> Self {
        self.with(names.map(|name| (name, Bound::Unknown)).collect())
    }

    /// A name's meaning and the scope in which to interpret it.
    pub(crate) fn find(&self, name: &str) -> Option<(Bound<'n>, Self)> {
        let mut scope = self;
        while let Some(level) = &scope.0 {
            if let Some((_, bound)) = level.names.iter().find(|(known, _)| *known == name) {
                return Some((bound.clone(), scope.clone()));
            }
            scope = &level.outer;
        }
        None
    }
}

fn own<'n>(bind: &'n Bind<'n, 'n>) -> (&'n str, Bound<'n>) {
    let params = bind.params.map(|(params, _)| params);
    (bind.name.value.value(), Bound::Own { params, value: &bind.value })
}

/// The argument for a parameter, by name or by position.
pub(crate) fn argument<'n>(
    args: &'n [Arg<'n, 'n>],
    position: usize,
    name: &str,
) -> Option<&'n Expr<'n, 'n>> {
    let named = args.iter().find_map(|arg| match arg {
        Arg::Named(ident, value) if ident.value.value() == name => Some(value),
        _ => None,
    });
    let positional = || match args.get(position) {
        Some(Arg::Positional(value)) => Some(value),
        _ => None,
    };
    named.or_else(positional)
}
