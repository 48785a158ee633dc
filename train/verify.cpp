#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.h"
#include "data/batches.h"

namespace folio::train {
namespace {

// A sequence of the engine's cache for the length of a scope.
class ScopedSequence {
 public:
  explicit ScopedSequence(infer::KvCache& cache) : cache_(cache), id_(cache.add_sequence()) {}
  ~ScopedSequence() { cache_.release(id_); }
  ScopedSequence(const ScopedSequence&) = delete;
  ScopedSequence& operator=(const ScopedSequence&) = delete;
  [[nodiscard]] infer::SequenceId id() const { return id_; }

 private:
  infer::KvCache& cache_;
  infer::SequenceId id_;
};

std::vector<infer::Row> rows_of(std::span<const int32_t> tokens, infer::SequenceId sequence) {
  std::vector<infer::Row> rows;
  for (size_t i = 0; i < tokens.size(); ++i) rows.push_back({tokens[i], sequence, static_cast<int64_t>(i), true});
  return rows;
}

torch::Tensor to_tensor(std::span<const int32_t> tokens) {
  return torch::tensor(std::vector<int64_t>(tokens.begin(), tokens.end())).unsqueeze(0);
}

Divergence furthest(const std::string& name, const torch::Tensor& expected, std::span<const float> actual) {
  const int64_t width = expected.size(-1);
  const float* e = expected.data_ptr<float>();
  Divergence d{.name = name, .relative_error = 0, .position = 0, .index = 0, .libtorch = e[0], .engine = actual[0]};
  double squares = 0.0;
  double largest = -1.0;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    squares += static_cast<double>(e[i]) * e[i];
    double gap = std::abs(static_cast<double>(actual[static_cast<size_t>(i)]) - e[i]);
    if (std::isnan(gap)) gap = std::numeric_limits<double>::infinity();
    if (gap <= largest) continue;
    largest = gap;
    d.position = i / width;
    d.index = i % width;
    d.libtorch = e[i];
    d.engine = actual[static_cast<size_t>(i)];
  }
  d.relative_error = largest / (std::sqrt(squares / static_cast<double>(expected.numel())) + 1e-30);
  return d;
}

}  // namespace

std::vector<Divergence> compare_forward(nn::Llama& reference, infer::Engine& engine, std::span<const int32_t> tokens) {
  const torch::NoGradGuard no_grad;
  reference->eval();
  std::map<std::string, torch::Tensor> seen;
  reference->forward(to_tensor(tokens), [&](const std::string& name, const torch::Tensor& value) {
    seen[name] = value.detach().to(torch::kFloat32).contiguous().clone();
  });

  std::vector<std::string> order;
  std::map<std::string, std::vector<float>> values;
  const ScopedSequence sequence(engine.cache());
  std::vector<float> logits(tokens.size() * static_cast<size_t>(engine.model().config().vocab_size));
  engine.forward(rows_of(tokens, sequence.id()), logits,
                 [&](const std::string& name, std::span<const float> part, size_t) {
                   if (!values.contains(name)) order.push_back(name);
                   values[name].insert(values[name].end(), part.begin(), part.end());
                 });

  std::vector<Divergence> divergences;
  for (const std::string& name : order) {
    const auto expected = seen.find(name);
    if (expected == seen.end()) continue;  // each side also shows places that the other folds away
    core::require(expected->second.numel() == static_cast<int64_t>(values[name].size()),
                  "{} has {} numbers in LibTorch and {} in the engine", name, expected->second.numel(),
                  values[name].size());
    divergences.push_back(furthest(name, expected->second, values[name]));
  }
  core::require(!divergences.empty() && divergences.back().name == "logits", "the two sides show no places in common");
  return divergences;
}

std::vector<int32_t> greedy_by_libtorch(nn::Llama& model, std::span<const int32_t> prompt, int64_t n,
                                        std::span<const int32_t> never) {
  const torch::NoGradGuard no_grad;
  model->eval();
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < n && static_cast<int64_t>(tokens.size()) < model->config().context_length; ++i) {
    torch::Tensor logits = model->forward(to_tensor(tokens)).select(1, -1).squeeze(0);
    for (const int32_t id : never) logits[id] = -std::numeric_limits<float>::infinity();
    tokens.push_back(static_cast<int32_t>(logits.argmax().item<int64_t>()));
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}

double split_loss_by_engine(infer::Engine& engine, std::span<const int32_t> split, int64_t window,
                            int64_t max_windows) {
  const int64_t windows = std::min(max_windows, data::consecutive_windows(split, window));
  const auto vocab = static_cast<size_t>(engine.model().config().vocab_size);
  std::vector<float> logits(static_cast<size_t>(window) * vocab);
  double sum = 0.0;
  for (int64_t w = 0; w < windows; ++w) {
    const data::Batch batch = data::consecutive_batch(split, w, 1, window);
    const ScopedSequence sequence(engine.cache());
    engine.forward(rows_of(batch.inputs, sequence.id()), logits);
    for (size_t t = 0; t < batch.targets.size(); ++t) {
      const auto row = std::span(logits).subspan(t * vocab, vocab);
      const double largest = *std::max_element(row.begin(), row.end());
      double total = 0.0;
      for (const float logit : row) total += std::exp(logit - largest);
      sum += std::log(total) + largest - row[static_cast<size_t>(batch.targets[t])];
    }
  }
  return sum / static_cast<double>(windows * window);
}

}  // namespace folio::train
