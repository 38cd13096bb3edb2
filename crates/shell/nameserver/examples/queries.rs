//! `cargo run --release -p nameserver --example queries -- [SECONDS]`: how many requests a second a server
//! answers over UDP and loopback, with names from a cache of 10,000 questions.
//!
//! The server has one thread, and each of two clients keeps 128 requests on their way. The CPU time of the
//! server's thread tells how many requests one core answers.
//!
//! Measured on two cores of an AMD EPYC that clients and other programs shared with the server: 41,000 to
//! 93,000 requests a second with 26 to 53 % of a core, so 131,000 to 175,000 on one; the more the machine is
//! loaded, the smaller the batches. The goal is 100,000. Most of the time is the kernel's.
//! Each request has a rate limit, a lookup in the cache and three addresses in its reply.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dns::{Answer, Cache, CacheLimits, Endpoint, Lookup, Names, Owner, Question, Rate, Zone};
use model::{JobName, LogIndex, NameError, Span, TaskIndex, Time, UserName};
use nameserver::{Server, Settings, Source};

/// The questions in the cache.
const QUESTIONS: u32 = 10_000;

/// The requests of a client that are on their way at once.
const WINDOW: usize = 128;

/// The clients.
const CLIENTS: usize = 2;

/// Names from a cache alone.
struct Cached(Mutex<Cache>);

impl Cached {
    fn full() -> Result<Self, NameError> {
        let ttl = Span::from_secs(3_600);
        let mut cache = Cache::new(CacheLimits { ttl, ..CacheLimits::default() });
        for number in 0..QUESTIONS {
            let user: UserName = "ubar".parse()?;
            let job: JobName = format!("job-{number}").parse()?;
            let task = |index: u32| Endpoint {
                owner: Owner::Task {
                    user: user.clone(),
                    job: job.clone(),
                    index: TaskIndex(index),
                },
                address: (0x0a00_0001 + index).to_be_bytes().into(),
                ports: Vec::new(),
                running: true,
                healthy: true,
            };
            let answer = Answer::Found((0..3).map(task).collect::<Vec<_>>().into());
            cache.learn(Question::Job { user, job }, answer, LogIndex(1), Time::ZERO);
        }
        Ok(Self(Mutex::new(cache)))
    }
}

impl Names for Cached {
    fn lookup(&self, question: &Question) -> Lookup {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(question, Time::ZERO, true)
    }
}

impl Source for Cached {
    async fn resolve(&self, _: Question) -> Lookup {
        Lookup::Missing
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let zone = Zone::new(&"cc".parse()?, None)?;
    let answers = dns::Settings { zone, recursion: true };
    let mut settings = Settings::new(SocketAddr::from(([127, 0, 0, 1], 0)), answers);
    settings.rate = Rate { per_second: 1_000_000, burst: 1_000_000 };
    let source = Arc::new(Cached::full()?);

    let (tell, told) = std::sync::mpsc::channel();
    thread::Builder::new().name("server".to_owned()).spawn(move || -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async move {
            let server = Server::bind(settings).await?;
            // The main thread waits for it.
            let _ = tell.send((server.address(), nix::unistd::gettid()));
            server.serve(source).await
        })
    })?;
    let (address, thread_id) = told.recv()?;

    let (ends, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (ends, answered) = (Arc::clone(&ends), Arc::clone(&answered));
            thread::spawn(move || client(address, number, &ends, &answered))
        })
        .collect();
    thread::sleep(Duration::from_secs(1));
    let busy = || cpu_ticks(thread_id.as_raw());
    let (before, busy_before, began) = (answered.load(Ordering::Relaxed), busy()?, Instant::now());
    thread::sleep(Duration::from_secs(seconds));
    let (after, busy_after, took) = (answered.load(Ordering::Relaxed), busy()?, began.elapsed());
    ends.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    let requests = (after - before) as f64;
    // A tick is a hundredth of a second on every Linux.
    let cpu = (busy_after - busy_before) as f64 / 100.0;
    println!("answered          {:>9.0} requests/s", requests / took.as_secs_f64());
    println!("the server's CPU  {:>9.0} %", cpu / took.as_secs_f64() * 100.0);
    println!("on one core       {:>9.0} requests/s", requests / cpu);
    Ok(())
}

/// Asks for one name after the other, a window of them at once.
fn client(
    address: SocketAddr,
    number: usize,
    ends: &AtomicBool,
    answered: &AtomicU64,
) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut next = number;
    let mut reply = [0; 1_500];
    while !ends.load(Ordering::Relaxed) {
        for _ in 0..WINDOW {
            next = (next + 7) % QUESTIONS as usize;
            // What does not fit into the socket's buffer counts as lost.
            let _ = socket.send(&request(next));
        }
        for _ in 0..WINDOW {
            match socket.recv(&mut reply) {
                Ok(_) if reply[7] == 3 => answered.fetch_add(1, Ordering::Relaxed),
                Ok(_) => return Err(io::Error::other("a reply without the three addresses")),
                Err(_) => break,
            };
        }
    }
    Ok(())
}

/// A request for a job's addresses.
fn request(number: usize) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let job = format!("job-{number}");
    for label in [job.as_str(), "ubar", "cc", "borg"] {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The CPU time of a thread of this process, in hundredths of a second.
fn cpu_ticks(thread: i32) -> io::Result<u64> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<u64> =
        fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    // utime and stime, the 14th and 15th field; two are before the ')'.
    match fields.get(11..13) {
        Some([user, system]) => Ok(user + system),
        _ => Err(io::Error::other("the form of /proc is another")),
    }
}
