#include "train/step/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "core/formats/peft_adapter.h"
#include "data/tokenizers/tokenizer_files.h"
#include "modules/fused/block.h"
#include "train/report/matrix_peak.h"
#include "train/run/dump.h"
#include "train/run/sample.h"
#include "train/run/weights.h"
#include "train/step/autocast.h"
#include "train/step/balance.h"
#include "train/step/schedule.h"
#include "train/step/weight_average.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::fail;
using core::require;

// Of several ranks the first one measures, and tells: two measurements may come out differently.
Precision common_precision(torch::Device device, parallel::World* world) {
  if (world == nullptr) return faster_precision(device);
  torch::Tensor bf16 = torch::zeros({1});
  if (world->everyone().index() == 0) bf16.fill_(faster_precision(device) == Precision::Bf16 ? 1.0 : 0.0);
  world->everyone().broadcast(bf16, 0);
  return bf16.item<float>() > 0.0F ? Precision::Bf16 : Precision::F32;
}

TrainConfig completed(TrainConfig config, const Dataset& dataset, parallel::World* world,
                      const parallel::RankOptions& options) {
  config.model.vocab_size = dataset.tokenizer().vocab_size();
  validate(config);
  if (config.dtype == Precision::Auto) {
    config.dtype = common_precision(world == nullptr ? device_of(config) : options.device, world);
  }
  return config;
}

std::string quoted(const std::vector<std::string>& tokens) {
  constexpr size_t kShown = 10;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, tokens.size()); ++i)
    text += fmt::format(" \"{}\"", core::printable(tokens[i]));
  return text + (tokens.size() > kShown ? " …" : "");
}

std::vector<std::string> tokens_of(const data::Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) tokens.push_back(tokenizer.token_bytes(id));
  return tokens;
}

// The tokens that only one of them has, or the first id that differs; empty if none does.
std::string describe_difference(const data::Tokenizer& from, const data::Tokenizer& to) {
  if (from.kind() != to.kind()) return fmt::format("{} -> {} tokens", from.kind(), to.kind());
  const auto before = tokens_of(from);
  const auto after = tokens_of(to);
  if (before == after) return "";
  const auto missing = [](const std::vector<std::string>& all, const std::vector<std::string>& other) {
    const std::set<std::string> others(other.begin(), other.end());
    std::vector<std::string> rest;
    std::copy_if(all.begin(), all.end(), std::back_inserter(rest),
                 [&](const std::string& token) { return !others.contains(token); });
    return rest;
  };
  std::string difference = fmt::format("{} -> {} tokens", before.size(), after.size());
  const auto gone = missing(before, after);
  const auto come = missing(after, before);
  if (!gone.empty()) difference += ", without" + quoted(gone);
  if (!come.empty()) difference += ", with" + quoted(come);
  if (gone.empty() && come.empty() && before.size() == after.size()) {
    const auto at = std::mismatch(before.begin(), before.end(), after.begin());
    difference += fmt::format(", id {}{} ->{}", at.first - before.begin(), quoted({*at.first}), quoted({*at.second}));
  }
  return difference;
}

nn::Llama make_model(const TrainConfig& c, const std::shared_ptr<const nn::FrozenWeights>& frozen) {
  if (!c.fused) return nn::plain_llama(c.model, c.dropout, frozen);
  if (c.device != DeviceKind::Cpu || !nn::can_be_fused(c.model))
    return nn::Llama(c.model, c.dropout, nn::BlockFactory(), frozen);
  return nn::fused_llama(c.model, c.dropout, c.recompute, frozen);
}

std::shared_ptr<const nn::FrozenWeights> frozen_weights(const TrainConfig& c, const fs::path& base) {
  if (c.lora_rank == 0) return nullptr;
  auto frozen = std::make_shared<const nn::FrozenWeights>(core::read_model(base));
  const std::string difference = core::describe_difference(frozen->config(), c.model);
  require(difference.empty(), "{}: the run is of another model: {}", base.string(), difference);
  return frozen;
}

void write_gradients(const fs::path& path, const nn::Llama& model, const TrainerState& state) {
  if (state.config.lora_rank == 0) {
    core::write_hf_tensors(path, gradients_of(model));
    return;
  }
  core::make_folders(path);
  core::write_adapter(path, model->config(), adapter_gradients_of(model, lora_options(state.config)),
                      adapter_info(state));
}

std::vector<torch::Tensor> trained_gradients(const nn::Llama& model) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& p : model->parameters()) {
    if (p.requires_grad()) gradients.push_back(p.grad());
  }
  return gradients;
}

std::vector<size_t> digests_of_gradients(const nn::Llama& model) {
  std::vector<size_t> digests;
  for (const torch::Tensor& p : trained_gradients(model)) {
    const torch::Tensor gradient = p.contiguous();
    digests.push_back(std::hash<std::string_view>{}(
        {static_cast<const char*>(gradient.const_data_ptr()), static_cast<size_t>(gradient.nbytes())}));
  }
  return digests;
}

}  // namespace

