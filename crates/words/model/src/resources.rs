//! Quantities of resources. Each dimension is requested and granted on its own, at fine
//! granularity; there are no buckets and no slots (paper, sections 2.3 and 5.4).

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Thousandths of a CPU core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliCores(pub u64);

/// Bytes of memory or disk; for a rate, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A share in thousandths, from 0 to 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Permille(u16);

impl Permille {
    /// The whole.
    pub const WHOLE: Self = Self(1_000);

    /// A number of thousandths; more than the whole counts as the whole.
    #[must_use]
    pub fn at_most_whole(thousandths: u64) -> Self {
        u16::try_from(thousandths).map_or(Self::WHOLE, |number| Self(number.min(1_000)))
    }

    /// The number of thousandths.
    #[must_use]
    pub fn thousandths(self) -> u16 {
        self.0
    }
}

/// `12.3 %`
impl fmt::Display for Permille {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 % 10 {
            0 => write!(f, "{} %", self.0 / 10),
            tenth => write!(f, "{}.{tenth} %", self.0 / 10),
        }
    }
}

/// The speed of a core of a machine's platform, in thousandths of the cell's normalised core (GCU);
/// 1,000 is the reference core (paper, section 2.3: "normalised"; trace v3, "GCU"). It scales
/// capacity, limits and usage, so that 0.1 cores are the same amount of work on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GcuFactor(u32);

impl GcuFactor {
    /// The reference core.
    pub const ONE: Self = Self(1_000);
    /// The maximum: a core as fast as a hundred reference cores.
    pub const MAX: u32 = 100_000;

    /// Checks a number of thousandths.
    ///
    /// # Errors
    /// When the number is not 1 to 100,000.
    pub fn from_milli(milli: u32) -> Result<Self, QuantityError> {
        match milli {
            1..=Self::MAX => Ok(Self(milli)),
            _ => Err(QuantityError::NotOne {
                text: format!("{}.{:03}", milli / 1_000, milli % 1_000),
                expected: GCU_EXPECTED,
            }),
        }
    }

    /// The factor in thousandths.
    #[must_use]
    pub fn milli(self) -> u32 {
        self.0
    }

    /// The normalised cores that correspond to cores of this platform.
    #[inline]
    #[must_use]
    pub fn normalised(self, cores: MilliCores) -> MilliCores {
        if self == Self::ONE {
            return cores;
        }
        MilliCores(scale(cores.0, self.0, Self::ONE.0))
    }

    /// The cores of this platform that correspond to normalised ones, rounded up, so that a
    /// non-zero request never becomes zero.
    #[must_use]
    pub fn physical(self, normalised: MilliCores) -> MilliCores {
        let up = u128::from(normalised.0) * u128::from(Self::ONE.0);
        let cores = up.div_ceil(u128::from(self.0));
        MilliCores(u64::try_from(cores).unwrap_or(u64::MAX))
    }
}

fn scale(value: u64, by: u32, of: u32) -> u64 {
    let scaled = u128::from(value) * u128::from(by) / u128::from(of);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Default for GcuFactor {
    fn default() -> Self {
        Self::ONE
    }
}

/// Parses `1.25`, with up to three decimals.
impl FromStr for GcuFactor {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let not_one = || QuantityError::NotOne { text: text.to_owned(), expected: GCU_EXPECTED };
        let Some((digits, places, "")) = decimal(text) else { return Err(not_one()) };
        let milli = scaled(text, digits, places, 1_000, "0.001", Rounding::None)?;
        u32::try_from(milli).ok().and_then(|milli| Self::from_milli(milli).ok()).ok_or_else(not_one)
    }
}

/// Displayed as `1.25`.
impl fmt::Display for GcuFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        f.pad(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// Not a number, with or without a known unit.
    #[error("'{}' is not {expected}", .text.escape_debug())]
    NotOne {
        /// The text that was given.
        text: String,
        /// What was expected, with examples.
        expected: &'static str,
    },
    /// An unknown unit, such as `MB` in another spelling.
    #[error("there is no unit '{}': use one of {units}", .unit.escape_debug())]
    NoSuchUnit {
        /// The unit that was given.
        unit: String,
        /// The known units.
        units: &'static str,
    },
    /// A fraction of the smallest step.
    #[error("'{}' is finer than {smallest}", .text.escape_debug())]
    TooFine {
        /// The text that was given.
        text: String,
        /// The smallest step.
        smallest: &'static str,
    },
    /// Exceeds a signed 64-bit number, the range of the wire format.
    #[error("'{}' is too large", .text.escape_debug())]
    TooLarge {
        /// The text that was given.
        text: String,
    },
}

