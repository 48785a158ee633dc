// Shapes: B sequences, T positions, N = B T rows, D model width, H query heads, C columns of the queries, keys and
// values together, F hidden width.
#include "train/fused/block.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "modules/families/mixture.h"
#include "train/fused/dropout.h"
#include "train/fused/linears.h"
#include "train/fused/operations.h"

namespace folio::train::fused {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;

// What all blocks of a model share. The base class lets an autograd context hold it.
struct Shared : torch::CustomClassHolder {
  AttentionShape shape{};  // but for the positions, which are the batch's
  double norm_eps = 0, dropout = 0;
  bool recompute = false;
  core::RopePairs pairs{};
  Tensor cos_f32, sin_f32, cos_f64, sin_f64;  // [context, head_dim / 2]

  template <typename T>
  [[nodiscard]] Rotations<T> rotations() const {
    using R = Real<T>;
    const bool f64 = std::is_same_v<R, double>;
    return {.cos = data<R>(f64 ? cos_f64 : cos_f32), .sin = data<R>(f64 ? sin_f64 : sin_f32), .pairs = pairs};
  }
};

// What a block multiplies by. The base class lets an autograd context hold it.
struct BlockLinears : torch::CustomClassHolder {
  using Modules = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;

  explicit BlockLinears(const Modules& parts)
      : dense(parts.contains("ffn.w1")),
        qkv(linears(parts, {"attention.wq", "attention.wk", "attention.wv"}), 4),
        wo(linears(parts, {"attention.wo"}), 7),
        gate_up(dense ? linears(parts, {"ffn.w1", "ffn.w3"}) : std::vector<nn::Linear>(), 8),
        w2(dense ? linears(parts, {"ffn.w2"}) : std::vector<nn::Linear>(), 10) {}

  [[nodiscard]] bool frozen() const { return wo.frozen(); }

  bool dense;  // false: the block has experts, and this function ends with the attention's residual
  StackedLinears qkv, wo, gate_up, w2;  // their sites of dropout follow those of Drops

 private:
  static std::vector<nn::Linear> linears(const Modules& parts, const std::vector<const char*>& names) {
    std::vector<nn::Linear> layers;
    for (const char* name : names) layers.emplace_back(std::dynamic_pointer_cast<nn::LinearImpl>(parts[name]));
    return layers;
  }
};

// The weights of one pass. Without a dense feed-forward network gate_up and w2 are undefined.
struct Weights {
  Tensor attention_norm;
  Product qkv, wo;
  Tensor ffn_norm;
  Product gate_up, w2;
};

// What the backward pass needs beside the input.
struct Activations {
  Normed normed;
  Tensor qkv;
  Attended attended;
  Tensor h;
  Normed normed_h;
  Tensor gate_up;
};

// The three places of a block where numbers are dropped.
struct Drops {
  Dropout weights, attention, ffn;

