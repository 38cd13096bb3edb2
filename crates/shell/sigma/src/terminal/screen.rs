//! The screen of a terminal: what a program writes to it, as rows of markup.

use maud::{Markup, html};
use vt100::{Callbacks, Cell, Color, Parser, Screen};

use super::clamp::Clamp;
use crate::pages::logs::is_hidden;

/// The fewest and the most rows and columns.
const ROWS: (u16, u16) = (5, 100);
const COLUMNS: (u16, u16) = (20, 300);
/// The levels of red, green and blue of the colours 16 to 231.
const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// How many rows and columns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
}

impl Size {
    /// The nearest size that is allowed; that of old terminals if none is given.
    pub(crate) fn read(rows: &str, columns: &str) -> Self {
        let read = |text: &str, usual: u16, (least, most): (u16, u16)| {
            let wanted = text.trim().parse::<u32>().map_or(usual.into(), |wanted| wanted);
            u16::try_from(wanted).unwrap_or(u16::MAX).clamp(least, most)
        };
        Self { rows: read(rows, 24, ROWS), columns: read(columns, 80, COLUMNS) }
    }
}

/// What a program expects from its terminal, beyond a screen.
#[derive(Debug, Default)]
struct Answers {
    /// Answers to questions, which the program reads as if they were typed.
    bytes: Vec<u8>,
}

/// The most bytes of answers that wait. Questions beyond are not answered.
const ANSWERS_BYTES_MAX: usize = 256;

impl Callbacks for Answers {
    fn unhandled_csi(
        &mut self,
        screen: &mut Screen,
        first: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        letter: char,
    ) {
        let param = params.first().and_then(|param| param.first()).copied().unwrap_or(0);
        let answer = match (first, letter, param) {
            (None, 'n', 5) => "\x1b[0n".to_owned(),
            (None, 'n', 6) => {
                let (row, column) = screen.cursor_position();
                format!("\x1b[{};{}R", row + 1, column + 1)
            }
            // A VT100 with more: what most programs are content with.
            (None, 'c', 0) => "\x1b[?1;2c".to_owned(),
            _ => return,
        };
        if self.bytes.len() + answer.len() <= ANSWERS_BYTES_MAX {
            self.bytes.extend_from_slice(answer.as_bytes());
        }
    }
}

/// Interprets the output of a program.
pub(super) struct Interpreter {
    clamp: Clamp,
    parser: Parser<Answers>,
}

impl Interpreter {
    pub(super) fn new(size: Size) -> Self {
        let parser = Parser::new_with_callbacks(size.rows, size.columns, 0, Answers::default());
        Self { clamp: Clamp::default(), parser }
    }

    pub(super) fn write(&mut self, output: &[u8]) {
        self.parser.process(&self.clamp.pass(output));
    }

    /// What the program is to read for its questions.
    pub(super) fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().bytes)
    }

    /// How many bytes of the next output need not be written.
    pub(super) fn scrolled_away(&self, output: &[u8]) -> usize {
        match self.clamp.is_in_text() {
            true => scrolled_away(output, self.size().rows),
            false => 0,
        }
    }

    pub(super) fn size(&self) -> Size {
        let (rows, columns) = self.parser.screen().size();
        Size { rows, columns }
    }

    pub(super) fn resize(&mut self, size: Size) {
        if size.columns >= self.size().columns {
            self.parser.screen_mut().set_size(size.rows, size.columns);
            return;
        }
        // The parser (0.16) panics later if fewer columns cut a wide character in half. Programs draw
        // their screen again after such a change.
        let mut before = std::mem::replace(self, Self::new(size));
        let clamp = std::mem::take(&mut before.clamp);
        let screen = before.parser.screen();
        if screen.alternate_screen() {
            self.write(b"\x1b[?1049h");
        }
        let (row, column) = screen.cursor_position();
        // The rows at the bottom are kept, with that of the cursor.
        let first = (row + 1).saturating_sub(size.rows);
        let kept = screen.rows_formatted(0, size.columns).enumerate();
        let kept = kept.skip(first.into()).take(size.rows.into());
        for (number, text) in kept {
            self.write(format!("\x1b[m\x1b[{};1H", number + 1 - usize::from(first)).as_bytes());
            self.write(&text);
        }
        self.write(&screen.attributes_formatted());
        self.write(&screen.input_mode_formatted());
        if screen.hide_cursor() {
            self.write(b"\x1b[?25l");
        }
        self.write(format!("\x1b[{};{}H", row + 1 - first, column + 1).as_bytes());
        // It may be inside a control sequence.
        self.clamp = clamp;
    }

    /// Whether arrow keys are sent as in an application, and whether a paste is to be marked.
    pub(super) fn modes(&self) -> (bool, bool) {
        let screen = self.parser.screen();
        (screen.application_cursor(), screen.bracketed_paste())
    }

    /// Each row as markup.
    pub(super) fn rows(&self) -> Vec<String> {
        let screen = self.parser.screen();
        let (rows, columns) = screen.size();
        let (cursor_row, cursor_column) = screen.cursor_position();
        let cursor = |row: u16| {
            let is_here = row == cursor_row && !screen.hide_cursor();
            // After the last character of a full row, the cursor is on it.
            is_here.then(|| cursor_column.min(columns.saturating_sub(1)))
        };
        (0..rows).map(|number| row(screen, number, columns, cursor(number)).into_string()).collect()
    }
}

