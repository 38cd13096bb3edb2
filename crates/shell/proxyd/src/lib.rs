//! `bourg proxy`: a TCP balancer for a service.
//!
//! It follows the service by a watch of its name, and goes on with the last known tasks while no master
//! answers. Which task gets a connection is decided in [`backends`].
//!
//! Not here: following and status pages, which every long-running client has (`clientd`).

mod backends;
mod forward;
mod status;

use std::net::SocketAddr;
use std::time::Duration;

use api::v1;
use clap::Args;
use client::Target;
use clientd::{RETRY, follow, serve_status, watch_names};
use command::{Done, Failure, job_address, output, runtime};
use model::Address;
use process::arguments::{duration, service_name};
use process::shutdown;
use tokio::net::TcpListener;

use self::forward::Proxy;

/// The flags of `bourg proxy`.
#[derive(Debug, Args)]
pub struct ProxyArgs {
    /// The service: user/name, or name.
    #[arg(value_parser = service_name)]
    service: Address,
    /// Where to listen for connections. Port 0 is a free one, which is printed.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The maximum number of open connections; further ones are closed at once.
    #[arg(long, value_name = "NUMBER", default_value = "10000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// How long open connections may go on after SIGTERM.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    drain: Duration,
    /// How long to wait for a task to accept a connection.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    connect_timeout: Duration,
    /// Serve /healthz and Prometheus' /metrics here.
    #[arg(long, value_name = "IP:PORT")]
    status: Option<SocketAddr>,
}

/// Forwards connections until SIGTERM or Ctrl-C.
///
/// # Errors
/// If there is no such service, no address to listen at, or no cell at the start.
pub fn start(cell: Target<'_>, args: &ProxyArgs) -> Done {
    process::block_on(&runtime()?, async {
        // Both signals are handled from here on.
        let mut stop = std::pin::pin!(shutdown::requested());
        let service = known(cell, &args.service).await?;
        let name = format!("{}/{}", service.user, service.name);
        let listener = listen(args.listen).await?;
        let address = listener.local_addr().map_err(|error| {
            Failure::failed(format!("error: the address of --listen is unknown: {error}"))
        })?;
        let proxy = Proxy::new(args.connections, args.connect_timeout);
        let mut serving = None;
        let mut text = format!("proxy for {name} listens at {address}\n");
        if let Some(address) = args.status {
            let status = listen(address).await?;
            if let Ok(address) = status.local_addr() {
                text += &format!("status at http://{address}/metrics\n");
            }
            serving = Some(tokio::spawn(serve_status(status, proxy.clone())));
        }
        let mut watch = std::pin::pin!(watch(cell, &service, &proxy));
        tokio::select! {
            error = &mut watch => return Err(error),
            () = proxy.heard() => {}
            () = &mut stop => return Ok(()),
        }
        output::print(&text)?;
        tokio::select! {
            error = &mut watch => return Err(error),
            () = proxy.accept(listener) => {}
            () = &mut stop => {}
        }
        // New connections are refused from here on, by the system.
        let left = tokio::select! {
            error = &mut watch => return Err(error),
            left = proxy.drain(args.drain) => left,
        };
        if left > 0 {
            output::print(&format!("{left} connections were open after --drain and are closed\n"))?;
        }
        if let Some(serving) = serving {
            serving.abort();
        }
        Ok(())
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure::failed(format!("error: cannot listen at {address}: {error}")))
}

/// The service, which must exist at the start.
async fn known(cell: Target<'_>, address: &Address) -> Result<v1::Service, Failure> {
    let mut connection = client::Connection::open(cell)?;
    let v1::JobAddress { user, job: name } = job_address(address);
    let request = v1::ServicesRequest { service: Some(v1::ServiceName { user, name }), at: None };
    let answer = connection
        .ask(request, async |mut client, request| client.services.list(request).await)
        .await?;
    let service = answer.services.into_iter().next().and_then(|status| status.service);
    service.ok_or_else(|| Failure::failed(format!("error: there is no service {address}")))
}

/// Follows the service. It ends only if the cell cannot be followed at all before anything is known.
async fn watch(cell: Target<'_>, service: &v1::Service, proxy: &Proxy) -> Failure {
    let jobs = vec![v1::JobAddress { user: service.user.clone(), job: service.name.clone() }];
    let mut request = v1::WatchNamesRequest {
        query: Some(v1::NameQuery { jobs, labels: String::new() }),
        after: 0,
    };
    loop {
        let followed = async {
            let mut connection = client::Connection::open(cell)?;
            let open = async |client, request| watch_names(client, request, 0).await;
            let from = request.clone();
            follow(&mut connection, from, true, open, |next, change: v1::NamesChange| {
                take_in(proxy, &change);
                if !change.more {
                    (next.after, request.after) = (change.index, change.index);
                }
                Ok(())
            })
            .await
        };
        if let Err(error) = followed.await {
            if !proxy.has_heard() {
                return error;
            }
            eprintln!("the cell does not answer, the last known tasks are used: {error}");
        }
        tokio::time::sleep(RETRY).await;
    }
}

fn take_in(proxy: &Proxy, change: &v1::NamesChange) {
    match change.records.first() {
        Some(record) => proxy.update(Some(record)),
        None if change.complete || !change.gone.is_empty() => proxy.update(None),
        None => {}
    }
}
