#include "core/work_budget.h"

#include <utility>

namespace folio::core {

TooMuchWork::TooMuchWork(std::string place, uint64_t limit)
    : WorkStopped(fmt::format("{} needs more than {} steps of work; make it smaller",
                              place.empty() ? "it" : "'" + place + "'", limit)),
      place_(std::move(place)) {}

void WorkBudget::stop() const {
  if (state_->cancelled) throw WorkCancelled();
  throw TooMuchWork(printable(state_->place, 200), state_->limit);
}

}  // namespace folio::core
