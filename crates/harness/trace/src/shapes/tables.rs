//! The embedded tables of the eight cells.

use super::Units;
use crate::google2011::Share;

/// The tables of a cell.
pub(super) struct Tables {
    pub(super) name: &'static str,
    pub(super) machines: &'static str,
    pub(super) requests: &'static str,
}

macro_rules! tables {
    ($($name:literal),*) => {
        &[$(Tables {
            name: $name,
            machines: include_str!(concat!("../../data/google2019/", $name, "-machines.csv")),
            requests: include_str!(concat!("../../data/google2019/", $name, "-requests.csv")),
        }),*]
    };
}

pub(super) const TABLES: &[Tables] =
    tables!["2019-a", "2019-b", "2019-c", "2019-d", "2019-e", "2019-f", "2019-g", "2019-h"];

/// Machine capacities with their counts, the most common first.
pub(super) fn machines(table: &str) -> Vec<(Units, u64)> {
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split(',');
        let mut units = || {
            let share: Share = columns.next()?.parse().ok()?;
            u32::try_from(share.of(Units::ONE.into())).ok()
        };
        let units = Units { cpu: units()?, ram: units()? };
        Some((units, columns.next()?.parse().ok()?))
    });
    let mut rows: Vec<(Units, u64)> = rows.collect();
    rows.sort_by_key(|(units, count)| (u64::MAX - count, *units));
    rows
}

/// Requests of instances, each with its cumulative count.
pub(super) fn requests(table: &str) -> Vec<(Units, u64)> {
    let mut sum = 0_u64;
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut columns = line.split(',');
        let mut number = || columns.next()?.parse::<u32>().ok();
        let units = Units { cpu: number()?, ram: number()? };
        sum += u64::from(number()?);
        Some((units, sum))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_table_is_read() {
        for Tables { name, machines: of_machines, requests: of_requests } in TABLES {
            let machines = machines(of_machines);
            assert_eq!(machines.len() + 1, of_machines.lines().count(), "{name}");
            let whole = machines.iter().all(|(units, _)| units.cpu > 0 && units.ram > 0);
            assert!(whole, "{name}");
            let requests = requests(of_requests);
            assert_eq!(requests.len() + 1, of_requests.lines().count(), "{name}");
            assert_eq!(requests.last().map(|(_, sum)| *sum), Some(10_000), "{name}");
        }
    }
}
