#include "infer/forms/form_cache.h"

#include <fmt/format.h>

namespace folio::infer::forms {
namespace {

// No two options that differ have the same.
std::string key_of(const FormOptions& options) {
  std::string key = fmt::format("{} {} {}:{}", static_cast<int>(options.kind), options.free_whitespace,
                                options.text.size(), options.text);
  for (const std::string& choice : options.choices) key += fmt::format("{}:{}", choice.size(), choice);
  return key;
}

}  // namespace

std::shared_ptr<Form> FormCache::form(const FormOptions& options) {
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
  std::shared_ptr<Form> made = make_form(options, std::move(tokens));  // meanwhile others may ask for theirs
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
