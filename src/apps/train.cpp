// train: trains a Llama, or a model of another family, on a text. Counts a baseline, trains, exports model.gguf, prints
// a sample of the engine.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <numbers>
#include <optional>

#include "apps/program.h"
#include "apps/train_options.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/paths.h"
#include "core/seconds_since.h"
#include "core/thread_pool.h"
#include "data/tokenizers/tokenizer_files.h"
#include "data/tokenizers/training/bpe_trainer.h"
#include "infer/engine/generate.h"
#include "train/report/matrix_peak.h"
#include "train/report/ngram.h"
#include "train/report/profile.h"
#include "train/run/run.h"
#include "train/run/weights.h"
#include "train/step/allocator.h"
#include "train/step/repeatable.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

void print_sample(const fs::path& path) {
  const core::StoredModel model = core::read_model(path);
  const auto tokenizer = data::tokenizer_from_gguf(*model.gguf);
  infer::Cpu cpu;
  infer::Engine engine(model, cpu);
  infer::GenerateOptions options;
  options.max_tokens = std::min<int64_t>(200, model.config.context_length);
  options.sampler.seed = 1;
  const auto result = infer::generate(engine, *tokenizer, tokenizer->default_prompt(), options);
  fmt::print("\na sample by the engine:\n{}\n\nmore: ./generate --model {}\n", result.text, path.string());
}

double count_baseline(const train::TextDataset& dataset, bool several_documents) {
  constexpr int kOrder = 5;
  constexpr size_t kMost = size_t{1} << 23U;  // tokens: a table of more grows beyond a gigabyte
  const auto& [train, validation, test] = dataset.splits();
  const auto start = std::chrono::steady_clock::now();
  int32_t tokens = dataset.tokenizer().vocab_size();
  if (!several_documents && dataset.tokenizer().end_of_text() == tokens - 1) --tokens;  // it stands in no text
  const train::NgramCounts counts(train.first(std::min(kMost, train.size())).to_vector(), tokens, kOrder);
  const double loss = counts.witten_bell_loss(validation.first(std::min(kMost, validation.size())).to_vector(), kOrder);
  const double seconds = core::seconds_since(start);
  fmt::print("a smoothed {}-gram by counting scores {:.4f} on the validation split ({:.1f} s): the loss to beat\n",
             kOrder, loss, seconds);
  return loss;
}

double bytes_per_token(const train::TextDataset& dataset) {
  const data::TokenView tokens = dataset.splits().validation;
  size_t bytes = 0;
  for (const int32_t token : tokens) bytes += dataset.tokenizer().token_bytes(token).size();
  return static_cast<double>(bytes) / static_cast<double>(tokens.size());
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

// What is trained on.
struct Material {
  data::TextFiles texts;
  data::DocumentsSummary summary;
};

Material read_material(const apps::TrainOptions& o) {
  Material material{.texts = data::find_texts(o.datasets, o.field), .summary = {}};
  material.summary = data::summarize(material.texts.documents);
  return material;
}

// The file's, or one whose merges are learned from the part of the text that is trained on.
std::unique_ptr<const data::Tokenizer> chosen_tokenizer(const std::string& name, const Material& material,
                                                        const train::TrainConfig& config) {
  constexpr std::string_view kBpe = "bpe:";
  if (!name.starts_with(kBpe)) return data::load_tokenizer(name, 0);
  data::BpeTrainerOptions options;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kBpe.size(), end, options.vocab_size);
  if (error != std::errc() || stop != end) {
    throw core::UsageError(fmt::format("--tokenizer {}: N of bpe:N is a number of tokens", core::printable(name)));
  }
  const double part = std::clamp(1.0 - config.validation_fraction - config.test_fraction, 0.0, 1.0);
  const auto n_bytes = static_cast<uint64_t>(static_cast<double>(material.summary.n_bytes) * part);
  core::ThreadPool pool;
  const data::WordCounts counts =
      data::count_words(material.texts.documents, n_bytes, data::WordCounts(options.pre_tokenizer), pool);
  return std::make_unique<data::BpeTokenizer>(data::train_bpe(counts, options), material.texts.paths.front());
}

// The tokenizer of the model or the run that this one goes on from, or the one that was asked for; null for the
// characters of the text.
std::unique_ptr<const data::Tokenizer> given_tokenizer(const apps::TrainOptions& o, const Material& material) {
  if (o.init) return data::load_tokenizer(*o.init, o.config.model.vocab_size);
  if (o.tokenizer) return chosen_tokenizer(*o.tokenizer, material, o.config);
  if (!o.resume) return nullptr;
  const fs::path last = o.choice->path / "checkpoints" / "last";
  auto saved = data::tokenizer_from_hf(last);
  // The characters of a text that was changed are not the saved ones, and resume() says which they are.
  const bool changed = train::read_trainer_state(last).corpus_digest != material.summary.digest;
  return changed && saved->kind() == "character" ? nullptr : std::move(saved);
}

train::TextDataset dataset_of(const apps::TrainOptions& o, const Material& material) {
  data::DocumentTokens::Options options{.progress = isatty(STDERR_FILENO) != 0};
  if (o.choice) options.folder = o.choice->path;
  if (!o.tokens_cache.empty()) {
    options.folder = o.tokens_cache;
    options.in_memory = 0;
  }
  return {material.texts, material.summary, o.config, given_tokenizer(o, material), options};
}

