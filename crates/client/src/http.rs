//! The part of HTTP/1.1 that the control socket needs: one request a connection.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most bytes of an answer's body, so that no server fills the client's memory.
const BODY_BYTES_MAX: usize = 64 << 20;
/// The most bytes of an answer's head, so that no server fills the client's memory.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The most time for the daemon to read or to answer. The daemon answers within ten seconds, or says that it
/// cannot.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// An answer's code, and its body.
pub(crate) type Answer = (u16, Vec<u8>);

/// Sends a request and returns the answer.
pub(crate) fn request(socket: &Path, method: &str, path: &str, body: Option<&[u8]>) -> io::Result<Answer> {
    let mut stream = connect(socket)?;
    let body = body.unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: freeblock\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut whole = head.into_bytes();
    whole.extend_from_slice(body);
    say(&mut stream, &whole)?;
    answer(&mut stream)
}

/// Reads an answer to its end.
pub(crate) fn answer(stream: &mut impl Read) -> io::Result<Answer> {
    let (code, length, rest) = head_of(stream)?;
    Ok((code, body_of(stream, length, rest)?))
}

/// Upgrades the connection. Returns the stream with the bytes that have arrived behind the answer's head, or the
/// answer by which the daemon refuses.
pub(crate) fn upgrade(
    socket: &Path,
    path: &str,
    protocol: &str,
) -> io::Result<Result<(UnixStream, Vec<u8>), Answer>> {
    let mut stream = connect(socket)?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: freeblock\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\nContent-Length: 0\r\n\r\n"
    );
    say(&mut stream, head.as_bytes())?;
    let (code, length, rest) = head_of(&mut stream)?;
    if code != 101 {
        return Ok(Err((code, body_of(&mut stream, length, rest)?)));
    }
    stream.set_read_timeout(None)?;
    Ok(Ok((stream, rest)))
}

/// Sends a request. The daemon may refuse a request before it has read all of it and close the connection, so a
/// broken pipe is no error: the answer can still be read.
fn say(stream: &mut UnixStream, bytes: &[u8]) -> io::Result<()> {
    match stream.write_all(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said,
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let stream = match private(socket).map(UnixStream::connect) {
        Some(Ok(stream)) => stream,
        // There may be no private socket, and most users may not open it.
        _ => UnixStream::connect(socket)?,
    };
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    stream.set_write_timeout(Some(RESPONSE_TIMEOUT))?;
    Ok(stream)
}

/// Returns the path of the private socket, which only root and the daemon's own user may open, if it has the same
/// owner as the public one. Other users' connections cannot fill its queue in the kernel.
fn private(socket: &Path) -> Option<PathBuf> {
    let mut private = socket.as_os_str().to_owned();
    private.push(".private");
    let owner = |path: &Path| std::fs::symlink_metadata(path).ok().map(|file| file.uid());
    let private = PathBuf::from(private);
    (owner(&private)? == owner(socket)?).then_some(private)
}

fn strange(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("no daemon answers so: {what}"))
}

/// Returns the status code, the body's length if the head has it, and the bytes of the body that have arrived.
fn head_of(stream: &mut impl Read) -> io::Result<(u16, Option<usize>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut some = [0; 4096];
    // Searched bytes are not searched again, except the last three, because the end of the head may begin there.
    let mut searched = 0;
    let end = loop {
        let found = bytes.windows(4).skip(searched).position(|w| w == b"\r\n\r\n").map(|at| searched + at);
        // This bound does not depend on how the head was divided into reads.
        if found.unwrap_or(bytes.len().saturating_sub(3)) > HEAD_BYTES_MAX {
            return Err(strange("a head without an end"));
        }
        if let Some(end) = found {
            break end;
        }
        searched = bytes.len().saturating_sub(3);
        match stream.read(&mut some)? {
            0 => return Err(strange("the server closed the connection")),
            n => bytes.extend_from_slice(some.get(..n).unwrap_or_default()),
        }
    };
    let rest = bytes.split_off(end + 4);
    let head = String::from_utf8(bytes).map_err(|_| strange("a head that is no text"))?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.filter(|_| head.starts_with("HTTP/1.")).ok_or_else(|| strange("no HTTP"))?;
    let length = head.lines().filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok()).flatten()
    });
    Ok((code, length, rest))
}

fn body_of(stream: &mut impl Read, length: Option<usize>, mut body: Vec<u8>) -> io::Result<Vec<u8>> {
    let most = length.unwrap_or(BODY_BYTES_MAX);
    if most > BODY_BYTES_MAX {
        return Err(strange("a body of more than 64 MiB"));
    }
    // Bytes after the body do not belong to it.
    body.truncate(most);
    let missing = most.saturating_sub(body.len());
    stream.take(missing as u64).read_to_end(&mut body)?;
    match length {
        Some(length) if body.len() != length => Err(strange("a body that is cut off")),
        _ => Ok(body),
    }
}