  Drops(double probability, uint64_t key)
      : weights(make_dropout(probability, key, 1)),
        attention(make_dropout(probability, key, 2)),
        ffn(make_dropout(probability, key, 3)) {}
};

// h = x + attention(norm(x)), then h + ffn(norm(h)).
template <typename T>
Tensor forward_pass(const Shared& shared, const AttentionShape& shape, const Weights& w, const Drops& drops,
                    const Tensor& x_ND, Activations& a) {
  a.normed = norm<T>(x_ND, w.attention_norm, shared.norm_eps);
  a.qkv = multiply<T>(w.qkv, a.normed.y);
  rotate<T>(a.qkv, shape, shared.rotations<T>(), false);
  a.attended = attend<T>(a.qkv, shape, drops.weights);
  a.h = add<T>(x_ND, multiply<T>(w.wo, a.attended.heads), drops.attention);
  if (!w.w2.weight.defined()) return std::exchange(a.h, Tensor());

  a.normed_h = norm<T>(a.h, w.ffn_norm, shared.norm_eps);
  a.gate_up = multiply<T>(w.gate_up, a.normed_h.y);
  return add<T>(a.h, multiply<T>(w.w2, swiglu<T>(a.gate_up)), drops.ffn);
}

// The gradients by a product's weights, undefined where they are frozen, and by its adapters.
struct ProductGradients {
  Tensor weight;
  std::vector<LowRankGradients> low_rank;
};

// The gradients by the input and by the weights.
struct Gradients {
  Tensor x, attention_norm;
  ProductGradients qkv, wo;
  Tensor ffn_norm;
  ProductGradients gate_up, w2;
};

// The forward pass from its end. A product y = x wᵀ has dx = dy w and dw = dyᵀ x, and adapters as linears.h has them;
// the loops' gradients are derived in their files. With `frozen`, weights have no gradients.
template <typename T>
Gradients backward_pass(const Shared& shared, const AttentionShape& shape, const Weights& w, const Drops& drops,
                        const Tensor& x_ND, const Activations& a, const Tensor& dout_ND, bool frozen, bool by_input) {
  const auto by_weight = [&](const Product& product, const Tensor& dy, const Tensor& x) -> ProductGradients {
    return {.weight = frozen ? Tensor() : dy.t().mm(x).to(kType<Real<T>>),
            .low_rank = low_rank_gradients<T>(product, dy, x)};
  };
  Gradients d;
  Tensor dh_ND = dout_ND;
  if (w.w2.weight.defined()) {
    const Tensor dfed_ND = drop<T>(dout_ND, drops.ffn);
    const auto [dgate_up_N2F, gated_NF] = swiglu_backward<T>(input_gradient<T>(w.w2, dfed_ND), a.gate_up);
    d.w2 = by_weight(w.w2, dfed_ND, gated_NF);
    d.gate_up = by_weight(w.gate_up, dgate_up_N2F, a.normed_h.y);
    const auto dnormed_h_ND = input_gradient<T>(w.gate_up, dgate_up_N2F);
    const NormGradients dh = norm_backward<T>(dnormed_h_ND, a.h, w.ffn_norm, a.normed_h.inverse_rms, dout_ND);
    d.ffn_norm = dh.dweight;
    dh_ND = dh.dx;
  }

  const Tensor dattention_ND = drop<T>(dh_ND, drops.attention);
  d.wo = by_weight(w.wo, dattention_ND, a.attended.heads);
  const Tensor dqkv_NC =
      attend_backward<T>(input_gradient<T>(w.wo, dattention_ND), a.attended, a.qkv, shape, drops.weights);
  rotate<T>(dqkv_NC, shape, shared.rotations<T>(), true);
  d.qkv = by_weight(w.qkv, dqkv_NC, a.normed.y);
  if (!by_input) return d;
  const NormGradients dx =
      norm_backward<T>(input_gradient<T>(w.qkv, dqkv_NC), x_ND, w.attention_norm, a.normed.inverse_rms, dh_ND);
  d.attention_norm = dx.dweight;
  d.x = dx.dx;
  return d;
}

// The function's tensors: the input, the norms, and then of each linear layer, in the order of the products, its weight
// unless it is frozen, and its adapter's a and b if it has one.
enum Argument : uint8_t { X, AttentionNorm, FfnNorm, kFirstOfLinears };

AttentionShape shape_of(const Shared& shared, const Tensor& x_BTD, const std::optional<Tensor>& starts_BT) {
  AttentionShape shape = shared.shape;
  shape.n_positions = static_cast<size_t>(x_BTD.size(1));
  if (starts_BT) shape.starts = starts_BT->data_ptr<int64_t>();
  return shape;
}

Weights weights_of(BlockLinears& linears, const Tensor& attention_norm, const Tensor& ffn_norm, torch::ScalarType type,
                   bool training, uint64_t key) {
  return {.attention_norm = attention_norm.detach(),
          .qkv = linears.qkv.product(type, training, key),
          .wo = linears.wo.product(type, training, key),
          .ffn_norm = ffn_norm.detach(),
          .gate_up = linears.dense ? linears.gate_up.product(type, training, key) : Product(),
          .w2 = linears.dense ? linears.w2.product(type, training, key) : Product()};
}

struct BlockFunction : torch::autograd::Function<BlockFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x_BTD, const Tensor& attention_norm,
                        const Tensor& ffn_norm, at::TensorList /*of linears*/, const std::optional<Tensor>& starts_BT,
                        const c10::intrusive_ptr<Shared>& shared, const c10::intrusive_ptr<BlockLinears>& linears,
                        torch::ScalarType type, bool training, int64_t key) {
    const Tensor input_BTD = x_BTD.contiguous();
    const double dropout = training ? shared->dropout : 0.0;
    const auto bits = static_cast<uint64_t>(key);
    const Weights w = weights_of(*linears, attention_norm, ffn_norm, type, training, bits);
    Activations a;
    const Tensor out_ND = with_type(type, [&]<typename T>() {
      return forward_pass<T>(*shared, shape_of(*shared, x_BTD, starts_BT), w, Drops(dropout, bits),
                             input_BTD.flatten(0, 1), a);
    });
    if (shared->recompute) a = {};
    // Frozen weights are expanded once more in the backward pass instead.
    const auto kept = [&](const Product& product) { return linears->frozen() ? Tensor() : product.weight; };
    context->save_for_backward({input_BTD, w.attention_norm, w.ffn_norm, kept(w.qkv), kept(w.wo), kept(w.gate_up),
                                kept(w.w2), a.normed.y, a.normed.inverse_rms, a.qkv, a.attended.heads,
                                a.attended.log_sums, a.h, a.normed_h.y, a.normed_h.inverse_rms, a.gate_up});
    context->saved_data["starts"] = starts_BT;
    context->saved_data["shared"] = c10::IValue::make_capsule(shared);
    context->saved_data["linears"] = c10::IValue::make_capsule(linears);
    context->saved_data["type"] = static_cast<int64_t>(type);
    context->saved_data["training"] = training;
    context->saved_data["key"] = key;
    return out_ND.view(x_BTD.sizes());
  }

  static torch::autograd::variable_list backward(AutogradContext* context,
                                                 const torch::autograd::variable_list& douts) {
    const auto saved = context->get_saved_variables();
    const auto capsule = context->saved_data["shared"].toCapsule();
    const auto& shared = static_cast<const Shared&>(*capsule);
    const auto linears_capsule = context->saved_data["linears"].toCapsule();
    auto& linears = static_cast<BlockLinears&>(*linears_capsule);
    const auto type = static_cast<torch::ScalarType>(context->saved_data["type"].toInt());
    const bool training = context->saved_data["training"].toBool();
    const auto key = static_cast<uint64_t>(context->saved_data["key"].toInt());
    const Tensor& x_BTD = saved[0];
    Weights w = weights_of(linears, saved[1], saved[2], type, training, key);
    if (!linears.frozen()) {  // those of the forward pass, whatever was written since
      w.qkv.weight = saved[3];
      w.wo.weight = saved[4];
      w.gate_up.weight = saved[5];
      w.w2.weight = saved[6];
    }
    Activations a{.normed = {.y = saved[7], .inverse_rms = saved[8]},
                  .qkv = saved[9],
                  .attended = {.heads = saved[10], .log_sums = saved[11]},
                  .h = saved[12],
                  .normed_h = {.y = saved[13], .inverse_rms = saved[14]},
                  .gate_up = saved[15]};
    const Drops drops(training ? shared.dropout : 0.0, key);
    const AttentionShape shape = shape_of(shared, x_BTD, context->saved_data["starts"].toOptional<Tensor>());
    const bool by_input = context->needs_input_grad(X) || context->needs_input_grad(AttentionNorm);
    const Gradients d = with_type(type, [&]<typename T>() {
      const Tensor x_ND = x_BTD.flatten(0, 1);
      if (!a.qkv.defined()) forward_pass<T>(shared, shape, w, drops, x_ND, a);
      return backward_pass<T>(shared, shape, w, drops, x_ND, a, douts[0].contiguous().flatten(0, 1), linears.frozen(),
                              by_input);
    });
    torch::autograd::variable_list gradients(kFirstOfLinears);
    if (d.x.defined()) gradients[X] = d.x.view(x_BTD.sizes());
    gradients[AttentionNorm] = d.attention_norm;
    gradients[FfnNorm] = d.ffn_norm;
    const auto add = [&](const ProductGradients& product, const StackedLinears& of) {
      int64_t row = 0;
      size_t part = 0;
      for (const nn::Linear& layer : of.layers()) {
        const int64_t n = layer->out();
        if (frozen_of(layer) == nullptr) gradients.push_back(product.weight.narrow(0, std::exchange(row, row + n), n));
        if (low_rank_of(layer) == nullptr) continue;
        gradients.push_back(product.low_rank[part].a);
        gradients.push_back(product.low_rank[part++].b);
      }
    };
    add(d.qkv, linears.qkv);
    add(d.wo, linears.wo);
    add(d.gate_up, linears.gate_up);
    add(d.w2, linears.w2);
    gradients.resize(gradients.size() + 6);  // none for what is no parameter
    return gradients;
  }
};

