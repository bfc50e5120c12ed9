//! Backups of snapshots. A restored backup must have the volume's content at the instant of the snapshot.

use super::seat::{Seat, Tape};
use super::snapshots::Snapshots;
use super::{House, Part, refused};
use crate::failure::{Broken, Check, hold};
use crate::medium::lbns;
use apps::backup::image::{Header, scan};
use apps::backup::{Backup, BackupStartError, BackupState, Destination, ImageWriter, Point, restore};
use apps::snapshot::{Provider, SnapshotId, Volume as Snapshotted};
use scheduler::Priority;
use sim::{Place, Volume};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use units::Lbn;

type BackupApp = Backup<Rc<RefCell<Snapshotted>>, ImageWriter<Tape>>;

/// A backup in progress.
struct Running {
    place: Place<Seat<BackupApp>>,
    snapshot: SnapshotId,
    base: Option<SnapshotId>,
    priority: Priority,
    tape: Tape,
}

/// A drive to which a backup was restored: the bytes of the snapshot, and the sectors that no backup could read.
#[derive(Clone)]
struct Restored {
    point: Point,
    from: Lbn,
    sector: usize,
    bytes: Vec<u8>,
    missing: BTreeSet<Lbn>,
}

#[derive(Default)]
pub(super) struct Backups {
    running: Option<Running>,
    restored: BTreeMap<SnapshotId, Restored>,
}

impl Destination for Restored {
    fn write_at(&mut self, at: Lbn, bytes: &[u8]) -> Result<bool, String> {
        let from = at.since(self.from).get() as usize * self.sector;
        let into = self.bytes.get_mut(from..from + bytes.len()).ok_or("past the end of the volume")?;
        into.copy_from_slice(bytes);
        Ok(true)
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

impl Running {
    fn app<'a>(&self, volume: &'a Volume) -> Option<&'a BackupApp> {
        volume.app(self.place)?.0.as_ref()
    }

    /// Begins a backup, or continues the one whose image is on the simulated tape. Returns `None` if the snapshot is gone.
    fn start(
        volume: &mut Volume,
        snapshots: &Snapshots,
        (snapshot, base): (SnapshotId, Option<SnapshotId>),
        (image, priority): (u64, Priority),
        tape: Tape,
    ) -> Result<Option<Self>, Broken> {
        let provider = Rc::clone(&snapshots.volume);
        let sector = volume.drive().sector_bytes().get() as usize;
        let Ok(chunks) = BackupApp::list_len(&provider, snapshot, base) else { return Ok(None) };
        let bytes = tape.bytes();
        let writer = match scan(&mut bytes.as_slice()) {
            Ok(scan) => {
                tape.cut(scan.keep as usize);
                ImageWriter::resume(scan, tape.clone())
            }
            Err(_) => {
                tape.cut(0);
                let (shape, sector_bytes) = (provider.shape(), sector as u32);
                ImageWriter::new(Header { image, shape, snapshot, base, sector_bytes, chunks }, tape.clone())
            }
        };
        let place = volume.host(Seat(None));
        let begun = volume.call(place, |seat, sessions| {
            Backup::start(provider, writer, (snapshot, base), sector, sessions, priority)
                .map(|backup| seat.0 = Some(backup))
        });
        match begun {
            Some(Err(BackupStartError::Gone(_))) => Ok(None),
            Some(Err(error)) => Err(refused(error)),
            _ => Ok(Some(Self { place, snapshot, base, priority, tape })),
        }
    }
}

impl Backups {
    pub fn reported(&self, volume: &Volume) -> String {
        match self.running.as_ref().and_then(|running| running.app(volume)) {
            None => "no backup".into(),
            Some(app) => format!("a backup {:?} {:?}", app.state(), app.counts()),
        }
    }

    /// Returns the number of blocks that the backup has not written yet, plus one; 0 without a backup.
    pub fn left(&self, volume: &Volume) -> u64 {
        let app = self.running.as_ref().and_then(|running| running.app(volume));
        app.map_or(0, |app| 1 + app.counts().blocks - app.counts().written)
    }

    pub fn suspend(&mut self, volume: &mut Volume, on: bool) -> Result<(), Broken> {
        let Some(running) = &self.running else { return Ok(()) };
        let reported = volume.call(running.place, |seat, sessions| match &seat.0 {
            Some(app) if on => sessions.suspend(app.session()),
            // A backup whose tape is full has suspended itself, and is not resumed.
            Some(app) if *app.state() == BackupState::Running => sessions.resume(app.session()),
            _ => Ok(()),
        });
        reported.unwrap_or(Ok(())).map_err(refused)
    }
}

