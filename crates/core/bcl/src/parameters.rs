//! Files that are functions: their parameters, from texts and from files.

use std::collections::BTreeMap;

use rsjsonnet_lang::arena::Arena;
use rsjsonnet_lang::ast::{Expr, ExprKind};
use rsjsonnet_lang::program::Value;

use crate::error::{ErrorKind, Parameter};
use crate::interpreter::{EvaluatedFile, Failure, Interpreter, Settings};
use crate::json::Json;
use crate::locate::Trees;
use crate::source::FileId;

/// The value of a file: that of its function with the parameters of the settings, if it is one.
pub(crate) fn applied<'p>(
    interpreter: &mut Interpreter<'p, '_>,
    evaluated: EvaluatedFile<'p>,
    settings: &Settings,
) -> Result<Value<'p>, Failure> {
    let EvaluatedFile { file, thunk, value } = evaluated;
    let given = given(interpreter, settings)?;
    let failed = |kind| Err(Failure::Parameters(file, kind));
    if !value.is_function() {
        return match given.keys().next() {
            None => Ok(value),
            Some(name) => failed(ErrorKind::NoParameters { name: name.clone() }),
        };
    }
    // Parameters that only the evaluation knows are checked by it.
    if let Some(takes) = of_file(interpreter, file) {
        let unknown = given.keys().find(|name| takes.iter().all(|takes| takes.name != **name));
        if let Some(name) = unknown {
            return failed(ErrorKind::UnknownParameter { name: name.clone(), takes });
        }
        let is_missing = |takes: &&Parameter| !takes.optional && !given.contains_key(&takes.name);
        let missing: Vec<String> =
            takes.iter().filter(is_missing).map(|takes| takes.name.clone()).collect();
        if !missing.is_empty() {
            return failed(ErrorKind::MissingParameters { missing, takes });
        }
    }
    interpreter.call(&thunk, &given)
}

/// The parameters of the settings.
fn given<'p>(
    interpreter: &mut Interpreter<'p, '_>,
    settings: &Settings,
) -> Result<BTreeMap<String, Value<'p>>, Failure> {
    let mut given = BTreeMap::new();
    for from in &settings.parameter_files {
        let EvaluatedFile { file, value, .. } = interpreter.evaluate(&from.name, &from.content)?;
        let Some(fields) = value.to_object() else {
            let found = Json::of(&value).map_or("something too large", |value| value.kind());
            return Err(Failure::Parameters(file, ErrorKind::NotParameters { found }));
        };
        given.extend(fields.into_iter().map(|(name, value)| (name.value().to_owned(), value)));
    }
    let texts = settings.parameters.iter();
    given.extend(texts.map(|(name, text)| (name.clone(), Value::string(text))));
    Ok(given)
}

/// The parameters that are written in a file; `None` if its function comes from elsewhere.
fn of_file(interpreter: &Interpreter<'_, '_>, file: FileId) -> Option<Vec<Parameter>> {
    let arena = Arena::new();
    let trees = Trees::new(&interpreter.host.files, &arena);
    let mut expr: &Expr<'_, '_> = trees.roots.get(&file)?;
    loop {
        match &expr.kind {
            ExprKind::Paren(inner) => expr = inner,
            ExprKind::Local(_, body) | ExprKind::Assert(_, body) => expr = body,
            ExprKind::Func(params, _) => {
                let parameter = |param: &rsjsonnet_lang::ast::Param<'_, '_>| Parameter {
                    name: param.name.value.value().to_owned(),
                    optional: param.default_value.is_some(),
                };
                return Some(params.iter().map(parameter).collect());
            }
            _ => return None,
        }
    }
}