class FusedBlockImpl : public nn::BlockImpl {
 public:
  FusedBlockImpl(nn::BlockParts parts, c10::intrusive_ptr<Shared> shared)
      : nn::BlockImpl(std::move(parts), shared->dropout), shared_(std::move(shared)) {
    linears_ = c10::make_intrusive<BlockLinears>(named_modules("", /*include_self=*/false));
    attention_norm_ = named_parameters()["attention_norm.weight"];
    ffn_norm_ = named_parameters()["ffn_norm.weight"];
    mixture_ = nn::Mixture(std::dynamic_pointer_cast<nn::MixtureImpl>(parts_.ffn.ptr()));
  }

  Tensor forward(const Tensor& x_BTD, const Tensor& starts_BT) override {
    if (!x_BTD.is_cpu()) return nn::BlockImpl::forward(x_BTD, starts_BT);
    std::vector<Tensor> parameters;  // autograd sees each; the function takes the values from the layers
    double most_dropout = shared_->dropout;
    for (const StackedLinears* of : {&linears_->qkv, &linears_->wo, &linears_->gate_up, &linears_->w2}) {
      for (const nn::Linear& layer : of->layers()) {
        if (frozen_of(layer) == nullptr) parameters.push_back(layer->weight);
        const lora::LowRank* low_rank = low_rank_of(layer);
        if (low_rank == nullptr) continue;
        parameters.push_back(low_rank->a);
        parameters.push_back(low_rank->b);
        most_dropout = std::max(most_dropout, low_rank->dropout);
      }
    }
    const bool draws = is_training() && most_dropout > 0;
    const auto starts = starts_BT.defined() ? std::optional(starts_BT.contiguous()) : std::nullopt;
    const Tensor out_BTD =
        BlockFunction::apply(x_BTD, attention_norm_, ffn_norm_, at::TensorList(parameters), starts, shared_, linears_,
                             product_type(x_BTD), is_training(), draws ? random_key() : 0);
    return mixture_ ? with_experts(out_BTD) : out_BTD;
  }

