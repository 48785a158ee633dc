#include "infer/server/explain_request.h"

#include "infer/server/request_fields.h"

namespace folio::infer::server {
namespace {

using Tokens = std::vector<int32_t>;

// Appends an intervention for each place in the list `field`.
void add_places(const Fields& fields, const char* field, explain::Replacement by, const Tokens& source,
                std::vector<explain::Intervention>& all) {
  constexpr size_t kMostPlaces = 256;
  const Json* places = fields.find(field);
  if (places == nullptr) return;
  if (!places->is_array()) refuse_type(field, "a list of places, such as \"3.5\"");
  if (places->size() > kMostPlaces) refuse(field, "has {} places, more than {}", places->size(), kMostPlaces);
  for (const Json& place : *places) {
    if (!place.is_string()) refuse_type(field, "a list of places, such as \"3.5\"");
    all.push_back({.place = place.get<std::string>(), .by = by, .source = source});
  }
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
  const std::string* by = fields.text("by");
  if (by != nullptr && *by != "zero" && *by != "mean") refuse("by", "must be \"zero\" or \"mean\"");
  const bool mean = by != nullptr && *by == "mean";
  const Json* from = fields.find("from");
  if (from != nullptr && !mean && fields.find("patch") == nullptr)
    refuse("from", "requires 'patch' or \"by\": \"mean\"");
  const Tokens source = from == nullptr ? Tokens{} : tokens_of("from", *from);
  add_places(fields, "ablate", mean ? explain::Replacement::Mean : explain::Replacement::Zero, mean ? source : Tokens{},
             options.interventions);
  add_places(fields, "patch", explain::Replacement::Patch, source, options.interventions);

  explain::Explanation made;
  const bool ran = made_for("", "", budget, [&] {
    return engine.call_and_wait([&](Engine& e) {
      budget.spend(0);  // throws if the request was cancelled
      const int64_t needed = blocks_for(std::ssize(tokens));
      if (e.cache().free_blocks() < needed && needed <= e.cache().n_blocks())
        throw ApiError(429, "other requests use all blocks of the KV cache; retry");
      made = explain::explain(e.runner(), served.tokenizer, tokens, options);
    });
  });
  if (!ran) throw ApiError(503, "the engine was stopped");
  return made;
}

}  // namespace folio::infer::server
