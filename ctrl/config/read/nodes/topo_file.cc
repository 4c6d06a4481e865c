#include "ctrl/config/read/nodes/topo_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "ctrl/config/config_limits.h"
#include "ctrl/config/read/nodes/topo_elements.h"
#include "dataplane/base/try.h"

namespace understudy {
namespace {

constexpr unsigned kMostNvlinks = 64;  ///< of one GPU

struct Gpu {
  const TopoElement* element = nullptr;
  std::string busid;
  int64_t dev = 0;
  double pci_rate = 12;
  unsigned to_switch = 0;
  std::vector<std::pair<const TopoElement*, std::string>> to_gpu;  ///< NVLinks and their target
};

class Reading {
 public:
  Reading(std::string file, std::vector<TopoElement> elements)
      : file_(std::move(file)), elements_(std::move(elements)) {
    machine_.name = file_.substr(file_.rfind('/') + 1);
  }

  tl::expected<Machine, ConfigError> run() {
    for (const TopoElement& element : elements_) {
      if (auto wrong = read(element)) return tl::unexpected(std::move(*wrong));
    }
    if (auto wrong = finish_gpus()) return tl::unexpected(std::move(*wrong));
    if (auto wrong = finish_nics()) return tl::unexpected(std::move(*wrong));
    if (cpus_.size() == 1) machine_.cpu = *cpus_.begin();
    if (cpus_.size() > 1) machine_.cpu = CpuVendor::kMixed;
    return std::move(machine_);
  }

 private:
  using Wrong = std::optional<ConfigError>;

  Wrong wrong(const TopoElement& element, std::string_view attribute, std::string found,
              std::string allowed) const {
    std::string key = element.name;
    if (!attribute.empty()) key.append(".").append(attribute);
    return ConfigError{file_, element.line, std::move(key), std::move(found), std::move(allowed)};
  }

  static const std::string* text(const TopoElement& element, const std::string& attribute) {
    const auto at = element.attributes.find(attribute);
    return at == element.attributes.end() ? nullptr : &at->second;
  }

  /// A number that may be absent.
  Wrong number(const TopoElement& element, const std::string& attribute, int64_t least,
               int64_t most, std::optional<int64_t>& out) const {
    const std::string* value = text(element, attribute);
    if (value == nullptr) return std::nullopt;
    int64_t parsed = 0;
    const char* end = value->data() + value->size();
    const auto [rest, code] = std::from_chars(value->data(), end, parsed);
    if (code != std::errc() || rest != end || parsed < least || parsed > most) {
      return wrong(
          element, attribute, "\"" + *value + "\"",
          "expected an integer from " + std::to_string(least) + " to " + std::to_string(most));
    }
    out = parsed;
    return std::nullopt;
  }

  /// "0000:1b:00.0", in lower case.
  Wrong busid(const TopoElement& element, const std::string& attribute, std::string& out) const {
    const std::string* value = text(element, attribute);
    if (value == nullptr) return wrong(element, attribute, "nothing", "it is missing");
    out = *value;
    size_t digits = 0;
    bool good = out.size() >= 12 && out.size() <= 16;
    for (char& c : out) {
      if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
      const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      digits += hex ? 1 : 0;
      good = good && (hex || c == ':' || c == '.');
    }
    const size_t tail = out.size() - std::min<size_t>(out.size(), 8);
    good = good && out[tail] == ':' && out[tail + 3] == ':' && out[tail + 6] == '.' &&
           digits + 3 == out.size();
    if (good) return std::nullopt;
    return wrong(element, attribute, "\"" + *value + "\"",
                 "expected a PCI address as in \"0000:1b:00.0\"");
  }

  Wrong read(const TopoElement& element) {
    if (element.name == "system") return read_system(element);
    if (element.name == "cpu") return read_cpu(element);
    if (element.name == "pci") return read_pci(element);
    if (element.name == "gpu") return read_gpu(element);
    if (element.name == "nvlink") return read_nvlink(element);
    if (element.name == "net") return read_net(element);
    return std::nullopt;
  }

  Wrong read_system(const TopoElement& element) const {
    const std::string* version = text(element, "version");
    if (version != nullptr && *version == "1") return std::nullopt;
    return wrong(element, "version", version == nullptr ? "nothing" : "\"" + *version + "\"",
                 "expected \"1\", which all releases of NCCL write");
  }

