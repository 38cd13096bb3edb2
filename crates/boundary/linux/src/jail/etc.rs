//! The jail's `/etc`: a few generated files, some of the host's, and those of the package.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use super::{JailError, make_dir, show_read_only};
use crate::error::At;
use crate::record::Launch;

/// The file that names the resolvers.
const RESOLV_CONF: &str = "resolv.conf";

/// Files that the task shares with the host to reach the network and to run the host's programs.
///
/// Never `/etc/ssl` as a whole: it contains private keys.
const OF_THE_HOST: [&str; 13] = [
    RESOLV_CONF,
    "localtime",
    "services",
    "protocols",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "ca-certificates",
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
];

/// Those that depend on the machine rather than on the programs, so a package gets them too.
const ALSO_FOR_PACKAGES: [&str; 2] = [RESOLV_CONF, "localtime"];

/// Fills `/etc` of the jail at `base`; `package` is the `/etc` of the package that is its root.
pub(super) fn fill(base: &Path, launch: &Launch, package: Option<&Path>) -> Result<(), JailError> {
    let etc = base.join("etc");
    make_dir(&etc)?;
    for (name, content) in generated(launch) {
        let path = etc.join(name);
        fs::write(&path, content).at("write", &path)?;
    }
    if let Some(content) = &launch.jail.resolv_conf {
        let path = etc.join(RESOLV_CONF);
        fs::write(&path, content).at("write", &path)?;
    }
    let is_ours = |name: &str| name == RESOLV_CONF && launch.jail.resolv_conf.is_some();
    let show = |names: &[&str]| {
        let mut names = names.iter().filter(|name| !is_ours(name));
        names.try_for_each(|name| show_host_file(&etc, name))
    };
    let Some(package) = package else { return show(&OF_THE_HOST) };
    show(&ALSO_FOR_PACKAGES)?;
    let Ok(entries) = fs::read_dir(package) else { return Ok(()) };
    for entry in entries {
        let entry = entry.at("list", package)?;
        let name = entry.file_name();
        if fs::symlink_metadata(etc.join(&name)).is_err() {
            show_read_only(&entry.path(), &etc, Path::new(&name))?;
        }
    }
    Ok(())
}

/// Binds a file of the host's `/etc`; a link is replaced by its target, which may be outside the
/// jail.
fn show_host_file(etc: &Path, name: &str) -> Result<(), JailError> {
    let Ok(source) = fs::canonicalize(Path::new("/etc").join(name)) else { return Ok(()) };
    show_read_only(&source, etc, Path::new(name))
}

fn generated(launch: &Launch) -> [(&'static str, String); 5] {
    let Launch { uid, gid, hostname, network, .. } = launch;
    // As Debian does it on hosts without a lasting address.
    let address = network.as_ref().map_or(Ipv4Addr::new(127, 0, 1, 1), |network| network.address);
    let nobody = if *uid == 65_534 { "" } else { "nobody:x:65534:65534:nobody:/:/bin/false\n" };
    let nogroup = if *gid == 65_534 { "" } else { "nogroup:x:65534:\n" };
    [
        (
            "passwd",
            format!(
                "root:x:0:0:root:/:/bin/false\ntask:x:{uid}:{gid}:task:/home/task:/bin/sh\n{nobody}"
            ),
        ),
        ("group", format!("root:x:0:\ntask:x:{gid}:\n{nogroup}")),
        ("hostname", format!("{hostname}\n")),
        (
            "hosts",
            format!("127.0.0.1 localhost\n::1 localhost ip6-localhost\n{address} {hostname}\n"),
        ),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
                .to_owned(),
        ),
    ]
}
