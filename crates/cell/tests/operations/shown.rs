//! What a cell gives and what it is, as text.

use cell::{
    Applied, Cell, Event, EventKind, JobState, MachineState, Outcome, Phase, Reply, Subject, Task,
    TaskState,
};

/// The events and the answer of an operation; `(nothing)` where there is neither.
pub(crate) fn applied(applied: &Applied) -> String {
    let mut lines: Vec<String> = applied.events.iter().map(event).collect();
    match &applied.outcome {
        Outcome::Done if lines.is_empty() => lines.push("(nothing)".to_owned()),
        Outcome::Done => {}
        Outcome::Request(Ok(reply)) => lines.push(self::reply(reply)),
        Outcome::Request(Err(rejection)) => lines.push(format!("refused: {rejection}")),
        Outcome::Assigned(answers) => lines.extend(answers.iter().map(|answer| match answer {
            Ok(()) => "accepted".to_owned(),
            Err(refused) => format!("refused: {refused}"),
        })),
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn reply(reply: &Reply) -> String {
    match reply {
        Reply::Session(id) => format!("session {id}"),
        Reply::Submitted { collection, unchanged: false } => format!("job {collection}"),
        Reply::Submitted { collection, unchanged: true } => format!("job {collection}, unchanged"),
        Reply::Killed { tasks } => format!("killed {tasks}"),
        Reply::MachineAdded(id) => format!("machine {id}"),
    }
}

/// An event under its name in the published traces, where it has one.
fn event(event: &Event) -> String {
    let subject = match event.subject {
        Subject::Job(id) => format!("job {id}"),
        Subject::Task(id) => id.to_string(),
        Subject::Machine(id) => format!("machine {id}"),
    };
    match &event.kind {
        EventKind::Submit { cause } => format!("SUBMIT {subject} {cause:?}"),
        EventKind::Schedule { machine } => format!("SCHEDULE {subject} on {machine}"),
        EventKind::Start { machine } => format!("start {subject} on {machine}"),
        EventKind::Health { healthy: true } => format!("healthy {subject}"),
        EventKind::Health { healthy: false } => format!("unhealthy {subject}"),
        EventKind::KillRequested { by } => format!("kill requested {subject} by {by}"),
        EventKind::Dead(cell::Death::Finished) => format!("FINISH {subject}"),
        EventKind::Dead(cell::Death::Failed) => format!("FAIL {subject}"),
        EventKind::Dead(cell::Death::Killed) => format!("KILL {subject}"),
        EventKind::MachineAdded => format!("ADD {subject}"),
        EventKind::MachineDescribed => format!("UPDATE {subject}"),
        EventKind::MachineDown => format!("REMOVE {subject}"),
        EventKind::MachineBack => format!("back {subject}"),
    }
}

/// The time, the jobs with their tasks, and the machines.
pub(crate) fn cell(cell: &Cell) -> String {
    let mut lines = vec![format!("{} s", cell.time().0 / 1_000_000)];
    for job in cell.jobs() {
        let state = match job.state {
            JobState::Pending => "pending",
            JobState::Running => "running",
            JobState::Dead { .. } => "dead",
        };
        let newest = cell.job_named(&job.owner, &job.spec.name).is_some_and(|new| new.id == job.id);
        let older = if newest { "" } else { ", not the newest of that name" };
        lines.push(format!("job {} {}/{} {state}{older}", job.id, job.owner, job.spec.name));
        for (index, task) in job.tasks() {
            let id = job.instance(index).expect("a task of it");
            lines.push(format!("  {id} {}", self::task(task)));
        }
    }
    for machine in cell.machines() {
        let state = match machine.state {
            MachineState::Joining => "joining",
            MachineState::Up => "up",
            MachineState::Down { .. } => "down",
        };
        let instances: Vec<String> = machine.instances().iter().map(ToString::to_string).collect();
        lines.push(format!(
            "{} {state} [{}] takes {}, ports {:?}, {} free",
            machine.name,
            instances.join(" "),
            machine.taken(),
            machine.ports_taken(),
            machine.free_port_count(),
        ));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// The free ports of each machine, the one to be given next at the front.
pub(crate) fn free_ports(cell: &Cell) -> String {
    let line = |name: &model::MachineName, ports: Vec<u16>| format!("{name} {ports:?}\n");
    cell.machines().map(|machine| line(&machine.name, machine.free_ports(9, &[]))).collect()
}

fn task(task: &Task) -> String {
    let mut text = match &task.state {
        TaskState::Pending { not_before, cause, .. } => {
            format!("pending ({cause:?}), not before {} s", not_before.0 / 1_000_000)
        }
        TaskState::Running(placement) => {
            let phase = match placement.phase {
                Phase::Starting => "starting".to_owned(),
                Phase::Started { health, .. } => format!("{health:?}").to_lowercase(),
            };
            let dying = match &placement.killed_by {
                Some(user) => format!(", dying for {user}"),
                None => String::new(),
            };
            format!("{phase} on {} {:?}{dying}", placement.machine, placement.ports)
        }
        TaskState::Dead { death, .. } => format!("{death:?}").to_lowercase(),
    };
    if task.failures > 0 {
        text += &format!(", failures {}", task.failures);
    }
    if let Some(life) = &task.last_life {
        text += &format!(", last: {}", life.end);
    }
    text
}
