//! Vertical autoscaling.

use spec::{Autoscale, AutoscaleProblem, CpuRam, Path};

use crate::error::ErrorKind;
use crate::fields::{Diagnostics, Fields, Shape, Spelling};
use crate::json::Json;
use crate::quantity::{self, text};
use crate::words;

const AUTOSCALE: Shape = Shape {
    of: "an autoscale setting",
    expected: "'off', 'full', or bounds, such as { mode: 'constrained', min: { cpu: 0.1, ram: '64 MiB' }, \
               max: { cpu: 2, ram: '1 GiB' } }",
    fields: &["mode", "min", "max"],
    spellings: &[],
};

const AMOUNT: Shape = Shape {
    of: "a bound of autoscaling",
    expected: "CPU and RAM, such as { cpu: 0.1, ram: '64 MiB' }",
    fields: &["cpu", "ram"],
    spellings: &["cpuMilli", "ramBytes"],
};

/// The modes, as canonical JSON has them, too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Off,
    Constrained,
    Full,
}

/// Whether an autoscaler may change the limit: a mode as a word, or an object with the mode's bounds.
pub(crate) fn autoscale(value: &Json, path: Path, found: &mut Diagnostics) -> Autoscale {
    let (read, fields) = match value {
        Json::Text(_) => (mode(value), None),
        _ => match Fields::open(value, path.clone(), &AUTOSCALE, found) {
            Some(fields) => {
                fields.require("mode", "mode: 'constrained'", found);
                let Some(read) = fields.get("mode").map(mode) else { return Autoscale::Off };
                (read, Some(fields))
            }
            None => return Autoscale::Off,
        },
    };
    let mode = match read {
        Ok(mode) => mode,
        Err(kind) => {
            found.add(if fields.is_some() { path.field("mode") } else { path }, kind);
            return Autoscale::Off;
        }
    };
    match (mode, fields) {
        (Mode::Constrained, Some(fields)) => {
            fields.require("min", "min: { cpu: 0.1, ram: '64 MiB' }", found);
            fields.require("max", "max: { cpu: 2, ram: '1 GiB' }", found);
            let (min, max) = (amount(&fields, "min", found), amount(&fields, "max", found));
            match (min, max) {
                (Some(min), Some(max)) => Autoscale::Constrained { min, max },
                _ => Autoscale::Off,
            }
        }
        (Mode::Constrained, None) => {
            found.add(path, ErrorKind::Problem(AutoscaleProblem::NoBounds.into()));
            Autoscale::Off
        }
        (mode, fields) => {
            for bound in ["min", "max"] {
                if fields.as_ref().is_some_and(|fields| fields.get(bound).is_some()) {
                    let kind = AutoscaleProblem::BoundsUnused.into();
                    found.add(path.field(bound), ErrorKind::Problem(kind));
                }
            }
            if mode == Mode::Full { Autoscale::Full } else { Autoscale::Off }
        }
    }
}

fn amount(fields: &Fields<'_>, name: &'static str, found: &mut Diagnostics) -> Option<CpuRam> {
    let fields = Fields::open(fields.get(name)?, fields.path.field(name), &AMOUNT, found)?;
    let mut require = |name, spelling, example| {
        if fields.get(spelling).is_none() {
            fields.require(name, example, found);
        }
    };
    require("cpu", "cpuMilli", "cpu: 0.1");
    require("ram", "ramBytes", "ram: '64 MiB'");
    let cpu = fields.read_either(
        &Spelling { name: "cpu", read: quantity::cores },
        &Spelling { name: "cpuMilli", read: quantity::milli_cores },
        found,
    );
    let ram = fields.read_either(
        &Spelling { name: "ram", read: quantity::bytes },
        &Spelling { name: "ramBytes", read: quantity::whole_bytes },
        found,
    );
    Some(CpuRam { cpu: cpu?, ram: ram? })
}

fn mode(value: &Json) -> Result<Mode, ErrorKind> {
    const WORDS: &[&str] = &Autoscale::NAMES;
    let text = text("'off', 'constrained' or 'full'", value)?;
    let of = |word: &&&str| text == **word || text == words::constant(word);
    match WORDS.iter().find(of) {
        Some(&"constrained") => Ok(Mode::Constrained),
        Some(&"full") => Ok(Mode::Full),
        Some(_) => Ok(Mode::Off),
        None => Err(ErrorKind::UnknownWord {
            text: text.to_owned(),
            what: "a mode of autoscaling",
            words: WORDS,
            nearest: words::nearest(text, WORDS),
        }),
    }
}
