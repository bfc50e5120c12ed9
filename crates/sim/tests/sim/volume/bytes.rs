//! The bytes after each kind of fault, one at a time.

use drive::Behaviour;
use freeblock_sim::{Cure, Faults, Platters, TrueDrive, Volume, black_box};
use model::random_profile::{Size, random_profile};
use model::{DriveModel, builtin};
use scheduler::{
    Application, Config, IdleTime, OutsideConfig, Parameter, Priority, Record, SessionError, Sessions, Wanted,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors, SessionId};

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

fn drive(seed: u64) -> Arc<DriveModel> {
    Arc::new(DriveModel::from_profile(&random_profile(seed, Size::Tiny)).unwrap())
}

fn volume(drive: &Arc<DriveModel>) -> Volume {
    let config = Config::default().with_idle(Some(IdleTime::default()));
    Volume::new(Arc::clone(drive), config, Platters::blank(drive)).unwrap()
}

fn read(platters: &Platters, drive: &DriveModel, range: LbnRange) -> Vec<u8> {
    let mut bytes = vec![0; range.len().bytes(drive.sector_bytes()).get() as usize];
    platters.medium().read(range, &mut bytes).unwrap();
    bytes
}

/// An application that reads or writes a range once, and keeps the result.
#[derive(Default)]
struct Once {
    came: Vec<(Record, Vec<u8>)>,
    asked: Vec<Wanted>,
}

impl Once {
    fn start(
        &mut self,
        sessions: &mut dyn Sessions,
        op: Op,
        range: LbnRange,
        block: u64,
    ) -> Result<(), SessionError> {
        let session = sessions.open(Priority::default())?;
        match op {
            Op::Read => sessions.read(session, range, Sectors::new(block), Parameter::default())?,
            Op::Write => sessions.write(session, range, Sectors::new(block), Parameter::default())?,
        };
        Ok(())
    }
}

impl Application for Once {
    fn done(&mut self, _: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        self.came.push((*done, bytes.to_vec()));
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        self.asked.push(*wanted);
        into.fill(9);
        true
    }
}

/// A power cut at any instant of a write leaves the sectors that had passed under the head, and nothing of a request
/// that had not begun.
#[test]
fn a_power_cut_leaves_the_sectors_that_had_passed() {
    for seed in 0..6 {
        let drive = drive(seed);
        let (whole, sector) = (range(5, 30), drive.sector_bytes().get() as usize);
        let mut full = volume(&drive);
        full.submit_write(whole, vec![1; 30 * sector]).unwrap();
        full.settle().unwrap();
        let took = full.now().since(Instant::ZERO);
        let mut before = 0;
        for part in 0..=40u64 {
            let mut cut = volume(&drive);
            cut.submit_write(whole, vec![1; 30 * sector]).unwrap();
            cut.submit_write(range(2, 1), vec![2; sector]).unwrap();
            cut.run_for(Duration::from_nanos((took.as_nanos() - 1) * part / 40)).unwrap();
            assert!(cut.completion().is_none());
            let platters = cut.power_cut().unwrap();
            let after = read(&platters, &drive, whole);
            let there = after.chunks(sector).filter(|s| s.iter().all(|byte| *byte == 1)).count();
            let absent = after.chunks(sector).filter(|s| s.iter().all(|byte| *byte == 0)).count();
            assert_eq!(there + absent, 30, "a torn sector");
            assert!(there >= before, "sectors came and went");
            assert!(read(&platters, &drive, range(2, 1)).iter().all(|byte| *byte == 0));
            before = there;
        }
        assert!((25..30).contains(&before), "the last sector passes at the very end: {before}");
    }
}

