#include "tools/rigs/ring_node/base/options.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace understudy {

Result<uint64_t> choose_input_seed(const RingNodeOptions& options) {
  if (options.input_seed) return *options.input_seed;
  uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed) {
    return fail(std::string("getrandom: ") + std::strerror(errno));
  }
  return seed;
}

}  // namespace understudy
