//! Readers of text that people write: profiles, parameter files, traces, configurations, tasks, names.

use model::{DriveModel, Profile, disksim};
use scheduler::policy::PolicyName;
use std::io;
use std::path::Path;
use units::{Bytes, Lbn, Sectors};
use workload::trace::{self, Event, Options, TraceFormat};
use workload::{Mixed, Mixture, Source};

/// Reads any text as a profile: an error, or a drive whose layout maps its first and last LBN both ways.
pub(crate) fn profile(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(profile) = Profile::from_toml(text, "profile.toml") else { return };
    let Ok(drive) = DriveModel::from_profile(&profile) else { return };
    let layout = drive.layout();
    for lbn in [0, layout.capacity().get() - 1].map(Lbn::new) {
        let location = layout.locate(lbn).map(|at| layout.lbn_at(at));
        assert_eq!(location, Some(Some(lbn)), "every LBN below the capacity is somewhere");
    }
}

pub(crate) fn profile_seeds() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../drive/tests/data/small.toml").to_vec()]
}

/// Reads any bytes as a DiskSim parameter file, with the part after the first zero byte as every file that it sources.
pub(crate) fn disksim(bytes: &[u8]) {
    let cut = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let (root, sourced) = bytes.split_at(cut);
    let files = |path: &Path| -> io::Result<Vec<u8>> {
        Ok(if path == Path::new("root.parv") { root } else { sourced.get(1..).unwrap_or_default() }.to_vec())
    };
    if let Ok(imported) = disksim::import_from(&files, Path::new("root.parv"), None) {
        let drive = DriveModel::from_profile(&imported.profile);
        assert!(drive.is_ok(), "the import gives a profile that is no drive: {:?}", drive.err());
    }
}

pub(crate) fn disksim_seeds() -> Vec<Vec<u8>> {
    let model = include_str!("../../model/tests/data/tiny-disksim.model");
    let seek = include_str!("../../model/tests/data/tiny.seek");
    vec![format!("{model}\0{seek}").into_bytes()]
}

/// Reads any bytes as a trace of the format that the first byte selects, and as one of the format that is detected.
pub(crate) fn trace(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let _ = trace::read(bytes);
    let formats = TraceFormat::ALL;
    let event = if usize::from(*choice) < formats.len() { Event::Queue } else { Event::Dispatch };
    for cache_ops in [false, true] {
        let options = Options {
            format: Some(formats[usize::from(*choice) % formats.len()]),
            columns: "time=1,unit=us,op=2,offset=3,size=4,device=5".parse().ok(),
            event,
            cache_ops,
            ..Options::default()
        };
        if let Ok(trace) = trace::read_with(&options, bytes) {
            assert!(trace.records.iter().all(|r| !r.range.is_empty() || r.cache.flush && cache_ops));
        }
    }
}

