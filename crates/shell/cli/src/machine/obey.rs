//! `bourg machine obey`: a machine that has obeyed another history of the cell obeys this one.

use api::v1;
use api::v1::change_machine_request::{Change, SetAttributes};
use clap::Args;
use client::Target;
use command::{Done, with_cell};
use model::{MachineName, attribute};

#[derive(Debug, Args)]
pub(crate) struct ObeyArgs {
    /// The machine.
    name: MachineName,
}

/// The stamp of the last order that a machine has obeyed, if it rejects the cell's orders.
pub(super) fn rejects(machine: &v1::MachineStatus) -> Option<&str> {
    machine.attributes.get(attribute::REJECTS_ORDERS).map(String::as_str)
}

pub(super) fn obey(cell: Target<'_>, args: &ObeyArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let found =
            super::machines(&mut connection, String::new(), std::slice::from_ref(&args.name))
                .await?;
        let name = &args.name;
        let Some(stamp) = found.first().and_then(rejects) else {
            eprintln!("{name}: rejects no orders of this cell");
            return Ok(());
        };
        let mut changes = SetAttributes::default();
        changes.set.insert(attribute::OBEY.to_owned(), stamp.to_owned());
        super::change(&mut connection, name.as_str(), Change::SetAttributes(changes)).await?;
        eprintln!("{name}: gives up {stamp}, and obeys this cell from its next order on");
        Ok(())
    })
}
