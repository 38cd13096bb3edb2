//! `bourg machines` and `bourg machine show`: list machines, and show one in detail.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use api::v1::usage_request::{self, Of};
use api::{v1, word};
use clap::Args;
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, Failure, with_cell};
use model::{Bytes, GcuFactor, MachineName, Priority, Resources, Time, attribute};
use present::amount;
use present::machine_words::{held_ports, ports, task_network};

use super::obey;
use crate::ListArgs;
use crate::moment::{self, Moment};
use crate::show::{self, Printer};
use crate::usage;

/// The attribute that has a column of its own if a machine has it.
const RACK: &str = attribute::RACK;

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The machine.
    name: MachineName,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
    /// Show the state at this moment: an index (88412), a time (2026-11-19 03:10, UTC) or an age
    /// (10m).
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
}

/// Implements `bourg machines`.
pub(crate) fn list(cell: Target<'_>, args: &ListArgs) -> Done {
    with_cell(cell, async |mut connection| {
        show::repeat(args, async || {
            let request = v1::MachinesRequest {
                labels: args.labels(),
                at: args.at(),
                ..v1::MachinesRequest::default()
            };
            let answer = connection
                .ask(request, async |mut client, request| client.machines.list(request).await)
                .await?;
            let format = args.output.clone();
            let (index, now) = (answer.index, Time(answer.time));
            let (mut used, mut note) = (v1::UsageResponse::default(), None);
            if format == Format::Wide && args.at.is_none() {
                let of = Of::Machines(usage_request::Machines { names: Vec::new() });
                (used, note) = usage::beside(&connection, of).await;
            }
            let shown = move || {
                show_list(&format, &answer.machines, &used.machines, now)?;
                note.iter().for_each(|note| output::say(&format!("note: {note}\n")));
                Ok(())
            };
            Ok((index, Box::new(shown) as Printer))
        })
        .await
    })
}

fn show_list(
    format: &Format,
    machines: &[v1::MachineStatus],
    used: &[v1::MachineUsage],
    now: Time,
) -> Done {
    let used: BTreeMap<u64, &v1::MachineUsage> =
        used.iter().map(|machine| (machine.id, machine)).collect();
    let mut headings = vec![
        "MACHINE",
        "STATE",
        "TASKS",
        "CPU TAKEN",
        "CPU",
        "RAM TAKEN",
        "RAM",
        "PORTS TAKEN",
        "CPU LIMITS",
        "CPU RESERVED",
        "CPU USED",
        "RAM LIMITS",
        "RAM RESERVED",
        "RAM USED",
        "ADDRESS",
        "POLLED BY",
        "ATTRIBUTES",
    ];
    let racks = machines.iter().any(|machine| machine.attributes.contains_key(RACK));
    if racks {
        headings.insert(headings.len() - 3, "RACK");
    }
    output::list(
        format,
        &Listing {
            items: machines,
            name: |machine| machine.name.clone(),
            headings: &headings,
            wide: headings.len() - 8,
            row: |machine: &v1::MachineStatus| {
                row(machine, used.get(&machine.id).copied(), racks, now)
            },
        },
    )
}

fn row(
    machine: &v1::MachineStatus,
    used: Option<&v1::MachineUsage>,
    racks: bool,
    now: Time,
) -> Vec<String> {
    let (taken, all) = (resources(machine.taken), resources(machine.capacity));
    let attributes = machine
        .attributes
        .iter()
        .map(|(name, value)| format!("{}={}", name.escape_debug(), value.escape_debug()));
    let mut row = vec![
        machine.name.clone(),
        state_since(machine, now),
        machine.tasks.to_string(),
        taken.cpu.to_string(),
        all.cpu.to_string(),
        taken.ram.to_string(),
        all.ram.to_string(),
        machine.ports_taken.to_string(),
    ];
    row.extend(usage_columns(used));
    row.extend([
        machine.address.clone(),
        match machine.polled_by {
            0 => "-".to_owned(),
            replica => replica.to_string(),
        },
        attributes.collect::<Vec<_>>().join(" "),
    ]);
    if racks {
        let rack = machine.attributes.get(RACK).map(String::as_str).unwrap_or_default();
        row.insert(row.len() - 3, rack.escape_debug().to_string());
    }
    row
}

