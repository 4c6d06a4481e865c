#include "ctrl/config/read/load.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "ctrl/config/read/sections.h"
#include "ctrl/config/toml/toml_guard.h"

namespace understudy {
namespace {

std::string hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a, 64 bits
  for (char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  char hex[17];
  std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hash));
  return std::string("fnv1a64:") + hex;
}

tl::unexpected<std::vector<ConfigError>> alone(ConfigError error) {
  return tl::unexpected(std::vector<ConfigError>{std::move(error)});
}

tl::expected<std::string, ConfigError> read_text(const std::string& path, size_t most) {
  const auto failed = [&](const char* what) {
    return tl::unexpected(
        ConfigError{path, 0, "", "", std::string(what) + ": " + std::strerror(errno)});
  };
  const auto close = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) return failed("cannot open");
  // One byte more than is parsed: a larger file is refused there, and an endless one ends.
  std::string text;
  std::array<char, 65536> piece;
  while (text.size() <= most) {
    const size_t size =
        std::fread(piece.data(), 1, std::min(piece.size(), most + 1 - text.size()), file.get());
    if (size == 0) break;
    text.append(piece.data(), size);
  }
  if (std::ferror(file.get())) return failed("cannot read");
  return text;
}

}  // namespace

const NodeConfig* Config::find_node(std::string_view name) const {
  for (const NodeConfig& node : nodes) {
    if (node.name == name) return &node;
  }
  return nullptr;
}

const ControlConfig* Config::find_control(std::string_view name) const {
  for (const ControlConfig& control : controls) {
    if (control.name == name) return &control;
  }
  return nullptr;
}

std::string ConfigError::text() const {
  std::string text = file;
  if (line != 0) text.append(":").append(std::to_string(line));
  if (!key.empty()) text.append(": ").append(key);
  if (!found.empty()) text.append(": found ").append(found);
  text.append(": ").append(allowed);
  // What was found may hold anything; a message stays one line and does not steer the terminal.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::string describe(const std::vector<ConfigError>& errors) {
  std::string text;
  for (const ConfigError& error : errors) text += error.text() + "\n";
  return text;
}

ConfigResult load_config_text(const std::string& text, const std::string& filename,
                              const FileReader& read_file) {
  const auto document = parse_toml(text);
  if (!document) {
    return alone({filename, document.error().line, "", "", document.error().text});
  }
  ReadContext context(filename);
  context.read_file = read_file;
  TableReader root(*document, "", context.errors);
  read_settings(root, context);
  read_queues(root, context);
  read_controls(root, context);
  read_nics(root, context);
  read_nodes(root, context);
  if (context.nodes_complete) {
    assign_addresses(context);
  } else {
    context.addresses_complete = false;
  }
  read_nccl(root, context);
  read_topology(root, context);
  read_ports(root, context);
  read_services(root, context);
  read_clients(root, context);
  read_faults(root, context);
  read_dimension_costs(root, context);
  read_jobs(root, context);
  read_traffic(root, context);
  read_model(root, context);
  read_workload(root, context);
  read_events(root, context);
  root.finish();
  if (!context.errors.empty()) return tl::unexpected(context.errors.take());
  Config config = std::move(context.config);
  config.path = filename;
  config.source_text = text;
  config.hash = hash_of(text);
  return config;
}

ConfigResult load_scenario_text(Config config, const std::string& text,
                                const std::string& filename) {
  const auto document = parse_toml(text);
  if (!document) {
    return alone({filename, document.error().line, "", "", document.error().text});
  }
  ReadContext context(filename);
  context.config = std::move(config);
  for (const NodeConfig& node : context.config.nodes) context.node_by_name[node.name] = node.index;
  TableReader root(*document, "", context.errors);
  read_format(root);
  read_faults(root, context);
  root.finish();
  if (!context.errors.empty()) return tl::unexpected(context.errors.take());
  context.config.scenarios.push_back({filename, hash_of(text)});
  return std::move(context.config);
}

ConfigResult load_config(const std::string& path) {
  const auto text = read_text(path, kLongestText);
  if (!text) return alone(text.error());
  return load_config_text(*text, path, read_text);
}

ConfigResult load_calibration(const std::string& path) {
  const auto text = read_text(path, kLongestText);
  if (!text) return alone(text.error());
  const auto document = parse_toml(*text);
  if (!document) return alone({path, document.error().line, "", "", document.error().text});
  const bool sections = std::ranges::all_of(document->children, [](const TomlNode& child) {
    return child.key == "nccl" || child.key == "calibration";
  });
  if (!sections) return load_config_text(*text, path, read_text);
  ReadContext context(path);
  TableReader root(*document, "", context.errors);
  read_nccl(root, context);
  if (!context.errors.empty()) return tl::unexpected(context.errors.take());
  return std::move(context.config);
}

ConfigResult load_scenario(Config config, const std::string& path) {
  const auto text = read_text(path, kLongestText);
  if (!text) return alone(text.error());
  return load_scenario_text(std::move(config), *text, path);
}

}  // namespace understudy
