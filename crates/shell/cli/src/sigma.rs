//! `bourg sigma`: the web UI on this computer, and links that sign a browser in.

use std::ffi::OsStr;
use std::io::BufRead as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use ::sigma::{Cell, Sessions, Sigma};
use api::v1;
use clap::{Args, Subcommand};
use client::{Connection, Target, USER_STEM};
use command::{Code, Done, Failure, output, with_cell};
use model::Time;
use process::clock::wall_clock;
use process::shutdown;
use rpc::transport::{Peer, Refusals};
use rpc::{Credentials, WebCredentials};

/// The flags of the web UI on this computer, or how to get a link.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SigmaArgs {
    #[command(subcommand)]
    command: Option<Subcommands>,
    /// The address to listen on, which only this computer should reach.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Print a link that signs a browser in to the Sigma of a master replica as you, once, and open it.
    ///
    /// The link is valid for five minutes. The first browser that uses it acts as you until the session ends:
    /// after 12 hours, after an hour without a request, or when your certificate ends or is revoked.
    Open(OpenArgs),
}

#[derive(Debug, Args)]
struct OpenArgs {
    /// Only print the link. Without this flag it is also opened, if this session has a display.
    #[arg(long)]
    print: bool,
}

pub(crate) fn execute(cell: Target<'_>, args: &SigmaArgs) -> Done {
    match &args.command {
        Some(Subcommands::Open(args)) => with_cell(cell, async |connection| {
            let answer = link(connection).await?;
            output::print(&format!("{}\n", answer.link))?;
            let left = Time(answer.expires).since(wall_clock());
            output::say(&format!("valid once, for {left}\n"));
            if !args.print {
                show(&answer.link);
            }
            Ok(())
        }),
        None => serve(cell, args.listen),
    }
}

/// A link of a replica that serves Sigma.
async fn link(mut connection: Connection) -> Result<v1::IssueSigmaLinkResponse, Failure> {
    let replicas = connection.cell_file().0.masters.len().max(1);
    let mut last = None;
    for _ in 0..replicas {
        let request = v1::IssueSigmaLinkRequest {};
        let answer = connection.ask(request, async |mut client, request| {
            client.access.issue_sigma_link(request).await
        });
        match answer.await {
            Err(client::Error::Answer(status))
                if status.code() == tonic::Code::FailedPrecondition =>
            {
                last = Some(Failure::from(status));
                connection.elsewhere();
            }
            answer => return Ok(answer?),
        }
    }
    let none = Failure::new(Code::Failed, "error: no replica of the master serves Sigma");
    match last {
        Some(_) => Err(none.next("bourg sigma, or start the masters with --sigma IP:PORT")),
        None => Err(none),
    }
}

/// Opens a link in a browser, if there is a display.
fn show(link: &str) {
    let has = |name: &str| std::env::var_os(name).is_some_and(|value| value != OsStr::new(""));
    if has("DISPLAY") || has("WAYLAND_DISPLAY") {
        let mut open = Command::new("xdg-open");
        open.arg(link).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // The link is printed in any case.
        let _without = open.spawn();
    }
}

/// Serves the web UI to the user of a client directory.
fn serve(cell: Target<'_>, listen: SocketAddr) -> Done {
    let failed = |error: &dyn std::fmt::Display| Failure::failed(format!("error: {error}"));
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().map_err(|error| failed(&error))?;
    process::block_on(&runtime, async {
        let connection = Connection::open(cell)?;
        let credentials = Credentials::read(connection.directory(), USER_STEM);
        let credentials = credentials.map_err(|error| failed(&error))?;
        let listener = std::net::TcpListener::bind(listen)
            .map_err(|error| failed(&format!("cannot listen on {listen}: {error}")))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let names = [address.ip().to_string(), "localhost".to_owned()];
        let web = WebCredentials::self_signed(&names, credentials.ca_pem());
        let web = web.map_err(|error| failed(&error))?;
        let sessions = Sessions::new(format!("https://{address}"));
        let me = Peer {
            identity: credentials.identity().clone(),
            serial: credentials.serial().to_vec(),
            issued: SystemTime::now(),
            expires: credentials.expires(),
            address,
        };
        let print = |sessions: &Sessions| {
            let link = sessions.link(me.clone()).map_err(|error| failed(&error))?;
            output::print(&format!("{}\n", link.address))
        };
        output::say(&format!("Sigma {} as {}\n", sessions.origin(), credentials.identity()));
        print(&sessions)?;
        output::say("valid once, for five minutes; Enter prints another link, Ctrl-C ends\n");
        let mut lines = lines();
        let stop = shutdown::requested();
        let me_alone = Alone { cell: credentials.cell().to_owned(), connection };
        let sigma = Sigma::new(me_alone, sessions.clone());
        let refusals = Refusals::default();
        let serving = sigma.serve(listener, &web, &refusals, stop);
        tokio::pin!(serving);
        loop {
            tokio::select! {
                served = &mut serving => return Ok(served?),
                Some(()) = lines.recv() => print(&sessions)?,
            }
        }
    })
}

/// A message for each line of standard input.
fn lines() -> tokio::sync::mpsc::Receiver<()> {
    let (line, lines) = tokio::sync::mpsc::channel(1);
    // It ends with the process.
    std::thread::spawn(move || {
        let mut read = std::io::stdin().lock().lines();
        while let Some(Ok(_)) = read.next() {
            if line.blocking_send(()).is_err() {
                return;
            }
        }
    });
    lines
}

/// The cell of a user, for that user alone.
struct Alone {
    cell: String,
    connection: Connection,
}

impl Cell for Alone {
    fn name(&self) -> &str {
        &self.cell
    }

    fn connect(&self, _: &Peer) -> Result<Connection, client::Error> {
        Ok(self.connection.clone())
    }
}
