//! The recording of a disk's core, and its replay.

use scheduler::OutsideDrive;
use server::{
    CoreReplay, CoreReplayError, Disk, DiskHooks, FrameError, FrameLines, Frames, Recorder, Replayed,
};
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::{core, spy::Spy};

/// A file in memory. The test keeps a clone to read it.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Records a new disk.
pub fn record<A: DiskHooks>(disk: &mut Disk<Spy, A>, policy: &str, seed: u64) -> Memory {
    let memory = Memory::default();
    let setup = serde_json::json!({ "policy": policy, "seed": seed });
    disk.record(Recorder::new(memory.clone(), &setup).unwrap());
    memory
}

pub fn again(recording: &[u8]) -> Result<Replayed, CoreReplayError> {
    let mut replay = CoreReplay::new(recording, |setup| {
        let policy = setup["policy"].as_str().ok_or("no policy")?;
        let (model, config) = core(policy, setup["seed"].as_u64().ok_or("no seed")?);
        Ok(OutsideDrive::new(model, config))
    })?;
    while replay.step()? {}
    Ok(replay.extent())
}

fn lines(recording: &[u8]) -> Vec<String> {
    let mut lines = FrameLines::new(recording).unwrap();
    let mut all = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        all.push(String::from_utf8(line.to_vec()).unwrap());
    }
    all
}

/// Returns a recording of these lines, with correct frames and checksums.
fn recording(lines: &[String]) -> Vec<u8> {
    let mut frames = Frames::new(Vec::new()).unwrap();
    for line in lines {
        writeln!(frames, "{line}").unwrap();
        if frames.is_full() {
            frames.cut().unwrap();
        }
    }
    frames.end().unwrap()
}

#[test]
fn a_recording_that_was_changed_or_cut_is_found_out() {
    let mut world = super::DiskWorld::new("sptf", 5);
    for i in 0..60 {
        world.step(super::DiskStep::Register(units::Op::Write, super::range(i * 50, 40), 8));
        world.step(super::DiskStep::Read(super::range(i * 997 % 3_400, 8)));
        world.step(super::DiskStep::Wait(9_000));
    }
    world.finish();
    let recorded = world.recording.bytes();
    let whole = again(&recorded).unwrap();
    assert_eq!(whole.requests, 60);
    assert!(whole.blocks == 300 && whole.commands > 60 && !whole.cut_off, "{whole:?}");
    // The last frame, which the cut destroys, holds the inputs of less than a second.
    let cut = again(&recorded[..recorded.len() - 9]).unwrap();
    assert!(cut.cut_off && cut.inputs > 0 && cut.inputs < whole.inputs, "{cut:?}");
    let mut damaged = recorded.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    let error = again(&damaged).unwrap_err();
    assert!(matches!(error, CoreReplayError::Frame(FrameError::Damaged { .. })), "{error}");
    let all = lines(&recorded);
    assert_eq!(again(&recording(&all)).unwrap(), whole);
    let place = all.iter().position(|line| line.contains("\"completed\"")).unwrap();
    // In `missing` one input is removed, and in `other` one decision is changed.
    let done = all[..place].iter().rposition(|line| line.contains("\"ended\"")).unwrap();
    let missing = recording(&[&all[..done], &all[done + 1..]].concat());
    assert!(matches!(again(&missing), Err(CoreReplayError::Diverged { .. })), "{:?}", again(&missing));
    let mut other = all.clone();
    other[place] = other[place].replace("{\"completed\":0}", "{\"completed\":1}");
    let error = again(&recording(&other)).unwrap_err();
    assert!(matches!(error, CoreReplayError::Diverged { line, .. } if line == place as u64 + 1), "{error}");
    let first = &all[0];
    for (lines, expected) in [
        (&[][..], "line 1"),
        (&["null".into()], "no policy"),
        (&[first.clone(), "{\"dance\":1}".into()], "line 2"),
        (&[first.clone(), "{\"input\":{\"input\":{\"ended\":{\"at\":1,\"end\":{\"one\":{\"id\":7,\"outcome\":\"done\"}}}},\"answer\":0}}".into()], "no command 7"),
    ] {
        let error = again(&recording(lines)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_recording_that_reaches_its_limit_ends_whole_and_the_disk_goes_on() {
    let mut world = super::DiskWorld::new("sptf", 5);
    let memory = Memory::default();
    let setup = serde_json::json!({ "policy": "sptf", "seed": 5 });
    world.disk.record(Recorder::new(memory.clone(), &setup).unwrap().limited(20_000));
    for i in 0..200 {
        world.step(super::DiskStep::Read(super::range(i * 997 % 3_400, 8)));
        world.step(super::DiskStep::Wait(9_000));
    }
    let bytes = memory.bytes();
    assert!((20_000..22_000).contains(&bytes.len()), "{}", bytes.len());
    let reported = again(&bytes).unwrap();
    assert!(!reported.cut_off && reported.requests > 20 && reported.requests < 200, "{reported:?}");
    (0..20).for_each(|i| world.step(super::DiskStep::Read(super::range(i * 8, 8))));
    assert_eq!(memory.bytes().len(), bytes.len());
}
