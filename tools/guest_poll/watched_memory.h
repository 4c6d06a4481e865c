// Programs that look at their memory until another node has written there.
#pragma once

#include <cstddef>

namespace guest_poll {

/// Whether this program is one: ib_write_lat is, others where GUEST_POLL_MEMORY is set.
bool watches_memory();
/// Nothing else may be on pages that are watched: what an allocation of whole pages takes.
size_t whole_pages(size_t bytes);
/// From now on other nodes may write there.
void watch(void* address, size_t bytes);
void forget(void* address);
/// The program has done something else than to look: the next look at each page counts again.
void look_again();

}  // namespace guest_poll