const BYTE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("PiB", 1 << 50),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
const BYTE_UNIT_NAMES: &str = "B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB";
const BYTES_EXPECTED: &str = "a number of bytes, such as '64 MiB' or 67108864";
const GCU_EXPECTED: &str = "a factor from 0.001 to 100, such as 1 or 1.25";
const CORES_EXPECTED: &str = "a number of cores, such as 0.1, '2' or '100m'";

/// Splits a decimal number from its suffix and scales it exactly, in integers.
fn decimal(text: &str) -> Option<(u128, u32, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || fraction.contains('.') || digits.len() > 30 {
        return None;
    }
    let places = u32::try_from(fraction.len()).ok()?;
    Some((digits.parse().ok()?, places, unit.trim()))
}

/// What becomes of a fraction of the smallest step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounding {
    /// It is an error.
    None,
    /// It becomes a whole step.
    Up,
}

fn scaled(
    text: &str,
    digits: u128,
    places: u32,
    factor: u64,
    smallest: &'static str,
    rounding: Rounding,
) -> Result<u64, QuantityError> {
    let too_large = || QuantityError::TooLarge { text: text.to_owned() };
    let scaled = digits.checked_mul(factor.into()).ok_or_else(too_large)?;
    let divisor = 10_u128.pow(places);
    if scaled % divisor != 0 && rounding == Rounding::None {
        return Err(QuantityError::TooFine { text: text.to_owned(), smallest });
    }
    let value = u64::try_from(scaled.div_ceil(divisor)).map_err(|_| too_large())?;
    if i64::try_from(value).is_err() {
        return Err(too_large());
    }
    Ok(value)
}

/// Parses a number of bytes with an optional unit: `64 MiB`, `1.5GiB`, `4096`. A fraction of a unit is rounded up to
/// whole bytes: `7.9 GiB`.
impl FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let not_one = || QuantityError::NotOne { text: text.to_owned(), expected: BYTES_EXPECTED };
        let (digits, places, unit) = decimal(text).ok_or_else(not_one)?;
        let unit = unit.strip_suffix("/s").unwrap_or(unit);
        let factor = match unit {
            "" => 1,
            _ => match BYTE_UNITS.iter().find(|(name, _)| *name == unit) {
                Some((_, factor)) => *factor,
                None if unit.chars().all(char::is_alphabetic) => {
                    return Err(QuantityError::NoSuchUnit {
                        unit: unit.to_owned(),
                        units: BYTE_UNIT_NAMES,
                    });
                }
                None => return Err(not_one()),
            },
        };
        let rounding = if factor > 1 { Rounding::Up } else { Rounding::None };
        scaled(text, digits, places, factor, "1 byte", rounding).map(Self)
    }
}

/// Parses a number of cores, or of thousandths with `m`: `0.1`, `2`, `100m`.
impl FromStr for MilliCores {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let not_one = || QuantityError::NotOne { text: text.to_owned(), expected: CORES_EXPECTED };
        let (digits, places, unit) = decimal(text).ok_or_else(not_one)?;
        let factor = match unit {
            "" | "cores" | "core" => 1_000,
            "m" => 1,
            _ => return Err(not_one()),
        };
        scaled(text, digits, places, factor, "0.001 cores", Rounding::None).map(Self)
    }
}

/// Displayed in the largest binary unit that gives at least 1, with one decimal if it is not whole.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = &BYTE_UNITS[..6];
        let (name, factor) =
            units.iter().rev().find(|(_, factor)| self.0 >= *factor).unwrap_or(&units[0]);
        let tenths = u128::from(self.0) * 10 / u128::from(*factor);
        let text = match tenths % 10 {
            0 => format!("{} {name}", tenths / 10),
            tenth => format!("{}.{tenth} {name}", tenths / 10),
        };
        f.pad(&text)
    }
}

/// Displayed in cores, without trailing zeros: `0.1 cores`, `1 core`, `2.25 cores`.
impl MilliCores {
    /// The number of cores in decimals: `0.25`.
    #[must_use]
    pub fn cores(self) -> String {
        let text = format!("{}.{:03}", self.0 / 1_000, self.0 % 1_000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

impl fmt::Display for MilliCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.0 == 1_000 { "core" } else { "cores" };
        f.pad(&format!("{} {unit}", self.cores()))
    }
}

/// A resource dimension of machines and tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dimension {
    /// CPU time, in milli-cores.
    Cpu,
    /// Memory, in bytes.
    Ram,
    /// Local disk space, in bytes.
    Disk,
    /// Local disk bandwidth, in bytes per second.
    DiskRate,
}

