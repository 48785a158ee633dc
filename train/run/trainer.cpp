#include "train/run/trainer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/file_status.h"
#include "core/random.h"
#include "data/tokenizers/tokenizer_files.h"
#include "infer/cpu/cpu.h"
#include "infer/engine/generate.h"
#include "train/report/matrix_peak.h"
#include "train/run/weights.h"
#include "train/step/balance.h"
#include "train/step/evaluate.h"

namespace folio::train {
namespace {

namespace fs = std::filesystem;
using core::require;

torch::Device device_of(const TrainConfig& config, int64_t number) {
  if (config.device == DeviceKind::Cpu) return torch::kCPU;
  const auto n = static_cast<int64_t>(torch::cuda::device_count());
  require(n > 0, "--device cuda: LibTorch finds no CUDA device; use --device cpu or a LibTorch with CUDA");
  require(number < n, "--device cuda: no GPU for rank {} of this host, which has {}; start at most one rank per GPU",
          number, n);
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(number)};
}

TrainConfig completed(TrainConfig config, const Dataset& dataset, torch::Device device, parallel::World& world) {
  config.model.vocab_size = dataset.tokenizer().vocab_size();
  validate(config);
  if (config.minutes > 0.0) config.steps = std::max(config.steps, kMeasuredSteps);
  if (config.dtype != Precision::Auto) return config;
  // Rank 0 measures and all ranks use its result, as measurements may differ.
  const bool bf16 = world.is_first() && faster_precision(device) == Precision::Bf16;
  config.dtype = world.largest(bf16 ? 1.0 : 0.0) > 0.0 ? Precision::Bf16 : Precision::F32;
  return config;
}

std::string quoted(const std::vector<std::string>& tokens) {
  constexpr size_t kShown = 10;
  std::string text;
  for (const std::string& token : tokens | std::views::take(kShown))
    text += fmt::format(" \"{}\"", core::printable(token));
  return text + (tokens.size() > kShown ? " …" : "");
}

std::vector<std::string> tokens_of(const data::Tokenizer& tokenizer) {
  std::vector<std::string> tokens;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) tokens.push_back(tokenizer.token_bytes(id));
  return tokens;
}

// Describes how two vocabularies differ: tokens that are in only one of them, or else the first id with different
// tokens. Returns "" if they are equal.
std::string describe_difference(const data::Tokenizer& from, const data::Tokenizer& to) {
  if (from.kind() != to.kind()) return fmt::format("{} -> {} tokens", from.kind(), to.kind());
  const std::vector<std::string> before = tokens_of(from), after = tokens_of(to);
  if (before == after) return "";
  std::string difference = fmt::format("{} -> {} tokens", before.size(), after.size());
  const std::set<std::string> old_tokens(before.begin(), before.end()), new_tokens(after.begin(), after.end());
  const auto add = [&](const char* how, const std::set<std::string>& some, const std::set<std::string>& others) {
    std::vector<std::string> rest;
    std::ranges::set_difference(some, others, std::back_inserter(rest));
    if (!rest.empty()) difference += how + quoted(rest);
  };
  add(", without", old_tokens, new_tokens);
  add(", with", new_tokens, old_tokens);
  if (old_tokens == new_tokens && before.size() == after.size()) {
    const auto at = std::ranges::mismatch(before, after);
    difference += fmt::format(", id {}{} ->{}", at.in1 - before.begin(), quoted({*at.in1}), quoted({*at.in2}));
  }
  return difference;
}

