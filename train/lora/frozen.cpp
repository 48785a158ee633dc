#include "train/lora/frozen.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/quants.h"
#include "train/lora/with_backward.h"

namespace folio::train::lora {
namespace {

using torch::Tensor;

const std::map<core::DType, torch::ScalarType> kNumberTypes{
    {core::DType::F32, torch::kFloat}, {core::DType::F16, torch::kHalf}, {core::DType::BF16, torch::kBFloat16}};

}  // namespace

FrozenMatrix::FrozenMatrix(std::shared_ptr<const core::StoredModel> model, const core::TensorView& stored)
    : model_(std::move(model)), stored_(stored) {
  if (const auto type = kNumberTypes.find(stored_.type); type != kNumberTypes.end()) {
    numbers_ =
        torch::from_blob(const_cast<std::byte*>(stored_.bytes.data()), stored_.shape, type->second);  // only read
  }
}

Tensor FrozenMatrix::to(torch::ScalarType type) const {
  if (numbers_.defined()) return numbers_.to(type);
  const Tensor out = torch::empty(stored_.shape, type);
  write(out);
  return out;
}

void FrozenMatrix::write(const Tensor& out) const {
  RECORD_FUNCTION("folio::expand", {});
  constexpr int64_t kAtLeast = 16;
  at::parallel_for(0, rows(), kAtLeast,
                   [&](int64_t begin, int64_t end) { write_rows(begin, out.narrow(0, begin, end - begin)); });
}

void FrozenMatrix::write_rows(int64_t first, const Tensor& out) const {
  const torch::NoGradGuard no_grad;
  if (numbers_.defined()) {
    out.copy_(numbers_.narrow(0, first, out.size(0)));
    return;
  }
  const size_t row_bytes = stored_.bytes.size() / static_cast<size_t>(rows());
  const auto width = static_cast<size_t>(columns());
  const bool direct = out.scalar_type() == torch::kFloat;
  std::vector<float> floats(direct ? 0 : width);
  for (int64_t i = 0; i < out.size(0); ++i) {
    const auto bytes = stored_.bytes.subspan(static_cast<size_t>(first + i) * row_bytes, row_bytes);
    const Tensor row = out[i];
    core::dequantize(stored_.type, bytes, direct ? std::span(row.data_ptr<float>(), width) : std::span(floats));
    if (!direct) row.copy_(torch::from_blob(floats.data(), {columns()}, torch::kFloat));
  }
}

Tensor FrozenMatrix::rows_of(const Tensor& ids) const {
  const Tensor ids_N = ids.flatten().contiguous();
  const Tensor out_NK = torch::empty({ids_N.size(0), columns()}, torch::kFloat);
  const int64_t* id = ids_N.data_ptr<int64_t>();
  for (int64_t i = 0; i < ids_N.size(0); ++i) {
    core::require(id[i] >= 0 && id[i] < rows(), "token {} is outside the vocabulary [0, {})", id[i], rows());
    write_rows(id[i], out_NK.narrow(0, i, 1));
  }
  return out_NK.unflatten(0, ids.sizes());
}

const core::TensorView& tensor_of(const core::StoredModel& model, const std::vector<core::TensorSpec>& manifest,
                                  const std::string& name) {
  const auto found = std::ranges::find(manifest, name, &core::TensorSpec::module_name);
  core::require(found != manifest.end(), "{}: the family {} has no tensor {}", model.path,
                core::info(model.config.family).name, name);
  return model.tensors[static_cast<size_t>(found - manifest.begin())];
}

torch::ScalarType product_type(const Tensor& x) {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU) : x.scalar_type();
}

Tensor multiply(const Tensor& x, const std::shared_ptr<const FrozenMatrix>& matrix) {
  const Tensor operand = x.to(product_type(x));
  // The backward pass dequantizes the matrix again instead of storing it.
  return with_backward(
      {operand}, [&] { return operand.matmul(matrix->to(operand.scalar_type()).t()); },
      [matrix](const Tensor& dy) { return std::vector{dy.matmul(matrix->to(dy.scalar_type()))}; });
}

}  // namespace folio::train::lora
