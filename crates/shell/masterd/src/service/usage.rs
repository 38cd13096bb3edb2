//! The service for what is used, joined from all replicas: each has what the machines use that it polls.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::v1;
use borglet::Measured;
use model::{CollectionId, DigestPrefix, HeldPackage, ReplicaId, Time};
use placement::HeldByMachine;
use replication::v1::usage_answer::{
    HeldByMachine as HeldByMachineAnswer, OfJob, OfMachine, OfTask,
};
use replication::v1::{UsageAnswer, UsageQuery};
use rpc::service::usage_server;
use tokio::task::JoinSet;
use tonic::{Request, Status};

use crate::agents;
use crate::caller::Caller;
use crate::reads::{Reads, few, selection, selection_of};
use crate::service::Answer;
use crate::service::door::Door;
use crate::usage::{Chosen, MachineUsed, Query, TaskUsed, Used};
use crate::usage_history::UsageHistory;

/// Without other replicas the answer must not be late: this is for all together.
const OTHERS_PATIENCE: Duration = Duration::from_secs(2);

/// The service.
#[derive(Clone)]
pub(super) struct Usage {
    pub(super) door: Door,
    agents: agents::Handle,
    pub(super) history: Arc<UsageHistory>,
}

impl Usage {
    pub(super) fn new(door: Door, agents: agents::Handle) -> Self {
        Self { door, agents, history: Arc::default() }
    }

    /// The tasks or machines of a request, if these are only some.
    fn chosen(&self, by: &Caller, of: &v1::usage_request::Of) -> Result<Option<Chosen>, Status> {
        use v1::usage_request::Of;

        let view = self.door.core.view();
        let reads = Reads::of(&view, by);
        Ok(match of {
            Of::Machines(machines) if !machines.names.is_empty() => {
                few("machines", machines.names.len())?;
                let ids = machines.names.iter();
                let ids = ids.map(|name| reads.machine_named(name).map(|machine| machine.id));
                let machines = ids.collect::<Result<_, _>>()?;
                Some(Chosen { machines, ..Chosen::default() })
            }
            Of::Tasks(tasks) => {
                let job = reads.find(&tasks.job.clone().unwrap_or_default())?;
                let selected = selection_of(job, tasks.tasks.clone())?;
                let (job, since) = (Some(job.id), tasks.since.map(Time));
                Some(Chosen { job, tasks: selected, since, ..Chosen::default() })
            }
            Of::Machines(_) | Of::Cell(_) | Of::Jobs(_) => None,
        })
    }

    /// The same for some tasks or machines, without the totals.
    async fn of_some(
        &self,
        by: Caller,
        of: v1::usage_request::Of,
        chosen: Chosen,
    ) -> Answer<v1::UsageResponse> {
        let (others, missing) = self.answers_elsewhere(&chosen_message(&chosen)).await;
        let usage = self.clone();
        let mut answer = self
            .door
            .read_some(&by, move |reads| {
                let mut used = usage.chosen_here(chosen);
                others.into_iter().for_each(|other| used.merge(other));
                reads.usage(&of, &used, false)
            })
            .await?;
        answer.get_mut().missing = missing.into_iter().map(|replica| replica.0).collect();
        Ok(answer)
    }

    /// What some tasks and machines use, as far as this replica polls them.
    pub(super) fn chosen_here(&self, mut chosen: Chosen) -> Used {
        let view = self.door.core.view();
        if let Some(job) = chosen.job.and_then(|job| view.cell.job(job)) {
            let selected = job.tasks().filter(|(index, _)| chosen.tasks.contains(*index));
            let place = |(_, task): (_, &cell::Task)| match &task.state {
                cell::TaskState::Running(placement) => Some(placement.machine),
                _ => None,
            };
            chosen.places = selected.filter_map(place).collect();
        }
        let gcu = |machine| view.cell.machine(machine).map(|machine| machine.gcu());
        let held = self.agents.held().of(&chosen.machines, &chosen.packages, Instant::now());
        Used { held, ..self.agents.usage().query_chosen(gcu, &chosen, Instant::now()) }
    }