// Updates the average of --ema after completed step `step`: average = d · average + (1 - d) · weights. d = min(decay,
// (1 + step) / (10 + step)) reduces the initial weights' effect even in a short run (num_updates of TensorFlow's
// ExponentialMovingAverage). The average is evaluated and saved instead of the weights, as it lacks the noise of single
// steps (Polyak & Juditsky 1992).
void update_average(const std::vector<torch::Tensor>& average, const std::vector<torch::Tensor>& weights, double decay,
                    int64_t step) {
  const torch::NoGradGuard no_grad;
  const auto n = static_cast<double>(step);
  at::_foreach_lerp_(average, weights, 1.0 - std::min(decay, (1.0 + n) / (10.0 + n)));
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

std::string model_digest(const core::StoredModel& model) {
  constexpr size_t kMost = size_t{64} << 10U;
  data::Digest digest;
  for (const core::TensorView& tensor : model.tensors) {
    digest.add(fmt::format("{} {} {}\n", tensor.name, core::info(tensor.type).name, core::shape_string(tensor.shape)));
    const auto first = tensor.bytes.first(std::min(kMost, tensor.bytes.size()));
    digest.add({reinterpret_cast<const char*>(first.data()), first.size()});
  }
  return digest.hex();
}

std::string sample_text(const core::StoredModel& model, const core::Adapter* adapter, const data::Tokenizer& tokenizer,
                        const SamplePrompt& prompt) {
  if (prompt.tokens.empty()) return "";
  infer::Cpu cpu({.n_threads = static_cast<size_t>(at::get_num_threads())});
  infer::Engine engine(model, cpu);
  infer::GenerateOptions options = prompt.options;
  if (adapter != nullptr) options.adapter = engine.load_adapter(*adapter);
  return prompt.before + infer::generate(engine, tokenizer, prompt.tokens, options).text;
}

Trainer::Trainer(TrainConfig config, const Dataset& dataset, const fs::path& init, parallel::World* world, int64_t gpu)
    : dataset_(dataset),
      world_(world != nullptr ? world : &alone_.emplace(nullptr, parallel::MeshShape{}, 0)),
      device_(device_of(config, gpu)) {
  state_.config = completed(std::move(config), dataset, device_, *world_);
  state_.source = dataset.source();
  state_.environment = this_environment();  // records the run's number of threads; step_threads.h may use fewer
  const TrainConfig& c = state_.config;
  batches_ = dataset.random_batches(Split::Train, c, c.seed);
  if (c.ema > 0.0)  // before manual_seed(), so that the model's initial weights do not depend on --ema
    average_ = std::make_unique<parallel::RankModel>(c, *world_, device_, parallel::Use::Average);
  std::shared_ptr<const core::StoredModel> start;
  if (c.lora_rank > 0 || !init.empty()) {
    core::StoredModel file = core::read_model(init);
    const int64_t n_ahead = file.config.n_tokens_ahead, n_layers = file.config.n_layers;
    require(c.model.n_tokens_ahead <= n_ahead, "{}: the model has no module for --mtp 1; remove --mtp", init.string());
    if (c.lora_rank == 0 && c.model.n_tokens_ahead < n_ahead) file = core::with_layers(std::move(file), n_layers);
    generation_ = core::read_generation_config(file);
    const std::string difference = core::describe_difference(file.config, c.model);
    require(difference.empty(), "{}: the model does not match the flags: {}; remove them", init.string(), difference);
    start = std::make_shared<const core::StoredModel>(std::move(file));
  }
  if (c.lora_rank > 0) {
    frozen_ = start;
    state_.base = core::absolute_path(init).lexically_normal().string();
    state_.base_digest = model_digest(*frozen_);
  }
  torch::manual_seed(c.seed);
  model_ = std::make_unique<parallel::RankModel>(c, *world_, device_, parallel::Use::Training, frozen_);
  if (start && !frozen_) {
    nn::Llama whole = model_->to_fill();
    load_weights(*start, whole);
    model_->load(whole);
  }
  if (average_) {
    const torch::NoGradGuard no_grad;
    at::_foreach_copy_(average_->tensors(), model_->tensors());
  }
  optimizer_ = make_optimizer(*model_, c);
}

TrainerState Trainer::resume(const fs::path& checkpoint) {
  const TrainerState saved = read_trainer_state(checkpoint);
  const auto require_same = [&](const std::string& difference, const char* what, const char* remedy) {
    require(difference.empty(), "{}: the checkpoint was trained with {}: {}; {} or restart with --force",
            checkpoint.string(), what, difference, remedy);
  };
  const auto tokenizer = data::tokenizer_from_hf(checkpoint, saved.config.model.vocab_size);
  require_same(describe_difference(*tokenizer, dataset_.tokenizer()), "a different vocabulary", "restore the text");
  const Source &then = saved.source, &now = dataset_.source();
  require_same(then.digest == now.digest
                   ? ""
                   : fmt::format("{} ({} bytes, digest {}) -> {} ({} bytes, digest {})", then.path, then.bytes,
                                 then.digest, now.path, now.bytes, now.digest),
               "a different text", "restore it");
  require_same(saved.base_digest == state_.base_digest
                   ? ""
                   : fmt::format("{} (digest {}) -> {} (digest {})", saved.base, saved.base_digest, state_.base,
                                 state_.base_digest),
               "a different base model", "restore it");
  require_same(describe_difference(saved.config, config()), "different settings", "remove these to continue");
  const TrainerState here = std::exchange(state_, saved);
  state_.config = here.config;
  state_.environment = here.environment;
  load_checkpoint(checkpoint, *model_, average_.get(), *optimizer_, state_);
  if (!frozen_) generation_ = core::read_generation_config(core::read_hf_model(checkpoint));
  return saved;
}

StepResult Trainer::step() {
  const TrainConfig& c = config();
  const parallel::Mesh& mesh = world_->mesh();
  // Seed dropout by step and rank: ranks drop different elements, and a resumed run drops the same ones.
  if (mesh.shape().n_ranks() > 1 && std::max(c.dropout, c.lora_dropout) > 0.0) {
    const auto rank = static_cast<uint64_t>(mesh.rank());
    torch::manual_seed(core::random_bits(c.seed, (static_cast<uint64_t>(state_.step) << 16U) + rank));
  }
  std::function<void()> on_gradients;
  if (state_.step == 0 && !gradients_path_.empty()) on_gradients = [this] { write_gradients(); };
  std::vector<data::Batch> batches;
  for (int64_t i = 0; i < c.accumulation; ++i)
    batches.push_back(batches_(static_cast<uint64_t>(state_.step * c.accumulation + i)));
  const StepResult result = train_step(*model_, *optimizer_, c, state_.step, batches, on_gradients);
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
  at::Generator generator = at::detail::getDefaultCPUGenerator();  // used by dropout; restored afterwards
  const torch::Tensor random = generator.get_state().clone();
  const auto gradients = [&] {
    std::vector<torch::Tensor> chosen;
    forward_backward(*model_, c, {batches_(static_cast<uint64_t>(state_.step * c.accumulation))}, chosen);
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
  Evaluation evaluation{};
  const auto loss_of = [&](const data::BatchOf& batches, uint64_t first, uint64_t n) {
    static_cast<void>(take_loads(shown().mixtures()));  // discard counts of training and of other splits
    const auto own_part = [&](const data::Batch& batch) { return shown().loss(batch); };
    return world_->sum(mean_loss(own_part, batches, first, n));
  };
  if (c.eval_batches == 0) {
    const data::Batches whole = dataset_.validation_batches(c);
    evaluation.validation = loss_of(whole.batch, 0, whole.n);
  } else {
    // Each evaluation has its own batches: seeds differ from the training seed, and batch numbers depend on the step.
    const auto n = static_cast<uint64_t>(c.eval_batches);
    const uint64_t first = static_cast<uint64_t>(state_.step) * n;
    evaluation.train = loss_of(dataset_.random_batches(Split::Train, c, c.seed + 1), first, n);
    evaluation.validation = loss_of(dataset_.random_batches(Split::Validation, c, c.seed + 2), first, n);
  }
  const Loads loads = take_loads(shown().mixtures());
  // With several ranks, the counts are not summed, so the load is not reported.
  if (world_->mesh().shape().n_ranks() == 1 && !loads.empty()) evaluation.expert_load = largest_load(loads);
  return evaluation;
}

std::string Trainer::sample() {
  SamplePrompt prompt = dataset_.sample_prompt();
  prompt.options.max_tokens = config().sample;
  const nn::Llama whole = shown().whole();
  if (!world_->is_first()) return {};
  if (frozen_) {
    const core::Adapter adapter = adapter_of(whole, adapter_info(config()));
    return sample_text(*frozen_, &adapter, dataset_.tokenizer(), prompt);
  }
  const core::Weights weights = weights_of(whole);
  const core::StoredModel stored{.path = "the model in training",
                                 .format = core::ModelFormat::Gguf,
                                 .config = weights.config,
                                 .tensors = weights.views()};
  return sample_text(stored, nullptr, dataset_.tokenizer(), prompt);
}

void Trainer::save(const fs::path& run) {
  save_checkpoint(run, *model_, average_.get(), *optimizer_, state_, dataset_.tokenizer(), generation_);
}

std::optional<double> Trainer::measure(double seconds) {
  if (config().minutes == 0.0 || state_.step > state_.measures_until) return {};
  seconds = world_->largest(seconds);  // all ranks must use the same time
  state_.spent_seconds += seconds;
  const bool at_the_end = state_.step == state_.measures_until;
  if (std::exchange(warm_, true) || (at_the_end && state_.measured_steps == 0)) {
    state_.measured_seconds += seconds;
    ++state_.measured_steps;
  }
  if (!at_the_end) return {};
  const double step_seconds =
      std::exchange(state_.measured_seconds, 0.0) / static_cast<double>(std::exchange(state_.measured_steps, 0));
  const double seconds_left = std::max(0.0, 60.0 * config().minutes - state_.spent_seconds);
  state_.config.steps = state_.step + static_cast<int64_t>(seconds_left / step_seconds);
  const bool first = state_.step == kMeasuredSteps;
  state_.measures_until = std::max(first ? state_.config.steps / 10 : 2 * state_.step, state_.step);
  return step_seconds;
}

bool Trainer::note_validation_loss(double loss) {
  ++state_.evaluations_since_best;
  if (!std::isfinite(loss) || (state_.best_step >= 0 && loss >= state_.best_validation_loss)) return false;
  state_.best_validation_loss = loss;
  state_.best_step = state_.step;
  state_.evaluations_since_best = 0;
  return true;
}

bool Trainer::out_of_patience() const {
  return config().patience > 0 && state_.evaluations_since_best >= config().patience;
}

}  // namespace folio::train
