//! The output of a task: its last lines, searched by its machine, and where it is followed and
//! downloaded.

use std::collections::VecDeque;
use std::time::Duration;

use api::v1;
use api::v1::log_start::From;
use api::v1::moment::At;
use axum::http::StatusCode;
use maud::{Markup, html};
use model::Time;

use super::{Page, Part, job as job_page, quoted, task};
use crate::address::{Place, Query, TaskName};
use crate::asker::PageClient;
use crate::problem::Problem;
use crate::show;

/// How many of the last lines are shown: by default, and at most.
const TAIL: u32 = 500;
const TAIL_MAX: u32 = 5_000;
/// The most bytes of a line; longer ones are split.
const LINE_BYTES_MAX: usize = 8 << 10;
/// The most bytes of a page; the oldest lines give way.
const PAGE_BYTES_MAX: usize = 2 << 20;
/// The most bytes of a regular expression, as in the API.
const GREP_BYTES_MAX: usize = 1_024;
/// The most bytes of an escape sequence of a terminal; longer ones are shown as text.
const ESCAPE_BYTES_MAX: usize = 64;
/// How long a page waits for the machine; then it shows what there is.
const PATIENCE: Duration = Duration::from_secs(5);
/// The fields of a query that say what is read.
const FIELDS: [&str; 5] = ["stream", "grep", "previous", "tail", "until"];

/// The request for the output of a task.
pub(crate) fn request(
    task: TaskName<'_>,
    query: &Query,
    follow: bool,
) -> Result<v1::LogsRequest, Problem> {
    let stream = match query.get("stream") {
        "stdout" => v1::LogStream::Stdout,
        "stderr" => v1::LogStream::Stderr,
        "" | "both" => v1::LogStream::StdoutAndStderr,
        other => {
            let known = format!("stream is both, stdout or stderr, not '{other}'");
            return Err(Problem::bad(known));
        }
    };
    let previous = query.get("previous") == "1";
    let until = match query.get("until") {
        "" => 0,
        text => text.parse().map_err(|_| Problem::bad("until is in microseconds since 1970"))?,
    };
    if follow && (previous || until > 0) {
        return Err(Problem::bad("What has ended cannot be followed."));
    }
    let grep = query.get("grep");
    if grep.len() > GREP_BYTES_MAX {
        return Err(Problem::bad(format!("A search has at most {GREP_BYTES_MAX} bytes.")));
    }
    let start = match query.get("all") {
        "1" => None,
        _ => Some(v1::LogStart { from: Some(From::TailLines(tail(query)?)) }),
    };
    Ok(v1::LogsRequest {
        job: Some(v1::JobAddress { user: task.user.to_owned(), job: task.job.to_owned() }),
        tasks: Some(task::one(task.index)),
        stream: stream.into(),
        start,
        follow,
        until,
        grep: grep.to_owned(),
        previous,
        ..v1::LogsRequest::default()
    })
}

fn tail(query: &Query) -> Result<u32, Problem> {
    match query.get("tail") {
        "" => Ok(TAIL),
        text => text
            .parse()
            .ok()
            .filter(|tail| (1..=TAIL_MAX).contains(tail))
            .ok_or_else(|| Problem::bad(format!("tail is 1 to {TAIL_MAX}, not '{text}'"))),
    }
}

/// Puts chunks of output together to lines, marked up. Each stream has its own lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    open: [IncompleteLine; 2],
}

/// The beginning of a line that is not complete.
#[derive(Debug, Default)]
struct IncompleteLine {
    is_stderr: bool,
    generation: u32,
    /// When it began.
    at: u64,
    text: Vec<u8>,
}

