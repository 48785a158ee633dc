#include "infer/cpu/cpu_weights.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <new>

#include "core/formats/gguf.h"
#include "core/quants.h"
#include "core/seconds_since.h"
#include "infer/cpu/repack.h"

namespace folio::infer {
namespace {

bool in_blocks(const core::TensorView& tensor) {
  return tensor.shape.size() > 1 && core::quant_info(tensor.type) != nullptr;
}

// Memory for all groups: on large pages where the system has them, since decoding walks through all of it.
uint8_t* allocate(size_t bytes) {
  constexpr size_t kLargePage = size_t{2} << 20U;
  const size_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  void* memory = std::aligned_alloc(kLargePage, whole);
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory, whole, MADV_HUGEPAGE);
  return static_cast<uint8_t*>(memory);
}

}  // namespace

void CpuWeights::Free::operator()(uint8_t* p) const { std::free(p); }

CpuWeights::CpuWeights(const core::StoredModel& model, LayerRange layers, core::ThreadPool& pool)
    : by_role_(load(model, layers, pool)) {}

StageWeights CpuWeights::load(const core::StoredModel& model, LayerRange layers, core::ThreadPool& pool) {
  const auto start = std::chrono::steady_clock::now();
  const auto manifest = core::tensor_manifest(model.config);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::TensorView& tensor = model.tensors[i];
    if (needed_by(layers, manifest[i], model.config) && in_blocks(tensor)) {
      report_.repacked_bytes += group_bytes(tensor);
    }
  }
  if (report_.repacked_bytes > 0) repacked_.reset(allocate(report_.repacked_bytes));
  uint8_t* to = repacked_.get();
  StageWeights by_role(model, layers, [&](const core::TensorSpec&, const core::TensorView& tensor) {
    if (tensor.shape.size() == 1) {
      matrices_.push_back(vector(tensor));
    } else if (in_blocks(tensor)) {
      matrices_.push_back(groups(tensor, pool, to));
      to += group_bytes(tensor);
      if (model.gguf) model.gguf->release(tensor);
    } else {
      matrices_.push_back(mapped(tensor));
    }
    return WeightId{static_cast<int32_t>(matrices_.size() - 1)};
  });
  report_.weight_bytes += report_.repacked_bytes;
  if (report_.repacked_bytes > 0) {
    report_.repack_seconds = core::seconds_since(start);
  }
  return by_role;
}

Matrix CpuWeights::vector(const core::TensorView& tensor) {
  const std::vector<float> values = core::to_floats(tensor);
  const auto bytes = std::as_bytes(std::span(values));
  copies_.emplace_back(bytes.begin(), bytes.end());
  report_.weight_bytes += bytes.size();
  return {.weights = reinterpret_cast<const float*>(copies_.back().data()), .n_out = 1, .k = values.size()};
}

Matrix CpuWeights::mapped(const core::TensorView& tensor) {
  const size_t size = core::info(tensor.type).block_bytes;
  const std::byte* data = tensor.bytes.data();
  if (reinterpret_cast<uintptr_t>(data) % size != 0) {
    copies_.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    data = copies_.back().data();
  }
  report_.weight_bytes += tensor.bytes.size();
  Matrix m{.weights = reinterpret_cast<const float*>(data),
           .n_out = static_cast<size_t>(tensor.shape[0]),
           .k = static_cast<size_t>(tensor.shape[1])};
  if (tensor.type == core::DType::F16) m.weights = reinterpret_cast<const kernels::F16*>(data);
  if (tensor.type == core::DType::BF16) m.weights = reinterpret_cast<const kernels::BF16*>(data);
  return m;
}

Matrix CpuWeights::groups(const core::TensorView& tensor, core::ThreadPool& pool, uint8_t* to) {
  return {.weights = repack(tensor, {to, group_bytes(tensor)}, pool),
          .n_out = static_cast<size_t>(tensor.shape[0]),
          .k = static_cast<size_t>(tensor.shape[1])};
}

}  // namespace folio::infer
