//! Formats of one comma-separated line a request: SYSTOR'17, Alibaba, Tencent, CloudPhysics; and FIU, with blanks.

use super::parser::LineParser;
use super::text::{Field, Fields, byte_range, bytes_at_lbn, sectors_at_lbn};
use super::{Notes, TraceError, TraceRecord};
use units::{Duration, Instant, Op};

const TIME: &str = "the time of arrival, 0 or more";
const DEVICE: &str = "the number of the device, a whole number";
const OP: &str = "R or W";
const OFFSET: &str = "the offset in bytes, a whole number";
const BYTES: &str = "the size in bytes, a whole number";
const LBN: &str = "the first LBN, a whole number";

/// `Timestamp,Response,IOType,LUN,Offset,Size`: the traces of a virtual desktop installation (SYSTOR'17, SNIA IOTTA
/// 4928). Times are in seconds, the offset and the size in bytes. A response that is empty is unknown.
#[derive(Debug)]
pub(super) struct Systor17 {
    /// Nanoseconds in a unit of the timestamps.
    pub(super) unit_ns: u64,
}

impl LineParser for Systor17 {
    fn heading(&mut self, fields: &Fields<'_>) -> Result<bool, TraceError> {
        Ok(fields.begins_with("timestamp"))
    }

    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let arrival = fields.field(TIME)?.arrival(self.unit_ns, TIME)?;
        let expected = "the response time in seconds, 0 or more";
        let response = fields.field(expected)?;
        let service = match response.text {
            "" => None,
            _ => Some(response.time(1_000_000_000, expected)?),
        };
        let op = fields.field(OP)?;
        let device = fields.field(DEVICE)?.small_number(DEVICE)?;
        let (offset, size) = (fields.field(OFFSET)?, fields.field(BYTES)?);
        fields.end()?;
        if op.text.is_empty() {
            notes.other += 1;
            return Ok(None);
        }
        let op = op.op(OP)?;
        let range = byte_range(offset, size, notes)?;
        Ok(range.map(|range| TraceRecord {
            arrival: Some(arrival),
            device,
            service,
            ..TraceRecord::new(op, range)
        }))
    }
}

/// `device_id,opcode,offset,length,timestamp`: the block traces of Alibaba Cloud (2020). Offset and length are in bytes,
/// the timestamp in microseconds.
#[derive(Debug)]
pub(super) struct Alibaba {
    /// Nanoseconds in a unit of the timestamps.
    pub(super) unit_ns: u64,
}

impl LineParser for Alibaba {
    fn heading(&mut self, fields: &Fields<'_>) -> Result<bool, TraceError> {
        Ok(fields.begins_with("device_id"))
    }

    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let device = fields.field(DEVICE)?.small_number(DEVICE)?;
        let op = fields.field(OP)?.op(OP)?;
        let (offset, size) = (fields.field(OFFSET)?, fields.field(BYTES)?);
        let arrival = fields.field(TIME)?.arrival(self.unit_ns, TIME)?;
        fields.end()?;
        let range = byte_range(offset, size, notes)?;
        Ok(range.map(|range| TraceRecord { arrival: Some(arrival), device, ..TraceRecord::new(op, range) }))
    }
}

/// `timestamp,offset,size,type,volume`: the block storage traces of Tencent Cloud (SNIA IOTTA 27917). The timestamp is in
/// seconds, offset and size in sectors of 512 bytes; type 0 is a read and 1 a write.
#[derive(Debug)]
pub(super) struct Tencent {
    /// Nanoseconds in a unit of the timestamps.
    pub(super) unit_ns: u64,
}

