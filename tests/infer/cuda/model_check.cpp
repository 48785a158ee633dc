#include "tests/infer/cuda/model_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>

#include "core/error.h"
#include "core/random.h"
#include "infer/cpu/cpu.h"
#include "infer/forward/pass_through.h"
#include "infer/forward/runner.h"

namespace folio::infer::test {
namespace {

constexpr double kDelta = 1e-3;

// Upper bounds on the relative rounding errors of a GPU's products. product_test.cpp, row_kernels_test.cpp and
// attention_test.cpp test that the kernels don't exceed them.
constexpr double kF16 = 0x1p-11;
constexpr double kThreeParts = 3 * 0x1p-20;  // F32 split into two TF32: errors of both factors and the product

// Bounds the relative error of a sum of k products, whose inputs are rounded as for weights of `type`.
double error_of_product(core::DType type, size_t k) {
  const auto n = static_cast<double>(k);
  switch (type) {
    case core::DType::F32:
      return kThreeParts + (3 * n / 8 + 12) * 0x1p-23;
    case core::DType::F16:
      return kF16 + (n / 16 + 12) * 0x1p-23;
    case core::DType::BF16:
      return 0x1p-8 + (n / 16 + 12) * 0x1p-23;
    default:  // quantized inputs are equal on CPU and GPU, so only sums are rounded
      return (2 * n / 16 + 12) * 0x1p-23;
  }
}
// Returns a bound on the relative error of a norm, whose output is the input of most products.
double error_of_norm(int64_t dim) { return (static_cast<double>(dim) / 2 + 8) * 0x1p-24; }
double rounding_in_attention(CacheType type) { return type == CacheType::F16 ? kF16 : kThreeParts; }

// A stage that changes each input of a product by a random fraction of the product's maximum rounding error.
class PerturbedStage final : public PassThroughStage {
 public:
  PerturbedStage(std::unique_ptr<Stage> inner, const core::StoredModel& model, CacheType cache_type, uint64_t seed)
      : PassThroughStage(std::move(inner)), config_(model.config), seed_(seed) {
    const auto manifest = core::tensor_manifest(config_);
    const auto output = config_.tie_embeddings ? core::Role::TokenEmbedding : core::Role::Output;
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (manifest[i].role == core::Role::Wo) type_ = model.tensors[i].type;
      if (manifest[i].role == core::Role::WkB) type_of_heads_ = model.tensors[i].type;
      if (manifest[i].role == core::Role::Router) router_type_ = model.tensors[i].type;
      if (manifest[i].role == core::Role::ExpertW1) expert_type_ = model.tensors[i].type;
      if (manifest[i].role == output) output_type_ = model.tensors[i].type;
    }
    attention_ = rounding_in_attention(cache_type);
  }

  bool begin(const Step& step) override {
    n_rows_ = step.rows.size();
    n_logit_rows_ = step.n_logit_rows;
    n_positions_ = 0;
    for (const StepRow& row : step.rows) n_positions_ = std::max(n_positions_, row.position + 1);
    return PassThroughStage::begin(step);
  }
  // In a layer with experts, several products read Slot::Normed and round it separately, so restore it after each.
  void issue(const Operation& operation) override {
    const bool of_experts = std::holds_alternative<Route>(operation) ||
                            std::holds_alternative<ProjectExperts>(operation) ||
                            std::holds_alternative<GateRows>(operation);
    std::vector<float> before(of_experts ? n_rows_ * width(Slot::Normed) : 0);
    read(Slot::Normed, before);
    std::visit([this](const auto& o) { perturb_inputs(o); }, operation);
    PassThroughStage::issue(operation);
    write(Slot::Normed, before);
    if (std::holds_alternative<Gather>(operation)) n_rows_ = n_logit_rows_;
  }

