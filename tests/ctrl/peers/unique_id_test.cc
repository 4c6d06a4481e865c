// NCCL's unique id: its 128 bytes, its file, and NCCL_COMM_ID.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "ctrl/peers/nccl/bootstrap/communicator_hash.h"
#include "ctrl/peers/nccl/bootstrap/unique_id_file.h"
#include "tests/rigs/unique_id_hex.h"

namespace understudy {
namespace {

SocketAddress at(const char* text) { return parse_socket_address(text).value(); }

NcclUniqueId sample() { return {0x1122334455667788, at("10.9.0.1:47000"), {}}; }

std::string error_of(const Result<NcclUniqueId>& id) { return id ? "" : id.error().text; }

TEST(UniqueId, BytesOfAnIpv4Root) {
  const UniqueIdBytes bytes = unique_id_bytes(sample());
  const std::vector<uint8_t> head = {0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
                                     2,    0,    0xb7, 0x98, 10,   9,    0,    1};
  EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.begin() + 16), head);
  EXPECT_EQ(std::count(bytes.begin() + 16, bytes.end(), 0), 112);
  EXPECT_EQ(parse_unique_id(bytes).value(), sample());
}

/// As the official libnccl.so.2 of 2.28.9 made it, on the loopback interface.
TEST(UniqueId, BytesOfTheOfficialLibrary) {
  const std::string text = "fcf2bff409eb351e0200c0c57f000001" + std::string(224, '0');
  const NcclUniqueId id = parse_unique_id_file(text).value();
  EXPECT_EQ(id.magic, 0x1e35eb09f4bff2fcu);
  EXPECT_EQ(id.root.text(), "127.0.0.1:49349");
  EXPECT_EQ(unique_id_hex(id), text);
}

TEST(UniqueId, BytesOfAnIpv6Root) {
  const NcclUniqueId id{7, at("[2001:db8::9]:1"), {}};
  const UniqueIdBytes bytes = unique_id_bytes(id);
  EXPECT_EQ(bytes[8], 10);
  EXPECT_EQ(bytes[11], 1);
  EXPECT_EQ(bytes[16], 0x20);
  EXPECT_EQ(bytes[31], 9);
  EXPECT_EQ(parse_unique_id(bytes).value(), id);
}

TEST(UniqueId, WhatFollowsTheHandleIsKept) {
  NcclUniqueId id = sample();
  id.rest.fill(0xa5);
  EXPECT_EQ(parse_unique_id(unique_id_bytes(id)).value(), id);
}

TEST(UniqueId, WrongBytesAreNamed) {
  UniqueIdBytes bytes{};
  EXPECT_NE(error_of(parse_unique_id(bytes)).find("all zeros"), std::string::npos);
  EXPECT_NE(error_of(parse_unique_id(std::span(bytes).first(40))).find("this has 40"),
            std::string::npos);
  const auto damaged = [&](size_t at, uint8_t value) {
    bytes = unique_id_bytes(sample());
    bytes[at] = value;
    return error_of(parse_unique_id(bytes));
  };
  EXPECT_NE(damaged(8, 3).find("family 3"), std::string::npos);
  EXPECT_NE(damaged(36, 8).find("communicator of 8 ranks"), std::string::npos);
  bytes = unique_id_bytes({1, {*IpAddress::parse("10.9.0.1"), 0}, {}});
  EXPECT_NE(error_of(parse_unique_id(bytes)).find("port is 0"), std::string::npos);
  bytes = unique_id_bytes({1, at("0.0.0.0:5"), {}});
  EXPECT_NE(error_of(parse_unique_id(bytes)).find("unspecified"), std::string::npos);
  bytes = unique_id_bytes({1, at("[fe80::1]:5"), {}});
  EXPECT_NE(error_of(parse_unique_id(bytes)).find("link-local"), std::string::npos);
}

TEST(UniqueId, OfCommId) {
  const NcclUniqueId id = unique_id_of_comm_id("[2001:db8::9]:5000", {28}).value();
  EXPECT_EQ(id.magic, 0x0280028002800280u);
  EXPECT_EQ(id.root.text(), "[2001:db8::9]:5000");
  EXPECT_EQ(unique_id_of_comm_id("10.9.0.1:5000", {22}).value().root.text(), "10.9.0.1:5000");
  EXPECT_NE(error_of(unique_id_of_comm_id("10.9.0.1:5000", {21})).find("random"),
            std::string::npos);
  for (const char* wrong : {"", ":", "10.9.0.1", "10.9.0.1:", "10.9.0.1:0", "10.9.0.1:65536",
                            "10.9.0.1:5x", "node0:5000", "2001:db8::9:5000", "[2001:db8::9]",
                            "[10.9.0.1]:5", "[2001:db8::9:5000", "[fe80::1%eth0]:5"}) {
    EXPECT_NE(error_of(unique_id_of_comm_id(wrong, {28})), "") << wrong;
  }
}

