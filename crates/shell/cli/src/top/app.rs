//! The state of `bourg top`, and what a key or an answer makes of it. No input or output here: time
//! and answers are arguments, what is to be done is returned.

use api::v1;
use model::Time;

use super::pane::Pane;
use super::table::{Row, Sort, Table, Thing};
use super::views::View;

/// The lines of the screen that are not rows or text: the title and the last line.
pub(super) const FRAME: u16 = 2;
/// The maximum number of characters of a filter and of a command.
const INPUT_MAX: usize = 100;
/// The maximum number of views to go back to.
const PAGES_MAX: usize = 20;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyPress {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Esc,
    Backspace,
    /// Ctrl and C.
    Interrupt,
}

/// What a key demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    None,
    Quit,
    /// Show the logs of a task.
    Logs(Thing),
    /// Get the description of something, for the pane that is open now.
    Describe(Thing),
}

/// A view with what was chosen in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) view: View,
    pub(super) filter: String,
    pub(super) sort: Sort,
    /// The selected row, which stays selected wherever it is sorted to.
    selected: Option<Thing>,
    /// Its last place, for when it is gone.
    place: usize,
}

impl Page {
    fn new(view: View) -> Self {
        let sort = view.sort();
        Self { view, filter: String::new(), sort, selected: None, place: 0 }
    }
}

/// What receives the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Table,
    /// The filter is typed.
    Filter,
    /// A command is typed.
    Command(String),
    Pane(Pane),
}

/// The last answer to the request of the current view.
#[derive(Clone, Debug)]
pub(super) struct Data {
    pub(super) response: v1::UsageResponse,
    pub(super) table: Table,
    /// The places of the rows that are shown.
    pub(super) order: Vec<usize>,
    /// Why the usage is missing in it.
    pub(super) lacks: Option<String>,
}

/// Why there is no newer answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchFailure {
    pub(super) why: String,
    /// When the master last answered.
    pub(super) since: Time,
}

/// The state.
#[derive(Clone, Debug)]
pub(super) struct App {
    /// The current view is last; there is always one.
    pages: Vec<Page>,
    pub(super) mode: Mode,
    pub(super) data: Option<Data>,
    pub(super) failed: Option<FetchFailure>,
    /// When the master last answered.
    answered: Time,
    /// What was wrong with the last command.
    pub(super) message: String,
    /// Who asks.
    user: Option<String>,
    /// How many lines a page is.
    page: usize,
}

impl App {
    /// Begins with a view, of which there is no answer yet.
    pub(super) fn new(view: View, user: Option<String>, now: Time) -> Self {
        let pages = vec![Page::new(view)];
        let message = String::new();
        Self {
            pages,
            mode: Mode::Table,
            data: None,
            failed: None,
            answered: now,
            message,
            user,
            page: 1,
        }
    }

    /// Sets the height of the screen.
    pub(super) fn resize(&mut self, height: u16) {
        self.page = usize::from(height.saturating_sub(FRAME)).max(1);
    }

    /// The current view with its choices.
    pub(super) fn page(&self) -> &Page {
        self.pages.last().unwrap_or_else(|| unreachable!("there is always a page"))
    }

    fn page_mut(&mut self) -> &mut Page {
        self.pages.last_mut().unwrap_or_else(|| unreachable!("there is always a page"))
    }

    /// The view to request.
    pub(super) fn view(&self) -> &View {
        &self.page().view
    }

    /// Takes an answer. One to an earlier view is dropped.
    pub(super) fn answer(
        &mut self,
        view: &View,
        response: v1::UsageResponse,
        lacks: Option<String>,
        now: Time,
    ) {
        (self.answered, self.failed) = (now, None);
        if view != self.view() {
            return;
        }
        let table = view.table(&response);
        self.data = Some(Data { response, table, order: Vec::new(), lacks });
        self.arrange();
    }

    /// Takes an error. One of an earlier view is dropped.
    pub(super) fn fail(&mut self, view: &View, why: String) {
        if view == self.view() {
            self.failed = Some(FetchFailure { why, since: self.answered });
        }
    }

