#include "infer/cpu/cpu_weights.h"

#include <chrono>
#include <cstring>
#include <tuple>

#include "core/memory_nodes.h"
#include "core/quants.h"
#include "core/seconds_since.h"
#include "infer/cpu/repack.h"

namespace folio::infer {
namespace {

bool in_blocks(const core::TensorView& matrix) { return core::quant_info(matrix.type) != nullptr; }
bool in_16_bits(const core::TensorView& matrix) {
  return matrix.type == core::DType::F16 || matrix.type == core::DType::BF16;
}

// Consecutive rows of a matrix; `first` is the index of the first row in the whole matrix.
struct MatrixRows {
  core::TensorView view;
  size_t first;
};

// Returns the shard's rows of each matrix of a tensor. A tensor with a matrix per head is split by heads: the shard has
// all rows of its own heads and no rows of other heads. Other matrices are split by rows.
std::vector<MatrixRows> rows_of(const core::TensorSpec& spec, const core::TensorView& tensor, const Shard& shard) {
  const std::vector<core::TensorView> matrices = matrices_of(tensor);
  const bool by_head = spec.is_stack() && !spec.of_experts();
  const Share heads = share_of(matrices.size(), shard.rank, shard.n_ranks);
  std::vector<MatrixRows> all;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const auto n = static_cast<size_t>(matrices[i].shape[0]);
    const Share rows = !by_head                             ? rows_of_rank(n, shard.rank, shard.n_ranks)
                       : i >= heads.first && i < heads.last ? Share{0, n}
                                                            : Share{0, 0};
    all.push_back(
        {core::rows_of(matrices[i], static_cast<int64_t>(rows.first), static_cast<int64_t>(rows.last - rows.first)),
         rows.first});
  }
  return all;
}

// Alignment of copies in bytes: a cache line.
constexpr size_t kLine = 64;

// Returns true if `bytes` of unquantized weights should be copied to huge pages, which are read faster than the 4 KiB
// pages of the mapped file. Weights that fit in the caches gain nothing, and copies of more than half of the
// memory would evict other data.
bool worth_copying(size_t bytes) {
  constexpr size_t kLeast = size_t{64} << 20U;
  return bytes >= kLeast && bytes <= core::machine_memory() / 2;
}

}  // namespace

CpuWeights::CpuWeights(const core::StoredModel& model, const Shard& shard, core::ThreadPool& pool,
                       const Options& options)
    : by_role_(load(model, shard, pool, options)) {}

StageWeights CpuWeights::load(const core::StoredModel& model, const Shard& shard, core::ThreadPool& pool,
                              const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto manifest = core::tensor_manifest(model.config);
  size_t copies = 0;  // bytes of matrices that can be copied instead of being read from the mapped file
  // Without options.copies, copies only mapped tensors: their file pages can be released, so no tensor is stored twice.
  const auto may_be_copied = [&](const core::TensorView& matrix) { return options.copies || model.maps(matrix); };
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::TensorView& whole = model.tensors[i];
    if (!needed_by(shard.layers, manifest[i], model.config) || !manifest[i].is_matrix()) continue;
    for (const auto& [rows, first] : rows_of(manifest[i], whole, shard)) {
      if (in_blocks(whole)) {
        report_.repacked_bytes += group_bytes(rows);
      } else if (options.fast && in_16_bits(whole)) {
        report_.repacked_bytes += panel_bytes(rows);
      } else if (may_be_copied(whole)) {
        copies += rows.bytes.size() + kLine;
      }
    }
  }
  const bool copied = options.copies || worth_copying(copies);
  const size_t bytes = report_.repacked_bytes + (copied ? copies : 0);
  if (bytes > 0) memory_ = allocate_huge_pages(bytes);
  uint8_t* to = memory_.get();
  StageWeights by_role(model, shard.layers, [&](const core::TensorSpec& spec, const core::TensorView& whole) {
    const WeightId id{static_cast<int32_t>(matrices_.size())};
    if (!spec.is_matrix()) {  // every rank holds whole vectors
      matrices_.push_back(vector(whole));
      return id;
    }
    const Options choice{.fast = options.fast, .copies = copied && may_be_copied(whole)};
    for (const auto& [rows, first] : rows_of(spec, whole, shard)) {
      add_matrix(rows, pool, choice, to, model);
      matrices_.back().first = first;
    }
    // Releases the whole stack, because releases of single experts leave the file pages that adjacent ones share.
    if (in_blocks(whole) || (choice.fast && in_16_bits(whole)) || choice.copies) model.release(whole);
    return id;
  });
  report_.weight_bytes += report_.repacked_bytes;
  if (report_.repacked_bytes > 0) {
    report_.repack_seconds = core::seconds_since(start);
  }
  return by_role;
}

