#include "infer/forms/form_cache.h"

#include <fmt/format.h>

#include "infer/forms/calls.h"

namespace folio::infer::forms {
namespace {

// Returns a cache key that is equal only for equal options.
std::string key_of(const FormOptions& options) {
  std::string key = fmt::format("{} {} {} {}:{}", static_cast<int>(options.kind), static_cast<int>(options.spaces),
                                static_cast<int>(options.thinking), options.text.size(), options.text);
  const auto add = [&](const std::string& text) { key += fmt::format(",{}:{}", text.size(), text); };
  for (const std::string& choice : options.choices) add(choice);
  if (options.calls == nullptr) return key;
  const CallsForm& calls = *options.calls;
  key += fmt::format(";{} {} {} {} {}", calls.several, calls.has_answer, calls.format.several,
                     calls.format.only_at_start, calls.format.has_spaces);
  for (const std::string* text : {&calls.format.before, &calls.format.opening, &calls.format.trigger,
                                  &calls.format.separator, &calls.format.closing}) {
    add(*text);
  }
  for (const auto& piece : calls.format.call) add(fmt::format("{}{}", static_cast<int>(piece.kind), piece.text));
  for (const auto& function : calls.functions) {
    add(function.name);
    add(function.parameters);
  }
  return key + key_of(calls.answer);
}

}  // namespace

std::shared_ptr<Form> FormCache::form(const FormOptions& options, const core::WorkBudget& budget) {
  if (options.kind == FormOptions::Kind::None) return nullptr;
  std::string key = key_of(options);
  std::shared_ptr<const TokenTree> tokens;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = by_key_.find(key); known != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, known->second);
      return entries_.front().second;
    }
    if (tokens_ == nullptr) tokens_ = std::make_shared<const TokenTree>(tokenizer_);
    tokens = tokens_;
  }
  std::shared_ptr<Form> made = make_form(options, std::move(tokens), budget);  // without the lock, since it may be slow
  const std::lock_guard lock(mutex_);
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second->second;
  entries_.emplace_front(key, std::move(made));
  by_key_.emplace(std::move(key), entries_.begin());
  if (entries_.size() > capacity_) {
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
  return entries_.front().second;
}

}  // namespace folio::infer::forms
