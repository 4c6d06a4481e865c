#include "tools/rigs/ring_node/profiler.h"

#include <dlfcn.h>

#include <cstdlib>

namespace understudy {
namespace {

void log_nothing(int, unsigned long, const char*, int, const char*, ...) {}

}  // namespace

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
  return profiler;
}

Profiler::~Profiler() {
  if (table_ != nullptr) table_->finalize(context_);
  if (library_ != nullptr) dlclose(library_);
}

void Profiler::start(uint64_t count, uint32_t channels) {
  if (!wanted_) return;
  nccl::EventV5 group{};
  group.kind = nccl::kGroup;
  void* group_handle = nullptr;
  table_->start(context_, &group_handle, &group);
  nccl::EventV5 event{};
  event.kind = nccl::kCollective;
  event.rank = rank_;
  event.collective.sequence = sequence_++;
  event.collective.function = "AllReduce";
  event.collective.count = count;
  event.collective.type = "ncclFloat32";
  event.collective.channels = static_cast<uint8_t>(channels);
  event.collective.warps = 16;
  event.collective.algorithm = "RING";
  event.collective.protocol = "SIMPLE";
  event.collective.group = group_handle;
  void* handle = nullptr;
  table_->start(context_, &handle, &event);
  if (handle != nullptr) table_->stop(handle);
  if (group_handle != nullptr) table_->stop(group_handle);
}

}  // namespace understudy
