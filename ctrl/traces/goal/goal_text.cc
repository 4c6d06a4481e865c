#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "ctrl/traces/goal/goal.h"
#include "ctrl/traces/goal/goal_binary.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

using OperationKind = GoalOperation::Kind;

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Words, numbers and signs of a text without its comments; ends of lines count.
class GoalWords {
 public:
  explicit GoalWords(const std::string& text) : text_(text) {}

  size_t line() const { return line_; }
  /// The next one; "\n" at the end of a line, "" at the end of the text.
  std::string_view next() {
    skip_blanks();
    const size_t begin = at_;
    if (at_ == text_.size()) return {};
    const char first = text_[at_++];
    if (first == '\n') {
      ++line_;
    } else if (is_letter(first)) {
      while (at_ < text_.size() &&
             (is_letter(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '_'))
        ++at_;
    } else if (is_digit(first) || first == '-') {
      while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    }
    return std::string_view(text_).substr(begin, at_ - begin);
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const std::string_view two = std::string_view(text_).substr(at_, 2);
      if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (two == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (two == "/*") {
        const size_t end = std::min(text_.find("*/", at_ + 2), text_.size());
        for (; at_ < end; ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
        at_ = std::min(end + 2, text_.size());
      } else {
        return;
      }
    }
  }

  const std::string& text_;
  size_t at_ = 0;
  size_t line_ = 1;
};

class GoalText {
 public:
  GoalText(const std::string& text, const std::string& name)
      : words_(text), most_ranks_(text.size()), name_(name) {
    take();
  }

  Result<GoalSchedule> read() {
    TRY(read_header());
    for (skip_lines(); !word_.empty(); skip_lines()) TRY(read_rank());
    for (size_t rank = 0; rank < there_.size(); ++rank) {
      if (!there_[rank]) return wrong("rank " + std::to_string(rank) + " is missing");
    }
    return std::move(schedule_);
  }

 private:
  struct Reference {
    size_t line = 0;
    std::string waits, former;
    bool start = false;
  };

  void take() {
    line_ = words_.line();
    word_ = words_.next();
  }
  void skip_lines() {
    while (word_ == "\n") take();
  }
  tl::unexpected<Error> wrong(const std::string& what) const { return wrong_at(line_, what); }
  tl::unexpected<Error> wrong_at(size_t line, const std::string& what) const {
    return fail(name_ + ":" + std::to_string(line) + ": " + what);
  }
  tl::unexpected<Error> expected(const std::string& what) const {
    const std::string found = word_.empty()   ? "the end of the file"
                              : word_ == "\n" ? "the end of the line"
                                              : "\"" + std::string(word_) + "\"";
    return wrong("found " + found + ": expected " + what);
  }

  Result<void> sign(const char* sign) {
    if (word_ != sign) return expected(std::string("\"") + sign + "\"");
    take();
    return {};
  }
  /// An end of line, or what closes a rank.
  Result<void> end_of_line() {
    if (word_ != "\n" && word_ != "}") return expected("the end of the line");
    return {};
  }

  template <typename T>
  Result<T> number(const char* what, uint64_t most = std::numeric_limits<T>::max()) {
    if (word_.empty() || !is_digit(word_[0])) return expected(what);
    uint64_t value = 0;
    const auto read = std::from_chars(word_.data(), word_.data() + word_.size(), value);
    if (read.ec != std::errc() || value > most) {
      return wrong(std::string(word_) + " is too large for " + what);
    }
    take();
    return static_cast<T>(value);
  }
  /// -1 stands for any.
  Result<uint32_t> number_or_any(const char* what) {
    if (word_ != "-1") return number<uint32_t>(what, kAnyGoalTag - 1);
    take();
    return kAnyGoalTag;
  }

  Result<void> read_header() {
    skip_lines();
    TRY(sign("num_ranks"));
    const auto ranks = TRY(number<uint32_t>("the number of ranks"));
    if (ranks == 0) return wrong("there are no ranks");
    if (ranks > most_ranks_) {
      return wrong("num_ranks is " + std::to_string(ranks) + ", and the file is shorter than that");
    }
    schedule_.ranks.resize(ranks);
    there_.resize(ranks);
    return {};
  }

  Result<void> read_rank() {
    TRY(sign("rank"));
    const auto rank = TRY(number<uint32_t>("a rank"));
    if (rank >= there_.size()) {
      return wrong("there is no rank " + std::to_string(rank) + ": num_ranks is " +
                   std::to_string(there_.size()));
    }
    if (there_[rank]) return wrong("rank " + std::to_string(rank) + " stands here again");
    there_[rank] = true;
    TRY(sign("{"));
    labels_.clear();
    references_.clear();
    GoalRank& to = schedule_.ranks[rank];
    for (skip_lines(); word_ != "}"; skip_lines()) TRY(read_statement(to));
    take();
    for (const Reference& reference : references_) {
      const auto waits = labels_.find(reference.waits), former = labels_.find(reference.former);
      for (const auto& [found, label] :
           {std::pair(waits, &reference.waits), std::pair(former, &reference.former)}) {
        if (found != labels_.end()) continue;
        return wrong_at(reference.line, "rank " + std::to_string(rank) + " has no label " + *label);
      }
      to.requirements.push_back({waits->second, former->second, reference.start});
    }
    return {};
  }

  Result<void> read_statement(GoalRank& to) {
    constexpr const char* kExpected = "an operation, a label, or \"}\"";
    if (word_.empty() || !is_letter(word_[0])) return expected(kExpected);
    if (is_operation(word_)) return read_operation({}, to);
    const std::string label(word_);
    take();
    if (word_ == ":") {
      take();
      if (!is_operation(word_)) return expected("send, recv or calc");
      if (!labels_.emplace(label, to.operations.size()).second) {
        return wrong("the label " + label + " stands here again");
      }
      return read_operation(label, to);
    }
    if (word_ != "requires" && word_ != "irequires") {
      return expected("\":\", requires or irequires");
    }
    Reference reference{line_, label, {}, word_ == "irequires"};
    take();
    if (word_.empty() || !is_letter(word_[0])) return expected("a label");
    reference.former = word_;
    references_.push_back(std::move(reference));
    take();
    return end_of_line();
  }

  static bool is_operation(std::string_view word) {
    return word == "send" || word == "recv" || word == "calc";
  }

  Result<void> read_operation(const std::string& label, GoalRank& to) {
    GoalOperation made;
    made.label = label;
    made.kind = word_ == "send"   ? OperationKind::kSend
                : word_ == "recv" ? OperationKind::kReceive
                                  : OperationKind::kCalculation;
    take();
    const bool message = made.kind != OperationKind::kCalculation;
    made.size = TRY(number<uint64_t>(message ? "bytes" : "nanoseconds"));
    if (message) {
      TRY(sign("b"));
      const bool sends = made.kind == OperationKind::kSend;
      TRY(sign(sends ? "to" : "from"));
      made.peer = TRY(sends ? number<uint32_t>("a rank") : number_or_any("a rank, or -1"));
      if (made.peer != kAnyGoalPeer && made.peer >= there_.size()) {
        return wrong("there is no rank " + std::to_string(made.peer) + ": num_ranks is " +
                     std::to_string(there_.size()));
      }
    }
    TRY(read_places(message, made));
    to.operations.push_back(std::move(made));
    return end_of_line();
  }

  Result<void> read_places(bool message, GoalOperation& made) {
    bool tag = false, cpu = false, nic = false;
    while (true) {
      if (word_ == "tag" && message && !tag) {
        take();
        made.tag = TRY(number_or_any("a tag, or -1"));
        tag = true;
      } else if (word_ == "cpu" && !cpu) {
        take();
        made.cpu = TRY(number<uint8_t>("a cpu (at most 255)"));
        cpu = true;
      } else if (word_ == "nic" && !nic) {
        take();
        made.nic = TRY(number<uint8_t>("a nic (at most 255)"));
        nic = true;
      } else {
        return {};
      }
    }
  }

  GoalWords words_;
  size_t most_ranks_;
  const std::string& name_;
  std::string_view word_;  ///< the next one
  size_t line_ = 1;        ///< its
  GoalSchedule schedule_;
  std::vector<bool> there_;
  std::map<std::string, uint32_t, std::less<>> labels_;  ///< of the rank at hand
  std::vector<Reference> references_;
};

/// Those of the schedule where all operations of a rank have one, else l1, l2 ...
std::vector<std::string> labels_of(const GoalRank& rank) {
  const bool all = std::ranges::none_of(
      rank.operations, [](const GoalOperation& operation) { return operation.label.empty(); });
  std::vector<std::string> labels;
  for (size_t i = 0; i < rank.operations.size(); ++i) {
    labels.push_back(all ? rank.operations[i].label : "l" + std::to_string(i + 1));
  }
  return labels;
}

std::string any_or(uint32_t value) { return value == kAnyGoalTag ? "-1" : std::to_string(value); }

void append(std::string& text, const GoalOperation& operation) {
  const std::string size = std::to_string(operation.size);
  switch (operation.kind) {
    case OperationKind::kSend:
      text += "send " + size + "b to " + std::to_string(operation.peer);
      break;
    case OperationKind::kReceive:
      text += "recv " + size + "b from " + any_or(operation.peer);
      break;
    case OperationKind::kCalculation:
      text += "calc " + size;
      break;
  }
  if (operation.kind != OperationKind::kCalculation) text += " tag " + any_or(operation.tag);
  if (operation.cpu > 0) text += " cpu " + std::to_string(operation.cpu);
  if (operation.nic > 0) text += " nic " + std::to_string(operation.nic);
}

}  // namespace

bool looks_like_goal(const std::string& bytes) {
  if (is_goal_binary(bytes)) return true;
  constexpr size_t kLooked = 4096;
  const std::string begin = bytes.substr(0, kLooked);
  GoalWords words(begin);
  std::string_view word = words.next();
  while (word == "\n") word = words.next();
  return word == "num_ranks";
}

Result<GoalSchedule> read_goal(const std::string& bytes, const std::string& name) {
  if (is_goal_binary(bytes)) return read_goal_binary(bytes, name);
  return GoalText(bytes, name).read();
}

std::string goal_text(const GoalSchedule& schedule) {
  std::string text = "num_ranks " + std::to_string(schedule.ranks.size()) + "\n";
  for (size_t number = 0; number < schedule.ranks.size(); ++number) {
    const GoalRank& rank = schedule.ranks[number];
    text += "\nrank " + std::to_string(number) + " {\n";
    const std::vector<std::string> labels = labels_of(rank);
    for (size_t i = 0; i < rank.operations.size(); ++i) {
      text += labels[i] + ": ";
      append(text, rank.operations[i]);
      text += '\n';
    }
    for (const auto& [waits, former, start] : rank.requirements) {
      text += labels[waits] + (start ? " irequires " : " requires ") + labels[former] + "\n";
    }
    text += "}\n";
  }
  return text;
}

}  // namespace understudy
