#include "infer/cuda/fuse.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace folio::infer {
namespace {

// Returns the slot that an operation packs as inputs of its product, or nullopt if it packs none.
std::optional<Slot> input_of(const Operation& operation) {
  if (const auto* o = std::get_if<Project>(&operation)) return o->in;
  if (const auto* o = std::get_if<ProjectToResidual>(&operation)) return o->in;
  if (std::holds_alternative<Route>(operation)) return Slot::Normed;
  if (std::holds_alternative<CombineExperts>(operation)) return Slot::ExpertGate;
  return {};
}

}  // namespace

std::vector<FusedOperation> fuse(std::span<const Operation> operations) {
  std::vector<FusedOperation> all;
  bool gathers = false;  // the next Attend also runs a Gather
  while (!operations.empty()) {
    const auto attends = [](const Operation& o) { return std::holds_alternative<Attend>(o); };
    if (std::holds_alternative<Gather>(operations[0]) && std::ranges::any_of(operations, attends)) {
      gathers = true;
      operations = operations.subspan(1);
      continue;
    }
    FusedOperation fused{.operation = &operations[0]};
    const Operation* next = operations.size() > 1 ? &operations[1] : nullptr;
    const auto* norm = std::get_if<Norm>(fused.operation);
    const auto* activate = std::get_if<Activate>(fused.operation);
    fused.adds_branch = norm != nullptr && !all.empty() && all.back().leaves_branch;
    if (next != nullptr && norm != nullptr && input_of(*next) == norm->out) fused.norm = norm;
    if (next != nullptr && activate != nullptr && input_of(*next) == activate->gate) fused.activate = activate;
    if (std::holds_alternative<Attend>(*fused.operation)) fused.gathers = std::exchange(gathers, false);
    const bool both = fused.norm != nullptr || fused.activate != nullptr;
    if (both) fused.operation = next;
    operations = operations.subspan(both ? 2 : 1);
    fused.leaves_branch = std::holds_alternative<ProjectToResidual>(*fused.operation) && !operations.empty() &&
                          std::holds_alternative<Norm>(operations[0]);
    all.push_back(fused);
  }
  return all;
}

}  // namespace folio::infer
