#include "train/lora/linear.h"

#include <cmath>
#include <utility>

#include "core/error.h"

namespace folio::train::lora {
namespace {

template <typename... Args>
nn::Linear lora_linear(Args&&... args) {
  return nn::Linear(std::shared_ptr<nn::LinearImpl>(std::make_shared<LoraLinearImpl>(std::forward<Args>(args)...)));
}

// Rows of a file's matrix, in the type of the model's other numbers.
class FrozenEmbeddingImpl : public nn::EmbeddingImpl {
 public:
  explicit FrozenEmbeddingImpl(std::shared_ptr<const FrozenMatrix> matrix) : matrix_(std::move(matrix)) {}

  torch::Tensor forward(const torch::Tensor& tokens) override { return matrix_->rows_of(tokens).to(type_); }
  [[nodiscard]] nn::Linear as_head() const override { return lora_linear(matrix_); }

  void to(torch::Device /*device*/, torch::Dtype type, bool /*non_blocking*/) override { type_ = type; }
  void to(torch::Dtype type, bool /*non_blocking*/) override { type_ = type; }
  using torch::nn::Module::to;

 private:
  std::shared_ptr<const FrozenMatrix> matrix_;
  torch::Dtype type_ = torch::kFloat;
};

}  // namespace

LoraLinearImpl::LoraLinearImpl(std::shared_ptr<const FrozenMatrix> matrix, bool with_bias)
    : nn::LinearImpl(matrix->columns(), matrix->rows(), WithoutWeight()), frozen_(std::move(matrix)) {
  if (with_bias) bias = register_parameter("bias", torch::zeros({out()}), /*requires_grad=*/false);
}

torch::Tensor LoraLinearImpl::forward(const torch::Tensor& x) {
  torch::Tensor y = frozen_ ? multiply(x, frozen_) : nn::LinearImpl::forward(x);
  if (frozen_ && bias.defined()) y = y + bias;
  if (!low_rank_.a.defined()) return y;
  const auto dropped = torch::dropout(x, low_rank_.dropout, is_training());
  return y + torch::linear(torch::linear(dropped, low_rank_.a), low_rank_.b) * low_rank_.scale;
}

void LoraLinearImpl::adapt(int64_t rank, double scale, double dropout) {
  const auto a = torch::empty({rank, in()});
  const double most = 1.0 / std::sqrt(static_cast<double>(in()));
  {
    const torch::NoGradGuard no_grad;
    a.uniform_(-most, most);
  }
  low_rank_ = {.a = register_parameter("lora_a", a),
               .b = register_parameter("lora_b", torch::zeros({out(), rank})),
               .scale = scale,
               .dropout = dropout};
}

nn::Linear LoraLinears::make(const std::string& name, int64_t in, int64_t out, bool bias) const {
  if (!weights_) return lora_linear(in, out, bias);
  auto matrix = weights_->matrix(name + ".weight");
  core::require(matrix->rows() == out && matrix->columns() == in,
                "the frozen matrix is [{}, {}], but has to be [{}, {}]", matrix->rows(), matrix->columns(), out, in);
  return lora_linear(std::move(matrix), bias);
}

nn::Embedding LoraLinears::embedding(const std::string& name, int64_t vocab_size, int64_t dim) const {
  if (!weights_) return nn::Linears::embedding(name, vocab_size, dim);
  return nn::Embedding(
      std::shared_ptr<nn::EmbeddingImpl>(std::make_shared<FrozenEmbeddingImpl>(weights_->matrix(name + ".weight"))));
}

}  // namespace folio::train::lora
