#include "ctrl/peers/torch_store/rendezvous_state.h"

#include <array>
#include <chrono>

#include "ctrl/peers/torch_store/pickle.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using Kind = PickleValue::Kind;

/// keep_alive_interval times keep_alive_max_attempt of PyTorch's dynamic_rendezvous.py.
constexpr int64_t kAgentSilence = 15'000'000;
constexpr int64_t kSecond = 1'000'000, kDay = 86'400 * kSecond;
constexpr size_t kTimeBytes = 10;
/// Of a host (a DNS name has at most 253 bytes) or an attribute's name: each node has a copy, and
/// errors repeat them.
constexpr size_t kMostName = 255;

/// As Python's datetime is pickled: year (2 bytes), month, day, hour, minute, second, microseconds
/// (3), the high byte first.
Result<int64_t> time_of_bytes(std::string_view text) {
  if (text.size() != kTimeBytes) return fail("a time of " + std::to_string(text.size()) + " bytes");
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const int year = byte(0) << 8 | byte(1);
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{byte(2)},
                                         std::chrono::day{byte(3)}};
  const int64_t micros = byte(7) << 16 | byte(8) << 8 | byte(9);
  if (year < 1 || year > 9999 || !date.ok() || byte(4) > 23 || byte(5) > 59 || byte(6) > 59 ||
      micros >= kSecond) {
    return fail("a time that no clock shows");
  }
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return days * kDay + (byte(4) * 3600 + byte(5) * 60 + byte(6)) * kSecond + micros;
}

std::array<uint8_t, kTimeBytes> bytes_of_time(int64_t time) {
  const auto days = std::chrono::floor<std::chrono::days>(
      std::chrono::sys_time<std::chrono::microseconds>(std::chrono::microseconds(time)));
  const std::chrono::year_month_day date(days);
  const int64_t rest = time - days.time_since_epoch().count() * kDay;
  const int64_t seconds = rest / kSecond, micros = rest % kSecond;
  const auto byte = [](int64_t value) { return static_cast<uint8_t>(value); };
  const int year = static_cast<int>(date.year());
  return {byte(year >> 8),
          byte(year),
          byte(static_cast<unsigned>(date.month())),
          byte(static_cast<unsigned>(date.day())),
          byte(seconds / 3600),
          byte(seconds / 60 % 60),
          byte(seconds % 60),
          byte(micros >> 16),
          byte(micros >> 8),
          byte(micros)};
}

class StateReader {
 public:
  StateReader(const Pickle& pickle, RendezvousForm& form) : pickle_(pickle), form_(form) {}

  Result<RendezvousState> run() {
    const PickleValue& root = pickle_.at(pickle_.root);
    if (!is_object(root, PickleClass::kState)) return fail("it is no _RendezvousState");
    const auto attributes = TRY(attributes_of(root));
    for (const auto& [name, value] : attributes) {
      auto read = attribute(name, *value);
      if (!read) return fail("its " + name + ": " + read.error().text);
    }
    for (const char* name : {"round", "complete", "deadline", "closed", "participants", "wait_list",
                             "last_heartbeats"}) {
      if (!attributes.contains(name)) return fail("it has no " + std::string(name));
    }
    form_.protocol = pickle_.protocol;
    form_.redundancy = attributes.contains("redundancy_list");
    return std::move(state_);
  }

 private:
  using Attributes = std::map<std::string, const PickleValue*>;

  static bool is_object(const PickleValue& value, PickleClass of) {
    return value.kind == Kind::kObject && value.of == of;
  }
  const PickleValue& item(const PickleValue& value, size_t i) const {
    return pickle_.at(value.items[i]);
  }

