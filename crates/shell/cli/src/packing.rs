//! `bourg cell policy`: how tasks are packed onto machines.

use api::v1;
use clap::Args;
use client::Target;
use command::{Done, output, with_cell};
use model::PackingPolicy;

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    /// The new policy: hybrid, best-fit or worst-fit.
    policy: Option<PackingPolicy>,
}

pub(super) fn policy(cell: Target<'_>, args: &PolicyArgs) -> Done {
    with_cell(cell, async |mut connection| {
        if let Some(policy) = args.policy {
            let id = Some(connection.request_id().await?);
            let request = v1::SetPackingRequest { id, policy: policy.to_string() };
            connection
                .ask(request, async |mut client, request| client.cell.set_packing(request).await)
                .await?;
        }
        let status = connection.cell_status().await?;
        output::print(&format!("{}\n", status.packing))
    })
}
