//! The programs that the examples run: an HTTP server and a computation that ends. They are part of
//! `bourg` so that the examples run everywhere.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::Context;
use bytes::Bytes;
use clap::{Args, Subcommand};
use command::Done;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use process::shutdown;
use tokio::net::TcpListener;

/// The programs.
#[derive(Debug, Subcommand)]
#[expect(private_interfaces, reason = "a command is only executed from outside")]
pub enum Command {
    /// Run a small HTTP server, an example of a service.
    ExampleServer(ExampleServerArgs),
    /// Run a computation that ends, an example of a batch job.
    ExampleBatch(ExampleBatchArgs),
}

#[derive(Debug, Args)]
struct ExampleServerArgs {
    /// The port to listen on.
    #[arg(long)]
    port: u16,
    /// Do not log requests.
    #[arg(long)]
    quiet: bool,
    /// Log that this server is the leader.
    #[arg(long)]
    leader: bool,
    /// Fail the health check with status 500 after this many requests; 0 for never.
    #[arg(long, default_value_t = 0)]
    unhealthy_after: u64,
}

#[derive(Debug, Args)]
struct ExampleBatchArgs {
    /// The number of random points.
    #[arg(long, default_value_t = 1_000_000)]
    samples: u64,
    /// The seed of the random generator.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// Executes a command.
///
/// # Errors
/// If the server cannot listen.
pub fn execute(command: &Command) -> Done {
    match command {
        Command::ExampleServer(args) => {
            if args.leader {
                println!("leads");
            }
            let ExampleServerArgs { port, quiet, unhealthy_after, .. } = *args;
            serve(&Server { port, quiet, unhealthy_after })?;
        }
        Command::ExampleBatch(args) => batch(args.samples, args.seed),
    }
    Ok(())
}

/// Options of the example server.
#[derive(Clone, Debug)]
struct Server {
    port: u16,
    quiet: bool,
    /// The number of requests after which the health check answers 500; 0 for never.
    unhealthy_after: u64,
}

struct ExampleState {
    requests: AtomicU64,
    draining: AtomicBool,
    unhealthy_after: u64,
    quiet: bool,
}

/// Serves until SIGTERM: `/` returns the task's name, `/healthz` its health, `/metrics` its request
/// count.
fn serve(options: &Server) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    process::block_on(&runtime, async {
        // A signal that comes before its handler is lost: the init of a task ignores it.
        let mut stop = std::pin::pin!(shutdown::requested());
        let address = ("0.0.0.0", options.port);
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on port {}", options.port))?;
        println!("listening on port {}", options.port);
        let state = Arc::new(ExampleState {
            requests: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            unhealthy_after: options.unhealthy_after,
            quiet: options.quiet,
        });
        loop {
            let accepted = tokio::select! {
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else { continue };
            let state = Arc::clone(&state);
            tokio::spawn(async move {
                let answer = hyper::service::service_fn(move |request| {
                    let state = Arc::clone(&state);
                    async move { Ok::<_, Infallible>(answer(&state, &request)) }
                });
                // A client may disconnect at any time.
                let _gone = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer)
                    .await;
            });
        }
        state.draining.store(true, Ordering::Relaxed);
        println!("stopping after {} requests", state.requests.load(Ordering::Relaxed));
        Ok(())
    })
}

fn answer(state: &ExampleState, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let requests = state.requests.fetch_add(1, Ordering::Relaxed) + 1;
    let worn_out = state.unhealthy_after > 0 && requests > state.unhealthy_after;
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (status, text) = match request.uri().path() {
        "/" | "/healthz" if worn_out || state.draining.load(Ordering::Relaxed) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "unhealthy\n".to_owned())
        }
        "/" => {
            let (user, job, task) =
                (variable("BORG_USER"), variable("BORG_JOB"), variable("BORG_TASK"));
            (StatusCode::OK, format!("hello from {user}/{job}/{task}\n"))
        }
        "/healthz" => (StatusCode::OK, "ok\n".to_owned()),
        "/metrics" => (
            StatusCode::OK,
            format!(
                "# HELP example_requests_total Requests answered.\n\
                 # TYPE example_requests_total counter\nexample_requests_total {requests}\n"
            ),
        ),
        _ => (StatusCode::NOT_FOUND, "not found: try /, /healthz or /metrics\n".to_owned()),
    };
    if !state.quiet {
        println!("{} {} {}", request.method(), request.uri().path(), status.as_u16());
    }
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

/// Estimates π from random points and prints it: a computation that ends. The generator is
/// `SplitMix64`, so a seed always gives the same estimate.
fn batch(samples: u64, seed: u64) {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 31 bits, so that the sum of two squares fits.
        (z ^ (z >> 31)) >> 33
    };
    let radius = 1_u64 << 31;
    let inside = (0..samples)
        .filter(|_| {
            let (x, y) = (next(), next());
            x * x + y * y < radius * radius
        })
        .count() as u64;
    let millionths = (u128::from(inside) * 4_000_000).checked_div(u128::from(samples)).unwrap_or(0);
    println!(
        "seed {seed}: π is about {}.{:06} after {samples} samples",
        millionths / 1_000_000,
        millionths % 1_000_000
    );
}
