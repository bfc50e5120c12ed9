//! The electronics of a drive in its profile: overheads, bus, queue and buffer.

use serde::{Deserialize, Serialize};

/// The electronics of a drive. Names and meanings follow DiskSim's drive specification; docs/MODEL.md describes its rules,
/// and says which of them the `drive` crate implements. Times are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Firmware {
    /// The time with which every command begins.
    pub per_request_overhead_ms: f64,
    /// The factor by which every command overhead is multiplied.
    pub overhead_scale: f64,
    /// The time that the drive itself needs to transfer one sector between its buffer and the bus.
    pub bulk_sector_ms: f64,
    /// The time of one sector of a read on the bus.
    pub bus_read_sector_ms: f64,
    /// The time of one sector of a write on the bus.
    pub bus_write_sector_ms: f64,
    /// Whether a read occupies the bus from its first sector to its last.
    pub hold_bus_read: bool,
    /// Whether a write occupies the bus from its first sector to its last.
    pub hold_bus_write: bool,
    /// The most commands in the drive's own queue.
    pub queue_depth: u32,
    /// The order in which the drive serves its queue. The simulated drive ignores this field: the queue of its `Behaviour`
    /// has an order of its own.
    #[serde(skip_serializing_if = "QueueOrder::is_fcfs")]
    pub queue_order: QueueOrder,
    /// The times that the electronics add to a command.
    pub overheads: Overheads,
    /// The buffer.
    pub cache: Cache,
}

impl Default for Firmware {
    fn default() -> Self {
        Self {
            per_request_overhead_ms: 0.0,
            overhead_scale: 1.0,
            bulk_sector_ms: 0.0,
            bus_read_sector_ms: 0.0,
            bus_write_sector_ms: 0.0,
            hold_bus_read: false,
            hold_bus_write: false,
            queue_depth: 1,
            queue_order: QueueOrder::Fcfs,
            overheads: Overheads::default(),
            cache: Cache::default(),
        }
    }
}

/// The order in which a drive serves the commands in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// First come, first served.
    #[default]
    Fcfs,
    /// By ascending cylinder until no command is ahead of the arm, then by descending cylinder, and so on.
    Elevator,
    /// By ascending cylinder; after the highest again from the lowest.
    CLook,
    /// The command on the nearest cylinder first.
    Sstf,
    /// The command with the shortest positioning time first, rotation included.
    Sptf,
}

impl QueueOrder {
    /// Returns the word for this order in a profile file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Elevator => "elevator",
            Self::CLook => "c-look",
            Self::Sstf => "sstf",
            Self::Sptf => "sptf",
        }
    }

    fn is_fcfs(&self) -> bool {
        *self == Self::Fcfs
    }
}

/// The times in milliseconds that the electronics add to a command. A pair has the time after a read and the time after a
/// write: the direction of the last completed command decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// The overhead of a read whose data is in the buffer.
    pub read_hit: (f64, f64),
    /// The overhead of a read that needs the medium.
    pub read_miss: (f64, f64),
    /// The overhead of a write that is acknowledged from the buffer.
    pub write_hit: (f64, f64),
    /// The overhead of a write that is acknowledged from the medium.
    pub write_miss: (f64, f64),
    /// The time after the last transfer of a read, before its completion.
    pub read_completion: f64,
    /// The time after the last transfer of a write, before its completion.
    pub write_completion: f64,
    /// The time before data moves to the host.
    pub data_preparation: f64,
    /// The time to acquire the bus again for the first time in a command.
    pub first_reselect: f64,
    /// The time to acquire the bus again for the second and each further time in a command.
    pub other_reselect: f64,
    /// The time to release the bus in a read.
    pub read_disconnect: (f64, f64),
    /// The time to release the bus in a write.
    pub write_disconnect: f64,
    /// The least time of the first move of the arm in a write.
    pub minimum_seek_delay: f64,
    /// The overheads of a write if the drive releases the bus twice in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_write_disconnect: Option<ExtraWriteDisconnect>,
}

/// The overheads of a write that follows another write without continuing it, on a drive that releases the bus twice in such
/// a write. They replace [`Overheads::write_miss`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraWriteDisconnect {
    /// The overhead before the first release of the bus.
    pub command_ms: f64,
    /// The time of the first release.
    pub disconnect_ms: f64,
    /// The time between the two releases.
    pub between_ms: f64,
    /// The time of the second release.
    pub second_disconnect_ms: f64,
    /// The overhead in addition to `command_ms` if a seek is needed.
    pub seek_delta_ms: f64,
}

