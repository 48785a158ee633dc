#include "train/lora/lora.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace folio::train::lora {
namespace {

using core::Role;

constexpr std::array<std::pair<std::string_view, Role>, 7> kTargets{{{"q", Role::Wq},
                                                                     {"k", Role::Wk},
                                                                     {"v", Role::Wv},
                                                                     {"o", Role::Wo},
                                                                     {"gate", Role::W1},
                                                                     {"up", Role::W3},
                                                                     {"down", Role::W2}}};

}  // namespace

std::vector<Role> lora_targets(std::string_view names) {
  std::vector<Role> targets;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    begin = end + 1;
    const auto found = std::ranges::find(kTargets, name, [](const auto& target) { return target.first; });
    if (name == "all") {
      for (const auto& target : kTargets) targets.push_back(target.second);
    } else if (found != kTargets.end()) {
      targets.push_back(found->second);
    } else {
      throw core::UsageError(
          fmt::format("--lora-targets: \"{}\" has to be all, or of q, k, v, o, gate, up, down", core::printable(name)));
    }
  }
  std::ranges::sort(targets);
  const auto twice = std::ranges::unique(targets);
  targets.erase(twice.begin(), twice.end());
  return targets;
}

std::string lora_module(const core::TensorSpec& spec) {
  return spec.module_name.substr(0, spec.module_name.rfind('.'));
}

void freeze_rest(nn::Llama& model, const FrozenWeights& weights) {
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->named_parameters()) {
    parameter->copy_(weights.vector(parameter.key()));
    parameter->set_requires_grad(false);
  }
}

void add_lora(nn::Llama& model, const LoraOptions& options) {
  const auto modules = model->named_modules();
  for (const core::TensorSpec& spec : core::tensor_manifest(model->config())) {
    if (std::ranges::find(options.targets, spec.role) == options.targets.end()) continue;
    auto* linear = modules[lora_module(spec)]->as<LoraLinearImpl>();
    linear->adapt(options.rank, options.alpha / static_cast<double>(options.rank), options.dropout);
  }
}

}  // namespace folio::train::lora