impl LineParser for Tencent {
    fn heading(&mut self, fields: &Fields<'_>) -> Result<bool, TraceError> {
        Ok(fields.begins_with("timestamp"))
    }

    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let arrival = fields.field(TIME)?.arrival(self.unit_ns, TIME)?;
        let lbn = fields.field(LBN)?;
        let sectors = fields.field("the number of sectors, a whole number")?;
        let op = zero_or_one(fields.field("0 for a read or 1 for a write")?)?;
        let device = fields.field(DEVICE)?.small_number(DEVICE)?;
        fields.end()?;
        let range = sectors_at_lbn(lbn, sectors, notes)?;
        Ok(range.map(|range| TraceRecord { arrival: Some(arrival), device, ..TraceRecord::new(op, range) }))
    }
}

fn zero_or_one(field: Field<'_>) -> Result<Op, TraceError> {
    match field.text {
        "0" => Ok(Op::Read),
        "1" => Ok(Op::Write),
        _ => Err(field.error("0 for a read or 1 for a write")),
    }
}

/// `ts,op,lbn,len`: CloudPhysics' traces of virtual disks as CSV. The time is in microseconds, the operation a SCSI
/// operation code in hexadecimal, the length in sectors of 512 bytes.
#[derive(Debug)]
pub(super) struct CloudPhysics {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
}

impl LineParser for CloudPhysics {
    fn heading(&mut self, fields: &Fields<'_>) -> Result<bool, TraceError> {
        Ok(fields.begins_with("ts"))
    }

    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let arrival = fields.field(TIME)?.arrival(self.unit_ns, TIME)?;
        let expected = "a SCSI operation code in hexadecimal, such as 28";
        let code = fields.field(expected)?;
        let digits = code.text.strip_prefix("0x").unwrap_or(code.text);
        let number = u16::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'));
        let number = number.ok_or_else(|| code.error(expected))?;
        let (lbn, sectors) = (fields.field(LBN)?, fields.field("the number of sectors, a whole number")?);
        fields.end()?;
        let Some(op) = scsi_op(number) else {
            notes.other += 1;
            return Ok(None);
        };
        let range = sectors_at_lbn(lbn, sectors, notes)?;
        Ok(range.map(|range| TraceRecord { arrival: Some(arrival), ..TraceRecord::new(op, range) }))
    }
}

/// Returns the direction of a SCSI operation code: READ and WRITE of 6, 10, 12, 16 bytes, and WRITE AND VERIFY.
/// `None` for other codes.
pub(super) const fn scsi_op(code: u16) -> Option<Op> {
    match code {
        0x08 | 0x28 | 0x88 | 0xa8 => Some(Op::Read),
        0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Some(Op::Write),
        _ => None,
    }
}

/// `time pid process lbn sectors R|W major minor hash`, separated by blanks: the traces of Florida International University
/// (SNIA IOTTA 390). The time is in nanoseconds; the device is 256 times its major plus its minor number.
#[derive(Debug)]
pub(super) struct Fiu {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
}

impl LineParser for Fiu {
    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let arrival = fields.field(TIME)?.arrival(self.unit_ns, TIME)?;
        fields.field("the process's number")?;
        fields.field("the process's name")?;
        let (lbn, sectors) = (fields.field(LBN)?, fields.field("the number of sectors, a whole number")?);
        let op = fields.field(OP)?.op(OP)?;
        let [major, minor] = ["the device's major number", "the device's minor number"].map(|expected| {
            fields.field(expected).and_then(|field| Ok((field, field.small_number(expected)?)))
        });
        let ((major_field, major), (_, minor)) = (major?, minor?);
        let device = major.checked_mul(256).and_then(|high| high.checked_add(minor));
        let device = device.ok_or_else(|| major_field.error("a major number below 2^24"))?;
        // The hash of the content, which some files lack.
        fields.optional();
        fields.end()?;
        let range = sectors_at_lbn(lbn, sectors, notes)?;
        Ok(range.map(|range| TraceRecord { arrival: Some(arrival), device, ..TraceRecord::new(op, range) }))
    }
}

