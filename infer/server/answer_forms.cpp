#include "infer/server/answer_forms.h"

#include "core/error.h"

namespace folio::infer::server {

std::shared_ptr<CallWriting> AnswerForms::calls(const core::WorkBudget& budget) {
  core::require(chat_.has_value(), "the model has no chat template");
  const std::lock_guard lock(mutex_);
  if (calls_ == nullptr) {
    calls_ = std::make_shared<CallWriting>(tokenizer_, data::tool_format(tokenizer_, *chat_, budget));
  }
  return calls_;
}

}  // namespace folio::infer::server
