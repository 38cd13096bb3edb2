//! Packages on machines: `cell.proto`.

use model::{Bytes, DigestPrefix, HeldPackage, HeldUse};

use crate::error::Malformed;
use crate::{read, v1};

impl From<HeldUse> for v1::HeldUse {
    fn from(held_use: HeldUse) -> Self {
        match held_use {
            HeldUse::Unused => Self::Unused,
            HeldUse::InUse => Self::InUse,
            HeldUse::Fetching => Self::Fetching,
        }
    }
}

impl From<&HeldPackage> for v1::HeldPackage {
    fn from(held: &HeldPackage) -> Self {
        Self {
            package: held.package.0,
            bytes: held.bytes.0,
            needs: held.needs.0,
            r#use: v1::HeldUse::from(held.held_use).into(),
        }
    }
}

impl TryFrom<v1::HeldPackage> for HeldPackage {
    type Error = Malformed;

    fn try_from(held: v1::HeldPackage) -> Result<Self, Malformed> {
        let meaning = |held_use| match held_use {
            v1::HeldUse::Unspecified => None,
            v1::HeldUse::Unused => Some(HeldUse::Unused),
            v1::HeldUse::InUse => Some(HeldUse::InUse),
            v1::HeldUse::Fetching => Some(HeldUse::Fetching),
        };
        Ok(Self {
            package: DigestPrefix(held.package),
            bytes: Bytes(held.bytes),
            needs: Bytes(held.needs),
            held_use: read::value(held.r#use, meaning, "use")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for held_use in HeldUse::ALL {
            let package = DigestPrefix(u64::MAX - 3);
            let held = HeldPackage { package, bytes: Bytes(1), needs: Bytes(2), held_use };
            assert_eq!(HeldPackage::try_from(v1::HeldPackage::from(&held)), Ok(held));
        }
        assert!(HeldPackage::try_from(v1::HeldPackage::default()).is_err());
    }
}
