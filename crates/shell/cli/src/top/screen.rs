//! The terminal: the alternate screen, and keys from a thread of their own.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, enable_raw_mode};
use ratatui::{DefaultTerminal, Terminal};
use tokio::sync::mpsc;

use super::app::{App, KeyPress};

/// How often the thread that reads keys looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// What comes from the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TerminalInput {
    Key(KeyPress),
    Resized,
}

/// The terminal in raw mode, on its alternate screen. It is restored when this is dropped, and by
/// a hook on a panic.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    inputs: mpsc::Receiver<io::Result<TerminalInput>>,
    is_over: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    pub(super) fn open(queue: usize) -> io::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        let (there, inputs) = mpsc::channel(queue);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let reader = std::thread::Builder::new().name("keys".to_owned());
        let reader = reader.spawn(move || read(&there, &over));
        let mut screen = Self { terminal, inputs, is_over, reader: None };
        screen.reader = Some(reader?);
        Ok(screen)
    }

    /// Draws the state in the current size of the terminal.
    pub(super) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        app.resize(self.terminal.size()?.height);
        self.terminal.draw(|frame| app.draw(frame)).map(|_| ())
    }

    /// The next input.
    pub(super) async fn input(&mut self) -> io::Result<TerminalInput> {
        match self.inputs.recv().await {
            Some(input) => input,
            None => Err(io::Error::other("the terminal is gone")),
        }
    }

    /// Leaves the terminal to another program, as it was.
    pub(super) fn leave(&mut self) -> io::Result<()> {
        self.terminal.show_cursor()?;
        ratatui::try_restore()
    }

    /// Takes the terminal again. What was typed meanwhile is dropped.
    pub(super) fn come_back(&mut self) -> io::Result<()> {
        // Not `try_init`, which would add another hook for panics, and not `Terminal::clear`, which
        // asks the terminal where the cursor is while the other thread reads the answer.
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Clear(ClearType::All))?;
        while let Ok(input) = self.inputs.try_recv() {
            input?;
        }
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// Restores the terminal.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.end_reader();
        ratatui::try_restore()
    }

    fn end_reader(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.inputs.close();
        let _ended = self.reader.take().map(JoinHandle::join);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.reader.is_some() {
            self.end_reader();
            ratatui::restore();
        }
    }
}

/// Reads from the terminal until it is over.
fn read(there: &mpsc::Sender<io::Result<TerminalInput>>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let input = match event::poll(LOOK) {
            Ok(false) => continue,
            Ok(true) => event::read().map(|event| input(&event)),
            Err(error) => Err(error),
        };
        let is_broken = input.is_err();
        let Some(input) = input.transpose() else { continue };
        if there.blocking_send(input).is_err() || is_broken {
            return;
        }
    }
}

fn input(event: &Event) -> Option<TerminalInput> {
    match event {
        Event::Resize(..) => Some(TerminalInput::Resized),
        Event::Key(key) if key.kind != KeyEventKind::Release => {
            self::key(*key).map(TerminalInput::Key)
        }
        _ => None,
    }
}

fn key(key: KeyEvent) -> Option<KeyPress> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => KeyPress::Interrupt,
        KeyCode::Char('h') if is_control => KeyPress::Backspace,
        KeyCode::Char(_) if is_control => return None,
        KeyCode::Char(character) => KeyPress::Char(character),
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::Left => KeyPress::Left,
        KeyCode::Right => KeyPress::Right,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::Home,
        KeyCode::End => KeyPress::End,
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Esc,
        KeyCode::Backspace => KeyPress::Backspace,
        _ => return None,
    })
}
