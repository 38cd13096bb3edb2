//! `bourg bench fanout`: how a package reaches many machines: from the store only, along a tree, and as a swarm.
//!
//! Links are simulated, and decisions are not: each machine has the [`Swarm`] of a Borglet, and is told of other machines by
//! the [`Holders`] of a master. A link has a capacity in each direction, which its transfers share evenly.

use std::collections::VecDeque;

use borglet::{AskId, SourceId, SourceKind, Swarm, SwarmAction, SwarmState};
use clap::Args;
use command::Done;
use command::output::{self, Format};
use master::Holders;
use model::{Bytes, Digest, MachineName, Random, Span, Time};
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The number of machines, which begin together.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    machines: u16,
    /// The size of the package; at most 4 GiB.
    #[arg(long, default_value = "48MiB", value_name = "BYTES")]
    size: Bytes,
    /// The capacity of each link per second and direction.
    #[arg(long, default_value = "120MiB", value_name = "BYTES")]
    link: Bytes,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The length of a chunk, in bytes: the average of the cutter.
const CHUNK: u64 = 64 << 10;
/// The step of the simulation.
const STEP: Span = Span(1_000);
/// The time between two machines that ask the master.
const BETWEEN: Span = Span(1_000);
/// When it is given up: an hour.
const END: Span = Span::from_secs(3_600);
/// The children of a machine in a tree.
const CHILDREN: usize = 2;
/// The largest package.
const LARGEST: Bytes = Bytes(4 << 30);

/// Where machines fetch from.
#[derive(Clone, Copy, Debug)]
enum Way {
    Store,
    Tree,
    Swarm,
}

/// The results.
#[derive(Debug, Serialize)]
struct Figures {
    machines: usize,
    size_bytes: u64,
    store_only_copies: f64,
    store_only_seconds: f64,
    tree_copies: f64,
    tree_seconds: f64,
    swarm_copies: f64,
    swarm_seconds: f64,
}

pub(crate) fn measure(options: &Options) -> Done {
    let size = Bytes(options.size.0.clamp(1, LARGEST.0));
    let (machines, link) = (usize::from(options.machines), options.link.0.max(1));
    let run = |way| Simulation::new(way, machines, size, link).run();
    let ((store_only_copies, store_only_seconds), (tree_copies, tree_seconds)) =
        (run(Way::Store), run(Way::Tree));
    let (swarm_copies, swarm_seconds) = run(Way::Swarm);
    let figures = Figures {
        machines,
        size_bytes: size.0,
        store_only_copies,
        store_only_seconds,
        tree_copies,
        tree_seconds,
        swarm_copies,
        swarm_seconds,
    };
    let format = if options.json { Format::Json } else { Format::Table };
    output::object(&format, &figures, "fanout", || {
        let line = |way: &str, copies: f64, seconds: f64| {
            format!(
                "{way}: the store sends {copies:.2} copies, and all have it after {seconds:.2} s\n"
            )
        };
        format!(
            "{machines} machines fetch {size} over links of {} a second\n{}{}{}",
            options.link,
            line("store only", store_only_copies, store_only_seconds),
            line("tree", tree_copies, tree_seconds),
            line("swarm", swarm_copies, swarm_seconds),
        )
    })
}

/// Where a source of a machine is; `None`: the store.
type SourcePlace = Option<usize>;

/// A machine that fetches.
struct Fetcher {
    swarm: Swarm,
    sources: Vec<SourcePlace>,
}

/// A request that is being answered.
struct Transfer {
    to: usize,
    from: SourcePlace,
    ask: AskId,
    source: SourceId,
    chunks: VecDeque<u32>,
    /// What of the first chunk is still to come, in bytes.
    left: u64,
    /// When the answer begins.
    begins: Time,
}

struct Simulation {
    fetchers: Vec<Fetcher>,
    transfers: Vec<Transfer>,
    chunks: u32,
    link: u64,
    sent_by_store: u64,
    now: Time,
}

impl Simulation {
    fn new(way: Way, machines: usize, size: Bytes, link: u64) -> Self {
        let chunks = u32::try_from(size.0.div_ceil(CHUNK)).unwrap_or(u32::MAX);
        let package = Digest::from_bytes([0; Digest::BYTES]);
        let names: Vec<MachineName> =
            (0..machines).filter_map(|number| format!("m{number}").parse().ok()).collect();
        let mut holders = Holders::default();
        let mut fetchers = Vec::new();
        let begin = Time(1_000_000_000);
        for (number, name) in names.iter().enumerate() {
            let now = begin + Span(BETWEEN.0 * number as u64);
            let mut swarm = Swarm::new(chunks, [], Random::mixed(number as u64), now);
            let mut sources = Vec::new();
            let parent = number.checked_sub(1).map(|before| before / CHILDREN);
            if !matches!((way, parent), (Way::Tree, Some(_))) {
                swarm.add(SourceKind::Store, now);
                sources.push(None);
            }
            let peers: Vec<usize> = match way {
                Way::Store => Vec::new(),
                Way::Tree => parent.into_iter().collect(),
                Way::Swarm => {
                    let named = holders.of(package, name, now, |_| Some(false));
                    let number = |of: &MachineName| names.iter().position(|it| it == of);
                    named.iter().filter_map(number).collect()
                }
            };
            holders.asked(name, package, now);
            for peer in peers {
                swarm.add(SourceKind::Peer, now);
                sources.push(Some(peer));
            }
            fetchers.push(Fetcher { swarm, sources });
        }
        let now = begin + Span(BETWEEN.0 * machines as u64);
        Self { fetchers, transfers: Vec::new(), chunks, link, sent_by_store: 0, now }
    }

