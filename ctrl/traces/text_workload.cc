#include "ctrl/traces/text_workload.h"

#include <charconv>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "dataplane/base/try.h"

namespace understudy {
namespace {

enum class Strategy { kMicro, kData, kModel, kHybrid, kDlrm };

struct Phase {
  uint64_t time_us = 0;
  std::string collective;
  uint64_t bytes = 0;
};

struct Layer {
  std::string name;
  Phase forward, input, weight;
};

struct Text {
  Strategy strategy = Strategy::kMicro;
  size_t last_bottom = 0;  ///< kDlrm
  std::vector<Layer> layers;
};

const std::map<std::string, TraceCollective> kCollectives = {
    // An operation of no collective becomes an all-reduce of its size.
    {"NONE", TraceCollective::kAllReduce},
    {"ALLREDUCE", TraceCollective::kAllReduce},
    {"ALLTOALL", TraceCollective::kAllToAll},
    {"ALLGATHER", TraceCollective::kAllGather},
    {"REDUCESCATTER", TraceCollective::kReduceScatter}};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

class TextReader {
 public:
  TextReader(const std::string& text, const std::string& name) : stream_(text), name_(name) {}

  Result<Text> read() {
    Text text;
    const auto head = next();
    if (!head) return wrong("the strategy is missing");
    const std::vector<std::string>& first = *head;
    const std::map<std::string, Strategy> strategies = {{"MICRO", Strategy::kMicro},
                                                        {"DATA", Strategy::kData},
                                                        {"MODEL", Strategy::kModel},
                                                        {"HYBRID_DATA_MODEL", Strategy::kHybrid},
                                                        {"HYBRID_MODEL_DATA", Strategy::kHybrid},
                                                        {"HYBRID_DLRM", Strategy::kDlrm},
                                                        {"HYBRID_DLRM_ENHANCED", Strategy::kDlrm}};
    const auto strategy = strategies.find(first[0]);
    if (strategy == strategies.end()) {
      return wrong("the strategy '" + first[0] + "' is not one that Chakra's converter knows");
    }
    text.strategy = strategy->second;
    if (text.strategy == Strategy::kDlrm) {
      if (first.size() < 2) return wrong(first[0] + " needs the number of its last bottom layer");
      text.last_bottom = TRY(number(first[1], "the last bottom layer"));
    }
    const auto count_line = next();
    if (!count_line) return wrong("the number of layers is missing");
    const uint64_t count = TRY(number((*count_line)[0], "the number of layers"));
    while (const auto words = next()) {
      if (text.layers.size() == count) {
        return wrong("there are more layers than the second line says (" + std::to_string(count) +
                     ")");
      }
      text.layers.push_back(TRY(layer(*words)));
    }
    if (text.layers.size() < count) {
      return wrong("the file ends after " + std::to_string(text.layers.size()) + " of " +
                   std::to_string(count) + " layers");
    }
    if (count == 0) return wrong("there are no layers");
    if (text.strategy == Strategy::kDlrm) TRY(check_dlrm(text));
    return text;
  }

 private:
  tl::unexpected<Error> wrong(const std::string& what) const {
    return fail(name_ + ":" + std::to_string(line_) + ": " + what);
  }

  /// Words of the next line that has any.
  std::optional<std::vector<std::string>> next() {
    for (std::string line; std::getline(stream_, line);) {
      ++line_;
      auto words = words_of(line);
      if (!words.empty()) return words;
    }
    return std::nullopt;
  }

  Result<uint64_t> number(const std::string& word, const std::string& what) const {
    uint64_t value = 0;
    const char* end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data(), end, value);
    if (error != std::errc() || at != end) {
      return wrong(what + " '" + word + "' is not a whole number");
    }
    return value;
  }

  Result<Phase> phase(const std::vector<std::string>& words, size_t first, const char* what) const {
    Phase read;
    read.time_us = TRY(number(words[first], std::string(what) + " time"));
    read.collective = words[first + 1];
    if (!kCollectives.contains(read.collective)) {
      return wrong("the collective '" + read.collective + "' is not known");
    }
    read.bytes = TRY(number(words[first + 2], std::string(what) + " size"));
    return read;
  }

  Result<Layer> layer(const std::vector<std::string>& words) const {
    constexpr size_t kColumns = 12;
    if (words.size() < kColumns) {
      return wrong("a layer has 12 columns, and this one " + std::to_string(words.size()));
    }
    Layer read;
    read.name = words[0];
    read.forward = TRY(phase(words, 2, "forward"));
    read.input = TRY(phase(words, 5, "input-gradient"));
    read.weight = TRY(phase(words, 8, "weight-gradient"));
    return read;
  }

  Result<void> check_dlrm(const Text& text) const {
    if (text.last_bottom < text.layers.size() && text.layers[0].forward.collective != "ALLTOALL") {
      return wrong("HYBRID_DLRM needs an ALLTOALL after the forward of its first layer");
    }
    return {};
  }

  std::istringstream stream_;
  const std::string& name_;
  uint64_t line_ = 0;
};

/// Ids of the nodes of a layer, in this pass and where they are not made yet of the pass before.
struct LayerNodes {
  std::optional<uint64_t> forward, forward_collective, input, input_collective, weight,
      weight_collective;
};

class TextGraph {
 public:
  explicit TextGraph(const Text& text) : text_(text), at_(text.layers.size()) {}