 private:
  template <typename Other>
  void perturb_inputs(const Other& /*o*/) {}
  void perturb_inputs(const Project& o) {
    perturb_input(o.in, o.projections().front().out == Slot::Logits ? output_type_ : type_);
  }
  void perturb_inputs(const ProjectToResidual& o) { perturb_input(o.in, type_); }
  void perturb_inputs(const Route& /*o*/) { perturb_input(Slot::Normed, router_type_); }
  void perturb_inputs(const ProjectExperts& /*o*/) { perturb_input(Slot::Normed, expert_type_); }
  void perturb_inputs(const CombineExperts& /*o*/) {
    const size_t k = width(Slot::ExpertGate) / static_cast<size_t>(config_.experts_per_token);
    perturb(Slot::ExpertGate, error_of_product(expert_type_, k) + error_of_norm(config_.dim));
  }
  void perturb_inputs(const GateRows& /*o*/) { perturb_input(Slot::Normed, core::DType::F32); }
  // If the input is Query, this also perturbs the RoPE elements, which ProjectHeads only copies.
  void perturb_inputs(const ProjectHeads& o) {
    const size_t k = width(o.in) / static_cast<size_t>(config_.n_heads);
    perturb(o.in, error_of_product(type_of_heads_, k) + error_of_norm(config_.dim));
  }
  // Rounding a probability has the same effect as rounding the value that it weights, so perturb the value. A latent is
  // also the key, so this also perturbs the scores, which Attend perturbs again.
  void perturb_inputs(const RotateAndStore& /*o*/) {
    perturb(config_.latent() ? Slot::Latent : Slot::Value,
            attention_ + (static_cast<double>(n_positions_) + 64.0) * 0x1p-22);
  }
  void perturb_inputs(const Attend& /*o*/) {
    const int64_t k = config_.latent() ? config_.latent_dim() : config_.head_dim;
    perturb(config_.latent() ? Slot::Absorbed : Slot::Query, attention_ + (static_cast<double>(k) + 8.0) * 0x1p-23);
  }

  void perturb_input(Slot in, core::DType type) {
    perturb(in, error_of_product(type, width(in)) + error_of_norm(config_.dim));
  }
  void perturb(Slot slot, double error) {
    values_.resize(n_rows_ * width(slot));
    read(slot, values_);
    for (float& x : values_) {
      const double r = 2.0 * core::random_uniform(seed_, counter_++) - 1.0;
      x = static_cast<float>(static_cast<double>(x) * (1.0 + error * r));
    }
    write(slot, values_);
  }

  const core::ModelConfig& config_;
  uint64_t seed_;
  uint64_t counter_ = 0;
  core::DType type_ = core::DType::F32;  ///< type of the layers' matrices
  core::DType type_of_heads_ = core::DType::F32;
  core::DType router_type_ = core::DType::F32;
  core::DType expert_type_ = core::DType::F32;
  core::DType output_type_ = core::DType::F32;
  double attention_ = 0.0;
  size_t n_rows_ = 0;
  size_t n_logit_rows_ = 0;
  int64_t n_positions_ = 0;
  std::vector<float> values_;
};

class PerturbedCpu final : public Machine {
 public:
  PerturbedCpu(size_t n_threads, uint64_t seed) : cpu_({.n_threads = n_threads}), seed_(seed) {}
  [[nodiscard]] std::string describe() const override { return cpu_.describe(); }
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override {
    return std::make_unique<PerturbedStage>(cpu_.load(model, shard, cache_type), model, cache_type, seed_);
  }

 private:
  Cpu cpu_;
  uint64_t seed_;
};

using OnLogits = std::function<void(size_t position, std::span<const float> logits)>;

// Runs a model on one sequence, in one or more calls.
class Reader {
 public:
  Reader(const core::StoredModel& model, Machine& machine, size_t n_positions, CacheType cache_type)
      : runner_(model, machine,
                {.max_positions = static_cast<int64_t>(n_positions), .n_sequences = 1, .type = cache_type}),
        sequence_(runner_.cache().add_sequence()) {}

