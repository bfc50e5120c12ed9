//! The routes of the control socket, version 1 (docs/CONTROL.md).

use super::admission::{Peer, Slot};
use super::disks::{ANSWER_TIMEOUT, ApiResult, Disks, ask, find, wait};
use super::metrics::{self, DiskMetrics};
use super::reply::Refusal;
use super::roles::Role;
use super::session;
use super::task_feed::TaskFeed;
use crate::disk::DiskStatus;
use crate::file_system::Places;
use crate::handle::Handle;
use crate::manager::status::TaskStatus;
use crate::manager::{ManagerError, TaskChange, TaskManager};
use crate::task::spec::{Change, TaskSpec};
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Extension, FromRequest, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use scheduler::Sessions;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::oneshot;

/// The largest body of a request, so that no client fills the memory.
const BODY_BYTES_MAX: usize = 64 << 10;
/// The longest wait for a disk's answer to `/metrics`: half of the time that Prometheus waits by default.
const METRICS_TIMEOUT: Duration = Duration::from_secs(5);
/// The time after which a client that follows the events and reads none is disconnected.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns all routes of the control socket of these disks.
pub(crate) fn router(disks: Disks) -> Router {
    // Limits how many answers with all tasks of a disk one user has unread at a time.
    let few = || axum::middleware::from_fn(few_at_a_time);
    Router::new()
        .route("/v1/disks", get(all_disks))
        .route("/v1/disks/{disk}", get(one_disk).layer(few()))
        .route("/v1/disks/{disk}/tasks", get(tasks).layer(few()).post(start))
        .route("/v1/disks/{disk}/tasks/{id}", get(task).patch(change))
        .route("/v1/disks/{disk}/tasks/{id}/{what}", post(act))
        .route("/v1/disks/{disk}/probe", post(probe))
        .route("/v1/disks/{disk}/sessions", post(session::open))
        .route("/v1/status", get(status).layer(few()))
        .route("/v1/events", get(events))
        .route("/metrics", get(all_metrics).layer(few()))
        .fallback(nothing)
        .method_not_allowed_fallback(no_method)
        .layer(axum::middleware::from_fn(guard))
        // This layer is outside the guard, so that it also limits the body that the guard reads.
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(Extension(TaskFeed::default()))
        .with_state(disks)
}

/// Lets a request through if its user has the role for it, once the whole request has arrived.
async fn guard(
    Extension(peer): Extension<Peer>,
    Extension(slot): Extension<Arc<Slot>>,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    if peer.role == Role::None {
        let text = "the user may not use this socket; the user's uid or gid has to stand in control_roles of the configuration";
        return Refusal::new(StatusCode::FORBIDDEN, text).into_response();
    }
    if !request.method().is_safe() && peer.role != Role::Writer {
        let text = "the user may only ask; the user's uid or gid has to stand in write_uids or write_gids of control_roles";
        return Refusal::new(StatusCode::FORBIDDEN, text).into_response();
    }
    let (parts, body) = request.into_parts();
    let whole = Bytes::from_request(Request::from_parts(parts.clone(), body), &());
    match tokio::time::timeout(ANSWER_TIMEOUT, whole).await {
        Ok(Ok(body)) => {
            slot.request_received();
            next.run(Request::from_parts(parts, Body::from(body))).await
        }
        Ok(Err(error)) if error.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let text = format!("the body has more than {BODY_BYTES_MAX} bytes; name fewer files in one task");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
        }
        Ok(Err(error)) => Refusal::new(error.status(), error.body_text()).into_response(),
        Err(_) => {
            let text = "the body did not come in ten seconds; send it with the head";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, text).into_response()
        }
    }
}

/// Waits until the user has few unread large answers, so that a user that reads none holds little memory.
async fn few_at_a_time(
    Extension(slot): Extension<Arc<Slot>>,
    request: Request,
    next: axum::middleware::Next,
) -> Response {
    slot.has_large_answer().await;
    next.run(request).await
}

async fn nothing() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such thing; docs/CONTROL.md has all paths, as /v1/disks")
}

async fn no_method() -> Refusal {
    Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "the path has other methods; docs/CONTROL.md has them")
}

/// Makes a call that changes a task, and answers with the task once the change is durable.
async fn durably(
    disk: &Handle,
    call: impl FnOnce(&mut TaskManager, &mut dyn Sessions) -> Result<TaskChange, ManagerError> + Send + 'static,
) -> ApiResult<TaskStatus> {
    let (tell, answer) = oneshot::channel();
    let id = ask(disk, move |manager, sessions| {
        let TaskChange { task, seq } = call(manager, sessions)?;
        manager.when_durable(seq, Box::new(move |done| drop(tell.send(done))));
        Ok::<u64, ManagerError>(task)
    })
    .await??;
    wait(answer).await?.map_err(|why| Refusal::new(StatusCode::INSUFFICIENT_STORAGE, why))?;
    one(disk, id).await
}

