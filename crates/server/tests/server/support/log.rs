//! The log lines of a test.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, OnceLock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The log lines of this process that an operator sees.
#[derive(Clone, Default)]
pub struct OperatorLog(Arc<Mutex<Vec<String>>>);

impl OperatorLog {
    /// Returns the log that all tests of the process share.
    pub fn shared() -> Self {
        static LOG: OnceLock<OperatorLog> = OnceLock::new();
        let log = LOG.get_or_init(|| {
            let log = OperatorLog::default();
            tracing::subscriber::set_global_default(log.clone()).unwrap();
            log
        });
        log.clone()
    }

    pub fn has(&self, words: &[&str]) -> bool {
        self.0.lock().unwrap().iter().any(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Returns the first number after `field=` in each line with all these words; 0 for a line without the field.
    pub fn numbers(&self, words: &[&str], field: &str) -> Vec<u64> {
        let field = format!("{field}=");
        let lines = self.0.lock().unwrap();
        let with = lines.iter().filter(|line| words.iter().all(|word| line.contains(word)));
        let number = |line: &String| {
            let rest = line.split(&field).nth(1).unwrap_or_default();
            rest.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        with.map(number).collect()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

impl Subscriber for OperatorLog {
    /// Enables the levels that the program's own subscriber enables.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // The thread's name shows to which test a line belongs.
        let thread = std::thread::current();
        let mut line = Line(format!("{} [{}] ", event.metadata().level(), thread.name().unwrap_or_default()));
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
