//! Commands inside tasks, as they are recorded.

use event::ExecEnd;
use model::Span;

use crate::error::Malformed;
use crate::{read, v1};

impl From<ExecEnd> for v1::ExecEnd {
    fn from(end: ExecEnd) -> Self {
        Self { took: end.took.0, status: end.status.map(Into::into) }
    }
}

impl TryFrom<v1::ExecEnd> for ExecEnd {
    type Error = Malformed;

    fn try_from(end: v1::ExecEnd) -> Result<Self, Malformed> {
        let status = end.status.map(|status| read::small(status, u8::MAX, "status")).transpose()?;
        Ok(Self { took: Span(end.took), status })
    }
}
