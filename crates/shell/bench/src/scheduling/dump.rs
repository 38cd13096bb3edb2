//! Writes every placement as CSV, with the trace's own ids, so that anyone can verify it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use cell::{Cell, TaskState};
use model::{CollectionId, Resources, TaskIndex};
use trace::CellSnapshot;

use super::input::{Chosen, place};

/// A file of placements.
pub(crate) struct Dump {
    file: BufWriter<File>,
}

/// The columns of every dump.
const HEADER: &str = "machine,job,index,priority,cpu_milli,ram_bytes,disk_bytes,disk_rate_bytes,\
    reserved_cpu_milli,reserved_ram_bytes,reserved_disk_bytes,reserved_disk_rate_bytes";

impl Dump {
    /// Creates a file. `more` names additional columns.
    pub(crate) fn create(path: &Path, more: &str) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let mut file = BufWriter::new(file);
        writeln!(file, "{HEADER}{more}")?;
        Ok(Self { file })
    }

    /// Writes every task of a cell that consists of some machines of a snapshot.
    pub(crate) fn cell(
        &mut self,
        snapshot: &CellSnapshot,
        chosen: Chosen<'_>,
        cell: &Cell,
        more: &str,
    ) -> anyhow::Result<()> {
        let amounts =
            |r: Resources| format!("{},{},{},{}", r.cpu.0, r.ram.0, r.disk.0, r.disk_rate.0);
        for (id, of_trace) in (1..).map(CollectionId).zip(&snapshot.jobs) {
            let job = cell.job(id).context("a job is gone")?;
            for (index, task) in (0..).map(TaskIndex).zip(&of_trace.tasks) {
                let machine = match job.task(index).map(|task| &task.state) {
                    Some(TaskState::Running(placement)) => {
                        let place = place(chosen, placement.machine);
                        let machine = place.and_then(|place| snapshot.machines.get(place));
                        machine.context("a machine is gone")?.id.to_string()
                    }
                    _ => String::new(),
                };
                let (limit, reservation) = (job.limit(index), job.reservation(index));
                writeln!(
                    self.file,
                    "{machine},{},{},{},{},{}{more}",
                    of_trace.id,
                    task.index.0,
                    of_trace.priority.number(),
                    amounts(limit),
                    amounts(reservation)
                )?;
            }
        }
        Ok(self.file.flush()?)
    }
}
