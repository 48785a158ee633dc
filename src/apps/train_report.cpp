#include "apps/train_report.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <sstream>

#include "apps/process.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/formats/adapter_files.h"
#include "core/formats/model_files.h"
#include "core/manifest.h"
#include "core/print_stderr.h"
#include "core/seconds_since.h"
#include "data/tokenizers/tokenizer_files.h"
#include "train/profile/profile.h"
#include "train/report/matrix_peak.h"
#include "train/report/ngram.h"
#include "train/step/repeatable.h"

namespace folio::apps {
namespace {

namespace fs = std::filesystem;

// Returns the values of a TOML file in the form that config_toml() writes, such as "lr = 0.001".
std::vector<std::string> values_in(const std::string& toml) {
  const auto trimmed = [](const std::string& text) {
    const size_t begin = std::min(text.find_first_not_of(" \t"), text.size());
    return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
  };
  std::vector<std::string> values;
  std::istringstream lines(toml);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    const std::string value = trimmed(line.substr(equals + 1));
    const auto number = signed_number_of<double>(value);
    values.push_back(
        fmt::format("{} = {}", trimmed(line.substr(0, equals)), number ? fmt::format("{}", *number) : value));
  }
  return values;
}

// Returns the values that the user edited in config.toml, such as "lr = 0.1, …": those that are neither in the
// checkpoint nor in `now`.
std::string edited_values(const fs::path& file, const train::TrainerState& saved, const train::TrainConfig& now) {
  if (!core::path_exists(file)) return "";
  const std::vector<std::string> known = values_in(config_toml(saved.config) + config_toml(now));
  std::string edited;
  for (const std::string& value : values_in(core::read_text_file(file, size_t{1} << 20U))) {
    if (saved.config.minutes > 0.0 && value.starts_with("steps = ")) continue;  // set by --minutes, not by the user
    if (std::ranges::find(known, value) == known.end()) edited += (edited.empty() ? "" : ", ") + core::printable(value);
  }
  return edited;
}

void resume(train::Trainer& trainer, const fs::path& run) {
  const fs::path checkpoint = run / "checkpoints" / "last", file = run / "config.toml";
  const train::TrainerState saved = trainer.resume(checkpoint);
  const std::string ignored = edited_values(file, saved, trainer.config());
  if (trainer.world().is_first() && !ignored.empty()) {
    core::print_stderr(
        "note: --resume uses the checkpoint's values and ignores edits of {}: {}; start a new run to change them\n",
        file.string(), ignored);
  }
  std::string change = describe_difference(saved.environment, train::this_environment());
  if (const train::DeviceKind now = trainer.config().device; now != saved.config.device) {
    change += fmt::format("{}device {} -> {}", change.empty() ? "" : ", ", saved.config.device, now);
  }
  if (change.empty() || !trainer.world().is_first()) return;
  core::print_stderr("note: {}: the environment has changed ({}), so the run may not be reproduced bit for bit\n",
                     checkpoint.string(), change);
}

std::string parameters_of(const core::ModelConfig& c) {
  const std::string all = fmt::format("{} parameters", core::parameter_count(c));
  return c.n_experts == 0 ? all : fmt::format("{}, {} of them active per token", all, train::active_parameters(c));
}

void print_packed(const train::ChatDataset& dataset, train::Split split, const char* name) {
  const data::PackedExamples& packed = dataset.packed(split);
  fmt::print("{}: {} conversations, {} tokens, {} of them in answers; {} windows, {:.0f} % full\n", name,
             dataset.n_conversations(split), packed.n_inputs(), packed.n_learned(), packed.n_windows(),
             100.0 * packed.fullness());
  if (packed.n_cut() == 0) return;
  core::print_stderr(
      "note: {}: {} sequences of conversations exceed the window and were truncated, losing {} tokens of answers; "
      "raise --window to keep them\n",
      name, packed.n_cut(), packed.n_lost());
}

void print_data(const TrainData& data) {
  if (data.text != nullptr) {
    const auto& [train, validation, test] = data.text->splits();
    fmt::print("{}: {} training, {} validation tokens, vocabulary {}\n", data.text->source().name, train.size(),
               validation.size(), data.text->tokenizer().vocab_size());
    return;
  }
  const auto& chat = dynamic_cast<const train::ChatDataset&>(*data.dataset);
  print_packed(chat, train::Split::Train, "training");
  print_packed(chat, train::Split::Validation, "validation");
}

void print_run(const TrainOptions& o, train::Trainer& trainer, const data::Tokenizer& tokenizer) {
  const train::TrainConfig& c = trainer.config();
  fmt::print("preset {}, family {}: {} layers, {} heads, width {}: {}; windows of {}, batch {}, {} steps, {} threads\n",
             c.preset, c.model.family, c.model.n_layers, c.model.n_heads, c.model.dim, parameters_of(c.model), c.window,
             c.batch_size * c.accumulation, c.steps, at::get_num_threads());
  if (c.lora_rank > 0) {
    int64_t n_trained = 0;
    for (const torch::Tensor& p : trainer.model()->parameters()) n_trained += p.requires_grad() ? p.numel() : 0;
    fmt::print("adapters of rank {} for {} of each layer: {} parameters are trained, {} is unchanged\n", c.lora_rank,
               c.lora_targets, n_trained, trainer.state().base);
  }
  if (!o.session->is_alone()) fmt::print("mesh: {}\n", to_string(trainer.world().mesh().shape()));
  fmt::print("run: {}{}\n", o.choice->path.string(),
             o.resume ? fmt::format(", resumed at step {}", trainer.state().step) : "");
  if (!o.session->is_first()) return;
  if (const std::string why = train::why_not_repeatable(train::name_of(c.device)); !why.empty()) {
    core::print_stderr("note: {}: a resumed run may differ from an uninterrupted one\n", why);
  }
  if (c.model.family == core::Family::Qwen2 && tokenizer.kind() == "character") {
    core::print_stderr(
        "note: transformers' AutoTokenizer ignores the tokenizer files of a qwen2 model; load the tokenizer of these "
        "checkpoints with PreTrainedTokenizerFast\n");
  }
}

// Returns the first kMost tokens of a split. Throws core::Error for an ID outside the vocabulary (damaged token cache).
std::vector<int32_t> counted_tokens(const data::TokenView& split, const char* what, int32_t vocab_size) {
  constexpr size_t kMost = size_t{1} << 23U;  // with more tokens, the table of n-grams would exceed a gigabyte
  std::vector<int32_t> tokens = split.first(std::min(kMost, split.size())).to_vector();
  const auto outside = std::ranges::find_if(tokens, [&](int32_t token) { return token < 0 || token >= vocab_size; });
  core::require(outside == tokens.end(),
                "token {} of the {} split is {}, outside the vocabulary of {}; delete the token cache",
                outside - tokens.begin(), what, outside == tokens.end() ? 0 : *outside, vocab_size);
  return tokens;
}

double count_baseline(const TrainData& data) {
  constexpr int kOrder = 5;
  const auto& [train, validation, test] = data.text->splits();
  const auto start = std::chrono::steady_clock::now();
  const data::Tokenizer& tokenizer = data.text->tokenizer();
  const int32_t vocab_size = tokenizer.vocab_size();
  // With a single document, the end token never occurs, so the baseline's vocabulary excludes it.
  const bool unused_end = !data.several_documents && tokenizer.end_of_text() == vocab_size - 1;
  const train::NgramCounts counts(counted_tokens(train, "training", vocab_size), vocab_size - (unused_end ? 1 : 0),
                                  kOrder);
  const double loss = counts.witten_bell_loss(counted_tokens(validation, "validation", vocab_size), kOrder);
  fmt::print("baseline: a smoothed {}-gram has validation loss {:.4f} ({:.1f} s)\n", kOrder, loss,
             core::seconds_since(start));
  return loss;
}

double loss_before_training(train::Trainer& trainer) {
  if (trainer.state().step > 0) return 0.0;  // unknown: checkpoints don't store the loss before training
  const double loss = trainer.evaluate().validation;
  fmt::print("validation loss of the answers before training: {:.4f}\n", loss);
  return loss;
}

double bits_per_byte(double loss, const train::TextDataset& dataset) {
  const data::TokenView tokens = dataset.splits().validation;
  size_t bytes = 0;
  for (size_t i = 0; i < tokens.size(); ++i) bytes += dataset.tokenizer().token_bytes(tokens[i]).size();
  return loss / std::numbers::ln2 / (static_cast<double>(bytes) / static_cast<double>(tokens.size()));
}

// Generates and prints a sample with the model at `path` and, unless `adapter` is empty, the adapter at that path.
void print_sample(const fs::path& path, const fs::path& adapter, const TrainData& data) {
  train::SamplePrompt prompt = data.dataset->sample_prompt();
  if (prompt.tokens.empty()) return;
  const core::StoredModel model = core::read_model(path);
  std::optional<core::Adapter> read;
  if (!adapter.empty()) read = core::read_adapter(adapter, model.config);
  prompt.options.slide = false;
  prompt.options.max_tokens = std::min<int64_t>(200, model.config.context_length);
  const std::string text = train::sample_text(model, read ? &*read : nullptr, *data::load_tokenizer(model, ""), prompt);
  fmt::print("\nsample:\n{}\n\nto generate more: ./{} --model {}{}\n", text, data.text != nullptr ? "generate" : "chat",
             path.string(), adapter.empty() ? "" : " --lora " + adapter.string());
}

}  // namespace

