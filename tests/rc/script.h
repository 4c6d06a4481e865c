// The interpreter of packet scripts (tests/data/rc, whose README says how they read): one queue
// pair under a virtual clock, packets in, packets out.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "dataplane/rc/qp.h"

namespace understudy {

/// "WRITE_ONLY psn=5 ackreq len=64": a name, numbers by key, and flags (value 1).
struct ScriptLine {
  explicit ScriptLine(std::istringstream& in) {
    in >> name;
    for (std::string word; in >> word && word[0] != '#';) {
      const size_t equals = word.find('=');
      const std::string key = word.substr(0, equals);
      std::string value = equals == std::string::npos ? "1" : word.substr(equals + 1);
      const size_t dots = value.find("..");
      if (dots != std::string::npos) {
        last_psn = number(value.substr(dots + 2), word);
        value.resize(dots);
      }
      values[key] = number(value, word);
    }
  }
  uint64_t get(const std::string& key, uint64_t otherwise = 0) const {
    const auto it = values.find(key);
    return it == values.end() ? otherwise : it->second;
  }
  bool has(const std::string& key) const { return values.count(key) != 0; }

  std::string name;
  std::map<std::string, uint64_t> values;
  uint64_t last_psn = 0;  ///< psn=5..9: the line stands for that many packets

 private:
  static uint64_t number(const std::string& text, const std::string& word) {
    size_t used = 0;
    uint64_t value = 0;
    try {
      value = std::stoull(text, &used, 0);
    } catch (const std::exception&) {
    }
    if (used != text.size()) ADD_FAILURE() << "not a number: " << word;
    return value;
  }
};

class ScriptRunner : public QpOwner {
 public:
  ScriptRunner();
  /// One line of a script.
  void run(const std::string& text);
  /// At the end nothing may be left to send and no event unread.
  void finish();

  void on_received(Time, Qp&, const Received& message) override;
  void on_completed(Time, Qp&, uint64_t id, WorkStatus status) override;
  void on_established(Time, Qp&) override { events_.push_back("established"); }

 private:
  Qp& qp();
  void command(const ScriptLine& line);
  void configure(const ScriptLine& line);
  void add_region(const ScriptLine& line);
  void packet_in(const ScriptLine& line);
  void packets_out(ScriptLine line);
  void packet_out(const ScriptLine& line);
  void post(const ScriptLine& line);
  void advance(const std::string& text);
  void expect_event(const std::string& text);
  void expect_counter(const ScriptLine& line);
  void expect_memory(const ScriptLine& line);
  void word(const ScriptLine& line);

  QpConfig config_;
  RegionTable regions_;
  RcCounters counters_{};
  std::vector<uint8_t> memory_, sent_, read_;
  std::unique_ptr<Qp> qp_;
  std::deque<std::string> events_;
  Time now_;
};

}  // namespace understudy
