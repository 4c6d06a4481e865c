#include "ctrl/compile/environment/choices.h"

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "collective_model/tuner/nccl_environment.h"
#include "ctrl/config/job_operation.h"

namespace understudy {
namespace {

constexpr uint32_t kFirstByCollective = 24;  ///< release

const char* algorithm_value(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kRing:
      return "Ring";
    case Algorithm::kTree:
      return "Tree";
    case Algorithm::kPat:
      return "PAT";
    case Algorithm::kNvls:
      return "NVLS";
    case Algorithm::kNvlsTree:
      return "NVLSTree";
    case Algorithm::kCollnetDirect:
      return "CollNetDirect";
    case Algorithm::kCollnetChain:
      return "CollNetChain";
  }
  return "";
}

const char* protocol_value(Protocol protocol) {
  switch (protocol) {
    case Protocol::kLL:
      return "LL";
    case Protocol::kLL128:
      return "LL128";
    case Protocol::kSimple:
      return "Simple";
  }
  return "";
}

/// What one job wants; no value: NCCL is to choose.
struct Wish {
  const JobConfig* job;
  std::optional<std::string> value;
};

ChoiceValue choice(const std::vector<Wish>& wishes, const std::string& what) {
  std::set<std::optional<std::string>> all;
  std::map<Collective, const Wish*> by_collective;
  for (const Wish& wish : wishes) {
    all.insert(wish.value);
    const Wish& first = *by_collective.try_emplace(wish.job->collective, &wish).first->second;
    if (first.value == wish.value) continue;
    return {"", "jobs \"" + first.job->name + "\" and \"" + wish.job->name + "\" want " +
                    first.value.value_or("any") + " and " + wish.value.value_or("any") +
                    " for the same collective, which one environment cannot say"};
  }
  if (all.empty() || all == std::set<std::optional<std::string>>{std::nullopt}) return {};
  if (all.size() == 1) return {**all.begin(), what + " of the job"};
  if (wishes.front().job->nccl < NcclVersion{kFirstByCollective}) {
    return {"", "jobs want different ones by collective, which NCCL can be told from 2.24 on"};
  }
  ChoiceValue found{"", what + " of the job and of those on its children"};
  for (const auto& [collective, wish] : by_collective) {
    if (!wish->value) continue;
    found.value += (found.value.empty() ? "" : ";") + std::string(function_name(collective)) + ":" +
                   *wish->value;
  }
  return found;
}

template <typename Value>
std::vector<Wish> wishes_of(const Config& config, const JobConfig& job, Value value) {
  std::vector<Wish> all;
  for (const JobConfig& other : config.jobs) {
    const bool child = other.child && &config.jobs[other.child->job] == &job;
    if ((&other == &job || child) && !is_p2p(other.collective))
      all.push_back({&other, value(other)});
  }
  return all;
}

}  // namespace

ChoiceValue algorithm_choice(const Config& config, const JobConfig& job) {
  return choice(wishes_of(config, job,
                          [](const JobConfig& j) {
                            return j.algorithm
                                       ? std::optional<std::string>(algorithm_value(*j.algorithm))
                                       : std::nullopt;
                          }),
                "algorithm");
}

ChoiceValue protocol_choice(const Config& config, const JobConfig& job) {
  return choice(wishes_of(config, job,
                          [](const JobConfig& j) {
                            return j.protocol
                                       ? std::optional<std::string>(protocol_value(*j.protocol))
                                       : std::nullopt;
                          }),
                "protocol");
}

}  // namespace understudy
