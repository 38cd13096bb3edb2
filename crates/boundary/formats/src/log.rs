//! Operations, and the log records that contain them: `log.proto`.
//!
//! A record that a replica has written must be readable by every replica of its level, or the cell
//! would stop: so nothing is rejected here that the core's types can express.

use std::sync::Arc;

use api::{At, Fault, Malformed, read};
use cell::{Observation, Op, Reservation};
use model::{
    CollectionId, DirectoryId, InstanceId, Level, LockSessionId, MachineId, ReplicaId, TaskId,
    TaskIndex, Time, Version,
};
use prost::Message;

use crate::{credential, v1};
use v1::observation::What;
use v1::op::{self, Op as Kind};

/// The payload of the log record for an operation at a time.
#[must_use]
pub fn encode_record(at: Time, op: &Op) -> Vec<u8> {
    v1::LogRecord { at: at.0, op: Some(op.into()) }.encode_to_vec()
}

/// Decodes the payload of a log record. The caller must have checked that this build knows the
/// record's level.
///
/// # Errors
/// If the bytes are not a record that this build knows.
pub fn decode_record(bytes: &[u8]) -> Result<(Time, Op), Malformed> {
    let record = v1::LogRecord::decode(bytes)?;
    Ok((Time(record.at), read::message(record.op, "op")?))
}

/// The time of a log record; `None` for one without payload, and for invalid ones. The rest of the
/// record is not decoded.
#[must_use]
pub fn record_time(bytes: &[u8]) -> Option<Time> {
    /// The start of a [`v1::LogRecord`].
    #[derive(Clone, PartialEq, Message)]
    struct When {
        #[prost(uint64, tag = "1")]
        at: u64,
    }
    let when = When::decode(bytes).ok().filter(|_| !bytes.is_empty());
    when.map(|when| Time(when.at))
}

/// Whether a log record changes the members of consensus ([`Op::ChangeMember`]). Only the
/// operation's kind is decoded; `false` for invalid records.
#[must_use]
pub fn is_membership(bytes: &[u8]) -> bool {
    /// The start of a [`v1::LogRecord`].
    #[derive(Clone, PartialEq, Message)]
    struct Record {
        #[prost(message, tag = "2")]
        op: Option<Kind>,
    }
    /// A [`v1::Op`] with only that kind.
    #[derive(Clone, PartialEq, Message)]
    struct Kind {
        #[prost(bytes = "vec", optional, tag = "50")]
        change_member: Option<Vec<u8>>,
    }
    let record = Record::decode(bytes).ok().and_then(|record| record.op);
    record.is_some_and(|kind| kind.change_member.is_some())
}