#[test]
fn a_bad_sector_fails_reads_until_it_is_written() {
    let drive = drive(3);
    let sector = drive.sector_bytes().get() as usize;
    let mut volume = volume(&drive);
    volume.platters_mut().spoil(Lbn::new(12), Cure::Write);
    volume.platters_mut().spoil(Lbn::new(40), Cure::None);
    let app = volume.host(Once::default());
    volume.call(app, |app, sessions| app.start(sessions, Op::Read, range(0, 50), 10)).unwrap().unwrap();
    volume.submit_read(range(10, 4)).unwrap();
    volume.run_for(Duration::from_secs(20)).unwrap();
    assert_eq!(volume.completion().unwrap().bad, Some(Lbn::new(12)));
    let mut came: Vec<_> = volume
        .app(app)
        .unwrap()
        .came
        .iter()
        .map(|(r, bytes)| (r.range.start().get(), r.bad, bytes.len()))
        .collect();
    came.sort_unstable();
    let ten = 10 * sector;
    assert_eq!(
        came,
        [
            (0, None, ten),
            (10, Some(Lbn::new(12)), 0),
            (20, None, ten),
            (30, None, ten),
            (40, Some(Lbn::new(40)), 0)
        ]
    );
    assert_eq!((volume.tally(app).blocks, volume.tally(app).failed), (5, 2));

    volume.submit_write(range(10, 4), vec![7; 4 * sector]).unwrap();
    volume.submit_write(range(39, 3), vec![7; 3 * sector]).unwrap();
    volume.submit_read(range(10, 4)).unwrap();
    volume.settle().unwrap();
    let done: Vec<_> = std::iter::from_fn(|| volume.completion()).collect();
    assert_eq!(done.iter().map(|d| d.bad).collect::<Vec<_>>(), [None, Some(Lbn::new(40)), None]);
    assert!(done[2].bytes.iter().all(|byte| *byte == 7));
    // The sectors around the one that cannot be written are written.
    assert_eq!(
        read(volume.platters(), &drive, range(39, 3)).iter().filter(|byte| **byte == 7).count(),
        2 * sector
    );
    assert_eq!(volume.platters().bad().collect::<Vec<_>>(), [(Lbn::new(40), Cure::None)]);
}

/// Completions are lost now and then; everything is done in the end, and reported once.
#[test]
fn lost_work_is_repeated() {
    let drive = drive(4);
    let sector = drive.sector_bytes().get() as usize;
    let mut volume = volume(&drive);
    volume.set_faults(Faults { seed: 5, lost_ppm: 500_000, late_ppm: 200_000, ..Faults::default() });
    let app = volume.host(Once::default());
    volume.call(app, |app, sessions| app.start(sessions, Op::Write, range(50, 60), 7)).unwrap().unwrap();
    for n in 0..40u8 {
        volume.submit_write(range(u64::from(n), 1), vec![n + 1; sector]).unwrap();
    }
    volume.settle().unwrap();
    volume.run_for(Duration::from_secs(120)).unwrap();
    assert_eq!(std::iter::from_fn(|| volume.completion()).count(), 40);
    for n in 0..40u8 {
        assert!(read(volume.platters(), &drive, range(u64::from(n), 1)).iter().all(|byte| *byte == n + 1));
    }
    assert_eq!(volume.app(app).unwrap().came.len(), 9);
    assert!(
        volume.app(app).unwrap().asked.len() > 9,
        "nothing of the background was lost; choose another seed"
    );
    assert!(read(volume.platters(), &drive, range(50, 60)).iter().all(|byte| *byte == 9));
}

/// A promoted write that was lost is repeated with the buffer that was given for it.
#[test]
fn a_promoted_write_keeps_its_buffer_when_it_is_lost() {
    for seed in 0..20 {
        let drive = drive(4);
        let config = Config::default();
        let mut volume = Volume::new(Arc::clone(&drive), config, Platters::blank(&drive)).unwrap();
        volume.set_faults(Faults { seed, lost_ppm: 700_000, ..Faults::default() });
        let app = volume.host(Once::default());
        volume
            .call(app, |_, sessions| {
                let session = sessions.open(Priority::default()).unwrap();
                let all = range(30, 40);
                sessions.write(session, all, Sectors::new(8), Parameter::default()).unwrap();
                assert_eq!(sessions.promote(session, all), Ok(5));
            })
            .unwrap();
        volume.run_for(Duration::from_secs(60)).unwrap();
        assert_eq!(volume.app(app).unwrap().came.len(), 5);
        assert!(read(volume.platters(), &drive, range(30, 40)).iter().all(|byte| *byte == 9));
    }
}

