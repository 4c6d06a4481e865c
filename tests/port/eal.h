// Brings DPDK up once in a test program: without huge pages or cards, as any user.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "dataplane/runtime/eal.h"

namespace understudy {

class EalEnvironment : public ::testing::Environment {
 public:
  /// `ports`: how many may be open at a time.
  explicit EalEnvironment(size_t ports) : ports_(ports) {}
  void SetUp() override {
    EalOptions options;
    options.ports.assign(ports_, {"test", "net_null0"});
    auto eal = Eal::start(options);
    ASSERT_TRUE(eal) << eal.error().text;
    eal_ = std::move(*eal);
  }
  void TearDown() override { eal_.reset(); }

 private:
  size_t ports_;
  std::unique_ptr<Eal> eal_;
};

}  // namespace understudy
