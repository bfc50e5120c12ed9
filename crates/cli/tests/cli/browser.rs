//! A headless Chromium, over its debugging pipe: JSON with a zero byte behind each message. No driver program and no library
//! is between, so what a test sends is what the browser gets.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    session: String,
    last: u64,
    profile: PathBuf,
    /// The errors that the page has reported.
    pub complaints: Vec<String>,
}

impl Browser {
    /// Starts a browser; `None` if there is no Chromium.
    pub fn start(directory: &Path) -> Option<Self> {
        if !testing::needs_program("chromium") {
            return None;
        }
        let profile = directory.join("chromium");
        std::fs::create_dir_all(&profile).unwrap();
        // The pipe is at the descriptors 3 and 4.
        let mut command = Command::new("sh");
        command.args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null", "chromium"]);
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]);
        command.args([
            "--disable-background-networking",
            "--disable-component-update",
            "--remote-debugging-pipe",
        ]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.env("HOME", &profile).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut browser =
            Self { child, input, output, session: String::new(), last: 0, profile, complaints: Vec::new() };
        let target =
            browser.call("Target.createTarget", &json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", &json!({ "targetId": target, "flatten": true }));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        Some(browser)
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser has ended");
            let mut message: Value = serde_json::from_slice(&bytes).unwrap();
            if message["id"] == self.last {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => self.complaints.push(message["params"].to_string()),
                // Failures of the network are expected: the test ends the daemon.
                Some("Log.entryAdded") if message["params"]["entry"]["source"] != "network" => {
                    self.complaints.push(message["params"]["entry"].to_string());
                }
                _ => {}
            }
        }
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", &json!({ "url": url }));
    }

    /// Returns the value of an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "returnByValue": true });
        let mut reported = self.call("Runtime.evaluate", &asked);
        assert!(reported.get("exceptionDetails").is_none(), "{expression}: {reported}");
        reported["result"]["value"].take()
    }

    /// Waits until an expression is true. An expression that fails, because an element is not there yet, counts as false.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        for _ in 0..1_200 {
            if self
                .value(&format!("(() => {{ try {{ return !!({expression}) }} catch {{ return false }} }})()"))
                == true
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let text = self.value("document.body.innerText");
        panic!("never: {expression}\n{text}\n{:?}", self.complaints);
    }

    /// Clicks into the middle of the element that an expression returns, by events of the mouse.
    pub fn click(&mut self, element: &str) {
        let place = self.value(&format!(
            "(e => {{ e.scrollIntoView({{ block: 'center' }}); const r = e.getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})({element})"
        ));
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": if kind == "mouseMoved" { "none" } else { "left" }, "clickCount": i32::from(kind != "mouseMoved") });
            self.call("Input.dispatchMouseEvent", &event);
        }
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str, code: u32) {
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if kind == "keyDown" { text } else { "" } });
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Makes the window this wide and high; a narrow one is that of a telephone.
    pub fn size(&mut self, width: u32, height: u32) {
        let mobile = width < 600;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.call("Emulation.setDeviceMetricsOverride", &size);
    }

    /// Tells the page that the system's scheme is dark or light.
    pub fn scheme(&mut self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// Returns the role and the name, as a screen reader gets them, of each control that the keyboard reaches.
    pub fn controls(&mut self) -> Vec<[String; 2]> {
        let tree = self.call("Accessibility.getFullAXTree", &json!({}));
        let controls = tree["nodes"].as_array().unwrap().iter().filter_map(|node| {
            let properties = node["properties"].as_array()?;
            let text = |of: &str| node[of]["value"].as_str().unwrap_or_default().to_owned();
            let is_control = node["ignored"] == false && text("role") != "RootWebArea";
            let is_reached = properties.iter().any(|property| property["name"] == "focusable");
            (is_control && is_reached).then(|| [text("role"), text("name")])
        });
        controls.collect()
    }

    /// Saves a picture of the whole page below the target directory.
    pub fn picture(&mut self, name: &str) {
        let reported =
            self.call("Page.captureScreenshot", &json!({ "format": "png", "captureBeyondViewport": true }));
        let bytes = base64(reported["data"].as_str().unwrap());
        assert!(bytes.starts_with(b"\x89PNG"));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(format!("{name}.png")), bytes).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

fn base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> =
        text.bytes().filter(|byte| *byte != b'=').map(|byte| u32::from(value(byte))).collect();
    let four = |four: &[u32]| {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(four).collect()
}
