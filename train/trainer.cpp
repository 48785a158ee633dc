#include "train/trainer.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/_foreach_norm.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "train/schedule.h"
#include "train/weights.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::fail;
using core::require;

torch::Device device_of(const TrainConfig& config) {
  if (config.device == "cpu") return torch::kCPU;
  if (!torch::cuda::is_available()) {
    throw core::UsageError("--device cuda: this LibTorch sees no CUDA device; take --device cpu");
  }
  return torch::kCUDA;
}

TrainConfig completed(TrainConfig config, const Dataset& dataset) {
  config.model.vocab_size = dataset.tokenizer().vocab_size();
  validate(config);
  return config;
}

// Matrix products in bfloat16 while it lives, if it is switched on.
class Autocast {
 public:
  Autocast(bool on, torch::Device device) : on_(on), type_(device.type()) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
    at::autocast::set_autocast_enabled(type_, true);
  }
  ~Autocast() {
    if (!on_) return;
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  at::DeviceType type_;
};

// Scales all gradients so that their common norm is at most `limit` (0: only measures). Returns the norm before.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double limit) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& p : parameters) gradients.push_back(p.grad());
  const double norm = torch::stack(at::_foreach_norm(gradients)).norm().item<double>();
  if (limit > 0.0 && norm > limit) at::_foreach_mul_(gradients, limit / (norm + 1e-6));
  return norm;
}

}  // namespace

Dataset::Dataset(data::Corpus corpus, const TrainConfig& config)
    : name_(corpus.name),
      path_(std::filesystem::absolute(corpus.path).string()),
      digest_(corpus_digest(corpus.text)),
      tokenizer_(data::CharTokenizer::from_text(corpus.text, corpus.path.string())),
      tokens_(tokenizer_.encode(corpus.text)),
      splits_(data::split_tokens(tokens_, config.validation_fraction, config.test_fraction)) {
  // Before anything is built: a context that a split can't hold is the user's to mend.
  static_cast<void>(data::consecutive_windows(splits_.train, config.window));
  static_cast<void>(data::consecutive_windows(splits_.validation, config.window));
}

Trainer::Trainer(TrainConfig config, const Dataset& dataset)
    : dataset_(dataset),
      state_{.config = completed(std::move(config), dataset),
             .corpus = dataset.name(),
             .corpus_path = dataset.path(),
             .corpus_digest = dataset.digest()},
      device_(device_of(state_.config)),
      sampler_(dataset.splits().train, state_.config.batch_size, state_.config.window, state_.config.seed) {
  torch::manual_seed(state_.config.seed);
  model_ = nn::Llama(state_.config.model, state_.config.dropout);
  model_->to(device_);
  model_->train();
  optimizer_ = std::make_unique<AdamW>(*model_, state_.config);
}

void Trainer::resume(const fs::path& checkpoint) {
  const TrainerState saved = read_trainer_state(checkpoint);
  require(saved.corpus_digest == dataset_.digest(),
          "{}: the checkpoint was trained on another text than {} is now (digest {} -> {}); restore the text, or start "
          "anew with --force",
          checkpoint.string(), dataset_.name(), saved.corpus_digest, dataset_.digest());
  require(data::CharTokenizer::read_hf(checkpoint).characters() == dataset_.tokenizer().characters(),
          "{}: the checkpoint has another vocabulary than the text {}", checkpoint.string(), dataset_.name());
  const std::string difference = describe_difference(saved.config, state_.config);
  require(difference.empty(),
          "{}: the checkpoint was trained with other values: {}; leave them out to go on, or start "
          "anew with --force",
          checkpoint.string(), difference);
  const TrainConfig config = state_.config;
  state_ = saved;
  state_.config = config;
  load_checkpoint(checkpoint, model_, *optimizer_, state_);
}

void Trainer::init_from(const fs::path& directory) { load_weights(core::read_hf_directory(directory), model_); }

int64_t Trainer::tokens_per_step() const { return config().batch_size * config().window * config().accumulation; }

StepResult Trainer::step() {
  const TrainConfig& c = config();
  double loss = 0.0;
  model_->zero_grad();
  for (int64_t part = 0; part < c.accumulation; ++part) {
    const auto number = static_cast<uint64_t>(state_.step * c.accumulation + part);
    const TensorBatch batch = to_tensors(sampler_.batch(number), device_);
    torch::Tensor part_loss;
    {
      const Autocast autocast(c.dtype == "bf16", device_);
      part_loss = model_->loss(batch.inputs_BT, batch.targets_BT);
    }
    if (c.accumulation > 1) part_loss = part_loss / static_cast<double>(c.accumulation);
    part_loss.backward();
    loss += part_loss.item<double>();
  }
  require(std::isfinite(loss), "the loss is {} at step {}; lower --lr or clip gradients with --clip", loss,
          state_.step + 1);
  const double grad_norm = clip_gradients(model_->parameters(), c.clip);
  require(std::isfinite(grad_norm), "the gradient's norm is {} at step {}; lower --lr", grad_norm, state_.step + 1);
  optimizer_->step(learning_rate(c, state_.step));
  ++state_.step;
  return {.loss = loss, .grad_norm = grad_norm};
}

Trainer::Evaluation Trainer::evaluate() {
  const TrainConfig& c = config();
  const data::Splits& splits = dataset_.splits();
  if (c.eval_batches == 0) return {.train = {}, .validation = split_loss(model_, splits.validation, c.window, device_)};
  // Seeds of their own, and batches numbered by the step, so that evaluations leave training's batches alone.
  const auto first = static_cast<uint64_t>(state_.step) * static_cast<uint64_t>(c.eval_batches);
  const data::BatchSampler train(splits.train, c.batch_size, c.window, c.seed + 1);
  const data::BatchSampler validation(splits.validation, c.batch_size, c.window, c.seed + 2);
  return {.train = random_batches_loss(model_, train, c.eval_batches, first, device_),
          .validation = random_batches_loss(model_, validation, c.eval_batches, first, device_)};
}

void Trainer::save(const fs::path& run) { save_checkpoint(run, model_, *optimizer_, state_, dataset_.tokenizer()); }

void Trainer::set_total_steps(int64_t steps) { state_.config.steps = std::max(steps, state_.step); }

bool Trainer::note_validation_loss(double loss) {
  if (std::isnan(loss) || (state_.best_step >= 0 && loss >= state_.best_validation_loss)) return false;
  state_.best_validation_loss = loss;
  state_.best_step = state_.step;
  return true;
}

}  // namespace folio::train
