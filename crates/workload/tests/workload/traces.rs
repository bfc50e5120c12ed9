//! Traces measured on real drives, if they are available, and properties of every reader.

use freeblock_workload::trace::{self, Notes, Trace, TraceError, TraceFormat, TraceRecord, ascii, validate};
use freeblock_workload::{Arrival, Closed, Fit, Issuer, Replay, Think};
use proptest::prelude::*;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// Returns the bytes of a shared trace; `None`, with a message, if the file does not exist.
fn shared(name: &str) -> Option<Vec<u8>> {
    testing::shared(&format!("drives/traces/{name}")).map(|path| std::fs::read(path).unwrap())
}

fn mean_ms(records: &[TraceRecord], of: impl Fn(&TraceRecord) -> Option<Duration>) -> f64 {
    records.iter().filter_map(of).sum::<Duration>().as_millis_f64() / records.len() as f64
}

/// Returns the small file of a public format; `None` if `../shared` is not there.
fn case(name: &str) -> Option<Vec<u8>> {
    testing::shared(&format!("cases/{name}")).map(|path| std::fs::read(path).unwrap())
}

#[test]
fn every_public_format_gives_the_same_two_hundred_requests() {
    let Some(reference) = case("disksim-ascii.trace") else { return };
    let reference = trace::read(&reference).unwrap().records;
    assert_eq!(reference.len(), 200);
    // The format, and the resolution of its times in nanoseconds; 0 if it has none.
    for (name, format, resolution) in [
        ("alibaba.csv", TraceFormat::Alibaba, 1_000),
        ("biosnoop.txt", TraceFormat::Biosnoop, 1_000),
        ("blkparse.txt", TraceFormat::Blkparse, 1),
        ("cloudphysics.csv", TraceFormat::CloudPhysics, 1_000),
        ("disksim-validate.trace", TraceFormat::Validate, 0),
        ("fio2.log", TraceFormat::Fio, 0),
        ("fio3.log", TraceFormat::Fio, 1_000),
        ("fiu.blkparse", TraceFormat::Fiu, 1),
        ("mqsim.trace", TraceFormat::MqSim, 1),
        ("msr.csv", TraceFormat::Msr, 100),
        ("msr-crlf.csv", TraceFormat::Msr, 100),
        ("msr-header.csv", TraceFormat::Msr, 100),
        ("oracleGeneral.bin", TraceFormat::OracleGeneral, 1_000_000_000),
        ("spc.spc", TraceFormat::Spc, 1_000),
        ("systor-semicolon.csv", TraceFormat::Msr, 100),
        ("systor17.csv", TraceFormat::Systor17, 1),
    ] {
        let Some(bytes) = case(name) else { continue };
        let trace = trace::read(&bytes).unwrap();
        assert_eq!((trace.format, trace.records.len()), (format, 200), "{name}");
        let (first, zero) = (trace.records[0].arrival, reference[0].arrival.unwrap());
        for (found, expected) in trace.records.iter().zip(&reference) {
            assert_eq!(found.range, expected.range, "{name}");
            // oracleGeneral has no direction.
            assert!(found.op == expected.op || format == TraceFormat::OracleGeneral, "{name}: {found:?}");
            let Some(arrival) = found.arrival.filter(|_| resolution > 0) else { continue };
            let [since, wanted] = [arrival.since(first.unwrap()), expected.arrival.unwrap().since(zero)];
            let off = since.as_nanos().abs_diff(wanted.as_nanos());
            assert!(off <= 2 * resolution + 1_000, "{name}: {off} ns off");
        }
    }
}

#[test]
fn a_slow_source_gives_what_a_fast_one_does() {
    struct Trickle<'a>(&'a [u8]);
    impl std::io::Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let some = into.len().min(7);
            self.0.read(&mut into[..some])
        }
    }
    for name in ["msr.csv", "blkparse.txt", "oracleGeneral.bin", "fio3.log"] {
        let Some(bytes) = case(name) else { continue };
        let slow = trace::read_with(&trace::Options::default(), Trickle(&bytes)).unwrap();
        assert_eq!(slow, trace::read(&bytes).unwrap(), "{name}");
    }
}

#[test]
fn fio_wait_records_are_milliseconds_since_the_start_of_the_job() {
    let Some(bytes) = case("fio-v2-wait-ms.log") else { return };
    let records = trace::read(&bytes).unwrap().records;
    let arrivals: Vec<u64> = records.iter().map(|r| r.arrival.unwrap().as_nanos() / 1_000_000).collect();
    assert_eq!(arrivals, [500, 700, 3_000]);
}

