//! Reading the fields of an object one by one, and keeping everything that is wrong with them.

use std::collections::BTreeMap;

use spec::Path;

use crate::error::ErrorKind;
use crate::json::Json;
use crate::limits;
use crate::quantity::wrong_type;
use crate::words;

/// Errors that are kept: more than are told, because those at one place become one.
const KEPT_MAX: usize = 10 * limits::ERRORS_MAX;

/// In canonical JSON, the names of the variables whose values are left out.
const HIDDEN_ENV: &str = "hiddenEnv";

/// Something wrong with a value, before its place in the sources is known.
#[derive(Debug)]
pub(crate) struct Wrong {
    /// Where in the result, in the result's own spelling.
    pub(crate) at: Path,
    /// Where, as the description's own fields are called; shown to the user.
    pub(crate) shown: Path,
    pub(crate) kind: ErrorKind,
}

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) wrong: Vec<Wrong>,
    /// How many more there were than are kept.
    pub(crate) untold: usize,
}

impl Found {
    pub(crate) fn add(&mut self, at: Path, kind: ErrorKind) {
        let shown = at.clone();
        self.add_shown(Wrong { at, shown, kind });
    }

    pub(crate) fn add_shown(&mut self, wrong: Wrong) {
        match self.wrong.len() < KEPT_MAX {
            true => self.wrong.push(wrong),
            false => self.untold += 1,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.wrong.len() + self.untold
    }
}

/// What an object of a description is.
pub(crate) struct Shape {
    /// What it is, with its article, as error messages say it.
    pub(crate) of: &'static str,
    /// What is expected where something else stands, with an example.
    pub(crate) expected: &'static str,
    /// The fields it may have, as people write them.
    pub(crate) fields: &'static [&'static str],
    /// Fields that say the same in the spelling of canonical JSON.
    pub(crate) spellings: &'static [&'static str],
}

/// A field's name and how its value is read.
type Spelling<T> = (&'static str, fn(&Json) -> Result<T, ErrorKind>);

/// An object whose fields are read. A field that is null counts as not given, as in canonical
/// JSON. A reader that returns nothing has noted why, if there was something to read.
#[derive(Clone)]
pub(crate) struct Fields<'j> {
    object: &'j BTreeMap<String, Json>,
    pub(crate) path: Path,
    of: &'static str,
}

impl<'j> Fields<'j> {
    /// Opens an object and refuses fields that do not belong to it.
    pub(crate) fn open(
        value: &'j Json,
        path: Path,
        shape: &Shape,
        found: &mut Found,
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

    /// A field's value, where it is given.
    pub(crate) fn get(&self, name: &str) -> Option<&'j Json> {
        self.object.get(name).filter(|value| **value != Json::Null)
    }

    pub(crate) fn read<T>(
        &self,
        name: &str,
        found: &mut Found,
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

    /// A field that has two spellings, of which one may be given.
    pub(crate) fn read_either<T>(
        &self,
        (one, read_one): Spelling<T>,
        (other, read_other): Spelling<T>,
        found: &mut Found,
    ) -> Option<T> {
        if self.get(one).is_some() && self.get(other).is_some() {
            found.add(self.path.field(other), ErrorKind::Both { one, other });
            return None;
        }
        self.read(one, found, read_one).or_else(|| self.read(other, found, read_other))
    }

    /// Notes that a field is missing, unless it is there.
    pub(crate) fn require(&self, name: &'static str, example: &'static str, found: &mut Found) {
        if self.get(name).is_none() {
            let kind = ErrorKind::MissingField { name, of: self.of, example };
            found.add(self.path.clone(), kind);
        }
    }

    /// A list, each element read by itself.
    pub(crate) fn read_list<T>(
        &self,
        name: &str,
        expected: &'static str,
        found: &mut Found,
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

    /// A map, each value read by itself.
    pub(crate) fn read_map<T>(
        &self,
        name: &str,
        expected: &'static str,
        found: &mut Found,
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
