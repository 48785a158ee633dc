#include "apps/train_options.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "apps/program.h"
#include "core/error.h"
#include "core/formats/model_files.h"
#include "data/corpus.h"
#include "train/step/trainer.h"

namespace folio::apps {
namespace {

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

using Values = std::vector<std::pair<std::string, std::string>>;

// All values as in a TOML file, in the order of the flags.
Values values_of(const train::TrainConfig& c) {
  Values values;
  const auto add = [&](const std::string& key, const auto& value) {
    using T = std::decay_t<decltype(value)>;
    values.emplace_back(key, std::is_same_v<T, std::string> ? fmt::format("\"{}\"", value) : fmt::format("{}", value));
  };
  add("family", std::string(core::info(c.model.family).name));
  add("layers", c.model.n_layers);
  add("heads", c.model.n_heads);
  add("kv-heads", c.model.n_kv_heads);
  add("dim", c.model.dim);
  add("head-dim", c.model.head_dim);
  add("hidden-dim", c.model.hidden_dim);
  add("context", c.model.context_length);
  add("sliding-window", c.model.sliding_window);
  add("rope-theta", c.model.rope_theta);
  add("norm-eps", c.model.norm_eps);
  add("tie-embeddings", c.model.tie_embeddings);
  train::TrainConfig::visit_fields(
      c, [&](const std::string& flags, const auto& value, auto&&...) { add(flags.substr(0, flags.find(',')), value); });
  return values;
}

// What differs between the presets, a column for each.
std::string preset_table() {
  std::vector<Values> columns;
  for (const std::string& name : train::preset_names()) columns.push_back(values_of(train::preset(name)));
  std::string table = fmt::format("\n{:24}", "Presets:");
  for (const std::string& name : train::preset_names()) table += fmt::format("  {:>8}", name);
  for (size_t row = 0; row < columns.front().size(); ++row) {
    const auto& [key, value] = columns.front()[row];
    const auto same = [&, &value = value](const Values& column) { return column[row].second == value; };
    if (std::all_of(columns.begin(), columns.end(), same)) continue;
    table += fmt::format("\n  --{:20}", key);
    for (const Values& column : columns) {
      std::string shown = column[row].second;
      std::erase(shown, '"');
      table += fmt::format("  {:>8}", shown);
    }
  }
  return table;
}

// The flags are bound to `o.config`, which has the values of the preset or the resumed run as defaults.
std::unique_ptr<CLI::App> make_app(TrainOptions& o) {
  auto app = std::make_unique<CLI::App>("Trains a Llama, or a model of another family, on a text.", "train");
  app->get_help_ptr()->group("Run");
  app->option_defaults()->group("Run");
  app->add_option("dataset", o.dataset, "tinyshakespeare, or a UTF-8 text file")->required();
  app->add_option("--preset", o.config.preset, fmt::format("{}", fmt::join(train::preset_names(), ", ")))
      ->capture_default_str();
  app->set_config("--config", "", "values from a TOML file; flags go before it");
  app->allow_config_extras(CLI::config_extras_mode::error);  // a misspelt key is an error, as a misspelt flag is
  app->add_option("--out", o.out, "run directory (default: runs/DATASET)");
  CLI::Option* init = app->add_option("--init", o.init, "start from this model: its shape, weights and tokenizer");
  app->add_option("--minutes", o.minutes, "train for this many minutes instead of --steps")->check(in_range(0.01, 1e6));
  app->add_option("--threads", o.threads, "threads (default: all cores)")->check(in_range(1, 1024));
  app->add_flag("--profile", o.profile, "print where the time of a step goes, and train no run; bench --train is this");
  app->add_option("--dump-batches", o.dump_batches, "write the steps' batches, 1,000 at most, a NumPy array");
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
    app->add_option(flag, value, help)->check(in_range(1, high))->capture_default_str()->group("Model");
  };
  shape("--layers", m.n_layers, "blocks", 1024);
  shape("--heads", m.n_heads, "query heads", 4096);
  shape("--kv-heads", m.n_kv_heads, "key/value heads: fewer than --heads for GQA, 1 for MQA", 4096);
  shape("--dim", m.dim, "width of the residual stream", 1 << 17);
  shape("--head-dim", m.head_dim, "width of a head (default: --dim / --heads)", 1 << 17);
  shape("--hidden-dim", m.hidden_dim, "inner width of SwiGLU", 1 << 20);
  shape("--context", m.context_length, "maximum length of a sequence", 1 << 24);
  app->add_option("--sliding-window", m.sliding_window, "positions that one attends to; 0: all; not for llama")
      ->check(in_range(0, 1 << 24))
      ->capture_default_str()
      ->group("Model");
  app->add_option("--rope-theta", m.rope_theta, "base of RoPE's frequencies")
      ->check(in_range(1, 1e9))
      ->capture_default_str()
      ->group("Model");
  app->add_option("--norm-eps", m.norm_eps, "epsilon of the norms")
      ->check(in_range(1e-12, 1))
      ->capture_default_str()
      ->group("Model");
  app->add_option("--tie-embeddings", m.tie_embeddings, "whether the output is the embedding: true or false")
      ->capture_default_str()
      ->group("Model");

  train::TrainConfig::visit_fields(o.config, [&](const std::string& flags, auto& value, const char* group,
                                                 const char* help, double low, double high) {
    CLI::Option* option = app->add_option("--" + flags, value, help)->capture_default_str()->group(group);
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>> &&
                  !std::is_same_v<std::decay_t<decltype(value)>, bool>) {
      option->check(in_range(low, high));
    }
  });
  app->footer(preset_table);
  return app;
}

}  // namespace

// Parses twice: the first time to find the preset, model or run whose values are the defaults.
bool parse_train_options(TrainOptions& o, int argc, char** argv) {
  TrainOptions first;
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
  for (const auto& [key, value] : values_of(c)) toml += fmt::format("{} = {}\n", key, value);
  return toml;
}

}  // namespace folio::apps
