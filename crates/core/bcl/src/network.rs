//! The network of a job's tasks. In one of their own their ports have numbers.

use std::collections::BTreeMap;

use model::PortName;
use spec::{Network, Path, ProblemKind};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields};
use crate::json::Json;
use crate::quantity::{text, whole_small};
use crate::words;

const NUMBERS: &str = "ports with their numbers, such as { http: 80 }";
/// The canonical JSON spelling of ports with numbers.
pub(crate) const NUMBERS_SPELLING: &str = "portNumbers";

/// Whether the field `ports` of a job is a list of names; otherwise [`network`] reads it.
pub(crate) fn lists_ports(fields: &Fields<'_>) -> bool {
    !matches!(fields.get("ports"), Some(Json::Object(_)))
}

/// Reads the fields `network` and `ports`, if these have numbers.
pub(crate) fn network(fields: &Fields<'_>, found: &mut Diagnostics) -> Network {
    let network = fields.read("network", found, name).unwrap_or_default();
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
