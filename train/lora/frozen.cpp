#include "train/lora/frozen.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/quants.h"
#include "modules/shapes.h"

namespace folio::train::lora {
namespace {

#ifndef INTRA_OP_PARALLEL
#error at::parallel_for would run on one thread: this file has to be compiled with OpenMP
#endif

using nn::describe;
using torch::Tensor;

std::optional<torch::ScalarType> number_type(core::DType type) {
  if (type == core::DType::F32) return torch::kFloat;
  if (type == core::DType::F16) return torch::kHalf;
  if (type == core::DType::BF16) return torch::kBFloat16;
  return {};
}

Tensor mapped(const core::TensorView& stored, torch::ScalarType type) {
  return torch::from_blob(const_cast<std::byte*>(stored.bytes.data()), stored.shape, type);  // only read
}

// Rows [begin, end) of blocks, into as many rows of `out`.
void dequantize_rows(const core::TensorView& stored, int64_t begin, int64_t end, const Tensor& out) {
  const auto columns = static_cast<size_t>(stored.shape[1]);
  const size_t row_bytes = stored.bytes.size() / static_cast<size_t>(stored.shape[0]);
  const bool direct = out.scalar_type() == torch::kFloat;
  std::vector<float> row(direct ? 0 : columns);
  for (int64_t i = begin; i < end; ++i) {
    const auto bytes = stored.bytes.subspan(static_cast<size_t>(i) * row_bytes, row_bytes);
    const Tensor to = out[i - begin];
    if (direct) {
      core::dequantize(stored.type, bytes, {to.data_ptr<float>(), columns});
    } else {
      core::dequantize(stored.type, bytes, row);
      to.copy_(torch::from_blob(row.data(), {stored.shape[1]}, torch::kFloat));
    }
  }
}

struct FrozenProduct : torch::autograd::Function<FrozenProduct> {
  struct Held : torch::CustomClassHolder {
    std::shared_ptr<const FrozenMatrix> matrix;
  };

  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x,
                        const std::shared_ptr<const FrozenMatrix>& matrix) {
    const torch::ScalarType type = product_type(x);
    auto held = c10::make_intrusive<Held>();
    held->matrix = matrix;
    context->saved_data["matrix"] = c10::IValue::make_capsule(std::move(held));
    context->saved_data["product_type"] = static_cast<int64_t>(type);
    context->saved_data["input_type"] = static_cast<int64_t>(x.scalar_type());
    return x.to(type).matmul(matrix->to(type).t());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& douts) {
    const auto capsule = context->saved_data["matrix"].toCapsule();
    const auto type = static_cast<torch::ScalarType>(context->saved_data["product_type"].toInt());
    const auto input_type = static_cast<torch::ScalarType>(context->saved_data["input_type"].toInt());
    const auto& matrix = static_cast<const Held&>(*capsule).matrix;
    return {douts[0].to(type).matmul(matrix->to(type)).to(input_type), {}};
  }
};

}  // namespace

FrozenMatrix::FrozenMatrix(core::TensorView stored, std::shared_ptr<const void> owner)
    : stored_(std::move(stored)), owner_(std::move(owner)) {
  core::require(stored_.shape.size() == 2, "FrozenMatrix: {} has to be a matrix, but is {}", stored_.name,
                core::shape_string(stored_.shape));
  core::require_weight_type(stored_, "");
  if (const auto type = number_type(stored_.type)) numbers_ = mapped(stored_, *type);
}

Tensor FrozenMatrix::to(torch::ScalarType type) const {
  if (numbers_.defined()) return numbers_.to(type);
  const Tensor out = torch::empty(stored_.shape, type);
  write(out);
  return out;
}

void FrozenMatrix::write(Tensor out) const {
  RECORD_FUNCTION("folio::expand", {});
  const torch::NoGradGuard no_grad;
  if (numbers_.defined()) {
    out.copy_(numbers_);
    return;
  }
  constexpr int64_t kAtLeast = 16;
  at::parallel_for(0, rows(), kAtLeast, [&](int64_t begin, int64_t end) {
    dequantize_rows(stored_, begin, end, out.narrow(0, begin, end - begin));
  });
}

Tensor FrozenMatrix::rows_of(const Tensor& ids) const {
  const torch::NoGradGuard no_grad;
  const Tensor ids_N = ids.flatten().contiguous();
  std::vector<int64_t> shape = ids.sizes().vec();
  shape.push_back(columns());
  const Tensor out_NK = torch::empty({ids_N.size(0), columns()}, torch::kFloat);
  const int64_t* id = ids_N.data_ptr<int64_t>();
  for (int64_t i = 0; i < ids_N.size(0); ++i) {
    core::require(id[i] >= 0 && id[i] < rows(), "the token {} is not in [0, {})", id[i], rows());
    auto row_K = out_NK[i];
    if (numbers_.defined()) {
      row_K.copy_(numbers_[id[i]]);
    } else {
      dequantize_rows(stored_, id[i], id[i] + 1, row_K.unsqueeze(0));
    }
  }
  return out_NK.view(shape);
}

FrozenWeights::FrozenWeights(core::StoredModel model)
    : model_(std::make_shared<const core::StoredModel>(std::move(model))),
      manifest_(core::tensor_manifest(model_->config)) {}

const core::TensorView& FrozenWeights::find(const std::string& name) const {
  const auto found = std::ranges::find(manifest_, name, &core::TensorSpec::module_name);
  core::require(found != manifest_.end(), "{}: a {} has no {}", model_->path, core::info(config().family).name, name);
  return model_->tensors[static_cast<size_t>(found - manifest_.begin())];
}

std::shared_ptr<const FrozenMatrix> FrozenWeights::matrix(const std::string& name) const {
  return std::make_shared<const FrozenMatrix>(find(name), model_);
}

Tensor FrozenWeights::vector(const std::string& name) const {
  const std::vector<float> floats = core::to_floats(find(name));
  return torch::tensor(at::ArrayRef<float>(floats));
}

torch::ScalarType product_type(const Tensor& x) {
  return at::autocast::is_autocast_enabled(at::kCPU) ? at::autocast::get_autocast_dtype(at::kCPU) : x.scalar_type();
}

Tensor multiply(const Tensor& x, std::shared_ptr<const FrozenMatrix> matrix) {
  if (x.dim() == 0 || x.size(-1) != matrix->columns()) {
    core::fail("the input has to be [..., {}], but is {}", matrix->columns(), describe(x));
  }
  return FrozenProduct::apply(x, matrix);
}

}  // namespace folio::train::lora
