//! Every package of the task has a variant for the machine's architecture.

use std::collections::BTreeSet;

use model::{ImageArchitecture, PackageId, PackageKind, UserName};
use spec::JobSpec;

use super::{Offer, Request, UnschedulableReason};
use crate::{Cell, Machine};

/// The attribute with the architecture of a machine, as `uname -m` says it.
const ARCHITECTURE: &str = "arch";

/// A package that is only for some architectures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VariantsOfPackage {
    /// Which it is.
    pub package: PackageId,
    /// What it holds.
    pub kind: PackageKind,
    /// The architectures; at least one.
    pub architectures: BTreeSet<ImageArchitecture>,
}

impl VariantsOfPackage {
    /// Those that tasks with a description use, if this user is their owner. A package that the cell does not know
    /// limits nothing.
    #[must_use]
    pub fn of(cell: &Cell, owner: &UserName, spec: &JobSpec) -> Vec<Self> {
        let packages = spec.packages(owner).filter_map(|id| cell.package(&id));
        let limited = packages.filter(|package| !package.architectures.is_empty());
        let variants = limited.map(|package| Self {
            package: package.id.clone(),
            kind: package.kind,
            architectures: package.architectures.clone(),
        });
        variants.collect()
    }
}

/// Whether every package of a request has a variant for the architecture of the machine. A machine that does not say
/// its architecture passes.
///
/// # Errors
/// When one has none: the first.
pub fn check(ask: &Request<'_>, offer: &Offer<'_>) -> Result<(), UnschedulableReason> {
    match missing(&ask.variants, offer.machine) {
        None => Ok(()),
        Some((without, architecture)) => Err(UnschedulableReason::NoVariant {
            package: Box::new(without.package.clone()),
            kind: without.kind,
            architecture: architecture.into(),
        }),
    }
}

/// The first package without a variant for the architecture of a machine, and that architecture.
pub(crate) fn missing<'a>(
    variants: &'a [VariantsOfPackage],
    machine: &'a Machine,
) -> Option<(&'a VariantsOfPackage, &'a str)> {
    if variants.is_empty() {
        return None;
    }
    let architecture = ImageArchitecture::of_machine(machine.attribute(ARCHITECTURE)?);
    let lacks = |package: &&VariantsOfPackage| !package.architectures.contains(architecture);
    variants.iter().find(lacks).map(|package| (package, architecture))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;
    use crate::feasibility::testing::asking;
    use crate::{Demand, Machine};

    #[test]
    fn every_package_has_a_variant_for_the_machine() {
        let variants = |text: &str, kind, architectures: &[&str]| VariantsOfPackage {
            package: text.parse().expect("a package"),
            kind,
            architectures: architectures.iter().filter_map(|name| name.parse().ok()).collect(),
        };
        let web = variants("ana/web@1", PackageKind::Image, &["amd64", "arm64"]);
        let tool = variants("ana/tool@2", PackageKind::Files, &["amd64"]);
        let none = "has the architecture arm64, for which";
        for (arch, packages, expected) in [
            (Some("x86_64"), vec![web.clone(), tool.clone()], Ok(())),
            (Some("aarch64"), vec![], Ok(())),
            (Some("aarch64"), vec![web.clone()], Ok(())),
            (
                Some("aarch64"),
                vec![web.clone(), tool],
                Err(format!("{none} package ana/tool@2 has no variant")),
            ),
            (
                Some("riscv64"),
                vec![web.clone()],
                Err("has the architecture riscv64, for which image ana/web@1 has no variant"
                    .to_owned()),
            ),
            (None, vec![web], Ok(())),
        ] {
            let mut machine = Machine::testing();
            let attributes = arch.map(|arch| ("arch".to_owned(), arch.to_owned()));
            machine.operator_attributes = Arc::new(BTreeMap::from_iter(attributes));
            machine.derive(&imbl::OrdMap::new());
            let ask = Request { variants: packages.into(), ..asking(Demand::default()) };
            let found = check(&ask, &Offer::of(&machine)).map_err(|why| why.to_string());
            assert_eq!(found, expected, "{arch:?}");
        }
    }
}
