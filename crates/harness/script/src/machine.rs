//! What a machine reports of itself.

use model::{
    Bytes, Dimension, HeldPorts, MachineReport, MilliCores, PortRange, Resources, SaverOutcome,
    Saving, Shortage, ShortageState, Time, VolumeFault, VolumeFill,
};

use crate::ScriptError;
use crate::words::{cpu, mebibytes, no_such_option, option, pair, value};

const OPTIONS: &[&str] =
    &["cpu", "ram", "ports", "is", "held", "saving", "network", "short", "not-ready", "volume"];
const PORTS: &str = "a range of ports such as 31000-31255";

/// The report of a machine with these options: 1 core, 1 GiB and four ports unless they say otherwise.
///
/// # Errors
/// With the first option that is wrong.
pub fn machine_report(options: &[&str]) -> Result<MachineReport, ScriptError> {
    let mut report = MachineReport {
        capacity: Resources { cpu: MilliCores(1_000), ram: Bytes(1 << 30), ..Resources::default() },
        ports: PortRange { first: 31_000, last: 31_003 },
        ..MachineReport::default()
    };
    for word in options {
        match option(word)? {
            ("cpu", value) => report.capacity.cpu = cpu(value)?,
            ("ram", value) => report.capacity.ram = mebibytes(value)?,
            ("ports", "none") => report.ports = PortRange::default(),
            ("ports", ports) => report.ports = value(ports, PORTS)?,
            ("network", range) => {
                report.task_network = Some(value(range, "a range such as 10.64.5.0/24")?);
            }
            ("short", value) => report.shortage = Some(shortage(value)?),
            ("not-ready", reason) => report.not_ready = Some(reason.to_owned()),
            ("volume", said) => {
                let (volume, fault) = pair(said, ':', "NAME:FAULT")?;
                report.volumes.push(VolumeFill {
                    volume: value(volume, "the name of a volume")?,
                    used: Bytes(0),
                    size: Bytes(0),
                    is_part: false,
                    fault: Some(match fault {
                        "file" => VolumeFault::NotADirectory,
                        fault => value(fault, "missing, file, inaccessible or read-only")?,
                    }),
                });
            }
            ("is", value) => {
                let (name, value) = pair(value, ':', "NAME:VALUE")?;
                report.attributes.insert(name.to_owned(), value.to_owned());
            }
            ("held", held) => {
                let (ports, by) = pair(held, ':', "FIRST-LAST:NAME")?;
                let ports = value(ports, PORTS)?;
                report.held_ports.push(HeldPorts { ports, by: by.to_owned() });
            }
            ("saving", saving) => {
                let (id, outcome) = pair(saving, ':', "INSTANCE:kept|saved|REASON")?;
                let outcome = match outcome {
                    "kept" => None,
                    "saved" => Some(SaverOutcome::Saved),
                    reason => Some(SaverOutcome::GivenUp { reason: reason.to_owned() }),
                };
                report.saving.push(Saving {
                    instance: value(id, "an instance")?,
                    bytes: Bytes(1 << 20),
                    attempts: 2,
                    until: Time(600_000_000),
                    outcome,
                });
            }
            (key, _) => return Err(no_such_option(key, OPTIONS)),
        }
    }
    Ok(report)
}

/// `ram:persists`, `cpu:eased`.
fn shortage(text: &str) -> Result<Shortage, ScriptError> {
    let (of, state) = pair(text, ':', "RESOURCE:persists|eased")?;
    let dimension = Dimension::ALL.into_iter().find(|dimension| dimension.word() == of);
    let dimension =
        dimension.ok_or_else(|| no_such_option(of, &["cpu", "ram", "disk", "disk-rate"]))?;
    let state = match state {
        "persists" => ShortageState::Persists,
        "eased" => ShortageState::Eased,
        other => return Err(no_such_option(other, &["persists", "eased"])),
    };
    Ok(Shortage { dimension, state })
}
