//! Paths to places in a description: `overrides["3"].cmd[2]`.

use std::fmt;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A named field.
    Field(String),
    /// A key of a map.
    Key(String),
    /// An element of a list.
    Element(usize),
}

/// The steps from the root of a description to a place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The root.
    #[must_use]
    pub fn top() -> Self {
        Self::default()
    }

    /// The path of a field below this one.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.step(Step::Field(name.to_owned()))
    }

    /// The path of a key in the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    /// The path of an element in the list at this path.
    #[must_use]
    pub fn element(&self, position: usize) -> Self {
        self.step(Step::Element(position))
    }

    fn step(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }
}

/// The current place during validation: a path whose steps live on the stack, so that validating a
/// correct description allocates nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location<'a> {
    above: Option<(&'a Location<'a>, LocationStep<'a>)>,
}

#[derive(Clone, Copy, Debug)]
enum LocationStep<'a> {
    Field(&'static str),
    Key(&'a str),
    Element(usize),
}

impl<'a> Location<'a> {
    /// The root.
    pub(crate) const TOP: Self = Self { above: None };

    /// The location of a field below this one.
    pub(crate) fn field(&'a self, name: &'static str) -> Self {
        Self { above: Some((self, LocationStep::Field(name))) }
    }

    /// The location of a key in the map at this location.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { above: Some((self, LocationStep::Key(key))) }
    }

    /// The location of an element in the list at this location.
    pub(crate) fn element(&'a self, position: usize) -> Self {
        Self { above: Some((self, LocationStep::Element(position))) }
    }

    /// Converts to an owned path.
    pub(crate) fn path(&self) -> Path {
        let Some((above, step)) = self.above else { return Path::top() };
        let above = above.path();
        match step {
            LocationStep::Field(name) => above.field(name),
            LocationStep::Key(key) => above.key(key),
            LocationStep::Element(position) => above.element(position),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the job");
        }
        for (position, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if position == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Key(key) => write!(f, "[\"{}\"]", key.escape_debug())?,
                Step::Element(element) => write!(f, "[{element}]")?,
            }
        }
        Ok(())
    }
}
