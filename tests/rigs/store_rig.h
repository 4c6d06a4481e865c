// Sockets for the machines of PyTorch's store that are only written down: what was sent, closed,
// dialled and said.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ctrl/peers/torch_store/host.h"
#include "ctrl/peers/torch_store/wire.h"

namespace understudy {

class WrittenHost : public StoreHost {
 public:
  StreamId new_stream() override { return ++last_; }
  void dial(StreamId stream) override { dialled.push_back(stream); }
  void send(StreamId stream, std::span<const uint8_t> bytes) override {
    sent[stream].insert(sent[stream].end(), bytes.begin(), bytes.end());
  }
  void close(StreamId stream) override { closed.insert(stream); }
  void say(const std::string& line) override { said += line + "\n"; }

  /// What was sent on a stream since the last call.
  std::vector<uint8_t> take(StreamId stream) {
    auto found = sent.extract(stream);
    return found.empty() ? std::vector<uint8_t>() : std::move(found.mapped());
  }

  std::map<StreamId, std::vector<uint8_t>> sent;
  std::set<StreamId> closed;
  std::vector<StreamId> dialled;
  std::string said;

 private:
  StreamId last_ = 1000;
};

inline StoreRequest store_request(StoreCommand command, std::vector<std::string> keys = {},
                                  std::vector<std::string> values = {}, int64_t number = 0) {
  StoreRequest request{command, std::move(keys), {}, number};
  for (const std::string& value : values) request.values.push_back(store_value(value));
  return request;
}

/// "01 ff" -> its bytes; text in quotes is taken as it is, and "key:abc" is a length and the text.
inline std::vector<uint8_t> script(const std::string& text) {
  std::vector<uint8_t> bytes;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.starts_with("key:")) {
      const uint64_t size = word.size() - 4;
      for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(size >> (8 * i)));
      bytes.insert(bytes.end(), word.begin() + 4, word.end());
    } else if (word.starts_with("i64:") || word.starts_with("u64:")) {
      const auto number = static_cast<uint64_t>(std::stoll(word.substr(4)));
      for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<uint8_t>(number >> (8 * i)));
    } else if (!word.empty()) {
      bytes.push_back(static_cast<uint8_t>(std::stoul(word, nullptr, 16)));
    }
  }
  return bytes;
}

}  // namespace understudy
