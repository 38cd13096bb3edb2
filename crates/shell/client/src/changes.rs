//! Changes that more than one program sends, each with an id that makes it happen once.

use api::v1;
use api::v1::{change_locks_request, change_quota_request, change_replicas_request};

use super::{Connection, Error};

impl Connection {
    /// Adds or removes a replica of the cell's master.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask).
    pub async fn change_replicas(
        &mut self,
        change: change_replicas_request::Change,
    ) -> Result<v1::ChangeReplicasResponse, Error> {
        let id = Some(self.request_id().await?);
        let request = v1::ChangeReplicasRequest { id, change: Some(change) };
        self.ask(request, async |mut client, request| client.replicas.change(request).await).await
    }

    /// Changes quota, or how it is enforced.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask).
    pub async fn change_quota(
        &mut self,
        change: change_quota_request::Change,
    ) -> Result<v1::ChangeQuotaResponse, Error> {
        let id = Some(self.request_id().await?);
        let request = v1::ChangeQuotaRequest { id, change: Some(change) };
        self.ask(request, async |mut client, request| client.quota.change(request).await).await
    }

    /// Changes lock sessions, locks and small files.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask).
    pub async fn change_locks(
        &mut self,
        change: change_locks_request::Change,
    ) -> Result<v1::ChangeLocksResponse, Error> {
        let id = Some(self.request_id().await?);
        let request = v1::ChangeLocksRequest { id, change: Some(change) };
        self.ask(request, async |mut client, request| client.locks.change(request).await).await
    }
}