  /// Runs the tokens in as few steps as possible, and passes each position's logits to `on_logits`.
  void read(std::span<const int32_t> tokens, const OnLogits& on_logits) {
    while (!tokens.empty()) {
      const auto some = tokens.first(std::min(tokens.size(), runner_.max_rows()));
      std::vector<Row> rows;
      for (const int32_t token : some) {
        rows.push_back({.token = token, .sequence = sequence_, .position = static_cast<int64_t>(next_ + rows.size())});
      }
      const auto logits = runner_.forward(rows).logits;
      const size_t vocab_size = logits.size() / some.size();
      for (size_t i = 0; i < some.size(); ++i) on_logits(next_ + i, logits.subspan(i * vocab_size, vocab_size));
      next_ += some.size();
      tokens = tokens.subspan(some.size());
    }
  }

 private:
  Runner runner_;
  SequenceId sequence_;
  size_t next_ = 0;
};

// The prompt, the tokens that the CPU drew after it, and the logits at each position.
struct Text {
  std::vector<int32_t> tokens;
  std::vector<std::vector<float>> logits;
};

Text written_by_cpu(const core::StoredModel& model, std::span<const int32_t> prompt, const CheckOptions& o) {
  Cpu cpu({.n_threads = o.n_threads});
  Reader reader(model, cpu, prompt.size() + o.n_drawn, o.cache_type);
  Sampler sampler({.seed = 1}, {});
  Text text{.tokens = {prompt.begin(), prompt.end()}, .logits = {}};
  const auto keep = [&](size_t, std::span<const float> logits) {
    text.logits.emplace_back(logits.begin(), logits.end());
  };
  reader.read(prompt, keep);
  for (size_t i = 0; i < o.n_drawn; ++i) {
    std::vector<float> scratch = text.logits.back();
    text.tokens.push_back(sampler.sample(scratch, text.tokens, static_cast<int64_t>(text.tokens.size())));
    reader.read(std::span(text.tokens).last(1), keep);
  }
  return text;
}

size_t likeliest(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Bounds on the differences between logits that rounding errors can cause, estimated with perturbed runs on the CPU.
//
// A position's bound is σ sqrt(6 ln(2 V N / δ)). By Hoeffding's inequality, all V logits at N positions are within it
// with probability 1 - δ = 0.999, if rounding errors are independent with mean zero. σ² is the position's mean squared
// deviation in runs that change each rounded value by a random fraction of its maximum rounding error, times a factor
// for the most sensitive token: its squared deviation relative to this mean, averaged over the positions. Positions
// where the GPU selects other experts than the CPU may exceed the bound.
struct Sensitivity {
  std::vector<double> bounds;  ///< (positions)
  double n_other = 0.0;        ///< mean number of positions whose likeliest token changes in a perturbed run
};

Sensitivity sensitivity_of(const core::StoredModel& model, const Text& text, const CheckOptions& o) {
  const size_t n = text.tokens.size();
  const auto vocab_size = static_cast<size_t>(model.config.vocab_size);
  const auto n_runs = static_cast<double>(o.n_runs);
  Sensitivity result;
  std::vector<std::vector<float>> squares(n, std::vector<float>(vocab_size));  // mean squares of the deviations
  for (size_t run = 0; run < o.n_runs; ++run) {
    PerturbedCpu cpu(o.n_threads, run + 1);
    Reader(model, cpu, n, o.cache_type).read(text.tokens, [&](size_t position, std::span<const float> logits) {
      const auto& expected = text.logits[position];
      for (size_t j = 0; j < vocab_size; ++j) {
        const float deviation = logits[j] - expected[j];
        squares[position][j] += deviation * deviation / static_cast<float>(n_runs);
      }
      if (likeliest(logits) != likeliest(expected)) result.n_other += 1.0 / n_runs;
    });
  }
  std::vector<double> of_position(n);
  std::vector<double> of_token(vocab_size);
  for (size_t p = 0; p < n; ++p) {
    for (const float square : squares[p])
      of_position[p] += static_cast<double>(square) / static_cast<double>(vocab_size);
    core::require(of_position[p] > 0.0, "position {} of the perturbed runs deviates by nothing", p);
    for (size_t j = 0; j < vocab_size; ++j) {
      of_token[j] += static_cast<double>(squares[p][j]) / of_position[p] / static_cast<double>(n);
    }
  }
  const double largest = *std::max_element(of_token.begin(), of_token.end());
  const double factor = 6.0 * std::log(2.0 * static_cast<double>(vocab_size) * static_cast<double>(n) / kDelta);
  for (const double variance : of_position) result.bounds.push_back(std::sqrt(factor * variance * largest));
  return result;
}

}  // namespace

bool CheckResult::holds() const {
  const double allowed =
      std::max(static_cast<double>(n_positions) / 100.0, n_other_of_cpu + 3 * std::sqrt(n_other_of_cpu));
  return n_outside == 0 && n_wrong == 0 && static_cast<double>(n_other) <= allowed;
}

std::string CheckResult::to_string() const {
  const auto share = [&](double n) { return 100.0 * n / static_cast<double>(n_positions); };
  return fmt::format(
      "{} positions: logits differ by up to {:.2e}, bounds are around {:.2e}, at most {:.0f}% of one is reached, {} "
      "positions are beyond; the likeliest token is another at {:.2f}% (of the CPU against itself: {:.2f}%), at {} "
      "positions wrongly; the two best are closer than twice the bound at {:.1f}%",
      n_positions, largest_difference, median_bound, 100.0 * largest_share, n_outside,
      share(static_cast<double>(n_other + n_wrong)), share(n_other_of_cpu), n_wrong,
      share(static_cast<double>(n_close)));
}

CheckResult check_model(const core::StoredModel& model, Machine& machine, std::span<const int32_t> prompt,
                        const CheckOptions& options) {
  const Text text = written_by_cpu(model, prompt, options);
  Sensitivity sensitivity = sensitivity_of(model, text, options);
  std::vector<double>& bounds = sensitivity.bounds;
  CheckResult result{.n_positions = text.tokens.size(), .n_other_of_cpu = sensitivity.n_other};
  const auto compare = [&](size_t p, std::span<const float> got) {
    std::vector<float> sorted = text.logits[p];
    const size_t best = likeliest(sorted);
    double difference = 0.0;
    for (size_t j = 0; j < got.size(); ++j) {
      core::require(std::isfinite(got[j]), "the logit of token {} at position {} is not finite", j, p);
      difference = std::max(difference, std::abs(static_cast<double>(got[j]) - sorted[j]));
    }
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater<>());
    const bool close = static_cast<double>(sorted[0]) - sorted[1] <= 2.0 * bounds[p];
    const bool other = likeliest(got) != best;
    result.largest_difference = std::max(result.largest_difference, difference);
    result.largest_share = std::max(result.largest_share, difference / bounds[p]);
    result.n_outside += difference > bounds[p] ? 1 : 0;
    result.n_close += close ? 1 : 0;
    result.n_other += close && other ? 1 : 0;
    result.n_wrong += !close && other ? 1 : 0;
  };
  Reader reader(model, machine, text.tokens.size(), options.cache_type);
  reader.read(std::span(text.tokens).first(prompt.size()), compare);
  for (size_t i = prompt.size(); i < text.tokens.size(); ++i) {
    reader.read(std::span(text.tokens).subspan(i, 1), compare);
  }
  std::nth_element(bounds.begin(), bounds.begin() + static_cast<std::ptrdiff_t>(bounds.size() / 2), bounds.end());
  result.median_bound = bounds[bounds.size() / 2];
  return result;
}

}  // namespace folio::infer::test
