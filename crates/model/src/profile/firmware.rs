//! The drive's electronics: overheads, bus, queue and buffer.

use serde::{Deserialize, Serialize};

/// The drive's electronics. Names and meanings follow DiskSim's drive specification, whose rules
/// (docs/MODEL.md) the `drive` crate implements; times are milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Firmware {
    /// The time of every command before anything else.
    pub per_request_overhead_ms: f64,
    /// The factor of every command overhead.
    pub overhead_scale: f64,
    /// Time for one sector between buffer and host, at the drive's side.
    pub bulk_sector_ms: f64,
    /// Time for one sector on the bus, read.
    pub bus_read_sector_ms: f64,
    /// Time for one sector on the bus, write.
    pub bus_write_sector_ms: f64,
    /// Whether a read keeps the bus from its first sector to its last.
    pub hold_bus_read: bool,
    /// Whether a write keeps the bus from its first sector to its last.
    pub hold_bus_write: bool,
    /// The most commands that the drive queues inside.
    pub queue_depth: u32,
    /// The order of their service.
    #[serde(skip_serializing_if = "QueueOrder::is_fcfs")]
    pub queue_order: QueueOrder,
    /// Command overheads.
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
    /// In one direction over the cylinders until none is left ahead, then in the other.
    Elevator,
    /// In ascending cylinders, then again from the lowest.
    CLook,
    /// The nearest cylinder first.
    Sstf,
    /// The shortest positioning time first, rotation included.
    Sptf,
}

impl QueueOrder {
    /// Returns the word in the profile file.
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

/// Command overheads in milliseconds; pairs are (after a read, after a write): the direction of the last completed
/// command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// A read that is in the buffer.
    pub read_hit: (f64, f64),
    /// A read that needs the medium.
    pub read_miss: (f64, f64),
    /// A write that is acknowledged from the buffer.
    pub write_hit: (f64, f64),
    /// A write that is acknowledged from the medium.
    pub write_miss: (f64, f64),
    /// At the end of a read.
    pub read_completion: f64,
    /// At the end of a write.
    pub write_completion: f64,
    /// Before data moves to the host.
    pub data_preparation: f64,
    /// The time to acquire the bus again, the first time in a command.
    pub first_reselect: f64,
    /// The time to acquire the bus again, the second and each further time in a command.
    pub other_reselect: f64,
    /// The time to release the bus in a read.
    pub read_disconnect: (f64, f64),
    /// The time to release the bus in a write.
    pub write_disconnect: f64,
    /// The least time of a move of a write that does not follow the last.
    pub minimum_seek_delay: f64,
    /// A second release of the bus in a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_write_disconnect: Option<ExtraWriteDisconnect>,
}

/// A drive that releases the bus twice in a write: these overheads replace the write overhead.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraWriteDisconnect {
    /// Command overhead.
    pub command_ms: f64,
    /// The first disconnect.
    pub disconnect_ms: f64,
    /// The time between the two.
    pub between_ms: f64,
    /// The second disconnect.
    pub second_disconnect_ms: f64,
    /// The additional command overhead if a seek is needed.
    pub seek_delta_ms: f64,
}

/// The drive's buffer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// Whether data stay in the buffer after a command.
    pub enabled: bool,
    /// Equal parts of the buffer.
    pub segments: u32,
    /// Sectors in each.
    pub segment_sectors: u32,
    /// The most segments with unwritten data.
    pub write_segments: u32,
    /// Whether writes have a segment of their own.
    pub separate_write_segment: bool,
    /// The extent of read-ahead after the requested sectors.
    pub read_ahead: ReadAhead,
    /// The least read-ahead in sectors.
    pub minimum_read_ahead: u32,
    /// The most read-ahead in sectors; 0 for no bound.
    pub maximum_read_ahead: u32,
    /// Whether requested data may be dropped from the segment, and how much of it must stay: DiskSim's
    /// "Read-ahead over requested" as written in the file (-1: dropped at completion).
    pub read_ahead_over_requested: i32,
    /// Whether a full hit on an idle drive starts read-ahead.
    pub read_ahead_on_idle_hit: bool,
    /// Whether sectors that pass under the head before the requested ones are kept.
    pub read_free_sectors: bool,
    /// The time at which a write is acknowledged.
    pub write_back: WriteBack,
    /// Whether a write that continues the last joins it.
    pub combine_sequential_writes: bool,
    /// Whether read-ahead may stop inside a sector.
    pub stop_in_sector: bool,
    /// Whether a write releases the bus if it must seek.
    pub disconnect_write_if_seek: bool,
    /// Whether a write hit ends read-ahead.
    pub write_hit_stops_prefetch: bool,
    /// Whether written data may serve later reads.
    pub read_hits_on_written: bool,
    /// Whether the cached part of a read is sent before the rest is there.
    pub immediate_partial_hit: bool,
    /// Whether a read that starts where running read-ahead is now counts as a hit.
    pub almost_hits: bool,
    /// Whether hits are served while another command has the arm (full, partial, intermediate).
    pub sneaky_hits: (bool, bool, bool),
    /// Whether a write's data may be received while another command has the arm.
    pub write_prebuffering: bool,
    /// The share of the request (or of the segment) that must be in the buffer before a read takes the bus.
    pub read_watermark: f64,
    /// The share below which a write asks for more data.
    pub write_watermark: f64,
    /// Whether watermarks are shares of the request rather than of the segment.
    pub watermark_by_request: bool,
    /// The time at which the next command's move may begin: 0 after completion, 1 once it is prepared, 2 at the end of
    /// the medium access.
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
    /// To the end of the track of the next LBN, and one track more for a stream.
    TrackAndNext,
}

/// The time at which a write is acknowledged (DiskSim's "Fast write level").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBack {
    /// From the medium.
    #[default]
    None,
    /// From the buffer for a stream that appends to the data being written, otherwise from the medium.
    Append,
    /// From the buffer, always.
    Always,
    /// Not measured, because a probe did not write to the drive.
    Unknown,
}

impl WriteBack {
    /// Returns whether writes are acknowledged from the buffer, if that is known.
    pub const fn known(self) -> Option<bool> {
        match self {
            Self::None => Some(false),
            Self::Append | Self::Always => Some(true),
            Self::Unknown => None,
        }
    }
}
