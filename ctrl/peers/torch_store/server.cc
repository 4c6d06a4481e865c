#include "ctrl/peers/torch_store/server.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "ctrl/peers/torch_store/keys.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr int64_t kReady = 0, kNotReady = 1, kCancelled = 1;

std::optional<int64_t> decimal(const StoreValue& value) {
  const char* begin = reinterpret_cast<const char*>(value.data());
  int64_t number = 0;
  const auto [end, error] = std::from_chars(begin, begin + value.size(), number);
  if (error != std::errc() || end != begin + value.size()) return std::nullopt;
  return number;
}

}  // namespace

void TcpStoreServer::on_accepted(StreamId stream, const SocketAddress& from) {
  clients_[stream].from = from;
}

void TcpStoreServer::on_bytes(Time now, StreamId stream, std::span<const uint8_t> bytes) {
  const auto found = clients_.find(stream);
  if (found == clients_.end()) return;
  Client& client = found->second;
  answered_ = 0;
  client.parser.on_bytes(bytes, [&](StoreRequest&& request) {
    if (client.error.empty()) answer(now, stream, client, std::move(request));
  });
  count_held(client);
  if (held_ > kStoreMostBytes) client.error = "clients together hold too much memory";
  const std::string& error = client.error.empty() ? client.parser.error() : client.error;
  if (error.empty()) return;
  host_.say("store: connection from " + client.from.text() + " closed: " + error);
  host_.close(stream);
  on_closed(stream);
}

void TcpStoreServer::on_closed(StreamId stream) {
  const auto found = clients_.find(stream);
  if (found == clients_.end()) return;
  stop_waiting(stream, found->second);
  held_ -= found->second.held;
  clients_.erase(found);
}

void TcpStoreServer::count_held(Client& client) {
  size_t held = client.parser.pending();
  for (const std::string& key : client.awaited) held += key.size() + sizeof(std::string);
  held_ = held_ - client.held + held;
  client.held = held;
}

void TcpStoreServer::answer(Time now, StreamId stream, Client& client, StoreRequest&& request) {
  const StoreCommand command = request.command;
  StoreAnswer answer;
  const auto full = [&] { client.error = full_text(); };
  const auto read = [&](const std::string& key) {
    if (find(key) == nullptr) watcher_.on_wanted(now, key);
    const StoreValue* value = find(key);
    return value == nullptr ? StoreValue() : *value;
  };
  switch (command) {
    case StoreCommand::kSet:
    case StoreCommand::kMultiSet:
      for (size_t i = 0; i < request.keys.size(); ++i) {
        if (!put(request.keys[i], std::move(request.values[i]))) return full();
        watcher_.on_set(now, request.keys[i], *find(request.keys[i]));
      }
      break;
    case StoreCommand::kAppend: {
      const StoreValue* old = find(request.keys[0]);
      StoreValue value = old == nullptr ? StoreValue() : *old;
      value.insert(value.end(), request.values[0].begin(), request.values[0].end());
      if (value.size() > kStoreMostValue || !put(request.keys[0], std::move(value))) return full();
      break;
    }
    case StoreCommand::kCompareSet:
      if (auto value = compare_set(std::move(request))) {
        answer.values = {std::move(*value)};
        break;
      }
      return full();
    case StoreCommand::kGet:
    case StoreCommand::kMultiGet:
      for (const std::string& key : request.keys) {
        answer.values.push_back(read(key));
        answered_ += answer.values.back().size();
        // A long value asked for again and again would fill our memory.
        if (answered_ > kStoreMostAnswers) {
          client.error =
              "it asks for more than " + std::to_string(kStoreMostAnswers) + " bytes at once";
          return;
        }
      }
      break;
    case StoreCommand::kAdd: {
      watcher_.on_adding(now, request.keys[0], request.number);
      const auto sum = add(request.keys[0], request.number);
      if (!sum) {
        client.error = sum.error().text;
        return;
      }
      answer.number = *sum;
      break;
    }
    case StoreCommand::kCheck:
      answer.number = std::all_of(request.keys.begin(), request.keys.end(),
                                  [&](const std::string& key) { return find(key) != nullptr; })
                          ? kReady
                          : kNotReady;
      break;
    case StoreCommand::kWait:
      return wait(now, stream, client, std::move(request.keys));
    case StoreCommand::kCancelWait:
      stop_waiting(stream, client);
      answer.number = kCancelled;
      break;
    case StoreCommand::kKeyCount:
      answer.number = static_cast<int64_t>(values_.size());
      break;
    case StoreCommand::kDelete:
      answer.number = find(request.keys[0]) != nullptr ? 1 : 0;
      erase(request.keys[0]);
      break;
    case StoreCommand::kPing:
      answer.number = request.number;
      break;
  }
  if (store_command_is_answered(command)) {
    host_.send(stream, encode_store_answer(command, answer));
  }
}