void CpuWeights::add_matrix(const core::TensorView& tensor, core::ThreadPool& pool, const Options& options,
                            uint8_t*& to, const core::StoredModel& model) {
  if (tensor.shape[0] == 0) {
    matrices_.push_back({.weights = static_cast<const float*>(nullptr)});
    if (in_blocks(tensor)) matrices_.back().weights = group_layout(tensor);  // adapters round alike on all ranks
  } else if (in_blocks(tensor)) {
    matrices_.push_back(groups(tensor, pool, to, model));
    to += group_bytes(tensor);
  } else if (options.fast && in_16_bits(tensor)) {
    const kernels::PanelMatrix panels = pack_panels(tensor, {to, panel_bytes(tensor)}, pool);
    matrices_.push_back({.weights = panels, .n_out = static_cast<size_t>(tensor.shape[0])});
    to += panel_bytes(tensor);
  } else {
    matrices_.push_back(floats(tensor, pool, options.copies, to));
  }
  matrices_.back().k = static_cast<size_t>(tensor.shape[1]);
}

Matrix CpuWeights::vector(const core::TensorView& tensor) {
  const std::vector<float> values = core::to_floats(tensor);
  const auto bytes = std::as_bytes(std::span(values));
  copies_.emplace_back(bytes.begin(), bytes.end());
  report_.weight_bytes += bytes.size();
  return {.weights = reinterpret_cast<const float*>(copies_.back().data()), .n_out = 1, .k = values.size()};
}

Matrix CpuWeights::floats(const core::TensorView& tensor, core::ThreadPool& pool, bool copies, uint8_t*& to) {
  const size_t size = core::info(tensor.type).block_bytes;
  const size_t bytes = tensor.bytes.size();
  const std::byte* data = tensor.bytes.data();
  std::byte* copy = nullptr;
  if (copies) {
    copy = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(to) + kLine - 1) / kLine * kLine);
    to = reinterpret_cast<uint8_t*>(copy + bytes);
  } else if (reinterpret_cast<uintptr_t>(data) % size != 0) {
    copy = copies_.emplace_back(bytes).data();
  }
  if (copy != nullptr) {
    constexpr size_t kGrain = size_t{1} << 18U;
    pool.parallel_for(bytes / size, kGrain, [&](size_t begin, size_t end) {
      std::memcpy(copy + begin * size, data + begin * size, (end - begin) * size);
    });
    data = copy;
  }
  report_.weight_bytes += tensor.bytes.size();
  Matrix m{.weights = reinterpret_cast<const float*>(data),
           .n_out = static_cast<size_t>(tensor.shape[0]),
           .k = static_cast<size_t>(tensor.shape[1])};
  if (tensor.type == core::DType::F16) m.weights = reinterpret_cast<const kernels::F16*>(data);
  if (tensor.type == core::DType::BF16) m.weights = reinterpret_cast<const kernels::BF16*>(data);
  return m;
}

// Repacks a block-quantized matrix into groups, a slice of rows at a time, and releases each slice's file pages, so
// that no tensor is in memory twice.
Matrix CpuWeights::groups(const core::TensorView& tensor, core::ThreadPool& pool, uint8_t* to,
                          const core::StoredModel& model) {
  constexpr size_t kSliceBytes = size_t{32} << 20U;
  const auto n_out = static_cast<size_t>(tensor.shape[0]);
  const size_t row_bytes = tensor.bytes.size() / n_out;
  const size_t tiles = std::max<size_t>(1, kSliceBytes / row_bytes / kernels::kTileRows);
  kernels::GroupMatrix whole = group_layout(tensor);
  whole.tiles = to;
  for (size_t row = 0; row < n_out; row += tiles * kernels::kTileRows) {
    core::TensorView slice = tensor;
    const size_t rows = std::min(n_out - row, tiles * kernels::kTileRows);
    slice.bytes = tensor.bytes.subspan(row * row_bytes, rows * row_bytes);
    slice.shape[0] = static_cast<int64_t>(rows);
    const size_t bytes = group_bytes(slice);
    std::ignore = repack(slice, {to, bytes}, pool);
    to += bytes;
    model.release(slice);
  }
  return {.weights = whole, .n_out = n_out, .k = static_cast<size_t>(tensor.shape[1])};
}

}  // namespace folio::infer
