//! The use of a foreground's gaps, counted in a run to explain an application's bandwidth.

use model::DriveModel;
use scheduler::{Access, Caution, Command, OutsideDrive, Purpose};
use units::{Duration, Op};

/// The use of the gaps of the foreground's requests. One gap is counted for each request, although a request on several
/// tracks has more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gaps {
    /// Foreground requests that the core in the drive executed, or foreground commands that the core outside sent:
    /// outside, a request counts once for each of its commands.
    pub requests: u64,
    /// Requests with background work directly before them, or in their command.
    pub used: u64,
    /// Requests without background work while the core used no gaps ([`OutsideDrive::caution`]); outside only.
    pub closed: u64,
    /// Requests among `closed` for which the reason was the harm of detours.
    pub for_harm: u64,
    /// Wanted sectors of the background that were read in gaps.
    pub read: u64,
    /// Gaps with a background write, and the wanted sectors of the background that were read in these gaps.
    pub written_in: u64,
    pub read_beside: u64,
    /// The sum over all requests of the margin that the core then added to the predicted time of a detour's move over
    /// a third of the cylinders.
    margins: Duration,
    /// The background work since the last foreground request: wanted sectors read, whether anything was written, and
    /// whether anything was done.
    coming: (u64, bool, bool),
}

impl Gaps {
    /// Counts accesses that the core in the drive executes.
    pub fn executed(&mut self, accesses: &[Access]) {
        for access in accesses {
            if let Purpose::Background { useful } = access.purpose {
                self.comes(access.op, useful);
            }
        }
        if accesses.iter().any(|access| access.purpose == Purpose::Foreground) {
            self.goes();
        }
    }

    /// Counts a command that the core outside sends.
    pub fn sent(&mut self, core: &OutsideDrive, drive: &DriveModel, command: &Command) {
        match command.purpose {
            Purpose::Idle { .. } => {}
            Purpose::Background { useful } => self.comes(command.op, useful),
            Purpose::Foreground => {
                if command.useful > 0 {
                    self.comes(command.op, command.useful);
                }
                let used = self.coming.2;
                self.goes();
                self.margins += core.conservatism(drive.layout().cylinders() / 3);
                if let Some(caution) = core.caution().filter(|_| !used) {
                    self.closed += 1;
                    self.for_harm += u64::from(caution == Caution::Harm);
                }
            }
        }
    }

    fn comes(&mut self, op: Op, useful: u32) {
        let (read, written, any) = &mut self.coming;
        *read += if op.is_write() { 0 } else { u64::from(useful) };
        *written |= op.is_write();
        *any |= useful > 0;
    }

    fn goes(&mut self) {
        let (read, written, any) = std::mem::take(&mut self.coming);
        self.requests += 1;
        self.used += u64::from(any);
        self.read += read;
        if written {
            self.written_in += 1;
            self.read_beside += read;
        }
    }

    /// Returns the counts since an earlier state.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            used: self.used - earlier.used,
            closed: self.closed - earlier.closed,
            for_harm: self.for_harm - earlier.for_harm,
            read: self.read - earlier.read,
            written_in: self.written_in - earlier.written_in,
            read_beside: self.read_beside - earlier.read_beside,
            margins: self.margins.saturating_sub(earlier.margins),
            coming: self.coming,
        }
    }

    /// Returns the percentage of gaps with background work.
    pub fn used_percent(&self) -> f64 {
        self.percent(self.used)
    }

    /// Returns the percentage of gaps that were not used because the core used no gaps at that time.
    pub fn closed_percent(&self) -> f64 {
        self.percent(self.closed)
    }

    /// Returns the percentage of gaps that were not used because of the harm of detours.
    pub fn for_harm_percent(&self) -> f64 {
        self.percent(self.for_harm)
    }

    /// Returns the percentage of gaps that were permitted, but had no room for wanted sectors.
    pub fn empty_percent(&self) -> f64 {
        self.percent(self.requests.saturating_sub(self.used + self.closed))
    }

    /// Returns the mean margin that the core added to a detour's move over a third of the cylinders, in ms.
    pub fn margin_ms(&self) -> f64 {
        self.margins.as_secs_f64() * 1e3 / (self.requests as f64).max(1.0)
    }

    fn percent(&self, part: u64) -> f64 {
        part as f64 * 100.0 / (self.requests as f64).max(1.0)
    }
}