void TcpStoreServer::wait(Time now, StreamId stream, Client& client,
                          std::vector<std::string> keys) {
  stop_waiting(stream, client);
  for (const std::string& key : keys) {
    if (find(key) == nullptr) watcher_.on_wanted(now, key);
  }
  std::erase_if(keys, [&](const std::string& key) { return find(key) != nullptr; });
  if (keys.empty()) {
    host_.send(stream, encode_store_answer(StoreCommand::kWait, {{}, kReady}));
    return;
  }
  // A key named twice would be told twice.
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const std::string& key : keys) waiting_[key].push_back(stream);
  client.missing = keys.size();
  client.awaited = std::move(keys);
}

void TcpStoreServer::stop_waiting(StreamId stream, Client& client) {
  for (const std::string& key : client.awaited) {
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) continue;
    std::erase(found->second, stream);
    if (found->second.empty()) waiting_.erase(found);
  }
  client.awaited.clear();
  client.missing = 0;
}

/// Of a key that is not there: the desired value if none is expected, else what was expected comes
/// back, as PyTorch does.
std::optional<StoreValue> TcpStoreServer::compare_set(StoreRequest&& request) {
  const StoreValue* old = find(request.keys[0]);
  const StoreValue& expected = request.values[0];
  if (old == nullptr && !expected.empty()) return expected;
  if (old != nullptr && *old != expected) return *old;
  StoreValue desired = std::move(request.values[1]);
  if (!put(request.keys[0], desired)) return std::nullopt;
  return desired;
}

bool TcpStoreServer::put(const std::string& key, StoreValue value) {
  const auto found = values_.find(key);
  const size_t before = found == values_.end() ? 0 : found->first.size() + found->second.size();
  const size_t after = key.size() + value.size();
  if (bytes_ - before + after > kStoreMostBytes) return false;
  bytes_ = bytes_ - before + after;
  values_[key] = std::move(value);
  auto waiters = waiting_.extract(key);
  if (waiters.empty()) return true;
  for (const StreamId stream : waiters.mapped()) {
    Client& client = clients_.at(stream);
    if (--client.missing > 0) continue;
    client.awaited.clear();
    host_.send(stream, encode_store_answer(StoreCommand::kWait, {{}, kReady}));
  }
  return true;
}

std::string TcpStoreServer::full_text() const {
  return "the store is full: " + std::to_string(bytes_) + " bytes of keys and values";
}

Result<void> TcpStoreServer::set(const std::string& key, StoreValue value) {
  if (!put(key, std::move(value))) return fail(full_text());
  return {};
}

Result<int64_t> TcpStoreServer::add(const std::string& key, int64_t addend) {
  const StoreValue* old = find(key);
  const auto before = old == nullptr ? 0 : decimal(*old);
  if (!before)
    return fail("ADD to the key " + quoted_store_key(key) + ", whose value is no number");
  // Sums wrap, as PyTorch's do.
  const auto sum =
      static_cast<int64_t>(static_cast<uint64_t>(*before) + static_cast<uint64_t>(addend));
  if (!put(key, store_value(std::to_string(sum)))) return fail(full_text());
  return sum;
}

const StoreValue* TcpStoreServer::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void TcpStoreServer::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return;
  bytes_ -= found->first.size() + found->second.size();
  values_.erase(found);
}

Result<StoreAnswer> TcpStoreServer::carry_out(StoreRequest&& request) {
  StoreAnswer answer;
  const std::string key = request.keys.empty() ? "" : request.keys.front();
  switch (request.command) {
    case StoreCommand::kSet:
      TRY(set(key, std::move(request.values[0])));
      break;
    case StoreCommand::kCompareSet: {
      auto value = compare_set(std::move(request));
      if (!value) return fail(full_text());
      answer.values = {std::move(*value)};
      break;
    }
    case StoreCommand::kGet:
      answer.values.emplace_back(find(key) == nullptr ? StoreValue() : *find(key));
      break;
    case StoreCommand::kAdd:
      answer.number = TRY(add(key, request.number));
      break;
    case StoreCommand::kCheck:
      answer.number = find(key) != nullptr ? kReady : kNotReady;
      break;
    case StoreCommand::kKeyCount:
      answer.number = static_cast<int64_t>(values_.size());
      break;
    default:
      break;
  }
  return answer;
}

size_t TcpStoreServer::waiting_clients() const {
  return static_cast<size_t>(std::count_if(clients_.begin(), clients_.end(),
                                           [](const auto& c) { return c.second.missing > 0; }));
}

}  // namespace understudy
