// Runs requests to /v1/explain, which explain how the model computes the next tokens. The Python package uses it, too.
#pragma once

#include "infer/engine/async_engine.h"
#include "infer/explain/explain.h"
#include "infer/server/api.h"

namespace folio::infer::server {

/// Returns the explanation of a request's prompt, with served.adapter. Waits while the engine's thread computes it
/// between steps. Includes all activations if `keep_activations`. Throws ApiError if a field is invalid, the
/// explanation fails, or the engine was stopped.
[[nodiscard]] explain::Explanation explanation_of(const Json& body, const ServedModel& served, AsyncEngine& engine,
                                                  const core::WorkBudget& budget = core::WorkBudget(),
                                                  bool keep_activations = false);

}  // namespace folio::infer::server
