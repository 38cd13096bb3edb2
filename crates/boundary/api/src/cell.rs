//! Ids, and machines' reports about themselves and their tasks: `cell.proto`.

use model::{
    Bytes, CollectionId, End, FinalUsage, Generation, HeldPorts, InstanceId, LogIndex,
    MachineReport, PortRange, RestoreEpoch, Shortage, ShortageState, Stamp, Subnet, TaskId,
    TaskIndex, TaskSelection, Term,
};

use crate::duration::duration;
use crate::error::{At, Fault, Malformed};
use crate::{dimension, notice, read, v1};
use v1::end::How;

impl From<InstanceId> for v1::InstanceId {
    fn from(id: InstanceId) -> Self {
        let (index, generation) = (id.index.0, id.generation.0);
        Self { collection: id.collection.0, index, generation }
    }
}

impl From<v1::InstanceId> for InstanceId {
    fn from(id: v1::InstanceId) -> Self {
        let (index, generation) = (TaskIndex(id.index), Generation(id.generation));
        Self { collection: CollectionId(id.collection), index, generation }
    }
}

impl From<Stamp> for v1::Stamp {
    fn from(stamp: Stamp) -> Self {
        let RestoreEpoch { counter, random } = stamp.restore_epoch;
        let (term, index) = (stamp.term.0, stamp.index.0);
        Self { restore_epoch: counter, term, index, restore_random: random }
    }
}

impl From<v1::Stamp> for Stamp {
    fn from(stamp: v1::Stamp) -> Self {
        let (term, index) = (Term(stamp.term), LogIndex(stamp.index));
        let (counter, random) = (stamp.restore_epoch, stamp.restore_random);
        Self { restore_epoch: RestoreEpoch { counter, random }, term, index }
    }
}

