//! The circuit breaker as operators meet it: said in the log, and lifted by a request.

use cell::{Cell, MachineState, Mutation, Reply, Rescheduling, ResumeRescheduling};
use prost::Message as _;
use proto::v1;
use tonic::Response;

use super::service::{Answer, Service, unexpected};
use super::users::Caller;

impl Service {
    pub(super) async fn resume(
        &self,
        by: Caller,
        asked: v1::ResumeReschedulingRequest,
    ) -> Answer<v1::ResumeReschedulingResponse> {
        let bytes = asked.encoded_len();
        let (index, reply) = self
            .mutate(asked.id, by, Mutation::ResumeRescheduling(ResumeRescheduling), bytes)
            .await?;
        let Reply::Done = reply else { return Err(unexpected(&reply)) };
        let view = self.core.view();
        let (mut machines, mut tasks) = (0, 0);
        for machine in view.cell.machines() {
            if let MachineState::Unreachable { .. } = machine.state {
                machines += 1;
                tasks += machine.instances().len() as u64;
            }
        }
        Ok(Response::new(v1::ResumeReschedulingResponse { index: index.0, machines, tasks }))
    }
}

/// Says in the log what has become of rescheduling, where that is new.
pub(super) fn tell(before: &Rescheduling, cell: &Cell) {
    let now = cell.rescheduling();
    if before == now {
        return;
    }
    match now {
        Rescheduling::Stopped { silent, of, .. } => tracing::error!(
            "rescheduling is stopped: {silent} of {of} machines are unreachable at once, and none is \
             marked down until fewer are. If they are gone for good: bourg cell resume-rescheduling"
        ),
        Rescheduling::Resumed { by, .. } => tracing::warn!(
            "{by} resumed rescheduling: machines are marked down though many are unreachable"
        ),
        Rescheduling::Allowed => {
            tracing::warn!("rescheduling is allowed: few machines are unreachable");
        }
    }
}
