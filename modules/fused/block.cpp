// Shapes: B sequences, T positions, N = B T rows, D model width, H query heads, C columns of the queries, keys and
// values together, F hidden width.
#include "modules/fused/block.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <utility>

#include "core/error.h"
#include "core/rope_scaling.h"
#include "modules/attention.h"
#include "modules/fused/dropout.h"
#include "modules/fused/operand.h"
#include "modules/fused/operations.h"

namespace folio::nn {
namespace fused {
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

// The weights as their products want them.
struct Weights {
  Tensor attention_norm, qkv, wo, ffn_norm, gate_up, w2;
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
  a.qkv = a.normed.y.mm(w.qkv.t());
  rotate<T>(a.qkv, shape, shared.rotations<T>(), false);
  a.attended = attend<T>(a.qkv, shape, drops.weights);
  a.h = add<T>(x_ND, a.attended.heads.mm(w.wo.t()), drops.attention);

  a.normed_h = norm<T>(a.h, w.ffn_norm, shared.norm_eps);
  a.gate_up = a.normed_h.y.mm(w.gate_up.t());
  return add<T>(a.h, swiglu<T>(a.gate_up).mm(w.w2.t()), drops.ffn);
}

// The gradients by the input and by the weights.
struct Gradients {
  Tensor x, attention_norm, qkv, wo, ffn_norm, gate_up, w2;
};

// The forward pass from its end. A product y = x wᵀ has dx = dy w and dw = dyᵀ x; the loops' gradients are derived in
// their files.
template <typename T>
Gradients backward_pass(const Shared& shared, const AttentionShape& shape, const Weights& w, const Drops& drops,
                        const Tensor& x_ND, const Activations& a, const Tensor& dout_ND) {
  const auto by_weight = [](const Tensor& dy, const Tensor& x) { return dy.t().mm(x).to(kType<Real<T>>); };
  Gradients d;
  const Tensor dfed_ND = drop<T>(dout_ND, drops.ffn);
  const auto [dgate_up_N2F, gated_NF] = swiglu_backward<T>(dfed_ND.mm(w.w2), a.gate_up);
  d.w2 = by_weight(dfed_ND, gated_NF);
  d.gate_up = by_weight(dgate_up_N2F, a.normed_h.y);
  const auto dnormed_h_ND = dgate_up_N2F.mm(w.gate_up);
  const NormGradients dh = norm_backward<T>(dnormed_h_ND, a.h, w.ffn_norm, a.normed_h.inverse_rms, dout_ND);
  d.ffn_norm = dh.dweight;

  const Tensor dattention_ND = drop<T>(dh.dx, drops.attention);
  d.wo = by_weight(dattention_ND, a.attended.heads);
  const Tensor dqkv_NC = attend_backward<T>(dattention_ND.mm(w.wo), a.attended, a.qkv, shape, drops.weights);
  rotate<T>(dqkv_NC, shape, shared.rotations<T>(), true);
  d.qkv = by_weight(dqkv_NC, a.normed.y);
  const NormGradients dx = norm_backward<T>(dqkv_NC.mm(w.qkv), x_ND, w.attention_norm, a.normed.inverse_rms, dh.dx);
  d.attention_norm = dx.dweight;
  d.x = dx.dx;
  return d;
}

// The function's tensors: the input, and the parameters in this order.
enum Argument : uint8_t { X, AttentionNorm, Wq, Wk, Wv, Wo, FfnNorm, W1, W2, W3, kArguments };
constexpr std::array<const char*, kArguments> kNames{"",
                                                     "attention_norm.weight",
                                                     "attention.wq.weight",
                                                     "attention.wk.weight",
                                                     "attention.wv.weight",
                                                     "attention.wo.weight",
                                                     "ffn_norm.weight",
                                                     "ffn.w1.weight",
                                                     "ffn.w2.weight",
                                                     "ffn.w3.weight"};

AttentionShape shape_of(const Shared& shared, const Tensor& x_BTD) {
  AttentionShape shape = shared.shape;
  shape.n_positions = static_cast<size_t>(x_BTD.size(1));
  return shape;
}

struct BlockFunction : torch::autograd::Function<BlockFunction> {
  static Tensor forward(AutogradContext* context, const Tensor& x_BTD, const Tensor& attention_norm, const Tensor&,
                        const Tensor&, const Tensor&, const Tensor&, const Tensor& ffn_norm, const Tensor&,
                        const Tensor&, const Tensor&, const c10::intrusive_ptr<Shared>& shared, const Weights& w,
                        double dropout, int64_t key) {
    const Tensor input_BTD = x_BTD.contiguous();
    Activations a;
    const Tensor out_ND = with_type(w.qkv.scalar_type(), [&]<typename T>() {
      return forward_pass<T>(*shared, shape_of(*shared, x_BTD), w, Drops(dropout, static_cast<uint64_t>(key)),
                             input_BTD.flatten(0, 1), a);
    });
    if (shared->recompute) a = {};
    context->save_for_backward({input_BTD, attention_norm, ffn_norm, w.qkv, w.wo, w.gate_up, w.w2, a.normed.y,
                                a.normed.inverse_rms, a.qkv, a.attended.heads, a.attended.log_sums, a.h, a.normed_h.y,
                                a.normed_h.inverse_rms, a.gate_up});
    context->saved_data["shared"] = c10::IValue::make_capsule(shared);
    context->saved_data["dropout"] = dropout;
    context->saved_data["key"] = key;
    return out_ND.view(x_BTD.sizes());
  }

