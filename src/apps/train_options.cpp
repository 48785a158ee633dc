#include "apps/train_options.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <ranges>
#include <utility>

#include "apps/program.h"
#include "core/error.h"
#include "core/file_status.h"
#include "core/formats/family_files.h"
#include "core/formats/model_files.h"
#include "core/print_stderr.h"
#include "data/chat/chat_template.h"
#include "data/corpus.h"
#include "train/run/trainer.h"

namespace folio::apps {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// Returns (flag name, TOML value) of each setting in `c` that has a flag. `most` selects settings: InFiles those
// in config.toml, ByRanks also those that must be equal on all ranks, ByProcess all.
Values values_of(const train::TrainConfig& c, train::Kept most = train::Kept::InFiles) {
  Values values;
  const auto add = [&](const auto& value, const core::ConfigField& field) {
    using T = std::decay_t<decltype(value)>;
    const std::string flags = field.flag;
    if (flags.empty()) return;
    const bool is_number = std::is_arithmetic_v<T>;
    values.emplace_back(flags.substr(0, flags.find(',')),
                        is_number ? fmt::format("{}", value) : nlohmann::ordered_json(value).dump());
  };
  core::ModelConfig::visit_fields(c.model, [&](auto&&, const auto& value, const auto& field) { add(value, field); });
  train::TrainConfig::visit_fields(c, [&](auto&&, const auto& value, const train::TrainField& field) {
    if (field.kept <= most) add(value, field);
  });
  return values;
}

// Returns a table for --help of the values in which the presets differ, with a column per preset.
std::string preset_table() {
  std::vector<Values> columns;
  std::string table = fmt::format("{:24}", "Presets:");
  for (const std::string& name : train::preset_names()) {
    columns.push_back(values_of(train::preset(name)));
    table += fmt::format("  {:>8}", name);
  }
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

template <class T>
void add_field(Flags& app, const char* group, T& value, const core::ConfigField& field) {
  const std::string flags = field.flag;
  if (flags.empty()) return;
  app.group(group);
  if constexpr (std::is_enum_v<T>) {
    std::vector<std::pair<std::string, int>> names;
    const auto add = [&](std::string_view name) { names.emplace_back(name, static_cast<int>(names.size())); };
    std::string help = field.help, type = "NAME";
    if constexpr (train::Choice<T>) {
      std::ranges::for_each(names_of(value), add);
      type = fmt::format("{}", fmt::join(names_of(value), "|"));
    } else {
      std::ranges::for_each(core::families(), add, &core::FamilyInfo::name);
      help = fmt::format("model family: {}", fmt::join(std::views::keys(names), ", "));
    }
    app.add_option(fmt::format("--{} {}", flags, type), value, help)
        ->by_name(names)
        ->default_str(fmt::format("{}", value));
  } else {
    Flag* option = app.add_option("--" + flags, value, field.help);
    if (field.low != field.high) option->in_range(field.low, field.high);
  }
}

}  // namespace

std::unique_ptr<Flags> train_flags(TrainOptions& o) {
  auto app = std::make_unique<Flags>("Train or fine-tune a language model on texts or conversations.", "train");
  app->default_group("General");
  app->add_option("dataset", o.datasets,
                  "tinyshakespeare, or files and directories: UTF-8 text, .jsonl, or either as .gz; conversations are "
                  ".jsonl files whose first line has \"messages\" but not --field")
      ->required();
  app->add_option("--preset NAME", o.config.preset,
                  fmt::format("set of defaults: {}; see below", fmt::join(train::preset_names(), ", ")));
  app->add_config("--config FILE", "TOML file with values of flags; the command line has precedence");

  app->group("Data");
  app->add_option("--field NAME", o.field, "JSON field with the text, for .jsonl files");
  app->add_option("--tokens-cache DIR", o.tokens_cache,
                  "directory for tokenized data (default: the run directory, for more than 64 MB of text)");
  app->add_option("--eval PATH", o.eval, "file or directory to validate on (default: a fraction of the dataset)");
  app->add_option("--chat-template NAME|FILE", o.chat_template,
                  fmt::format("chat template for conversations: {}, or a Jinja file (default: the model's)",
                              fmt::join(data::chat_template_names(), ", ")));
  app->add_option("--tokenizer bpe:N|PATH", o.tokenizer,
                  "bpe:N to learn N tokens from the text, or a tokenizer.json or its directory "
                  "(default: the characters of the text)");

  app->group("Run");
  app->add_option("--out DIR", o.out, "run directory (default: runs/DATASET)");
  app->add_option("--init PATH", o.init, "model to start from: its shape, weights and tokenizer")
      ->excludes("--tokenizer");
  app->add_flag("--resume", o.resume, "continue an interrupted run")->excludes("--init")->excludes("--tokenizer");
  app->add_flag("--force", o.force, "replace an existing run in the directory")->excludes("--resume");

  const auto add_fields = [&](bool of_ranks) {  // adds the group Parallelism if true, otherwise all other groups
    train::TrainConfig::visit_fields(o.config, [&](const char* group, auto& value, const train::TrainField& field) {
      if ((std::string_view(group) == "Parallelism") == of_ranks) add_field(*app, group, value, field);
    });
  };
  core::ModelConfig::visit_fields(o.config.model, [&](const char*, auto& value, const core::ConfigField& field) {
    add_field(*app, "Model", value, field);
  });
  add_fields(false);
  add_fields(true);

  app->group("Diagnostics");
  app->add_flag("--profile", o.profile, "profile a training step and exit, like bench --train");
  app->add_option("--trace FILE", o.trace, "write a timeline of steps 4 to 6, JSON for ui.perfetto.dev");
  app->add_option("--dump-batches FILE", o.dump_batches, "write the batches of the first 1,000 steps as a NumPy array");
  app->add_option("--dump-grads FILE", o.dump_grads, "write the first step's gradients as safetensors");
  app->footer(preset_table);
  return app;
}

namespace {

// Sets values whose flags were not given to match related flags: the number of KV heads to --heads, for example.
void complete_shape(TrainOptions& o) {
  train::TrainConfig& c = o.config;
  core::ModelConfig& m = c.model;
  const auto& given = o.request.given;
  if (given("--heads") && !given("--kv-heads")) m.n_kv_heads = m.n_heads;
  if ((given("--dim") || given("--heads")) && !given("--head-dim")) {
    if (m.dim % m.n_heads != 0) {
      const bool whole_heads = core::info(m.family).latent || core::hf_family(m.family).whole_heads;
      throw core::UsageError(fmt::format("--dim is {}, expected a multiple of --heads {}{}", m.dim, m.n_heads,
                                         whole_heads ? "" : "; or give --head-dim"));
    }
    if (!core::info(m.family).latent) m.head_dim = m.dim / m.n_heads;
  }
  if (given("--context") && !given("--window")) c.window = std::min(c.window, m.context_length);
  if (given("--lr") && !given("--min-lr")) c.min_lr = std::min(c.min_lr, c.lr);
}

// Derives unset dimensions of latent attention in the ratios of DeepSeek-V3: dim / n_heads for values and for the part
// of a key without RoPE, half of that for the part with RoPE, and dim / 4 for the latent. All norms use the epsilon of
// the latent's norm, since a GGUF stores only one.
void complete_latent(TrainOptions& o) {
  core::ModelConfig& m = o.config.model;
  const auto& given = o.request.given;
  if (!core::info(m.family).latent || o.resume || o.init) return;
  const int64_t width = std::max<int64_t>(2, m.dim / m.n_heads);
  if (!given("--kv-lora-rank")) m.kv_lora_rank = std::max<int64_t>(1, m.dim / 4);
  if (!given("--qk-nope-head-dim")) m.qk_nope_head_dim = width;
  if (!given("--qk-rope-head-dim")) m.qk_rope_head_dim = std::max<int64_t>(2, width / 4 * 2);
  if (!given("--v-head-dim")) m.v_head_dim = width;
  if (!given("--norm-eps")) m.norm_eps = core::kLatentNormEps;
  m.n_kv_heads = m.n_heads;
  m.head_dim = m.qk_nope_head_dim + m.qk_rope_head_dim;
}

// Derives the experts' dimensions. Without --family, selects a family that supports --balance and shared experts.
void complete_experts(TrainOptions& o) {
  train::TrainConfig& c = o.config;
  core::ModelConfig& m = c.model;
  const auto& given = o.request.given;
  if (m.n_experts == 0) return;
  if (o.resume) {  // a checkpoint has all values, but --hidden-dim may be repeated
    if (!core::info(m.family).mixture.own_width) m.hidden_dim = m.expert_dim;
    return;
  }
  if (m.experts_per_token == 0) m.experts_per_token = std::min<int64_t>(2, m.n_experts);
  // By default, a token's experts together have the width of the dense network. Widths are multiples of 8, because
  // transformers' grouped matrix products require rows that are multiples of 16 bytes.
  constexpr int64_t kMultiple = 8;
  const bool derives_width = m.expert_dim == 0;
  if (derives_width) {
    const int64_t width = m.hidden_dim / (m.experts_per_token + c.shared_experts);
    m.expert_dim = std::max(kMultiple, width / kMultiple * kMultiple);
  }
  if (given("--shared-experts") && !given("--shared-dim")) m.shared_dim = c.shared_experts * m.expert_dim;

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
  if (family.mixture.own_width) return;
  if (!derives_width && m.hidden_dim != m.expert_dim && o.request.typed("--hidden-dim")) {
    throw core::UsageError(fmt::format("--hidden-dim has no effect with --expert-dim {} in the family {}; remove it",
                                       m.expert_dim, family.name));
  }
  m.hidden_dim = m.expert_dim;  // the family's files store only one width
}

// Sets values that the family determines and that have no flags. The soft caps have the values of Gemma 2.
void complete_family(core::ModelConfig& m) {
  const core::FamilyInfo& family = core::info(m.family);
  if (family.scales == core::Scales::Gemma) m.embedding_scale = std::sqrt(static_cast<float>(m.dim));
  if (family.caps) {
    m.attention_cap = 50.0F;
    m.logit_cap = 30.0F;
  }
  m.window_period = family.window_period;
  m.local_rope_theta = family.local_theta;
  if (family.rotary_factor == 1.0F) return;
  m.rope_dims = static_cast<int64_t>(static_cast<float>(m.head_dim) * family.rotary_factor) / 2 * 2;
}

// Chooses the run directory. With several ranks, rank 0 chooses for all of them.
void choose_run(TrainOptions& o, const std::string& dataset) {
  const bool force = o.force && !o.resume;
  const std::string path = o.session->from_first("run", [&] {
    o.choice = train::choose_run(dataset, o.out, o.resume, force);
    return o.choice->path.string();
  });
  if (!o.choice) o.choice = train::RunChoice{.path = path, .resume = o.resume, .force = force, .lock = {}};
}

void find_ranks(TrainOptions& o, const train::MeshFlags& mesh) {
  const auto launch = train::parallel::launch_from_environment();
  o.session = std::make_unique<train::parallel::RankSession>(launch.value_or(train::parallel::Launch{}), mesh,
                                                             [](const std::string& why) { end_rank(why, 1); });
  if (!o.session->is_first() && std::freopen("/dev/null", "w", stdout) == nullptr) core::fail("cannot open /dev/null");
}

// Returns true if torchrun --max-restarts has restarted the ranks and the run has a checkpoint to continue from.
bool resumes_automatically(const TrainOptions& first, train::parallel::RankSession& session,
                           const std::string& dataset) {
  if (session.launch().attempt == 0 || first.resume) return false;
  return session.from_first("continues", [&]() -> std::string {
    const std::filesystem::path run = train::run_path(dataset, first.out, false);
    return core::path_exists(run / "checkpoints" / "last") ? "yes" : "no";
  }) == "yes";
}

}  // namespace

std::string config_toml(const train::TrainConfig& c, train::Kept most) {
  std::string toml = fmt::format("preset = \"{}\"\n", c.preset);
  for (const auto& [key, value] : values_of(c, most)) toml += fmt::format("{} = {}\n", key, value);
  return toml;
}

void complete_options(TrainOptions& o, const TrainOptions& first, int argc, char** argv) {
  const std::string dataset = data::dataset_name(first.datasets.front());
  const bool adapters = first.config.lora_rank > 0 && first.flags->count("--preset") == 0;
  train::TrainConfig& c = o.config;
  c = train::preset(adapters ? "lora" : first.config.preset);
  if (first.init) {
    const core::StoredModel init = core::read_model(*first.init);
    core::require(!core::is_llama2c(init.format),
                  "--init {}: a llama2.c file contains no tokenizer; convert it with export --tokenizer FILE",
                  init.path);
    c.model = init.config;
    c.window = std::min(c.window, c.model.context_length);
  }
  find_ranks(o, first.config.mesh);
  // Compared first, since these flags decide what else the ranks exchange.
  o.session->require_same(
      "the command line",
      fmt::format("resume = {}\ninit = {}\nprofile = {}\ntrace = {}\ndump_grads = {}\n", first.resume,
                  first.init.has_value(), first.profile, !first.trace.empty(), !first.dump_grads.empty()));
  const bool restarted = resumes_automatically(first, *o.session, dataset);
  if (first.resume || restarted) {
    o.out = first.out;
    o.resume = true;
    choose_run(o, dataset);
    const train::TrainerState saved = train::read_trainer_state(o.choice->path / "checkpoints" / "last");
    if (!restarted && !first.dump_grads.empty() && saved.step > 0) {
      throw core::UsageError(
          fmt::format("--dump-grads writes the first step's gradients, but --resume continues after step {}; remove it",
                      saved.step));
    }
    c = saved.config;
    o.eval = saved.source.eval_path;
    if (!saved.base.empty()) o.init = saved.base;
    if (o.session->is_alone()) c.threads = static_cast<int>(saved.environment.threads);
  }
  const train::Precision dtype = c.dtype;
  o.flags = train_flags(o);
  static_cast<void>(o.flags->parse(argc, argv));
  if (o.resume && c.dtype == train::Precision::Auto) c.dtype = dtype;  // keep the type measured at the first start
  o.request = {.given = [flags = o.flags.get()](const char* flag) { return flags->count(flag) > 0; },
               .typed =
                   [argc, argv](const std::string& flag) {
                     return std::any_of(argv, argv + argc, [&](const std::string& argument) {
                       return argument == flag || argument.starts_with(flag + "=");
                     });
                   },
               .has_model = o.init || o.resume};
  if (restarted) {
    o.force = false;
    o.tokenizer.reset();  // a restarted run uses the checkpoint's tokenizer
  }
  c.mesh.data = o.session->world().mesh().size(train::parallel::Axis::Data);
  complete_shape(o);
  complete_latent(o);
  complete_experts(o);
  if (!o.init && !o.resume) complete_family(c.model);
  if (c.minutes > 0.0) c.warmup_steps = std::max(c.warmup_steps, train::kMeasuredSteps);
  train::validate(c, o.request);
  if (!o.choice && !o.profile) choose_run(o, dataset);
}

void end_rank(const std::string& why, int code) {
  core::print_stderr("train: {}\n", why.substr(0, why.find('\n')));
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace folio::apps