int profile(const apps::TrainOptions& o, const Material& material) {
  constexpr int64_t kSteps = 20;
  if (o.config.device != train::DeviceKind::Cpu)
    throw core::UsageError("--profile measures a CPU's steps; leave --device out");
  const train::TextDataset dataset = dataset_of(o, material);
  train::Trainer trainer(o.config, dataset);
  const train::TrainConfig& c = trainer.config();
  fmt::print("{} parameters, {} tokens a step, {}, dropout {}, {} threads\n", core::parameter_count(c.model),
             trainer.tokens_per_step(), c.dtype, c.dropout, at::get_num_threads());
  const train::StepProfile profile = train::profile_steps(trainer, kSteps);
  fmt::print("{}", train::to_table(profile, train::matrix_peak(c.dtype, torch::kCPU).operations_per_s));
  return 0;
}

int run(apps::TrainOptions& o) {
  train::fix_threads(o.threads);
  train::keep_freed_memory();
  train::validate(o.config);
  const Material material = read_material(o);
  if (o.profile) return profile(o, material);
  if (!o.choice) o.choice = train::choose_run(material.texts.name, o.out, false, o.force);
  const fs::path& run = o.choice->path;
  const train::TextDataset dataset = dataset_of(o, material);
  train::Trainer trainer(o.config, dataset);
  trainer.train_for(o.minutes);
  if (o.init) trainer.init_from(*o.init);
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
  fmt::print("{}: {} training, {} validation tokens, vocabulary {}\n", dataset.source().name,
             dataset.splits().train.size(), dataset.splits().validation.size(), dataset.tokenizer().vocab_size());
  fmt::print(
      "preset {}, family {}: {} layers, {} heads, width {}: {} parameters; windows of {}, batch {}, {} steps, {} "
      "threads\n",
      c.preset, c.model.family, c.model.n_layers, c.model.n_heads, c.model.dim, core::parameter_count(c.model),
      c.window, c.batch_size * c.accumulation, c.steps, at::get_num_threads());
  fmt::print("run: {}{}\n", run.string(), o.resume ? fmt::format(", resumed at step {}", trainer.state().step) : "");
  if (const std::string why = train::why_not_repeatable(train::name_of(c.device)); !why.empty()) {
    fmt::print(stderr, "note: {}: a resumed run may not repeat the bits of an undisturbed one\n", why);
  }
  if (c.model.family == core::Family::Qwen2 && dataset.tokenizer().kind() == "character") {
    fmt::print(stderr,
               "note: for a qwen2, transformers' AutoTokenizer takes Qwen's own splitting, whatever the files say; "
               "load the tokenizer of these checkpoints with PreTrainedTokenizerFast\n");
  }
  const double baseline = count_baseline(dataset, material.summary.n_documents > 1);
  const train::MatrixPeak peak = train::matrix_peak(c.dtype, trainer.device());
  fmt::print("matrix peak: {:.0f} GFLOP/s, of a product of {} x {} in {}\n", 1e-9 * peak.operations_per_s, peak.size,
             peak.size, c.dtype);
  fmt::print("validation loss: {}\n",
             c.eval_batches == 0 ? fmt::format("the mean over the whole split, in consecutive windows of {}", c.window)
                                 : fmt::format("the mean of {} random batches", c.eval_batches));

  apps::watch_interrupt();
  const auto start = std::chrono::steady_clock::now();
  const bool finished = train::run_to_end(
      trainer,
      {.run = run, .baseline = baseline, .operations_per_s = peak.operations_per_s, .interrupted = apps::interrupted});
  write_config();  // --minutes sets the number of steps
  if (!finished) return apps::kExitInterrupted;
  const double seconds = core::seconds_since(start);
  const auto& state = trainer.state();
  if (trainer.out_of_patience()) {
    fmt::print("no better validation loss in {} evaluations: the run ends at step {} of {}\n", c.patience, state.step,
               c.steps);
  }
  const std::string summary =
      fmt::format("best validation loss {:.4f} at step {}, {:.4f} {} the {:.4f} of a 5-gram by counting",
                  state.best_validation_loss, state.best_step, std::abs(state.best_validation_loss - baseline),
                  state.best_validation_loss < baseline ? "below" : "above", baseline);
  fmt::print("done in {:.1f} s: {}\n", seconds, summary);
  fmt::print("that is {:.4f} bits a byte of the validation text, whatever the tokens are\n",
             state.best_validation_loss / std::numbers::ln2 / bytes_per_token(dataset));

  const fs::path exported = run / "checkpoints" / train::name_of(c.exported);
  train::naming_checkpoint(run, [&] {
    core::write_file_atomically(run / "summary.txt", summary + "\n");
    core::write_gguf_model(run / "model.gguf", core::read_hf_directory(exported), dataset.source().name,
                           dataset.tokenizer().to_gguf());
  });
  if (const std::string lost = core::lost_in_gguf(c.model); !lost.empty()) {
    fmt::print(stderr, "note: {}; checkpoints/{} keeps it, and the programs run it, too\n", lost, c.exported);
  }
  print_sample(run / "model.gguf");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // then exceeding the file size limit is a write error, like a full disk
  // This parser accepts any arguments; parse_train_options() reads them with all flags.
  CLI::App app("Trains a Llama, or a model of another family, on a text.", "train");
  app.set_help_flag();
  app.prefix_command();
  apps::TrainOptions options;
  return apps::run_program(app, argc, argv,
                           [&] { return apps::parse_train_options(options, argc, argv) ? run(options) : 0; });
}
