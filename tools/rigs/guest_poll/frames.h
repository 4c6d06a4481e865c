// Waits for what a network device does: the only thing that happens in virtual time without the
// program.
#pragma once

namespace guest_poll {

/// So that a first wait takes no longer than others: opening takes the kernel a while.
void open_frames();
/// Until a frame comes in on any device that this thread has not waited for yet, or 10 ms. False: a
/// signal came.
bool wait_for_frame();
/// From now on a frame that goes out ends a wait, too: what is not acknowledged is done by it.
void count_sent_frames();

}  // namespace guest_poll
