//! The disks of the daemon by their names, and calls to their threads.

use super::reply::Refusal;
use crate::handle::Handle;
use crate::manager::TaskManager;
use axum::http::StatusCode;
use scheduler::Sessions;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The longest wait for a disk to answer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) type Disks = Arc<BTreeMap<String, Handle>>;
pub(super) type ApiResult<T> = Result<T, Refusal>;

pub(super) fn find(disks: &Disks, name: &str) -> ApiResult<Handle> {
    disks.get(name).cloned().ok_or_else(|| {
        let names: Vec<&str> = disks.keys().map(String::as_str).collect();
        let message = format!("there is no disk {name:?}; the disks are {}", names.join(", "));
        Refusal::new(StatusCode::NOT_FOUND, message)
    })
}

/// Runs a call on the disk's thread and waits for the answer.
pub(super) async fn ask<T: Send + 'static>(
    disk: &Handle,
    call: impl FnOnce(&mut TaskManager, &mut dyn Sessions) -> T + Send + 'static,
) -> ApiResult<T> {
    let (tell, answer) = oneshot::channel();
    let call = move |manager: &mut TaskManager, sessions: &mut dyn Sessions| {
        // If the waiting client has got an error meanwhile, the call must change nothing.
        if !tell.is_closed() {
            let _ = tell.send(call(manager, sessions));
        }
    };
    disk.post(Box::new(call)).map_err(|_| Refusal::gone())?;
    wait(answer).await
}

pub(super) async fn wait<T>(answer: oneshot::Receiver<T>) -> ApiResult<T> {
    match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        _ => Err(Refusal::gone()),
    }
}