impl From<&Op> for v1::Op {
    fn from(op: &Op) -> Self {
        let kind = match op {
            Op::Nothing => Kind::Nothing(v1::Nothing {}),
            Op::Bootstrap { name, administrator } => Kind::Bootstrap(op::Bootstrap {
                name: name.to_string(),
                administrator: administrator.to_string(),
            }),
            Op::OpenSession { user } => {
                Kind::OpenSession(op::OpenSession { user: user.to_string() })
            }
            Op::Request { id, by, mutation } => Kind::Request(op::Request {
                id: Some((*id).into()),
                by: by.to_string(),
                mutation: Some(mutation.into()),
            }),
            Op::Assign { by, assignments, began } => {
                let assignments = assignments.iter().map(Into::into).collect();
                let began = began.map(|began| began.0);
                Kind::Assign(op::Assign { assignments, by: by.to_string(), began })
            }
            Op::Observe { machine, observations } => Kind::Observe(op::Observe {
                machine: machine.0,
                observations: observations.iter().map(Into::into).collect(),
            }),
            Op::DescribeMachine { machine, report } => {
                let report = Some(v1::MachineReport::from(&**report));
                Kind::DescribeMachine(op::DescribeMachine { machine: machine.0, report })
            }
            Op::MachineSilent { machine } => {
                Kind::MachineSilent(op::MachineSilent { machine: machine.0 })
            }
            Op::MachineBack { machine } => {
                Kind::MachineBack(op::MachineBack { machine: machine.0 })
            }
            Op::Reserve(reservations) => Kind::Reserve(op::Reserve {
                reservations: reservations.iter().map(Into::into).collect(),
            }),
            Op::Forget { collections } => Kind::Forget(op::Forget {
                collections: collections.iter().map(|id| id.0).collect(),
            }),
            Op::RaiseLevel { to } => Kind::RaiseLevel(op::RaiseLevel { to: to.0 }),
            Op::MachineUnreachable { machine } => {
                Kind::MachineUnreachable(op::MachineUnreachable { machine: machine.0 })
            }
            Op::StopRescheduling { silent, of } => {
                Kind::StopRescheduling(op::StopRescheduling { silent: *silent, of: *of })
            }
            Op::AllowRescheduling => Kind::AllowRescheduling(v1::Nothing {}),
            Op::MeterQuota => Kind::MeterQuota(v1::Nothing {}),
            Op::SwitchQueueOn => Kind::SwitchQueueOn(v1::Nothing {}),
            Op::Enable { by, enabled } => {
                let enabled = enabled.iter().copied().map(Into::into).collect();
                Kind::Enable(op::Enable { by: by.to_string(), enabled })
            }
            Op::Enrol { token, key, machine, address, certificate, validity } => {
                Kind::Enrol(v1::Enrol {
                    token: token.to_string(),
                    key: key.to_string(),
                    machine: machine.as_ref().map(ToString::to_string).unwrap_or_default(),
                    address: address.clone(),
                    certificate: certificate.to_string(),
                    validity: Some(api::duration(*validity)),
                })
            }
            Op::JoinReplica { replica, token, key } => Kind::JoinReplica(v1::JoinReplica {
                replica: replica.0,
                token: token.to_string(),
                key: key.to_string(),
            }),
            Op::RenewMachine { machine, old, certificate, validity } => {
                Kind::RenewMachine(v1::RenewMachine {
                    machine: machine.to_string(),
                    old: old.to_string(),
                    certificate: certificate.to_string(),
                    validity: Some(api::duration(*validity)),
                })
            }
            Op::StepUpdate { job, version, steps } => Kind::StepUpdate(op::StepUpdate {
                job: job.0,
                version: version.0,
                steps: steps.iter().map(Into::into).collect(),
            }),
            Op::EvictDraining { machine, instances } => Kind::EvictDraining(op::EvictDraining {
                machine: machine.0,
                instances: instances.iter().map(|id| (*id).into()).collect(),
            }),
            Op::RelieveMachine { machine, instance } => {
                let (machine, instance) = (machine.0, Some((*instance).into()));
                Kind::RelieveMachine(op::RelieveMachine { machine, instance })
            }
            Op::ReadSecrets { machine, instance } => Kind::ReadSecrets(op::ReadSecrets {
                machine: machine.to_string(),
                instance: Some((*instance).into()),
            }),
            Op::AddOutputs { machine, instance, package } => Kind::AddOutputs(op::AddOutputs {
                machine: machine.to_string(),
                instance: Some((*instance).into()),
                package: Some(package.as_ref().into()),
            }),
            Op::SendElsewhere { tasks } => {
                let task = |task: &TaskId| v1::send_elsewhere::Task {
                    collection: task.collection.0,
                    index: task.index.0,
                };
                Kind::SendElsewhere(v1::SendElsewhere { tasks: tasks.iter().map(task).collect() })
            }
            Op::TellInputs { job } => Kind::TellInputs(job.0),
            Op::ExpireDrain { machine } => Kind::ExpireDrain(machine.0),
            Op::ExpireLockSessions { sessions } => {
                let sessions = sessions.iter().map(|session| session.0).collect();
                Kind::ExpireLockSessions(v1::ExpireLockSessions { sessions })
            }
            Op::StartReplacement { job } => Kind::StartReplacement(job.0),
            Op::RemoveReplacements { job } => Kind::RemoveReplacements(job.0),
            Op::ChangeMember { replica, to } => {
                Kind::ChangeMember(api::replica::change(*replica, *to))
            }
            Op::DescribeReplica { replica, address, level, directory } => {
                let (replica, address, level) = (replica.0, address.clone(), level.0);
                let directory = directory.0;
                Kind::DescribeReplica(v1::DescribeReplica { replica, address, level, directory })
            }
        };
        Self { op: Some(kind) }
    }
}

impl TryFrom<v1::Op> for Op {
    type Error = Malformed;