impl Lines {
    /// The lines that a chunk completes.
    pub(crate) fn add(&mut self, chunk: &v1::LogChunk) -> Vec<String> {
        let mut lines = Vec::new();
        let is_stderr = chunk.stream() == v1::LogStream::Stderr;
        let generation = chunk.instance.map_or(0, |instance| instance.generation);
        let open = &mut self.open[usize::from(is_stderr)];
        let is_new_incarnation = generation != open.generation && open.generation != 0;
        if is_new_incarnation || chunk.lost_bytes > 0 {
            // The rest of that line was never written, or is lost.
            lines.extend(open.end());
        }
        if !chunk.note.is_empty() {
            lines.push(note(&chunk.note));
        }
        if is_new_incarnation {
            lines.push(note(&format!("incarnation {generation} begins")));
        }
        if chunk.lost_bytes > 0 {
            lines.push(note(&format!("{} bytes before this were discarded", chunk.lost_bytes)));
        }
        if chunk.data.is_empty() {
            return lines;
        }
        (open.is_stderr, open.generation) = (is_stderr, generation);
        for piece in chunk.data.split_inclusive(|byte| *byte == b'\n') {
            if open.text.is_empty() {
                open.at = chunk.at;
            }
            open.text.extend_from_slice(piece);
            if open.text.last() == Some(&b'\n') {
                open.text.pop();
                lines.extend(open.split(LINE_BYTES_MAX));
                let rest = std::mem::take(&mut open.text);
                lines.push(open.line(&rest));
            } else {
                lines.extend(open.split(LINE_BYTES_MAX));
            }
        }
        lines
    }

    /// The lines that have no end, when no more comes.
    pub(crate) fn end(&mut self) -> Vec<String> {
        self.open.iter_mut().filter_map(IncompleteLine::end).collect()
    }
}

impl IncompleteLine {
    fn end(&mut self) -> Option<String> {
        let text = std::mem::take(&mut self.text);
        (!text.is_empty()).then(|| self.line(&text))
    }

    /// Takes pieces of a long line away until the rest is short enough.
    fn split(&mut self, most: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut from = 0;
        while self.text.len() - from > most {
            let to = boundary(&self.text, from + most);
            lines.push(self.line(&self.text[from..to]));
            from = to;
        }
        self.text.drain(..from);
        lines
    }

    fn line(&self, text: &[u8]) -> String {
        let at = (self.at > 0).then_some(self.at);
        let markup = html! {
            div class=(if self.is_stderr { "line stderr" } else { "line" }) {
                @if let Some(at) = at {
                    @let exact = show::exact(at);
                    time datetime=(process::moment::rfc3339(Time(at))) title={ (exact) " UTC" } { (of_day(&exact)) }
                }
                (visible(text))
            }
        };
        markup.into_string()
    }
}

/// The time of day of `2026-11-19 03:10:00.123`.
fn of_day(exact: &str) -> &str {
    exact.split_once(' ').map_or(exact, |(_, time)| time)
}

fn note(text: &str) -> String {
    html! { div class="line note" { (visible(text.as_bytes())) } }.into_string()
}

/// Where a text can be cut at `at` or a little before, without cutting a character of it.
fn boundary(text: &[u8], at: usize) -> usize {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    (at.saturating_sub(3)..=at).rev().find(|at| !is_inside(*at)).filter(|at| *at > 0).unwrap_or(at)
}

