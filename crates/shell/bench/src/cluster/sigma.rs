//! `bourg bench sigma`: how long the pages of the web UI take in a large cell, how large they are, and
//! what it costs a master that many people look at them.
//!
//! Master and scheduler are processes of this program, and so are the simulated Borglets
//! ([`super::borglets`]), which report usage. All tasks run; meanwhile clients submit jobs and kill them.
//! Pages are asked over HTTPS by users who have signed in, at a fixed rate in turns, each counted from
//! when it was due, and on the server from the request to the compressed page. Then viewers, each a browser of its own, receive the live changes of a page: two of
//! five of the cell, one of the list of jobs, one of a job, and one of a task.

mod browser;
mod large;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context as _;
use api::v1;
use clap::Args;
use command::{Done, Failure, output};
use model::ReplicaId;
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::latencies::Latencies;
use super::masters::{self, Masters};
use super::waiting::{self, Window};
use super::{CommonOptions, Disk, rounded, run};
use browser::{Browser, Site, ViewerCounts};
use large::{JobSummary, Large};

/// The options.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The number of machines.
    #[arg(long, default_value_t = 12_600, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    machines: u32,
    /// The number of tasks, all running.
    #[arg(long, default_value_t = 144_000, value_parser = clap::value_parser!(u32).range(10..))]
    tasks: u32,
    /// The number of viewers of live pages.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=500))]
    viewers: u32,
    /// The number of pages asked per second.
    #[arg(long, default_value_t = 44, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// The duration of each of the four measurements, in seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// The time between two polls of a Borglet, in seconds.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    poll_seconds: u64,
    #[command(flatten)]
    common: CommonOptions,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    machines: u32,
    tasks: u32,
    viewers: u32,
    seconds: u64,
    pages_per_second: u32,
    /// Tasks of new jobs, while the pages were asked.
    tasks_started_per_second: f64,
    /// Each kind of page, without viewers.
    pages: Vec<PageFigures>,
    /// The slowest kind, on the server.
    page_server_p99_ms: f64,
    /// The same from when a page was due until the browser had it.
    page_p99_ms: f64,
    cell_page_bytes: usize,
    cell_page_compressed_bytes: usize,
    masters_cores_alone: f64,
    masters_cores_pages: f64,
    masters_cores_viewers: f64,
    /// The difference that viewers make.
    viewers_cores: f64,
    /// What one viewer has received in a second.
    events_per_viewer_second: f64,
    bytes_per_viewer_second: f64,
    /// How often the page of a viewer was rendered again in a second.
    rendered_per_viewer_second: f64,
    /// How often a viewer was told that a page is not live.
    not_live: u64,
    /// The slowest kind of page, while there are viewers.
    page_server_p99_with_viewers_ms: f64,
    page_p99_with_viewers_ms: f64,
    masters_resident_bytes: u64,
    #[serde(flatten)]
    disk: Disk,
}

/// One kind of page.
#[derive(Debug, Serialize)]
struct PageFigures {
    page: &'static str,
    requests: u64,
    /// Of these, those without a page.
    failed: u64,
    /// Of one after nobody has looked at any page for a while.
    first_ms: f64,
    /// On the server.
    server_p50_ms: f64,
    server_p99_ms: f64,
    /// From when it was due until the browser had it.
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    bytes: usize,
    compressed_bytes: usize,
}

/// What has to be reached.
const PAGE_MS_MAX: f64 = 50.0;
const CELL_BYTES_MAX: usize = 200_000;
const VIEWERS_CORES_MAX: f64 = 1.0;

/// The users that have signed in: viewers share their sessions.
const SIGNED_IN: u32 = 10;
/// The clients that submit and kill jobs, and the pause after each answer.
const WRITERS: u16 = 16;
const REST: Duration = Duration::from_millis(100);
/// Caches are filled, and viewers connected, before they are measured.
const WARM_UP: Duration = Duration::from_secs(5);
/// The writers are stopped long before.
const FOREVER: Duration = Duration::from_secs(86_400);
/// Of the first pages: a task and a machine that the others are not of.
const FIRST: u32 = 1_000_003;
/// How many viewers open their pages at once.
const OPENED_AT_ONCE: u16 = 8;

/// Runs the benchmark and prints the results.
pub(crate) fn measure(options: &Options) -> Done {
    let figures = run(measured(options))?;
    let format = options.common.format();
    output::object(&format, &figures, "sigma", || table(&figures))
}

