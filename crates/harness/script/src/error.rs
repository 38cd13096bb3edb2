//! What is wrong with a line.

use model::{
    AddressError, MachineName, NameError, NotListed, PriorityError, QuantityError, UserName,
};
use thiserror::Error;

/// Why a line was rejected. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// The first word is not a command.
    #[error("there is no command '{}'", .0.escape_debug())]
    NoSuchCommand(String),
    /// The command exists, but not with these arguments.
    #[error("wrong arguments; usage: {0}")]
    Usage(&'static str),
    /// The command is not something that a user requests.
    #[error("'{}' is not a request of a user", .0.escape_debug())]
    NotARequest(String),
    /// A double quote is not closed.
    #[error("a double quote is not closed")]
    OpenQuote,
    /// A word is not what is expected in its place.
    #[error("'{}' is not {expected}", .word.escape_debug())]
    Word {
        /// The word.
        word: String,
        /// What is expected.
        expected: &'static str,
    },
    /// An option that the command does not have.
    #[error("there is no option '{}': use {}", .option.escape_debug(), .options.join(", "))]
    NoSuchOption {
        /// The option's name.
        option: String,
        /// The options that there are.
        options: &'static [&'static str],
    },
    /// A job without an owner, and nobody who asks.
    #[error("'{}' names no user: use USER/JOB, or 'as USER' before the command", .0.escape_debug())]
    NoUser(String),
    /// A user submits a job under another user's name.
    #[error("{by} cannot submit a job of {owner}")]
    NotTheOwner {
        /// Who asks.
        by: UserName,
        /// The owner that the line names.
        owner: UserName,
    },
    /// The cell has no machine of that name.
    #[error("there is no machine '{0}'")]
    NoSuchMachine(MachineName),
    /// The cell has no machine at all.
    #[error("the cell has no machines: name one with 'on MACHINE'")]
    NoMachines,
    /// A line that stands for too many operations, or asks for too many ports.
    #[error("{count} is too many: at most {max}")]
    TooMany {
        /// How many.
        count: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// A word is not a valid name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A word is not a job to run after.
    #[error(transparent)]
    Predecessor(#[from] spec::PredecessorError),
    /// A word is not the address of a job or of its tasks.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A word is neither a priority nor a band.
    #[error(transparent)]
    Priority(#[from] PriorityError),
    /// A word is not in a closed list.
    #[error(transparent)]
    NotListed(#[from] NotListed),
    /// A word is not a quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
}
