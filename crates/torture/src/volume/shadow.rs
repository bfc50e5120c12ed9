//! The permitted contents of each sector: a stamp with its own address and its write.

use units::{Lbn, LbnRange};

/// The number of bytes in a stamp; copies of one stamp fill a sector.
const STAMP_BYTES: usize = 16;

#[derive(Clone, Debug, Default)]
struct ShadowSector {
    /// Versions that were ever written here, or were to be, ascending.
    issued: Vec<u64>,
    /// The oldest permitted version; `None` if it is unknown.
    floor: Option<u64>,
}

/// The required and permitted contents of each sector, by the client's address.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    sectors: Vec<ShadowSector>,
    last: u64,
    bytes: usize,
}

/// The oldest permitted versions of a range for a read that begins at some time.
pub(super) type Floors = Vec<Option<u64>>;

impl Shadow {
    /// Returns a shadow in which each sector holds version 0 of itself.
    pub fn new(sectors: u64, bytes: usize) -> Self {
        let sector = ShadowSector { issued: vec![0], floor: Some(0) };
        Self { sectors: vec![sector; sectors as usize], last: 0, bytes }
    }

    /// Returns the bytes of a sector in a version.
    pub fn stamped(&self, lbn: Lbn, version: u64) -> Vec<u8> {
        let stamp: Vec<u8> = [lbn.get().to_le_bytes(), version.to_le_bytes()].concat();
        stamp.into_iter().cycle().take(self.bytes).collect()
    }

    /// Returns the bytes of a range in the version that is issued next.
    pub fn next_bytes(&self, range: LbnRange) -> Vec<u8> {
        super::lbns(range).flat_map(|lbn| self.stamped(lbn, self.last + 1)).collect()
    }

    /// Returns the last issued version.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Issues a version for a write of [`next_bytes`](Self::next_bytes), and returns it.
    pub fn issue(&mut self, range: LbnRange) -> u64 {
        self.last += 1;
        for lbn in super::lbns(range) {
            self.sectors[lbn.get() as usize].issued.push(self.last);
        }
        self.last
    }

    /// Records the acknowledgement of a write.
    pub fn acknowledge(&mut self, range: LbnRange, version: u64) {
        for lbn in super::lbns(range) {
            let floor = &mut self.sectors[lbn.get() as usize].floor;
            *floor = Some(floor.map_or(version, |floor| floor.max(version)));
        }
    }

    /// Permits any content of these sectors until their next write.
    pub fn forget(&mut self, range: LbnRange) {
        for lbn in super::lbns(range) {
            self.sectors[lbn.get() as usize].floor = None;
        }
    }

    /// Records that a crash has set a sector back to a version.
    pub fn set_back(&mut self, lbn: Lbn, version: u64) {
        self.sectors[lbn.get() as usize].floor = Some(version);
    }

    /// Returns the oldest permitted versions for a read that begins now.
    pub fn floors(&self, range: LbnRange) -> Floors {
        super::lbns(range).map(|lbn| self.sectors[lbn.get() as usize].floor).collect()
    }

    /// Returns the version of itself that a sector's bytes are; `None` for any other bytes.
    pub fn version(&self, lbn: Lbn, bytes: &[u8]) -> Option<u64> {
        let (stamp, _) = bytes.split_first_chunk::<STAMP_BYTES>()?;
        let (address, version) = stamp.split_first_chunk::<{ STAMP_BYTES / 2 }>()?;
        let full = bytes.chunks(STAMP_BYTES).all(|chunk| stamp.starts_with(chunk));
        let version = u64::from_le_bytes(version.try_into().ok()?);
        (full && bytes.len() == self.bytes && u64::from_le_bytes(*address) == lbn.get()).then_some(version)
    }

    /// Returns the first sector of a range whose bytes a read with these floors must not return, and its content.
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
                None => format!("LBN {lbn} holds {:?}", &bytes[..STAMP_BYTES.min(bytes.len())]),
            })
        })
    }
}
