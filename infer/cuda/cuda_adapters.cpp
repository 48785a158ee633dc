#include "infer/cuda/cuda_adapters.h"

#include <algorithm>

namespace folio::infer {

static_assert(static_cast<size_t>(core::kMaxAdapterRank) <= gpu::kMaxAdapterRank);

void CudaAdapters::load(gpu::Stream& stream, int32_t number, const core::Adapter& adapter, const StageWeights& weights,
                        LayerRange layers) {
  const auto own = [&](const core::Adapter::Part& part) {
    return part.layer >= layers.first && part.layer < layers.last;
  };
  size_t n = 0;
  for (const core::Adapter::Part& part : adapter.parts) n += own(part) ? part.a.size() + part.b.size() : 0;
  Loaded made{.parts = {}, .memory = gpu::DeviceMemory(stream, std::max<size_t>(1, n) * sizeof(float))};
  auto* to = made.memory.as<float>();
  const auto bring = [&](const std::vector<float>& values) {
    stream.copy_in(to, values.data(), values.size() * sizeof(float));
    return std::exchange(to, to + values.size());
  };
  for (const core::Adapter::Part& part : adapter.parts) {
    if (!own(part)) continue;
    const float* a = bring(part.a);
    const float* b = bring(part.b);
    made.parts.push_back({weights(part.role, part.layer).index,
                          {.a = a, .b = b, .rank = static_cast<uint32_t>(part.rank), .scale = part.scale}});
  }
  stream.wait();
  loaded_.emplace(number, std::move(made));
  place(stream);
}

void CudaAdapters::unload(gpu::Stream& stream, int32_t number) {
  loaded_.erase(number);
  place(stream);
}

// Assigns a slot to each loaded adapter and uploads the table of all adapters' updates.
void CudaAdapters::place(gpu::Stream& stream) {
  first_slot_.clear();
  int32_t slot = 0;
  for (auto& [number, adapter] : loaded_) {
    adapter.slot = slot++;
    for (const auto& [matrix, part] : adapter.parts)
      first_slot_.try_emplace(matrix, first_slot_.size() * loaded_.size());
  }
  std::vector<gpu::AdapterPart> table(first_slot_.size() * loaded_.size());
  for (const auto& [number, adapter] : loaded_) {
    for (const auto& [matrix, part] : adapter.parts) {
      table[first_slot_.at(matrix) + static_cast<size_t>(adapter.slot)] = part;
    }
  }
  table_ = {};
  if (table.empty()) return;
  table_ = gpu::DeviceMemory(stream, table.size() * sizeof(gpu::AdapterPart));
  stream.copy_in(table_.as<void>(), table.data(), table.size() * sizeof(gpu::AdapterPart));
  stream.wait();
}

int32_t CudaAdapters::slot(int32_t number) const { return number == kNoAdapter ? -1 : loaded_.at(number).slot; }

void CudaAdapters::add(gpu::Stream& stream, WeightId matrix, const float* x, size_t n_rows, size_t k,
                       const int32_t* slots, float* out, size_t n_out) const {
  const auto found = first_slot_.find(matrix.index);
  if (found == first_slot_.end()) return;
  gpu::add_adapted(stream, x, n_rows, k, slots, table_.as<gpu::AdapterPart>() + found->second, out, n_out);
}

}  // namespace folio::infer