/// Limits, reservations and usage: of CPU, and of RAM.
fn usage_columns(machine: Option<&v1::MachineUsage>) -> [String; 6] {
    let tasks = machine.and_then(|machine| machine.tasks.as_ref());
    let (limit, reserved) =
        (tasks.and_then(|tasks| tasks.limit), tasks.and_then(|tasks| tasks.reservation));
    let used = machine.and_then(|machine| machine.used).unwrap_or_default();
    [
        amount::cpu(limit.map(|limit| limit.cpu_milli)),
        amount::cpu(reserved.map(|reserved| reserved.cpu_milli)),
        amount::cpu(used.cpu_milli),
        amount::bytes(limit.map(|limit| limit.ram_bytes)),
        amount::bytes(reserved.map(|reserved| reserved.ram_bytes)),
        amount::bytes(used.memory_bytes),
    ]
}

fn resources(resources: Option<v1::Resources>) -> Resources {
    resources.and_then(|all| Resources::try_from(all).ok()).unwrap_or_default()
}

/// For example `up`, `draining`, `down, draining`, `up, suspect`.
fn state(machine: &v1::MachineStatus) -> String {
    let mut state = word::<v1::MachineState>(machine.state).into_owned();
    let says_so = [v1::MachineState::Draining, v1::MachineState::Drained];
    if machine.draining_since > 0 && !says_so.contains(&machine.state()) {
        state += ", draining";
    }
    if machine.suspect {
        state += ", suspect";
    }
    if obey::rejects(machine).is_some() {
        state += ", rejects orders";
    }
    if machine.attributes.contains_key(attribute::REJECTED_REPORT) {
        state += ", not believed";
    }
    if machine.attributes.contains_key(attribute::CHANGES_HELD_BACK) {
        state += ", changes too often";
    }
    if machine.shut_out {
        state += ", revoked";
    }
    state
}

/// The state with its duration: `unreachable for 12 s`, `down for 3 min, draining`.
fn state_since(machine: &v1::MachineStatus, now: Time) -> String {
    let state = state(machine);
    let (is, more) = state.split_at(word::<v1::MachineState>(machine.state).len());
    match machine.silent_since {
        0 => state,
        since => format!("{is} for {}{more}", now.since(Time(since))),
    }
}

/// Implements `bourg machine show`.
pub(super) fn show(cell: Target<'_>, args: &ShowArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let request = v1::MachinesRequest {
            at: args.at.map(Moment::message),
            names: vec![args.name.to_string()],
            tasks: true,
            ..v1::MachinesRequest::default()
        };
        let answer = connection
            .ask(request, async |mut client, request| client.machines.list(request).await)
            .await?;
        let now = Time(answer.time);
        let mut machine = answer.machines.into_iter().next().ok_or_else(|| {
            Failure::failed(format!("error: machine {} does not exist", args.name))
        })?;
        let mut note = None;
        if args.at.is_none() {
            let names = vec![machine.name.clone()];
            let used;
            (used, note) =
                usage::beside(&connection, Of::Machines(usage_request::Machines { names })).await;
            if let Some(used) = used.machines.into_iter().next() {
                machine.packages = used.packages;
                machine.package_count = used.package_count;
                machine.package_bytes = used.package_bytes;
            }
        }
        let shown = || {
            let mut text = describe(&machine, now);
            if let Some(note) = &note {
                let _infallible = writeln!(text, "note: {note}");
            }
            text
        };
        output::object(&args.output, &machine, &machine.name, shown)
    })
}

