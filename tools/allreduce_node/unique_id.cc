#include "tools/allreduce_node/unique_id.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "dataplane/base/output_file.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

std::string why() { return std::strerror(errno); }

Result<ncclUniqueId> made() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result != ncclSuccess) {
    return fail(std::string("ncclGetUniqueId: ") + ncclGetErrorString(result));
  }
  return id;
}

/// Nothing while there is no such file.
Result<std::optional<ncclUniqueId>> read_once(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (errno == ENOENT) return std::nullopt;
    return fail(path + ": " + why());
  }
  ncclUniqueId id;
  file.read(id.internal, sizeof id.internal);
  if (file.gcount() != sizeof id.internal || file.get() != std::ifstream::traits_type::eof()) {
    return fail(path + ": is not the " + std::to_string(sizeof id.internal) +
                " bytes of a unique id");
  }
  return id;
}

Result<ncclUniqueId> wait_for(const std::string& path, std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto id = TRY(read_once(path));
    if (id) return *id;
    if (std::chrono::steady_clock::now() >= end) {
      return fail(path + ": does not exist, and nobody made it in time");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Result<ncclUniqueId> make_file(const std::string& path) {
  auto id = made();
  if (!id) return id;
  TRY(replace_file(path, {id->internal, sizeof id->internal}));
  return id;
}

}  // namespace

Result<ncclUniqueId> unique_id_for(const NodeOptions& options, std::chrono::milliseconds patience) {
  if (!options.id_file.empty()) return wait_for(options.id_file, patience);
  if (!options.make_id_file.empty()) return make_file(options.make_id_file);
  if (options.local.size() < options.ranks && std::getenv("NCCL_COMM_ID") == nullptr) {
    return fail(
        "the other ranks must learn the unique id: --id-file, --make-id-file or NCCL_COMM_ID");
  }
  return made();
}

}  // namespace understudy
