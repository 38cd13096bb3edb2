//! `bourg top`: what a cell uses, live at a terminal. Here is the event loop; [`app`] decides.

mod app;
mod bars;
mod draw;
mod fallback;
mod fetch;
mod pane;
mod programs;
mod screen;
mod table;
mod views;

#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use client::{Connection, Target};
use command::{Failure, output, runtime};
use model::Address;
use process::arguments::duration;
use process::clock::wall_clock;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use self::app::{App, KeyAction};
use self::fetch::FetchedView;
use self::programs::Programs;
use self::screen::{Screen, TerminalInput};
use self::table::Thing;
use self::views::View;

/// The capacity of the queues of keys and answers.
const QUEUE: usize = 64;
/// The shortest interval between two requests.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// What to show first.
    #[arg(value_enum, default_value_t = ViewName::Cell)]
    view: ViewName,
    /// With tasks: the job, as user/job or job.
    #[arg(required_if_eq("view", "tasks"))]
    job: Option<Address>,
    /// How often to refresh, such as 500ms.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval)]
    interval: Duration,
    /// Print the view once as text, with all columns, and end. Needs no terminal.
    #[arg(long)]
    once: bool,
}

/// The views on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ViewName {
    /// The totals of the cell, by priority band.
    Cell,
    /// The machines.
    Machines,
    /// The jobs of all users.
    Jobs,
    /// The tasks of a job.
    Tasks,
}

fn interval(text: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    match given >= INTERVAL_MIN {
        true => Ok(given),
        false => Err("the interval must be 100ms or more".to_owned()),
    }
}

impl TopArgs {
    fn view(&self) -> Result<View, Failure> {
        match (self.view, &self.job) {
            (ViewName::Tasks, Some(job)) => Ok(View::tasks(job)),
            (_, Some(job)) => {
                Err(Failure::usage(format!("error: {job} is a job: only tasks are those of a job"))
                    .next(format!("bourg top tasks {job}")))
            }
            (ViewName::Machines, None) => Ok(View::Machines),
            (ViewName::Jobs, None) => Ok(View::Jobs { user: None }),
            (ViewName::Cell | ViewName::Tasks, None) => Ok(View::Cell),
        }
    }
}

/// Implements `bourg top`.
pub(crate) fn top(cell: Target<'_>, args: &TopArgs) -> Result<ExitCode, Failure> {
    let view = args.view()?;
    if !args.once && !std::io::stdout().is_terminal() {
        return Err(Failure::usage("error: bourg top needs a terminal, and stdout is none").next(
            "bourg usage JOB prints what a job uses, bourg top --once prints one view as text",
        ));
    }
    // Nothing may write to the terminal beside the screen.
    let silent = Target { notify: |_| {}, ..cell };
    process::block_on(&runtime()?, async {
        let mut connection = Connection::open(if args.once { cell } else { silent })?;
        // What fails now fails as in every other command.
        let first = fetch::ask(&mut connection, &view).await?;
        let user = connection.user().map(str::to_owned);
        let mut app = App::new(view.clone(), user, wall_clock());
        app.answer(&view, first.0, first.1, wall_clock());
        if args.once {
            return output::print(&app.text()).map(|()| ExitCode::SUCCESS);
        }
        live(cell, connection, app, args.interval).await
    })
}

/// Shows the state on the terminal until the user quits or a signal arrives.
async fn live(
    cell: Target<'_>,
    connection: Connection,
    mut app: App,
    interval: Duration,
) -> Result<ExitCode, Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("error: bourg top: {error}"));
    let programs = Programs::of(cell)?;
    let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
    let (wanted, wanted_there) = watch::channel(app.view().clone());
    let (answers_there, mut answers) = mpsc::channel(QUEUE);
    let (texts_there, mut texts) = mpsc::channel::<(Thing, String)>(QUEUE);
    let mut fetching =
        tokio::spawn(fetch::repeat(connection, wanted_there, answers_there, interval));
    let mut screen = Screen::open(QUEUE).map_err(failed)?;
    let code = loop {
        screen.draw(&mut app).map_err(failed)?;
        tokio::select! {
            input = screen.input() => match input.map_err(failed)? {
                TerminalInput::Resized => {}
                TerminalInput::Key(key) => match app.key(key) {
                    KeyAction::None => {}
                    KeyAction::Quit => break 0,
                    KeyAction::Describe(thing) => {
                        tokio::spawn(programs.describe(thing, texts_there.clone()));
                    }
                    KeyAction::Logs(task) => {
                        screen.leave().map_err(failed)?;
                        let shown = programs.logs(&task, &mut terminated, &mut interrupted).await;
                        if shown.is_err() {
                            break SIGTERM;
                        }
                        screen.come_back().map_err(failed)?;
                    }
                },
            },
            Some(FetchedView { view, result }) = answers.recv() => match result {
                Ok((response, lacks)) => app.answer(&view, response, lacks, wall_clock()),
                Err(why) => app.fail(&view, why),
            },
            Some((thing, text)) = texts.recv() => app.describe(&thing, &text),
            ended = &mut fetching => {
                let why = ended.err().map(|error| format!(": {error}")).unwrap_or_default();
                return Err(Failure::failed(format!("error: bourg top asks no more{why}")));
            }
            _ = terminated.recv() => break SIGTERM,
            _ = interrupted.recv() => break SIGINT,
        }
        wanted.send_if_modified(|view| {
            let is_other = view != app.view();
            view.clone_from(app.view());
            is_other
        });
    };
    screen.close().map_err(failed)?;
    fetching.abort();
    Ok(ExitCode::from(code))
}

/// The exit codes of a program that a signal ends.
const SIGINT: u8 = 128 + 2;
const SIGTERM: u8 = 128 + 15;
