// libnccl-profiler-understudy.so: tells an emulated node which operations NCCL starts. Load it with
// NCCL_PROFILER_PLUGIN=understudy (in the library path, or by its path) and
// UNDERSTUDY_FEED=address:port, an IPv4 address or an IPv6 one in brackets. Without that, or if
// nobody listens, it does nothing.
//
// It never blocks, never fails, and asks NCCL for no event but the start of collectives and
// point-to-point operations, so that NCCL does what it does without it. With these NCCL tells the
// groups in which it launches them: the last one of a group is known as such when the group's event
// ends, and waits for that. What cannot be sent at once waits in a small buffer; what does not fit
// there is dropped and counted.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ctrl/peers/feed_record.h"
#include "tools/nccl_profiler/profiler_interface.h"

namespace {

using understudy::FeedKind;
using understudy::FeedRecord;
namespace nccl = understudy::nccl;

/// The one connection of this process, for all communicators.
struct Feed {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  int fd = -1;
  bool tried = false;
  uint32_t dropped = 0;
  size_t used = 0;
  uint8_t waiting[512 * FeedRecord::kBytes];
};
Feed feed;

/// NCCL starts events of one communicator from several threads: the caller's, and that of host
/// callbacks for what a graph launches.
struct Communicator {
  pthread_mutex_t lock;
  uint64_t hash;
  uint32_t rank;
  uint32_t group;   ///< number of the one that is told, or was
  bool held;        ///< there is a record that may be its group's last
  FeedRecord last;  ///< that one
};

class Guard {
 public:
  explicit Guard(Communicator& communicator) : lock_(communicator.lock) {
    pthread_mutex_lock(&lock_);
  }
  ~Guard() { pthread_mutex_unlock(&lock_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  pthread_mutex_t& lock_;
};

/// Begins to connect; the connection may stand later.
int connect_to(const char* where) {
  char host[64];
  const char* colon = strrchr(where, ':');
  if (colon == nullptr || colon == where) return -1;
  const char* begin = where;
  size_t length = static_cast<size_t>(colon - where);
  if (where[0] == '[' && colon[-1] == ']') {
    ++begin;
    length -= 2;
  }
  if (length == 0 || length >= sizeof host) return -1;
  memcpy(host, begin, length);
  host[length] = '\0';
  char* end = nullptr;
  const unsigned long port = strtoul(colon + 1, &end, 10);
  if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port == 0 || port > 65535) return -1;
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;  // names would have to be looked up
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host, colon + 1, &hints, &found) != 0) return -1;
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) != 0 && errno != EINPROGRESS) {
    close(fd);
    fd = -1;
  }
  freeaddrinfo(found);
  if (fd >= 0) {
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  return fd;
}

/// Until the connection stands, or for so long: nothing but the next record would send the first one,
/// which is of an operation that waits for it. SYNs are sent again after a second.
constexpr int kConnectMs = 2000;

void await_connection(int fd) {
  timespec begun{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &begun);
  for (int left = kConnectMs; left > 0;) {
    pollfd one{fd, POLLOUT, 0};
    if (poll(&one, 1, left) >= 0 || errno != EINTR) return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    left = kConnectMs - static_cast<int>((now.tv_sec - begun.tv_sec) * 1000 +
                                         (now.tv_nsec - begun.tv_nsec) / 1'000'000);
  }
}

/// Whether there is a feed. The first communicator makes it.
bool open_feed() {
  pthread_mutex_lock(&feed.lock);
  if (!feed.tried) {
    feed.tried = true;
    const char* where = getenv("UNDERSTUDY_FEED");
    if (where != nullptr) feed.fd = connect_to(where);
    if (feed.fd >= 0) await_connection(feed.fd);
  }
  const bool open = feed.fd >= 0;
  pthread_mutex_unlock(&feed.lock);
  return open;
}

