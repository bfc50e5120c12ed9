//! The page of `freeblock serve --web` and `freeblock demo --web`: what is refused, and with a browser and real clicks.

use crate::browser::Browser;
use crate::crash::{Client, draw};
use crate::support::{command, run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// A program that shows a page.
struct Shown {
    child: Child,
    url: String,
    log: std::process::ChildStderr,
}

impl Shown {
    /// Starts the program; `None` if there is no io_uring.
    fn start(arguments: &[&str]) -> Option<Self> {
        let mut child =
            command().args(arguments).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let (mut log, mut url) = (String::new(), None);
        while url.is_none() {
            let before = log.len();
            if lines.read_line(&mut log).unwrap() == 0 {
                break;
            }
            let reported = log[before..].strip_prefix("page at ");
            url = reported.and_then(|url| url.split([';', '\n']).next()).map(str::to_owned);
        }
        let started = url.is_some();
        let shown = Self { child, url: url.unwrap_or_default(), log: lines.into_inner() };
        if !started {
            assert!(log.contains("io_uring"), "it does not start: {log}");
            testing::missing("io_uring");
        }
        started.then_some(shown)
    }

    /// Starts a daemon with an emulated drive so large that its scrub does not end during a test.
    fn daemon(directory: &Path, page: &[&str]) -> Option<Self> {
        let at = |name: &str| directory.join(name).display().to_string();
        let disk = format!("d0=emulated:quantum-atlas-10k,noise,file={}", at("disk"));
        let (listen, state) = (format!("unix:{}", at("nbd")), at("state"));
        let mut arguments = vec!["serve", "--disk", &disk, "--listen", &listen, "--state", &state];
        arguments.extend(page);
        Self::start(&arguments)
    }

    fn port(&self) -> &str {
        self.url.rsplit(':').next().unwrap().trim_end_matches('/')
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The pipe of the log is open until the process has ended, so that it never writes to a closed pipe.
        let _ = &self.log;
    }
}

pub fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("freeblock-cli-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

#[test]
fn a_page_that_other_machines_could_open_is_refused_with_the_mend() {
    let directory = directory("page-refused");
    let at = |name: &str| directory.join(name).display().to_string();
    let serve = format!(
        "serve --disk d0=emulated:quantum-atlas-10k,file={} --listen unix:{} --state {}",
        at("disk"),
        at("nbd"),
        at("state")
    );
    let token = at("token");
    std::fs::write(&token, "u2Yp0hXlQ8mZb7Rk\n").unwrap();
    std::fs::write(at("short"), "secret\n").unwrap();
    let open = "--web 0.0.0.0:0";
    let mend = "give a token and a certificate, or listen on 127.0.0.1 and reach the page through ssh -L";
    run(&format!("{serve} {open}")).complained(2, &["0.0.0.0:0", mend]);
    run(&format!("{serve} {open} --web-control --web-token {token}")).complained(2, &[mend]);
    run(&format!("{serve} --web --web-token {}", at("short"))).complained(1, &["the token needs 16 to 256"]);
    run(&format!("{serve} --web localhost")).complained(2, &["give one as 127.0.0.1:8080"]);
    run(&format!("{serve} --web-control")).complained(2, &["--web"]);
    let bare = serve.replace(&format!(" --state {}", at("state")), "");
    run(&format!("{bare} --web")).complained(2, &["a page, and no state directory", "give --state"]);
    run("demo --web 0.0.0.0:0").complained(2, &[mend]);
    let _ = std::fs::remove_dir_all(directory);
}

const BAR: &str = "document.querySelector('.task progress').value";
const CONNECTED: &str = "document.querySelector('#state').textContent.startsWith('Connected')";

fn is(state: &str) -> String {
    format!("document.querySelector('.task .is')?.textContent.startsWith('{state},')")
}

/// Checks the page at the widths of a window, a large screen and a telephone, and keeps pictures.
pub fn at_all_widths(browser: &mut Browser, name: &str) {
    for (width, scheme) in [(1000, "light"), (1600, "dark"), (390, "light")] {
        browser.scheme(scheme);
        browser.size(width, 900);
        browser.until(&format!(
            "innerWidth === {width} && document.documentElement.dataset.theme === '{scheme}'"
        ));
        let wide = browser.value("document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= u64::from(width), "{name}: {wide} wide in a window of {width}");
        browser.picture(&format!("{name}-{width}"));
    }
    browser.scheme("light");
    browser.size(1000, 900);
    // Every drawing and every control has a text for screen readers.
    let silent = "[...document.querySelectorAll('svg, button, input')].filter(e => !e.getAttribute('aria-label') && !e.textContent && !e.labels?.length).length";
    assert_eq!(browser.value(silent), 0);
    let mut controls = browser.controls();
    assert!(controls.len() > 3, "{name}: {controls:?}");
    controls.sort();
    for pair in controls.windows(2) {
        assert!(pair[0][1] != pair[1][1] && !pair[1][1].is_empty(), "{name}: {pair:?} have one name");
    }
    let apart = "[...document.body.children].filter(e => e.offsetParent && !e.matches('header, main, .skip, .unseen') && !e.ariaLabel && !e.getAttribute('aria-labelledby')).map(e => e.id)";
    assert_eq!(browser.value(apart), serde_json::json!([]), "{name}: parts without a name");
    assert_eq!(browser.value("[...document.querySelectorAll('th')].filter(t => !t.textContent).length"), 0);
    browser.value("document.querySelectorAll('details').forEach(d => d.open = true)");
    let empty = "[...document.querySelectorAll('figure')].filter(f => f.querySelector('tbody') && !f.querySelector('tbody').rows.length).map(f => f.className)";
    browser.until(&format!("({empty}).filter(c => c !== 'gaps').length === 0"));
    browser.value("document.querySelectorAll('details').forEach(d => d.open = false)");
}

#[test]
fn in_a_browser_a_scrub_is_started_paused_and_found_again_after_the_daemon_was_lost() {
    let directory = directory("page-clicks");
    let Some(mut browser) = Browser::start(&directory) else { return };
    let Some(daemon) = Shown::daemon(&directory, &["--web", "127.0.0.1:0", "--web-control"]) else { return };
    let address = format!("127.0.0.1:{}", daemon.port());
    browser.size(1000, 900);
    browser.open(&daemon.url);
    browser.until(CONNECTED);
    browser.until("document.querySelector('.scrub:not([hidden])')");
    browser.click("document.querySelector('.scrub')");
    browser.until(&is("running"));
    // The bar moves, and the rings and the columns with it.
    browser.until(&format!("{BAR} > 0"));
    let before = browser.value(BAR).as_f64().unwrap();
    browser.until(&format!("{BAR} > {before}"));
    browser.until("[...document.querySelectorAll('.ring')].some(r => r.getAttribute('stroke-opacity') > 0)");
    browser.until("document.querySelectorAll('.time svg .c2').length > 2");
    at_all_widths(&mut browser, "serve");
    browser.click("document.querySelector('[data-act=pause]')");
    browser.until(&is("paused"));
    browser.until("document.querySelector('#news').textContent.includes('is paused')");
    // The button that has replaced the pressed one has the focus, so the keyboard goes on from there.
    browser.until("document.activeElement?.dataset.act === 'resume'");
    browser.key("Enter", 13);
    browser.until(&is("running"));

    let before = browser.value(BAR).as_f64().unwrap();
    drop(daemon);
    browser.until("document.querySelector('#state.lost')?.textContent.includes('does not answer')");
    browser.picture("serve-lost");
    let Some(daemon) = Shown::daemon(&directory, &["--web", &address, "--web-control"]) else { return };
    browser.until(CONNECTED);
    browser.until(&format!("{} && {BAR} >= {before} && {BAR} > 0", is("running")));
    // The new daemon does not accept the secret of the one before, and has given the page a new one.
    browser.click("document.querySelector('[data-act=cancel]')");
    browser.until(&is("cancelled"));
    assert_eq!(browser.complaints, [""; 0]);
    drop((browser, daemon));
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn in_a_browser_two_disks_of_a_daemon_are_shown_and_steered_apart() {
    let directory = directory("page-two");
    let Some(mut browser) = Browser::start(&directory) else { return };
    let at = |name: &str| directory.join(name).display().to_string();
    let disk = |name: &str| {
        let (file, socket) = (at(name), at(&format!("{name}.sock")));
        format!(
            "[[disk]]\nname = \"{name}\"\ndevice = \"emulated:quantum-atlas-10k,noise,file={file}\"\nlisten = [\"unix:{socket}\"]\n"
        )
    };
    let web = "[web]\nlisten = \"127.0.0.1:0\"\ncontrol = true\n";
    let config = at("freeblock.toml");
    std::fs::write(&config, format!("state = \"{}\"\n{web}{}{}", at("state"), disk("a"), disk("b"))).unwrap();
    let arguments = ["serve", "--config", &config];
    let Some(daemon) = Shown::start(&arguments) else { return };
    browser.size(1000, 900);
    browser.open(&daemon.url);
    browser.until(CONNECTED);
    browser.until("document.querySelectorAll('.disk .scrub:not([hidden])').length === 2");
    let names = browser.value("[...document.querySelectorAll('.disk h2')].map(h => h.textContent)");
    assert_eq!(names, serde_json::json!(["a", "b"]));
    browser.click("document.querySelectorAll('.disk .scrub')[1]");
    let of = |disk: usize| format!("document.querySelectorAll('.disk')[{disk}]");
    browser.until(&format!("{}.querySelector('.task progress')?.value > 0", of(1)));
    browser.until(&format!(
        "[...{}.querySelectorAll('.ring')].some(r => r.getAttribute('stroke-opacity') > 0)",
        of(1)
    ));
    let first = browser.value(&format!("[{0}.querySelectorAll('.task').length, [...{0}.querySelectorAll('.ring')].filter(r => r.getAttribute('stroke-opacity') > 0).length]", of(0)));
    assert_eq!(first, serde_json::json!([0, 0]), "the other disk has no part in it");
    // Requests go to the first disk alone, whose bars then show the parts of their time.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut client, mut state) = (Client::open(&at("a.sock")), 7);
            while !stop.load(Ordering::Relaxed) {
                client.read(draw(&mut state, 60_000) * 200, 8);
            }
        });
        browser.until(&format!("{}.querySelectorAll('.time svg .c0').length > 0", of(0)));
        let label = format!("{}.querySelector('.time svg').getAttribute('aria-label')", of(0));
        browser.until(&format!(
            r"/Moves for requests (?!0\.0)\d.*Sectors of requests (?!0\.0%)\d/.test({label})"
        ));
        stop.store(true, Ordering::Relaxed);
    });
    browser.click("document.querySelectorAll('.disk .scrub')[0]");
    browser.until(&format!("{}.querySelector('.task progress')?.value > 0", of(0)));
    at_all_widths(&mut browser, "two");
    assert_eq!(browser.complaints, [""; 0]);
    drop((browser, daemon));
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn in_a_browser_the_demo_runs_at_the_speed_and_under_the_load_of_its_sliders() {
    let directory = directory("page-demo");
    let Some(mut browser) = Browser::start(&directory) else { return };
    let Some(demo) = Shown::start(&["demo", "--web", "127.0.0.1:0"]) else { return };
    browser.size(1000, 900);
    browser.open(&demo.url);
    browser.until("document.querySelector('#speed-is').textContent === 'real time'");
    browser.value("document.querySelector('#speed').focus()");
    (0..6).for_each(|_| browser.key("ArrowRight", 39));
    browser.until("document.querySelector('#speed-is').textContent.startsWith('64 times as fast')");
    // A screen reader reads these words, and not the slider's power of two.
    browser.until(
        "document.querySelector('#speed').getAttribute('aria-valuetext').startsWith('64 times as fast')",
    );
    browser.until("[...document.querySelectorAll('.ring')].every(r => r.getAttribute('stroke-opacity') > 0)");
    let same = r"(/([\d,]+) of ([\d,]+) completion times are identical/.exec(document.querySelector('.arms').textContent))";
    browser.until(&format!("{same}?.[1].length > 5 && {same}[1] === {same}[2]"));
    at_all_widths(&mut browser, "demo");
    browser.value("document.querySelector('#tasks').focus()");
    browser.key("ArrowLeft", 37);
    browser.until("document.querySelector('#demo-about').textContent.includes('with 9 tasks of transactions (OLTP), policy fcfs')");
    assert_eq!(browser.complaints, [""; 0]);
    drop((browser, demo));
    let _ = std::fs::remove_dir_all(directory);
}
