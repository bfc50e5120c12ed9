//! The rules of the firmware: the hardware's, as far as they are known, or DiskSim's, for comparison.

/// The rules in which this model differs from DiskSim 4.0, each with its reason in docs/MODEL.md. Switching one off
/// shows its effect; all off is [`Rules::DISKSIM`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A drive that keeps the sectors that pass before the requested ones (`read_free_sectors`) and can begin a read
    /// anywhere (`zero_latency_read`) has the whole track in its buffer one revolution after the head's arrival.
    pub track_buffer: bool,
    /// A drive whose read-ahead may replace requested data (`read_ahead_over_requested = 1`) drops them as soon as the
    /// host has them: only read-ahead data can be hit.
    pub served_data_leave: bool,
    /// Read-ahead goes on across tracks until the segment is full, and not further.
    pub read_ahead_fills_segment: bool,
    /// A write updates its sectors in the buffer and keeps the rest of a read segment.
    pub writes_keep_reads: bool,
    /// The lower of a pair of hit overheads applies to a command that continues where the last one was; any other
    /// command takes the higher one.
    pub overhead_by_locality: bool,
    /// No medium access is ready earlier after its command than the shortest seek takes.
    pub shortest_access: bool,
    /// A drive requests the bus early enough to have it when the watermark is reached.
    pub early_reselect: bool,
    /// Without write-back, data reach the medium side in bursts, after the bus was released.
    pub write_bursts: bool,
    /// Stopping read-ahead overlaps with the command overhead, and a wait for a sector is ended at once.
    pub overlapped_stop: bool,
    /// Zero-latency access: a head that arrives among a request's sectors begins with the next one there.
    pub zero_latency: bool,
    /// A drive that holds the bus during a read (`hold_bus_read`) passes sectors to the host as they come off the
    /// medium, in their order: such reads have no zero-latency access.
    pub held_bus_in_order: bool,
    /// A drive that holds the bus during a read and has no watermark transfers sectors in bursts, each after it has
    /// landed. The part of a read's times in its file that exceeds hits' and writes' is spent there, while the arm is
    /// free.
    pub read_bursts: bool,
    /// A drive that does not serve reads from written data (`read_hits_on_written = false`) cannot merge them into read
    /// segments: a write empties the segments that it overlaps.
    pub writes_not_merged: bool,
    /// A hit is served while earlier writes are still on their way to the medium.
    pub hits_during_flush: bool,
}

impl Rules {
    /// The hardware's rules.
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

    /// DiskSim 4.0's rules, request for request.
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