void print_profile(train::Trainer& trainer, std::optional<train::MemoryUse>& memory) {
  constexpr int64_t kSteps = 20;
  const train::TrainConfig& c = trainer.config();
  fmt::print("{}, {} tokens per step, {}, dropout {}, {} threads\n", parameters_of(c.model), trainer.tokens_per_step(),
             c.dtype, c.dropout, at::get_num_threads());
  if (memory) fmt::print("{}", train::measure_rank_costs(trainer, *memory));
  memory.reset();  // counting memory would slow down the profile
  fmt::print("{}", train::profile_steps(trainer, kSteps));
}

train::RunOptions begin_run(TrainOptions& o, train::Trainer& trainer, const TrainData& data) {
  if (o.session->is_first()) {
    train::prepare_run(*o.choice);
    train::recover_checkpoints(o.choice->path);
  }
  trainer.world().everyone().meet();
  if (o.resume) resume(trainer, o.choice->path);
  write_config(o, trainer);
  if (o.session->is_first()) print_data(data);
  print_run(o, trainer, data.dataset->tokenizer());

  const train::TrainConfig& c = trainer.config();
  const bool is_text = data.text != nullptr;
  train::RunOptions run{.run = o.choice->path,
                        .baseline = is_text ? count_baseline(data) : loss_before_training(trainer),
                        .baseline_name = is_text ? "5-gram by counting" : "before training",
                        .interrupted = interrupted};
  const train::MatrixPeak peak = train::matrix_peak(c.dtype, trainer.device());
  const auto n_ranks = static_cast<double>(o.session->launch().n_ranks);
  run.peak = n_ranks * peak.operations_per_s;
  run.measure_peak = [&c, n_ranks, device = trainer.device()] {
    return n_ranks * train::matrix_peak(c.dtype, device).operations_per_s;
  };
  fmt::print("matrix peak{}: {:.0f} GFLOP/s, measured with a product of {} x {} in {}\n",
             o.session->is_alone() ? "" : " per rank", 1e-9 * peak.operations_per_s, peak.size, peak.size, c.dtype);
  fmt::print("validation loss: {}\n",
             c.eval_batches > 0 ? fmt::format("the mean of {} random batches", c.eval_batches)
             : is_text          ? fmt::format("the mean over the whole split, in consecutive windows of {}", c.window)
                                : "the mean over all answers of the split");
  return run;
}