fn describe(machine: &v1::MachineStatus, now: Time) -> String {
    let mut rows = vec![["state".to_owned(), state_since(machine, now)]];
    let silent = match machine.state() {
        v1::MachineState::Unreachable => {
            "it does not answer: its tasks stay assigned to it, and no others are placed"
        }
        v1::MachineState::Down => "it does not answer: its tasks are rescheduled",
        _ => "",
    };
    if !silent.is_empty() {
        rows.push(["silent", silent].map(str::to_owned));
    }
    if let Some(reason) = machine.report.as_ref().and_then(|report| report.not_ready.as_ref()) {
        let reason = reason.escape_debug();
        let then = match machine.set_aside {
            true => "it gets no tasks until a probe task works",
            false => "it still gets tasks: as many machines of the cell as may be are set aside",
        };
        rows.push(["not ready".to_owned(), format!("{reason}; {then}")]);
    }
    if machine.draining_since > 0 {
        let since = now.since(Time(machine.draining_since));
        let why = match machine.drain_reason.as_str() {
            "" => String::new(),
            why => format!(": {}", why.escape_debug()),
        };
        rows.push(["drained".to_owned(), format!("{since} ago by {}{why}", machine.drained_by)]);
        if machine.drain_deadline > 0 {
            let until = moment::shown(Time(machine.drain_deadline));
            let is_empty = machine.state() == v1::MachineState::Drained;
            let then = match (machine.drain_expired > 0, machine.drain_forced) {
                _ if is_empty => None,
                (true, _) => Some("ended then with tasks left"),
                (false, true) => Some("then evicts what is left"),
                (false, false) => Some("then ends, whatever is left"),
            };
            let row = |then| ["drain".to_owned(), format!("until {until}, {then}")];
            rows.extend(then.map(row));
        }
        for waits in &machine.drain_waits_for {
            rows.push(["drain".to_owned(), waits.escape_debug().to_string()]);
        }
    }
    if machine.suspect {
        let why = "many tasks crashed on it recently: it may be faulty";
        rows.push(["suspect", why].map(str::to_owned));
    }
    if let Some(why) = machine.attributes.get(attribute::REJECTED_REPORT) {
        rows.push(["not believed".to_owned(), why.escape_debug().to_string()]);
    }
    if let Some(stamp) = obey::rejects(machine) {
        let why = format!(
            "rejected: it has obeyed {} (restore epoch/term/index), of another history; next: bourg \
             machine obey {}",
            stamp.escape_debug(),
            machine.name
        );
        rows.push(["orders".to_owned(), why]);
    }
    if !machine.not_reached.is_empty() {
        let why = machine.not_reached.escape_debug().to_string();
        rows.push(["not reached".to_owned(), why]);
    }
    if machine.revoked > 0 {
        let since = now.since(Time(machine.revoked));
        let accepted = if machine.shut_out { "none" } else { "those issued" };
        let what = format!("{since} ago by {}; accepted: {accepted} since", machine.revoked_by);
        rows.push(["revoked".to_owned(), what]);
    }
    if machine.certificate_expires > 0 {
        let until = moment::shown(Time(machine.certificate_expires));
        rows.push(["certificate".to_owned(), format!("until {until}")]);
    }
    rows.push(["address".to_owned(), machine.address.clone()]);
    if machine.polled_by > 0 {
        rows.push(["polled".to_owned(), polled(machine)]);
    }
    rows.push(["capacity".to_owned(), resources(machine.capacity).to_string()]);
    rows.push(["taken".to_owned(), resources(machine.taken).to_string()]);
    rows.push(["ports".to_owned(), ports(machine)]);
    if let Some(network) = task_network(machine) {
        rows.push(["task network".to_owned(), network]);
    }
    if let Some(held) = held_ports(machine) {
        rows.push(["held by others".to_owned(), held]);
    }
    if let Some(saving) = saving(machine) {
        rows.push(["saving".to_owned(), saving]);
    }
    if machine.package_count > 0 {
        rows.push(["packages".to_owned(), packages(machine)]);
    }
    rows.push(["core".to_owned(), core(machine)]);
    let rows = rows.into_iter().map(Vec::from).collect();
    let mut text = output::table(&["machine", &machine.name], rows);
    if !machine.attributes.is_empty() {
        let rows =
            machine.attributes.iter().map(|(name, value)| attribute_row(machine, name, value));
        let table = output::table(&["ATTRIBUTE", "VALUE", "SAID BY"], rows.collect());
        let _infallible = write!(text, "\n{table}");
    }
    if !machine.volumes.is_empty() {
        let headings = ["VOLUME", "PATH", "SIZE", "USED", "SHARED", "CLAIMED BY", "LABELS"];
        let table = output::table(&headings, super::volume::rows(machine));
        let _infallible = write!(text, "\n{table}");
    }
    if !machine.placed.is_empty() {
        let headings = ["TASK", "STATE", "SINCE", "PRIORITY", "LIMIT", "PORTS"];
        let rows = machine.placed.iter().map(|task| task_row(task, now));
        let _infallible = write!(text, "\n{}", output::table(&headings, rows.collect()));
        for (name, task) in machine
            .placed
            .iter()
            .filter_map(|placed| Some((task_name(placed), placed.task.as_ref()?)))
        {
            if !task.reason.is_empty() {
                let _infallible = writeln!(text, "{name}: {}", task.reason);
            }
        }
    }
    if !machine.packages.is_empty() {
        let headings = ["PACKAGE", "ON THE MACHINE", "OF", "USE"];
        let rows = machine.packages.iter().map(package_row);
        let _infallible = write!(text, "\n{}", output::table(&headings, rows.collect()));
    }
    if !machine.saving.is_empty() {
        let headings = ["SAVING", "GENERATION", "SIZE", "ATTEMPTS", "UNTIL"];
        let rows = machine.saving.iter().map(saving_row);
        let _infallible = write!(text, "\n{}", output::table(&headings, rows.collect()));
    }
    text
}

/// For example `3, 120 MiB`.
fn packages(machine: &v1::MachineStatus) -> String {
    let (count, bytes) = (machine.package_count, Bytes(machine.package_bytes));
    let left = u64::from(count).saturating_sub(machine.packages.len() as u64);
    match left {
        0 => format!("{count}, {bytes}"),
        left => format!("{count}, {bytes}; {left} of them are not shown"),
    }
}

