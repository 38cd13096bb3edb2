//! Reads the fields of an object one by one and collects all problems.

use std::collections::BTreeMap;

use spec::Path;

use crate::error::ErrorKind;
use crate::json::Json;
use crate::limits;
use crate::quantity::wrong_type;
use crate::words;

/// The maximum number of diagnostics kept. It exceeds the number of reported errors because several
/// diagnostics at one place become one error.
const DIAGNOSTICS_MAX: usize = 10 * limits::ERRORS_MAX;

/// In canonical JSON: the names of the variables whose values are omitted.
const HIDDEN_ENV: &str = "hiddenEnv";

/// A problem with a value, before its place in the sources is known.
#[derive(Debug)]
pub(crate) struct Diagnostic {
    /// The path in the result, in the result's own spelling.
    pub(crate) at: Path,
    /// The path in the description's field names; shown to the user.
    pub(crate) shown: Path,
    pub(crate) kind: ErrorKind,
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    pub(crate) list: Vec<Diagnostic>,
    /// The number of problems beyond those kept.
    pub(crate) untold: usize,
}

impl Diagnostics {
    pub(crate) fn add(&mut self, at: Path, kind: ErrorKind) {
        let shown = at.clone();
        self.add_shown(Diagnostic { at, shown, kind });
    }

    pub(crate) fn add_shown(&mut self, diagnostic: Diagnostic) {
        match self.list.len() < DIAGNOSTICS_MAX {
            true => self.list.push(diagnostic),
            false => self.untold += 1,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len() + self.untold
    }
}

/// A kind of object in a description.
pub(crate) struct Shape {
    /// The kind, with its article, for messages.
    pub(crate) of: &'static str,
    /// The expected value, with an example.
    pub(crate) expected: &'static str,
    /// The fields it may have, as people write them.
    pub(crate) fields: &'static [&'static str],
    /// The canonical JSON spellings of those fields.
    pub(crate) spellings: &'static [&'static str],
}

/// A field's name and the function that reads its value.
pub(crate) struct Spelling<T> {
    pub(crate) name: &'static str,
    pub(crate) read: fn(&Json) -> Result<T, ErrorKind>,
}

/// An object whose fields are being read. A field that is null counts as absent, as in canonical
/// JSON. A read function that returns `None` has recorded a problem, unless the field is absent.
#[derive(Clone)]
pub(crate) struct Fields<'j> {
    object: &'j BTreeMap<String, Json>,
    pub(crate) path: Path,
    of: &'static str,
}

impl<'j> Fields<'j> {
    /// Opens an object and rejects unknown fields.
    pub(crate) fn open(
        value: &'j Json,
        path: Path,
        shape: &Shape,
        found: &mut Diagnostics,
    ) -> Option<Self> {
        let Some(object) = value.object() else {
            found.add(path, wrong_type(shape.expected, value));
            return None;
        };
        let (of, fields) = (shape.of, shape.fields);
        let known = |name: &&String| {
            let name = name.as_str();
            fields.contains(&name) || shape.spellings.contains(&name)
        };
        for name in object.keys().filter(|name| !known(name)) {
            let nearest =
                words::nearest(name, fields).or_else(|| words::nearest(name, shape.spellings));
            let kind = match name.as_str() {
                HIDDEN_ENV if fields.contains(&"env") => ErrorKind::HiddenEnv,
                _ => ErrorKind::UnknownField { name: name.clone(), of, nearest, fields },
            };
            found.add(path.field(name), kind);
        }
        Some(Self { object, path, of })
    }

    /// The value of a field, if present.
    pub(crate) fn get(&self, name: &str) -> Option<&'j Json> {
        self.object.get(name).filter(|value| **value != Json::Null)
    }

    pub(crate) fn read<T>(
        &self,
        name: &str,
        found: &mut Diagnostics,
        read: impl FnOnce(&Json) -> Result<T, ErrorKind>,
    ) -> Option<T> {
        match read(self.get(name)?) {
            Ok(value) => Some(value),
            Err(kind) => {
                found.add(self.path.field(name), kind);
                None
            }
        }
    }

    /// Reads a field that has two spellings, of which at most one may be present.
    pub(crate) fn read_either<T>(
        &self,
        one: &Spelling<T>,
        other: &Spelling<T>,
        found: &mut Diagnostics,
    ) -> Option<T> {
        if self.get(one.name).is_some() && self.get(other.name).is_some() {
            let both = ErrorKind::Both { one: one.name, other: other.name };
            found.add(self.path.field(other.name), both);
            return None;
        }
        let first = self.read(one.name, found, one.read);
        first.or_else(|| self.read(other.name, found, other.read))
    }

    /// Records a problem if a field is missing.
    pub(crate) fn require(
        &self,
        name: &'static str,
        example: &'static str,
        found: &mut Diagnostics,
    ) {
        if self.get(name).is_none() {
            let kind = ErrorKind::MissingField { name, of: self.of, example };
            found.add(self.path.clone(), kind);
        }
    }

    /// Reads a list, element by element.
    pub(crate) fn read_list<T>(
        &self,
        name: &str,
        expected: &'static str,
        found: &mut Diagnostics,
        read: impl Fn(&Json) -> Result<T, ErrorKind>,
    ) -> Option<Vec<T>> {
        let value = self.get(name)?;
        let path = self.path.field(name);
        let Some(elements) = value.list() else {
            found.add(path, wrong_type(expected, value));
            return None;
        };
        let mut list = Vec::with_capacity(elements.len());
        for (position, element) in elements.iter().enumerate() {
            match read(element) {
                Ok(element) => list.push(element),
                Err(kind) => found.add(path.element(position), kind),
            }
        }
        Some(list)
    }

    /// Reads a map, value by value.
    pub(crate) fn read_map<T>(
        &self,
        name: &str,
        expected: &'static str,
        found: &mut Diagnostics,
        read: impl Fn(&Json) -> Result<T, ErrorKind>,
    ) -> Option<BTreeMap<String, T>> {
        let value = self.get(name)?;
        let path = self.path.field(name);
        let Some(object) = value.object() else {
            found.add(path, wrong_type(expected, value));
            return None;
        };
        let mut map = BTreeMap::new();
        for (key, value) in object.iter().filter(|(_, value)| **value != Json::Null) {
            match read(value) {
                Ok(value) => drop(map.insert(key.clone(), value)),
                Err(kind) => found.add(path.key(key), kind),
            }
        }
        Some(map)
    }
}