    fn try_from(op: v1::Op) -> Result<Self, Malformed> {
        Ok(match op.op.ok_or(Fault::UnknownKind)? {
            Kind::Nothing(v1::Nothing {}) => Self::Nothing,
            Kind::Bootstrap(found) => Self::Bootstrap {
                name: read::name(&found.name, "name").field("found")?,
                administrator: read::name(&found.administrator, "administrator").field("found")?,
            },
            Kind::OpenSession(open) => {
                Self::OpenSession { user: read::name(&open.user, "user").field("openSession")? }
            }
            Kind::Request(request) => decode_request(request).field("request")?,
            Kind::Assign(assign) => Self::Assign {
                by: read::name(&assign.by, "by").field("assign")?,
                assignments: read::list(assign.assignments, "assignments").field("assign")?,
                began: assign.began.map(Time),
            },
            Kind::Observe(observe) => Self::Observe {
                machine: MachineId(observe.machine),
                observations: read::list(observe.observations, "observations").field("observe")?,
            },
            Kind::DescribeMachine(describe) => Self::DescribeMachine {
                machine: MachineId(describe.machine),
                report: Arc::new(
                    read::message(describe.report, "report").field("describeMachine")?,
                ),
            },
            Kind::MachineSilent(silent) => {
                Self::MachineSilent { machine: MachineId(silent.machine) }
            }
            Kind::MachineBack(back) => Self::MachineBack { machine: MachineId(back.machine) },
            Kind::Reserve(reserve) => {
                Self::Reserve(read::list(reserve.reservations, "reservations").field("reserve")?)
            }
            Kind::Forget(forget) => Self::Forget {
                collections: forget.collections.into_iter().map(CollectionId).collect(),
            },
            Kind::RaiseLevel(raise) => Self::RaiseLevel { to: Level(raise.to) },
            Kind::MachineUnreachable(unreachable) => {
                Self::MachineUnreachable { machine: MachineId(unreachable.machine) }
            }
            Kind::StopRescheduling(op::StopRescheduling { silent, of }) => {
                Self::StopRescheduling { silent, of }
            }
            Kind::AllowRescheduling(v1::Nothing {}) => Self::AllowRescheduling,
            Kind::MeterQuota(v1::Nothing {}) => Self::MeterQuota,
            Kind::SwitchQueueOn(v1::Nothing {}) => Self::SwitchQueueOn,
            Kind::Enable(enable) => Self::Enable {
                by: read::name(&enable.by, "by").field("enable")?,
                enabled: enable.enabled.into_iter().map(Into::into).collect(),
            },
            Kind::Enrol(enrol) => credential::enrol_of(enrol).field("enrol")?,
            Kind::JoinReplica(join) => credential::join_of(&join).field("joinReplica")?,
            Kind::RenewMachine(renew) => credential::renew_of(&renew).field("renewMachine")?,
            Kind::StepUpdate(step) => Self::StepUpdate {
                job: CollectionId(step.job),
                version: Version(step.version),
                steps: read::list(step.steps, "steps").field("stepUpdate")?,
            },
            Kind::EvictDraining(evict) => Self::EvictDraining {
                machine: MachineId(evict.machine),
                instances: evict.instances.into_iter().map(InstanceId::from).collect(),
            },
            Kind::RelieveMachine(relieve) => Self::RelieveMachine {
                machine: MachineId(relieve.machine),
                instance: read::required(relieve.instance, "instance")
                    .field("relieveMachine")?
                    .into(),
            },
            Kind::ReadSecrets(reads) => Self::ReadSecrets {
                machine: read::name(&reads.machine, "machine").field("readSecrets")?,
                instance: read::required(reads.instance, "instance").field("readSecrets")?.into(),
            },
            Kind::AddOutputs(add) => Self::AddOutputs {
                machine: read::name(&add.machine, "machine").field("addOutputs")?,
                instance: read::required(add.instance, "instance").field("addOutputs")?.into(),
                package: Arc::new(read::message(add.package, "package").field("addOutputs")?),
            },
            Kind::SendElsewhere(send) => {
                let task = |task: v1::send_elsewhere::Task| TaskId {
                    collection: CollectionId(task.collection),
                    index: TaskIndex(task.index),
                };
                Self::SendElsewhere { tasks: send.tasks.into_iter().map(task).collect() }
            }
            Kind::TellInputs(job) => Self::TellInputs { job: CollectionId(job) },
            Kind::ExpireDrain(machine) => Self::ExpireDrain { machine: MachineId(machine) },
            Kind::ExpireLockSessions(expire) => Self::ExpireLockSessions {
                sessions: expire.sessions.into_iter().map(LockSessionId).collect(),
            },
            Kind::StartReplacement(job) => Self::StartReplacement { job: CollectionId(job) },
            Kind::RemoveReplacements(job) => Self::RemoveReplacements { job: CollectionId(job) },
            Kind::ChangeMember(change) => {
                let (replica, to) = api::replica::change_of(&change).field("changeMember")?;
                Self::ChangeMember { replica, to }
            }
            Kind::DescribeReplica(v1::DescribeReplica { replica, address, level, directory }) => {
                let (replica, level) = (ReplicaId(replica), Level(level));
                let directory = DirectoryId(directory);
                Self::DescribeReplica { replica, address, level, directory }
            }
        })
    }
}

