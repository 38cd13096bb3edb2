//! The cell's settings for logs, as the last order said them.

use std::sync::{Arc, Mutex, PoisonError};

use spec::LogSettings;

/// The settings; none before the first order since the start.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownLogSettings(Arc<Mutex<Option<LogSettings>>>);

impl KnownLogSettings {
    pub(crate) fn set(&self, settings: LogSettings) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings);
    }

    pub(crate) fn get(&self) -> Option<LogSettings> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
