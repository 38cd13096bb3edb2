//! `bourg bench packages`: what packages and images cost, part by part. Parts with tasks need root.
//!
//! | part | what |
//! |---|---|
//! | `import` | images of plain and of gzip layers become packages, beside `sha256sum` and `gzip -dc` of the same bytes |
//! | `upload` | a version of which a hundredth of the files differ from the last one is uploaded to a store |
//! | `start` | starts with an image that is there beside the same starts without one, and beside other runtimes |
//! | `fetch` | many Borglets fetch one package at once |
//! | `memory` | the state of a cell with many packages |
//!
//! Files are made from the seed. Cells are of real processes, as those of `bourg dev`.

mod fetch;
mod image;
mod import;
mod memory;
mod runtimes;
mod start;
mod upload;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use client::Connection;
use command::output::{self, Format};
use command::{Done, Failure};
use dev::{Client, DevCell, grant_the_machine};
use http_body_util::BodyExt as _;
use model::CellName;
use rpc::{Expect, Role};
use serde::Serialize;
use tower::ServiceExt as _;

/// How long the store of a new cell is waited for, and the time between two questions.
const STORE_PATIENCE: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(50);

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Only this part; repeatable. Default: all.
    #[arg(long, value_enum)]
    part: Vec<PackagePart>,
    /// The size of the image of the part `import`, in MiB.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    image_mib: u64,
    /// The number of files of the part `upload`, of 64 KiB each.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(100..=50_000))]
    files: u32,
    /// The number of starts of each kind in the part `start`.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    runs: u32,
    /// The number of Borglets in the part `fetch`.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=16))]
    machines: u8,
    /// The size of the package that they fetch, in MiB.
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u64).range(1..=4_096))]
    package_mib: u64,
    /// The number of packages in the part `memory`.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    packages: u32,
    /// The number of their owners.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    users: u32,
    /// The seed of all files.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PackagePart {
    /// From images to packages.
    Import,
    /// A second version.
    Upload,
    /// Starts with an image.
    Start,
    /// Many Borglets that fetch at once.
    Fetch,
    /// A cell with many packages.
    Memory,
}

/// The results, by part.
#[derive(Debug, Default, Serialize)]
struct Figures {
    #[serde(skip_serializing_if = "Option::is_none")]
    import: Option<import::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upload: Option<upload::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<start::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetch: Option<fetch::Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<memory::Figures>,
}

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = figures(options)?;
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "packages", || {
        let Figures { import, upload, start, fetch, memory } = &figures;
        let shown = [
            import.as_ref().map(import::show),
            upload.as_ref().map(upload::show),
            start.as_ref().map(start::show),
            fetch.as_ref().map(fetch::show),
            memory.as_ref().map(memory::show),
        ];
        shown.into_iter().flatten().collect()
    })
}