    /// Takes the text that an open pane waits for.
    pub(super) fn describe(&mut self, about: &Thing, text: &str) {
        if let Mode::Pane(pane) = &mut self.mode
            && pane.about.as_ref() == Some(about)
        {
            pane.set(text);
        }
    }

    /// Filters and sorts again, and keeps the selection.
    fn arrange(&mut self) {
        let Some(data) = &mut self.data else { return };
        let Some(page) = self.pages.last_mut() else { return };
        data.order = data.table.order(&page.filter, page.sort);
        let rows = |place: &usize| data.table.rows.get(*place);
        let found = page.selected.as_ref().and_then(|selected| {
            data.order
                .iter()
                .position(|place| rows(place).is_some_and(|row| row.thing == *selected))
        });
        // Where it was, if it is gone.
        let place = found.unwrap_or(page.place).min(data.order.len().saturating_sub(1));
        page.place = place;
        // Without a choice, the first row stays selected, whichever it is.
        if page.selected.is_some() && found.is_none() {
            page.selected = data.order.get(place).and_then(rows).map(|row| row.thing.clone());
        }
    }

    /// The place of the selected row among the shown ones.
    pub(super) fn place(&self) -> usize {
        self.page().place
    }

    /// The row at a place among the shown ones.
    pub(super) fn row(&self, place: usize) -> Option<&Row> {
        let data = self.data.as_ref()?;
        data.table.rows.get(*data.order.get(place)?)
    }

    fn selected(&self) -> Option<Thing> {
        self.row(self.place()).map(|row| row.thing.clone())
    }

    /// Selects another row.
    fn select(&mut self, place: usize) {
        let last = self.data.as_ref().map_or(0, |data| data.order.len().saturating_sub(1));
        let place = place.min(last);
        let thing = self.row(place).map(|row| row.thing.clone());
        let page = self.page_mut();
        page.place = place;
        page.selected = thing;
    }

    /// Goes to a view, from which [`up`](Self::up) leads back.
    fn down(&mut self, page: Page) {
        if self.pages.len() >= PAGES_MAX {
            self.pages.remove(0);
        }
        self.pages.push(page);
        (self.data, self.failed) = (None, None);
    }

    fn up(&mut self) {
        if self.pages.len() > 1 {
            self.pages.pop();
            (self.data, self.failed) = (None, None);
        }
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyPress) -> KeyAction {
        let page = self.page;
        if key == KeyPress::Interrupt {
            return KeyAction::Quit;
        }
        self.message.clear();
        match &mut self.mode {
            Mode::Table => self.table_key(key),
            Mode::Filter => self.filter_key(key),
            Mode::Command(_) => self.command_key(key),
            Mode::Pane(pane) => match key {
                KeyPress::Char('q') => KeyAction::Quit,
                KeyPress::Esc | KeyPress::Backspace | KeyPress::Enter => {
                    self.mode = Mode::Table;
                    KeyAction::None
                }
                key => {
                    pane.key(key, page);
                    KeyAction::None
                }
            },
        }
    }

    fn table_key(&mut self, key: KeyPress) -> KeyAction {
        let place = self.place();
        match key {
            KeyPress::Char('q') => return KeyAction::Quit,
            KeyPress::Char('?') => self.mode = Mode::Pane(Pane::help()),
            KeyPress::Char('/') => self.mode = Mode::Filter,
            KeyPress::Char(':') => self.mode = Mode::Command(String::new()),
            KeyPress::Char('j') | KeyPress::Down => self.select(place.saturating_add(1)),
            KeyPress::Char('k') | KeyPress::Up => self.select(place.saturating_sub(1)),
            KeyPress::PageDown | KeyPress::Char(' ') => {
                self.select(place.saturating_add(self.page));
            }
            KeyPress::PageUp => self.select(place.saturating_sub(self.page)),
            KeyPress::Home | KeyPress::Char('g') => self.select(0),
            KeyPress::End | KeyPress::Char('G') => self.select(usize::MAX),
            KeyPress::Char('s' | '>') => self.sort_by(1),
            KeyPress::Char('<') => self.sort_by(-1),
            KeyPress::Char('S') => {
                let sort = &mut self.page_mut().sort;
                sort.is_reversed = !sort.is_reversed;
                self.arrange();
            }
            KeyPress::Char('m') => self.mine(),
            KeyPress::Enter => return self.enter(),
            KeyPress::Esc if !self.page().filter.is_empty() => {
                self.page_mut().filter.clear();
                self.arrange();
            }
            KeyPress::Esc | KeyPress::Backspace => self.up(),
            KeyPress::Char('d') => return self.open(),
            KeyPress::Char('l') => match self.selected() {
                Some(task @ Thing::Task { .. }) => return KeyAction::Logs(task),
                _ => "logs are those of a task: select one in :tasks".clone_into(&mut self.message),
            },
            _ => {}
        }
        KeyAction::None
    }

