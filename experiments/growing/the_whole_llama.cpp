// A complete Llama in one file: corpus, batches, model (RMSNorm, RoPE, grouped-query attention, SwiGLU),
// initialization, AdamW with schedule and clipping, sampling. LibTorch provides tensors and autograd. A test compares
// the results with modules/ and train/. Shapes: B windows, T positions, V characters, D width, H query heads, G
// key/value heads, K elements in a head, P = K / 2 pairs, F hidden elements of the feed-forward.
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "core/random.h"
#include "data/corpus.h"

namespace whole {

using torch::Tensor;

struct Config {
  int64_t V = 65, D = 128, L = 4, H = 4, G = 4, F = 352, T = 256;  // L: number of blocks
  double theta = 10000.0, norm_eps = 1e-5;
  int64_t B = 4, steps = 2000;
  double rate = 2e-3, last_rate = 2e-4, warmup = 100;
  double beta1 = 0.9, beta2 = 0.99, adam_eps = 1e-8, decay = 0.1, clip = 1.0;
  uint64_t seed = 1;
};

struct Text {
  std::string characters;  // distinct characters in the order of their codes
  std::vector<int64_t> train, validation;

  explicit Text(const std::string& text) {
    const std::set<char> distinct(text.begin(), text.end());
    characters.assign(distinct.begin(), distinct.end());
    const std::vector<int64_t> all = encode(text);
    const auto border = all.begin() + static_cast<int64_t>(0.9 * static_cast<double>(all.size()));
    train.assign(all.begin(), border), validation.assign(border, all.end());
  }

  [[nodiscard]] std::vector<int64_t> encode(const std::string& text) const {
    std::vector<int64_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<int64_t>(characters.find(c)));
    return tokens;
  }
};

struct Batch {
  Tensor inputs_BT, targets_BT;  // the targets are the inputs shifted by one character
};

Batch window(const std::vector<int64_t>& tokens, const std::vector<size_t>& starts, int64_t T) {
  std::vector<int64_t> inputs, targets;
  for (const size_t start : starts) {
    const auto first = tokens.begin() + static_cast<int64_t>(start);
    inputs.insert(inputs.end(), first, first + T);
    targets.insert(targets.end(), first + 1, first + 1 + T);
  }
  return {torch::tensor(inputs).view({-1, T}), torch::tensor(targets).view({-1, T})};
}

// Returns B windows at random offsets, which depend only on the seed and the step.
Batch random_batch(const std::vector<int64_t>& tokens, const Config& c, int64_t step) {
  std::vector<size_t> starts;
  for (int64_t b = 0; b < c.B; ++b)
    starts.push_back(folio::core::random_below(c.seed, step * c.B + b, tokens.size() - c.T));
  return window(tokens, starts, c.T);
}

struct Block {
  Tensor attention_norm_D, wq_DD, wk_GD, wv_GD, wo_DD;  // wk and wv: [G · K, D]
  Tensor ffn_norm_D, w1_FD, w2_DF, w3_FD;
};

Tensor rms_norm(const Tensor& x_BTD, const Tensor& gain_D, double eps) {
  return x_BTD * torch::rsqrt(x_BTD.square().mean(-1, /*keepdim=*/true) + eps) * gain_D;
}

// Applies RoPE: rotates elements (2i, 2i + 1) of position t by the angle t · theta^(-2i/K).
Tensor rotate(const Tensor& x_BHTK, double theta) {
  const int64_t T = x_BHTK.size(-2), K = x_BHTK.size(-1);
  const Tensor turn_P = torch::pow(theta, -torch::arange(0, K, 2, torch::kDouble) / static_cast<double>(K));
  const Tensor angle_TP = torch::outer(torch::arange(T, torch::kDouble), turn_P);
  const Tensor cos_TP = angle_TP.cos().to(x_BHTK.scalar_type()), sin_TP = angle_TP.sin().to(x_BHTK.scalar_type());
  const Tensor pairs = x_BHTK.unflatten(-1, {-1, 2});
  const Tensor a_BHTP = pairs.select(-1, 0), b_BHTP = pairs.select(-1, 1);
  return torch::stack({a_BHTP * cos_TP - b_BHTP * sin_TP, a_BHTP * sin_TP + b_BHTP * cos_TP}, -1).flatten(-2);
}

struct Llama {
  Config c;
  Tensor embedding_VD, norm_D;  // the embedding is also the output matrix
  std::vector<Block> blocks{};

