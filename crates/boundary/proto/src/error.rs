//! What data from outside can be: malformed, at a place and for a reason.

use std::convert::Infallible;

use model::{
    KeyDigestError, NameError, NotListed, PriorityError, SchedulingClassError, SerialError,
};
use spec::{Path, Step};
use thiserror::Error;

/// Data from outside that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{fault}", place(path))]
pub struct Malformed {
    /// Where, in the names of the canonical JSON; the top where the whole message is meant.
    pub path: Path,
    /// What is wrong there.
    pub fault: Fault,
}

/// What is wrong with data from outside.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The bytes are not a protobuf message of the expected type.
    #[error("these bytes are not the message that was expected: {0}")]
    NotProtobuf(String),
    /// A field that must be there is not.
    #[error("is missing")]
    Missing,
    /// None of the alternatives that this build knows is given.
    #[error("is of no kind that this build knows")]
    UnknownKind,
    /// An enum has a value that this build does not know, or none.
    #[error("has the value {0}, which stands for nothing that this build knows")]
    UnknownValue(i32),
    /// A text is not the name that it should be.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A text is not the number of a certificate.
    #[error(transparent)]
    Serial(#[from] SerialError),
    /// A text is not the digest of a key.
    #[error(transparent)]
    KeyDigest(#[from] KeyDigestError),
    /// A number is not a priority.
    #[error(transparent)]
    Priority(#[from] PriorityError),
    /// A number is not a scheduling class.
    #[error(transparent)]
    SchedulingClass(#[from] SchedulingClassError),
    /// A text is none of a closed list.
    #[error(transparent)]
    NotListed(#[from] NotListed),
    /// A number outside its range.
    #[error("must be {least} to {most}, is {is}")]
    OutOfRange {
        /// What it is.
        is: i64,
        /// The least it may be.
        least: i64,
        /// The most it may be.
        most: i64,
    },
    /// A duration that is no [`model::Span`].
    #[error(
        "{seconds} s and {nanos} ns are not a span: it is whole microseconds, not negative, and at \
         most {} µs",
        u64::MAX
    )]
    NotASpan {
        /// The duration's seconds.
        seconds: i64,
        /// Its nanoseconds.
        nanos: i32,
    },
    /// Something is listed that has been listed before.
    #[error("is listed twice")]
    Twice,
    /// Fields that do not go together.
    #[error("{0}")]
    Contradiction(&'static str),
    /// The description without the values of `env`, for users who may not see them.
    #[error(
        "the values of env are left out, as they are hidden from whoever was shown this description: give \
         env with values instead"
    )]
    Hidden,
    /// An image needs a later state machine.
    #[error(
        "needs level {level} of the state machine, and this build knows levels up to {known}: it is too old"
    )]
    TooNew {
        /// The level it needs.
        level: u32,
        /// The highest that this build knows.
        known: u32,
    },
    /// A part of an image is not where it should be.
    #[error(
        "is out of order: machines, jobs, sessions and grants follow the head, each by rising id"
    )]
    OutOfOrder,
    /// An image ends within a part.
    #[error("is cut off: {is} bytes are there, {wants} should be")]
    CutOff {
        /// How many bytes are left.
        is: usize,
        /// How many the part should have.
        wants: usize,
    },
    /// There are not as many parts of a kind as the image's head says.
    #[error("says {said}, and {are} are there")]
    Count {
        /// How many there should be.
        said: u64,
        /// How many there are.
        are: u64,
    },
}

fn place(path: &Path) -> String {
    if path.0.is_empty() { String::new() } else { format!("{path}: ") }
}

impl Malformed {
    fn inside(mut self, step: Step) -> Self {
        // Paths are a few steps long, and grow only while an error is on its way out.
        self.path.0.insert(0, step);
        self
    }
}

impl<F: Into<Fault>> From<F> for Malformed {
    fn from(fault: F) -> Self {
        Self { path: Path::top(), fault: fault.into() }
    }
}

impl From<prost::DecodeError> for Fault {
    fn from(error: prost::DecodeError) -> Self {
        Self::NotProtobuf(error.to_string())
    }
}

impl From<Infallible> for Fault {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Says where an error happened, from the inside out.
pub trait At<T> {
    /// It happened in a field.
    ///
    /// # Errors
    /// The one that there was, with its place; so do the others.
    fn field(self, name: &str) -> Result<T, Malformed>;
    /// It happened in an element of a list.
    fn element(self, position: usize) -> Result<T, Malformed>;
    /// It happened under a key of a map.
    fn key(self, key: impl ToString) -> Result<T, Malformed>;
}

impl<T, E: Into<Malformed>> At<T> for Result<T, E> {
    fn field(self, name: &str) -> Result<T, Malformed> {
        self.map_err(|error| error.into().inside(Step::Field(name.to_owned())))
    }

    fn element(self, position: usize) -> Result<T, Malformed> {
        self.map_err(|error| error.into().inside(Step::Element(position)))
    }

    fn key(self, key: impl ToString) -> Result<T, Malformed> {
        self.map_err(|error| error.into().inside(Step::Key(key.to_string())))
    }
}
