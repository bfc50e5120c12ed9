//! The page, over real sockets.

use crate::control::daemon::{Daemon, again, start};
use crate::tls::Certificates;
use serde_json::{Value, json};
use server::Tls;
use server::control::Roles;
use server::web::{BROWSERS_MAX, PageContent, SnapshotSource, Token, Web, WebConfig, WebError};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TASKS: &str = "/v1/disks/data/tasks";
const TOKEN: &str = "u2Yp0hXlQ8mZb7Rk";

fn here() -> WebConfig {
    WebConfig { every: Duration::from_millis(20), ..WebConfig::new("127.0.0.1:0".parse().unwrap()) }
}

/// Returns the status code and the rest of the answer.
fn asked(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    if headers.iter().all(|(name, _)| *name != "host") {
        text += &format!("host: {address}\r\n");
    }
    headers.iter().for_each(|(name, value)| text += &format!("{name}: {value}\r\n"));
    text += &format!("content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// A browser that follows the page.
struct Browser(BufReader<TcpStream>);

impl Browser {
    fn new(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(format!("GET /events HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).unwrap();
        Self(BufReader::new(stream))
    }

    fn code(&mut self) -> u16 {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn next(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }

    /// Returns the secret with which the page may change something, from the first event.
    fn control(&mut self) -> String {
        self.next()["control"].as_str().unwrap().to_owned()
    }
}

fn page(name: &str, config: WebConfig) -> Option<(Daemon, Web)> {
    let daemon = start(name, Roles::default());
    let daemon = daemon.inspect_err(|why| testing::missing(&format!("a daemon: {why}"))).ok()?;
    let web = Web::open(config, PageContent::Disks(daemon.handles())).unwrap();
    Some((daemon, web))
}

#[test]
fn an_address_that_other_machines_reach_needs_token_and_certificate() {
    let certificates = Certificates::new("page-address");
    let [certificate, key] = ["server-cert.pem", "server-key.pem"].map(|name| certificates.file(name));
    let tls = || Some(Tls::from_files(&certificate, &key, None, true).unwrap());
    let token = || Some(Token::new(TOKEN).unwrap());
    for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0"] {
        let at = WebConfig::new(address.parse().unwrap());
        for config in [
            at.clone(),
            WebConfig { token: token(), ..at.clone() },
            WebConfig { tls: tls(), ..at.clone() },
            WebConfig { control: true, ..at.clone() },
        ] {
            let error = Web::open(config, PageContent::Disks(Vec::new())).unwrap_err();
            assert!(matches!(error, WebError::Remote(_)), "{error}");
            assert!(error.to_string().contains("give a token and a certificate"), "{error}");
        }
        WebConfig { token: token(), tls: tls(), ..at }.check().unwrap();
    }
    for address in ["127.0.0.1:0", "127.8.0.1:0", "[::1]:0"] {
        WebConfig::new(address.parse().unwrap()).check().unwrap();
    }
}

#[test]
fn the_page_is_whole_and_sealed() {
    let web = Web::open(here(), PageContent::Disks(Vec::new())).unwrap();
    for (path, kind) in [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")] {
        let (code, answer) = asked(web.address(), "GET", path, &[], "");
        assert_eq!(code, 200);
        assert!(answer.contains(&format!("content-type: {kind}; charset=utf-8")), "{answer}");
        for header in ["content-security-policy: default-src 'none'; ", "frame-ancestors 'none'", "nosniff"] {
            assert!(answer.contains(header), "{path}: no {header}");
        }
    }
    assert_eq!(asked(web.address(), "GET", "/v1/status", &[], "").0, 404);
    assert_eq!(web.snapshots(), 0, "without a browser nothing is made");
}

#[test]
fn a_snapshot_has_all_disks_and_their_tasks_and_no_paths() {
    let Some((daemon, web)) = page("page-shape", here()) else { return };
    let control = daemon.client();
    control.post(TASKS, &json!({ "kind": "scrub" })).unwrap();
    let image = daemon.path("secret-image");
    control.post(TASKS, &json!({ "kind": "backup", "to": image, "block_sectors": 64 })).unwrap();
    let mut browser = Browser::new(web.address());
    assert_eq!(browser.code(), 200);
    assert_eq!(browser.next()["control"], Value::Null, "a page only shows");
    let snapshot = loop {
        let snapshot = browser.next();
        let done = |task: &Value| task["state"] == "done";
        if snapshot["disks"][0]["tasks"].as_array().unwrap().iter().all(done) {
            break snapshot;
        }
    };
    assert!(!snapshot.to_string().contains("secret"), "{snapshot}");
    assert_eq!(snapshot["bounds_us"][0], 50);
    let disk = &snapshot["disks"][0];
    assert_eq!((&disk["name"], &disk["sector_bytes"]), (&json!("data"), &json!(512)));
    let time = &disk["status"]["device_time"];
    let all = ["requests_us", "gaps_us", "idle_us", "others_us"];
    let used: f64 = all.iter().map(|part| time[part].as_f64().unwrap()).sum();
    assert!(
        time["idle_us"].as_f64().unwrap() > 0.0 && used <= time["elapsed_us"].as_f64().unwrap(),
        "{time}"
    );
    let accesses = disk["status"]["accesses"].as_array().unwrap();
    assert!((1..=24).contains(&accesses.len()));
    assert!(
        accesses.iter().all(|access| access["purpose"] == "idle" && access["lbn"].is_u64()),
        "{accesses:?}"
    );
    for task in disk["tasks"].as_array().unwrap() {
        let rings = task["rings"].as_array().unwrap();
        assert_eq!(rings, &vec![json!(1.0); 64], "{task}");
    }
    drop(web);
    daemon.end();
}

#[test]
fn the_rings_fill_where_a_scrub_has_been() {
    let Some((daemon, web)) = page("page-rings", here()) else { return };
    let control = daemon.client();
    let sectors = control.get("/v1/disks").unwrap()["disks"][0]["sectors"].as_u64().unwrap();
    let scrub =
        json!({ "kind": "scrub", "first_lbn": sectors / 2, "sectors": sectors / 4, "block_sectors": 1 });
    control.post(TASKS, &scrub).unwrap();
    let mut browser = Browser::new(web.address());
    let mut partly = false;
    loop {
        let snapshot = browser.next();
        let task = &snapshot["disks"][0]["tasks"][0];
        let Some(rings) = task["rings"].as_array().filter(|rings| !rings.is_empty()) else { continue };
        let rings: Vec<f64> = rings.iter().map(|ring| ring.as_f64().unwrap()).collect();
        assert!(rings[..31].iter().chain(&rings[49..]).all(|ring| *ring == 0.0), "{rings:?}");
        partly |= task["state"] == "running" && rings.iter().any(|ring| *ring > 0.0);
        if task["state"] == "done" {
            assert!(rings[33..47].iter().all(|ring| *ring == 1.0), "{rings:?}");
            break;
        }
    }
    assert!(partly, "no snapshot was taken while it ran");
    drop(web);
    daemon.end();
}

/// A paused task reads no block, so the rings show what the journal had saved.
#[test]
fn after_a_restart_the_rings_of_a_scrub_show_what_it_had_done_before() {
    let Some((daemon, web)) = page("page-restart", here()) else { return };
    let control = daemon.client();
    control.post(TASKS, &json!({ "kind": "scrub", "block_sectors": 1 })).unwrap();
    let rings = |browser: &mut Browser| -> f64 {
        let snapshot = browser.next();
        let rings = snapshot["disks"][0]["tasks"][0]["rings"].as_array().cloned().unwrap_or_default();
        rings.iter().filter_map(Value::as_f64).sum()
    };
    let mut browser = Browser::new(web.address());
    assert!((0..3_000).any(|_| rings(&mut browser) > 4.0), "the rings do not fill");
    control.post(&format!("{TASKS}/1/pause"), &json!({})).unwrap();
    drop(web);
    let Ok(daemon) = again(daemon.end(), Roles::default()) else { return };
    let done = daemon.client().get(&format!("{TASKS}/1")).unwrap();
    assert_eq!(done["state"], "paused", "it was over before it was paused");
    let share = done["done"].as_f64().unwrap() / done["blocks"].as_f64().unwrap();
    let web = Web::open(here(), PageContent::Disks(daemon.handles())).unwrap();
    let mut browser = Browser::new(web.address());
    browser.next();
    let shown = rings(&mut browser) / 64.0;
    assert!(shown > 0.05 && (shown - share).abs() < 0.02, "{shown} is shown, and {share} is done");
    drop(web);
    daemon.end();
}

#[test]
fn the_page_starts_scrubs_and_steers_tasks_and_does_nothing_else() {
    let Some((daemon, web)) = page("page-control", WebConfig { control: true, ..here() }) else { return };
    let address = web.address();
    let key = Browser::new(address).control();
    let key = ("x-freeblock-control", key.as_str());
    let scrub = r#"{"kind":"scrub","block_sectors":1}"#;
    for (headers, code) in [
        (vec![], 403),
        (vec![("x-freeblock-control", "0123456789abcdef0123456789abcdef")], 403),
        (vec![key, ("origin", "http://evil.example")], 403),
        (vec![key, ("sec-fetch-site", "cross-site")], 403),
        (vec![key, ("host", "evil.example")], 403),
        (vec![key, ("sec-fetch-site", "same-origin")], 201),
    ] {
        let (found, answer) = asked(address, "POST", TASKS, &headers, scrub);
        assert_eq!(found, code, "{headers:?}: {answer}");
    }
    let tasks = || daemon.client().get(TASKS).unwrap()["tasks"].clone();
    assert_eq!(tasks().as_array().unwrap().len(), 1, "a refused request has started a task");
    for (what, state) in [("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")] {
        let (code, answer) = asked(address, "POST", &format!("{TASKS}/1/{what}"), &[key], "");
        assert_eq!((code, &tasks()[0]["state"]), (200, &json!(state)), "{answer}");
    }
    let image = daemon.path("image");
    for (path, body, code) in [
        (TASKS, json!({ "kind": "backup", "to": image }), 403),
        (TASKS, json!({ "kind": "scrub", "checksums": daemon.path("sums") }), 403),
        (TASKS, json!({ "kind": "scrub", "block_sectors": 0 }), 400),
        ("/v1/disks/data/sessions", json!({}), 404),
        ("/v1/disks/data/tasks/1/erase", json!({}), 404),
    ] {
        let (found, answer) = asked(address, "POST", path, &[key], &body.to_string());
        assert_eq!(found, code, "{path}: {answer}");
    }
    let long = format!("{{\"kind\":\"{}\"}}", "x".repeat(5_000));
    assert_eq!(asked(address, "POST", TASKS, &[key], &long).0, 413);
    assert_eq!(tasks().as_array().unwrap().len(), 1);
    drop(web);
    daemon.end();
}

#[test]
fn a_page_that_only_shows_changes_nothing() {
    let Some((daemon, web)) = page("page-shows", here()) else { return };
    let (code, answer) =
        asked(web.address(), "POST", TASKS, &[("x-freeblock-control", "")], r#"{"kind":"scrub"}"#);
    assert_eq!(code, 403);
    assert!(answer.contains("--web-control"), "{answer}");
    assert_eq!(daemon.client().get(TASKS).unwrap(), json!({ "tasks": [] }));
    drop(web);
    daemon.end();
}

/// A source that numbers its snapshots.
#[derive(Default)]
struct NumberedSnapshots(AtomicU64);

impl SnapshotSource for NumberedSnapshots {
    fn snapshot(&self) -> Value {
        json!({ "n": self.0.fetch_add(1, Ordering::Relaxed), "filler": "x".repeat(1 << 20) })
    }

    fn set(&self, _: &Value) -> Result<(), String> {
        Err("there is nothing to set".into())
    }
}

#[test]
fn a_hundred_browsers_share_one_snapshot_and_those_beyond_the_limit_are_refused() {
    let counted = Arc::new(NumberedSnapshots::default());
    let config = WebConfig { every: Duration::from_millis(100), ..here() };
    let web = Web::open(config, PageContent::Other(Arc::clone(&counted) as _)).unwrap();
    let mut all: Vec<Browser> = (0..BROWSERS_MAX).map(|_| Browser::new(web.address())).collect();
    assert!(all.iter_mut().all(|browser| browser.code() == 200));
    for _ in BROWSERS_MAX..100 {
        let (code, answer) = asked(web.address(), "GET", "/events", &[], "");
        assert_eq!(code, 503);
        assert!(answer.contains("32 browsers follow this page"), "{answer}");
    }
    // Two browsers read, and the others read nothing. If a snapshot were made for each browser, no two would see
    // the same number.
    let (mut a, mut b) = (all.pop().unwrap(), all.pop().unwrap());
    let mut seen = [BTreeSet::new(), BTreeSet::new()];
    let shared = (0..100).any(|_| {
        for (browser, seen) in [&mut a, &mut b].into_iter().zip(&mut seen) {
            seen.extend(browser.next()["n"].as_u64());
        }
        !seen[0].is_disjoint(&seen[1])
    });
    assert!(shared, "{seen:?}");
    let made = web.snapshots();
    assert!((made..=made + 2).contains(&counted.0.load(Ordering::Relaxed)), "one question for each snapshot");
    // The slot of a browser that has disconnected is free.
    drop(a);
    let again = (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        Browser::new(web.address()).code() == 200
    });
    assert!(again);
}

/// The requests take all connections of the page, and each gives way to a new connection until its body has
/// arrived.
#[test]
fn requests_whose_bodies_do_not_come_keep_no_browser_out() {
    let Some((daemon, web)) = page("page-bodies", WebConfig { control: true, ..here() }) else { return };
    let address = web.address();
    let mut browser = Browser::new(address);
    let key = browser.control();
    let head = format!(
        "POST {TASKS} HTTP/1.1\r\nhost: {address}\r\nx-freeblock-control: {key}\r\nexpect: 100-continue\r\n\
         content-length: 100\r\n\r\n"
    );
    let held: Vec<TcpStream> = (1..2 * BROWSERS_MAX)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(head.as_bytes()).unwrap();
            // The page waits for the body.
            let mut goes_on = [0; 25];
            stream.read_exact(&mut goes_on).unwrap();
            assert_eq!(&goes_on, b"HTTP/1.1 100 Continue\r\n\r\n");
            stream
        })
        .collect();
    assert_eq!(asked(address, "GET", "/", &[], "").0, 200);
    drop((held, browser, web));
    daemon.end();
}

#[test]
fn over_tls_nothing_is_shown_without_the_token() {
    if !testing::needs_program("curl") {
        return;
    }
    let certificates = Certificates::new("page");
    let [certificate, key] = ["server-cert.pem", "server-key.pem"].map(|name| certificates.file(name));
    let tls = Some(Tls::from_files(&certificate, &key, None, true).unwrap());
    let config = WebConfig { tls, token: Some(Token::new(TOKEN).unwrap()), ..here() };
    let web = Web::open(config, PageContent::Disks(Vec::new())).unwrap();
    let url = format!("https://localhost:{}", web.address().port());
    assert!(web.url().starts_with("https://127.0.0.1:"));
    let curl = |path: &str, arguments: &[&str]| {
        let mut command = Command::new("curl");
        command.args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "10", "--cacert"]);
        command.arg(certificates.file("ca-cert.pem")).args(arguments).arg(format!("{url}{path}"));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let (right, wrong) = (format!("freeblock:{TOKEN}"), format!("freeblock:{TOKEN}x"));
    for path in ["/", "/page.js", "/events", "/v1/disks/data/tasks"] {
        assert_eq!(curl(path, &[]), "401", "{path}");
        assert_eq!(curl(path, &["-u", &wrong]), "401", "{path}");
    }
    assert_eq!(curl("/", &["-u", &right]), "200");
    // A client that does not speak TLS gets no answer.
    let mut plain = TcpStream::connect(web.address()).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("freeblock"));
}