/// The text of a line: what is no UTF-8 is replaced, colours and other escape sequences of terminals are
/// left out, and control characters can be seen, also those that would change the order of letters.
fn visible(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = String::from_utf8_lossy(line);
    let mut text = String::with_capacity(line.len());
    let mut rest = line.as_ref();
    while let Some(character) = rest.chars().next() {
        if let Some(after) = after_escape(rest) {
            rest = after;
            continue;
        }
        match character {
            '\t' => text.push('\t'),
            '\0'..='\x1f' => {
                text.push(char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'));
            }
            '\x7f' => text.push('␡'),
            '\u{80}'..='\u{9f}' => text.extend(character.escape_unicode()),
            other if is_hidden(other) => text.extend(other.escape_unicode()),
            other => text.push(other),
        }
        rest = &rest[character.len_utf8()..];
    }
    text
}

/// Whether a character changes the direction or the lines of a text without being seen.
pub(crate) fn is_hidden(character: char) -> bool {
    matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// What follows an escape sequence (CSI, such as that of a colour) at the beginning of a text.
fn after_escape(text: &str) -> Option<&str> {
    let body = text.strip_prefix("\x1b[")?;
    let end =
        body.bytes().take(ESCAPE_BYTES_MAX).position(|byte| !(0x20..=0x3f).contains(&byte))?;
    (0x40..=0x7e).contains(body.as_bytes().get(end)?).then(|| &body[end + 1..])
}

/// The last lines of a log.
#[derive(Debug, Default)]
struct Last {
    lines: VecDeque<String>,
    bytes: usize,
    /// Whether there were older ones.
    is_cut: bool,
}

impl Last {
    fn add(&mut self, lines: Vec<String>, most: usize) {
        for line in lines {
            self.bytes += line.len();
            self.lines.push_back(line);
            while self.lines.len() > most || self.bytes > PAGE_BYTES_MAX {
                let Some(oldest) = self.lines.pop_front() else { break };
                self.bytes -= oldest.len();
                self.is_cut = true;
            }
        }
    }
}

pub(super) async fn page(
    asker: &mut PageClient,
    subject: TaskName<'_>,
    query: &Query,
) -> Result<Page, Problem> {
    let (_, status) = asker.job(subject.user, subject.job).await?;
    task::find(&status, subject.job, subject.index)?;
    // At a past moment: what had been written until then.
    let until = match asker.at.and_then(|at| at.at) {
        None => None,
        Some(At::Time(time)) => Some(time),
        Some(At::Index(_)) => Some(asker.cell_status().await?.time),
    };
    let mut asked = query.clone();
    if let Some(until) = until {
        asked = asked.with("until", &until.to_string());
    }
    let request = request(subject, &asked, false)?;
    let most = usize::try_from(tail(query)?).unwrap_or(usize::MAX);
    let (last, problem) = match read(asker, request, most).await {
        (_, Some(problem)) if problem.is_sign_out() => return Err(problem),
        read => read,
    };
    let shown = shown(asker, subject, &asked, &last, problem.as_ref());
    let heading = heading(asker, subject, query);
    let command = command(subject, query, until, most);
    let title = format!("Logs of {subject}");
    Ok(Page::live(title, heading, command, vec![Part::new("output", shown)]).still())
}

/// Reads until everything is there that has been written so far, and why it ended early.
async fn read(
    asker: &mut PageClient,
    request: v1::LogsRequest,
    most: usize,
) -> (Last, Option<Problem>) {
    let mut last = Last::default();
    let mut lines = Lines::default();
    let until = tokio::time::Instant::now() + PATIENCE;
    let reads = async {
        let mut chunks = asker.stream(request, async |mut c, r| c.tasks.logs(r).await).await?;
        while let Some(chunk) = chunks.message().await.map_err(client::Error::Answer)? {
            if chunk.caught_up {
                break;
            }
            last.add(lines.add(&chunk), most);
        }
        Ok::<_, Problem>(())
    };
    let problem = match tokio::time::timeout_at(until, reads).await {
        Ok(read) => read.err(),
        Err(_late) => {
            let seconds = PATIENCE.as_secs();
            Some(Problem::bad(format!("Not everything was read within {seconds} seconds.")))
        }
    };
    last.add(lines.end(), most);
    (last, problem)
}

fn command(task: TaskName<'_>, query: &Query, until: Option<u64>, most: usize) -> String {
    let mut command = format!("bourg logs {task} -n {most}");
    if matches!(query.get("stream"), "stdout" | "stderr") {
        command += &format!(" --stream {}", query.get("stream"));
    }
    if !query.get("grep").is_empty() {
        command += &format!(" --grep {}", quoted(query.get("grep")));
    }
    if query.get("previous") == "1" {
        command += " --previous";
    }
    if let Some(until) = until {
        command += &format!(" --until {}", quoted(&show::exact(until)));
    }
    command
}

fn heading(asker: &PageClient, task: TaskName<'_>, query: &Query) -> Markup {
    let TaskName { user, job, index } = task;
    let here = asker.to_task(user, job, index);
    let may_run = asker.at.is_none() && asker.rights.may_run_in_tasks_of(user);
    let logs = own_page(task);
    let stream = |value: &str, text: &str| {
        html! { option value=(value) selected[query.get("stream") == value] { (text) } }
    };
    html! {
        h1 { "Logs of " a href=(asker.to_job(user, job)) { (user) "/" (job) } "/" a href=(here) { (index) } }
        p class="links" {
            a href=(here) data-key="u" { "Task" }
            @if may_run { a href=(job_page::path(&here, "/terminal")) data-key="s" { "Terminal" } }
        }
        form class="filter" action=(logs.to_string()) {
            @if let Some(at) = &asker.address.at { input type="hidden" name="at" value=(at); }
            label { "Stream" select name="stream" {
                (stream("both", "both")) (stream("stdout", "stdout")) (stream("stderr", "stderr"))
            } }
            label { "Search" input type="search" name="grep" value=(query.get("grep")) maxlength=(GREP_BYTES_MAX)
                placeholder="a regular expression"; }
            label { "Last lines" input name="tail" inputmode="numeric" size="6"
                value=(match query.get("tail") { "" => TAIL.to_string(), tail => tail.to_owned() }); }
            label class="check" { input type="checkbox" name="previous" value="1" checked[query.get("previous") == "1"];
                " The incarnation before this one" }
            button type="submit" { "Show" }
        }
    }
}

/// The page of the logs of a task, without a query.
fn own_page(task: TaskName<'_>) -> Place {
    let (user, job) = (task.user.to_owned(), task.job.to_owned());
    Place::Logs { user, job, index: task.index, query: Query::default() }
}

/// The lines, and what can be done with them.
fn shown(
    asker: &PageClient,
    task: TaskName<'_>,
    asked: &Query,
    last: &Last,
    problem: Option<&Problem>,
) -> Markup {
    let fields =
        FIELDS.iter().fold(Query::default(), |fields, name| fields.with(name, asked.get(name)));
    let path = own_page(task);
    let to = |below: &str| format!("{path}/{below}{fields}");
    let is_forbidden = problem.is_some_and(|problem| problem.status == StatusCode::FORBIDDEN);
    let can_follow = asker.at.is_none() && asked.get("previous") != "1";
    let follow = can_follow.then(|| to("follow"));
    html! {
        h2 class="hidden" { "Output" }
        @if !is_forbidden {
            div class="actions" {
                @if can_follow {
                    // A script shows it.
                    button type="button" id="follow" aria-pressed="false" aria-controls="log" hidden { "Follow" }
                }
                a href=(to("download")) download { "Download all" }
                span id="follow-says" class="muted" role="status" {}
            }
        }
        @if let Some(problem) = problem {
            p class="notice bad" { (problem.what) @if !problem.next.is_empty() { " " (problem.next) } }
        }
        @if last.is_cut { p class="muted" { "Older lines are left out: download all to see them." } }
        @if last.lines.is_empty() && problem.is_none() {
            div id="log-empty" { (nothing(asker, task, asked)) }
        }
        div id="log" class="log" role="log" aria-label="Output" aria-live="off" tabindex="0" data-follow=[follow] {
            @for line in &last.lines { (maud::PreEscaped(line)) }
        }
    }
}

fn nothing(asker: &PageClient, task: TaskName<'_>, asked: &Query) -> Markup {
    let what = match (asked.get("grep"), asked.get("previous")) {
        ("", _) if asker.at.is_some() => {
            "The incarnation that runs now had written nothing by then; the one before may have."
        }
        ("", _) => "It has written nothing.",
        _ => "None of the newest lines matches. Raise the number of lines to search more of them.",
    };
    show::empty(what, &format!("bourg logs {task} --follow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(stream: v1::LogStream, data: &[u8]) -> v1::LogChunk {
        let instance = Some(v1::InstanceId { collection: 7, index: 0, generation: 1 });
        v1::LogChunk { instance, stream: stream.into(), data: data.to_vec(), ..Default::default() }
    }

    fn out(data: &[u8]) -> v1::LogChunk {
        chunk(v1::LogStream::Stdout, data)
    }

    /// The lines of chunks, without their markup if they are of the standard output.
    fn lines(chunks: &[v1::LogChunk]) -> Vec<String> {
        let mut lines = Lines::default();
        let mut all: Vec<String> = chunks.iter().flat_map(|chunk| lines.add(chunk)).collect();
        all.extend(lines.end());
        let bare = |line: &String| {
            let inner = line.strip_prefix("<div class=\"line\">");
            inner.and_then(|line| line.strip_suffix("</div>")).unwrap_or(line).to_owned()
        };
        all.iter().map(bare).collect()
    }

    #[test]
    fn lines_are_put_together_from_chunks() {
        for (chunks, expected) in [
            (vec![out(b"a\nb\n")], vec!["a", "b"]),
            (vec![out(b"a"), out(b"b\n\nc")], vec!["ab", "", "c"]),
            // Inside a character.
            (vec![out(b"gr\xc3"), out(b"\xbcn\n")], vec!["grün"]),
            (vec![out(b"\xe2\x86"), out(b"\x92"), out(b"!\n")], vec!["→!"]),
            (vec![out(b"\xff\xc3\n")], vec!["\u{fffd}\u{fffd}"]),
            (vec![out(b"windows\r\n")], vec!["windows"]),
            (vec![out(b"")], vec![]),
        ] {
            assert_eq!(lines(&chunks), expected, "{chunks:?}");
        }
    }

    #[test]
    fn each_stream_has_its_own_lines() {
        let chunks = [out(b"one "), chunk(v1::LogStream::Stderr, b"failed\n"), out(b"line\n")];
        let expected = ["<div class=\"line stderr\">failed</div>", "one line"];
        assert_eq!(lines(&chunks), expected);
    }

    #[test]
    fn a_hostile_line_is_text() {
        for (data, expected) in [
            (&b"<script>alert(1)</script>"[..], "&lt;script&gt;alert(1)&lt;/script&gt;"),
            (b"\"'&</div>", "&quot;'&amp;&lt;/div&gt;"),
            (b"\x1b[1;31mred\x1b[0m", "red"),
            (b"\x1b[2J\x1b[1;1Hgone", "gone"),
            (b"\x1b]0;title\x07", "␛]0;title␇"),
            (b"\x1b[<", "␛[&lt;"),
            (b"50 %\r100 %", "50 %␍100 %"),
            (b"a\x00b\x08c\x7f\td", "a␀b␈c␡\td"),
            ("\u{9b}31m".as_bytes(), "\\u{9b}31m"),
            ("safe\u{202e}txt.exe".as_bytes(), "safe\\u{202e}txt.exe"),
            ("e\u{301} 👩‍🚀".as_bytes(), "e\u{301} 👩‍🚀"),
        ] {
            assert_eq!(lines(&[out(data)]), [expected], "{data:?}");
        }
        let long = [b"\x1b[".to_vec(), vec![b'1'; 100], b"m".to_vec()].concat();
        assert!(lines(&[out(&long)])[0].starts_with("␛[111"), "no sequence is as long");
    }

    #[test]
    fn a_long_line_is_split_between_characters() {
        let text = "é".repeat(LINE_BYTES_MAX) + "\n";
        let whole = lines(&[out(text.as_bytes())]);
        assert!(whole.iter().all(|line| !line.contains('\u{fffd}')));
        assert_eq!(whole.concat() + "\n", text);
        assert_eq!(whole.len(), 2);
        let odd = lines(&[out(b"x"), out(text.as_bytes())]);
        assert_eq!(odd.concat() + "\n", format!("x{text}"));
        assert!(odd.iter().all(|line| line.len() <= LINE_BYTES_MAX));
        let broken = vec![0x80; 3 * LINE_BYTES_MAX];
        assert_eq!(lines(&[out(&broken)]).len(), 3);
    }

    #[test]
    fn notes_lost_bytes_and_another_incarnation_are_told() {
        let mut second = out(b"again\n");
        second.instance = Some(v1::InstanceId { collection: 7, index: 0, generation: 2 });
        let noted = v1::LogChunk { note: "m1 does not <answer>".to_owned(), ..out(b"") };
        let chunks = [
            out(b"cut"),
            v1::LogChunk { lost_bytes: 12, ..out(b"off\n") },
            noted,
            out(b"half"),
            second,
        ];
        let note = |text: &str| format!("<div class=\"line note\">{text}</div>");
        let expected = [
            "cut",
            &note("12 bytes before this were discarded"),
            "off",
            &note("m1 does not &lt;answer&gt;"),
            "half",
            &note("incarnation 2 begins"),
            "again",
        ];
        assert_eq!(lines(&chunks), expected);
    }

    #[test]
    fn a_line_has_its_time() {
        let mut first = out(b"hello ");
        first.at = 1_000_000;
        let mut second = out(b"world\n");
        second.at = 9_000_000;
        let expected = "<time datetime=\"1970-01-01T00:00:01.000Z\" title=\"1970-01-01 \
                        00:00:01.000 UTC\">00:00:01.000</time>hello world";
        assert_eq!(lines(&[first, second]), [expected]);
    }

    #[test]
    fn the_oldest_lines_give_way() {
        let mut last = Last::default();
        last.add(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()], 2);
        assert_eq!((Vec::from(last.lines.clone()), last.bytes), (vec!["b".into(), "c".into()], 2));
        assert!(last.is_cut);
        last.add(vec!["x".repeat(PAGE_BYTES_MAX)], 2);
        assert_eq!(last.lines.len(), 1);
    }

    #[test]
    fn a_request_is_what_the_query_says() {
        let task = TaskName { user: "ana", job: "web", index: 3 };
        let read = |text: &str, follow| request(task, &Query::parse(text), follow);
        let plain = read("", false).expect("a request");
        assert_eq!(plain.stream(), v1::LogStream::StdoutAndStderr);
        assert_eq!(plain.start, Some(v1::LogStart { from: Some(From::TailLines(TAIL)) }));
        let range = v1::IndexRange { first: 3, last: 3 };
        assert_eq!(plain.tasks, Some(v1::TaskSelection { all: false, ranges: vec![range] }));
        let full = read("stream=stderr&previous=1&grep=a%2Bb&tail=20&until=9", false);
        let full = full.expect("a request");
        assert_eq!(full.stream(), v1::LogStream::Stderr);
        assert_eq!((full.previous, full.grep.as_str(), full.until), (true, "a+b", 9));
        assert_eq!(full.start, Some(v1::LogStart { from: Some(From::TailLines(20)) }));
        assert_eq!(read("all=1&tail=9", false).expect("a request").start, None);
        assert!(read("stream=stdout", true).expect("a request").follow);
        let long = format!("grep={}", "x".repeat(GREP_BYTES_MAX + 1));
        for (text, follow) in [
            ("tail=0", false),
            ("tail=5001", false),
            ("tail=x", false),
            ("stream=stdin", false),
            ("until=-1", false),
            ("previous=1", true),
            ("until=9", true),
            (long.as_str(), false),
        ] {
            assert!(read(text, follow).is_err(), "{text}");
        }
    }

    #[test]
    fn the_command_reads_the_same() {
        let query = Query::parse("stream=stderr&grep=a|b&previous=1&tail=9");
        let task = TaskName { user: "ana", job: "web", index: 3 };
        let said = command(task, &query, None, 9);
        assert_eq!(said, "bourg logs ana/web/3 -n 9 --stream stderr --grep 'a|b' --previous");
        let past = command(task, &Query::default(), Some(1_000_000), 500);
        assert_eq!(past, "bourg logs ana/web/3 -n 500 --until '1970-01-01 00:00:01.000'");
    }
}
