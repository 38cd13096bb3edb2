//! Runs the tests with real tasks again on pure cgroup v2: one boot of an emulated machine with
//! Debian's kernel runs the test binary `system` of the crate `linux`, as built for this machine.
//!
//! ```text
//! target/emulated/debian/   the kernel and busybox, from Debian's packages, unpacked and kept
//! initramfs                 /init, and below /system the root of the guest: this machine's own shell
//!                           and tools with their libraries, and the test's binaries at their own paths
//! serial console            everything the tests say, then the line with the guest's verdict
//! ```
//!
//! The machine is emulated in software, because a machine that runs tests may not have a usable
//! `/dev/kvm`. It is about ten times slower than a real one. Its two CPUs take turns in one thread:
//! with a thread each, QEMU before 8.1 may keep the translation of code that another CPU changes
//! during the translation, and Linux changes its own code (when a static key is switched). A CPU
//! that met such a stale breakpoint looped forever.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cargo_metadata::Message;

use crate::failed::{Failed, Test};
use crate::needs;
use crate::run::{cargo_build, nice, succeed, target_directory};

/// The timeout for a boot with all its tests.
const BOOT_LIMIT: Duration = Duration::from_secs(300);
/// The same, beside other tests.
const BOOT_LIMIT_BESIDE: Duration = Duration::from_secs(1200);
/// Its priority beside other tests: it is slow as it is, and its tests wait for real time, too.
const PRIORITY: i8 = -5;

/// The programs that the tests' scripts run, besides shell builtins.
const PROGRAMS: [&str; 25] = [
    "busybox", "cat", "chmod", "cut", "env", "grep", "head", "hostname", "id", "ls", "mkdir",
    "readlink", "rm", "sed", "setsid", "sh", "setpriv", "sleep", "sort", "stat", "stty", "touch",
    "tr", "true", "unshare",
];

/// Directories that are links into `/usr` on most machines, and then in the guest as well.
const TOP_LINKS: [&str; 5] = ["/bin", "/lib", "/lib32", "/lib64", "/sbin"];

/// The guest's last line, followed by the tests' exit status.
const VERDICT: &str = "the guest's tests ended with status ";

/// Pid 1 of the guest, both at first and on its final root.
const INIT: &str = include_str!("../../boundary/linux/tests/emulated/init.sh");
const RUN: &str = include_str!("../../boundary/linux/tests/emulated/run.sh");

/// The binary that the tests of the machine belong to, where tests are named.
pub(crate) const BINARY: &str = "v2";
/// Names a boot that does not come to the end of its tests.
const WHOLE: &str = "boot";

/// Where the lines of the machine's console go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Console {
    /// They are printed as they come.
    Shown,
    /// Beside other tests: they are printed at the end.
    Beside,
}

/// Boots the machine and runs the tests; `packages` are cargo arguments that select further
/// packages to build with the crate `linux`: reusing an earlier build's selection saves time.
///
/// # Errors
/// If something is missing, does not build, takes too long, or fails.
pub(crate) fn test(packages: &[&str]) -> anyhow::Result<()> {
    let ran = EmulatedMachine::prepare(packages)?.run(&[], Console::Shown)?;
    let failed: Vec<&str> = ran.failed.iter().map(|failed| failed.test.name.as_str()).collect();
    ensure!(failed.is_empty(), "tests failed on cgroup v2: {}", failed.join(", "));
    eprintln!("{} tests passed on cgroup v2", ran.passed);
    Ok(())
}

/// Tries failed tests again, in a boot of their own.
///
/// # Errors
/// If something is missing or does not build.
pub(crate) fn attempt(tests: &[Test]) -> anyhow::Result<Vec<Failed>> {
    let names: Vec<String> = tests.iter().map(|test| test.name.clone()).collect();
    let only = if names.iter().any(|name| name == WHOLE) { &[][..] } else { &names };
    Ok(EmulatedMachine::prepare(&["--workspace"])?.run_or_fail(only, Console::Shown))
}

