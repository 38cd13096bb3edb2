//! Rows and columns as text, and which of them fit: the model of what is drawn.

use std::cmp::Ordering;

use command::output;
use present::amount;
use ratatui::text::Span;

/// The space between two columns.
const GAP: u16 = 2;
/// The minimum width of the first column, which is cut rather than dropped.
const FIRST_MIN: u16 = 8;

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    /// The order in which columns are dropped where there is no room: the highest first. The first
    /// column is never dropped.
    pub(super) rank: u8,
    /// Whether it is aligned to the right, and sorted with the highest value first.
    pub(super) is_number: bool,
}

/// A column of texts.
pub(super) const fn text(heading: &'static str, rank: u8) -> Column {
    Column { heading, rank, is_number: false }
}

/// A column of numbers.
pub(super) const fn number(heading: &'static str, rank: u8) -> Column {
    Column { heading, rank, is_number: true }
}

/// What a cell is sorted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Text,
    Number(i64),
    /// Last in either direction.
    Unmeasured,
}

/// The content of a column in a row. Its text has no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) text: String,
    value: Value,
}

impl Cell {
    /// A text, which others may have written.
    pub(super) fn text(text: &str) -> Self {
        Self { text: output::one_line(text), value: Value::Text }
    }

    /// A text that is sorted by a number.
    pub(super) fn ranked(text: &str, rank: i64) -> Self {
        Self { value: Value::Number(rank), ..Self::text(text) }
    }

    /// A number.
    pub(super) fn count(number: impl Into<i64>) -> Self {
        let number = number.into();
        Self { text: number.to_string(), value: Value::Number(number) }
    }

    /// A quantity that may not have been measured.
    pub(super) fn quantity(amount: Option<i64>, show: fn(Option<i64>) -> String) -> Self {
        let text = show(amount);
        let value = match amount {
            Some(number) if text != amount::UNMEASURED => Value::Number(number),
            _ => Value::Unmeasured,
        };
        Self { text, value }
    }

    /// Compares for sorting; what was not measured is last in either direction.
    fn compare(&self, other: &Self, is_reversed: bool) -> Ordering {
        let order = match (&self.value, &other.value) {
            (Value::Unmeasured, Value::Unmeasured) => return Ordering::Equal,
            (Value::Unmeasured, _) => return Ordering::Greater,
            (_, Value::Unmeasured) => return Ordering::Less,
            (Value::Text, Value::Text) => self.text.cmp(&other.text),
            (a, b) => a.cmp(b),
        };
        if is_reversed { order.reverse() } else { order }
    }
}

/// What a row is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    /// The jobs in a band, by its name.
    Band(String),
    Machine(String),
    Job {
        user: String,
        job: String,
    },
    Task {
        user: String,
        job: String,
        index: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) thing: Thing,
    /// One for each column.
    pub(super) cells: Vec<Cell>,
}

/// A sort order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) column: usize,
    /// Whether the order is the opposite of the usual one, which is ascending for texts and
    /// descending for numbers.
    pub(super) is_reversed: bool,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Row>,
    /// The width of each column.
    widths: Vec<u16>,
}

/// The width of a text on a terminal.
pub(super) fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

impl Table {
    pub(super) fn new(columns: &'static [Column], rows: Vec<Row>) -> Self {
        let widest = |(place, column): (usize, &Column)| {
            let cells = rows.iter().filter_map(|row| row.cells.get(place));
            // Room for the mark of the sort order.
            let heading = width(column.heading).saturating_add(1);
            cells.map(|cell| width(&cell.text)).fold(heading, u16::max)
        };
        let widths = columns.iter().enumerate().map(widest).collect();
        Self { columns, rows, widths }
    }

    /// The places of the rows that contain a text, in a sort order. Letters match in either case.
    pub(super) fn order(&self, filter: &str, sort: Sort) -> Vec<usize> {
        let filter = filter.to_lowercase();
        let matches =
            |row: &Row| row.cells.iter().any(|cell| cell.text.to_lowercase().contains(&filter));
        let all = self.rows.iter().enumerate();
        let mut places: Vec<usize> = all
            .filter(|(_, row)| filter.is_empty() || matches(row))
            .map(|(place, _)| place)
            .collect();
        let is_number = self.columns.get(sort.column).is_some_and(|column| column.is_number);
        let is_descending = is_number != sort.is_reversed;
        // Stable: equal rows stay in the order of the answer, which is that of their names.
        places.sort_by(|a, b| {
            let cell = |place: &usize| self.rows.get(*place)?.cells.get(sort.column);
            match (cell(a), cell(b)) {
                (Some(a), Some(b)) => a.compare(b, is_descending),
                _ => Ordering::Equal,
            }
        });
        places
    }

