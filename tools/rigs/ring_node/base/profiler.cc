#include "tools/rigs/ring_node/base/profiler.h"

#include <dlfcn.h>

#include <cstdlib>

#include "collective_model/schedule/p2p.h"

namespace understudy {
namespace {

// NCCL's words (docs/nccl, plugins).
constexpr Named<Collective> kFunctions[] = {{"AllReduce", Collective::kAllReduce},
                                            {"AllGather", Collective::kAllGather},
                                            {"ReduceScatter", Collective::kReduceScatter},
                                            {"Broadcast", Collective::kBroadcast},
                                            {"Reduce", Collective::kReduce}};
constexpr Named<DataType> kTypes[] = {{"ncclInt8", DataType::kInt8},
                                      {"Unknown", DataType::kUint8},
                                      {"ncclInt32", DataType::kInt32},
                                      {"ncclUint32", DataType::kUint32},
                                      {"ncclInt64", DataType::kInt64},
                                      {"ncclUint64", DataType::kUint64},
                                      {"ncclFloat16", DataType::kFloat16},
                                      {"ncclFloat32", DataType::kFloat32},
                                      {"ncclFloat64", DataType::kFloat64},
                                      {"ncclBfloat16", DataType::kBfloat16},
                                      {"ncclFloat8e4m3", DataType::kFloat8E4m3},
                                      {"ncclFloat8e5m2", DataType::kFloat8E5m2}};
constexpr Named<Algorithm> kAlgorithms[] = {
    {"RING", Algorithm::kRing}, {"TREE", Algorithm::kTree}, {"PAT", Algorithm::kPat}};
constexpr Named<Protocol> kProtocols[] = {
    {"SIMPLE", Protocol::kSimple}, {"LL", Protocol::kLL}, {"LL128", Protocol::kLL128}};
constexpr uint8_t kRingWarps = 16;

void log_nothing(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace

Result<std::unique_ptr<Profiler>> Profiler::load(const std::string& job, uint32_t rank,
                                                 uint32_t ranks) {
  uint64_t communicator = 0xcbf29ce484222325;
  for (const char c : job) communicator = (communicator ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return load(communicator, rank, ranks);
}

Result<std::unique_ptr<Profiler>> Profiler::load(uint64_t communicator, uint32_t rank,
                                                 uint32_t ranks) {
  const char* name = std::getenv("NCCL_PROFILER_PLUGIN");
  if (name == nullptr || *name == '\0') return nullptr;
  std::unique_ptr<Profiler> profiler(new Profiler());
  profiler->library_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (profiler->library_ == nullptr) {
    const std::string path = "libnccl-profiler-" + std::string(name) + ".so";
    profiler->library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (profiler->library_ == nullptr) {
    return fail("NCCL_PROFILER_PLUGIN: " + std::string(dlerror()));
  }
  profiler->table_ = static_cast<nccl::TableV5*>(dlsym(profiler->library_, "ncclProfiler_v5"));
  if (profiler->table_ == nullptr) {
    return fail("NCCL_PROFILER_PLUGIN: " + std::string(name) + " has no ncclProfiler_v5");
  }
  profiler->rank_ = static_cast<int>(rank);
  int mask = 0;
  const int status = profiler->table_->init(&profiler->context_, communicator, &mask, "ring_node",
                                            static_cast<int>(ranks), static_cast<int>(ranks),
                                            profiler->rank_, log_nothing);
  if (status != nccl::kSuccess) {
    return fail("NCCL_PROFILER_PLUGIN: its init gave " + std::to_string(status));
  }
  profiler->wanted_ = (mask & nccl::kCollective) != 0;
  profiler->pairs_wanted_ = (mask & nccl::kPointToPoint) != 0;
  return profiler;
}

Profiler::~Profiler() {
  if (table_ != nullptr) table_->finalize(context_);
  if (library_ != nullptr) dlclose(library_);
}

void Profiler::start(uint64_t count, uint32_t channels) {
  Operation all_reduce;
  all_reduce.count = count;
  all_reduce.threads = kRingWarps * kWarp;
  start({}, {&all_reduce, 1}, {&channels, 1});
}

void Profiler::start(const Communicator& communicator, std::span<const Operation> operations,
                     std::span<const uint32_t> channels) {
  const bool pairs = is_p2p(operations.front().collective);
  if (pairs ? !pairs_wanted_ : !wanted_) return;
  nccl::EventV5 group{};
  group.kind = nccl::kGroup;
  void* group_handle = nullptr;
  table_->start(context_, &group_handle, &group);
  for (size_t i = 0; i < operations.size(); ++i) {
    if (pairs) {
      tell_pairs(communicator, operations[i], group_handle);
    } else {
      tell(operations[i], channels[i], group_handle);
    }
  }
  if (group_handle != nullptr) table_->stop(group_handle);
}

void Profiler::tell(const Operation& operation, uint32_t channels, void* group) {
  nccl::EventV5 event{};
  event.kind = nccl::kCollective;
  event.collective.sequence = sequences_[operation.collective]++;
  event.collective.function = name_of(kFunctions, operation.collective).data();
  event.collective.count = operation.count;
  event.collective.root = static_cast<int>(operation.root);
  event.collective.type = name_of(kTypes, operation.type).data();
  event.collective.channels = static_cast<uint8_t>(channels);
  event.collective.warps = static_cast<uint8_t>(operation.threads / kWarp);
  event.collective.algorithm = name_of(kAlgorithms, operation.algorithm).data();
  event.collective.protocol = name_of(kProtocols, operation.protocol).data();
  event.collective.group = group;
  tell(event);
}

void Profiler::tell_pairs(const Communicator& communicator, const Operation& operation,
                          void* group) {
  const auto rank = static_cast<uint32_t>(rank_);
  for (uint32_t peer = 0; peer < communicator.ranks(); ++peer) {
    for (const bool sends : {true, false}) {
      const auto bytes = sends ? pair_bytes(communicator, operation, rank, peer)
                               : pair_bytes(communicator, operation, peer, rank);
      if (!bytes) continue;
      nccl::EventV5 event{};
      event.kind = nccl::kPointToPoint;
      event.point_to_point.function = sends ? "Send" : "Recv";
      event.point_to_point.type = "ncclInt8";
      event.point_to_point.count = *bytes;
      event.point_to_point.peer = static_cast<int>(peer);
      event.point_to_point.group = group;
      tell(event);
    }
  }
}

void Profiler::tell(nccl::EventV5& event) {
  event.rank = rank_;
  void* handle = nullptr;
  table_->start(context_, &handle, &event);
  if (handle != nullptr) table_->stop(handle);
}

}  // namespace understudy
