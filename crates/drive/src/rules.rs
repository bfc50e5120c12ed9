//! The rules by which the simulated firmware works: those of real drives, as far as they are known, or those of DiskSim.

/// The rules in which this firmware differs from DiskSim 4.0; docs/MODEL.md gives the reason for each. Switching one off
/// shows its effect. With all off the firmware works as DiskSim's ([`Rules::DISKSIM`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A drive that keeps the sectors that pass before the requested ones (`read_free_sectors`) and has zero-latency reads
    /// (`zero_latency_read`) has the whole track in its buffer one revolution after the head's arrival.
    pub track_buffer: bool,
    /// A drive whose read-ahead may replace requested data (`read_ahead_over_requested` is not 0) drops this data as soon
    /// as the host has it. Then only data that was read ahead can be hit.
    pub served_data_leave: bool,
    /// Read-ahead continues over the ends of tracks until the segment is full, and no further.
    pub read_ahead_fills_segment: bool,
    /// A write updates its sectors in the buffer and leaves the other sectors of a read segment valid.
    pub writes_keep_reads: bool,
    /// A read hit after a read takes the higher of its two overheads in the profile unless it continues that read. A
    /// buffered write after a write takes the higher one unless it is on the same track.
    pub overhead_by_locality: bool,
    /// The head is ready for a read from the medium no earlier after the command than the shortest seek takes.
    pub shortest_access: bool,
    /// A drive requests the bus early enough to have it when the watermark is reached.
    pub early_reselect: bool,
    /// Without write-back, the part of the drive that writes the medium gets the data in bursts, after the bus was released.
    pub write_bursts: bool,
    /// The end of read-ahead overlaps with the command overhead, and read-ahead that is waiting for a sector ends at once.
    pub overlapped_stop: bool,
    /// The zero-latency accesses of the profile work: a head that arrives among a request's sectors begins with the next.
    pub zero_latency: bool,
    /// A drive that holds the bus during a read (`hold_bus_read`) sends sectors to the host in the order in which they come
    /// from the medium, so that such reads have no zero-latency access.
    pub held_bus_in_order: bool,
    /// A drive that holds the bus during a read and has no watermark sends sectors in bursts, each after all of it has been
    /// read. The time by which the profile's read overhead exceeds that of hits, and its seeks for reads those for writes,
    /// is spent on the bus after the access, while the arm is free.
    pub read_bursts: bool,
    /// A drive that does not serve reads from written data (`read_hits_on_written = false`) cannot merge this data into read
    /// segments: a write empties the segments that it overlaps.
    pub writes_not_merged: bool,
    /// A read hit is served while earlier writes are not yet on the medium.
    pub hits_during_flush: bool,
}

impl Rules {
    /// The rules of real drives.
    pub const HARDWARE: Self = Self {
        track_buffer: true,
        served_data_leave: true,
        read_ahead_fills_segment: true,
        writes_keep_reads: true,
        overhead_by_locality: true,
        shortest_access: true,
        early_reselect: true,
        write_bursts: true,
        overlapped_stop: true,
        zero_latency: true,
        held_bus_in_order: true,
        read_bursts: true,
        writes_not_merged: true,
        hits_during_flush: true,
    };

    /// The rules of DiskSim 4.0.
    pub const DISKSIM: Self = Self {
        track_buffer: false,
        served_data_leave: false,
        read_ahead_fills_segment: false,
        writes_keep_reads: false,
        overhead_by_locality: false,
        shortest_access: false,
        early_reselect: false,
        write_bursts: false,
        overlapped_stop: false,
        zero_latency: false,
        held_bus_in_order: false,
        read_bursts: false,
        writes_not_merged: false,
        hits_during_flush: false,
    };
}

impl Default for Rules {
    fn default() -> Self {
        Self::HARDWARE
    }
}