/// How many bytes at the beginning of an output have scrolled away after the rest of it: lines of text only,
/// followed by more of them than the screen has rows twice, so that nothing below the cursor is left either.
fn scrolled_away(output: &[u8], rows: u16) -> usize {
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\r' | b'\n' | 0x20..=0x7e | 0x80..);
    let text = output.iter().position(|byte| !is_text(byte)).unwrap_or(output.len());
    let lines = output[..text].windows(2).enumerate().rev();
    let mut ends = lines.filter(|(_, pair)| *pair == b"\r\n").map(|(at, _)| at + 2);
    ends.nth(2 * usize::from(rows)).unwrap_or(0)
}

/// The rows that are different from those before, with their numbers.
pub(super) fn changed<'a>(before: &[String], now: &'a [String]) -> Vec<(usize, &'a str)> {
    let rows = now.iter().enumerate();
    let changed = rows.filter(|(number, row)| before.get(*number) != Some(*row));
    changed.map(|(number, row)| (number, row.as_str())).collect()
}

/// How a character looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Look {
    fg: Option<u8>,
    bg: Option<u8>,
    inverse: bool,
    bold: bool,
    dim: bool,
    italic: bool,
    underline: bool,
    wide: bool,
    cursor: bool,
}

impl Look {
    fn of(cell: &Cell, cursor: bool) -> Self {
        Self {
            fg: colour(cell.fgcolor()),
            bg: colour(cell.bgcolor()),
            bold: cell.bold(),
            dim: cell.dim(),
            italic: cell.italic(),
            underline: cell.underline(),
            inverse: cell.inverse(),
            wide: cell.is_wide(),
            cursor,
        }
    }

    fn classes(&self) -> String {
        let number = |kind: &str, colour: Option<u8>| colour.map(|n| format!("{kind}-{n}"));
        let (fg, bg) = match self.inverse {
            false => (number("fg", self.fg), number("bg", self.bg)),
            true => (
                number("fg", self.bg).or(Some("fg-back".to_owned())),
                number("bg", self.fg).or(Some("bg-front".to_owned())),
            ),
        };
        let mut classes: Vec<String> = fg.into_iter().chain(bg).collect();
        let flags = [
            (self.bold, "bold"),
            (self.dim, "dim"),
            (self.italic, "italic"),
            (self.underline, "underline"),
            (self.wide, "wide"),
            (self.cursor, "cursor"),
        ];
        classes.extend(flags.iter().filter(|(is, _)| *is).map(|(_, class)| (*class).to_owned()));
        classes.join(" ")
    }
}

/// A row: runs of characters that look the same. Blanks at its end are left out.
fn row(screen: &Screen, number: u16, columns: u16, cursor: Option<u16>) -> Markup {
    let mut runs: Vec<(Look, String)> = Vec::new();
    // The cursor on the second half of a wide character is on the character.
    let is_half = |column: u16| screen.cell(number, column).is_some_and(Cell::is_wide_continuation);
    let cursor = cursor.map(|column| match is_half(column) {
        true => column.saturating_sub(1),
        false => column,
    });
    for column in 0..columns {
        let Some(cell) = screen.cell(number, column) else { continue };
        if cell.is_wide_continuation() {
            continue;
        }
        let look = Look::of(cell, cursor == Some(column));
        let text = text(cell);
        match runs.last_mut() {
            Some((last, run)) if *last == look && !look.wide => run.push_str(&text),
            _ => runs.push((look, text)),
        }
    }
    if let Some((look, run)) = runs.last_mut()
        && *look == Look::default()
    {
        run.truncate(run.trim_end_matches(' ').len());
    }
    html! {
        @for (look, run) in &runs {
            @if *look == Look::default() { (run) } @else { span class=(look.classes()) { (run) } }
        }
    }
}

/// The text of a cell, without what would change the order of the others.
fn text(cell: &Cell) -> String {
    match cell.contents() {
        "" => " ".to_owned(),
        contents => {
            contents.replace(|character: char| character.is_control() || is_hidden(character), "")
        }
    }
}

/// The number of a colour, of 256; none is that of the terminal.
fn colour(colour: Color) -> Option<u8> {
    match colour {
        Color::Default => None,
        Color::Idx(number) => Some(number),
        Color::Rgb(red, green, blue) => Some(nearest([red, green, blue])),
    }
}

