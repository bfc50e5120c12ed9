//! Runs tests, each in a process of its own, and measures their processor time.

use crate::{Binary, Test};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// After this long without the end of a test, those under way are named.
const SILENCE: Duration = Duration::from_secs(60);

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It passed, and had all that it needs.
    Passed,
    /// It passed, and said that it checked nothing or a part only, for want of something.
    Skipped,
    /// It failed, was killed, or did not run.
    Failed,
}

/// A test that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The test's name.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The processor time of the test and of the processes that it waited for.
    pub processor: Duration,
    /// The time from its start to its end.
    pub took: Duration,
    /// The needs that the test lacked, in its own words.
    pub skips: Vec<String>,
    /// All that it printed.
    pub output: String,
}

/// Runs the tests in their order, `workers` at once, and calls `each` when one ends. The environment is the caller's; besides,
/// `FREEBLOCK_LONG` is set in the long tier and only there.
///
/// # Errors
/// If a test cannot be started.
pub fn run(
    binaries: &[Binary],
    tests: &[Test],
    workers: usize,
    long: bool,
    mut each: impl FnMut(&Finished),
    mut silence: impl FnMut(&[&str]),
) -> std::io::Result<Vec<Finished>> {
    let next = AtomicUsize::new(0);
    let (send, ended) = channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.max(1) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    let Some(test) = tests.get(at) else { return };
                    let result = one(&binaries[test.binary], test, long);
                    // The receiver is gone once a test could not be started.
                    let stop = result.is_err();
                    if send.send((at, result)).is_err() || stop {
                        next.store(tests.len(), Ordering::SeqCst);
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut finished: Vec<Option<Finished>> = vec![None; tests.len()];
        loop {
            match ended.recv_timeout(SILENCE) {
                Ok((at, result)) => {
                    let one = result?;
                    each(&one);
                    finished[at] = Some(one);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let begun = next.load(Ordering::SeqCst).min(tests.len());
                    let under_way: Vec<&str> = (0..begun)
                        .filter(|&at| finished[at].is_none())
                        .map(|at| tests[at].name.as_str())
                        .collect();
                    silence(&under_way);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(finished.into_iter().flatten().collect()),
            }
        }
    })
}

fn one(binary: &Binary, test: &Test, long: bool) -> std::io::Result<Finished> {
    let (mut read, write) = std::io::pipe()?;
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.directory).env("CARGO_MANIFEST_DIR", &binary.directory);
    if let Some(filter) = &test.filter {
        command.args(["--exact", filter, "--nocapture", "--include-ignored"]);
    }
    if long {
        command.env("FREEBLOCK_LONG", "1");
    } else {
        command.env_remove("FREEBLOCK_LONG");
    }
    let begun = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(write.try_clone()?).stderr(write).spawn()?;
    // The command holds the writing ends, and the pipe ends only when all are closed.
    drop(command);
    // A process that a test leaves behind holds the pipe as well; its words are not waited for.
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = read.read_to_end(&mut bytes);
        bytes
    });
    let processor = processor_time(&child).unwrap_or_else(|| begun.elapsed());
    let status = child.wait()?;
    let took = begun.elapsed();
    let left = Instant::now();
    while !reader.is_finished() && left.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut output = match reader.is_finished().then(|| reader.join()) {
        Some(Ok(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => "(a process that the test has left behind holds its output open)\n".into(),
    };
    let ran = test.filter.is_none() || output.contains("test result: ok. 1 passed;");
    if !status.success() {
        output += &format!("({status})\n");
    } else if !ran {
        output += "(no test ran)\n";
    }
    let skips = skips(&output);
    let outcome = match (status.success() && ran, skips.is_empty()) {
        (false, _) => Outcome::Failed,
        (true, false) => Outcome::Skipped,
        (true, true) => Outcome::Passed,
    };
    Ok(Finished { name: test.name.clone(), outcome, processor, took, skips, output })
}

/// Returns what a test that printed `output` lacked: of each line `skipped: NAME needs WHAT`, the rest behind `skipped: `. The
/// harness begins a line of its own before the test's first.
fn skips(output: &str) -> Vec<String> {
    let said = |line: &str| line.split_once("skipped: ").map(|(_, what)| what.trim().to_owned());
    let mut skips: Vec<String> = output.lines().filter_map(said).collect();
    skips.sort();
    skips.dedup();
    skips
}

/// Waits for a process to end, and returns the processor time of it and of those that it waited for. `None` where the system does
/// not say.
fn processor_time(child: &Child) -> Option<Duration> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    // It stays a zombie until `wait`, and so in /proc.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    of_stat(&std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?)
}

/// Returns fields 14 to 17 of proc_pid_stat(5) together: its own time and its children's, in user and in system mode. Linux counts
/// them in hundredths of a second for programs, on every architecture.
fn of_stat(stat: &str) -> Option<Duration> {
    // The second field, in parentheses, may have spaces and parentheses in it.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(Duration::from_millis(ticks * 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_includes_children() {
        let stat = "7 (a (b) c) Z 1 2 3 0 -1 4 0 0 0 0 150 20 30 4 20 0 1 0 99";
        assert_eq!(of_stat(stat), Some(Duration::from_millis(2040)));
        assert_eq!(of_stat("7 (a) Z 1 2"), None);
    }

    #[test]
    fn skips_are_found_behind_the_harness_own_words() {
        let output = "running 1 test\ntest a::b ... skipped: a::b needs curl\nok\nskipped: a::b needs curl\n";
        assert_eq!(skips(output), ["a::b needs curl"]);
    }
}