    /// The columns that fit into a width, with their widths. The first one and the sorted one are
    /// kept; the first one is cut if need be.
    pub(super) fn fit(&self, room: u16, sorted: usize) -> Vec<(usize, u16)> {
        let mut kept: Vec<usize> = (0..self.columns.len()).collect();
        loop {
            let widths: u32 = kept.iter().map(|place| u32::from(self.widths[*place])).sum();
            let gaps = u32::from(GAP) * u32::try_from(kept.len().saturating_sub(1)).unwrap_or(0);
            if widths + gaps <= u32::from(room) {
                break;
            }
            let rank = |place: &&usize| (**place != sorted, self.columns[**place].rank, **place);
            let last = kept.iter().skip(1).max_by_key(rank).copied();
            let first = u32::from(self.widths.first().copied().unwrap_or(0));
            let cut = widths + gaps - first + u32::from(FIRST_MIN.min(room));
            match last {
                // The first column is cut before the sorted one is dropped.
                Some(last) if last != sorted || cut > u32::from(room) => {
                    kept.retain(|place| *place != last);
                }
                _ => break,
            }
        }
        let others: u16 = kept.iter().skip(1).map(|place| self.widths[*place] + GAP).sum();
        let own = |place: usize| match place == kept.first().copied().unwrap_or(0) {
            true => self.widths[place].min(room.saturating_sub(others)),
            false => self.widths[place],
        };
        kept.iter().map(|place| (*place, own(*place))).collect()
    }

    /// The horizontal position of each of these columns.
    pub(super) fn positions(columns: &[(usize, u16)]) -> Vec<u16> {
        let next = |at: &mut u16, (_, width): &(usize, u16)| {
            let here = *at;
            *at = at.saturating_add(width + GAP);
            Some(here)
        };
        columns.iter().scan(0, next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] =
        &[text("NAME", 0), text("STATE", 2), number("CPU", 1), number("RAM", 3)];

    fn row(name: &str, state: &str, cpu: Option<i64>) -> Row {
        Row {
            thing: Thing::Machine(name.to_owned()),
            cells: vec![
                Cell::text(name),
                Cell::text(state),
                Cell::quantity(cpu, amount::cpu),
                Cell::count(7),
            ],
        }
    }

    fn table() -> Table {
        let rows = vec![
            row("a", "up", Some(9_000)),
            row("b", "down", None),
            row("c", "up", Some(10_000)),
            row("d", "up", Some(0)),
        ];
        Table::new(COLUMNS, rows)
    }

    #[test]
    fn rows_are_sorted_by_value_and_the_unmeasured_are_last() {
        let table = table();
        let order = |column, is_reversed| {
            let places = table.order("", Sort { column, is_reversed });
            places.iter().map(|place| table.rows[*place].cells[0].text.as_str()).collect::<String>()
        };
        for (column, is_reversed, expected) in [
            (0, false, "abcd"),
            (0, true, "dcba"),
            (1, false, "bacd"),
            (2, false, "cadb"),
            (2, true, "dacb"),
            (3, false, "abcd"),
            (99, false, "abcd"),
        ] {
            assert_eq!(order(column, is_reversed), expected, "{column} {is_reversed}");
        }
    }

    #[test]
    fn a_filter_matches_any_column_in_either_case() {
        let table = table();
        let order = |filter| table.order(filter, Sort { column: 0, is_reversed: false });
        assert_eq!(order("DOWN"), [1]);
        assert_eq!(order("9"), [0]);
        assert_eq!(order("u"), [0, 2, 3]);
        assert!(order("nothing").is_empty());
    }

    #[test]
    fn columns_are_dropped_by_rank_and_the_sorted_one_last() {
        let table = table();
        let fit = |room, sorted| {
            let columns = table.fit(room, sorted);
            let names =
                columns.iter().map(|(place, width)| format!("{}:{width}", COLUMNS[*place].heading));
            names.collect::<Vec<_>>().join(" ")
        };
        for (room, sorted, expected) in [
            (80, 0, "NAME:5 STATE:6 CPU:4 RAM:4"),
            (25, 0, "NAME:5 STATE:6 CPU:4 RAM:4"),
            (24, 0, "NAME:5 STATE:6 CPU:4"),
            (24, 3, "NAME:5 CPU:4 RAM:4"),
            (18, 0, "NAME:5 CPU:4"),
            (10, 0, "NAME:5"),
            (11, 3, "NAME:5 RAM:4"),
            (3, 0, "NAME:3"),
            (0, 0, "NAME:0"),
        ] {
            assert_eq!(fit(room, sorted), expected, "{room} sorted by {sorted}");
        }
        assert_eq!(Table::positions(&[(0, 5), (2, 4), (3, 1)]), [0, 7, 13]);
    }

    #[test]
    fn the_first_column_is_cut_before_the_sorted_one_is_dropped() {
        let long = Table::new(COLUMNS, vec![row("a-very-long-name", "up", None)]);
        assert_eq!(long.fit(16, 2), [(0, 10), (2, 4)]);
        assert_eq!(long.fit(12, 2), [(0, 12)]);
    }

    #[test]
    fn control_characters_in_a_table_cell_are_escaped() {
        assert_eq!(Cell::text("a\x1b[31m\r\u{202e}").text, r"a\u{1b}[31m\r\u{202e}");
    }
}
