//! What a terminal does with requests and output.

use super::*;

fn sender() -> mpsc::Sender<ToTerminal> {
    mpsc::channel(1).0
}

#[test]
fn terminals_are_bounded_and_belong_to_a_session() {
    let terminals = Terminals::default();
    let open = |session: u8| terminals.open([session; 32], &format!("u{session}"), sender());
    let mine: Vec<_> = (0..TERMINALS_OF_ONE).map(|_| open(1).expect("a place")).collect();
    let problem = open(1).err().expect("one too many");
    assert_eq!(problem.status, StatusCode::TOO_MANY_REQUESTS);
    let id = mine[0].id;
    assert!(terminals.find([1; 32], id).is_some());
    assert!(terminals.find([2; 32], id).is_none(), "it is of another session");
    drop(mine);
    assert!(terminals.find([1; 32], id).is_none());
    let mut all = Vec::new();
    for session in 0..=u8::MAX {
        match open(session) {
            Ok(place) => all.push(place),
            Err(problem) => panic!("{session}: {}", problem.what),
        }
    }
    assert_eq!(all.len(), TERMINALS_MAX);
    assert!(open(0).is_err());
    let last = all.pop().map(|place| place.id);
    let next = open(0).expect("a place");
    assert!(Some(next.id) > last, "no number is used twice");
}

#[test]
fn a_user_has_so_many_terminals_in_all_sessions() {
    let terminals = Terminals::default();
    let open = |session: usize, user| {
        terminals.open([u8::try_from(session).expect("few"); 32], user, sender())
    };
    let all = (0..TERMINALS_OF_USER).map(|number| open(number, "ana"));
    let all: Vec<_> = all.map(|place| place.expect("a place")).collect();
    assert!(open(200, "ana").is_err());
    assert!(open(200, "eva").is_ok());
    drop(all);
    assert!(open(200, "ana").is_ok());
}

#[test]
fn output_beyond_the_time_of_a_frame_waits() {
    let mut terminal = terminal();
    terminal.take(output(Output::Stdout(b"x".repeat(3 * WORK_BYTES))));
    terminal.take(output(Output::Exited(0)));
    terminal.interpret(Duration::ZERO);
    assert_eq!(terminal.unread.len(), 3 * WORK_BYTES);
    let (events, mut ready) = mpsc::channel(QUEUE);
    terminal.obey(ToTerminal::Show(events));
    assert!(!terminal.show(), "the end comes after all output");
    assert!(ready.try_recv().is_ok());
    terminal.interpret(Duration::MAX);
    assert!(terminal.unread.is_empty() && terminal.show());
}

#[test]
fn output_that_scrolls_away_costs_no_time() {
    let mut terminal = terminal();
    for _ in 0..10_000 {
        terminal.take(output(Output::Stdout(b"y\r\n".to_vec())));
    }
    terminal.interpret(Duration::ZERO);
    assert!(terminal.unread.len() < 100, "{}", terminal.unread.len());
}

#[test]
fn keys_wait_until_they_are_granted() {
    let mut typed = Typed::default();
    assert!(typed.add(b"hello") && !typed.is_ready());
    typed.granted += 3;
    assert!(typed.is_ready());
    assert_eq!((typed.take(), typed.granted), (b"hel".to_vec(), 0));
    assert!(!typed.is_ready());
    typed.granted += 100;
    assert_eq!((typed.take(), typed.granted), (b"lo".to_vec(), 98));
    assert!(!typed.is_ready());
}

#[test]
fn keys_that_are_not_read_are_bounded() {
    let mut typed = Typed::default();
    let most = vec![b'x'; WAITING_BYTES_MAX];
    assert!(typed.add(&most));
    assert!(!typed.add(b"y"), "all or nothing");
    assert!(typed.add(b""));
    typed.granted = u64::MAX;
    assert_eq!(typed.take().len(), PIECE_BYTES);
    assert!(typed.add(b"y"));
}

fn terminal() -> Terminal {
    Terminal {
        screen: Interpreter::new(Size { rows: 5, columns: 20 }),
        typed: Typed::default(),
        is_resized: false,
        is_changed: false,
        unread: VecDeque::new(),
        viewer: None,
        seen: Instant::now(),
        used: Instant::now(),
        end: None,
    }
}

fn output(output: Output) -> Result<Option<v1::ExecOutput>, Status> {
    Ok(Some(v1::ExecOutput { output: Some(output) }))
}

#[tokio::test]
async fn a_slow_browser_gets_the_newest_screen_later() {
    let mut terminal = terminal();
    assert!(!terminal.show(), "nobody looks");
    let (events, mut ready) = mpsc::channel(1);
    terminal.obey(ToTerminal::Show(events));
    terminal.take(output(Output::Stdout(b"one".to_vec())));
    terminal.interpret(Duration::MAX);
    assert!(!terminal.show() && !terminal.is_changed);
    terminal.take(output(Output::Stdout(b"\r\ntwo".to_vec())));
    terminal.interpret(Duration::MAX);
    assert!(!terminal.show());
    assert!(terminal.is_changed, "there was no room");
    assert!(ready.recv().await.is_some());
    assert!(!terminal.show() && !terminal.is_changed);
    assert!(ready.recv().await.is_some());
    assert!(!terminal.show());
    assert!(ready.try_recv().is_err(), "nothing has changed");
    terminal.take(output(Output::Exited(3)));
    assert!(terminal.show(), "the end is the last event");
}

#[tokio::test]
async fn the_command_is_told_the_size_before_keys() {
    let mut terminal = terminal();
    terminal.obey(ToTerminal::Resize(Size { rows: 5, columns: 20 }));
    assert!(!terminal.is_resized, "it is the same");
    let (fits, answer) = oneshot::channel();
    terminal.obey(ToTerminal::Keys(Bytes::from_static(b"ls\r"), fits));
    assert_eq!(answer.await, Ok(true));
    terminal.obey(ToTerminal::Resize(Size { rows: 30, columns: 90 }));
    terminal.take(output(Output::Granted(64)));
    let input = |input| v1::ExecRequest {
        message: Some(Message::Input(v1::ExecInput { input: Some(input) })),
    };
    let size = v1::ExecWindow { rows: 30, columns: 90 };
    assert_eq!(terminal.input(), input(Input::Window(size)));
    assert_eq!(terminal.input(), input(Input::Stdin(b"ls\r".to_vec())));
    assert!(!terminal.is_resized && !terminal.typed.is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_terminal_that_nobody_looks_at_is_abandoned() {
    let mut terminal = terminal();
    assert!(!terminal.is_abandoned());
    let (events, ready) = mpsc::channel(1);
    terminal.obey(ToTerminal::Show(events));
    tokio::time::advance(2 * AWAY_MAX).await;
    assert!(!terminal.is_abandoned());
    drop(ready);
    tokio::time::advance(AWAY_MAX / 2).await;
    assert!(!terminal.is_abandoned());
    tokio::time::advance(AWAY_MAX).await;
    assert!(terminal.is_abandoned());
}
