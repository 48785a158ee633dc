#include "experiments/10_optimizers/gradient_sizes.h"

#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <numeric>

#include "experiments/common/training.h"
#include "train/step/adamw.h"

namespace folio::experiments {
namespace {

constexpr int64_t kRows = 10;  // number of rarest and of most frequent characters

// Returns the characters' ids, rarest first.
std::vector<int64_t> by_frequency(const Shakespeare& text) {
  std::vector<int64_t> count(static_cast<size_t>(text.vocab_size)), ids(count.size());
  for (const int32_t token : text.splits.train) ++count[static_cast<size_t>(token)];
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, {}, [&](int64_t id) { return count[static_cast<size_t>(id)]; });
  return ids;
}

}  // namespace

void GradientSize::add(const torch::Tensor& gradient_RD) {
  squares += gradient_RD.square().sum().item<double>();
  elements += static_cast<double>(gradient_RD.numel());
  rows += static_cast<double>(gradient_RD.size(0));
  rows_of_zeros += (gradient_RD.abs().amax(-1) == 0.0).sum().item<double>();
}

std::vector<GradientSize> gradient_sizes(const Shakespeare& text, const train::TrainConfig& setting) {
  const std::vector<int64_t> ids = by_frequency(text);
  const torch::Tensor rarest = torch::tensor(std::vector(ids.begin(), ids.begin() + kRows));
  const torch::Tensor commonest = torch::tensor(std::vector(ids.end() - kRows, ids.end()));
  std::vector<GradientSize> sizes;
  for (const bool tied : {true, false}) {
    const std::string of = tied ? "tied embedding, " : "untied embedding, ";
    std::vector<GradientSize> sums{{of + "ten rarest characters"}, {of + "ten commonest"}};
    const size_t embeddings = sums.size();
    if (tied) {
      for (const char* matrix :
           {"attention.wq", "attention.wk", "attention.wv", "attention.wo", "ffn.w1", "ffn.w3", "ffn.w2"}) {
        sums.push_back({matrix});
      }
    }
    train::TrainConfig config = setting;
    config.model.tie_embeddings = tied;
    nn::Llama model = seeded_llama(config.model, config.seed);
    train::AdamW adamw(*model, config);
    static_cast<void>(train_model(model, text, config, [&](double lr) {
      for (const auto& p : model->named_parameters()) {
        const torch::Tensor gradient = p.value().grad();
        if (p.key() == "tok_embeddings.weight") {
          sums[0].add(gradient.index_select(0, rarest));
          sums[1].add(gradient.index_select(0, commonest));
        }
        for (size_t i = embeddings; i < sums.size(); ++i) {
          if (p.key().ends_with(sums[i].name + ".weight")) sums[i].add(gradient);
        }
      }
      adamw.step(lr);
    }));
    sizes.insert(sizes.end(), sums.begin(), sums.end());
  }
  return sizes;
}

}  // namespace folio::experiments