    /// Sorts by the next column or the one before.
    fn sort_by(&mut self, step: isize) {
        let columns = self.view().columns().len();
        let sort = &mut self.page_mut().sort;
        let next = sort.column.checked_add_signed(step).unwrap_or(columns.saturating_sub(1));
        *sort = Sort { column: if next < columns { next } else { 0 }, is_reversed: false };
        self.arrange();
    }

    /// Shows the caller's jobs only, or again everybody's.
    fn mine(&mut self) {
        let View::Jobs { user: now } = self.view() else {
            "m shows only your own jobs, in :jobs".clone_into(&mut self.message);
            return;
        };
        let user = if now.is_some() { None } else { self.user.clone() };
        if user == *now {
            "whose jobs are yours is not known: use :jobs USER".clone_into(&mut self.message);
            return;
        }
        self.page_mut().view = View::Jobs { user };
        (self.data, self.failed) = (None, None);
    }

    /// Goes down into the selected row.
    fn enter(&mut self) -> KeyAction {
        match self.selected() {
            None => {}
            Some(Thing::Band(band)) => {
                let filter = band;
                self.down(Page { filter, ..Page::new(View::Jobs { user: None }) });
            }
            Some(Thing::Job { user, job }) => self.down(Page::new(View::Tasks { user, job })),
            Some(Thing::Machine(_) | Thing::Task { .. }) => return self.open(),
        }
        KeyAction::None
    }

    /// Opens a pane with the description of the selected row.
    fn open(&mut self) -> KeyAction {
        let Some(thing) = self.selected() else { return KeyAction::None };
        self.mode = Mode::Pane(Pane::about(thing.clone()));
        KeyAction::Describe(thing)
    }

    fn filter_key(&mut self, key: KeyPress) -> KeyAction {
        let filter = &mut self.page_mut().filter;
        match key {
            KeyPress::Esc => {
                filter.clear();
                self.mode = Mode::Table;
            }
            KeyPress::Enter => self.mode = Mode::Table,
            KeyPress::Backspace if filter.pop().is_none() => self.mode = Mode::Table,
            KeyPress::Char(character) if filter.chars().count() < INPUT_MAX => {
                filter.push(character);
            }
            KeyPress::Up => self.select(self.place().saturating_sub(1)),
            KeyPress::Down => self.select(self.place().saturating_add(1)),
            _ => {}
        }
        self.arrange();
        KeyAction::None
    }

    fn command_key(&mut self, key: KeyPress) -> KeyAction {
        let Mode::Command(typed) = &mut self.mode else { return KeyAction::None };
        match key {
            KeyPress::Enter => {
                let typed = std::mem::take(typed);
                self.mode = Mode::Table;
                return self.command(&typed);
            }
            KeyPress::Esc => self.mode = Mode::Table,
            KeyPress::Backspace if typed.pop().is_none() => self.mode = Mode::Table,
            KeyPress::Char(character) if typed.chars().count() < INPUT_MAX => typed.push(character),
            _ => {}
        }
        KeyAction::None
    }

    /// Carries out a typed command.
    fn command(&mut self, typed: &str) -> KeyAction {
        match typed.trim() {
            "" => {}
            "q" | "quit" => return KeyAction::Quit,
            "help" => self.mode = Mode::Pane(Pane::help()),
            "jobs mine" if self.user.is_some() => {
                let user = self.user.clone();
                self.down(Page::new(View::Jobs { user }));
            }
            text => match text.parse::<View>() {
                Ok(view) => self.down(Page::new(view)),
                Err(why) => self.message = why,
            },
        }
        KeyAction::None
    }
}