/// As getHash() of NCCL's bitops.h has it (2.25.1 and 2.28.9, run by themselves).
TEST(UniqueId, HashOfItsCommunicator) {
  constexpr std::pair<uint32_t, uint64_t> kHashes[] = {{23, 0x6cdc777efa5ebe03},
                                                       {25, 0x6cdc777efa5ebe03},
                                                       {26, 0xb2d96e53ad71133a},
                                                       {30, 0xb2d96e53ad71133a}};
  for (const auto& [minor, hash] : kHashes) {
    const auto id = unique_id_of_comm_id("10.9.0.1:5555", {minor});
    ASSERT_TRUE(id);
    EXPECT_EQ(communicator_hash(*id, {minor}), hash) << "2." << minor;
  }
}

TEST(UniqueId, OfOurOwnRoot) {
  const SocketAddress root = at("10.9.0.1:47000");
  EXPECT_EQ(make_unique_id(1, 0, root), make_unique_id(1, 0, root));
  EXPECT_NE(make_unique_id(1, 0, root).magic, make_unique_id(2, 0, root).magic);
  EXPECT_NE(make_unique_id(1, 0, root).magic, make_unique_id(1, 1, root).magic);
}

class UniqueIdFiles : public testing::Test {
 protected:
  ~UniqueIdFiles() override { std::remove(path_.c_str()); }
  void write(std::string_view bytes) {
    std::ofstream(path_, std::ios::binary) << std::string(bytes);
  }
  static Time after(int seconds) { return Time::zero() + Duration::s(seconds); }

  std::string path_ = testing::TempDir() + "unique_id." + std::to_string(getpid());
};

std::string raw(const NcclUniqueId& id) {
  const UniqueIdBytes bytes = unique_id_bytes(id);
  return {bytes.begin(), bytes.end()};
}

TEST_F(UniqueIdFiles, BothFormsAreRead) {
  EXPECT_EQ(parse_unique_id_file(raw(sample())).value(), sample());
  const std::string text = unique_id_hex(sample());
  EXPECT_EQ(text.size(), 256u);
  EXPECT_EQ(parse_unique_id_file(text).value(), sample());
  EXPECT_EQ(parse_unique_id_file(text + "\n").value(), sample());
  EXPECT_EQ(parse_unique_id_file(text + " \r\n\n").value(), sample());
}

TEST_F(UniqueIdFiles, OneThatComesLaterIsWaitedFor) {
  UniqueIdFile file(path_);
  EXPECT_FALSE(file.poll(after(0)));
  write("");
  EXPECT_FALSE(file.poll(after(1000)));
  const std::string text = unique_id_hex(sample());
  for (size_t size : {1u, 128u, 255u}) {  // 128: the size of the other form
    write(text.substr(0, size));
    EXPECT_FALSE(file.poll(after(1000 + static_cast<int>(size))));
  }
  write(text);
  EXPECT_EQ(file.poll(after(2000))->value(), sample());
}

TEST_F(UniqueIdFiles, OneOfAnEarlierRunIsKnown) {
  write(unique_id_hex(sample()));
  UniqueIdFile left(path_);
  EXPECT_TRUE(left.poll(after(0)).has_value());
  EXPECT_TRUE(left.is_old());

  UniqueIdFile anew(path_);
  std::filesystem::last_write_time(
      path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(1));
  EXPECT_TRUE(anew.poll(after(0)).has_value());
  EXPECT_FALSE(anew.is_old());

  std::filesystem::remove(path_);
  UniqueIdFile fresh(path_);
  write(unique_id_hex(sample()));
  EXPECT_TRUE(fresh.poll(after(0)).has_value());
  EXPECT_FALSE(fresh.is_old());
}

TEST_F(UniqueIdFiles, OneThatStaysHalfIsAnError) {
  write(raw(sample()).substr(0, 100));
  UniqueIdFile file(path_);
  EXPECT_FALSE(file.poll(after(5)));
  EXPECT_FALSE(file.poll(after(6)));
  const auto result = file.poll(after(7));
  EXPECT_NE(error_of(*result).find(path_), std::string::npos);
  EXPECT_NE(error_of(*result).find("here are 100 bytes"), std::string::npos);
  write(raw(sample()));
  EXPECT_FALSE(file.poll(after(8))->has_value()) << "an error has been told";
}

TEST_F(UniqueIdFiles, ZerosAndOtherFilesAreErrors) {
  EXPECT_NE(error_of(parse_unique_id_file(std::string(128, '\0'))).find("zeros"),
            std::string::npos);
  EXPECT_NE(error_of(parse_unique_id_file(std::string(256, '0'))).find("zeros"), std::string::npos);
  EXPECT_NE(error_of(parse_unique_id_file(std::string(256, 'g'))).find("not all"),
            std::string::npos);
  EXPECT_NE(error_of(parse_unique_id_file(std::string(1025, '1'))).find("1025 or more"),
            std::string::npos);
  UniqueIdFile directory(testing::TempDir());
  EXPECT_NE(error_of(*directory.poll(after(0))).find("cannot read"), std::string::npos);
}

TEST_F(UniqueIdFiles, WhatWeWriteIsReadAgain) {
  ASSERT_TRUE(write_unique_id_file(path_, sample()));
  EXPECT_EQ(std::filesystem::file_size(path_), kUniqueIdBytes);  // as programs read it
  EXPECT_EQ(UniqueIdFile(path_).poll(after(0))->value(), sample());
  EXPECT_FALSE(write_unique_id_file("/nonexistent/id", sample()));
}

}  // namespace
}  // namespace understudy
