//! `bourg machine volume`: the volumes of machines.

use std::collections::BTreeMap;

use api::v1;
use api::v1::change_machine_request::{Change, RemoveVolume};
use clap::{Args, Subcommand};
use client::Target;
use command::output::{self, Format, Listing};
use command::{Done, with_cell};
use model::{Bytes, MachineName, MachineVolume, VolumeName, VolumePath, VolumeSharing};

/// The subcommands of `bourg machine volume`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Give a machine a volume: a directory for tasks that outlives them.
    ///
    /// The directory must exist, and belong to another user than root or be empty. Of a volume that
    /// exists, the size and the labels are changed.
    Add(AddVolumeArgs),
    /// List the volumes of machines, with the tasks that claim them.
    List(ListVolumesArgs),
    /// Take a volume from a machine; its directory and what is in it stay.
    Rm(RemoveVolumeArgs),
    /// End the claims of a volume: then tasks of any user may have it, with what is in it.
    ///
    /// Empty the directory first, unless the next user may read what is in it.
    Release(ReleaseVolumeArgs),
    /// Say that the directory of a volume has what it should have.
    ///
    /// A task does not start while the directory is another one than before, such as that below a disk
    /// that is not mounted, or has data of another user. After you have restored its data, or decided to
    /// begin without it, accept the directory as it is. The claims stay.
    Accept(ReleaseVolumeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct AddVolumeArgs {
    /// The machine.
    machine: MachineName,
    /// The volume's name, by which jobs ask for it.
    volume: VolumeName,
    /// The directory on the machine, as an absolute path.
    path: VolumePath,
    /// How large it may become, such as 10GiB: shown, and not enforced.
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// A label, such as ssd=yes, by which jobs can ask for it; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Share it: between the tasks of one user, or with =all between those of all users.
    #[arg(
        long,
        value_name = "AMONG",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "user",
        default_value = "exclusive"
    )]
    shared: VolumeSharing,
    /// Show tasks what is in the directory, although it was of another user's volume.
    #[arg(long)]
    reuse: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ListVolumesArgs {
    /// The machines. Default: all.
    machines: Vec<MachineName>,
    /// Output format: table, wide, json, yaml, name, or the path of a field.
    #[arg(short, long, default_value = "table")]
    output: Format,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveVolumeArgs {
    /// The machine.
    machine: MachineName,
    /// The volume.
    volume: VolumeName,
    /// End the claims of tasks that come back to it: they start elsewhere, without their data.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReleaseVolumeArgs {
    /// The machine.
    machine: MachineName,
    /// The volume.
    volume: VolumeName,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("'{}' is not a label such as ssd=yes", text.escape_debug())),
    }
}

pub(super) fn volume(cell: Target<'_>, command: &VolumeCommand) -> Done {
    match command {
        VolumeCommand::Add(args) => add(cell, args),
        VolumeCommand::List(args) => list(cell, args),
        VolumeCommand::Rm(args) => {
            let remove = RemoveVolume { volume: args.volume.to_string(), force: args.force };
            let (machine, volume) = (&args.machine, &args.volume);
            with_cell(cell, async |mut connection| {
                let names = std::slice::from_ref(machine);
                let found = super::machines(&mut connection, String::new(), names).await?;
                let change = Change::RemoveVolume(remove.clone());
                super::change(&mut connection, machine.as_str(), change).await?;
                eprintln!("{machine}: volume {volume} removed; its directory stays");
                let ended = found.iter().flat_map(|machine| &machine.volumes);
                let ended = ended.filter(|status| name_of(status) == volume.as_str());
                for claim in ended.flat_map(claims_of) {
                    eprintln!("{machine}: {claim} ended");
                }
                Ok(())
            })
        }
        VolumeCommand::Accept(args) => {
            let (machine, volume) = (&args.machine, &args.volume);
            let said =
                format!("{machine}: volume {volume} is accepted with what is in its directory");
            change(cell, machine, &Change::AcceptVolume(volume.to_string()), &said)
        }
        VolumeCommand::Release(args) => {
            let (machine, volume) = (&args.machine, &args.volume);
            let said = format!("{machine}: nobody claims volume {volume} any more");
            change(cell, machine, &Change::ReleaseVolume(volume.to_string()), &said)
        }
    }
}

fn change(cell: Target<'_>, machine: &MachineName, change: &Change, said: &str) -> Done {
    with_cell(cell, async |mut connection| {
        super::change(&mut connection, machine.as_str(), change.clone()).await?;
        eprintln!("{said}");
        Ok(())
    })
}