void write_config(const TrainOptions& o, const train::Trainer& trainer) {
  if (!o.session->is_first()) return;
  const fs::path& run = o.choice->path;
  train::naming_checkpoint(run,
                           [&] { core::write_file_atomically(run / "config.toml", config_toml(trainer.config())); });
}

void end_run(const train::RunOptions& run, double seconds, const train::Trainer& trainer, const TrainData& data) {
  const train::TrainConfig& c = trainer.config();
  const train::TrainerState& state = trainer.state();
  const double loss = state.best_validation_loss;
  const bool adapters = c.lora_rank > 0;
  core::require(state.best_step >= 0,
                "{}: the validation loss was not finite in any evaluation; lower --lr and restart with --force",
                run.run.string());
  if (trainer.out_of_patience()) {
    fmt::print("no better validation loss in {} evaluations: stopped at step {} of {}\n", c.patience, state.step,
               c.steps);
  }
  std::string summary = fmt::format("best validation loss {:.4f} at step {}", loss, state.best_step);
  if (run.baseline != 0.0) {
    summary += fmt::format(", {:.4f} {} the {:.4f} {}{}", std::abs(run.baseline - loss),
                           loss < run.baseline ? "below" : "above", run.baseline, data.text != nullptr ? "of a " : "",
                           run.baseline_name);
  }
  fmt::print("done in {:.1f} s: {}\n", seconds, summary);
  if (data.text != nullptr) {
    fmt::print("that is {:.4f} bits per byte of the validation text\n", bits_per_byte(loss, *data.text));
  }

  const fs::path exported = run.run / "checkpoints" / train::name_of(c.exported), model = run.run / "model.gguf";
  train::naming_checkpoint(run.run, [&] {
    core::write_file_atomically(run.run / "summary.txt", summary + "\n");
    if (adapters) return;
    core::StoredModel best = core::read_hf_model(exported);
    core::GgufMetadata metadata = core::generation_to_gguf(core::read_generation_config(best));
    std::ranges::move(data.dataset->tokenizer().to_gguf(), std::back_inserter(metadata));
    best = core::for_llama_cpp(std::move(best));
    core::write_gguf_model(model, best.config, best.tensors, data.dataset->source().name, metadata);
    if (best.config.n_tokens_ahead < c.model.n_tokens_ahead) {
      core::print_stderr(
          "note: model.gguf lacks the module of --mtp, which llama.cpp rejects; export --mtp keeps it\n");
    }
  });
  if (const std::string lost = core::lost_in_gguf(c.model); !adapters && !lost.empty()) {
    core::print_stderr("note: {}; checkpoints/{} has the whole model\n", lost, c.exported);
  }
  print_sample(adapters ? fs::path(state.base) : model, adapters ? exported : fs::path(), data);
}

}  // namespace folio::apps
