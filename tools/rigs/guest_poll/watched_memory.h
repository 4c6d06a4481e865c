// Programs that look at their memory until another node has written there.
#pragma once

#include <cstddef>

namespace guest_poll {

/// Whether this program is one: ib_write_lat is, others where GUEST_POLL_MEMORY is set.
bool watches_memory();
/// Nothing else may be on pages that are watched: what an allocation of whole pages takes.
size_t whole_pages(size_t bytes);
/// From now on other nodes may write there. `region` tells it from others, of the same memory too.
/// What is one too many is not watched, which standard error is told.
void watch(const void* region, void* address, size_t bytes);
/// `region` need not be watched.
void forget(const void* region);
/// The program has done something else than to look: the next look at each page counts again.
void look_again();

}  // namespace guest_poll