  Wrong read_cpu(const TopoElement& element) {
    if (const std::string* host = text(element, "host_hash")) hosts_.insert(*host);
    if (hosts_.size() > 1) {
      return wrong(element, "host_hash", "a second host", "expected the devices of one node");
    }
    const std::string* vendor = text(element, "vendor");
    const std::string* arch = text(element, "arch");
    if (vendor == nullptr && arch == nullptr) return std::nullopt;
    const std::string name = vendor == nullptr ? "" : *vendor;
    cpus_.insert(name == "GenuineIntel"   ? CpuVendor::kIntel
                 : name == "AuthenticAMD" ? CpuVendor::kAmd
                                          : CpuVendor::kOther);
    return std::nullopt;
  }

  /// GB/s of a device's slot as NCCL counts it; what is not known is PCIe 3, or 16 lanes.
  Wrong slot(const TopoElement& pci, double& rate) const {
    std::optional<int64_t> width;
    if (auto bad = number(pci, "link_width", 0, 32, width)) return bad;
    const std::string* speed = text(pci, "link_speed");
    double transfers = 8;
    if (speed != nullptr && !speed->empty()) {
      const char* end = speed->data() + speed->size();
      const auto [rest, code] = std::from_chars(speed->data(), end, transfers);
      const std::string_view unit(rest, static_cast<size_t>(end - rest));
      constexpr std::array kSpeeds = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
      if (code != std::errc() || !unit.starts_with(" GT/s") ||
          std::ranges::find(kSpeeds, transfers) == kSpeeds.end()) {
        return wrong(pci, "link_speed", "\"" + *speed + "\"",
                     "expected a speed of PCIe as in \"16.0 GT/s PCIe\"");
      }
    }
    const int64_t lanes = width.value_or(16) == 0 ? 16 : *width;
    const double lane = transfers == 2.5 ? 15 : transfers == 5 ? 30 : transfers * 7.5;
    rate = static_cast<double>(lanes) * lane / 80;
    return std::nullopt;
  }

  Wrong read_pci(const TopoElement& element) {
    std::string id;
    if (auto bad = busid(element, "busid", id)) return bad;
    if (!busids_.insert(id).second) {
      return wrong(element, "busid", "\"" + id + "\"", "another device has this address");
    }
    double rate = 0;
    if (auto bad = slot(element, rate)) return bad;
    const std::string* kind = text(element, "class");
    if (kind == nullptr) return std::nullopt;
    if (!kind->starts_with("0x") || kind->size() != 8) {
      return wrong(element, "class", "\"" + *kind + "\"",
                   "expected a class of PCI devices as in \"0x030200\"");
    }
    if (kind->starts_with("0x03")) ++pci_gpus_;
    if (kind->starts_with("0x02")) ++pci_nics_;
    return std::nullopt;
  }

  Wrong read_gpu(const TopoElement& element) {
    const TopoElement& pci = elements_[element.parent];
    Gpu gpu;
    gpu.element = &element;
    if (auto bad = busid(pci, "busid", gpu.busid)) return bad;
    for (const Gpu& other : gpus_) {
      if (other.busid == gpu.busid) {
        return wrong(element, "", "a second one in a pci",
                     "several ranks on a GPU are not modelled");
      }
    }
    if (auto bad = slot(pci, gpu.pci_rate)) return bad;
    std::optional<int64_t> sm, dev;
    if (auto bad = number(element, "sm", 0, 999, sm)) return bad;
    if (auto bad = number(element, "dev", 0, kMostGpus, dev)) return bad;
    if (!sm) return wrong(element, "sm", "nothing", "the GPU's compute capability, as in \"90\"");
    if (*sm < 70) {
      return wrong(element, "sm", "\"" + std::to_string(*sm) + "\"",
                   "GPUs before Volta, 70, are not known");
    }
    if (sm_ && *sm_ != *sm) {
      return wrong(element, "sm", "\"" + std::to_string(*sm) + "\"",
                   "other GPUs of the file have " + std::to_string(*sm_));
    }
    sm_ = *sm;
    gpu.dev = dev.value_or(static_cast<int64_t>(gpus_.size()));
    gpus_.push_back(std::move(gpu));
    return std::nullopt;
  }

