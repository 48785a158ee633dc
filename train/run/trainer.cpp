#include "train/run/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_copy.h>
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
#include "core/random.h"
#include "data/tokenizers/tokenizer_files.h"
#include "train/report/matrix_peak.h"
#include "train/run/dump.h"
#include "train/run/sample.h"
#include "train/run/weights.h"
#include "train/step/balance.h"
#include "train/step/evaluate.h"
#include "train/step/weight_average.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::fail;
using core::require;

TrainConfig completed(TrainConfig config, const Dataset& dataset, torch::Device device, parallel::World& world) {
  config.model.vocab_size = dataset.tokenizer().vocab_size();
  parallel::require_fits(config, world.mesh().shape());
  if (config.dtype != Precision::Auto) return config;
  // Of several ranks the first one measures, and tells: two measurements may come out differently.
  const bool bf16 = world.is_first() && faster_precision(device) == Precision::Bf16;
  config.dtype = world.largest(bf16 ? 1.0 : 0.0) > 0.0 ? Precision::Bf16 : Precision::F32;
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

std::shared_ptr<const lora::FrozenWeights> frozen_weights(const TrainConfig& c, const fs::path& base) {
  if (c.lora_rank == 0) return nullptr;
  auto frozen = std::make_shared<const lora::FrozenWeights>(core::read_model(base));
  const std::string difference = core::describe_difference(frozen->config(), c.model);
  require(difference.empty(), "{}: the run is of another model: {}", base.string(), difference);
  return frozen;
}

std::vector<size_t> digests_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<size_t> digests;
  for (const torch::Tensor& t : tensors) {
    const torch::Tensor whole = t.contiguous();
    digests.push_back(std::hash<std::string_view>{}(
        {static_cast<const char*>(whole.const_data_ptr()), static_cast<size_t>(whole.nbytes())}));
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

Trainer::Trainer(TrainConfig config, const Dataset& dataset, const fs::path& base, parallel::World* world,
                 torch::Device device)
    : dataset_(dataset), world_(world), device_(device) {
  if (world_ == nullptr) {
    world_ = &alone_.emplace(nullptr, parallel::MeshShape{}, 0);
    device_ = device_of(config);
  }
  const Source& source = dataset.source();
  state_ = {.config = completed(std::move(config), dataset, device_, *world_),
            .corpus = source.name,
            .corpus_path = source.path,
            .corpus_field = source.field,
            .corpus_bytes = source.bytes,
            .corpus_digest = source.digest,
            .corpus_eval = source.eval_path};
  const TrainConfig& c = state_.config;
  batches_ = dataset.random_batches(Split::Train, c, c.seed);
  if (c.ema > 0.0)  // before the seed, whose numbers the model takes
    average_ = std::make_unique<parallel::RankModel>(c, *world_, device_, parallel::Use::Average);
  frozen_ = frozen_weights(c, base);
  if (frozen_) {
    state_.base = core::absolute_path(base).lexically_normal().string();
    state_.base_digest = model_digest(frozen_->model());
  }
  torch::manual_seed(c.seed);
  model_ = std::make_unique<parallel::RankModel>(c, *world_, device_, parallel::Use::Training, frozen_);
  begin_average();
  optimizer_ = make_optimizer(*model_, c);
}

void Trainer::begin_average() {
  if (!average_) return;
  const torch::NoGradGuard no_grad;
  at::_foreach_copy_(average_->tensors(), model_->tensors());
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
  nn::Llama whole = model_->to_fill();
  const nn::Llama average = average_ ? average_->to_fill() : nn::Llama(nullptr);
  PartOf part_of;
  if (world_->mesh().shape().n_ranks() > 1) {
    part_of = [this](const std::string& name, const torch::Tensor& moment) { return model_->part_of(name, moment); };
  }
  load_checkpoint(checkpoint, whole, *optimizer_, state_, average, part_of);
  model_->load(whole);
  if (average_) average_->load(average);
}

void Trainer::init_from(const fs::path& model) {
  nn::Llama whole = model_->to_fill();
  load_weights(core::to_weights(core::read_model(model)), whole);
  model_->load(whole);
  begin_average();
}

int64_t Trainer::tokens_per_step() const { return config().batch_size * config().window * config().accumulation; }

void Trainer::dump(const fs::path& batches, const fs::path& gradients) {
  if (!batches.empty() && world_->is_first()) dump_batches(batches, batches_, config());
  gradients_path_ = gradients;
}

void Trainer::write_gradients(const fs::path& path) {
  const nn::Llama whole = model_->whole_gradients();
  if (!world_->is_first()) return;
  if (!frozen_) {
    core::write_hf_tensors(path, gradients_of(whole));
    return;
  }
  core::make_folders(path);
  core::write_adapter(path, whole->config(), adapter_gradients_of(whole, lora_options(config())), adapter_info(state_));
}

std::vector<data::Batch> Trainer::batches_of_step() const {
  std::vector<data::Batch> batches;
  for (int64_t i = 0; i < config().accumulation; ++i)
    batches.push_back(batches_(static_cast<uint64_t>(state_.step * config().accumulation + i)));
  return batches;
}

StepResult Trainer::step() {
  const TrainConfig& c = config();
  const parallel::Mesh& mesh = world_->mesh();
  // Each rank drops out other numbers, those of a step whichever steps this process has done before.
  if (mesh.shape().n_ranks() > 1 && std::max(c.dropout, c.lora_dropout) > 0.0) {
    const auto rank = static_cast<uint64_t>(mesh.rank());
    torch::manual_seed(core::random_bits(c.seed, (static_cast<uint64_t>(state_.step) << 16U) + rank));
  }
  std::function<void()> see_gradients;
  if (state_.step == 0 && !gradients_path_.empty()) see_gradients = [this] { write_gradients(gradients_path_); };
  const StepResult result = train_step(*model_, *optimizer_, c, state_.step, batches_of_step(), see_gradients);
  ++state_.step;
  if (average_) update_average(average_->tensors(), model_->tensors(), c.ema, state_.step);
  return result;
}

bool Trainer::repeats_with(int threads) {
  const TrainConfig& c = config();
  if (world_->mesh().shape().n_ranks() > 1 || !device().is_cpu() || c.dtype != Precision::F32 ||
      c.optimizer == OptimizerKind::GaLore) {
    return false;
  }
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // dropout's
  const torch::Tensor random = generator.get_state().clone();
  const auto gradients = [&] {
    std::vector<torch::Tensor> chosen;
    forward_backward(*model_, c, {batches_of_step().front()}, chosen);
    generator.set_state(random);
    return digests_of(model_->gradients());
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
  std::vector<nn::Mixture>& mixtures = shown().mixtures();
  static_cast<void>(take_loads(mixtures));            // a step's
  const auto load = [&]() -> std::optional<double> {  // of one process: ranks do not count their rows here
    const Loads loads = take_loads(mixtures);
    if (loads.empty() || world_->mesh().shape().n_ranks() > 1) return {};
    return largest_load(loads);
  };
  const auto loss_of = [&](const data::BatchOf& batches, uint64_t first, uint64_t n) {
    const auto own_part = [&](const data::Batch& batch) { return shown().loss(batch); };
    return world_->sum(mean_loss(own_part, batches, first, n));
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
  const nn::Llama whole = shown().whole();
  if (!world_->is_first()) return {};
  if (frozen_) {
    const core::Adapter adapter = adapter_of(whole, lora_options(config()));
    return sample_text(frozen_->model(), &adapter, dataset_.tokenizer(), prompt, config().sample);
  }
  const core::Weights weights = weights_of(whole);
  return sample_text(stored_model(weights), nullptr, dataset_.tokenizer(), prompt, config().sample);
}

void Trainer::save(const fs::path& run) {
  TrainerState state = state_;
  state.environment = environment_;
  const nn::Llama whole = model_->whole(), average = average_ ? average_->whole() : nn::Llama(nullptr);
  const std::vector<Optimizer::State> moments = whole_state(*optimizer_, *model_);
  if (world_->is_first()) save_checkpoint(run, whole, moments, state, dataset_.tokenizer(), average);
}

void Trainer::train_for(double minutes) {
  state_.minutes = minutes;
  if (minutes > 0.0) state_.config.steps = std::max(state_.config.steps, kMeasuredSteps);
}

std::optional<double> Trainer::measure(double seconds) {
  if (state_.minutes == 0.0 || state_.step > state_.measures_until) return {};
  seconds = world_->largest(seconds);  // all ranks have to find the same
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
