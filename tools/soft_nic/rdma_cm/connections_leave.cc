// The end of a process that has connections. A kernel's connection manager outlives programs: it
// disconnects what they leave behind and answers DREQs that come again (rule A9.10). Ours ends with
// its process, which therefore stays for as long as that takes.
#include <chrono>
#include <thread>

#include "tools/soft_nic/rdma_cm/connections.h"

namespace understudy::soft_nic {

namespace {

/// For a peer whose DREQ was answered: who repeats it does so every quarter of a second, as we do.
/// (Other implementations take seconds. A program that waited for them each time would be worse
/// than an answer that is lost now and then.)
constexpr Duration kPatience = Duration::ms(600);
constexpr Duration kLongest = Duration::s(2);
constexpr auto kLook = std::chrono::microseconds(500);

}  // namespace

/// False where nobody needs us.
bool Connections::begin_to_leave() {
  leaving_ = true;
  agent_.close(nic_.now());
  answer(true);
  if (!agent_.is_needed(nic_.now(), kPatience)) return false;
  nic_.forget_queue_pairs();  // their memory may go at any time now
  return true;
}

void Connections::leave() {
  const Time end = nic_.now() + kLongest;
  for (bool begun = false; nic_.now() < end; std::this_thread::sleep_for(kLook)) {
    // exit() may have been called by a signal's handler, above a call that holds the lock.
    const std::unique_lock lock(nic_.mutex(), std::try_to_lock);
    if (!lock.owns_lock()) continue;
    if (!begun && !begin_to_leave()) return;
    begun = true;
    if (!agent_.is_needed(nic_.now(), kPatience)) return;
  }
}

}  // namespace understudy::soft_nic