/// The nearest of the colours 16 to 255, whose red, green and blue are the same everywhere.
fn nearest(wanted: [u8; 3]) -> u8 {
    let distance = |number: u8| -> u32 {
        let parts = wanted.into_iter().zip(parts(number));
        parts.map(|(a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
    };
    (16..=255).min_by_key(|number| distance(*number)).unwrap_or(16)
}

/// Red, green and blue of one of the colours 16 to 255.
fn parts(number: u8) -> [u8; 3] {
    match number.checked_sub(16) {
        Some(place @ 0..216) => {
            [place / 36, place / 6 % 6, place % 6].map(|level| LEVELS[usize::from(level)])
        }
        Some(place) => [8 + 10 * (place - 216); 3],
        None => [0; 3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(rows: u16, columns: u16, output: &str) -> Interpreter {
        let mut screen = Interpreter::new(Size { rows, columns });
        screen.write(output.as_bytes());
        screen
    }

    #[test]
    fn rows_are_markup_with_classes() {
        let hidden = "\x1b[?25l";
        for (output, expected) in [
            ("", "<span class=\"cursor\"> </span>"),
            ("ls", "ls<span class=\"cursor\"> </span>"),
            ("\x1b[?25lls  ", "ls"),
            (&format!("{hidden}\x1b[1;31mred\x1b[m."), "<span class=\"fg-1 bold\">red</span>."),
            (&format!("{hidden}\x1b[38;5;200;7mx"), "<span class=\"fg-back bg-200\">x</span>"),
            (&format!("{hidden}\x1b[7mx"), "<span class=\"fg-back bg-front\">x</span>"),
            (&format!("{hidden}\x1b[48;2;255;0;0mx"), "<span class=\"bg-196\">x</span>"),
            (&format!("{hidden}\x1b[44m  \x1b[m"), "<span class=\"bg-4\">  </span>"),
            (&format!("{hidden}<b>&\"\u{202e}"), "&lt;b&gt;&amp;&quot;"),
            (&format!("{hidden}a字b"), "a<span class=\"wide\">字</span>b"),
            ("字\x08", "<span class=\"wide cursor\">字</span>"),
            ("ab\r", "<span class=\"cursor\">a</span>b"),
        ] {
            assert_eq!(screen(5, 20, output).rows()[0], expected, "{output:?}");
        }
        let full = screen(5, 20, &"x".repeat(20)).rows();
        assert_eq!(full[0], format!("{}<span class=\"cursor\">x</span>", "x".repeat(19)));
    }

    #[test]
    fn only_changed_rows_are_sent() {
        let mut screen = screen(5, 20, "one\r\ntwo\r\n");
        let before = screen.rows();
        assert_eq!(changed(&[], &before).len(), 5);
        assert_eq!(changed(&before, &before), []);
        screen.write(b"\x1b[1;1HONE\x1b[3;1H");
        let now = screen.rows();
        assert_eq!(changed(&before, &now), [(0, "ONE")]);
        screen.write(b"$");
        let cursor = "$<span class=\"cursor\"> </span>";
        assert_eq!(changed(&now, &screen.rows()), [(2, cursor)]);
    }

    #[test]
    fn scrolled_output_does_not_affect_the_screen() {
        let lines = |from: u32, to: u32| -> String {
            (from..to).map(|number| format!("line {number}\r\n")).collect()
        };
        let long = lines(0, 100);
        for (before, output) in [
            ("", long.clone()),
            ("\x1b[31mred\r\n\r\nbelow\x1b[1;3H", long.clone()),
            ("\x1b[?1049h\x1b[2;4r\x1b[3;1H", long.clone()),
            ("12345", format!("staircase\n{long}the end")),
            ("", format!("{long}\x1b[1;1Hhome")),
        ] {
            let away = scrolled_away(output.as_bytes(), 5);
            assert!(away > output.len() / 2, "{away} of {}", output.len());
            let all = screen(5, 20, &format!("{before}{output}"));
            let rest = screen(5, 20, &format!("{before}{}", &output[away..]));
            assert_eq!(all.rows(), rest.rows(), "{before:?}");
        }
        for output in
            [lines(0, 10), format!("\x1b[m{long}"), format!("\x07{long}"), "x".repeat(999)]
        {
            assert_eq!(scrolled_away(output.as_bytes(), 5), 0);
        }
    }

    #[test]
    fn a_size_is_bounded() {
        for (rows, columns, expected) in [
            ("40", "132", (40, 132)),
            ("", "", (24, 80)),
            ("0", "0", (5, 20)),
            ("4294967295", "65536", (100, 300)),
            ("-1", "x", (24, 80)),
        ] {
            let size = Size::read(rows, columns);
            assert_eq!((size.rows, size.columns), expected, "{rows} × {columns}");
        }
    }

    #[test]
    fn a_narrower_screen_keeps_what_fits() {
        let mut screen = screen(6, 40, "\x1b[?2004h\x1b[32mgreen\x1b[m and white\r\n\r\n$ ");
        screen.resize(Size { rows: 5, columns: 20 });
        let rows = screen.rows();
        assert_eq!(rows[0], "<span class=\"fg-2\">green</span> and white");
        assert_eq!(rows[2], "$ <span class=\"cursor\"> </span>");
        assert_eq!(screen.modes(), (false, true));
        screen.resize(Size { rows: 8, columns: 60 });
        assert_eq!(screen.rows().len(), 8);
        assert_eq!(screen.rows()[2], rows[2]);
    }

    #[test]
    fn fewer_rows_keep_that_of_the_cursor() {
        let mut screen = screen(10, 40, "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n8");
        screen.resize(Size { rows: 5, columns: 30 });
        let rows = screen.rows();
        assert_eq!(rows[0], "4");
        assert_eq!(rows[4], "8<span class=\"cursor\"> </span>");
    }

    #[test]
    fn a_wide_character_that_is_cut_breaks_nothing() {
        for alternate in ["", "\x1b[?1049h"] {
            let text = format!("{alternate}{}", "字".repeat(60));
            for columns in 20..40 {
                let mut screen = screen(5, 40, &text);
                screen.resize(Size { rows: 5, columns });
                screen.write(b"\x1b[?1049l\x1b[1;1H\x1b[K\x1b[2;1Hx\x1b[3;19H\x1b[K");
                for column in 1..=columns {
                    screen.write(format!("\x1b[4;{column}Hy\x1b[4;{column}H\x1b[P").as_bytes());
                }
                screen.rows();
            }
        }
    }

    #[test]
    fn any_output_is_survived() {
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(seed >> 40).unwrap_or_default()
        };
        let pieces = [
            "\x1b[", "\x1b]", "?", "1049", "h", "l", ";", "9", "99999", "字", "e\u{301}", "\n",
            "\r", "\t", "\x08", "A", "H", "J", "K", "L", "M", "P", "@", "S", "T", "X", "r", "m",
            "d", "\x1b7", "\x1b8", "\x1bM", "\x1bc", "x", "\u{fffd}", "\x1b[6n",
        ];
        let mut screen = screen(5, 20, "");
        for _ in 0..20_000 {
            screen.write(pieces[next() % pieces.len()].as_bytes());
            if next() % 300 == 0 {
                let (rows, columns) = ((next() % 110).to_string(), (next() % 310).to_string());
                screen.resize(Size::read(&rows, &columns));
                screen.rows();
            }
            assert!(screen.take_answers().len() <= ANSWERS_BYTES_MAX);
        }
    }

    #[test]
    fn a_short_output_is_interpreted_soon() {
        let begun = std::time::Instant::now();
        screen(100, 300, &"\x1b[65535T\x1b[65535L\x1b[65535@".repeat(20));
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }

    #[test]
    fn questions_of_programs_are_answered() {
        for (asked, answer) in [
            ("ab\x1b[6n", "\x1b[1;3R"),
            ("\x1b[5n", "\x1b[0n"),
            ("\x1b[c", "\x1b[?1;2c"),
            ("\x1b[>c", ""),
            ("\x1b[18t", ""),
        ] {
            let answers = screen(5, 20, asked).take_answers();
            assert_eq!(String::from_utf8_lossy(&answers), answer, "{asked:?}");
        }
        let many = screen(5, 20, &"\x1b[6n".repeat(1_000)).take_answers();
        assert!(many.len() <= ANSWERS_BYTES_MAX);
    }

    #[test]
    fn any_colour_is_one_of_256() {
        for (wanted, expected) in [
            ([0, 0, 0], 16),
            ([255, 0, 0], 196),
            ([254, 1, 1], 196),
            ([255, 255, 255], 231),
            ([128, 128, 128], 244),
            ([90, 90, 90], 240),
        ] {
            assert_eq!(nearest(wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn each_colour_has_its_classes() {
        let rules = include_str!("../assets/terminal.css");
        for number in 16..=255 {
            let [red, green, blue] = parts(number);
            let colour = format!("#{red:02x}{green:02x}{blue:02x}");
            for (class, property) in [("fg", "color"), ("bg", "background-color")] {
                let rule = format!(".{class}-{number} {{ {property}: {colour}; }}");
                assert!(rules.contains(&rule), "{rule}");
            }
        }
        for number in 0..16 {
            assert!(rules.contains(&format!(".fg-{number} {{")), "{number}");
            assert!(rules.contains(&format!(".bg-{number} {{")), "{number}");
        }
    }
}
