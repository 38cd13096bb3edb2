//! Both ends of a forwarding over pipes, with real sockets.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream as Socket};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tokio::net::TcpListener;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Semaphore, mpsc};

use super::connections::{BrokenOff, FORWARDED_MAX, OpenConnections, carry};
use super::frames::{ForwardFrame, FrameReader};
use super::task_end::TaskEnd;
use super::{Opener, accept};

/// A server that answers with what it was sent, when that has ended.
fn echo() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _broken_off = connection.read_to_end(&mut bytes);
                let _broken_off = connection.write_all(&bytes);
            });
        }
    });
    port
}

/// Forwards a port here to one there, which the end in the task may use if it is among the ports. Returns the
/// connections at this end, too.
fn forwarding(runtime: &Runtime, there: u16, ports: Vec<u16>) -> (u16, OpenConnections) {
    let (mut to_task, from_here) = (mpsc::channel::<Vec<u8>>(4), std::io::pipe().expect("a pipe"));
    let (mut to_here, from_task) = (mpsc::channel::<Vec<u8>>(4), OpenConnections::default());
    let (reader, mut writer) = from_here;
    // From here to the task.
    std::thread::spawn(move || {
        while let Some(frame) = to_task.1.blocking_recv() {
            if writer.write_all(&frame).is_err() {
                return;
            }
        }
    });
    let task_end = TaskEnd {
        runtime: runtime.handle().clone(),
        connections: OpenConnections::default(),
        to_other: to_here.0,
        host: None,
        ports,
    };
    std::thread::spawn(move || task_end.read_all(reader));
    // And back.
    let connections = from_task.clone();
    std::thread::spawn(move || {
        let mut frames = FrameReader::default();
        while let Some(frame) = to_here.1.blocking_recv() {
            frames.push(&frame);
            for (number, frame) in frames.take_frames().expect("frames") {
                assert!(!matches!(frame, ForwardFrame::Open(_)));
                connections.deliver(number, frame).expect("it keeps to its credit");
            }
        }
    });
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
    let here = listener.local_addr().expect("an address").port();
    let open = Arc::new(Opener {
        slots: Arc::new(Semaphore::new(FORWARDED_MAX)),
        next: AtomicU32::new(0),
        connections: from_task.clone(),
        to_other: to_task.0,
    });
    runtime.spawn(accept(Arc::new(listener), there, "web/0 http".to_owned(), open));
    (here, from_task)
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().expect("a runtime")
}

fn socket(port: u16) -> Socket {
    Socket::connect(("127.0.0.1", port)).expect("it is accepted")
}

#[test]
fn connections_are_whole_and_none_waits_for_another() {
    let runtime = runtime();
    let there = echo();
    let (here, _) = forwarding(&runtime, there, vec![there]);
    // One whose answer nobody reads, with more under way than fits anywhere.
    let mut stuck = socket(here);
    let sent = vec![1; 8 << 20];
    stuck.write_all(&sent).expect("it is open");
    stuck.shutdown(Shutdown::Write).expect("it is open");
    // Twice as many as are open at once.
    let others: Vec<_> = (0..2 * FORWARDED_MAX)
        .map(|at| {
            std::thread::spawn(move || {
                let bytes: Vec<u8> = (0..=250_u8).cycle().take(100_003 + at).collect();
                let mut connection = socket(here);
                connection.write_all(&bytes).expect("it is open");
                connection.shutdown(Shutdown::Write).expect("it is open");
                let mut answer = Vec::new();
                connection.read_to_end(&mut answer).expect("an answer");
                assert!(answer == bytes, "{at}");
            })
        })
        .collect();
    others.into_iter().for_each(|other| other.join().expect("it is answered"));
    let mut answer = Vec::new();
    stuck.read_to_end(&mut answer).expect("an answer");
    assert!(answer == sent);
}

#[test]
fn what_cannot_be_forwarded_is_broken_off() {
    let runtime = runtime();
    let there = echo();
    let unused = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    for (port, ports) in [(there, vec![]), (unused, vec![unused])] {
        let (here, _) = forwarding(&runtime, port, ports);
        let error = socket(here).read(&mut [0]).expect_err("no end as of a whole answer");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    let (here, connections) = forwarding(&runtime, there, vec![there]);
    let mut open = socket(here);
    open.write_all(b"half").expect("it is open");
    // The session ends.
    let error = loop {
        connections.break_off("the session has ended");
        open.set_read_timeout(Some(std::time::Duration::from_millis(20))).expect("a timeout");
        match open.read(&mut [0]) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            other => break other.expect_err("no end as of a whole answer"),
        }
    };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_peer_that_sends_more_than_it_may_is_an_error() {
    let runtime = runtime();
    runtime.block_on(async {
        let _here = Handle::current();
        let (to_other, _frames) = mpsc::channel(4);
        let connections = OpenConnections::default();
        let end = connections.open(1, to_other.clone()).expect("there is room");
        assert!(connections.open(1, to_other.clone()).is_none(), "it is open already");
        let piece = || ForwardFrame::Bytes(vec![0; 32 << 10]);
        for _ in 0..8 {
            connections.deliver(1, piece()).expect("it is within the window");
        }
        let error = connections.deliver(1, piece()).expect_err("it is not").to_string();
        assert!(error.contains("more bytes arrive than may"), "{error}");
        connections.deliver(2, piece()).expect("what is for nobody is ignored");
        assert!(connections.deliver(1, ForwardFrame::Open(80)).is_err());
        // What takes no credit does not come without limit.
        let reset = || ForwardFrame::Reset("refused".to_owned());
        connections.deliver(1, ForwardFrame::End).expect("it ends");
        connections.deliver(1, reset()).expect("it is broken off after its end");
        for (frame, why) in [
            (ForwardFrame::Bytes(Vec::new()), "a frame has no bytes"),
            (ForwardFrame::End, "a connection ends twice"),
            (reset(), "a connection is broken off twice"),
        ] {
            let error = connections.deliver(1, frame).expect_err(why).to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(connections.open(1, to_other.clone()).is_none(), "it has not ended here");
        drop(end);
        assert!(connections.open(1, to_other).is_some(), "it has ended here");
        connections.deliver(1, piece()).expect("it has ended here");
    });
}

#[test]
fn a_connection_that_is_accepted_as_the_session_ends_is_broken_off() {
    let there = echo();
    runtime().block_on(async {
        let (to_other, frames) = mpsc::channel(4);
        let connections = OpenConnections::default();
        connections.break_off("the session has ended");
        let end = connections.open(1, to_other).expect("there is room");
        let socket = tokio::net::TcpStream::connect(("127.0.0.1", there)).await;
        let carried = tokio::spawn(carry(end, socket.expect("it is accepted")));
        drop(frames);
        let patience = std::time::Duration::from_secs(30);
        let carried = tokio::time::timeout(patience, carried).await.expect("it ends");
        let Err(BrokenOff::Here(why)) = carried.expect("it does not panic") else {
            panic!("it was broken off here");
        };
        assert_eq!(why, "the session has ended");
    });
}
