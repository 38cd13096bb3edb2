//! Flags that several processes share, and parsers of flag values.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::time::Duration;

use clap::Args;
use model::{Address, TaskSelection};

/// The minimum validity of a certificate that can be renewed: three times the precision of a
/// second.
const VALIDITY_MIN: Duration = Duration::from_secs(3);

/// The flags for the listening socket.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// The address to listen on.
    #[arg(long, default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// An inherited listening socket to use instead.
    #[arg(long, conflicts_with = "listen", value_name = "DESCRIPTOR")]
    pub listen_fd: Option<RawFd>,
}

/// Parses the name of a service.
pub fn service_name(text: &str) -> Result<Address, String> {
    match text.parse::<Address>() {
        Ok(address) if address.tasks == TaskSelection::All => Ok(address),
        Ok(_) => Err("a service is user/name or name: it has no tasks of its own".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses an address that others connect to.
pub fn dialled(text: &str) -> Result<String, String> {
    rpc::transport::check_address(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// Parses the validity of a certificate that is renewed automatically: three seconds to a year.
pub fn validity(text: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    let most = model::CERTIFICATE_VALIDITY_MAX.to_std();
    match given >= VALIDITY_MIN && given <= most {
        true => Ok(given),
        false => Err("the validity of a renewed certificate must be 3s to 366d".to_owned()),
    }
}

/// Parses a duration: `90`, `90s`, `1.5m`, `500ms`, `2h`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("'{}' is not a time such as 90s, 500ms, 2m or 1h", text.escape_debug());
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(number * factor).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        for (text, ms) in [("90", 90_000), ("1.5m", 90_000), ("500ms", 500), ("2h", 7_200_000)] {
            assert_eq!(duration(text).map(|time| time.as_millis()), Ok(ms), "{text}");
        }
        for bad in ["", "x", "-1s", "1 fortnight", "1e99d", "."] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