impl Dimension {
    /// All dimensions, in display order.
    pub const ALL: [Self; 4] = [Self::Cpu, Self::Ram, Self::Disk, Self::DiskRate];

    /// Formats a quantity of this dimension for people.
    #[must_use]
    pub fn show(self, amount: u64) -> String {
        match self {
            Self::Cpu => MilliCores(amount).to_string(),
            Self::Ram | Self::Disk => Bytes(amount).to_string(),
            Self::DiskRate => format!("{}/s", Bytes(amount)),
        }
    }
}

impl Dimension {
    /// The name used in commands: `cpu=2`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Ram => "ram",
            Self::Disk => "disk",
            Self::DiskRate => "disk-rate",
        }
    }

    /// Formats a quantity of this dimension for a command line: exact and without spaces, so that
    /// it parses back to the same value.
    #[must_use]
    pub fn write(self, amount: u64) -> String {
        if self == Self::Cpu {
            let text = format!("{}.{:03}", amount / 1_000, amount % 1_000);
            return text.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        let whole = |(_, factor): &&(&str, u64)| amount.is_multiple_of(*factor);
        match BYTE_UNITS[..6].iter().rev().filter(|_| amount > 0).find(whole) {
            Some((unit, factor)) => format!("{}{unit}", amount / factor),
            None => amount.to_string(),
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Ram => "RAM",
            Self::Disk => "disk",
            Self::DiskRate => "disk rate",
        })
    }
}

/// An amount for each dimension: a machine's capacity, a task's limit, free resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resources {
    /// CPU.
    pub cpu: MilliCores,
    /// Memory.
    pub ram: Bytes,
    /// Local disk space.
    pub disk: Bytes,
    /// Local disk bandwidth, bytes per second.
    pub disk_rate: Bytes,
}

impl Resources {
    /// The amount in one dimension, in its unit.
    #[inline]
    #[must_use]
    pub fn get(&self, dimension: Dimension) -> u64 {
        match dimension {
            Dimension::Cpu => self.cpu.0,
            Dimension::Ram => self.ram.0,
            Dimension::Disk => self.disk.0,
            Dimension::DiskRate => self.disk_rate.0,
        }
    }

    #[inline]
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpu: MilliCores(f(self.cpu.0, other.cpu.0)),
            ram: Bytes(f(self.ram.0, other.ram.0)),
            disk: Bytes(f(self.disk.0, other.disk.0)),
            disk_rate: Bytes(f(self.disk_rate.0, other.disk_rate.0)),
        }
    }

    /// Builds a vector by calling `of` for each dimension.
    #[must_use]
    pub fn each(of: impl Fn(Dimension) -> u64) -> Self {
        Self {
            cpu: MilliCores(of(Dimension::Cpu)),
            ram: Bytes(of(Dimension::Ram)),
            disk: Bytes(of(Dimension::Disk)),
            disk_rate: Bytes(of(Dimension::DiskRate)),
        }
    }

    /// The non-zero dimensions in words: `0.5 cores and 256 MiB`; `nothing` if all are zero.
    #[must_use]
    pub fn in_words(&self) -> String {
        let there = Dimension::ALL.into_iter().filter(|dimension| self.get(*dimension) > 0);
        let shown: Vec<String> = there
            .map(|dimension| match dimension {
                Dimension::Cpu | Dimension::Ram => dimension.show(self.get(dimension)),
                _ => format!("{} of {dimension}", dimension.show(self.get(dimension))),
            })
            .collect();
        match shown.split_last() {
            None => "nothing".to_owned(),
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        }
    }

    /// The sum, saturating at `u64::MAX` in each dimension.
    #[inline]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    /// The difference, saturating at 0 in each dimension.
    #[inline]
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// The minimum of both in each dimension.
    #[inline]
    #[must_use]
    pub fn least(self, other: Self) -> Self {
        self.zip(other, u64::min)
    }

    /// The maximum of both in each dimension.
    #[inline]
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        self.zip(other, u64::max)
    }

    /// The product with `count`, saturating at `u64::MAX` in each dimension.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        self.zip(self, |amount, _| amount.saturating_mul(count))
    }

    /// The first dimension in which `self` exceeds `room`.
    #[inline]
    #[must_use]
    pub fn first_above(&self, room: &Self) -> Option<Dimension> {
        Dimension::ALL.into_iter().find(|dimension| self.get(*dimension) > room.get(*dimension))
    }
}

