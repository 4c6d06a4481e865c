// What stands between a text and the parser library.
#include "ctrl/config/toml/toml_guard.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace understudy {
namespace {

struct Case {
  const char *text, *plain, *none;  ///< without comments; without any "#"
};

TEST(TomlGuard, CommentsGoAndLinesStay) {
  const Case cases[] = {
      {"a = 1 # b\nc = 2\n", "a = 1 \nc = 2\n", "a = 1 \nc = 2\n"},
      {"# \"a\nb = '#'# c", "\nb = '#'", "\nb = '\xee\x80\x80'"},
      {"a = \"\\\"#\" # b\n", "a = \"\\\"#\" \n", "a = \"\\\"\xee\x80\x80\" \n"},
      {"a = \"\"\"#\n#\"\"\" # b\n", "a = \"\"\"#\n#\"\"\" \n",
       "a = \"\"\"\xee\x80\x80\n\xee\x80\x80\"\"\" \n"},
      {"a = \"b # c\nd = 1 # e\n", "a = \"b # c\nd = 1 \n", "a = \"b \xee\x80\x80 c\nd = 1 \n"},
      {"", "", ""},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(without_hashes(c.text, false), c.plain);
    const std::string none = without_hashes(c.text, true);
    EXPECT_EQ(none, c.none);
    EXPECT_EQ(none.find('#'), std::string::npos);
    const std::string_view text = c.text;
    EXPECT_EQ(std::ranges::count(none, '\n'), std::ranges::count(text, '\n'));
  }
}

}  // namespace
}  // namespace understudy
