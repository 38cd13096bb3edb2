//! Where in a description something is: `overrides["3"].cmd[2]`.

use std::fmt;

/// One step down into a description.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// A named field.
    Field(String),
    /// A key of a map.
    Key(String),
    /// An element of a list.
    Element(usize),
}

/// The steps from the top of a description to a place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(pub Vec<Step>);

impl Path {
    /// The top.
    #[must_use]
    pub fn top() -> Self {
        Self::default()
    }

    /// A named field below this.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.step(Step::Field(name.to_owned()))
    }

    /// A key of the map at this.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.step(Step::Key(key.to_owned()))
    }

    /// An element of the list at this.
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

/// Where a validation is: a path whose steps are on the stack, so that looking at what is right
/// allocates nothing.
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
    /// The top.
    pub(crate) const TOP: Self = Self { above: None };

    /// A named field below this.
    pub(crate) fn field(&'a self, name: &'static str) -> Self {
        Self { above: Some((self, LocationStep::Field(name))) }
    }

    /// A key of the map at this.
    pub(crate) fn key(&'a self, key: &'a str) -> Self {
        Self { above: Some((self, LocationStep::Key(key))) }
    }

    /// An element of the list at this.
    pub(crate) fn element(&'a self, position: usize) -> Self {
        Self { above: Some((self, LocationStep::Element(position))) }
    }

    /// It as a path of its own.
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