async fn one(disk: &Handle, id: u64) -> ApiResult<TaskStatus> {
    ask(disk, move |manager, _| manager.task(id)).await?.ok_or_else(|| ManagerError::NoTask(id).into())
}

pub(crate) async fn disk_status(disk: &Handle) -> ApiResult<DiskStatus> {
    let (tell, answer) = oneshot::channel();
    disk.status(move |status| drop(tell.send(status))).map_err(|_| Refusal::gone())?;
    wait(answer).await
}

pub(crate) fn facts(disk: &Handle) -> Value {
    let facts = disk.facts();
    json!({
        "name": facts.name,
        "sectors": facts.capacity.get(),
        "sector_bytes": facts.sector_bytes.get(),
    })
}

async fn all_disks(State(disks): State<Disks>) -> Json<Value> {
    Json(json!({ "disks": disks.values().map(facts).collect::<Vec<_>>() }))
}

async fn whole(disk: &Handle) -> ApiResult<Value> {
    let mut value = facts(disk);
    let status = disk_status(disk).await?;
    let (tasks, trouble, taken) =
        ask(disk, |manager, _| (manager.tasks(), manager.trouble(), manager.is_taken())).await?;
    if let Some(map) = value.as_object_mut() {
        map.insert("status".into(), serde_json::to_value(status)?);
        map.insert("tasks".into(), serde_json::to_value(tasks)?);
        map.insert("trouble".into(), trouble.or(taken).into());
    }
    Ok(value)
}

async fn one_disk(State(disks): State<Disks>, Path(name): Path<String>) -> ApiResult<Json<Value>> {
    Ok(Json(whole(&find(&disks, &name)?).await?))
}

/// Begins to probe a disk while it is served, unless that has begun; answers with the state of the probe.
async fn probe(State(disks): State<Disks>, Path(name): Path<String>) -> ApiResult<Json<Value>> {
    let disk = find(&disks, &name)?;
    let (tell, answer) = oneshot::channel();
    let reported_all = move |asked| {
        // Sending fails if the client is gone.
        let _ = tell.send(asked);
    };
    disk.probe(reported_all).map_err(|_| Refusal::gone())?;
    if !wait(answer).await? {
        let text =
            "the disk is not probed: the disk has a profile, is recorded, or its idle time is not used";
        return Err(Refusal::new(StatusCode::CONFLICT, text));
    }
    Ok(Json(serde_json::to_value(disk_status(&disk).await?.probe)?))
}

async fn status(State(disks): State<Disks>) -> ApiResult<Json<Value>> {
    // All disks are asked at the same time, so that several silent disks delay the answer no longer than
    // one.
    let asked: Vec<_> = disks.values().cloned().map(|disk| tokio::spawn(whole_or_error(disk))).collect();
    let mut all = Vec::new();
    for disk in asked {
        all.push(disk.await.map_err(|_| Refusal::gone())?);
    }
    Ok(Json(json!({ "version": env!("CARGO_PKG_VERSION"), "disks": all })))
}

/// Returns a disk with its status, or with the reason why it gives none.
async fn whole_or_error(disk: Handle) -> Value {
    match whole(&disk).await {
        Ok(value) => value,
        Err(refusal) => {
            let mut value = facts(&disk);
            if let Some(map) = value.as_object_mut() {
                map.insert("error".into(), refusal.message.into());
            }
            value
        }
    }
}

async fn tasks(State(disks): State<Disks>, Path(name): Path<String>) -> ApiResult<Json<Value>> {
    let tasks = ask(&find(&disks, &name)?, |manager, _| manager.tasks()).await?;
    Ok(Json(json!({ "tasks": tasks })))
}

async fn task(
    State(disks): State<Disks>,
    Path((name, id)): Path<(String, String)>,
) -> ApiResult<Json<TaskStatus>> {
    Ok(Json(one(&find(&disks, &name)?, number(&id)?).await?))
}

fn number(id: &str) -> ApiResult<u64> {
    id.parse().map_err(|_| {
        Refusal::new(StatusCode::NOT_FOUND, format!("{id:?} is no number of a task; give one as 1"))
    })
}

/// Checks whether a user may start a task that names files.
fn may_name(places: &Places, spec: &TaskSpec, peer: Peer) -> ApiResult<()> {
    if spec.names_files() && !peer.trusted && !places.are_named() {
        let text = "only root and the daemon's own user may start a task that reads or writes files, because the configuration names no directories for them; name some in `targets`";
        return Err(Refusal::new(StatusCode::FORBIDDEN, text));
    }
    spec.check_places(places).map_err(|error| ManagerError::Field(error).into())
}