/// The emulated machine, ready to be booted.
pub(crate) struct EmulatedMachine {
    directory: PathBuf,
    debian: Debian,
    built: Built,
}

/// What the tests of a boot came to.
#[derive(Debug, PartialEq, Eq)]
struct Ran {
    passed: u32,
    failed: Vec<Failed>,
}

impl EmulatedMachine {
    /// Gets everything that a boot needs.
    ///
    /// # Errors
    /// If something is missing or does not build.
    pub(crate) fn prepare(packages: &[&str]) -> anyhow::Result<Self> {
        ensure!(
            cfg!(all(target_arch = "x86_64", target_os = "linux")),
            "the emulated machine runs this machine's binaries, and needs x86_64 Linux for that"
        );
        needs::programs()?;
        let directory = directory()?;
        Ok(Self { debian: debian(&directory)?, built: build(packages)?, directory })
    }

    /// The tests that fail in a boot; [`WHOLE`] if it does not come to the end of its tests.
    pub(crate) fn run_or_fail(&self, only: &[String], console: Console) -> Vec<Failed> {
        self.run(only, console).map_or_else(
            |error| {
                let test = Test { binary: BINARY.to_owned(), name: WHOLE.to_owned() };
                eprintln!("error: {error:#}");
                vec![Failed { test, output: format!("{error:#}\n") }]
            },
            |ran| ran.failed,
        )
    }

    /// Boots once, and runs the tests of these names, or all.
    ///
    /// # Errors
    /// If the machine does not come to the end of its tests.
    fn run(&self, only: &[String], console: Console) -> anyhow::Result<Ran> {
        let archive = archive(&self.debian, &self.built, only)?;
        // One for each run, because two may run at the same time.
        let initramfs = self.directory.join(format!("initramfs-{}", std::process::id()));
        fs::write(&initramfs, archive.pack()?)
            .with_context(|| format!("cannot write {}", initramfs.display()))?;
        let said = boot(&self.debian.kernel, &initramfs, console);
        let _left_over = fs::remove_file(&initramfs);
        verdict(&said?)
    }
}

/// The directory for its files.
fn directory() -> anyhow::Result<PathBuf> {
    let directory = target_directory().join("emulated");
    fs::create_dir_all(&directory)
        .and_then(|()| directory.canonicalize())
        .with_context(|| format!("cannot make {}", directory.display()))
}

/// The guest's files from Debian.
struct Debian {
    kernel: PathBuf,
    overlay: PathBuf,
    busybox: PathBuf,
}

/// Downloads and unpacks the packages, unless that was done before.
fn debian(directory: &Path) -> anyhow::Result<Debian> {
    let kept = directory.join("debian");
    if !kept.is_dir() {
        let fresh = directory.join(format!("debian-{}", std::process::id()));
        if let Err(error) = download(&fresh) {
            let _never_made = fs::remove_dir_all(&fresh);
            return Err(error);
        }
        // Of two concurrent runs, the slower one uses the result of the other.
        if fs::rename(&fresh, &kept).is_err() {
            fs::remove_dir_all(&fresh).context("cannot clear up")?;
        }
    }
    let found = || -> Option<Debian> {
        let kernel = find(&kept.join("boot"), "vmlinuz-")?;
        let modules = find(&kept.join("lib/modules"), "")
            .or_else(|| find(&kept.join("usr/lib/modules"), ""))?;
        let overlay = find(&modules.join("kernel/fs/overlayfs"), "overlay.ko")?;
        let busybox = [kept.join("bin/busybox"), kept.join("usr/bin/busybox")];
        let busybox = busybox.into_iter().find(|path| path.is_file())?;
        Some(Debian { kernel, overlay, busybox })
    };
    found().with_context(|| format!("{0} is incomplete: remove it, and try again", kept.display()))
}