#[test]
fn the_measured_validate_traces_are_read_whole() {
    // The requests, and the measured mean service time in ms (disksim-semantics.md, section 5.1).
    for (name, requests, service) in [
        ("atlas10k.trace", 10_000, 3.893),
        ("cheetah9LP.trace", 10_000, 4.273),
        ("hp_c2247a.trace", 9_999, 15.298),
    ] {
        let Some(bytes) = shared(name) else { continue };
        let Trace { format, records, notes } = trace::read(&bytes).unwrap();
        assert_eq!((format, records.len(), notes), (TraceFormat::Validate, requests, Notes::default()));
        let mean = mean_ms(&records, |r| r.service);
        assert!((mean - service).abs() < 0.0006, "{name}: {mean}");
        assert!(records.iter().all(|r| r.think.is_some() && r.arrival.is_none()));
    }
}

#[test]
fn a_measured_trace_replays_with_its_own_thinks() {
    let Some(bytes) = shared("atlas10k.trace") else { return };
    let records = trace::read(&bytes).unwrap().records;
    let thinks: Duration = records[..records.len() - 1].iter().filter_map(|r| r.think).sum();
    let replay = Replay::new(records, Sectors::new(17_938_986), Fit::Refuse).unwrap();
    let arrival = Arrival::Closed(Closed { tasks: 1, think: Think::Recorded });
    let mut issuer = Issuer::new(replay, arrival, Instant::ZERO, 1).unwrap();
    let mut now = Instant::ZERO;
    while let Some(due) = issuer.due() {
        now = due;
        let issued = issuer.issue(now).unwrap();
        issuer.complete(issued.task, now);
    }
    assert_eq!(now.since(Instant::ZERO), thinks);
}

#[test]
fn the_hp_week_is_read_whole_and_replays_at_its_times() {
    let Some(bytes) = shared("ajw.1week.srt") else { return };
    let mut week = trace::read(&bytes).unwrap();
    assert_eq!((week.format, week.records.len(), week.notes), (TraceFormat::HpSrt, 44_519, Notes::default()));
    let reads = week.records.iter().filter(|r| r.op == Op::Read).count();
    assert_eq!(reads, 11_592 + 1_448);
    assert_eq!(week.devices().values().copied().collect::<Vec<_>>(), [2, 40_293, 1_055, 902, 2_267]);
    assert_eq!(week.busiest_device(), Some(134_217_736));
    assert_eq!(week.records[0].range.to_string(), "528+8");
    assert_eq!(week.records[0].service, Some(Duration::from_micros(19_687 - 174)));
    assert_eq!(week.records.last().unwrap().arrival, Some(Instant::from_nanos(603_064_588_892_000)));

    week.retain_device(134_217_736);
    let first = week.records[0].arrival.unwrap();
    let last = week.records.last().unwrap().arrival.unwrap();
    let replay = Replay::new(week.records, Sectors::new(654_056), Fit::Refuse).unwrap();
    let mut issuer = Issuer::new(replay, Arrival::Recorded { scale: 1.0 }, Instant::ZERO, 1).unwrap();
    let all: Vec<_> = std::iter::from_fn(|| issuer.issue(Instant::MAX)).collect();
    assert_eq!((all.len(), all[0].at), (40_293, Instant::ZERO));
    assert_eq!(all.last().unwrap().at.since(Instant::ZERO), last.since(first));
}

#[test]
fn a_trace_without_requests_is_an_error_in_every_format() {
    for format in TraceFormat::ALL.into_iter().filter(|format| *format != TraceFormat::Csv) {
        let bytes: &[u8] = match format {
            TraceFormat::OracleGeneral | TraceFormat::Vscsi | TraceFormat::Blktrace => b"",
            TraceFormat::HpSrt => b"$$TR_IOREC\x0c",
            TraceFormat::Fio => b"fio version 2 iolog\n/dev/a add\n",
            _ => b"# nothing\n\n",
        };
        let error = trace::read_as(format, bytes).unwrap_err();
        assert!(matches!(error, TraceError::Empty { .. }), "{format}: {error}");
    }
    assert!(matches!(trace::read(b""), Err(TraceError::Empty { .. })));
}

#[test]
fn the_first_of_equally_busy_devices_is_taken() {
    let mut busy = trace::read(b"0 7 1 1 1\n1 3 1 1 1\n2 3 1 1 1\n3 7 1 1 0\n").unwrap();
    assert_eq!(busy.busiest_device(), Some(3));
    busy.retain_device(7);
    assert_eq!(busy.records.len(), 2);
}

