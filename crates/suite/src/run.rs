//! Runs tests, each in a process of its own, and measures their processor time.

use crate::{Binary, Test};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::collections::{BTreeSet, VecDeque};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time without the end of a test after which the tests under way are named.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// The way in which a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The test passed, and had all that it needs.
    Passed,
    /// The test passed, and said that it checked nothing or only a part, because it lacked something.
    Skipped,
    /// The test failed, was killed, or did not run.
    Failed,
}

/// A test that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The test's name.
    pub name: String,
    /// The way in which the test ended.
    pub outcome: Outcome,
    /// The processor time of the test and of the processes that it waited for.
    pub processor: Duration,
    /// The time from the test's start to its end.
    pub took: Duration,
    /// The needs that the test lacked, as the test printed them.
    pub skips: Vec<String>,
    /// The whole output of the test.
    pub output: String,
}

/// Runs the tests, `workers` of them at once, and calls `each` when one ends. Every second worker runs tests that
/// wait for time to pass, as long as there are such tests; the others run tests that compute. Tests of one kind begin
/// in the given order. The environment is the caller's; in addition, `FREEBLOCK_LONG` is set in the long tier and
/// only there.
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
    let queue = Mutex::new(Queue::of(tests));
    let (send, ended) = channel();
    std::thread::scope(|scope| {
        for worker in 0..workers.max(1) {
            let (send, queue) = (send.clone(), &queue);
            scope.spawn(move || {
                loop {
                    // The queue is locked for this statement only, and not while the test runs.
                    let next = locked(queue).next(worker % 2 == 0);
                    let Some((at, test)) = next else { return };
                    let result = one(&binaries[test.binary], test, long);
                    // The receiver is gone once a test could not be started.
                    let stop = result.is_err();
                    if send.send((at, result)).is_err() || stop {
                        locked(queue).clear();
                        return;
                    }
                }
            });
        }
        drop(send);
        let mut finished: Vec<Option<Finished>> = vec![None; tests.len()];
        loop {
            match ended.recv_timeout(SILENCE_MAX) {
                Ok((at, result)) => {
                    let one = result?;
                    each(&one);
                    finished[at] = Some(one);
                }
                Err(RecvTimeoutError::Timeout) => {
                    let left = locked(&queue).left();
                    let under_way: Vec<&str> = (0..tests.len())
                        .filter(|at| finished[*at].is_none() && !left.contains(at))
                        .map(|at| tests[at].name.as_str())
                        .collect();
                    silence(&under_way);
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(finished.into_iter().flatten().collect()),
            }
        }
    })
}

/// The tests that have not begun, with their places in the given order.
struct Queue<'a> {
    waiting: VecDeque<(usize, &'a Test)>,
    computing: VecDeque<(usize, &'a Test)>,
}

impl<'a> Queue<'a> {
    fn of(tests: &'a [Test]) -> Self {
        let (waiting, computing) = tests.iter().enumerate().partition(|(_, test)| test.waits);
        Self { waiting, computing }
    }

    /// Returns the next test: if `waits` is set, preferably one that waits, otherwise preferably one that computes.
    fn next(&mut self, waits: bool) -> Option<(usize, &'a Test)> {
        let [first, then] = match waits {
            true => [&mut self.waiting, &mut self.computing],
            false => [&mut self.computing, &mut self.waiting],
        };
        first.pop_front().or_else(|| then.pop_front())
    }

    fn left(&self) -> BTreeSet<usize> {
        self.waiting.iter().chain(&self.computing).map(|(at, _)| *at).collect()
    }

    fn clear(&mut self) {
        self.waiting.clear();
        self.computing.clear();
    }
}

/// Locks the queue. A worker that panics cannot leave the queue half changed, so that a poisoned lock is used as
/// well.
fn locked<'q, 'a>(queue: &'q Mutex<Queue<'a>>) -> MutexGuard<'q, Queue<'a>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
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
    // A process that a test leaves behind keeps the pipe open as well, so a thread reads the output, and is waited
    // for only some seconds.
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

/// Returns the needs that a test lacked, from its output: of each line `skipped: NAME needs WHAT`, the part after
/// `skipped: `. The harness may have printed something at the beginning of that line.
fn skips(output: &str) -> Vec<String> {
    let said = |line: &str| line.split_once("skipped: ").map(|(_, what)| what.trim().to_owned());
    let mut skips: Vec<String> = output.lines().filter_map(said).collect();
    skips.sort();
    skips.dedup();
    skips
}

/// Waits for a process to end, and returns the processor time of that process and of those that it waited for. `None`
/// if the system does not report it.
fn processor_time(child: &Child) -> Option<Duration> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    // The process stays a zombie, which is still in /proc, until `wait`.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).ok()?;
    of_stat(&std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?)
}

/// Returns the sum of fields 14 to 17 of proc_pid_stat(5): the times of a process and of its children, in user and in
/// system mode. Linux counts them in hundredths of a second for programs, on every architecture.
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
    fn a_test_that_waits_runs_beside_one_that_computes() {
        let test =
            |name: &str, waits| Test { name: name.into(), binary: 0, filter: None, ignored: false, waits };
        let tests = [test("a", false), test("b", true), test("c", false), test("d", false), test("e", true)];
        let mut queue = Queue::of(&tests);
        let begun = [true, false, true, true, false, false].map(|waits| queue.next(waits).map(|(at, _)| at));
        assert_eq!(begun, [Some(1), Some(0), Some(4), Some(2), Some(3), None]);
        let mut queue = Queue::of(&tests);
        let begun = [false; 5].map(|waits| queue.next(waits).map(|(at, _)| at));
        assert_eq!(begun, [Some(0), Some(2), Some(3), Some(1), Some(4)]);
    }

    #[test]
    fn skips_are_found_behind_the_harness_own_words() {
        let output = "running 1 test\ntest a::b ... skipped: a::b needs curl\nok\nskipped: a::b needs curl\n";
        assert_eq!(skips(output), ["a::b needs curl"]);
    }
}
