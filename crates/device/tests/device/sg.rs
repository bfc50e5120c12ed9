//! SCSI commands other than reads and writes, sent to a simulated disk.

use device::{
    Farm, Identity, Journal, NotSwitched, Record, Recording, Scsi, ScsiError, SwitchJournalError, Switches,
    Transfer, put_back, switch_off,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

/// A simulated disk, and a journal on another disk. Both are used by one process, which the test may kill.
#[derive(Clone, Debug, Default)]
pub(crate) struct Simulated(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) ata: bool,
    pub(crate) model: &'static str,
    /// The rate in the VPD page of block device characteristics.
    pub(crate) rpm: u16,
    pub(crate) look_ahead: bool,
    pub(crate) read_cache: bool,
    /// The switches that the disk refuses to change.
    pub(crate) refuses: &'static str,
    pub(crate) ignores: &'static str,
    /// The number of next commands that are answered with a unit attention instead of being executed.
    pub(crate) attentions: u32,
    /// The bytes of a block descriptor that the disk sends without being asked.
    pub(crate) descriptor: u8,
    /// ATA logs, by number and sector.
    pub(crate) logs: BTreeMap<(u8, u16), [u8; 512]>,
    pub(crate) record: Option<Record>,
    /// The number of steps until the process is killed, and whether the last step takes effect.
    pub(crate) left: Option<u32>,
    pub(crate) last_takes_effect: bool,
    pub(crate) steps: u32,
}

impl State {
    /// Counts a step; returns whether it takes effect, and whether the process sees its result.
    fn step(&mut self) -> (bool, bool) {
        self.steps += 1;
        match &mut self.left {
            None => (true, true),
            Some(0) => (false, false),
            Some(left) => {
                *left -= 1;
                (*left > 0 || self.last_takes_effect, *left > 0)
            }
        }
    }

    fn change(&mut self, switch: &str, on: bool) -> Result<(), ScsiError> {
        if self.refuses.contains(switch) {
            return Err(ScsiError::Refused { key: 5, code: 0x24, qualifier: 0 });
        }
        if !self.ignores.contains(switch) {
            *(if switch == "look" { &mut self.look_ahead } else { &mut self.read_cache }) = on;
        }
        Ok(())
    }

