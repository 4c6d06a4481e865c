// The opcode table against rule A3, stated here a second time and in another form.
#include "dataplane/wire/opcodes.h"

#include <gtest/gtest.h>

#include <string>

namespace understudy {
namespace {

struct Row {
  unsigned opcode;
  const char* name;
  unsigned header_bytes;
  const char* position;  ///< F first, M middle, L last, O only
  const char* side;      ///< req, resp, or none of the two
};

// RETH 16, AETH 4, IMM 4, AtomicETH 28, AtomicAckETH 8, IETH 4, DETH 8.
constexpr Row kRows[] = {
    {0x00, "SEND_FIRST", 0, "F", "req"},
    {0x01, "SEND_MIDDLE", 0, "M", "req"},
    {0x02, "SEND_LAST", 0, "L", "req"},
    {0x03, "SEND_LAST_IMM", 4, "L", "req"},
    {0x04, "SEND_ONLY", 0, "O", "req"},
    {0x05, "SEND_ONLY_IMM", 4, "O", "req"},
    {0x06, "WRITE_FIRST", 16, "F", "req"},
    {0x07, "WRITE_MIDDLE", 0, "M", "req"},
    {0x08, "WRITE_LAST", 0, "L", "req"},
    {0x09, "WRITE_LAST_IMM", 4, "L", "req"},
    {0x0a, "WRITE_ONLY", 16, "O", "req"},
    {0x0b, "WRITE_ONLY_IMM", 20, "O", "req"},
    {0x0c, "READ_REQUEST", 16, "O", "req"},
    {0x0d, "READ_RESPONSE_FIRST", 4, "F", "resp"},
    {0x0e, "READ_RESPONSE_MIDDLE", 0, "M", "resp"},
    {0x0f, "READ_RESPONSE_LAST", 4, "L", "resp"},
    {0x10, "READ_RESPONSE_ONLY", 4, "O", "resp"},
    {0x11, "ACKNOWLEDGE", 4, "O", "resp"},
    {0x12, "ATOMIC_ACKNOWLEDGE", 12, "O", "resp"},
    {0x13, "COMPARE_SWAP", 28, "O", "req"},
    {0x14, "FETCH_ADD", 28, "O", "req"},
    {0x16, "SEND_LAST_INV", 4, "L", "req"},
    {0x17, "SEND_ONLY_INV", 4, "O", "req"},
    {0x20, "UC_SEND_FIRST", 0, "F", "req"},
    {0x21, "UC_SEND_MIDDLE", 0, "M", "req"},
    {0x22, "UC_SEND_LAST", 0, "L", "req"},
    {0x23, "UC_SEND_LAST_IMM", 4, "L", "req"},
    {0x24, "UC_SEND_ONLY", 0, "O", "req"},
    {0x25, "UC_SEND_ONLY_IMM", 4, "O", "req"},
    {0x26, "UC_WRITE_FIRST", 16, "F", "req"},
    {0x27, "UC_WRITE_MIDDLE", 0, "M", "req"},
    {0x28, "UC_WRITE_LAST", 0, "L", "req"},
    {0x29, "UC_WRITE_LAST_IMM", 4, "L", "req"},
    {0x2a, "UC_WRITE_ONLY", 16, "O", "req"},
    {0x2b, "UC_WRITE_ONLY_IMM", 20, "O", "req"},
    {0x64, "UD_SEND_ONLY", 8, "O", ""},
    {0x65, "UD_SEND_ONLY_IMM", 12, "O", ""},
    {0x81, "CNP", 0, "O", ""},
};

// rules: A3.1
TEST(Opcodes, TableIsRuleA3) {
  size_t known = 0;
  for (unsigned op = 0; op < 256; ++op) {
    known += opcode_info(static_cast<uint8_t>(op)).name != nullptr ? 1 : 0;
  }
  EXPECT_EQ(known, std::size(kRows));
  for (const Row& row : kRows) {
    const OpcodeInfo& info = opcode_info(static_cast<uint8_t>(row.opcode));
    ASSERT_NE(info.name, nullptr) << row.name;
    EXPECT_STREQ(info.name, row.name);
    EXPECT_EQ(info.header_bytes, row.header_bytes) << row.name;
    const std::string position = row.position;
    EXPECT_EQ(info.start, position == "F" || position == "O") << row.name;
    EXPECT_EQ(info.end, position == "L" || position == "O") << row.name;
    EXPECT_EQ(info.is_request(), std::string(row.side) == "req") << row.name;
    EXPECT_EQ(info.unreliable, std::string(row.name).starts_with("UC_")) << row.name;
    EXPECT_EQ(info.is_response(), std::string(row.side) == "resp") << row.name;
  }
}

}  // namespace
}  // namespace understudy
