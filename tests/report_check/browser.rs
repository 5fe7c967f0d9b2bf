//! Headless Chromium over its debugging pipe: no socket, no driver program, no crate.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

/// Longest wait for anything the browser should do.
const PATIENCE: Duration = Duration::from_secs(60);

/// Window height.
const HEIGHT: u32 = 900;

/// A long page becomes several pictures, up to so many.
const PICTURE_HEIGHT: u64 = 1_500;
const PICTURES_MAX: u64 = 5;

/// The pipe is on descriptors 3 and 4 of the browser.
const SHELL: &str = "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// What the reader's system asks pages to be.
#[derive(Clone, Copy, Debug)]
pub enum Scheme {
    /// Dark on white.
    Light,
    /// The other way round.
    Dark,
}

/// A browser of its own with one page. Ends with it.
pub struct Page {
    browser: Child,
    pipe: ChildStdin,
    messages: Receiver<Value>,
    waiting: VecDeque<Value>,
    session: Option<String>,
    next_id: u64,
    rendered_in: Duration,
    requests: Vec<String>,
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Page {
    /// Opens `file` in a window of this width and waits until it is drawn.
    pub fn open(file: &Path, width: u32, scheme: Scheme) -> Page {
        let mut page = Page::start();
        let target = page.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = page.call("Target.attachToTarget", attach);
        page.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        let metrics = json!({"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": width < 600});
        page.call("Emulation.setDeviceMetricsOverride", metrics);
        let value = format!("{scheme:?}").to_lowercase();
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        page.call("Emulation.setEmulatedMedia", features);
        let began = Instant::now();
        page.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        page.wait_for("Page.loadEventFired");
        page.evaluate(
            "new Promise(f => requestAnimationFrame(() => requestAnimationFrame(() => f(0))))",
        );
        page.rendered_in = began.elapsed();
        page
    }

    fn start() -> Page {
        let chromium = std::env::var_os("CHROMIUM").unwrap_or_else(|| OsString::from("chromium"));
        let profile = tempfile::tempdir().unwrap();
        let mut browser = Command::new("sh")
            .args(["-c", SHELL, "sh"])
            .arg(chromium)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
            .args(["--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let (pipe, answers) = (browser.stdin.take().unwrap(), browser.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let message = message.ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let Some(message) = message else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Page {
            browser,
            pipe,
            messages,
            waiting: VecDeque::new(),
            session: None,
            next_id: 1,
            rendered_in: Duration::ZERO,
            requests: Vec::new(),
            complaints: Vec::new(),
            _profile: profile,
        }
    }

    /// From the request for the page to its second frame.
    pub fn rendered_in(&self) -> Duration {
        self.rendered_in
    }

    /// Every address asked for so far.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// Everything on the console, and every exception.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The value of a JavaScript expression, awaited.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let arguments =
            json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", arguments);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// A key, down and up.
    pub fn press(&mut self, key: &str) {
        let text = if key == "Enter" { "\r" } else { "" };
        let code = if key == "Enter" { 13 } else { 9 };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "text": text, "windowsVirtualKeyCode": code,
            });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// The page from the top as PNGs, one below the other.
    pub fn screenshots(&mut self) -> Vec<Vec<u8>> {
        let size = self.evaluate("[innerWidth, document.documentElement.scrollHeight]");
        let (width, height) = (&size[0], size[1].as_u64().unwrap());
        let tiles = height.div_ceil(PICTURE_HEIGHT).min(PICTURES_MAX);
        (0..tiles).map(|tile| self.screenshot(width, tile * PICTURE_HEIGHT)).collect()
    }

    fn screenshot(&mut self, width: &Value, top: u64) -> Vec<u8> {
        let clip = json!({"x": 0, "y": top, "width": width, "height": PICTURE_HEIGHT, "scale": 1});
        let arguments = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let answer = self.call("Page.captureScreenshot", arguments);
        let picture = answer["data"].as_str().unwrap();
        base64::engine::general_purpose::STANDARD.decode(picture).unwrap()
    }

    fn call(&mut self, method: &str, arguments: Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut message = json!({"id": id, "method": method, "params": arguments});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.pipe.write_all(&bytes).expect("the browser reads; is CHROMIUM one?");
        let answer = self.receive(|message| message["id"] == id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn wait_for(&mut self, event: &str) {
        self.receive(|message| message["method"] == event);
    }

    /// The next message that is wanted; others are kept, and what they tell is noted.
    fn receive(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.waiting.iter().position(&wanted) {
            return self.waiting.remove(index).unwrap();
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("the browser answers in time");
            self.note(&message);
            if wanted(&message) {
                return message;
            }
            self.waiting.push_back(message);
        }
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => {
                self.requests.push(parameters["request"]["url"].as_str().unwrap().to_owned());
            }
            Some("Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded") => {
                self.complaints.push(parameters.to_string());
            }
            _ => {}
        }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // Already gone is as good; the shell became the browser by exec, so this is its process.
        let _ = self.browser.kill();
        let _ = self.browser.wait();
    }
}
