//! One round of the repacker: asks which moves are worth their cost, and carries them out.

use api::v1::{self, move_task_request, plan_moves_response as planned};
use client::Connection;
use command::{Done, Failure, output};
use model::Time;
use tonic::Code as Grpc;

use super::memory::RecentMoves;
use super::{RepackerArgs, span};

/// Asks and moves.
pub(super) struct PackingRound {
    connection: Connection,
    asked: v1::PlanMovesRequest,
    sequencer: String,
}

impl PackingRound {
    pub(super) fn new(
        connection: Connection,
        args: &RepackerArgs,
        sequencer: Option<String>,
    ) -> Self {
        let asked = v1::PlanMovesRequest {
            moved: Vec::new(),
            bands: args.bands.iter().map(|band| band.name().to_owned()).collect(),
            settled: Some(api::duration(span(args.settled))),
            waited: Some(api::duration(span(args.waited))),
            moves: args.moves,
            empties: args.empty_machines,
        };
        Self { connection, asked, sequencer: sequencer.unwrap_or_default() }
    }

    /// What is worth its cost now.
    pub(super) async fn plan(
        &mut self,
        memory: &RecentMoves,
    ) -> Result<v1::PlanMovesResponse, Failure> {
        let moved = memory.all().map(|((job, index), at)| v1::plan_moves_request::Moved {
            job,
            index,
            at: at.0,
        });
        let request = v1::PlanMovesRequest { moved: moved.collect(), ..self.asked.clone() };
        let answer = self
            .connection
            .ask(request, async |mut client, request| client.jobs.plan_moves(request).await);
        Ok(answer.await?)
    }

    /// Plays one round. Fails only if the cell does not answer, the user may not move tasks, or the lock is lost.
    pub(super) async fn play(&mut self, memory: &mut RecentMoves) -> Done {
        let plan = self.plan(memory).await?;
        for proposal in &plan.proposals {
            self.carry_out(proposal, Time(plan.time), memory).await?;
        }
        Ok(())
    }

    /// Carries out moves that belong together: after one that is rejected the others would be for nothing.
    async fn carry_out(
        &mut self,
        proposal: &planned::Proposal,
        now: Time,
        memory: &mut RecentMoves,
    ) -> Done {
        for step in &proposal.moves {
            let Some(instance) = step.instance else { return Ok(()) };
            let line = format!("{} {} → {}: {}", step.task, step.from, step.to, in_words(proposal));
            match self.move_task(step, proposal).await? {
                Ok(()) => {
                    memory.add((instance.collection, instance.index), now);
                    output::print(&format!("{line}\n"))?;
                }
                Err(why) => {
                    output::say(&format!("{line}: rejected: {why}\n"));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Sends a move. The inner error is a rejection in words; the outer one says that the cell does not answer.
    async fn move_task(
        &mut self,
        step: &planned::Move,
        proposal: &planned::Proposal,
    ) -> Result<Result<(), String>, Failure> {
        use move_task_request::Why;
        use planned::proposal;

        let why = match proposal.why {
            Some(proposal::Why::Fits(task)) => Why::Fits(task),
            Some(proposal::Why::Empties(nothing)) => Why::Empties(nothing),
            None => return Ok(Err("the master gives no reason for it".to_owned())),
        };
        let request = v1::MoveTaskRequest {
            id: Some(self.connection.request_id().await?),
            instance: step.instance,
            to: step.to.clone(),
            why: Some(why),
            sequencer: self.sequencer.clone(),
        };
        let sent = self
            .connection
            .ask(request, async |mut client, request| client.jobs.r#move(request).await);
        match sent.await {
            Ok(_) => Ok(Ok(())),
            Err(client::Error::Answer(status)) if status.code() != Grpc::Unavailable => {
                // The cell may have closed the session.
                if status.code() == Grpc::FailedPrecondition {
                    self.connection.new_session();
                }
                Ok(Err(status.message().to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// `so that ana/train/0 fits on m1 (worth 24000, costs 1500)`.
fn in_words(proposal: &planned::Proposal) -> String {
    let planned::Proposal { gain, worth, cost, .. } = proposal;
    format!("so that {gain} (worth {worth}, costs {cost})")
}

/// Prints a plan.
pub(super) fn show(plan: &v1::PlanMovesResponse) -> Done {
    for proposal in &plan.proposals {
        output::print(&format!("{}\n", in_words(proposal)))?;
        for step in &proposal.moves {
            output::print(&format!("  {} {} → {}\n", step.task, step.from, step.to))?;
        }
    }
    if plan.proposals.is_empty() {
        output::print("no moves are worth their cost\n")?;
    }
    if !plan.unhelped.is_empty() {
        output::print(&format!("no moves help {}\n", plan.unhelped.join(", ")))?;
    }
    if !plan.complete {
        output::print("not everything was examined: the cell is large, or much is pending\n")?;
    }
    Ok(())
}
