// A whole block as one autograd function with a hand-written backward pass. Matrix products are LibTorch's (linears.h);
// the operations between them use the kernels of loops.h. nn::Block is the reference that tests compare with.
// Shapes: B sequences, T positions, N = B T rows, D model width, C columns of queries, keys and values, F hidden width.
#include <algorithm>
#include <array>
#include <memory>
#include <typeinfo>
#include <utility>
#include <vector>

#include "modules/swiglu.h"
#include "train/fused/linears.h"
#include "train/fused/parts.h"
#include "train/lora/with_backward.h"

namespace folio::train::fused {

// The settings that all blocks of a model share.
struct BlockSettings {
  core::ModelConfig config;
  double dropout;  // probability; each forward pass of a block draws the key of its masks from LibTorch's generator
  bool recompute;
  std::array<Tensor, 2> rotations;  // cos and sin [2, context, head_dim / 2], as f32 and as f64
};

namespace {

using variable_list = std::vector<Tensor>;

// The matrix products of a block. If its feed-forward network is not a SwiGLU, GateUp and W2 are empty and the autograd
// function covers only the attention branch.
enum Matrix : size_t { Qkv, Wo, GateUp, W2, kMatrices };
using BlockLinears = std::array<StackedLinears, kMatrices>;

// Returns true if `ffn` computes w2 (silu(w1 x) ⊙ w3 x): exactly nn::SwiGLU with the SiLU gate, not a derived class.
bool is_swiglu(const torch::nn::Module& ffn) {
  using Gate = Tensor (*)(const Tensor&, const Tensor&);
  if (typeid(ffn) != typeid(nn::SwiGLUImpl)) return false;
  const Gate* gate = static_cast<const nn::SwiGLUImpl&>(ffn).gate().target<Gate>();
  return gate != nullptr && *gate == &nn::SwiGLUImpl::silu_gate;
}

BlockLinears linears_of(const torch::nn::Module& block, bool swiglu) {
  const auto parts = block.named_modules("", /*include_self=*/false);
  const auto stacked = [&](std::initializer_list<const char*> names, uint64_t first_site) {
    std::vector<nn::Linear> layers;
    for (const char* name : names) {
      if (const auto* part = parts.find(name)) layers.emplace_back(std::dynamic_pointer_cast<nn::LinearImpl>(*part));
    }
    return StackedLinears{std::move(layers), first_site};
  };
  BlockLinears linears{stacked({"attention.wq", "attention.wk", "attention.wv"}, 4), stacked({"attention.wo"}, 7)};
  if (swiglu) {
    linears[GateUp] = stacked({"ffn.w1", "ffn.w3"}, 8);
    linears[W2] = stacked({"ffn.w2"}, 10);
  }
  return linears;
}

// Activations that the forward pass saves for the backward pass.
struct Activations {
  Normed normed;
  Tensor qkv;
  Attended attended;
  Tensor h;
  Normed normed_h;
  Tensor gate_up;
};

// State of one forward and backward pass of a block.
struct BlockPass {
  std::shared_ptr<const BlockSettings> settings;
  std::shared_ptr<BlockLinears> linears;
  torch::ScalarType type;
  AttentionShape shape;
  Tensor starts_BT;                          // owns the memory of shape.starts
  Dropout of_weights, of_attention, of_ffn;  // `site` 1, 2 and 3 of make_dropout(); LoRA adapters use 4 to 10
  std::array<StackedWeight, kMatrices> w;
  Tensor x_ND, attention_norm_D, ffn_norm_D;
  Activations a;