torch::Device device_of(const TrainConfig& config, int64_t number) {
  if (config.device == DeviceKind::Cpu) return torch::kCPU;
  const auto n = static_cast<int64_t>(torch::cuda::device_count());
  require(n > 0, "--device cuda: this LibTorch sees no CUDA device; take --device cpu, or a LibTorch with CUDA");
  require(number < n, "--device cuda: there is no GPU for rank {} of this host, of {}; start as many ranks as GPUs",
          number, n);
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(number)};
}

Trainer::Trainer(TrainConfig config, const Dataset& dataset, const fs::path& base)
    : Trainer(std::move(config), dataset, base, nullptr, {}) {}

Trainer::Trainer(TrainConfig config, const Dataset& dataset, parallel::World& world,
                 const parallel::RankOptions& options)
    : Trainer(std::move(config), dataset, {}, &world, options) {}

Trainer::~Trainer() = default;

Trainer::Trainer(TrainConfig config, const Dataset& dataset, const fs::path& base, parallel::World* world,
                 const parallel::RankOptions& options)
    : dataset_(dataset),
      state_{.config = completed(std::move(config), dataset, world, options),
             .corpus = dataset.source().name,
             .corpus_path = dataset.source().path,
             .corpus_field = dataset.source().field,
             .corpus_bytes = dataset.source().bytes,
             .corpus_digest = dataset.source().digest,
             .corpus_eval = dataset.source().eval_path},
      device_(world == nullptr ? device_of(state_.config) : options.device),
      batches_(dataset.random_batches(Split::Train, state_.config, state_.config.seed)) {
  if (state_.config.ema > 0.0)
    average_ = nn::Llama(state_.config.model);  // before the seed, whose numbers the model takes
  frozen_ = frozen_weights(state_.config, base);
  if (frozen_) {
    state_.base = core::absolute_path(base).lexically_normal().string();
    state_.base_digest = model_digest(frozen_->model());
  }
  torch::manual_seed(state_.config.seed);
  model_ = make_model(state_.config, frozen_);
  if (frozen_) nn::add_lora(model_, lora_options(state_.config));
  if (world != nullptr) {
    // All ranks make the whole model with the same numbers, as one process does, and keep their part.
    const nn::Llama whole = std::exchange(model_, nn::Llama(nullptr));
    average_ = nn::Llama(nullptr);
    ranks_ = std::make_unique<parallel::RankTraining>(state_.config, *world, options);
    ranks_->load(whole, nn::Llama(nullptr));
    mixtures_ = ranks_->model().mixtures();
    optimizer_ = make_optimizer(ranks_->parameters(), state_.config);
    return;
  }
  model_->to(device_);
  model_->train();
  mixtures_ = nn::mixtures_of(*model_);
  if (!average_.is_empty()) {
    average_->to(device_);
    begin_average(average_, model_);
  }
  optimizer_ = make_optimizer(*model_, state_.config);
}

void Trainer::resume(const fs::path& checkpoint) {
  const TrainerState saved = read_trainer_state(checkpoint);
  const auto require_same = [&](const std::string& difference, const char* what, const char* remedy) {
    require(difference.empty(), "{}: the checkpoint was trained with {}: {}; {}, or start anew with --force",
            checkpoint.string(), what, difference, remedy);
  };
  require_same(describe_difference(*data::tokenizer_from_hf(checkpoint), dataset_.tokenizer()), "another vocabulary",
               "restore the text");
  require_same(
      saved.corpus_digest == dataset_.source().digest
          ? ""
          : fmt::format("{} ({} bytes, digest {}) -> {} ({} bytes, digest {})", saved.corpus_path, saved.corpus_bytes,
                        saved.corpus_digest, dataset_.source().path, dataset_.source().bytes, dataset_.source().digest),
      "another text", "restore the text");
  require_same(saved.base_digest == state_.base_digest
                   ? ""
                   : fmt::format("{} (digest {}) -> {} (digest {})", saved.base, saved.base_digest, state_.base,
                                 state_.base_digest),
               "another base model", "restore it");
  std::string difference = describe_difference(saved.config, state_.config);
  if (saved.minutes != state_.minutes) {
    difference += fmt::format("{}minutes {} -> {}", difference.empty() ? "" : ", ", saved.minutes, state_.minutes);
  }
  require_same(difference, "other values", "leave them out to go on");
  const TrainConfig config = state_.config;
  state_ = saved;
  state_.config = config;
  if (!ranks_) {
    load_checkpoint(checkpoint, model_, *optimizer_, state_, average_);
    return;
  }
  nn::Llama whole(state_.config.model);
  const nn::Llama average = state_.config.ema > 0.0 ? nn::Llama(state_.config.model) : nn::Llama(nullptr);
  load_checkpoint(
      checkpoint, whole, *optimizer_, state_, average,
      [this](const std::string& name, const torch::Tensor& moment) { return ranks_->part_of(name, moment); });
  ranks_->load(whole, average);
}