    /// What machines have of the packages of the tasks whose scores are asked for.
    pub(super) async fn held_of_tasks(
        &self,
        by: &Caller,
        asked: &v1::WhyRequest,
    ) -> Result<HeldByMachine, Status> {
        let packages: BTreeSet<DigestPrefix> = {
            let view = self.door.core.view();
            let reads = Reads::of(&view, by);
            let job = reads.find(&asked.job.clone().unwrap_or_default())?;
            let digest = |id| view.cell.package(&id).map(|package| package.digest.prefix());
            job.packages().filter_map(digest).collect()
        };
        if asked.scores == 0 || packages.is_empty() {
            return Ok(HeldByMachine::new());
        }
        let chosen = Chosen { packages, ..Chosen::default() };
        let (others, _) = self.answers_elsewhere(&chosen_message(&chosen)).await;
        let mut used = self.chosen_here(chosen);
        others.into_iter().for_each(|other| used.merge(other));
        Ok(used.held)
    }

    /// What is used on the machines that this replica polls.
    pub(super) fn used_here(&self, query: &Query) -> Used {
        let view = self.door.core.view();
        let gcu = |machine| view.cell.machine(machine).map(|machine| machine.gcu());
        let work = self.door.metrics.work();
        Used { work, ..self.agents.usage().query(gcu, query, Instant::now()) }
    }

    /// The answers of the other replicas that poll machines, and those that did not answer.
    pub(super) async fn used_elsewhere(&self, query: &Query) -> (Vec<Used>, Vec<ReplicaId>) {
        self.answers_elsewhere(&message(query)).await
    }

    async fn answers_elsewhere(&self, query: &UsageQuery) -> (Vec<Used>, Vec<ReplicaId>) {
        let others: Vec<ReplicaId> = {
            let view = self.door.core.view();
            let all = view.cell.replicas().map(|replica| replica.id);
            all.filter(|id| *id != view.me).collect()
        };
        let mut asked = JoinSet::new();
        for replica in &others {
            let (peers, replica, query) = (self.door.peers.clone(), *replica, query.clone());
            asked.spawn(async move { (replica, peers.usage(replica, query).await) });
        }
        let mut missing = others;
        let mut found = Vec::new();
        let until = tokio::time::Instant::now() + OTHERS_PATIENCE;
        while let Ok(Some(answered)) = tokio::time::timeout_at(until, asked.join_next()).await {
            let Ok((replica, Ok(answer))) = answered else { continue };
            if let Ok(used) = used_of(answer) {
                found.push(used);
                missing.retain(|other| *other != replica);
            }
        }
        (found, missing)
    }
}

#[tonic::async_trait]
impl usage_server::Usage for Usage {
    async fn get(&self, request: Request<v1::UsageRequest>) -> Answer<v1::UsageResponse> {
        use v1::usage_request::Of;

        let (by, asked) = (self.door.anyone(&request).await?, request.into_inner());
        let of = asked.of.ok_or_else(|| Status::invalid_argument("usage of what is not given"))?;
        if asked.without_totals
            && let Some(chosen) = self.chosen(&by, &of)?
        {
            return self.of_some(by, of, chosen).await;
        }
        let query = match &of {
            Of::Cell(_) | Of::Jobs(_) => Query::default(),
            Of::Machines(machines) => {
                few("machines", machines.names.len())?;
                Query { machines: true, ..Query::default() }
            }
            Of::Tasks(tasks) => {
                let view = self.door.core.view();
                let address = tasks.job.clone().unwrap_or_default();
                let job = Reads::of(&view, &by).find(&address)?.id;
                Query { job: Some(job), since: tasks.since.map(Time), ..Query::default() }
            }
        };
        let history = match &of {
            Of::Cell(v1::usage_request::Cell { since: Some(since) }) => {
                self.history.since(Time(*since))
            }
            _ => Vec::new(),
        };
        let (others, missing) = self.used_elsewhere(&query).await;
        let usage = self.clone();
        let mut answer = self
            .door
            .read_much(&by, move |reads| {
                let mut used = usage.used_here(&query);
                others.into_iter().for_each(|other| used.merge(other));
                reads.usage(&of, &used, true)
            })
            .await?;
        answer.get_mut().missing = missing.into_iter().map(|replica| replica.0).collect();
        answer.get_mut().history = history;
        Ok(answer)
    }
}