/// Returns some requests in each format, behind the byte that selects the format. Each text is also given behind the bytes of
/// all other formats.
pub(crate) fn trace_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "0.5 0 1000 8 1\n1.5 0 2000 16 0\n",
        "R Hit 1000 8 0.5 1.5\nW Miss 2000 16 0 0\n",
        "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 0 4096\nx wait 5\n/dev/sda write 8192 4096\n",
        "fio version 3 iolog\n1 /dev/sda add\n2 /dev/sda open\n5 /dev/sda read 0 4096\n9 /dev/sda write 8192 4096\n",
        "128166372003061629,hm,1,Read,383496192,32768,113736\n128166372003061639,hm,0,Write,0,512,1\n",
        "0,20941264,8192,W,0.551706\n1,20939840,8192,r,0.554041,more\n",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592778.950689000,0.000149,W,4,8192,4096\n5.5,,R,4,0,512\n",
        "3,R,5591482368,4096,1577808000001565\n419,W,0,16384,1577808144360767\n",
        "1538323200,1000,8,1,1283\n1538323201,12910952,128,0,1063\n",
        "ts,op,lbn,len\n1565,28,1000,8\n2000,2a,8,64\n3000,35,0,0\n",
        "89966591565259 4892 syslogd 10920864 8 R 6 0 531e\n89966593565259 4 kworker/0:1 0 8 W 6 0 5e\n",
        "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n0.0 a b 7 sdb R 1000 4096 0.1 3.2\n5.0 ? 0 R -1 8 0 0.5\n",
        "8,16 0 1 0.001565259 5000 Q RS 1000 + 8 [a b]\n8,16 0 2 0.1 5 D FWFS 8 + 8 [a]\n8,16 0 3 0.2 5 Q FN [a]\n\
         8,16 0 4 0.3 5 Q DS 0 + 1024 [a]\n8,16 0 5 0.4 5 D R 36 (12 00 ..) [a]\n",
        "1565,R,512000,4096,3\n\"1866\",write,0,512,4\n",
    ];
    let number =
        |of: TraceFormat| TraceFormat::ALL.iter().position(|format| *format == of).unwrap_or(0) as u8;
    let binary = [
        (TraceFormat::HpSrt, hp_srt()),
        (TraceFormat::Vscsi, vscsi(1)),
        (TraceFormat::Vscsi, vscsi(2)),
        (TraceFormat::OracleGeneral, words(&[(5, 4), (1_000, 8), (4_096, 4), (u64::MAX, 8)])),
        (TraceFormat::Blktrace, blktrace()),
    ];
    let binary = binary.into_iter().map(|(format, bytes)| [vec![number(format)], bytes.repeat(3)].concat());
    // First bytes from the number of formats on select the formats again, with events of dispatch as arrivals.
    let numbers = 0..2 * TraceFormat::ALL.len() as u8;
    let of_text = numbers.flat_map(|n| texts.iter().map(move |text| [&[n], text.as_bytes()].concat()));
    binary.chain(of_text).collect()
}

/// Returns each integer in its number of bytes, little-endian.
fn words(words: &[(u64, usize)]) -> Vec<u8> {
    words.iter().flat_map(|(word, bytes)| word.to_le_bytes().into_iter().take(*bytes)).collect()
}

fn hp_srt() -> Vec<u8> {
    let record = [56u32, 0x4_0001, 1, 500, 100, 7_100, 4_096, 1_056, 9, 4, 1, 1, 0, 2];
    b"$$TR_IOREC\x0c".iter().copied().chain(record.iter().flat_map(|word| word.to_be_bytes())).collect()
}

fn vscsi(version: u64) -> Vec<u8> {
    let (code, version_word) = ((0x28, 2), (version << 8, 2));
    let common = [(7, 4), (4_096, 4), (1, 4)];
    let (place, time) = ((1_000, 8), (5, 8));
    if version == 1 {
        words(&[&common[..], &[code, version_word, place, time]].concat())
    } else {
        words(&[&[code, version_word], &common[..], &[place, time, (0, 8)]].concat())
    }
}

/// Returns a read and its dispatch, a forced write, a flush, a discard and a notice, with a payload behind each.
fn blktrace() -> Vec<u8> {
    let kinds = [(1, 1), (7, 1), (1, 2 | 1 << 15), (1, 2 | 1 << 2), (1, 2 | 1 << 13), (1, 1 << 10)];
    let event = |(action, kind): (u64, u64)| {
        let [magic, number, time] = [(0x6561_7407, 4), (1, 4), (5_000, 8)];
        let [lbn, bytes, action] = [(1_000, 8), (4_096, 4), (action | kind << 16, 4)];
        let [pid, device, cpu] = [(5, 4), (0x80_0010, 4), (0, 4)];
        words(&[magic, number, time, lbn, bytes, action, pid, device, cpu, (0, 2), (3, 2), (0xff_ffff, 3)])
    };
    kinds.into_iter().flat_map(event).collect()
}

/// Reads any text as a policy's name: an error, or a policy whose name parses to the same policy.
pub(crate) fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(policy) = text.parse::<PolicyName>() {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
}

pub(crate) fn policy_seeds() -> Vec<Vec<u8>> {
    ["fcfs", "c-look", "look", "scan", "vscan:0.2", "sstf", "sptf", "asptf:6", "sptf-sw:40", "smtf"]
        .map(|name| name.as_bytes().to_vec())
        .to_vec()
}