void Trainer::init_from(const fs::path& model) {
  if (ranks_) {
    nn::Llama whole(state_.config.model);
    load_weights(core::to_weights(core::read_model(model)), whole);
    ranks_->load(whole, nn::Llama(nullptr));
    return;
  }
  load_weights(core::to_weights(core::read_model(model)), model_);
  if (!average_.is_empty()) begin_average(average_, model_);
}

int64_t Trainer::tokens_per_step() const { return config().batch_size * config().window * config().accumulation; }

void Trainer::dump(const fs::path& batches, const fs::path& gradients) {
  if (!batches.empty() && is_first_rank()) dump_batches(batches, batches_, config());
  gradients_path_ = gradients;
}

double Trainer::pass(const std::vector<data::Batch>& batches, std::vector<torch::Tensor>& chosen) {
  const TrainConfig& c = config();
  double loss = 0.0, n_counted = 0.0;
  model_->zero_grad();
  for (const data::Batch& part : batches) n_counted += static_cast<double>(part.n_counted());
  static_cast<void>(take_loads(mixtures_));  // an evaluation's
  chosen.assign(mixtures_.size(), {});
  for (const data::Batch& part : batches) {
    const TensorBatch batch = to_tensors(part, device_);
    torch::Tensor part_loss;
    {
      const Autocast autocast(c.dtype == Precision::Bf16, device_);
      part_loss = model_->loss(batch.inputs_BT, batch.targets_BT, batch.starts_BT);
    }
    if (c.accumulation > 1) part_loss = part_loss / (n_counted / static_cast<double>(part.n_counted()));
    torch::Tensor objective = part_loss;
    const Loads loads = take_loads(mixtures_);
    if (!loads.empty() && c.balance == Balance::Loss && c.balance_rate > 0.0) {
      objective = objective + balance_loss(loads) * (c.balance_rate / static_cast<double>(c.accumulation));
    }
    for (size_t i = 0; i < loads.size(); ++i) {
      chosen[i] = chosen[i].defined() ? chosen[i] + loads[i].chosen : loads[i].chosen;
    }
    objective.backward();
    loss += part_loss.item<double>();
  }
  return loss;
}

StepResult Trainer::step() {
  const TrainConfig& c = config();
  std::vector<data::Batch> batches;
  for (int64_t part = 0; part < c.accumulation; ++part)
    batches.push_back(batches_(static_cast<uint64_t>(state_.step * c.accumulation + part)));
  std::vector<torch::Tensor> chosen;  // of each mixture, the rows that took each expert
  const double loss = ranks_ ? ranks_->pass(batches, state_.step) : pass(batches, chosen);
  if (ranks_) chosen = ranks_->model().chosen();
  require(std::isfinite(loss), "the loss is {} at step {}; lower --lr or clip gradients with --clip", loss,
          state_.step + 1);
  RECORD_FUNCTION("folio::update", {});  // profile.h
  const double grad_norm = ranks_ ? ranks_->gradient_norm() : parallel::norm_of(trained_gradients(model_));
  require(std::isfinite(grad_norm), "the gradient's norm is {} at step {}; lower --lr", grad_norm, state_.step + 1);
  if (state_.step == 0 && !gradients_path_.empty()) {
    const nn::Llama whole = ranks_ ? ranks_->whole_gradients() : model_;
    if (is_first_rank()) write_gradients(gradients_path_, whole, state_);
  }
  const bool clips = c.clip > 0.0 && grad_norm > c.clip;
  optimizer_->step(learning_rate(c, state_.step), clips ? c.clip / (grad_norm + 1e-6) : 1.0);
  if (c.balance == Balance::Bias && c.balance_rate > 0.0) {
    for (size_t i = 0; i < mixtures_.size(); ++i) move_selection_bias(mixtures_[i], chosen[i], c.balance_rate);
  }
  ++state_.step;
  if (ranks_) ranks_->finish_step(state_.step);
  if (!average_.is_empty()) update_average(average_, model_, c.ema, state_.step);
  return {.loss = loss, .grad_norm = grad_norm};
}

bool Trainer::repeats_with(int threads) {
  const TrainConfig& c = config();
  if (ranks_ || !device_.is_cpu() || c.dtype != Precision::F32 || c.optimizer == OptimizerKind::GaLore) return false;
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // dropout's
  const torch::Tensor random = generator.get_state().clone();
  const auto gradients = [&] {
    std::vector<torch::Tensor> chosen;
    pass({batches_(static_cast<uint64_t>(state_.step * c.accumulation))}, chosen);
    generator.set_state(random);
    return digests_of_gradients(model_);
  };
  const int now = at::get_num_threads();
  const std::vector<size_t> before = gradients();
  at::set_num_threads(threads);
  const std::vector<size_t> after = gradients();
  at::set_num_threads(now);
  return before == after;
}