  static torch::autograd::variable_list backward(AutogradContext* context,
                                                 const torch::autograd::variable_list& douts) {
    const auto saved = context->get_saved_variables();
    const auto capsule = context->saved_data["shared"].toCapsule();
    const auto& shared = static_cast<const Shared&>(*capsule);
    const Tensor& x_BTD = saved[0];
    const Weights w{.attention_norm = saved[1],
                    .qkv = saved[3],
                    .wo = saved[4],
                    .ffn_norm = saved[2],
                    .gate_up = saved[5],
                    .w2 = saved[6]};
    Activations a{.normed = {.y = saved[7], .inverse_rms = saved[8]},
                  .qkv = saved[9],
                  .attended = {.heads = saved[10], .log_sums = saved[11]},
                  .h = saved[12],
                  .normed_h = {.y = saved[13], .inverse_rms = saved[14]},
                  .gate_up = saved[15]};
    const Drops drops(context->saved_data["dropout"].toDouble(),
                      static_cast<uint64_t>(context->saved_data["key"].toInt()));
    const AttentionShape shape = shape_of(shared, x_BTD);
    const Gradients d = with_type(w.qkv.scalar_type(), [&]<typename T>() {
      const Tensor x_ND = x_BTD.flatten(0, 1);
      if (!a.qkv.defined()) forward_pass<T>(shared, shape, w, drops, x_ND, a);
      return backward_pass<T>(shared, shape, w, drops, x_ND, a, douts[0].contiguous().flatten(0, 1));
    });
    const auto q = static_cast<int64_t>(shape.query_dim()), kv = (d.qkv.size(0) - q) / 2, F = w.w2.size(1);
    torch::autograd::variable_list gradients(kArguments + 4);  // none for what is no tensor
    gradients[X] = d.x.view(x_BTD.sizes());
    gradients[AttentionNorm] = d.attention_norm;
    gradients[Wq] = d.qkv.narrow(0, 0, q);
    gradients[Wk] = d.qkv.narrow(0, q, kv);
    gradients[Wv] = d.qkv.narrow(0, q + kv, kv);
    gradients[Wo] = d.wo;
    gradients[FfnNorm] = d.ffn_norm;
    gradients[W1] = d.gate_up.narrow(0, 0, F);
    gradients[W2] = d.w2;
    gradients[W3] = d.gate_up.narrow(0, F, F);
    return gradients;
  }
};

class FusedBlockImpl : public BlockImpl {
 public:
  FusedBlockImpl(BlockParts parts, c10::intrusive_ptr<Shared> shared)
      : BlockImpl(std::move(parts), shared->dropout), shared_(std::move(shared)) {
    const auto named = named_parameters();
    for (size_t i = AttentionNorm; i < kArguments; ++i) parameters_[i] = named[kNames[i]];
  }

  Tensor forward(Tensor x_BTD, const Observer& observer, const std::string& prefix) override {
    if (observer || !x_BTD.is_cpu()) return BlockImpl::forward(x_BTD, observer, prefix);
    const auto type = product_type(x_BTD);
    const auto& p = parameters_;
    const Weights w{.attention_norm = p[AttentionNorm].detach(),
                    .qkv = qkv_.get({p[Wq], p[Wk], p[Wv]}, type),
                    .wo = wo_.get({p[Wo]}, type),
                    .ffn_norm = p[FfnNorm].detach(),
                    .gate_up = gate_up_.get({p[W1], p[W3]}, type),
                    .w2 = w2_.get({p[W2]}, type)};
    const double dropout = is_training() ? shared_->dropout : 0.0;
    return BlockFunction::apply(x_BTD, p[AttentionNorm], p[Wq], p[Wk], p[Wv], p[Wo], p[FfnNorm], p[W1], p[W2], p[W3],
                                shared_, w, dropout, dropout > 0 ? random_key() : 0);
  }

 private:
  c10::intrusive_ptr<Shared> shared_;
  std::array<Tensor, kArguments> parameters_;
  Operand qkv_, wo_, gate_up_, w2_;
};

}  // namespace
}  // namespace fused

bool can_be_fused(const core::ModelConfig& config) {
  const core::FamilyInfo& family = core::info(config.family);
  return !family.qkv_bias && !family.qk_norm;
}

BlockFactory fused_blocks(const core::ModelConfig& config, double dropout, bool recompute) {
  core::validate(config, "fused_blocks");
  core::require(can_be_fused(config), "fused_blocks: a {} has parts that have no fused form",
                core::info(config.family).name);
  const core::RopePairs pairs = core::info(config.family).pairs;
  RopeCache rope(config.context_length, config.head_dim, config.rope_theta, core::rope_factors(config), pairs);
  auto shared = c10::make_intrusive<fused::Shared>();
  shared->shape = {.n_positions = 0,
                   .n_heads = static_cast<size_t>(config.n_heads),
                   .n_kv_heads = static_cast<size_t>(config.n_kv_heads),
                   .head_dim = static_cast<size_t>(config.head_dim),
                   .window = static_cast<size_t>(config.sliding_window)};
  shared->norm_eps = config.norm_eps;
  shared->dropout = dropout;
  shared->recompute = recompute;
  shared->pairs = pairs;
  shared->cos_f64 = torch::real(rope->rotations()).contiguous();
  shared->sin_f64 = torch::imag(rope->rotations()).contiguous();
  shared->cos_f32 = shared->cos_f64.to(torch::kFloat);
  shared->sin_f32 = shared->sin_f64.to(torch::kFloat);
  return [rope, shared, dropout](const core::ModelConfig& c, int64_t) -> Block {
    const std::shared_ptr<BlockImpl> block =
        std::make_shared<fused::FusedBlockImpl>(llama_parts(c, rope, dropout), shared);
    return Block(block);
  };
}

Llama fused_llama(const core::ModelConfig& config, double dropout, bool recompute) {
  Llama model(config, dropout, fused_blocks(config, dropout, recompute));
  model->form = Form::Fused;
  return model;
}

}  // namespace folio::nn