fn table(figures: &Figures) -> String {
    let mut text = format!(
        "{} machines, {} tasks, {:.0} started per second, {} pages per second\n{:<10} {:>9} {:>9} {:>9} {:>10} {:>9} {:>7} {:>9} {:>10}\n",
        figures.machines,
        figures.tasks,
        figures.tasks_started_per_second,
        figures.pages_per_second,
        "PAGE",
        "FIRST",
        "P50",
        "P99",
        "ON SERVER",
        "BOUND",
        "",
        "SIZE",
        "COMPRESSED",
    );
    let held = |is_held: bool| if is_held { "held" } else { "missed" };
    for page in &figures.pages {
        let _infallible = writeln!(
            text,
            "{:<10} {:>6.1} ms {:>6.1} ms {:>6.1} ms {:>7.1} ms {:>6.0} ms {:>7} {:>6.1} kB {:>7.1} kB",
            page.page,
            page.first_ms,
            page.p50_ms,
            page.p99_ms,
            page.server_p99_ms,
            PAGE_MS_MAX,
            held(page.server_p99_ms < PAGE_MS_MAX && page.failed == 0),
            page.bytes as f64 / 1e3,
            page.compressed_bytes as f64 / 1e3,
        );
    }
    let _infallible = write!(
        text,
        "the page of the cell: {:.1} kB compressed, bound {} kB: {}\n{} viewers: {:.3} cores, bound {}: {} ({:.3} \
         with them, {:.3} without, {:.3} with pages)\neach viewer: {:.2} changes and {:.1} kB a second; meanwhile \
         the slowest page has a p99 of {:.1} ms, {:.1} ms on the server\n",
        figures.cell_page_compressed_bytes as f64 / 1e3,
        CELL_BYTES_MAX / 1_000,
        held(figures.cell_page_compressed_bytes < CELL_BYTES_MAX),
        figures.viewers,
        figures.viewers_cores,
        VIEWERS_CORES_MAX,
        held(figures.viewers_cores < VIEWERS_CORES_MAX),
        figures.masters_cores_viewers,
        figures.masters_cores_alone,
        figures.masters_cores_pages,
        figures.events_per_viewer_second,
        figures.bytes_per_viewer_second / 1e3,
        figures.page_p99_with_viewers_ms,
        figures.page_server_p99_with_viewers_ms,
    );
    text
}

async fn measured(options: &Options) -> Result<Figures, Failure> {
    let address = masters::local(SIGMA_PORT);
    let flags =
        [("sigma", address.clone()), ("poll-interval", format!("{}s", options.poll_seconds))];
    let mut masters = Masters::prepare(&options.common.below(), 1, None, &flags)?;
    masters.start()?;
    let mut connection = masters.connect()?;
    let leader = masters.form(&mut connection).await?;
    let disk = Disk::measure(&masters)?;
    let (machines, tasks) = (options.machines, options.tasks);
    let mut large = Large::make(&masters, &mut connection, leader, machines, tasks).await?;
    let browsers = sign_in(&masters, leader, address).await?;
    let pages = Pages::of(options.machines, &large);

    let lasts = Duration::from_secs(options.seconds);
    let writers = masters.clients(leader, WRITERS, 1)?;
    let mut writing = JoinSet::new();
    writing.spawn(waiting::all(writers, Window::after(Duration::ZERO, FOREVER), REST));
    pages.first(&browsers).await?;
    let alone = cores(&masters, idle(lasts)).await?;
    // Nobody has asked for anything since then.
    let first = pages.first(&browsers).await?;
    pages.asked(&browsers, options.rate, WARM_UP.min(lasts)).await?;
    large.started()?;
    let asked = cores(&masters, pages.asked(&browsers, options.rate, lasts)).await?;
    let started = large.started()?;

    let viewers = Viewers::open(&pages, &browsers, options.viewers).await?;
    tokio::time::sleep(WARM_UP.min(lasts)).await;
    let before = viewers.seen();
    let watched = cores(&masters, idle(lasts)).await?;
    let seen = viewers.seen();
    let of_a_viewer = |place: usize| {
        let count = seen[place].saturating_sub(before[place]);
        rounded(count as f64 / f64::from(options.viewers) / lasts.as_secs_f64(), 3)
    };
    let beside = pages.asked(&browsers, options.rate, lasts).await?;
    let not_live = viewers.end()?;
    if let Some(ended) = writing.try_join_next() {
        ended.map_err(anyhow::Error::from)??;
        return Err(Failure::failed("error: the clients that make changes have ended"));
    }

    let mut asked = asked;
    for (page, first) in asked.1.iter_mut().zip(first) {
        page.first_ms = first;
    }
    let slowest = |pages: &[PageFigures], time: fn(&PageFigures) -> f64| {
        pages.iter().map(time).fold(0.0, f64::max)
    };
    let cell = asked.1.first().context("no page was asked")?;
    Ok(Figures {
        machines: options.machines,
        tasks: options.tasks,
        viewers: options.viewers,
        seconds: options.seconds,
        pages_per_second: options.rate,
        tasks_started_per_second: super::rate(started, lasts),
        page_server_p99_ms: slowest(&asked.1, |page| page.server_p99_ms),
        page_p99_ms: slowest(&asked.1, |page| page.p99_ms),
        cell_page_bytes: cell.bytes,
        cell_page_compressed_bytes: cell.compressed_bytes,
        pages: asked.1,
        masters_cores_alone: rounded(alone.0, 3),
        masters_cores_pages: rounded(asked.0, 3),
        masters_cores_viewers: rounded(watched.0, 3),
        viewers_cores: rounded((watched.0 - alone.0).max(0.0), 3),
        events_per_viewer_second: of_a_viewer(0),
        bytes_per_viewer_second: of_a_viewer(1),
        rendered_per_viewer_second: of_a_viewer(2),
        not_live,
        page_server_p99_with_viewers_ms: slowest(&beside, |page| page.server_p99_ms),
        page_p99_with_viewers_ms: slowest(&beside, |page| page.p99_ms),
        masters_resident_bytes: masters.resident()?,
        disk,
    })
}

