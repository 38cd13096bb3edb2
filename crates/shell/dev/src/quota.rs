//! Grants the whole machine as quota to the user who starts a dev cell.

use api::v1;
use api::v1::change_quota_request::Change;
use client::Connection;
use command::Done;
use model::{Band, Resources};

/// Grants the user the machine's whole capacity in production, and as much as may be granted in
/// each lower band. Does nothing if quota was ever granted in the cell, so as not to override an
/// operator's decision.
pub async fn grant_the_machine(
    connection: &mut Connection,
    status: &v1::CellStatusResponse,
) -> Done {
    let request = v1::QuotaRequest::default();
    let quota = connection
        .ask(request, async |mut client, request| client.quota.get(request).await)
        .await?;
    if !quota.metered || quota.ever_granted {
        return Ok(());
    }
    for band in [Band::Production, Band::Mid, Band::BestEffortBatch] {
        let allowed = quota.bands.iter().find(|other| other.band() == v1::Band::from(band));
        let Some(allowed) = allowed.and_then(|band| band.allowed) else { continue };
        if Resources::try_from(allowed).is_ok_and(|allowed| allowed != Resources::default()) {
            // From now on, without an end.
            let (user, band, amount) = (status.user.clone(), band.to_string(), Some(allowed));
            let grant = v1::GrantQuota { user, band, amount, from: None, until: None };
            connection.change_quota(Change::Grant(grant)).await?;
        }
    }
    Ok(())
}
