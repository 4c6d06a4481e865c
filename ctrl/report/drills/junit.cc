#include "ctrl/report/drills/junit.h"

#include <algorithm>

#include "dataplane/base/output_file.h"
#include "dataplane/base/text_format.h"

namespace understudy {
namespace {

/// Length of a well-formed UTF-8 sequence of a character that XML may hold; 0: there is none.
size_t character_at(const std::string& text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char first = byte(i);
  if (first < 0x80) {
    return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  }
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || i + length > text.size()) return 0;
  uint32_t code = first & (0xffu >> (length + 1));
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i + k) & 0x3fu);
  }
  const uint32_t least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < least || code > 0x10ffff || surrogate || code == 0xfffe || code == 0xffff ? 0
                                                                                          : length;
}

/// For a value in quotation marks. What XML cannot hold becomes a question mark.
std::string escaped(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = character_at(text, i);
    if (length == 0) {
      out += '?';
      ++i;
      continue;
    }
    switch (text[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\t':
      case '\n':
      case '\r':
        out += "&#" + std::to_string(text[i]) + ";";
        break;
      default:
        out.append(text, i, length);
    }
    i += length;
  }
  return out;
}

std::string seconds_text(Duration d) { return format_text("%.9f", d.seconds()); }

struct Case {
  std::string name;
  Duration took;
  const char* kind = nullptr;  ///< "failure", "error"; null: it passed
  std::string text;
};

std::string case_xml(const std::string& suite, const Case& c) {
  std::string out = "    <testcase classname=\"" + escaped(suite) + "\" name=\"" + escaped(c.name) +
                    "\" time=\"" + seconds_text(c.took) + "\"";
  if (c.kind == nullptr) {
    return out + ">\n      <system-out>" + escaped(c.text) + "</system-out>\n    </testcase>\n";
  }
  const std::string kind = c.kind;
  return out + ">\n      <" + kind + " message=\"" + escaped(c.text) + "\" type=\"" +
         (kind == "error" ? "broken off" : "not as expected") + "\">" + escaped(c.text) + "</" +
         kind + ">\n    </testcase>\n";
}

std::string suite_xml(const std::string& suite, Duration took, const std::vector<Case>& cases) {
  const auto of = [&](std::string_view kind) {
    return std::to_string(std::ranges::count_if(
        cases, [&](const Case& c) { return c.kind != nullptr && c.kind == kind; }));
  };
  const std::string counts = "tests=\"" + std::to_string(cases.size()) + "\" failures=\"" +
                             of("failure") + "\" errors=\"" + of("error") + "\" time=\"" +
                             seconds_text(took) + "\"";
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"understudy\" " +
                    counts + ">\n  <testsuite name=\"" + escaped(suite) + "\" " + counts +
                    " skipped=\"0\">\n";
  for (const Case& c : cases) out += case_xml(suite, c);
  return out + "  </testsuite>\n</testsuites>\n";
}

}  // namespace

std::string junit_xml(const RunReport& report) {
  std::vector<Case> cases;
  for (const DrillReport& drill : report.drills) {
    const Duration length =
        drill.until && !drill.from.is_never() ? *drill.until - drill.from : Duration();
    cases.push_back(
        {drill.name, drill.found.value_or(length), drill.passed ? nullptr : "failure", drill.text});
  }
  Case run{"the run", report.duration, nullptr, "faithful"};
  const VerdictReport& verdict = report.verdict;
  if (!verdict.faithful) {
    run.text = verdict.not_judged ? "not judged" : "not faithful";
    if (!verdict.not_judged) run.kind = "failure";
    for (const std::string& reason : verdict.reasons) run.text += "; " + reason;
  }
  cases.push_back(run);
  return suite_xml(report.configuration_path, report.duration, cases);
}

std::string junit_error(const std::string& configuration, const std::string& why) {
  return suite_xml(configuration, Duration(), {{"the run", Duration(), "error", why}});
}

Result<void> write_junit(const std::string& xml, const std::string& path) {
  if (auto written = replace_file(path, xml); !written) {
    return fail("junit " + written.error().text);
  }
  return {};
}

}  // namespace understudy