/// With the core outside the drive, a command that repeats a lost one is reported with the instant of the first
/// order, for requests and for promoted blocks. A later command for another request at the same place is reported
/// with its own instant.
#[test]
fn a_repeated_command_has_the_instant_of_the_first_order() {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let behaviour = Behaviour { write_back: Some(false), ..Behaviour::fast02() };
    let (_, overheads) = black_box(&profile, behaviour, 1).unwrap();
    let config = Config::outside(OutsideConfig::beyond(overheads));
    let platters = Platters::blank(&known);
    let drive = TrueDrive { profile: &profile, behaviour, seed: 1 };
    let mut volume = Volume::outside(Instant::ZERO, drive, known, config, platters).unwrap();
    let passed = Rc::new(RefCell::new(Vec::new()));
    let passes = Rc::clone(&passed);
    volume.watch(move |p| passes.borrow_mut().extend((!p.lost).then_some((p.began, p.first_ordered))));
    let app = volume.host(Once::default());
    for lost_ppm in [1_000_000, 0] {
        volume.set_faults(Faults { lost_ppm, ..Faults::default() });
        volume.submit_read(range(1_000, 8)).unwrap();
        volume.call(app, |_, sessions| {
            let session = sessions.open(Priority::default()).unwrap();
            sessions.read(session, range(5_000, 8), Sectors::new(8), Parameter::default()).unwrap();
            assert_eq!(sessions.promote(session, range(5_000, 8)), Ok(1));
        });
        let since = volume.now();
        if lost_ppm > 0 {
            // Every command is lost, half a second after it was sent.
            volume.run_for(Duration::from_secs(2)).unwrap();
            assert_eq!(*passed.borrow(), []);
            volume.set_faults(Faults::default());
        }
        volume.run_for(Duration::from_secs(2)).unwrap();
        let passed = std::mem::take(&mut *passed.borrow_mut());
        assert_eq!(passed.len(), 2);
        for (began, first) in passed {
            let soon = since + Duration::from_millis(100);
            assert!(first < soon && (began > soon) == (lost_ppm > 0), "{began:?}, first {first:?}");
        }
    }
}

#[test]
fn a_refused_call_of_a_session_sets_no_wake_up() {
    let drive = drive(1);
    let mut volume = volume(&drive);
    let app = volume.host(Once::default());
    let never = SessionId::new(u64::MAX);
    let reported = volume.call(app, |_, sessions| (sessions.close(never), sessions.resume(never))).unwrap();
    assert_eq!(reported, (Err(SessionError::NoSession(never)), Err(SessionError::NoSession(never))));
    assert_eq!(volume.next_at(), None);
}

#[test]
fn mismatched_platters_and_writes_are_refused() {
    let (one, other) = (drive(1), drive(2));
    let wrong = Volume::new(Arc::clone(&one), Config::default(), Platters::blank(&other)).err().unwrap();
    assert!(wrong.to_string().contains("make the medium with Platters::blank"), "{wrong}");
    let mut volume = volume(&one);
    let short = volume.submit_write(range(4, 2), vec![0; 100]).unwrap_err();
    let expected = 2 * one.sector_bytes().get();
    assert_eq!(short.to_string(), format!("a write to LBNs 4+2 needs {expected} bytes, and 100 were given"));
    let past = range(one.layout().capacity().get(), 1);
    assert!(volume.submit_read(past).unwrap_err().to_string().contains("the drive ends at"));
    assert_eq!((volume.outstanding(), volume.next_at()), (0, None));
}
