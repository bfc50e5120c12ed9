//! Accepts browsers' connections and serves the page to them.

use super::routes::{self, RouteState};
use super::slots::{BrowserConnection, BrowserSlots, CONNECTIONS_MAX};
use super::{PageContent, disks::DiskSnapshots};
use crate::tls::Tls;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::TcpListener as Listener;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tracing::warn;

/// The most time for a request's head, and for a TLS handshake.
const REQUEST_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The most time for a request, until the browser has read the answer, unless the request follows the snapshots.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The most bytes of unsent answers that a connection holds in the daemon.
const UNSENT_BYTES_MAX: usize = 64 << 10;

/// The most unsent bytes of a connection in the kernel: snapshots become outdated while they wait there.
const KERNEL_BYTES_MAX: usize = 256 << 10;

/// The answer to a connection that gets no slot.
const NO_SLOT_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 72\r\n\
connection: close\r\n\r\n\
{\"error\":{\"message\":\"too many connections; close some and try again\"}}\r\n";

/// Accepts connections until the page is stopped.
pub(super) async fn serve(
    listener: Listener,
    tls: Option<Tls>,
    state: RouteState,
    (shown, every): (PageContent, Duration),
    mut stopped: watch::Receiver<bool>,
) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return warn!(%error, "no page"),
    };
    let feed = Arc::clone(&state.feed);
    let (changes, source) = match shown {
        PageContent::Disks(all) => {
            let all: crate::control::Disks =
                Arc::new(all.into_iter().map(|disk| (disk.facts().name.clone(), disk)).collect());
            (routes::of_disks(Arc::clone(&all)), Source::Disks(DiskSnapshots::new(all)))
        }
        PageContent::Other(show) => (routes::of_other(Arc::clone(&show)), Source::Other(show)),
    };
    let router = routes::router(state, changes);
    tokio::spawn(async move {
        let mut source = source;
        let mut beat = tokio::time::interval(every);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            feed.is_looked_at().await;
            beat.tick().await;
            feed.put(&source.snapshot().await);
        }
    });
    let slots = Arc::new(Mutex::new(BrowserSlots::default()));
    let refusals = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config()));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            // Dropping the runtime closes all connections.
            _ = stopped.changed() => return,
        };
        let Ok((stream, from)) = accepted else {
            // Accepting fails, for instance, while no descriptor is free.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        // If the kernel refuses, its default bound holds.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, KERNEL_BYTES_MAX);
        match BrowserConnection::take(&slots, from.ip()) {
            Some(slot) => drop(tokio::spawn(one(stream, acceptor.clone(), router.clone(), slot))),
            None if acceptor.is_none() => {
                if let Ok(place) = Arc::clone(&refusals).try_acquire_owned() {
                    tokio::spawn(async move {
                        let _place = place;
                        // Refusing fails if the browser has closed the connection.
                        let _ = tokio::time::timeout(REQUEST_HEAD_TIMEOUT, refuse(stream)).await;
                    });
                }
            }
            None => {}
        }
    }
}

enum Source {
    Disks(DiskSnapshots),
    Other(Arc<dyn super::SnapshotSource>),
}

impl Source {
    async fn snapshot(&mut self) -> String {
        match self {
            Self::Disks(disks) => disks.snapshot().await.to_string(),
            Self::Other(show) => show.snapshot().to_string(),
        }
    }
}

/// Answers a connection that gets no slot. The browser's request is read to the end: if it were left unread, the
/// kernel would report a broken connection to the browser in place of the answer.
async fn refuse(mut stream: TcpStream) {
    let _ = stream.write_all(NO_SLOT_RESPONSE).await;
    let _ = stream.shutdown().await;
    let mut unread = [0; 4096];
    while stream.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
}

/// Serves one connection, encrypted or not.
async fn one(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    router: axum::Router,
    browser: BrowserConnection,
) {
    let hung_up = Arc::clone(&browser.hang_up);
    match acceptor {
        None => spoken(stream, router, browser).await,
        Some(acceptor) => {
            // A client that does not speak TLS, or is too slow, is disconnected.
            let accepted = tokio::select! {
                accepted = tokio::time::timeout(REQUEST_HEAD_TIMEOUT, acceptor.accept(stream)) => accepted,
                () = hung_up.notified() => return,
            };
            if let Ok(Ok(stream)) = accepted {
                spoken(stream, router, browser).await;
            }
        }
    }
}

async fn spoken(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: axum::Router,
    browser: BrowserConnection,
) {
    let browser = Arc::new(browser);
    let router = router.layer(axum::Extension(Arc::clone(&browser)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD_TIMEOUT)
        .keep_alive(false)
        .max_buf_size(UNSENT_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let mut over = std::pin::pin!(tokio::time::sleep(REQUEST_TIMEOUT));
    let mut lasts = false;
    loop {
        tokio::select! {
            // A browser may end its connection at any time, which is no error.
            _ = connection.as_mut() => return,
            () = browser.hang_up.notified() => return,
            () = over.as_mut(), if !lasts => {
                lasts = browser.is_lasting();
                if !lasts {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_one_too_many_is_whole() {
        let text = std::str::from_utf8(NO_SLOT_RESPONSE).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<serde_json::Value>(body).unwrap()["error"]["message"].is_string());
    }

    #[test]
    fn a_browser_without_a_slot_can_send_its_request_and_gets_the_refusal() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut browser = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let refused = tokio::spawn(refuse(listener.accept().await.unwrap().0));
            // The refusal may arrive before the request is sent; the connection is still whole then.
            browser.readable().await.unwrap();
            for part in ["GET / HTTP/1.1\r\n", "Host: x\r\n\r\n"] {
                browser.write_all(part.as_bytes()).await.unwrap();
            }
            let mut answer = Vec::new();
            browser.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, NO_SLOT_RESPONSE);
            drop(browser);
            refused.await.unwrap();
        });
    }
}
