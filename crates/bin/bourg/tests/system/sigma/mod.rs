//! Sigma: in a real browser, and what its server says to others.

mod banner;
mod browser;
mod drive;
mod hostile;
mod pages;
mod rights;
mod scene;
mod wire;

use browser::Browser;

use crate::cell::Cell;

/// A link that signs a browser in as the user of a client directory; the cell's own without one.
#[track_caller]
fn link(cell: &Cell, client: Option<&str>) -> String {
    let of = client.map_or_else(String::new, |client| format!("--cell {client} "));
    cell.ok(&format!("bourg {of}sigma open --print")).trim().to_owned()
}

/// An address, or a selector with one, in which `~` is the user of the cell.
fn own(text: &str) -> String {
    text.replace('~', "root")
}

/// `https://HOST:PORT` of a link.
fn origin(link: &str) -> String {
    link.split_once("/sign-in/").expect("it is a link").0.to_owned()
}

/// Signs the browser in by a link, as a person does; returns where Sigma is.
#[track_caller]
fn sign_in(browser: &Browser, cell: &Cell, client: Option<&str>) -> String {
    let link = link(cell, client);
    let user = client.map_or("root", |client| client.trim_start_matches("./"));
    browser.open(&link);
    browser.shows("main", &format!("This link signs this browser in as {user}, once."));
    browser.click("main button");
    browser.is_at("/");
    origin(&link)
}
