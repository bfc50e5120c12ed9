//! The cache cleaner against a naive map and the most hostile host that the rules allow.
//!
//! `swarm` draws caches, hosts and clients; `dangers` has each danger in its smallest form, `policies` the order of
//! write-backs and the choice of victims, `core` has the scheduler's core for a host. Bugs planted one at a time and
//! removed again, and the tests that caught them (`*` is the swarm):
//!
//! | planted | caught by |
//! |---|---|
//! | a write-back makes the buffer clean whatever was written meanwhile | `*`, `a_buffer_dirtied_during_its_write_stays_dirty` and six more |
//! | while bytes are out, the task is aborted and registered anew | `*`, `a_flush_waits_for_a_write_whose_bytes_are_out` |
//! | a trim forgets that bytes are out | `*`: old bytes land on newer ones |
//! | a trimmed buffer leaves while its task is registered | `*` |
//! | a buffer leaves while a foreground write of it is under way | `*` |
//! | a pinned buffer leaves, or is written | `*`, `a_pinned_buffer_stays`, `a_locked_buffer_says_not_now` |
//! | a locked buffer gives its bytes | `a_locked_buffer_says_not_now` |
//! | a buffer of which half was written for free is not promoted | `promoted_when_half_of_it_is_written` |
//! | forced work is not promoted | `*` (it never ends) and six more |
//! | a promotion that failed because the buffer was locked is not repeated | `*` |
//! | a promotion that failed for lack of room is not repeated | `*` |
//! | the task keeps its range when the dirty sectors change | `a_dead_buffer_is_not_written`, `a_partial_write_of_an_absent_block_reads_nothing` |
//! | dead buffers are written | `*`, `a_dead_buffer_is_not_written` |
//! | sectors between two dirty ones are written though they were never read | `*`, `a_partial_write_of_an_absent_block_reads_nothing` |
//! | bytes read overwrite newer ones written meanwhile | `*` |
//! | a write overtakes an earlier one that waits for its place | `*`, since the host polls late |
//! | a victim takes new bytes while it is written | `a_waiting_call_gets_its_place_although_the_victim_is_written_all_the_time` |
//! | a victim that is still dirty is not forced again | `*`, `a_victim_that_is_written_in_two_parts_is_forced_twice` |
//! | a flush is answered when its buffers are forced | `*`, `a_flush_waits_for_a_write_whose_bytes_are_out` and ten more |
//! | a flush counts a sector as written that was not among the bytes handed out | `*`, `written_past_the_task_while_its_bytes_are_out_and_flushed` |
//! | a flush waits for later writes | `*`, `a_flush_does_not_wait_for_later_writes` |
//! | a flush does not report failures | `*`, `a_failed_write_stays_dirty_and_is_reported` |
//! | a failed write makes the buffer clean | `*`, `a_failed_write_stays_dirty_and_is_reported` and two more |
//! | a failed write is not tried again | `*`, `a_failed_write_stays_dirty_and_is_reported` |
//! | a bad sector fails all reads of its block | `*`, `a_bad_sector_fails_only_calls_for_it` |
//! | calls wait for ever for room that cannot come | `no_room_for_any_call_is_an_error_and_not_a_hang` |
//! | the contents that survive a crash lack the bytes under way | `*`, `contents_that_survived_a_crash_are_written` |
//! | a read's completion is confused with that of the write beside it | `*`, `a_read_and_a_write_of_one_block_end_each_for_itself` |
//! | tasks that were refused are forgotten | `refused_buffers_are_written_once_they_are_forced` |
//! | the syncer does not look ahead | `a_syncer_that_looks_seldom_looks_ahead` |
//! | a buffer dirtied again keeps its age | `a_buffer_dirtied_again_during_its_write_is_young` |
//! | a buffer stays forced when it is dirtied again | `a_flush_does_not_wait_for_later_writes` |
//! | a flush that comes after the bytes were taken is counted as the cause | `a_flush_waits_for_a_write_whose_bytes_are_out` |
//! | the buffer daemon stops below the high watermark | `a_daemon_that_forces_one_at_a_time_goes_on_to_the_low_watermark` |
//! | FREE-CLEAN takes any clean buffer | both `free_clean` tests |
//! | SPTF-Evict takes the oldest | `a_dirty_victim_is_the_oldest_under_lru_and_the_nearest_under_sptf_evict` |
//!
//! Four of these were in the first version and were found by the swarm: the completion of the write beside a read,
//! the sector that was not among the bytes handed out, and two ways for a victim to be forgotten. Promoting a buffer
//! while it is locked is not caught, because that does no harm: the write is refused, and the buffer is promoted
//! again.

mod core;
mod dangers;
mod host;
mod model;
mod policies;
mod rig;
mod swarm;
