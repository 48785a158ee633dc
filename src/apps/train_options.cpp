#include "apps/train_options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "apps/program.h"
#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/formats/model_files.h"
#include "core/print_stderr.h"
#include "data/chat/chat_template.h"
#include "data/corpus.h"
#include "train/run/trainer.h"

namespace folio::apps {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// All values as in a TOML file, in the order of the flags.
Values values_of(const train::TrainConfig& c) {
  Values values;
  const auto add = [&](const char*, const auto& value, const core::ConfigField& field) {
    using T = std::decay_t<decltype(value)>;
    const std::string flags = field.flag;
    if (flags.empty()) return;
    constexpr bool kText = std::is_enum_v<T> || std::is_same_v<T, std::string>;
    values.emplace_back(flags.substr(0, flags.find(',')),
                        kText ? fmt::format("\"{}\"", value) : fmt::format("{}", value));
  };
  core::ModelConfig::visit_fields(c.model, add);
  train::TrainConfig::visit_fields(c, add);
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

// Started by torchrun --no-python --nproc-per-node N, or by hand with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
void add_mesh_flags(Flags& app, train::parallel::MeshFlags& mesh) {
  const auto add = [&](const char* flag, auto& value, double high, const char* help) {
    app.add_option(flag, value, help)->check(in_range(0, high))->group("Ranks")->capture_default_str();
  };
  const auto add_ranks = [&](const char* flag, int64_t& value, const char* help) {
    app.add_option(flag, value, help)->check(in_range(1, 1 << 16))->group("Ranks")->capture_default_str();
  };
  app.add_option("--data-parallel", mesh.data,
                 "ranks with the same weights and other rows of a batch (default: all that are left)")
      ->check(in_range(1, 1 << 16))
      ->group("Ranks");
  add_ranks("--tensor-parallel", mesh.tensor, "ranks that divide heads, hidden numbers and positions");
  add_ranks("--pipeline-parallel", mesh.pipeline, "ranks that divide the layers; batches are those of --accumulation");
  add_ranks("--pipeline-chunks", mesh.pipeline_chunks, "ranges of layers that a rank of a pipeline has");
  add_ranks("--context-parallel", mesh.context, "ranks that divide positions, with keys and values on a ring");
  add_ranks("--expert-parallel", mesh.expert, "ranks that divide the experts, and rows");
  add("--zero", mesh.zero, 3,
      "of data parallel ranks one alone has a parameter's 1: moments, 2: and gradient, 3: and weights");
  app.add_option("--rank-timeout", mesh.timeout, "seconds to wait for another rank")
      ->check(in_range(1, 1e6))
      ->group("Ranks")
      ->capture_default_str();
}

// The flags are bound to `o.config`, which has the values of the preset or the resumed run as defaults.
std::unique_ptr<Flags> make_app(TrainOptions& o) {
  auto app =
      std::make_unique<Flags>("Trains a Llama, or a model of another family, on texts or conversations.", "train");
  app->default_group("Run");
  app->add_option("dataset", o.datasets,
                  "tinyshakespeare; texts: UTF-8 files and folders of them, .jsonl, both as .gz; or conversations: "
                  ".jsonl whose first line has \"messages\" and not the --field")
      ->required();
  app->add_option("--field", o.field, "of lines of JSON, the one with the text")->capture_default_str();
  app->add_option(
      "--tokens-cache", o.tokens_cache,
      "folder for a file of the tokens, to find them again (default: the run directory, for texts of more than 64 MB)");
  app->add_option("--eval", o.eval, "validate on this file or folder instead of a share of the dataset");
  std::string templates;
  for (const std::string& name : data::chat_template_names()) templates += name + ", ";
  app->add_option("--chat-template", o.chat_template,
                  "of conversations: " + templates + "or a file with a Jinja template (default: the model's own)");
  app->add_option("--preset", o.config.preset, fmt::format("{}", fmt::join(train::preset_names(), ", ")))
      ->capture_default_str();
  app->add_config("--config", "values from a TOML file; flags go before it");
  app->add_option("--out", o.out, "run directory (default: runs/DATASET)");
  Flag* init = app->add_option("--init", o.init, "start from this model: its shape, weights and tokenizer");
  app->add_option("--minutes", o.minutes, "train for this many minutes instead of --steps")->check(in_range(0.01, 1e6));
  app->add_option("--epochs", o.epochs, "see the dataset so often, instead of --steps")->check(in_range(0.001, 1e6));
  app->add_option("--threads", o.threads, "threads (default: all cores)")->check(in_range(1, 1024));
  app->add_flag("--profile", o.profile, "print where the time of a step goes, and train no run; bench --train is this");
  app->add_option("--dump-batches", o.dump_batches, "write the steps' batches, 1,000 at most, a NumPy array");
  app->add_option("--dump-grads", o.dump_grads, "write the first step's gradients, safetensors");
  app->add_option("--trace", o.trace, "write the timeline of the 4th to 6th step, JSON for ui.perfetto.dev");
  Flag* resume = app->add_flag("--resume", o.resume, "continue an interrupted run")->excludes(init);
  app->add_option(
         "--tokenizer", o.tokenizer,
         "bpe:N learns N tokens from the text; or a tokenizer.json, or its folder (default: the text's characters)")
      ->excludes(init)
      ->excludes(resume);
  app->add_flag("--force", o.force, "remove the run in the directory")->excludes(resume);
  add_mesh_flags(*app, o.mesh);

  const auto add = [&](const char* group, auto& value, const core::ConfigField& field) {
    const std::string flags = field.flag;
    if (flags.empty()) return;
    using T = std::decay_t<decltype(value)>;
    Flag* option = app->add_option("--" + flags, value, field.help)->group(group);
    if constexpr (std::is_same_v<T, core::Family>) {
      std::vector<std::pair<std::string, int>> names;
      for (const core::FamilyInfo& f : core::families()) names.emplace_back(f.name, static_cast<int>(f.family));
      std::string all;
      for (const auto& [name, number] : names) all += (all.empty() ? "" : ", ") + name;
      option->description(all)->transform(by_name(names))->type_name("NAME");
      option->default_str(std::string(core::info(value).name));
    } else if constexpr (train::Choice<T>) {
      std::vector<std::pair<std::string, int>> names;
      for (const std::string_view name : train::kNames<T>) names.emplace_back(name, static_cast<int>(names.size()));
      option->transform(by_name(names))->type_name(fmt::format("{}", fmt::join(train::kNames<T>, "|")));
      option->default_str(std::string(train::name_of(value)));
    } else {
      option->capture_default_str();
    }
    if (field.low != field.high) option->check(in_range(field.low, field.high));
  };
  core::ModelConfig::visit_fields(
      o.config.model, [&](const char*, auto& value, const core::ConfigField& field) { add("Model", value, field); });
  train::TrainConfig::visit_fields(o.config, add);
  app->add_option("--shared-experts", o.shared_experts, "experts that all tokens take, as wide as the others")
      ->check(in_range(1, 1 << 10))
      ->group("Experts");
  app->footer(preset_table);
  return app;
}

// A flag that says nothing beside the value of another one. A preset and a config.toml have a value for everything, so
// only what was typed counts.
void refuse_idle_flags(const TrainOptions& o, int argc, char** argv) {
  const train::TrainConfig& c = o.config;
  const auto refuse = [&](const std::string& flag, bool idle, const std::string& other, const std::string& remedy) {
    const bool typed = std::any_of(argv, argv + argc, [&](const std::string& argument) {
      return argument == flag || argument.starts_with(flag + "=");
    });
    if (idle && typed) {
      throw core::UsageError(fmt::format("{} changes nothing with {}; leave it out, or take {}", flag, other, remedy));
    }
  };
  using train::ScheduleKind;
  const std::string schedule = fmt::format("--schedule {}", c.schedule);
  const std::string optimizer = fmt::format("--optimizer {}", c.optimizer);
  refuse("--momentum", c.optimizer != train::OptimizerKind::Muon, optimizer, "--optimizer muon");
  for (const char* of_galore : {"--rank", "--galore-every", "--galore-scale"}) {
    refuse(of_galore, c.optimizer != train::OptimizerKind::GaLore, optimizer, "--optimizer galore");
  }
  for (const char* of_lora : {"--lora-alpha", "--lora-targets", "--lora-dropout"}) {
    refuse(of_lora, c.lora_rank == 0, "--lora-rank 0", "a larger --lora-rank");
  }
  for (const char* of_experts :
       {"--experts-per-token", "--expert-dim", "--shared-experts", "--shared-dim", "--dense-layers", "--expert-groups",
        "--groups-per-token", "--normalize-routes", "--route-scale", "--balance", "--balance-rate"}) {
    refuse(of_experts, c.model.n_experts == 0, "--experts 0", "more --experts");
  }
  refuse("--shared-experts", c.model.shared_dim != o.shared_experts * c.model.expert_dim, "--shared-dim", "it alone");
  refuse("--decay-fraction", c.schedule != ScheduleKind::Wsd, schedule, "--schedule wsd");
  refuse("--min-lr", c.schedule == ScheduleKind::Constant, schedule, "--schedule cosine");
  refuse("--recompute", c.recompute && !c.fused, "--fused false", "--fused true");
  for (const char* steps : {"--steps", "--max-iters", "--epochs"}) {
    refuse(steps, o.minutes > 0.0, "--minutes", "it alone");
  }
  for (const char* steps : {"--steps", "--max-iters"}) refuse(steps, o.epochs > 0.0, "--epochs", "it alone");
  refuse("--validation-fraction", !o.eval.empty(), "--eval", "it alone");
  const bool scaled = c.model.rope_scaling.active();
  for (const char* scaling : {"--rope-scaling-low", "--rope-scaling-high", "--rope-scaling-context"}) {
    refuse(scaling, !scaled, "--rope-scaling 1", "a larger --rope-scaling");
  }
}

}  // namespace

// What follows from the flags that were given: widths, and without --family the family that has these parts.
void complete_experts(TrainOptions& o, const Flags& app) {
  train::TrainConfig& c = o.config;
  core::ModelConfig& m = c.model;
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  if (m.n_experts == 0 || o.resume) return;
  if (m.experts_per_token == 0) m.experts_per_token = std::min<int64_t>(2, m.n_experts);
  // As much work as one network is, in whole multiples of 8: transformers' grouped products want rows of 16 bytes.
  constexpr int64_t kMultiple = 8;
  if (m.expert_dim == 0) {
    const int64_t width = m.hidden_dim / (m.experts_per_token + o.shared_experts);
    m.expert_dim = std::max(kMultiple, width / kMultiple * kMultiple);
  }
  if (given("--shared-experts") && !given("--shared-dim")) m.shared_dim = o.shared_experts * m.expert_dim;

  if (!given("--family") && !o.init) {
    const bool bias = c.balance == train::Balance::Bias;
    const auto has_parts = [&](const core::FamilyInfo& f) {
      if (f.mixture.none || f.mixture.selection_bias != bias) return false;
      return bias || f.mixture.shared_gate == (m.shared_dim > 0);
    };
    m.family = std::ranges::find_if(core::families(), has_parts)->family;
  } else if (!given("--balance")) {
    c.balance = core::info(m.family).mixture.selection_bias ? train::Balance::Bias : train::Balance::Loss;
  }
  if (o.init) return;
  const core::FamilyInfo& family = core::info(m.family);
  if (!given("--normalize-routes")) m.normalize_routes = family.mixture.normalizes;
  if (family.hf.expert_dim == "intermediate_size") m.hidden_dim = m.expert_dim;  // its files have one width
}

// Numbers of a family that have no flags. The caps are those of Gemma 2.
void complete_family(core::ModelConfig& m) {
  const core::FamilyInfo& family = core::info(m.family);
  if (family.scales == core::FileScales::Gemma) m.embedding_scale = std::sqrt(static_cast<float>(m.dim));
  if (family.caps) {
    m.attention_cap = 50.0F;
    m.logit_cap = 30.0F;
  }
  m.window_period = family.window_period;
  m.local_rope_theta = family.local_theta;
  if (family.hf.rotary_factor == 1.0F) return;
  m.rope_dims = static_cast<int64_t>(static_cast<float>(m.head_dim) * family.hf.rotary_factor) / 2 * 2;
}

namespace {

// torchrun --max-restarts starts all ranks anew after one has ended: then the run goes on, if it has a checkpoint.
bool goes_on_by_itself(const TrainOptions& first, train::parallel::Session& session, const std::string& name) {
  if (session.launch().attempt == 0) return false;
  return session.from_first("goes on", [&]() -> std::string {
    const std::filesystem::path run = train::run_path(name, first.out, false);
    return core::path_exists(run / "checkpoints" / "last") ? "yes" : "no";
  }) == "yes";
}

void find_ranks(TrainOptions& o, TrainOptions& first) {
  using namespace train::parallel;
  const std::optional<Launch> launch = launch_from_environment();
  if (!launch || launch->n_ranks == 1) {
    static_cast<void>(mesh_of(first.mesh, 1));
    return;
  }
  o.session = std::make_unique<Session>(*launch, first.mesh, [](const std::string& why) { end_rank(why, 1); });
  if (!o.session->is_first() && std::freopen("/dev/null", "w", stdout) == nullptr) core::fail("cannot open /dev/null");
  const std::string name = data::dataset_name(first.datasets.front());
  if (!first.resume && goes_on_by_itself(first, *o.session, name)) first.resume = o.restarted = true;
}

}  // namespace

// Parses twice: the first time to find the preset, model or run whose values are the defaults.
bool parse_train_options(TrainOptions& o, int argc, char** argv) {
  TrainOptions first;
  const auto scout = make_app(first);
  if (!scout->parse(argc, argv)) return false;
  const bool adapters = first.config.lora_rank > 0 && scout->count("--preset") == 0;
  o.config = train::preset(adapters ? "lora" : first.config.preset);
  if (first.init) {
    o.config.model = core::read_model(*first.init).config;
    o.config.window = std::min(o.config.window, o.config.model.context_length);
  }
  find_ranks(o, first);
  if (first.resume) {
    const std::string name = data::dataset_name(first.datasets.front());
    o.out = first.out;
    o.resume = true;
    choose_run(o, name);
    const train::TrainerState saved = train::read_trainer_state(o.choice->path / "checkpoints" / "last");
    o.config = saved.config;
    o.minutes = saved.minutes;
    o.eval = saved.corpus_eval;
    if (!saved.base.empty()) o.init = saved.base;
    if (!o.session) o.threads = static_cast<int>(saved.environment.threads);
  }
  const auto app = make_app(o);
  static_cast<void>(app->parse(argc, argv));
  if (o.restarted) {
    o.force = false;
    o.tokenizer.reset();  // the checkpoint's is taken
  }
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
  complete_experts(o, *app);
  if (!o.init && !o.resume) complete_family(m);
  if (o.config.lora_rank > 0 && !o.init && !o.resume) {
    throw core::UsageError("--lora-rank trains adapters for a model; name it with --init");
  }
  refuse_idle_flags(o, argc, argv);
  if (o.minutes > 0.0) o.config.warmup_steps = std::max(o.config.warmup_steps, train::kMeasuredSteps);
  return true;
}

void end_rank(const std::string& why, int code) {
  core::print_stderr("train: {}\n", why.substr(0, why.find('\n')));
  std::fflush(nullptr);
  std::_Exit(code);
}

void choose_run(TrainOptions& o, const std::string& dataset) {
  const bool force = o.force && !o.resume;
  if (!o.session) {
    o.choice = train::choose_run(dataset, o.out, o.resume, force);
    return;
  }
  const std::string path = o.session->from_first("run", [&] {
    o.choice = train::choose_run(dataset, o.out, o.resume, force);
    return o.choice->path.string();
  });
  if (!o.session->is_first()) o.choice = train::RunChoice{.path = path, .resume = o.resume, .force = force, .lock = {}};
}

std::string flags_of(const TrainOptions& o) {
  const train::parallel::MeshFlags& m = o.mesh;
  return config_toml(o.config) +
         fmt::format(
             "minutes = {}\nepochs = {}\nresume = {}\ndata-parallel = {}\ntensor-parallel = {}\n"
             "pipeline-parallel = {}\npipeline-chunks = {}\ncontext-parallel = {}\nexpert-parallel = {}\n"
             "zero = {}\n",
             o.minutes, o.epochs, o.resume, m.data, m.tensor, m.pipeline, m.pipeline_chunks, m.context, m.expert,
             m.zero);
}

namespace {

// The lines "key = value" of a TOML file as config_toml() writes it.
Values values_in(const std::string& toml) {
  Values values;
  std::istringstream lines(toml);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string::npos) continue;
    const auto trimmed = [](std::string text) {
      text.erase(text.find_last_not_of(" \t\r") + 1);
      return text.erase(0, std::min(text.find_first_not_of(" \t"), text.size()));
    };
    values.emplace_back(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));
  }
  return values;
}