/// Sends what waits as far as that goes at once.
void push() {
  size_t sent = 0;
  while (feed.fd >= 0 && sent < feed.used) {
    const ssize_t n =
        send(feed.fd, feed.waiting + sent, feed.used - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      sent += static_cast<size_t>(n);
    } else if (n < 0 && (errno == EAGAIN || errno == ENOTCONN || errno == EINTR)) {
      break;  // ENOTCONN: the connection is still being made
    } else {
      close(feed.fd);
      feed.fd = -1;
    }
  }
  memmove(feed.waiting, feed.waiting + sent, feed.used - sent);
  feed.used -= sent;
}

void tell(FeedRecord& record) {
  const int saved = errno;
  pthread_mutex_lock(&feed.lock);
  if (feed.fd >= 0 && feed.used + FeedRecord::kBytes > sizeof feed.waiting) push();
  if (feed.fd < 0 || feed.used + FeedRecord::kBytes > sizeof feed.waiting) {
    ++feed.dropped;
  } else {
    record.dropped = feed.dropped;
    record.encode(
        std::span<uint8_t, FeedRecord::kBytes>(feed.waiting + feed.used, FeedRecord::kBytes));
    feed.used += FeedRecord::kBytes;
    push();
  }
  pthread_mutex_unlock(&feed.lock);
  errno = saved;
}

