//! What an image says of its start, as far as it can be checked without its files.

use nix::libc;
use nix::sys::signal::Signal;
use thiserror::Error;

use super::ImageConfig;

/// How long each part of an image's user is at most, in bytes.
const USER_PART_BYTES_MAX: usize = 256;

/// No task can be started as an image says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImageStartError {
    /// The signal to stop with is none that a task can handle.
    #[error(
        "its stop signal `{}` is none that a task can handle: build it with another (STOPSIGNAL), such as SIGTERM",
        .text.escape_debug()
    )]
    StopSignal {
        /// The beginning of what the image says.
        text: String,
    },
    /// The user has not the form of one.
    #[error(
        "its user `{}` is not NAME, NUMBER, or two of them with ':' between: build it with another (USER)",
        .text.escape_debug()
    )]
    User {
        /// The beginning of what the image says.
        text: String,
    },
}

fn beginning(text: &str) -> String {
    text.chars().take(64).collect()
}

impl ImageConfig {
    /// Whether a task can be started with it, as far as that can be known without the files of the image.
    ///
    /// # Errors
    /// The stop signal or the user has not the form of one.
    pub fn check_start(&self) -> Result<(), ImageStartError> {
        self.stop_signal_number()?;
        let is_part = |part: &str| {
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            (1..=USER_PART_BYTES_MAX).contains(&part.len())
                && !part.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':')
                && (!is_number || part.parse::<u32>().is_ok())
        };
        let is_user = match self.user.split_once(':') {
            None => self.user.is_empty() || is_part(&self.user),
            Some((user, group)) => is_part(user) && is_part(group),
        };
        match is_user {
            true => Ok(()),
            false => Err(ImageStartError::User { text: beginning(&self.user) }),
        }
    }

    /// The number of the signal that asks a task to stop; `None`: SIGTERM. An image names it `SIGQUIT`, `QUIT`, `3` or
    /// `SIGRTMIN+3`.
    ///
    /// # Errors
    /// It is no signal that a task can handle.
    pub fn stop_signal_number(&self) -> Result<Option<u8>, ImageStartError> {
        let text = self.stop_signal.as_str();
        if text.is_empty() {
            return Ok(None);
        }
        let name = text.strip_prefix("SIG").unwrap_or(text);
        let offset = |from: Option<&str>| from.map_or(Some(0), |offset| offset.parse::<i32>().ok());
        let number = if let Ok(number) = text.parse::<i32>() {
            Some(number)
        } else if let Some(rest) = name.strip_prefix("RTMIN") {
            let plus = (!rest.is_empty()).then(|| rest.strip_prefix('+').unwrap_or(rest));
            offset(plus).and_then(|offset| libc::SIGRTMIN().checked_add(offset))
        } else if let Some(rest) = name.strip_prefix("RTMAX") {
            let minus = (!rest.is_empty()).then(|| rest.strip_prefix('-').unwrap_or(rest));
            offset(minus).and_then(|offset| libc::SIGRTMAX().checked_sub(offset))
        } else {
            format!("SIG{name}").parse::<Signal>().ok().map(|signal| signal as i32)
        };
        let is_handled = |number: &i32| {
            let never = [libc::SIGKILL, libc::SIGSTOP];
            (1..=libc::SIGRTMAX()).contains(number) && !never.contains(number)
        };
        let number = number.filter(is_handled).and_then(|number| u8::try_from(number).ok());
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(ImageStartError::StopSignal { text: beginning(text) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_signals_are_names_and_numbers() {
        for (text, number) in [
            ("", Some(None)),
            ("SIGTERM", Some(Some(15))),
            ("QUIT", Some(Some(3))),
            ("3", Some(Some(3))),
            ("SIGRTMIN", Some(Some(34))),
            ("SIGRTMIN+3", Some(Some(37))),
            ("RTMAX-1", Some(Some(63))),
            ("SIGRTMIN+40", None),
            ("SIGSTOP", None),
            ("9", None),
            ("0", None),
            ("65", None),
            ("-1", None),
            ("SIGNOTHING", None),
            ("SIGRTMIN+99999999999", None),
        ] {
            let config = ImageConfig { stop_signal: text.to_owned(), ..ImageConfig::default() };
            assert_eq!(config.stop_signal_number().ok(), number, "{text}");
            assert_eq!(config.check_start().is_ok(), number.is_some(), "{text}");
        }
    }

    #[test]
    fn users_are_names_and_numbers() {
        for (user, is_one) in [
            ("", true),
            ("nginx", true),
            ("101", true),
            ("nginx:www-data", true),
            ("101:101", true),
            ("4294967296", false),
            ("nginx:", false),
            (":101", false),
            ("a:b:c", false),
            ("a b", false),
            ("a\nb", false),
            (&"a".repeat(257), false),
        ] {
            let config = ImageConfig { user: user.to_owned(), ..ImageConfig::default() };
            assert_eq!(config.check_start().is_ok(), is_one, "{user}");
        }
    }
}
