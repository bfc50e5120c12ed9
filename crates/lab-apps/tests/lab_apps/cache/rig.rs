//! A cache, its host, its client and the model, driven by random numbers.

use super::host::{Host, range, sectors, stamp, version};
use super::model::Model;
use lab_apps::cache::{Action, Cache, CallError, CallId, Config};
use units::{Bytes, Duration, Lbn, LbnRange, Op};

pub struct CacheRig {
    pub cache: Cache,
    pub host: Host,
    pub model: Model,
    pub config: Config,
    /// Whether the cache's memory survives a crash.
    pub survives: bool,
    /// The percentage of calls after which the host does not poll at once.
    pub lazy_percent: u64,
    pins: Vec<Lbn>,
    pub write_failures: u64,
    /// The answered calls in order of time.
    pub answers: Vec<CallId>,
}

/// A step of virtual time.
pub const STEP: Duration = Duration::from_millis(1);

impl CacheRig {
    pub fn new(config: Config, survives: bool, seed: u64) -> Self {
        let capacity = config.volume.end().get();
        let mut host = Host::new(capacity, seed);
        let cache = Cache::new(config, &mut host.registry, host.now).unwrap();
        let model = Model::new(capacity);
        Self {
            cache,
            host,
            model,
            config,
            survives,
            lazy_percent: 0,
            pins: Vec::new(),
            write_failures: 0,
            answers: Vec::new(),
        }
    }

    /// Creates a rig with LRU, no syncer, and watermarks too high to matter.
    pub fn small(buffers: usize, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(range(0, 64), units::Sectors::new(4), Bytes::new(16), buffers);
        config.watermarks.high = buffers + 1;
        config.syncer = None;
        change(&mut config);
        Self::new(config, true, 1)
    }

    pub fn poll(&mut self) {
        for action in self.host.poll(&mut self.cache) {
            match action {
                Action::Answer { call, result } => {
                    self.model.answer(call, &result, &self.host);
                    self.answers.push(call);
                }
                Action::WriteFailed { range, bad } => {
                    assert!(range.contains(bad) && self.model.ever_bad.contains(&bad.get()));
                    self.write_failures += 1;
                }
                Action::Submit(_) => unreachable!("the host keeps them"),
            }
        }
        assert!(self.cache.wake().is_none_or(|at| at > self.host.now), "the host would poll for ever");
    }

    pub fn read(&mut self, range: LbnRange) -> Option<CallId> {
        let call = self.cache.read(range, self.host.now).ok()?;
        self.model.read(call, range);
        self.poll();
        Some(call)
    }

    pub fn write(&mut self, range: LbnRange) -> Option<CallId> {
        let version = self.model.written + 1;
        let bytes = sectors(range).flat_map(|lbn| stamp(lbn, version)).collect();
        let call = self.cache.write(range, bytes, self.host.now).ok()?;
        self.model.written = version;
        self.model.write(call, range, version);
        self.poll();
        Some(call)
    }

    pub fn flush(&mut self) -> Option<CallId> {
        let call = self.cache.flush().ok()?;
        self.model.flush(call);
        self.poll();
        Some(call)
    }

    pub fn trim(&mut self, range: LbnRange) {
        self.cache.trim(range).unwrap();
        self.model.trim(range);
        self.poll();
    }

    pub fn pin(&mut self, lbn: Lbn) {
        match self.cache.pin(lbn) {
            Ok(()) => self.pins.push(lbn),
            Err(error) => assert_eq!(error, CallError::NotThere(lbn)),
        }
    }

    pub fn unpin(&mut self) {
        if let Some(lbn) = self.pins.pop() {
            self.cache.unpin(lbn).unwrap();
            self.poll();
        }
    }

    pub fn crash(&mut self) {
        let contents: Vec<_> = self.cache.contents().map(|(range, bytes)| (range, bytes.to_vec())).collect();
        self.host.crash();
        self.model.check_durable(&self.host);
        if self.survives {
            self.model.check_survived(&self.host, &contents);
        }
        self.model.crashed(&self.host, self.survives);
        self.pins.clear();
        let kept = contents.iter().filter(|_| self.survives).map(|(range, bytes)| (*range, &bytes[..]));
        self.cache = Cache::recover(self.config, kept, &mut self.host.registry, self.host.now).unwrap();
        self.poll();
    }

    /// Advances time, and wakes the cache at the times that it asks for.
    pub fn wait(&mut self, time: Duration) {
        let end = self.host.now + time;
        while let Some(at) = self.cache.wake().filter(|&at| at <= end) {
            self.host.now = at;
            self.poll();
        }
        self.host.now = end;
        self.poll();
    }

