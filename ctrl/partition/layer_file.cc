#include "ctrl/partition/layer_file.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

using InputJson = nlohmann::json;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// What separates, line ends or commas, does not count at the end of the text.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parts;
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Result<std::vector<std::vector<double>>> csv_weights(std::string_view text) {
  std::vector<std::vector<double>> rows;
  const std::vector<std::string_view> lines = split(text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i].front() == '#') continue;
    auto& row = rows.emplace_back();
    for (const std::string_view cell : split(lines[i], ',')) {
      const auto value = number<double>(cell);
      if (!value) {
        return fail("line " + std::to_string(i + 1) + ": found \"" + std::string(cell) +
                    "\": expected a number");
      }
      row.push_back(*value);
    }
  }
  return rows;
}

/// A whole number from 0 on, that 32 bits hold.
std::optional<uint32_t> whole(const InputJson& value) {
  if (!value.is_number_unsigned() || value > UINT32_MAX) return std::nullopt;
  return value.get<uint32_t>();
}

Result<PartitionedLayer> json_layer(const InputJson& json) {
  PartitionedLayer layer;
  const auto member = [&](const char* key) { return json.contains(key) ? json[key] : InputJson(); };
  if (!json.is_object()) return fail("expected an object with W, workers and input_worker");
  const InputJson weights = member("W"), inputs = member("input_worker"),
                  workers = member("workers"), lambda = member("lam");
  if (!weights.is_array()) return fail("W: expected rows of numbers");
  for (const InputJson& row : weights) {
    if (!row.is_array()) return fail("W: expected rows of numbers");
    auto& out = layer.weights.emplace_back();
    for (const InputJson& weight : row) {
      if (!weight.is_number()) return fail("W: found " + weight.dump() + ": expected a number");
      out.push_back(weight.get<double>());
    }
  }
  if (!inputs.is_null() && !inputs.is_array()) {
    return fail("input_worker: expected the worker of each input");
  }
  for (const InputJson& input : inputs) {
    const auto worker = whole(input);
    if (!worker) return fail("input_worker: found " + input.dump() + ": expected a worker");
    layer.input_workers.push_back(*worker);
  }
  layer.workers = 0;
  if (!workers.is_null()) {
    const auto count = whole(workers);
    if (!count) return fail("workers: found " + workers.dump() + ": expected how many there are");
    layer.workers = *count;
  }
  if (!lambda.is_null()) {
    if (!lambda.is_number()) return fail("lam: found " + lambda.dump() + ": expected a number");
    layer.lambda = lambda.get<double>();
  }
  return layer;
}

Result<void> apply(const LayerOptions& options, PartitionedLayer& layer) {
  if (options.workers) layer.workers = *options.workers;
  if (options.lambda) layer.lambda = *options.lambda;
  if (options.cut) layer.lambda.reset();
  if (layer.workers == 0) return fail("workers: how many there are is not said (--workers)");
  if (!layer.lambda && !options.cut) {
    return fail("lambda: what a weight across costs is not said (--lambda, or --cut)");
  }
  if (!options.inputs.empty()) {
    layer.input_workers.clear();
    for (const std::string_view part : split(options.inputs, ',')) {
      const auto worker = number<uint32_t>(part);
      if (!worker) return fail("--inputs: found \"" + std::string(part) + "\": expected a worker");
      layer.input_workers.push_back(*worker);
    }
  } else if (layer.input_workers.empty() && !layer.weights.empty()) {
    const size_t inputs = layer.weights.front().size();
    if (inputs % layer.workers != 0) {
      return fail(std::to_string(layer.workers) + " workers cannot have as many of " +
                  std::to_string(inputs) + " inputs each (--inputs)");
    }
    for (size_t j = 0; j < inputs; ++j) {
      layer.input_workers.push_back(static_cast<uint32_t>(j / (inputs / layer.workers)));
    }
  }
  return check_layer(layer);
}

}  // namespace

Result<std::vector<PartitionedLayer>> parse_layers(std::string_view text,
                                                   const LayerOptions& options) {
  std::vector<PartitionedLayer> layers;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return fail("the file is empty");
  if (text[begin] != '{') {
    PartitionedLayer layer;
    layer.workers = 0;
    layer.weights = TRY(csv_weights(text));
    TRY(apply(options, layer));
    layers.push_back(std::move(layer));
    return layers;
  }
  const InputJson json = InputJson::parse(text, nullptr, false);
  if (json.is_discarded()) return fail("no right JSON");
  const bool many = json.contains("cases");
  if (many && (!json["cases"].is_array() || json["cases"].empty())) {
    return fail("cases: expected a list of layers");
  }
  const size_t count = many ? json["cases"].size() : 1;
  for (size_t i = 0; i < count; ++i) {
    auto layer = json_layer(many ? json["cases"][i] : json);
    const Result<void> applied = layer ? apply(options, *layer) : tl::unexpected(layer.error());
    if (!applied) {
      return fail((many ? "case " + std::to_string(i) + ": " : "") + applied.error().text);
    }
    layers.push_back(*std::move(layer));
  }
  return layers;
}

}  // namespace understudy
