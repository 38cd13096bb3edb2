//! Sigma, the web UI (paper, sections 2.6 and 8.2): the whole cell, and why.
//!
//! Pages are rendered on the server, work without scripts, and change live by server-sent events. Sigma
//! has no data of its own and no rights: it asks the cell's API as the user who has signed in, so what it
//! shows and does, anybody can ask and do from the command line, and each page says how.
//!
//! It is served by every replica of a master that is told to (`bourg master --sigma`), for everyone with a
//! certificate of the cell, and by `bourg sigma` on a user's own computer, for that user.
//!
//! Not here: decisions about the cell, who may do what (the master decides; Sigma only does not offer what
//! it would reject), and any state that outlives the process.
//!
//! From the bottom up, each module uses only those before it: `show` is text and markup for amounts, times
//! and words (charts are the crate `chart`); `session` is who is signed in; `address` is which page; `problem` is why
//! there is none; `fleet` is all machines with what they use; `asker` asks the cell for one user; `pages` are
//! the pages, `layout` puts them in a document; `live` sends their changes, `terminal` runs commands in
//! tasks, `action` changes the cell, and `server` serves all of it.

mod action;
mod address;
mod app;
mod asker;
mod assets;
mod cached;
mod fleet;
mod layout;
mod live;
mod outputs;
mod page;
mod pages;
mod problem;
mod server;
mod session;
mod show;
mod sign_in;
mod terminal;

pub use app::Cell;
pub use server::Sigma;
pub use session::{NoSignIn, Sessions, SignInLink};
