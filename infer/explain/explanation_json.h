// An explanation as JSON, as a page and as a file of activations.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/explain/explain.h"

namespace folio::infer::explain {

/// Returns the JSON object that the page shows (docs/explain.md lists its keys). `server` is the base of the URL of
/// POST /v1/explain, if the page may run experiments; empty: it may not.
[[nodiscard]] nlohmann::ordered_json to_json(const Explanation& explanation, const core::StoredModel& model,
                                             const data::Tokenizer& tokenizer, std::string_view server = {});

/// Returns a page for browsers that contains `json` and needs no network.
[[nodiscard]] std::string to_html(const nlohmann::ordered_json& json);

/// Writes Explanation::activations as F32. Throws core::Error if the file cannot be written.
void save(const Explanation& explanation, const std::filesystem::path& file);

}  // namespace folio::infer::explain
