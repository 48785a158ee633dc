// train: trains a Llama, or a model of another family, on texts or conversations. Measures a baseline, trains, exports
// model.gguf or an adapter, prints a sample of the engine.
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
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
#include "core/print_stderr.h"
#include "core/seconds_since.h"
#include "data/tokenizers/tokenizer_files.h"
#include "train/profile/profile.h"
#include "train/profile/rank_costs.h"
#include "train/profile/step_trace.h"
#include "train/report/matrix_peak.h"
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

void resume(train::Trainer& trainer, const fs::path& run, bool is_first_rank) {
  const fs::path checkpoint = run / "checkpoints" / "last";
  const train::TrainerState saved = train::read_trainer_state(checkpoint);
  const train::DeviceKind device = saved.config.device;
  trainer.resume(checkpoint);
  const fs::path file = run / "config.toml";
  if (const std::string ignored = apps::edited_values(file, saved, trainer.config());
      is_first_rank && !ignored.empty()) {
    core::print_stderr(
        "note: --resume takes the values of the checkpoint and ignores those of {}: {}; for others, start anew\n",
        file.string(), ignored);
  }
  std::string change = describe_difference(trainer.state().environment, train::this_environment());
  if (const train::DeviceKind now = trainer.config().device; now != device) {
    change += fmt::format("{}device {} -> {}", change.empty() ? "" : ", ", device, now);
  }
  if (change.empty()) return;
  core::print_stderr("note: {} was saved with {}: the run goes on, but its bits may differ\n", checkpoint.string(),
                     change);
}

// Ranks of one host share its cores.
int threads_of(const apps::TrainOptions& o) {
  if (o.threads > 0 || !o.session || std::getenv("OMP_NUM_THREADS") != nullptr) return o.threads;
  return std::max(1, at::get_num_threads() / static_cast<int>(o.session->launch().n_on_host));
}

std::function<void(int64_t, bool)> note_of(const apps::TrainOptions& o, train::StepTrace* trace) {
  return [session = o.session.get(), trace](int64_t step, bool in_step) {
    if (session != nullptr) session->roll_call().note(step, in_step);
    if (trace != nullptr) in_step ? trace->step_begins() : trace->step_ended();
  };
}

std::function<std::string(const std::exception&)> explain_of(const apps::TrainOptions& o) {
  if (!o.session) return {};
  return [&session = *o.session](const std::exception& error) { return session.roll_call().explain(error); };
}

train::parallel::RankOptions rank_options(const apps::TrainOptions& o) {
  return {.zero = o.mesh.zero,
          .pipeline_chunks = o.mesh.pipeline_chunks,
          .device = train::device_of(o.config, o.session->launch().on_host)};
}

std::unique_ptr<train::Trainer> make_trainer(apps::TrainOptions& o, const train::Dataset& dataset) {
  if (!o.session) return std::make_unique<train::Trainer>(o.config, dataset, o.init.value_or(""));
  o.session->require_same("flags", apps::flags_of(o));
  o.session->require_same("data",
                          fmt::format("text of {} bytes, digest {}\nvocabulary of {} tokens", dataset.source().bytes,
                                      dataset.source().digest, dataset.tokenizer().vocab_size()));
  return std::make_unique<train::Trainer>(o.config, dataset, o.init.value_or(""), &o.session->world(), rank_options(o));
}

int profile(apps::TrainOptions& o, const apps::TrainData& data) {
  constexpr int64_t kSteps = 20;
  if (o.config.device != train::DeviceKind::Cpu)
    throw core::UsageError("--profile measures a CPU's steps; leave --device out");
  const auto dataset = apps::make_dataset(o, data);
  std::optional<train::MemoryUse> memory;  // from before there is a parameter
  if (o.session) memory.emplace();
  const auto trainer = make_trainer(o, *dataset);
  const train::TrainConfig& c = trainer->config();
  fmt::print("{}, {} tokens a step, {}, dropout {}, {} threads\n", parameters_of(c.model), trainer->tokens_per_step(),
             c.dtype, c.dropout, at::get_num_threads());
  if (memory) {
    fmt::print("{}", train::measure_rank_costs(*trainer, *memory, rank_options(o)));
    memory.reset();  // it takes time
  }
  const train::StepProfile profile = train::profile_steps(*trainer, kSteps);
  fmt::print("{}", train::to_table(profile, train::matrix_peak(c.dtype, torch::kCPU).operations_per_s));
  return 0;
}

