// train: trains a Llama, or a model of another family, on texts or conversations. Measures a baseline, trains, exports
// model.gguf or an adapter, prints a sample of the engine.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <numbers>
#include <optional>

#include "apps/program.h"
#include "apps/train_data.h"
#include "apps/train_options.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/adapter_files.h"
#include "core/paths.h"
#include "core/seconds_since.h"
#include "data/tokenizers/tokenizer_files.h"
#include "train/report/matrix_peak.h"
#include "train/report/profile.h"
#include "train/run/run.h"
#include "train/run/sample.h"
#include "train/run/weights.h"
#include "train/step/allocator.h"
#include "train/step/repeatable.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

// By the run's files: its model, or the one that its adapter is for. An empty `adapter`: there is none.
void print_sample(const fs::path& path, const fs::path& adapter, train::SamplePrompt prompt, bool is_chat) {
  if (prompt.tokens.empty()) return;
  const core::StoredModel model = core::read_model(path);
  const auto tokenizer = data::load_tokenizer(model, "");
  std::optional<core::Adapter> read;
  if (!adapter.empty()) read = core::read_adapter(adapter, model.config);
  prompt.options.slide = false;
  const std::string text = train::sample_text(model, read ? &*read : nullptr, *tokenizer, prompt,
                                              std::min<int64_t>(200, model.config.context_length));
  fmt::print("\na sample by the engine:\n{}\n\nmore: ./{} --model {}{}\n", text, is_chat ? "chat" : "generate",
             path.string(), adapter.empty() ? "" : " --lora " + adapter.string());
}

int64_t trainable_parameters(train::Trainer& trainer) {
  int64_t n = 0;
  for (const torch::Tensor& parameter : trainer.model()->parameters()) {
    if (parameter.requires_grad()) n += parameter.numel();
  }
  return n;
}

std::string parameters_of(const core::ModelConfig& c) {
  const std::string all = fmt::format("{} parameters", core::parameter_count(c));
  return c.n_experts == 0 ? all : fmt::format("{}, {} of them active for a token", all, train::active_parameters(c));
}

// A loss to compare with. 0: there is none.
struct Baseline {
  double loss = 0.0;
  std::string name;
};

// Of a text, what counting gives. Of conversations, what the model gives before it has learned from them, which a
// resumed run doesn't know anymore.
Baseline baseline_of(train::Trainer& trainer, const train::TextDataset* text, bool several_documents) {
  if (text != nullptr) return {apps::count_baseline(*text, several_documents), "5-gram by counting"};
  if (trainer.state().step > 0) return {};
  const double loss = trainer.evaluate().validation;
  fmt::print("before training the answers of the validation split score {:.4f}\n", loss);
  return {loss, "before training"};
}

std::string summary_of(const train::TrainerState& state, const Baseline& baseline) {
  std::string summary =
      fmt::format("best validation loss {:.4f} at step {}", state.best_validation_loss, state.best_step);
  if (baseline.loss == 0.0) return summary;
  const double better = baseline.loss - state.best_validation_loss;
  return summary + fmt::format(", {:.4f} {} the {:.4f} {}", std::abs(better), better > 0.0 ? "below" : "above",
                               baseline.loss,
                               baseline.name == "before training" ? baseline.name : "of a " + baseline.name);
}

// As many as it takes to see each window so often.
int64_t steps_of(const apps::TrainOptions& o, const train::Dataset& dataset) {
  const double windows = o.epochs * static_cast<double>(dataset.windows_per_epoch(o.config));
  const auto per_step = static_cast<double>(o.config.batch_size * o.config.accumulation);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(windows / per_step - 1e-9)));
}

void resume(train::Trainer& trainer, const fs::path& checkpoint) {
  const train::DeviceKind device = train::read_trainer_state(checkpoint).config.device;
  trainer.resume(checkpoint);
  std::string change = describe_difference(trainer.state().environment, train::this_environment());
  if (const train::DeviceKind now = trainer.config().device; now != device) {
    change += fmt::format("{}device {} -> {}", change.empty() ? "" : ", ", device, now);
  }
  if (change.empty()) return;
  fmt::print(stderr, "note: {} was saved with {}: the run goes on, but its bits may differ\n", checkpoint.string(),
             change);
}

int profile(const apps::TrainOptions& o, const apps::TrainData& data) {
  constexpr int64_t kSteps = 20;
  if (o.config.device != train::DeviceKind::Cpu)
    throw core::UsageError("--profile measures a CPU's steps; leave --device out");
  const auto dataset = apps::make_dataset(o, data);
  train::Trainer trainer(o.config, *dataset, o.init.value_or(""));
  const train::TrainConfig& c = trainer.config();
  fmt::print("{}, {} tokens a step, {}, dropout {}, {} threads\n", parameters_of(c.model), trainer.tokens_per_step(),
             c.dtype, c.dropout, at::get_num_threads());
  const train::StepProfile profile = train::profile_steps(trainer, kSteps);
  fmt::print("{}", train::to_table(profile, train::matrix_peak(c.dtype, torch::kCPU).operations_per_s));
  return 0;
}