  BlockPass(std::shared_ptr<const BlockSettings> of_model, std::shared_ptr<BlockLinears> of_block, const Tensor& x_BTD,
            const variable_list& norms, const Tensor& starts, bool training, uint64_t key)
      : settings(std::move(of_model)),
        linears(std::move(of_block)),
        type(product_type(x_BTD)),
        x_ND(x_BTD.detach().contiguous().flatten(0, 1)),
        attention_norm_D(norms[0].detach()),
        ffn_norm_D(norms[1].detach()) {
    const core::ModelConfig& c = settings->config;
    if (starts.defined()) starts_BT = starts.contiguous();
    shape = {.n_positions = static_cast<size_t>(x_BTD.size(1)),
             .n_heads = static_cast<size_t>(c.n_heads),
             .n_kv_heads = static_cast<size_t>(c.n_kv_heads),
             .head_dim = static_cast<size_t>(c.head_dim),
             .window = static_cast<size_t>(c.sliding_window),
             .starts = starts.defined() ? starts_BT.data_ptr<int64_t>() : nullptr,
             .pairs = core::info(c.family).pairs};
    const double dropout = training ? settings->dropout : 0.0;
    of_weights = make_dropout(dropout, key, 1);
    of_attention = make_dropout(dropout, key, 2);
    of_ffn = make_dropout(dropout, key, 3);
    for (size_t i = 0; i < kMatrices; ++i) w[i] = (*linears)[i].product(type, training, key);
  }

  // Computes h = x + attention(norm(x)). Returns h + ffn(norm(h)), or only h if the ffn is not fused.
  template <typename T>
  Tensor forward() {
    a.normed = norm<T>(x_ND, attention_norm_D, settings->config.norm_eps);
    a.qkv = multiply<T>(w[Qkv], a.normed.y);
    rotate<T>(a.qkv, shape, settings->rotations[std::is_same_v<T, double>], false);
    a.attended = attend<T>(a.qkv, shape, of_weights);
    a.h = add<T>(x_ND, multiply<T>(w[Wo], a.attended.heads), of_attention);
    if (!w[W2].weight.defined()) return std::exchange(a.h, Tensor());

    a.normed_h = norm<T>(a.h, ffn_norm_D, settings->config.norm_eps);
    a.gate_up = multiply<T>(w[GateUp], a.normed_h.y);
    return add<T>(a.h, multiply<T>(w[W2], swiglu<T>(a.gate_up)), of_ffn);
  }

  // Runs forward() in reverse. Returns the gradients of x, of both norms' weights and of the linear layers' parameters.
  // Those of x and of the attention norm are undefined unless `by_input` is true. The formulas of products are in
  // linears.h, those of other operations in the files of their kernels.
  template <typename T>
  variable_list backward(const Tensor& dout_ND, bool by_input) {
    Tensor dh_ND = dout_ND, dx_ND, dattention_norm_D, dffn_norm_D;
    std::array<variable_list, kMatrices> dw;
    if (w[W2].weight.defined()) {
      const Tensor dfed_ND = drop<T>(dout_ND, of_ffn);
      const auto [dgate_up_N2F, gated_NF] = swiglu_backward<T>(input_gradient<T>(w[W2], dfed_ND), a.gate_up);
      dw[W2] = parameter_gradients<T>(w[W2], dfed_ND, gated_NF);
      dw[GateUp] = parameter_gradients<T>(w[GateUp], dgate_up_N2F, a.normed_h.y);
      std::tie(dh_ND, dffn_norm_D) = norm_backward<T>(input_gradient<T>(w[GateUp], dgate_up_N2F), a.h, ffn_norm_D,
                                                      a.normed_h.inverse_rms, dout_ND);
    }

    const Tensor dattention_ND = drop<T>(dh_ND, of_attention);
    dw[Wo] = parameter_gradients<T>(w[Wo], dattention_ND, a.attended.heads);
    const Tensor dqkv_NC =
        attend_backward<T>(input_gradient<T>(w[Wo], dattention_ND), a.attended, a.qkv, shape, of_weights);
    rotate<T>(dqkv_NC, shape, settings->rotations[std::is_same_v<T, double>], true);
    dw[Qkv] = parameter_gradients<T>(w[Qkv], dqkv_NC, a.normed.y);
    if (by_input) {
      std::tie(dx_ND, dattention_norm_D) =
          norm_backward<T>(input_gradient<T>(w[Qkv], dqkv_NC), x_ND, attention_norm_D, a.normed.inverse_rms, dh_ND);
    }
    variable_list all{dx_ND, dattention_norm_D, dffn_norm_D};
    for (const variable_list& of : dw) all.insert(all.end(), of.begin(), of.end());
    return all;
  }