impl House {
    /// Begins a backup of the latest snapshot, unless one is in progress.
    pub(super) fn start_backup(&mut self, priority: u8, difference: bool) -> Result<(), Broken> {
        let latest = self.snapshots.volume.borrow().snapshots().last();
        let (Some(snapshot), Some(priority), None) = (latest, Priority::new(priority), &self.backups.running)
        else {
            return Ok(());
        };
        let base = self.backups.restored.range(..snapshot).next_back().map(|(id, _)| *id);
        if difference && base.is_none() {
            return Ok(());
        }
        let base = base.filter(|_| difference);
        let image = self.dice.next();
        let of = (snapshot, base);
        self.backups.running =
            Running::start(&mut self.volume, &self.snapshots, of, (image, priority), Tape::default())?;
        Ok(())
    }

    /// Sets the free space on the tape; `None` for no limit.
    pub(super) fn room(&mut self, bytes: Option<u64>) {
        let Some(running) = &self.backups.running else { return };
        running.tape.room(bytes);
        self.volume.call(running.place, |seat, sessions| {
            if let Some(app) = &mut seat.0 {
                app.go_on(sessions);
            }
        });
    }

    pub(super) fn look_at_backups(&mut self) -> Result<(), Broken> {
        let Some(running) = &self.backups.running else { return Ok(()) };
        let Some(app) = running.app(&self.volume) else { return Ok(()) };
        let live = self.snapshots.taken.contains_key(&running.snapshot);
        match app.state() {
            BackupState::Running | BackupState::TargetFull | BackupState::Refused(_) => Ok(()),
            BackupState::OutputFailed(why) => {
                Err((Check::Restored, format!("the tape is sound, and fails: {why}")))
            }
            BackupState::Gone(gone) => {
                hold(!live, Check::Restored, || format!("a backup says {gone}, and it is there"))?;
                self.backups.running = None;
                Ok(())
            }
            BackupState::Finished => match self.backups.running.take() {
                // Not compared if the snapshot is gone, which may happen after the backup has read its last block.
                Some(running) if live => self.compare(&running),
                _ => Ok(()),
            },
        }
    }

    /// Restores the image of a finished backup, and compares it with the volume's content at the snapshot.
    fn compare(&mut self, running: &Running) -> Result<(), Broken> {
        let all = self.snapshots.all();
        let base = running.base.and_then(|base| self.backups.restored.get(&base).cloned());
        let onto = base.as_ref().map(|base| base.point);
        let point =
            Point { volume: self.snapshots.volume.borrow().shape().volume, snapshot: running.snapshot };
        let mut drive = base.unwrap_or(Restored {
            point,
            from: all.start(),
            sector: self.sector,
            bytes: vec![0; all.len().get() as usize * self.sector],
            missing: BTreeSet::new(),
        });
        let image = running.tape.bytes();
        let reported = restore(&mut image.as_slice(), onto, &mut drive)
            .map_err(|e| (Check::Restored, format!("a finished image cannot be restored: {e}")))?;
        hold(reported.point == point, Check::Restored, || {
            format!("restored is {:?}, not {point:?}", reported.point)
        })?;
        hold(reported.missing.is_empty() || self.is_spoilt(Part::Snapshots), Check::Restored, || {
            format!("sectors {:?} are missing, and nothing was ever bad", reported.missing)
        })?;
        hold(running.tape.durable() == image.len(), Check::Restored, || {
            "a backup is finished before its image is durable".into()
        })?;
        drive.point = point;
        drive.missing.extend(reported.missing);
        let Some((floors, last)) = self.snapshots.taken.get(&running.snapshot) else { return Ok(()) };
        let mut floors = floors.clone();
        for (lbn, floor) in lbns(all).zip(&mut floors) {
            if drive.missing.contains(&lbn) {
                *floor = None;
            }
        }
        let wrong = self.shadow.wrong(all, &drive.bytes, &floors).or_else(|| {
            let later = lbns(all).zip(drive.bytes.chunks(self.sector)).find_map(|(lbn, bytes)| {
                let version = self.shadow.version(lbn, bytes).filter(|version| version > last)?;
                (!drive.missing.contains(&lbn)).then_some((lbn, version))
            });
            later.map(|(lbn, version)| format!("LBN {lbn} holds version {version}, which came after it"))
        });
        hold(wrong.is_none(), Check::Restored, || {
            format!("restored from {}: {}", running.snapshot, wrong.unwrap_or_default())
        })?;
        self.counts.restores += 1;
        self.backups.restored.insert(running.snapshot, drive);
        Ok(())
    }

    /// Continues the backup after a power cut. The power cut leaves the durable part of the image and a random part of the rest.
    pub(super) fn backups_restart(&mut self) -> Result<(), Broken> {
        let Some(running) = self.backups.running.take() else { return Ok(()) };
        let Running { snapshot, base, priority, tape, .. } = running;
        let (durable, all) = (tape.durable(), tape.bytes().len());
        tape.cut(durable + self.dice.below((all - durable) as u64 + 1) as usize);
        let image = self.dice.next();
        self.backups.running =
            Running::start(&mut self.volume, &self.snapshots, (snapshot, base), (image, priority), tape)?;
        Ok(())
    }
}
