//! The disks on the page, and the page's control of their tasks.

use crate::control::{self, Disks, Peer, Refusal, Role};
use crate::disk::BOUNDS_US;
use crate::handle::Handle;
use crate::task::spec::{TaskKind, TaskSpec};
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The time after which a disk that does not answer is shown as such. The disk is not asked again before
/// it has answered.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The most tasks of a disk that are shown: all unfinished ones, of which a disk has at most 64, and the
/// latest finished ones.
const SHOWN_TASKS_MAX: usize = 80;
/// The most sectors listed for a task: its row on the page has no room for more.
const LISTED_SECTORS_MAX: usize = 10;

/// The disks, and the requests to them for the state that the page shows.
pub(super) struct DiskSnapshots {
    disks: Disks,
    /// The requests that are not answered yet, by disk.
    asked: BTreeMap<String, JoinHandle<Option<Value>>>,
}

impl DiskSnapshots {
    pub fn new(disks: Disks) -> Self {
        Self { disks, asked: BTreeMap::new() }
    }

    /// Returns a snapshot of all disks.
    pub async fn snapshot(&mut self) -> Value {
        for (name, disk) in self.disks.iter() {
            self.asked.entry(name.clone()).or_insert_with(|| tokio::spawn(ask_disk(disk.clone())));
        }
        let mut all = Vec::new();
        let until = tokio::time::Instant::now() + ANSWER_TIMEOUT;
        for (name, disk) in self.disks.iter() {
            let Some(asked) = self.asked.get_mut(name) else { continue };
            let answer = match tokio::time::timeout_at(until, asked).await {
                Ok(answer) => {
                    self.asked.remove(name);
                    answer.ok().flatten()
                }
                Err(_) => None,
            };
            all.push(answer.unwrap_or_else(|| {
                let mut value = control::facts(disk);
                value["error"] = "the disk does not answer; look at the daemon's log".into();
                value
            }));
        }
        json!({ "bounds_us": BOUNDS_US, "disks": all })
    }
}

async fn ask_disk(disk: Handle) -> Option<Value> {
    let (tell, status) = oneshot::channel();
    disk.status(move |value| drop(tell.send(value))).ok()?;
    let (tell, tasks) = oneshot::channel();
    disk.post(Box::new(move |manager, _| {
        let shown =
            manager.tasks().into_iter().map(|task| (manager.rings(task.id), task)).collect::<Vec<_>>();
        // Sending fails if the snapshot no longer waits.
        let _ = tell.send((shown, manager.trouble().or(manager.is_taken())));
    }))
    .ok()?;
    let (status, (tasks, trouble)) = (status.await.ok()?, tasks.await.ok()?);
    let over = tasks.iter().filter(|(_, task)| task.state.is_over()).count();
    let mut left_out = over.saturating_sub(SHOWN_TASKS_MAX.saturating_sub(tasks.len() - over));
    let shown = tasks.into_iter().filter(|(_, task)| {
        let out = task.state.is_over() && left_out > 0;
        left_out -= usize::from(out);
        !out
    });
    let shown: Vec<Value> = shown
        .map(|(rings, task)| {
            let mut value = serde_json::to_value(&task).unwrap_or_default();
            value["rings"] = json!(rings);
            cut(value)
        })
        .collect();
    let mut value = control::facts(&disk);
    value["status"] = serde_json::to_value(status).ok()?;
    value["tasks"] = shown.into();
    value["trouble"] = trouble.into();
    Some(value)
}

/// Removes what the page does not show of a task: the paths of its files, and the ends of long lists.
fn cut(mut task: Value) -> Value {
    if let Some(task) = task.as_object_mut() {
        task.remove("spec");
        if let Some(bad) = task.get_mut("bad_lbns").and_then(Value::as_array_mut) {
            let more = bad.len().saturating_sub(LISTED_SECTORS_MAX) as u64;
            bad.truncate(LISTED_SECTORS_MAX);
            let known = task.get("bad_more").and_then(Value::as_u64).unwrap_or(0);
            task.insert("bad_more".into(), (known + more).into());
        }
        if let Some(content) = task.get_mut("checksums")
            && let Some(wrong) = content.get_mut("wrong").and_then(Value::as_array_mut)
        {
            let more = wrong.len().saturating_sub(LISTED_SECTORS_MAX) as u64;
            wrong.truncate(LISTED_SECTORS_MAX);
            let known = content.get("wrong_more").and_then(Value::as_u64).unwrap_or(0);
            content["wrong_more"] = (known + more).into();
        }
    }
    task
}

/// Starts a scrub. Refuses any other task, and a scrub that names a file.
pub(super) async fn start(disks: State<Disks>, path: Path<String>, body: Bytes) -> Result<Response, Refusal> {
    let spec: TaskSpec = serde_json::from_slice(&body)?;
    if spec.kind != TaskKind::Scrub || spec.names_files() {
        let text = "the page starts scrubs without checksums; start other tasks at the control socket";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    control::start(disks, path, Extension(Peer::of_page(Role::Writer)), body).await
}

/// Pauses, resumes or cancels a task.
pub(super) async fn act(
    disks: State<Disks>,
    path: Path<(String, String, String)>,
) -> Result<axum::Json<crate::manager::status::TaskStatus>, Refusal> {
    control::act(disks, path).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_paths_nor_long_lists_are_shown() {
        let task = json!({
            "id": 1, "spec": { "to": "/secret" }, "bad_lbns": (0..1_000).collect::<Vec<_>>(), "bad_more": 5,
            "checksums": { "wrong": (0..12).collect::<Vec<_>>(), "wrong_more": 0 },
        });
        let cut = cut(task);
        assert!(!cut.to_string().contains("secret"));
        assert_eq!((cut["bad_lbns"].as_array().unwrap().len(), &cut["bad_more"]), (10, &json!(995)));
        assert_eq!(cut["checksums"]["wrong_more"], 2);
    }
}