/// A package whose name the caller may not see is that of others.
fn package_row(package: &v1::MachinePackage) -> Vec<String> {
    let name = match package.name.as_str() {
        "" => "(of others)".to_owned(),
        name => name.to_owned(),
    };
    let held_use = match package.r#use() {
        v1::HeldUse::Unspecified => "-",
        v1::HeldUse::Unused => "unused",
        v1::HeldUse::InUse => "in use",
        v1::HeldUse::Fetching => "being fetched",
    };
    let bytes = |bytes: u64| Bytes(bytes).to_string();
    vec![name, bytes(package.bytes), bytes(package.needs), held_use.to_owned()]
}

/// For example `the data of 3 ended tasks, 12 MiB: lost if the machine leaves now`.
fn saving(machine: &v1::MachineStatus) -> Option<String> {
    let count = machine.saving.len();
    let bytes = machine.saving.iter().map(|saving| saving.bytes.unsigned_abs());
    let bytes = Bytes(bytes.fold(0, u64::saturating_add));
    let of = if count == 1 { "instance" } else { "instances" };
    (count > 0)
        .then(|| format!("the data of {count} ended {of}, {bytes}: lost if the machine leaves now"))
}

fn saving_row(saving: &v1::SavingStatus) -> Vec<String> {
    vec![
        saving.name.clone(),
        saving.generation.to_string(),
        Bytes(saving.bytes.unsigned_abs()).to_string(),
        saving.attempts.to_string(),
        moment::shown(Time(saving.until)),
    ]
}

/// For example `by replica 2; replica 1 does not reach it`.
fn polled(machine: &v1::MachineStatus) -> String {
    let failed: Vec<_> = machine.not_reached_by.iter().map(ToString::to_string).collect();
    let failed = match failed.as_slice() {
        [] => String::new(),
        [one] => format!("; replica {one} does not reach it"),
        several => format!("; replicas {} do not reach it", several.join(", ")),
    };
    format!("by replica {}{failed}", machine.polled_by)
}

/// For example `1.25 of the cell's cores (platform AMD EPYC)`.
fn core(machine: &v1::MachineStatus) -> String {
    let factor = GcuFactor::from_milli(machine.gcu_milli).unwrap_or_default();
    match machine.attributes.get(attribute::PLATFORM) {
        Some(platform) => {
            format!("counts as {factor} of the cell's cores (platform {})", platform.escape_debug())
        }
        None => format!("counts as {factor} of the cell's cores"),
    }
}

fn attribute_row(machine: &v1::MachineStatus, name: &str, value: &String) -> Vec<String> {
    let own = machine.report.as_ref().and_then(|report| report.attributes.get(name));
    let by = match (machine.operator_attributes.contains_key(name), own) {
        (false, _) => "the machine".to_owned(),
        (true, Some(own)) if own != value => {
            format!("an operator; the machine reports {}", own.escape_debug())
        }
        (true, _) => "an operator".to_owned(),
    };
    vec![name.escape_debug().to_string(), value.escape_debug().to_string(), by]
}

fn task_row(placed: &v1::PlacedTask, now: Time) -> Vec<String> {
    let task = placed.task.clone().unwrap_or_default();
    let priority = Priority::new(placed.priority.into());
    vec![
        task_name(placed),
        word::<v1::TaskState>(task.state).into_owned(),
        now.since(Time(task.since)).to_string(),
        priority.map(|priority| priority.to_string()).unwrap_or_default(),
        resources(placed.limit).to_string(),
        output::ports(&task),
    ]
}

fn task_name(placed: &v1::PlacedTask) -> String {
    let index = placed.task.as_ref().map(|task| task.index).unwrap_or_default();
    format!("{}/{}/{index}", placed.user, placed.job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_columns_are_empty_where_nothing_is_known() {
        let resources = |cpu_milli, mib: i64| {
            Some(v1::Resources { cpu_milli, ram_bytes: mib << 20, ..v1::Resources::default() })
        };
        let machine = v1::MachineUsage {
            used: Some(v1::Measured { cpu_milli: Some(1_500), ..v1::Measured::default() }),
            tasks: Some(v1::UsageTotal {
                limit: resources(4_000, 512),
                reservation: resources(2_000, 256),
                ..v1::UsageTotal::default()
            }),
            ..v1::MachineUsage::default()
        };
        assert_eq!(usage_columns(Some(&machine)), ["4", "2", "1.5", "512 MiB", "256 MiB", "-"]);
        assert_eq!(usage_columns(None), ["-"; 6]);
    }
}
