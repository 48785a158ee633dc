// Shapes: B sequences, T positions of a rank, N queries and S keys of a block, D model width, H query heads, G
// key/value heads, K dimensions per head.
#include "train/parallel/context.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/lora/with_backward.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

constexpr int64_t kT = 2;  // index of the dimension of positions in [B, H, T, K]

// Returns the accumulator type of sums over blocks and ranks: at least f32.
auto sum_type(const Tensor& x) { return x.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat; }

// Starts sending `leaving` to the next rank and receiving a tensor from the previous rank. The returned function waits
// for both transfers and returns the received tensor.
std::function<Tensor()> pass_on(const Tensor& leaving, Group& ring, int tag) {
  const Tensor coming = torch::empty_like(leaving);
  Pending sent = ring.send(leaving, ring.next(), tag), received = ring.receive(coming, ring.previous(), tag);
  return [=]() mutable {
    sent.wait();
    received.wait();
    return coming;
  };
}
enum Tag { kKeys, kGradients };

// Calls use(from, kv) once for each rank `from`, starting with this rank and continuing with the previous rank of the
// ring. kv [2, B, G, T, K] contains the keys and values of rank `from`. The next kv is received while a call runs.
template <typename Use>
void around(Group& ring, Tensor kv, Use&& use) {
  const int64_t C = ring.size();
  for (int64_t step = 0; step < C; ++step) {
    std::function<Tensor()> next;
    if (step + 1 < C) next = pass_on(kv, ring, kKeys);
    use((ring.index() + C - step) % C, kv);
    if (next) kv = next();
  }
}

// The work of one ring step: a rank's query chunks first_query .. 1 attend to chunks 0 .. n_keys - 1 of the keys of
// rank `from`. Each rank has two chunks.
struct RingBlock {
  int64_t first_query;
  int64_t n_keys;
  bool causal;  // query i attends to keys 0 .. i; false: to all keys
};
RingBlock ring_block(int64_t rank, int64_t from) {
  if (from == rank) return {.first_query = 0, .n_keys = 2, .causal = true};
  if (from < rank) return {.first_query = 0, .n_keys = 1, .causal = false};
  return {.first_query = 1, .n_keys = 2, .causal = false};
}

// Returns the query chunks of `x` that a ring step uses; keys_of() returns the key or value chunks that the step uses.
Tensor queries_of(const Tensor& x, const RingBlock& block) {
  const int64_t chunk = x.size(kT) / 2;
  return x.narrow(kT, block.first_query * chunk, x.size(kT) - block.first_query * chunk);
}
Tensor keys_of(const Tensor& x, const RingBlock& block) { return x.narrow(kT, 0, block.n_keys * (x.size(kT) / 2)); }

// Repeats key or value heads, since LibTorch's kernel requires one per query head. sum_of_query_heads() sums the
// gradients of the repeated heads.
Tensor for_each_query_head(const Tensor& k_BGSK, int64_t H) { return k_BGSK.repeat_interleave(H / k_BGSK.size(1), 1); }
Tensor sum_of_query_heads(const Tensor& dk_BHSK, int64_t G) { return dk_BHSK.unflatten(1, {G, -1}).sum(2); }

// State of ring attention on one rank, for one forward and backward pass.
struct RingPass {
  Tensor q_BHTK, kv;  // kv: keys and values [2, B, G, T, K]
  double scale;
  Group& ring;
  Tensor out_BHTK{}, lse_BHT{};  // attention output and log-sum-exp of the scores, over the keys received so far

  Tensor forward() {
    const int64_t H = q_BHTK.size(1);
    around(ring, kv, [&](int64_t from, const Tensor& kv_here) {
      const RingBlock block = ring_block(ring.index(), from);
      auto [mean_BHNK, sum_BHN] = at::_scaled_dot_product_flash_attention_for_cpu(
          queries_of(q_BHTK, block), for_each_query_head(keys_of(kv_here[0], block), H),
          for_each_query_head(keys_of(kv_here[1], block), H), /*dropout_p=*/0.0, block.causal, /*attn_mask=*/{}, scale);
      if (!out_BHTK.defined()) {  // first step: each query attends at least to its own key
        out_BHTK = mean_BHNK.to(sum_type(q_BHTK));
        lse_BHT = sum_BHN;
        return;
      }
      // Merge this block's output `mean` and log-sum-exp `sum` into the running ones:
      // out = (e^lse out + e^sum mean) / (e^lse + e^sum), lse = log(e^lse + e^sum).
      Tensor out = queries_of(out_BHTK, block), lse = queries_of(lse_BHT, block);
      out.sub_(torch::sigmoid(sum_BHN - lse).unsqueeze(-1) * (out - mean_BHNK));
      lse.sub_(torch::log_sigmoid(lse - sum_BHN));
    });
    out_BHTK = out_BHTK.to(q_BHTK.scalar_type());
    return out_BHTK.detach();
  }

