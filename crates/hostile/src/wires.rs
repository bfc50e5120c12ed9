//! Readers of bytes from sockets.

use client::wire::{Call, Decoder, Event, Frame, Range};
use nbd::{Abilities, Connection, Export, Limits, Reply, Tls};
use std::io::Read;
use std::sync::Arc;

const EXPORT_BYTES: u64 = 1 << 16;

/// Reads any bytes from an NBD client, divided anywhere: a protocol violation, or requests within the export.
pub(crate) fn nbd(bytes: &[u8]) {
    // The first byte is the size of the pieces, which must not matter.
    let Some((cut, bytes)) = bytes.split_first() else { return };
    for tls in [Tls::Off, Tls::Offered, Tls::Required] {
        let whole = asked(bytes.chunks(bytes.len().max(1)), tls);
        let parts = asked(bytes.chunks(usize::from(*cut).max(1)), tls);
        // After a violation the rest is ignored; with divided input the violation is detected later.
        let same = parts.requests.get(..whole.requests.len()) == Some(&whole.requests[..]);
        assert!(
            same && (whole.broken || whole.requests.len() == parts.requests.len()),
            "{whole:?} or {parts:?}"
        );
    }
}

/// The requests of a client up to its first violation of the protocol, if it commits one.
#[derive(Debug, Default)]
struct Asked {
    requests: Vec<nbd::Request>,
    broken: bool,
}

fn asked<'a>(parts: impl Iterator<Item = &'a [u8]>, tls: Tls) -> Asked {
    let all = Abilities {
        write: true,
        flush: true,
        fua: true,
        trim: true,
        write_zeroes: true,
        cache: true,
        block_status: true,
        memory_status: true,
        ..Abilities::default()
    };
    let export = Export::new("", EXPORT_BYTES).map(|export| export.with(all));
    let Ok(export) = export else { panic!("an export without a name is one") };
    let mut connection = Connection::new(Arc::from([export]), tls, Limits::default());
    let mut asked = Asked::default();
    for part in parts {
        asked.broken |= connection.receive(part).is_err();
        while connection.has_events() || !connection.output().is_empty() {
            while let Some(event) = connection.poll() {
                match event {
                    nbd::Event::Request(request) => {
                        assert!(
                            request.offset + u64::from(request.length) <= EXPORT_BYTES,
                            "{request:?} is outside"
                        );
                        let data = vec![0; request.length as usize];
                        let reported = connection.reply(&request, &Reply::Data(&data));
                        asked.requests.push(request);
                        asked.broken |= reported.is_err();
                    }
                    nbd::Event::StartTls => connection.tls_started(),
                    nbd::Event::Opened(_) | nbd::Event::Ended | nbd::Event::Unfinished { .. } => {}
                }
            }
            asked.broken |= connection.sent(connection.output().len()).is_err();
            let bound = Limits::default().bytes + part.len();
            assert!(connection.memory() <= bound, "{} bytes are held", connection.memory());
        }
        if asked.broken {
            break;
        }
    }
    asked
}