  std::vector<TraceNodeParents> make(uint32_t passes) {
    for (uint32_t pass = 0; pass < passes; ++pass) {
      switch (text_.strategy) {
        case Strategy::kMicro:
          for (const Layer& layer : text_.layers) collective(layer, layer.weight, {});
          break;
        case Strategy::kData:
          data_pass();
          break;
        case Strategy::kModel:
          model_pass(false);
          break;
        case Strategy::kHybrid:
          model_pass(true);
          break;
        case Strategy::kDlrm:
          dlrm_pass();
          break;
      }
    }
    return std::move(nodes_);
  }

 private:
  using Parents = std::initializer_list<std::optional<uint64_t>>;

  uint64_t add(TraceNode node, Parents parents) {
    TraceNodeParents made;
    made.node = std::move(node);
    made.node.id = nodes_.size();
    for (const auto& parent : parents) {
      if (parent) made.data.push_back(*parent);
    }
    nodes_.push_back(std::move(made));
    return nodes_.back().node.id;
  }

  uint64_t compute(const Layer& layer, const Phase& phase, const char* what, Parents parents) {
    TraceNode node;
    node.name = "COMP_NODE_" + layer.name + "_" + what;
    node.kind = TraceNodeKind::kCompute;
    node.duration_us = phase.time_us;
    return add(std::move(node), parents);
  }

  uint64_t collective(const Layer& layer, const Phase& phase, Parents parents) {
    TraceNode node;
    node.name = "COMM_COLL_NODE_" + layer.name + "_" + phase.collective;
    node.kind = TraceNodeKind::kCollective;
    node.collective = kCollectives.at(phase.collective);
    node.bytes = phase.bytes;
    return add(std::move(node), parents);
  }

  std::optional<uint64_t> none() const { return std::nullopt; }

  void data_pass() {
    for (size_t l = 0; l < at_.size(); ++l) {
      const Layer& layer = text_.layers[l];
      at_[l].forward = compute(layer, layer.forward, "FWD",
                               {l > 0 ? at_[l - 1].forward : none(), at_[l].weight_collective});
    }
    for (size_t l = at_.size(); l-- > 0;) {
      const Layer& layer = text_.layers[l];
      LayerNodes& own = at_[l];
      own.weight = compute(layer, layer.weight, "BWD_WG",
                           {l + 1 == at_.size() ? own.forward : at_[l + 1].input});
      own.weight_collective = collective(layer, layer.weight, {own.weight});
      if (l > 0) own.input = compute(layer, layer.input, "BWD_IG", {own.weight});
    }
  }

  void model_pass(bool with_data) {
    for (size_t l = 0; l < at_.size(); ++l) {
      const Layer& layer = text_.layers[l];
      LayerNodes& own = at_[l];
      own.forward = compute(layer, layer.forward, "FWD",
                            {l > 0 ? at_[l - 1].forward_collective : none(),
                             with_data ? own.weight_collective : own.weight});
      own.forward_collective = collective(layer, layer.forward, {own.forward});
    }
    for (size_t l = at_.size(); l-- > 0;) {
      const Layer& layer = text_.layers[l];
      LayerNodes& own = at_[l];
      own.input = l + 1 == at_.size()
                      ? compute(layer, layer.input, "BWD_IG", {own.forward_collective})
                      : compute(layer, layer.input, "BWD_IG",
                                {at_[l + 1].weight, at_[l + 1].input_collective});
      if (l > 0) own.input_collective = collective(layer, layer.input, {own.input});
      own.weight = compute(layer, layer.weight, "BWD_WG", {own.input});
      if (with_data) own.weight_collective = collective(layer, layer.weight, {own.weight});
    }
  }

  void dlrm_pass() {
    for (size_t l = 0; l < at_.size(); ++l) {
      const Layer& layer = text_.layers[l];
      LayerNodes& own = at_[l];
      own.forward = compute(layer, layer.forward, "FWD",
                            {own.weight_collective ? own.weight_collective : own.weight,
                             l > 0 ? at_[l - 1].forward : none(),
                             l == text_.last_bottom ? at_[0].forward_collective : none()});
      if (layer.forward.collective == "ALLTOALL") {
        own.forward_collective = collective(layer, layer.forward, {own.forward});
      }
    }
    for (size_t l = at_.size(); l-- > 0;) {
      const Layer& layer = text_.layers[l];
      LayerNodes& own = at_[l];
      own.weight = l + 1 == at_.size() ? compute(layer, layer.weight, "BWD_WG", {own.forward})
                                       : compute(layer, layer.weight, "BWD_WG",
                                                 {at_[l + 1].input, own.input_collective});
      if (layer.weight.collective != "NONE") {
        own.weight_collective = collective(layer, layer.weight, {own.weight});
      }
      if (l > 0) own.input = compute(layer, layer.input, "BWD_IG", {own.weight});
      if (l == text_.last_bottom + 1) {
        at_[0].input_collective = collective(text_.layers[0], text_.layers[0].input, {own.input});
      }
    }
  }

  const Text& text_;
  std::vector<LayerNodes> at_;
  std::vector<TraceNodeParents> nodes_;
};

}  // namespace

Result<TraceGraph> read_text_workload(const std::string& text, const std::string& name,
                                      uint32_t passes) {
  const Text read = TRY(TextReader(text, name).read());
  return TraceGraph::make(TextGraph(read).make(passes));
}

}  // namespace understudy