/// `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`: the output of biosnoop (bcc). The command may have
/// blanks in it, so fields are taken from the end of the line. Disks become devices in the order in which they are
/// first met.
///
/// TIME is that of the completion (bcc 0.26 reads the clock in the completion's handler). LAT begins with the
/// dispatch to the disk, QUE with the queueing; the arrival is the earliest instant that the line has.
#[derive(Debug)]
pub(super) struct Biosnoop {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
    disks: super::text::Names,
    /// Whether each field after BYTES is a time; option `-P` adds a field that is not.
    times: Vec<bool>,
}

impl Biosnoop {
    pub(super) fn new(unit_ns: u64) -> Self {
        Self { unit_ns, disks: super::text::Names::default(), times: vec![true] }
    }
}

impl LineParser for Biosnoop {
    fn heading(&mut self, fields: &Fields<'_>) -> Result<bool, TraceError> {
        let names = fields.clone().rest();
        let heading = names.first().is_some_and(|first| first.text.starts_with("TIME"));
        if let Some(bytes) = names.iter().position(|name| name.text == "BYTES") {
            self.times = names.iter().skip(bytes + 1).map(|name| name.text.ends_with("(ms)")).collect();
        }
        Ok(heading)
    }

    fn line(&mut self, fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let whole = fields.whole();
        let all = fields.rest();
        let short = || whole.error("a line `TIME COMM PID DISK T SECTOR BYTES LAT`");
        let bytes_at = all.len().checked_sub(self.times.len() + 1).filter(|&at| at >= 5).ok_or_else(short)?;
        let [op, lbn, bytes] = [2, 1, 0].map(|before| all.get(bytes_at - before));
        let (Some(time), Some(op), Some(lbn), Some(bytes)) = (all.first(), op, lbn, bytes) else {
            return Err(short());
        };
        let disk = all.get(bytes_at - 3).filter(|_| bytes_at >= 6);
        // A program's request to the drive's controller has no LBN, and a request that began before biosnoop has no
        // disk.
        if matches!(lbn.text, "-1" | "-" | "?") || disk.is_some_and(|disk| disk.text == "<unknown>") {
            notes.other += 1;
            return Ok(None);
        }
        let disk = disk.ok_or_else(short)?;
        let early = || whole.error("a request that arrived less than an hour before the trace");
        let mut arrival = time.time(self.unit_ns, TIME)?.as_nanos().checked_add(COMPLETION_SHIFT.as_nanos());
        let mut service = None;
        for (field, _) in all.iter().skip(bytes_at + 1).zip(&self.times).filter(|(_, is_time)| **is_time) {
            let time = field.time(1_000_000, "a time in milliseconds, 0 or more")?;
            arrival = arrival.and_then(|arrival| arrival.checked_sub(time.as_nanos()));
            service = Some(time);
        }
        let arrival = arrival.map(Instant::from_nanos).ok_or_else(early)?;
        let op = match op.text.chars().next() {
            Some('R') => Op::Read,
            Some('W') => Op::Write,
            _ => {
                notes.other += 1;
                return Ok(None);
            }
        };
        let device = self.disks.number(*disk)?;
        let range = bytes_at_lbn(*lbn, *bytes, notes)?;
        Ok(range.map(|range| TraceRecord {
            arrival: Some(arrival),
            device,
            service,
            ..TraceRecord::new(op, range)
        }))
    }
}

