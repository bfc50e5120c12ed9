//! The specification of a comparison of disks.

use super::{DiskFacts, SpecError, TaskKind, TaskSpec};
use crate::task::budget::{Budget, Reservation};
use apps::verify::{Array, ComparisonPlanError, MEMORY_MIN};
use serde::{Deserialize, Serialize};
use units::{Bytes, Lbn, Sectors};

/// The relation between the contents of the members of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArrayKind {
    /// All members have the same content.
    #[default]
    Mirror,
    /// RAID 5, in any layout.
    Raid5,
    /// RAID 6, in md's left-symmetric layout.
    Raid6,
}

/// The default of [`TaskSpec::memory_bytes`].
const USUAL_MEMORY_BYTES: u64 = 1 << 30;
/// The most bytes in a block of a comparison, because a block is kept in memory whole.
const VERIFY_BLOCK_BYTES_MAX: u64 = 1 << 20;

/// A comparison of disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifySpec {
    /// The names of the disks, in the order of the array.
    pub members: Vec<String>,
    /// The comparison, without the names of the disks.
    pub plan: apps::verify::ComparisonPlan,
}

impl VerifySpec {
    /// Takes the memory of the comparison from the budget that all comparisons share.
    ///
    /// # Errors
    /// The budget has less memory left.
    pub(crate) fn take_memory(&self, budget: &Budget) -> Result<Reservation, SpecError> {
        let wanted = self.plan.memory;
        budget.take(wanted).ok_or_else(|| {
            let (left, most) = (budget.left(), budget.most());
            let used = most.get().saturating_sub(left.get());
            let found = match used {
                0 => format!("{wanted}, and comparisons have {most} together (comparison_memory)"),
                _ => format!("{wanted}, and other comparisons have {used} of {most} (comparison_memory)"),
            };
            let mend = match left >= MEMORY_MIN {
                true => format!("give at most {left}"),
                false => "wait for one to end, or cancel one".to_owned(),
            };
            SpecError::new("memory_bytes", found, mend)
        })
    }
}

impl TaskSpec {
    /// Checks a comparison. The caller checks whether the other disks exist and are large enough.
    pub(super) fn verify(&self, disk: &DiskFacts) -> Result<VerifySpec, SpecError> {
        let mend = "name the disks in the order of the array, that of this task first";
        if self.members.first() != Some(&disk.name) {
            let found =
                self.members.first().map_or("nothing is given".into(), |name| format!("{name:?} is first"));
            return Err(SpecError::new("members", found, mend));
        }
        let mut names: Vec<&String> = self.members.iter().collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find_map(|two| (two.first() == two.last()).then(|| two.first()))
        {
            let name = twice.map_or("", |name| name.as_str());
            return Err(SpecError::new("members", format!("{name:?} is given twice"), "name each disk once"));
        }
        let (offset, chunk) = (self.offset_lbn.unwrap_or(0), self.chunk_sectors);
        let array = match (self.array.unwrap_or_default(), chunk) {
            (ArrayKind::Mirror, None) => Array::Mirror,
            (ArrayKind::Mirror, Some(_)) => {
                let found = "a mirror does not take this field".into();
                return Err(SpecError::new(
                    "chunk_sectors",
                    found,
                    "omit the field, or give the array's kind",
                ));
            }
            (ArrayKind::Raid5, _) => Array::Raid5,
            (ArrayKind::Raid6, Some(chunk)) => Array::Raid6 { chunk: Sectors::new(chunk) },
            (ArrayKind::Raid6, None) => {
                let mend = "give the chunk of the array (`mdadm --detail` shows it)";
                return Err(SpecError::new("chunk_sectors", "nothing is given".into(), mend));
            }
        };
        let spec = Self { first_lbn: Some(self.first_lbn.unwrap_or(offset)), ..self.clone() };
        let range = spec.range(disk)?;
        let usual = self.block(disk)?.get();
        // The largest power of two that divides the chunk, so that no block is in two stripes.
        let most =
            chunk.filter(|chunk| *chunk > 0).map_or(usual, |chunk| 1 << chunk.trailing_zeros().min(62));
        let block = Sectors::new(if self.block_sectors.is_some() { usual } else { usual.min(most) });
        let plan = apps::verify::ComparisonPlan {
            array,
            members: self.members.len(),
            offset: Lbn::new(offset),
            range,
            block,
            sector_bytes: disk.sector_bytes,
            memory: Bytes::new(self.memory_bytes.unwrap_or(USUAL_MEMORY_BYTES)),
        };
        let bytes = block.bytes(disk.sector_bytes).get();
        if bytes > VERIFY_BLOCK_BYTES_MAX {
            return Err(SpecError::new(
                "block_sectors",
                block.get().to_string(),
                "give a block of at most 1 MiB",
            ));
        }
        plan.check()?;
        Ok(VerifySpec { members: self.members.clone(), plan })
    }

