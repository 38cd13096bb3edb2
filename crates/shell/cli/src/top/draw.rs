//! Draws the state into a frame.

use api::v1;
use command::output;
use model::Time;
use process::moment;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::app::{App, Data, FRAME, Mode};
use super::bars;
use super::table::{Table, width};
use super::views::View;
use crate::usage;

const PLAIN: Style = Style::new();
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

impl App {
    /// Draws everything: a title, what is wrong if anything is, the view or the pane, and a last
    /// line with keys, a message, or what is typed.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let mut page = Canvas { buffer: frame.buffer_mut(), area };
        if area.is_empty() {
            return;
        }
        page.line(0, &self.title(area.width), REVERSED);
        if area.height < FRAME + 1 {
            return;
        }
        let last = area.height - 1;
        page.line(last, &self.footer(), PLAIN);
        if let Mode::Pane(pane) = &self.mode {
            let lines = pane.shown(usize::from(last - 1));
            (1..last).zip(lines).for_each(|(y, line)| page.line(y, &line, PLAIN));
            return;
        }
        let mut top = 1;
        if let Some(wrong) = self.wrong() {
            page.line(top, &wrong, BOLD);
            top += 1;
        }
        let Some(data) = &self.data else {
            page.line(top.min(last - 1), "waiting for the master …", PLAIN);
            return;
        };
        if *self.view() == View::Cell
            && let Some(cell) = &data.response.cell
        {
            // The bars leave room for a heading and a row.
            let room = last.saturating_sub(top + 2);
            let lines = match room {
                bars::FULL.. => bars::full(cell, area.width),
                bars::SHORT.. => bars::short(cell, area.width),
                _ => Vec::new(),
            };
            for line in lines {
                page.line(top, &line, PLAIN);
                top += 1;
            }
        }
        self.rows(&mut page, data, top, last);
    }

    /// Draws the headings and the rows.
    fn rows(&self, page: &mut Canvas<'_>, data: &Data, top: u16, last: u16) {
        let sort = self.page().sort;
        let columns = data.table.fit(page.area.width, sort.column);
        let positions = Table::positions(&columns);
        let each = || columns.iter().zip(&positions);
        if top >= last {
            return;
        }
        for ((place, width), x) in each() {
            let column = data.table.columns[*place];
            let is_descending = column.is_number != sort.is_reversed;
            let mark = match (*place == sort.column, is_descending) {
                (true, true) => "↓",
                (true, false) => "↑",
                (false, _) => "",
            };
            let heading = format!("{}{mark}", column.heading);
            page.cell(*x, top, *width, &heading, column.is_number, BOLD);
        }
        let height = usize::from(last - top - 1);
        // The selected row is in the middle, but for the first and the last ones.
        let first = self.place().saturating_sub(height / 2);
        let first = first.min(data.order.len().saturating_sub(height));
        for (y, place) in (top + 1..last).zip(first..data.order.len()) {
            let Some(row) = self.row(place) else { continue };
            let style = if place == self.place() { REVERSED } else { PLAIN };
            page.line(y, "", style);
            for ((column, width), x) in each() {
                let is_number = data.table.columns[*column].is_number;
                page.cell(*x, y, *width, &row.cells[*column].text, is_number, style);
            }
        }
        if data.order.is_empty() && height > 0 {
            let empty = if data.table.rows.is_empty() { "none" } else { "none matches the filter" };
            page.line(top + 1, empty, PLAIN);
        }
    }

    /// For example `machines  3 of 3 up, 12 tasks  03:10:02`: what does not fit is left out.
    fn title(&self, room: u16) -> String {
        let mut title = match &self.mode {
            Mode::Pane(pane) => pane.title.clone(),
            _ => self.view().name(),
        };
        let mut parts = Vec::new();
        if let (Some(data), false) = (&self.data, matches!(self.mode, Mode::Pane(_))) {
            let filter = &self.page().filter;
            if !filter.is_empty() {
                let (shown, of) = (data.order.len(), data.table.rows.len());
                parts.push(format!("/{}: {shown} of {of}", output::one_line(filter)));
            }
            parts.push(clock(Time(data.response.time)));
            parts.extend(data.response.cell.iter().flat_map(counts));
        }
        for part in parts {
            if width(&title).saturating_add(width(&part)).saturating_add(2) <= room {
                title = format!("{title}  {part}");
            }
        }
        title
    }

    /// What is wrong, on one line.
    fn wrong(&self) -> Option<String> {
        if let Some(failed) = &self.failed {
            let since = clock(failed.since);
            return Some(format!("no answer since {since}: {}", output::one_line(&failed.why)));
        }
        let data = self.data.as_ref()?;
        let lacks = data.lacks.clone().or_else(|| usage::missing(&data.response))?;
        Some(output::one_line(&lacks))
    }

    /// The last line.
    fn footer(&self) -> String {
        match &self.mode {
            Mode::Filter => format!("/{}_", output::one_line(&self.page().filter)),
            Mode::Command(typed) => format!(":{}_", output::one_line(typed)),
            Mode::Pane(_) => "Esc back  q quit  j k scroll  h l aside".to_owned(),
            Mode::Table if !self.message.is_empty() => output::one_line(&self.message),
            Mode::Table => {
                "? help  q quit  / filter  : view  s sort  d describe  l logs".to_owned()
            }
        }
    }
}