    fn identify(&self) -> [u8; 512] {
        let mut words = [0_u16; 256];
        for (i, pair) in format!("{:<40}", self.model).as_bytes().chunks(2).enumerate() {
            words[27 + i] = u16::from_be_bytes([pair[0], pair[1]]);
        }
        (words[82], words[83], words[84]) = (1 << 6 | 1 << 5, 0x4000, 0x4020);
        words[85] = u16::from(self.look_ahead) << 6;
        let mut bytes = [0; 512];
        for (i, word) in words.iter().enumerate() {
            bytes[2 * i..2 * i + 2].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn mode_page(&self) -> Vec<u8> {
        let mut page = vec![0; 20];
        (page[0], page[1]) = (0x88, 18);
        // The other bits of these bytes are settings that must stay the same.
        (page[2], page[3]) = (0x14 | u8::from(!self.read_cache), 0x5a);
        page[12] = 0x80 | u8::from(!self.look_ahead) << 5;
        page
    }

    fn carry_out(&mut self, command: &[u8], data: Transfer<'_>) -> Result<usize, ScsiError> {
        if self.attentions > 0 {
            self.attentions -= 1;
            return Err(ScsiError::Refused { key: 6, code: 0x2a, qualifier: 1 });
        }
        let refused = || ScsiError::Refused { key: 5, code: 0x20, qualifier: 0 };
        let answer = match (command[0], self.ata) {
            (0x12, _) if command[1] == 1 => {
                assert_eq!(command[2], 0xb1);
                [&[0, 0xb1, 0, 0x3c][..], &self.rpm.to_be_bytes(), &[0; 58]].concat()
            }
            (0x12, ata) => {
                let mut inquiry = vec![0; 36];
                inquiry[8..16].copy_from_slice(if ata { b"ATA     " } else { b"SEAGATE " });
                inquiry
            }
            (0x85, true) => {
                let [_, protocol, flags, _, feature, _, count, page_high, log, _, page, _, _, _, ata, _] =
                    *command.first_chunk::<16>().unwrap();
                match (ata, protocol, flags, count) {
                    (0xec, 0x08, 0x0e, 1) => self.identify().to_vec(),
                    (0x2f, 0x09, 0x0e, 1) => {
                        assert_eq!(page_high, 0);
                        self.logs.get(&(log, u16::from(page))).ok_or_else(refused)?.to_vec()
                    }
                    (0xef, 0x06, 0, 0) => {
                        self.change("look", feature == 0xaa)?;
                        Vec::new()
                    }
                    other => panic!("{other:x?}"),
                }
            }
            (0x1a, false) => {
                let page = self.mode_page();
                let mut answer = vec![3 + self.descriptor + page.len() as u8, 0, 0x10, self.descriptor];
                answer.resize(4 + usize::from(self.descriptor), 0xff);
                answer.extend(page);
                answer
            }
            (0x15, false) => {
                let Transfer::ToDisk(bytes) = data else { panic!("{data:?}") };
                assert_eq!((command[1], usize::from(command[4])), (0x10, bytes.len()), "not to be saved");
                let (now, new) = (self.mode_page(), bytes[4..].to_vec());
                assert_eq!((&bytes[..4], new[0]), (&[0; 4][..], 8));
                let others = |page: &[u8]| (page[2] & !1, page[3], page[12] & !0x20);
                assert_eq!(others(&new), others(&now), "no other setting changes");
                let switched =
                    |byte: usize, bit: u8| ((new[byte] ^ now[byte]) & bit != 0, new[byte] & bit == 0);
                for (switch, (changes, on)) in [("look", switched(12, 0x20)), ("cache", switched(2, 1))] {
                    if changes {
                        self.change(switch, on)?;
                    }
                }
                return Ok(bytes.len());
            }
            _ => return Err(refused()),
        };
        match data {
            Transfer::FromDisk(to) => {
                let n = answer.len().min(to.len());
                to[..n].copy_from_slice(&answer[..n]);
                Ok(n)
            }
            _ => Ok(0),
        }
    }
}

fn killed() -> io::Error {
    io::Error::other("the process is killed")
}

impl Scsi for Simulated {
    fn execute(&mut self, command: &[u8], data: Transfer<'_>) -> Result<usize, ScsiError> {
        let mut state = self.0.lock().unwrap();
        let (effect, seen) = state.step();
        let result = if effect { state.carry_out(command, data) } else { Ok(0) };
        if seen { result } else { Err(killed().into()) }
    }
}

impl Journal for Simulated {
    fn save(&mut self, record: &Record) -> Result<(), SwitchJournalError> {
        self.journal(|kept| *kept = Some(record.clone()))
    }

    fn remove(&mut self, _: &Record) -> Result<(), SwitchJournalError> {
        self.journal(|kept| *kept = None)
    }
}

impl Simulated {
    pub(crate) fn with(state: State) -> Self {
        Self(Arc::new(Mutex::new(State { look_ahead: true, read_cache: true, ..state })))
    }

    fn journal(&mut self, change: impl FnOnce(&mut Option<Record>)) -> Result<(), SwitchJournalError> {
        let mut state = self.0.lock().unwrap();
        let (effect, seen) = state.step();
        if effect {
            change(&mut state.record);
        }
        let error = || SwitchJournalError::System { path: "journal".into(), source: killed() };
        if seen { Ok(()) } else { Err(error()) }
    }

    fn off(&self) -> Result<device::Quiet, NotSwitched> {
        switch_off(Box::new(self.clone()), Box::new(self.clone()), "naa.5000c500")
    }

    /// Returns whether look-ahead is on, whether the read cache is on, and whether there is a record.
    fn states(&self) -> (bool, bool, bool) {
        let state = self.0.lock().unwrap();
        (state.look_ahead, state.read_cache, state.record.is_some())
    }
}

#[test]
fn both_switches_of_a_scsi_disk_go_off_and_come_back() {
    for descriptor in [0, 8] {
        let disk = Simulated::with(State { descriptor, attentions: 2, ..State::default() });
        let quiet = disk.off().unwrap();
        assert!(quiet.refused().is_none());
        assert_eq!(disk.states(), (false, false, true));
        quiet.end().unwrap();
        assert_eq!(disk.states(), (true, true, false));
    }
}

#[test]
fn an_ata_disk_has_one_switch() {
    let disk = Simulated::with(State { ata: true, model: "ST2000DM006", ..State::default() });
    let switches = Switches::read(&mut disk.clone()).unwrap();
    assert_eq!(switches, Switches { look_ahead: Some(true), read_cache: None });
    let quiet = disk.off().unwrap();
    assert_eq!(disk.states(), (false, true, true));
    // A panic drops the value, too, which puts the switches back.
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _quiet = quiet;
        panic!("a defect of the probe");
    }));
    assert!(unwound.is_err());
    assert_eq!(disk.states(), (true, true, false));
}

#[test]
fn a_switch_that_was_off_before_stays_off() {
    let disk = Simulated::with(State::default());
    disk.0.lock().unwrap().read_cache = false;
    disk.off().unwrap().end().unwrap();
    assert_eq!(disk.states(), (true, false, false));
    disk.0.lock().unwrap().look_ahead = false;
    assert!(matches!(disk.off(), Err(NotSwitched::Nothing)));
    assert_eq!(disk.states(), (false, false, false));
}

#[test]
fn a_refused_switch_is_reported_and_the_other_one_goes_off() {
    for (refuses, ignores) in [("look", ""), ("", "look")] {
        let disk = Simulated::with(State { refuses, ignores, ..State::default() });
        let quiet = disk.off().unwrap();
        assert!(quiet.refused().unwrap().to_string().starts_with("look-ahead: "), "{quiet:?}");
        assert_eq!(disk.states(), (true, false, true));
        quiet.end().unwrap_or_else(|error| assert!(refuses == "look", "{error}"));
        assert_eq!((disk.states().0, disk.states().1), (true, true));
    }
    let disk = Simulated::with(State { refuses: "look cache", ..State::default() });
    assert!(matches!(disk.off(), Err(NotSwitched::Refused(_))));
    assert_eq!((disk.states().0, disk.states().1), (true, true));
}

