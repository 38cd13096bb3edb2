//! A line as words, and words as values.

use std::str::FromStr;

use model::{Band, Bytes, MilliCores, PackageReference, Resources, Serial, Span, UserName};

use crate::ScriptError;

/// The words of a line. Double quotes keep white space in a word, and are removed.
pub(crate) fn split(line: &str) -> Result<Vec<String>, ScriptError> {
    let (mut words, mut word, mut quoted) = (Vec::new(), None::<String>, false);
    for character in line.chars() {
        match character {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            space if space.is_whitespace() && !quoted => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    if quoted {
        return Err(ScriptError::OpenQuote);
    }
    words.extend(word);
    Ok(words)
}

/// That a word is not what is expected.
pub(crate) fn not(word: &str, expected: &'static str) -> ScriptError {
    ScriptError::Word { word: word.to_owned(), expected }
}

/// A value whose own error says nothing more.
pub(crate) fn value<T: FromStr>(word: &str, expected: &'static str) -> Result<T, ScriptError> {
    word.parse().map_err(|_| not(word, expected))
}

pub(crate) fn number(word: &str) -> Result<u64, ScriptError> {
    value(word, "a number")
}

/// A number of at most 32 bits.
pub(crate) fn small_number(word: &str) -> Result<u32, ScriptError> {
    value(word, "a number up to 4294967295")
}

pub(crate) fn seconds(word: &str) -> Result<Span, ScriptError> {
    value(word, "a number of seconds").map(Span::from_secs)
}

/// `for=SECONDS`, or a default.
pub(crate) fn validity(words: &[&str], usual: Span) -> Result<Span, ScriptError> {
    match words {
        [word] => {
            word.strip_prefix("for=").ok_or_else(|| not(word, "for=SECONDS")).and_then(seconds)
        }
        _ => Ok(usual),
    }
}

pub(crate) fn mebibytes(word: &str) -> Result<Bytes, ScriptError> {
    let bytes = number(word)?.checked_mul(1 << 20);
    bytes.map(Bytes).ok_or_else(|| not(word, "a number of MiB"))
}

pub(crate) fn cpu(word: &str) -> Result<MilliCores, ScriptError> {
    value(word, "a number of milli-cores").map(MilliCores)
}

/// Sets one dimension of an amount; false if `key` is none.
pub(crate) fn amount(amount: &mut Resources, key: &str, value: &str) -> Result<bool, ScriptError> {
    match key {
        "cpu" => amount.cpu = cpu(value)?,
        "ram" => amount.ram = mebibytes(value)?,
        "disk" => amount.disk = mebibytes(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn user(word: &str) -> Result<UserName, ScriptError> {
    Ok(UserName::new(word)?)
}

pub(crate) fn package(word: &str) -> Result<PackageReference, ScriptError> {
    value(word, "a package such as app@3")
}

pub(crate) fn band(word: &str) -> Result<Band, ScriptError> {
    Ok(word.parse()?)
}

pub(crate) fn yes_or_no(word: &str) -> Result<bool, ScriptError> {
    match word {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(not(word, "yes or no")),
    }
}

/// The two halves of a word around a sign.
pub(crate) fn pair<'a>(
    word: &'a str,
    sign: char,
    expected: &'static str,
) -> Result<(&'a str, &'a str), ScriptError> {
    word.split_once(sign).ok_or_else(|| not(word, expected))
}

/// `KEY=VALUE`.
pub(crate) fn option(word: &str) -> Result<(&str, &str), ScriptError> {
    pair(word, '=', "KEY=VALUE")
}

pub(crate) fn no_such_option(option: &str, options: &'static [&'static str]) -> ScriptError {
    ScriptError::NoSuchOption { option: option.to_owned(), options }
}

/// A serial number, as scripts write it: a decimal number.
///
/// # Errors
/// When the word is not a number.
pub fn serial(word: &str) -> Result<Serial, ScriptError> {
    let bytes = number(word)?.to_be_bytes();
    Serial::from_bytes(&bytes).ok_or_else(|| not(word, "a serial number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_white_space() {
        for (line, words) in [
            ("", vec![]),
            ("  a \t b ", vec!["a", "b"]),
            (r#"cmd="sleep 60" b"#, vec!["cmd=sleep 60", "b"]),
            (r#"a"b c"d "" e"#, vec!["ab cd", "", "e"]),
        ] {
            assert_eq!(split(line), Ok(words.into_iter().map(str::to_owned).collect()), "{line}");
        }
        assert_eq!(split(r#"drain m1 "bad disk"#), Err(ScriptError::OpenQuote));
    }
}
