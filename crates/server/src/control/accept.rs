//! Accepts connections: each gets a slot before its request is read.

use super::admission::{Admission, Peer, Slot};
use super::api;
use super::disks::Disks;
use super::limited_log::{LimitedLog, REPORT_INTERVAL};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::RecvFlags;
use std::os::unix::net::UnixListener as Listener;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};

/// The most time for a request's head to arrive.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The most time for a request, until the client has taken the answer, unless the request is for events or a session.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The most time to answer a connection without a slot.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);
/// The most connections without a slot that wait for their answer; further ones are closed without an answer.
const REFUSALS_MAX: usize = 16;

/// Accepts connections at the socket until it is stopped.
pub(super) async fn serve(
    listener: Listener,
    admission: Arc<Admission>,
    disks: Disks,
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "no control socket"),
    };
    let router = TowerToHyperService::new(api::router(disks));
    let log = LimitedLog::new();
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let mut count = tokio::time::interval(REPORT_INTERVAL);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = count.tick() => {
                log.report();
                continue;
            }
            _ = stopped.changed() => return log.report_rest(),
        };
        let stream = match accepted {
            Ok((stream, _)) if is_gone(&stream) => continue,
            Ok((stream, _)) => stream,
            Err(error) => {
                log.write(|| warn!(%error, "the control socket"));
                // Accepting fails, for instance, while no descriptor is free.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (peer, slot) = admission.admit(&stream);
        let peer = peer.unwrap_or_else(|error| {
            log.write(|| warn!(%error, "a client of the control socket without credentials"));
            Peer::unknown()
        });
        let Some(slot) = slot else {
            log.write(|| {
                warn!(
                    uid = peer.uid,
                    "connection to the control socket refused: there are too many connections of this user"
                );
            });
            if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
                tokio::spawn(async move {
                    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, refuse(stream)).await;
                    drop(permit);
                });
            }
            continue;
        };
        tokio::spawn(one(stream, peer, Arc::new(slot), router.clone(), log.clone()));
    }
}

/// Returns whether the client has closed the connection before a request. Such a connection never takes the slot of a
/// waiting one and costs little, so a client that connects and closes without end delays others only briefly.
fn is_gone(stream: &UnixStream) -> bool {
    matches!(rustix::net::recv(stream, &mut [0; 1][..], RecvFlags::PEEK), Ok((_, 0)))
}

/// The answer to a connection that gets no slot.
const NO_SLOT_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 83\r\n\
connection: close\r\n\r\n\
{\"error\":{\"message\":\"too many connections of this user; close some and try again\"}}";

/// Answers a connection that gets no slot. The client's request is read to the end: if it were left unread, the kernel
/// would report a broken connection to the client in place of the answer.
async fn refuse(mut stream: UnixStream) {
    // Writing fails if the client has closed the connection.
    let _ = stream.write_all(NO_SLOT_RESPONSE).await;
    let _ = stream.shutdown().await;
    let mut unread = [0; 4096];
    while stream.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
}

/// Serves one connection.
async fn one(
    stream: UnixStream,
    peer: Peer,
    slot: Arc<Slot>,
    router: TowerToHyperService<axum::Router>,
    log: LimitedLog,
) {
    // Wrapping the router in layers for each connection would cost more than the rest of a connection without a
    // request.
    let service = service_fn(|mut request: Request<Incoming>| {
        let extensions = request.extensions_mut();
        extensions.insert(peer);
        extensions.insert(Arc::clone(&slot));
        extensions.insert(log.clone());
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let mut over = std::pin::pin!(tokio::time::sleep(REQUEST_TIMEOUT));
    let uid = peer.uid;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = slot.hung_up() => {
                return log.write(|| {
                    info!(uid, "connection to the control socket closed: another connection needs the slot, or the user's role was revoked");
                });
            }
            () = over.as_mut(), if !slot.is_lasting() => {
                if slot.is_lasting() {
                    continue;
                }
                return log.write(|| {
                    warn!(uid, "connection to the control socket closed: the client did not read the answer within a minute");
                });
            }
        }
    };
    if let Err(error) = ended {
        log.write(|| match error.is_parse() || error.is_timeout() {
            true => warn!(uid, why = why(&error), "a client of the control socket sends no request"),
            // A client that follows the events ends the connection before the answer has ended.
            false => info!(uid, why = why(&error), "a client of the control socket went before its answer"),
        });
    }
}

/// Returns an error with its causes.
fn why(error: &(dyn std::error::Error + 'static)) -> String {
    let chain = std::iter::successors(error.source(), |error| error.source());
    chain.fold(error.to_string(), |all, cause| format!("{all}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::{ConnectionLimits, Roles};

    #[test]
    fn the_answer_to_one_too_many_is_whole() {
        let text = std::str::from_utf8(NO_SLOT_RESPONSE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).unwrap()["error"]["message"].is_string());
    }

    #[test]
    fn connections_that_are_gone_at_once_take_no_slot_from_one_that_waits() {
        let path = std::env::temp_dir().join(format!("freeblock-gone-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = Listener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut waiting = UnixStream::connect(&path).await.unwrap();
            for _ in 0..10 {
                drop(std::os::unix::net::UnixStream::connect(&path).unwrap());
            }
            let own = waiting.peer_cred().unwrap().uid();
            let limits =
                ConnectionLimits { connections: 2, reserved: 1, per_trusted_user: 2, ..Default::default() };
            let admission = Arc::new(Admission::new(Roles::default(), own, limits));
            let (_stop, stopped) = watch::channel(false);
            let server = tokio::spawn(serve(listener, admission, Disks::default(), stopped));
            // Time for the server to accept all idle connections before the waiting one sends its request.
            tokio::time::sleep(Duration::from_millis(50)).await;
            waiting.write_all(b"GET /v1/disks HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            waiting.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
            server.abort();
        });
        std::fs::remove_file(path).unwrap();
    }

    /// If the request of a refused connection were left unread, its client would see a broken connection in place of
    /// the refusal.
    #[test]
    fn a_client_without_a_slot_gets_the_refusal_after_it_has_sent_its_request() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (here, mut client) = UnixStream::pair().unwrap();
            client.write_all(b"GET /v1/disks HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let refused = tokio::spawn(refuse(here));
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, NO_SLOT_RESPONSE);
            drop(client);
            refused.await.unwrap();
        });
    }
}
