//! Frames of `bourg top` over made-up responses, after keys.

use api::v1;
use model::Time;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::app::{App, KeyAction, KeyPress, Mode};
use super::table::Thing;
use super::views::View;

const MIB: i64 = 1 << 20;
/// 1970-01-02 03:10:00.
const NOW: Time = Time(97_800_000_000);

fn resources(cpu_milli: i64, mib: i64) -> Option<v1::Resources> {
    Some(v1::Resources { cpu_milli, ram_bytes: mib * MIB, ..v1::Resources::default() })
}

fn used(cpu_milli: i64, mib: i64) -> Option<v1::Measured> {
    Some(v1::Measured {
        cpu_milli: Some(cpu_milli),
        memory_bytes: Some(mib * MIB),
        ..v1::Measured::default()
    })
}

fn total(running: u32, limit: i64, cpu: Option<i64>) -> Option<v1::UsageTotal> {
    Some(v1::UsageTotal {
        running,
        measured: if cpu.is_some() { running } else { 0 },
        limit: resources(limit, limit),
        reservation: resources(limit / 2, limit / 2),
        used: cpu.and_then(|cpu| used(cpu, cpu / 10)),
    })
}

fn cell() -> Option<v1::CellUsage> {
    let band = |band: v1::Band, cpu| v1::cell_usage::Band {
        band: band.into(),
        total: total(2, 2_000, Some(cpu)),
    };
    Some(v1::CellUsage {
        machines: 3,
        machines_up: 2,
        capacity: resources(8_000, 4_096),
        used: used(2_000, 1_024),
        system: used(100, 512),
        tasks: total(12, 6_000, Some(1_800)),
        bands: vec![band(v1::Band::Free, 300), band(v1::Band::Production, 1_500)],
        pending: 4,
        work: None,
    })
}

fn response() -> v1::UsageResponse {
    let time = NOW.0;
    v1::UsageResponse { time, cell: cell(), ..v1::UsageResponse::default() }
}

fn jobs() -> v1::UsageResponse {
    let job = |user: &str, job: &str, cpu| v1::JobUsage {
        user: user.to_owned(),
        job: job.to_owned(),
        priority: 200,
        band: v1::Band::Production.into(),
        tasks: 3,
        pending: 1,
        healthy: 2,
        total: total(2, 2_000, cpu),
        ..v1::JobUsage::default()
    };
    let jobs = vec![
        job("ana", "web", Some(250)),
        job("ben", "crawl", None),
        job("ben", "index", Some(1_900)),
    ];
    v1::UsageResponse { jobs, ..response() }
}

fn tasks() -> v1::UsageResponse {
    let task = |index, used| v1::TaskUsage {
        index,
        state: v1::TaskState::Running.into(),
        health: v1::Health::Healthy.into(),
        machine: format!("m{index}"),
        limit: resources(1_000, 128),
        reservation: resources(500, 64),
        used,
        ..v1::TaskUsage::default()
    };
    let tasks = vec![task(0, used(250, 32)), task(1, None), task(2, used(900, 64))];
    v1::UsageResponse { tasks, ..response() }
}

fn machines(count: u32) -> v1::UsageResponse {
    let machine = |number: u32| v1::MachineUsage {
        id: number.into(),
        name: format!("m{number}"),
        state: v1::MachineState::Up.into(),
        capacity: resources(4_000, 2_048),
        used: used(i64::from(number) * 10, 256),
        tasks: total(5, 3_000, Some(100)),
        ..v1::MachineUsage::default()
    };
    v1::UsageResponse { machines: (1..=count).map(machine).collect(), ..response() }
}

fn jobs_view() -> View {
    View::Jobs { user: None }
}

fn of_web() -> View {
    View::Tasks { user: "ana".to_owned(), job: "web".to_owned() }
}

/// A state with an answer for its first view.
fn app(view: &View, response: v1::UsageResponse) -> App {
    let mut app = App::new(view.clone(), Some("ana".to_owned()), NOW);
    app.answer(view, response, None, NOW);
    app
}