/// Reads any text as a load: an error at a place in the text, or a load that is equal after it was written and read again, and
/// whose requests lie on a drive.
pub(crate) fn mixture(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let load = match text.parse::<Mixture>() {
        Ok(load) => load,
        Err(error) => {
            assert!(text.get(error.span()).is_some(), "an error is within the text: {error}");
            return;
        }
    };
    assert_eq!(load.to_string().parse().as_ref(), Ok(&load));
    let capacity = Sectors::new(1 << 20);
    if let Ok(mut source) = Mixed::new(&load, capacity, Bytes::new(512), 1) {
        for _ in 0..16 {
            let request = source.next_request();
            assert!(request.is_some_and(|r| r.range.checked_end().is_some_and(|end| end.get() <= 1 << 20)));
        }
    }
}

pub(crate) fn mixture_seeds() -> Vec<Vec<u8>> {
    [
        "3*zipf:0.9,size=4k/64k,reads=70%,range=0%-50% + sequential:4,run=256,size=64k; poisson:150",
        "hot:80%@0%-20%,size=2*4k/exponential:8k:256k/8k-64k,align=512; bursts:9,on=500ms,off=2s",
        "sequential:2,run=geometric:8,range=1000-1999 + zipf:1,block=1m,order=ascending; closed:8,think=30ms",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Reads any text as a torture history: an error, or a history that is written as it was read.
pub(crate) fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(scenario) = torture::Scenario::parse(text) {
        let written = scenario.to_string();
        let again = torture::Scenario::parse(&written).map(|again| again.to_string());
        assert_eq!(again.ok(), Some(written));
    }
}

pub(crate) fn scenario_seeds() -> Vec<Vec<u8>> {
    (0..4).map(|seed| torture::generate(seed).to_string().into_bytes()).collect()
}

/// Reads any bytes as a request on the control socket: an error, a change, or a task within the disk.
#[cfg(target_os = "linux")]
pub(crate) fn task(bytes: &[u8]) {
    use server::manager::spec::{Change, DiskFacts, TaskSpec, What};
    if let Ok(change) = serde_json::from_slice::<Change>(bytes) {
        let text = serde_json::to_vec(&change).unwrap_or_default();
        assert_eq!(serde_json::from_slice::<Change>(&text).ok(), Some(change));
    }
    let Ok(spec) = serde_json::from_slice::<TaskSpec>(bytes) else { return };
    let capacity = units::Sectors::new(1 << 20);
    let disk = DiskFacts {
        name: "d0".into(),
        capacity,
        sector_bytes: units::Bytes::new(512),
        own: Vec::new(),
        read_only: false,
        device: None,
    };
    if let Ok(What::Scrub { range, block, .. }) = spec.check(&disk) {
        assert!(disk.whole().covers(range) && !range.is_empty() && block.get() > 0, "{spec:?}");
    }
    let text = serde_json::to_vec(&spec).unwrap_or_default();
    assert_eq!(serde_json::from_slice::<TaskSpec>(&text).ok(), Some(spec));
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn task(_: &[u8]) {}

pub(crate) fn task_seeds() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"kind":"scrub","priority":20,"first_lbn":8,"sectors":1024,"block_sectors":8}"#,
        r#"{"kind":"backup","to":"/image","block_sectors":128,"deadline_unix_s":4000000000}"#,
        r#"{"kind":"restore","from":["/one","/two"],"force":true}"#,
        r#"{"kind":"replica","to":"/copy","force":true}"#,
        r#"{"kind":"snapshot","name":"nightly","expires_unix_s":4000000000,"block_sectors":8}"#,
        r#"{"kind":"backup","to":"/image","since":["/one","/two"]}"#,
        r#"{"kind":"reorganize","plan":"/plan","block_sectors":32}"#,
        r#"{"kind":"scrub","first_lbn":64,"sectors":32,"block_sectors":16,"checksums":"/sums","force":true}"#,
        r#"{"priority":20,"deadline_unix_s":4000000000}"#,
        r#"{"deadline_unix_s":null}"#,
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Reads any text as the file of `serve --config`: an error, or disks to serve.
#[cfg(target_os = "linux")]
pub(crate) fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(said) = cli::check_config(text, "config.toml") {
        assert!(!said.is_empty(), "an error says something");
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn config(_: &[u8]) {}

pub(crate) fn config_seeds() -> Vec<Vec<u8>> {
    let text = include_str!("../../../docs/freeblock.toml");
    // The example configuration with every option set.
    let given: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|l| l.contains(" = ")).unwrap_or(line))
        .collect();
    vec![text.as_bytes().to_vec(), given.join("\n").into_bytes()]
}
