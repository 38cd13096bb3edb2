//! `bourg cell notice-max`: the longest notice of tasks.

use std::time::Duration;

use api::v1;
use clap::Args;
use client::Target;
use command::{Done, Failure, output, with_cell};
use model::Span;

use super::duration;

#[derive(Debug, Args)]
pub(super) struct NoticeMaxArgs {
    /// The new maximum, such as 2m: up to a day. 0s: every task is killed at once.
    #[arg(value_parser = duration)]
    time: Option<Duration>,
}

pub(super) fn notice_max(cell: Target<'_>, args: &NoticeMaxArgs) -> Done {
    with_cell(cell, async |mut connection| {
        if let Some(time) = args.time {
            let id = Some(connection.request_id().await?);
            let most = Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
            let notice_max = Some(api::duration(most));
            let request = v1::SetNoticeMaxRequest { id, notice_max };
            connection
                .ask(request, async |mut client, request| client.cell.set_notice_max(request).await)
                .await?;
        }
        let status = connection.cell_status().await?;
        let damaged = |error| Failure::failed(format!("error: {error}"));
        let most = status.notice_max.unwrap_or_default();
        let most = api::span(&most).map_err(damaged)?;
        output::print(&format!("{most}\n"))
    })
}
