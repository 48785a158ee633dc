#include "apps/draft.h"

#include <algorithm>

#include "apps/program.h"
#include "core/error.h"
#include "core/formats/model_files.h"

namespace folio::apps {
namespace {

void require_same_tokens(const core::StoredModel& draft, const core::StoredModel& target,
                         const data::Tokenizer& tokenizer) {
  if (core::is_llama2c(draft.format)) return;  // has none in it
  const auto own = tokenizer_of(draft, "");
  for (int32_t id = 0; id < own->vocab_size(); ++id) {
    core::require(own->token_bytes(id) == tokenizer.token_bytes(id),
                  "token {} is \"{}\" in {}, and \"{}\" in {}: drafts need a model of the same vocabulary", id,
                  core::printable(own->token_bytes(id)), draft.path, core::printable(tokenizer.token_bytes(id)),
                  target.path);
  }
}

}  // namespace

void add_draft_flag(CLI::App& app, std::string& file) {
  app.add_option("--draft-model", file, "a smaller model of the same vocabulary, which guesses what --speculate tries")
      ->needs("--speculate");
}

std::unique_ptr<Draft> load_draft(const std::string& file, const core::StoredModel& target,
                                  const data::Tokenizer& tokenizer, const Machines& machines,
                                  infer::CacheOptions cache) {
  if (file.empty()) return nullptr;
  core::StoredModel model = core::read_model(file);
  // Of one sequence the draft holds at most its own context; a cache for several is as large as the target's.
  if (cache.max_positions <= target.config.context_length) {
    cache.max_positions = std::min(cache.max_positions, model.config.context_length);
  }
  auto draft = std::make_unique<Draft>(std::move(model), target, machines.placements().back().machine, cache);
  require_same_tokens(draft->model, target, tokenizer);
  report_repacking(draft->drafter.runner().load_report());
  return draft;
}

}  // namespace folio::apps
