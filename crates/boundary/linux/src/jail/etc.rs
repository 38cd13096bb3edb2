//! The jail's `/etc`: a few generated files, and some of the host's or those of the image.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use super::accounts::{ACCOUNTS_BYTES_MAX, AccountError, GROUP, ImageUser, PASSWD};
use super::place::{Base, JailPlace};
use super::{JailError, show_read_only};
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

/// The generated files that an image's own are replaced by.
const ALSO_FOR_IMAGES: [&str; 2] = ["hostname", "hosts"];

/// Fills `/etc` of a jail that shows the host's system.
pub(super) fn fill(base: &Base, launch: &Launch) -> Result<(), JailError> {
    let etc = base.directory("etc")?;
    for (name, content) in generated(launch) {
        etc.write(name, content.as_bytes(), base.owner())?;
    }
    if let Some(content) = &launch.jail.resolv_conf {
        etc.write(RESOLV_CONF, content.as_bytes(), base.owner())?;
    }
    let is_ours = |name: &str| name == RESOLV_CONF && launch.jail.resolv_conf.is_some();
    let mut names = OF_THE_HOST.iter().filter(|name| !is_ours(name));
    names.try_for_each(|name| show_host_file(base, name))
}

/// Fills `/etc` of a jail whose root is an image's: as Docker does, with what depends on the machine, in
/// place of what is there; and the task is one of its users.
pub(super) fn fill_image(base: &Base, launch: &Launch, user: ImageUser) -> Result<(), JailError> {
    let etc = base.directory("etc")?;
    for (name, content) in generated(launch) {
        if ALSO_FOR_IMAGES.contains(&name) {
            etc.write(name, content.as_bytes(), base.owner())?;
        }
    }
    let resolv_conf = launch.jail.resolv_conf.as_deref().unwrap_or_default();
    etc.write(RESOLV_CONF, resolv_conf.as_bytes(), base.owner())?;
    if launch.jail.resolv_conf.is_none() {
        show_host_file(base, RESOLV_CONF)?;
    }
    let Launch { uid, gid, .. } = *launch;
    add_task(base, &etc, PASSWD, |content| user.passwd(content, uid, gid))?;
    add_task(base, &etc, GROUP, |content| user.group(content, gid))
}

/// Changes one of the image's lists of accounts.
fn add_task(
    base: &Base,
    etc: &JailPlace,
    file: &'static str,
    change: impl FnOnce(&[u8]) -> Vec<u8>,
) -> Result<(), JailError> {
    let read = base.read(file, ACCOUNTS_BYTES_MAX);
    let read = read.map_err(|source| AccountError::Unreadable { file, source })?;
    let owner = read.as_ref().map(|file| file.owner).filter(|_| base.owner().is_some());
    let content = change(&read.map(|file| file.content).unwrap_or_default());
    let name = file.trim_start_matches("etc/");
    etc.write(name, &content, owner.or(base.owner()))
}

/// Binds a file of the host's `/etc`; a link is replaced by its target, which may be outside the
/// jail.
fn show_host_file(base: &Base, name: &str) -> Result<(), JailError> {
    let Ok(source) = fs::canonicalize(Path::new("/etc").join(name)) else { return Ok(()) };
    show_read_only(&source, base, &Path::new("etc").join(name))
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