bool same_value(const std::string& a, const std::string& b) {
  const auto number = signed_number_of<double>(a);
  return a == b || (number && number == signed_number_of<double>(b));
}

}  // namespace

std::string edited_values(const std::filesystem::path& file, const train::TrainerState& saved,
                          const train::TrainConfig& now) {
  if (!core::path_exists(file)) return "";
  const Values in_checkpoint = values_in(config_toml(saved.config));
  const Values in_use = values_in(config_toml(now));
  const auto has = [](const Values& values, const auto& entry) {
    return std::ranges::any_of(values, [&](const auto& other) {
      return other.first == entry.first && same_value(other.second, entry.second);
    });
  };
  std::string edited;
  for (const auto& entry : values_in(core::read_text_file(file, size_t{1} << 20U))) {
    if (entry.first == "steps" && saved.minutes > 0.0) continue;  // which --minutes sets
    if (has(in_checkpoint, entry) || has(in_use, entry)) continue;
    edited += fmt::format("{}{} = {}", edited.empty() ? "" : ", ", core::printable(entry.first),
                          core::printable(entry.second));
  }
  return edited;
}

std::string config_toml(const train::TrainConfig& c) {
  std::string toml = fmt::format("preset = \"{}\"\n", c.preset);
  for (const auto& [key, value] : values_of(c)) toml += fmt::format("{} = {}\n", key, value);
  return toml;
}

}  // namespace folio::apps
