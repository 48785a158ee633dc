#include "infer/engine/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/formats/adapter_files.h"
#include "core/formats/model_files.h"
#include "data/tokenizers/tokenizer_files.h"

namespace folio::infer {
namespace {

void require_same_tokens(const core::StoredModel& draft, const core::StoredModel& target,
                         const data::Tokenizer& tokenizer) {
  if (core::is_llama2c(draft.format)) return;  // a llama2.c model file contains no tokens to compare
  const auto own = data::load_tokenizer(draft, "");
  for (int32_t id = 0; id < own->vocab_size(); ++id) {
    core::require(own->token_bytes(id) == tokenizer.token_bytes(id),
                  "token {} is \"{}\" in {}, but \"{}\" in {}; use a draft model with the same vocabulary", id,
                  core::printable(own->token_bytes(id)), draft.path, core::printable(tokenizer.token_bytes(id)),
                  target.path);
  }
}

double bytes_of(const core::StoredModel& model) {
  double sum = 0;
  for (const core::TensorView& tensor : model.tensors) sum += static_cast<double>(tensor.bytes.size());
  return sum;
}

// Returns the source of drafts that the options select. Throws if the options contradict each other or the model.
DraftSource draft_source(const LoadOptions& o, const core::StoredModel& model) {
  const bool has_module = model.config.n_tokens_ahead > 0;
  const bool ranks = o.machines.given.machine != nullptr;
  if (o.draft == DraftSource::Auto && has_module && !ranks) {
    if (o.draft_model.empty()) return DraftSource::Mtp;
    throw core::UsageError("--draft-model is unused, since the model has a module of its own; use --draft model");
  }
  if (o.draft.value_or(DraftSource::Auto) == DraftSource::Auto) {
    return o.draft_model.empty() ? DraftSource::NGrams : DraftSource::Model;
  }
  if (o.draft == DraftSource::Model && o.draft_model.empty()) {
    throw core::UsageError(
        "--draft is model, but there is no draft model; use --draft-model PATH or, in Python, draft_model");
  }
  if (o.draft != DraftSource::Model && !o.draft_model.empty()) {
    throw core::UsageError("--draft-model is unused with --draft ngram or mtp; use --draft model");
  }
  if (o.draft == DraftSource::Mtp && ranks) {
    throw core::UsageError("--draft mtp does not run in several processes; use --draft ngram or one process");
  }
  core::require(o.draft != DraftSource::Mtp || has_module,
                "{}: --draft is mtp, but the model has no module for multi-token prediction; use --draft ngram",
                model.path);
  return *o.draft;
}

}  // namespace

LoadedModel LoadedModel::open(const std::string& path, const LoadOptions& options) {
  LoadedModel model;
  model.options_ = options;
  model.file_ = std::make_unique<core::StoredModel>(core::read_model(path));
  const int64_t most = model.config().context_length;
  if (options.context > most) {
    throw core::UsageError(fmt::format("--context is {}, but the model supports at most {}", options.context, most));
  }
  if (options.context == 0) model.options_.context = most;
  model.options_.draft = draft_source(options, model.file());
  if (options.cache_positions == kForMany) {
    constexpr int64_t kUsually = 16'384;
    const int64_t one = model.options_.context;
    const int64_t each = one * static_cast<int64_t>(std::min<size_t>(options.limits.max_sequences, INT16_MAX));
    model.options_.cache_positions = std::min(each, std::max(4 * one, kUsually));
  }
  model.file_->generation = core::read_generation_config(model.file(), options.generation_config);
  static_cast<void>(model.sampler_defaults());  // throws if a setting in the model's generation config is out of range
  model.tokenizer_ = data::load_tokenizer(model.file(), options.tokenizer);
  std::vector<core::Adapter> adapters;
  for (const core::AdapterPath& adapter : options.adapters) {
    adapters.push_back(core::read_adapter(adapter.path, model.config(), adapter.scale));
  }
  if (!adapters.empty()) model.adapter_ = core::sum_of(adapters);
  MachineOptions machines = options.machines;
  machines.max_logit_rows =
      std::min(options.limits.max_rows, std::max(machines.max_logit_rows, options.limits.max_sequences));
  model.machines_ = make_machines(machines, model.config());
  return model;
}

// Destroys all of this model, the engine first, before taking over the members of `other`.
LoadedModel& LoadedModel::operator=(LoadedModel&& other) noexcept {
  if (this == &other) return *this;
  std::destroy_at(this);
  return *new (this) LoadedModel(std::move(other));
}

Engine& LoadedModel::engine() {
  if (engine_) return *engine_;
  CacheOptions cache{.max_positions = options_.context,
                     .n_sequences = options_.n_contexts,
                     .type = options_.cache_type.value_or(default_cache_type(*file_))};
  if (options_.cache_positions > 0) {
    cache.max_positions = options_.cache_positions;
    cache.n_sequences = 1;
  }
  if (options_.draft == DraftSource::Mtp) {
    CacheOptions draft = cache;
    draft.share = 1.0 / static_cast<double>(config().n_layers + 1);
    drafter_ = std::make_unique<MtpDrafter>(*file_, machines_.placements.back().machine, draft);
  }
  if (options_.draft == DraftSource::Model) {  // load the draft model before the main model fills the memory
    const core::StoredModel file = core::read_model(options_.draft_model);
    CacheOptions draft = cache;
    draft.type = options_.cache_type.value_or(default_cache_type(file));
    draft.share = bytes_of(file) / (bytes_of(file) + bytes_of(*file_));
    // One sequence needs at most the draft model's context. Several need a draft cache as large as the main cache.
    if (cache.max_positions <= config().context_length) {
      draft.max_positions = std::min(draft.max_positions, file.config.context_length);
    }
    drafter_ = std::make_unique<DraftModel>(file, *file_, machines_.placements.back().machine, draft);
    require_same_tokens(file, *file_, *tokenizer_);
  }
  auto engine = std::make_unique<Engine>(*file_, machines_.placements, cache, options_.limits);
  if (drafter_) engine->draft_with(*drafter_);
  if (adapter_) adapter_number_ = engine->load_adapter(*adapter_);
  engine_ = std::move(engine);
  return *engine_;
}

int32_t LoadedModel::adapter() {
  static_cast<void>(engine());
  return adapter_number_;
}

std::vector<LoadReport> LoadedModel::load_reports() {
  std::vector<LoadReport> reports = {engine().runner().load_report()};
  if (drafter_) reports.insert(reports.begin(), drafter_->runner().load_report());
  return reports;
}

GenerateResult LoadedModel::generate(std::string_view prompt, GenerateOptions options,
                                     const std::function<void(std::string_view)>& on_text) {
  if (options.context == 0) options.context = options_.context;
  if (options.adapter == kNoAdapter) options.adapter = adapter();
  const auto tokens = prompt.empty() ? tokenizer_->default_prompt() : tokenizer_->encode_prompt(prompt);
  return infer::generate(engine(), *tokenizer_, tokens, options, on_text);
}

}  // namespace folio::infer