/// Beside those of the masters.
const SIGMA_PORT: u64 = 7_900;

/// How many cores the masters use while something lasts.
async fn cores<T>(
    masters: &Masters,
    what: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(f64, T)> {
    let (before, begun) = (masters.cpu_time()?, Instant::now());
    let done = what.await?;
    let used = masters.cpu_time()?.saturating_sub(before);
    Ok((used.as_secs_f64() / begun.elapsed().as_secs_f64(), done))
}

/// Signs some users in.
async fn sign_in(
    masters: &Masters,
    leader: ReplicaId,
    address: String,
) -> Result<Vec<Browser>, Failure> {
    let site = Site::new(address, masters.ca_pem())?;
    let mut browsers = Vec::new();
    for number in 0..SIGNED_IN {
        let mut client = large::client(masters, leader, number)?;
        let link =
            client.access.issue_sigma_link(v1::IssueSigmaLinkRequest {}).await?.into_inner().link;
        browsers.push(site.sign_in(&link).await?);
    }
    Ok(browsers)
}

/// The pages that are asked.
struct Pages {
    machines: u32,
    large: JobSummary,
    jobs: Vec<JobSummary>,
    stuck: JobSummary,
}

/// The kinds, the cell first.
const KINDS: [&str; 11] = [
    "cell", "jobs", "job", "task", "machines", "machine", "pending", "why", "users", "names",
    "events",
];

impl Pages {
    fn of(machines: u32, cell: &Large) -> Self {
        let jobs = cell.jobs.clone();
        let large = jobs.iter().max_by_key(|job| job.tasks).unwrap_or(&cell.stuck).clone();
        Self { machines, large, jobs, stuck: cell.stuck.clone() }
    }

    /// A page of a kind: each time of another task and machine.
    fn path(&self, kind: &str, number: u32) -> String {
        let JobSummary { user, name, tasks } = &self.large;
        match kind {
            "cell" => "/".to_owned(),
            "job" => format!("/jobs/{user}/{name}"),
            "task" => format!("/jobs/{user}/{name}/{}", number % tasks),
            "machine" => {
                // Far from each other, and from those before.
                let place = number.wrapping_mul(7_919) % self.machines;
                format!("/machines/{}", super::borglets::name(place as usize))
            }
            "why" => format!("/jobs/{}/{}/why", self.stuck.user, self.stuck.name),
            kind => format!("/{kind}"),
        }
    }

    /// What a viewer looks at: two of five at the cell, one at all jobs, one at a job and one at a task,
    /// each at another one.
    fn watched(&self, viewer: u32) -> String {
        let job = &self.jobs[(viewer as usize * 4 + 3) % self.jobs.len()];
        match viewer % 5 {
            0 | 1 => "/".to_owned(),
            2 => "/jobs".to_owned(),
            3 => format!("/jobs/{}/{}", job.user, job.name),
            _ => format!("/jobs/{}/{}/0", job.user, job.name),
        }
    }

    /// Asks for a page of each kind, one after another; returns the milliseconds of each.
    async fn first(&self, browsers: &[Browser]) -> anyhow::Result<Vec<f64>> {
        let browser = browsers.first().context("nobody has signed in")?;
        let mut times = Vec::new();
        for kind in KINDS {
            let begun = Instant::now();
            browser.get(&self.path(kind, FIRST)).await?;
            times.push(super::milliseconds(begun.elapsed()));
        }
        Ok(times)
    }

    /// Asks for pages of all kinds in turns, at a rate, for some time.
    async fn asked(
        &self,
        browsers: &[Browser],
        rate: u32,
        lasts: Duration,
    ) -> anyhow::Result<Vec<PageFigures>> {
        let mut asking = JoinSet::new();
        let (begun, interval) = (Instant::now(), Duration::from_secs(1) / rate);
        // Each kind at least once.
        let most = lasts.as_millis() * u128::from(rate) / 1_000;
        let kinds = u32::try_from(KINDS.len()).unwrap_or(u32::MAX);
        for number in 0..u32::try_from(most).unwrap_or(u32::MAX).max(kinds) {
            let due = begun + interval * number;
            tokio::time::sleep_until(due).await;
            let kind = number as usize % KINDS.len();
            let (path, browser) = (self.path(KINDS[kind], number), number as usize / KINDS.len());
            let browser = browsers[browser % browsers.len()].clone();
            asking.spawn(async move {
                let page = browser.get(&path).await;
                (kind, due.elapsed(), page)
            });
        }
        let mut kinds = KINDS.map(|_| (Latencies::default(), Latencies::default(), 0, None));
        while let Some(asked) = asking.join_next().await {
            let (kind, time, page) = asked?;
            let (times, on_server, failed, last) = &mut kinds[kind];
            times.add(time);
            match page {
                Ok(page) => {
                    on_server.add(page.took);
                    *last = Some(page);
                }
                Err(error) => {
                    *failed += 1;
                    output::say(&format!("{error:#}\n"));
                }
            }
        }
        let figures =
            KINDS.into_iter().zip(kinds).map(|(page, (times, on_server, failed, last))| {
                let last = last.with_context(|| format!("no page of the kind {page}"))?;
                let requests = times.count();
                let [server_p50_ms, server_p99_ms] = on_server.at([50, 99]);
                let [p50_ms, p99_ms, max_ms] = times.at([50, 99, 100]);
                let (bytes, compressed_bytes) = (last.text()?.len(), last.sent());
                let first_ms = 0.0;
                Ok(PageFigures {
                    page,
                    requests,
                    failed,
                    first_ms,
                    server_p50_ms,
                    server_p99_ms,
                    p50_ms,
                    p99_ms,
                    max_ms,
                    bytes,
                    compressed_bytes,
                })
            });
        figures.collect()
    }
}

/// Those who look at live pages.
struct Viewers {
    watching: JoinSet<anyhow::Result<()>>,
    counts: Arc<ViewerCounts>,
}

impl Viewers {
    /// Opens their pages, a few at a time.
    async fn open(pages: &Pages, browsers: &[Browser], number: u32) -> anyhow::Result<Self> {
        let counts = Arc::new(ViewerCounts::default());
        let mut watching = JoinSet::new();
        let opening = Arc::new(tokio::sync::Semaphore::new(OPENED_AT_ONCE.into()));
        for viewer in 0..number {
            let held = Arc::clone(&opening).acquire_owned().await?;
            let browser = browsers[viewer as usize % browsers.len()].clone();
            let (path, counts) = (pages.watched(viewer), Arc::clone(&counts));
            watching.spawn(async move {
                let live = browser.another().await?.live(&path).await?;
                drop(held);
                live.read(&counts).await
            });
        }
        // All of them are open.
        let _all = opening.acquire_many(OPENED_AT_ONCE.into()).await?;
        Ok(Self { watching, counts })
    }

    /// Changed parts, bytes, and pages rendered again so far.
    fn seen(&self) -> [u64; 3] {
        let ViewerCounts { parts, bytes, rendered, .. } = &*self.counts;
        [parts, bytes, rendered].map(|count| count.load(Ordering::Relaxed))
    }

    /// Ends them; returns how often one of them was told that its page is not live.
    fn end(mut self) -> Result<u64, Failure> {
        while let Some(ended) = self.watching.try_join_next() {
            ended.map_err(anyhow::Error::from)??;
        }
        Ok(self.counts.lost.load(Ordering::Relaxed))
    }
}

/// Waits.
async fn idle(lasts: Duration) -> anyhow::Result<()> {
    tokio::time::sleep(lasts).await;
    Ok(())
}
