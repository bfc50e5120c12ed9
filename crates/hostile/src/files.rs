//! Readers of files.

use crate::{idle, sealed};
use apps::backup::image::{Index, scan};
use apps::backup::{Destination, Replica, restore, restore_range, salvage};
use apps::reorganizer::{RelocationPlan, Reorganizer, Volatile};
use apps::scrub::{Checksums, ScrubPlan, Scrubber, StoreLimits, StoredChecksums};
use apps::snapshot::{Entry, Volume};
use mimic::{Distance, Learner, LearnerConfig, Pair, Saved};
use scheduler::Priority;
use units::{Bytes, Instant, Lbn, LbnRange, Sectors};

/// A destination that accepts every write and keeps nothing.
struct Sink;

impl Destination for Sink {
    fn write_at(&mut self, _: Lbn, _: &[u8]) -> Result<bool, String> {
        Ok(true)
    }
    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Reads any bytes as an image, a volume's maps, a journal entry, a checksum store, the progress of a scrub or a replica: each
/// reader returns an error or a valid value. If one byte of a sound image is changed, the change is detected.
pub(crate) fn backup(bytes: &[u8]) {
    images(bytes);
    let mut image = sealed::image(bytes);
    images(&image);
    let sound = restore(&mut image.as_slice(), None, &mut Sink);
    assert!(sound.is_ok(), "an image of our own: {sound:?}");
    let at = bytes.iter().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()))
        % image.len();
    image[at] ^= 1;
    assert!(restore(&mut image.as_slice(), None, &mut Sink).is_err(), "byte {at} was changed");
    let range = LbnRange::new(Lbn::ZERO, Sectors::new(100_000));
    let _ = Replica::resume(bytes, Sink);
    let _ = Replica::resume(&sealed::summed(bytes.to_vec()), Sink);
    if let Ok(entry) = Entry::decode(bytes) {
        assert_eq!(entry.encode(), bytes);
    }
    if let Ok(volume) = Volume::load(bytes) {
        let space = volume.space();
        assert_eq!(space.current + space.kept + space.retired + space.free, space.slots);
    }
    let plan = ScrubPlan { range, block: Sectors::new(1), sector_bytes: 512 };
    if let Ok(mut store) = StoredChecksums::open(plan, StoreLimits::default(), bytes.to_vec()) {
        assert!((0..100_000).step_by(991).all(|block| !store.known(block).changing));
    }
    for saved in [bytes, &sealed::summed(bytes.to_vec())] {
        let _ = Scrubber::resume(plan, saved, (), &mut idle::Idle, Priority::default(), Instant::ZERO);
    }
}

fn images(bytes: &[u8]) {
    if let Ok(scan) = scan(&mut &*bytes) {
        assert!(scan.keep <= bytes.len() as u64);
    }
    if let Ok(index) = Index::open(&mut &*bytes) {
        let found = index.find(&mut &*bytes, 0, u64::MAX);
        assert!(found.is_ok_and(|found| found.len() as u64 <= index.header().chunks));
    }
    let range = LbnRange::new(Lbn::ZERO, Sectors::new(100_000));
    let whole = restore(&mut &*bytes, None, &mut Sink);
    let _ = restore_range(&mut [bytes], range, &mut Sink);
    assert!(whole.is_err() || salvage(&mut &*bytes, None, &mut Sink).is_ok());
}

pub(crate) fn backup_seeds() -> Vec<Vec<u8>> {
    let plan = ScrubPlan {
        range: LbnRange::new(Lbn::ZERO, Sectors::new(100_000)),
        block: Sectors::new(1),
        sector_bytes: 512,
    };
    let scrub = Scrubber::start(plan, (), &mut idle::Idle, Priority::default(), Instant::ZERO);
    let progress = scrub.map(|scrub| scrub.progress()).unwrap_or_default();
    // The progress without its checksum, which the target adds.
    let bare = progress.len().saturating_sub(4);
    let image = sealed::image(b"one\ntwo\nthree");
    vec![image.clone(), image[..image.len() / 2].to_vec(), progress[..bare].to_vec(), progress]
}