    /// Sets the size of a comparison that has none: up to the end of the smallest of these disks, for RAID 6 rounded
    /// down to whole chunks.
    pub(crate) fn fit<'a>(&mut self, disks: impl IntoIterator<Item = &'a DiskFacts>) {
        let smallest = disks.into_iter().map(|disk| disk.capacity.get()).min();
        if let (TaskKind::Verify, None, Some(end)) = (self.kind, self.sectors, smallest) {
            let (offset, chunk) = (self.offset_lbn.unwrap_or(0), self.chunk_sectors.unwrap_or(1).max(1));
            let end = offset + end.saturating_sub(offset) / chunk * chunk;
            self.sectors = Some(end.saturating_sub(self.first_lbn.unwrap_or(offset)));
        }
    }
}

impl From<ComparisonPlanError> for SpecError {
    fn from(error: ComparisonPlanError) -> Self {
        let field = match error {
            ComparisonPlanError::Members { .. } => "members",
            ComparisonPlanError::Block { .. } => "block_sectors",
            ComparisonPlanError::First { .. } => "first_lbn",
            ComparisonPlanError::Range(_) => "sectors",
            ComparisonPlanError::Memory(_) => "memory_bytes",
        };
        let text = error.to_string();
        let (found, mend) = text.split_once("; ").unwrap_or((&text, ""));
        let found = found.strip_prefix(field).and_then(|found| found.strip_prefix(": ")).unwrap_or(found);
        Self::new(field, found.to_owned(), mend)
    }
}

#[cfg(test)]
mod tests {
    use super::super::What;
    use super::super::tests::disk;
    use super::*;
    use units::LbnRange;

    #[test]
    fn a_comparison_ends_with_the_smallest_disk_in_whole_chunks_and_no_block_is_in_two_chunks() {
        let small = DiskFacts { name: "e".into(), capacity: Sectors::new(900), ..disk() };
        let members: Vec<String> = ["d", "e", "f", "g"].map(Into::into).into();
        let fitted = |mut spec: TaskSpec| {
            spec.fit([&disk(), &small, &disk(), &disk()]);
            match spec.check(&disk()).unwrap() {
                What::Verify(VerifySpec { plan, .. }) => plan,
                other => panic!("{other:?}"),
            }
        };
        let spec = TaskSpec { members, ..TaskSpec::new(TaskKind::Verify) };
        let plan = fitted(spec.clone());
        assert_eq!(
            (plan.array, plan.range, plan.block),
            (Array::Mirror, LbnRange::new(Lbn::ZERO, Sectors::new(900)), Sectors::new(32))
        );
        let (array, chunk_sectors, offset_lbn) = (Some(ArrayKind::Raid6), Some(24), Some(10));
        let plan = fitted(TaskSpec { array, chunk_sectors, offset_lbn, ..spec });
        assert_eq!(plan.range, LbnRange::new(Lbn::new(10), Sectors::new(37 * 24)));
        assert_eq!((plan.block, plan.memory), (Sectors::new(8), Bytes::new(1 << 30)));
    }
}
