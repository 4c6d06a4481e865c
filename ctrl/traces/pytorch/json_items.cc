#include "ctrl/traces/pytorch/json_items.h"

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace understudy {
namespace {

using Json = nlohmann::json;

constexpr size_t kDeepest = 64;

/// The bytes of a file, counted.
class CountedBytes {
 public:
  explicit CountedBytes(std::istream& file) : file_(file) { fill(); }

  bool done() const { return at_ == end_; }
  char front() const { return buffer_[at_]; }
  void pop() {
    ++taken_;
    if (++at_ == end_) fill();
  }
  uint64_t taken() const { return taken_; }

 private:
  void fill() {
    at_ = 0;
    file_.read(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    end_ = static_cast<size_t>(file_.gcount());
  }

  std::istream& file_;
  std::array<char, size_t{1} << 16> buffer_{};
  size_t at_ = 0, end_ = 0;
  uint64_t taken_ = 0;
};

/// As the JSON library reads them; without bytes it is the end.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit ByteIterator(CountedBytes* bytes) : bytes_(bytes) {}
  char operator*() const { return bytes_->front(); }
  ByteIterator& operator++() {
    bytes_->pop();
    return *this;
  }
  bool operator==(const ByteIterator& other) const { return ended() == other.ended(); }
  bool operator!=(const ByteIterator& other) const { return ended() != other.ended(); }

 private:
  bool ended() const { return bytes_ == nullptr || bytes_->done(); }
  CountedBytes* bytes_;
};

/// The JSON library's events: puts values of the second level together and hands them on.
class Items : public nlohmann::json_sax<Json> {
 public:
  Items(const CountedBytes& bytes, const std::string& key, const JsonItemsSink& sink)
      : bytes_(bytes), key_(key), sink_(sink) {}

  bool null() override { return scalar(nullptr); }
  bool boolean(bool value) override { return scalar(value); }
  bool number_integer(int64_t value) override { return scalar(value); }
  bool number_unsigned(uint64_t value) override { return scalar(value); }
  bool number_float(double value, const std::string& /*text*/) override { return scalar(value); }
  bool string(std::string& value) override { return scalar(std::move(value)); }
  bool binary(Json::binary_t& /*value*/) override { return stop("this is not JSON"); }
  bool start_object(size_t /*size*/) override {
    if (place_ == Place::kBefore) {
      place_ = Place::kObject;
      return true;
    }
    return open(Json::object());
  }
  bool key(std::string& name) override {
    last_key_ = std::move(name);
    if (!open_.empty() || place_ != Place::kObject) return true;
    const auto known = sink_.key(last_key_);
    return known || stop(known.error().text);
  }
  bool end_object() override {
    if (open_.empty()) {
      place_ = Place::kAfter;
      return true;
    }
    return close();
  }
  bool start_array(size_t /*size*/) override {
    if (place_ == Place::kBefore) {
      place_ = Place::kList;
      read_.has_list = read_.bare_list = true;
      return true;
    }
    if (place_ == Place::kObject && open_.empty() && last_key_ == key_) {
      if (read_.has_list) return stop("the list " + key_ + " occurs twice");
      place_ = Place::kList;
      read_.has_list = true;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (open_.empty()) {
      place_ = read_.bare_list ? Place::kAfter : Place::kObject;
      return true;
    }
    return close();
  }
  bool parse_error(size_t byte, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    const bool too_large = dynamic_cast<const Json::out_of_range*>(&error) != nullptr;
    if (bytes_.done() && !too_large) {
      return stop_at(bytes_.taken(), bytes_.taken() == 0 ? "the file is empty"
                                                         : "the file ends early: it was cut off");
    }
    return stop_at(byte, too_large ? "a number is too large" : "this is not JSON");
  }

  const JsonItemsRead& read() const { return read_; }
  const std::string& wrong() const { return wrong_; }

 private:
  enum class Place : uint8_t { kBefore, kObject, kList, kAfter };

  bool stop_at(uint64_t byte, const std::string& what) {
    wrong_ = "at byte " + std::to_string(byte) + ": " + what;
    return false;
  }
  bool stop(const std::string& what) { return stop_at(bytes_.taken(), what); }

  /// Where the next value goes, below the open ones.
  Json* put(Json&& value) {
    Json& into = *open_.back();
    if (into.is_array()) {
      into.push_back(std::move(value));
      return &into.back();
    }
    Json& at = into[last_key_];
    at = std::move(value);
    return &at;
  }

  bool scalar(Json&& value) {
    if (place_ == Place::kBefore) return stop("this is neither an object nor a list");
    if (open_.empty()) {
      begin_ = bytes_.taken();
      return hand_on(std::move(value));
    }
    put(std::move(value));
    return true;
  }

  bool open(Json&& value) {
    if (open_.size() == kDeepest) {
      return stop("values stand in more than " + std::to_string(kDeepest) + " others");
    }
    if (open_.empty()) {
      begin_ = bytes_.taken() - 1;
      outer_key_ = last_key_;
      whole_ = std::move(value);
      open_.push_back(&whole_);
    } else {
      open_.push_back(put(std::move(value)));
    }
    return true;
  }

  bool close() {
    open_.pop_back();
    if (!open_.empty()) return true;
    if (place_ == Place::kObject) last_key_ = outer_key_;
    return hand_on(std::move(whole_));
  }

  bool hand_on(Json&& value) {
    const auto taken = place_ == Place::kList ? sink_.item(std::move(value), begin_)
                                              : sink_.other(last_key_, std::move(value));
    return taken || stop_at(begin_, taken.error().text);
  }

  const CountedBytes& bytes_;
  const std::string& key_;
  const JsonItemsSink& sink_;
  Place place_ = Place::kBefore;
  JsonItemsRead read_;
  std::string last_key_, outer_key_;
  Json whole_;
  std::vector<Json*> open_;
  uint64_t begin_ = 0;
  std::string wrong_;
};

}  // namespace

Result<JsonItemsRead> read_json_items(std::istream& file, const std::string& name,
                                      const std::string& key, const JsonItemsSink& sink) {
  CountedBytes bytes(file);
  Items items(bytes, key, sink);
  if (!Json::sax_parse(ByteIterator(&bytes), ByteIterator(nullptr), &items)) {
    return fail(name + ": " + (items.wrong().empty() ? "this is not JSON" : items.wrong()));
  }
  return items.read();
}

}  // namespace understudy
