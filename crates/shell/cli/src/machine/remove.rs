//! `bourg machine remove`: removes empty machines, after saying what would be lost with them.

use api::v1;
use api::v1::change_machine_request::{Change, Remove};
use clap::Args;
use client::Target;
use command::{Done, Failure, with_cell};
use model::MachineName;

use super::{change, machines};

/// How many ended tasks and claims are named.
const NAMED: usize = 5;

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The machines.
    #[arg(value_name = "NAME", required = true)]
    names: Vec<MachineName>,
    /// Remove machines that still keep data for savers, or whose volumes have claims, too: data of savers is lost, and
    /// tasks with claims start elsewhere, without their data.
    #[arg(long)]
    force: bool,
}

pub(super) fn remove(cell: Target<'_>, args: &RemoveArgs) -> Done {
    with_cell(cell, async |mut connection| {
        // Report a machine that does not exist, or still keeps data, before removing any.
        let found = machines(&mut connection, String::new(), &args.names).await?;
        if let Some(keeps) = found.iter().find(|machine| !machine.saving.is_empty())
            && !args.force
        {
            let (name, what) = (&keeps.name, some(saved(keeps)));
            return Err(Failure::failed(format!(
                "error: {name} keeps data for the savers of {what}, which would be lost"
            ))
            .next(format!(
                "bourg machine show {name} shows how far they are; bourg machine remove --force \
                 {name} gives the data up"
            )));
        }
        for machine in &found {
            change(&mut connection, &machine.name, Change::Remove(Remove { force: args.force }))
                .await?;
            eprintln!("{}: removed{}", machine.name, ends(machine));
        }
        Ok(())
    })
}

/// What ends with a machine.
fn ends(machine: &v1::MachineStatus) -> String {
    let mut text = String::new();
    if !machine.saving.is_empty() {
        text += &format!("; given up: the data of {}", some(saved(machine)));
    }
    let claims: Vec<String> = machine
        .volumes
        .iter()
        .flat_map(|volume| volume.claims.iter().map(move |claim| claimed(volume, claim)))
        .collect();
    if !claims.is_empty() {
        text += &format!("; claims that ended: {}", some(claims));
    }
    text
}

fn saved(machine: &v1::MachineStatus) -> Vec<String> {
    machine.saving.iter().map(|saving| saving.name.escape_debug().to_string()).collect()
}

fn claimed(volume: &v1::VolumeStatus, claim: &v1::VolumeClaim) -> String {
    let name = volume.volume.as_ref().map(|volume| volume.name.escape_debug().to_string());
    let v1::VolumeClaim { user, job, index, .. } = claim;
    format!("{user}/{job}/{index} of volume {}", name.unwrap_or_default())
}

/// The first few of them.
fn some(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let names = names.join(", ");
    if more == 0 { names } else { format!("{names} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_with_a_machine_is_named() {
        let claim = |index| v1::VolumeClaim {
            user: "ana".to_owned(),
            job: "db".to_owned(),
            index,
            ..v1::VolumeClaim::default()
        };
        let volume = v1::MachineVolume { name: "ssd".to_owned(), ..v1::MachineVolume::default() };
        let volume = v1::VolumeStatus {
            volume: Some(volume),
            claims: vec![claim(0), claim(1)],
            ..v1::VolumeStatus::default()
        };
        let saving =
            |name: &str| v1::SavingStatus { name: name.to_owned(), ..v1::SavingStatus::default() };
        let mut machine = v1::MachineStatus::default();
        assert_eq!(ends(&machine), "");
        machine.volumes = vec![volume];
        let claims = "; claims that ended: ana/db/0 of volume ssd, ana/db/1 of volume ssd";
        assert_eq!(ends(&machine), claims);
        machine.saving = (0..7).map(|index| saving(&format!("ana/web/{index}"))).collect();
        let saved = "; given up: the data of ana/web/0, ana/web/1, ana/web/2, ana/web/3, ana/web/4 and 2 more";
        assert_eq!(ends(&machine), format!("{saved}{claims}"));
    }
}