/// The drive's buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Whether data stays in the buffer after a command.
    pub enabled: bool,
    /// The number of segments, the equal parts of the buffer.
    pub segments: u32,
    /// The number of sectors in each segment.
    pub segment_sectors: u32,
    /// The most segments with unwritten data.
    pub write_segments: u32,
    /// Whether one segment is used for writes only.
    pub separate_write_segment: bool,
    /// The extent of read-ahead after the requested sectors.
    pub read_ahead: ReadAhead,
    /// The least read-ahead in sectors.
    pub minimum_read_ahead: u32,
    /// The most read-ahead in sectors; 0 for no bound.
    pub maximum_read_ahead: u32,
    /// Whether read-ahead may replace requested data in the segment: DiskSim's "Read-ahead over requested", as written
    /// in the file. With -1 requested data is dropped at the completion of its read.
    pub read_ahead_over_requested: i32,
    /// Whether a read that is wholly in the buffer of an idle drive starts read-ahead.
    pub read_ahead_on_idle_hit: bool,
    /// Whether the buffer keeps sectors that pass under the head before the requested ones.
    pub read_free_sectors: bool,
    /// The time at which a write is acknowledged.
    pub write_back: WriteBack,
    /// Whether a write that continues the last write is joined to it.
    pub combine_sequential_writes: bool,
    /// Whether read-ahead may stop in the middle of a sector.
    pub stop_in_sector: bool,
    /// Whether a write releases the bus if it must seek.
    pub disconnect_write_if_seek: bool,
    /// Whether a write that is acknowledged from the buffer ends read-ahead.
    pub write_hit_stops_prefetch: bool,
    /// Whether written data in the buffer serves later reads.
    pub read_hits_on_written: bool,
    /// Whether the part of a read that is in the buffer is sent before the rest has been read.
    pub immediate_partial_hit: bool,
    /// Whether a read counts as a hit if it starts at the sector that running read-ahead has reached.
    pub almost_hits: bool,
    /// Whether full, partial and intermediate hits are served while another command uses the arm.
    pub sneaky_hits: (bool, bool, bool),
    /// Whether a write's data may be received while another command uses the arm.
    pub write_prebuffering: bool,
    /// The share of the request (or of the segment) that must be in the buffer before a read acquires the bus.
    pub read_watermark: f64,
    /// The share of the request (or of the segment) below which a write asks the host for more data.
    pub write_watermark: f64,
    /// Whether watermarks are shares of the request rather than of the segment.
    pub watermark_by_request: bool,
    /// The time at which the next command's move may begin: 0 after the completion of the current command, 1 once the
    /// completion has been prepared, 2 at the end of the current command's medium access.
    pub preseek_level: u8,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            enabled: true,
            segments: 1,
            segment_sectors: 256,
            write_segments: 1,
            separate_write_segment: false,
            read_ahead: ReadAhead::None,
            minimum_read_ahead: 0,
            maximum_read_ahead: 0,
            read_ahead_over_requested: 0,
            read_ahead_on_idle_hit: false,
            read_free_sectors: false,
            write_back: WriteBack::None,
            combine_sequential_writes: true,
            stop_in_sector: false,
            disconnect_write_if_seek: false,
            write_hit_stops_prefetch: true,
            read_hits_on_written: true,
            immediate_partial_hit: true,
            almost_hits: false,
            sneaky_hits: (false, false, false),
            write_prebuffering: false,
            read_watermark: 0.0,
            write_watermark: 0.0,
            watermark_by_request: true,
            preseek_level: 0,
        }
    }
}

/// The extent of read-ahead after the requested sectors (DiskSim's "Buffer continuous read").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// No read-ahead.
    #[default]
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    Segment,
    /// To the end of the track of the next LBN, and one track more if the segment's data begins before that track.
    TrackAndNext,
}

/// The time at which a write is acknowledged (DiskSim's "Fast write level").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBack {
    /// When its data is on the medium.
    #[default]
    None,
    /// When its data is in the buffer if it continues the write in progress; otherwise when its data is on the medium.
    Append,
    /// Always when its data is in the buffer.
    Always,
    /// Unknown, because the profile comes from a probe that did not write to the drive.
    Unknown,
}

impl WriteBack {
    /// Returns whether at least some writes are acknowledged from the buffer; `None` if that is unknown.
    pub const fn known(self) -> Option<bool> {
        match self {
            Self::None => Some(false),
            Self::Append | Self::Always => Some(true),
            Self::Unknown => None,
        }
    }
}
