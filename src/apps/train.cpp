// train: trains a Llama, or a model of another family, on a text. Counts a baseline, trains, exports model.gguf, prints
// a sample of the engine.
#include <ATen/Parallel.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>

#include "apps/program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/paths.h"
#include "data/tokenizers/tokenizer_files.h"
#include "infer/engine/generate.h"
#include "train/allocator.h"
#include "train/matrix_peak.h"
#include "train/ngram.h"
#include "train/profile.h"
#include "train/repeatable.h"
#include "train/run.h"
#include "train/run_directory.h"
#include "train/weights.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

struct Options {
  std::string dataset;
  std::optional<std::string> out;
  std::optional<std::string> init;
  std::string dump_batches;
  std::string dump_grads;
  double minutes = 0.0;
  int threads = 0;
  bool profile = false;
  bool resume = false;
  bool force = false;
  train::TrainConfig config;
  std::optional<train::RunChoice> choice;  // with its lock, which a resumed run needs before it reads
};

std::string family_names() {
  std::vector<std::string_view> names;
  for (const core::FamilyInfo& family : core::families()) names.push_back(family.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// From a name to the number of the enum, which the parser reads.
std::string family_by_name(std::string& text) {
  for (const core::FamilyInfo& family : core::families()) {
    if (family.name != text) continue;
    text = std::to_string(static_cast<int>(family.family));
    return {};
  }
  return fmt::format("\"{}\" has to be one of: {}", core::printable(text), family_names());
}

// The flags are bound to `o.config`, which has the values of the preset or the resumed run as defaults.
std::unique_ptr<CLI::App> make_app(Options& o) {
  auto app = std::make_unique<CLI::App>("Trains a Llama, or a model of another family, on a text.", "train");
  app->add_option("dataset", o.dataset, "tinyshakespeare, or a UTF-8 text file")->required();
  app->add_option("--preset", o.config.preset, fmt::format("{}", fmt::join(train::preset_names(), ", ")))
      ->capture_default_str();
  app->set_config("--config", "", "values from a TOML file; flags go before it");
  app->allow_config_extras(CLI::config_extras_mode::error);  // a misspelt key is an error, as a misspelt flag is
  app->add_option("--out", o.out, "run directory (default: runs/DATASET)");
  CLI::Option* init = app->add_option("--init", o.init, "start from this model: its shape, weights and tokenizer");
  app->add_option("--minutes", o.minutes, "train for this many minutes instead of --steps")
      ->check(apps::in_range(0.01, 1e6));
  app->add_option("--threads", o.threads, "threads (default: all cores)")->check(apps::in_range(1, 1024));
  app->add_flag("--profile", o.profile, "print where the time of a step goes, and train no run; bench --train is this");
  app->add_option("--dump-batches", o.dump_batches, "write the first ten steps' batches, a NumPy array");
  app->add_option("--dump-grads", o.dump_grads, "write the first step's gradients, safetensors");
  CLI::Option* resume = app->add_flag("--resume", o.resume, "continue an interrupted run")->excludes(init);
  app->add_flag("--force", o.force, "remove the run in the directory")->excludes(resume);

  core::ModelConfig& m = o.config.model;
  app->add_option("--family", m.family, family_names())
      ->transform(CLI::Validator(family_by_name, ""))
      ->type_name("NAME")
      ->default_str(std::string(core::info(m.family).name))
      ->group("Model");
  const auto shape = [&](const char* flag, int64_t& value, const char* help, double high) {
    app->add_option(flag, value, help)->check(apps::in_range(1, high))->capture_default_str()->group("Model");
  };
  shape("--layers", m.n_layers, "blocks", 1024);
  shape("--heads", m.n_heads, "query heads", 4096);
  shape("--kv-heads", m.n_kv_heads, "key/value heads: fewer than --heads for GQA, 1 for MQA", 4096);
  shape("--dim", m.dim, "width of the residual stream", 1 << 17);
  shape("--head-dim", m.head_dim, "width of a head (default: --dim / --heads)", 1 << 17);
  shape("--hidden-dim", m.hidden_dim, "inner width of SwiGLU", 1 << 20);
  shape("--context", m.context_length, "maximum length of a sequence", 1 << 24);
  app->add_option("--sliding-window", m.sliding_window, "positions that one attends to; 0: all; not for llama")
      ->check(apps::in_range(0, 1 << 24))
      ->capture_default_str()
      ->group("Model");
  app->add_option("--rope-theta", m.rope_theta)->check(apps::in_range(1, 1e9))->capture_default_str()->group("Model");
  app->add_option("--norm-eps", m.norm_eps)->check(apps::in_range(1e-12, 1))->capture_default_str()->group("Model");
  app->add_option("--tie-embeddings", m.tie_embeddings, "true or false")->capture_default_str()->group("Model");

  train::TrainConfig::visit_fields(
      o.config, [&](const std::string& flags, auto& value, const char* help, double low, double high) {
        CLI::Option* option = app->add_option("--" + flags, value, help)->capture_default_str()->group("Training");
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>> &&
                      !std::is_same_v<std::decay_t<decltype(value)>, bool>) {
          option->check(apps::in_range(low, high));
        }
      });
  return app;
}

// Parses twice: the first time to find the preset, model or run whose values are the defaults. False after --help.
bool parse(Options& o, int argc, char** argv) {
  Options first;
  const auto scout = make_app(first);
  try {
    scout->parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", scout->help());
    return false;
  }
  o.config = train::preset(first.config.preset);
  if (first.init) {
    o.config.model = core::read_model(*first.init).config;
    o.config.window = std::min(o.config.window, o.config.model.context_length);
  }
  if (first.resume) {
    o.choice = train::choose_run(data::dataset_name(first.dataset), first.out, true, false);
    const train::TrainerState saved = train::read_trainer_state(o.choice->path / "checkpoints" / "last");
    o.config = saved.config;
    o.minutes = saved.minutes;
    o.threads = static_cast<int>(saved.environment.threads);
  }
  const auto app = make_app(o);
  app->parse(argc, argv);
  if (app->count("--heads") > 0 && app->count("--kv-heads") == 0) o.config.model.n_kv_heads = o.config.model.n_heads;
  core::ModelConfig& m = o.config.model;
  if (app->count("--dim") + app->count("--heads") > 0 && app->count("--head-dim") == 0) {
    if (m.dim % m.n_heads != 0) {
      throw core::UsageError(
          fmt::format("--dim {} is not a multiple of --heads {}; or take --head-dim", m.dim, m.n_heads));
    }
    m.head_dim = m.dim / m.n_heads;
  }
  if (app->count("--context") > 0 && app->count("--window") == 0) {
    o.config.window = std::min(o.config.window, o.config.model.context_length);
  }
  if (app->count("--lr") > 0 && app->count("--min-lr") == 0) o.config.min_lr = std::min(o.config.min_lr, o.config.lr);
  if (o.minutes > 0.0) o.config.warmup_steps = std::max(o.config.warmup_steps, train::kMeasuredSteps);
  return true;
}

std::string config_toml(const train::TrainConfig& c) {
  std::string toml = fmt::format("preset = \"{}\"\n", c.preset);
  const auto line = [&](const std::string& key, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    toml += std::is_same_v<T, std::string> ? fmt::format("{} = \"{}\"\n", key, value)
                                           : fmt::format("{} = {}\n", key, value);
  };
  line("family", std::string(core::info(c.model.family).name));
  line("layers", c.model.n_layers);
  line("heads", c.model.n_heads);
  line("kv-heads", c.model.n_kv_heads);
  line("dim", c.model.dim);
  line("head-dim", c.model.head_dim);
  line("hidden-dim", c.model.hidden_dim);
  line("context", c.model.context_length);
  line("sliding-window", c.model.sliding_window);
  line("rope-theta", c.model.rope_theta);
  line("norm-eps", c.model.norm_eps);
  line("tie-embeddings", c.model.tie_embeddings);
  train::TrainConfig::visit_fields(c, [&](const std::string& flags, const auto& value, auto&&...) {
    line(flags.substr(0, flags.find(',')), value);
  });
  return toml;
}

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

double count_baseline(const train::Dataset& dataset) {
  constexpr int kOrder = 5;
  const auto start = std::chrono::steady_clock::now();
  int32_t tokens = dataset.tokenizer().vocab_size();
  if (dataset.tokenizer().end_of_text() == tokens - 1) --tokens;  // <|endoftext|> stands in no text
  const train::NgramCounts counts(dataset.splits().train, tokens, kOrder);
  const double loss = counts.witten_bell_loss(dataset.splits().validation, kOrder);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("a smoothed {}-gram by counting scores {:.4f} on the validation split ({:.1f} s): the loss to beat\n",
             kOrder, loss, seconds);
  return loss;
}

void resume(train::Trainer& trainer, const fs::path& checkpoint) {
  const std::string device = train::read_trainer_state(checkpoint).config.device;
  trainer.resume(checkpoint);
  std::string change = describe_difference(trainer.state().environment, train::this_environment());
  if (const std::string& now = trainer.config().device; now != device) {
    change += fmt::format("{}device {} -> {}", change.empty() ? "" : ", ", device, now);
  }
  if (change.empty()) return;
  fmt::print(stderr, "note: {} was saved with {}: the run goes on, but its bits may differ\n", checkpoint.string(),
             change);
}

// The tokenizer of the model or the run that this one goes on from; null for the characters of the text.
std::unique_ptr<const data::Tokenizer> given_tokenizer(const Options& o, const data::Corpus& corpus) {
  if (o.init) return data::load_tokenizer(*o.init, o.config.model.vocab_size);
  if (!o.resume) return nullptr;
  const fs::path last = o.choice->path / "checkpoints" / "last";
  auto saved = data::tokenizer_from_hf(last);
  // The characters of a text that was changed are not the saved ones, and resume() says which they are.
  const bool changed = train::read_trainer_state(last).corpus_digest != train::corpus_digest(corpus.text);
  return changed && saved->kind() == "character" ? nullptr : std::move(saved);
}

int profile(const Options& o, const data::Corpus& corpus) {
  constexpr int64_t kSteps = 20;
  if (o.config.device != "cpu") throw core::UsageError("--profile measures a CPU's steps; leave --device out");
  const train::Dataset dataset(corpus, o.config);
  train::Trainer trainer(o.config, dataset);
  const train::TrainConfig& c = trainer.config();
  fmt::print("{} parameters, {} tokens a step, {}, dropout {}, {} threads\n", core::parameter_count(c.model),
             trainer.tokens_per_step(), c.dtype, c.dropout, at::get_num_threads());
  const train::StepProfile profile = train::profile_steps(trainer, kSteps);
  fmt::print("{}", train::to_table(profile, train::matrix_peak(c.dtype, torch::kCPU).operations_per_s));
  return 0;
}

int run(Options& o) {
  train::fix_threads(o.threads);
  train::keep_freed_memory();
  train::validate(o.config);
  const data::Corpus corpus = data::load_corpus(o.dataset);
  if (o.profile) return profile(o, corpus);
  if (!o.choice) o.choice = train::choose_run(corpus.name, o.out, false, o.force);
  const fs::path& run = o.choice->path;
  const train::Dataset dataset(corpus, o.config, given_tokenizer(o, corpus));
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
    train::naming_checkpoint(run, [&] { core::write_file_atomically(run / "config.toml", config_toml(c)); });
  };
  write_config();
  fmt::print("{}: {} training, {} validation tokens, vocabulary {}\n", dataset.name(), dataset.splits().train.size(),
             dataset.splits().validation.size(), dataset.tokenizer().vocab_size());
  fmt::print(
      "preset {}, family {}: {} layers, {} heads, width {}: {} parameters; windows of {}, batch {}, {} steps, {} "
      "threads\n",
      c.preset, c.model.family, c.model.n_layers, c.model.n_heads, c.model.dim, core::parameter_count(c.model),
      c.window, c.batch_size * c.accumulation, c.steps, at::get_num_threads());
  fmt::print("run: {}{}\n", run.string(), o.resume ? fmt::format(", resumed at step {}", trainer.state().step) : "");
  if (const std::string why = train::why_not_repeatable(c.device); !why.empty()) {
    fmt::print(stderr, "note: {}: a resumed run may not repeat the bits of an undisturbed one\n", why);
  }
  if (c.model.family == core::Family::Qwen2 && dataset.tokenizer().kind() == "character") {
    fmt::print(stderr,
               "note: for a qwen2, transformers' AutoTokenizer takes Qwen's own splitting, whatever the files say; "
               "load the tokenizer of these checkpoints with PreTrainedTokenizerFast\n");
  }
  const double baseline = count_baseline(dataset);
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
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto& state = trainer.state();
  if (trainer.out_of_patience()) {
    fmt::print("no better validation loss in {} evaluations: the run ends at step {} of {}\n", c.patience, state.step,
               c.steps);
  }
  fmt::print("done in {:.1f} s: best validation loss {:.4f} at step {}, {:.4f} {} the 5-gram\n", seconds,
             state.best_validation_loss, state.best_step, std::abs(state.best_validation_loss - baseline),
             state.best_validation_loss < baseline ? "below" : "above");

  const fs::path exported = run / "checkpoints" / c.exported;
  train::naming_checkpoint(run, [&] {
    core::write_gguf_model(run / "model.gguf", core::read_hf_directory(exported), dataset.name(),
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
  // This parser accepts any arguments; parse() reads them with all flags.
  CLI::App app("Trains a Llama, or a model of another family, on a text.", "train");
  app.set_help_flag();
  app.prefix_command();
  Options options;
  return apps::run_program(app, argc, argv, [&] { return parse(options, argc, argv) ? run(options) : 0; });
}
