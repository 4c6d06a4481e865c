// Loaded into a program (LD_PRELOAD) in a guest in virtual time: lets time pass where the program
// polls. In such a guest computing takes no time, and so a loop that looks at a completion queue or
// the clock until something happens would see nothing happen for ever. Here a second empty look at a
// queue, with nothing found at others in between, waits for the next frame of any network device,
// exactly: what the frame brings is there when the wait is over.
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>

#include "tools/rigs/guest_poll/frames.h"
#include "tools/rigs/guest_poll/watched_memory.h"

namespace {

/// A thread that gives way so often without anything else waits for time.
constexpr unsigned kYields = 16;
constexpr timespec kYieldWait{0, 1'000};
/// Looks at the clock one after another take 256 ns each. A program that does nothing else waits
/// for a time to come; each look then takes as long as this.
constexpr unsigned kLooks = 1000;
constexpr timespec kLookWait{0, 10'000};

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

thread_local unsigned yields = 0, looks = 0;
/// Completion queues at which the last looks found nothing: a frame that has come since the last
/// wait may be for any that is not among them.
class EmptyLooks {
 public:
  bool has(const ibv_cq* cq) const {
    const auto end = all_.begin() + count_;
    return std::find(all_.begin(), end, cq) != end;
  }
  void add(const ibv_cq* cq) {
    if (count_ < all_.size()) all_[count_++] = cq;
  }
  bool full() const { return count_ == all_.size(); }
  void clear() { count_ = 0; }

 private:
  std::array<const ibv_cq*, 64> all_ = {};
  size_t count_ = 0;
};
thread_local EmptyLooks empty_looks;

void busy() { yields = looks = 0; }

using PollCq = int (*)(ibv_cq*, int, ibv_wc*);
std::atomic<PollCq> provider_poll_cq{nullptr};

int done(const ibv_cq* cq, int found) {
  if (found == 0) {
    empty_looks.add(cq);
    return found;
  }
  empty_looks.clear();
  if (found > 0) guest_poll::look_again();
  return found;
}

int poll_cq(ibv_cq* cq, int entries, ibv_wc* completions) {
  const PollCq poll = provider_poll_cq.load(std::memory_order_acquire);
  const int found = poll(cq, entries, completions);
  busy();
  // A first empty look may only be the end of a loop that took what there was, before other work.
  const bool waits = found == 0 && (empty_looks.has(cq) || empty_looks.full());
  if (!waits) return done(cq, found);
  guest_poll::wait_for_frame();
  empty_looks.clear();
  return done(cq, poll(cq, entries, completions));
}

ibv_mr* watched(ibv_mr* region, int access) {
  if (region != nullptr && (access & IBV_ACCESS_REMOTE_WRITE) != 0) {
    guest_poll::watch(region, region->addr, region->length);
  }
  return region;
}

/// After many looks at the clock in a row.
void look() {
  if (++looks < kLooks) return;
  clock_nanosleep(CLOCK_MONOTONIC, 0, &kLookWait, nullptr);
}

}  // namespace

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  ibv_context* context = next<ibv_context* (*)(ibv_device*)>("ibv_open_device")(device);
  if (context == nullptr || context->ops.poll_cq == poll_cq) return context;
  provider_poll_cq.store(context->ops.poll_cq, std::memory_order_release);
  context->ops.poll_cq = poll_cq;
  // The first frames that matter come after this.
  guest_poll::open_frames();
  return context;
}

/// What is not acknowledged is done when its last packet goes out, and that may be later than the
/// call: rdma_rxe lets 64 packets of a queue pair wait for their wire.
int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  static const auto real = next<int (*)(ibv_qp*, ibv_qp_attr*, int)>("ibv_modify_qp");
  if (qp->qp_type != IBV_QPT_RC) guest_poll::count_sent_frames();
  guest_poll::look_again();
  return real(qp, attributes, mask);
}

#undef ibv_reg_mr
ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, size_t bytes, int access) {
  static const auto real = next<ibv_mr* (*)(ibv_pd*, void*, size_t, int)>("ibv_reg_mr");
  return watched(real(domain, address, bytes, access), access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, size_t bytes, uint64_t remote_address,
                         unsigned access) {
  using Register = ibv_mr* (*)(ibv_pd*, void*, size_t, uint64_t, unsigned);
  static const auto real = next<Register>("ibv_reg_mr_iova2");
  return watched(real(domain, address, bytes, remote_address, access), static_cast<int>(access));
}

int ibv_dereg_mr(ibv_mr* region) {
  static const auto real = next<int (*)(ibv_mr*)>("ibv_dereg_mr");
  guest_poll::forget(region);
  return real(region);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  static const auto real = next<void* (*)(size_t, size_t)>("memalign");
  return real(alignment, guest_poll::watches_memory() ? guest_poll::whole_pages(bytes) : bytes);
}

int sched_yield() {
  static const auto real = next<int (*)()>("sched_yield");
  if (++yields >= kYields) {
    yields = 0;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &kYieldWait, nullptr);
  }
  return real();
}

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static const auto real = next<int (*)(clockid_t, timespec*)>("clock_gettime");
  look();
  return real(clock, time);
}

int gettimeofday(timeval* time, void* zone) noexcept {
  static const auto real = next<int (*)(timeval*, void*)>("gettimeofday");
  look();
  return real(time, zone);
}

}  // extern "C"