pub(crate) fn nbd_seeds() -> Vec<Vec<u8>> {
    let option = |kind: u32, data: &[u8]| {
        [b"IHAVEOPT", &kind.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let request = |flags: u16, kind: u16, offset: u64, length: u32, data: &[u8]| {
        let parts: [&[u8]; 7] = [
            &0x2560_9513u32.to_be_bytes(),
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &7u64.to_be_bytes(),
            &offset.to_be_bytes(),
            &length.to_be_bytes(),
            data,
        ];
        parts.concat()
    };
    let flags = [0, 0, 0, 3];
    // INFO and GO carry a name and requests for information, SET_META_CONTEXT a name and queries.
    let (none, go) = (option(8, &[]), option(7, &[0, 0, 0, 0, 0, 1, 0, 3]));
    let meta = option(10, &[&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 15][..], b"base:allocation"].concat());
    let some = [
        request(0, 0, 0, 512, &[]),
        request(1, 1, 512, 1024, &[7; 1024]),
        request(0, 3, 0, 0, &[]),
        request(0, 4, 0, 4096, &[]),
        request(2, 6, 4096, 4096, &[]),
        request(8, 7, 0, 65536, &[]),
        request(0, 0, EXPORT_BYTES - 512, 512, &[]),
        request(0, 2, 0, 0, &[]),
    ]
    .concat();
    let old = [&[1][..], &flags, &option(1, &[]), &some].concat();
    let new = [&[13][..], &flags, &none, &meta, &go, &some].concat();
    let list = [&[2][..], &flags, &option(3, &[]), &option(6, &[0, 0, 0, 0, 0, 0]), &option(2, &[])].concat();
    let tls = [&[64][..], &flags, &option(5, &[]), &none, &go, &some].concat();
    vec![old, new, list, tls]
}

/// Reads any bytes as a session's frames, from client and daemon: no bytes panic, and a decoded frame encodes to the same
/// bytes.
pub(crate) fn session(bytes: &[u8]) {
    frames::<Call>(bytes);
    frames::<Event>(bytes);
}

fn frames<T: Frame + PartialEq + std::fmt::Debug>(bytes: &[u8]) {
    let mut decoder = Decoder::default();
    // The bytes arrive in two pieces: where they are cut must not matter.
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    for piece in [head, tail] {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.take::<T>() {
            let mut again = Vec::new();
            frame.encode(&mut again);
            let mut back = Decoder::default();
            back.push(&again);
            assert_eq!(back.take::<T>(), Ok(Some(frame)));
        }
    }
}

pub(crate) fn session_seeds() -> Vec<Vec<u8>> {
    let (range, call) = (Range { start: 8, sectors: 64 }, 3);
    let calls = [
        Call::Read { call, range, block: 8, parameter: 5 },
        Call::Write { call, range, block: 8, parameter: 5 },
        Call::Promote { call, range },
        Call::Buffer { task: 1, start: 8, bytes: vec![7; 100] },
        Call::NotNow { task: 1, start: 8 },
        Call::Close { call },
    ];
    let record =
        |bad, bytes| Event::Record { task: 1, range, parameter: 5, write: false, bad, last: true, bytes };
    let events = [
        Event::Hello { version: 1, sectors: 1 << 20, sector_bytes: 512 },
        Event::Answer { call, value: 1 },
        Event::Refused { call, text: "no".into() },
        record(None, vec![7; 100]),
        record(Some(9), Vec::new()),
        Event::Wanted { task: 1, range, parameter: 5 },
    ];
    let (mut from_client, mut from_daemon) = (Vec::new(), Vec::new());
    calls.iter().for_each(|call| call.encode(&mut from_client));
    events.iter().for_each(|event| event.encode(&mut from_daemon));
    vec![from_client, from_daemon]
}

/// Bytes that arrive in pieces of a given size.
struct Cut<'a>(&'a [u8], usize);

impl Read for Cut<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let most = into.len().min(self.1);
        let mut rest = self.0;
        let got = rest.read(into.get_mut(..most).unwrap_or_default());
        self.0 = rest;
        got
    }
}

/// Reads any bytes as the answer of a control socket: the result is an error, or a code and a body of the announced length. The
/// result does not depend on how the bytes are divided into reads.
pub(crate) fn http(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let read = |most: usize| match client::read_answer(&mut Cut(bytes, most)) {
        Ok((code, body, refusal)) => Ok((code, body, refusal.map(|refusal| refusal.to_string()))),
        Err(error) => Err(error.to_string()),
    };
    let (whole, parts) = (read(usize::MAX), read(usize::from(*cut).max(1)));
    assert_eq!(whole, parts);
    if let Ok((_, body, refusal)) = whole {
        assert!(
            body.is_empty() || bytes.windows(body.len()).any(|part| part == body),
            "{body:?} was not sent"
        );
        assert!(refusal.is_none() || !body.is_empty());
    }
}

pub(crate) fn http_seeds() -> Vec<Vec<u8>> {
    let answers = [
        "\u{7}HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"disks\":[]}",
        "\u{1}HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n# HELP freeblock_up\nfreeblock_up 1\n",
        "\u{3}HTTP/1.1 400 Bad Request\r\ncontent-length: 69\r\n\r\n{\"error\":{\"field\":\"priority\",\"message\":\"priority: 0; give 1 to 100\"}}",
        "\u{2}HTTP/1.1 101 Switching Protocols\r\nUpgrade: freeblock-session\r\n\r\n\u{19}\0\0\0",
    ];
    answers.map(|text| text.as_bytes().to_vec()).to_vec()
}
