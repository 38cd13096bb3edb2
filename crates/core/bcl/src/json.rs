//! The result of an evaluation: JSON, bounded in size and depth.

use std::collections::BTreeMap;

use rsjsonnet_lang::program::{Value, ValueKind};

use spec::Step;

use crate::limits;

/// A value. Fields are sorted by name, as in Jsonnet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// Always finite: Jsonnet rejects infinities and NaN.
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
    /// Not JSON: kept so that the schema can report where it is.
    Function,
}

/// The limit that a value exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooLarge {
    Values,
    Text,
    Depth,
}

/// The remaining budget.
struct Budget {
    values: usize,
    text: usize,
}

impl Json {
    /// Copies an evaluated value out of the interpreter.
    pub(crate) fn of(value: &Value<'_>) -> Result<Self, TooLarge> {
        let mut budget = Budget { values: limits::VALUES_MAX, text: limits::TEXT_BYTES_MAX };
        budget.copy(value, limits::DEPTH_MAX)
    }

    pub(crate) fn object(&self) -> Option<&BTreeMap<String, Self>> {
        match self {
            Self::Object(fields) => Some(fields),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Self]> {
        match self {
            Self::List(elements) => Some(elements),
            _ => None,
        }
    }

    /// The value one step down.
    pub(crate) fn below(&self, step: &Step) -> Option<&Self> {
        match step {
            Step::Field(name) | Step::Key(name) => self.object()?.get(name),
            Step::Element(position) => self.list()?.get(*position),
        }
    }

    /// The kind of value, with its article.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
            Self::Function => "a function",
        }
    }
}

impl Budget {
    fn copy(&mut self, value: &Value<'_>, depth: usize) -> Result<Json, TooLarge> {
        self.values = self.values.checked_sub(1).ok_or(TooLarge::Values)?;
        Ok(match value.kind() {
            ValueKind::Null => Json::Null,
            ValueKind::Bool(value) => Json::Bool(value),
            ValueKind::Number(value) => Json::Number(value),
            ValueKind::String(text) => {
                self.text(&text)?;
                Json::Text(text)
            }
            ValueKind::Array(elements) => {
                let depth = depth.checked_sub(1).ok_or(TooLarge::Depth)?;
                if elements.len() > self.values {
                    return Err(TooLarge::Values);
                }
                Json::List(
                    elements.iter().map(|each| self.copy(each, depth)).collect::<Result<_, _>>()?,
                )
            }
            ValueKind::Object(fields) => {
                let depth = depth.checked_sub(1).ok_or(TooLarge::Depth)?;
                let mut copied = BTreeMap::new();
                for (name, value) in &fields {
                    self.text(name.value())?;
                    copied.insert(name.value().to_owned(), self.copy(value, depth)?);
                }
                Json::Object(copied)
            }
            ValueKind::Function => Json::Function,
        })
    }

    fn text(&mut self, text: &str) -> Result<(), TooLarge> {
        self.text = self.text.checked_sub(text.len()).ok_or(TooLarge::Text)?;
        Ok(())
    }
}