  // Initializes matrices with a standard deviation of 0.02, and wo and w2, whose outputs are added to the residual
  // stream, with 0.02/√(2 L), so that the sum of 2 L additions doesn't grow with depth. Norm gains are 1.
  explicit Llama(const Config& config) : c(config) {
    torch::manual_seed(c.seed);
    const auto matrix = [](int64_t out, int64_t in, double spread) {
      return torch::empty({out, in}).normal_(0.0, spread).requires_grad_();
    };
    const auto gains = [&] { return torch::ones(c.D).requires_grad_(); };
    const double s = 0.02, s_out = s / std::sqrt(2.0 * static_cast<double>(c.L));
    embedding_VD = matrix(c.V, c.D, s);
    for (int64_t layer = 0; layer < c.L; ++layer) {
      Block& b = blocks.emplace_back();
      b.attention_norm_D = gains(), b.ffn_norm_D = gains();
      b.wq_DD = matrix(c.D, c.D, s), b.wk_GD = matrix(c.G * c.D / c.H, c.D, s),
      b.wv_GD = matrix(c.G * c.D / c.H, c.D, s);
      b.wo_DD = matrix(c.D, c.D, s_out);
      b.w1_FD = matrix(c.F, c.D, s), b.w2_DF = matrix(c.D, c.F, s_out), b.w3_FD = matrix(c.F, c.D, s);
    }
    norm_D = gains();
  }

  [[nodiscard]] std::vector<Tensor> parameters() const {
    std::vector<Tensor> all{embedding_VD};
    for (const Block& b : blocks) {
      all.insert(all.end(), {b.attention_norm_D, b.wq_DD, b.wk_GD, b.wv_GD, b.wo_DD});
      all.insert(all.end(), {b.ffn_norm_D, b.w1_FD, b.w2_DF, b.w3_FD});
    }
    all.push_back(norm_D);
    return all;
  }

  // Returns the attention output [B, T, D]. Each head averages the values up to a position, weighted by
  // softmax(q · k / √K).
  [[nodiscard]] Tensor attention(const Block& b, const Tensor& x_BTD) const {
    const int64_t K = c.D / c.H;
    const auto heads = [&](const Tensor& w, int64_t n) {
      return torch::linear(x_BTD, w).unflatten(-1, {n, K}).transpose(1, 2);  // [B, n, T, K]
    };
    const Tensor q_BHTK = rotate(heads(b.wq_DD, c.H), c.theta) / std::sqrt(K);
    const Tensor k_BHTK =
        rotate(heads(b.wk_GD, c.G), c.theta).repeat_interleave(c.H / c.G, 1);   // a key head serves H / G query heads
    const Tensor v_BHTK = heads(b.wv_GD, c.G).repeat_interleave(c.H / c.G, 1);  // a value head serves H / G query heads
    const Tensor scores_BHTT = q_BHTK.matmul(k_BHTK.transpose(-2, -1));
    const Tensor mask_TT = torch::full(scores_BHTT.sizes().slice(2), -INFINITY).triu(1);  // -inf at later positions
    const Tensor weights_BHTT = (scores_BHTT + mask_TT).softmax(-1);
    return torch::linear(weights_BHTT.matmul(v_BHTK).transpose(1, 2).flatten(2), b.wo_DD);
  }

  [[nodiscard]] Tensor feed_forward(const Block& b, const Tensor& x_BTD) const {
    return torch::linear(torch::silu(torch::linear(x_BTD, b.w1_FD)) * torch::linear(x_BTD, b.w3_FD), b.w2_DF);
  }

  // Maps characters [B, T] to logits [B, T, V].
  [[nodiscard]] Tensor forward(const Tensor& tokens_BT) const {
    Tensor x_BTD = torch::embedding(embedding_VD, tokens_BT);
    for (const Block& b : blocks) {
      x_BTD = x_BTD + attention(b, rms_norm(x_BTD, b.attention_norm_D, c.norm_eps));
      x_BTD = x_BTD + feed_forward(b, rms_norm(x_BTD, b.ffn_norm_D, c.norm_eps));
    }
    return torch::linear(rms_norm(x_BTD, norm_D, c.norm_eps), embedding_VD);
  }

  // Returns the mean of -ln p(target).
  [[nodiscard]] Tensor loss(const Batch& batch) const {
    return -forward(batch.inputs_BT).log_softmax(-1).gather(-1, batch.targets_BT.unsqueeze(-1)).mean();
  }
};

// Returns the learning rate of a step: rises linearly during warm-up, then falls along half a cosine.
double learning_rate(const Config& c, double step) {
  if (step < c.warmup) return c.rate * (step + 1.0) / c.warmup;
  const double done = (step - c.warmup) / (static_cast<double>(c.steps) - c.warmup);
  return c.last_rate + (c.rate - c.last_rate) * (1.0 + std::cos(std::numbers::pi * done)) / 2.0;
}

