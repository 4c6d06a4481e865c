// Names that one process at a time may have.
#include "tools/soft_nic/device/claims.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace understudy::soft_nic {
namespace {

/// Tests that run at once have names of their own.
std::string own(const char* name) { return "test-" + std::to_string(getpid()) + "/" + name; }

TEST(SoftNicClaims, ANameHasOneOwner) {
  auto first = Claim::take(own("port"));
  ASSERT_TRUE(first);
  EXPECT_TRUE(Claim::is_taken(own("port")));
  EXPECT_FALSE(Claim::take(own("port")));
  EXPECT_FALSE(Claim::is_taken(own("por")));
  EXPECT_FALSE(Claim::is_taken(own("port2")));
  first.reset();
  EXPECT_FALSE(Claim::is_taken(own("port")));
  EXPECT_TRUE(Claim::take(own("port")));
}

TEST(SoftNicClaims, LookingTakesNothing) {
  EXPECT_FALSE(Claim::is_taken(own("port")));
  EXPECT_TRUE(Claim::take(own("port")));
}

TEST(SoftNicClaims, AProcessThatEndsHasNoneAnyMore) {
  const std::string name = own("port");
  int ready[2], go[2];
  ASSERT_EQ(pipe(ready) | pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = Claim::take(name);
    char byte = held ? 1 : 0;
    if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 1);
  EXPECT_TRUE(Claim::is_taken(name));
  EXPECT_FALSE(Claim::take(name));
  ASSERT_EQ(write(go[1], &byte, 1), 1);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(Claim::take(name));
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

}  // namespace
}  // namespace understudy::soft_nic
