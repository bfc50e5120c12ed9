//! The state machine's answers to every option and command, and to garbage.

use nbd::{
    Abilities, BlockSizes, Command, Connection, Errno, Event, Export, Extent, Limits, MemoryExtent, Reply,
    Request, Tls, Violation,
};
use proptest::prelude::*;
use std::sync::Arc;

const ALL: Abilities = Abilities {
    write: true,
    flush: true,
    fua: true,
    trim: true,
    write_zeroes: true,
    fast_zero: true,
    cache: true,
    multi_conn: true,
    rotational: true,
    block_status: true,
    memory_status: false,
};

fn exports() -> Arc<[Export]> {
    let disk = Export::new("disk", 1 << 20).unwrap().with(ALL).blocks(BlockSizes::sectors(512)).unwrap();
    let plain = Export::new("plain", 1000).unwrap().describe("for reading").unwrap();
    Arc::from([disk, plain])
}

fn greeted(tls: Tls) -> Connection {
    let mut connection = Connection::new(exports(), tls, Limits::default());
    assert_eq!(taken(&mut connection), b"NBDMAGICIHAVEOPT\0\x03");
    connection.receive(&[0, 0, 0, 3]).unwrap();
    connection
}

/// Takes all output and reports it as sent.
fn taken(connection: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    while !connection.output().is_empty() {
        let some = connection.output().to_vec();
        connection.sent(some.len()).unwrap();
        all.extend(some);
    }
    all
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn request(flags: u16, kind: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    [
        &0x2560_9513u32.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &kind.to_be_bytes(),
        &cookie.to_be_bytes(),
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
    ]
    .concat()
}

/// Returns the replies to options in `bytes`: option, kind, data.
fn replies(mut bytes: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        assert_eq!(bytes[..8], 0x0003_e889_0455_65a9u64.to_be_bytes());
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        let end = 20 + word(16) as usize;
        replies.push((word(8), word(12), bytes[20..end].to_vec()));
        bytes = &bytes[end..];
    }
    replies
}

fn kinds(connection: &mut Connection, option: &[u8]) -> Vec<u32> {
    connection.receive(option).unwrap();
    replies(&taken(connection)).into_iter().map(|(_, kind, _)| kind & 0xFFFF).collect()
}

/// Returns a connection to `disk` with structured replies and `base:allocation`.
fn open() -> Connection {
    let mut connection = greeted(Tls::Off);
    let context = [string("disk"), vec![0, 0, 0, 1], string("base:allocation")].concat();
    let go = [string("disk"), vec![0, 0]].concat();
    connection.receive(&[option(8, b""), option(10, &context), option(7, &go)].concat()).unwrap();
    assert_eq!(connection.poll(), Some(Event::Opened(0)));
    taken(&mut connection);
    connection
}