impl App {
    /// The view as text: whole, with all columns.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n", self.title(u16::MAX));
        text.extend(self.wrong().map(|wrong| format!("{wrong}\n")));
        let Some(data) = &self.data else { return text };
        if *self.view() == View::Cell
            && let Some(cell) = &data.response.cell
        {
            let lines = bars::full(cell, u16::MAX);
            text.extend(lines.iter().map(|line| format!("{}\n", line.trim_end())));
        }
        let headings: Vec<&str> = data.table.columns.iter().map(|column| column.heading).collect();
        let row =
            |place| Some(self.row(place)?.cells.iter().map(|cell| cell.text.clone()).collect());
        let rows = (0..data.order.len()).filter_map(row).collect();
        text + &output::table(&headings, rows)
    }
}

/// What the title says of the cell, the most important first.
fn counts(cell: &v1::CellUsage) -> Vec<String> {
    let mut counts = vec![format!("{} of {} machines up", cell.machines_up, cell.machines)];
    if let Some(tasks) = &cell.tasks {
        counts.push(format!("{} tasks running", tasks.running));
        if tasks.measured != tasks.running {
            counts.push(format!("{} measured", tasks.measured));
        }
    }
    counts.push(format!("{} pending", cell.pending));
    counts
}

/// The time of day, in UTC.
fn clock(at: Time) -> String {
    moment::shown(at).chars().skip("2026-11-19 ".len()).take("03:10:00".len()).collect()
}

/// Where to draw. Nothing is drawn outside.
struct Canvas<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
}

impl Canvas<'_> {
    /// A whole line, cut at the edge.
    fn line(&mut self, y: u16, text: &str, style: Style) {
        if y >= self.area.height {
            return;
        }
        let line = Rect::new(self.area.x, self.area.y + y, self.area.width, 1);
        self.buffer.set_style(line, style);
        self.buffer.set_stringn(line.x, line.y, text, line.width.into(), style);
    }

    /// A text within a column, cut to its width, and marked if it is cut.
    fn cell(&mut self, x: u16, y: u16, wide: u16, text: &str, is_right: bool, style: Style) {
        let wide = wide.min(self.area.width.saturating_sub(x));
        if y >= self.area.height || wide == 0 {
            return;
        }
        let length = width(text);
        let at = if is_right { wide.saturating_sub(length) } else { 0 };
        let (x, y) = (self.area.x + x, self.area.y + y);
        self.buffer.set_stringn(x + at, y, text, usize::from(wide - at), style);
        if length > wide {
            self.buffer.set_stringn(x + wide - 1, y, "…", 1, style);
        }
    }
}