/// The time added to biosnoop's times, which count from the first completion: requests may have arrived before that.
const COMPLETION_SHIFT: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::COMPLETION_SHIFT;
    use crate::trace::{Trace, TraceFormat, read_as};

    fn one(format: TraceFormat, text: &str) -> (u64, u32, bool, String) {
        let Trace { records, .. } = read_as(format, text.as_bytes()).unwrap();
        let record = records[0];
        let arrival = record.arrival.unwrap().as_nanos();
        (arrival, record.device, record.op.is_write(), record.range.to_string())
    }

    fn refuse(format: TraceFormat, text: &str) -> String {
        read_as(format, text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn each_list_gives_its_units() {
        let expected = |ns, device, write| (ns, device, write, "1000+8".to_owned());
        let line = "1455584400.001565218,0.0012,W,3,512000,4096\n";
        assert_eq!(one(TraceFormat::Systor17, line), expected(1_455_584_400_001_565_218, 3, true));
        assert_eq!(
            one(TraceFormat::Alibaba, "7,R,512000,4096,1577808000001565"),
            expected(1_577_808_000_001_565_000, 7, false)
        );
        assert_eq!(
            one(TraceFormat::Tencent, "1538323200,1000,8,1,1283"),
            expected(1_538_323_200_000_000_000, 1_283, true)
        );
        assert_eq!(
            one(TraceFormat::CloudPhysics, "ts,op,lbn,len\n1565,2a,1000,8"),
            expected(1_565_000, 0, true)
        );
        assert_eq!(one(TraceFormat::Fiu, "899 4892 syslogd 1000 8 W 6 2 531e"), expected(899, 1_538, true));
        let text = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.5 a b c 7 sdb R 1000 4096 3.2\n";
        // The time in each line is that of the completion.
        let before = |ns| COMPLETION_SHIFT.as_nanos() + 500_000_000 - ns;
        assert_eq!(one(TraceFormat::Biosnoop, text), expected(before(3_200_000), 0, false));
        let queued = text.replace("LAT(ms)", "QUE(ms) LAT(ms)").replace("3.2", "0.1 3.2");
        assert_eq!(one(TraceFormat::Biosnoop, &queued), expected(before(3_300_000), 0, false));
        let with_pattern = queued.replace("QUE", "P QUE").replace("0.1", "S 0.1");
        assert_eq!(one(TraceFormat::Biosnoop, &with_pattern), expected(before(3_300_000), 0, false));
        let early = text.replace("3.2", "3600501");
        assert!(refuse(TraceFormat::Biosnoop, &early).contains("an hour before the trace"));
    }

    #[test]
    fn other_commands_are_counted() {
        let trace = read_as(TraceFormat::CloudPhysics, b"1,35,0,0\n2,28,8,0\n3,28,8,8\n").unwrap();
        assert_eq!((trace.notes.other, trace.notes.empty, trace.records.len()), (1, 1, 1));
        let text = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 a b 7 sda R -1 8 0.5\n0.2 a 7 sda FF 0 0 0.5\n\
            0.3 a 7 sda WS 1000 4096 0.5\n0.4 ? 0 R -1 8 0.5\n\
            0.5 ? 0 <unknown> R 0 8 0.5\n";
        let trace = read_as(TraceFormat::Biosnoop, text.as_bytes()).unwrap();
        assert_eq!((trace.notes.other, trace.records.len()), (4, 1));
        assert!(refuse(TraceFormat::Biosnoop, "0.4 a 7 R 1000 4096 0.5").contains("expected a line"));
    }

    #[test]
    fn mistakes_name_the_place() {
        assert!(
            refuse(TraceFormat::Alibaba, "1,X,0,512,5").contains("column 3: found \"X\", expected R or W")
        );
        assert!(
            refuse(TraceFormat::Tencent, "5,0,8,2,1")
                .contains("column 7: found \"2\", expected 0 for a read")
        );
        assert!(
            refuse(TraceFormat::CloudPhysics, "5,zz,8,2").contains("column 3: found \"zz\", expected a SCSI")
        );
        assert!(
            refuse(TraceFormat::Fiu, "5 1 a 0 8 R 16777216 0 h").contains("column 13: found \"16777216\"")
        );
        assert!(
            refuse(TraceFormat::Biosnoop, "0.5 a 7").contains("column 1: found \"0.5 a 7\", expected a line")
        );
        assert!(refuse(TraceFormat::Systor17, "1,1,R,0,0,-1").contains("column 11: found \"-1\""));
    }
}
