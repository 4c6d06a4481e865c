// Prints the bytes of DistributedDataParallel's buckets, as this project fills them:
//   ddp_buckets FIRST_CAP CAP BYTES...    caps and parameters' bytes in the order of registration
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "collective_model/training/buckets.h"

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
  std::vector<understudy::TrainedTensor> last_first;
  for (int i = argc - 1; i >= 3; --i) last_first.push_back({number(i), 1});
  for (const auto& bucket : understudy::fill_buckets(last_first, number(1), number(2))) {
    std::printf("%llu\n", static_cast<unsigned long long>(bucket.parameters));
  }
  return 0;
}