/// Displays the non-zero dimensions: `0.1 cores, 64 MiB`. Disk is named, memory is not.
impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.cpu, self.ram)?;
        if self.disk.0 > 0 {
            write!(f, ", {} disk", self.disk)?;
        }
        if self.disk_rate.0 > 0 {
            write!(f, ", {}/s disk rate", self.disk_rate)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_their_units() {
        let cases = [
            ("64 MiB", 64 << 20),
            ("64MiB", 64 << 20),
            ("1.5 GiB", 3 << 29),
            ("4096", 4096),
            ("2 GB", 2_000_000_000),
            ("10 MB/s", 10_000_000),
            ("0", 0),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn bad_bytes_say_what_is_wrong() {
        let says = |text: &str| text.parse::<Bytes>().expect_err(text).to_string();
        let expected = "is not a number of bytes, such as '64 MiB' or 67108864";
        for text in ["", "MiB", "-1", "1e9", "1.2.3 MiB", "0x10", "64 \u{1b}[31m", "∞"] {
            assert!(says(text).ends_with(expected), "{text}: {}", says(text));
        }
        assert_eq!(
            says("64 mib"),
            "there is no unit 'mib': use one of B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB"
        );
        assert_eq!(says("0.1 B"), "'0.1 B' is finer than 1 byte");
        assert_eq!(says("9000 PiB"), "'9000 PiB' is too large");
    }

    #[test]
    fn cores_are_read_and_shown() {
        for (text, milli, shown) in [
            ("0.1", 100, "0.1 cores"),
            ("1", 1_000, "1 core"),
            ("2.25", 2_250, "2.25 cores"),
            ("100m", 100, "0.1 cores"),
            ("1 core", 1_000, "1 core"),
        ] {
            assert_eq!(text.parse(), Ok(MilliCores(milli)), "{text}");
            assert_eq!(MilliCores(milli).to_string(), shown);
        }
        assert_eq!(
            "0.0005".parse::<MilliCores>().expect_err("too fine").to_string(),
            "'0.0005' is finer than 0.001 cores"
        );
    }

    #[test]
    fn a_platforms_factor_scales_cores_both_ways() {
        let factor = |text: &str| text.parse::<GcuFactor>().expect(text);
        for (text, cores, normalised) in
            [("1", 2_000, 2_000), ("1.25", 2_000, 2_500), ("0.8", 1_000, 800), ("100", 1, 100)]
        {
            assert_eq!(factor(text).normalised(MilliCores(cores)), MilliCores(normalised));
            assert_eq!(factor(text).physical(MilliCores(normalised)), MilliCores(cores));
            assert_eq!(factor(text).to_string(), text);
        }
        assert_eq!(factor("100").physical(MilliCores(1)), MilliCores(1), "never zero");
        assert_eq!(factor("0.001").physical(MilliCores(u64::MAX)), MilliCores(u64::MAX));
        for bad in ["0", "100.001", "1.0001", "-1", "fast", "1 core", "99999999999999999999"] {
            assert!(bad.parse::<GcuFactor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (64 << 20, "64 MiB"),
            (3 << 29, "1.5 GiB"),
            (u64::MAX, "16383.9 PiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }

    #[test]
    fn amounts_written_in_commands_are_read_back_exactly() {
        for (dimension, amount, text) in [
            (Dimension::Cpu, 500, "0.5"),
            (Dimension::Cpu, 12_000, "12"),
            (Dimension::Ram, 256 << 20, "256MiB"),
            (Dimension::Ram, (1 << 30) + 1, "1073741825B"),
            (Dimension::Disk, 0, "0"),
        ] {
            assert_eq!(dimension.write(amount), text);
            let read = match dimension {
                Dimension::Cpu => text.parse::<MilliCores>().expect(text).0,
                _ => text.parse::<Bytes>().expect(text).0,
            };
            assert_eq!(read, amount);
        }
        let all = Resources { disk: Bytes(1 << 30), ..Resources::each(|_| 2_048) };
        assert_eq!(all.in_words(), "2.048 cores, 2 KiB, 1 GiB of disk and 2 KiB/s of disk rate");
        assert_eq!(Resources::default().in_words(), "nothing");
    }

    #[test]
    fn the_first_dimension_that_is_too_much_is_named() {
        let resources =
            |cpu, ram| Resources { cpu: MilliCores(cpu), ram: Bytes(ram), ..Resources::default() };
        assert_eq!(resources(1, 1).first_above(&resources(1, 1)), None);
        assert_eq!(resources(1, 2).first_above(&resources(1, 1)), Some(Dimension::Ram));
    }
}
