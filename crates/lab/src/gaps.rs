//! What became of a foreground's gaps: the reason why an application gets what it gets, counted in the run.

use model::DriveModel;
use scheduler::{Access, Caution, Command, Core, Purpose};
use units::{Duration, Op};

/// What became of the gaps of the foreground's requests; one each is counted, though what lies on several tracks has more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gaps {
    /// Requests that the core chose: in the drive carried out, outside sent, a request again for each command of its own.
    pub requests: u64,
    /// Something of the background's was had before it, or with it in its command.
    pub used: u64,
    /// Nothing, since the core said that gaps are to be left alone ([`Core::caution`]); outside only.
    pub closed: u64,
    /// Of these, for what detours have cost.
    pub for_harm: u64,
    /// Wanted sectors that were read in gaps.
    pub read: u64,
    /// Gaps in which something was written, and the wanted sectors that were read in these.
    pub written_in: u64,
    pub read_beside: u64,
    /// By how much a detour's move over a third of the cylinders was widened: the sum over all requests.
    margins: Duration,
    /// Since the last request of the foreground: wanted sectors read, whether something was written, and whether anything came.
    coming: (u64, bool, bool),
}

impl Gaps {
    /// The core in the drive has these accesses carried out.
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

    /// The core outside sends a command.
    pub fn sent(&mut self, core: &Core, drive: &DriveModel, command: &Command) {
        match command.purpose {
            Purpose::Idle { .. } => {}
            Purpose::Background { useful } => self.comes(command.op, useful),
            Purpose::Foreground => {
                if command.useful > 0 {
                    self.comes(command.op, command.useful);
                }
                let used = self.coming.2;
                self.goes();
                self.margins += core.conservatism(drive.layout().cylinders() / 3).unwrap_or_default();
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

    /// What was counted since.
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

    /// Of a hundred, those that something was had in.
    pub fn used_percent(&self) -> f64 {
        self.percent(self.used)
    }

    /// Of a hundred, those that were left alone.
    pub fn closed_percent(&self) -> f64 {
        self.percent(self.closed)
    }

    /// Of a hundred, those that were left alone for what detours have cost.
    pub fn for_harm_percent(&self) -> f64 {
        self.percent(self.for_harm)
    }

    /// Of a hundred, those that were open and had room for nothing that was wanted.
    pub fn empty_percent(&self) -> f64 {
        self.percent(self.requests.saturating_sub(self.used + self.closed))
    }

    /// The mean margin of a move over a third of the cylinders.
    pub fn margin_ms(&self) -> f64 {
        self.margins.as_secs_f64() * 1e3 / (self.requests as f64).max(1.0)
    }

    fn percent(&self, part: u64) -> f64 {
        part as f64 * 100.0 / (self.requests as f64).max(1.0)
    }
}
