// Requests for the length of a scope: what has not ended when it is left, perhaps by an exception, is dropped.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "infer/engine/engine.h"

namespace folio::infer {

class ScopedRequests {
 public:
  explicit ScopedRequests(Engine& engine) : engine_(engine) {}
  ~ScopedRequests() {
    for (const RequestId id : ids_) engine_.drop(id);
  }
  ScopedRequests(const ScopedRequests&) = delete;
  ScopedRequests& operator=(const ScopedRequests&) = delete;

  RequestId add(Request request) {
    ids_.push_back(engine_.add(std::move(request)));
    return ids_.back();
  }
  [[nodiscard]] std::span<const RequestId> ids() const { return ids_; }

 private:
  Engine& engine_;
  std::vector<RequestId> ids_;
};

}  // namespace folio::infer
