//! Volumes of machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use cell::{AcceptVolume, Mutation, ReleaseVolume, RemoveVolume, SetVolume};
use model::{MachineName, MachineVolume, VolumeName, VolumeSharing};
use spec::{VolumeRequest, VolumeSelector};

use crate::ScriptError;
use crate::words::{not, pair, seconds, value};

/// The mutation that the words stand for, if it is about volumes.
pub(crate) fn mutation(words: &[&str]) -> Result<Option<Mutation>, ScriptError> {
    let named = |text: &str| value::<VolumeName>(text, "a name");
    Ok(Some(match words {
        ["volume", name, volume, path, options @ ..] => {
            let mut described = MachineVolume {
                name: named(volume)?,
                path: value(path, "a path")?,
                size: None,
                labels: BTreeMap::new(),
                sharing: VolumeSharing::default(),
            };
            for option in options {
                match option.split_once('=') {
                    Some(("shared", among)) => described.sharing = value(among, "user or all")?,
                    Some((key, is)) => {
                        described.labels.insert(key.to_owned(), is.to_owned());
                    }
                    None => return Err(not(option, "KEY=VALUE")),
                }
            }
            SetVolume { machine: MachineName::new(name)?, volume: Arc::new(described) }.into()
        }
        ["remove-volume", name, volume, force @ ..] if force.is_empty() || force == ["force"] => {
            let (machine, volume) = (MachineName::new(name)?, named(volume)?);
            RemoveVolume { machine, volume, force: !force.is_empty() }.into()
        }
        ["accept-volume", name, volume] => {
            AcceptVolume { machine: MachineName::new(name)?, volume: named(volume)? }.into()
        }
        ["release-volume", name, volume] => {
            ReleaseVolume { machine: MachineName::new(name)?, volume: named(volume)? }.into()
        }
        _ => return Ok(None),
    }))
}

/// `data:/data`, `data:/data:60`: it goes elsewhere after 60 s; `.ssd=yes:/data`: by a label.
pub(crate) fn requests(text: &str) -> Result<Vec<VolumeRequest>, ScriptError> {
    let request = |text: &str| {
        let (of, rest) = pair(text, ':', "VOLUME:PATH")?;
        let (path, after) = match rest.split_once(':') {
            Some((path, after)) => (path, Some(seconds(after)?)),
            None => (rest, None),
        };
        let of = match of.strip_prefix('.') {
            Some(label) => {
                let (key, is) = pair(label, '=', ".KEY=VALUE")?;
                VolumeSelector::Labelled(BTreeMap::from([(key.to_owned(), is.to_owned())]))
            }
            None => VolumeSelector::Named(value(of, "a name")?),
        };
        let path = value(path, "a path")?;
        Ok(VolumeRequest { of, path, read_only: false, elsewhere_after: after })
    };
    text.split(',').map(request).collect()
}
