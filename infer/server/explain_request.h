// Requests to /v1/explain, also from Python.
#pragma once

#include "infer/engine/async_engine.h"
#include "infer/explain/explain.h"
#include "infer/server/api.h"

namespace folio::infer::server {

/// Explains a request's prompt, with served.adapter, on the engine's thread between steps, and waits for it. Throws
/// ApiError if a field is invalid, the explanation fails, or the engine was stopped.
[[nodiscard]] explain::Explanation explanation_of(const Json& body, const ServedModel& served, AsyncEngine& engine,
                                                  const core::WorkBudget& budget = core::WorkBudget(),
                                                  bool keep_activations = false);

}  // namespace folio::infer::server