    /// Lets the host do one thing.
    pub fn step(&mut self) {
        self.host.now += STEP;
        self.poll();
        self.host.step(&mut self.cache);
        // A host may do several things before it polls.
        if !self.host.chance(self.lazy_percent) {
            self.poll();
        }
    }

    fn some_range(&mut self) -> LbnRange {
        let volume = self.config.volume;
        let start = self.host.below(volume.len().get());
        let most = (volume.len().get() - start).min(self.config.block.get() * 2 + 1);
        range(volume.start().get() + start, 1 + self.host.below(most))
    }

    /// Lets the client or the host do one thing, with or without errors and crashes.
    pub fn act(&mut self, errors: bool, crashes: bool) {
        let range = self.some_range();
        match self.host.below(100) {
            0..32 => drop(self.read(range)),
            32..72 => drop(self.write(range)),
            72..78 => drop(self.flush()),
            78..82 => self.trim(range),
            82..85 => self.pin(range.start()),
            85..91 => self.unpin(),
            91..94 => {
                let steps = self.host.below(80);
                self.wait(Duration::from_nanos(STEP.as_nanos() * steps));
            }
            94..97 if errors => {
                let lbn = range.start().get();
                if !self.host.bad.remove(&lbn) {
                    self.host.bad.insert(lbn);
                    self.model.ever_bad.insert(lbn);
                }
            }
            97 if crashes => self.crash(),
            _ => self.step(),
        }
    }

    /// Ends all that was begun without starting anything new; then a flush brings every dirty sector to the medium.
    pub fn settle(&mut self) {
        self.host.bad.clear();
        self.lazy_percent = 0;
        self.poll();
        while !self.pins.is_empty() {
            self.unpin();
        }
        // This waits until earlier errors are reported, too.
        self.run(|rig| rig.cache.calls() == 0 && rig.host.is_idle());
        assert!(self.model.is_idle());
        while self.flush().is_none() {}
        self.run(|rig| rig.cache.calls() == 0 && rig.host.is_idle());
        assert_eq!(self.cache.dirty(), 0);
        self.model.check_all_written(&self.host);
        let volume = self.config.volume;
        self.read(volume);
        self.run(|rig| rig.cache.calls() == 0);
    }

    /// Lets the host work until the condition holds.
    pub fn run(&mut self, until: impl Fn(&Self) -> bool) {
        for _ in 0..40_000 {
            if until(self) {
                return;
            }
            self.step();
        }
        panic!("it comes to no end: {:?}, {:?}", self.cache.tally(), self.host.registry.tasks);
    }

    /// Returns the number of tasks registered for sectors of this range.
    pub fn tasks(&self, of: LbnRange) -> usize {
        let touches = |r: LbnRange| r.overlaps(of);
        self.host.registry.tasks.iter().filter(|t| touches(t.range)).count()
    }

    /// Returns the number of waiting foreground requests of this kind.
    pub fn queued(&self, op: Op) -> usize {
        self.host.queue.iter().filter(|r| r.op == op).count()
    }
}

/// Returns the sectors of a block.
pub fn block(n: u64) -> LbnRange {
    range(n * 4, 4)
}

impl CacheRig {
    /// Begins the write of this range, which is a task or a part of one; returns whether the cache gave its bytes.
    pub fn begin(&mut self, of: LbnRange) -> bool {
        let covers = |r: LbnRange| r.covers(of);
        let at = self.host.registry.tasks.iter().position(|t| covers(t.range)).expect("a task");
        self.host.begin_part(&mut self.cache, at, of)
    }

    /// Lets all accesses under way land and complete.
    pub fn finish(&mut self) {
        for _ in 0..8 {
            self.host.land();
        }
        for _ in 0..8 {
            self.host.deliver(&mut self.cache);
        }
        self.poll();
    }

    /// Carries out the waiting foreground requests.
    pub fn foreground(&mut self) {
        while !self.host.queue.is_empty() {
            self.host.begin_request(&mut self.cache);
            self.finish();
        }
    }

    pub fn clean_for_free(&mut self, n: u64) {
        assert!(self.begin(block(n)));
        self.finish();
    }

    pub fn on_medium(&self, lbn: u64) -> u64 {
        version(lbn, self.host.sector(lbn))
    }

    pub fn promoted(&self, of: LbnRange) -> bool {
        self.host.registry.tasks.iter().any(|t| t.range == of && t.promoted)
    }
}