  // Returns the gradients of q, k and v.
  std::vector<Tensor> backward(const Tensor& dout_BHTK) {
    const int64_t H = q_BHTK.size(1), G = kv.size(2);
    const Tensor dq_BHTK = torch::zeros_like(q_BHTK, sum_type(q_BHTK));
    // The gradients of a rank's keys and values are sent around the ring one step after the keys and values. Each rank
    // adds its terms.
    Tensor dkv;
    std::function<Tensor()> gradients;
    around(ring, kv, [&](int64_t from, const Tensor& kv_here) {
      const RingBlock block = ring_block(ring.index(), from);
      const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          queries_of(dout_BHTK, block), queries_of(q_BHTK, block), for_each_query_head(keys_of(kv_here[0], block), H),
          for_each_query_head(keys_of(kv_here[1], block), H), queries_of(out_BHTK, block), queries_of(lse_BHT, block),
          /*dropout_p=*/0.0, block.causal, /*attn_mask=*/{}, scale);
      queries_of(dq_BHTK, block).add_(dq);
      dkv = gradients ? gradients() : torch::zeros_like(kv, sum_type(kv));
      keys_of(dkv[0], block).add_(sum_of_query_heads(dk, G));
      keys_of(dkv[1], block).add_(sum_of_query_heads(dv, G));
      if (ring.size() > 1) gradients = pass_on(dkv, ring, kGradients);
    });
    if (gradients) dkv = gradients();
    dkv = dkv.to(kv.scalar_type());
    return {dq_BHTK.to(q_BHTK.scalar_type()), dkv[0], dkv[1]};
  }
};

}  // namespace

Tensor ring_attention(const Tensor& q_BHTK, const Tensor& k_BGTK, const Tensor& v_BGTK, double scale, Group& context) {
  // The kernel requires q, k and v of the same type, but under autocast, query and key norms may return float.
  const Tensor q = q_BHTK.to(v_BGTK.scalar_type()), k = k_BGTK.to(v_BGTK.scalar_type());
  const auto pass = std::make_shared<RingPass>(RingPass{
      .q_BHTK = q.detach(), .kv = torch::stack({k.detach(), v_BGTK.detach()}), .scale = scale, .ring = context});
  return with_backward(
      {q, k, v_BGTK}, [&] { return pass->forward(); },
      [pass](const Tensor& dout) { return pass->backward(dout.contiguous()); });
}

ContextAttentionImpl::ContextAttentionImpl(const core::ModelConfig& config, nn::RopeCache rope, Group& context,
                                           double dropout)
    : nn::FamilyAttentionImpl(config, std::move(rope), dropout), context_(context) {
  const auto refuse = [](const char* what) {
    core::fail("context ranks do not support attention with {}; use --context-parallel 1", what);
  };
  if (window_ > 0) refuse("a sliding window");
  if (cap_ > 0) refuse("capped scores");
  if (dropout > 0) refuse("dropout");
}

Tensor ContextAttentionImpl::forward(const Tensor& x_BTD, const Tensor& /*starts*/) {
  const int64_t chunk = x_BTD.size(1) / 2, C = context_.size(), c = context_.index();
  const Heads first = project(x_BTD.narrow(1, 0, chunk), c * chunk);
  const Heads second = project(x_BTD.narrow(1, chunk, chunk), (2 * C - 1 - c) * chunk);
  const auto both = [](const Tensor& a, const Tensor& b) { return torch::cat({a, b}, kT); };
  return output(ring_attention(both(first.q, second.q), both(first.k, second.k), both(first.v, second.v),
                               1.0 / divisor_, context_));
}

}  // namespace folio::train::parallel