fn figures(options: &Options) -> Result<Figures, Failure> {
    let asked = |part| options.part.is_empty() || options.part.contains(&part);
    let mut figures = Figures::default();
    // Before others have used memory that would be used again.
    if asked(PackagePart::Memory) {
        figures.memory = Some(memory::measure(options.packages, options.users)?);
    }
    let place = tempfile::Builder::new().prefix("bourg-bench-").tempdir();
    let place = place.context("cannot create a temporary directory")?;
    let at = |name: &str| place.path().join(name);
    if asked(PackagePart::Import) {
        figures.import =
            Some(import::measure(&at("import"), options.image_mib << 20, options.seed)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start a runtime")?;
    process::block_on(&runtime, async {
        if asked(PackagePart::Upload) {
            let (files, seed, at) = (options.files, options.seed, at("upload"));
            let measured =
                in_cell(1, async |client| upload::measure(client, &at, files, seed).await);
            figures.upload = Some(measured.await?);
        }
        if asked(PackagePart::Start) {
            let (runs, at) = (options.runs, at("start"));
            let measured = in_cell(1, async |client| start::measure(client, &at, runs).await);
            figures.start = Some(measured.await?);
        }
        if asked(PackagePart::Fetch) {
            let size = fetch::FetchSize {
                machines: options.machines,
                bytes: options.package_mib << 20,
                seed: options.seed,
            };
            let at = at("fetch");
            let measured =
                in_cell(size.machines, async |client| fetch::measure(client, &at, size).await);
            figures.fetch = Some(measured.await?);
        }
        Ok(figures)
    })
}

/// Measures in a cell of its own, with this number of machines.
pub(crate) async fn in_cell<T>(
    machines: u8,
    measured: impl AsyncFnOnce(&mut Client) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let name = CellName::new("bench").map_err(Failure::failed)?;
    let options = dev::Options {
        directory: None,
        name,
        replicas: 1,
        machines: Some(machines),
        log: "error".to_owned(),
        master: Vec::new(),
    };
    let mut cell = DevCell::prepare(options)?;
    let measured = {
        let (mut client, mut processes) = cell.start()?;
        let measuring = async {
            let status = client.wait_until_ready().await?;
            grant_the_machine(&mut client.connection, &status).await?;
            measured(&mut client).await
        };
        tokio::select! {
            measured = measuring => measured,
            failed = processes.supervise() => Err(failed),
        }
    };
    cell.stop().await?;
    measured
}

/// Runs `bourg package` as a user does, in a process of its own.
async fn package(client: &Client, arguments: &[&str]) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(program);
    command.arg("--cell").arg(&client.directory).arg("package").args(arguments);
    command.stdin(Stdio::null());
    let shown = format!("bourg package {}", arguments.join(" "));
    let done = tokio::task::spawn_blocking(move || command.output()).await?;
    let done = done.with_context(|| format!("cannot run {shown}"))?;
    ensure!(done.status.success(), "{shown}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

/// What a store has received and sent so far, as its own metrics say.
#[derive(Clone, Copy, Debug)]
struct Transferred {
    received: u64,
    sent: u64,
}

impl Transferred {
    /// Asks the store of a cell.
    async fn of(connection: &mut Connection) -> anyhow::Result<Self> {
        let until = Instant::now() + STORE_PATIENCE;
        let store = loop {
            let request = api::v1::UploadPackageRequest { id: "any@1".to_owned() };
            let allowed = connection
                .ask(request, async |mut client, request| client.packages.upload(request).await)
                .await?;
            // One that has just started is not known at once.
            match allowed.stores.into_iter().next() {
                Some(store) => break store,
                None => ensure!(Instant::now() < until, "the cell has no store of packages"),
            }
            tokio::time::sleep(RETRY).await;
        };
        let names = ["bourg_packages_received_bytes_total", "bourg_packages_sent_bytes_total"];
        let [received, sent] =
            metric(connection, &store, &Expect::Role(Role::Packages), &names).await?;
        Ok(Self { received, sent })
    }
}

/// Values of a process's metrics without labels.
pub(crate) async fn metric<const N: usize>(
    connection: &Connection,
    address: &str,
    role: &Expect,
    names: &[&str; N],
) -> anyhow::Result<[u64; N]> {
    let credentials = connection.credentials().context("this connection has no certificate")?;
    let channel = rpc::transport::connect(address, credentials, role)?;
    let request = hyper::Request::get(format!("https://{address}/metrics"))
        .body(tonic::body::Body::empty())?;
    let answer = channel.oneshot(request).await.context("the metrics of a process")?;
    let page = answer.into_body().collect().await.context("the metrics of a process")?.to_bytes();
    let page = std::str::from_utf8(&page).context("the metrics of a process")?;
    let mut values = [0; N];
    for (value, name) in values.iter_mut().zip(names) {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let found = line.and_then(|value| value.parse::<u64>().ok());
        *value = found.with_context(|| format!("{address} does not say {name}"))?;
    }
    Ok(values)
}

/// The next numbers of a portable generator (xorshift64).
struct DrawnBytes(u64);

impl DrawnBytes {
    fn new(seed: u64) -> Self {
        // The generator's state must not be 0.
        Self(seed | 1 << 63)
    }

    /// Fills a block with what compresses to about three quarters.
    fn fill(&mut self, block: &mut [u8]) {
        for word in block.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes()[..word.len()]);
        }
        let half = block.len() / 2;
        block[..half].iter_mut().for_each(|byte| *byte &= 15);
    }
}

/// Whether a program is on this machine.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The median, in milliseconds.
pub(crate) fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    rounded(crate::nearest_rank(&times, 50).as_secs_f64() * 1e3, 2)
}

/// Millions of bytes per second.
#[expect(clippy::cast_precision_loss, reason = "a rate, rounded")]
fn mb_per_second(bytes: u64, time: Duration) -> f64 {
    rounded(bytes as f64 / 1e6 / time.as_secs_f64().max(1e-9), 1)
}

/// The ratio of two numbers of bytes.
#[expect(clippy::cast_precision_loss, reason = "a ratio, rounded")]
fn ratio(part: u64, whole: u64) -> f64 {
    rounded(part as f64 / whole.max(1) as f64, 4)
}

/// Rounds to a number of decimal places.
pub(crate) fn rounded(number: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (number * scale).round() / scale
}

/// A figure of another program, or that it is not on this machine.
fn or_not_here(figure: Option<f64>, unit: &str) -> String {
    figure.map_or_else(|| "not here".to_owned(), |figure| format!("{figure} {unit}"))
}

/// Creates a directory with those above it.
fn make_directory(path: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot create {}", path.display()))
}