#[test]
fn a_trace_is_converted_to_larger_sectors() {
    let mut trace = trace::read(b"R Hit 8 8 0 0\nR Hit 15 2 0 0\n").unwrap();
    trace.convert_to(Bytes::new(512)).unwrap();
    assert_eq!((trace.records[1].range.to_string().as_str(), trace.notes.widened), ("15+2", 0));
    trace.convert_to(Bytes::new(4096)).unwrap();
    let ranges: Vec<_> = trace.records.iter().map(|r| r.range.to_string()).collect();
    assert_eq!((ranges.join(" ").as_str(), trace.notes.widened), ("1+1 1+2", 1));
    for wrong in [0, 256, 520] {
        assert!(trace.convert_to(Bytes::new(wrong)).unwrap_err().to_string().starts_with("sector is "));
    }
}

fn any_record() -> impl Strategy<Value = TraceRecord> {
    let times = (any::<u64>(), any::<u64>(), any::<u64>());
    (any::<bool>(), any::<u64>(), any::<u64>(), any::<u32>(), times).prop_map(
        |(read, start, len, device, (arrival, service, think))| {
            let len = len.min(u64::MAX - start).max(1);
            let range = LbnRange::new(Lbn::new(start.min(u64::MAX - 1)), Sectors::new(len));
            TraceRecord {
                arrival: Some(Instant::from_nanos(arrival)),
                device,
                service: Some(Duration::from_nanos(service)),
                think: Some(Duration::from_nanos(think)),
                ..TraceRecord::new(if read { Op::Read } else { Op::Write }, range)
            }
        },
    )
}

/// Generates bytes similar enough to a trace to pass the first checks.
fn almost_a_trace() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "R",
        "W",
        "Read",
        "Write",
        "Hit",
        "0",
        "1",
        "8",
        "512",
        "-1",
        "0x1",
        "1.5",
        "1e9",
        "nan",
        ",",
        ",,",
        "\n",
        "\r\n",
        " ",
        "\t",
        "#",
        "\0",
        "é",
        "18446744073709551615",
        "36028797018963968",
        "99999999999999999999",
        "wait",
        "sync",
        "add",
        "fio version 2 iolog\n",
        "fio version 3 iolog\n",
        "\u{feff}",
        "\u{2003}",
    ]);
    let text = prop::collection::vec(word, 0..60).prop_map(|words| words.join(" ").into_bytes());
    let commas =
        text.clone().prop_map(|text| text.iter().map(|&b| if b == b' ' { b',' } else { b }).collect());
    let words =
        prop::collection::vec(prop_oneof![Just(56u32), Just(52), Just(0x4_0001), any::<u32>()], 0..60);
    let binary = words.prop_map(|words| {
        let words = words.into_iter().flat_map(u32::to_be_bytes);
        b"$$TR_IOREC sectorsize = 512\x0c".iter().copied().chain(words).collect()
    });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..300), text, commas, binary]
}

proptest! {
    #[test]
    fn no_bytes_panic_any_reader(bytes in almost_a_trace()) {
        let _ = trace::read(&bytes);
        for format in TraceFormat::ALL {
            if let Ok(trace) = trace::read_as(format, &bytes) {
                prop_assert!(!trace.records.is_empty());
                for record in &trace.records {
                    prop_assert!(!record.range.is_empty() && record.range.checked_end().is_some());
                }
                let _ = Replay::new(trace.records, Sectors::new(1 << 20), Fit::Wrap);
            }
        }
    }

    #[test]
    fn validate_traces_come_back(records in prop::collection::vec(any_record(), 1..20)) {
        let records: Vec<_> = records.into_iter().map(|r| TraceRecord { arrival: None, device: 0, ..r }).collect();
        let mut text = String::new();
        validate::write(&records, &mut text).unwrap();
        let trace = trace::read(text.as_bytes()).unwrap();
        prop_assert_eq!((trace.format, trace.records), (TraceFormat::Validate, records));
    }

    #[test]
    fn ascii_traces_come_back(records in prop::collection::vec(any_record(), 1..20)) {
        let records: Vec<_> = records.into_iter().map(|r| TraceRecord { service: None, think: None, ..r }).collect();
        let mut text = String::new();
        ascii::write(&records, &mut text).unwrap();
        let trace = trace::read(text.as_bytes()).unwrap();
        prop_assert_eq!((trace.format, trace.records), (TraceFormat::Ascii, records));
    }

    #[test]
    fn text_line_ends_do_not_matter(records in prop::collection::vec(any_record(), 1..5)) {
        let mut text = String::new();
        validate::write(&records, &mut text).unwrap();
        let crlf = text.replace('\n', "\r\n# comment\r\n\r\n");
        prop_assert_eq!(trace::read(text.as_bytes()), trace::read(crlf.trim_end().as_bytes()));
    }
}
