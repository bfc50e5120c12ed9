//! Sessions of client programs.

use super::api::Disks;
use super::reply::Refusal;
use axum::extract::{Path, State};
use axum::http::StatusCode;

pub(crate) async fn open(State(_): State<Disks>, Path(_): Path<String>) -> Refusal {
    Refusal::new(StatusCode::NOT_IMPLEMENTED, "sessions")
}