fn message(query: &Query) -> UsageQuery {
    UsageQuery {
        machines: query.machines,
        collection: query.job.map_or(0, |job| job.0),
        since: query.since.map(|since| since.0),
        ..UsageQuery::default()
    }
}

fn chosen_message(chosen: &Chosen) -> UsageQuery {
    UsageQuery {
        machines: false,
        collection: chosen.job.map_or(0, |job| job.0),
        since: chosen.since.map(|since| since.0),
        without_sums: true,
        some_machines: chosen.machines.iter().map(|machine| machine.0).collect(),
        some_tasks: Some((&chosen.tasks).into()),
        packages: chosen.packages.iter().map(|package| package.0).collect(),
    }
}

pub(crate) fn chosen_of(message: UsageQuery) -> Result<Chosen, Status> {
    Ok(Chosen {
        machines: message.some_machines.into_iter().map(model::MachineId).collect(),
        job: Some(message.collection).filter(|job| *job > 0).map(CollectionId),
        tasks: selection(message.some_tasks)?,
        since: message.since.map(Time),
        packages: message.packages.into_iter().map(DigestPrefix).collect(),
        ..Chosen::default()
    })
}

pub(crate) fn query_of(message: &UsageQuery) -> Query {
    Query {
        machines: message.machines,
        job: Some(message.collection).filter(|job| *job > 0).map(CollectionId),
        since: message.since.map(Time),
    }
}

pub(crate) fn answer(used: Used) -> UsageAnswer {
    let job = |(job, (measured, used)): (CollectionId, (u32, Measured))| OfJob {
        collection: job.0,
        measured,
        used: Some((&used).into()),
    };
    let machine = |(id, used): (model::MachineId, MachineUsed)| OfMachine {
        machine: id.0,
        at: used.at.0,
        used: Some((&used.all).into()),
        system: Some((&used.system).into()),
        tasks: Some((&used.tasks).into()),
        measured: used.measured,
    };
    let task = |(instance, used): (model::InstanceId, TaskUsed)| OfTask {
        instance: Some(instance.into()),
        at: used.newest.map_or(0, |(at, _)| at.0),
        used: used.newest.map(|(_, used)| (&used).into()),
        windows: used.windows.into_values().collect(),
    };
    let held = |(machine, held): (model::MachineId, Arc<[HeldPackage]>)| HeldByMachineAnswer {
        machine: machine.0,
        packages: held.iter().map(Into::into).collect(),
    };
    UsageAnswer {
        used: Some((&used.all).into()),
        system: Some((&used.system).into()),
        jobs: used.jobs.into_iter().map(job).collect(),
        machines: used.machines.into_iter().map(machine).collect(),
        tasks: used.tasks.into_iter().map(task).collect(),
        held: used.held.into_iter().map(held).collect(),
        work: Some(used.work),
    }
}

fn used_of(answer: UsageAnswer) -> Result<Used, api::Malformed> {
    let measured = |message: Option<v1::Measured>| message.unwrap_or_default().try_into();
    let mut used = Used {
        all: measured(answer.used)?,
        system: measured(answer.system)?,
        work: answer.work.unwrap_or_default(),
        ..Used::default()
    };
    for of in answer.jobs {
        used.jobs.insert(CollectionId(of.collection), (of.measured, measured(of.used)?));
    }
    for of in answer.machines {
        let found = MachineUsed {
            at: Time(of.at),
            all: measured(of.used)?,
            system: measured(of.system)?,
            tasks: measured(of.tasks)?,
            measured: of.measured,
        };
        used.machines.insert(model::MachineId(of.machine), found);
    }
    for of in answer.tasks {
        let newest = of.used.map(TryInto::try_into).transpose()?.map(|used| (Time(of.at), used));
        let windows = of.windows.into_iter().map(|window| (Time(window.start), window)).collect();
        let instance = of.instance.unwrap_or_default().into();
        used.tasks.insert(instance, TaskUsed { newest, windows });
    }
    for of in answer.held {
        let held = of.packages.into_iter().map(TryInto::try_into).collect::<Result<_, _>>()?;
        used.held.insert(model::MachineId(of.machine), held);
    }
    Ok(used)
}