int run(apps::TrainOptions& o) {
  train::fix_threads(o.threads);
  train::keep_freed_memory();
  train::validate(o.config);
  const apps::TrainData data = apps::read_data(o);
  if (o.profile) return profile(o, data);
  if (!o.choice) o.choice = train::choose_run(data.texts.name, o.out, false, o.force);
  const fs::path& run = o.choice->path;
  const auto owned = apps::make_dataset(o, data);
  const train::Dataset& dataset = *owned;
  const train::TextDataset* text = apps::as_text(dataset);  // null: conversations
  if (o.epochs > 0.0) o.config.steps = steps_of(o, dataset);
  const bool adapters = o.config.lora_rank > 0;
  train::Trainer trainer(o.config, dataset, o.init.value_or(""));
  trainer.train_for(o.minutes);
  if (o.init && !adapters) trainer.init_from(*o.init);
  trainer.dump(o.dump_batches, o.dump_grads);
  // Nothing was written or removed before, so an error above leaves an earlier run as it was.
  train::prepare_run(*o.choice);
  train::recover_checkpoints(run);
  if (o.resume) resume(trainer, run / "checkpoints" / "last");

  const train::TrainConfig& c = trainer.config();
  const auto write_config = [&] {
    train::naming_checkpoint(run, [&] { core::write_file_atomically(run / "config.toml", apps::config_toml(c)); });
  };
  write_config();
  apps::print_dataset(dataset);
  fmt::print(
      "preset {}, family {}: {} layers, {} heads, width {}: {}; windows of {}, batch {}, {} steps, {} "
      "threads\n",
      c.preset, c.model.family, c.model.n_layers, c.model.n_heads, c.model.dim, parameters_of(c.model), c.window,
      c.batch_size * c.accumulation, c.steps, at::get_num_threads());
  if (adapters) {
    fmt::print("adapters of rank {} for {} of each layer: {} parameters are trained, {} stays as it is\n", c.lora_rank,
               c.lora_targets, trainable_parameters(trainer), trainer.state().base);
  }
  fmt::print("run: {}{}\n", run.string(), o.resume ? fmt::format(", resumed at step {}", trainer.state().step) : "");
  if (const std::string why = train::why_not_repeatable(train::name_of(c.device)); !why.empty()) {
    fmt::print(stderr, "note: {}: a resumed run may not repeat the bits of an undisturbed one\n", why);
  }
  if (c.model.family == core::Family::Qwen2 && dataset.tokenizer().kind() == "character") {
    fmt::print(stderr,
               "note: for a qwen2, transformers' AutoTokenizer takes Qwen's own splitting, whatever the files say; "
               "load the tokenizer of these checkpoints with PreTrainedTokenizerFast\n");
  }
  const Baseline baseline = baseline_of(trainer, text, data.summary.n_documents > 1);
  const train::MatrixPeak peak = train::matrix_peak(c.dtype, trainer.device());
  fmt::print("matrix peak: {:.0f} GFLOP/s, of a product of {} x {} in {}\n", 1e-9 * peak.operations_per_s, peak.size,
             peak.size, c.dtype);
  fmt::print("validation loss: {}\n",
             c.eval_batches == 0 && text == nullptr ? "the mean over all answers of the split"
             : c.eval_batches == 0
                 ? fmt::format("the mean over the whole split, in consecutive windows of {}", c.window)
                 : fmt::format("the mean of {} random batches", c.eval_batches));

  apps::watch_interrupt();
  const auto start = std::chrono::steady_clock::now();
  const bool finished = train::run_to_end(trainer, {.run = run,
                                                    .baseline = baseline.loss,
                                                    .baseline_name = baseline.name,
                                                    .operations_per_s = peak.operations_per_s,
                                                    .interrupted = apps::interrupted});
  write_config();  // --minutes sets the number of steps
  if (!finished) return apps::kExitInterrupted;
  const double seconds = core::seconds_since(start);
  const auto& state = trainer.state();
  if (trainer.out_of_patience()) {
    fmt::print("no better validation loss in {} evaluations: the run ends at step {} of {}\n", c.patience, state.step,
               c.steps);
  }
  const std::string summary = summary_of(state, baseline);
  fmt::print("done in {:.1f} s: {}\n", seconds, summary);
  if (text != nullptr) {
    fmt::print("that is {:.4f} bits a byte of the validation text, whatever the tokens are\n",
               state.best_validation_loss / std::numbers::ln2 / apps::bytes_per_token(*text));
  }

  const fs::path exported = run / "checkpoints" / train::name_of(c.exported);
  train::naming_checkpoint(run, [&] {
    core::write_file_atomically(run / "summary.txt", summary + "\n");
    if (adapters) return;
    core::write_gguf_model(run / "model.gguf", core::read_hf_directory(exported), dataset.source().name,
                           dataset.tokenizer().to_gguf());
  });
  if (adapters) {
    print_sample(state.base, exported, dataset.sample_prompt(), text == nullptr);
    return 0;
  }
  if (const std::string lost = core::lost_in_gguf(c.model); !lost.empty()) {
    fmt::print(stderr, "note: {}; checkpoints/{} keeps it, and the programs run it, too\n", lost, c.exported);
  }
  print_sample(run / "model.gguf", {}, dataset.sample_prompt(), text == nullptr);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // then exceeding the file size limit is a write error, like a full disk
  // This parser accepts any arguments; parse_train_options() reads them with all flags.
  CLI::App app("Trains a Llama, or a model of another family, on texts or conversations.", "train");
  app.set_help_flag();
  app.prefix_command();
  apps::TrainOptions options;
  return apps::run_program(app, argc, argv,
                           [&] { return apps::parse_train_options(options, argc, argv) ? run(options) : 0; });
}
