//! Drives that fail some or all writes: the probe avoids and reports these sectors, and continues
//! to read.

use crate::common::{self, Emulated};
use model::Profile;
use probe::{DeviceError, Journal, Options, Probe, ProbeError, ProbedProfile};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use units::{Lbn, LbnRange, Op, Sectors};

/// The way in which the drive fails writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteFaults {
    /// The drive fails a write to every LBN that is a multiple of this, and names that LBN.
    FailOneIn(u64),
    /// The drive refuses all writes, and names no sector.
    Refused,
}

struct Failing {
    device: Emulated,
    writes: WriteFaults,
    tried: u64,
}

const SAID: &str = "write protected";

impl Failing {
    fn before(&mut self, commands: &[(Op, LbnRange)]) -> Result<(), DeviceError> {
        commands.iter().try_for_each(|one| self.refuse(*one))
    }

    fn new(truth: &Profile, writes: WriteFaults, noisy: bool) -> Self {
        let device = if noisy { Emulated::noisy(truth, 1) } else { Emulated::new(truth) };
        Self { device, writes, tried: 0 }
    }

    fn refuse(&mut self, (op, range): (Op, LbnRange)) -> Result<(), DeviceError> {
        if op == Op::Read {
            return Ok(());
        }
        self.tried += 1;
        let unreadable = match self.writes {
            WriteFaults::Refused => None,
            WriteFaults::FailOneIn(n) => {
                let bad = (range.start().get()..range.end().get()).find(|lbn| lbn % n == 0);
                let Some(bad) = bad else { return Ok(()) };
                Some(Lbn::new(bad))
            }
        };
        Err(DeviceError { op, range, unreadable, reason: SAID.to_owned(), mend: "none".to_owned() })
    }
}

common::goes_through!(Failing);

fn truth() -> Profile {
    model::builtin::find("seagate-cheetah-9lp").unwrap()
}

fn options() -> Options {
    Options { writes: Some(LbnRange::new(Lbn::new(1_000_000), Sectors::new(20_000))), ..Options::default() }
}

fn run(device: &mut Failing) -> Result<ProbedProfile, ProbeError> {
    Probe::new(options()).run(device, &mut |_| ControlFlow::Continue(()))
}

#[test]
fn unwritable_sectors_are_avoided_and_reported() {
    for noisy in [false, true] {
        let truth = truth();
        let mut device = Failing::new(&truth, WriteFaults::FailOneIn(50), noisy);
        let found = run(&mut device).unwrap();
        let reported: BTreeSet<u64> =
            found.report.unwritable.iter().flat_map(|run| run.first.get()..run.end.get()).collect();
        assert!(!reported.is_empty() && reported.iter().all(|lbn| lbn % 50 == 0), "{reported:?}");
        assert!(found.report.unreadable.is_empty());
        let settle = common::finding(&found, "write settle");
        assert!(settle.value.ends_with(" ms") && found.report.writes.unwrap().requests >= 400, "{settle:?}");
        assert!((found.profile.mechanics.write_settle_ms - truth.mechanics.write_settle_ms).abs() < 0.05);
        assert!(found.report.unsure_writes.is_empty(), "{:?}", found.report.unsure_writes);
        common::holds(device.device, &truth, &found, 300.0);
    }
}

#[test]
fn a_drive_that_refuses_all_writes_is_reported_and_its_reads_are_measured() {
    for noisy in [false, true] {
        let truth = truth();
        let mut device = Failing::new(&truth, WriteFaults::Refused, noisy);
        let found = run(&mut device).unwrap();
        assert!(device.tried < 20, "{} writes were tried", device.tried);
        let [all] = found.report.unsure_writes.as_slice() else { panic!("{:?}", found.report.unsure_writes) };
        assert!(all.why.contains("refuse") && all.why.contains(SAID), "{all}");
        assert_eq!(found.report.writes, None);
        for what in ["write cache", "write settle"] {
            let said = common::finding(&found, what);
            assert!(said.confidence == 0.0 && said.note.contains("refuse"), "{said:?}");
        }
        common::holds(device.device, &truth, &found, 300.0);
    }
}

#[test]
fn failed_writes_are_in_the_journal_too() {
    for writes in [WriteFaults::FailOneIn(50), WriteFaults::Refused] {
        let truth = truth();
        let whole = run(&mut Failing::new(&truth, writes, false)).unwrap();
        // The cut is near the probe's end, between the writes.
        let cut = whole.report.commands - 700;
        let mut probe = Probe::new(options());
        let end = probe.run(&mut Failing::new(&truth, writes, false), &mut |at| {
            if at.journal.commands() >= cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(end, Err(ProbeError::Interrupted)), "{end:?}");
        let journal = Journal::from_bytes(&probe.journal().to_bytes(), "state").unwrap();
        let mut rest = Failing::new(&truth, writes, false);
        let found = Probe::resume(options(), journal)
            .unwrap()
            .run(&mut rest, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(found.profile.layout, whole.profile.layout);
        common::holds(rest.device, &truth, &found, 300.0);
    }
}

/// If a drive is gone in the middle of a write, the probe ends, without a report of refused writes.
#[test]
fn a_drive_that_is_gone_is_not_taken_for_one_that_refuses_writes() {
    let truth = truth();
    let writing = {
        let mut first = None;
        let mut device = Emulated::new(&truth);
        let all = Probe::new(options())
            .run(&mut device, &mut |at| {
                if at.stage == "writes" {
                    first.get_or_insert(at.journal.commands());
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        first.unwrap()..all.report.commands
    };
    for left in testing::some(5, (writing.start..writing.end).step_by(41).take(12)) {
        let mut device = Emulated::new(&truth);
        let mut cut = common::Cut { device: &mut device, left };
        let mut probe = Probe::new(options());
        let end = probe.run(&mut cut, &mut |_| ControlFlow::Continue(()));
        assert!(matches!(&end, Err(ProbeError::Device(e)) if e.reason == common::CUT), "{left}: {end:?}");
        assert_eq!(probe.journal().commands(), left);
    }
}
