// The C interface that NCCL's profiler plugins have, as far as this one needs it: what NCCL 2.23 to
// 2.30 pass to ncclProfiler_v1 to _v5 of collectives and point-to-point operations. Facts about
// layouts, in our own words; the numbers below were compared with those of NVIDIA's headers
// (plugins/profiler/example/nccl/profiler_v1.h to _v5.h of NCCL 2.30) on x86-64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace understudy::nccl {

inline constexpr int kSuccess = 0;  ///< ncclSuccess
/// Kinds of events, and masks. NCCL tells a group, which is what one kernel carries out, wherever
/// it tells what is in it; the group's event begins before and ends behind these.
inline constexpr int kGroup = 1 << 0, kCollective = 1 << 1, kPointToPoint = 1 << 2;

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);

struct CollectiveV1 {
  const char* name;
  uint64_t communicator;
  uint64_t sequence;
  uint8_t function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  uint8_t type;
  uint32_t reduction;
  size_t traffic;
  uint8_t channels;
  uint8_t warps;
  uint8_t algorithm;
  uint8_t protocol;
  int collnet;
  int nvls;
};
struct PointToPointV1 {
  const char* name;
  uint64_t communicator;
  uint8_t function;
  void* buffer;
  uint8_t type;
  size_t count;
  int peer;
};

struct CollectiveV2 {
  const char* name;
  uint64_t communicator;
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* type;
  size_t traffic;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct PointToPointV2 {
  const char* name;
  uint64_t communicator;
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
};

struct CollectiveV3 {
  const char* name;
  uint64_t communicator;
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* type;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
using PointToPointV3 = PointToPointV2;

struct CollectiveV4 {
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* type;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};
struct PointToPointV4 {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
};

// Up to version 4 the event's parent is the group, in version 5 that is a call of the program.
struct CollectiveV5 {
  uint64_t sequence;
  const char* function;
  const void* send_buffer;
  void* receive_buffer;
  size_t count;
  int root;
  const char* type;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* group;
};
struct PointToPointV5 {
  const char* function;
  void* buffer;
  const char* type;
  size_t count;
  int peer;
  uint8_t channels;
  void* group;
};

/// An event that begins. NCCL's union has more members, and is larger.
template <typename Kind, typename Collective, typename PointToPoint>
struct Event {
  Kind kind;
  void* parent;
  int rank;
  union {
    Collective collective;
    PointToPoint point_to_point;
  };
};
using EventV1 = Event<uint8_t, CollectiveV1, PointToPointV1>;
using EventV2 = Event<uint8_t, CollectiveV2, PointToPointV2>;
using EventV3 = Event<uint8_t, CollectiveV3, PointToPointV3>;
using EventV4 = Event<uint8_t, CollectiveV4, PointToPointV4>;
using EventV5 = Event<uint64_t, CollectiveV5, PointToPointV5>;

/// The table that NCCL calls.
template <typename Init, typename Event>
struct Table {
  const char* name;
  Init init;
  int (*start)(void* context, void** handle, Event* event);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};
using InitV1 = int (*)(void** context, int* mask);
using InitV4 = int (*)(void** context, int* mask, const char* name, uint64_t communicator,
                       int nodes, int ranks, int rank, Logger logger);
using InitV5 = int (*)(void** context, uint64_t communicator, int* mask, const char* name,
                       int nodes, int ranks, int rank, Logger logger);
using TableV1 = Table<InitV1, EventV1>;
using TableV2 = Table<InitV1, EventV2>;
using TableV3 = Table<InitV1, EventV3>;
using TableV4 = Table<InitV4, EventV4>;
using TableV5 = Table<InitV5, EventV5>;

static_assert(offsetof(EventV1, rank) == 16 && offsetof(EventV1, collective) == 24);
static_assert(offsetof(EventV5, rank) == 16 && offsetof(EventV5, collective) == 24);
static_assert(offsetof(CollectiveV1, function) == 24 && offsetof(CollectiveV1, count) == 48 &&
              offsetof(CollectiveV1, root) == 56 && offsetof(CollectiveV1, type) == 60 &&
              offsetof(CollectiveV1, channels) == 80 && offsetof(CollectiveV1, protocol) == 83);
static_assert(offsetof(PointToPointV1, type) == 32 && offsetof(PointToPointV1, count) == 40 &&
              offsetof(PointToPointV1, peer) == 48);
static_assert(offsetof(CollectiveV2, count) == 48 && offsetof(CollectiveV2, type) == 64 &&
              offsetof(CollectiveV2, channels) == 80 && offsetof(CollectiveV2, protocol) == 96);
static_assert(offsetof(PointToPointV2, count) == 40 && offsetof(PointToPointV2, peer) == 48);
static_assert(offsetof(CollectiveV3, type) == 64 && offsetof(CollectiveV3, channels) == 72 &&
              offsetof(CollectiveV3, warps) == 73 && offsetof(CollectiveV3, protocol) == 88);
static_assert(offsetof(CollectiveV4, count) == 32 && offsetof(CollectiveV4, root) == 40 &&
              offsetof(CollectiveV4, channels) == 56 && offsetof(CollectiveV4, protocol) == 72);
static_assert(offsetof(PointToPointV4, count) == 24 && offsetof(PointToPointV4, peer) == 32 &&
              offsetof(PointToPointV4, channels) == 36);
static_assert(offsetof(PointToPointV5, channels) == 36 && offsetof(PointToPointV5, group) == 40);
static_assert(offsetof(CollectiveV5, protocol) == 72 && offsetof(CollectiveV5, group) == 80);
static_assert(sizeof(TableV1) == 48 && sizeof(TableV5) == 48);

}  // namespace understudy::nccl
