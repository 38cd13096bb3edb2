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
