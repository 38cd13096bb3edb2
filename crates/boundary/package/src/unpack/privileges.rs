//! What the process that unpacks may create.

use std::fs;

use nix::errno::Errno;

/// What the process may create. Only root of the machine may create everything, so to it every error
/// is one; others leave out what only root may create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Privileges {
    /// Root of the machine.
    Machine,
    /// Root of a user namespace: owners that the namespace has, no devices.
    Namespace,
    /// A user: everything is its own.
    User,
}

impl Privileges {
    /// Those of this process.
    pub(super) fn of_process() -> Self {
        // Without it there are no user namespaces.
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        Self::of(nix::unistd::geteuid().is_root(), &map)
    }

    /// Those of root or another user, in a user namespace with this map of users.
    fn of(root: bool, map: &str) -> Self {
        let numbers: Vec<&str> = map.split_ascii_whitespace().collect();
        match (root, &numbers[..]) {
            (true, [] | ["0", "0", "4294967295"]) => Self::Machine,
            (true, _) => Self::Namespace,
            (false, _) => Self::User,
        }
    }

    /// The extended attribute with which overlayfs is told not to merge a directory: only root of
    /// the machine can set the one that overlayfs reads without the option `userxattr`.
    pub(super) fn opaque(self) -> &'static [u8] {
        match self {
            Self::Machine => b"trusted.overlay.opaque",
            Self::Namespace | Self::User => b"user.overlay.opaque",
        }
    }

    /// Whether owners are set.
    pub(super) fn set_owners(self) -> bool {
        self != Self::User
    }

    /// Leaves out an owner that the user namespace does not have.
    pub(super) fn owner(self, set: Result<(), Errno>) -> Result<(), Errno> {
        self.left_out(set, &[Errno::EPERM, Errno::EINVAL]).map(drop)
    }

    /// Leaves out a device. Returns whether it was made.
    pub(super) fn device(self, made: Result<(), Errno>) -> Result<bool, Errno> {
        self.left_out(made, &[Errno::EPERM])
    }

    /// Leaves out an extended attribute that only root may set: those of users are not left out.
    pub(super) fn xattr(self, name: &[u8], set: Result<(), Errno>) -> Result<(), Errno> {
        if name.starts_with(b"user.") {
            return set;
        }
        self.left_out(set, &[Errno::EPERM, Errno::EOPNOTSUPP]).map(drop)
    }

    fn left_out(self, result: Result<(), Errno>, errors: &[Errno]) -> Result<bool, Errno> {
        match result {
            Err(errno) if self != Self::Machine && errors.contains(&errno) => Ok(false),
            result => result.map(|()| true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_of_the_machine_may_create_everything() {
        let machine = "         0          0 4294967295\n";
        let (trusted, user) = (&b"trusted.overlay.opaque"[..], &b"user.overlay.opaque"[..]);
        let table = [
            (true, machine, Privileges::Machine, trusted),
            (true, "", Privileges::Machine, trusted),
            (true, "0 1000 1\n1 100000 65536\n", Privileges::Namespace, user),
            (true, "0 0 65536\n", Privileges::Namespace, user),
            (false, machine, Privileges::User, user),
            (false, "1000 1000 1\n", Privileges::User, user),
        ];
        for (root, map, expected, opaque) in table {
            let found = Privileges::of(root, map);
            assert_eq!((found, found.opaque()), (expected, opaque), "{root} {map}");
        }
        let refused = Err(Errno::EPERM);
        assert_eq!(Privileges::Machine.device(refused), Err(Errno::EPERM));
        assert_eq!(Privileges::Namespace.device(refused), Ok(false));
        assert_eq!(Privileges::User.device(Err(Errno::ENOSPC)), Err(Errno::ENOSPC));
        assert_eq!(Privileges::Namespace.owner(Err(Errno::EINVAL)), Ok(()));
        assert_eq!(Privileges::User.xattr(b"security.capability", refused), Ok(()));
        assert_eq!(Privileges::User.xattr(b"user.a", refused), refused);
    }
}