Trainer::Evaluation Trainer::evaluate() {
  const TrainConfig& c = config();
  std::vector<nn::Mixture> mixtures;  // of one process: ranks do not count their rows here
  if (!ranks_) mixtures = nn::mixtures_of(*shown_model());
  static_cast<void>(take_loads(mixtures));  // a step's
  const auto load = [&]() -> std::optional<double> {
    if (mixtures.empty()) return {};
    return largest_load(take_loads(mixtures));
  };
  const auto loss_of = [&](const data::BatchOf& batches, uint64_t first, uint64_t n) {
    return ranks_ ? ranks_->mean_loss(batches, first, n) : mean_loss(shown_model(), batches, first, n, device_);
  };
  if (c.eval_batches == 0) {
    const data::Batches whole = dataset_.validation_batches(c);
    const double validation = loss_of(whole.batch, 0, whole.n);
    return {.train = {}, .validation = validation, .expert_load = load()};
  }
  // With other seeds, so that evaluations don't use training's batches, and batches numbered by the step.
  const auto n = static_cast<uint64_t>(c.eval_batches);
  const uint64_t first = static_cast<uint64_t>(state_.step) * n;
  const double train = loss_of(dataset_.random_batches(Split::Train, c, c.seed + 1), first, n);
  static_cast<void>(load());
  const double validation = loss_of(dataset_.random_batches(Split::Validation, c, c.seed + 2), first, n);
  return {.train = train, .validation = validation, .expert_load = load()};
}

std::string Trainer::sample() {
  const SamplePrompt prompt = dataset_.sample_prompt();
  if (frozen_) {
    const core::Adapter adapter = adapter_of(model_, lora_options(config()));
    return sample_text(frozen_->model(), &adapter, dataset_.tokenizer(), prompt, config().sample);
  }
  const nn::Llama shown = !ranks_              ? shown_model()
                          : config().ema > 0.0 ? ranks_->whole_average()
                                               : ranks_->whole_model();
  if (!is_first_rank()) return {};
  const core::Weights weights = weights_of(shown);
  return sample_text(stored_model(weights), nullptr, dataset_.tokenizer(), prompt, config().sample);
}

void Trainer::save(const fs::path& run) {
  TrainerState state = state_;
  state.environment = environment_;
  if (!ranks_) {
    save_checkpoint(run, model_, optimizer_->state(), state, dataset_.tokenizer(), average_);
    return;
  }
  const nn::Llama whole = ranks_->whole_model(), average = ranks_->whole_average();
  const std::vector<Optimizer::State> moments = ranks_->whole_state(*optimizer_);
  if (is_first_rank()) save_checkpoint(run, whole, moments, state, dataset_.tokenizer(), average);
}

void Trainer::train_for(double minutes) {
  state_.minutes = minutes;
  if (minutes > 0.0) state_.config.steps = std::max(state_.config.steps, kMeasuredSteps);
}

std::optional<double> Trainer::measure(double seconds) {
  if (state_.minutes == 0.0 || state_.step > state_.measures_until) return {};
  if (ranks_) seconds = ranks_->largest(seconds);  // all have to find the same
  state_.spent_seconds += seconds;
  const bool at_the_end = state_.step == state_.measures_until;
  if (std::exchange(warm_, true) || (at_the_end && state_.measured_steps == 0)) {
    state_.measured_seconds += seconds;
    ++state_.measured_steps;
  }
  if (!at_the_end) return {};
  const double step_seconds =
      std::exchange(state_.measured_seconds, 0.0) / static_cast<double>(std::exchange(state_.measured_steps, 0));
  const double seconds_left = std::max(0.0, 60.0 * state_.minutes - state_.spent_seconds);
  state_.config.steps = state_.step + static_cast<int64_t>(seconds_left / step_seconds);
  const bool first = state_.step == kMeasuredSteps;
  state_.measures_until = std::max(first ? state_.config.steps / 10 : 2 * state_.step, state_.step);
  return step_seconds;
}

bool Trainer::note_validation_loss(double loss) {
  ++state_.evaluations_since_best;
  if (std::isnan(loss) || (state_.best_step >= 0 && loss >= state_.best_validation_loss)) return false;
  state_.best_validation_loss = loss;
  state_.best_step = state_.step;
  state_.evaluations_since_best = 0;
  return true;
}

bool Trainer::out_of_patience() const {
  return config().patience > 0 && state_.evaluations_since_best >= config().patience;
}

}  // namespace folio::train
