#include "train/parallel/slices.h"

#include "modules/llama.h"

namespace folio::train {
namespace {

using parallel::Axis;
using torch::Tensor;

Tensor to_tensor(const std::vector<int32_t>& tokens, const data::Batch& batch, torch::Device device) {
  auto* data = const_cast<int32_t*>(tokens.data());  // from_blob() requires a non-const pointer; the data is only read
  return torch::from_blob(data, {batch.rows, batch.length}, torch::kInt32).to(torch::kInt64).to(device);
}

int64_t up_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

Tensor part(const Tensor& x, int64_t dim, int64_t index, int64_t parts) {
  return x.chunk(parts, dim)[static_cast<size_t>(index)];
}

}  // namespace

TensorBatch to_tensors(const data::Batch& batch, torch::Device device) {
  return {.inputs_BT = to_tensor(batch.inputs, batch, device),
          .targets_BT = to_tensor(batch.targets, batch, device),
          .starts_BT = batch.starts.empty() ? Tensor() : to_tensor(batch.starts, batch, device)};
}

TensorBatch slice_of(const TensorBatch& whole, const parallel::Mesh& mesh) {
  const int64_t C = mesh.size(Axis::Context), c = mesh.at(Axis::Context), t = mesh.size(Axis::Tensor);
  const int64_t row_parts = mesh.size(Axis::Data) * mesh.size(Axis::Expert);
  const int64_t row_part = mesh.at(Axis::Data) * mesh.size(Axis::Expert) + mesh.at(Axis::Expert);
  const int64_t B = whole.inputs_BT.size(0), T = whole.inputs_BT.size(1);
  const auto of_context_rank = [&](const Tensor& x_BT, int64_t filler) {
    const Tensor padded =
        torch::constant_pad_nd(x_BT, {0, up_to(T, (C > 1 ? 2 * C : 1) * t) - T, 0, up_to(B, row_parts) - B}, filler);
    const Tensor rows = part(padded, 0, row_part, row_parts);
    return C == 1 ? rows : torch::cat({part(rows, 1, c, 2 * C), part(rows, 1, 2 * C - 1 - c, 2 * C)}, 1);
  };
  const auto of_rank = [&](const Tensor& x_BT, int64_t filler) {
    return part(of_context_rank(x_BT, filler), 1, mesh.at(Axis::Tensor), t).contiguous();
  };
  return {.inputs_BT = of_rank(whole.inputs_BT, 0),
          .targets_BT = of_rank(whole.targets_BT, nn::Parts::kIgnored),
          .starts_BT = whole.starts_BT.defined() ? of_context_rank(whole.starts_BT, 0).contiguous() : Tensor()};
}

}  // namespace folio::train
