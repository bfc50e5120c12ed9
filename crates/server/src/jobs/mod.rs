//! Jobs: the state machines that execute tasks, one for each kind of task.

mod backup_output;
pub(crate) mod content;
mod copies;
pub(crate) mod job;
mod landed;
pub(crate) mod priority_reader;
mod reorganize;
mod restore;
mod scrub;
mod snapshot;
mod verify;
mod view;

/// Decodes a restore's progress over `chunks` chunks and encodes it again, for the fuzzing of `crates/hostile`.
#[doc(hidden)]
pub fn restore_progress(bytes: &[u8], chunks: u64) -> Option<Vec<u8>> {
    restore::decode(bytes, chunks).map(|done| restore::encode(&done))
}

use crate::disk::{Background, BackgroundTerms};
use crate::task::budget::Budget;
use crate::task::file_request::ImageTarget;
use crate::task::spec::{TaskKind, What};
use crate::task::table::Figures;
use apps::backup::image::Header;
use apps::snapshot::{Shape, SnapshotId, VolumeId};
use job::{Context, Job};
use units::Lbn;

/// The state from which a job begins or continues.
pub(crate) struct Begin<'a> {
    pub what: &'a What,
    pub volume: VolumeId,
    pub image: u64,
    pub figures: &'a Figures,
    pub saved: &'a [u8],
    /// The budget of bytes for kept blocks, which all copies of a disk share.
    pub room: &'a Budget,
    pub background: &'a BackgroundTerms,
}

/// Begins or continues a task's job.
pub(crate) fn begin(cx: &mut Context<'_>, asked: &Begin<'_>) -> Box<dyn Job> {
    match asked.what {
        What::Scrub { range, block, checksums } => {
            let contents = checksums.as_ref().map(|_| asked.figures.content.clone().unwrap_or_default());
            Box::new(scrub::Scrub::begin(cx, *range, *block, contents, asked.saved))
        }
        What::Backup { to, block, since, force } => {
            Box::new(copy(cx, asked, to, *block, CopyKind::Image { since, force: *force }))
        }
        What::Replica { to, block, force } => {
            Box::new(copy(cx, asked, to, *block, CopyKind::Replica { force: *force }))
        }
        What::Snapshot { name, block, expires_unix_s } => {
            let (name, expires_unix_s) = (name.clone(), *expires_unix_s);
            let terms = view::SnapshotTerms { name, expires_unix_s, room: asked.room.clone() };
            let (sector, capacity) = (cx.disk.sector_bytes, cx.disk.capacity);
            let reads = Background::new(asked.background.clone(), cx.priority, sector, capacity);
            Box::new(view::View::begin(cx, header(cx, asked, *block), terms, reads, asked.figures))
        }
        What::Reorganize { plan, block } => {
            let plan = plan.clone();
            Box::new(reorganize::Reorganize::begin(cx, plan, *block, asked.image, asked.saved, asked.figures))
        }
        What::Verify(verify) => {
            Box::new(verify::VerifyTask::begin(cx, verify.clone(), asked.image, asked.saved))
        }
        What::Restore { from, .. } => {
            Box::new(restore::Restore::begin(cx, from.clone(), asked.saved, asked.figures))
        }
    }
}

/// Returns the header of a full image of the disk.
fn header(cx: &Context<'_>, asked: &Begin<'_>, block: units::Sectors) -> Header {
    let blocks = cx.disk.capacity.get().div_ceil(block.get().max(1));
    Header {
        image: asked.image,
        shape: Shape { volume: asked.volume, first: Lbn::ZERO, block, blocks },
        // A task's number is never used again.
        snapshot: SnapshotId(cx.id),
        base: None,
        sector_bytes: u32::try_from(cx.disk.sector_bytes.get()).unwrap_or(u32::MAX),
        chunks: blocks,
    }
}

/// The output of a copy of the disk: a backup's image file, or a replica.
enum CopyKind<'a> {
    /// An image file, which may hold only the differences from the images `since`.
    Image {
        since: &'a [std::path::PathBuf],
        force: bool,
    },
    Replica {
        force: bool,
    },
}

/// Returns whether the journal has progress of a backup or replica.
fn has_begun(saved: &[u8], figures: &Figures) -> bool {
    !saved.is_empty() || figures.blocks > 0
}

/// Returns the files in the state directory without which a live task cannot continue, by the ends of their names.
pub(crate) fn needed_files(kind: TaskKind, saved: &[u8], figures: &Figures) -> &'static [&'static str] {
    match kind {
        TaskKind::Reorganize if reorganize::has_files(saved) => &["plan", "moves"],
        TaskKind::Backup | TaskKind::Replica if has_begun(saved, figures) => &["kept"],
        TaskKind::Snapshot if figures.blocks > 0 => &["kept"],
        _ => &[],
    }
}

fn copy(
    cx: &mut Context<'_>,
    asked: &Begin<'_>,
    to: &std::path::Path,
    block: units::Sectors,
    kind: CopyKind<'_>,
) -> snapshot::CopyTask {
    let target = ImageTarget {
        path: to.to_owned(),
        header: header(cx, asked, block),
        replica: matches!(kind, CopyKind::Replica { .. }),
        fresh: !has_begun(asked.saved, asked.figures),
        force: matches!(kind, CopyKind::Replica { force: true } | CopyKind::Image { force: true, .. }),
        since: match kind {
            CopyKind::Image { since, .. } => since.to_vec(),
            CopyKind::Replica { .. } => Vec::new(),
        },
        saved: asked.saved.to_vec(),
        capacity: cx.disk.capacity.get(),
        own: cx.disk.own.clone(),
    };
    snapshot::CopyTask::begin(cx, target, asked.room.clone(), asked.figures)
}