/// Reads any bytes as a record of the journal of tasks, and each line of them as an event of a sound record. The record is
/// refused, or gives a table of tasks whose figures can be shown.
#[cfg(target_os = "linux")]
pub(crate) fn journal(bytes: &[u8]) {
    use server::manager::spec::DiskFacts;
    use server::manager::{ManagerConfig, TaskManager};
    // The journal entry of a restore contains its progress.
    if let Some(again) = server::jobs::restore_progress(bytes, 100) {
        assert_eq!(server::jobs::restore_progress(&again, 100), Some(again));
    }
    for record in [bytes, &sealed::journal(bytes)] {
        let Some(journal) = server::files::journal_of(record) else { continue };
        let disk = DiskFacts {
            name: "d0".into(),
            capacity: Sectors::new(1 << 20),
            sector_bytes: Bytes::new(512),
            own: Vec::new(),
            read_only: false,
            device: None,
        };
        let config = ManagerConfig {
            disk,
            keep_bytes_max: 1 << 30,
            background: server::BackgroundTerms::default(),
            seed: 7,
            permits: Default::default(),
            memory: Default::default(),
        };
        let Ok(manager) = TaskManager::open(config, journal) else { continue };
        for task in manager.tasks() {
            assert_eq!(manager.task(task.id).map(|again| again.id), Some(task.id));
            assert!(serde_json::to_string(&task).is_ok());
        }
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn journal(_: &[u8]) {}

pub(crate) fn journal_seeds() -> Vec<Vec<u8>> {
    let created = |id: u64, spec: &str| {
        format!("\0{{\"event\":\"created\",\"id\":{id},\"spec\":{spec},\"at\":1700000000000,\"image\":99}}\n")
    };
    let figures = r#"{"done":10,"blocks":100,"bytes":655360,"bad":[7,9],"bad_more":0,"content":{"recorded":3,"verified":6,"wrong":[32],"wrong_more":0}}"#;
    let progress = format!("{{\"event\":\"progress\",\"id\":1,\"figures\":{figures}}}");
    let progress =
        [&[1][..], &(progress.len() as u32).to_le_bytes(), progress.as_bytes(), b"saved\n"].concat();
    let rest = [
        r#"{"event":"priority","id":1,"priority":50}"#,
        r#"{"event":"deadline","id":1,"deadline_unix_s":4000000000}"#,
        r#"{"event":"state","id":1,"state":"done","reason":null,"at":1700000001000}"#,
        r#"{"event":"forgotten","id":1}"#,
        r#"{"event":"sums","store":{"path":"/sums","id":7,"block":32}}"#,
        r#"{"event":"used","id":9}"#,
        r#"{"event":"disk","volume":"7","device":"naa.5000c500a1b2c3d4"}"#,
        r#"{"event":"closed","closed":"writes"}"#,
    ];
    let rest: Vec<u8> = rest.iter().flat_map(|line| format!("\0{line}\n").into_bytes()).collect();
    let scrub = created(1, r#"{"kind":"scrub","priority":20}"#).into_bytes();
    let backup = created(2, r#"{"kind":"backup","priority":20,"to":"/image","block_sectors":128}"#);
    let lines = [&scrub[..], &progress, backup.as_bytes(), &rest].concat();
    let restored: Vec<u8> = [100u64, 0, 10, 20, 30].iter().flat_map(|n| n.to_le_bytes()).collect();
    vec![sealed::journal(&lines), lines, restored]
}

/// Reads any bytes as a plan of a reorganisation, and as the state of one: an error or a valid value.
pub(crate) fn reorganizer(bytes: &[u8]) {
    if let Ok(plan) = RelocationPlan::decode(bytes) {
        assert_eq!(RelocationPlan::decode(&plan.encode()), Ok(plan));
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(plan) = RelocationPlan::from_text(text, Sectors::new(8), Sectors::new(10_000), 1_000)
    {
        assert!(plan.len() <= 1_000);
        assert_eq!(RelocationPlan::decode(&plan.encode()), Ok(plan));
    }
    let Some(plan) = some_plan() else { return };
    let options = Default::default();
    let recovered = Reorganizer::recover(&plan, bytes, options, Bytes::new(4), Volatile, &mut idle::Idle);
    if let Ok(machine) = recovered {
        let progress = machine.progress();
        let parts = [progress.waiting, progress.staged, progress.kept, progress.done, progress.stuck];
        assert_eq!(parts.iter().sum::<u64>(), progress.blocks);
    }
}

fn some_plan() -> Option<RelocationPlan> {
    let region = LbnRange::new(Lbn::ZERO, Sectors::new(64));
    RelocationPlan::circular(region, Sectors::new(2), Sectors::new(64), 9, &mut |n| n.get() / 2).ok()
}

pub(crate) fn reorganizer_seeds() -> Vec<Vec<u8>> {
    let text =
        b"freeblock plan 1\nblock 8\nfree 900 80 # free\nmove 0 900 64\nmove 100 200 16\nmove 200 100 16\n"
            .to_vec();
    some_plan().iter().map(RelocationPlan::encode).chain([text]).collect()
}

/// The profile of a small drive, for the setups of recordings.
const SMALL: &str = include_str!("../../drive/tests/data/small.toml");

/// Reads any bytes as a recording of a live run, and as the lines of a sound one: an error, or a core to which the whole
/// recording was replayed. The recording's setup configures the core; a small drive replaces an invalid setup, so that the rest
/// is read.
#[cfg(target_os = "linux")]
pub(crate) fn recording(bytes: &[u8]) {
    use std::io::Write;
    replayed(bytes);
    let Ok(mut frames) = server::Frames::new(Vec::new()) else { return };
    let written = frames.write_all(bytes).and_then(|()| frames.write_all(b"\n"));
    if let Ok(whole) = written.and_then(|()| frames.end()) {
        replayed(&whole);
    }
}

#[cfg(target_os = "linux")]
fn replayed(bytes: &[u8]) {
    let replay = server::CoreReplay::new(bytes, |config| {
        if let Ok(core) = cli::core_of_recording(config) {
            return Ok(core);
        }
        let profile = model::Profile::from_toml(SMALL, "small.toml");
        let profile = profile.map_err(|e| e.to_string())?;
        let model = model::DriveModel::from_profile(&profile).map_err(|e| e.to_string())?;
        let firmware = profile.firmware.as_ref().ok_or("no firmware")?;
        let overheads = scheduler::Overheads::of(firmware, &model, true);
        let outside = scheduler::OutsideConfig::beyond(overheads);
        let config = scheduler::Config::outside(outside);
        Ok(scheduler::OutsideDrive::new(std::sync::Arc::new(model), config))
    });
    let Ok(mut replay) = replay else { return };
    while let Ok(true) = replay.step() {}
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn recording(_: &[u8]) {}

pub(crate) fn recording_seeds() -> Vec<Vec<u8>> {
    let lines = [
        r#"{"disk":"d"}"#,
        r#"{"input":{"input":{"call":{"open":{"priority":20}}},"answer":1}}"#,
        r#"{"input":{"input":{"submit":{"at":1000,"request":{"id":0,"op":"read","range":{"start":8,"len":8}}}},"answer":0}}"#,
        r#"{"poll":{"at":1000,"buffers":[],"output":null}}"#,
        r#"{"input":{"input":{"ended":{"at":5000000,"end":{"one":{"id":0,"outcome":"done"}}}},"answer":0}}"#,
        r#""end""#,
    ];
    let mut seeds = vec![lines.join("\n").into_bytes(), b"freeblock recording 5\n".to_vec()];
    for config in setups() {
        let config = config.to_string();
        seeds.push([&[config.as_str()], &lines[1..]].concat().join("\n").into_bytes());
    }
    seeds
}

/// Returns the beginnings of recordings: of a drive with a profile, of one without, and of one with learnt times.
fn setups() -> Vec<serde_json::Value> {
    use serde_json::json;
    let config = |drive: &serde_json::Value, policy: &str| {
        json!({ "version": "0.1.0", "disk": "d", "drive": drive, "policy": policy, "harm_ppm": 1_000,
            "idle_after_ns": 50_000_000, "partial_blocks": 4 })
    };
    let costs = json!({ "command_ns": [300_000, 400_000], "completion_ns": [0, 0], "bus_sector_ns": 5_000,
        "shortest_access_ns": 100_000, "overlap": true, "write_back": false });
    let profile = json!({ "profile": { "toml": SMALL, "costs": costs } });
    let size = json!({ "size": { "sectors": 1 << 16, "sector_bytes": 512 } });
    let mut learnt = config(&size, "smtf");
    let learns = LearnerConfig {
        memory: Bytes::new(1 << 20),
        ..LearnerConfig::new(Sectors::new(1 << 16), Sectors::new(64))
    };
    if let Ok(learner) = Learner::new(learns, None) {
        let digits: String = learner.save("d").iter().map(|byte| format!("{byte:02x}")).collect();
        learnt["learnt"] = digits.into();
    }
    learnt["learning"] = json!({ "memory_bytes": 1 << 20, "minimum_samples": 1, "probe_idle": false });
    vec![config(&profile, "sptf"), config(&size, "smtf"), learnt]
}

/// Reads any bytes as a table of the Disk Mimic: an error, or a table that can be used and written again.
pub(crate) fn mimic(bytes: &[u8]) {
    let _ = Saved::from_bytes(bytes);
    let Ok(saved) = Saved::from_bytes(&sealed::framed(b"FBMIMIC\n", bytes)) else { return };
    for pair in Pair::ALL {
        for knot in saved.table.knots(pair).take(100) {
            assert!(saved.table.time(pair, knot.distance, 0).is_some());
            if let Some(after) = knot.distance.sectors().checked_add(1) {
                saved.table.time(pair, Distance::new(after), u64::MAX);
            }
        }
    }
    assert_eq!(Saved::from_bytes(&saved.to_bytes()).map(|again| again.table), Ok(saved.table));
}

pub(crate) fn mimic_seeds() -> Vec<Vec<u8>> {
    Vec::new()
}

fn learns() -> LearnerConfig {
    LearnerConfig::new(Sectors::new(1 << 16), Sectors::new(8))
}

/// Reads any bytes as the learnt times of a mimic: an error, or a learner that can be saved and loaded again.
pub(crate) fn learner(bytes: &[u8]) {
    let _ = Learner::load(learns(), "drive", bytes);
    let Ok(learner) = Learner::load(learns(), "drive", &sealed::framed(b"FBLEARN\n", bytes)) else { return };
    assert!(
        Learner::load(learns(), "drive", &learner.save("drive")).is_ok(),
        "the learner does not load the state that it saved"
    );
}

pub(crate) fn learner_seeds() -> Vec<Vec<u8>> {
    let Ok(learner) = Learner::new(learns(), None) else { return Vec::new() };
    let saved = learner.save("drive");
    // The body of the frame alone, because the target adds the parts before and after it; and the whole file.
    vec![saved.get(20..saved.len().saturating_sub(4)).unwrap_or_default().to_vec(), saved]
}

/// Reads any bytes as the state of a probe: an error, or a journal that is written as it was read.
pub(crate) fn probe(bytes: &[u8]) {
    for bytes in [bytes, &sealed::summed(bytes.to_vec())] {
        if let Ok(journal) = probe::Journal::from_bytes(bytes, "state") {
            assert_eq!(journal.to_bytes(), bytes);
            let _ = probe::Probe::resume(probe::Options { seed: 7, ..Default::default() }, journal);
        }
    }
}

pub(crate) fn probe_seeds() -> Vec<Vec<u8>> {
    // Two timed reads of eight sectors.
    let mut state = b"FBPROBE\x01".to_vec();
    for number in [1u64 << 20, 512, 7, 6_000_000, 2] {
        state.extend(number.to_le_bytes());
    }
    for n in 0..2u64 {
        state.extend((n * 1_000).to_le_bytes());
        state.extend(8u32.to_le_bytes());
        state.extend((n * 10_000_000).to_le_bytes());
        state.extend((n * 10_000_000 + 4_000_000).to_le_bytes());
    }
    vec![sealed::summed(state.clone()), state]
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    /// Each setup is valid: otherwise the target would never read past a setup.
    #[test]
    fn the_setups_of_recordings_are_some() {
        for config in super::setups() {
            assert!(cli::core_of_recording(&config).is_ok(), "{config}");
        }
    }
}