fn next(connection: &mut Connection) -> Request {
    match connection.poll() {
        Some(Event::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_get_the_list_and_the_properties_of_an_export() {
    let mut connection = greeted(Tls::Off);
    connection.receive(&option(3, b"")).unwrap();
    let listed = replies(&taken(&mut connection));
    let names: Vec<_> = listed.iter().map(|(_, kind, data)| (*kind, data.clone())).collect();
    assert_eq!(
        names,
        [(2, string("disk")), (2, [string("plain"), b"for reading".to_vec()].concat()), (1, vec![])]
    );
    connection.receive(&option(6, &[string("plain"), vec![0, 2, 0, 1, 0, 2]].concat())).unwrap();
    let reported: Vec<_> = replies(&taken(&mut connection)).into_iter().map(|(_, _, data)| data).collect();
    assert_eq!(reported[0], [&[0, 0][..], &1000u64.to_be_bytes(), &[0, 3]].concat());
    assert_eq!(reported[1], [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    assert_eq!((&reported[2][2..], &reported[3][2..]), (&b"plain"[..], &b"for reading"[..]));
    assert_eq!(connection.export(), None, "INFO opens nothing");
}

#[test]
fn an_invalid_request_is_refused_and_the_client_goes_on() {
    let mut connection = greeted(Tls::Off);
    let set = |query: &str| option(10, &[string("disk"), vec![0, 0, 0, 1], string(query)].concat());
    assert_eq!(kinds(&mut connection, &option(99, b"?")), [1], "unknown");
    assert_eq!(kinds(&mut connection, &option(3, b"?")), [3], "a list of what?");
    assert_eq!(kinds(&mut connection, &option(5, b"")), [2], "no TLS here");
    assert_eq!(kinds(&mut connection, &option(7, &[string("nothing"), vec![0, 0]].concat())), [6]);
    assert_eq!(kinds(&mut connection, &option(7, &[0, 0, 0, 99, b'd'])), [3]);
    assert_eq!(kinds(&mut connection, &option(7, &[string("disk"), vec![0, 1]].concat())), [3]);
    assert_eq!(
        kinds(&mut connection, &option(7, &[&[0, 0, 0, 1][..], &[0xFF, 0, 0]].concat())),
        [3],
        "UTF-8"
    );
    assert_eq!(kinds(&mut connection, &set("base:allocation")), [3], "not without structured replies");
    assert_eq!(kinds(&mut connection, &option(8, b"")), [1]);
    assert_eq!(kinds(&mut connection, &set("base:allocation")), [4, 1]);
    assert_eq!(kinds(&mut connection, &set("qemu:dirty-bitmap")), [1]);
    assert_eq!(kinds(&mut connection, &option(9, &[string("disk"), vec![0; 4]].concat())), [4, 1]);
    assert_eq!(kinds(&mut connection, &option(7, &[0; 20_000])), [9], "passed over");
    assert_eq!(kinds(&mut connection, &option(2, b"")), [1]);
    assert_eq!(connection.poll(), Some(Event::Ended));
    connection.receive(b"anything").unwrap();
    assert_eq!(connection.poll(), None);
}

#[test]
fn while_exports_are_closed_clients_get_the_reason_and_open_ones_stay() {
    const POLICY: u32 = 1 << 31 | 2;
    let mut connection = greeted(Tls::Off);
    connection.set_closed(Some("a restore".into()));
    let go = option(7, &[string("disk"), vec![0, 0]].concat());
    connection.receive(&go).unwrap();
    assert_eq!(replies(&taken(&mut connection)), [(7, POLICY, b"a restore".to_vec())]);
    assert!(!connection.is_open());
    // A client that chooses by EXPORT_NAME cannot get the reason.
    let mut old = connection.clone();
    let error = old.receive(&option(1, b"disk")).unwrap_err().to_string();
    assert!(error.contains("no client is accepted now"), "{error}");
    connection.set_closed(None);
    connection.receive(&go).unwrap();
    connection.set_closed(Some("a restore".into()));
    assert!(connection.is_open());
    connection.receive(&request(0, 0, 1, 0, 512)).unwrap();
    assert!(matches!(connection.poll(), Some(Event::Opened(_))));
    assert!(matches!(connection.poll(), Some(Event::Request(_))));
}

#[test]
fn a_violation_says_why() {
    let fails = |bytes: &[u8]| greeted(Tls::Off).receive(bytes).unwrap_err();
    assert!(matches!(fails(b"GET / HTTP/1.1\r\n\r\n"), Violation::Magic { what: "an option", .. }));
    assert!(matches!(fails(&option(1, b"nothing")), Violation::ExportName { .. }));
    let mut long = option(7, b"");
    long[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(matches!(fails(&long), Violation::LongOption { option: 7, .. }));
    long[8..12].copy_from_slice(&1u32.to_be_bytes());
    long[12..].copy_from_slice(&20_000u32.to_be_bytes());
    assert!(matches!(fails(&long), Violation::LongOption { option: 1, .. }));
    assert!(matches!(fails(&option(99, b"").repeat(1001)), Violation::TooManyOptions { most: 1000 }));
    let mut connection = Connection::new(exports(), Tls::Off, Limits::default());
    assert!(matches!(connection.receive(&[0, 0, 0, 4]), Err(Violation::ClientFlags { flags: 4 })));
    let garbage = open().receive(&[7; 28]).unwrap_err();
    assert!(garbage.to_string().contains("a request must begin with 0x25609513"), "{garbage}");
}

#[test]
fn before_tls_clients_learn_nothing_and_agreements_are_void() {
    let mut connection = greeted(Tls::Required);
    assert_eq!(kinds(&mut connection, &option(3, b"")), [5]);
    assert_eq!(kinds(&mut connection, &option(7, &[string("disk"), vec![0, 0]].concat())), [5]);
    assert!(matches!(greeted(Tls::Required).receive(&option(1, b"disk")), Err(Violation::ExportName { .. })));
    assert_eq!(kinds(&mut connection, &option(5, b"")), [1]);
    assert_eq!(connection.poll(), Some(Event::StartTls));
    assert!(matches!(connection.clone().receive(b"x"), Err(Violation::BeforeTls { bytes: 1 })));
    let at_once = [option(5, b""), option(3, b"")].concat();
    assert!(matches!(greeted(Tls::Offered).receive(&at_once), Err(Violation::BeforeTls { .. })));
    connection.tls_started();
    assert!(connection.is_encrypted());
    assert_eq!(kinds(&mut connection, &option(5, b"")), [3], "twice");
    assert_eq!(kinds(&mut connection, &option(3, b"")), [2, 2, 1]);

    // Structured replies that were agreed on without encryption are void.
    let mut connection = greeted(Tls::Offered);
    assert_eq!(kinds(&mut connection, &[option(8, b""), option(5, b"")].concat()), [1, 1]);
    connection.tls_started();
    assert_eq!(kinds(&mut connection, &option(10, &[string("disk"), vec![0; 4]].concat())), [3]);
}

#[test]
fn requests_that_make_no_sense_are_answered_without_an_event() {
    let mut connection = open();
    let mut errno = |bytes: Vec<u8>| {
        connection.receive(&bytes).unwrap();
        assert_eq!(connection.poll(), None);
        let output = taken(&mut connection);
        assert_eq!(output[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1]);
        u32::from_be_bytes(output[20..24].try_into().unwrap())
    };
    let write = |offset, length: u32| [request(0, 1, 1, offset, length), vec![0; length as usize]].concat();
    assert_eq!(errno(request(0, 0, 1, 0, 0)), 22, "nothing");
    assert_eq!(errno(request(0, 0, 1, 1, 512)), 22, "not aligned");
    assert_eq!(errno(request(0, 0, 1, 1 << 20, 512)), 22, "past the end");
    assert_eq!(errno(request(0, 0, 1, u64::MAX - 511, 512)), 22, "past everything");
    assert_eq!(errno(write(1 << 20, 512)), 28, "past the end");
    assert_eq!(errno(write(0, 511)), 22, "not aligned");
    assert_eq!(errno(request(0, 3, 1, 512, 512)), 22, "a flush of a part");
    assert_eq!(errno(request(0, 9, 1, 0, 512)), 22, "unknown");
    assert_eq!(errno(request(1 << 3, 0, 1, 0, 512)), 22, "a flag of another command");
    assert_eq!(errno(request(1 << 7, 0, 1, 0, 512)), 22, "an unknown flag");
    // A refused request is skipped, and the request after it is parsed.
    connection.receive(&request(1, 0, 2, 512, 1024)).unwrap();
    let next = next(&mut connection);
    assert_eq!((next.command, next.fua, next.offset, next.length), (Command::Read, true, 512, 1024));

    let mut plain = greeted(Tls::Off);
    plain.receive(&option(1, b"plain")).unwrap();
    assert_eq!(plain.poll(), Some(Event::Opened(1)));
    taken(&mut plain);
    plain.receive(&[write(0, 1), request(0, 3, 1, 0, 0), request(0, 7, 1, 0, 4)].concat()).unwrap();
    let output = taken(&mut plain);
    let errnos: Vec<u8> = output.chunks(16).map(|reply| reply[7]).collect();
    assert_eq!(errnos, [1, 22, 22], "read-only, no flush, no contexts");
}

#[test]
fn answers_are_as_the_protocol_has_them() {
    let mut connection = open();
    connection.receive(&[request(4, 0, 7, 512, 512), request(8, 7, 8, 0, 1024)].concat()).unwrap();
    let (read, status) = (next(&mut connection), next(&mut connection));
    // The status is answered before the read, which arrived first.
    let extents = [(512, true), (256, true), (10_000, false)];
    let extents = extents.map(|(length, hole)| Extent { length, hole, zero: hole });
    connection.reply(&status, &Reply::Status(&extents)).unwrap();
    let expected = [
        &b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x08\0\0\0\x0c\0\0\0\x01"[..],
        &[0, 0, 3, 0, 0, 0, 0, 3],
    ];
    assert_eq!(taken(&mut connection), expected.concat(), "put together, and one");
    connection.receive(&request(0, 7, 9, 0, 1024)).unwrap();
    let all = next(&mut connection);
    connection.reply(&all, &Reply::Status(&extents)).unwrap();
    let expected = [
        &b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x09\0\0\0\x14\0\0\0\x01"[..],
        &[0, 0, 3, 0, 0, 0, 0, 3, 0, 0, 1, 0, 0, 0, 0, 0],
    ];
    assert_eq!(taken(&mut connection), expected.concat(), "the last one ends where the request does");
    connection.reply(&read, &Reply::Data(&[9; 512])).unwrap();
    let expected = [
        &b"\x66\x8e\x33\xef\0\x01\0\x01\0\0\0\0\0\0\0\x07\0\0\x02\x08"[..],
        &512u64.to_be_bytes(),
        &[9; 512],
    ];
    assert_eq!(taken(&mut connection), expected.concat());

    let failed = |connection: &mut Connection, reply: &Reply<'_>| {
        connection.receive(&request(0, 0, 1, 0, 512)).unwrap();
        let read = next(connection);
        connection.reply(&read, reply).unwrap();
        taken(connection)
    };
    let bad = Reply::Failed { errno: Errno::Io, offset: Some(300), message: "bad sector" };
    let expected = [
        &b"\x66\x8e\x33\xef\0\x01\x80\x02\0\0\0\0\0\0\0\x01\0\0\0\x18\0\0\0\x05\0\x0abad sector"[..],
        &300u64.to_be_bytes(),
    ];
    assert_eq!(failed(&mut connection, &bad), expected.concat());
    for wrong in [Reply::Done, Reply::Data(&[0; 511]), Reply::Status(&extents)] {
        assert_eq!(failed(&mut connection, &wrong)[20..24], [0, 0, 0, 5], "{wrong:?}");
    }
    let long = "ä".repeat(3000);
    let cut = Reply::Failed { errno: Errno::Io, offset: None, message: &long };
    assert_eq!(failed(&mut connection, &cut).len(), 20 + 6 + 4096);
}

#[test]
fn a_client_gets_the_map_of_each_context_that_it_has_chosen() {
    let reply = |contexts: &[&str]| {
        let disk = Export::new("disk", 1 << 20).unwrap().with(Abilities { memory_status: true, ..ALL });
        let mut connection = Connection::new([disk].into(), Tls::Off, Limits::default());
        let queries: Vec<u8> = contexts.iter().flat_map(|context| string(context)).collect();
        let count = (contexts.len() as u32).to_be_bytes();
        let list = option(9, &[string("disk"), vec![0; 4]].concat());
        let set = option(10, &[&string("disk")[..], &count, &queries].concat());
        let go = option(7, &[string("disk"), vec![0, 0]].concat());
        connection.receive(&[vec![0, 0, 0, 3], option(8, b""), list].concat()).unwrap();
        let listed = taken(&mut connection);
        for name in ["base:allocation", "freeblock:memory"] {
            assert!(listed.windows(name.len()).any(|part| part == name.as_bytes()), "{name} is not listed");
        }
        connection.receive(&[set, go, request(0, 7, 8, 0, 1024)].concat()).unwrap();
        assert_eq!(connection.poll(), Some(Event::Opened(0)));
        taken(&mut connection);
        let status = next(&mut connection);
        let allocation = [Extent { length: 1024, hole: true, zero: true }];
        let memory = [(512, true), (512, false)];
        let memory = memory.map(|(length, in_memory)| MemoryExtent { length, in_memory });
        connection.reply(&status, &Reply::Maps { allocation: &allocation, memory: &memory }).unwrap();
        taken(&mut connection)
    };
    let chunk = |last: u8, context: u8, extents: &[[u32; 2]]| {
        let header = [0x66, 0x8e, 0x33, 0xef, 0, last, 0, 5, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0];
        let length = [4 + 8 * extents.len() as u8, 0, 0, 0, context];
        let extents = extents.iter().flatten().flat_map(|number| number.to_be_bytes());
        header.into_iter().chain(length).chain(extents).collect::<Vec<u8>>()
    };
    let (allocation, memory) = ([[1024, 3]], [[512, 1], [512, 0]]);
    let both = reply(&["base:allocation", "freeblock:memory"]);
    assert_eq!(both, [chunk(0, 1, &allocation), chunk(1, 2, &memory)].concat());
    assert_eq!(reply(&["freeblock:memory"]), chunk(1, 2, &memory));
    assert_eq!(reply(&["base:allocation", "freeblock:", "other:memory"]), chunk(1, 1, &allocation));
}

#[test]
fn a_read_of_the_maximum_block_size_is_carried_out_and_a_longer_one_is_refused() {
    let sizes = BlockSizes { maximum: 8192, ..BlockSizes::sectors(512) };
    let disk = Export::new("disk", 1 << 20).unwrap().with(ALL).blocks(sizes).unwrap();
    let mut connection = Connection::new([disk].into(), Tls::Off, Limits::default());
    let go = option(7, &[string("disk"), vec![0, 0]].concat());
    connection.receive(&[vec![0, 0, 0, 3], go].concat()).unwrap();
    assert_eq!(connection.poll(), Some(Event::Opened(0)));
    taken(&mut connection);
    connection.receive(&request(0, 0, 1, 0, 8192)).unwrap();
    assert_eq!(next(&mut connection).length, 8192);
    connection.receive(&request(0, 0, 2, 0, 8192 + 512)).unwrap();
    assert_eq!(connection.poll(), None);
    let refused = [&0x6744_6698u32.to_be_bytes()[..], &22u32.to_be_bytes(), &2u64.to_be_bytes()].concat();
    assert_eq!(taken(&mut connection), refused, "invalid");
}

#[test]
fn a_client_fills_no_more_than_its_share() {
    let limits = Limits { requests: 3, bytes: 2048, options: 10 };
    let mut connection = Connection::new(exports(), Tls::Off, limits);
    connection.receive(&[0, 0, 0, 3]).unwrap();
    connection.receive(&option(1, b"disk")).unwrap();
    connection.poll();
    taken(&mut connection);
    let reads: Vec<u8> = (0..6).flat_map(|cookie| request(0, 0, cookie, 0, 512)).collect();
    connection.receive(&reads).unwrap();
    assert!(!connection.is_ready());
    let first = next(&mut connection);
    let (_, _, none) = (next(&mut connection), next(&mut connection), connection.poll());
    assert_eq!((connection.outstanding(), none), (3, None), "the others wait");
    connection.reply(&first, &Reply::Data(&[0; 512])).unwrap();
    assert_eq!(connection.poll(), None, "the answer is held until its last byte is sent");
    let answer = connection.output().len();
    connection.sent(answer - 1).unwrap();
    assert_eq!(next(&mut connection).offset, 0, "one byte more than the answer was the share");
    assert_eq!(connection.poll(), None);

    // A host may take the bytes out of a write: the answer releases its room nevertheless.
    let mut writing = open();
    writing.receive(&[request(0, 1, 1, 0, 1024), vec![7; 1024]].concat()).unwrap();
    let mut write = next(&mut writing);
    assert_eq!((std::mem::take(&mut write.data), writing.memory()), (vec![7; 1024], 1024));
    writing.reply(&write, &Reply::Done).unwrap();
    taken(&mut writing);
    assert_eq!(writing.memory(), 0);

    // A larger request is split into pieces, and no further piece is given while an answer is unread.
    let mut connection = Connection::new(exports(), Tls::Off, limits);
    connection
        .receive(&[vec![0, 0, 0, 3], option(1, b"disk"), request(0, 0, 1, 0, 1 << 20)].concat())
        .unwrap();
    connection.poll();
    taken(&mut connection);
    let mut pieces = 0;
    while pieces < 1 << 20 {
        let piece = next(&mut connection);
        assert_eq!((piece.offset, piece.length, connection.poll()), (pieces, 4096, None));
        connection.reply(&piece, &Reply::Data(&[0; 4096])).unwrap();
        assert_eq!((connection.poll(), connection.is_ready()), (None, false), "the answer is not taken");
        pieces += 4096;
        taken(&mut connection);
    }
    assert!(connection.is_ready());
}

/// Bytes that a host has taken and not sent count as held.
#[test]
fn a_share_comes_back_when_the_last_byte_of_the_answer_was_sent() {
    let limits = Limits { requests: 100, bytes: 1 << 20, options: 10 };
    let mut connection = Connection::new(exports(), Tls::Off, limits);
    connection.receive(&[vec![0, 0, 0, 3], option(1, b"disk")].concat()).unwrap();
    connection.poll();
    taken(&mut connection);
    let reads: Vec<u8> = (0..9).flat_map(|cookie| request(0, 0, cookie, 0, 512 << 10)).collect();
    connection.receive(&reads).unwrap();
    let (one, two) = (next(&mut connection), next(&mut connection));
    assert_eq!((connection.poll(), connection.memory() - 7 * 28), (None, 1 << 20));
    for request in [one, two] {
        connection.reply_data(&request, vec![5; 512 << 10]).unwrap();
        assert_eq!(connection.poll(), None);
    }
    let mut away = Vec::new();
    while !connection.output().is_empty() {
        away.push(connection.take_output());
    }
    assert_eq!(connection.poll(), None, "taken is not sent");
    assert!(connection.memory() >= 1 << 20 && !connection.is_ready());
    let all: Vec<u8> = away.concat();
    assert_eq!(all.len(), 2 * (16 + (512 << 10)));
    let mut admitted = 0;
    for (sent, _) in all.iter().enumerate() {
        connection.sent(1).unwrap();
        if connection.poll().is_some() {
            admitted += 1;
            assert!(2 * (16 + (512 << 10)) - sent - 1 + admitted * (512 << 10) <= 1 << 20);
        }
    }
    assert_eq!(admitted, 2);
}

#[test]
fn after_a_violation_nothing_more_is_understood() {
    let mut connection = open();
    let read = request(0, 0, 1, 0, 512);
    assert!(connection.receive(&[read.clone(), vec![7; 28], read.clone()].concat()).is_err());
    assert!(matches!(connection.poll(), Some(Event::Request(_))), "the request before the error stands");
    connection.receive(&read).unwrap();
    assert_eq!((connection.poll(), connection.is_ready(), connection.is_waiting()), (None, false, false));
}

#[test]
fn a_request_beyond_the_reserve_waits_for_a_grant_and_nothing_is_lost() {
    let mut connection = open();
    connection.reserve(0);
    let reads: Vec<u8> = (0..3).flat_map(|cookie| request(0, 0, cookie, cookie * 512, 512)).collect();
    connection.receive(&reads).unwrap();
    assert_eq!((connection.poll(), connection.is_ready(), connection.is_waiting()), (None, false, true));
    assert_eq!((connection.memory(), connection.wanted()), (reads.len(), Some(512)));
    for cookie in 0..3 {
        connection.grant().unwrap();
        assert_eq!(next(&mut connection).offset, cookie * 512);
        assert_eq!(connection.poll(), None, "one at a time");
    }
    assert_eq!((connection.memory(), connection.is_waiting(), connection.wanted()), (3 * 512, false, None));
    // Within the reserve, and in the handshake, no grant is needed.
    let mut choosing = greeted(Tls::Off);
    choosing.reserve(1023);
    choosing.receive(&[option(7, &[string("disk"), vec![0, 0]].concat()), reads.clone()].concat()).unwrap();
    assert!(choosing.is_open());
    assert_eq!(choosing.poll(), Some(Event::Opened(0)));
    let all = choosing.take_output();
    assert!(!all.is_empty() && choosing.output().is_empty());
    assert!(choosing.wanted().is_some(), "the greeting is not sent yet");
    choosing.sent(all.len()).unwrap();
    next(&mut choosing);
    assert_eq!((choosing.poll(), choosing.wanted()), (None, Some(512)));
}

/// Generates valid and invalid messages of a client.
fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let data = prop::collection::vec(any::<u8>(), 0..40);
    let names = prop_oneof![Just("disk"), Just("plain"), Just("")];
    let message = prop_oneof![
        4 => (0..12u32, data.clone()).prop_map(|(number, data)| option(number, &data)),
        4 => (1..12u32, names.clone(), data.clone())
            .prop_map(|(number, name, data)| option(number, &[string(name), data].concat())),
        2 => (6..8u32, names.clone()).prop_map(|(number, name)| option(number, &[string(name), vec![0, 0]].concat())),
        2 => Just(option(8, b"")),
        2 => names.prop_map(|name| {
            option(10, &[string(name), vec![0, 0, 0, 1], string("base:allocation")].concat())
        }),
        8 => (0..32u16, 0..9u16, any::<u64>(), 0..2100u64, 0..2100u32).prop_map(|(flags, kind, cookie, offset, length)| {
            let (offset, length) = (offset * 512, length * 512 / 64);
            let payload = if kind == 1 { vec![kind as u8; length as usize] } else { vec![] };
            [request(flags, kind, cookie, offset, length), payload].concat()
        }),
        1 => data,
    ];
    prop::collection::vec(message, 0..30)
}

/// Sends `bytes` cut at `cuts`; returns all events, all output, and the violation if there was one.
fn talk(bytes: &[u8], cuts: &[usize], answer_late: bool) -> (Vec<Event>, Vec<u8>, Option<Violation>) {
    let mut connection = greeted(Tls::Off);
    let (mut events, mut sent, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
    let mut cuts: Vec<usize> =
        cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    cuts.sort_unstable();
    for part in cuts.windows(2).map(|ends| &bytes[ends[0]..ends[1]]) {
        let received = connection.receive(part);
        while let Some(event) = connection.poll() {
            if let Event::Request(request) = &event {
                waiting.push(request.clone());
            }
            events.push(event);
        }
        if let Err(violation) = received {
            return (events, sent, Some(violation));
        }
        while !answer_late && let Some(request) = waiting.pop() {
            let data = vec![1; request.length as usize];
            let status = [Extent { length: request.length, hole: false, zero: false }];
            let reply = match request.command {
                Command::Read => Reply::Data(&data),
                Command::BlockStatus { .. } => Reply::Status(&status),
                _ => Reply::Done,
            };
            connection.reply(&request, &reply).unwrap();
        }
        sent.extend(taken(&mut connection));
    }
    (events, sent, None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// The way in which the bytes are cut between messages, or within them, must not matter.
    #[test]
    fn answers_do_not_depend_on_how_bytes_are_divided(
        messages in messages(), cuts in prop::collection::vec(any::<usize>(), 0..60),
    ) {
        let bytes = messages.concat();
        let (whole, parts) = (talk(&bytes, &[], true), talk(&bytes, &cuts, true));
        prop_assert_eq!(&whole.0, &parts.0);
        prop_assert_eq!(&whole.2, &parts.2);
        if whole.2.is_none() {
            prop_assert_eq!(whole.1, parts.1);
        }
        talk(&bytes, &cuts, false);
    }

    /// A client may send any bytes.
    #[test]
    fn nothing_that_is_sent_breaks_the_connection(bytes in prop::collection::vec(any::<u8>(), 0..300), go in any::<bool>()) {
        let mut connection = if go { open() } else { greeted(Tls::Offered) };
        let _ = connection.receive(&bytes);
        let sent = connection.output().len();
        prop_assert!(sent < 10_000);
    }

    /// Every request lies within the export, and a write has the bytes that were sent.
    #[test]
    fn requests_are_parts_of_the_export(messages in messages()) {
        let bytes: Vec<u8> = [option(8, b""), option(7, &[string("disk"), vec![0, 0]].concat())]
            .into_iter()
            .chain(messages.into_iter().filter(|message| message.starts_with(&0x2560_9513u32.to_be_bytes())))
            .flatten()
            .collect();
        let (events, _, violation) = talk(&bytes, &[], false);
        prop_assert_eq!(violation, None);
        for event in events {
            let Event::Request(request) = event else { continue };
            prop_assert!(request.offset + u64::from(request.length) <= 1 << 20);
            prop_assert!(request.offset % 512 == 0 && request.length % 512 == 0);
            prop_assert_eq!(request.length == 0, request.command == Command::Flush);
            let payload = if request.command == Command::Write { request.length } else { 0 };
            prop_assert_eq!(request.data.len(), payload as usize);
            prop_assert!(request.data.iter().all(|byte| *byte == 1));
        }
    }
}
