//! A text that can be scrolled, over the table.

use command::output;

use super::app::KeyPress;
use super::table::Thing;

/// How far a step to the side goes.
const ASIDE: usize = 16;
/// The maximum number of lines of a text.
const LINES_MAX: usize = 10_000;

const HELP: &str = "\
j k ↑ ↓        move (also PgUp PgDn g G)
Enter          go down: a band to its jobs, a job to its tasks,
               a machine or a task to its description
Esc Backspace  go up, or clear the filter
/              filter: rows that contain a text
:              go to a view: :cell  :machines  :jobs  :jobs USER
               :tasks USER/JOB
m              only your own jobs, or everybody's
s > <          sort by the next column, or the one before
S              reverse the order
d              describe the selected thing
l              logs of the selected task, until Ctrl-C
?              this help
q              quit

A dash stands for what was not measured. CPU is in normalized
cores; limits and reservations are those of running tasks. A
column that does not fit is left out; the sorted one is shown.";

/// A text, and how far it is scrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pane {
    pub(super) title: String,
    /// What it describes; `None` for the help.
    pub(super) about: Option<Thing>,
    lines: Vec<String>,
    /// The first line and column that are shown.
    top: usize,
    left: usize,
}

impl Pane {
    pub(super) fn help() -> Self {
        let mut pane =
            Self { title: "keys".to_owned(), about: None, lines: Vec::new(), top: 0, left: 0 };
        pane.set(HELP);
        pane
    }

    /// An empty pane, for a text that is to come.
    pub(super) fn about(thing: Thing) -> Self {
        let title = output::one_line(&thing.to_string());
        let lines = vec!["…".to_owned()];
        Self { title, about: Some(thing), lines, top: 0, left: 0 }
    }

    /// Sets the text. Its control characters are escaped.
    pub(super) fn set(&mut self, text: &str) {
        self.lines = text.lines().take(LINES_MAX).map(output::one_line).collect();
        (self.top, self.left) = (0, 0);
    }

    /// Scrolls in a view of that many lines.
    pub(super) fn key(&mut self, key: KeyPress, height: usize) {
        let last = self.lines.len().saturating_sub(height.max(1));
        let longest = self.lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        match key {
            KeyPress::Char('j') | KeyPress::Down => self.top += 1,
            KeyPress::Char('k') | KeyPress::Up => self.top = self.top.saturating_sub(1),
            KeyPress::Char(' ') | KeyPress::PageDown => self.top += height,
            KeyPress::PageUp => self.top = self.top.saturating_sub(height),
            KeyPress::Char('g') | KeyPress::Home => self.top = 0,
            KeyPress::Char('G') | KeyPress::End => self.top = last,
            KeyPress::Char('l') | KeyPress::Right => self.left += ASIDE,
            KeyPress::Char('h') | KeyPress::Left => self.left = self.left.saturating_sub(ASIDE),
            _ => {}
        }
        self.top = self.top.min(last);
        self.left = self.left.min(longest.saturating_sub(1));
    }

    /// The lines that are in view.
    pub(super) fn shown(&self, height: usize) -> impl Iterator<Item = String> {
        let aside = |line: &String| line.chars().skip(self.left).collect();
        self.lines.iter().skip(self.top).take(height).map(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_scrolls_within_its_text() {
        let mut pane = Pane::about(Thing::Machine("m1".to_owned()));
        let shown = |pane: &Pane| pane.shown(2).collect::<Vec<_>>().join("|");
        assert_eq!(shown(&pane), "…");
        pane.set("one\ntwo \x1b[2J\nthree");
        assert_eq!(shown(&pane), r"one|two \u{1b}[2J");
        for (key, expected) in [
            (KeyPress::Char('j'), r"two \u{1b}[2J|three"),
            (KeyPress::PageDown, r"two \u{1b}[2J|three"),
            (KeyPress::Home, r"one|two \u{1b}[2J"),
            (KeyPress::Char('k'), r"one|two \u{1b}[2J"),
            (KeyPress::Right, "|J"),
            (KeyPress::Left, r"one|two \u{1b}[2J"),
            (KeyPress::Char('G'), r"two \u{1b}[2J|three"),
            (KeyPress::Up, r"one|two \u{1b}[2J"),
        ] {
            pane.key(key, 2);
            assert_eq!(shown(&pane), expected, "{key:?}");
        }
        pane.set("");
        pane.key(KeyPress::Down, 2);
        assert_eq!(shown(&pane), "");
    }
}