/// The entry of a directory whose name has a prefix.
fn find(directory: &Path, prefix: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?.flatten();
    let mut names = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    names.next().map(|entry| entry.path())
}

fn download(directory: &Path) -> anyhow::Result<()> {
    const ADVICE: &str = "the kernel of the emulated machine is a package of Debian's, got with \
                          apt-get: where its lists are missing or old, run `apt-get update` as root";
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    // Fails for all users but root, whose package lists may be recent enough.
    let _updated = succeed(Command::new("apt-get").arg("update").stdin(Stdio::null()));
    let depends = Command::new("apt-cache").args(["depends", "linux-image-cloud-amd64"]).output();
    let depends = String::from_utf8(depends.context(ADVICE)?.stdout)?;
    let image = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let image = format!("linux-image-{}", image.context(ADVICE)?);
    let mut apt = Command::new("apt-get");
    apt.args(["download", &image, "busybox-static"]).current_dir(directory).stdin(Stdio::null());
    succeed(&mut apt).context(ADVICE)?;
    for package in fs::read_dir(directory)?.collect::<Result<Vec<_>, _>>()? {
        let mut unpack = Command::new("dpkg-deb");
        succeed(unpack.arg("--extract").arg(package.path()).arg(directory))?;
        fs::remove_file(package.path())?;
    }
    Ok(())
}

/// The two programs of the tests: they have the same paths in the guest as here.
struct Built {
    test: PathBuf,
    shim: PathBuf,
}

fn build(packages: &[&str]) -> anyhow::Result<Built> {
    // All tests of the packages: selecting the one binary would build dependencies with other features.
    let mut cargo = cargo_build(&["test", "--no-run"]);
    cargo.args(packages).arg("--message-format=json-render-diagnostics");
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "the tests do not build ({})", output.status);
    let (mut test, mut shim) = (None, None);
    for message in Message::parse_stream(output.stdout.as_slice()) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let program = match (artifact.manifest_path.as_str(), artifact.target.name.as_str()) {
            (manifest, "system") if manifest.ends_with("/crates/boundary/linux/Cargo.toml") => {
                &mut test
            }
            (_, "bare-shim") => &mut shim,
            _ => continue,
        };
        *program = artifact.executable.map(cargo_metadata::camino::Utf8PathBuf::into_std_path_buf);
    }
    let (test, shim) = (test.context("no test `system`")?, shim.context("no `bare-shim`")?);
    Ok(Built { test, shim })
}