 private:
  // h + experts(norm(h))
  Tensor with_experts(const Tensor& h_BTD) {
    const Tensor y_BTD = mixture_->forward(parts_.ffn_norm.forward(h_BTD));
    return h_BTD + (is_training() && dropout_ > 0 ? dropout(y_BTD, dropout_) : y_BTD);
  }

  c10::intrusive_ptr<Shared> shared_;
  c10::intrusive_ptr<BlockLinears> linears_;
  Tensor attention_norm_, ffn_norm_;
  nn::Mixture mixture_{nullptr};  // empty: the block has none
};

}  // namespace

bool can_be_fused(const core::ModelConfig& config) {
  const core::FamilyInfo& family = core::info(config.family);
  const bool llama_norms = family.pre_norms && !family.post_norms && family.qk_norm == core::QkNorm::None;
  const bool llama_scores = config.attention_scale == 0.0F && config.attention_cap == 0.0F && !family.sinks;
  const bool llama_rope = config.rotated() == config.head_dim && config.local_rope_theta == 0.0F;
  return llama_norms && llama_scores && llama_rope && !config.qkv_bias() && family.gate == core::Gate::Silu &&
         config.window_period == 1 && config.residual_scale == 1.0F;
}

BlockMaker fused_blocks(const core::ModelConfig& config, const nn::RopeCache& rope, double dropout, bool recompute) {
  core::require(can_be_fused(config), "fused_blocks: a {} has parts that have no fused form",
                core::info(config.family).name);
  auto shared = c10::make_intrusive<Shared>();
  shared->shape = {.n_positions = 0,
                   .n_heads = static_cast<size_t>(config.n_heads),
                   .n_kv_heads = static_cast<size_t>(config.n_kv_heads),
                   .head_dim = static_cast<size_t>(config.head_dim),
                   .window = static_cast<size_t>(config.sliding_window)};
  shared->norm_eps = config.norm_eps;
  shared->dropout = dropout;
  shared->recompute = recompute;
  shared->pairs = core::info(config.family).pairs;
  shared->cos_f64 = torch::real(rope->rotations()).contiguous();
  shared->sin_f64 = torch::imag(rope->rotations()).contiguous();
  shared->cos_f32 = shared->cos_f64.to(torch::kFloat);
  shared->sin_f32 = shared->sin_f64.to(torch::kFloat);
  return [shared](nn::BlockParts parts) {
    return nn::Block(std::shared_ptr<nn::BlockImpl>(std::make_shared<FusedBlockImpl>(std::move(parts), shared)));
  };
}

}  // namespace folio::train::fused
