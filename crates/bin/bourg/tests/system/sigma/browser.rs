//! A real browser: Chromium without a window, driven through `WebDriver`.

use std::net::TcpListener;
use std::time::Instant;

use fantoccini::actions::{InputSource as _, KeyAction, KeyActions};
use fantoccini::error::CmdError;
use fantoccini::key::Key;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper::Method;
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use url::{ParseError, Url};

use super::own;
use crate::eventually::{PATIENCE, eventually, until};
use crate::preload;
use crate::terminal::{Background, Terminal};
use crate::tools::needs;

/// A browser with one tab. It ends with this value.
pub(super) struct Browser {
    runtime: Runtime,
    tab: Option<Client>,
    _driver: Background,
}

/// A command of `WebDriver` that only Chromium knows.
#[derive(Debug)]
struct Own {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Own {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Starts it. Its files are in the home of the terminal.
    #[track_caller]
    pub(super) fn start(terminal: &Terminal) -> Self {
        needs("chromium", "chromium");
        needs("chromedriver", "chromium-driver");
        let temporary = terminal.path("browser");
        std::fs::create_dir_all(&temporary).expect("a directory for the browser");
        let temporary = format!("TMPDIR={}", temporary.display());
        // Other tests add and remove networks meanwhile, and Chromium would drop all its connections.
        let source = include_str!("../preload/same_network.rs");
        let same = preload::library(terminal, "same_network", source);
        let same = format!("LD_PRELOAD={}", same.display());
        let (driver, port) = eventually("the driver of the browser runs", || {
            let port = free_port();
            let flag = format!("--port={port}");
            let mut driver = terminal.start("env", &[&temporary, &same, "chromedriver", &flag]);
            // Somebody else may have taken the port meanwhile.
            until("the driver listens or ends", || {
                driver.stdout().contains("started successfully") || driver.code().is_some()
            });
            driver.code().is_none().then_some((driver, port))
        });
        let capabilities = json!({
            // It does not know the authority of the cell.
            "acceptInsecureCerts": true,
            "unhandledPromptBehavior": "accept",
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "goog:chromeOptions": { "args": [
                "--headless=new",
                // Its sandbox is for users other than root.
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
                "--hide-scrollbars",
                "--window-size=1280,800",
            ] },
        });
        let Value::Object(capabilities) = capabilities else { unreachable!("it is an object") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut builder = ClientBuilder::new(HttpConnector::new());
        builder.capabilities(capabilities);
        let tab = runtime.block_on(builder.connect(&format!("http://127.0.0.1:{port}")));
        let tab = Some(tab.expect("Chromium starts"));
        Self { runtime, tab, _driver: driver }
    }

    fn tab(&self) -> &Client {
        self.tab.as_ref().expect("it has not ended")
    }

    #[track_caller]
    fn chromium(&self, path: &'static str, body: Value) -> Value {
        let answer = self.runtime.block_on(self.tab().issue_cmd(Own { path, body }));
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// A command of Chromium's own protocol.
    #[track_caller]
    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.chromium("goog/cdp/execute", json!({ "cmd": command, "params": parameters }))
    }

    /// Opens an address, and waits until it is loaded.
    #[track_caller]
    pub(super) fn open(&self, address: &str) {
        let opened = self.runtime.block_on(self.tab().goto(&own(address)));
        opened.unwrap_or_else(|error| panic!("{address}: {error}"));
    }

    /// The address of the page, without its scheme, host and port.
    #[track_caller]
    pub(super) fn place(&self) -> String {
        let address = self.runtime.block_on(self.tab().current_url()).expect("an address");
        match address.query() {
            Some(query) => format!("{}?{query}", address.path()),
            None => address.path().to_owned(),
        }
    }

    /// The value of a script, which has `arguments`.
    #[track_caller]
    pub(super) fn run(&self, script: &str, arguments: Vec<Value>) -> Value {
        let value = self.try_run(script, arguments);
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    fn try_run(&self, script: &str, arguments: Vec<Value>) -> Result<Value, CmdError> {
        self.runtime.block_on(self.tab().execute(script, arguments))
    }

    /// The value that a script gives to the function that is its last argument.
    #[track_caller]
    pub(super) fn run_to_its_end(&self, script: &str, arguments: Vec<Value>) -> Value {
        let value = self.runtime.block_on(self.tab().execute_async(script, arguments));
        value.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The text of the first element of a selector as it is seen; empty if there is none, or if the page
    /// is just changing.
    pub(super) fn text(&self, css: &str) -> String {
        let script = "return document.querySelector(arguments[0])?.innerText ?? ''";
        let text = self.try_run(script, vec![css.into()]);
        text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The number of elements of a selector.
    pub(super) fn count(&self, css: &str) -> u64 {
        let script = "return document.querySelectorAll(arguments[0]).length";
        let count = self.try_run(script, vec![css.into()]);
        count.ok().and_then(|count| count.as_u64()).unwrap_or_default()
    }

    /// Waits until an element has a text in it.
    #[track_caller]
    pub(super) fn shows(&self, css: &str, text: &str) {
        let begun = Instant::now();
        until(&format!("{css} shows '{text}'"), || {
            let last = self.text(css);
            let is_so = last.contains(text);
            if !is_so && begun.elapsed() > PATIENCE * 9 / 10 {
                eprintln!("{css} of {} shows\n{last}\nof\n{}", self.place(), self.text("body"));
            }
            is_so
        });
    }

    /// Waits until an element has this text and no other.
    #[track_caller]
    pub(super) fn says(&self, css: &str, text: &str) {
        until(&format!("{css} says '{text}'"), || self.text(css) == text);
    }

    /// Waits until a page is loaded.
    #[track_caller]
    pub(super) fn is_at(&self, place: &str) {
        until(&format!("the page is {place}"), || {
            let loaded = self.try_run("return document.readyState", Vec::new());
            self.place() == own(place) && loaded.is_ok_and(|state| state == "complete")
        });
    }

    /// Clicks at an element as a person does: it must be in view and not be covered. It is looked for again
    /// if a live part is just being replaced.
    #[track_caller]
    pub(super) fn click(&self, css: &str) {
        self.click_at(Locator::Css(&own(css)));
    }

    /// Clicks at the link or button with a text.
    #[track_caller]
    pub(super) fn click_text(&self, text: &str) {
        let path = format!("//main//*[self::a or self::button][normalize-space()='{text}']");
        self.click_at(Locator::XPath(&path));
    }

    #[track_caller]
    fn click_at(&self, place: Locator<'_>) {
        let begun = Instant::now();
        until(&format!("{place:?} can be clicked"), || {
            let clicked = self.runtime.block_on(async {
                let element = self.tab().find(place).await?;
                // Not below the bar at the bottom.
                let to = "arguments[0].scrollIntoView({ block: 'center' })";
                let argument = serde_json::to_value(&element)?;
                self.tab().execute(to, vec![argument]).await?;
                element.click().await
            });
            if let Err(error) = &clicked
                && begun.elapsed() > PATIENCE * 9 / 10
            {
                eprintln!("{error}; {} shows\n{}", self.place(), self.text("body"));
            }
            clicked.is_ok()
        });
    }

    /// Types into the element that has the focus.
    #[track_caller]
    pub(super) fn types(&self, keys: &str) {
        let strokes = keys.chars().fold(KeyActions::new("keys".to_owned()), |strokes, value| {
            strokes.then(KeyAction::Down { value }).then(KeyAction::Up { value })
        });
        let typed = self.runtime.block_on(self.tab().perform_actions(strokes));
        typed.unwrap_or_else(|error| panic!("{keys:?}: {error}"));
    }

    /// Enter.
    #[track_caller]
    pub(super) fn enter(&self) {
        self.types(&char::from(Key::Enter).to_string());
    }

    /// Removes all cookies: to Sigma it is another browser then.
    #[track_caller]
    pub(super) fn forget(&self) {
        self.devtools("Network.clearBrowserCookies", &json!({}));
    }

    /// Switches scripts of pages on or off.
    #[track_caller]
    pub(super) fn scripts(&self, are_on: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", &json!({ "value": !are_on }));
    }

    /// Gives the page a size.
    #[track_caller]
    pub(super) fn size(&self, width: u64, height: u64) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", &size);
    }

    /// The page as a PNG, as far as it is in view.
    #[track_caller]
    pub(super) fn picture(&self) -> Vec<u8> {
        self.runtime.block_on(self.tab().screenshot()).expect("a picture")
    }

    /// What pages have complained about since the last call: errors of scripts, violations of the content
    /// policy, and files that could not be loaded.
    #[track_caller]
    pub(super) fn complaints(&self) -> Vec<String> {
        let all = self.chromium("se/log", json!({ "type": "browser" }));
        let of_pages = |entry: &Value| {
            let text = entry["message"].as_str().unwrap_or_default();
            let is_bad = matches!(entry["level"].as_str(), Some("SEVERE" | "WARNING"));
            is_bad.then(|| text.to_owned())
        };
        all.as_array().expect("a list").iter().filter_map(of_pages).collect()
    }

    /// The addresses that the tab has asked for since the last call.
    #[track_caller]
    pub(super) fn asked(&self) -> Vec<String> {
        let all = self.chromium("se/log", json!({ "type": "performance" }));
        let address = |entry: &Value| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let message = &message["message"];
            let is_sent = message["method"] == "Network.requestWillBeSent";
            let address = message["params"]["request"]["url"].as_str()?;
            is_sent.then(|| address.to_owned())
        };
        all.as_array().expect("a list").iter().filter_map(address).collect()
    }
}

/// A port that is free now. The driver's own choice may be taken already in the other family of addresses.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Some(tab) = self.tab.take() {
            let _ended = self.runtime.block_on(tab.close());
        }
    }
}
