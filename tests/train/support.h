// Helpers for the trainer's tests: a generated text, a model of a few thousand parameters, a trainer, a saved run.
#pragma once

#include <filesystem>
#include <mutex>

#include "core/random.h"
#include "tests/core/support.h"
#include "train/run/trainer.h"

namespace folio::train::test {

using core::test::contains;
using core::test::error_of;
using core::test::expect_error;
using core::test::names_in;
using core::test::read_bytes;
using core::test::TempDir;
using core::test::write_bytes;

/// Returns `words` words in an order that depends only on `seed`.
inline std::string small_text(int words, uint64_t seed = 7) {
  static const char* const kWords[] = {"the",  "night",   "is", "long,", "and",  "no",
                                       "moon", "shines:", "O",  "who",   "goes", "there?"};
  std::string text;
  for (int i = 0; i < words; ++i) {
    text += kWords[core::random_below(seed, static_cast<uint64_t>(i), std::size(kWords))];
    text += i % 7 == 6 ? '\n' : ' ';
  }
  return text;
}

inline std::string digest_of(const std::string& text) {
  data::Digest digest;
  digest.add(text);
  return digest.hex();
}

inline TextDataset dataset_of(const std::string& text, const TrainConfig& config) {
  static const TempDir folder;  // one for all calls, so that runs have the same text path
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  write_bytes(folder / "small.txt", text);
  const data::TextFiles texts = data::find_texts({(folder / "small.txt").string()});
  return TextDataset(texts, data::summarize(texts.documents), config);
}

/// Returns a small configuration that differs from the default: grouped queries, untied head, dropout, accumulation.
inline TrainConfig small_config() {
  TrainConfig c;
  c.model = {.dim = 32,
             .n_layers = 2,
             .n_heads = 4,
             .n_kv_heads = 2,
             .hidden_dim = 48,
             .context_length = 24,
             .rope_theta = 500.0F,
             .norm_eps = 1e-6F,
             .tie_embeddings = false};
  c.steps = 12;
  c.batch_size = 4;
  c.window = 16;
  c.accumulation = 2;
  c.dropout = 0.1;
  c.seed = 11;
  c.lr = 1e-2;
  c.min_lr = 1e-3;
  c.warmup_steps = 3;
  c.schedule = ScheduleKind::Cosine;
  c.beta1 = 0.9;
  c.beta2 = 0.99;
  c.adam_eps = 1e-8;
  c.weight_decay = 0.1;
  c.clip = 0.5;
  c.validation_fraction = 0.1;
  c.eval_every = 5;
  c.checkpoint_every = 4;
  c.log_every = 1;
  return c;
}

/// A trainer and its dataset.
struct Small {
  explicit Small(const TrainConfig& config = small_config(), const std::string& text = small_text(600))
      : dataset(dataset_of(text, config)), trainer(config, dataset) {}
  TextDataset dataset;
  Trainer trainer;
};

/// A trainer and its run directory, saved after one step.
struct Saved : Small {
  explicit Saved(const TrainConfig& config = small_config()) : Small(config) {
    trainer.step();
    trainer.save(run.path());
  }
  [[nodiscard]] std::filesystem::path last() const { return run / "checkpoints/last"; }
  TempDir run;
};

inline std::vector<torch::Tensor> copies(const nn::Llama& model) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& p : model->parameters()) all.push_back(p.detach().clone());
  return all;
}

/// Returns true if all tensors have equal shapes and values.
inline bool same_bits(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!torch::equal(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace folio::train::test