/// Builds the initramfs.
fn archive(debian: &Debian, built: &Built, only: &[String]) -> anyhow::Result<Archive> {
    let mut archive = Archive::default();
    let test = built.test.to_str().context("the test's path is not UTF-8")?;
    let only = only.iter().map(|name| format!(" {name}")).collect::<String>();
    let test = if only.is_empty() { test.to_owned() } else { format!("{test} --exact{only}") };
    let run = RUN.replace("@TEST@", &test).replace("@VERDICT@", VERDICT);
    archive.program("/init", INIT.into());
    archive.program("/guest/run", run.into());
    archive.program("/guest/busybox", read(&debian.busybox)?);
    let overlay = debian.overlay.file_name().context("a module without a name")?;
    archive.program(Path::new("/guest").join(overlay), read(&debian.overlay)?);

    let system = |path: &Path| Path::new("/system").join(path.strip_prefix("/").unwrap_or(path));
    for link in TOP_LINKS {
        if let Ok(leads_to) = fs::read_link(link) {
            archive.directory(&system(&fs::canonicalize(link)?), 0o755);
            let text = leads_to.to_string_lossy().into_owned();
            archive.add(system(Path::new(link)), LINK | 0o777, text.into());
        }
    }
    let mut programs = PROGRAMS
        .iter()
        .map(|name| needs::find(name).with_context(|| format!("{name} is missing on this machine")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    programs.extend([built.test.clone(), built.shim.clone()]);
    let libraries = libraries(&programs)?;
    for path in programs.iter().chain(&libraries) {
        let parent = path.parent().context("a program without a directory")?;
        let name = path.file_name().context("a program without a name")?;
        // In the directory itself, because the guest has few of the links that may lead there.
        let parent = if path == &built.shim { parent.to_owned() } else { parent.canonicalize()? };
        archive.program(system(&parent.join(name)), read(path)?);
    }
    // After the programs: their directories may be among these.
    for name in ["dev", "etc", "home", "proc", "root", "run", "sys"] {
        archive.directory(&system(Path::new(name)), 0o755);
    }
    archive.directory(&system(Path::new("tmp")), 0o1777);
    let file = FILE | 0o644;
    archive.add(system(Path::new("etc/resolv.conf")), file, "nameserver 127.0.0.1\n".into());
    archive.add(system(Path::new("etc/passwd")), file, "root:x:0:0:root:/root:/bin/sh\n".into());
    Ok(archive)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The shared libraries of the programs, including the loader, found with `ldd`.
fn libraries(programs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").args(programs).output().context("cannot run ldd")?;
    let text = String::from_utf8(output.stdout)?;
    let mut all = Vec::new();
    for line in text.lines().filter(|line| line.starts_with('\t')) {
        ensure!(!line.ends_with("not found"), "a library is missing:{line}");
        all.extend(line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from));
    }
    ensure!(!all.is_empty(), "ldd found no library at all");
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// An archive that the kernel can unpack: `cpio` in the format `newc`. In the order of names,
/// directories precede their entries.
#[derive(Default)]
struct Archive(BTreeMap<PathBuf, (u32, Vec<u8>)>);

impl Archive {
    /// Adds an entry, and missing parent directories.
    fn add(&mut self, path: impl AsRef<Path>, mode: u32, content: Vec<u8>) {
        let path = path.as_ref();
        for above in path.ancestors().skip(1) {
            self.0.entry(above.to_owned()).or_insert((DIRECTORY | 0o755, Vec::new()));
        }
        self.0.insert(path.to_owned(), (mode, content));
    }

    fn program(&mut self, path: impl AsRef<Path>, content: Vec<u8>) {
        self.add(path, FILE | 0o755, content);
    }

    fn directory(&mut self, path: &Path, mode: u32) {
        self.add(path, DIRECTORY | mode, Vec::new());
    }

    fn pack(&self) -> anyhow::Result<Vec<u8>> {
        let mut packed = Vec::new();
        for (number, (path, (mode, content))) in (1..).zip(&self.0) {
            let name = path.to_str().with_context(|| format!("{path:?} is not UTF-8"))?;
            let name = name.trim_start_matches('/');
            entry(&mut packed, number, *mode, if name.is_empty() { "." } else { name }, content)?;
        }
        entry(&mut packed, 0, 0, "TRAILER!!!", &[])?;
        Ok(packed)
    }
}

/// Writes one entry; its inode number only has to be unique.
fn entry(
    packed: &mut Vec<u8>,
    inode: u32,
    mode: u32,
    name: &str,
    content: &[u8],
) -> anyhow::Result<()> {
    let size = u32::try_from(content.len()).with_context(|| format!("{name} is too large"))?;
    let name_size = u32::try_from(name.len() + 1)?;
    // Owner, group, links and time come before the size; devices and an unused checksum around the
    // length of the name.
    let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
    packed.extend(b"070701");
    packed.extend(fields.iter().flat_map(|field| format!("{field:08x}").into_bytes()));
    packed.extend(name.bytes().chain([0]));
    packed.resize(packed.len().next_multiple_of(4), 0);
    packed.extend(content);
    packed.resize(packed.len().next_multiple_of(4), 0);
    Ok(())
}

/// Runs the machine to its end, shows its console output, and returns it line by line.
fn boot(kernel: &Path, initramfs: &Path, console: Console) -> anyhow::Result<Vec<String>> {
    let (priority, limit) = match console {
        Console::Shown => (0, BOOT_LIMIT),
        Console::Beside => (PRIORITY, BOOT_LIMIT_BESIDE),
    };
    let mut qemu = nice(priority, "qemu-system-x86_64");
    qemu.args(["-accel", "tcg,thread=single", "-smp", "2", "-cpu", "max", "-m", "768"]);
    qemu.args(["-nodefaults", "-display", "none", "-monitor", "none", "-serial", "stdio"]);
    qemu.arg("-no-reboot").arg("-kernel").arg(kernel).arg("-initrd").arg(initramfs);
    // Only panics are printed: other kernel messages would appear in the middle of the tests'
    // lines. A soft lockup of a CPU is a panic, with its location.
    qemu.args(["-append", "console=ttyS0 panic=-1 softlockup_panic=1 loglevel=1 psi=1"]);
    let mut machine =
        qemu.stdout(Stdio::piped()).spawn().context("cannot run qemu-system-x86_64")?;
    let output = BufReader::new(machine.stdout.take().context("no console")?);
    let (ended, end) = mpsc::channel();
    let reader = std::thread::Builder::new().name("console".to_owned()).spawn(move || {
        let mut lines = Vec::new();
        for line in output.split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            if console == Console::Shown {
                println!("{line}");
            }
            lines.push(line);
        }
        // Nobody waits any more after a timeout.
        let _late = ended.send(());
        lines
    })?;
    let in_time = end.recv_timeout(limit).is_ok();
    if !in_time {
        machine.kill().context("cannot kill the emulator")?;
    }
    let status = machine.wait()?;
    let lines = reader.join().ok().context("the reader of the console has panicked")?;
    if console == Console::Beside {
        println!("{}", lines.join("\n"));
    }
    ensure!(in_time, "the emulated machine was killed after {} s", limit.as_secs());
    ensure!(status.success(), "qemu-system-x86_64 failed ({status})");
    Ok(lines)
}

/// What the tests came to, if the guest reached its end.
fn verdict(lines: &[String]) -> anyhow::Result<Ran> {
    let only = |prefix: &str| -> anyhow::Result<&str> {
        let mut all = lines.iter().filter_map(|line| line.strip_prefix(prefix));
        match (all.next(), all.next()) {
            (Some(rest), None) => Ok(rest),
            (None, _) => bail!("the guest ended without the line `{prefix}…`"),
            (Some(_), Some(_)) => bail!("the guest said `{prefix}…` more than once"),
        }
    };
    let status = only(VERDICT)?;
    let result = only("test result: ")?;
    let number = |text: &str| text.parse::<u32>().ok();
    let counts = result.split_once(". ").and_then(|(_, counts)| {
        let (passed, rest) = counts.split_once(" passed; ")?;
        let (failed, rest) = rest.split_once(" failed; ")?;
        Some((number(passed)?, number(failed)?, rest.starts_with("0 ignored; ")))
    });
    let failed: Vec<Failed> = failed_names(lines).map(|name| failure(name, lines)).collect();
    match (status, counts) {
        ("0", Some((passed @ 1.., 0, true))) => Ok(Ran { passed, failed: Vec::new() }),
        ("101", Some((passed, count @ 1.., true))) if failed.len() == count as usize => {
            Ok(Ran { passed, failed })
        }
        _ => bail!("not every test of the guest passed (exit status {status}): {result}"),
    }
}

/// The names of the failed tests: the list with them ends the output, after one with their outputs.
fn failed_names(lines: &[String]) -> impl Iterator<Item = &str> {
    let begin = lines.iter().rposition(|line| line == "failures:");
    let list = begin.and_then(|begin| lines.get(begin + 1..)).unwrap_or_default();
    list.iter().map_while(|line| line.strip_prefix("    "))
}

/// A failed test with its output.
fn failure(name: &str, lines: &[String]) -> Failed {
    let head = format!("---- {name} stdout ----");
    let output = lines.iter().skip_while(|line| **line != head).skip(1);
    let ends = |line: &String| line.starts_with("---- ") || line == "failures:";
    let output: Vec<&str> = output.take_while(|line| !ends(line)).map(String::as_str).collect();
    let test = Test { binary: BINARY.to_owned(), name: name.to_owned() };
    Failed { test, output: output.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(status: &str) -> String {
        format!("{VERDICT}{status}")
    }

    fn say(lines: &[&str]) -> Result<Ran, String> {
        let lines: Vec<String> = lines.iter().map(|&line| line.to_owned()).collect();
        verdict(&lines).map_err(|error| error.to_string())
    }

    #[test]
    fn only_a_full_success_is_one() {
        let ok = "test result: ok. 39 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        let ran = Ran { passed: 39, failed: Vec::new() };
        assert_eq!(say(&["running 39 tests", ok, &end("0"), "restarting"]), Ok(ran));
        for (lines, reason) in [
            (vec![ok], "without the line"),
            (vec![ok, &end("101")], "exit status 101"),
            (vec![&end("0")], "without the line `test result"),
            (vec![ok, ok, &end("0")], "more than once"),
            (vec![&ok.replace("39 p", "0 p"), &end("0")], "0 passed"),
            (vec![&ok.replace("0 ignored", "1 ignored"), &end("0")], "1 ignored"),
            (
                vec![&ok.replace("ok. ", "FAILED. ").replace("0 failed", "1 failed"), &end("0")],
                "FAILED",
            ),
        ] {
            let said = say(&lines).expect_err(reason);
            assert!(said.contains(reason), "{said}");
        }
    }

    #[test]
    fn failed_tests_are_named_with_their_output() {
        let lines = [
            "test jail::a ... FAILED",
            "",
            "failures:",
            "",
            "---- jail::a stdout ----",
            "thread 'jail::a' panicked",
            "---- jail::b stdout ----",
            "left: 1",
            "",
            "failures:",
            "    jail::a",
            "    jail::b",
            "",
            "test result: FAILED. 37 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            &end("101"),
        ];
        let failed = |name: &str, output: &str| Failed {
            test: Test { binary: BINARY.to_owned(), name: name.to_owned() },
            output: output.to_owned(),
        };
        let failed =
            vec![failed("jail::a", "thread 'jail::a' panicked"), failed("jail::b", "left: 1\n")];
        assert_eq!(say(&lines), Ok(Ran { passed: 37, failed }));
        // A list that does not have as many names as tests failed is not believed.
        let lines = lines.map(|line| line.replace("2 failed", "3 failed"));
        let said = say(&lines.each_ref().map(String::as_str)).expect_err("a name is missing");
        assert!(said.contains("exit status 101"), "{said}");
    }

    #[test]
    fn archives_are_what_the_kernel_unpacks() {
        let mut archive = Archive::default();
        archive.program("/a/run", b"#!x\n!".to_vec());
        archive.add("/bin", LINK | 0o777, b"usr/bin".to_vec());
        let packed = archive.pack().expect("names are UTF-8");
        assert_eq!(packed.len() % 4, 0);
        let text = String::from_utf8(packed).expect("all of it is text");
        let mut names = Vec::new();
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let field = |index: usize| {
                let digits = &rest[6 + 8 * index..14 + 8 * index];
                usize::from_str_radix(digits, 16).expect("eight digits")
            };
            let (size, name_size) = (field(6), field(11));
            let content = (110 + name_size).next_multiple_of(4);
            names.push((field(1), &rest[110..109 + name_size], &rest[content..content + size]));
            rest = &rest[(content + size).next_multiple_of(4)..];
        }
        assert_eq!(
            names,
            [
                (0o040_755, ".", ""),
                (0o040_755, "a", ""),
                (0o100_755, "a/run", "#!x\n!"),
                (0o120_777, "bin", "usr/bin"),
                (0, "TRAILER!!!", ""),
            ]
        );
    }
}
