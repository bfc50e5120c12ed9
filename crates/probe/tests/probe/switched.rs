//! A drive that can switch its look-ahead and read cache off: the profile describes the buffer as it was before,
//! and all other measurements are made with the buffer off.

use crate::common::Emulated;
use drive::Behaviour;
use model::builtin;
use probe::{DeviceError, Journal, Options, Probe, ProbeError, ProbedDevice, ProbedProfile, Timed};
use std::ops::ControlFlow;
use units::{Bytes, Instant, LbnRange, Op, Sectors};

/// A drive with a switch, which replaces the drive by a second one without a buffer, on the same platter.
struct Switched {
    on: Emulated,
    off: Emulated,
    switches: bool,
    is_off: bool,
}

impl Switched {
    fn new(switches: bool) -> Self {
        let truth = builtin::find(NAME).unwrap();
        let with = |words: &str| Emulated::with(&truth, words.parse::<Behaviour>().unwrap(), 1);
        Self { on: with("none"), off: with("none,buffer=off"), switches, is_off: false }
    }

    fn drive(&mut self) -> &mut Emulated {
        if self.is_off { &mut self.off } else { &mut self.on }
    }
}

impl ProbedDevice for Switched {
    fn capacity(&self) -> Sectors {
        self.on.capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.on.sector_bytes()
    }

    fn now(&self) -> Instant {
        self.on.now().max(self.off.now())
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        let at = at.max(self.now());
        self.drive().execute(at, op, range)
    }

    fn switch_buffer_off(&mut self) -> bool {
        self.is_off = self.switches;
        self.switches
    }
}

const NAME: &str = "seagate-cheetah-9lp";

fn probed(device: &mut Switched) -> ProbedProfile {
    Probe::new(Options::default()).run(device, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn while_probing(outcome: &ProbedProfile) -> Option<&str> {
    let line = outcome.report.findings.iter().find(|f| f.what == "buffer while probing");
    line.map(|finding| finding.value.as_str())
}

#[test]
fn a_drive_whose_buffer_is_switched_off_has_the_same_profile_with_fewer_commands() {
    let as_ever = probed(&mut Switched::new(false));
    let switched = probed(&mut Switched::new(true));
    assert_eq!(while_probing(&as_ever), None);
    assert_eq!(while_probing(&switched), Some("look-ahead off, read cache off"));
    let cache = |outcome: &ProbedProfile| outcome.profile.firmware.as_ref().unwrap().cache.clone();
    assert!(cache(&switched).enabled && cache(&switched).segments > 1);
    assert_eq!(cache(&switched), cache(&as_ever));
    // The measured offsets of zones differ in the eighth decimal.
    let (mut layout, expected) = (switched.profile.layout.clone(), &as_ever.profile.layout);
    for (zone, expected) in layout.zones.iter_mut().zip(&expected.zones) {
        zone.offset = expected.offset.clone();
    }
    assert_eq!(&layout, expected);
    assert!(switched.report.check.within_50us >= 0.97, "{:?}", switched.report.check);
    let (fewer, all) = (switched.report.commands, as_ever.report.commands);
    assert!(fewer * 10 < all * 9, "{fewer} commands, {all} with the buffer on");
}

/// Ends a probe after `commands` commands, and returns its journal.
fn cut(device: &mut Switched, commands: u64) -> Journal {
    let mut probe = Probe::new(Options::default());
    let stopped = probe.run(device, &mut |at| {
        if at.journal.commands() < commands { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(matches!(stopped, Err(ProbeError::Interrupted)));
    Journal::from_bytes(&probe.journal().to_bytes(), "a.state").unwrap()
}

#[test]
fn a_state_that_was_measured_without_the_buffer_goes_on_without_it_only() {
    let resumed = |journal: &Journal, device: &mut Switched| {
        let mut probe = Probe::resume(Options::default(), journal.clone()).unwrap();
        probe.run(device, &mut |_| ControlFlow::Continue(()))
    };
    let journal = cut(&mut Switched::new(true), 3_000);
    let mut same = Switched::new(true);
    assert!(resumed(&journal, &mut same).is_ok() && same.is_off);
    let other = resumed(&journal, &mut Switched::new(false)).unwrap_err();
    assert!(other.to_string().contains("look-ahead or read cache switched off"), "{other}");
    // A state that was measured with the buffer on goes on with the buffer on.
    let journal = cut(&mut Switched::new(false), 3_000);
    let mut could = Switched::new(true);
    assert!(resumed(&journal, &mut could).is_ok() && !could.is_off);
}
