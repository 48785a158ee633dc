#include "infer/server/explain_request.h"

#include <algorithm>

#include "infer/server/request_fields.h"

namespace folio::infer::server {
namespace {

using Tokens = std::vector<int32_t>;

std::vector<std::string> places_of(const Fields& fields, const char* field) {
  constexpr size_t kMostPlaces = 256;
  const Json* places = fields.find(field);
  if (places == nullptr) return {};
  if (!places->is_array() || !std::ranges::all_of(*places, &Json::is_string)) {
    refuse_type(field, "a list of places, such as \"3.5\"");
  }
  if (places->size() > kMostPlaces) refuse(field, "has {} places, more than {}", places->size(), kMostPlaces);
  return *places;
}

}  // namespace

explain::Explanation explanation_of(const Json& body, const ServedModel& served, AsyncEngine& engine,
                                    const core::WorkBudget& budget, bool keep_activations) {
  const Fields fields(body, schema("ExplainRequest"));
  if (take_model(fields, served) != served.name) refuse("model", "is an adapter; only the model can be explained");
  const auto tokens_of = [&](const char* field, const Json& given) {
    Tokens tokens = prompt_of(field, given, fields, served, budget).tokens;
    if (tokens.size() <= explain::kMostTokens) return tokens;
    refuse(field, "has {} tokens, but at most {} can be explained", tokens.size(), explain::kMostTokens);
  };
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) refuse("prompt", "is required");
  const Tokens tokens = tokens_of("prompt", *prompt);
  explain::Options options{.adapter = served.adapter, .keep_activations = keep_activations};
  if (const Json* token = fields.find("token"); token != nullptr) {
    const Tokens all = made_for("token", "token", budget, [&] {
      return token->is_string() ? served.tokenizer.encode(token->get<std::string>())
                                : Tokens{token_id("token", *token, served)};
    });
    if (all.size() != 1) refuse("token", "has {} tokens, expected 1", all.size());
    options.token = all.front();
  }
  const auto text_of = [&](const char* field, const char* places) {
    const Json* given = fields.find(field);
    if (given == nullptr) return Tokens{};
    if (fields.find(places) == nullptr) refuse(field, "requires '{}'", places);
    return tokens_of(field, *given);
  };
  options.experiment = {.ablate = places_of(fields, "ablate"),
                        .mean = places_of(fields, "mean"),
                        .patch = places_of(fields, "patch"),
                        .mean_over = text_of("mean_over", "mean"),
                        .from = text_of("from", "patch")};

  explain::Explanation made;
  const explain::Experiment& experiment = options.experiment;
  const size_t longest = std::max({tokens.size(), experiment.mean_over.size(), experiment.from.size()});
  const bool ran = made_for("", "", budget, [&] {
    return engine.call_and_wait([&](Engine& e) {
      budget.spend(0);  // throws if the request was cancelled
      const int64_t needed = blocks_for(static_cast<int64_t>(longest));
      if (e.cache().free_blocks() < needed && needed <= e.cache().n_blocks())
        throw ApiError(429, "other requests use all blocks of the KV cache; retry");
      made = explain::explain(e.runner(), served.tokenizer, tokens, options);
    });
  });
  if (!ran) throw ApiError(503, "the engine was stopped");
  return made;
}

}  // namespace folio::infer::server