  Result<Attributes> attributes_of(const PickleValue& object) const {
    Attributes all;
    if (object.items.size() != 1 || item(object, 0).kind != Kind::kDict) {
      return fail("an object without attributes");
    }
    const PickleValue& dict = item(object, 0);
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      if (item(dict, i).kind != Kind::kText) return fail("an attribute without a name");
      const size_t size = item(dict, i).text.size();
      if (size > kMostName)
        return fail("an attribute's name of " + std::to_string(size) + " bytes");
      if (!all.emplace(item(dict, i).text, &item(dict, i + 1)).second) {
        return fail("an attribute twice");
      }
    }
    return all;
  }

  Result<void> attribute(const std::string& name, const PickleValue& value) {
    if (name == "round") return integer(value, state_.round);
    if (name == "complete") return boolean(value, state_.complete);
    if (name == "closed") return boolean(value, state_.closed);
    if (name == "wait_list") return agents(value, state_.wait_list);
    if (name == "redundancy_list") return agents(value, state_.redundancy_list);
    if (name == "deadline") {
      if (value.kind != Kind::kNone) state_.deadline = TRY(time(value));
      return {};
    }
    const bool ranks = name == "participants";
    if (!ranks && name != "last_heartbeats") return fail("no attribute of this name is known here");
    if (value.kind != Kind::kDict) return fail("it is no dict");
    for (size_t i = 0; i < value.items.size(); i += 2) {
      const TorchAgent agent = TRY(this->agent(item(value, i)));
      int64_t number = 0;
      if (ranks) {
        TRY(integer(item(value, i + 1), number));
      } else {
        number = TRY(time(item(value, i + 1)));
      }
      (ranks ? state_.participants : state_.last_heartbeats)[agent] = number;
    }
    return {};
  }

  static Result<void> integer(const PickleValue& value, int64_t& to) {
    if (value.kind != Kind::kInt) return fail("it is no integer");
    to = value.number;
    return {};
  }

  static Result<void> boolean(const PickleValue& value, bool& to) {
    if (value.kind != Kind::kBool) return fail("it is neither true nor false");
    to = value.number != 0;
    return {};
  }

  Result<void> agents(const PickleValue& value, std::set<TorchAgent>& to) {
    if (value.kind != Kind::kSet) return fail("it is no set");
    for (size_t i = 0; i < value.items.size(); ++i) to.insert(TRY(agent(item(value, i))));
    return {};
  }

  Result<TorchAgent> agent(const PickleValue& value) {
    if (!is_object(value, PickleClass::kNode)) return fail("it has something else than nodes");
    const auto attributes = TRY(attributes_of(value));
    TorchAgent made;
    for (const auto& [name, attribute] : attributes) {
      if (name == "pid") {
        TRY(integer(*attribute, made.pid));
      } else if (name == "local_id") {
        TRY(integer(*attribute, made.local_id));
      } else if ((name == "addr" || name == "fqdn") && attribute->kind == Kind::kText) {
        if (attribute->text.size() > kMostName) {
          return fail("a node's name of " + std::to_string(attribute->text.size()) + " bytes");
        }
        made.host = attribute->text;
        form_.addr = name == "addr";
      } else {
        return fail("a node's " + name + " is not known here");
      }
    }
    if (attributes.size() != 3) return fail("a node lacks an attribute");
    return made;
  }

  Result<int64_t> time(const PickleValue& value) {
    if (!is_object(value, PickleClass::kDatetime) || value.items.empty() ||
        value.items.size() > 2 || item(value, 0).kind != Kind::kBytes) {
      return fail("it is no time");
    }
    form_.with_zone = value.items.size() == 2;
    if (form_.with_zone) TRY(is_utc(item(value, 1)));
    return time_of_bytes(item(value, 0).text);
  }

  Result<void> is_utc(const PickleValue& zone) const {
    if (is_object(zone, PickleClass::kTimezone) && zone.items.size() == 1) {
      const PickleValue& offset = item(zone, 0);
      bool zero = is_object(offset, PickleClass::kTimedelta);
      for (const uint32_t part : offset.items) {
        zero = zero && pickle_.at(part).kind == Kind::kInt && pickle_.at(part).number == 0;
      }
      if (zero) return {};
    }
    return fail("a time of another zone than UTC");
  }

  const Pickle& pickle_;
  RendezvousForm& form_;
  RendezvousState state_;
};

class StateWriter {
 public:
  explicit StateWriter(const RendezvousForm& form) : form_(form), out_(form.protocol) {}

