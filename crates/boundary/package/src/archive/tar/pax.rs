//! Extended headers: records of a key and a value.

use std::collections::BTreeMap;

/// Records by key. A value may have any bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct PaxRecords(BTreeMap<Vec<u8>, Vec<u8>>);

/// The prefix of keys for extended attributes.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// Keys of the oldest sparse format, which occur once for each part.
const SPARSE_OFFSET: &[u8] = b"GNU.sparse.offset";
const SPARSE_LENGTH: &[u8] = b"GNU.sparse.numbytes";

/// The key of the map of a sparse file, to which the keys above are converted.
pub(super) const SPARSE_MAP: &[u8] = b"GNU.sparse.map";

impl PaxRecords {
    /// Adds the records of a header: `LENGTH KEY=VALUE\n`, where the decimal length counts
    /// everything. An empty value removes a key.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Result<(), &'static str> {
        const INVALID: &str = "a record of an extended header is not valid";
        let mut parts: Vec<u8> = Vec::new();
        while !bytes.is_empty() {
            let space = bytes.iter().position(|byte| *byte == b' ').ok_or(INVALID)?;
            let length = decimal(&bytes[..space]).and_then(|length| usize::try_from(length).ok());
            let length = length.filter(|length| (space + 1..=bytes.len()).contains(length));
            let (record, rest) = bytes.split_at(length.ok_or(INVALID)?);
            bytes = rest;
            let record = record[space + 1..].strip_suffix(b"\n").ok_or(INVALID)?;
            let equals = record.iter().position(|byte| *byte == b'=').ok_or(INVALID)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                SPARSE_OFFSET | SPARSE_LENGTH => {
                    parts.extend_from_slice(if parts.is_empty() { b"" } else { b"," });
                    parts.extend_from_slice(value);
                }
                // An extended attribute may be empty.
                _ if value.is_empty() && !key.starts_with(XATTR) => {
                    self.0.remove(key);
                }
                _ => {
                    self.0.insert(key.to_vec(), value.to_vec());
                }
            }
        }
        if !parts.is_empty() {
            self.0.insert(SPARSE_MAP.to_vec(), parts);
        }
        Ok(())
    }

    /// The sum of the lengths of keys and values.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.0.get(key).map(|value| &value[..])
    }

    /// A decimal number, if there is the key.
    pub(super) fn number(&self, key: &[u8]) -> Result<Option<u64>, &'static str> {
        let value = self.get(key).map(decimal);
        value.map_or(Ok(None), |value| {
            value.map(Some).ok_or("a number of an extended header is not decimal, or too large")
        })
    }

    /// The time of the last modification, if there is one.
    pub(super) fn modified(&self) -> Result<Option<(i64, u32)>, &'static str> {
        let value = self.get(b"mtime").map(time);
        value.map_or(Ok(None), |value| {
            value.map(Some).ok_or("the time of an extended header is not valid")
        })
    }

    /// Names and values of extended attributes, sorted by name.
    pub(super) fn xattrs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let all = self.0.range(XATTR.to_vec()..);
        all.map_while(|(key, value)| Some((key.strip_prefix(XATTR)?, &value[..])))
    }
}

/// A number of decimal digits.
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| match byte {
        b'0'..=b'9' => number.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Seconds with a fraction, of which nanoseconds are kept. Times before 1970 are rounded down.
fn time(value: &[u8]) -> Option<(i64, u32)> {
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let dot = digits.iter().position(|byte| *byte == b'.').unwrap_or(digits.len());
    let seconds = i64::try_from(decimal(&digits[..dot])?).ok()?;
    let fraction = digits.get(dot + 1..).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nanos = (0..9).fold(0, |nanos, index| {
        nanos * 10 + fraction.get(index).map_or(0, |byte| u32::from(byte - b'0'))
    });
    Some(match (negative, nanos) {
        (false, _) => (seconds, nanos),
        (true, 0) => (-seconds, nanos),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanos),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_have_any_bytes() {
        let mut records = PaxRecords::default();
        let bytes = b"25 SCHILY.xattr.a=\n12 x=\n\n12 mtime=-1\n9 empty=\n";
        assert!(records.read(bytes).is_err(), "the last length is wrong");
        let bytes = b"26 SCHILY.xattr.a=\n12 x=\n\n12 mtime=-1\n19 SCHILY.xattr.b=\n";
        let mut records = PaxRecords::default();
        records.read(bytes).unwrap();
        let expected: Vec<(&[u8], &[u8])> = vec![(b"a", b"\n12 x=\n"), (b"b", b"")];
        assert_eq!(records.xattrs().collect::<Vec<_>>(), expected);
        assert_eq!(records.modified(), Ok(Some((-1, 0))));
        records.read(b"9 mtime=\n").unwrap();
        assert_eq!(records.modified(), Ok(None));
        for bad in ["x", "5 a=b", "4 ab\n", "99 a=b\n", "0 a=b\n", " a=b\n", "3 \n"] {
            assert!(PaxRecords::default().read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_nanoseconds() {
        let table: &[(&str, Option<(i64, u32)>)] = &[
            ("0", Some((0, 0))),
            ("1.5", Some((1, 500_000_000))),
            ("1.0000000019", Some((1, 1))),
            ("-1.25", Some((-2, 750_000_000))),
            ("-3.", Some((-3, 0))),
            ("", None),
            (".5", None),
            ("1.x", None),
            ("1e3", None),
            ("99999999999999999999", None),
        ];
        for (text, expected) in table {
            assert_eq!(time(text.as_bytes()), *expected, "{text}");
        }
    }
}
