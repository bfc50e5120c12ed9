//! What each sector may hold: a stamp of its own address and of the write that it comes from.

use units::{Lbn, LbnRange};

/// Bytes of a stamp; a sector is full of them.
const STAMP: usize = 16;

#[derive(Clone, Debug, Default)]
struct Sector {
    /// Versions that were ever written here, or were to be, ascending.
    issued: Vec<u64>,
    /// The version that must be here, or a later one; `None` where nobody knows.
    floor: Option<u64>,
}

/// What must be, or may be, in each sector, by its address as the client knows it.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    sectors: Vec<Sector>,
    last: u64,
    bytes: usize,
}

/// The floors of a range at some time: what whoever reads then must find, or something later.
pub(super) type Floors = Vec<Option<u64>>;

impl Shadow {
    /// Each sector holds version 0 of itself.
    pub fn new(sectors: u64, bytes: usize) -> Self {
        let sector = Sector { issued: vec![0], floor: Some(0) };
        Self { sectors: vec![sector; sectors as usize], last: 0, bytes }
    }

    /// The bytes of a sector in a version.
    pub fn stamped(&self, lbn: Lbn, version: u64) -> Vec<u8> {
        let stamp: Vec<u8> = [lbn.get().to_le_bytes(), version.to_le_bytes()].concat();
        stamp.into_iter().cycle().take(self.bytes).collect()
    }

    /// The bytes of a range in the version that is issued next.
    pub fn next_bytes(&self, range: LbnRange) -> Vec<u8> {
        super::lbns(range).flat_map(|lbn| self.stamped(lbn, self.last + 1)).collect()
    }

    /// The version issued last.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// A write of [`next_bytes`](Self::next_bytes) begins; its version.
    pub fn issue(&mut self, range: LbnRange) -> u64 {
        self.last += 1;
        for lbn in super::lbns(range) {
            self.sectors[lbn.get() as usize].issued.push(self.last);
        }
        self.last
    }

    /// A write is acknowledged.
    pub fn acknowledge(&mut self, range: LbnRange, version: u64) {
        for lbn in super::lbns(range) {
            let floor = &mut self.sectors[lbn.get() as usize].floor;
            *floor = Some(floor.map_or(version, |floor| floor.max(version)));
        }
    }

    /// What these sectors hold is lost, or nobody's business: until they are written they may hold anything.
    pub fn forget(&mut self, range: LbnRange) {
        for lbn in super::lbns(range) {
            self.sectors[lbn.get() as usize].floor = None;
        }
    }

    /// A crash has set a sector back to a version.
    pub fn set_back(&mut self, lbn: Lbn, version: u64) {
        self.sectors[lbn.get() as usize].floor = Some(version);
    }

    /// What a reader that begins now must find.
    pub fn floors(&self, range: LbnRange) -> Floors {
        super::lbns(range).map(|lbn| self.sectors[lbn.get() as usize].floor).collect()
    }

    /// The version of itself that a sector's bytes are; `None` if they are anything else.
    pub fn version(&self, lbn: Lbn, bytes: &[u8]) -> Option<u64> {
        let (stamp, _) = bytes.split_first_chunk::<STAMP>()?;
        let (address, version) = stamp.split_first_chunk::<{ STAMP / 2 }>()?;
        let full = bytes.chunks(STAMP).all(|chunk| stamp.starts_with(chunk));
        let version = u64::from_le_bytes(version.try_into().ok()?);
        (full && bytes.len() == self.bytes && u64::from_le_bytes(*address) == lbn.get()).then_some(version)
    }

    /// The first sector of a range whose bytes are not what a reader with these floors may find, and what it holds.
    pub fn wrong(&self, range: LbnRange, bytes: &[u8], floors: &[Option<u64>]) -> Option<String> {
        let mut sectors = super::lbns(range).zip(bytes.chunks(self.bytes)).zip(floors);
        sectors.find_map(|((lbn, bytes), floor)| {
            let floor = (*floor)?;
            let found = self.version(lbn, bytes);
            let right = found.is_some_and(|v| {
                v >= floor && self.sectors[lbn.get() as usize].issued.binary_search(&v).is_ok()
            });
            (!right).then(|| match found {
                Some(version) => format!("LBN {lbn} holds version {version}, and {floor} was acknowledged"),
                None => format!("LBN {lbn} holds {:?}", &bytes[..STAMP.min(bytes.len())]),
            })
        })
    }
}