  std::vector<uint8_t> run(const RendezvousState& state) {
    object(PickleClass::kState);
    dict([&] {
      out_.text("round");
      out_.integer(state.round);
      out_.text("complete");
      out_.boolean(state.complete);
      out_.text("deadline");
      state.deadline ? time(*state.deadline) : out_.none();
      out_.text("closed");
      out_.boolean(state.closed);
      out_.text("participants");
      dict([&] {
        for (const auto& [agent, rank] : state.participants) {
          this->agent(agent);
          out_.integer(rank);
        }
      });
      out_.text("wait_list");
      set(state.wait_list);
      if (form_.redundancy) {
        out_.text("redundancy_list");
        set(state.redundancy_list);
      }
      out_.text("last_heartbeats");
      dict([&] {
        for (const auto& [agent, at] : state.last_heartbeats) {
          this->agent(agent);
          time(at);
        }
      });
    });
    out_.opcode('b');
    return out_.finish();
  }

 private:
  // EMPTY_TUPLE, NEWOBJ; EMPTY_DICT, MARK, SETITEMS; EMPTY_SET, MARK, ADDITEMS.
  void object(PickleClass of) {
    out_.of_class(of);
    out_.opcode(')');
    out_.opcode(0x81);
  }
  template <typename Items>
  void dict(const Items& items) {
    out_.opcode('}');
    out_.opcode('(');
    items();
    out_.opcode('u');
  }
  void set(const std::set<TorchAgent>& agents) {
    out_.opcode(0x8f);
    out_.opcode('(');
    for (const TorchAgent& agent : agents) this->agent(agent);
    out_.opcode(0x90);
  }

  void agent(const TorchAgent& agent) {
    if (const auto known = agents_.find(agent); known != agents_.end()) {
      return out_.again(known->second);
    }
    object(PickleClass::kNode);
    dict([&] {
      out_.text(form_.addr ? "addr" : "fqdn");
      out_.text(agent.host);
      out_.text("pid");
      out_.integer(agent.pid);
      out_.text("local_id");
      out_.integer(agent.local_id);
    });
    out_.opcode('b');
    agents_[agent] = out_.memoize();
  }

  void time(int64_t time) {
    out_.of_class(PickleClass::kDatetime);
    out_.bytes(bytes_of_time(time));
    if (form_.with_zone) utc();
    out_.opcode(form_.with_zone ? 0x86 : 0x85);  // TUPLE2, TUPLE1
    out_.opcode('R');
  }

  void utc() {
    if (utc_) return out_.again(*utc_);
    out_.of_class(PickleClass::kTimezone);
    out_.of_class(PickleClass::kTimedelta);
    for (int i = 0; i < 3; ++i) out_.integer(0);
    out_.opcode(0x87);  // TUPLE3
    out_.opcode('R');
    out_.opcode(0x85);
    out_.opcode('R');
    utc_ = out_.memoize();
  }

  const RendezvousForm form_;
  PickleWriter out_;
  std::map<TorchAgent, uint32_t> agents_;
  std::optional<uint32_t> utc_;
};

}  // namespace

void RendezvousState::next_round_if_empty() {
  if (!complete || !participants.empty()) return;
  complete = false;
  ++round;
}

void RendezvousState::drop_silent(int64_t now) {
  for (auto it = last_heartbeats.begin(); it != last_heartbeats.end();) {
    if (it->second >= now - kAgentSilence) {
      ++it;
      continue;
    }
    participants.erase(it->first);
    wait_list.erase(it->first);
    redundancy_list.erase(it->first);
    it = last_heartbeats.erase(it);
  }
  next_round_if_empty();
}

void RendezvousState::remove(const TorchAgent& agent) {
  participants.erase(agent);
  last_heartbeats.erase(agent);
  next_round_if_empty();
}

void RendezvousState::finish_round() {
  complete = true;
  deadline.reset();
  int64_t rank = 0;
  for (auto& [agent, number] : participants) number = rank++;
}

Result<RendezvousState> read_rendezvous_state(std::span<const uint8_t> pickle,
                                              RendezvousForm& form) {
  const Pickle values = TRY(read_pickle(pickle));
  return StateReader(values, form).run();
}

std::vector<uint8_t> write_rendezvous_state(const RendezvousState& state,
                                            const RendezvousForm& form) {
  return StateWriter(form).run(state);
}

}  // namespace understudy