int run(apps::TrainOptions& o) {
  train::fix_threads(threads_of(o));
  train::keep_freed_memory();
  train::validate(o.config);
  const apps::TrainData data = apps::read_data(o);
  if (o.profile) return profile(o, data);
  if (!o.choice) apps::choose_run(o, data.texts.name);
  const fs::path& run = o.choice->path;
  const auto owned = apps::make_dataset(o, data);
  const train::Dataset& dataset = *owned;
  const train::TextDataset* text = apps::as_text(dataset);  // null: conversations
  if (o.epochs > 0.0) o.config.steps = steps_of(o, dataset);
  const bool adapters = o.config.lora_rank > 0;
  const std::unique_ptr<train::Trainer> made = make_trainer(o, dataset);
  train::Trainer& trainer = *made;
  trainer.train_for(o.minutes);
  if (o.init && !adapters) trainer.init_from(*o.init);
  trainer.dump(o.dump_batches, o.dump_grads);
  std::optional<train::StepTrace> trace;
  if (!o.trace.empty()) trace.emplace(o.trace, o.session ? &o.session->world() : nullptr);
  // Nothing was written or removed before, so an error above leaves an earlier run as it was.
  const bool first = o.is_first_rank();  // of several, the one that writes
  if (first) {
    train::prepare_run(*o.choice);
    train::recover_checkpoints(run);
  }
  if (o.session) o.session->world().everyone().meet();
  if (o.resume) resume(trainer, run, first);

  const train::TrainConfig& c = trainer.config();
  const auto write_config = [&] {
    if (!first) return;
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
  if (o.session) fmt::print("mesh: {}\n", train::parallel::to_string(o.session->world().mesh().shape()));
  fmt::print("run: {}{}\n", run.string(), o.resume ? fmt::format(", resumed at step {}", trainer.state().step) : "");
  if (const std::string why = train::why_not_repeatable(train::name_of(c.device)); first && !why.empty()) {
    core::print_stderr("note: {}: a resumed run may not repeat the bits of an undisturbed one\n", why);
  }
  if (first && c.model.family == core::Family::Qwen2 && dataset.tokenizer().kind() == "character") {
    core::print_stderr(
        "note: for a qwen2, transformers' AutoTokenizer takes Qwen's own splitting, whatever the files say; "
        "load the tokenizer of these checkpoints with PreTrainedTokenizerFast\n");
  }
  const Baseline baseline = baseline_of(trainer, text, data.summary.n_documents > 1);
  const train::MatrixPeak peak = train::matrix_peak(c.dtype, trainer.device());
  const double n_ranks = o.session ? static_cast<double>(o.session->launch().n_ranks) : 1.0;
  fmt::print("matrix peak{}: {:.0f} GFLOP/s, of a product of {} x {} in {}\n", o.session ? " of a rank" : "",
             1e-9 * peak.operations_per_s, peak.size, peak.size, c.dtype);
  fmt::print("validation loss: {}\n",
             c.eval_batches == 0 && text == nullptr ? "the mean over all answers of the split"
             : c.eval_batches == 0
                 ? fmt::format("the mean over the whole split, in consecutive windows of {}", c.window)
                 : fmt::format("the mean of {} random batches", c.eval_batches));

  apps::watch_signals();
  const auto start = std::chrono::steady_clock::now();
  const bool finished = train::run_to_end(trainer, {.run = run,
                                                    .baseline = baseline.loss,
                                                    .baseline_name = baseline.name,
                                                    .operations_per_s = n_ranks * peak.operations_per_s,
                                                    .interrupted = apps::interrupted,
                                                    .note = note_of(o, trace ? &*trace : nullptr),
                                                    .explain = explain_of(o)});
  if (finished) apps::end_on_signals();  // what follows is repeated by --resume
  write_config();                        // --minutes sets the number of steps
  if (first && trace && !trace->is_written())
    core::print_stderr("note: there were fewer than {} steps, so --trace has written nothing\n",
                       train::StepTrace::kLast);
  if (!finished) return apps::interrupted_code();
  if (!first) return 0;
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
    core::print_stderr("note: {}; checkpoints/{} keeps it, and the programs run it, too\n", lost, c.exported);
  }
  print_sample(run / "model.gguf", {}, dataset.sample_prompt(), text == nullptr);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  // This parser accepts any arguments; parse_train_options() reads them with all flags.
  apps::Flags app("Trains a Llama, or a model of another family, on texts or conversations.", "train");
  app.take_anything();
  apps::TrainOptions options;
  return apps::run_program(app, argc, argv, [&] {
    try {
      const int code = apps::parse_train_options(options, argc, argv) ? run(options) : 0;
      if (options.session) options.session->roll_call().leave();
      return code;
    } catch (const std::exception& error) {
      if (!options.session) throw;
      // At once: destructors would wait for ranks that are gone.
      apps::end_rank(options.session->roll_call().explain(error),
                     dynamic_cast<const core::UsageError*>(&error) != nullptr ? 2 : 1);
    }
  });
}
