//! The network of a job's tasks. In one of their own their ports have numbers.

use std::collections::{BTreeMap, BTreeSet};

use model::PortName;
use spec::{Network, Path, ProblemKind};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape};
use crate::json::Json;
use crate::quantity::{text, whole_small, wrong_type};
use crate::words;

const NUMBERS: &str = "ports with their numbers, such as { http: 80 }";
/// The canonical JSON spelling of ports with numbers.
pub(crate) const NUMBERS_SPELLING: &str = "portNumbers";
/// That of ports with static numbers.
pub(crate) const STATIC_SPELLING: &str = "staticPorts";
/// The fields of a port of the host's network.
const PORT: Shape = Shape {
    of: "a port",
    expected: "a port, such as { static: 443 }",
    fields: &["static"],
    spellings: &[],
};

/// Whether the field `ports` of a job is a list of names; otherwise [`network`] reads it.
pub(crate) fn lists_ports(fields: &Fields<'_>) -> bool {
    !matches!(fields.get("ports"), Some(Json::Object(_)))
}

/// Whether the field `ports` gives static numbers: `{ http: { static: 443 } }`.
fn gives_static(fields: &Fields<'_>) -> bool {
    let is_object = |value: &Json| matches!(value, Json::Object(_));
    match fields.get("ports") {
        Some(Json::Object(ports)) => ports.values().any(is_object),
        _ => false,
    }
}

/// Reads ports with static numbers, and the names of those without one, which the cell numbers.
pub(crate) fn static_ports(
    fields: &Fields<'_>,
    found: &mut Diagnostics,
) -> (BTreeMap<PortName, u16>, BTreeSet<PortName>) {
    const STATIC: &str = "a number, such as { static: 443 }";
    if !gives_static(fields) {
        let field = STATIC_SPELLING;
        let numbers = fields.read_map(field, NUMBERS, found, whole_small).unwrap_or_default();
        let ports = numbered(numbers, &fields.path.field(field), found);
        return (ports, BTreeSet::new());
    }
    let (mut numbers, mut names) = (BTreeMap::new(), BTreeSet::new());
    let path = fields.path.field("ports");
    let Some(Json::Object(ports)) = fields.get("ports") else { return Default::default() };
    for (name, value) in ports {
        let at = path.key(name);
        if *value == Json::Null {
            continue;
        }
        if !matches!(value, Json::Object(_)) {
            found.add(at, wrong_type(STATIC, value));
            continue;
        }
        let Some(port) = Fields::open(value, at.clone(), &PORT, found) else { continue };
        match (port.get("static").is_some(), PortName::new(name)) {
            (_, Err(error)) => found.add(at, error.into()),
            (false, Ok(name)) => drop(names.insert(name)),
            (true, Ok(_)) => {
                if let Some(number) = port.read("static", found, whole_small) {
                    numbers.insert(name.clone(), number);
                }
            }
        }
    }
    (numbered(numbers, &path, found), names)
}

/// Reads the fields `network` and `ports`, if these have numbers.
pub(crate) fn network(fields: &Fields<'_>, found: &mut Diagnostics) -> Network {
    let network = fields.read("network", found, name).unwrap_or_default();
    if gives_static(fields) {
        return network;
    }
    let field = if lists_ports(fields) { NUMBERS_SPELLING } else { "ports" };
    let numbers = fields.read_map(field, NUMBERS, found, whole_small).unwrap_or_default();
    let path = fields.path.field(field);
    match network {
        Network::Host if numbers.is_empty() && lists_ports(fields) => Network::Host,
        Network::Host => {
            found.add(path, ErrorKind::Problem(ProblemKind::PortsWithNumbers));
            Network::Host
        }
        Network::Own { .. } => Network::Own { ports: numbered(numbers, &path, found) },
    }
}

fn numbered(
    numbers: BTreeMap<String, u32>,
    path: &Path,
    found: &mut Diagnostics,
) -> BTreeMap<PortName, u16> {
    let mut ports = BTreeMap::new();
    for (name, number) in numbers {
        let at = path.key(&name);
        let (most, is) = (u16::MAX.to_string(), number.to_string());
        match (PortName::new(&name), u16::try_from(number)) {
            (Ok(name), Ok(number)) => drop(ports.insert(name, number)),
            (Err(error), _) => found.add(at, error.into()),
            (_, Err(_)) => {
                let kind = ProblemKind::OutOfRange { is, least: "1".to_owned(), most };
                found.add(at, ErrorKind::Problem(kind));
            }
        }
    }
    ports
}

fn name(value: &Json) -> Result<Network, ErrorKind> {
    const WORDS: &[&str] = &Network::NAMES;
    let text = text("'host' or 'own'", value)?;
    let of = |word: &&&str| text == **word || text == words::constant(word);
    let known = WORDS.iter().find(of).and_then(|word| word.parse().ok());
    known.ok_or_else(|| ErrorKind::UnknownWord {
        text: text.to_owned(),
        what: "a network",
        words: WORDS,
        nearest: words::nearest(text, WORDS),
    })
}