    /// The copies that the store sends, and the seconds until all machines have the package.
    fn run(mut self) -> (f64, f64) {
        let begin = self.now;
        while self.fetchers.iter().any(|it| it.swarm.state() == SwarmState::Fetching)
            && self.now.since(begin) < END
        {
            self.step();
        }
        let size = f64::from(self.chunks) * CHUNK as f64;
        (self.sent_by_store as f64 / size, self.now.since(begin).0 as f64 / 1e6)
    }

    fn step(&mut self) {
        let now = self.now;
        for (to, fetcher) in self.fetchers.iter_mut().enumerate() {
            for action in fetcher.swarm.next(now) {
                match action {
                    SwarmAction::Ask { ask, source, chunks } => {
                        let Some(from) = fetcher.sources.get(source.0).copied() else { continue };
                        let (chunks, begins) = (chunks.into(), now + STEP);
                        let left = CHUNK;
                        self.transfers.push(Transfer {
                            to,
                            from,
                            ask,
                            source,
                            chunks,
                            left,
                            begins,
                        });
                    }
                    SwarmAction::Drop { source, .. } => {
                        self.transfers.retain(|it| it.to != to || it.source != source);
                    }
                }
            }
        }
        self.now = now + STEP;
        let now = self.now;
        let machines = self.fetchers.len();
        let (mut up, mut down) = (vec![0_u64; machines + 1], vec![0_u64; machines]);
        for transfer in self.transfers.iter().filter(|it| it.begins < now) {
            up[transfer.from.unwrap_or(machines)] += 1;
            down[transfer.to] += 1;
        }
        let a_step = self.link * STEP.0 / 1_000_000;
        let mut transfers = std::mem::take(&mut self.transfers);
        for transfer in transfers.iter_mut().filter(|it| it.begins < now) {
            let shares = up[transfer.from.unwrap_or(machines)].max(down[transfer.to]).max(1);
            self.advance(transfer, (a_step / shares).max(1));
        }
        transfers.retain(|transfer| {
            let is_over = transfer.begins < now && transfer.chunks.is_empty();
            if is_over {
                self.fetchers[transfer.to].swarm.answered(transfer.ask, transfer.source, now);
            }
            !is_over
        });
        self.transfers = transfers;
    }

    /// So many bytes of a request come.
    fn advance(&mut self, transfer: &mut Transfer, mut bytes: u64) {
        let Transfer { to, from, ask, source, .. } = *transfer;
        let now = self.now;
        if let Some(peer) = from {
            let peer = &self.fetchers[peer].swarm;
            let is_done = peer.state() == SwarmState::Done;
            let has = (!is_done).then(|| peer.arrived().clone());
            self.fetchers[to].swarm.holds(source, has, now);
        }
        while let Some(chunk) = transfer.chunks.front().copied() {
            if from.is_some_and(|peer| !self.fetchers[peer].swarm.arrived().contains(chunk)) {
                self.fetchers[to].swarm.lacks(ask, source, chunk, now);
                transfer.chunks.pop_front();
                continue;
            }
            let come = transfer.left.min(bytes);
            bytes -= come;
            transfer.left -= come;
            if from.is_none() {
                self.sent_by_store += come;
            }
            if transfer.left > 0 {
                return;
            }
            self.fetchers[to].swarm.came(ask, source, chunk, now);
            transfer.chunks.pop_front();
            transfer.left = CHUNK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_swarm_spares_the_store_and_takes_less_time() {
        let run = |way, machines| Simulation::new(way, machines, Bytes(48 << 20), 120 << 20).run();
        let (alone, _) = run(Way::Store, 1);
        assert!((alone - 1.0).abs() < 0.01, "{alone} copies");
        let (store, seconds_store) = run(Way::Store, 24);
        assert!((store - 24.0).abs() < 0.1, "{store} copies");
        let (tree, _) = run(Way::Tree, 24);
        assert!((tree - 1.0).abs() < 0.01, "{tree} copies");
        let (swarm, seconds) = run(Way::Swarm, 24);
        assert!(swarm < 2.0, "{swarm} copies");
        assert!(seconds < seconds_store / 2.0, "{seconds} s");
    }
}