// Version 1 has numbers, as NCCL 2.23 counts them.
constexpr const char* kFunctions[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
constexpr const char* kTypes[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                  "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                  "ncclFloat64", "ncclBfloat16"};
constexpr const char* kAlgorithms[] = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
constexpr const char* kProtocols[] = {"LL", "LL128", "SIMPLE"};

template <size_t N>
const char* word(const char* const (&words)[N], uint8_t number) {
  return number < N ? words[number] : "Unknown";
}
template <size_t N>
const char* word(const char* const (&)[N], const char* text) {
  return text;
}

/// Tells the record that was held back, which is its group's last if nothing follows it there.
void release(Communicator& communicator, bool last) {
  if (!communicator.held) return;
  communicator.held = false;
  communicator.last.last = last ? 1 : 0;
  tell(communicator.last);
}

/// The group of an event, which is what start() returned for that; null if it has none.
template <typename Event, typename Part>
const void* group_of(const Event& event, const Part& part) {
  if constexpr (requires { part.group; }) {
    return part.group;
  } else {
    return event.parent;
  }
}

/// Communicator of an event: NCCL 2.27 and later tell it once, earlier ones each time.
template <typename Part>
uint64_t hash_of(const Communicator& communicator, const Part& part) {
  if constexpr (requires { part.communicator; }) {
    return part.communicator;
  } else {
    return communicator.hash;
  }
}

template <uint8_t version, typename Event>
int start(void* context, void** handle, Event* event) {
  if (handle != nullptr) *handle = nullptr;
  if (context == nullptr || event == nullptr) return nccl::kSuccess;
  Communicator& communicator = *static_cast<Communicator*>(context);
  const Guard guard(communicator);
  if (event->kind == nccl::kGroup) {
    release(communicator, true);
    if (++communicator.group == 0) ++communicator.group;  // 0: alone
    if (handle != nullptr) *handle = &communicator;
    return nccl::kSuccess;
  }
  FeedRecord record;
  bool grouped = false;
  record.version = version;
  record.rank = static_cast<uint32_t>(event->rank);
  if (event->kind == nccl::kCollective) {
    const auto& c = event->collective;
    grouped = group_of(*event, c) == &communicator;
    record.kind = FeedKind::kCollective;
    record.communicator = hash_of(communicator, c);
    record.sequence = c.sequence;
    record.count = c.count;
    record.other = c.root;
    record.channels = c.channels;
    record.warps = c.warps;
    FeedRecord::set(record.function, word(kFunctions, c.function));
    FeedRecord::set(record.type, word(kTypes, c.type));
    FeedRecord::set(record.algorithm, word(kAlgorithms, c.algorithm));
    FeedRecord::set(record.protocol, word(kProtocols, c.protocol));
  } else if (event->kind == nccl::kPointToPoint) {
    const auto& p = event->point_to_point;
    grouped = group_of(*event, p) == &communicator;
    record.kind = FeedKind::kPointToPoint;
    record.communicator = hash_of(communicator, p);
    record.count = p.count;
    record.other = p.peer;
    if constexpr (requires { p.channels; }) record.channels = p.channels;
    FeedRecord::set(record.function, word(kFunctions, p.function));
    FeedRecord::set(record.type, word(kTypes, p.type));
  } else {
    return nccl::kSuccess;
  }
  release(communicator, !grouped);
  if (!grouped) {
    tell(record);
    return nccl::kSuccess;
  }
  record.group = communicator.group;
  communicator.last = record;
  communicator.held = true;
  return nccl::kSuccess;
}

/// Of the events only groups have a handle.
int stop(void* handle) {
  if (handle == nullptr) return nccl::kSuccess;
  Communicator& communicator = *static_cast<Communicator*>(handle);
  const Guard guard(communicator);
  release(communicator, true);
  return nccl::kSuccess;
}
int record_state(void*, int, void*) { return nccl::kSuccess; }

int init(void** context, int* mask, uint64_t hash, int rank) {
  *context = nullptr;
  *mask = 0;
  if (!open_feed()) return nccl::kSuccess;
  auto* communicator = static_cast<Communicator*>(malloc(sizeof(Communicator)));
  if (communicator == nullptr) return nccl::kSuccess;
  *communicator = {PTHREAD_MUTEX_INITIALIZER, hash, static_cast<uint32_t>(rank), 0, false, {}};
  *context = communicator;
  *mask = nccl::kCollective | nccl::kPointToPoint;
  return nccl::kSuccess;
}
int init_v1(void** context, int* mask) { return init(context, mask, 0, 0); }
int init_v4(void** context, int* mask, const char*, uint64_t hash, int, int, int rank,
            nccl::Logger) {
  return init(context, mask, hash, rank);
}
int init_v5(void** context, uint64_t hash, int* mask, const char*, int, int, int rank,
            nccl::Logger) {
  return init(context, mask, hash, rank);
}

/// The connection stays: other communicators use it, and NCCL makes new ones.
int finalize(void* context) {
  if (context != nullptr) release(*static_cast<Communicator*>(context), true);
  free(context);
  pthread_mutex_lock(&feed.lock);
  push();
  pthread_mutex_unlock(&feed.lock);
  return nccl::kSuccess;
}

constexpr const char* kName = "Understudy";

}  // namespace

extern "C" {
#define EXPORTED __attribute__((visibility("default")))
EXPORTED extern nccl::TableV1 ncclProfiler_v1;
EXPORTED extern nccl::TableV2 ncclProfiler_v2;
EXPORTED extern nccl::TableV3 ncclProfiler_v3;
EXPORTED extern nccl::TableV4 ncclProfiler_v4;
EXPORTED extern nccl::TableV5 ncclProfiler_v5;
nccl::TableV1 ncclProfiler_v1 = {kName, init_v1,      start<1, nccl::EventV1>,
                                 stop,  record_state, finalize};
nccl::TableV2 ncclProfiler_v2 = {kName, init_v1,      start<2, nccl::EventV2>,
                                 stop,  record_state, finalize};
nccl::TableV3 ncclProfiler_v3 = {kName, init_v1,      start<3, nccl::EventV3>,
                                 stop,  record_state, finalize};
nccl::TableV4 ncclProfiler_v4 = {kName, init_v4,      start<4, nccl::EventV4>,
                                 stop,  record_state, finalize};
nccl::TableV5 ncclProfiler_v5 = {kName, init_v5,      start<5, nccl::EventV5>,
                                 stop,  record_state, finalize};
}