impl From<&MachineReport> for v1::MachineReport {
    fn from(report: &MachineReport) -> Self {
        Self {
            capacity: Some((&report.capacity).into()),
            first_port: report.ports.first.into(),
            last_port: report.ports.last.into(),
            attributes: report.attributes.clone(),
            held_ports: (!report.held_ports.is_empty()).then(|| v1::machine_report::Held {
                groups: report.held_ports.iter().map(Into::into).collect(),
            }),
            saving: (!report.saving.is_empty()).then(|| v1::machine_report::Savings {
                instances: report.saving.iter().map(Into::into).collect(),
            }),
            task_network: report.task_network.as_ref().map(Subnet::to_string).unwrap_or_default(),
            shortage: report.shortage.map(Into::into),
            not_ready: report.not_ready.clone(),
            volumes: report.volumes.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::MachineReport> for MachineReport {
    type Error = Malformed;

    fn try_from(report: v1::MachineReport) -> Result<Self, Malformed> {
        let ports = PortRange {
            first: read::small(report.first_port, u16::MAX, "firstPort")?,
            last: read::small(report.last_port, u16::MAX, "lastPort")?,
        };
        let capacity = read::message(report.capacity, "capacity")?;
        let held = report.held_ports.unwrap_or_default();
        let held_ports = read::list(held.groups, "heldPorts")?;
        let saving = report.saving.unwrap_or_default();
        let saving = read::list(saving.instances, "saving")?;
        let task_network = match report.task_network.as_str() {
            "" => None,
            range => Some(range.parse::<Subnet>().map_err(Fault::Subnet).field("taskNetwork")?),
        };
        let shortage = read::optional(report.shortage, "shortage")?;
        let (attributes, not_ready) = (report.attributes, report.not_ready);
        Ok(Self {
            capacity,
            ports,
            task_network,
            attributes,
            held_ports,
            saving,
            shortage,
            not_ready,
            volumes: read::list(report.volumes, "volumes")?,
        })
    }
}

impl From<Shortage> for v1::machine_report::Shortage {
    fn from(shortage: Shortage) -> Self {
        Self { dimension: dimension::number(shortage.dimension), persists: shortage.persists() }
    }
}

impl TryFrom<v1::machine_report::Shortage> for Shortage {
    type Error = Malformed;

    fn try_from(shortage: v1::machine_report::Shortage) -> Result<Self, Malformed> {
        let dimension = dimension::read(shortage.dimension)?;
        let state = if shortage.persists { ShortageState::Persists } else { ShortageState::Eased };
        Ok(Self { dimension, state })
    }
}

impl From<&HeldPorts> for v1::HeldPorts {
    fn from(held: &HeldPorts) -> Self {
        let PortRange { first, last } = held.ports;
        Self { first: first.into(), last: last.into(), by: held.by.clone() }
    }
}

impl TryFrom<v1::HeldPorts> for HeldPorts {
    type Error = Malformed;

    fn try_from(held: v1::HeldPorts) -> Result<Self, Malformed> {
        let ports = PortRange {
            first: read::small(held.first, u16::MAX, "first")?,
            last: read::small(held.last, u16::MAX, "last")?,
        };
        Ok(Self { ports, by: held.by })
    }
}

/// The message, or `None` if nothing was measured.
pub fn usage(usage: &FinalUsage) -> Option<v1::FinalUsage> {
    (*usage != FinalUsage::UNMEASURED).then(|| usage.into())
}

impl From<&FinalUsage> for v1::FinalUsage {
    fn from(usage: &FinalUsage) -> Self {
        Self {
            cpu_time: usage.cpu_time.map(duration),
            memory_peak_bytes: usage.memory_peak.map(|peak| read::signed(peak.0)),
            notice: usage.notice.map(notice::delivery_number),
        }
    }
}

impl TryFrom<v1::FinalUsage> for FinalUsage {
    type Error = Malformed;

    fn try_from(usage: v1::FinalUsage) -> Result<Self, Malformed> {
        let cpu_time = usage.cpu_time.map(|time| read::span(Some(time), "cpuTime"));
        let peak = usage.memory_peak_bytes.map(|peak| read::quantity(peak, "memoryPeakBytes"));
        let memory_peak = peak.transpose()?.map(Bytes);
        let notice = usage.notice.map(notice::delivery).transpose()?;
        Ok(Self { cpu_time: cpu_time.transpose()?, memory_peak, notice })
    }
}

impl From<TaskId> for v1::TaskId {
    fn from(task: TaskId) -> Self {
        Self { collection: task.collection.0, index: task.index.0 }
    }
}

impl From<v1::TaskId> for TaskId {
    fn from(task: v1::TaskId) -> Self {
        Self { collection: CollectionId(task.collection), index: TaskIndex(task.index) }
    }
}

impl From<&End> for v1::End {
    fn from(end: &End) -> Self {
        let how = match end {
            End::Exited { code } => How::Exited((*code).into()),
            End::Signalled { signal } => How::Signalled((*signal).into()),
            End::OutOfMemory { limit, peak } => How::OutOfMemory(v1::OutOfMemory {
                limit_bytes: read::signed(limit.0),
                peak_bytes: read::signed(peak.0),
            }),
            End::NotStarted { reason } => How::NotStarted(reason.clone()),
            End::Unhealthy { reason } => How::Unhealthy(reason.clone()),
            End::Stopped => How::Stopped(v1::Nothing {}),
            End::Lost { reason } => How::Lost(reason.clone()),
            End::BrokeRule { reason } => How::BrokeRule(reason.clone()),
            End::OutOfResources { reason } => How::OutOfResources(reason.clone()),
            End::OverRuntime { most } => How::OverRuntime(duration(*most)),
        };
        Self { how: Some(how) }
    }
}

impl TryFrom<v1::End> for End {
    type Error = Malformed;

    fn try_from(end: v1::End) -> Result<Self, Malformed> {
        Ok(match end.how.ok_or(Fault::UnknownKind)? {
            How::Exited(code) => Self::Exited { code: read::small(code, u8::MAX, "exited")? },
            How::Signalled(signal) => {
                Self::Signalled { signal: read::small(signal, u8::MAX, "signalled")? }
            }
            How::OutOfMemory(memory) => Self::OutOfMemory {
                limit: Bytes(
                    read::quantity(memory.limit_bytes, "limitBytes").field("outOfMemory")?,
                ),
                peak: Bytes(read::quantity(memory.peak_bytes, "peakBytes").field("outOfMemory")?),
            },
            How::NotStarted(reason) => Self::NotStarted { reason },
            How::Unhealthy(reason) => Self::Unhealthy { reason },
            How::Stopped(v1::Nothing {}) => Self::Stopped,
            How::Lost(reason) => Self::Lost { reason },
            How::BrokeRule(reason) => Self::BrokeRule { reason },
            How::OutOfResources(reason) => Self::OutOfResources { reason },
            How::OverRuntime(most) => {
                Self::OverRuntime { most: read::span(Some(most), "overRuntime")? }
            }
        })
    }
}

impl From<&TaskSelection> for v1::TaskSelection {
    fn from(selection: &TaskSelection) -> Self {
        let range = |(first, last): &(TaskIndex, TaskIndex)| v1::IndexRange {
            first: first.0,
            last: last.0,
        };
        match selection {
            TaskSelection::All => Self { all: true, ranges: Vec::new() },
            TaskSelection::Some(ranges) => {
                Self { all: false, ranges: ranges.iter().map(range).collect() }
            }
        }
    }
}

/// The maximum number of ranges in a request, after merging adjacent ones.
const RANGES_MAX: usize = 1_000;

impl v1::TaskSelection {
    /// A selection in a request: normalised, and with a bounded number of ranges. The bound is not
    /// part of the conversion, because selections in the log were accepted once and are read as
    /// they are.
    ///
    /// # Errors
    /// If it is malformed or has too many ranges.
    pub fn asked(self) -> Result<TaskSelection, Malformed> {
        let selection = TaskSelection::try_from(self)?.normalised();
        match &selection {
            TaskSelection::Some(ranges) if ranges.len() > RANGES_MAX => {
                Err(Fault::Contradiction(TOO_MANY_RANGES).into())
            }
            _ => Ok(selection),
        }
    }
}

const TOO_MANY_RANGES: &str = "selects more than 1000 separate ranges of tasks: select fewer at \
                               once, or all";

/// A range whose end is before its start selects nothing, here as in the core.
impl TryFrom<v1::TaskSelection> for TaskSelection {
    type Error = Malformed;

    fn try_from(selection: v1::TaskSelection) -> Result<Self, Malformed> {
        let range = |range: v1::IndexRange| (TaskIndex(range.first), TaskIndex(range.last));
        match (selection.all, selection.ranges) {
            (true, ranges) if ranges.is_empty() => Ok(Self::All),
            (true, _) => Err(Fault::Contradiction("selects both all tasks and single ones").into()),
            (false, ranges) => Ok(Self::Some(ranges.into_iter().map(range).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(indexes: impl Iterator<Item = u32>) -> v1::TaskSelection {
        let range = |index| v1::IndexRange { first: index, last: index };
        v1::TaskSelection { all: false, ranges: indexes.map(range).collect() }
    }

    #[test]
    fn a_request_selects_a_bounded_number_of_ranges() {
        let says = |selection: v1::TaskSelection| selection.asked().map_err(|e| e.to_string());
        let together = single((0..100_000).rev());
        let one = TaskSelection::Some(vec![(TaskIndex(0), TaskIndex(99_999))]);
        assert_eq!(says(together), Ok(one));
        let apart = |count| single((0..count).map(|index| index * 2));
        assert!(says(apart(1_000)).is_ok());
        assert_eq!(says(apart(1_001)), Err(TOO_MANY_RANGES.to_owned()));
        // The log may contain one from before there was a bound.
        assert!(TaskSelection::try_from(apart(1_001)).is_ok());
        let all = v1::TaskSelection { all: true, ranges: Vec::new() };
        assert_eq!(says(all), Ok(TaskSelection::All));
    }
}