#[test]
fn nothing_is_switched_before_its_record_is_kept() {
    let disk = Simulated::with(State::default());
    // The first two steps are the commands that read the states, and the third is the journal's.
    disk.0.lock().unwrap().left = Some(3);
    assert!(matches!(disk.off(), Err(NotSwitched::Journal(_))));
    assert_eq!(disk.states(), (true, true, false));
}

/// Kills the process at each of its steps, before and after the step takes effect. The next start puts the
/// switches back.
#[test]
fn the_switches_are_back_after_a_kill_at_any_step() {
    for ata in [false, true] {
        let whole = Simulated::with(State { ata, ..State::default() });
        whole.off().unwrap().end().unwrap();
        let steps = whole.0.lock().unwrap().steps;
        assert!(steps > 10, "{steps}");
        let mut left_off = 0;
        for (step, last_takes_effect) in (1..=steps).flat_map(|step| [(step, false), (step, true)]) {
            let disk =
                Simulated::with(State { ata, left: Some(step), last_takes_effect, ..State::default() });
            let _ = disk.off().map(device::Quiet::end);
            let (look_ahead, read_cache, record) = disk.states();
            left_off += u32::from(!look_ahead || !read_cache);
            assert!(record || (look_ahead && read_cache), "step {step}: off without a record");
            // The next start reads the record and puts the switches back.
            disk.0.lock().unwrap().left = None;
            let record = disk.0.lock().unwrap().record.clone();
            if let Some(record) = record {
                put_back(&mut disk.clone(), &record).unwrap();
                disk.clone().remove(&record).unwrap();
            }
            assert_eq!(disk.states(), (true, true, false), "step {step}");
        }
        assert!(left_off > 5, "{left_off}");
    }
}

/// Returns a log directory and a log as Seagate's disks have them, with these values.
pub(crate) fn farm(recording: u64, depopulated: u64) -> BTreeMap<(u8, u16), [u8; 512]> {
    let mut directory = [0; 512];
    directory[2 * 0xa6] = 192;
    let field = |page: &mut [u8; 512], n: usize, value: u64| {
        page[8 * n..8 * n + 8].copy_from_slice(&(0xc0 << 56 | value).to_le_bytes());
    };
    let (mut header, mut page) = ([0; 512], [0; 512]);
    header[..8].copy_from_slice(b"REMRAF\0\xc0");
    field(&mut page, 42, recording);
    field(&mut page, 43, depopulated);
    BTreeMap::from([((0, 0), directory), ((0xa6, 0), header), ((0xa6, 32), page)])
}

#[test]
fn the_log_of_a_seagate_disk_tells_its_recording_and_its_heads() {
    for (recording, expected) in [
        (1, Some(Recording::Shingled)),
        (2, Some(Recording::Conventional)),
        (3, Some(Recording::Shingled)),
        (0, None),
    ] {
        let disk = State { ata: true, model: "ST8000AS0002", logs: farm(recording, 1), ..State::default() };
        let found = Farm::read(&mut Simulated::with(disk)).unwrap().unwrap();
        assert_eq!(found, Farm { recording: expected, depopulated: Some(true) });
    }
}

#[test]
fn a_disk_without_that_log_tells_nothing() {
    let none = |state: State| assert_eq!(Farm::read(&mut Simulated::with(state)).unwrap(), None);
    // A SCSI disk; one of another maker, which may use the log's number for something else; one whose
    // directory lacks the log; one with another log of that number.
    none(State::default());
    none(State { ata: true, model: "WDC WD80EFAX", logs: farm(1, 0), ..State::default() });
    none(State { ata: true, model: "ST1", logs: BTreeMap::from([((0, 0), [0; 512])]), ..State::default() });
    let mut other = farm(1, 0);
    other.insert((0xa6, 0), [7; 512]);
    none(State { ata: true, model: "ST1", logs: other, ..State::default() });
    // A disk that supports the log but not the fields reports nothing.
    let mut old = farm(1, 0);
    old.insert((0xa6, 32), [0; 512]);
    let disk = State { ata: true, model: "ST1", logs: old, ..State::default() };
    assert_eq!(Farm::read(&mut Simulated::with(disk)).unwrap(), Some(Farm::default()));
}

#[test]
fn the_model_of_an_ata_disk_is_read() {
    let disk = State { ata: true, model: "ST2000DM006-2DM164", ..State::default() };
    let identity = Identity::of(&mut Simulated::with(disk)).unwrap();
    let model = "ST2000DM006-2DM164".to_owned();
    assert_eq!(identity, Identity::Ata { model, look_ahead: Some(true), logs: true });
    assert_eq!(Identity::of(&mut Simulated::with(State::default())).unwrap(), Identity::Scsi);
}
