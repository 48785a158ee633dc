#include "infer/server/answer_forms.h"

#include "core/error.h"

namespace folio::infer::server {
namespace {

std::vector<int32_t> silent_marks(const data::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const std::string_view mark : {data::kThinkBegin, data::kThinkEnd}) {
    const int32_t id = tokenizer.special_tokens().id_of(mark);
    if (id >= 0 && tokenizer.token_bytes(id).empty()) ids.push_back(id);
  }
  return ids;
}

// Removes <think>\n\n</think>\n\n, which Qwen 3's template writes before each answer without reasoning.
data::ToolFormat without_reasoning(data::ToolFormat format) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = format.before.find(data::kThinkBegin);
  const size_t end = format.before.find(data::kThinkEnd);
  if (begin == std::string::npos || end == std::string::npos || end < begin) return format;
  const size_t next = format.before.find_first_not_of(kSpaces, end + data::kThinkEnd.size());
  format.before.erase(begin, next == std::string::npos ? next : next - begin);
  return format;
}

}  // namespace

AnswerForms::AnswerForms(const data::Tokenizer& tokenizer, const std::optional<data::ChatTemplate>& chat)
    : tokenizer_(tokenizer),
      chat_(chat),
      thoughts_(silent_marks(tokenizer)),
      marked_(tokenizer, thoughts_),
      forms_(marked_) {}

std::shared_ptr<CallWriting> AnswerForms::calls(const core::WorkBudget& budget) {
  core::require(chat_.has_value(), "the model has no chat template");
  const std::lock_guard lock(mutex_);
  if (calls_ == nullptr) {
    data::ToolFormat format = without_reasoning(data::tool_format(tokenizer_, *chat_, budget));
    format.marks.insert(format.marks.end(), thoughts_.begin(), thoughts_.end());
    calls_ = std::make_shared<CallWriting>(tokenizer_, std::move(format));
  }
  return calls_;
}

}  // namespace folio::infer::server