/// Types characters, and the named keys in angle brackets.
fn keys(app: &mut App, typed: &str) -> KeyAction {
    let mut action = KeyAction::None;
    let mut rest = typed;
    while let Some(first) = rest.chars().next() {
        let named = [
            ("<Enter>", KeyPress::Enter),
            ("<Esc>", KeyPress::Esc),
            ("<Back>", KeyPress::Backspace),
        ];
        let named = named.into_iter().find(|(name, _)| rest.starts_with(name));
        let (length, key) = match named {
            Some((name, key)) => (name.len(), key),
            None => (first.len_utf8(), KeyPress::Char(first)),
        };
        action = app.key(key);
        rest = &rest[length..];
    }
    action
}

fn frame(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test terminal");
    terminal.draw(|frame| app.draw(frame)).expect("it can be drawn");
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(app: &App, (width, height): (u16, u16), expected: &str) {
    let shown = frame(app, width, height);
    assert_eq!(shown.trim_end(), expected.trim_matches('\n').trim_end(), "\n{shown}\n");
}

const KEYS: &str = "? help  q quit  / filter  : view  s sort  d describe  l logs";

#[test]
fn the_cell_has_bars_and_bands_as_far_as_there_is_room() {
    let app = app(&View::Cell, response());
    check(
        &app,
        (80, 24),
        &format!(
            "
cell  03:10:00  2 of 3 machines up  12 tasks running  4 pending
CPU capacity  8
 limits       ██████████████████████████████░░░░░░░░░░ 6            75 %
 reservations ███████████████░░░░░░░░░░░░░░░░░░░░░░░░░ 3            37 %
 usage        ██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 2            25 %
RAM capacity  4 GiB
 limits       ████████████████████████████████████████ 5.8 GiB      146 %
 reservations █████████████████████████████░░░░░░░░░░░ 2.9 GiB      73 %
 usage        ██████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░ 1 GiB        25 %
disk capacity 0 B
 limits                                                0 B          -
 reservations                                          0 B          -
 usage                                                 -            -
BAND↑        RUNNING   CPU   CPU LIMIT   CPU RESERVED      RAM   RAM LIMIT
production         2   1.5           2              1  150 MiB     1.9 GiB
free               2   0.3           2              1   30 MiB     1.9 GiB
{}{KEYS}",
            "\n".repeat(7)
        ),
    );
    check(
        &app,
        (40, 10),
        "
cell  03:10:00  2 of 3 machines up
CPU    2            25 %
RAM    1 GiB        25 %
disk   -            -
BAND↑        RUNNING   CPU      RAM
production         2   1.5  150 MiB
free               2   0.3   30 MiB


? help  q quit  / filter  : view  s sort",
    );
    check(
        &app,
        (20, 5),
        "
cell  03:10:00
BAND↑        CPU
production   1.5
free         0.3
? help  q quit  / fi",
    );
}

#[test]
fn jobs_are_sorted_by_cpu_and_narrow_views_drop_columns() {
    let app = app(&jobs_view(), jobs());
    check(
        &app,
        (80, 7),
        &format!(
            "
jobs  03:10:00  2 of 3 machines up  12 tasks running  4 pending
JOB         TASKS   RUNNING   PENDING   HEALTHY  CPU↓   CPU %      RAM   RAM %
ben/index       3         2         1         2   1.9    95 %  190 MiB   9.5 %
ana/web         3         2         1         2  0.25    12 %   25 MiB   1.2 %
ben/crawl       3         2         1         2     -       -        -       -

{KEYS}"
        ),
    );
    check(
        &app,
        (40, 10),
        "
jobs  03:10:00  2 of 3 machines up
JOB         TASKS  CPU↓   CPU %      RAM
ben/index       3   1.9    95 %  190 MiB
ana/web         3  0.25    12 %   25 MiB
ben/crawl       3     -       -        -




? help  q quit  / filter  : view  s sort",
    );
    check(
        &app,
        (20, 5),
        "
jobs  03:10:00
JOB        CPU↓
ben/index   1.9
ana/web    0.25
? help  q quit  / fi",
    );
    // Too small for anything, and no panic.
    for size in [(0, 0), (1, 1), (3, 2), (1, 3), (2, 40), (300, 1)] {
        let _drawn = frame(&app, size.0, size.1);
    }
}

#[test]
fn tasks_are_in_the_order_of_their_index() {
    let app = app(&of_web(), tasks());
    check(
        &app,
        (80, 6),
        &format!(
            "
tasks ana/web  03:10:00  2 of 3 machines up  12 tasks running  4 pending
TASK↑  STATE    HEALTH   MACHINE    CPU   CPU %     RAM   RAM %   THROTTLED
    0  running  healthy  m0        0.25    25 %  32 MiB    25 %           -
    1  running  healthy  m1           -       -       -       -           -
    2  running  healthy  m2         0.9    90 %  64 MiB    50 %           -
{KEYS}"
        ),
    );
}

#[test]
fn the_selected_row_is_in_view_and_follows_its_thing() {
    let mut app = app(&View::Machines, machines(30));
    keys(&mut app, &"j".repeat(16));
    check(
        &app,
        (40, 7),
        "
machines  03:10:00  2 of 3 machines up
MACHINE   STATE   CPU↓   CPU %      RAM
m16       up      0.16     4 %  256 MiB
m15       up      0.15   3.7 %  256 MiB
m14       up      0.14   3.5 %  256 MiB
m13       up      0.13   3.2 %  256 MiB
? help  q quit  / filter  : view  s sort",
    );
    assert_eq!(app.place(), 16);
    keys(&mut app, "S");
    assert_eq!(app.place(), 13, "m14 is selected in the opposite order, too");
    keys(&mut app, "G");
    assert_eq!(app.place(), 29);
    // It has left the cell: what is now at its place is selected.
    app.answer(&View::Machines, machines(10), None, NOW);
    assert_eq!(app.place(), 9);
    keys(&mut app, "k");
    assert_eq!(app.place(), 8);
    app.answer(&View::Machines, machines(0), None, NOW);
    assert!(frame(&app, 40, 7).contains("\nnone\n"));
    assert_eq!(keys(&mut app, "jkdlsG<Enter>"), KeyAction::None);
}

#[test]
fn every_column_can_be_sorted_by_and_is_then_shown() {
    for view in [View::Cell, View::Machines, jobs_view(), of_web()] {
        let mut app = app(
            &view,
            v1::UsageResponse { jobs: jobs().jobs, tasks: tasks().tasks, ..machines(3) },
        );
        let columns = view.columns();
        let begun = app.page().sort.column;
        for step in 1..=columns.len() {
            keys(&mut app, "s");
            let column = app.page().sort.column;
            assert_eq!(column, (begun + step) % columns.len());
            let shown = frame(&app, 80, 10);
            for mark in ["↓", "↑"] {
                if mark == if columns[column].is_number { "↓" } else { "↑" } {
                    let heading = format!("{}{mark}", columns[column].heading);
                    assert!(shown.contains(&heading), "{heading}:\n{shown}");
                }
            }
        }
        keys(&mut app, "<");
        assert_eq!(app.page().sort.column, (begun + columns.len() - 1) % columns.len());
        keys(&mut app, ">");
        assert_eq!(app.page().sort.column, begun);
    }
}

#[test]
fn a_filter_is_typed_kept_and_cleared() {
    let mut app = app(&jobs_view(), jobs());
    let names = |app: &App| {
        let rows = (0..).map_while(|place| app.row(place));
        rows.map(|row| row.cells[0].text.clone()).collect::<Vec<_>>().join(" ")
    };
    for (typed, shown, last) in [
        ("/", "ben/index ana/web ben/crawl", "/_"),
        ("BE", "ben/index ben/crawl", "/BE_"),
        ("n/c", "ben/crawl", "/BEn/c_"),
        ("q", "", "/BEn/cq_"),
        ("<Back>", "ben/crawl", "/BEn/c_"),
        ("<Enter>", "ben/crawl", KEYS),
        ("<Esc>", "ben/index ana/web ben/crawl", KEYS),
        ("/web<Esc>", "ben/index ana/web ben/crawl", KEYS),
        ("/<Back>", "ben/index ana/web ben/crawl", KEYS),
    ] {
        assert_eq!(keys(&mut app, typed), KeyAction::None);
        assert_eq!(names(&app), shown, "{typed}");
        let frame = frame(&app, 80, 8);
        assert_eq!(frame.lines().last(), Some(last), "{typed}\n{frame}");
    }
    keys(&mut app, "/web<Enter>");
    assert!(frame(&app, 80, 8).starts_with("jobs  /web: 1 of 3  03:10:00  "));
}

#[test]
fn enter_goes_down_and_esc_goes_up() {
    let mut app = app(&View::Cell, response());
    keys(&mut app, "j<Enter>");
    assert_eq!((app.view(), app.page().filter.as_str()), (&jobs_view(), "free"));
    assert!(frame(&app, 80, 8).contains("waiting for the master"), "no answer yet");
    keys(&mut app, "<Esc>");
    app.answer(&jobs_view(), jobs(), None, NOW);
    assert_eq!(keys(&mut app, "/web<Enter><Enter>"), KeyAction::None);
    assert_eq!(app.view(), &of_web());
    // A late answer to another view changes nothing.
    app.answer(&jobs_view(), jobs(), None, NOW);
    assert!(app.data.is_none());
    app.answer(&of_web(), tasks(), None, NOW);
    let task = Thing::Task { user: "ana".to_owned(), job: "web".to_owned(), index: 1 };
    assert_eq!(keys(&mut app, "jl"), KeyAction::Logs(task.clone()));
    assert_eq!(keys(&mut app, "<Enter>"), KeyAction::Describe(task.clone()));
    app.describe(&task, "it runs\n\x1b]0;owned\x07");
    let shown = frame(&app, 80, 8);
    assert!(shown.starts_with("ana/web/1\nit runs\n\\u{1b}]0;owned\\u{7}\n"), "{shown}");
    // A description of something else is late.
    app.describe(&Thing::Machine("m1".to_owned()), "another");
    assert!(!frame(&app, 80, 8).contains("another"));
    keys(&mut app, "<Esc><Back>");
    assert_eq!((app.view(), app.page().filter.as_str()), (&jobs_view(), "web"));
    keys(&mut app, "<Back>");
    assert_eq!(app.view(), &View::Cell);
    keys(&mut app, "<Back><Esc>");
    assert_eq!(app.view(), &View::Cell, "nothing is above");
}

#[test]
fn a_colon_goes_to_a_view_by_its_name() {
    let mut app = app(&View::Cell, response());
    for (typed, view, says) in [
        (":machines<Enter>", View::Machines, ""),
        (":jobs<Enter>", jobs_view(), ""),
        (":jobs ben<Enter>", View::Jobs { user: Some("ben".to_owned()) }, ""),
        (":jobs mine<Enter>", View::Jobs { user: Some("ana".to_owned()) }, ""),
        (":tasks ana/web<Enter>", of_web(), ""),
        (":tasks<Enter>", of_web(), "whose? as in :tasks ana/web"),
        (":tasks a/b/c/d<Enter>", of_web(), "'a/b/c/d' has too many components"),
        (":pods<Enter>", of_web(), "no view 'pods': cell, machines, jobs"),
        (":pods<Esc>", of_web(), ""),
        (":p<Back><Back>", of_web(), ""),
        (":<Enter>", of_web(), ""),
        (":cell<Enter>", View::Cell, ""),
    ] {
        assert_eq!(keys(&mut app, typed), KeyAction::None);
        assert_eq!(app.view(), &view, "{typed}");
        assert_eq!(app.mode, Mode::Table, "{typed}");
        assert!(app.message.starts_with(says), "{typed}: {}", app.message);
        assert_eq!(app.message.is_empty(), says.is_empty(), "{typed}: {}", app.message);
    }
    assert_eq!(keys(&mut app, ":q<Enter>"), KeyAction::Quit);
    keys(&mut app, &":cell<Enter>".repeat(100));
    keys(&mut app, &format!(":{}", "x".repeat(1_000)));
    assert!(frame(&app, 300, 8).ends_with(&format!("\n:{}_", "x".repeat(100))), "bounded");
}

#[test]
fn own_jobs_are_requested_by_user_name() {
    let mut app = app(&jobs_view(), jobs());
    keys(&mut app, "m");
    assert_eq!(app.view(), &View::Jobs { user: Some("ana".to_owned()) });
    keys(&mut app, "m");
    assert_eq!(app.view(), &jobs_view());
    let mut nobody = App::new(jobs_view(), None, NOW);
    keys(&mut nobody, "m");
    assert!(nobody.message.contains(":jobs USER"), "{}", nobody.message);
}

#[test]
fn the_last_answer_stays_visible_while_no_master_answers() {
    let mut app = app(&jobs_view(), jobs());
    let later = Time(NOW.0 + 5_000_000);
    app.answer(&jobs_view(), jobs(), None, later);
    app.fail(&jobs_view(), "connection refused\x1b[2J".to_owned());
    let shown = frame(&app, 80, 8);
    let says = r"no answer since 03:10:05: connection refused\u{1b}[2J";
    assert_eq!(shown.lines().nth(1), Some(says), "{shown}");
    assert!(shown.contains("ana/web"), "{shown}");
    assert!(frame(&app, 20, 5).contains("\nno answer since 03:1\n"));
    app.answer(&jobs_view(), jobs(), None, later);
    assert!(!frame(&app, 80, 8).contains("no answer"));
    // Part of the answer is missing.
    let partly = v1::UsageResponse { missing: vec![2], ..jobs() };
    app.answer(&jobs_view(), partly, None, later);
    assert!(frame(&app, 80, 8).contains("\nno answer from replica 2 of the master: "));
    app.answer(&jobs_view(), jobs(), Some("usage: not known here".to_owned()), later);
    assert!(frame(&app, 80, 8).contains("\nusage: not known here\n"));
}

#[test]
fn help_is_a_pane_and_q_quits_except_in_typed_text() {
    let mut app = app(&jobs_view(), jobs());
    assert_eq!(keys(&mut app, "?"), KeyAction::None);
    assert!(frame(&app, 80, 24).contains("\ns > <          sort by the next column"));
    app.resize(10);
    keys(&mut app, "G");
    assert!(frame(&app, 80, 10).contains("column that does not fit is left out"));
    assert_eq!(app.clone().key(KeyPress::Char('q')), KeyAction::Quit);
    assert_eq!(keys(&mut app, "<Esc>"), KeyAction::None);
    assert_eq!(app.mode, Mode::Table);
    assert_eq!(app.clone().key(KeyPress::Char('q')), KeyAction::Quit);
    assert_eq!(keys(&mut app, "/q"), KeyAction::None);
    assert_eq!(app.key(KeyPress::Interrupt), KeyAction::Quit);
}

#[test]
fn the_text_of_a_view_is_complete() {
    let text = app(&jobs_view(), jobs()).text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[1].starts_with("JOB        BAND        PRIORITY  TASKS  "), "{text}");
    assert!(lines[1].ends_with("DISK RATE  FAILURES"), "{text}");
    assert!(lines[2].starts_with("ben/index  production  200       3      2        1"), "{text}");
}
