//! Any bytes as an image, a volume's maps, a journal entry, a scrub's progress: an error, or what they say they are.
#![no_main]

use apps::backup::image::scan;
use apps::scrub::{MemoryChecksums, Plan, Scrubber};
use apps::sessions::{Parameter, Sessions};
use apps::snapshot::{Entry, Volume};
use libfuzzer_sys::fuzz_target;
use scheduler::{Priority, SessionError};
use units::{Instant, Lbn, LbnRange, Sectors, SessionId, TaskId};

/// Takes every task and does none.
struct Idle;

impl Sessions for Idle {
    fn open(&mut self, _: Priority) -> Result<SessionId, SessionError> {
        Ok(SessionId::new(1))
    }
    fn read(&mut self, _: SessionId, r: LbnRange, _: Sectors, _: Parameter) -> Result<TaskId, SessionError> {
        Ok(TaskId::new(r.start().get()))
    }
    fn write(&mut self, s: SessionId, r: LbnRange, b: Sectors, p: Parameter) -> Result<TaskId, SessionError> {
        self.read(s, r, b, p)
    }
    fn abort(&mut self, _: TaskId) -> Result<u64, SessionError> {
        Ok(0)
    }
    fn abort_range(&mut self, _: SessionId, _: LbnRange) -> Result<u64, SessionError> {
        Ok(0)
    }
    fn promote(&mut self, _: SessionId, _: LbnRange) -> Result<u64, SessionError> {
        Ok(0)
    }
    fn suspend(&mut self, _: SessionId) -> Result<(), SessionError> {
        Ok(())
    }
    fn resume(&mut self, _: SessionId) -> Result<(), SessionError> {
        Ok(())
    }
    fn close(&mut self, _: SessionId) -> Result<u64, SessionError> {
        Ok(0)
    }
}

fuzz_target!(|bytes: &[u8]| {
    if let Ok(scan) = scan(&mut &*bytes) {
        assert!(scan.keep <= bytes.len() as u64);
    }
    let _ = MemoryChecksums::decode(bytes);
    if let Ok(entry) = Entry::decode(bytes) {
        assert_eq!(entry.encode(), bytes);
    }
    if let Ok(volume) = Volume::load(bytes) {
        let space = volume.space();
        assert_eq!(space.current + space.kept + space.retired + space.free, space.slots);
    }
    let range = LbnRange::new(Lbn::ZERO, Sectors::new(100_000));
    let plan = Plan { range, block: Sectors::new(1), sector_bytes: 512 };
    let _ = Scrubber::resume(plan, bytes, (), &mut Idle, Priority::default(), Instant::ZERO);
});
