#include "train/parallel/slices.h"

#include <torch/utils.h>

#include "modules/llama.h"

namespace folio::train {
namespace {

torch::Tensor to_tensor(const std::vector<int32_t>& tokens, const data::Batch& batch, torch::Device device) {
  auto* data = const_cast<int32_t*>(tokens.data());  // only read
  return torch::from_blob(data, {batch.rows, batch.length}, torch::kInt32).to(torch::kInt64).to(device);
}

}  // namespace

TensorBatch to_tensors(const data::Batch& batch, torch::Device device) {
  return {.inputs_BT = to_tensor(batch.inputs, batch, device),
          .targets_BT = to_tensor(batch.targets, batch, device),
          .starts_BT = batch.starts.empty() ? torch::Tensor() : to_tensor(batch.starts, batch, device)};
}

}  // namespace folio::train

namespace folio::train::parallel {
namespace {

using torch::Tensor;

int64_t up_to(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

int64_t parts_of_rows(const MeshShape& shape) { return shape[Axis::Data] * shape[Axis::Expert]; }

int64_t parts_of_positions(const MeshShape& shape) {
  const int64_t c = shape[Axis::Context];
  return (c > 1 ? 2 * c : 1) * shape[Axis::Tensor];
}

Tensor padded(const Tensor& x_BT, int64_t rows, int64_t length, int64_t with) {
  if (x_BT.size(0) == rows && x_BT.size(1) == length) return x_BT;
  Tensor all = torch::full({rows, length}, with, x_BT.options());
  all.narrow(0, 0, x_BT.size(0)).narrow(1, 0, x_BT.size(1)).copy_(x_BT);
  return all;
}

// Of [B, T] the part with this index of `parts` along dim.
Tensor part(const Tensor& x, int64_t dim, int64_t index, int64_t parts) {
  const int64_t n = x.size(dim) / parts;
  return x.narrow(dim, index * n, n);
}

Tensor of_context(const Tensor& x_BT, const Mesh& mesh) {
  const int64_t C = mesh.size(Axis::Context), c = mesh.at(Axis::Context);
  if (C == 1) return x_BT;
  return torch::cat({part(x_BT, 1, c, 2 * C), part(x_BT, 1, 2 * C - 1 - c, 2 * C)}, 1);
}

}  // namespace

TensorBatch slice_of(const TensorBatch& whole, const Mesh& mesh) {
  const MeshShape& shape = mesh.shape();
  const int64_t rows = up_to(whole.inputs_BT.size(0), parts_of_rows(shape));
  const int64_t length = up_to(whole.inputs_BT.size(1), parts_of_positions(shape));
  const int64_t row_part = mesh.at(Axis::Data) * mesh.size(Axis::Expert) + mesh.at(Axis::Expert);
  const auto of_rank = [&](const Tensor& x_BT, int64_t with) {
    return of_context(part(padded(x_BT, rows, length, with), 0, row_part, parts_of_rows(shape)), mesh);
  };
  const auto of_tensor = [&](const Tensor& x_BT) {
    return part(x_BT, 1, mesh.at(Axis::Tensor), mesh.size(Axis::Tensor)).contiguous();
  };
  return {.inputs_BT = of_tensor(of_rank(whole.inputs_BT, 0)),
          .targets_BT = of_tensor(of_rank(whole.targets_BT, nn::Parts::kIgnored)),
          .starts_BT = whole.starts_BT.defined() ? of_rank(whole.starts_BT, 0).contiguous() : Tensor()};
}

}  // namespace folio::train::parallel