pub(crate) async fn start(
    State(disks): State<Disks>,
    Path(name): Path<String>,
    Extension(peer): Extension<Peer>,
    body: Bytes,
) -> ApiResult<Response> {
    let disk = find(&disks, &name)?;
    let mut spec: TaskSpec = serde_json::from_slice(&body)?;
    let members = spec.members.iter().map(|name| find(&disks, name)).collect::<ApiResult<Vec<Handle>>>()?;
    spec.fit(members.iter().map(Handle::facts));
    may_name(disk.places(), &spec, peer)?;
    let task = durably(&disk, move |manager, _| manager.start(spec)).await?;
    let place = format!("/v1/disks/{name}/tasks/{}", task.id);
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(task)).into_response())
}

async fn change(
    State(disks): State<Disks>,
    Path((name, id)): Path<(String, String)>,
    body: Bytes,
) -> ApiResult<Json<TaskStatus>> {
    let (disk, id) = (find(&disks, &name)?, number(&id)?);
    let change: Change = serde_json::from_slice(&body)?;
    if change.is_empty() {
        let text = "nothing is to be changed; give priority or deadline_unix_s";
        return Err(Refusal::new(StatusCode::BAD_REQUEST, text));
    }
    let task = durably(&disk, move |manager, sessions| {
        let mut seq = 0;
        if let Some(priority) = change.priority {
            seq = manager.set_priority(sessions, id, priority)?;
        }
        if let Some(deadline) = change.deadline_unix_s {
            seq = manager.set_deadline(id, deadline)?;
        }
        Ok(TaskChange { task: id, seq })
    });
    Ok(Json(task.await?))
}

pub(crate) async fn act(
    State(disks): State<Disks>,
    Path((name, id, what)): Path<(String, String, String)>,
) -> ApiResult<Json<TaskStatus>> {
    let (disk, id) = (find(&disks, &name)?, number(&id)?);
    let of_task = move |seq| TaskChange { task: id, seq };
    let task = match what.as_str() {
        "pause" => durably(&disk, move |manager, s| manager.pause(s, id).map(of_task)).await?,
        "resume" => durably(&disk, move |manager, s| manager.resume(s, id).map(of_task)).await?,
        "cancel" => {
            durably(&disk, move |manager, s| manager.cancel(s, id).map(of_task)).await?;
            let (tell, answer) = oneshot::channel();
            let gone = move |manager: &mut TaskManager, _: &mut dyn Sessions| {
                manager.when_discarded(id, Box::new(move |done| drop(tell.send(done))));
            };
            ask(&disk, gone).await?;
            // The file system of a backup's target may never answer. The log reports whether the
            // unfinished target was removed.
            let _ = wait(answer).await;
            one(&disk, id).await?
        }
        _ => return Err(nothing().await),
    };
    Ok(Json(task))
}

/// Sends an event for each task, and later for each task that has changed.
async fn events(
    State(disks): State<Disks>,
    Extension(slot): Extension<Arc<Slot>>,
    Extension(feed): Extension<TaskFeed>,
) -> Sse<impl futures_core::Stream<Item = Result<Event, Infallible>>> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    slot.follows();
    tokio::spawn(async move {
        let mut follower = feed.follow(disks);
        while !sender.is_closed() {
            for task in follower.changes().await {
                let Ok(event) = Event::default().event("task").json_data(&*task) else { continue };
                match sender.send_timeout(event, EVENT_TIMEOUT).await {
                    Ok(()) => {}
                    Err(SendTimeoutError::Closed(_)) => return,
                    Err(SendTimeoutError::Timeout(_)) => return slot.hang_up(),
                }
            }
        }
    });
    Sse::new(EventStream(receiver)).keep_alive(KeepAlive::default())
}

/// The receiving end of a channel, as a stream.
struct EventStream(tokio::sync::mpsc::Receiver<Event>);

impl futures_core::Stream for EventStream {
    type Item = Result<Event, Infallible>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|event| event.map(Ok))
    }
}

async fn all_metrics(State(disks): State<Disks>) -> ApiResult<Response> {
    let asked = |(name, disk): (&String, &Handle)| {
        (name.clone(), tokio::spawn(tokio::time::timeout(METRICS_TIMEOUT, disk_metrics(disk.clone()))))
    };
    let asked: Vec<_> = disks.iter().map(asked).collect();
    let (mut all, mut silent) = (Vec::new(), Vec::new());
    for (name, answer) in asked {
        match answer.await {
            Ok(Ok(Ok(metrics))) => all.push(metrics),
            _ => silent.push(name),
        }
    }
    let text = metrics::encode(&all, &silent);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

async fn disk_metrics(disk: Handle) -> ApiResult<DiskMetrics> {
    let (tasks, outcomes) = ask(&disk, |manager, _| (manager.tasks(), manager.outcomes())).await?;
    let status = disk_status(&disk).await?;
    Ok(DiskMetrics { disk: disk.facts().name.clone(), status, tasks, outcomes })
}
