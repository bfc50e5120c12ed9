//! Which rules the firmware follows: the hardware's, as far as we know them, or DiskSim's, for comparison.

/// Rules by which we differ from DiskSim 4.0, each with its reason in docs/MODEL.md. Switching one off shows what it
/// buys; all off is [`Rules::DISKSIM`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A drive that keeps what passes before the requested sectors (`read_free_sectors`) and can begin a read
    /// anywhere (`zero_latency_read`) has the whole track in its buffer one turn after the head arrived.
    pub track_buffer: bool,
    /// A drive whose read-ahead may go over requested data (`read_ahead_over_requested = 1`) gives them up as soon
    /// as the host has them: only what was read ahead is left to hit.
    pub served_data_leave: bool,
    /// Read-ahead goes on across tracks until the segment is full, and not further.
    pub read_ahead_fills_segment: bool,
    /// A write updates what the buffer holds of its sectors and leaves the rest of a read segment alone.
    pub writes_keep_reads: bool,
    /// The lower of a pair of hit overheads is what a command costs that goes on where the last one was; any other
    /// command pays the higher.
    pub overhead_by_locality: bool,
    /// No medium access is ready sooner after its command than the shortest seek takes.
    pub shortest_access: bool,
    /// A drive asks for the bus early enough to have it when the watermark is reached.
    pub early_reselect: bool,
    /// Without write-back, data reach the medium side in bursts, after the bus has been let go of.
    pub write_bursts: bool,
    /// Stopping read-ahead runs beside the command overhead, and a wait for a sector is given up at once.
    pub overlapped_stop: bool,
    /// Zero-latency access: what of a request the head arrives at first is read or written first.
    pub zero_latency: bool,
    /// A drive that holds the bus through a read (`hold_bus_read`) passes sectors to the host as they come off the medium,
    /// in their order: for such reads there is no zero-latency access.
    pub held_bus_in_order: bool,
    /// A drive that holds the bus through a read and has no watermark hands sectors over in bursts, each when it has landed.
    /// What its file gives reads more than hits and writes is spent there, and does not keep the arm.
    pub read_bursts: bool,
    /// A drive that does not serve reads from written data (`read_hits_on_written = false`) cannot merge them into what it
    /// has read: a write empties the segments that it overlaps.
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

    /// DiskSim 4.0's, request for request.
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
