//! The tasks of all disks for the clients that follow the events. The disks are asked once for all
//! followers.

use super::disks::{Disks, ask};
use crate::handle::Handle;
use crate::manager::status::TaskStatus;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The least time between two readings of the tasks.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The tasks of each disk. A task that has not changed since the reading before is the same `Arc`.
type TasksByDisk = BTreeMap<String, Vec<Arc<TaskStatus>>>;

/// The last reading of the tasks, and its time.
#[derive(Debug, Default)]
struct Look {
    at: Option<Instant>,
    tasks: Arc<TasksByDisk>,
}

/// The shared readings of all disks' tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskFeed(Arc<Mutex<Look>>);

impl TaskFeed {
    /// Returns the present tasks, read anew if the last reading is old. For a disk that does not
    /// answer, returns its tasks of the last reading.
    async fn present(&self, disks: &Disks) -> Arc<TasksByDisk> {
        let mut look = self.0.lock().await;
        if look.at.is_none_or(|at| at.elapsed() >= LOOK_INTERVAL) {
            let mut tasks = TasksByDisk::new();
            // All disks are asked at the same time, so that several silent disks delay the reading
            // no longer than one.
            let look_at = |disk: &Handle| {
                let disk = disk.clone();
                tokio::spawn(async move { ask(&disk, |manager, _| manager.tasks()).await })
            };
            let asked: Vec<_> = disks.iter().map(|(name, disk)| (name, look_at(disk))).collect();
            for (name, answer) in asked {
                let before = look.tasks.get(name).map(Vec::as_slice).unwrap_or_default();
                let now = match answer.await {
                    Ok(Ok(now)) => kept(before, now),
                    _ => before.to_vec(),
                };
                tasks.insert(name.clone(), now);
            }
            (look.at, look.tasks) = (Some(Instant::now()), Arc::new(tasks));
        }
        Arc::clone(&look.tasks)
    }

    /// Returns a new follower, whose first changes are all tasks.
    pub fn follow(&self, disks: Disks) -> Follower {
        Follower { feed: self.clone(), disks, known: BTreeMap::new(), begun: false }
    }
}

/// Returns the tasks `now`, with the `Arc` from `before` for each task that has not changed.
fn kept(before: &[Arc<TaskStatus>], now: Vec<TaskStatus>) -> Vec<Arc<TaskStatus>> {
    let before: BTreeMap<u64, &Arc<TaskStatus>> = before.iter().map(|task| (task.id, task)).collect();
    let same = |task: &TaskStatus| {
        before.get(&task.id).filter(|known| ****known == *task).map(|known| Arc::clone(known))
    };
    now.into_iter().map(|task| same(&task).unwrap_or_else(|| Arc::new(task))).collect()
}

/// A client that follows the tasks.
#[derive(Debug)]
pub(super) struct Follower {
    feed: TaskFeed,
    disks: Disks,
    known: BTreeMap<(String, u64), Arc<TaskStatus>>,
    /// Whether the follower has read the tasks before.
    begun: bool,
}

impl Follower {
    /// Waits for the next reading, except the first time, and returns the tasks that have changed
    /// since the last call.
    pub async fn changes(&mut self) -> Vec<Arc<TaskStatus>> {
        if std::mem::replace(&mut self.begun, true) {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        let now = self.feed.present(&self.disks).await;
        let all = || now.iter().flat_map(|(name, tasks)| tasks.iter().map(move |task| (name, task)));
        let is_new = |(name, task): &(&String, &Arc<TaskStatus>)| {
            self.known.get(&((*name).clone(), task.id)).is_none_or(|known| !Arc::ptr_eq(known, task))
        };
        let changed = all().filter(is_new).map(|(_, task)| Arc::clone(task)).collect();
        self.known = all().map(|(name, task)| ((name.clone(), task.id), Arc::clone(task))).collect();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::spec::{TaskKind, TaskSpec};
    use crate::task::table::TaskState;

    fn status(id: u64) -> TaskStatus {
        TaskStatus {
            id,
            disk: "d0".into(),
            kind: TaskKind::Scrub,
            state: TaskState::Running,
            reason: None,
            priority: 20,
            created_unix_s: 0.0,
            changed_unix_s: 0.0,
            deadline_unix_s: None,
            misses_deadline: false,
            done: 0,
            blocks: 10,
            bytes: 0,
            rate_bytes_per_s: None,
            eta_s: None,
            free_bytes: 0,
            idle_bytes: 0,
            harm: Default::default(),
            bad_lbns: Vec::new(),
            bad_more: 0,
            checksums: None,
            differences: None,
            spec: TaskSpec::new(TaskKind::Scrub),
        }
    }

    /// While there is no task there is no change to send, possibly for hours.
    #[test]
    fn a_follower_of_no_task_waits_between_two_looks() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut follower = TaskFeed::default().follow(Disks::default());
        runtime.block_on(async {
            assert!(follower.changes().await.is_empty(), "the first look is at once");
            let second = tokio::time::timeout(LOOK_INTERVAL / 10, follower.changes()).await;
            assert!(second.is_err(), "the second one came at once, too");
        });
    }

    #[test]
    fn a_task_that_has_not_changed_is_the_same_for_all_followers() {
        let before: Vec<_> = [status(1), status(2)].map(Arc::new).into();
        let changed = TaskStatus { done: 7, ..status(2) };
        let now = kept(&before, vec![status(1), changed.clone(), status(3)]);
        assert!(Arc::ptr_eq(&now[0], &before[0]));
        assert!(!Arc::ptr_eq(&now[1], &before[1]) && *now[1] == changed);
        assert_eq!(now[2].id, 3);
    }
}