// Scales the gradients so that their global norm, over all parameters, is at most c.clip.
void clip(const std::vector<Tensor>& parameters, const Config& c) {
  double squares = 0.0;
  for (const Tensor& p : parameters) squares += p.grad().square().sum().item<double>();
  const double scale = std::min(1.0, c.clip / (std::sqrt(squares) + 1e-6));
  for (const Tensor& p : parameters) p.mutable_grad().mul_(scale);
}

// The optimizer AdamW: subtracts the running mean of the gradient, divided elementwise by the root of the running mean
// of its square, times the learning rate.
struct AdamW {
  std::vector<Tensor> mean{}, square{};  // running means of the gradients and of their squares

  void step(const std::vector<Tensor>& parameters, const Config& c, int64_t step) {
    const torch::NoGradGuard no_grad;
    const double rate = learning_rate(c, static_cast<double>(step)), n = static_cast<double>(step + 1);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor &p = parameters[i], &g = p.grad();
      if (mean.size() == i) mean.push_back(torch::zeros_like(p)), square.push_back(torch::zeros_like(p));
      mean[i].mul_(c.beta1).add_(g, 1.0 - c.beta1);
      square[i].mul_(c.beta2).add_(g.square(), 1.0 - c.beta2);
      if (p.dim() == 2) p.mul_(1.0 - rate * c.decay);  // weight decay, for matrices only
      const Tensor typical = (square[i] / (1.0 - std::pow(c.beta2, n))).sqrt() + c.adam_eps;
      p.sub_(mean[i] / (1.0 - std::pow(c.beta1, n)) / typical, rate);
    }
  }
};

void train(Llama& model, const std::vector<int64_t>& tokens, const std::function<void(int64_t, double)>& report_loss) {
  const std::vector<Tensor> parameters = model.parameters();
  AdamW adamw;
  for (int64_t step = 0; step < model.c.steps; ++step) {
    for (const Tensor& p : parameters) p.mutable_grad() = torch::zeros_like(p);
    const Tensor loss = model.loss(random_batch(tokens, model.c, step));
    loss.backward();
    clip(parameters, model.c);
    adamw.step(parameters, model.c, step);
    report_loss(step, loss.item<double>());
  }
}

// Returns the mean loss over consecutive windows of a text, computed one window at a time.
double validation_loss(const Llama& model, const std::vector<int64_t>& tokens) {
  const torch::NoGradGuard no_grad;
  double sum = 0.0, windows = 0.0;
  for (size_t start = 0; start + model.c.T < tokens.size(); start += model.c.T, ++windows)
    sum += model.loss(window(tokens, {start}, model.c.T)).item<double>();
  return sum / windows;
}

std::string write(const Llama& model, const Text& text, std::string written, int64_t n) {
  const torch::NoGradGuard no_grad;
  for (int64_t i = 0; i < n; ++i) {
    const std::string seen = written.substr(std::max<int64_t>(0, std::ssize(written) - model.c.T));
    const Tensor logits_V = model.forward(torch::tensor(text.encode(seen)).unsqueeze(0))[0][-1];
    written += text.characters[torch::multinomial(logits_V.softmax(-1), 1).item<int64_t>()];
  }
  return written;
}

}  // namespace whole

int main(int argc, char** argv) try {
  const whole::Text text(folio::data::load_corpus("tinyshakespeare").text);
  whole::Config c{.V = static_cast<int64_t>(text.characters.size())};
  if (argc > 1) c.steps = std::atol(argv[1]);
  if (argc > 2) c.seed = std::strtoull(argv[2], nullptr, 10);
  const auto has_digits = [](std::string text) { return text.find_first_not_of("0123456789") == std::string::npos; };
  if (argc > 3 || c.steps < 1 || !std::all_of(argv + 1, argv + argc, has_digits))
    return std::fputs("usage: the_whole_llama [STEPS [SEED]], whole numbers, STEPS at least 1\n", stderr), 2;
  whole::Llama model(c);
  whole::train(model, text.train, [&](int64_t step, double loss) {
    if (step % 100 == 0) std::printf("step %ld, loss %.3f\n", static_cast<long>(step), loss);
  });
  std::printf("validation loss %.3f\n\n", whole::validation_loss(model, text.validation));
  return std::puts(whole::write(model, text, "ROMEO:", 400).c_str()) < 0 ? 1 : 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "the_whole_llama: %s\n", error.what());
  return 1;
}
