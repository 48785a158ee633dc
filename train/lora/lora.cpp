#include "train/lora/lora.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"

namespace folio::train::lora {
namespace {

using core::Role;

template <typename... Args>
nn::Linear lora_linear(Args&&... args) {
  return nn::Linear(std::shared_ptr<nn::LinearImpl>(std::make_shared<LoraLinearImpl>(std::forward<Args>(args)...)));
}

// An embedding with a frozen matrix. It returns rows in the model's floating-point type.
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

// Computes the layer's output. Fused blocks compute it in train/fused/linears.h instead.
torch::Tensor LoraLinearImpl::forward(const torch::Tensor& x) {
  torch::Tensor y = frozen_ ? multiply(x, frozen_) : nn::LinearImpl::forward(x);
  if (frozen_ && bias.defined()) y = y + bias;
  if (!low_rank_.a.defined()) return y;
  const auto dropped = torch::dropout(x, low_rank_.dropout, is_training());
  return y + torch::linear(torch::linear(dropped, low_rank_.a), low_rank_.b) * low_rank_.scale;
}

void LoraLinearImpl::adapt(int64_t rank, double scale, double dropout) {
  const double most = 1.0 / std::sqrt(static_cast<double>(in()));
  low_rank_ = {.a = register_parameter("lora_a", torch::empty({rank, in()}).uniform_(-most, most)),
               .b = register_parameter("lora_b", torch::zeros({out(), rank})),
               .scale = scale,
               .dropout = dropout};
}

LoraLinears::LoraLinears(std::shared_ptr<const core::StoredModel> weights) : weights_(std::move(weights)) {
  if (weights_) manifest_ = core::tensor_manifest(weights_->config);
}

std::shared_ptr<const FrozenMatrix> LoraLinears::frozen(const std::string& name) const {
  return std::make_shared<const FrozenMatrix>(weights_, tensor_of(*weights_, manifest_, name + ".weight"));
}

nn::Linear LoraLinears::make(const std::string& name, int64_t in, int64_t out, bool bias) const {
  if (!weights_) return lora_linear(in, out, bias);
  return lora_linear(frozen(name), bias);
}

nn::Embedding LoraLinears::embedding(const std::string& name, int64_t vocab_size, int64_t dim) const {
  if (!weights_) return nn::Linears::embedding(name, vocab_size, dim);
  return nn::Embedding(std::shared_ptr<nn::EmbeddingImpl>(std::make_shared<FrozenEmbeddingImpl>(frozen(name))));
}

std::vector<Role> lora_targets(std::string_view names) {
  static const std::map<std::string_view, Role> roles{{"q", Role::Wq},   {"k", Role::Wk},    {"v", Role::Wv},
                                                      {"o", Role::Wo},   {"gate", Role::W1}, {"up", Role::W3},
                                                      {"down", Role::W2}};
  std::set<Role> targets;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string_view name = names.substr(begin, end - begin);
    begin = end + 1;
    if (name != "all" && !roles.contains(name)) {
      throw core::UsageError(
          fmt::format("--lora-targets: \"{}\" is unknown, expected all or some of q, k, v, o, gate, up, down",
                      core::printable(name)));
    }
    for (const auto& [known, role] : roles) {
      if (name == "all" || name == known) targets.insert(role);
    }
  }
  return {targets.begin(), targets.end()};
}

std::string lora_module(const core::TensorSpec& spec) {
  return spec.module_name.substr(0, spec.module_name.rfind('.'));
}

void freeze_rest(nn::Llama& model, const core::StoredModel& weights) {
  const torch::NoGradGuard no_grad;
  const auto manifest = core::tensor_manifest(weights.config);
  for (auto& parameter : model->named_parameters()) {
    const std::vector<float> numbers = core::to_floats(tensor_of(weights, manifest, parameter.key()));
    parameter->copy_(torch::tensor(at::ArrayRef<float>(numbers)));
    parameter->set_requires_grad(false);
  }
}

void add_lora(nn::Llama& model, const core::AdapterInfo& info) {
  const auto modules = model->named_modules();
  for (const core::TensorSpec& spec : core::tensor_manifest(model->config())) {
    if (std::ranges::find(info.targets, spec.role) == info.targets.end()) continue;
    auto* linear = modules[lora_module(spec)]->as<LoraLinearImpl>();
    linear->adapt(info.rank, info.alpha / static_cast<double>(info.rank), info.dropout);
  }
}

}  // namespace folio::train::lora