  // Loads frozen weights from the file if `loaded`, else frees them. They are not kept in memory between the passes.
  void set_frozen_weights(bool loaded) {
    for (size_t i = 0; i < kMatrices; ++i) {
      if ((*linears)[i].frozen()) w[i].weight = loaded ? (*linears)[i].weight(type) : Tensor();
    }
  }
};

class FusedBlockImpl : public nn::BlockImpl {
 public:
  FusedBlockImpl(nn::BlockParts parts, std::shared_ptr<const BlockSettings> settings)
      : nn::BlockImpl(std::move(parts), settings->dropout),
        settings_(std::move(settings)),
        has_swiglu_(is_swiglu(*parts_.ffn.ptr())),
        linears_(std::make_shared<BlockLinears>(linears_of(*this, has_swiglu_))),
        norms_{named_parameters()["attention_norm.weight"], named_parameters()["ffn_norm.weight"]} {}

  Tensor forward(const Tensor& x_BTD, const Tensor& starts_BT) override {
    variable_list inputs{x_BTD, norms_[0], norms_[1]};  // for autograd, in the order of BlockPass::backward()'s results
    double most_dropout = settings_->dropout;
    for (const StackedLinears& of : *linears_) {
      for (const nn::Linear& layer : of.layers) {
        if (frozen_of(layer) == nullptr) inputs.push_back(layer->weight);
        const lora::LoraWeights* adapter = low_rank_of(layer);
        if (adapter == nullptr) continue;
        inputs.insert(inputs.end(), {adapter->a, adapter->b});
        most_dropout = std::max(most_dropout, adapter->dropout);
      }
    }
    const bool draws = is_training() && most_dropout > 0;
    const auto pass = std::make_shared<BlockPass>(settings_, linears_, x_BTD, norms_, starts_BT, is_training(),
                                                  static_cast<uint64_t>(draws ? random_key() : 0));
    const bool by_input = x_BTD.requires_grad() || norms_[0].requires_grad();
    const Tensor h_BTD = with_backward(
        inputs,
        [&] {
          const Tensor h_ND = with_type(pass->type, [&]<typename T>() { return pass->template forward<T>(); });
          if (settings_->recompute) pass->a = {};
          pass->set_frozen_weights(false);
          return h_ND.view(x_BTD.sizes());
        },
        [pass, by_input](const Tensor& dh_BTD) {
          pass->set_frozen_weights(true);
          variable_list gradients = with_type(pass->type, [&]<typename T>() {
            if (!pass->a.qkv.defined()) pass->template forward<T>();
            return pass->template backward<T>(dh_BTD.contiguous().flatten(0, 1), by_input);
          });
          if (gradients[0].defined()) gradients[0] = gradients[0].view_as(dh_BTD);
          return gradients;
        });
    if (has_swiglu_) return h_BTD;
    const Tensor y_BTD = fed(h_BTD);
    return h_BTD + (is_training() && dropout_ > 0 ? dropout(y_BTD.to(h_BTD.scalar_type()), dropout_) : y_BTD);
  }

 private:
  std::shared_ptr<const BlockSettings> settings_;
  bool has_swiglu_;  // false: the feed-forward network, such as a mixture of experts, is called as a module
  std::shared_ptr<BlockLinears> linears_;
  variable_list norms_;  // weights of both norms
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

nn::Block FusedParts::block(const core::ModelConfig& config, nn::RopeCache rope, int64_t layer) const {
  if (!fusion_.blocks) return nn::FamilyParts::block(config, std::move(rope), layer);
  if (!settings_) {
    const Tensor both = torch::view_as_real(rope->rotations()).movedim(-1, 0).contiguous();
    settings_ = std::make_shared<BlockSettings>(
        BlockSettings{config, options().dropout, fusion_.recompute, {both.to(torch::kFloat), both}});
  }
  const std::shared_ptr<nn::BlockImpl> block =
      std::make_shared<FusedBlockImpl>(block_parts(config, std::move(rope), layer), settings_);
  return nn::Block(block);
}

}  // namespace folio::train::fused