  Wrong read_nvlink(const TopoElement& element) {
    Gpu& gpu = gpus_.back();  // which stands around it
    std::optional<int64_t> count;
    if (auto bad = number(element, "count", 1, kMostNvlinks, count)) return bad;
    if (!count) return wrong(element, "count", "nothing", "the number of NVLinks");
    const std::string* kind = text(element, "tclass");
    if (kind != nullptr && *kind == "0x068000") {
      gpu.to_switch += static_cast<unsigned>(*count);
      if (gpu.to_switch <= kMostNvlinks) return std::nullopt;
      return wrong(element, "count", std::to_string(gpu.to_switch) + " NVLinks",
                   "no GPU has as many");
    }
    if (kind != nullptr && kind->starts_with("0x03")) {
      std::string target;
      if (auto bad = busid(element, "target", target)) return bad;
      gpu.to_gpu.emplace_back(&element, target);
      return std::nullopt;
    }
    return wrong(element, "tclass", kind == nullptr ? "nothing" : "\"" + *kind + "\"",
                 "expected \"0x068000\", an NVSwitch, or \"0x030200\", a GPU");
  }

  Wrong read_net(const TopoElement& element) {
    // NCCL passes over those without a number, and over those that it has merged into others.
    std::optional<int64_t> dev, speed, used;
    if (auto bad = number(element, "dev", 0, 65'535, dev)) return bad;
    if (auto bad = number(element, "speed", -1, 100'000'000, speed)) return bad;
    if (auto bad = number(element, "net", 0, 1, used)) return bad;
    if (!dev || used.value_or(1) == 0) return std::nullopt;
    const int64_t megabits = speed.value_or(0) > 0 ? *speed : 10'000;
    nets_.emplace(*dev, megabits);
    return std::nullopt;
  }

  Wrong finish_nics() {
    const size_t nics = nets_.empty() ? pci_nics_ : nets_.size();
    if (nics > kMostNics) {
      return wrong(elements_.front(), "", std::to_string(nics) + " NICs",
                   "at most " + std::to_string(kMostNics) + " are modelled");
    }
    std::set<int64_t> speeds;
    for (const auto& [dev, megabits] : nets_) speeds.insert(megabits);
    // NICs of several kinds: the configuration says which the nodes use.
    if (nics > 0 && speeds.size() < 2) machine_.nics = static_cast<unsigned>(nics);
    if (speeds.size() == 1) {
      machine_.nic_rate = Rate::bits_per_second(static_cast<uint64_t>(*speeds.begin()) * 1'000'000);
    }
    return std::nullopt;
  }

  Wrong finish_gpus() {
    const size_t gpus = gpus_.empty() ? pci_gpus_ : gpus_.size();
    if (gpus > kMostGpus) {
      return wrong(elements_.front(), "", std::to_string(gpus) + " GPUs",
                   "at most " + std::to_string(kMostGpus) + " are modelled");
    }
    if (gpus > 0) machine_.gpus = static_cast<unsigned>(gpus);
    if (gpus_.empty()) return std::nullopt;
    machine_.gpu = *sm_ >= 100  ? GpuGeneration::kBlackwell
                   : *sm_ >= 90 ? GpuGeneration::kHopper
                   : *sm_ >= 80 ? GpuGeneration::kAmpere
                                : GpuGeneration::kVolta;
    std::ranges::stable_sort(gpus_, {}, &Gpu::dev);
    machine_.nvls = false;
    GpuLinks& links = machine_.links.emplace();
    links.pci_rate = std::ranges::min(gpus_, {}, &Gpu::pci_rate).pci_rate;
    const bool switches = std::ranges::any_of(gpus_, [](const Gpu& g) { return g.to_switch > 0; });
    const bool direct = std::ranges::any_of(gpus_, [](const Gpu& g) { return !g.to_gpu.empty(); });
    machine_.intra = switches || direct ? IntraLink::kNvlink : IntraLink::kPci;
    if (switches) return join_by_switches(links);
    return direct ? join_by_mesh(links) : std::nullopt;
  }

  /// GB/s of an NVLink, each direction; 0: not known. A GPU's 12 links of A100 have 600 GB/s in both
  /// directions together, 18 of H100 900 and of B200 1,800 (ctrl/config/presets/machine.cc), 6 of V100 300.
  unsigned nvlink_gigabytes() const {
    if (sm_ == 70 || sm_ == 80 || sm_ == 90) return 25;
    return *sm_ >= 100 && *sm_ < 110 ? 50 : 0;
  }

  Wrong set_rate(const Gpu& gpu, uint64_t links) {
    const uint64_t link = nvlink_gigabytes();
    if (link == 0) {
      return wrong(*gpu.element, "sm", "\"" + std::to_string(*sm_) + "\" with NVLinks",
                   "the rate of these is not known");
    }
    machine_.nvlink = Rate::bits_per_second(links * link * 8'000'000'000);
    return std::nullopt;
  }

  Wrong join_by_switches(GpuLinks& links) {
    links.nvlinks = gpus_.front().to_switch;
    for (const Gpu& gpu : gpus_) {
      if (gpu.to_switch == links.nvlinks && gpu.to_gpu.empty()) continue;
      return wrong(*gpu.element, "",
                   std::to_string(gpu.to_switch) + " NVLinks to switches, " +
                       std::to_string(gpu.to_gpu.size()) + " GPUs without one",
                   "other GPUs have " + std::to_string(links.nvlinks) + " to switches alone");
    }
    machine_.nvls = nvls_efficiency(*machine_.gpu) > 0;
    return set_rate(gpus_.front(), links.nvlinks);
  }

  Wrong join_by_mesh(GpuLinks& links) {
    if (gpus_.size() > kMeshGpus) {
      return wrong(*gpus_.front().element, "", std::to_string(gpus_.size()) + " GPUs",
                   "without NVSwitches at most " + std::to_string(kMeshGpus) + " are modelled");
    }
    NvlinkMesh& mesh = links.mesh.emplace();
    mesh = {};
    for (size_t a = 0; a < gpus_.size(); ++a) {
      for (const auto& [element, target] : gpus_[a].to_gpu) {
        const auto to = std::ranges::find(gpus_, target, &Gpu::busid);
        const auto b = static_cast<size_t>(to - gpus_.begin());
        if (to == gpus_.end() || a == b) {
          return wrong(
              *element, "target", "\"" + target + "\"",
              a == b ? "an NVLink of a GPU to itself" : "no gpu of the file has this address");
        }
        std::optional<int64_t> count;
        if (auto bad = number(*element, "count", 1, kMostNvlinks, count)) return bad;
        const int64_t all = mesh[a][b] + *count;
        if (all > kMostNvlinks) {
          return wrong(*element, "count", std::to_string(all) + " NVLinks", "no GPU has as many");
        }
        mesh[a][b] = static_cast<uint8_t>(all);
      }
    }
    unsigned most = 0;
    for (size_t a = 0; a < gpus_.size(); ++a) {
      unsigned sum = 0;
      for (size_t b = 0; b < gpus_.size(); ++b) {
        sum += mesh[a][b];
        if (mesh[a][b] == mesh[b][a]) continue;
        return wrong(*gpus_[a].element, "",
                     std::to_string(mesh[a][b]) + " NVLinks to " + gpus_[b].busid,
                     "that one has " + std::to_string(mesh[b][a]) + " back");
      }
      most = std::max(most, sum);
    }
    return set_rate(gpus_.front(), most);
  }

  std::string file_;
  std::vector<TopoElement> elements_;
  Machine machine_;
  std::set<std::string> hosts_, busids_;
  std::set<CpuVendor> cpus_;
  std::optional<int64_t> sm_;
  std::vector<Gpu> gpus_;
  size_t pci_gpus_ = 0, pci_nics_ = 0;
  std::map<int64_t, int64_t> nets_;  ///< Mbit/s by NCCL's number
};

}  // namespace

tl::expected<Machine, ConfigError> read_topo_text(const std::string& text,
                                                  const std::string& file) {
  auto elements = TRY(parse_topo_elements(text, file));
  return Reading(file, std::move(elements)).run();
}

}  // namespace understudy
