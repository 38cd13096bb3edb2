//! The circuit breaker for rescheduling in the API: a request resumes rescheduling.

use cell::{MachineState, Mutation, Reply};
use prost::Message as _;
use proto::v1;
use tonic::Response;

use crate::caller::Caller;
use crate::service::{Answer, Service, unexpected};

impl Service {
    pub(crate) async fn resume(
        &self,
        by: Caller,
        asked: v1::ResumeReschedulingRequest,
    ) -> Answer<v1::ResumeReschedulingResponse> {
        let bytes = asked.encoded_len();
        let (index, reply) = self
            .mutate(asked.id, by, Mutation::ResumeRescheduling(cell::ResumeRescheduling), bytes)
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
