//! The permitted contents of each sector. The bytes of a sector are copies of a stamp: its address and the version of its
//! last write.

use units::{Lbn, LbnRange};

/// The number of bytes in a stamp: eight for the address, eight for the version.
const STAMP_BYTES: usize = 16;

#[derive(Clone, Debug, Default)]
struct ShadowSector {
    /// The versions of all writes to the sector, whether or not they were executed, ascending.
    issued: Vec<u64>,
    /// The oldest permitted version; `None` if any content is permitted.
    floor: Option<u64>,
}

/// The permitted contents of each sector, by the client's address.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    sectors: Vec<ShadowSector>,
    last: u64,
    bytes: usize,
}

/// The oldest permitted version of each sector of a range; `None` if any content is permitted.
pub(super) type Floors = Vec<Option<u64>>;

impl Shadow {
    /// Returns the state in which each sector has version 0.
    pub fn new(sectors: u64, bytes: usize) -> Self {
        let sector = ShadowSector { issued: vec![0], floor: Some(0) };
        Self { sectors: vec![sector; sectors as usize], last: 0, bytes }
    }

    /// Returns the bytes of a version of a sector.
    pub fn stamped(&self, lbn: Lbn, version: u64) -> Vec<u8> {
        let stamp: Vec<u8> = [lbn.get().to_le_bytes(), version.to_le_bytes()].concat();
        stamp.into_iter().cycle().take(self.bytes).collect()
    }

    /// Returns the bytes of a range in the version that [`issue`](Self::issue) returns next.
    pub fn next_bytes(&self, range: LbnRange) -> Vec<u8> {
        super::lbns(range).flat_map(|lbn| self.stamped(lbn, self.last + 1)).collect()
    }

    /// Returns the version of the last write that was issued.
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

    /// Records that a sector has this version after a power cut, even if a newer one had been acknowledged.
    pub fn set_back(&mut self, lbn: Lbn, version: u64) {
        self.sectors[lbn.get() as usize].floor = Some(version);
    }

    /// Returns the oldest permitted versions for a read that begins now.
    pub fn floors(&self, range: LbnRange) -> Floors {
        super::lbns(range).map(|lbn| self.sectors[lbn.get() as usize].floor).collect()
    }

    /// Returns the version of a sector that has these bytes; `None` if no version has them.
    pub fn version(&self, lbn: Lbn, bytes: &[u8]) -> Option<u64> {
        let (stamp, _) = bytes.split_first_chunk::<STAMP_BYTES>()?;
        let (address, version) = stamp.split_first_chunk::<{ STAMP_BYTES / 2 }>()?;
        let full = bytes.chunks(STAMP_BYTES).all(|chunk| stamp.starts_with(chunk));
        let version = u64::from_le_bytes(version.try_into().ok()?);
        (full && bytes.len() == self.bytes && u64::from_le_bytes(*address) == lbn.get()).then_some(version)
    }

    /// Returns a description of the first sector of a range whose bytes are not permitted, given the oldest permitted versions.
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
