//! What can be done with an open update.

/// What to do with an open update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdateAction {
    /// Change no further task.
    Pause,
    /// Go on.
    Resume,
    /// Change every task back.
    Undo,
    /// Keep it: it can no longer be undone.
    Close,
}

impl UpdateAction {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Undo => "undo",
            Self::Close => "close",
        }
    }
}