fn add(cell: Target<'_>, args: &AddVolumeArgs) -> Done {
    let volume = MachineVolume {
        name: args.volume.clone(),
        path: args.path.clone(),
        size: args.size,
        labels: args.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
        sharing: args.shared,
    };
    let said = format!("{}: volume {} is {}", args.machine, args.volume, args.path);
    let accept = args.reuse.then(|| Change::AcceptVolume(args.volume.to_string()));
    let changes = [Some(Change::SetVolume((&volume).into())), accept];
    with_cell(cell, async |mut connection| {
        for change in changes.iter().flatten() {
            super::change(&mut connection, args.machine.as_str(), change.clone()).await?;
        }
        eprintln!("{said}");
        Ok(())
    })
}

fn name_of(status: &v1::VolumeStatus) -> &str {
    status.volume.as_ref().map_or("", |volume| volume.name.as_str())
}

/// `the claim of ana/db/0 on volume data`, for each.
fn claims_of(status: &v1::VolumeStatus) -> impl Iterator<Item = String> {
    let volume = name_of(status);
    status.claims.iter().map(move |claim| {
        format!("the claim of {}/{}/{} on volume {volume}", claim.user, claim.job, claim.index)
    })
}

/// A volume with its machine.
type Row = (String, v1::VolumeStatus);

fn list(cell: Target<'_>, args: &ListVolumesArgs) -> Done {
    with_cell(cell, async |mut connection| {
        let found = super::machines(&mut connection, String::new(), &args.machines).await?;
        let of = |machine: v1::MachineStatus| {
            let v1::MachineStatus { name, volumes, .. } = machine;
            volumes.into_iter().map(move |volume| (name.clone(), volume))
        };
        let rows: Vec<Row> = found.into_iter().flat_map(of).collect();
        let volumes: Vec<_> = rows
            .into_iter()
            .map(|(machine, status)| v1::VolumeOfMachine { machine, status: Some(status) })
            .collect();
        output::list(
            &args.output,
            &Listing {
                items: &volumes,
                name: |of: &v1::VolumeOfMachine| format!("{}/{}", of.machine, shown(of).0.name),
                headings: &[
                    "MACHINE",
                    "VOLUME",
                    "PATH",
                    "SIZE",
                    "USED",
                    "SHARED",
                    "CLAIMED BY",
                    "LABELS",
                ],
                wide: 0,
                row,
            },
        )
    })
}

fn shown(of: &v1::VolumeOfMachine) -> (v1::MachineVolume, v1::VolumeStatus) {
    let status = of.status.clone().unwrap_or_default();
    (status.volume.clone().unwrap_or_default(), status)
}

fn row(of: &v1::VolumeOfMachine) -> Vec<String> {
    let (volume, status) = shown(of);
    vec![
        of.machine.clone(),
        volume.name.clone(),
        volume.path.clone(),
        size(&volume),
        used(&status),
        volume.sharing.clone(),
        claimed(&status),
        labels(&volume),
    ]
}

fn size(volume: &v1::MachineVolume) -> String {
    match volume.size_bytes {
        0 => "-".to_owned(),
        bytes => Bytes(bytes).to_string(),
    }
}

/// `2 GiB of 10 GiB`, `disk: 30 GiB of 100 GiB` if it is a part of a file system; `MISSING` if no task can have it.
fn used(status: &v1::VolumeStatus) -> String {
    let Some(fill) = &status.fill else { return "-".to_owned() };
    if !fill.fault.is_empty() && fill.size_bytes == 0 {
        return fill.fault.to_uppercase();
    }
    let amount = |bytes: u64| present::amount::bytes(i64::try_from(bytes).ok());
    let of = format!("{} of {}", amount(fill.used_bytes), amount(fill.size_bytes));
    let of = if fill.is_part { format!("disk: {of}") } else { of };
    match fill.fault.as_str() {
        "" => of,
        fault => format!("{}, {of}", fault.to_uppercase()),
    }
}

/// `ana/db/0`, `ana/db/0 and 3 more`, `nobody; has data of ana`.
fn claimed(status: &v1::VolumeStatus) -> String {
    match status.claims.as_slice() {
        [] if status.data_of.is_empty() => "-".to_owned(),
        [] => format!("nobody; has data of {}", status.data_of),
        [first, others @ ..] => {
            let first = format!("{}/{}/{}", first.user, first.job, first.index);
            match others.len() {
                0 => first,
                more => format!("{first} and {more} more"),
            }
        }
    }
}

fn labels(volume: &v1::MachineVolume) -> String {
    let labels = volume.labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(" ").escape_debug().to_string()
}

/// The rows of a machine's volumes in `bourg machine show`.
pub(super) fn rows(machine: &v1::MachineStatus) -> Vec<Vec<String>> {
    let volumes = machine.volumes.iter();
    volumes
        .map(|status| {
            let volume = status.volume.clone().unwrap_or_default();
            let (size, claimed, labels) = (size(&volume), claimed(status), labels(&volume));
            vec![volume.name, volume.path, size, used(status), volume.sharing, claimed, labels]
        })
        .collect()
}
