// Networks that replicas train: their published numbers of parameters and multiplications, and the
// buckets that PyTorch makes of them, and when these are full.
#include "collective_model/training/replicas.h"

#include <gtest/gtest.h>

#include <numeric>

namespace understudy {
namespace {

using Sizes = std::vector<uint64_t>;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kFp32 = 4;

std::vector<NetworkTensor> network(std::string_view name) {
  auto found = find_network(name);
  EXPECT_TRUE(found) << name;
  return found ? *std::move(found) : std::vector<NetworkTensor>{};
}

/// As PyTorch's DistributedDataParallel fills them.
std::vector<GradientBucket> torch_buckets(std::span<const NetworkTensor> tensors) {
  return replica_buckets(tensors, kFp32, kMiB, 25 * kMiB);
}

Sizes bytes_of(const std::vector<GradientBucket>& buckets) {
  Sizes out;
  for (const GradientBucket& bucket : buckets) out.push_back(kFp32 * bucket.parameters);
  return out;
}

uint64_t parameters(const std::vector<NetworkTensor>& tensors) {
  uint64_t sum = 0;
  for (const NetworkTensor& tensor : tensors) sum += tensor.parameters;
  return sum;
}

TEST(Replicas, EveryPresetIsFoundByItsName) {
  for (const std::string_view name : network_presets()) EXPECT_FALSE(network(name).empty());
  EXPECT_FALSE(find_network("bert"));
}

/// The all-reduces of a recorded run (mlcommons/chakra, tests/data, a trace of 2023-12).
TEST(Replicas, BucketsOfResNet50AreThoseOfARecordedRun) {
  const auto tensors = network("resnet50");
  EXPECT_EQ(parameters(tensors), 25'557'032U);
  EXPECT_EQ(bytes_of(torch_buckets(tensors)),
            (Sizes{8'196'000, 31'502'336, 26'255'360, 26'550'272, 9'724'160}));
}

/// torchvision lists 4.09 GFLOPs, a multiplication and an addition as one.
TEST(Replicas, ResNet50sWorkIsItsPublishedNumberOfMultiplications) {
  double work = 0;
  for (const NetworkTensor& tensor : network("resnet50")) work += tensor.work;
  EXPECT_NEAR(work / 1e9, 4.09, 0.005);
}

TEST(Replicas, BucketsOfBertLargeAreThirtyEight) {
  const auto tensors = network("bert-large");
  EXPECT_EQ(tensors.size(), 393U);
  EXPECT_EQ(parameters(tensors), 335'150'082U);
  const auto buckets = torch_buckets(tensors);
  const Sizes found = bytes_of(buckets);
  ASSERT_EQ(found.size(), 38U);
  EXPECT_EQ(found[0], 4'206'600U);
  EXPECT_EQ(found[1], 33'583'104U);
  EXPECT_EQ(found[2], 33'591'296U);
  for (size_t i = 0; i < 11; ++i) {
    EXPECT_EQ(found[3 + 3 * i], 29'396'992U);
    EXPECT_EQ(found[4 + 3 * i], 37'781'504U);
    EXPECT_EQ(found[5 + 3 * i], 33'591'296U);
  }
  EXPECT_EQ(found[36], 29'396'992U);
  EXPECT_EQ(found[37], 131'354'624U);
}

/// The first bucket has the unused pooler, and so is there with the output; all layers but the
/// lowest take as long as each other; embeddings are looked up.
TEST(Replicas, BucketsOfBertLargeAreReadyAsBackwardComesByTheirLayers) {
  const auto buckets = torch_buckets(network("bert-large"));
  ASSERT_EQ(buckets.size(), 38U);
  EXPECT_LT(buckets[0].ready, 1e-4);
  // Buckets 3, 6, ... end where a pair of layers more is over: two layers are 100.8 MB.
  for (size_t i = 5; i + 3 < 37; i += 3) {
    EXPECT_NEAR(buckets[i + 3].ready - buckets[i].ready, 2.0 / 24, 1e-4) << i;
  }
  EXPECT_LT(buckets[36].ready, 1);
  EXPECT_EQ(buckets[37].ready, 1);
  for (size_t i = 1; i < buckets.size(); ++i) EXPECT_GT(buckets[i].ready, buckets[i - 1].ready);
}

TEST(Replicas, ABucketIsReadyWhenTheWorkOfItsTensorsIsOver) {
  const NetworkTensor tensors[] = {{10, 1}, {20, 3}, {30, 0}, {40, 4}};
  const auto buckets = replica_buckets(tensors, 1, 40, 60);
  ASSERT_EQ(buckets.size(), 2U);
  EXPECT_EQ(buckets[0].parameters, 40U);
  EXPECT_EQ(buckets[0].ready, 0.5);
  EXPECT_EQ(buckets[1].parameters, 60U);
  EXPECT_EQ(buckets[1].ready, 1);
  // 40 parameters of 2 bytes are more than 79 bytes; 41 bytes are more than 20 parameters.
  EXPECT_EQ(replica_buckets(tensors, 2, 79, 41).size(), 3U);
}

TEST(Replicas, WithoutWorkAllIsReadyAtTheEnd) {
  const NetworkTensor tensors[] = {{10, 0}, {20, 0}};
  for (const GradientBucket& bucket : replica_buckets(tensors, 1, 1, 1)) {
    EXPECT_EQ(bucket.ready, 1);
  }
}

}  // namespace
}  // namespace understudy
