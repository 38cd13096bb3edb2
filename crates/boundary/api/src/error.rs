//! Errors in data from outside: a position and a reason.

use std::convert::Infallible;

use model::{
    DigestError, ImageArchitectureError, KeyDigestError, LabelQueryError, NameError, NoSuchContent,
    NoSuchSharing, NotListed, PackageReferenceError, PathError, PriorityError,
    SchedulingClassError, SequencerError, SerialError, SubnetError, VolumePathError,
};
use spec::{Path, PredecessorError, Step};
use thiserror::Error;

/// Malformed data from outside.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{fault}", place(path))]
pub struct Malformed {
    /// The position, in the names of the canonical JSON; empty for the whole message.
    pub path: Path,
    /// The error there.
    pub fault: Fault,
}

/// The kinds of errors in data from outside.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The bytes are not a protobuf message of the expected type.
    #[error("these bytes are not the message that was expected: {0}")]
    NotProtobuf(String),
    /// A required field is missing.
    #[error("is missing")]
    Missing,
    /// None of the alternatives that this build knows is given.
    #[error("has no kind that this build knows")]
    UnknownKind,
    /// An enum has no value, or one that this build does not know.
    #[error("has the value {0}, which this build does not know")]
    UnknownValue(i32),
    /// A text is not a valid name of its kind.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A text is not a job to run after.
    #[error(transparent)]
    Predecessor(#[from] PredecessorError),
    /// A text is not a digest.
    #[error(transparent)]
    Digest(#[from] DigestError),
    /// A text is not a reference to a package.
    #[error(transparent)]
    Package(#[from] PackageReferenceError),
    /// A text is not a processor architecture.
    #[error(transparent)]
    Architecture(#[from] ImageArchitectureError),
    /// A text is not a certificate's serial number.
    #[error(transparent)]
    Serial(#[from] SerialError),
    /// A text is not a key's digest.
    #[error(transparent)]
    KeyDigest(#[from] KeyDigestError),
    /// A text is not a label query.
    #[error(transparent)]
    Labels(#[from] LabelQueryError),
    /// A text is not a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A text is not the path of a volume.
    #[error(transparent)]
    VolumePath(#[from] VolumePathError),
    /// A text is not a way to share a volume.
    #[error(transparent)]
    Sharing(#[from] NoSuchSharing),
    /// A text does not say what is known of a volume's directory.
    #[error(transparent)]
    VolumeContent(#[from] NoSuchContent),
    /// A text is not what is wrong with a volume's directory.
    #[error(transparent)]
    VolumeFault(#[from] model::NoSuchFault),
    /// A text is not a sequencer.
    #[error(transparent)]
    Sequencer(#[from] SequencerError),
    /// A text is not a range of addresses.
    #[error(transparent)]
    Subnet(#[from] SubnetError),
    /// A number is not a priority.
    #[error(transparent)]
    Priority(#[from] PriorityError),
    /// A number is not a scheduling class.
    #[error(transparent)]
    SchedulingClass(#[from] SchedulingClassError),
    /// A text is not in a closed list.
    #[error(transparent)]
    NotListed(#[from] NotListed),
    /// A text is not the mode of a file.
    #[error(transparent)]
    FileMode(#[from] spec::FileModeError),
    /// A text is not the path of an output.
    #[error(transparent)]
    OutputPath(#[from] spec::OutputPathError),
    /// A number is out of range.
    #[error("must be {least} to {most}, is {is}")]
    OutOfRange {
        /// The number.
        is: i64,
        /// The minimum.
        least: i64,
        /// The maximum.
        most: i64,
    },
    /// A duration is not a valid [`model::Span`].
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
    /// An entry of a list is repeated.
    #[error("is listed twice")]
    Twice,
    /// Fields contradict each other.
    #[error("{0}")]
    Contradiction(&'static str),
    /// A description without the values of `env`, as sent to users who may not see them.
    #[error(
        "the values of env are hidden from the user who got this description: give env with values \
         instead"
    )]
    Hidden,
    /// An image needs a later state machine.
    #[error(
        "needs level {level} of the state machine, and this build knows levels up to {known}: it \
         is too old"
    )]
    TooNew {
        /// The level it needs.
        level: u32,
        /// The highest level that this build knows.
        known: u32,
    },
    /// A part of an image is out of order.
    #[error(
        "is out of order: machines, jobs, sessions and grants follow the head, each by rising id"
    )]
    OutOfOrder,
    /// An image ends within a part.
    #[error("is cut off: only {is} of {wants} bytes are left")]
    CutOff {
        /// The number of bytes left.
        is: usize,
        /// The length of the part.
        wants: usize,
    },
    /// The number of parts of a kind differs from the image's head.
    #[error("is {said}, but there are {are}")]
    Count {
        /// The number in the head.
        said: u64,
        /// The actual number.
        are: u64,
    },
}

fn place(path: &Path) -> String {
    if path.0.is_empty() { String::new() } else { format!("{path}: ") }
}

impl Malformed {
    fn inside(mut self, step: Step) -> Self {
        // Paths have only a few steps, and grow only while an error is returned.
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

/// Adds the position to an error, from the inside out.
pub trait At<T> {
    /// The error is in a field.
    ///
    /// # Errors
    /// The original error with its position; likewise for the other methods.
    fn field(self, name: &str) -> Result<T, Malformed>;
    /// The error is in an element of a list.
    fn element(self, position: usize) -> Result<T, Malformed>;
    /// The error is under a key of a map.
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