fn decode_request(request: op::Request) -> Result<Op, Malformed> {
    Ok(Op::Request {
        id: read::required(request.id, "id")?.into(),
        by: read::name(&request.by, "by")?,
        mutation: request.mutation.ok_or(Fault::UnknownKind)?.try_into()?,
    })
}

impl From<&Reservation> for op::Reservation {
    fn from(Reservation { instance, amount, newest_sample }: &Reservation) -> Self {
        Self {
            instance: Some((*instance).into()),
            amount: Some(amount.into()),
            newest_sample: newest_sample.map(|at| at.0),
        }
    }
}

impl TryFrom<op::Reservation> for Reservation {
    type Error = Malformed;

    fn try_from(reservation: op::Reservation) -> Result<Self, Malformed> {
        Ok(Self {
            instance: read::message(reservation.instance, "instance")?,
            amount: read::message(reservation.amount, "amount")?,
            newest_sample: reservation.newest_sample.map(Time),
        })
    }
}

impl From<&Observation> for v1::Observation {
    fn from(observation: &Observation) -> Self {
        let (instance, what, usage) = match observation {
            Observation::Started { instance, .. } => {
                (instance, What::Started(v1::Nothing {}), None)
            }
            Observation::Health { instance, healthy, .. } => {
                (instance, What::Healthy(*healthy), None)
            }
            Observation::NotHealthyYet { instance, .. } => {
                (instance, What::NotHealthyYet(v1::Nothing {}), None)
            }
            Observation::Unready { instance, .. } => {
                (instance, What::Unready(v1::Nothing {}), None)
            }
            Observation::Ended { instance, end, usage } => {
                (instance, What::Ended(end.into()), api::cell::usage(usage))
            }
        };
        let check = match observation {
            Observation::Health { check, .. }
            | Observation::NotHealthyYet { check, .. }
            | Observation::Unready { check, .. } => check.clone(),
            Observation::Started { .. } | Observation::Ended { .. } => String::new(),
        };
        let latency = match observation {
            Observation::Started { latency, .. } => api::start_latency::message(*latency),
            _ => None,
        };
        Self { instance: Some((*instance).into()), what: Some(what), usage, check, latency }
    }
}

impl TryFrom<v1::Observation> for Observation {
    type Error = Malformed;

    fn try_from(observation: v1::Observation) -> Result<Self, Malformed> {
        let instance = read::message(observation.instance, "instance")?;
        Ok(match observation.what.ok_or(Fault::UnknownKind)? {
            What::Started(v1::Nothing {}) => Self::Started {
                instance,
                latency: api::start_latency::read(observation.latency.as_ref())?,
            },
            What::Healthy(healthy) => Self::Health { instance, healthy, check: observation.check },
            What::NotHealthyYet(v1::Nothing {}) => {
                Self::NotHealthyYet { instance, check: observation.check }
            }
            What::Unready(v1::Nothing {}) => Self::Unready { instance, check: observation.check },
            What::Ended(end) => Self::Ended {
                instance,
                end: end.try_into().field("ended")?,
                usage: read::optional(observation.usage, "usage")?.unwrap_or_default(),
            },
        })
    }
}
