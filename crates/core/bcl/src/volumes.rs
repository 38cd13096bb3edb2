//! The field `volumes`: the volumes of machines that tasks ask for.

use model::{MountPath, VolumeName};
use spec::{Path, VolumeRequest, VolumeSelector};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{span, text, truth, word, wrong_type};

const VOLUMES: &str = "a list of volumes, such as [{ volume: 'data', path: '/data' }]";
const VOLUME: Shape = Shape {
    of: "a volume",
    expected: "a volume, such as { volume: 'data', path: '/data' }",
    fields: &["volume", "labels", "path", "readOnly", "elsewhereAfter"],
    spellings: &[],
};
const LABELS: &str = "labels of a volume, such as { ssd: 'yes' }";

/// Reads a list of volumes.
pub(crate) fn volumes(value: &Json, path: &Path, found: &mut Diagnostics) -> Vec<VolumeRequest> {
    let Some(list) = value.list() else {
        found.add(path.clone(), wrong_type(VOLUMES, value));
        return Vec::new();
    };
    let each = list.iter().enumerate();
    each.filter_map(|(position, value)| volume(value, path.element(position), found)).collect()
}

fn volume(value: &Json, path: Path, found: &mut Diagnostics) -> Option<VolumeRequest> {
    let fields = Fields::open(value, path, &VOLUME, found)?;
    fields.require("path", "path: '/data'", found);
    // Beside a name an empty object is none: JSON writes all fields.
    let labels = fields.get("labels").filter(|labels| {
        let is_empty = labels.object().is_some_and(std::collections::BTreeMap::is_empty);
        fields.get("volume").is_none() || !is_empty
    });
    let by_labels = labels.is_some();
    if !by_labels {
        fields.require("volume", "volume: 'data'", found);
    } else if fields.get("volume").is_some() {
        let expected = "nothing beside volume: a volume is asked for by its name or by labels";
        found.add(fields.path.field("labels"), wrong_type(expected, value));
    }
    let name = fields.read("volume", found, volume_name);
    let labels = fields.read_map("labels", LABELS, found, word);
    let at = fields.read("path", found, mount_path);
    let read_only = fields.read("readOnly", found, truth).unwrap_or_default();
    let elsewhere_after = fields.read("elsewhereAfter", found, span);
    let of = match by_labels {
        true => VolumeSelector::Labelled(labels?),
        false => VolumeSelector::Named(name?),
    };
    Some(VolumeRequest { of, path: at?, read_only, elsewhere_after })
}

fn volume_name(value: &Json) -> Result<VolumeName, ErrorKind> {
    Ok(VolumeName::new(text("the name of a volume, such as 'data'", value)?)?)
}

fn mount_path(value: &Json) -> Result<MountPath, ErrorKind> {
    Ok(text("where the task finds the volume, such as '/data'", value)?.parse()?)
}
